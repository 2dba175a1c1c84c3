// Encodes a partition's state of batches for a move: the parts of open batches, with the
// keys of this partition only, and the rows before the last batch. A part without keys
// here counts too, because the mean divides by its examples.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/clocks/sync_group.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "server/clocks/sync.h"
#include "server/clocks/sync_sum.h"
#include "server/moves/stream.h"
#include "server/rows/push.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

enum group_bits { GROUP_BEGUN = 1, GROUP_TOLD = 2, GROUP_LOST = 4 };

struct group_head {
    // bits: enum group_bits; before: number of copies of rows from before the last batch.
    uint64_t next, bits, before;
};

struct part_head {
    uint64_t examples, micro, micros, again, n;
    float rate, pass;
};

// ---------------------------------------------------------------- writing

static int get_part(const struct shard_table *t, uint32_t partition,
                    const struct sync_part *p, struct buf *to)
{
    const struct contribution *c = p->what;
    size_t width = t->spec.accessor.push_width;
    uint32_t run = contribution_run(c, partition);
    bool has = run < c->n_runs && !t->unbacked;
    uint32_t begin = has ? c->runs[run].begin : 0;
    uint32_t n = has ? c->runs[run + 1].begin - begin : 0;
    struct part_head head = {c->examples, p->micro, p->micros, c->again,
                             n,           c->rate,  c->pass};
    TRY(stream_add(to, &head, sizeof(head)));
    if (n == 0)
        return 0;
    TRY(stream_add(to, c->keys + begin, n * sizeof(*c->keys)));
    return stream_add(to, c->values + begin * width, n * width * sizeof(float));
}

static int get_batch(const struct shard_table *t, uint32_t partition,
                     const struct sync_batch *b, struct buf *to)
{
    uint64_t n = b->n;
    TRY(stream_add_u64s(to, &n, 1));
    for (uint32_t i = 0; i < b->n; i++)
        TRY(get_part(t, partition, &b->parts[i], to));
    return 0;
}

static int get_before(const struct shard_table *t, uint32_t partition,
                      const struct previous *b, uint64_t n, struct buf *to)
{
    uint32_t width = t->spec.accessor.pull_width;
    for (size_t i = 0; i < b->n && n > 0; i++)
        if (store_partition(t->store, b->keys[i]) == partition) {
            TRY(stream_add_u64s(to, &b->keys[i], 1));
            TRY(stream_add(to, b->values + i * width, width * sizeof(float)));
        }
    return 0;
}

static uint64_t count_before(const struct shard_table *t, uint32_t partition,
                             const struct previous *b)
{
    uint64_t n = 0;
    for (size_t i = 0; i < b->n && !b->lost && !t->unbacked; i++)
        n += store_partition(t->store, b->keys[i]) == partition;
    return n;
}

int sync_group_get(const struct shard_table *t, uint32_t partition, struct buf *to)
{
    static const struct sync_batch none;
    const struct sync_group *g = sync_group_of(t, partition);
    // A batch that is stuck in later partitions may have been applied in this partition.
    bool applied = g == &t->sync && partition < t->n_applied;
    bool told = g->told && (!t->fixed_keys || sync_has_keys(t, partition));
    struct group_head head = {g->clock.next + applied,
                              (g->begun && !applied ? GROUP_BEGUN : 0) |
                                  (told ? GROUP_TOLD : 0) |
                                  (g->before.lost ? GROUP_LOST : 0),
                              count_before(t, partition, &g->before)};
    TRY(stream_add(to, &head, sizeof(head)));
    TRY(get_before(t, partition, &g->before, head.before, to));
    for (uint64_t c = head.next; c < head.next + SHARD_MAX_CLOCKS; c++) {
        bool open = told && c < g->clock.next + SHARD_MAX_CLOCKS;
        TRY(get_batch(t, partition, open ? &g->clock.open[c % SHARD_MAX_CLOCKS] : &none,
                      to));
    }
    return 0;
}

// ---------------------------------------------------------------- reading

static bool are_of(const struct shard_table *t, uint32_t partition, const uint64_t *keys,
                   uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (store_partition(t->store, keys[i]) != partition)
            return false;
    return true;
}

int sync_group_check_part(struct shard *s, const struct shard_table *t,
                          uint32_t partition, float rate, float pass,
                          const uint64_t *keys, const float *values, uint32_t n,
                          struct err *e)
{
    struct key_run runs[2] = {{partition, 0}, {UINT32_MAX, n}};
    struct keys k = {.key = keys, .n = n, .runs = runs, .n_runs = n > 0, .longest = n};
    struct push_values v = {.op = WIRE_GRADIENT,
                            .data = values,
                            .width = t->spec.accessor.push_width,
                            .rate = rate,
                            .pass = pass};
    if (n == 0)
        k.runs = runs + 1;
    if (!isfinite(rate) || !isfinite(pass) || !are_of(t, partition, keys, n))
        return stream_damaged(e);
    return push_check(s, t, &k, &v, e);
}

