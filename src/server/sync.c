// Batches of sync tables: contributions are kept until a batch is complete, then added
// key by key in the order of the tree, and applied once.
//
// What can fail, fails when a contribution comes: its rows are made, and memory for
// adding is there, before it is acknowledged. Applying a batch cannot fail. (Rows of a
// table by configuration may go before the batch is applied, and are made then: see
// sync_store.c.)
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "server/bf16.h"
#include "server/shard_internal.h"
#include "table/tree_sum.h"

enum { ROWS_STRIP = 256 }; // rows that are updated together

static_assert((int)TREE_LEAVES == (int)SHARD_MICROS, "parts of a batch");

// Memory for adding contributions up, partition by partition.
struct sync_scratch {
    size_t keys;       // of a partition, in all contributions
    size_t width;      // floats of a key
    uint32_t *seen;    // hash table of handles: number of the key + 1; 4 places a key
    uint32_t *handles; // of each distinct key
    uint16_t *has;     // which contributions have it, as bits
    uint32_t *at;      // and where: SHARD_MICROS for each key
    float *sums;       // SHARD_MICROS + 1 values
};

void sync_scratch_free(struct sync_scratch *x)
{
    if (x == NULL)
        return;
    mem_free(x->seen);
    mem_free(x->handles);
    mem_free(x->has);
    mem_free(x->at);
    mem_free(x->sums);
    mem_free(x);
}

static int reserve(struct shard *s, size_t keys, size_t width)
{
    struct sync_scratch *old = s->sync;
    if (old != NULL && keys <= old->keys && width <= old->width)
        return 0;
    struct sync_scratch *x = mem_zalloc(sizeof(*x));
    if (x == NULL)
        return TUG_ENOMEM;
    x->keys = sync_places(old != NULL && old->keys > keys ? old->keys : keys);
    x->width = old != NULL && old->width > width ? old->width : width;
    x->seen = mem_array(sync_places(x->keys), sizeof(*x->seen));
    x->handles = mem_array(x->keys, sizeof(*x->handles));
    x->has = mem_array(x->keys, sizeof(*x->has));
    x->at = mem_array(x->keys, SHARD_MICROS * sizeof(*x->at));
    x->sums = mem_array((SHARD_MICROS + 1) * x->width, sizeof(*x->sums));
    if (x->seen == NULL || x->handles == NULL || x->has == NULL || x->at == NULL ||
        x->sums == NULL) {
        sync_scratch_free(x);
        return TUG_ENOMEM;
    }
    sync_scratch_free(old);
    s->sync = x;
    return 0;
}

// Contributions.

static void contribution_free(struct shard *s, struct contribution *c)
{
    if (c == NULL)
        return;
    if (c->kept != NULL)
        van_unkeep(s->van, c->kept);
    budget_give(s->o.budget, BUDGET_HELD, c->counted);
    mem_free(c->handles);
    mem_free(c->keys);
    mem_free(c->runs);
    mem_free(c->converted);
    mem_free(c);
}

void sync_drop(struct shard *s, struct shard_table *t)
{
    for (uint32_t i = 0; i < SHARD_MAX_CLOCKS; i++) {
        struct sync_batch *b = &t->sync.open[i];
        for (uint32_t p = 0; p < b->n; p++)
            contribution_free(s, b->parts[p].what);
        *b = (struct sync_batch){0};
    }
    t->stuck.code = 0;
    t->n_applied = 0;
}

static int keep_values(struct shard *s, struct request *q, struct contribution *c,
                       const struct push_values *v)
{
    size_t floats = (size_t)c->n * v->width;
    c->values = v->data;
    if (c->n == 0)
        return 0;
    if (v->bf16) {
        c->converted = mem_array(floats, sizeof(float));
        if (c->converted == NULL)
            return TUG_ENOMEM;
        bf16_to_n(c->converted, v->data, floats);
        c->values = c->converted;
    } else if (q->fresh != NULL) {
        c->kept = van_keep(s->van, q->fresh);
        if (c->kept == NULL)
            return TUG_ENOMEM;
    } else { // it is kept already, and belongs to the contribution from now on
        c->kept = q->kept;
        q->kept = NULL;
    }
    return 0;
}

