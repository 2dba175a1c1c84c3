// See peer_seen.h. All numbers are added in the order of ranks, so all workers get the
// same bits.
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/peer_seen.h"

#include "base/maths.h"
#include "cluster/roster.h"
#include "train_cluster/driver_internal.h"
#include "train_cluster/peer_agree.h"

enum { SUMS = 6, SUMS_MAX = LABELS_MAX * SUMS + 1 };

static int add_buckets(struct run *r, const struct metrics_stream *own,
                       struct metrics_stream *all, struct err *e)
{
    TRY(peer_reduce(r, WIRE_SUM, WIRE_F64, own->positive, METRICS_BUCKETS, all->positive,
                    e));
    return peer_reduce(r, WIRE_SUM, WIRE_F64, own->negative, METRICS_BUCKETS,
                       all->negative, e);
}

static void put_sums(const struct metrics_stream *m, double to[SUMS])
{
    to[0] = (double)m->examples;
    to[1] = m->weight;
    to[2] = m->loss - maths_log(m->likelihood);
    to[3] = m->predicted;
    to[4] = m->observed;
    to[5] = m->squares;
}

static void take_sums(struct metrics_stream *m, const double from[SUMS])
{
    m->examples = (uint64_t)from[0];
    m->weight = from[1];
    m->loss = from[2];
    m->predicted = from[3];
    m->observed = from[4];
    m->squares = from[5];
}

// Adds the sums of all labels. The last reduction also counts the workers, which shows if
// one has died during an earlier reduction.
static int add_sums(struct run *r, const struct peer_seen *own, struct peer_seen *all,
                    struct err *e)
{
    const struct roster *roster = member_roster(client_member(r->driver->remote.client));
    size_t n = (size_t)own->labels * SUMS + 1;
    double mine[SUMS_MAX], sums[SUMS_MAX];
    for (uint32_t k = 0; k < own->labels; k++)
        put_sums(&own->stream[k], mine + (size_t)k * SUMS);
    mine[n - 1] = 1;
    TRY(peer_reduce(r, WIRE_SUM, WIRE_F64, mine, n, sums, e));
    if (sums[n - 1] < roster->workers)
        return err_set(e, TUG_EIO,
                       "a worker has died or left while the results of a pass were added "
                       "up. The pass is not saved: start all workers again, from the "
                       "last save");
    for (uint32_t k = 0; k < own->labels; k++)
        take_sums(&all->stream[k], sums + (size_t)k * SUMS);
    return 0;
}

int peer_seen_add(struct run *r, const struct peer_seen *own, bool read_all,
                  struct peer_seen *all, struct err *e)
{
    const uint64_t mine[] = {own->examples, own->bad_lines};
    uint64_t counts[2];
    metrics_streams_clear(all->stream, own->labels);
    TRY(peer_reduce(r, read_all ? WIRE_MAX : WIRE_SUM, WIRE_U64, mine, 2, counts, e));
    for (uint32_t k = 0; k < own->labels; k++)
        TRY(add_buckets(r, &own->stream[k], &all->stream[k], e));
    all->examples = counts[0];
    all->bad_lines = counts[1];
    return add_sums(r, own, all, e);
}