static int put_part(struct shard *s, struct shard_table *t, struct sync_group *g,
                    uint64_t clock, struct stream *x, struct err *e)
{
    const struct part_head *h = stream_take(x, 1, sizeof(*h));
    size_t width = t->spec.accessor.push_width;
    struct contribution *c, like;
    void *replaced[SHARD_MICROS];
    if (h == NULL || h->n > KEYS_MAX || h->micro > SHARD_MICROS ||
        h->micros > SHARD_MICROS ||
        sync_clock_check(clock, (uint8_t)h->micro, (uint8_t)h->micros, NULL) != 0)
        return stream_damaged(e);
    uint8_t micro = (uint8_t)h->micro, micros = (uint8_t)h->micros;
    // The parts of a batch are disjoint.
    uint32_t covered = g->clock.open[clock % SHARD_MAX_CLOCKS].covered;
    if ((covered & (((1u << micros) - 1) << micro)) != 0)
        return stream_damaged(e);
    const uint64_t *keys = stream_take(x, h->n, sizeof(*keys));
    const float *values = stream_take(x, h->n, width * sizeof(*values));
    if (keys == NULL || values == NULL)
        return stream_damaged(e);
    TRY(sync_group_check_part(s, t, g->partition, h->rate, h->pass, keys, values,
                              (uint32_t)h->n, e));
    like = (struct contribution){.n = (uint32_t)h->n,
                                 .keys = (uint64_t *)(uintptr_t)keys,
                                 .values = values,
                                 .examples = h->examples,
                                 .rate = h->rate,
                                 .pass = h->pass,
                                 .again = h->again != 0};
    TRY(contribution_make(s, &like, g->partition, width, &c, e));
    (void)sync_clock_add(&g->clock, clock, micro, micros, c, replaced);
    return 0;
}

static int put_before(const struct shard_table *t, struct sync_group *g,
                      const struct group_head *h, struct stream *x, struct err *e)
{
    uint32_t width = t->spec.accessor.pull_width;
    for (uint64_t i = 0; i < h->before; i++) {
        const uint64_t *key = stream_take(x, 1, sizeof(*key));
        const float *from = stream_take(x, width, sizeof(*from));
        if (key == NULL || from == NULL || !are_of(t, g->partition, key, 1))
            return stream_damaged(e);
        float *values = previous_take(&g->before, width, key, 1);
        if (values == NULL)
            return err_nomem(e, "the rows before a batch");
        memcpy(values, from, width * sizeof(float));
    }
    g->before.lost = (h->bits & GROUP_LOST) != 0;
    return 0;
}

static int put_group(struct shard *s, struct shard_table *t, struct sync_group *g,
                     struct stream *x, struct err *e)
{
    const struct group_head *h = stream_take(x, 1, sizeof(*h));
    if (h == NULL || sync_clock_check_number(h->next, NULL) != 0)
        return stream_damaged(e);
    g->clock.next = h->next;
    g->begun = (h->bits & GROUP_BEGUN) != 0;
    g->told = (h->bits & GROUP_TOLD) != 0;
    TRY(put_before(t, g, h, x, e));
    for (uint64_t c = h->next; c < h->next + SHARD_MAX_CLOCKS; c++) {
        uint64_t n;
        if (!stream_u64s(x, &n, 1) || n > SHARD_MICROS)
            return stream_damaged(e);
        for (uint64_t i = 0; i < n; i++)
            TRY(put_part(s, t, g, c, x, e));
    }
    TRY(sync_group_reserve(s, t, e));
    return sync_reserve_group(s, t, g) == 0 ? 0 : err_nomem(e, "a batch");
}

int sync_group_await(struct shard *s, struct shard_table *t, uint32_t partition,
                     struct err *e)
{
    struct sync_group *g = mem_zalloc(sizeof(*g));
    if (g == NULL || sync_group_reserve(s, t, e) != 0) {
        mem_free(g);
        return err_nomem(e, "the batches of a partition");
    }
    g->partition = partition;
    sync_arrive(s, t, g);
    return 0;
}

int sync_group_put(struct shard *s, struct shard_table *t, uint32_t partition,
                   struct stream *x, struct sync_group **ret, struct err *e)
{
    struct sync_group *g = mem_zalloc(sizeof(*g));
    *ret = NULL;
    if (g == NULL)
        return err_nomem(e, "the batches of a partition");
    g->partition = partition;
    int rc = put_group(s, t, g, x, e);
    if (rc != 0)
        sync_group_free(s, g);
    else
        *ret = g;
    return rc;
}
