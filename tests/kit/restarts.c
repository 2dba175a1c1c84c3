// See restarts.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/restarts.h"

#include <string.h>

#include "base/random.h"
#include "cluster/scheduler/scheduler_keep.h"
#include "kit/cast.h"
#include "kit/sim_internal.h"
#include "kit/stage.h"

// Stream of random numbers, which differs from those of the worlds.
enum { RESTARTS = 0x600, REPLACED, SLOW_DISK = 0x64f };
enum { MOST_DEATHS = 6, ROWS_MAX = 1 << 24 };

// Within this time, all members learn of a new scheduler from a server that has joined
// that scheduler.
#define HEARD_NS (3 * SECOND)
// The time in which workers connect to servers when all have joined.
#define LINKS_NS (SECOND / 2)

static uint64_t draw(struct stage *s, uint64_t n)
{
    return random_below(s->o->seed, RESTARTS, s->restarts.draws++, n);
}

static struct disk_user *newest(struct restarts *r)
{
    return &r->users[r->starts % RESTARTS_MOST];
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

bool restarts_parts(const struct stage *s)
{
    return s->o->keeps && s->world->parts && !sim_has_silences(s->o->seed) &&
           random_below(s->o->seed, REPLACED, UINT32_MAX, 4) == 0;
}

// Chooses the next death: in one of the next writes, often one of the first, or at a
// certain time.
static void plan(struct stage *s)
{
    struct restarts *r = &s->restarts;
    r->dies_time = VAN_NEVER;
    r->disk.dies_at = UINT64_MAX;
    if (r->left == 0)
        return;
    r->left = restarts_parts(s) ? 0 : r->left - 1;
    if (draw(s, 4) == 0 || restarts_parts(s))
        r->dies_time = sim_now(s->sim) + draw(s, 2 * SECOND);
    else
        r->disk.dies_at = r->disk.commits + 1 + draw(s, (uint64_t)1 << draw(s, 7));
    r->disk.how = (enum disk_death)draw(s, DISK_DEATHS);
    r->disk.part = draw(s, UINT32_MAX);
}

// Appends the rows whose loss no node would notice.
static int quiet_rows(struct scheduler *s, struct buf *to)
{
    static const enum row_kind kinds[] = {ROW_WANTED, ROW_MOVES, ROW_FORGETS};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
        for (uint32_t i = 0; i < scheduler_rows_count(s, kinds[k]); i++)
            TRY(scheduler_row_write(s, kinds[k], i, to));
    return 0;
}

// Records the rows that the next scheduler must have, but only if all of them are
// durable: the world may have changed some rows after the scheduler's last round of
// events.
static void look_at_rows(struct stage *s)
{
    struct restarts *r = &s->restarts;
    const struct sim_van *v = (const struct sim_van *)s->scheduler_van;
    buf_free(&r->rows);
    r->rows = BUF_INIT(ROWS_MAX);
    r->knows = !r->disk.died && !newest(r)->busy && !sim_is_stopped(s->scheduler_van) &&
               s->sim->tick_at[v->slot] > s->sim->now &&
               quiet_rows(s->scheduler, &r->rows) == 0;
}

static void check_rows(struct stage *s, struct scheduler *fresh)
{
    struct restarts *r = &s->restarts;
    struct buf rows = BUF_INIT(ROWS_MAX);
    if (r->knows && quiet_rows(fresh, &rows) == 0 &&
        (rows.len != r->rows.len ||
         (rows.len > 0 && memcmp(rows.data, r->rows.data, rows.len) != 0)))
        stage_failed(s, "a scheduler does not have the moves, the wanted owners or the "
                        "pieces to be forgotten of the one before");
    r->knows = false;
    buf_free(&rows);
}

static int start(struct stage *s, struct err *e)
{
    struct restarts *r = &s->restarts;
    struct scheduler_options o = r->options;
    struct scheduler *fresh = NULL;
    char address[VAN_ADDRESS_MAX];
    o.journal = &newest(r)->base;
    o.pid = (uint32_t)(10000 + r->starts);
    if (r->starts > 1) // the clock of the new process may have been set back
        o.session_base = draw(s, 2 * o.session_base);
    TRY(scheduler_open(&fresh, &o, e));
    check_rows(s, fresh);
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
    restarts_close(s); // ends a replaced scheduler of the previous life
    *r = (struct restarts){.on = true, .options = *o, .draws = r->draws};
    TRY(disk_open(&r->disk, s->o->seed, e));
    if (random_below(s->o->seed, SLOW_DISK, UINT32_MAX, 2) != 0)
        r->disk.sim = s->sim;
    r->left = 1 + (uint32_t)draw(s, MOST_DEATHS);
    TRY(disk_again(&r->disk, &r->users[++r->starts % RESTARTS_MOST], e));
    TRY(start(s, e));
    plan(s);
    return 0;
}

// Ends the process of a scheduler that was replaced.
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
    disk_close(&r->copy);
}

