// Two schedulers of one cluster at the same time: one of generation 1, which was thought to
// be dead, and one of generation 2, which was started with a copy of its state.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "cluster/heartbeat.h"
#include "cluster/member_internal.h"
#include "cluster/scheduler/scheduler_internal.h"
#include "kit/actors.h"
#include "kit/journals.h"
#include "kit/test.h"

enum { SERVER, WORKER = 2, ACTORS = 4 };

static struct world w; // the world with the first scheduler
static struct memory_journal journals[2];
static struct scheduler *later;
static struct van *later_van;

static struct scheduler_options options(int i, uint64_t bugs)
{
    struct scheduler_options o = world_options(2, 2);
    o.journal = &journals[i].base;
    o.bugs = bugs;
    memset(o.session_key, 7, sizeof(o.session_key));
    return o;
}

static void add_actors(uint64_t bugs)
{
    for (uint32_t i = 0; i < ACTORS; i++) {
        enum wire_role role = i < WORKER ? WIRE_SERVER : WIRE_WORKER;
        struct member_options o = world_member(&w, role, i);
        o.bugs = bugs;
        world_add_with(&w, &o);
    }
}

static void open_first(uint64_t bugs)
{
    journals_open(&journals[0]);
    struct scheduler_options o = options(0, bugs);
    world_open(&w, 1, &o);
    add_actors(bugs);
    world_run(&w, 3 * SECONDS);
    for (uint32_t i = 0; i < ACTORS; i++)
        assert_true(member_ready(w.actors[i].m));
}

static void open_later(uint64_t bugs)
{
    char address[VAN_ADDRESS_MAX];
    journals_copy(&journals[1], &journals[0]);
    struct scheduler_options o = options(1, bugs);
    o.log = NULL;
    assert_int_equal(scheduler_open(&later, &o, NULL), 0);
    struct van_handler h = scheduler_handler(later);
    assert_int_equal(sim_van_open(&later_van, w.sim, "later", &h, NULL), 0);
    assert_int_equal(van_listen(later_van, "sim://later", address, NULL), 0);
    scheduler_serve(later, later_van, address);
}

static void open_both(uint64_t bugs)
{
    open_first(bugs);
    open_later(bugs);
}

static void close_both(void)
{
    van_free(later_van);
    scheduler_close(later);
    world_close(&w);
    journals_free(&journals[0]);
    journals_free(&journals[1]);
}

// Makes the actor connect to the later scheduler from its next attempt on.
static void readdress(struct actor *a)
{
    snprintf(a->m->scheduler, sizeof(a->m->scheduler), "sim://later");
}

static void break_link(struct actor *a)
{
    struct err why = {.code = TUG_EIO};
    van_link link = a->m->s.link;
    van_close_link(a->v, link);
    assert_true(member_closed(a->m, link, &why, sim_now(w.sim)));
}

static void assert_follows(const struct actor *a, uint64_t generation)
{
    assert_false(member_ended(a->m, NULL));
    assert_true(member_is_here(a->m));
    assert_int_equal(a->m->s.generation, generation);
    assert_int_equal(member_roster(a->m)->generation, generation);
}

// A member of the older generation joins the later scheduler as the same node.
static void test_rejoins(void **state)
{
    (void)state;
    open_both(0);
    struct actor *a = &w.actors[WORKER];
    uint32_t id = member_id(a->m);
    uint64_t session = member_session(a->m);
    assert_follows(a, 1);
    readdress(a);
    break_link(a);
    world_run(&w, 2 * SECONDS);
    assert_follows(a, 2);
    assert_int_equal(member_id(a->m), id);
    assert_int_equal(member_session(a->m), session);
    assert_follows(&w.actors[SERVER], 1); // the server does not know the later scheduler
                                          // yet
    close_both();
}

