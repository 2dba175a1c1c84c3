// Pushes to tables by configuration, whose rows lie in a store, and what their requests
// wait for: a save whose moment is to come first, or whose copies are too many.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/alloc.h"
#include "base/file.h"
#include "server/bf16.h"
#include "server/shard_internal.h"
#include "store/cut.h"

enum { STORE_BATCH = 1 << 14 }; // keys that are pushed together, unless a run is longer

// Opening.

// The directory of this loop's cold rows of the table. The same after a restart: by the
// numbers of process and loop, not by its node.
static int cold_dir(const struct shard *s, const struct shard_table *t,
                    char ret[FILE_PATH_MAX], struct err *e)
{
    const struct roster_node *me = roster_find(member_roster(s->member),
                                               member_id(s->member));
    char below[FILE_PATH_MAX];
    int n = snprintf(below, sizeof(below), "%s/%u-server%u-loop%u", t->spec.config.cold,
                     t->spec.id, me != NULL ? me->rank : 0, me != NULL ? me->loop : 0);
    if (n < 0 || n >= FILE_PATH_MAX)
        return err_set(e, TUG_EUSAGE, "%s: too long a path", t->spec.config.cold);
    return roots_make_cold(s->o.roots, below, ret, e);
}

int stores_open(struct shard *s, struct shard_table *t, struct err *e)
{
    char cold[FILE_PATH_MAX];
    struct store_options o = {.config = &t->spec.config,
                              .id = t->spec.id,
                              .partition_bits = s->bits,
                              .max_bytes = s->o.max_bytes};
    if (t->spec.config.cold[0] != '\0') {
        TRY(cold_dir(s, t, cold, e));
        o.cold_dir = cold;
    }
    TRY(store_open(&t->store, &o, e));
    store_set_step(t->store, step_clock_sum(&s->steps));
    return 0;
}

// Waiting.

enum outcome stores_wait(struct shard *s, const struct request *q, struct shard_table *t,
                         const struct keys *k)
{
    // A contribution to a batch is applied later: see sync_apply.
    bool now = t->spec.mode != WIRE_SYNC || q->m->push.op != WIRE_GRADIENT;
    enum outcome wants = held_before(s, q, t->spec.id);
    if (wants == ANSWERED && saves_hold(s, t, q->peer->session))
        wants = WANTS_CUT;
    else if (wants == ANSWERED && now && cut_going(t->store) &&
             !cut_has_room(t->store, k->key, k->n))
        wants = WANTS_ROOM;
    if (wants != ANSWERED && q->fresh != NULL)
        t->figures.waited++;
    return wants;
}

// Pushes.

static enum store_op op_of(enum wire_op op)
{
    if (op == WIRE_GRADIENT)
        return STORE_GRADIENT;
    return op == WIRE_ASSIGN ? STORE_ASSIGN : STORE_ADD;
}

// Keys [begin, end); *ret_runs: of how many partitions they were applied.
static int push_some(struct shard *s, struct shard_table *t, const struct push_values *v,
                     const struct keys *k, uint32_t begin, uint32_t end, size_t *ret_runs,
                     struct err *e)
{
    size_t n = end - begin, at = (size_t)begin * v->width;
    struct store_push p = {.op = op_of(v->op),
                           .keys = k->key + begin,
                           .n = n,
                           .values = (const float *)v->data + at,
                           .rate = v->rate,
                           .scale = v->scale,
                           .again = v->again};
    *ret_runs = 0;
    if (v->bf16) {
        float *floats = shard_floats(s, n * v->width);
        if (floats == NULL)
            return err_nomem(e, "values to convert");
        bf16_to_n(floats, (const uint16_t *)v->data + at, n * v->width);
        p.values = floats;
    }
    return store_push(t->store, &p, ret_runs, e);
}

int stores_push(struct shard *s, struct shard_table *t, const struct push_values *v,
                const struct keys *k, const struct repeats_push *known, size_t *ret_keys,
                struct err *e)
{
    *ret_keys = 0;
    if (s->o.max_bytes != 0 && s->bytes > s->o.max_bytes)
        return err_set(e, TUG_ENOMEM, "no room: rows take %llu of the %llu bytes allowed",
                       (unsigned long long)s->bytes, (unsigned long long)s->o.max_bytes);
    t->version++;
    for (uint32_t r = 0, last; r < k->n_runs; r = last) {
        last = r + 1;
        if (repeats_applied(known, k->runs[r].partition)) {
            repeats_note(known, k->runs[r].partition);
            continue;
        }
        size_t done;
        last = push_runs(k, r, known, STORE_BATCH);
        uint32_t begin = k->runs[r].begin;
        int rc = push_some(s, t, v, k, begin, k->runs[last].begin, &done, e);
        push_note(t, k, r, r + (uint32_t)done, known);
        *ret_keys += k->runs[r + done].begin - begin;
        if (rc != 0 && *ret_keys > 0)
            err_wrap(e, "%zu of %u keys were applied, then", *ret_keys, k->n);
        TRY(rc);
    }
    if (t->spec.config.cold[0] != '\0') {
        t->work = true; // rows may be to be demoted
        turns_wake(s);
    }
    return 0;
}
