// A second table of the simulated cluster, with policies: keys get rows late, and rows decay
// and are removed. Between their other requests workers push to it; worker 0 shrinks it and
// ends days. At the end all members of a chain have the same bits.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "sim/cluster.h"

#include "base/hash.h"
#include "base/random.h"
#include "store/store.h"

enum { POLICIES = TABLE + 1, POLICY_STREAM = 0x20, PACE = 25 };
#define POLICY_CONFIG                                                                    \
    "name=policies;accessor=ctr;dim=2;entry=count:2;decay=0.5;delete-threshold=1;"       \
    "embedx-threshold=3"

static uint64_t draw(struct worker *k, uint64_t n)
{
    return random_below(k->world->stage.o->seed, POLICY_STREAM + k->c.number,
                        k->policies.draws++, n);
}

static client_ts make(struct worker *k, struct err *e)
{
    struct table_config t = table_config_defaults();
    if (table_config_parse(&t, POLICY_CONFIG, e) != 0)
        return 0;
    return client_table(k->c.client, POLICIES, &t, e);
}

static client_ts push(struct worker *k, struct err *e)
{
    struct policy_line *l = &k->policies;
    const struct accessor *a = &client_spec(k->c.client, POLICIES)->accessor;
    uint64_t rate = 1 + draw(k, 6);
    size_t n = 0, width = a->push_width;
    for (uint32_t i = 0; i < KEYS; i++) {
        if (draw(k, 8) >= rate)
            continue;
        l->keys[n] = k->world->keys[i];
        for (size_t j = 0; j < width; j++)
            l->values[n * width + j] = (float)(1 + draw(k, 3));
        n++;
    }
    struct client_push p = {.table = POLICIES,
                            .keys = l->keys,
                            .n = n,
                            .values = l->values,
                            .op = WIRE_GRADIENT,
                            .rate = 1,
                            .pass = 1,
                            .examples = 1};
    return client_push(k->c.client, &p, e);
}

static void begin(struct worker *k)
{
    struct world *w = k->world;
    struct policy_line *l = &k->policies;
    struct err e = {0};
    uint64_t what = k->c.number == 0 ? draw(k, 8) : 7;
    if (!l->made)
        l->ts = make(k, &e);
    else if (what == 0)
        l->ts = client_shrink(k->c.client, POLICIES, NAN, NULL, &e);
    else if (what == 1)
        l->ts = client_day(k->c.client, POLICIES, &e);
    else
        l->ts = push(k, &e);
    if (l->ts == 0)
        world_went_wrong(k, TUG_EIO, "to begin a request about policies", &e);
    w->n_policies++;
}

void world_let_policies(struct worker *k)
{
    struct policy_line *l = &k->policies;
    struct err e;
    int rc = 0;
    if (l->ts == 0) {
        if (draw(k, PACE) == 0)
            begin(k);
        return;
    }
    e.code = 0;
    if (!client_done(k->c.client, l->ts, &rc, &e))
        return;
    l->ts = 0;
    l->made |= !world_went_wrong(k, rc, "a request about policies", &e);
}

struct seen {
    const struct accessor *accessor;
    uint64_t hash, rows;
};

static int see(void *ctx, uint64_t key, const float *row, const float *extra,
               struct err *e)
{
    struct seen *x = ctx;
    const struct accessor *a = x->accessor;
    (void)e;
    x->rows++;
    x->hash = hash_bytes(&key, sizeof(key), x->hash);
    for (uint32_t i = 0; i < a->width; i++) // without the handle of the extra row
        if (a->extra_width == 0 || i != a->extra)
            x->hash = hash_bytes(&row[i], sizeof(row[i]), x->hash);
    if (extra != NULL)
        x->hash = hash_bytes(extra, a->extra_width * sizeof(*extra), x->hash);
    return 0;
}

// Reads a server's rows of a partition.
static struct seen look(const struct world *w, uint32_t server, uint32_t partition)
{
    struct store *s = shards_store(shard_of(w, server), POLICIES);
    struct seen x = {0};
    struct err e;
    if (s == NULL || !store_owns(s, partition))
        return x;
    x.accessor = store_accessor(s);
    if (store_each(s, partition, see, &x, &e) != 0)
        x.rows = UINT64_MAX;
    return x;
}

static void check(struct world *w, uint32_t partition)
{
    const struct roster *r = &w->stage.scheduler->roster;
    struct seen first = {0};
    bool any = false;
    for (uint32_t i = 0; i < w->stage.n_servers; i++) {
        const struct member *m = shard_member(shard_of(w, i));
        if (!stage_is_there(&w->stage.servers[i]) || member_over(m, NULL) != 0)
            continue;
        struct seen x = look(w, i, partition);
        bool member = roster_is_member(r, WIRE_SPACE_SPARSE, partition, member_id(m));
        if (!member && x.rows != 0)
            failed(w,
                   "server %u has rows with policies of partition %u, which it is not of",
                   i, partition);
        if (member && any && (x.rows != first.rows || x.hash != first.hash))
            failed(w, "the rows with policies of partition %u differ on server %u",
                   partition, i);
        if (member)
            first = x;
        any |= member;
    }
}

void world_check_policies(struct world *w)
{
    const struct scheduler *s = w->stage.scheduler;
    for (uint32_t p = 0; p < PARTITIONS && s->roster.epoch != 0; p++)
        if (s->phase != SCHEDULER_ENDING)
            check(w, p);
}
