// See disk.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/disk.h"

#include <string.h>

#include "cluster/journal/journal_internal.h"

enum { MOST = 1 << 26 };

static int replay(struct journal *j,
                  int (*each)(void *ctx, const void *bytes, size_t n, struct err *e),
                  void *ctx, struct err *e)
{
    const struct sim_disk *d = ((const struct disk_user *)j)->disk;
    uint64_t end;
    return journal_read(d->file.data, d->file.len, "the simulated disk", &end, each, ctx,
                        e);
}

// Appends a group in the format of the journal's file.
static int put_group(struct buf *to, uint64_t random, const void *bytes, size_t n)
{
    static const char zeros[JOURNAL_ALIGN];
    struct journal_group head;
    journal_group_make(&head, random, to->len, bytes, n);
    TRY(buf_add(to, &head, sizeof(head)));
    TRY(buf_add(to, bytes, n));
    return buf_add(to, zeros, journal_group_bytes(n) - sizeof(head) - n);
}

// Counts a write. Returns whether the process survives it.
static bool lives_on(struct sim_disk *d)
{
    d->died |= ++d->commits >= d->dies_at;
    return !d->died;
}

static int dies(struct err *e)
{
    return err_set(e, TUG_EIO, "the process dies");
}

// Returns whether the process has died, or another one was started.
static bool is_over(const struct disk_user *u)
{
    return u->disk->died || u->process != u->disk->processes;
}

static int commit(struct journal *j, const void *bytes, size_t n, struct err *e)
{
    struct sim_disk *d = ((struct disk_user *)j)->disk;
    size_t before = d->file.len;
    if (is_over((struct disk_user *)j))
        return dies(e);
    if (put_group(&d->file, d->random, bytes, n) != 0)
        return err_nomem(e, "the simulated disk");
    if (lives_on(d))
        return 0;
    if (d->how == DISK_NOTHING)
        d->file.len = before;
    else if (d->how == DISK_PART)
        d->file.len = before + d->part % (d->file.len - before);
    return dies(e);
}

static int make_file(struct sim_disk *d, const void *bytes, size_t n, struct err *e)
{
    struct journal_head head;
    struct buf file = BUF_INIT(MOST);
    journal_head_make(&head, d->random + 1);
    if (buf_add(&file, &head, sizeof(head)) != 0 ||
        put_group(&file, d->random + 1, bytes, n) != 0) {
        buf_free(&file);
        return err_nomem(e, "the simulated disk");
    }
    buf_free(&d->file);
    d->file = file;
    d->random++;
    return 0;
}

// A rename replaces the file, so either the old file or the new one is on the disk. A scheduler
// that ends without an error replaces all groups by an empty one (n = 0); the process never dies
// in that write.
static int replace(struct journal *j, const void *bytes, size_t n, struct err *e)
{
    struct sim_disk *d = ((struct disk_user *)j)->disk;
    if (is_over((struct disk_user *)j))
        return dies(e);
    bool lives = n == 0 || lives_on(d);
    if (lives || d->how == DISK_ALL)
        TRY(make_file(d, bytes, n, e));
    return lives ? 0 : dies(e);
}

static uint64_t bytes_of(const struct journal *j)
{
    return ((const struct disk_user *)j)->disk->file.len;
}

static void close_it(struct journal *j)
{
    (void)j;
}

int disk_open(struct sim_disk *d, uint64_t random, struct err *e)
{
    *d = (struct sim_disk){.file = BUF_INIT(MOST), .random = random};
    return make_file(d, "", 0, e);
}

int disk_part(struct sim_disk *copy, struct disk_user *u, struct err *e)
{
    const struct sim_disk *d = u->disk;
    *copy = (struct sim_disk){.file = BUF_INIT(MOST),
                              .random = d->random,
                              .dies_at = UINT64_MAX,
                              .processes = u->process};
    u->disk = copy;
    return buf_add(&copy->file, d->file.data, d->file.len) == 0
               ? 0
               : err_nomem(e, "a copy of the simulated disk");
}

void disk_close(struct sim_disk *d)
{
    buf_free(&d->file);
}

int disk_again(struct sim_disk *d, struct disk_user *u, struct err *e)
{
    static const struct journal_ops ops = {.replay = replay,
                                           .commit = commit,
                                           .replace = replace,
                                           .bytes = bytes_of,
                                           .close = close_it};
    uint64_t end;
    TRY(journal_read(d->file.data, d->file.len, "the simulated disk", &end, NULL, NULL,
                     e));
    d->file.len = end;
    d->commits = 0;
    d->dies_at = UINT64_MAX;
    d->died = false;
    *u = (struct disk_user){{&ops}, d, ++d->processes};
    return 0;
}
