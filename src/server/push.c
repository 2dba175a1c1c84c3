// Pushes: checked as a whole, then applied batch by batch, straight from the receive
// buffer. A batch is made of whole runs, so that each partition gets all or nothing.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/finite.h"
#include "base/relaxed.h"
#include "server/bf16.h"
#include "server/shard_internal.h"

enum {
    ROWS_STRIP = BATCH, // rows that are updated together
    ROWS_AHEAD = 16,    // that are on their way into cache
};

// Values.

static int check_finite(const struct push_values *v, const struct keys *k, struct err *e)
{
    size_t n = (size_t)k->n * v->width;
    if (v->bf16 ? finite_bf16(v->data, n) : finite_floats(v->data, n))
        return 0;
    for (size_t i = 0; i < n; i++) {
        float x = v->bf16 ? bf16_to(((const uint16_t *)v->data)[i])
                          : ((const float *)v->data)[i];
        if (!isfinite(x))
            return err_set(e, TUG_EUSAGE, "value %zu of key %llu is not finite",
                           i % v->width, (unsigned long long)k->key[i / v->width]);
    }
    return 0;
}

// Counts divide: that a key did not occur, or less than not at all, is refused.
static int check_occurrences(const struct push_values *v, const struct keys *k,
                             struct err *e)
{
    const float *values = v->data;
    const uint16_t *halves = v->data;
    for (uint32_t i = 0; i < k->n; i++) {
        size_t at = (size_t)(i + 1) * v->width - 2;
        float occurrences = v->bf16 ? bf16_to(halves[at]) : values[at];
        float squares = v->bf16 ? bf16_to(halves[at + 1]) : values[at + 1];
        if (!(occurrences > 0) || !(squares >= 0))
            return err_set(
                e, TUG_EUSAGE, "key %llu is said to occur %g times, with squares of %g",
                (unsigned long long)k->key[i], (double)occurrences, (double)squares);
    }
    return 0;
}

static int read_values(struct push_values *ret, const struct shard_table *t,
                       const struct msg_push *m, struct err *e)
{
    *ret = (struct push_values){.op = (enum wire_op)m->op,
                                .bf16 = (m->flags & WIRE_BF16) != 0,
                                .again = (m->flags & WIRE_AGAIN) != 0,
                                .data = m->values.data,
                                .rate = m->rate,
                                .pass = m->pass,
                                .scale = 1};
    if (m->op > WIRE_DELTA)
        return err_set(e, TUG_EUSAGE, "its operation %u is not known", m->op);
    if (!isfinite(m->rate) || !isfinite(m->pass))
        return err_set(e, TUG_EUSAGE, "its rate or pass is not finite");
    if (m->op == WIRE_ROW && t->store != NULL)
        return err_set(e, TUG_EUSAGE, "rows of a table by configuration can't be set");
    ret->width = spec_value_width(&t->spec, ret->op);
    uint64_t bytes = (uint64_t)m->n * ret->width * (ret->bf16 ? 2 : 4);
    if (m->values.n != bytes)
        return err_set(e, TUG_EUSAGE,
                       "it carries %llu bytes of values, but %u keys of %u floats make "
                       "%llu",
                       (unsigned long long)m->values.n, m->n, ret->width,
                       (unsigned long long)bytes);
    return 0;
}

// Values of n rows into the rows' columns.
static void assign(const struct accessor *a, const float *values, float *const *rows,
                   size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t g = 0; g < a->n_groups; g++) {
            relaxed_store_n(rows[i] + a->groups[g].weights, values, a->groups[g].n);
            values += a->groups[g].n;
        }
}

// Adds n rows to rows.
static void add(const struct shard_table *t, const float *values, float *const *rows,
                size_t n)
{
    const struct kernels *k = t->scratch.kernels;
    uint32_t width = t->spec.accessor.width;
    for (size_t i = 0; i < n && i < ROWS_AHEAD; i++)
        table_row_prefetch(rows[i], width * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        if (i + ROWS_AHEAD < n)
            table_row_prefetch(rows[i + ROWS_AHEAD], width * sizeof(float));
        k->axpy(rows[i], 1, values + i * width, width);
    }
}

