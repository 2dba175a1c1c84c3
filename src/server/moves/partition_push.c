// The record of a push to a partition: see partition.h.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "server/moves/record.h"
#include "server/moves/stream.h"
#include "server/rows/push.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

struct push_head {
    uint64_t table, op, again, n;
    // The table's step at the source, on which the schedule of its learning rate depends.
    uint64_t step;
    float rate, pass, scale, none;
};

static enum wire_op op_of(enum store_op op)
{
    static const enum wire_op ops[] = {[STORE_GRADIENT] = WIRE_GRADIENT,
                                       [STORE_ASSIGN] = WIRE_ASSIGN,
                                       [STORE_ROW] = WIRE_ROW,
                                       [STORE_DELTA] = WIRE_DELTA};
    return ops[op];
}

uint32_t partition_push_width(const struct shard_table *t, const struct store_push *p)
{
    return spec_value_width(&t->spec, op_of(p->op));
}

size_t partition_push_bytes(size_t n, size_t width)
{
    return sizeof(struct push_head) + n * sizeof(uint64_t) +
           (n * width * sizeof(float) + STREAM_ALIGN - 1) / STREAM_ALIGN * STREAM_ALIGN;
}

int partition_add_push(const struct shard_table *t, const struct store_push *p,
                       size_t first, size_t n, struct buf *to)
{
    size_t width = partition_push_width(t, p);
    struct push_head h = {.table = t->spec.id,
                          .op = p->op,
                          .again = p->again,
                          .n = n,
                          .step = store_step_of(t->store),
                          .rate = p->rate,
                          .pass = p->pass,
                          .scale = p->scale};
    TRY(stream_add(to, &h, sizeof(h)));
    TRY(stream_add(to, p->keys + first, n * sizeof(*p->keys)));
    return stream_add(to, p->values + first * width, n * width * sizeof(float));
}

bool record_keys_fit(const struct shard_table *t, uint32_t partition,
                     const uint64_t *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (store_partition(t->store, keys[i]) != partition)
            return false;
    return true;
}

// Applies a push that the other shard has applied. The push is not looked up in this
// shard's records of applied pushes, because pushes to other partitions may have raised
// the low-water marks beyond it. The learning rate is that of the table's step at the
// other shard, because this shard may have counted fewer or more steps.
int partition_put_push(struct shard *s, enum wire_space space, uint32_t partition,
                       const void *bytes, size_t n_bytes, struct err *e)
{
    struct stream x = {bytes, n_bytes, 0};
    struct push_head h;
    const void *head = stream_take(&x, 1, sizeof(h));
    if (head == NULL)
        return stream_damaged(e);
    memcpy(&h, head, sizeof(h));
    struct shard_table *t = h.table < SPEC_MAX_TABLES ? s->tables[h.table] : NULL;
    if (t == NULL || t->spec.space != space || !store_owns(t->store, partition) ||
        h.op > STORE_DELTA || h.n == 0 || h.n > KEYS_MAX)
        return stream_damaged(e);
    uint32_t n = (uint32_t)h.n, width = spec_value_width(&t->spec, op_of(h.op));
    const uint64_t *keys = stream_take(&x, n, sizeof(*keys));
    const float *values = stream_take(&x, n, width * sizeof(*values));
    struct key_run runs[2] = {{partition, 0}, {UINT32_MAX, n}};
    struct keys k = {.key = keys, .n = n, .runs = runs, .n_runs = 1, .longest = n};
    struct push_values v = {.op = op_of(h.op), .data = values, .width = width};
    if (keys == NULL || values == NULL || x.at != x.n || !isfinite(h.rate) ||
        !isfinite(h.pass) || !isfinite(h.scale) ||
        !record_keys_fit(t, partition, keys, n) ||
        ((v.op == WIRE_ROW || v.op == WIRE_DELTA) && !store_has_whole_rows(t->store)))
        return stream_damaged(e);
    TRY(push_check(s, t, &k, &v, e));
    struct store_push p = {.op = (enum store_op)h.op,
                           .keys = keys,
                           .n = n,
                           .values = values,
                           .rate = h.rate,
                           .pass = h.pass,
                           .scale = h.scale,
                           .again = h.again != 0};
    uint64_t step = store_step_of(t->store);
    tables_limit(s, t);
    if (!bug_in(s->o.member.bugs, WITHOUT_STEPS_OF_PUSHES))
        store_set_step(t->store, h.step);
    int rc = store_push(t->store, &p, NULL, e);
    // A backup that is the last member of a chain may fill another loop.
    if (rc == 0 && s->moves.out != NULL)
        moves_note(s, t, &p, n);
    store_set_step(t->store, step);
    return rc;
}