// What it changes: rows that are made now; or, of a store, keys.
static int keep_keys(struct shard *s, struct shard_table *t, struct contribution *c,
                     const struct keys *k, struct err *e)
{
    if (k->n == 0)
        return 0;
    if (t->store != NULL)
        c->keys = mem_array(k->n, sizeof(*c->keys));
    else
        c->handles = mem_array(k->n, sizeof(*c->handles));
    if (c->keys == NULL && c->handles == NULL)
        return err_nomem(e, "a contribution to a batch");
    if (t->store == NULL)
        return push_rows(s, t, k->key, k->n, c->handles, e);
    memcpy(c->keys, k->key, k->n * sizeof(*c->keys));
    return 0;
}

static int contribution_count(struct shard *s, const struct shard_table *t,
                              struct contribution *c, const struct push_values *v,
                              struct err *e)
{
    uint64_t bytes = sizeof(*c) + ((uint64_t)c->n_runs + 1) * sizeof(*c->runs) +
                     (uint64_t)c->n * v->width * sizeof(float) +
                     c->n * (t->store != NULL ? sizeof(*c->keys) : sizeof(*c->handles));
    if (!budget_take(s->o.budget, BUDGET_HELD, bytes))
        return err_set(e, TUG_EIO,
                       VAN_NO_ROOM " for %llu bytes of a batch that others' parts are "
                                   "awaited for (--memory)",
                       (unsigned long long)bytes);
    c->counted = bytes;
    return 0;
}

static int contribution_make(struct shard *s, struct request *q, struct shard_table *t,
                             const struct keys *k, const struct push_values *v,
                             struct contribution **ret, struct err *e)
{
    const struct msg_push *m = &q->m->push;
    struct contribution *c = mem_zalloc(sizeof(*c));
    *ret = c;
    if (c == NULL)
        return err_nomem(e, "a contribution to a batch");
    *c = (struct contribution){.n = k->n,
                               .n_runs = k->n_runs,
                               .longest = k->longest,
                               .examples = m->examples,
                               .rate = m->rate,
                               .pass = m->pass,
                               .again = v->again};
    TRY(contribution_count(s, t, c, v, e));
    size_t runs = (size_t)k->n_runs + 1;
    c->runs = mem_array(runs, sizeof(*c->runs));
    if (c->runs == NULL)
        return err_nomem(e, "a contribution to a batch");
    memcpy(c->runs, k->runs, runs * sizeof(*c->runs));
    TRY(keep_keys(s, t, c, k, e));
    if (keep_values(s, q, c, v) != 0)
        return err_nomem(e, "a contribution to a batch");
    return 0;
}

// Applying a batch.

// What waits to be updated together.
struct strip {
    struct shard *s;
    struct shard_table *t;
    struct push_values v; // of all of them: rate, pass, scale
    size_t n, max;
    uint32_t handles[ROWS_STRIP];
    float *rows[ROWS_STRIP];
    float *values;
};

static void flush(struct strip *x)
{
    x->v.data = x->values;
    before_add(&x->t->before, &x->t->spec.accessor, x->handles, x->rows, x->n);
    push_apply(x->s, x->t, &x->v, 0, x->rows, x->n);
    x->n = 0;
}

// Room for the values of one more row.
static float *strip_add(struct strip *x, uint32_t handle)
{
    if (x->n == x->max)
        flush(x);
    x->handles[x->n] = handle;
    x->rows[x->n] = table_row(table_slabs(x->t->rows), handle);
    return x->values + x->n++ * x->v.width;
}

// A run that no other contribution shares, from where it lies.
static void apply_run(struct strip *x, const struct contribution *c, uint32_t begin,
                      uint32_t end)
{
    struct table_slabs slabs = table_slabs(x->t->rows);
    struct push_values v = x->v;
    float *rows[ROWS_STRIP];
    v.data = c->values;
    for (uint32_t at = begin, n; at < end; at += n) {
        n = end - at < ROWS_STRIP ? end - at : ROWS_STRIP;
        for (uint32_t i = 0; i < n; i++)
            rows[i] = table_row(slabs, c->handles[at + i]);
        before_add(&x->t->before, &x->t->spec.accessor, c->handles + at, rows, n);
        push_apply(x->s, x->t, &v, at, rows, n);
    }
}

// The number of a row among the distinct ones of a partition; n: it is new.
static uint32_t number_of(struct sync_scratch *x, size_t mask, uint32_t handle,
                          uint32_t n)
{
    size_t at = handle * 0x9e3779b1u & mask;
    for (; x->seen[at] != 0; at = (at + 1) & mask)
        if (x->handles[x->seen[at] - 1] == handle)
            return x->seen[at] - 1;
    x->seen[at] = n + 1;
    return n;
}

