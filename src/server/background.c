// Admin operations for a whole table: they are numbered, and each is done once however
// often its request arrives. An operation that walks over a store's rows takes time: it
// is done in slices between requests, and answered at the end. Saves get slices here,
// too.
//
// Slices are short, and in a busy loop they get a ninth of the time: after a slice, the
// loop does nothing but serve requests for eight times as long as the slice took. A save
// gets a 65th, because pushes go on during a save, and wait for each slice. It gets a ninth
// once half of the room for copies of rows is used: pushes have to wait when no room is
// left. A loop is busy if it has served a request in the last BUSY_NS, because parts of the
// next request may already be arriving. A loop in which pushes wait for a save is not busy,
// since only slices let the pushes go on.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/background.h"

#include <math.h>

#include "server/clocks/pending.h"
#include "server/clocks/sync.h"
#include "server/rows/place.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"
#include "server/told.h"
#include "store/cut.h"

// After a slice of work, requests are served for so many times the slice's time.
enum { REQUESTS_SHARE = 8, REQUESTS_SHARE_SAVING = 64 };
#define SLICE_NS (2 * SECOND_NS / 1000)
// Much less than a worker waits for a push: a push waits for all servers, and each may be in
// the middle of a slice.
#define SAVE_SLICE_NS (SECOND_NS / 10000)
#define BUSY_NS (50 * SECOND_NS / 1000)
// Interval at which a batch that could not be applied is tried again.
#define RETRY_NS (SECOND_NS / 10)

void background_wake(struct shard *s)
{
    if (s->work_due == VAN_NEVER)
        s->work_due = s->now > s->rest_until ? s->now : s->rest_until;
}

void background_again(struct shard *s, uint32_t table)
{
    struct shard_table *t = table < SPEC_MAX_TABLES ? s->tables[table] : NULL;
    if (t == NULL)
        return;
    t->again = true;
    background_wake(s);
}

bool background_free(const struct shard_table *t)
{
    return !t->turn.on && !cut_going(t->store);
}

static uint64_t rows_gone(const struct store *store)
{
    struct store_stats x = store_stats(store);
    return x.evicted_score + x.evicted_age + x.evicted_ttl;
}

void background_publish(struct shard *s, struct shard_table *t)
{
    assert(background_free(t));
    // A move that went on would lose the notes of published rows.
    if (t->spec.config.deltas || accessor_has_lifecycle(&t->spec.accessor))
        moves_break_led(s, t->spec.space, "a save ended");
    t->turn = (struct turn){.on = true};
    t->work = true;
    background_wake(s);
}

void background_demote(struct shard *s, struct shard_table *t)
{
    if (t->spec.config.cold[0] == '\0')
        return;
    t->work = true;
    background_wake(s);
}

static int begin_walk(struct shard *s, struct shard_table *t,
                      const struct msg_table_do *m, uint64_t session, struct err *e)
{
    struct store_stats x = store_stats(t->store);
    bool clears = m->what == WIRE_CLEAR;
    assert(background_free(t) && (t->n_applied == 0 || clears));
    struct turn turn = {.on = true,
                        .session = session,
                        .number = m->number,
                        .before = rows_gone(t->store),
                        .rows = clears ? x.rows - x.backup_rows + x.cold_rows : 0};
    TRY(chain_reserve_operation(s, t, e));
    TRY(store_admin(t->store, clears ? STORE_CLEAR : STORE_SHRINK, m->threshold, e));
    chain_note_operation(s, t, m, NULL, 0);
    if (clears)
        tables_restart(s, t, NULL);
    t->turn = turn;
    t->work = true;
    admin_going(&s->admin, session, m->number);
    tables_touch_all(s, t);
    background_wake(s);
    return 0;
}

// Ends the day in all partitions, or with replicas in those that chain_find_left has found.
static void end_day(struct shard *s, struct shard_table *t)
{
    if (s->chain == NULL) {
        store_day(t->store);
        return;
    }
    for (uint32_t i = 0; i < s->chain->n_left; i++)
        store_day_in(t->store, s->chain->left[i]);
}