// A server that learns of the later scheduler tells the first scheduler and leaves it.
// The first scheduler then ends. It stops no node, and writes nothing more to its
// journal.
static void test_first_is_told(void **state)
{
    (void)state;
    struct err why = {0};
    open_both(0);
    for (uint32_t i = 0; i < ACTORS; i++)
        readdress(&w.actors[i]);
    uint64_t commits = journals[0].commits;
    member_heard_of(w.actors[SERVER].m, 2, sim_now(w.sim));
    assert_false(member_is_here(w.actors[SERVER].m));
    world_run(&w, SECONDS);
    assert_true(scheduler_finished(w.s, &why));
    assert_int_equal(why.code, TUG_EIO);
    assert_non_null(strstr(why.text, "generation 2 of the scheduler has taken over"));
    assert_non_null(strstr(why.text, "generation 1, ends"));
    sim_crash(w.sim, w.v); // the first scheduler's process ends
    world_run(&w, 2 * SECONDS);
    for (uint32_t i = 0; i < ACTORS; i++)
        assert_follows(&w.actors[i], 2);
    world_run(&w, 100 * SECONDS);
    assert_int_equal(journals[0].commits, commits);
    assert_false(scheduler_finished(later, NULL));
    close_both();
}

// A member that reaches only the first scheduler does not join it again, but waits for the
// later one.
static void test_does_not_go_back(void **state)
{
    (void)state;
    struct err why = {0};
    open_both(0);
    struct actor *a = &w.actors[WORKER];
    member_heard_of(a->m, 2, sim_now(w.sim));
    world_run(&w, 2 * SECONDS);
    assert_true(scheduler_finished(w.s, NULL));
    assert_false(member_is_here(a->m));
    assert_false(member_ended(a->m, NULL));
    world_run(&w, 70 * SECONDS);
    assert_true(member_ended(a->m, &why));
    assert_non_null(strstr(why.text, "could not be reached for 60 s"));
    close_both();
}

// If the bug WITHOUT_GENERATION is injected, a member that learns of generation 2 stays
// with the scheduler of generation 1, and that scheduler does not end.
static void test_switched_off(void **state)
{
    (void)state;
    const uint64_t bugs = (uint64_t)1 << WITHOUT_GENERATION;
    open_both(bugs);
    member_heard_of(w.actors[SERVER].m, 2, sim_now(w.sim));
    world_run(&w, 2 * SECONDS);
    assert_false(scheduler_finished(w.s, NULL));
    assert_true(member_is_here(w.actors[SERVER].m));
    close_both();
}

// ------------------------------------------------------------------ one peer's messages

// A peer that sends messages to a scheduler, or a host on which a server's member answers
// greetings.
struct peer {
    struct van *v;
    struct member *m; // the member that answers greetings, if the peer is such a host
    van_link link;
    int rc;
    uint64_t welcome; // the generation in WELCOME
};

static uint64_t no_tick(void *ctx, uint64_t now)
{
    (void)ctx, (void)now;
    return VAN_NEVER;
}

static void peer_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct peer *p = ctx;
    uint32_t node;
    uint64_t session;
    (void)now;
    if (m->type == MSG_WELCOME)
        p->welcome = m->m->welcome.generation;
    else if (p->m != NULL)
        p->rc = member_greeted(p->m, link, m, &node, &session, NULL);
}

static void open_peer(struct peer *p, const char *name)
{
    struct van_handler h = {.ctx = p, .message = peer_message, .tick = no_tick};
    assert_int_equal(sim_van_open(&p->v, w.sim, name, &h, NULL), 0);
}

static void greet(struct peer *p, const char *address, const struct session_who *who)
{
    p->link = van_connect(p->v, address, SECONDS);
    world_run(&w, SECONDS / 10);
    session_greet(p->v, p->link, who);
    world_run(&w, SECONDS / 10);
}

// The first scheduler believes a later generation only from a server that proves its
// session, and not from a worker.
static void test_scheduler_believes_servers(void **state)
{
    (void)state;
    open_both(0);
    struct peer p = {0};
    open_peer(&p, "peer");
    struct session_who who = {.cluster = CLUSTER, .role = WIRE_TOOL, .generation = 2};
    greet(&p, "sim://scheduler", &who);
    assert_int_equal(p.welcome, 1);
    assert_false(scheduler_finished(w.s, NULL));
    who = *member_who(w.actors[WORKER].m);
    who.generation = 2;
    sim_van_role(p.v, WIRE_WORKER);
    greet(&p, "sim://scheduler", &who);
    assert_false(scheduler_finished(w.s, NULL));
    who = *member_who(w.actors[SERVER].m);
    sim_van_role(p.v, WIRE_SERVER);
    who.generation = 2;
    who.secret[0] ^= 1;
    greet(&p, "sim://scheduler", &who);
    assert_false(scheduler_finished(w.s, NULL));
    who.secret[0] ^= 1;
    who.generation = 1;
    greet(&p, "sim://scheduler", &who);
    assert_false(scheduler_finished(w.s, NULL));
    who.generation = 2;
    greet(&p, "sim://scheduler", &who);
    assert_true(scheduler_finished(w.s, NULL));
    van_free(p.v);
    close_both();
}

