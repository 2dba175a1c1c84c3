// Records of clocks: the ticks of workers in ssp tables, and the steps of sessions. Clients
// send them only to loops that serve partitions, so a loop that is only a backup gets them
// by records. They are about all partitions of a space that the sender leads.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "cluster/roster.h"
#include "server/chain/chain.h"
#include "server/chain/records.h"
#include "server/clocks/pending.h"
#include "server/moves/stream.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

struct tick {
    uint64_t table, session, request, clock;
};

struct step {
    uint64_t session, steps;
    uint64_t sum; // of all sessions, by the sender's knowledge
};

int chain_note_tick(struct shard *s, const struct shard_table *t, uint64_t session,
                    uint64_t request, uint64_t clock, struct err *e)
{
    const struct tick x = {t->spec.id, session, request, clock};
    TRY(chain_reserve_places(s, t->spec.space, NULL, 0, sizeof(x), e));
    chain_note_places(s, RECORD_TICK, t->spec.space, NULL, 0, &x, sizeof(x));
    return 0;
}

int chain_note_step(struct shard *s, uint64_t session, uint64_t steps, struct err *e)
{
    const struct step x = {session, steps, step_clock_sum(&s->steps)};
    for (uint32_t i = 0; i < WIRE_SPACES; i++) {
        enum wire_space space = (enum wire_space)i;
        TRY(chain_reserve_places(s, space, NULL, 0, sizeof(x), e));
        chain_note_places(s, RECORD_STEP, space, NULL, 0, &x, sizeof(x));
    }
    return 0;
}

static int apply_tick(struct shard *s, const struct tick *x, enum wire_space space,
                      struct err *e)
{
    struct shard_table *t = x->table < SPEC_MAX_TABLES ? s->tables[x->table] : NULL;
    if (t == NULL || t->spec.mode != WIRE_SSP || t->spec.space != space ||
        x->session == 0)
        return stream_damaged(e);
    if (ssp_clock_tick(&t->ssp, x->session, x->request, x->clock) != 0)
        return err_nomem(e, "the workers of a table");
    pending_wake(s, WANTS_TICK);
    return 0;
}

static int apply_step(struct shard *s, const struct step *x, struct err *e)
{
    if (x->session == 0 || x->steps > STEP_CLOCK_MAX || x->sum > STEP_CLOCK_MAX)
        return stream_damaged(e);
    // The steps of a session that has ended count only in the sum.
    if (!roster_session_over(member_roster(s->member), x->session) &&
        step_clock_set(&s->steps, x->session, x->steps) != 0)
        return err_nomem(e, "the steps of a session");
    step_clock_reach(&s->steps, x->sum);
    tables_set_step(s);
    return 0;
}

int records_apply_clock(struct shard *s, const struct channel_record *r, uint32_t *ret_n,
                        struct err *e)
{
    struct tick tick;
    struct step step;
    if (r->n_items != 0 ||
        r->n_common != (r->kind == RECORD_TICK ? sizeof(tick) : sizeof(step)))
        return stream_damaged(e);
    if (r->kind == RECORD_TICK) {
        memcpy(&tick, r->common, sizeof(tick));
        TRY(apply_tick(s, &tick, r->space, e));
    } else {
        memcpy(&step, r->common, sizeof(step));
        TRY(apply_step(s, &step, e));
    }
    for (uint32_t i = 0; i < r->n_places; i++)
        *ret_n += records_applies(s, r, i);
    return 0;
}
