// Pushes: a push is checked as a whole, then given to the table's store in batches,
// straight from the receive buffer. A batch has whole runs, so that a failure leaves each
// partition either with all its keys applied or with none.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/rows/push.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/finite.h"
#include "protocol/bf16.h"
#include "server/background.h"
#include "server/clocks/pending.h"
#include "server/clocks/sync.h"
#include "server/room.h"
#include "server/rows/place.h"
#include "server/rows/pull.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"
#include "store/cut.h"

// The largest number of keys that are passed to the store together, unless one run is
// longer.
enum { PUSH_KEYS = 1 << 14 };

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

// Checks the counts of keys, which are divisors: a count must be above 0.
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
            return err_set(e, TUG_EUSAGE,
                           "key %llu cannot occur %g times with a sum of squares of %g",
                           (unsigned long long)k->key[i], (double)occurrences,
                           (double)squares);
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
                                .pass = m->pass};
    if (m->op > WIRE_DELTA)
        return err_set(e, TUG_EUSAGE, "its operation %u is not known", m->op);
    if (!isfinite(m->rate) || !isfinite(m->pass))
        return err_set(e, TUG_EUSAGE, "its rate or pass is not finite");
    if ((m->op == WIRE_ROW || m->op == WIRE_DELTA) && !store_has_whole_rows(t->store))
        return err_set(
            e, TUG_EUSAGE,
            "its rows have a lifecycle, so their whole contents cannot be set");
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

// Returns the end of the runs, from `first` on, that are applied together: at most `max`
// keys, and no run of a partition in which the push was applied already.
static uint32_t runs_together(const struct keys *k, uint32_t first,
                              const struct retries_push *known, uint32_t max)
{
    uint32_t last = first + 1;
    while (last < k->n_runs && !retries_applied(known, k->runs[last].partition) &&
           k->runs[last + 1].begin - k->runs[first].begin <= max)
        last++;
    return last;
}

// Records that runs [first, last) were applied.
static void note_runs(struct shard_table *t, const struct keys *k, uint32_t first,
                      uint32_t last, const struct retries_push *known)
{
    assert(first <= last && last <= k->n_runs);
    for (uint32_t r = first; r < last; r++) {
        retries_note(known, k->runs[r].partition);
        t->changed_at[k->runs[r].partition] = t->version;
    }
}

static enum store_op op_of(enum wire_op op)
{
    static const enum store_op ops[] = {[WIRE_GRADIENT] = STORE_GRADIENT,
                                        [WIRE_ASSIGN] = STORE_ASSIGN,
                                        [WIRE_ROW] = STORE_ROW,
                                        [WIRE_DELTA] = STORE_DELTA};
    return ops[op];
}

// Applies the keys of runs [first, last) of push m. *ret_keys is the number of keys that
// were applied.
static int push_some(struct shard *s, struct shard_table *t, const struct msg_push *m,
                     const struct push_values *v, const struct keys *k, uint32_t first,
                     uint32_t last, size_t *ret_keys, struct err *e)
{
    uint32_t begin = k->runs[first].begin;
    size_t n = k->runs[last].begin - begin, at = (size_t)begin * v->width;
    struct store_push p = {.op = op_of(v->op),
                           .keys = k->key + begin,
                           .n = n,
                           .values = (const float *)v->data + at,
                           .rate = v->rate,
                           .pass = v->pass,
                           .scale = 1,
                           .again = v->again};
    *ret_keys = 0;
    if (v->bf16) {
        float *floats = shard_floats(s, n * v->width);
        if (floats == NULL)
            return err_nomem(e, "values to convert");
        bf16_to_n(floats, (const uint16_t *)v->data + at, n * v->width);
        p.values = floats;
    }
    if (__builtin_expect(s->chain != NULL, false))
        p.has_row = chain_has_row(s, t, p.op);
    int rc = store_push(t->store, &p, ret_keys, e);
    if (__builtin_expect(s->moves.out != NULL, false))
        moves_note(s, t, &p, *ret_keys);
    if (__builtin_expect(s->chain != NULL, false))
        chain_note(s, t, k, first, m, &p, *ret_keys);
    return rc;
}

// Returns the error of the first partition that refused its keys, if any. A partition
// refuses its keys if its rows would not stay finite; the other partitions still apply
// theirs. So the result in a partition does not depend on which other partitions this
// shard has. The push is not recorded as applied in the partition that refused, so a
// repeat of the push is tried there again.
static int refusals(const struct err *first, const struct keys *k, size_t applied,
                    struct err *e)
{
    if (first->code == 0)
        return 0;
    *e = *first;
    if (applied > 0)
        err_wrap(e, "%zu of %u keys were applied, the others were not", applied, k->n);
    return first->code;
}

// Applies a push. Sets *ret_keys to the number of keys that were applied,
// even if the push fails.
static int apply(struct shard *s, struct shard_table *t, const struct msg_push *m,
                 const struct push_values *v, const struct keys *k,
                 const struct retries_push *known, size_t *ret_keys, struct err *e)
{
    struct err first = {0};
    *ret_keys = 0;
    tables_limit(s, t);
    t->version++;
    for (uint32_t r = 0, last; r < k->n_runs; r = last) {
        last = r + 1;
        if (retries_applied(known, k->runs[r].partition)) {
            retries_note(known, k->runs[r].partition);
            continue;
        }
        size_t done;
        last = runs_together(k, r, known, PUSH_KEYS);
        uint32_t begin = k->runs[r].begin;
        int rc = push_some(s, t, m, v, k, r, last, &done, e);
        // If the push has failed, sets `last` to the run that failed.
        while (k->runs[last].begin - begin > done)
            last--;
        // a partition is applied as a whole or not at all
        assert(k->runs[last].begin - begin == done);
        note_runs(t, k, r, last, known);
        *ret_keys += done;
        // The partition of run `last` has refused it; the runs after it are still
        // applied.
        if (rc == TUG_EUSAGE) {
            first = first.code == 0 ? *e : first;
            assert(last < k->n_runs);
            last++;
            continue;
        }
        if (rc != 0 && *ret_keys > 0)
            err_wrap(e, "%zu of %u keys were applied before the error", *ret_keys, k->n);
        TRY(rc);
    }
    background_demote(s, t);
    return refusals(&first, k, *ret_keys, e);
}