static void put(struct shard_table *t, const struct push_values *v,
                const struct rule_params *rules, const float *values, float *const *rows,
                size_t n)
{
    if (v->op == WIRE_GRADIENT) {
        accessor_apply_packed(&t->scratch, &(struct accessor_push){.rules = rules,
                                                                   .pass = v->pass,
                                                                   .scale = v->scale,
                                                                   .n = n,
                                                                   .rows = rows,
                                                                   .values = values});
    } else if (v->op == WIRE_ASSIGN) {
        assign(&t->spec.accessor, values, rows, n);
    } else if (v->op == WIRE_DELTA) {
        add(t, values, rows, n);
    } else {
        for (size_t i = 0; i < n; i++)
            relaxed_store_n(rows[i], values + i * v->width, v->width);
    }
}

void push_apply(struct shard *s, struct shard_table *t, const struct push_values *v,
                size_t first, float *const *rows, size_t n)
{
    struct rule_params rules[ACCESSOR_MAX_GROUPS];
    accessor_rules(&t->spec.accessor, v->rate, rules);
    if (!v->bf16) {
        put(t, v, rules, (const float *)v->data + first * v->width, rows, n);
        return;
    }
    size_t strip = v->width > 0 ? s->max_strip / v->width : n;
    for (size_t at = 0, len; at < n; at += len) {
        len = n - at < strip ? n - at : strip;
        bf16_to_n(s->strip, (const uint16_t *)v->data + (first + at) * v->width,
                  len * v->width);
        put(t, v, rules, s->strip, rows + at, len);
    }
}

// Rows.

int push_reserve(struct shard *s, size_t n)
{
    if (n <= s->max_handles)
        return 0;
    size_t max = n < BATCH ? BATCH : n;
    uint32_t *handles = mem_array(max, sizeof(*handles));
    if (handles == NULL)
        return TUG_ENOMEM;
    mem_free(s->handles);
    s->handles = handles;
    s->max_handles = max;
    return 0;
}

int push_rows(struct shard *s, struct shard_table *t, const uint64_t *keys, size_t n,
              uint32_t *ret_handles, struct err *e)
{
    bool full = s->o.max_bytes != 0 && s->bytes >= s->o.max_bytes;
    if (!full) {
        if (table_rows(t->rows, keys, n, ret_handles) != 0)
            return err_nomem(e, "rows");
        return 0;
    }
    table_find(t->rows, keys, n, ret_handles);
    for (size_t i = 0; i < n; i++)
        if (ret_handles[i] == TABLE_NONE)
            return err_set(e, TUG_ENOMEM,
                           "no room for the row of key %llu: rows take %llu of the %llu "
                           "bytes allowed",
                           (unsigned long long)keys[i], (unsigned long long)s->bytes,
                           (unsigned long long)s->o.max_bytes);
    return 0;
}

// Keys [begin, end) at once.
static int apply_batch(struct shard *s, struct shard_table *t,
                       const struct push_values *v, const struct keys *k, size_t begin,
                       size_t end, struct err *e)
{
    struct table_slabs slabs = table_slabs(t->rows);
    float *rows[ROWS_STRIP];
    TRY(push_rows(s, t, k->key + begin, end - begin, s->handles, e));
    for (size_t at = begin, n; at < end; at += n) {
        n = end - at < ROWS_STRIP ? end - at : ROWS_STRIP;
        for (size_t i = 0; i < n; i++)
            rows[i] = table_row(slabs, s->handles[at - begin + i]);
        push_apply(s, t, v, at, rows, n);
    }
    return 0;
}

uint32_t push_runs(const struct keys *k, uint32_t first, const struct repeats_push *known,
                   uint32_t max)
{
    uint32_t last = first + 1;
    while (last < k->n_runs && !repeats_applied(known, k->runs[last].partition) &&
           k->runs[last + 1].begin - k->runs[first].begin <= max)
        last++;
    return last;
}

void push_note(struct shard_table *t, const struct keys *k, uint32_t first, uint32_t last,
               const struct repeats_push *known)
{
    for (uint32_t r = first; r < last; r++) {
        repeats_note(known, k->runs[r].partition);
        t->changed_at[k->runs[r].partition] = t->version;
    }
}

// *ret_keys: how many were applied, also when it failed in between.
static int apply(struct shard *s, struct shard_table *t, const struct push_values *v,
                 const struct keys *k, const struct repeats_push *known, size_t *ret_keys,
                 struct err *e)
{
    *ret_keys = 0;
    t->version++;
    for (uint32_t r = 0, last; r < k->n_runs; r = last) {
        last = r + 1;
        if (repeats_applied(known, k->runs[r].partition)) {
            repeats_note(known, k->runs[r].partition);
            continue;
        }
        last = push_runs(k, r, known, BATCH);
        uint32_t begin = k->runs[r].begin, end = k->runs[last].begin;
        int rc = apply_batch(s, t, v, k, begin, end, e);
        if (rc != 0 && *ret_keys > 0)
            err_wrap(e, "%zu of %u keys were applied, then", *ret_keys, k->n);
        TRY(rc);
        push_note(t, k, r, last, known);
        *ret_keys += end - begin;
    }
    return 0;
}

