// See disk.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/disk.h"

#include <string.h>

#include "base/hash.h"
#include "base/random.h"
#include "cluster/journal/journal_internal.h"
#include "kit/sim.h"

enum { MOST = 1 << 26, DELAYS = 0x700, FLIPS };

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

// Leaves the part of a new group that is durable when the process dies in this write. The
// group begins at `before`.
static void tear(struct sim_disk *d, size_t before)
{
    if (d->how == DISK_NOTHING)
        d->file.len = before;
    else if (d->how == DISK_PART)
        d->file.len = before + d->part % (d->file.len - before);
}

static int append(struct sim_disk *d, const void *bytes, size_t n, bool torn,
                  struct err *e)
{
    size_t before = d->file.len;
    if (put_group(&d->file, d->random, bytes, n) != 0)
        return err_nomem(e, "the simulated disk");
    if (torn)
        tear(d, before);
    return torn ? dies(e) : 0;
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

// A rename replaces the file, so either the old file or the new one is on the disk.
static int put_file(struct sim_disk *d, const void *bytes, size_t n, bool torn,
                    struct err *e)
{
    if (!torn || d->how == DISK_ALL)
        TRY(make_file(d, bytes, n, e));
    return torn ? dies(e) : 0;
}

// Writes a group. A scheduler that ends without an error replaces all groups by an empty one
// (n = 0); the process never dies in that write.
static int write_now(struct sim_disk *d, const void *bytes, size_t n, bool replaces,
                     struct err *e)
{
    bool torn = !(replaces && n == 0) && !lives_on(d);
    return (replaces ? put_file : append)(d, bytes, n, torn, e);
}

// Mostly a few milliseconds; now and then as long as a busy disk takes.
static uint64_t delay(struct sim_disk *d)
{
    uint64_t most = random_below(d->random, DELAYS, 2 * d->delays, 8) == 0 ? 500 : 20;
    return 1000000 * random_below(d->random, DELAYS, 2 * d->delays++ + 1, most);
}

static int settle(struct disk_user *u, struct err *e)
{
    u->busy = false;
    return write_now(u->disk, u->todo.data, u->todo.len, u->replaces, e);
}

static int wait_for(struct journal *j, struct err *e)
{
    struct disk_user *u = (struct disk_user *)j;
    if (is_over(u))
        return dies(e);
    return u->busy ? settle(u, e) : 0;
}

static int begin_write(struct journal *j, const void *bytes, size_t n, bool replaces,
                       struct err *e)
{
    struct disk_user *u = (struct disk_user *)j;
    TRY(wait_for(j, e));
    if (u->disk->sim == NULL)
        return write_now(u->disk, bytes, n, replaces, e);
    buf_clear(&u->todo);
    if (buf_add(&u->todo, bytes, n) != 0)
        return err_nomem(e, "the simulated disk");
    u->busy = true;
    u->replaces = replaces;
    u->due = sim_now(u->disk->sim) + delay(u->disk);
    return 0;
}

static int commit(struct journal *j, const void *bytes, size_t n, struct err *e)
{
    return begin_write(j, bytes, n, false, e);
}

static int replace(struct journal *j, const void *bytes, size_t n, struct err *e)
{
    return begin_write(j, bytes, n, true, e);
}

static int ready(struct journal *j, struct err *e)
{
    struct disk_user *u = (struct disk_user *)j;
    return !u->busy ? 1 : is_over(u) ? dies(e) : 0;
}

bool disk_look(struct disk_user *u)
{
    struct err e;
    if (!u->busy || is_over(u) || sim_now(u->disk->sim) < u->due)
        return false;
    (void)settle(u, &e); // an error: the process dies
    return true;
}

void disk_leave(struct disk_user *u)
{
    buf_free(&u->todo);
    u->busy = false;
}

int disk_lose(struct disk_user *u, struct err *e)
{
    struct sim_disk *d = u->disk;
    if (!u->busy || u->lost)
        return 0;
    u->lost = true;
    int rc = u->replaces ? put_file(d, u->todo.data, u->todo.len, true, e)
                         : append(d, u->todo.data, u->todo.len, true, e);
    return rc == TUG_EIO ? 0 : rc;
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
    if (u->busy)
        TRY(settle(u, e));
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

// The groups of a journal: their number, and a hash of all but the last one and of all.
struct groups {
    uint64_t n, before, all;
};

static int see_group(void *ctx, const void *bytes, size_t n, struct err *e)
{
    struct groups *x = ctx;
    (void)e;
    x->n++;
    x->before = x->all;
    x->all = hash_bytes(bytes, n, x->all);
    return 0;
}

static int read_groups(const struct buf *file, struct groups *ret, struct err *e)
{
    uint64_t end;
    *ret = (struct groups){0};
    return journal_read(file->data, file->len, "the simulated disk", &end, see_group, ret,
                        e);
}

// Flips a bit of a copy of the file, and reads the copy. The damage must be found, or it must
// be where it changes nothing, or in the last group, which then counts as unfinished.
static int check_flip(const struct sim_disk *d, struct err *e)
{
    struct groups good, bad;
    struct buf copy = BUF_INIT(MOST);
    struct err why;
    uint64_t bit = random_below(d->random, FLIPS, d->processes, 8 * d->file.len);
    if (buf_add(&copy, d->file.data, d->file.len) != 0)
        return err_nomem(e, "a copy of the simulated disk");
    int rc = read_groups(&copy, &good, e);
    copy.data[bit / 8] ^= (char)(1 << bit % 8);
    int bad_rc = read_groups(&copy, &bad, &why);
    buf_free(&copy);
    TRY(rc);
    bool same = bad.n == good.n && bad.all == good.all;
    bool cut = good.n > 0 && bad.n == good.n - 1 && bad.all == good.before;
    if (bad_rc == TUG_EDATA || (bad_rc == 0 && (same || cut)))
        return 0;
    return err_set(e, TUG_EINTERNAL,
                   "the reader does not find that bit %llu of the journal is wrong",
                   (unsigned long long)bit);
}

int disk_again(struct sim_disk *d, struct disk_user *u, struct err *e)
{
    static const struct journal_ops ops = {.replay = replay,
                                           .commit = commit,
                                           .replace = replace,
                                           .bytes = bytes_of,
                                           .close = close_it,
                                           .ready = ready,
                                           .wait = wait_for};
    uint64_t end;
    TRY(journal_read(d->file.data, d->file.len, "the simulated disk", &end, NULL, NULL,
                     e));
    d->file.len = end;
    TRY(check_flip(d, e));
    d->commits = 0;
    d->dies_at = UINT64_MAX;
    d->died = false;
    disk_leave(u);
    *u = (struct disk_user){
        .base = {&ops}, .disk = d, .process = ++d->processes, .todo = BUF_INIT(MOST)};
    return 0;
}