uint64_t push_left_out(struct shard_table *t)
{
    uint64_t key;
    return store_take_left_out(t->store, &key) ? key + 1 : 0;
}

int push_check(struct shard *s, const struct shard_table *t, const struct keys *k,
               const struct push_values *v, struct err *e)
{
    TRY(keys_check_distinct(&s->keys, k, e));
    TRY(check_finite(v, k, e));
    if (v->op == WIRE_GRADIENT && t->spec.accessor.count != ACCESSOR_NO_COUNT)
        TRY(check_occurrences(v, k, e));
    return 0;
}

// Looks up in which partitions the push was applied before. A push without an identity
// and number counts as new.
static int look_up(struct shard *s, const struct msg_push *m, const struct shard_table *t,
                   struct retries_push *ret, struct err *e)
{
    struct retries_id id = {m->id_pass, m->id_piece, t->spec.id, m->id_group, m->id_low};
    *ret = (struct retries_push){0};
    if (bug_in(s->o.member.bugs, WITHOUT_REPEAT_CHECK))
        return 0;
    return retries_begin(s->applied, m->session, m->number, m->low, t->spec.space, &id,
                         ret, e);
}

static enum outcome apply_now(struct shard *s, struct shard_request *q,
                              struct shard_table *t, const struct keys *k,
                              const struct push_values *v)
{
    const struct msg_push *m = &q->m->push;
    struct err e = {0};
    struct retries_push known;
    size_t applied;
    int rc = push_check(s, t, k, v, &e);
    if (rc == 0)
        rc = look_up(s, m, t, &known, &e);
    if (rc == 0 && bug_in(s->o.member.bugs, ACKNOWLEDGE_BEFORE_APPLY) &&
        q->fresh != NULL) {
        shard_ok(s, q, 0);
        return WANTS_LATER;
    }
    if (rc == 0 && __builtin_expect(s->chain != NULL, false))
        rc = chain_reserve(s, t, k, v, &e);
    if (rc == 0)
        rc = apply(s, t, m, v, k, &known, &applied, &e);
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
        return pull_answer(s, q, t, k, m->flags, 0, false);
    shard_ok(s, q, push_left_out(t));
    return ANSWERED;
}

// Returns GOES_ON if the push can be served now, or the outcome for which it waits: what
// an earlier push of the same link waits for, the begin of a save that its worker has
// marked, room for a save's copies of rows, or replicas that are behind.
static enum outcome must_wait(struct shard *s, const struct shard_request *q,
                              struct shard_table *t, const struct keys *k)
{
    // A contribution to a synchronous batch is applied later, by sync_apply.
    bool now = t->spec.mode != WIRE_SYNC || q->m->push.op != WIRE_GRADIENT;
    enum outcome wants = pending_before(s, q, t->spec.id);
    if (wants == GOES_ON && saves_hold(s, t, q->peer->session))
        wants = WANTS_CUT;
    else if (wants == GOES_ON && now && cut_going(t->store) &&
             !cut_has_room(t->store, k->key, k->n))
        wants = WANTS_ROOM;
    else if (wants == GOES_ON && __builtin_expect(s->chain != NULL, false) &&
             chain_is_full(s, t->spec.space, k))
        wants = WANTS_MEMBER;
    if (wants != GOES_ON && q->fresh != NULL)
        t->figures.waited++;
    return wants;
}

enum outcome push_serve(struct shard *s, struct shard_request *q)
{
    const struct msg_push *m = &q->m->push;
    struct keys_wire wire = {m->flags, m->n, m->list, m->keys};
    struct err e = {0};
    struct push_values v;
    struct keys k;
    struct shard_table *t = tables_find(s, m->table, &e);
    if (t == NULL) {
        shard_refuse(s, q, &e);
        return ANSWERED;
    }
    if (q->peer->session == 0)
        err_set(&e, TUG_EUSAGE, "only a node that has joined the cluster can push");
    else if (read_values(&v, t, m, &e) == 0)
        keys_read(&s->keys, &q->peer->lists, &wire, t->spec.space, &k, &e);
    if (e.code != 0)
        return shard_refuse_keys(s, q, "push", t, &e);
    bool batch = t->spec.mode == WIRE_SYNC && v.op == WIRE_GRADIENT;
    enum outcome outcome = place_check(s, q, m->epoch, t, &k, batch, &e);
    if (outcome != GOES_ON)
        return outcome;
    if ((outcome = must_wait(s, q, t, &k)) != GOES_ON)
        return outcome;
    bool pulls = (m->flags & WIRE_ALSO_PULL) != 0;
    // a push must not overtake an earlier push that waits for room
    if (pulls || q->peer->n_draining_pushes > 0)
        outcome = room_for(s, q, pulls ? pull_bytes(s, t, k.n, m->flags) : 0, &e);
    if (e.code != 0)
        return shard_refuse_keys(s, q, "push", t, &e);
    if (outcome != GOES_ON)
        return outcome;
    if (batch)
        return sync_push(s, q, t, &k, &v);
    return apply_now(s, q, t, &k, &v);
}
