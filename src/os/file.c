// Files that are complete or absent. For this, a file is written under a temporary name,
// synced and renamed, and its directory is synced (os/new_file.h). A crash between any
// two of these steps leaves the old file or the new one.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "os/below.h"
#include "os/disk.h"
#include "os/log.h"
#include "os/new_file.h"

// Large writes bypass the buffer. After every START_BYTES bytes, the system is asked to
// start writing these bytes to the disk while the program computes; otherwise fsync would
// write everything while the process waits.
enum { WRITE_BYTES = 256 << 10, START_BYTES = 8 << 20 };

struct file_writer {
    char *path;
    struct new_file file;
    char *pending;
    size_t n_pending;
    uint64_t written;
    uint64_t on_file; // number of bytes that were written to the system
    // The number of these bytes for which sync_file_range was called.
    uint64_t started;
    int failed; // errno of the first failed write; later writes fail, too
};

static int too_large(const char *path, const struct buf *b, struct err *e)
{
    return err_set(e, TUG_EDATA, "'%s' is too large: more than %zu bytes", path, b->max);
}

// Reads to the end. The size that the system reports is only a hint: files grow, and
// files of /proc report 0. So each read asks for one byte more than expected, and a read
// of 0 bytes marks the end.
static int read_all(int fd, const char *path, size_t expect, struct buf *b, struct err *e)
{
    size_t start = b->len;
    for (;;) {
        char beyond; // receives a byte above the maximum, if the file has one
        size_t have = b->len - start;
        size_t room = b->max - b->len;
        size_t ask = have <= expect ? expect - have + 1 : 4096;
        ask = ask < room ? ask : room;
        if (buf_reserve(b, ask) != 0)
            return err_nomem(e, path);
        ssize_t n = room > 0 ? read(fd, b->data + b->len, ask) : read(fd, &beyond, 1);
        if (n == 0)
            return 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, TUG_EIO, "cannot read '%s'", path);
        if (room == 0)
            return too_large(path, b, e);
        b->len += (size_t)n;
    }
}

int file_open(int root, const char *path, int *ret_fd, struct err *e)
{
    // Without O_NONBLOCK, opening a pipe without a writer would block for ever.
    enum { HOW = O_RDONLY | O_CLOEXEC | O_NONBLOCK };
    *ret_fd = root == FILE_ANYWHERE ? open(path, HOW) : below_open(root, path, HOW);
    if (*ret_fd >= 0)
        return 0;
    if (root != FILE_ANYWHERE)
        return below_error(e, "cannot open", path);
    return err_sys(e, errno == ENOENT || errno == ENOTDIR ? TUG_EDATA : TUG_EIO,
                   "cannot open '%s'", path);
}

int file_read(const char *path, struct buf *b, struct err *e)
{
    return file_read_in(FILE_ANYWHERE, path, b, e);
}

int file_read_text(const char *path, struct buf *b, struct err *e)
{
    static const char mark[] = "\xef\xbb\xbf";
    size_t at = b->len, bytes = sizeof(mark) - 1;
    TRY(file_read(path, b, e));
    if (b->len - at >= bytes && memcmp(b->data + at, mark, bytes) == 0) {
        b->len -= bytes;
        memmove(b->data + at, b->data + at + bytes, b->len - at);
    }
    return 0;
}

int file_read_secret(const char *path, struct buf *b, struct err *e)
{
    struct stat st;
    TRY(file_read(path, b, e));
    if (stat(path, &st) == 0 && (st.st_mode & (S_IRGRP | S_IROTH)) != 0)
        log_warn("'%s' is a key that other accounts can read: run chmod 600 on it", path);
    return 0;
}

int file_read_in(int root, const char *path, struct buf *b, struct err *e)
{
    int fd;
    TRY(file_open(root, path, &fd, e));
    struct stat st;
    int rc;
    if (fstat(fd, &st) != 0)
        rc = err_sys(e, TUG_EIO, "cannot read '%s'", path);
    else if (!S_ISREG(st.st_mode))
        rc = err_set(e, TUG_EDATA, "'%s' is %s, not a file", path,
                     S_ISDIR(st.st_mode) ? "a directory" : "a device or pipe");
    else if (b->len > b->max || (uint64_t)st.st_size > b->max - b->len)
        rc = too_large(path, b, e);
    else
        rc = read_all(fd, path, (size_t)st.st_size, b, e);
    close(fd);
    return rc;
}

static void writer_free(struct file_writer *w)
{
    if (w == NULL)
        return;
    new_file_drop(&w->file);
    mem_free(w->pending);
    mem_free(w->path);
    mem_free(w);
}

static int write_error(struct file_writer *w, int error, struct err *e)
{
    w->failed = error;
    errno = error;
    return err_sys(e, TUG_EIO, "cannot write '%s'", w->path);
}

