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
#include "base/search.h"
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

void contribution_drop(struct shard *s, struct contribution *c)
{
    assert(c->refs > 0);
    if (--c->refs == 0)
        contribution_free(s, c);
}

void sync_drop_group(struct shard *s, struct sync_group *g)
{
    for (uint32_t i = 0; i < SHARD_MAX_CLOCKS; i++) {
        struct sync_batch *b = &g->clock.open[i];
        for (uint32_t p = 0; p < b->n; p++)
            contribution_drop(s, b->parts[p].what);
        *b = (struct sync_batch){0};
    }
    g->begun = false; // `told` stays: later pushes have the keys of earlier ones
    previous_begin(&g->before);
}

// Drops the open batches; `all`: also those of partitions of which this shard is a backup.
static void sync_drop(struct shard *s, struct shard_table *t, bool all)
{
    for (struct sync_group *g = &t->sync; g != NULL; g = g->next)
        if (all || !g->backup)
            sync_drop_group(s, g);
    t->stuck.code = 0;
    t->full = false;
    t->n_applied = 0;
}

void sync_close(struct shard *s, struct shard_table *t)
{
    sync_drop(s, t, true);
    for (struct sync_group *g = t->sync.next, *next; g != NULL; g = next) {
        next = g->next;
        sync_group_free(s, g);
    }
    previous_free(&t->sync.before);
    mem_free(t->groups);
}

void sync_restart(struct shard *s, struct shard_table *t)
{
    sync_drop(s, t, false);
    pending_drop_pushes(s, t);
}

void sync_restart_in(struct shard *s, struct shard_table *t, const uint32_t *partitions,
                     uint32_t n, const uint64_t *next)
{
    for (uint32_t i = 0; i < n; i++) {
        struct sync_group *g = sync_group_of(t, partitions[i]);
        if (g->backup)
            continue;
        sync_drop_group(s, g);
        g->clock.next = next != NULL ? *next : g->clock.next;
        if (g == &t->sync)
            t->n_applied = 0;
    }
    t->stuck.code = 0;
    t->full = false;
    pending_drop_pushes(s, t);
}

static int keep_values(struct shard *s, struct shard_request *q, struct contribution *c,
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
    } else { // the message body is kept already, and now belongs to the contribution
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

// Returns the total bytes of the parts of the push's batch that the push replaces
// (`replaced` true) or does not replace (`replaced` false).
static uint64_t parts_bytes(const struct sync_group *g, const struct msg_push *m,
                            bool replaced)
{
    const struct sync_batch *b = &g->clock.open[m->clock % SHARD_MAX_CLOCKS];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < b->n; i++)
        if (sync_part_within(&b->parts[i], m->micro, m->micros) == replaced)
            bytes += ((const struct contribution *)b->parts[i].what)->counted;
    return bytes;
}

