// Records of admin operations. A backup does an operation at once in each partition: the
// store of the leader does it there before the partition's next push or pull.
//
// The client sends an operation again after a failover, to all loops that lead partitions in
// the new epoch. Each loop does it only in the partitions in which it was not done, by the
// notes of server/admin.h.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <math.h>
#include <string.h>

#include "cluster/roster.h"
#include "server/background.h"
#include "server/chain/chain.h"
#include "server/chain/records.h"
#include "server/clocks/sync_backup.h"
#include "server/moves/stream.h"
#include "server/rows/copies.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

// The common content: what happens to a table (enum wire_admin), its parameters, the
// leader's step, and the operation's numbers. The bits of the threshold are in the lower half
// of a number. If the table is dropped, `clock` says how often this has happened. `other` is
// the table into which rows are copied.
struct operation_record {
    uint64_t table, what, other, threshold, clock, step;
    uint64_t session, number, low;
};

static bool has_partitions(uint8_t what)
{
    return what == WIRE_SHRINK || what == WIRE_CLEAR || what == WIRE_DAY ||
           what == WIRE_CLOCK || what == WIRE_COPY || what == WIRE_MEAN;
}

int records_find_left(struct shard *s, const struct shard_request *q, uint64_t table,
                      uint64_t number, uint64_t low, enum admin_state *state,
                      uint64_t *ret_value, struct err *e)
{
    uint64_t session = q->peer->session;
    const struct shard_table *t = table < SPEC_MAX_TABLES ? s->tables[table] : NULL;
    struct chain *c = s->chain;
    bool again = bug_in(s->o.member.bugs, WITHOUT_ADMIN_NUMBERS) && q->fresh != NULL;
    uint64_t *parts;
    c->n_left = 0;
    c->left_session = session;
    if (t == NULL || *state == ADMIN_GOING)
        return 0;
    if (admin_parts(&s->admin, session, number, low, t->spec.space, 1u << s->bits,
                    &parts) != 0)
        return err_nomem(e, "the admin operations of a session");
    *ret_value = 0;
    if (parts == NULL) { // it is answered, or was given up by its client
        *state = ADMIN_DONE;
        return 0;
    }
    for (uint32_t p = 0; p >> s->bits == 0; p++) {
        if (!chain_leads(s, t->spec.space, p))
            continue;
        if (parts[p] == ADMIN_LACKS || again)
            c->left[c->n_left++] = p;
        else
            *ret_value += parts[p];
    }
    *state = c->n_left > 0 ? ADMIN_NEW : ADMIN_DONE;
    return 0;
}

int chain_find_left(struct shard *s, const struct shard_request *q,
                    enum admin_state *state, uint64_t *ret_value, struct err *e)
{
    const struct msg_table_do *m = &q->m->table_do;
    uint64_t table = has_partitions(m->what) ? m->table : SPEC_MAX_TABLES;
    return records_find_left(s, q, table, m->number, m->low, state, ret_value, e);
}

int chain_reserve_operation(struct shard *s, const struct shard_table *t, struct err *e)
{
    return s->chain == NULL
               ? 0
               : chain_reserve_places(s, t->spec.space, s->chain->left, s->chain->n_left,
                                      sizeof(struct operation_record), e);
}

static bool takes_time(uint8_t what)
{
    return what == WIRE_SHRINK || what == WIRE_CLEAR;
}

// Records that the operation was done, or has begun, in these partitions. An operation that
// takes time leaves the others out.
static void mark(struct shard *s, const struct shard_table *t,
                 const struct msg_table_do *m, const uint32_t *partitions, uint32_t n)
{
    uint64_t *parts = admin_find_parts(&s->admin, s->chain->left_session, m->number);
    assert(parts != NULL); // chain_find_left has made them
    for (uint32_t i = 0; i < n; i++) {
        uint32_t p = partitions[i];
        parts[p] = m->what == WIRE_SHRINK  ? ADMIN_OPEN
                   : m->what == WIRE_CLEAR ? store_rows_of(t->store, p)
                                           : 0;
    }
    for (uint32_t p = 0, i = 0; p >> s->bits == 0 && takes_time(m->what); p++)
        if (i < n && partitions[i] == p)
            i++;
        else
            store_leave_out(t->store, p);
}

