// The journal in a directory: see journal.h for its format.
//
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cluster/journal/journal_internal.h"
#include "os/disk.h"
#include "os/file.h"
#include "os/new_file.h"
#include "van/mac.h"

enum { FILE_MODE = 0600, ONLY_MINE = 0700, OF_OTHERS = 022, RIGHTS = 07777 };
#define FILE_MAX ((size_t)4 << 30) // most bytes of a journal that is read

struct file_journal {
    struct journal base;
    char path[FILE_PATH_MAX];
    int lock, fd;
    // `random` is the number in the file's head; `end` is the size of the file up to the
    // end of its last group.
    uint64_t random, end;
    struct err failed; // the first failure of a write; code 0: none
};

// Writes all parts, whose lengths it changes. Returns 0, or -1 with the reason in errno.
static int write_all(int fd, struct iovec *parts, int n)
{
    while (n > 0) {
        ssize_t done = disk_write(fd, parts, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -1;
        size_t left = (size_t)done;
        while (n > 0 && left >= parts->iov_len) {
            left -= parts->iov_len;
            parts++, n--;
        }
        if (n > 0) {
            parts->iov_base = (char *)parts->iov_base + left;
            parts->iov_len -= left;
        }
        if (done == 0 && n > 0) {
            errno = ENOSPC;
            return -1;
        }
    }
    return 0;
}

static struct iovec part(const void *bytes, size_t n)
{
    return (struct iovec){(void *)(uintptr_t)bytes, n};
}

// Fills `ret` with the head, the bytes and the zeros of a group that begins at `at`.
// ret[0] points to *head, which must stay valid until the group is written.
static void parts_of(struct iovec ret[3], struct journal_group *head, uint64_t random,
                     uint64_t at, const void *bytes, size_t n)
{
    static const char zeros[JOURNAL_ALIGN];
    journal_group_make(head, random, at, bytes, n);
    ret[0] = part(head, sizeof(*head));
    ret[1] = part(bytes, n);
    ret[2] = part(zeros, journal_group_bytes(n) - sizeof(*head) - n);
}

int journal_check_size(size_t n, struct err *e)
{
    if (n <= JOURNAL_GROUP_MAX)
        return 0;
    return err_set(e, TUG_EDATA,
                   "the state of the cluster has %zu bytes, more than the "
                   "%d that a journal can have in one group",
                   n, JOURNAL_GROUP_MAX);
}

// Keeps the error of the first failed write, after which nothing is written, and cuts off
// the written part of the group.
static int file_journal_fail(struct file_journal *f, int rc, struct err *e)
{
    err_copy(&f->failed, e);
    f->failed.code = rc;
    if (f->fd >= 0 && ftruncate(f->fd, (off_t)f->end) != 0)
        errno = 0; // if this fails, the next start cuts the group off
    return rc;
}

static int file_journal_commit(struct journal *j, const void *bytes, size_t n,
                               struct err *e)
{
    struct file_journal *f = (struct file_journal *)j;
    struct journal_group head;
    struct iovec parts[3];
    struct err why = {0};
    int rc = f->failed.code != 0 ? err_copy(&why, &f->failed)
                                 : journal_check_size(n, &why);
    if (rc == 0) {
        parts_of(parts, &head, f->random, f->end, bytes, n);
        if (write_all(f->fd, parts, 3) != 0 || disk_sync(f->fd) != 0)
            rc = err_sys(&why, TUG_EIO, "cannot write the journal '%s'", f->path);
    }
    if (rc == 0) {
        f->end += journal_group_bytes(n);
        return 0;
    }
    if (f->failed.code == 0)
        (void)file_journal_fail(f, rc, &why);
    return err_copy(e, &why);
}

// Opens the file for appending groups.
static int open_again(struct file_journal *f, struct err *e)
{
    if (f->fd >= 0)
        close(f->fd);
    return file_open_append(f->path, false, &f->fd, e);
}

// Writes a file with one group under a temporary name. When the file is durable, it
// gets the journal's name.
static int make_file(struct file_journal *f, const void *bytes, size_t n, struct err *e)
{
    struct journal_head head;
    struct journal_group of;
    struct iovec parts[4];
    struct new_file file;
    uint8_t random[MAC_BYTES];
    if (!mac_random(random))
        return err_set(e, TUG_EIO, "the system provides no random numbers");
    uint64_t number;
    memcpy(&number, random, sizeof(number));
    journal_head_make(&head, number);
    parts[0] = part(&head, sizeof(head));
    parts_of(parts + 1, &of, number, sizeof(head), bytes, n);
    TRY(new_file_open(&file, FILE_OWN, f->path, FILE_MODE, e));
    if (write_all(file.fd, parts, 4) != 0 || new_file_finish(&file) != 0) {
        int rc = err_sys(e, TUG_EIO, "cannot write the journal '%s'", f->path);
        new_file_drop(&file);
        return rc;
    }
    TRY(new_file_sync_dir(&file, f->path, e));
    f->random = number;
    f->end = sizeof(head) + journal_group_bytes(n);
    return open_again(f, e);
}

static int file_journal_replace(struct journal *j, const void *bytes, size_t n,
                                struct err *e)
{
    struct file_journal *f = (struct file_journal *)j;
    struct err why = {0};
    if (f->failed.code != 0)
        return err_copy(e, &f->failed);
    int rc = journal_check_size(n, &why);
    if (rc == 0)
        rc = make_file(f, bytes, n, &why);
    if (rc == 0)
        return 0;
    // The path may name the old file or the new one, so a further group could be written
    // to a file that no start will read.
    err_copy(&f->failed, &why);
    return err_copy(e, &why);
}

static int read_file(const struct file_journal *f, struct buf *b, struct err *e)
{
    *b = BUF_INIT(FILE_MAX);
    return file_read(f->path, b, e);
}

static int file_journal_replay(struct journal *j,
                               int (*each)(void *ctx, const void *bytes, size_t n,
                                           struct err *e),
                               void *ctx, struct err *e)
{
    const struct file_journal *f = (const struct file_journal *)j;
    struct buf b;
    uint64_t end;
    int rc = read_file(f, &b, e);
    if (rc == 0)
        rc = journal_read(b.data, b.len, f->path, &end, each, ctx, e);
    buf_wipe(&b);
    return rc;
}

static uint64_t file_journal_bytes(const struct journal *j)
{
    return ((const struct file_journal *)j)->end;
}

static void file_journal_close(struct journal *j)
{
    struct file_journal *f = (struct file_journal *)j;
    if (f->fd >= 0)
        close(f->fd);
    file_unlock_dir(f->lock);
    mem_free(f);
}

static const struct journal_ops file_ops = {
    .replay = file_journal_replay,
    .commit = file_journal_commit,
    .replace = file_journal_replace,
    .bytes = file_journal_bytes,
    .close = file_journal_close,
};

// Opens an existing file, and cuts off a group that was not finished.
static int take_file(struct file_journal *f, struct err *e)
{
    struct journal_head head;
    struct stat st;
    struct buf b;
    int rc = read_file(f, &b, e);
    if (rc == 0)
        rc = journal_read(b.data, b.len, f->path, &f->end, NULL, NULL, e);
    if (rc == 0) {
        memcpy(&head, b.data, sizeof(head));
        f->random = head.random;
    }
    buf_wipe(&b);
    TRY(rc);
    TRY(open_again(f, e));
    if (fstat(f->fd, &st) != 0)
        return err_sys(e, TUG_EIO, "cannot open the journal '%s'", f->path);
    if ((st.st_mode & 0077) != 0 && disk_set_mode(f->fd, FILE_MODE) != 0)
        return err_sys(e, TUG_EIO, "cannot make '%s' unreadable for other accounts",
                       f->path);
    if ((uint64_t)st.st_size == f->end)
        return 0;
    if (ftruncate(f->fd, (off_t)f->end) != 0 || disk_sync(f->fd) != 0)
        return err_sys(e, TUG_EIO,
                       "cannot remove an unfinished record from the end of '%s'",
                       f->path);
    return 0;
}

// Refuses a directory in which another account could replace the file, because the file
// holds the key of sessions.
static int check_dir(int fd, const char *dir, struct err *e)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_sys(e, TUG_EIO, "cannot use '%s'", dir);
    if (st.st_uid != geteuid())
        return err_set(e, TUG_EUSAGE,
                       "'%s' belongs to another user (uid %u, you are %u), who could "
                       "replace the journal; name another directory",
                       dir, (unsigned)st.st_uid, (unsigned)geteuid());
    if ((st.st_mode & OF_OTHERS) != 0)
        return err_set(e, TUG_EUSAGE,
                       "other users may write in '%s' (mode %04o), and could replace the "
                       "journal; run chmod go-w, or name another directory",
                       dir, (unsigned)(st.st_mode & RIGHTS));
    return 0;
}