// Refuses a part of the next batch if memory has no room for this part and the parts that
// have arrived, without those that it replaces. The error does not ask the sender to
// retry: that would rarely help, because the parts that have arrived stay until the batch
// is complete. Requests that wait for the batch get the same error, which stays in
// t->stuck until the batch is complete or dropped.
static int check_batch_fits(struct shard *s, struct shard_table *t,
                            const struct sync_group *g, const struct msg_push *m,
                            uint64_t own, struct err *e)
{
    uint64_t most = budget_most(s->o.budget, BUDGET_PENDING);
    uint64_t bytes = own + parts_bytes(g, m, false);
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

// Takes `bytes` minus `replaced` bytes from the budget for a contribution. `replaced` are
// the counted bytes of the parts that the contribution will replace; contribution_inherit
// transfers these bytes to it.
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

// Transfers the counted bytes of a replaced part to the contribution, up to the `bytes`
// that it needs, and drops the part.
static void contribution_inherit(struct shard *s, struct contribution *c, uint64_t bytes,
                                 struct contribution *replaced)
{
    uint64_t lacks = bytes - c->counted;
    uint64_t moves = replaced->counted < lacks ? replaced->counted : lacks;
    assert(c->counted <= bytes);
    c->counted += moves;
    replaced->counted -= moves;
    contribution_drop(s, replaced);
}

static int contribution_take(struct shard *s, struct shard_request *q,
                             const struct sync_group *g, const struct keys *k,
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
    TRY(contribution_count(s, c, contribution_bytes(k, v), parts_bytes(g, m, true),
                           m->clock > g->clock.next, e));
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

uint32_t contribution_run(const struct contribution *c, uint32_t partition)
{
    uint32_t at = (uint32_t)search_first(0, c->n_runs, i,
                                         c->runs[i].partition >= partition);
    return at < c->n_runs && c->runs[at].partition == partition ? at : c->n_runs;
}

static int copy_keys(struct contribution *c, const struct contribution *from,
                     uint32_t partition, size_t width)
{
    c->runs = mem_array(2, sizeof(*c->runs));
    if (c->n > 0) {
        c->keys = mem_array(c->n, sizeof(*c->keys));
        c->converted = mem_array(c->n * width, sizeof(float));
    }
    if (c->runs == NULL || (c->n > 0 && (c->keys == NULL || c->converted == NULL)))
        return TUG_ENOMEM;
    c->values = c->converted;
    c->runs[0] = (struct key_run){partition, 0};
    c->runs[c->n_runs] = (struct key_run){UINT32_MAX, c->n};
    if (c->n == 0)
        return 0;
    memcpy(c->keys, from->keys, c->n * sizeof(*c->keys));
    memcpy(c->converted, from->values, c->n * width * sizeof(float));
    return 0;
}

int contribution_make(struct shard *s, const struct contribution *like,
                      uint32_t partition, size_t width, struct contribution **ret,
                      struct err *e)
{
    struct contribution *c = mem_zalloc(sizeof(*c));
    *ret = NULL;
    if (c == NULL)
        return err_nomem(e, "a part of a batch");
    c->n = c->longest = like->n;
    c->n_runs = like->n > 0;
    c->examples = like->examples;
    c->rate = like->rate;
    c->pass = like->pass;
    c->again = like->again;
    c->refs = 1;
    uint64_t bytes = sizeof(*c) + 2 * sizeof(struct key_run) +
                     (uint64_t)c->n * (width * sizeof(float) + sizeof(uint64_t));
    // A backup does not count the parts that it keeps: the owner has counted them. Two
    // loops that are backups of each other would otherwise both wait for room.
    int rc = s->chain != NULL ? 0 : contribution_count(s, c, bytes, 0, false, e);
    if (rc == 0 && copy_keys(c, like, partition, width) != 0)
        rc = err_nomem(e, "a part of a batch");
    if (rc != 0)
        contribution_free(s, c);
    else
        *ret = c;
    return rc;
}

void sync_end_batch(struct shard *s, struct sync_group *g)
{
    struct sync_batch *b = sync_clock_next(&g->clock);
    for (uint32_t i = 0; i < b->n; i++)
        contribution_drop(s, b->parts[i].what);
    sync_clock_advance(&g->clock);
}

static void apply_next(struct shard *s, struct shard_table *t, struct sync_group *g)
{
    assert(t->spec.mode == WIRE_SYNC && !g->backup);
    if (sync_apply_batch(s, t, g, NULL) != 0)
        return;
    // a save may only begin between two batches
    assert(t->n_applied == 0 || g != &t->sync);
    if (g == sync_first(t))
        t->figures.examples += sync_examples(sync_clock_next(&g->clock));
    sync_end_batch(s, g);
    pending_batch_applied(s, t);
    saves_look(s);
}

// Returns whether a save or an admin operation must come before the group's next batch.
// This is false if some partitions have applied the batch, because saves and admin
// operations wait for the end of such a batch.
static bool must_stop(const struct shard *s, const struct shard_table *t,
                      const struct sync_group *g)
{
    return (t->n_applied == 0 || g != &t->sync) &&
           (saves_stop_batch(s, t, g->clock.next) || pending_order(s, t, g->clock.next));
}

bool sync_in_vain(const struct shard_table *t)
{
    return t->stuck.code == TUG_EUSAGE || t->full;
}

static bool some_complete(const struct shard_table *t)
{
    for (const struct sync_group *g = sync_first(t); g != NULL; g = g->next)
        if (!g->backup && sync_clock_complete(&g->clock))
            return true;
    return false;
}

void sync_apply(struct shard *s, struct shard_table *t)
{
    if (!some_complete(t))
        return;
    t->stuck.code = 0;
    t->full = false;
    for (struct sync_group *g = sync_first(t); g != NULL; g = g->next)
        while (t->stuck.code == 0 && !g->backup && sync_clock_complete(&g->clock) &&
               !must_stop(s, t, g))
            apply_next(s, t, g);
    sync_join(s, t);
    if (t->stuck.code == 0)
        return;
    t->again = true;
    if (t->stuck.reason == REASON_DISK && s->chain != NULL)
        leave_space(s, t->spec.space, &t->stuck);
    if (sync_in_vain(t))
        // The requests that wait for the batch get the error at once.
        s->pending_due = s->now;
    background_wake(s);
}

// Returns whether the push would open too many batches in some group. An idle group is
// checked only if the push has keys of the group.
static bool is_ahead(const struct shard_table *t, const struct msg_push *m,
                     const struct keys *k)
{
    for (const struct sync_group *g = sync_first(t); g != NULL; g = g->next)
        if (sync_clock_is_ahead(&g->clock, m->clock) &&
            (!sync_is_idle(t, g) || sync_has_runs(t, g, k)))
            return true;
    return false;
}

// Counts the runs of a push that belong to the group, and those of them
// that were applied before.
static void count_runs(const struct shard_table *t, const struct sync_group *g,
                       const struct keys *k, const struct retries_push *known,
                       uint32_t *ret_runs, uint32_t *ret_applied)
{
    *ret_runs = *ret_applied = 0;
    for (uint32_t r = 0; r < k->n_runs; r++) {
        uint32_t p = k->runs[r].partition;
        if (sync_group_of(t, p) != g)
            continue;
        *ret_runs += 1;
        *ret_applied += retries_applied(known, p);
    }
}

// Returns whether the group has not received the push yet. This does not depend on
// whether the group has keys of the push.
static bool lacks(const struct shard_table *t, const struct sync_group *g,
                  const struct msg_push *m, const struct keys *k,
                  const struct retries_push *known)
{
    uint32_t runs, applied;
    if (g->away || sync_clock_has(&g->clock, m->clock, m->micro, m->micros))
        return false;
    count_runs(t, g, k, known, &runs, &applied);
    return runs > 0 ? applied < runs : !sync_is_idle(t, g);
}

// Checks that every group that has not received the push yet can take it, and marks these
// groups. *ret_first is the first one.
static int look_for_groups(struct shard *s, struct shard_table *t,
                           const struct msg_push *m, const struct keys *k,
                           const struct retries_push *known, uint64_t bytes,
                           struct sync_group **ret_first, struct err *e)
{
    *ret_first = NULL;
    for (struct sync_group *g = sync_first(t); g != NULL; g = g->next) {
        g->takes = lacks(t, g, m, k, known);
        if (!g->takes)
            continue;
        if (m->clock == g->clock.next)
            TRY(check_batch_fits(s, t, g, m, bytes, e));
        if (sync_reserve(s, t, g, m, k) != 0)
            return err_nomem(e, "a batch");
        *ret_first = *ret_first == NULL ? g : *ret_first;
    }
    return 0;
}

static void give_to_group(struct shard *s, struct sync_group *g, const struct msg_push *m,
                          struct contribution *c, uint64_t bytes)
{
    void *replaced[SHARD_MICROS];
    uint32_t n = sync_clock_add(&g->clock, m->clock, m->micro, m->micros, c, replaced);
    g->told = true;
    c->refs++;
    for (uint32_t i = 0; i < n; i++)
        contribution_inherit(s, c, bytes, replaced[i]);
    assert(sync_clock_has(&g->clock, m->clock, m->micro, m->micros));
}

// For tests: returns whether a shard with one clock for the whole table, instead of one
// for each group, would take the push for a repeat.
static bool repeats_here(const struct shard *s, const struct shard_table *t,
                         const struct msg_push *m)
{
    return bug_in(s->o.member.bugs, WITHOUT_PARTITION_COVERAGE) &&
           sync_clock_has(&t->sync.clock, m->clock, m->micro, m->micros);
}

static int sync_take(struct shard *s, struct shard_request *q, struct shard_table *t,
                     const struct keys *k, const struct push_values *v, struct err *e)
{
    const struct msg_push *m = &q->m->push;
    struct retries_id id = {m->id_pass, m->id_piece, t->spec.id, m->id_group, m->id_low};
    struct retries_push known = {0};
    struct sync_group *first = NULL;
    struct contribution *c;
    uint64_t bytes = contribution_bytes(k, v);
    if (!bug_in(s->o.member.bugs, WITHOUT_REPEAT_CHECK))
        TRY(retries_begin(t->applied, m->session, m->number, m->low, t->spec.space, &id,
                          &known, e));
    if (!known.below && !repeats_here(s, t, m))
        TRY(look_for_groups(s, t, m, k, &known, bytes, &first, e));
    if (first == NULL) {
        t->figures.repeats++;
        return 0;
    }
    if (__builtin_expect(s->chain != NULL, false))
        TRY(chain_reserve_part(s, t, k, e));
    int rc = contribution_take(s, q, first, k, v, &c, e);
    if (rc != 0) {
        contribution_free(s, c);
        return rc;
    }
    if (__builtin_expect(s->chain != NULL, false))
        chain_note_part(s, t, m, c);
    for (struct sync_group *g = first; g != NULL; g = g->next)
        if (g->takes)
            give_to_group(s, g, m, c, bytes);
    for (uint32_t r = 0; r < k->n_runs; r++)
        retries_note(&known, k->runs[r].partition);
    t->figures.pushes++;
    t->figures.pushed_keys += k->n;
    return 0;
}

enum outcome sync_push(struct shard *s, struct shard_request *q, struct shard_table *t,
                       const struct keys *k, const struct push_values *v)
{
    const struct msg_push *m = &q->m->push;
    struct err e = {0};
    int rc = sync_clock_check(m->clock, m->micro, m->micros, &e);
    // The part is also about partitions without keys of the push.
    if (__builtin_expect(s->chain != NULL, false) && chain_is_about_all(s) != GOES_ON)
        return WANTS_MEMBER;
    t->fixed_keys |= (m->flags & WIRE_KEYS_ONLY) != 0;
    if (rc == 0 && (m->flags & WIRE_ALSO_PULL))
        rc = err_set(&e, TUG_EUSAGE,
                     "a push of a batch cannot pull rows, which change when the "
                     "batch is complete: pull them afterwards");
    if (rc == 0)
        rc = push_check(s, t, k, v, &e);
    if (rc == 0 && t->sync_split && sync_own(s, t) != 0)
        rc = err_nomem(&e, "the batches of a partition");
    if (rc == 0 && is_ahead(t, m, k))
        return WANTS_BATCH;
    if (rc == 0)
        rc = sync_take(s, q, t, k, v, &e);
    if (rc != 0)
        return shard_refuse_keys(s, q, "push", t, &e);
    sync_apply(s, t);
    if (s->o.max_bytes != 0)
        tables_measure(s, t);
    // The answer has the number of updates of earlier batches that were left out.
    shard_ok(s, q, push_left_out(t));
    return ANSWERED;
}
