// Exchanges bytes between all workers, through a table on the servers.
//
// Each worker sets rows of its own, with one byte in each float, which every coding of
// values preserves, and pulls the rows of the others between two barriers. Barriers do
// not wait for workers that have died or left, whose rows are then of an earlier round.
// So every row has the number of its round, and all rows that are read must have this
// round's number.
//
//   key      the worker's index << 32, plus the number of the row
//   a row    the number of the round, then bytes of the message
//   row 0    its first bytes are the length of the message
//   PRESENT  a key of PRESENT | the worker's index: a row with the worker's rank in the
//            cluster, which shows if two processes have joined as the same worker
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "doors/fleet/fleet_internal.h"
#include "doors/tables/tug_client.h"

enum {
    ROW = 128,
    MARK = 4,
    ROOM = ROW - MARK,
    HEAD = 8,
    SAID_MAX = 1 << 24,
    AT_ONCE = 1 << 16
};
#define PRESENT ((uint64_t)1 << 63)
#define SETTINGS "name=fleet-exchange;accessor=plain;dim=128;rule=sum"

// Set rows from bytes, and get rows as bytes. They send nothing in a callback, where the
// answer could not be waited for, as the rows are the caller's memory.

static int rows_of_bytes(struct tug_client *c, const uint64_t *keys, size_t n,
                         float *rows, const unsigned char *bytes)
{
    uint64_t ts;
    TRY(calls_may_wait(c));
    for (size_t i = 0; i < n * ROW; i++)
        rows[i] = (float)bytes[i];
    TRY(tug_assign(c, TUG_FLEET_TABLE, keys, n, rows, NULL, NULL, &ts));
    return calls_wait_or_cancel(c, ts);
}

static int bytes_of_rows(struct tug_client *c, const uint64_t *keys, size_t n,
                         float *rows, unsigned char *bytes)
{
    uint64_t ts;
    TRY(calls_may_wait(c));
    TRY(tug_pull(c, TUG_FLEET_TABLE, keys, n, rows, NULL, NULL, &ts));
    TRY(calls_wait_or_cancel(c, ts));
    for (size_t i = 0; i < n * ROW; i++)
        bytes[i] = rows[i] >= 0 && rows[i] < 256 ? (unsigned char)rows[i] : 0;
    return 0;
}

// Checks that each worker's row is present; it has the worker's rank in the cluster plus
// 1. If two workers have the same index, or one has died, a row is missing, and all
// workers see it.
static int check_present(struct tug_fleet *f, float *rows, unsigned char *bytes)
{
    uint32_t me = f->roles->role.rank, missing = UINT32_MAX;
    for (uint32_t w = 0; w < f->roles->role.workers; w++) {
        uint64_t key = PRESENT | w, found;
        TRY(bytes_of_rows(f->client, &key, 1, rows, bytes));
        memcpy(&found, bytes, sizeof(found));
        if (found == 0)
            missing = w;
        if (w == me && found != (uint64_t)tug_client_rank(f->client) + 1)
            return err_set(
                last_error(), TUG_EUSAGE,
                "another process is worker %u, too: each needs an index of its "
                "own (PADDLE_TRAINER_ID, DMLC_WORKER_ID)",
                me);
    }
    if (missing != UINT32_MAX)
        return err_set(
            last_error(), TUG_EUSAGE,
            "no process is worker %u: it has died or left, or has said that it "
            "is another one, too: each needs an index of its own "
            "(PADDLE_TRAINER_ID, DMLC_WORKER_ID)",
            missing);
    return 0;
}

int fleet_exchange_open(struct tug_fleet *f)
{
    struct tug_client *c = f->client;
    uint64_t key = PRESENT | f->roles->role.rank, mine = (uint64_t)tug_client_rank(c) + 1;
    uint64_t said = (uint64_t)f->roles->role.rank << 32;
    float rows[ROW];
    unsigned char bytes[ROW] = {0};
    TRY(tug_table_create(c, TUG_FLEET_TABLE, SETTINGS));
    TRY(rows_of_bytes(c, &said, 1, rows, bytes)); // replaces the row of an earlier run
    memcpy(bytes, &mine, sizeof(mine));
    TRY(rows_of_bytes(c, &key, 1, rows, bytes));
    TRY(tug_barrier(c));
    int rc = check_present(f, rows, bytes);
    struct err e = *last_error();
    int behind = tug_barrier(c); // a refused worker leaves only after all have checked
    return rc != 0 ? last_error_is(&e) : behind;
}

// Gathering.

struct gathering {
    struct tug_client *client;
    uint32_t workers, index, round;
    size_t n, n_rows; // bytes of each worker; rows for these and their length
    uint64_t *keys;
    float *rows;
    unsigned char *bytes, *said; // the rows as bytes; the message in them
};