int file_create_in(struct file_writer **ret, int root, const char *path, struct err *e)
{
    struct file_writer *w = mem_aligned(_Alignof(struct file_writer), sizeof(*w));
    if (w == NULL)
        return err_nomem(e, path);
    memset(w, 0, sizeof(*w));
    w->file = (struct new_file){.dir = -1, .fd = -1};
    char name[FILE_PATH_MAX];
    below_name(root, path, name);
    w->path = mem_strdup(name);
    w->pending = mem_alloc(WRITE_BYTES);
    int rc = w->path == NULL || w->pending == NULL
                 ? err_nomem(e, path)
                 : new_file_open(&w->file, root, path, NEW_FILE_SHARED, e);
    if (rc != 0) {
        writer_free(w);
        return rc;
    }
    *ret = w;
    return 0;
}

int file_create(struct file_writer **ret, const char *path, struct err *e)
{
    return file_create_in(ret, FILE_ANYWHERE, path, e);
}

// Removes the first n bytes, which were written, from `parts`.
static void pass_over(struct iovec parts[2], size_t n)
{
    for (int i = 0; i < 2; i++) {
        size_t here = n < parts[i].iov_len ? n : parts[i].iov_len;
        parts[i].iov_base = (char *)parts[i].iov_base + here;
        parts[i].iov_len -= here;
        n -= here;
    }
}

// Writes the buffered bytes and the given ones.
static int write_through(struct file_writer *w, const char *bytes, size_t n,
                         struct err *e)
{
    struct iovec parts[2] = {{w->pending, w->n_pending}, {(char *)(uintptr_t)bytes, n}};
    w->n_pending = 0;
    while (parts[0].iov_len + parts[1].iov_len > 0) {
        bool second = parts[0].iov_len == 0;
        int n_parts = second ? 1 : 2;
        ssize_t done = w->file.straight
                           ? disk_write_pipe(w->file.fd, parts + second, n_parts)
                           : disk_write(w->file.fd, parts + second, n_parts);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return write_error(w, errno, e);
        pass_over(parts, (size_t)done);
        w->on_file += (uint64_t)done;
    }
    if (w->on_file - w->started >= START_BYTES && !w->file.straight) {
        // If the file system does not support this call, fsync writes these bytes later.
        (void)sync_file_range(w->file.fd, (off_t)w->started,
                              (off_t)(w->on_file - w->started), SYNC_FILE_RANGE_WRITE);
        w->started = w->on_file;
    }
    return 0;
}

int file_write(struct file_writer *w, const void *bytes, size_t n, struct err *e)
{
    if (w->failed != 0)
        return write_error(w, w->failed, e);
    if (n == 0)
        return 0;
    w->written += n;
    if (n >= WRITE_BYTES)
        return write_through(w, bytes, n, e);
    if (n > WRITE_BYTES - w->n_pending)
        TRY(write_through(w, w->pending, 0, e));
    memcpy(w->pending + w->n_pending, bytes, n);
    w->n_pending += n;
    return 0;
}

uint64_t file_written(const struct file_writer *w)
{
    return w->written;
}

static int file_finish(struct file_writer *w, struct err *e)
{
    if (w->failed != 0)
        return write_error(w, w->failed, e);
    TRY(write_through(w, w->pending, 0, e));
    return new_file_finish(&w->file) == 0 ? 0 : write_error(w, errno, e);
}

int file_commit(struct file_writer *w, struct err *e)
{
    int rc = file_finish(w, e);
    if (rc == 0)
        rc = new_file_sync_dir(&w->file, w->path, e);
    writer_free(w);
    return rc;
}

void file_abort(struct file_writer *w)
{
    writer_free(w);
}

