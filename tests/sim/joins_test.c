// 4,096 sessions join at the same time: all are admitted, all get the same roster, and
// all learn of a death among them. Servers are real members. For workers the test only
// sends and counts messages, because a roster of that size in each worker would not fit
// into memory.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/cast.h"
#include "kit/test.h"
#include "os/clock.h"

enum { SERVERS = 64, SESSIONS = 4096, WORKERS = SESSIONS - SERVERS, BITS = 8 };

static struct sim *sim;
static struct scheduler *scheduler;
static struct van *scheduler_van;
static struct one {
    struct member *m; // the member of a server; NULL for a worker
    struct van *v;
    uint64_t number;
    uint32_t node;
    uint64_t session, version; // session, and version of the roster that this session has
} ones[SESSIONS];

static void on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct one *x = ctx;
    struct msg_hello hello = {
        .cluster = 1, .role = WIRE_WORKER, .version = wire_text("0")};
    if (x->m != NULL)
        member_opened(x->m, link, accepted, now);
    else
        van_send(x->v, link, MSG_HELLO, 0, &hello, NULL);
}

static void of_a_worker(struct one *x, van_link link, const struct van_message *m)
{
    struct msg_join join = {
        .role = WIRE_WORKER, .ticket = x->number, .process = x->number, .loops = 1};
    struct msg_roster_wanted have = {0};
    assert_int_not_equal(m->type, MSG_ERROR);
    if (m->type == MSG_WELCOME) {
        van_send(x->v, link, MSG_JOIN, 1, &join, NULL);
    } else if (m->type == MSG_JOINED) {
        x->node = m->m->joined.node;
        x->session = m->m->joined.session;
    } else if (m->type == MSG_ROSTER) {
        x->version = have.version = m->m->roster.version;
        have.generation = m->m->roster.generation;
        van_send(x->v, link, MSG_ROSTER_WANTED, 0, &have, NULL);
    } else if (m->type == MSG_PING) {
        van_send(x->v, link, MSG_OK, m->request, &(struct msg_ok){0}, NULL);
    }
}

static void on_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct one *x = ctx;
    if (x->m == NULL) {
        of_a_worker(x, link, m);
        return;
    }
    member_message(x->m, link, m, now);
    x->node = member_id(x->m);
    x->session = member_session(x->m);
    x->version = member_roster(x->m)->version;
}

static void on_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    struct one *x = ctx;
    if (x->m != NULL)
        member_closed(x->m, link, why, now);
}

static uint64_t on_tick(void *ctx, uint64_t now)
{
    struct one *x = ctx;
    return x->m != NULL ? member_tick(x->m, now) : VAN_NEVER;
}

static void open_one(uint32_t i)
{
    struct one *x = &ones[i];
    char name[32], address[32];
    snprintf(name, sizeof(name), "n%u", i);
    snprintf(address, sizeof(address), "sim://n%u", i);
    struct van_handler h = {.ctx = x,
                            .opened = on_opened,
                            .message = on_message,
                            .closed = on_closed,
                            .tick = on_tick};
    *x = (struct one){.number = 1000000 + i}; // numbers that differ from those of members
    assert_int_equal(sim_van_open(&x->v, sim, name, &h, NULL), 0);
    if (i >= SERVERS) {
        assert_int_not_equal(van_connect(x->v, "sim://scheduler", 60 * SIM_SECOND), 0);
        return;
    }
    struct member_options o = sim_member(WIRE_SERVER, i, address);
    assert_int_equal(member_open(&x->m, &o, NULL), 0);
    member_serve(x->m, x->v, sim_now(sim));
}

static int open_world(void **state)
{
    (void)state;
    const struct sim_options net = {
        .seed = 1, .delay_min = SIM_SECOND / 10000, .delay_max = SIM_SECOND / 500};
    struct scheduler_options o = sim_scheduler(SERVERS, WORKERS, BITS);
    char address[VAN_ADDRESS_MAX];
    assert_int_equal(sim_open(&sim, &net, NULL), 0);
    assert_int_equal(scheduler_open(&scheduler, &o, NULL), 0);
    struct van_handler h = scheduler_handler(scheduler);
    assert_int_equal(sim_van_open(&scheduler_van, sim, "scheduler", &h, NULL), 0);
    assert_int_equal(van_listen(scheduler_van, "sim://scheduler", address, NULL), 0);
    scheduler_serve(scheduler, scheduler_van, address);
    for (uint32_t i = 0; i < SESSIONS; i++)
        open_one(i);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SESSIONS; i++) {
        van_free(ones[i].v);
        member_close(ones[i].m);
    }
    van_free(scheduler_van);
    scheduler_close(scheduler);
    sim_close(sim);
    return mem_live() == 0 ? 0 : -1;
}

static uint32_t count_of(uint64_t version)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < SESSIONS; i++)
        n += ones[i].version >= version;
    return n;
}

// Runs until all sessions have the scheduler's roster.
static void run_until_all_know(uint32_t all, uint64_t seconds)
{
    uint64_t until = sim_now(sim) + seconds * SIM_SECOND, events = 0;
    double began = clock_seconds();
    while (scheduler_roster(scheduler)->epoch == 0 ||
           count_of(scheduler_roster(scheduler)->version) < all) {
        assert_true(sim_now(sim) < until);
        for (int i = 0; i < SESSIONS; i++)
            events += sim_step(sim, until);
    }
    print_message("%llu events, %.2f s of virtual time, %.2f s\n",
                  (unsigned long long)events, (double)sim_now(sim) / SIM_SECOND,
                  clock_seconds() - began);
}

// Stops the scheduler and every third session, each for a different time.
static void stop_some(void)
{
    const uint64_t now = sim_now(sim), ms = SIM_SECOND / 1000;
    sim_stop(sim, scheduler_van, now + 700 * ms, 50 * ms);
    // the last session is left out, because it dies
    for (uint32_t i = 0; i + 1 < SESSIONS; i += 3)
        sim_stop(sim, ones[i].v, now + random_below(1, 0, i, 1500) * ms,
                 random_below(1, 1, i, 200) * ms);
}

static void test_all_join_at_one_time(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        sim_step(sim, sim_now(sim) + SIM_SECOND); // stops while some joins are under way
    stop_some();
    run_until_all_know(SESSIONS, 60);
    const struct roster *r = scheduler_roster(scheduler);
    assert_int_equal(r->n_nodes, SESSIONS + 1); // the roster also has the scheduler
    for (uint32_t i = 0; i < SESSIONS; i++) {
        const struct roster_node *n = roster_find(r, ones[i].node);
        assert_non_null(n);
        assert_true(n->alive && n->session == ones[i].session);
    }
    for (uint32_t i = 0; i < SERVERS; i++)
        assert_int_equal(member_roster(ones[i].m)->n_nodes, r->n_nodes);
}

static void test_all_learn_of_a_death(void **state)
{
    (void)state;
    uint32_t dead = ones[SESSIONS - 1].node;
    uint64_t until = sim_now(sim) + 60 * SIM_SECOND;
    sim_crash(sim, ones[SESSIONS - 1].v);
    stop_some();
    while (roster_find(scheduler_roster(scheduler), dead)->alive)
        assert_true(sim_step(sim, until));
    run_until_all_know(SESSIONS - 1, 60);
    for (uint32_t i = 0; i < SERVERS; i++) {
        assert_false(roster_find(member_roster(ones[i].m), dead)->alive);
        assert_false(member_ended(ones[i].m, NULL));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_join_at_one_time),
        cmocka_unit_test(test_all_learn_of_a_death),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
