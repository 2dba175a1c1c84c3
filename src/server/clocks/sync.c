// Batches of sync tables: contributions are kept until a batch is complete, then added
// key by key in the order of the tree, and applied once.
//
// The memory for adding is reserved before a contribution is acknowledged. Only the store
// can still fail, when the batch is applied: see sync_sum.c.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/clocks/sync.h"

#include <string.h>

#include "base/alloc.h"
#include "protocol/bf16.h"
#include "server/background.h"
#include "server/clocks/pending.h"
#include "server/clocks/sync_sum.h"
#include "server/rows/push.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

static void contribution_free(struct shard *s, struct contribution *c)
{
    if (c == NULL)
        return;
    if (c->kept != NULL)
        van_unkeep(s->van, c->kept);
    budget_give(s->o.budget, BUDGET_PENDING, c->counted);
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
    t->full = t->begun = false;
    t->n_applied = 0;
}

void sync_restart(struct shard *s, struct shard_table *t)
{
    sync_drop(s, t);
    previous_begin(&t->before);
    pending_drop_pushes(s, t);
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
    } else { // the body is kept already, and now belongs to the contribution
        assert(q->kept != NULL); // no other contribution has taken it over
        c->kept = q->kept;
        q->kept = NULL;
    }
    return 0;
}

// Copies the keys, since rows may be removed before the batch is complete.
static int keep_keys(struct contribution *c, const struct keys *k, struct err *e)
{
    if (k->n == 0)
        return 0;
    c->keys = mem_array(k->n, sizeof(*c->keys));
    if (c->keys == NULL)
        return err_nomem(e, "a contribution to a batch");
    memcpy(c->keys, k->key, k->n * sizeof(*c->keys));
    return 0;
}

static uint64_t contribution_bytes(const struct keys *k, const struct push_values *v)
{
    return sizeof(struct contribution) +
           ((uint64_t)k->n_runs + 1) * sizeof(struct key_run) +
           (uint64_t)k->n * (v->width * sizeof(float) + sizeof(uint64_t));
}

// Returns the bytes of those parts of the push's batch that the push replaces
// (`replaced` true), or does not replace (false).
static uint64_t parts_bytes(const struct shard_table *t, const struct msg_push *m,
                            bool replaced)
{
    const struct sync_batch *b = &t->sync.open[m->clock % SHARD_MAX_CLOCKS];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < b->n; i++)
        if (sync_part_within(&b->parts[i], m->micro, m->micros) == replaced)
            bytes += ((const struct contribution *)b->parts[i].what)->counted;
    return bytes;
}

// Refuses a part of the next batch for good if it has no room beside the parts that have
// arrived and that it does not replace. Sending it again would rarely help, because those
// parts stay until the batch is complete or a later part replaces them. Requests that wait
// for the batch get the same error, which stays in t->stuck until the batch is complete or
// dropped.
static int check_batch_fits(struct shard *s, struct shard_table *t,
                            const struct msg_push *m, uint64_t own, struct err *e)
{
    uint64_t most = budget_most(s->o.budget, BUDGET_PENDING);
    uint64_t bytes = own + parts_bytes(t, m, false);
    if (bytes <= most)
        return 0;
    err_set(
        e, TUG_ENOMEM,
        "the workers' parts of a batch have %llu bytes or more, but this server keeps "
        "at most %llu of batches: use a smaller --batch, or start the server with more "
        "--memory",
        (unsigned long long)bytes, (unsigned long long)most);
    t->stuck = *e;
    t->full = true;
    s->pending_due = s->now;
    return e->code;
}

// Takes room for a contribution, less the `replaced` bytes of the parts that it will
// replace, which contribution_inherit moves to it.
static int contribution_count(struct shard *s, struct contribution *c, uint64_t bytes,
                              uint64_t replaced, bool early, struct err *e)
{
    bytes = bytes > replaced ? bytes - replaced : 0;
    if (!pending_room(s, bytes, early))
        return err_because(e, TUG_EIO, REASON_NO_ROOM, 0,
                           "no room now for %llu bytes of a batch that waits for other "
                           "workers' parts (--memory)",
                           (unsigned long long)bytes);
    c->counted = bytes;
    return 0;
}

// Moves the counted bytes of a replaced part to the contribution, which has `bytes`, as far
// as it needs them, and frees the part.
static void contribution_inherit(struct shard *s, struct contribution *c, uint64_t bytes,
                                 struct contribution *replaced)
{
    uint64_t lacks = bytes - c->counted;
    uint64_t moves = replaced->counted < lacks ? replaced->counted : lacks;
    assert(c->counted <= bytes);
    c->counted += moves;
    replaced->counted -= moves;
    contribution_free(s, replaced);
}