static enum outcome begin_on_store(struct shard *s, struct shard_table *t,
                                   const struct msg_table_do *m, uint64_t session,
                                   bool *ret_begun, struct err *e)
{
    bool sync = t->spec.mode == WIRE_SYNC;
    if (m->what == WIRE_SHRINK && isinf(m->threshold)) {
        err_set(e, TUG_EUSAGE, "shrink of table '%s': its threshold is not finite",
                t->spec.config.name);
        return GOES_ON;
    }
    if (m->clock != 0 && !sync) {
        err_set(e, TUG_EUSAGE, "table '%s' is not one of mode sync: it has no clock",
                t->spec.config.name);
        return GOES_ON;
    }
    if (m->clock != 0 && m->clock < sync_most(t)) {
        err_set(e, TUG_EUSAGE,
                "batch %llu of table '%s' has been applied already: the table's next "
                "batch is %llu",
                (unsigned long long)m->clock, t->spec.config.name,
                (unsigned long long)sync_most(t));
        return GOES_ON;
    }
    if (m->clock > sync_least(t))
        return WANTS_BATCH;
    // A batch that was applied in some partitions only must be finished first.
    if (!background_free(t) || (t->n_applied != 0 && m->what != WIRE_CLEAR))
        return WANTS_TURN;
    if (m->what == WIRE_DAY) {
        if (chain_reserve_operation(s, t, e) != 0)
            return GOES_ON;
        chain_note_operation(s, t, m, NULL, 0);
        end_day(s, t);
        tables_touch_all(s, t);
        background_demote(s, t);
        return GOES_ON;
    }
    if (begin_walk(s, t, m, session, e) != 0)
        return GOES_ON;
    *ret_begun = true;
    return WANTS_TURN;
}

static bool is_of_stores(uint8_t what)
{
    return what == WIRE_CLEAR || what == WIRE_SHRINK || what == WIRE_DAY;
}

// Returns whether an operation that writes into another table must wait for the end of a
// save or of another operation in that table.
static bool target_is_busy(const struct shard *s, const struct msg_table_do *m)
{
    bool writes = m->what == WIRE_COPY || m->what == WIRE_MEAN;
    const struct shard_table *to = writes && m->other < SPEC_MAX_TABLES
                                       ? s->tables[m->other]
                                       : NULL;
    return to != NULL && !background_free(to);
}

// Does an admin operation, or begins it. *ret_begun is set if the operation takes time,
// so that its request waits for its end.
static enum outcome operation_begin(struct shard *s, const struct shard_request *q,
                                    bool *ret_begun, struct err *e)
{
    const struct msg_table_do *m = &q->m->table_do;
    struct shard_table *t = m->table < SPEC_MAX_TABLES ? s->tables[m->table] : NULL;
    if (t == NULL) {
        tables_obey(s, m, e);
        return GOES_ON;
    }
    if (is_of_stores(m->what))
        return begin_on_store(s, t, m, q->peer->session, ret_begun, e);
    if (s->chain != NULL) {
        enum outcome outcome = unbacked_may_copy(s, m, e);
        if (outcome != GOES_ON || e->code != 0)
            return outcome;
    }
    // A save or an operation still needs one of the tables.
    if (!background_free(t) || target_is_busy(s, m))
        return WANTS_TURN;
    if ((m->what == WIRE_COPY || m->what == WIRE_MEAN) && t->n_applied != 0)
        return WANTS_TURN;
    tables_obey(s, m, e);
    return GOES_ON;
}

// Returns the space whose rows an operation changes; WIRE_SPACES if the table is not here.
// A copy or a mean is written into a table of the same space.
static int space_of(const struct shard *s, const struct msg_table_do *m)
{
    const struct shard_table *t = m->table < SPEC_MAX_TABLES ? s->tables[m->table] : NULL;
    return t != NULL ? (int)t->spec.space : WIRE_SPACES;
}

static void break_moves(struct shard *s, const struct msg_table_do *m, int space)
{
    // WIRE_CLOCK: the table's clock is sent with each partition that moves.
    if (m->what == WIRE_CLOCK)
        return;
    for (int i = 0; i < WIRE_SPACES; i++) {
        enum wire_space of = (enum wire_space)i;
        if (i != space && space != WIRE_SPACES)
            continue;
        if (m->what == WIRE_DROP)
            moves_break(s, of, "a table was dropped");
        else
            moves_break_led(s, of, "an admin operation was done");
    }
}