int push_check(struct shard *s, const struct shard_table *t, const struct keys *k,
               const struct push_values *v, struct err *e)
{
    TRY(keys_check_distinct(&s->keys, k, e));
    TRY(check_finite(v, k, e));
    if (v->op == WIRE_GRADIENT && t->spec.accessor.count != ACCESSOR_NO_COUNT)
        TRY(check_occurrences(v, k, e));
    if (push_reserve(s, k->longest > BATCH ? k->longest : BATCH) != 0)
        return err_nomem(e, "the rows of a push");
    return 0;
}

// What is known of the push. Without an identity or a number everything is new.
static int look_up(struct shard *s, const struct msg_push *m, const struct shard_table *t,
                   struct repeats_push *ret, struct err *e)
{
    struct repeats_id id = {m->id_pass, m->id_piece, t->spec.id, m->id_group};
    *ret = (struct repeats_push){0};
    if (s->o.without_repeat_check)
        return 0;
    return repeats_begin(s->repeats, m->session, m->number, m->low, t->spec.space, &id,
                         ret, e);
}

static enum outcome apply_now(struct shard *s, struct request *q, struct shard_table *t,
                              const struct keys *k, const struct push_values *v)
{
    const struct msg_push *m = &q->m->push;
    struct err e = {0};
    struct repeats_push known;
    size_t applied;
    int rc = push_check(s, t, k, v, &e);
    if (rc == 0)
        rc = look_up(s, m, t, &known, &e);
    if (rc == 0 && s->o.acknowledge_before_apply && q->fresh != NULL) {
        shard_ok(s, q, 0);
        return WANTS_LATER;
    }
    if (rc == 0)
        rc = (t->store != NULL ? stores_push : apply)(s, t, v, k, &known, &applied, &e);
    if (rc != 0)
        return shard_refuse_keys(s, q, "push", t, &e);
    t->figures.pushed_keys += applied;
    if (applied > 0) {
        t->figures.pushes++;
        t->figures.examples += m->examples;
    } else if (k->n > 0) {
        t->figures.repeats++;
    }
    if (s->o.max_bytes != 0)
        tables_measure(s, t);
    if (m->flags & WIRE_ALSO_PULL)
        pull_answer(s, q, t, k, m->flags, 0, false);
    else
        shard_ok(s, q, t->version);
    return ANSWERED;
}

enum outcome push_serve(struct shard *s, struct request *q)
{
    const struct msg_push *m = &q->m->push;
    struct keys_wire wire = {m->flags, m->n, m->list, m->keys};
    struct err e = {0};
    struct push_values v;
    struct keys k;
    bool mine;
    struct shard_table *t = tables_find(s, m->table, &e);
    if (t == NULL) {
        shard_refuse(s, q, &e);
        return ANSWERED;
    }
    if (q->peer->session == 0)
        err_set(&e, TUG_EUSAGE, "who has no session can't push");
    else if (read_values(&v, t, m, &e) == 0)
        keys_read(&s->keys, &q->peer->lists, &wire, t->spec.space, &k, &e);
    if (e.code != 0)
        return shard_refuse_keys(s, q, "push", t, &e);
    enum outcome outcome = place_check(s, q, m->epoch, t, &k, &mine, &e);
    if (!mine)
        return outcome;
    if (t->store != NULL && (outcome = stores_wait(s, q, t, &k)) != ANSWERED)
        return outcome;
    bool pulls = (m->flags & WIRE_ALSO_PULL) != 0;
    if (pulls || q->peer->n_draining_pushes > 0) // pushes keep their order
        outcome = room_for(s, q, pulls ? pull_bytes(s, t, k.n, m->flags) : 0, &e);
    if (e.code != 0)
        return shard_refuse_keys(s, q, "push", t, &e);
    if (outcome != ANSWERED)
        return outcome;
    if (t->spec.mode == WIRE_SYNC && v.op == WIRE_GRADIENT)
        return sync_push(s, q, t, &k, &v);
    return apply_now(s, q, t, &k, &v);
}