static uint64_t bytes_below(int parent, const char *name, int depth)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    uint64_t bytes = 0;
    struct stat st;
    if (d == NULL && fd >= 0)
        close(fd);
    for (const struct dirent *x = d != NULL ? readdir(d) : NULL; x != NULL;
         x = readdir(d))
        if (x->d_name[0] == '.' || fstatat(fd, x->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        else if (S_ISREG(st.st_mode))
            bytes += (uint64_t)st.st_size;
        else if (S_ISDIR(st.st_mode) && depth > 0)
            bytes += bytes_below(fd, x->d_name, depth - 1);
    if (d != NULL)
        closedir(d);
    return bytes;
}

uint64_t file_dir_bytes(const char *path)
{
    return bytes_below(AT_FDCWD, path, 4);
}

int file_open_append(const char *path, bool fresh, int *ret_fd, struct err *e)
{
    // With O_NONBLOCK, opening a pipe without a reader fails at once.
    enum { HOW = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC };
    struct stat st;
    int fd = open(path, HOW, NEW_FILE_SHARED);
    *ret_fd = fd;
    if (fd < 0 && (errno == ELOOP || errno == ENXIO))
        return err_set(e, TUG_EIO, "cannot append to '%s': it is a %s", path,
                       errno == ELOOP ? "link" : "pipe");
    if (fd < 0)
        return err_sys(e, TUG_EIO, "cannot append to '%s'", path);
    int rc = 0;
    if (fstat(fd, &st) != 0)
        rc = err_sys(e, TUG_EIO, "cannot append to '%s'", path);
    else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
        rc = err_set(e, TUG_EIO, "cannot append to '%s': it is %s", path,
                     S_ISREG(st.st_mode) ? "another account's" : "not a file");
    else if (fresh && ftruncate(fd, 0) != 0)
        rc = err_sys(e, TUG_EIO, "cannot empty '%s'", path);
    if (rc != 0) {
        close(fd);
        *ret_fd = -1;
    }
    return rc;
}

int file_open_stream(const char *path, const char *option, int *ret_fd, struct err *e)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENXIO)
        return err_set(e, TUG_EIO, "%s: no process reads the pipe '%s'", option, path);
    if (fd < 0 || fcntl(fd, F_SETFL, O_WRONLY | O_APPEND) != 0) {
        int rc = err_sys(e, TUG_EIO, "%s: cannot write '%s'", option, path);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    *ret_fd = fd;
    return 0;
}

FILE *file_open_text(const char *path, bool fresh)
{
    return fopen(path, fresh ? "we" : "ae");
}

int file_open_lock(const char *path)
{
    return open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
}

static int make_one_dir(const char *path, struct err *e)
{
    if (disk_make_dir(path) == 0)
        return 0;
    int error = errno;
    struct stat st;
    if (error == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    errno = error == EEXIST ? ENOTDIR : error;
    return err_sys(e, TUG_EIO, "cannot make directory '%s'", path);
}

int file_make_dir(const char *path, struct err *e)
{
    char part[FILE_PATH_MAX];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof(part))
        return err_set(e, TUG_EUSAGE, "'%.64s' is not a name that a directory can have",
                       path);
    memcpy(part, path, len + 1);
    for (size_t i = 1; i < len; i++) {
        if (part[i] != '/' || part[i - 1] == '/')
            continue;
        part[i] = '\0';
        struct stat st; // "/" and mount points need not be writable for us
        if (stat(part, &st) != 0)
            TRY(make_one_dir(part, e));
        part[i] = '/';
    }
    return make_one_dir(path, e);
}

int file_make_new_dir(const char *path, struct err *e)
{
    return disk_make_dir(path) == 0
               ? 0
               : err_sys(e, TUG_EIO, "cannot make directory '%s'", path);
}

int file_sync_dir(const char *path, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, TUG_EIO, "cannot open directory '%s'", path);
    // Some network file systems cannot sync a directory. This is no error, because
    // nothing else makes a rename durable there.
    int rc = 0;
    if (disk_sync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        rc = err_sys(e, TUG_EIO, "cannot sync directory '%s'", path);
    close(fd);
    return rc;
}

// Returns the process id of the lock's owner, from the kernel's list of locks; 0 if
// unknown.
static long lock_holder(int fd)
{
    char line[256];
    struct stat st;
    FILE *f = fopen("/proc/locks", "re");
    long found = 0;
    while (f != NULL && fstat(fd, &st) == 0 && fgets(line, sizeof(line), f) != NULL) {
        long pid;
        unsigned major_is, minor_is;
        unsigned long long inode;
        if (sscanf(line, "%*d: FLOCK %*s %*s %ld %x:%x:%llu", &pid, &major_is, &minor_is,
                   &inode) == 4 &&
            inode == st.st_ino && makedev(major_is, minor_is) == st.st_dev && pid > 0)
            found = pid;
    }
    if (f != NULL)
        fclose(f);
    return found;
}

static int is_taken(const char *path, int fd, struct err *e)
{
    long pid = lock_holder(fd);
    char who[32] = "";
    if (pid > 0)
        snprintf(who, sizeof(who), ", %ld", pid);
    return err_set(e, TUG_EUSAGE, "'%s' is in use by another process%s", path, who);
}

static int lock_now(int fd, int how)
{
    int rc;
    do
        rc = flock(fd, how | LOCK_NB);
    while (rc != 0 && errno == EINTR);
    return rc;
}

static int not_locked(const char *path, int fd, struct err *e)
{
    if (errno == EWOULDBLOCK)
        return is_taken(path, fd, e);
    if (errno == EOPNOTSUPP || errno == ENOSYS)
        return 0;
    return err_sys(e, TUG_EIO, "cannot lock the directory '%s'", path);
}