static int begin(struct gathering *g, struct tug_fleet *f, size_t n)
{
    *g = (struct gathering){
        .client = f->client,
        .workers = f->roles->role.workers,
        .index = f->roles->role.rank,
        .n = n,
        .n_rows = (HEAD + n + ROOM - 1) / ROOM,
    };
    if (n > SAID_MAX)
        return err_set(last_error(), TUG_EUSAGE,
                       "a worker tells the others %d bytes at a time at most, not %zu",
                       SAID_MAX, n);
    g->keys = mem_array(g->n_rows, sizeof(*g->keys));
    g->rows = mem_array(g->n_rows, ROW * sizeof(*g->rows));
    g->bytes = mem_zalloc(g->n_rows * ROW);
    g->said = mem_zalloc(g->n_rows * ROOM);
    if (g->keys == NULL || g->rows == NULL || g->bytes == NULL || g->said == NULL)
        return err_nomem(last_error(), "what workers tell each other");
    g->round = ++f->round;
    return 0;
}

static void end(struct gathering *g)
{
    mem_free(g->keys);
    mem_free(g->rows);
    mem_free(g->bytes);
    mem_free(g->said);
}

static void keys_of(struct gathering *g, uint32_t worker)
{
    for (size_t i = 0; i < g->n_rows; i++)
        g->keys[i] = (uint64_t)worker << 32 | i;
}

static int say(struct gathering *g, const void *bytes)
{
    uint64_t n = g->n;
    keys_of(g, g->index);
    memcpy(g->said, &n, HEAD);
    if (g->n > 0)
        memcpy(g->said + HEAD, bytes, g->n);
    for (size_t i = 0; i < g->n_rows; i++) {
        memcpy(g->bytes + i * ROW, &g->round, MARK);
        memcpy(g->bytes + i * ROW + MARK, g->said + i * ROOM, ROOM);
    }
    return rows_of_bytes(g->client, g->keys, g->n_rows, g->rows, g->bytes);
}

static int no_word(const struct gathering *g, uint32_t worker)
{
    return err_set(
        last_error(), TUG_EIO,
        "worker %u has not said its part: it has left the run or died, or is in "
        "another call (worker %u is in its exchange number %u)",
        worker, g->index, g->round);
}

// Gets a worker's message of this round, as many bytes as fit, and its length.
static int hear_one(struct gathering *g, uint32_t worker, uint64_t *ret_n)
{
    uint32_t round;
    keys_of(g, worker);
    TRY(bytes_of_rows(g->client, g->keys, g->n_rows, g->rows, g->bytes));
    memcpy(ret_n, g->bytes + MARK, HEAD);
    for (size_t i = 0; i < g->n_rows; i++) {
        memcpy(&round, g->bytes + i * ROW, MARK);
        if (round != g->round && (i == 0 || *ret_n == g->n))
            return no_word(g, worker);
        memcpy(g->said + i * ROOM, g->bytes + i * ROW + MARK, ROOM);
    }
    return 0;
}

static int hear(struct gathering *g, unsigned char *ret)
{
    uint64_t n, other = g->n;
    uint32_t who = 0;
    for (uint32_t w = 0; w < g->workers; w++) {
        TRY(hear_one(g, w, &n));
        if (n != g->n && other == g->n) {
            other = n;
            who = w;
        } else if (g->n > 0) {
            memcpy(ret + w * g->n, g->said + HEAD, g->n);
        }
    }
    if (other != g->n)
        return err_set(
            last_error(), TUG_EUSAGE,
            "worker %u tells the others %llu bytes, and worker %u %zu: all must "
            "call the same functions with the same sizes",
            who, (unsigned long long)other, g->index, g->n);
    return 0;
}

int tug_fleet_all_gather(struct tug_fleet *f, const void *bytes, size_t n, void *ret)
{
    struct gathering g;
    TRY(fleet_in_run(f));
    int rc = begin(&g, f, n);
    if (rc == 0)
        rc = say(&g, bytes);
    if (rc == 0)
        rc = tug_barrier(f->client);
    if (rc == 0) {
        rc = hear(&g, ret);
        struct err e = *last_error();
        int behind = tug_barrier(
            f->client); // no worker writes again while another still reads
        rc = rc != 0 ? last_error_is(&e) : behind;
    }
    end(&g);
    return rc;
}

// Reductions, a piece of the numbers at a time.

static int add_whole(int64_t *to, int64_t x, enum tug_fleet_reduce how, size_t i)
{
    if (how == TUG_FLEET_SUM && __builtin_add_overflow(*to, x, to))
        return err_set(last_error(), TUG_EUSAGE,
                       "the sum of the workers' value %zu does not fit in 64 bits", i);
    if ((how == TUG_FLEET_MAX && x > *to) || (how == TUG_FLEET_MIN && x < *to))
        *to = x;
    return 0;
}

// Combines two numbers; if one is NaN, the result is NaN.
static double combine(double a, double b, enum tug_fleet_reduce how)
{
    if (how == TUG_FLEET_SUM)
        return a + b;
    bool first = a != a || (how == TUG_FLEET_MAX ? a >= b : a <= b);
    return first ? a : b;
}

