// Temporary names are NAME.0123456789abcdef.tmp, with 64 random bits.
//
// A sweep opens a temporary file, locks it and removes it. So a process that makes a file
// locks it, and then checks that the file still has its name. If a sweep has removed the
// file before it was locked, the process makes another one.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/new_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/below.h"
#include "os/disk.h"
#include "os/file.h"

enum { RANDOM_DIGITS = 16, MAX_LINKS = 40, MAX_TRIES = 100 };
#define SUFFIX ".tmp"
enum { BESIDE_MORE = 1 + RANDOM_DIGITS + (sizeof(SUFFIX) - 1) };

size_t new_file_target(const char *beside)
{
    size_t n = strlen(beside);
    if (n <= BESIDE_MORE || n > NAME_MAX)
        return 0;
    const char *more = beside + n - BESIDE_MORE;
    bool ours = *more == '.' && strspn(more + 1, "0123456789abcdef") == RANDOM_DIGITS &&
                strcmp(more + 1 + RANDOM_DIGITS, SUFFIX) == 0;
    return ours ? n - BESIDE_MORE : 0;
}

// Returns with how many bytes of the file's name the names of its temporary files begin.
static size_t kept_bytes(const char *name)
{
    size_t n = strlen(name);
    return n + BESIDE_MORE <= NAME_MAX ? n : NAME_MAX - BESIDE_MORE;
}

// ----------------------------------------- removal of temporary files of ended processes