// Locks the directory by flock with the operation `first`, unless that is 0, and then
// replaces the lock by one with the operation `second`.
static int take_lock(const char *path, int first, int second, int *ret_lock,
                     struct err *e)
{
    *ret_lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_lock < 0)
        return err_sys(e, TUG_EIO, "cannot open directory '%s'", path);
    if ((first == 0 || lock_now(*ret_lock, first) == 0) &&
        lock_now(*ret_lock, second) == 0)
        return 0;
    int rc = not_locked(path, *ret_lock, e);
    close(*ret_lock);
    *ret_lock = -1;
    return rc;
}

int file_lock_dir(const char *path, int *ret_lock, struct err *e)
{
    return take_lock(path, 0, LOCK_EX, ret_lock, e);
}

int file_share_dir(const char *path, bool joins, int *ret_lock, struct err *e)
{
    return take_lock(path, joins ? 0 : LOCK_EX, LOCK_SH, ret_lock, e);
}

void file_unlock_dir(int lock)
{
    if (lock >= 0)
        close(lock);
}

bool file_dir_is_empty(const char *path)
{
    DIR *d = opendir(path);
    if (d == NULL)
        return errno == ENOENT;
    bool empty = true;
    for (struct dirent *x = readdir(d); x != NULL && empty; x = readdir(d))
        empty = strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0;
    closedir(d);
    return empty;
}

bool file_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

// Gets the status of the directory that contains the path, and returns the last name of
// the path.
static const char *stat_dir_of(const char *path, struct stat *ret, bool *ret_found)
{
    char dir[FILE_PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - path) + 1;
    snprintf(dir, sizeof(dir), "%.*s", (int)n, path);
    *ret_found = n < sizeof(dir) && stat(n > 0 ? dir : ".", ret) == 0;
    return path + n;
}

bool file_is_same(const char *a, const char *b)
{
    struct stat x, y;
    bool found[2];
    if (strcmp(a, b) == 0)
        return true;
    // Neither file exists, so directories and names are compared.
    if (stat(a, &x) != 0 && stat(b, &y) != 0) {
        const char *name = stat_dir_of(a, &x, &found[0]);
        if (strcmp(name, stat_dir_of(b, &y, &found[1])) != 0 || !found[0] || !found[1])
            return false;
    } else if (stat(a, &x) != 0 || stat(b, &y) != 0) {
        return false;
    }
    return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static DIR *open_real_dir_at(int at, const char *path)
{
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL && fd >= 0)
        close(fd);
    return dir;
}

DIR *file_open_real_dir(const char *path)
{
    return open_real_dir_at(AT_FDCWD, path);
}

static bool is_dir_at(int at, const char *name)
{
    struct stat st;
    return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

// Removes the entries of a directory; `path` is its name for errors.
static int remove_entries(DIR *dir, const char *path, int depth, struct err *e)
{
    for (;;) {
        errno = 0;
        const struct dirent *d = readdir(dir);
        if (d == NULL)
            return errno == 0 ? 0 : err_sys(e, TUG_EIO, "cannot list '%s'", path);
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        bool deeper = depth > 0 && is_dir_at(dirfd(dir), d->d_name);
        DIR *below = deeper ? open_real_dir_at(dirfd(dir), d->d_name) : NULL;
        int rc = below != NULL ? remove_entries(below, path, depth - 1, e) : 0;
        if (below != NULL)
            closedir(below);
        TRY(rc);
        if ((deeper ? disk_remove_dir_at(dirfd(dir), d->d_name)
                    : disk_remove_at(dirfd(dir), d->d_name)) != 0 &&
            errno != ENOENT)
            return err_sys(e, TUG_EIO, "cannot remove '%s/%s'", path, d->d_name);
    }
}

int file_remove_deep(const char *path, int depth, struct err *e)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : err_sys(e, TUG_EIO, "cannot remove '%s'", path);
    if (S_ISDIR(st.st_mode)) {
        DIR *dir = file_open_real_dir(path);
        if (dir == NULL)
            return err_sys(e, TUG_EIO, "cannot open directory '%s'", path);
        int rc = remove_entries(dir, path, depth, e);
        closedir(dir);
        TRY(rc);
    }
    if (disk_remove(path) != 0)
        return err_sys(e, TUG_EIO, "cannot remove '%s'", path);
    return 0;
}

int file_remove_tree(const char *path, struct err *e)
{
    return file_remove_deep(path, 0, e);
}

int file_join(char ret_path[FILE_PATH_MAX], const char *dir, const char *name,
              struct err *e)
{
    size_t n = strlen(dir);
    const char *slash = n == 0 || dir[n - 1] == '/' ? "" : "/";
    int len = snprintf(ret_path, FILE_PATH_MAX, "%s%s%s", dir, slash, name);
    if (len < 0 || len >= FILE_PATH_MAX)
        return err_set(e, TUG_EUSAGE, "path is too long: '%.64s.../%.64s'", dir, name);
    return 0;
}
