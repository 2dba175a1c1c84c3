// Checks the rows at the end: they are the sums of the acknowledged pushes, and of some
// pushes that dead workers had in flight.
//
// SPDX-License-Identifier: Apache-2.0
#include "sim/cluster.h"

#include <string.h>

static bool is_loose(const struct worker *k, const struct op *op)
{
    return k->c.dead && op->push && op->begun && !op->acknowledged;
}

// The rows of a partition minus the acknowledged pushes, and the pushes of dead workers
// that may explain this remainder.
struct rest {
    const struct world *w;
    uint32_t partition;
    uint32_t n;
    const struct op *loose[MAX_LOOSE];
    int64_t left[KEYS][WIDTH];
};

static bool touches(const struct world *w, const struct op *op, uint32_t partition)
{
    for (size_t i = 0; i < op->n; i++)
        if (roster_partition(BITS, WIRE_SPACE_SPARSE, w->keys[op->which[i]]) == partition)
            return true;
    return false;
}

// Subtracts a push (sign -1) or adds it again. Returns false if the result is below 0.
static bool take(struct rest *r, const struct op *op, int64_t sign)
{
    bool enough = true;
    for (size_t i = 0; i < op->n; i++) {
        uint32_t k = op->which[i];
        uint64_t key = r->w->keys[k];
        if (roster_partition(BITS, WIRE_SPACE_SPARSE, key) != r->partition)
            continue;
        for (int j = 0; j < WIDTH; j++) {
            r->left[k][j] -= sign * (int64_t)op->values[i * WIDTH + j];
            enough &= r->left[k][j] >= 0;
        }
    }
    return enough;
}

static bool is_a_sum(struct rest *r, uint32_t from)
{
    bool nothing = true;
    for (int k = 0; k < KEYS; k++)
        for (int j = 0; j < WIDTH; j++)
            nothing &= r->left[k][j] == 0;
    if (nothing)
        return true;
    for (uint32_t i = from; i < r->n; i++) {
        if (take(r, r->loose[i], 1) && is_a_sum(r, i + 1))
            return true;
        take(r, r->loose[i], -1);
    }
    return false;
}

// Returns a key's row on the server that leads its partition; NULL if it has no row.
static const float *row_of(struct world *w, uint32_t partition, uint32_t k)
{
    uint32_t owner = w->stage.scheduler->roster.owners[WIRE_SPACE_SPARSE][partition];
    for (uint32_t i = 0; i < w->stage.n_servers; i++)
        if (!w->stage.servers[i].dead && member_id(shard_member(shard_of(w, i))) == owner)
            return shards_row(shard_of(w, i), TABLE, w->keys[k]);
    return NULL;
}

static bool is_same(const float *a, const float *b)
{
    return a == b || (a != NULL && b != NULL && memcmp(a, b, WIDTH * sizeof(*a)) == 0);
}

static void read_rows(struct world *w, struct rest *r)
{
    const struct roster *roster = &w->stage.scheduler->roster;
    for (uint32_t k = 0; k < KEYS; k++) {
        if (roster_partition(BITS, WIRE_SPACE_SPARSE, w->keys[k]) != r->partition)
            continue;
        for (uint32_t i = 0; i < w->stage.n_servers; i++) {
            struct shard *s = shard_of(w, i);
            if (w->stage.servers[i].dead)
                continue;
            const float *row = shards_row(s, TABLE, w->keys[k]);
            const float *good = row_of(w, r->partition, k);
            uint32_t id = member_id(shard_member(s));
            bool mine = id == roster->owners[WIRE_SPACE_SPARSE][r->partition];
            bool member = roster_is_member(roster, WIRE_SPACE_SPARSE, r->partition, id);
            for (int j = 0; mine && j < WIDTH; j++)
                r->left[k][j] = (row != NULL ? (int64_t)row[j] : 0) -
                                w->acknowledged[k][j];
            // When the cluster ends, servers do not learn of the last moves. A server
            // that counts as dead keeps the rows that it had.
            bool over = member_over(shard_member(s), NULL) != 0;
            if (over || w->stage.scheduler->phase == SCHEDULER_ENDING)
                continue;
            if (!member && row != NULL)
                failed(w, "key %u of partition %u lies on server %u, which it is not of",
                       k, r->partition, i);
            if (member && !is_same(row, good))
                failed(w, "key %u of partition %u differs on server %u, a replica", k,
                       r->partition, i);
        }
    }
}

static void check_partition(struct world *w, uint32_t partition)
{
    struct rest r = {.w = w, .partition = partition};
    for (uint32_t i = 0; i < w->n_workers; i++)
        for (uint32_t j = 0; j < w->workers[i].next && r.n < MAX_LOOSE; j++)
            if (is_loose(&w->workers[i], &w->workers[i].ops[j]) &&
                touches(w, &w->workers[i].ops[j], partition))
                r.loose[r.n++] = &w->workers[i].ops[j];
    read_rows(w, &r);
    int64_t more = 0, less = 0;
    for (int k = 0; k < KEYS; k++)
        for (int j = 0; j < WIDTH; j++)
            *(r.left[k][j] > 0 ? &more : &less) += r.left[k][j];
    if (!is_a_sum(&r, 0))
        failed(w,
               "partition %u: the sums are %lld too high and %lld too low, which no part "
               "of the %u pushes that dead workers had in flight explains",
               partition, (long long)more, (long long)-less, r.n);
}

void world_check_rows(struct world *w)
{
    if (w->stage.scheduler->roster.epoch == 0)
        return;
    for (uint32_t k = 0; k < PARTITIONS; k++)
        check_partition(w, k);
}