void chain_note_operation(struct shard *s, const struct shard_table *t,
                          const struct msg_table_do *m, const uint32_t *partitions,
                          uint32_t n)
{
    if (s->chain == NULL)
        return;
    if (partitions == NULL) {
        partitions = s->chain->left;
        n = s->chain->n_left;
    }
    struct operation_record x = {.table = t->spec.id,
                                 .what = m->what,
                                 .other = m->other,
                                 .clock = m->clock,
                                 .step = store_step_of(t->store),
                                 .session = s->chain->left_session,
                                 .number = m->number,
                                 .low = admin_record_low(m->number, m->low)};
    memcpy(&x.threshold, &m->threshold, sizeof(m->threshold));
    chain_note_places(s, RECORD_OPERATION, t->spec.space, partitions, n, &x, sizeof(x));
    mark(s, t, m, partitions, n);
}

void chain_end_operation(struct shard *s, const struct shard_table *t, uint64_t session,
                         uint64_t number)
{
    uint64_t *parts = s->chain != NULL ? admin_find_parts(&s->admin, session, number)
                                       : NULL;
    for (uint32_t p = 0; p >> s->bits == 0 && parts != NULL; p++)
        if (parts[p] == ADMIN_OPEN)
            parts[p] = store_shrunk(t->store, p);
}

size_t chain_sessions(const struct shard *s)
{
    enum { MORE = 64 };
    return member_roster(s->member)->n_nodes + MORE;
}

int chain_learn_operation(struct shard *s, enum wire_space space, uint64_t session,
                          uint64_t number, uint64_t low, uint64_t **ret, struct err *e)
{
    *ret = NULL;
    // A shard that has forgotten a session must not remember it again.
    if (session == 0 || roster_session_over(member_roster(s->member), session))
        return 0;
    TRY(admin_check(&s->admin, session, number, low, chain_sessions(s), e));
    if (admin_parts(&s->admin, session, number, low, space, 1u << s->bits, ret) != 0)
        return err_nomem(e, "the admin operations of a session");
    return 0;
}

static struct channel_record record_of_drop(const struct shard *s,
                                            const struct operation_record *x)
{
    return (struct channel_record){.kind = RECORD_OPERATION,
                                   .bits = s->bits,
                                   .epoch = member_roster(s->member)->epoch,
                                   .common = (const char *)x,
                                   .n_common = sizeof(*x)};
}

int records_add_drop(struct shard *s, struct outlet *o, uint64_t table, uint64_t drops)
{
    const struct operation_record x = {.table = table, .what = WIRE_DROP, .clock = drops};
    const struct channel_record r = record_of_drop(s, &x);
    return outlet_append(o, &r);
}

// Makes room for the records of note_drop.
static int reserve_drop(struct shard *s, const struct shard_table *t,
                        const struct channel_record *r, struct err *e)
{
    places_clear(s);
    if (t != NULL)
        TRY(chain_reserve_places(s, t->spec.space, NULL, 0, r->n_common, e));
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next)
        if (outlet_reserve(&o->o, o->more + channel_bytes(r)) != 0)
            return err_nomem(e, "the record of a table for replicas");
    return 0;
}

// Appends two records. The first one has no places, and goes to all next members: a loop
// may have the table without any of its partitions. The second one follows the pushes to
// the partitions that this shard leads. When it is acknowledged, no member gets such a
// push any more, and another table may get the number. If memory is out, nothing has changed:
// a member without the table would only count its pushes.
static int note_drop(struct shard *s, const struct operation_record *x, struct err *e)
{
    const struct shard_table *t = s->tables[x->table];
    const struct channel_record r = record_of_drop(s, x);
    TRY(reserve_drop(s, t, &r, e));
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next) {
        int rc = outlet_append(&o->o, &r);
        assert(rc == 0); // reserve_drop has made room
        (void)rc;
    }
    if (t != NULL)
        chain_note_places(s, RECORD_OPERATION, t->spec.space, NULL, 0, x, sizeof(*x));
    s->chain->drops[x->table] = x->clock;
    unbacked_look(s);
    return 0;
}