// A guest that joined with a tool's token also has a session, but may not end the
// scheduler.
static void test_tools_are_not_believed(void **state)
{
    (void)state;
    open_first(0);
    struct member_options o = world_member(&w, WIRE_DRIVER, 9);
    struct actor *guest = world_add_with(&w, &o);
    world_run(&w, 2 * SECONDS);
    struct session_who who = *member_who(guest->m);
    assert_true(who.has_secret);
    who.generation = 9;
    struct peer tool = {0}, host = {.m = w.actors[SERVER].m};
    char address[VAN_ADDRESS_MAX];
    open_peer(&tool, "tool");
    sim_van_role(tool.v, WIRE_TOOL);
    greet(&tool, "sim://scheduler", &who);
    assert_int_equal(tool.welcome, 1);
    assert_false(scheduler_finished(w.s, NULL));
    // a server also ignores the generation that a tool claims
    open_peer(&host, "host");
    assert_int_equal(van_listen(host.v, "sim://host", address, NULL), 0);
    struct van *own = host.m->side.van;
    host.m->side.van = host.v;
    greet(&tool, "sim://host", &who);
    assert_int_equal(host.rc, 0);
    host.m->side.van = own;
    assert_int_equal(host.m->who.generation, 1);
    assert_true(member_is_here(host.m));
    van_free(tool.v);
    van_free(host.v);
    world_close(&w);
    journals_free(&journals[0]);
}

// A worker that has joined the later scheduler greets a server. The server then also
// follows the later scheduler, and names generation 2 in WELCOME.
static void test_members_tell_each_other(void **state)
{
    (void)state;
    open_both(0);
    struct actor *worker = &w.actors[WORKER], *server = &w.actors[SERVER];
    for (uint32_t i = 0; i < ACTORS; i++)
        readdress(&w.actors[i]);
    break_link(worker);
    world_run(&w, 2 * SECONDS);
    assert_follows(worker, 2);
    struct peer client = {0}, host = {.m = server->m};
    char address[VAN_ADDRESS_MAX];
    open_peer(&client, "client");
    open_peer(&host, "host");
    assert_int_equal(van_listen(host.v, "sim://host", address, NULL), 0);
    struct van *own = host.m->side.van;
    van_link own_link = host.m->s.link;
    // The server's member answers on the host's van, on which it has no link to a scheduler.
    host.m->side.van = host.v;
    host.m->s.state = SESSION_CLOSED;
    host.m->s.link = host.m->here = 0;
    client.link = van_connect(client.v, "sim://host", SECONDS);
    world_run(&w, MILLIS * 20);
    session_greet(client.v, client.link, member_who(worker->m));
    world_run(&w, MILLIS * 20);
    host.m->side.van = own;
    host.m->s.state = SESSION_CLOSED;
    host.m->s.link = 0;
    host.m->s.due = sim_now(w.sim);
    van_close_link(own, own_link);
    assert_int_equal(host.rc, 0);
    assert_int_equal(client.welcome, 2);
    assert_int_equal(host.m->who.generation, 2);
    world_run(&w, 2 * SECONDS);
    assert_follows(server, 2);
    van_free(client.v);
    van_free(host.v);
    close_both();
}