struct merge {
    const struct sync_batch *batch;
    uint32_t run[SHARD_MICROS]; // of each contribution, the next one
};

static const struct contribution *part(const struct merge *m, uint32_t i)
{
    return m->batch->parts[i].what;
}

// The least partition that comes next; UINT32_MAX at the end (that of the last run).
static uint32_t next_partition(const struct merge *m)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < m->batch->n; i++) {
        uint32_t p = part(m, i)->runs[m->run[i]].partition;
        least = p < least ? p : least;
    }
    return least;
}

// The values that contributions have for the key, added up.
static void add_up(const struct strip *x, const struct merge *m, const uint32_t *at,
                   uint32_t has, float *ret)
{
    float *sums = x->s->sync->sums, *values[SHARD_MICROS];
    uint8_t first[SHARD_MICROS];
    size_t width = x->v.width, n = 0;
    for (; has != 0; has &= has - 1, n++) {
        uint32_t i = (uint32_t)__builtin_ctz(has);
        const float *from = part(m, i)->values + at[i] * width;
        first[n] = m->batch->parts[i].micro;
        values[n] = n == 0 ? ret : sums + n * width;
        memcpy(values[n], from, width * sizeof(float));
    }
    tree_sum(x->t->scratch.kernels, first, values, n, width);
}

// Adds up the runs of one partition, contributions in `in`.
static void merge_partition(struct strip *x, const struct merge *m, uint32_t in)
{
    struct sync_scratch *y = x->s->sync;
    size_t keys = 0;
    uint32_t n = 0;
    for (uint32_t left = in; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(left);
        const struct key_run *run = &part(m, i)->runs[m->run[i]];
        keys += run[1].begin - run->begin;
    }
    size_t mask = sync_places(keys) - 1;
    memset(y->seen, 0, (mask + 1) * sizeof(*y->seen));
    for (uint32_t left = in; left != 0; left &= left - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(left);
        const struct contribution *c = part(m, i);
        const struct key_run *run = &c->runs[m->run[i]];
        for (uint32_t k = run->begin; k < run[1].begin; k++) {
            uint32_t key = number_of(y, mask, c->handles[k], n);
            if (key == n) {
                y->handles[n] = c->handles[k];
                y->has[n++] = 0;
            }
            y->has[key] |= (uint16_t)(1u << i);
            y->at[(size_t)key * SHARD_MICROS + i] = k;
        }
    }
    for (uint32_t k = 0; k < n; k++)
        add_up(x, m, y->at + (size_t)k * SHARD_MICROS, y->has[k],
               strip_add(x, y->handles[k]));
}

static void apply_partition(struct strip *x, struct merge *m, uint32_t partition)
{
    uint32_t in = 0;
    for (uint32_t i = 0; i < m->batch->n; i++)
        in |= (uint32_t)(part(m, i)->runs[m->run[i]].partition == partition) << i;
    if ((in & (in - 1)) == 0) {
        uint32_t i = (uint32_t)__builtin_ctz(in);
        const struct key_run *run = &part(m, i)->runs[m->run[i]];
        apply_run(x, part(m, i), run->begin, run[1].begin);
    } else {
        merge_partition(x, m, in);
    }
    for (; in != 0; in &= in - 1)
        m->run[__builtin_ctz(in)]++;
    x->t->changed_at[partition] = x->t->version;
}

static float scale_of(const struct shard_table *t, uint64_t examples)
{
    if (!t->spec.mean || examples == 0 ||
        t->spec.accessor.groups[0].rule.kind == RULE_SUM)
        return 1;
    return 1 / (float)examples;
}

static uint64_t examples_of(const struct sync_batch *b)
{
    uint64_t examples = 0;
    for (uint32_t i = 0; i < b->n; i++)
        examples += ((const struct contribution *)b->parts[i].what)->examples;
    return examples;
}

static void apply_rows(struct shard *s, struct shard_table *t)
{
    struct merge m = {.batch = sync_clock_next(&t->sync)};
    uint32_t width = t->spec.accessor.push_width;
    uint64_t examples = examples_of(m.batch);
    size_t max = s->max_strip / width;
    struct strip x = {.s = s,
                      .t = t,
                      .v = {.op = WIRE_GRADIENT,
                            .width = width,
                            .rate = part(&m, 0)->rate,
                            .pass = part(&m, 0)->pass,
                            .scale = scale_of(t, examples)},
                      .max = max < ROWS_STRIP ? max : ROWS_STRIP,
                      .values = s->strip};
    t->version++;
    before_begin(&t->before);
    for (uint32_t p; (p = next_partition(&m)) != UINT32_MAX;)
        apply_partition(&x, &m, p);
    flush(&x);
}