int chain_note_drop(struct shard *s, const struct shard_table *t,
                    const struct msg_table_do *m, struct err *e)
{
    if (s->chain == NULL)
        return 0;
    struct operation_record x = {.table = t->spec.id,
                                 .what = WIRE_DROP,
                                 .clock = s->chain->drops[t->spec.id] + 1,
                                 .session = s->chain->left_session,
                                 .number = m->number,
                                 .low = admin_record_low(m->number, m->low)};
    return note_drop(s, &x, e);
}

// Makes room to record that the drop was done. Otherwise a repeated request could drop a
// newer table with this number.
static int reserve_done(struct shard *s, const struct operation_record *x, struct err *e)
{
    enum admin_state state;
    uint64_t value;
    if (x->session == 0 || roster_session_over(member_roster(s->member), x->session))
        return 0;
    TRY(admin_check(&s->admin, x->session, x->number, x->low, chain_sessions(s), e));
    int rc = admin_begin(&s->admin, x->session, x->number, x->low, &state, &value, NULL);
    return rc == TUG_ENOMEM ? err_nomem(e, "the admin operations of a session") : 0;
}

// Drops a table, and passes that on, because a next member may get it from no other loop.
static int drop(struct shard *s, const struct operation_record *x, bool has_places,
                struct err *e)
{
    struct shard_table *t = s->tables[x->table];
    TRY(chain_check_drops(x->table, x->clock, e));
    // A client or another member has told this shard before. If there is a table with this
    // number, it was made later.
    if (x->clock <= s->chain->drops[x->table])
        return 0;
    // A member of chains gets the record with places before the drop is acknowledged, and a
    // leader also the client's request. The other record may come after a new table was made.
    if (t != NULL && !has_places && chain_has_some(s, t->spec.space))
        return 0;
    // The record waits for the end of a save or an operation. Without an error, this shard does
    // not leave the chain because of that.
    if (t != NULL && !background_free(t))
        return TUG_EIO;
    TRY(reserve_done(s, x, e));
    TRY(note_drop(s, x, e));
    admin_done(&s->admin, x->session, x->number, 0);
    if (t != NULL) {
        moves_break(s, t->spec.space, "a table was dropped");
        tables_remove(s, t);
    }
    return 0;
}

int records_drop(struct shard *s, uint64_t table, uint64_t drops, struct err *e)
{
    const struct operation_record x = {.table = table, .what = WIRE_DROP, .clock = drops};
    return drop(s, &x, false, e);
}

static int apply_drop(struct shard *s, const struct channel_record *r,
                      const struct operation_record *x, uint32_t *ret_n, struct err *e)
{
    bool is_new = x->clock > s->chain->drops[x->table];
    TRY(drop(s, x, r->n_places > 0, e));
    // The records of the drop have used the room that was made for passing this one on: so it
    // is tried again.
    if (is_new && r->n_places > 0)
        return TUG_EIO;
    for (uint32_t i = 0; i < r->n_places; i++)
        *ret_n += records_applies(s, r, i);
    return 0;
}

bool records_is_drop(const struct channel_record *r)
{
    struct operation_record x;
    if (r->kind != RECORD_OPERATION || r->n_common != sizeof(x))
        return false;
    memcpy(&x, r->common, sizeof(x));
    return x.what == WIRE_DROP;
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
        store_day_in(t->store, p);
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
        return apply_drop(s, r, &x, ret_n, e);
    if (t == NULL || t->spec.space != r->space)
        return stream_damaged(e);
    uint64_t begun = moves_slice_begin(s), *parts;
    TRY(chain_learn_operation(s, r->space, x.session, x.number, x.low, &parts, e));
    for (uint32_t i = 0; i < r->n_places; i++) {
        if (!records_applies(s, r, i))
            continue;
        if (*ret_n > 0 && records_pause(s, t, begun))
            return TUG_EIO;
        uint32_t p = r->places[i].partition;
        uint64_t rows = store_rows_of(t->store, p);
        TRY(do_in(s, t, p, &x, e));
        if (parts != NULL)
            parts[p] = rows - store_rows_of(t->store, p);
        ++*ret_n;
    }
    return 0;
}