static void sweep_one(int dir, const char *name)
{
    struct stat st, now;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return;
    bool left = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
                flock(fd, LOCK_EX | LOCK_NB) == 0 &&
                fstatat(dir, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
                now.st_ino == st.st_ino && now.st_dev == st.st_dev;
    if (left)
        (void)disk_remove_at(dir, name);
    close(fd);
}

// Removes temporary files that ended processes have left. If a file cannot be removed
// now, the next sweep tries again.
void new_file_sweep(int dir, const char *name)
{
    int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = again >= 0 ? fdopendir(again) : NULL;
    if (d == NULL) {
        if (again >= 0)
            close(again);
        return;
    }
    for (struct dirent *x = readdir(d); x != NULL; x = readdir(d)) {
        size_t n = new_file_target(x->d_name);
        if (n > 0 && n == kept_bytes(name) && memcmp(x->d_name, name, n) == 0)
            sweep_one(dir, x->d_name);
    }
    closedir(d);
}

// ----------------------------------------------------- finding the directory of the file

static int split(char path[FILE_PATH_MAX], char **ret_parent, char **ret_name)
{
    char *slash = strrchr(path, '/');
    *ret_name = slash != NULL ? slash + 1 : path;
    if (slash == NULL)
        *ret_parent = (char *)(uintptr_t) ".";
    else
        *ret_parent = slash == path ? (char *)(uintptr_t) "/" : path;
    if (slash != NULL && slash != path)
        *slash = '\0';
    if (**ret_name == '\0' || strlen(*ret_name) > NAME_MAX) {
        errno = **ret_name == '\0' ? EISDIR : ENAMETOOLONG;
        return -1;
    }
    return 0;
}

// Returns whether the link with status *st may be followed (see new_file.h).
static bool may_follow(int dir, const struct stat *st)
{
    struct stat in;
    if (fstat(dir, &in) != 0)
        return false;
    bool shared = (in.st_mode & S_ISVTX) != 0 && (in.st_mode & S_IWOTH) != 0;
    errno = EACCES;
    return !shared || st->st_uid == geteuid() || st->st_uid == in.st_uid;
}

// Reads the target of a link, as a path relative to the link's directory.
static int read_link(int dir, const char *parent, const char *name,
                     char ret[FILE_PATH_MAX])
{
    char to[FILE_PATH_MAX];
    ssize_t n = readlinkat(dir, name, to, sizeof(to) - 1);
    if (n < 0)
        return -1;
    to[n] = '\0';
    if (file_join(ret, *to == '/' ? "" : parent, to, NULL) == 0)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

// Opens the directory that finally contains the file, after following links, and sets the
// file's name.
static int find_place(struct new_file *f, const char *path)
{
    char at[FILE_PATH_MAX], *parent, *name;
    if (strlen(path) >= sizeof(at)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(at, path, strlen(path) + 1);
    for (int links = 0; links < MAX_LINKS; links++) {
        char to[FILE_PATH_MAX];
        struct stat st;
        if (split(at, &parent, &name) != 0)
            return -1;
        f->dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (f->dir < 0)
            return -1;
        if (fstatat(f->dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISLNK(st.st_mode)) {
            memcpy(f->name, name, strlen(name) + 1);
            return 0;
        }
        if (!may_follow(f->dir, &st) || read_link(f->dir, parent, name, to) != 0)
            return -1;
        close(f->dir);
        f->dir = -1;
        memcpy(at, to, strlen(to) + 1);
    }
    errno = ELOOP;
    return -1;
}

// Opens the directory of the path without following a link at its end.
static int find_own_place(struct new_file *f, const char *path)
{
    char at[FILE_PATH_MAX], *parent, *name;
    if (strlen(path) >= sizeof(at)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(at, path, strlen(path) + 1);
    if (split(at, &parent, &name) != 0)
        return -1;
    f->dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->dir < 0)
        return -1;
    memcpy(f->name, name, strlen(name) + 1);
    return 0;
}

static int find_place_below(struct new_file *f, int root, const char *path)
{
    const char *name;
    f->dir = below_open_parent(root, path, &name);
    if (f->dir < 0)
        return -1;
    memcpy(f->name, name, strlen(name) + 1);
    return 0;
}

static int new_file_find(struct new_file *f, int root, const char *path)
{
    if (root == FILE_OWN)
        return find_own_place(f, path);
    return root == FILE_ANYWHERE ? find_place(f, path) : find_place_below(f, root, path);
}

// ---------------------------------------------------------------- making the file

static int random_name(struct new_file *f)
{
    uint64_t bits;
    if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
        return -1;
    snprintf(f->beside, sizeof(f->beside), "%.*s.%016" PRIx64 SUFFIX,
             (int)kept_bytes(f->name), f->name, bits);
    return 0;
}

// Locks the new file, if the file system has locks. Returns false if a sweep of another
// process has locked or removed it.
static bool is_locked(int fd)
{
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return false;
    return fstat(fd, &st) != 0 || st.st_nlink > 0;
}

static int make_beside(struct new_file *f, mode_t mode)
{
    for (int i = 0; i < MAX_TRIES; i++) {
        if (random_name(f) != 0)
            return -1;
        f->fd = disk_create_at(f->dir, f->beside, mode);
        if (f->fd < 0 && errno != EEXIST)
            return -1;
        if (f->fd >= 0 && is_locked(f->fd))
            return 0;
        if (f->fd >= 0)
            close(f->fd);
        f->fd = -1;
        errno = EEXIST;
    }
    return -1;
}

// Opens a file for direct writing, because a rename cannot replace it. If it is a pipe,
// waits for a reader, as a shell's redirection does.
static int open_straight(struct new_file *f, int at, const char *path)
{
    struct stat st;
    f->fd = openat(at, path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (f->fd < 0)
        return -1;
    f->straight = true;
    // A regular file is emptied. The path may have become one since it was checked, or
    // lead to an open file that has lost its name (/dev/stdout).
    if (fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(f->fd, 0) != 0)
        return -1;
    return 0;
}

// Chooses by the existing file, if any, between a temporary file and writing directly.
static int open_place(struct new_file *f, int root, const char *path, mode_t mode)
{
    struct stat there, named;
    bool any = root == FILE_ANYWHERE; // whether the path may name a file of any kind
    if (any && stat(path, &named) == 0 && !S_ISREG(named.st_mode) &&
        !S_ISDIR(named.st_mode))
        return open_straight(f, AT_FDCWD, path);
    bool exists = any && stat(path, &named) == 0;
    if (new_file_find(f, root, path) != 0)
        return -1;
    bool found = fstatat(f->dir, f->name, &there, AT_SYMLINK_NOFOLLOW) == 0;
    if (found && S_ISDIR(there.st_mode)) {
        errno = EISDIR;
        return -1;
    }
    bool replaced = any || S_ISREG(there.st_mode) ||
                    (root == FILE_OWN && S_ISLNK(there.st_mode));
    if (found && !replaced) {
        errno = EEXIST;
        return -1;
    }
    // The path is a link in /proc to an open file that has lost its name.
    if (exists &&
        (!found || there.st_ino != named.st_ino || there.st_dev != named.st_dev))
        return open_straight(f, AT_FDCWD, path);
    new_file_sweep(f->dir, f->name);
    return make_beside(f, found ? mode & there.st_mode : mode);
}

int new_file_open(struct new_file *f, int root, const char *path, mode_t mode,
                  struct err *e)
{
    *f = (struct new_file){.dir = -1, .fd = -1};
    if (open_place(f, root, path, mode) == 0)
        return 0;
    int error = errno;
    char name[FILE_PATH_MAX];
    new_file_drop(f);
    errno = error;
    below_name(root, path, name);
    if (root >= 0 && (error == EXDEV || error == ELOOP))
        return below_error(e, "cannot create", name);
    return err_sys(e, TUG_EIO, "cannot create '%s'", name);
}

static void close_both(struct new_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->dir >= 0)
        close(f->dir);
    f->fd = f->dir = -1;
}

// Syncs the file and gives it its name. The file stays locked until it has its name.
int new_file_finish(struct new_file *f)
{
    if (!f->straight &&
        (disk_sync(f->fd) != 0 || disk_rename_at(f->dir, f->beside, f->name) != 0))
        return -1;
    int fd = f->fd;
    f->fd = -1;
    return close(fd);
}

int new_file_sync_dir(struct new_file *f, const char *path, struct err *e)
{
    int rc = 0;
    // Some network file systems cannot sync a directory. This is no error, because
    // nothing else makes a rename durable there.
    if (!f->straight && disk_sync(f->dir) != 0 && errno != EINVAL && errno != ENOTSUP)
        rc = err_sys(e, TUG_EIO, "cannot sync the directory of '%s'", path);
    close_both(f);
    return rc;
}

void new_file_drop(struct new_file *f)
{
    if (f->fd >= 0 && !f->straight)
        (void)disk_remove_at(f->dir, f->beside);
    close_both(f);
}
