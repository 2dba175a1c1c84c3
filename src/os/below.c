// Opens paths below a directory; see below.h. Linux 5.6 has openat2, which checks the
// whole path. Without openat2, or if a sandbox forbids it, the path is opened part by
// part. Both refuse every link, even one that stays below the root: no program of
// ours makes links there.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/below.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/disk.h"

static atomic_bool no_openat2;

void below_without_openat2(bool without)
{
    atomic_store(&no_openat2, without);
}

// Moves *path to its next part and returns the length of the part; 0 at the end of the
// path.
static size_t next_part(const char **path)
{
    *path += strspn(*path, "/");
    return strcspn(*path, "/");
}

static bool has_dots(const char *path)
{
    for (size_t n; (n = next_part(&path)) > 0; path += n)
        if (n == 2 && memcmp(path, "..", 2) == 0)
            return true;
    return false;
}

static bool leads_out(const char *path)
{
    return *path == '/' || has_dots(path);
}

static int copy_part(char ret[NAME_MAX + 1], const char *part, size_t n)
{
    if (n > NAME_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(ret, part, n);
    ret[n] = '\0';
    return 0;
}

static int replace(int *dir, int root, int next)
{
    int error = errno;
    if (*dir != root)
        close(*dir);
    errno = error;
    *dir = next;
    return next;
}

static int walk(int root, const char *path, int flags)
{
    int dir = root;
    size_t n = next_part(&path);
    if (n == 0)
        return openat(root, ".", flags | O_NOFOLLOW | O_CLOEXEC);
    while (n > 0 && dir >= 0) {
        char part[NAME_MAX + 1];
        const char *rest = path + n;
        bool last = next_part(&rest) == 0 && path[n] == '\0';
        int how = last ? flags : O_RDONLY | O_DIRECTORY;
        int next = copy_part(part, path, n) == 0
                       ? openat(dir, part, how | O_NOFOLLOW | O_CLOEXEC)
                       : -1;
        // A link in place of a directory: set the errno that openat2 sets.
        struct stat st;
        if (next < 0 && errno == ENOTDIR &&
            fstatat(dir, part, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
            errno = ELOOP;
        replace(&dir, root, next);
        path += n;
        n = next_part(&path);
    }
    return dir;
}

int below_open(int root, const char *path, int flags)
{
    if (leads_out(path)) {
        errno = EXDEV;
        return -1;
    }
    if (!atomic_load(&no_openat2)) {
        struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                               .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
        const char *named = *path != '\0' ? path : ".";
        long fd = syscall(SYS_openat2, root, named, &how, sizeof(how));
        if (fd >= 0 || (errno != ENOSYS && errno != EPERM && errno != EAGAIN))
            return (int)fd;
    }
    return walk(root, path, flags);
}

int below_open_parent(int root, const char *path, const char **ret_name)
{
    char parent[FILE_PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash != NULL ? (size_t)(slash - path) : 0;
    *ret_name = slash != NULL ? slash + 1 : path;
    if (leads_out(path)) {
        errno = EXDEV;
        return -1;
    }
    if (**ret_name == '\0' || strcmp(*ret_name, ".") == 0) {
        errno = EISDIR;
        return -1;
    }
    if (n >= sizeof(parent) || strlen(*ret_name) > NAME_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(parent, path, n);
    parent[n] = '\0';
    return below_open(root, parent, O_RDONLY | O_DIRECTORY);
}

int below_make_dir(int root, const char *path)
{
    if (leads_out(path)) {
        errno = EXDEV;
        return -1;
    }
    int dir = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t n; dir >= 0 && (n = next_part(&path)) > 0; path += n) {
        char part[NAME_MAX + 1];
        int next = -1;
        if (copy_part(part, path, n) == 0 &&
            (disk_make_dir_at(dir, part) == 0 || errno == EEXIST))
            next = below_open(dir, part, O_RDONLY | O_DIRECTORY);
        replace(&dir, -1, next);
    }
    return dir;
}

int below_error(struct err *e, const char *what, const char *path)
{
    int error = errno;
    if (error == EXDEV)
        return err_set(e, TUG_EUSAGE, "%s '%s': the path leads out of its root", what,
                       path);
    if (error == ELOOP)
        return err_set(e, TUG_EUSAGE, "%s '%s': the path contains a link", what, path);
    return err_sys(e, error == ENOENT || error == ENOTDIR ? TUG_EDATA : TUG_EIO,
                   "%s '%s'", what, path);
}

void below_name(int root, const char *path, char ret[FILE_PATH_MAX])
{
    char link[40];
    int error = errno;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", root);
    ssize_t n = root >= 0 ? readlink(link, ret, FILE_PATH_MAX - 1) : -1;
    size_t front = n > 0 && ret[n - 1] == '/' ? (size_t)n - 1 : n > 0 ? (size_t)n : 0;
    if (n <= 0 || front + 1 + strlen(path) >= FILE_PATH_MAX)
        snprintf(ret, FILE_PATH_MAX, "%s", path);
    else
        snprintf(ret + front, FILE_PATH_MAX - front, "/%s", path);
    errno = error;
}

const char *below_rest(const char *root, const char *path)
{
    size_t n = strlen(root);
    while (n > 0 && root[n - 1] == '/')
        n--;
    if (strncmp(root, path, n) != 0 || (path[n] != '/' && path[n] != '\0'))
        return NULL;
    return path + n + strspn(path + n, "/");
}

int below_absolute(const char *path, char ret[FILE_PATH_MAX], struct err *e)
{
    char there[FILE_PATH_MAX], real[PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof(there))
        return err_set(e, TUG_EUSAGE, "'%.64s' is not a path that can be used here",
                       path);
    memcpy(there, path, n + 1);
    // Walk from the end of the path up to a directory that exists.
    while (realpath(n > 0 ? there : (*path == '/' ? "/" : "."), real) == NULL) {
        if (errno != ENOENT || n == 0)
            return err_sys(e, TUG_EIO, "cannot find '%s'", path);
        while (n > 0 && there[n - 1] == '/')
            n--;
        while (n > 0 && there[n - 1] != '/')
            n--;
        there[n] = '\0';
    }
    const char *rest = path + n;
    if (has_dots(rest))
        return err_set(e, TUG_EUSAGE, "'%s': a directory of this path does not exist",
                       path);
    rest += strspn(rest, "/");
    if (*rest != '\0')
        return file_join(ret, real, rest, e);
    memcpy(ret, real, strlen(real) + 1);
    return 0;
}
