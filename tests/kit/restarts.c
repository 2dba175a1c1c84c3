// See restarts.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/restarts.h"

#include "base/random.h"
#include "cluster/scheduler/scheduler_internal.h"
#include "kit/sim_internal.h"
#include "kit/stage.h"

// Stream of random numbers, which differs from those of the worlds.
enum { RESTARTS = 0x600, REPLACED };
enum { MOST_DEATHS = 6 };

static uint64_t draw(struct stage *s, uint64_t n)
{
    return random_below(s->o->seed, RESTARTS, s->restarts.draws++, n);
}

// Chooses the next death: in one of the next writes, often in the first ones, or at a time.
static void plan(struct stage *s)
{
    struct restarts *r = &s->restarts;
    r->dies_time = VAN_NEVER;
    r->disk.dies_at = UINT64_MAX;
    if (r->left == 0)
        return;
    r->left--;
    if (draw(s, 4) == 0)
        r->dies_time = sim_now(s->sim) + draw(s, 2 * SECOND);
    else
        r->disk.dies_at = r->disk.commits + 1 + draw(s, (uint64_t)1 << draw(s, 7));
    r->disk.how = (enum disk_death)draw(s, DISK_DEATHS);
    r->disk.part = draw(s, UINT32_MAX);
}

static int start(struct stage *s, struct err *e)
{
    struct restarts *r = &s->restarts;
    struct scheduler_options o = r->options;
    struct scheduler *fresh = NULL;
    char address[VAN_ADDRESS_MAX];
    o.journal = &r->users[r->starts % RESTARTS_MOST].base;
    o.pid = (uint32_t)(10000 + r->starts);
    if (r->starts > 1) // its clock may have been set back
        o.session_base = draw(s, 2 * o.session_base);
    TRY(scheduler_open(&fresh, &o, e));
    if (r->old != s->scheduler || s->scheduler == NULL) {
        van_free(s->scheduler_van);
        scheduler_close(s->scheduler);
    }
    s->scheduler_van = NULL;
    s->scheduler = fresh;
    struct van_handler h = scheduler_handler(fresh);
    TRY(sim_van_open(&s->scheduler_van, s->sim, "scheduler", &h, e));
    TRY(van_listen(s->scheduler_van, "sim://scheduler", address, e));
    scheduler_serve(fresh, s->scheduler_van, address);
    r->down = false;
    if (r->starts > 1 && s->world->again != NULL)
        s->world->again(s);
    return 0;
}

int restarts_open(struct stage *s, const struct scheduler_options *o, struct err *e)
{
    struct restarts *r = &s->restarts;
    restarts_close(s); // of the life before
    *r = (struct restarts){.on = true, .options = *o, .draws = r->draws};
    TRY(disk_open(&r->disk, s->o->seed, e));
    r->left = 1 + (uint32_t)draw(s, MOST_DEATHS);
    TRY(disk_again(&r->disk, &r->users[++r->starts % RESTARTS_MOST], e));
    TRY(start(s, e));
    plan(s);
    return 0;
}

// The process of a scheduler that was replaced ends.
static void end_old(struct stage *s)
{
    struct restarts *r = &s->restarts;
    if (r->old == NULL)
        return;
    if (s->sim != NULL)
        sim_crash(s->sim, r->old_van);
    if (r->old != s->scheduler) {
        van_free(r->old_van);
        scheduler_close(r->old);
    }
    r->old = NULL;
    r->old_van = NULL;
}

void restarts_close(struct stage *s)
{
    end_old(s);
    disk_close(&s->restarts.disk);
}

// Stops the scheduler, which will go on after another one was started.
static void stop_for_a_while(struct stage *s)
{
    struct restarts *r = &s->restarts;
    uint64_t until = r->start_at +
                     random_below(s->o->seed, REPLACED, 100 + r->deaths, 10 * SECOND);
    end_old(s);
    r->old = s->scheduler;
    r->old_van = s->scheduler_van;
    r->replaced++;
    r->old_until = until + random_below(s->o->seed, REPLACED, 200 + r->deaths, SECOND);
    sim_unlisten(s->sim, (struct sim_van *)s->scheduler_van);
    sim_stop(s->sim, s->scheduler_van, until, 0);
}

// Chooses how long the scheduler is away: mostly for a moment, seldom for long.
static void be_away(struct stage *s)
{
    static const uint64_t most[] = {50 * MS, 50 * MS, SECOND, 3 * SECOND};
    struct restarts *r = &s->restarts;
    r->down = true;
    r->deaths++;
    r->start_at = sim_now(s->sim) + 1 + draw(s, most[draw(s, 4)]);
    if (draw(s, 16) == 0)
        r->start_at += draw(s, 20 * SECOND);
}

static void try_to_start(struct stage *s)
{
    struct restarts *r = &s->restarts;
    struct err e = {0};
    int rc = disk_again(&r->disk, &r->users[(r->starts + 1) % RESTARTS_MOST], &e);
    if (rc == 0) {
        r->starts++;
        plan(s); // it may die while it starts
        rc = start(s, &e);
    }
    if (rc != 0 && r->disk.died)
        be_away(s);
    else if (rc != 0)
        stage_failed(s, "the scheduler does not start again: %s", e.text);
}

void restarts_look(struct stage *s)
{
    struct restarts *r = &s->restarts;
    if (!r->on || s->failure.code != 0)
        return;
    if (r->old != NULL && r->old != s->scheduler &&
        (scheduler_finished(r->old, NULL) || sim_now(s->sim) >= r->old_until))
        end_old(s);
    if (!r->down && (r->disk.died || sim_now(s->sim) >= r->dies_time)) {
        bool dies = r->disk.died || random_below(s->o->seed, REPLACED, r->deaths, 2) == 0;
        if (dies)
            sim_crash(s->sim, s->scheduler_van);
        be_away(s);
        if (!dies)
            stop_for_a_while(s);
    } else if (r->down && sim_now(s->sim) >= r->start_at)
        try_to_start(s);
}

void restarts_end(struct stage *s)
{
    s->restarts.left = 0;
}