static void apply_next(struct shard *s, struct shard_table *t)
{
    struct sync_batch *b = sync_clock_next(&t->sync);
    if (t->store == NULL)
        apply_rows(s, t);
    else if (sync_store_apply(s, t) != 0)
        return;
    t->figures.examples += examples_of(b);
    for (uint32_t i = 0; i < b->n; i++)
        contribution_free(s, b->parts[i].what);
    sync_clock_advance(&t->sync);
    held_wake(s, WANTS_BATCH);
    saves_look(s);
}

void sync_apply(struct shard *s, struct shard_table *t)
{
    t->stuck.code = 0;
    while (t->stuck.code == 0 && sync_clock_complete(&t->sync) &&
           !saves_stop_batch(s, t) && !held_order(s, t))
        apply_next(s, t);
    if (t->stuck.code == 0)
        return;
    t->again = true;
    turns_wake(s);
}

// Pushes.

// Memory to add up the batch when this contribution is in, too.
static int reserve_batch(struct shard *s, struct shard_table *t, uint64_t clock,
                         const struct keys *k)
{
    const struct sync_batch *b = &t->sync.open[clock % SHARD_MAX_CLOCKS];
    size_t keys = k->longest;
    if (t->store != NULL)
        return sync_store_reserve(s, t, clock, k);
    for (uint32_t i = 0; i < b->n; i++)
        keys += ((const struct contribution *)b->parts[i].what)->longest;
    return reserve(s, keys, t->spec.accessor.push_width);
}

static bool all_applied(const struct repeats_push *known, const struct keys *k)
{
    for (uint32_t r = 0; r < k->n_runs; r++)
        if (!repeats_applied(known, k->runs[r].partition))
            return false;
    return k->n_runs > 0;
}

static int take(struct shard *s, struct request *q, struct shard_table *t,
                const struct keys *k, const struct push_values *v, struct err *e)
{
    const struct msg_push *m = &q->m->push;
    struct repeats_id id = {m->id_pass, m->id_piece, t->spec.id, m->id_group};
    struct repeats_push known = {0};
    void *dropped[SHARD_MICROS];
    struct contribution *c;
    if (!s->o.without_repeat_check)
        TRY(repeats_begin(s->repeats, m->session, m->number, m->low, t->spec.space, &id,
                          &known, e));
    if (sync_clock_has(&t->sync, m->clock, m->micro, m->micros) ||
        all_applied(&known, k)) {
        t->figures.repeats++;
        return 0;
    }
    if (reserve_batch(s, t, m->clock, k) != 0)
        return err_nomem(e, "a batch");
    int rc = contribution_make(s, q, t, k, v, &c, e);
    if (rc != 0) {
        contribution_free(s, c);
        return rc;
    }
    uint32_t n = sync_clock_add(&t->sync, m->clock, m->micro, m->micros, c, dropped);
    for (uint32_t i = 0; i < n; i++)
        contribution_free(s, dropped[i]);
    for (uint32_t r = 0; r < k->n_runs; r++)
        repeats_note(&known, k->runs[r].partition);
    t->figures.pushes++;
    t->figures.pushed_keys += k->n;
    return 0;
}

enum outcome sync_push(struct shard *s, struct request *q, struct shard_table *t,
                       const struct keys *k, const struct push_values *v)
{
    const struct msg_push *m = &q->m->push;
    struct err e = {0};
    int rc = sync_clock_check(&t->sync, m->clock, m->micro, m->micros, &e);
    if (rc == 0 && (m->flags & WIRE_ALSO_PULL))
        rc = err_set(&e, TUG_EUSAGE,
                     "it asks for rows, which change when its batch is "
                     "complete: pull them then");
    if (rc == 0)
        rc = push_check(s, t, k, v, &e);
    if (rc == 0)
        rc = take(s, q, t, k, v, &e);
    if (rc != 0)
        return shard_refuse_keys(s, q, "push", t, &e);
    sync_apply(s, t);
    if (s->o.max_bytes != 0)
        tables_measure(s, t);
    shard_ok(s, q, t->sync.next);
    return ANSWERED;
}
