// Records of admin operations. A backup does an operation at once in each partition: the
// store of the leader does it there before the partition's next push or pull.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "server/background.h"
#include "server/chain/chain.h"
#include "server/chain/records.h"
#include "server/clocks/sync_backup.h"
#include "server/moves/stream.h"
#include "server/rows/copies.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

// The common content: what happens to a table (enum wire_admin), its parameters, and the
// leader's step. The bits of the threshold are in the lower half of a number. If the table
// is dropped, `clock` says how often this has happened. `other` is the table into which
// rows are copied.
struct operation_record {
    uint64_t table, what, threshold, clock, step, other;
};

static bool has_partitions(uint8_t what)
{
    return what == WIRE_SHRINK || what == WIRE_CLEAR || what == WIRE_DAY ||
           what == WIRE_CLOCK || what == WIRE_COPY || what == WIRE_MEAN;
}

int chain_reserve_operation(struct shard *s, const struct shard_table *t, struct err *e)
{
    return chain_reserve_places(s, t->spec.space, NULL, 0,
                                sizeof(struct operation_record), e);
}

void chain_note_operation(struct shard *s, const struct shard_table *t,
                          const struct msg_table_do *m, const uint32_t *partitions,
                          uint32_t n)
{
    struct operation_record x = {.table = t->spec.id,
                                 .what = m->what,
                                 .clock = m->clock,
                                 .step = store_step_of(t->store),
                                 .other = m->other};
    memcpy(&x.threshold, &m->threshold, sizeof(m->threshold));
    chain_note_places(s, RECORD_OPERATION, t->spec.space, partitions, n, &x, sizeof(x));
}

static int note_drop(struct shard *s, uint64_t table, uint64_t drops, struct err *e)
{
    struct operation_record x = {.table = table, .what = WIRE_DROP, .clock = drops};
    struct channel_record r = {.kind = RECORD_OPERATION,
                               .bits = s->bits,
                               .common = (const char *)&x,
                               .n_common = sizeof(x)};
    r.epoch = member_roster(s->member)->epoch;
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next)
        if (outlet_append(&o->o, &r) != 0)
            return err_nomem(e, "the record of a table for replicas");
    s->chain->drops[table] = drops;
    return 0;
}

int chain_note_drop(struct shard *s, const struct shard_table *t, struct err *e)
{
    uint32_t id = t->spec.id;
    return s->chain == NULL ? 0 : note_drop(s, id, s->chain->drops[id] + 1, e);
}

// Drops a table, and passes that on, because a next member may get it from no other loop.
static int drop(struct shard *s, const struct operation_record *x, struct err *e)
{
    struct shard_table *t = s->tables[x->table];
    // A client or another member has told this shard before. If there is a table with this
    // number, it was made later.
    if (x->clock <= s->chain->drops[x->table])
        return 0;
    // The record waits for the end of a save or an operation. Without an error, this shard does
    // not leave the chain because of that.
    if (t != NULL && !background_free(t))
        return TUG_EIO;
    TRY(note_drop(s, x->table, x->clock, e));
    if (t != NULL) {
        moves_break(s, t->spec.space, "a table was dropped");
        tables_remove(s, t);
    }
    return 0;
}

static int do_in(struct shard *s, struct shard_table *t, uint32_t p,
                 const struct operation_record *x, struct err *e)
{
    struct msg_table_do m = {.what = (uint8_t)x->what, .other = (uint32_t)x->other};
    memcpy(&m.threshold, &x->threshold, sizeof(m.threshold));
    moves_break_copy(s, t->spec.space, p, "an admin operation was done");
    switch (x->what) {
    case WIRE_COPY:
    case WIRE_MEAN:
        return copies_back_up(s, t, &m, p, x->step, e);
    case WIRE_DAY:
        store_backup_day(t->store, p);
        background_demote(s, t);
        break;
    case WIRE_CLOCK:
        if (t->spec.mode != WIRE_SYNC)
            return stream_damaged(e);
        TRY(sync_backup_restart(s, t, p, &x->clock, e));
        break;
    case WIRE_CLEAR:
        if (t->spec.mode == WIRE_SYNC)
            TRY(sync_backup_restart(s, t, p, NULL, e));
        TRY(store_backup_admin(t->store, p, STORE_CLEAR, NAN, x->step, e));
        break;
    default:
        TRY(store_backup_admin(t->store, p, STORE_SHRINK, m.threshold, x->step, e));
        break;
    }
    t->changed_at[p] = ++t->version;
    return 0;
}

int records_apply_operation(struct shard *s, const struct channel_record *r,
                            uint32_t *ret_n, struct err *e)
{
    struct operation_record x;
    if (r->n_common != sizeof(x))
        return stream_damaged(e);
    memcpy(&x, r->common, sizeof(x));
    if (x.table >= SPEC_MAX_TABLES || x.what > UINT8_MAX ||
        (x.what != WIRE_DROP && !has_partitions((uint8_t)x.what)) ||
        x.other >= SPEC_MAX_TABLES)
        return stream_damaged(e);
    struct shard_table *t = s->tables[x.table];
    if (x.what == WIRE_DROP)
        return drop(s, &x, e);
    if (t == NULL || t->spec.space != r->space)
        return stream_damaged(e);
    uint64_t begun = moves_slice_begin(s);
    for (uint32_t i = 0; i < r->n_places; i++) {
        if (!records_applies(s, r, i))
            continue;
        if (*ret_n > 0 && records_pause(s, t, begun))
            return TUG_EIO;
        TRY(do_in(s, t, r->places[i].partition, &x, e));
        ++*ret_n;
    }
    return 0;
}