enum outcome table_do_serve(struct shard *s, struct shard_request *q)
{
    const struct msg_table_do *m = &q->m->table_do;
    uint64_t session = q->peer->session, value = 0;
    enum admin_state state = ADMIN_NEW;
    enum outcome outcome = place_check_admin(s, q, m->epoch);
    bool begun = false;
    struct err e = {0};
    int space = space_of(s, m); // found now, because the operation may drop the table
    if (outcome != GOES_ON)
        return outcome;
    if (session == 0)
        err_set(&e, TUG_EUSAGE,
                "only a node that has joined the cluster can do admin operations");
    else if (admin_begin(&s->admin, session, m->number, m->low, &state, &value, &e) ==
             0) {
        if (bug_in(s->o.member.bugs, WITHOUT_ADMIN_NUMBERS) && q->fresh != NULL &&
            state == ADMIN_DONE)
            state = ADMIN_NEW;
        if (s->chain != NULL)
            (void)chain_find_left(s, q, &state, &value, &e);
        if (e.code == 0 && state == ADMIN_NEW)
            outcome = operation_begin(s, q, &begun, &e);
        else if (state == ADMIN_GOING)
            outcome = WANTS_TURN;
    }
    if (begun || (outcome == GOES_ON && state == ADMIN_NEW))
        break_moves(s, m, space);
    if (begun || (outcome == GOES_ON && state == ADMIN_NEW && e.code == 0))
        told_done(s, q);
    if (outcome != GOES_ON)
        return outcome;
    // Batches may have waited for the end of this operation.
    background_again(s, m->table);
    if (e.code != 0) {
        shard_refuse(s, q, &e);
        return ANSWERED;
    }
    if (state == ADMIN_NEW)
        admin_done(&s->admin, session, m->number, 0);
    pending_wake(s, WANTS_BATCH);
    pending_wake(s, WANTS_TICK);
    shard_ok(s, q, value);
    return ANSWERED;
}

static void end_turn(struct shard *s, struct shard_table *t)
{
    struct turn *x = &t->turn;
    if (!x->on)
        return;
    uint64_t gone = x->rows != 0 ? x->rows : rows_gone(t->store) - x->before;
    // background_free let the operation begin only without a cut, and saves wait for its
    // end.
    assert(!cut_going(t->store));
    x->on = false;
    tables_touch_all(s, t);
    tables_measure(s, t);
    admin_done(&s->admin, x->session, x->number, gone);
    chain_end_operation(s, t, x->session, x->number);
    pending_wake(s, WANTS_TURN);
    saves_look(s);
}

// Returns whether copies of rows have taken half of their room in one of the save's tables.
static bool copies_crowd(const struct shard *s)
{
    const struct save_run *r = s->saves.run;
    for (uint32_t i = 0; i < r->n; i++)
        if (r->tables[i].cut && cut_crowded(save_table_at(s, r, i)->store))
            return true;
    return false;
}

// Returns for how many times the next slice's time the loop serves requests after it.
static uint32_t requests_share(const struct shard *s)
{
    bool walks = false;
    for (uint32_t i = 0; i < s->n_tables; i++)
        walks |= s->tables[i] != NULL && s->tables[i]->work;
    bool saves = saves_work(s) && s->o.slice_ns == 0;
    return saves && !walks && !copies_crowd(s) ? REQUESTS_SHARE_SAVING : REQUESTS_SHARE;
}

// Does one slice of all work. Returns whether work is left.
static bool slice(struct shard *s, uint64_t ns)
{
    if (saves_work(s))
        saves_slice(s, ns < SAVE_SLICE_NS ? ns : SAVE_SLICE_NS);
    bool more = saves_work(s);
    for (uint32_t i = 0; i < s->n_tables; i++) {
        struct shard_table *t = s->tables[i];
        if (t == NULL || !t->work)
            continue;
        t->work = store_work(t->store, ns);
        if (!t->work)
            end_turn(s, t);
        more |= t->work;
    }
    return more;
}

// Tries again to apply the batches that could not be applied. Returns whether some
// still cannot be applied.
static bool retry_batches(struct shard *s)
{
    bool stuck = false;
    for (uint32_t i = 0; i < s->n_tables; i++) {
        struct shard_table *t = s->tables[i];
        if (t == NULL || !t->again)
            continue;
        t->again = false;
        sync_apply(s, t);
        stuck |= t->again;
        pending_wake(s, WANTS_TURN);
    }
    return stuck;
}

uint64_t background_tick(struct shard *s)
{
    if (s->work_due > s->now)
        return s->work_due;
    uint64_t begun = clock_ns();
    uint32_t share = requests_share(s);
    s->work_due = VAN_NEVER;
    bool more = slice(s, s->o.slice_ns != 0 ? 0 : SLICE_NS);
    bool busy = s->now - s->served_at < BUSY_NS && !pending_wants(s, WANTS_ROOM);
    // An operation that was done may have let a save or another operation begin.
    more |= s->work_due != VAN_NEVER;
    s->work_due = VAN_NEVER;
    // For a batch that still cannot be applied, retry_batches calls background_wake.
    bool stuck = retry_batches(s);
    more |= !stuck && s->work_due != VAN_NEVER;
    uint64_t spent = s->o.slice_ns != 0 ? s->o.slice_ns : clock_ns() - begun;
    s->rest_until = busy ? s->now + (1 + share) * spent : s->now;
    s->work_due = more ? s->rest_until : stuck ? s->now + RETRY_NS : VAN_NEVER;
    return s->work_due;
}
