// Barriers in a simulated network, from one number: workers meet repeatedly, are stopped
// for a while, and die. The test checks:
//
//   - no worker passes a barrier before each living worker has reached it
//   - no living worker hangs or fails when others are stopped or die
//   - when a server is stopped for longer than its lease, the cluster ends, because no other
//     server has its rows; every worker, and the server itself, gets an error with the
//     server's name
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "kit/seeds.h"
#include "kit/stage.h"
#include "kit/test.h"

enum { MAX_WORKERS = 4, MAX_ROUNDS = 12, BITS = 4, CHOICE = 9 };
enum { PASSED, DEATHS, LOST, EVENTS };

struct world;

struct worker {
    struct world *world;
    struct stage_client c;
    bool waits;
    // The number of barriers that the worker has reached, and the number that it has
    // passed.
    uint32_t came, passed;
    uint64_t next; // time at which the worker reaches the next barrier
};

struct world {
    struct stage stage; // must be the first member
    uint32_t n_workers, rounds;
    struct worker workers[MAX_WORKERS];
    uint64_t lost_at; // time at which server `lost` stops; VAN_NEVER: no server stops
    uint32_t lost;    // number of this server
};

static uint64_t draw(struct world *w, uint64_t n)
{
    return stage_draw(&w->stage, n);
}

static int open_worker(struct world *w, uint32_t i, struct err *e)
{
    struct worker *k = &w->workers[i];
    k->world = w;
    k->c.dies_at = i > 0 && stage_one_in(&w->stage, 4) ? 100 * MS + draw(w, 3 * SECOND)
                                                       : VAN_NEVER;
    struct client_options o = {.resend_ns = 20 * MS + draw(w, 80 * MS)};
    return stage_open_client(&w->stage, &k->c, WIRE_WORKER, i, &o, e);
}

static int world_open(void *ctx, struct err *e)
{
    struct world *w = ctx;
    uint32_t n_servers = 1 + (uint32_t)draw(w, STAGE_SERVERS);
    w->n_workers = 2 + (uint32_t)draw(w, MAX_WORKERS - 1);
    w->rounds = 2 + (uint32_t)draw(w, MAX_ROUNDS - 1);
    bool loses = stage_one_in(&w->stage, 4);
    w->lost = (uint32_t)draw(w, n_servers);
    w->lost_at = loses ? 2 * SECOND + draw(w, 3 * SECOND) : VAN_NEVER;
    struct scheduler_options o = sim_scheduler(n_servers, w->n_workers, BITS);
    TRY(stage_open_scheduler(&w->stage, &o, e));
    for (uint32_t i = 0; i < n_servers; i++) {
        struct shard_options so = {0};
        TRY(stage_open_server(&w->stage, &so, NULL, NULL, e));
    }
    for (uint32_t i = 0; i < w->n_workers; i++)
        TRY(open_worker(w, i, e));
    struct sim_seen seen = {1, 1, 4711};
    return stage_open_strangers(&w->stage, &seen, e);
}

// Checks that all living workers have reached the barrier that this worker has passed.
static void check_passed(const struct worker *k)
{
    struct world *w = k->world;
    for (uint32_t i = 0; i < w->n_workers; i++) {
        const struct worker *other = &w->workers[i];
        if (!other->c.dead && other->came < k->came)
            stage_failed(&w->stage, "worker %u has passed barrier %u without worker %u",
                         k->c.number, k->came, i);
    }
}

static void act_as(struct worker *k)
{
    struct world *w = k->world;
    struct member *m = client_member(k->c.client);
    uint64_t now = sim_now(w->stage.sim);
    if (k->waits && member_barrier_done(m, WIRE_GROUP_WORKERS, NULL)) {
        check_passed(k);
        k->waits = false;
        k->passed++;
        k->next = now + draw(w, 300 * MS);
    } else if (!k->waits && k->came < w->rounds && now >= k->next && member_ready(m)) {
        member_barrier(m, WIRE_GROUP_WORKERS);
        van_wake(k->c.van);
        k->waits = true;
        k->came++;
    }
}

static bool has_lost(const struct world *w)
{
    return w->stage.servers[w->lost].lost;
}

static void act(void *ctx)
{
    struct world *w = ctx;
    if (!has_lost(w) && sim_now(w->stage.sim) >= w->lost_at &&
        sim_is_heard(w->stage.scheduler, WIRE_SERVER, w->lost))
        stage_lose_server(&w->stage, w->lost);
    for (uint32_t i = 0; i < w->n_workers; i++) {
        struct worker *k = &w->workers[i];
        // A worker that is not ready could not begin any request.
        if (member_ready(client_member(k->c.client)))
            (void)stage_dies(&k->c);
        // A ghost does not act, although the barrier may still wait for the ghost.
        if (stage_acts(&k->c) && !member_ended(client_member(k->c.client), NULL))
            act_as(k);
    }
}

// Returns whether the worker knows that the cluster has ended. Only the loss of the
// server may end it.
static bool has_ended(const struct worker *k)
{
    struct err why;
    if (!member_ended(client_member(k->c.client), &why))
        return false;
    if (!has_lost(k->world) || why.code == 0 || strstr(why.text, "server") == NULL)
        stage_failed(&k->world->stage, "worker %u learns of the end: %s", k->c.number,
                     why.text);
    return true;
}

// Returns whether all workers have passed all barriers, or all workers and the server
// know that the cluster has ended. A scheduler that was stopped meanwhile may not declare
// the server dead; the run then continues.
static bool is_over(struct world *w)
{
    struct err why;
    bool met = true, ended = true;
    for (uint32_t i = 0; i < w->n_workers; i++) {
        const struct worker *k = &w->workers[i];
        if (k->c.dead)
            continue;
        met &= k->passed == w->rounds;
        ended &= has_ended(k);
    }
    return (met && (has_lost(w) || w->lost_at == VAN_NEVER)) ||
           (ended && has_lost(w) &&
            shard_finished(w->stage.servers[w->lost].shard, &why));
}

static void work(void *ctx)
{
    struct world *w = ctx;
    while (!is_over(w))
        if (!stage_step(&w->stage, 300 * SECOND)) {
            stage_failed(&w->stage,
                         "a barrier hangs, or a process does not learn of the end");
            return;
        }
}

static void count(void *ctx, uint64_t *counts)
{
    const struct world *w = ctx;
    for (uint32_t i = 0; i < w->n_workers; i++)
        counts[PASSED] += w->workers[i].passed;
    counts[DEATHS] += w->stage.deaths;
    counts[LOST] += has_lost(w);
    counts[EVENTS] += w->stage.events;
}

static void check_counts(const uint64_t *counts, uint64_t seeds)
{
    assert_true(counts[PASSED] > 5 * seeds && counts[DEATHS] > seeds / 10);
    assert_true(counts[LOST] > seeds / 10);
}

int main(int argc, char **argv)
{
    static const struct stage_world world = {.bytes = sizeof(struct world),
                                             .stream = CHOICE,
                                             .open = world_open,
                                             .act = act,
                                             .work = work,
                                             .count = count};
    static const struct seeds barriers = {
        .program = "test_sim_barriers",
        .state_bugs = {{ANSWERED_BEFORE_DURABLE},
                       {WITHOUT_ROW_GROUP},
                       {WITHOUT_ROW_PROCESS}},
        .counted = {"barriers passed", "deaths", "servers lost", "events"},
        .world = &world,
        .seeds = 300,
        .state_seeds = 300,
        .bug_seeds = 300,
        .check = check_counts,
    };
    return seeds_main(&barriers, argc, argv);
}