typedef int (*combine_fn)(const void *all, uint32_t workers, size_t n, size_t first,
                          enum tug_fleet_reduce how, void *ret);

static int combine_doubles(const void *all, uint32_t workers, size_t n, size_t first,
                           enum tug_fleet_reduce how, void *ret)
{
    const double *from = all;
    double *to = ret;
    (void)first;
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
        for (uint32_t w = 1; w < workers; w++)
            to[i] = combine(to[i], from[w * n + i], how);
    }
    return 0;
}

static int combine_whole(const void *all, uint32_t workers, size_t n, size_t first,
                         enum tug_fleet_reduce how, void *ret)
{
    const int64_t *from = all;
    int64_t *to = ret;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        to[i] = from[i];
        for (uint32_t w = 1; w < workers && rc == 0; w++)
            rc = add_whole(&to[i], from[w * n + i], how, first + i);
    }
    return rc;
}

// Checks that all workers have n numbers before several pieces are exchanged; otherwise
// some workers would wait for a piece that the others do not send.
static int same_counts(struct tug_fleet *f, uint64_t n, uint64_t *all)
{
    TRY(tug_fleet_all_gather(f, &n, sizeof(n), all));
    for (uint32_t w = 0; w < f->roles->role.workers; w++)
        if (all[w] != n)
            return err_set(last_error(), TUG_EUSAGE,
                           "worker %u has %llu numbers, and worker %u %llu", w,
                           (unsigned long long)all[w], f->roles->role.rank,
                           (unsigned long long)n);
    return 0;
}

enum { BYTES = 8 }; // size of a number: double or int64_t

static int reduce_into(struct tug_fleet *f, const char *values, size_t n,
                       enum tug_fleet_reduce how, combine_fn fn, char *all, char *ret)
{
    if (n == 0)
        return tug_fleet_all_gather(f, values, 0, all);
    if (n > AT_ONCE)
        TRY(same_counts(f, n, (uint64_t *)(void *)all));
    for (size_t at = 0, some; at < n; at += some) {
        some = n - at < AT_ONCE ? n - at : AT_ONCE;
        TRY(tug_fleet_all_gather(f, values + at * BYTES, some * BYTES, all));
        TRY(fn(all, f->roles->role.workers, some, at, how, ret + at * BYTES));
    }
    return 0;
}

// Reduces n numbers over all workers. `values` changes only if no error occurs.
static int reduce(struct tug_fleet *f, char *values, size_t n, enum tug_fleet_reduce how,
                  combine_fn fn)
{
    TRY(fleet_in_run(f));
    if (how != TUG_FLEET_SUM && how != TUG_FLEET_MAX && how != TUG_FLEET_MIN)
        return err_set(last_error(), TUG_EUSAGE,
                       "how: %d is not one of sum (0), max (1) and min (2)", (int)how);
    size_t piece = n < AT_ONCE ? n : AT_ONCE;
    char *all = mem_array(piece + 1, (size_t)f->roles->role.workers * BYTES);
    char *made = mem_array(n + 1, BYTES);
    int rc = all != NULL && made != NULL
                 ? reduce_into(f, values, n, how, fn, all, made)
                 : err_nomem(last_error(), "the numbers of all workers");
    if (rc == 0 && n > 0)
        memcpy(values, made, n * BYTES);
    mem_free(all);
    mem_free(made);
    return rc;
}

int tug_fleet_all_reduce(struct tug_fleet *f, double *values, size_t n,
                         enum tug_fleet_reduce how)
{
    return reduce(f, (char *)values, n, how, combine_doubles);
}

int tug_fleet_all_reduce_whole(struct tug_fleet *f, int64_t *values, size_t n,
                               enum tug_fleet_reduce how)
{
    return reduce(f, (char *)values, n, how, combine_whole);
}

// Sharing the result of worker 0.

struct said {
    int32_t rc;
    uint32_t unused;
    uint64_t value;
    char why[ERR_TEXT_MAX];
};

int fleet_agree(struct tug_fleet *f, int rc, const char *what, uint64_t *value)
{
    struct said mine = {.rc = rc, .value = value != NULL ? *value : 0};
    struct err e = *last_error();
    if (rc != 0)
        memcpy(mine.why, e.text, sizeof(mine.why));
    struct said *all = mem_array(f->roles->role.workers, sizeof(*all));
    if (all == NULL)
        return err_nomem(last_error(), "what workers agree on");
    int gathered = tug_fleet_all_gather(f, &mine, sizeof(mine), all);
    struct said first = gathered == 0 ? all[0] : mine;
    mem_free(all);
    if (rc != 0)
        return last_error_is(&e);
    TRY(gathered);
    if (value != NULL)
        *value = first.value;
    first.why[sizeof(first.why) - 1] = '\0';
    return first.rc != 0 ? err_set(last_error(), first.rc, "worker 0 could not %s: %s",
                                   what, first.why)
                         : 0;
}
