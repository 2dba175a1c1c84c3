// The directory for files of running clusters, and checks of its owner; see
// runtime_dir.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/runtime_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "os/disk.h"
enum { MAKING_SECONDS = 10, LOCK_TRIES = 100, LOCK_PAUSE_MS = 10 };
enum { ONLY_MINE = 0700, RIGHTS = 07777, OF_OTHERS = 022 };

// Checks that no other user may rename or remove the directory and create another one in
// its place.
static int check_parent(const char *path, struct err *e)
{
    char parent[FILE_PATH_MAX];
    struct stat s;
    snprintf(parent, sizeof(parent), "%s", path);
    char *end = strrchr(parent, '/');
    end[end == parent] = '\0'; // "/x" lies in "/"
    if (stat(parent, &s) != 0)
        return err_sys(e, TUG_EIO, "cannot use %s", path);
    if (s.st_uid != geteuid() && s.st_uid != 0)
        return err_set(e, TUG_EIO,
                       "cannot use %s: %s belongs to another user (uid %u), who could "
                       "replace it; set XDG_RUNTIME_DIR to a directory of your own",
                       path, parent, (unsigned)s.st_uid);
    if ((s.st_mode & OF_OTHERS) != 0 && (s.st_mode & S_ISVTX) == 0)
        return err_set(e, TUG_EIO,
                       "cannot use %s: others may write in %s (mode %04o), and could "
                       "replace it; set XDG_RUNTIME_DIR to a directory of your own",
                       path, parent, (unsigned)(s.st_mode & RIGHTS));
    return 0;
}

int runtime_dir_check(const char *path, struct err *e)
{
    struct stat s;
    if (path[0] != '/' || strlen(path) >= FILE_PATH_MAX)
        return err_set(e, TUG_EIO,
                       "cannot use %.200s: the path of the directory for running "
                       "clusters must begin with / and have fewer than %d bytes",
                       path, (int)FILE_PATH_MAX);
    if (lstat(path, &s) != 0)
        return err_sys(e, TUG_EIO, "cannot use %s", path);
    if (!S_ISDIR(s.st_mode))
        return err_set(e, TUG_EIO,
                       "cannot use %s: it is %s, not a directory; remove it, or set "
                       "XDG_RUNTIME_DIR to a directory of your own",
                       path, S_ISLNK(s.st_mode) ? "a link" : "a file");
    if (s.st_uid != geteuid())
        return err_set(e, TUG_EIO,
                       "cannot use %s: it belongs to another user (uid %u, you are %u); "
                       "set XDG_RUNTIME_DIR to a directory of your own",
                       path, (unsigned)s.st_uid, (unsigned)geteuid());
    if ((s.st_mode & RIGHTS & ~(mode_t)S_ISGID) != ONLY_MINE)
        return err_set(e, TUG_EIO,
                       "cannot use %s: its mode is %04o, but tug uses it only if no "
                       "other user can reach it; run chmod 0700 %s",
                       path, (unsigned)(s.st_mode & RIGHTS), path);
    return check_parent(path, e);
}

// Gets the path of place i; returns false if this process has no such place.
static bool runtime_dir_place(int i, char ret[FILE_PATH_MAX])
{
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    if (i != 0)
        return snprintf(ret, FILE_PATH_MAX, "/tmp/tug-%u", (unsigned)geteuid()) > 0;
    return xdg != NULL && xdg[0] == '/' && file_join(ret, xdg, "tug", NULL) == 0;
}

bool runtime_dir_look(int i, char ret[FILE_PATH_MAX])
{
    return runtime_dir_place(i, ret) && runtime_dir_check(ret, NULL) == 0;
}

static int runtime_dir_make_one(const char *path, struct err *e)
{
    // The mode is 0700, so the umask can only remove rights of this user.
    if (disk_make_own_dir(path) != 0 && errno != EEXIST)
        return err_sys(e, TUG_EIO, "cannot make %s for the addresses of running clusters",
                       path);
    return runtime_dir_check(path, e);
}

int runtime_dir_make(char ret[FILE_PATH_MAX], struct err *e)
{
    struct stat s;
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    // Use XDG_RUNTIME_DIR only if it exists and is ours: the directory of a session is
    // removed with the session, and root may have inherited the variable from the
    // previous user. If the tug directory in it exists, it must be ours.
    if (runtime_dir_place(0, ret) && stat(xdg, &s) == 0 && s.st_uid == geteuid())
        return runtime_dir_make_one(ret, e);
    (void)runtime_dir_place(1, ret);
    return runtime_dir_make_one(ret, e);
}

bool runtime_socket_is_dead(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct stat s;
    if (strlen(path) >= sizeof(a.sun_path) || lstat(path, &s) != 0 ||
        !S_ISSOCK(s.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    memcpy(a.sun_path, path, strlen(path));
    bool dead = connect(fd, (const struct sockaddr *)&a, sizeof(a)) != 0 &&
                errno == ECONNREFUSED;
    close(fd);
    return dead;
}

static bool has_ends(const char *name, const char *begins, const char *ends)
{
    size_t n = strlen(name), b = strlen(begins), t = strlen(ends);
    return n >= b + t && strncmp(name, begins, b) == 0 && strcmp(name + n - t, ends) == 0;
}

void runtime_dir_list_in(const char *dir, const char *begins, const char *ends,
                         void (*each)(void *ctx, const char *path), void *ctx)
{
    char path[FILE_PATH_MAX];
    DIR *d = opendir(dir);
    for (const struct dirent *i = d != NULL ? readdir(d) : NULL; i != NULL;
         i = readdir(d))
        if (has_ends(i->d_name, begins, ends) &&
            file_join(path, dir, i->d_name, NULL) == 0)
            each(ctx, path);
    if (d != NULL)
        closedir(d);
}

void runtime_dir_list(const char *begins, const char *ends,
                      void (*each)(void *ctx, const char *path), void *ctx)
{
    char dir[FILE_PATH_MAX];
    for (int i = 0; i < RUNTIME_DIR_PLACES; i++)
        if (runtime_dir_look(i, dir))
            runtime_dir_list_in(dir, begins, ends, each, ctx);
}

int runtime_dir_lock(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    for (int tries = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0; tries++) {
        if (errno != EWOULDBLOCK || tries == LOCK_TRIES) {
            close(fd);
            return -1;
        }
        // flock cannot wait with a deadline, so it is tried again after a pause
        poll(NULL, 0, LOCK_PAUSE_MS);
    }
    return fd;
}

// Removes a dead socket unless it was just made: a socket looks dead between bind and
// listen.
static void sweep_one(void *ctx, const char *path)
{
    struct stat s;
    (void)ctx;
    if (stat(path, &s) == 0 && time(NULL) - s.st_mtime > MAKING_SECONDS &&
        runtime_socket_is_dead(path))
        (void)disk_remove(path);
}

void runtime_dir_sweep(const char *dir)
{
    runtime_dir_list_in(dir, "", ".sock", sweep_one, NULL);
}
