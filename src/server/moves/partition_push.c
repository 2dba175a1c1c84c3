// Pushes that another shard has applied: see partition.h.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
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

static_assert(sizeof(struct push_head) == PARTITION_PUSH_HEAD, "see partition.h");

void partition_write_head(const struct shard_table *t, const struct store_push *p,
                          uint64_t n, char *to)
{
    struct push_head h = {.table = t->spec.id,
                          .op = p->op,
                          .again = p->again,
                          .n = n,
                          .step = store_step_of(t->store),
                          .rate = p->rate,
                          .pass = p->pass,
                          .scale = p->scale};
    memcpy(to, &h, sizeof(h));
}

int partition_add_push(const struct shard_table *t, const struct store_push *p,
                       size_t first, size_t n, struct buf *to)
{
    size_t width = partition_push_width(t, p);
    char head[PARTITION_PUSH_HEAD];
    partition_write_head(t, p, n, head);
    TRY(stream_add(to, head, sizeof(head)));
    TRY(stream_add(to, p->keys + first, n * sizeof(*p->keys)));
    return stream_add(to, p->values + first * width, n * width * sizeof(float));
}

int partition_read_head(const struct shard *s, enum wire_space space, const void *bytes,
                        struct partition_push *ret, struct err *e)
{
    struct push_head h;
    memcpy(&h, bytes, sizeof(h));
    struct shard_table *t = h.table < SPEC_MAX_TABLES ? s->tables[h.table] : NULL;
    if (t == NULL || t->spec.space != space || h.op > STORE_DELTA || h.n > KEYS_MAX ||
        !isfinite(h.rate) || !isfinite(h.pass) || !isfinite(h.scale) ||
        (h.op >= STORE_ROW && !store_has_whole_rows(t->store)))
        return stream_damaged(e);
    *ret = (struct partition_push){.t = t,
                                   .width = spec_value_width(&t->spec, op_of(h.op)),
                                   .n = h.n,
                                   .step = h.step,
                                   .p = {.op = (enum store_op)h.op,
                                         .rate = h.rate,
                                         .pass = h.pass,
                                         .scale = h.scale,
                                         .again = h.again != 0}};
    return 0;
}

static int check_keys(struct shard *s, const struct partition_push *x,
                      const struct keys *k, const float *values, struct err *e)
{
    struct push_values v = {.op = op_of(x->p.op), .data = values, .width = x->width};
    for (uint32_t i = 0; i < k->n_runs; i++) {
        uint32_t begin = k->runs[i].begin, n = k->runs[i + 1].begin - begin;
        if (n == 0 || !store_owns(x->t->store, k->runs[i].partition) ||
            !store_all_in(x->t->store, k->runs[i].partition, k->key + begin, n))
            return stream_damaged(e);
    }
    return push_check(s, x->t, k, &v, e);
}

// The push is not looked up in this shard's records of applied pushes, because pushes to
// other partitions may have raised the low-water marks beyond it. The learning rate is that
// of the table's step at the other shard, because this shard may have counted fewer or more
// steps.
int partition_put_keys(struct shard *s, struct partition_push *x, const struct keys *k,
                       const float *values, size_t *ret_keys, struct err *e)
{
    struct store *store = x->t->store;
    *ret_keys = 0;
    TRY(check_keys(s, x, k, values, e));
    x->p.keys = k->key;
    x->p.n = k->n;
    x->p.values = values;
    uint64_t step = store_step_of(store);
    tables_limit(s, x->t);
    if (!bug_in(s->o.member.bugs, WITHOUT_STEPS_OF_PUSHES))
        store_set_step(store, x->step);
    int rc = store_push(store, &x->p, ret_keys, e);
    // A backup that is the last member of a chain may fill another loop.
    if (s->moves.out != NULL)
        moves_note(s, x->t, &x->p, *ret_keys);
    store_set_step(store, step);
    return rc;
}

int partition_put_push(struct shard *s, enum wire_space space, uint32_t partition,
                       const void *bytes, size_t n_bytes, struct err *e)
{
    struct stream x = {bytes, n_bytes, 0};
    struct partition_push push;
    const void *head = stream_take(&x, 1, PARTITION_PUSH_HEAD);
    if (head == NULL)
        return stream_damaged(e);
    TRY(partition_read_head(s, space, head, &push, e));
    uint32_t n = (uint32_t)push.n;
    const uint64_t *keys = stream_take(&x, n, sizeof(*keys));
    const float *values = stream_take(&x, n, push.width * sizeof(*values));
    struct key_run runs[2] = {{partition, 0}, {UINT32_MAX, n}};
    struct keys k = {.key = keys, .n = n, .runs = runs, .n_runs = 1, .longest = n};
    size_t done;
    if (keys == NULL || values == NULL || x.at != x.n)
        return stream_damaged(e);
    return partition_put_keys(s, &push, &k, values, &done, e);
}