// Makes the directory if it is missing, and locks it against other schedulers.
static int lock_journal(struct file_journal *f, const char *dir, struct err *e)
{
    bool made = !file_exists(dir);
    TRY(file_make_dir(dir, e));
    TRY(file_lock_dir(dir, &f->lock, e));
    if (f->lock >= 0 && made && disk_set_mode(f->lock, ONLY_MINE) != 0)
        return err_sys(e, TUG_EIO, "cannot make '%s' unreadable for other accounts", dir);
    if (f->lock >= 0)
        return check_dir(f->lock, dir, e);
    return err_set(e, TUG_EIO,
                   "'%s' is on a file system without locks, so a second scheduler could "
                   "use it at the same time; name a directory on a local disk",
                   dir);
}

int journal_open(struct journal **ret, const char *dir, struct err *e)
{
    struct file_journal *f = mem_zalloc(sizeof(*f));
    if (f == NULL)
        return err_nomem(e, "the journal");
    f->base.ops = &file_ops;
    f->lock = f->fd = -1;
    int rc = file_join(f->path, dir, "journal", e);
    if (rc == 0)
        rc = lock_journal(f, dir, e);
    if (rc == 0)
        rc = file_exists(f->path) ? take_file(f, e) : make_file(f, "", 0, e);
    if (rc != 0) {
        file_journal_close(&f->base);
        return rc;
    }
    *ret = &f->base;
    return 0;
}
