// The life of the unbacked table of the simulated cluster with replicas: worker 0 makes it,
// drops it and makes it again, and in some worlds a primary dies while it exists.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/random.h"
#include "sim/replicas.h"

enum { LIFE = 0x710 }; // a stream of random numbers, which differs from the worlds'

static uint64_t draw(struct world *w, uint64_t n)
{
    return random_below(w->stage.o->seed, LIFE, w->life.draws++, n);
}

// A table that is saved, or has days, is not dropped.
void life_open(struct world *w)
{
    struct unbacked_life *l = &w->life;
    l->kills_at = VAN_NEVER;
    if (!REPLICAS_UNBACKED)
        return;
    l->next = draw(w, SECOND);
    l->drops_left = (uint32_t)draw(w, 4);
    if (l->drops_left == 0 && !w->stage.o->keeps && draw(w, 3) == 0)
        l->kills_at = SECOND + draw(w, 5 * SECOND);
    w->saves_of = l->drops_left == 0 && draw(w, 2) == 0 ? UNBACKED : SUMS;
}

// While the unbacked table exists, its primaries live; while it is made or dropped, all do.
bool life_may_die(void *ctx, uint32_t server)
{
    const struct world *w = ctx;
    const struct unbacked_life *l = &w->life;
    // A scheduler that comes back may have forgotten that the table was dropped.
    if (l->state == ABSENT && (l->number == 0 || !w->stage.o->keeps))
        return true;
    return l->state == MADE && !changes_owns(&w->changes, server);
}

// The other workers make the unbacked table when worker 0 has made it.
void life_let_know(struct worker *k)
{
    struct unbacked_life *l = &k->world->life;
    if (l->state != MADE || k->knows == l->number)
        return;
    if (k->making[UNBACKED] == 0 && l->next > sim_now(k->world->stage.sim))
        world_make_table(k, UNBACKED);
    else if (stage_is_over(&k->c, &k->making[UNBACKED], "making the unbacked table"))
        k->knows = l->number;
}

// Returns whether workers may begin requests about the unbacked table.
bool life_in_use(const struct world *w)
{
    return w->life.state == MADE && sim_now(w->stage.sim) < w->life.next;
}

// Returns whether a worker, perhaps a dead one, has a request about the unbacked table.
static bool is_unbacked_used(const struct world *w)
{
    for (uint32_t i = 0; i < w->n_workers; i++) {
        const struct worker *k = &w->workers[i];
        if (k->making[UNBACKED] != 0)
            return true;
        for (uint32_t j = 0; j < k->next; j++)
            if (k->ops[j].table == UNBACKED && k->ops[j].ts != 0)
                return true;
    }
    return false;
}

static bool has_ghosts(const struct world *w)
{
    uint32_t i = 0;
    while (i < w->stage.n_servers && !w->stage.servers[i].ghost)
        i++;
    return i < w->stage.n_servers;
}

static void end_making(struct world *w)
{
    struct unbacked_life *l = &w->life;
    uint64_t now = sim_now(w->stage.sim);
    l->state = MADE;
    w->workers[0].knows = ++l->number;
    l->next = l->drops_left > 0 ? now + SECOND + draw(w, 4 * SECOND) : VAN_NEVER;
}

static void begin_drop(struct world *w)
{
    struct unbacked_life *l = &w->life;
    struct stage *s = &w->stage;
    struct stage_client *c = &w->workers[0].c;
    l->state = GOING;
    l->watched = false;
    l->drops_left--;
    l->drop = stage_begun(
        c, client_admin(c->client, TABLE + UNBACKED, WIRE_DROP, 0, &s->said), "a drop");
}

static void end_drop(struct world *w)
{
    w->life.state = ABSENT;
    w->life.next = sim_now(w->stage.sim) + draw(w, 2 * SECOND);
    memset(w->acknowledged[UNBACKED], 0, sizeof(w->acknowledged[UNBACKED]));
    memset(w->made[UNBACKED], 0, sizeof(w->made[UNBACKED]));
    for (uint32_t i = 0; i < w->n_workers; i++)
        for (uint32_t j = 0; j < w->workers[i].next; j++)
            w->workers[i].ops[j].was_dropped |= w->workers[i].ops[j].table == UNBACKED;
}

void life_let(struct world *w)
{
    struct unbacked_life *l = &w->life;
    struct worker *k = &w->workers[0];
    bool due = sim_now(w->stage.sim) >= l->next;
    if (!REPLICAS_UNBACKED || !k->made || !stage_acts(&k->c) || stage_is_down(&w->stage))
        return;
    switch (l->state) {
    case ABSENT:
        // A primary may have died whose death the scheduler does not know yet.
        if (!due || !world_deaths_are_known(w) || has_ghosts(w))
            return;
        world_make_table(k, UNBACKED);
        l->state = MAKING;
        return;
    case MAKING:
        if (stage_is_over(&k->c, &k->making[UNBACKED], "making the unbacked table"))
            end_making(w);
        return;
    case MADE:
        if (due && !is_unbacked_used(w))
            begin_drop(w);
        return;
    case GOING:
        (void)stage_is_over(&k->c, &l->drop, "a drop");
        if (l->drop == 0 &&
            !scheduler_keeps_primaries(w->stage.scheduler, WIRE_SPACE_SPARSE))
            end_drop(w);
    }
}

// Kills a server that leads partitions. The rows of the unbacked table on it are lost.
void life_kill_primary(struct world *w)
{
    struct unbacked_life *l = &w->life;
    struct stage *s = &w->stage;
    uint32_t i = 0;
    if (l->state != MADE || l->killed || sim_now(s->sim) < l->kills_at)
        return;
    while (i < s->n_servers &&
           !(stage_is_there(&s->servers[i]) && changes_owns(&w->changes, i) &&
             sim_is_heard(s->scheduler, WIRE_SERVER, i)))
        i++;
    if (i == s->n_servers)
        return;
    stage_kill_server(s, i, false);
    // When the run ends, a worker whose link has just broken may count as dead.
    s->servers[i].lost = true;
    l->killed = true;
}

// The run has ended because a primary was killed. Ends the requests that were answered
// before, and checks what their pulls have shown.
static void end_answered(struct world *w)
{
    struct err e;
    for (uint32_t i = 0; i < w->n_workers; i++) {
        struct worker *k = &w->workers[i];
        for (uint32_t j = 0; j < k->next && stage_acts(&k->c); j++) {
            struct op *op = &k->ops[j];
            int rc = 0;
            if (op->ts == 0 || !client_done(k->c.client, op->ts, &rc, &e))
                continue;
            op->ts = 0;
            if (rc == 0)
                world_end_op(k, op);
        }
    }
}

// Returns whether the run has ended because a primary was killed.
bool life_has_lost_rows(struct world *w)
{
    const struct scheduler *s = w->stage.scheduler;
    if (!w->life.killed || s->phase != SCHEDULER_ENDING)
        return false;
    if (!w->life.ended && (s->end.code != TUG_EIO ||
                           strstr(s->end.text, " was lost with partitions ") == NULL))
        stage_failed(&w->stage, "a primary was killed, but the run has ended: %s",
                     s->end.text);
    w->life.ended = true;
    end_answered(w);
    return true;
}