void restarts_close(struct stage *s)
{
    end_old(s);
    buf_free(&s->restarts.rows);
    for (int i = 0; i < RESTARTS_MOST; i++)
        disk_leave(&s->restarts.users[i]);
    disk_close(&s->restarts.disk);
}

// Breaks the links between the scheduler and a server. Returns false if no server has
// joined.
static bool lose_sight(struct stage *s)
{
    uint64_t first = random_below(s->o->seed, REPLACED, 400 + s->restarts.deaths,
                                  STAGE_PLACES);
    for (uint32_t i = 0; i < s->n_servers; i++) {
        const struct stage_server *x = &s->servers[(first + i) % s->n_servers];
        if (!stage_is_there(x) || member_id(shard_member(x->shard)) == 0 ||
            stage_was_drained(s, x))
            continue;
        sim_break(s->sim, s->scheduler_van, x->van);
        s->restarts.seer = (uint32_t)(x - s->servers);
        return true;
    }
    return false;
}

// Stops the scheduler, which will continue after another scheduler was started.
static void stop_for_a_while(struct stage *s)
{
    struct restarts *r = &s->restarts;
    uint64_t until = r->start_at +
                     random_below(s->o->seed, REPLACED, 100 + r->deaths, 10 * SECOND);
    uint64_t most = SECOND;
    struct err e;
    end_old(s);
    r->old = s->scheduler;
    r->old_van = s->scheduler_van;
    r->replaced++;
    if (restarts_parts(s) && lose_sight(s) && disk_part(&r->copy, newest(r), &e) == 0) {
        r->told_at = r->start_at + HEARD_NS / 2;
        until = later(until, r->start_at + HEARD_NS);
        most = 60 * SECOND;
    }
    r->old_until = until + random_below(s->o->seed, REPLACED, 200 + r->deaths, most);
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
    if (draw(s, 16) == 0 && !restarts_parts(s))
        r->start_at += draw(s, 20 * SECOND);
}

// Breaks the links of a server that has joined the newer scheduler. When other members
// connect to this server again, it tells them the generation of the newer scheduler.
static void let_tell(struct stage *s)
{
    struct van *v = s->servers[s->restarts.seer].van;
    for (uint32_t i = 0; i < s->n_clients; i++)
        if (s->clients[i]->van != NULL)
            sim_break(s->sim, v, s->clients[i]->van);
    for (uint32_t i = 0; i < s->n_servers; i++)
        sim_break(s->sim, v, s->servers[i].van);
    s->restarts.told_at = 0;
}

static void try_to_start(struct stage *s)
{
    struct restarts *r = &s->restarts;
    struct err e = {0};
    int rc = disk_lose(newest(r), &e);
    if (rc == 0)
        rc = disk_again(&r->disk, &r->users[(r->starts + 1) % RESTARTS_MOST], &e);
    if (rc == 0) {
        r->starts++;
        plan(s); // the scheduler may die while it starts
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
    if (!r->down && disk_look(newest(r)))
        van_wake(s->scheduler_van);
    if (restarts_parts(s) && !r->down && s->scheduler->phase != SCHEDULER_RUNNING)
        r->dies_time = later(r->dies_time, sim_now(s->sim) + LINKS_NS);
    if (r->told_at != 0 && sim_now(s->sim) >= r->told_at)
        let_tell(s);
    if (r->old != NULL && r->old != s->scheduler &&
        (scheduler_finished(r->old, NULL) || sim_now(s->sim) >= r->old_until))
        end_old(s);
    if (!r->down && (r->disk.died || sim_now(s->sim) >= r->dies_time)) {
        look_at_rows(s);
        bool dies = r->disk.died ||
                    (!restarts_parts(s) &&
                     random_below(s->o->seed, REPLACED, r->deaths, 2) == 0);
        if (dies)
            sim_crash(s->sim, s->scheduler_van);
        be_away(s);
        if (!dies)
            stop_for_a_while(s);
    } else if (r->down && sim_now(s->sim) >= r->start_at)
        try_to_start(s);
}

uint64_t restarts_next(const struct stage *s)
{
    const struct restarts *r = &s->restarts;
    const struct disk_user *u = &r->users[r->starts % RESTARTS_MOST];
    return r->down ? r->start_at : r->on && u->busy ? u->due : VAN_NEVER;
}

void restarts_end(struct stage *s)
{
    s->restarts.left = 0;
}
