// Where the files of running clusters lie, and who may have put them there: see
// runtime_dir.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/runtime_dir.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ONLY_MINE = 0700, RIGHTS = 07777, OF_OTHERS = 022 };

// Nobody else may rename or remove what lies in it, and put something of theirs there.
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
                       "clusters begins with / and has fewer than %d bytes",
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
                       "cannot use %s: its mode is %04o, and what lies there is only "
                       "believed when nobody else can reach it; chmod 0700 %s",
                       path, (unsigned)(s.st_mode & RIGHTS), path);
    return check_parent(path, e);
}

// The path of place i; false: there is no such place for this process.
static bool place(int i, char ret[FILE_PATH_MAX])
{
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    if (i != 0)
        return snprintf(ret, FILE_PATH_MAX, "/tmp/tug-%u", (unsigned)geteuid()) > 0;
    return xdg != NULL && xdg[0] == '/' && file_join(ret, xdg, "tug", NULL) == 0;
}

bool runtime_dir_look(int i, char ret[FILE_PATH_MAX])
{
    return place(i, ret) && runtime_dir_check(ret, NULL) == 0;
}

static int make(const char *path, struct err *e)
{
    // mkdir obeys the umask, which can only take rights of ours away.
    if (mkdir(path, ONLY_MINE) != 0 && errno != EEXIST)
        return err_sys(e, TUG_EIO, "cannot make %s for the addresses of running clusters",
                       path);
    return runtime_dir_check(path, e);
}

int runtime_dir_make(char ret[FILE_PATH_MAX], struct err *e)
{
    struct stat s;
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    // A session's directory is gone after the session, and root may have kept the
    // variable of the user it was before. What is there and ours is used, or is an error.
    if (place(0, ret) && stat(xdg, &s) == 0 && s.st_uid == geteuid())
        return make(ret, e);
    (void)place(1, ret);
    return make(ret, e);
}