// The members and the heartbeats of a process share the newest generation that any of
// them knows.
static void test_process_shares_it(void **state)
{
    (void)state;
    static struct node node;
    static atomic_bool lost;
    struct heartbeat *beats;
    struct van *v;
    open_first(0);
    node = (struct node){.cluster = CLUSTER, .process = 500 + WORKER};
    node.generation = &node.newest;
    snprintf(node.scheduler, sizeof(node.scheduler), "sim://scheduler");
    assert_int_equal(heartbeat_open(&beats, &node, &lost, NULL), 0);
    struct van_handler h = heartbeat_handler(beats);
    assert_int_equal(sim_van_open(&v, w.sim, "beats", &h, NULL), 0);
    heartbeat_serve(beats, v);
    w.actors[WORKER].m->o.generation = w.actors[SERVER].m->o.generation = &node.newest;
    world_run(&w, 3 * SECONDS);
    assert_int_equal(atomic_load(&node.newest), 1);
    open_later(0);
    for (uint32_t i = 0; i < ACTORS; i++)
        readdress(&w.actors[i]);
    // The first scheduler is not told that it was replaced, and still gets heartbeats.
    for (uint32_t i = 0; i < ACTORS; i++)
        sim_partition(w.sim, w.actors[i].v, w.v, true);
    member_heard_of(w.actors[SERVER].m, 2, sim_now(w.sim));
    assert_int_equal(atomic_load(&node.newest), 2);
    world_run(&w, 2 * SECONDS);
    assert_follows(&w.actors[WORKER], 2);
    // The first scheduler declares the process dead, but the process ignores that.
    world_run(&w, 60 * SECONDS);
    const struct roster_node *n = roster_find(scheduler_roster(w.s),
                                              member_id(w.actors[WORKER].m));
    assert_true(n != NULL && !n->alive);
    assert_false(atomic_load(&lost));
    van_free(v);
    heartbeat_stop(beats);
    close_both();
}

// The heartbeats of a process reach the later scheduler, and tell the idle worker of the
// process, whose link to the first scheduler is still open.
static void test_heartbeats_tell_members(void **state)
{
    (void)state;
    static struct node node;
    struct heartbeat *beats;
    struct van *v;
    open_both(0);
    struct actor *worker = &w.actors[WORKER];
    node = (struct node){.cluster = CLUSTER, .process = 500 + WORKER};
    node.generation = worker->m->o.generation = &node.newest;
    snprintf(node.scheduler, sizeof(node.scheduler), "sim://later");
    readdress(worker);
    sim_stop(w.sim, w.v, sim_now(w.sim) + 100 * SECONDS, 0);
    world_run(&w, 3 * SECONDS);
    assert_follows(worker, 1);
    assert_int_equal(heartbeat_open(&beats, &node, NULL, NULL), 0);
    struct van_handler h = heartbeat_handler(beats);
    assert_int_equal(sim_van_open(&v, w.sim, "beats", &h, NULL), 0);
    heartbeat_serve(beats, v);
    world_run(&w, 4 * SECONDS);
    assert_follows(worker, 2);
    van_free(v);
    heartbeat_stop(beats);
    close_both();
}

// The numbers that the first scheduler still gives to sessions and moves differ from
// those of the later scheduler.
static void test_numbers_differ(void **state)
{
    (void)state;
    open_both(0);
    struct member_options o = world_member(&w, WIRE_WORKER, 10);
    struct actor *a = world_add_with(&w, &o);
    o = world_member(&w, WIRE_WORKER, 11);
    o.scheduler = "sim://later";
    struct actor *b = world_add_with(&w, &o);
    for (uint32_t i = 0; i < ACTORS; i++) {
        readdress(&w.actors[i]);
        break_link(&w.actors[i]);
    }
    world_run(&w, 3 * SECONDS);
    assert_int_equal(member_id(a->m), member_id(b->m));
    assert_true(member_session(a->m) != member_session(b->m));
    // The numbers differ, so servers know that the later scheduler did not give the
    // session of `a`.
    const struct roster *r = member_roster(w.actors[SERVER].m);
    assert_true(roster_session_over(r, member_session(a->m)));
    assert_false(roster_session_over(r, member_session(b->m)));
    close_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rejoins),
        cmocka_unit_test(test_first_is_told),
        cmocka_unit_test(test_does_not_go_back),
        cmocka_unit_test(test_switched_off),
        cmocka_unit_test(test_scheduler_believes_servers),
        cmocka_unit_test(test_tools_are_not_believed),
        cmocka_unit_test(test_members_tell_each_other),
        cmocka_unit_test(test_process_shares_it),
        cmocka_unit_test(test_heartbeats_tell_members),
        cmocka_unit_test(test_numbers_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