static int contribution_make(struct shard *s, struct request *q,
                             const struct shard_table *t, const struct keys *k,
                             const struct push_values *v, struct contribution **ret,
                             struct err *e)
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
    TRY(contribution_count(s, c, contribution_bytes(k, v), parts_bytes(t, m, true),
                           m->clock > t->sync.next, e));
    size_t runs = (size_t)k->n_runs + 1;
    c->runs = mem_array(runs, sizeof(*c->runs));
    if (c->runs == NULL)
        return err_nomem(e, "a contribution to a batch");
    memcpy(c->runs, k->runs, runs * sizeof(*c->runs));
    TRY(keep_keys(c, k, e));
    if (keep_values(s, q, c, v) != 0)
        return err_nomem(e, "a contribution to a batch");
    return 0;
}

static void apply_next(struct shard *s, struct shard_table *t)
{
    struct sync_batch *b = sync_clock_next(&t->sync);
    assert(t->spec.mode == WIRE_SYNC);
    if (sync_apply_batch(s, t) != 0)
        return;
    assert(t->n_applied == 0); // a save may only begin between two batches
    t->figures.examples += sync_examples(b);
    for (uint32_t i = 0; i < b->n; i++)
        contribution_free(s, b->parts[i].what);
    sync_clock_advance(&t->sync);
    pending_batch_applied(s, t);
    saves_look(s);
}

// Returns whether a save or an admin operation must come before the next batch. Both wait
// for a batch of which a part is applied, so they do not stop such a batch.
static bool must_stop(const struct shard *s, const struct shard_table *t)
{
    return t->n_applied == 0 && (saves_stop_batch(s, t) || pending_order(s, t));
}

bool sync_in_vain(const struct shard_table *t)
{
    return t->stuck.code == TUG_EUSAGE || t->full;
}

void sync_apply(struct shard *s, struct shard_table *t)
{
    if (!sync_clock_complete(&t->sync))
        return;
    t->stuck.code = 0;
    t->full = false;
    while (t->stuck.code == 0 && sync_clock_complete(&t->sync) && !must_stop(s, t))
        apply_next(s, t);
    if (t->stuck.code == 0)
        return;
    t->again = true;
    if (sync_in_vain(t))
        s->pending_due = s->now; // the requests that wait for the batch are answered by
                                 // the error at once
    background_wake(s);
}

static bool all_applied(const struct retries_push *known, const struct keys *k)
{
    for (uint32_t r = 0; r < k->n_runs; r++)
        if (!retries_applied(known, k->runs[r].partition))
            return false;
    return k->n_runs > 0;
}

static int sync_take(struct shard *s, struct request *q, struct shard_table *t,
                     const struct keys *k, const struct push_values *v, struct err *e)
{
    const struct msg_push *m = &q->m->push;
    struct retries_id id = {m->id_pass, m->id_piece, t->spec.id, m->id_group, m->id_low};
    struct retries_push known = {0};
    void *replaced[SHARD_MICROS];
    struct contribution *c;
    uint64_t bytes = contribution_bytes(k, v);
    if (!s->o.without_repeat_check)
        TRY(retries_begin(t->applied, m->session, m->number, m->low, t->spec.space, &id,
                          &known, e));
    if (sync_clock_has(&t->sync, m->clock, m->micro, m->micros) ||
        all_applied(&known, k)) {
        t->figures.repeats++;
        return 0;
    }
    if (m->clock == t->sync.next)
        TRY(check_batch_fits(s, t, m, bytes, e));
    if (sync_reserve(s, t, m, k) != 0)
        return err_nomem(e, "a batch");
    int rc = contribution_make(s, q, t, k, v, &c, e);
    if (rc != 0) {
        contribution_free(s, c);
        return rc;
    }
    uint32_t n = sync_clock_add(&t->sync, m->clock, m->micro, m->micros, c, replaced);
    for (uint32_t i = 0; i < n; i++)
        contribution_inherit(s, c, bytes, replaced[i]);
    assert(sync_clock_has(&t->sync, m->clock, m->micro, m->micros));
    for (uint32_t r = 0; r < k->n_runs; r++)
        retries_note(&known, k->runs[r].partition);
    t->figures.pushes++;
    t->figures.pushed_keys += k->n;
    return 0;
}

enum outcome sync_push(struct shard *s, struct request *q, struct shard_table *t,
                       const struct keys *k, const struct push_values *v)
{
    const struct msg_push *m = &q->m->push;
    struct err e = {0};
    int rc = sync_clock_check(m->clock, m->micro, m->micros, &e);
    if (rc == 0 && (m->flags & WIRE_ALSO_PULL))
        rc = err_set(&e, TUG_EUSAGE,
                     "a push of a batch cannot pull rows, which change when the "
                     "batch is complete: pull them afterwards");
    if (rc == 0)
        rc = push_check(s, t, k, v, &e);
    if (rc == 0 && sync_clock_is_ahead(&t->sync, m->clock))
        return WANTS_BATCH;
    if (rc == 0)
        rc = sync_take(s, q, t, k, v, &e);
    if (rc != 0)
        return shard_refuse_keys(s, q, "push", t, &e);
    sync_apply(s, t);
    if (s->o.max_bytes != 0)
        tables_measure(s, t);
    shard_ok(s, q, push_left_out(t)); // this value counts updates that were left out
                                      // of earlier batches
    return ANSWERED;
}
