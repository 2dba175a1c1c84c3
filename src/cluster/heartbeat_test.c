// Tests heartbeats when links to the scheduler are dead but stay open: living processes
// must not be declared dead, and dead ones must be.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/heartbeat.h"
#include "cluster/scheduler/scheduler_internal.h"

#include <stdio.h>
#include <string.h>

#include "kit/actors.h"
#include "kit/journals.h"
#include "kit/test.h"

enum { FIRST_LINK = 1 }; // the number of a van's first link

static struct world w;
static struct node nodes[2];
static struct heartbeat *beats[2];
static struct van *vans[2];
static atomic_bool lost[2], asked[2], leave[2];
static struct memory_journal journal;
static uint32_t replicas; // more than 1: servers are dead after 0.75 s of silence
static struct scheduler_options options;

static void open_beats(uint32_t i)
{
    assert_int_equal(heartbeat_open(&beats[i], &nodes[i], &lost[i], NULL), 0);
    struct van_handler h = heartbeat_handler(beats[i]);
    assert_int_equal(
        sim_van_open(&vans[i], w.sim, i == 0 ? "beats0" : "beats1", &h, NULL), 0);
    heartbeat_serve(beats[i], vans[i]);
}

static int open_world_with(bool ends_in_order, struct journal *j)
{
    options = world_options(1, 1);
    options.ends_in_order = ends_in_order;
    options.journal = j;
    options.replicas = replicas;
    options.server_timeout_ns = replicas > 1 ? 750 * MILLIS : 0;
    memset(options.session_key, 7, sizeof(options.session_key));
    world_open(&w, 1, &options);
    world_add_all(&w, 1, 1, false);
    for (uint32_t i = 0; i < 2; i++) {
        nodes[i] = (struct node){.cluster = CLUSTER, .process = 500 + i};
        snprintf(nodes[i].scheduler, sizeof(nodes[i].scheduler), "sim://scheduler");
        nodes[i].asked = &asked[i];
        nodes[i].leave = &leave[i];
        atomic_store(&lost[i], false);
        atomic_store(&asked[i], false);
        atomic_store(&leave[i], false);
        open_beats(i);
    }
    world_run(&w, 3 * SECONDS);
    assert_true(member_ready(w.actors[0].m) && member_ready(w.actors[1].m));
    return 0;
}

// Opens a server and a worker, both with heartbeats, in a cluster that declares a process
// dead after 5 s of silence.
static int open_world(void **state)
{
    (void)state;
    return open_world_with(false, NULL);
}

// Opens the same world, but the scheduler's process also drives a run.
static int open_driven_world(void **state)
{
    (void)state;
    return open_world_with(true, NULL);
}

// Opens the world, with replicas of partitions.
static int open_replicas(void **state)
{
    (void)state;
    replicas = 2;
    int rc = open_world_with(false, NULL);
    replicas = 0;
    return rc;
}

// Opens the driven world with a journal.
static int open_kept_world(void **state)
{
    (void)state;
    journals_open(&journal);
    return open_world_with(true, &journal.base);
}

static int close_world(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        van_free(vans[i]);
        heartbeat_stop(beats[i]);
    }
    world_close(&w);
    return 0;
}

static int close_kept_world(void **state)
{
    int rc = close_world(state);
    journals_free(&journal);
    return rc;
}

static bool is_alive(uint32_t actor)
{
    return roster_find(scheduler_roster(w.s), member_id(w.actors[actor].m))->alive;
}

static void assert_all_live(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        assert_false(member_ended(w.actors[i].m, NULL));
        assert_true(is_alive(i));
        assert_false(atomic_load(&lost[i]));
    }
}

// The member is idle and the heartbeats' link falls silent: heartbeats open another link
// before the process is declared dead.
static void test_silent_heartbeats_are_dialled_again(void **state)
{
    (void)state;
    sim_partition(w.sim, w.actors[0].v, w.v, true);
    sim_silence(w.sim, vans[0], FIRST_LINK);
    world_run(&w, 40 * SECONDS);
    sim_partition(w.sim, w.actors[0].v, w.v, false);
    world_run(&w, SECONDS);
    assert_all_live();
}

// All heartbeats are lost. The scheduler asks for a sign of life over the member's own
// link, and gets an answer.
static void test_the_other_link_is_asked(void **state)
{
    (void)state;
    sim_partition(w.sim, vans[0], w.v, true);
    world_run(&w, 100 * SECONDS);
    assert_all_live();
}

static void test_the_silent_are_dead(void **state)
{
    (void)state;
    sim_partition(w.sim, vans[1], w.v, true);
    sim_partition(w.sim, w.actors[1].v, w.v, true);
    world_run(&w, 4 * SECONDS);
    assert_true(is_alive(1));
    world_run(&w, 2 * SECONDS + MILLIS * 500);
    assert_false(is_alive(1));
}

static unsigned answers;

static void on_answer(void *ctx, const struct van_message *m)
{
    (void)ctx;
    assert_non_null(m);
    answers++;
}

// A request that was sent on a dead link is sent again on the link that replaces it.
static void test_a_members_dead_link_is_replaced(void **state)
{
    (void)state;
    struct msg_lease lease = {0};
    answers = 0;
    sim_silence(w.sim, w.actors[1].v, FIRST_LINK);
    assert_int_equal(member_ask(w.actors[1].m, MSG_LEASE, &lease, on_answer, NULL), 0);
    world_run(&w, 12 * SECONDS);
    assert_int_equal(answers, 1);
    assert_all_live();
}

// An idle server, which has no requests under way, learns of the cluster's end although
// its link is dead.
static void test_an_idle_members_dead_link_is_replaced(void **state)
{
    (void)state;
    sim_silence(w.sim, w.actors[0].v, FIRST_LINK);
    scheduler_stop(w.s, NULL);
    world_run(&w, 15 * SECONDS);
    assert_true(member_left(w.actors[0].m));
    assert_true(scheduler_finished(w.s, NULL));
}

// The link that replaces a dead link falls silent as well, before it is open.
static void test_a_dead_attempt_is_given_up(void **state)
{
    (void)state;
    struct msg_lease lease = {0};
    answers = 0;
    sim_silence(w.sim, w.actors[1].v, FIRST_LINK);
    assert_int_equal(member_ask(w.actors[1].m, MSG_LEASE, &lease, on_answer, NULL), 0);
    for (int i = 0; i < 12000; i++) {
        world_run(&w, SECONDS / 1000);
        sim_silence(w.sim, w.actors[1].v, FIRST_LINK + 1);
    }
    assert_int_equal(answers, 0);
    world_run(&w, 11 * SECONDS);
    assert_int_equal(answers, 1);
    assert_all_live();
}

// The member's link breaks, and the next link is open but dead. The member has no working
// link for longer than the time after which a silent process is declared dead. But the
// process is not declared dead, because its heartbeats arrive.
static void test_the_link_after_a_broken_one_is_dead(void **state)
{
    (void)state;
    struct msg_lease lease = {0};
    answers = 0;
    sim_set_faults(w.sim, 0, 0, 0, 1);
    assert_int_equal(member_ask(w.actors[1].m, MSG_LEASE, &lease, on_answer, NULL), 0);
    sim_set_faults(w.sim, 0, 0, 0, 0);
    for (int i = 0; i < 9000; i++) {
        world_run(&w, SECONDS / 1000);
        sim_silence(w.sim, w.actors[1].v, FIRST_LINK + 1);
    }
    assert_int_equal(answers, 0);
    assert_all_live();
    world_run(&w, 11 * SECONDS);
    assert_int_equal(answers, 1);
    assert_all_live();
}

// The member's link and the heartbeats' link close one after the other, with heartbeats
// in between. The process is not declared dead, because the two links were never closed
// at the same time.
static void test_links_that_close_one_after_the_other(void **state)
{
    (void)state;
    struct msg_lease lease = {0};
    sim_set_faults(w.sim, 0, 0, 0, 1);
    assert_int_equal(member_ask(w.actors[1].m, MSG_LEASE, &lease, on_answer, NULL), 0);
    sim_set_faults(w.sim, 0, 0, 0, 0);
    sim_partition(w.sim, w.actors[1].v, w.v, true);
    world_run(&w, 4 * SECONDS);
    sim_set_faults(w.sim, 0, 0, 0, 1);
    world_run(&w, SECONDS); // one heartbeat is sent in this time
    sim_set_faults(w.sim, 0, 0, 0, 0);
    world_run(&w, 4 * SECONDS);
    sim_partition(w.sim, w.actors[1].v, w.v, false);
    world_run(&w, 2 * SECONDS);
    assert_all_live();
}

// A link that dies while the member joins is replaced.
static void test_dead_while_joining(void **state)
{
    (void)state;
    struct actor *a = world_add(&w, WIRE_DRIVER);
    sim_silence(w.sim, a->v, FIRST_LINK);
    world_run(&w, 12 * SECONDS);
    assert_true(member_ready(a->m));
}

// A process other than the scheduler that listens at the scheduler's address.
struct other {
    struct van *v;
    enum wire_role says; // the role that this process claims
    unsigned links, told;
    uint64_t process; // the last process number that arrived in a heartbeat
};

static void on_link(void *ctx, van_link link, bool accepted, uint64_t now)
{
    (void)link, (void)accepted, (void)now;
    ((struct other *)ctx)->links++;
}

static void on_words(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct other *x = ctx;
    struct msg_welcome welcome = {.role = (uint8_t)x->says, .version = wire_text("test")};
    struct msg_heartbeat_ok ok = {.known = true};
    (void)now;
    if (m->type == MSG_HELLO) {
        assert_int_equal(van_send(x->v, link, MSG_WELCOME, m->request, &welcome, NULL),
                         0);
        return;
    }
    assert_int_equal(m->type, MSG_HEARTBEAT);
    x->told++;
    x->process = m->m->heartbeat.process;
    assert_int_equal(van_send(x->v, link, MSG_HEARTBEAT_OK, m->request, &ok, NULL), 0);
}

static uint64_t no_tick(void *ctx, uint64_t now)
{
    (void)ctx, (void)now;
    return VAN_NEVER;
}

// Asks process i to end, as a signal would do.
static void ask(uint32_t i)
{
    atomic_store(&asked[i], true);
    world_run(&w, sim_now(w.sim) + 2 * SECONDS);
}

static void test_asked_to_end_without_a_driver(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        assert_false(atomic_load(&leave[i]));
        ask(i);
        assert_true(atomic_load(&leave[i]));
    }
    assert_false(scheduler_asked(w.s));
}

// A server that is asked to end must stay until its rows are saved.
static void test_a_server_that_is_asked_to_end(void **state)
{
    (void)state;
    assert_false(scheduler_asked(w.s));
    ask(0);
    assert_true(scheduler_asked(w.s));
    world_run(&w, sim_now(w.sim) + 100 * SECONDS);
    assert_false(atomic_load(&leave[0]) || atomic_load(&leave[1]));
    ask(1); // process 1 must also wait for the end of the run
    assert_false(atomic_load(&leave[1]));
    assert_non_null(strstr(w.log, "server 0 was asked to end: the whole run ends"));
}

// A worker may leave at once, because other workers do its work; the last worker stays to the
// end of the run.
static void test_workers_that_are_asked_to_end(void **state)
{
    (void)state;
    struct actor *late = world_add(&w, WIRE_WORKER);
    world_run(&w, sim_now(w.sim) + SECONDS);
    ask(1);
    assert_true(atomic_load(&leave[1]));
    assert_false(scheduler_asked(w.s));
    world_crash(late);
    world_run(&w, sim_now(w.sim) + 10 * SECONDS);
    atomic_store(&leave[1], false);
    ask(1);
    assert_false(atomic_load(&leave[1]));
    assert_true(scheduler_asked(w.s));
}

static void set_silent(uint32_t i, bool silent)
{
    sim_partition(w.sim, w.actors[i].v, w.v, silent);
    sim_partition(w.sim, vans[i], w.v, silent);
}

static void assert_beats_often(void)
{
    for (uint64_t end = sim_now(w.sim) + 2 * SECONDS; sim_now(w.sim) < end;) {
        world_run(&w, 100 * MILLIS);
        assert_true(sim_now(w.sim) - w.s->processes[0].sign_at <= 350 * MILLIS);
    }
}

// Servers whose partitions have replicas have a shorter time limit than workers, and send
// heartbeats more often, from the first one on. The scheduler counts a death that was not one.
static void test_replicas(void **state)
{
    (void)state;
    assert_beats_often();
    van_free(vans[0]);
    heartbeat_stop(beats[0]);
    open_beats(0);
    assert_beats_often();
    set_silent(1, true);
    world_run(&w, 2 * SECONDS);
    set_silent(1, false);
    world_run(&w, 2 * SECONDS);
    assert_all_live();
    set_silent(0, true);
    world_run(&w, 400 * MILLIS);
    assert_true(w.s->nodes[0].n.alive);
    world_run(&w, 400 * MILLIS);
    assert_false(w.s->nodes[0].n.alive);
    assert_int_equal(w.s->false_deaths, 0);
    set_silent(0, false);
    world_run(&w, 10 * SECONDS);
    assert_int_equal(w.s->false_deaths, 1);
    assert_true(atomic_load(&lost[0]));
}

// The heartbeats' link breaks many times, and the server's own link is down. The server
// stays alive, because a broken link is replaced before the next heartbeat would be due.
static void test_links_that_keep_breaking(void **state)
{
    (void)state;
    sim_partition(w.sim, w.actors[0].v, w.v, true);
    for (uint64_t end = sim_now(w.sim) + 4 * SECONDS; sim_now(w.sim) < end;) {
        sim_break(w.sim, vans[0], w.v);
        world_run(&w, 260 * MILLIS);
    }
    assert_all_live();
}

// A process does not wait for a scheduler that cannot be reached.
static void test_asked_to_end_and_nobody_answers(void **state)
{
    (void)state;
    sim_partition(w.sim, vans[0], w.v, true);
    ask(0);
    assert_false(atomic_load(&leave[0]));
    world_run(&w, sim_now(w.sim) + HEARTBEAT_LEAVE_NS);
    assert_true(atomic_load(&leave[0]));
    assert_false(scheduler_asked(w.s));
}

// A server waits longer for a scheduler that keeps its state, because another one may take
// over and drain the server. A worker does not wait.
static void test_asked_to_end_while_the_scheduler_is_away(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        nodes[i].options.role = i == 0 ? WIRE_SERVER : WIRE_WORKER;
        nodes[i].options.scheduler_timeout_seconds = 20;
        sim_partition(w.sim, vans[i], w.v, true);
        atomic_store(&asked[i], true);
    }
    world_run(&w, HEARTBEAT_LEAVE_NS + 2 * SECONDS);
    assert_true(atomic_load(&leave[1]));
    assert_false(atomic_load(&leave[0]) || scheduler_asked(w.s));
    sim_partition(w.sim, vans[0], w.v, false);
    world_run(&w, 15 * SECONDS); // an attempt to connect may have hung for ten seconds
    assert_true(scheduler_asked(w.s));
    assert_false(atomic_load(&leave[0]));
    sim_partition(w.sim, vans[0], w.v, true);
    world_run(&w, 18 * SECONDS);
    assert_false(atomic_load(&leave[0]));
    world_run(&w, 4 * SECONDS);
    assert_true(atomic_load(&leave[0]));
}

// A worker's process stops after its member has joined a scheduler that was started again,
// and before its first heartbeat. It sent heartbeats before, so it counts as dead.
static void test_stopped_before_the_first_heartbeat(void **state)
{
    (void)state;
    world_restart_scheduler(&w, &options);
    sim_partition(w.sim, vans[1], w.v, true);
    world_run(&w, 3 * SECONDS);
    assert_true(is_alive(0) && is_alive(1));
    sim_stop(w.sim, w.actors[1].v, sim_now(w.sim) + 100 * SECONDS, 0);
    world_run(&w, 11 * SECONDS);
    assert_true(is_alive(1)); // another process may still try to connect
    world_run(&w, 5 * SECONDS);
    assert_false(is_alive(1));
}

// A peer that knows a process's number could send heartbeats for a process that hangs,
// which would then not be declared dead. So heartbeats carry the number only to a peer
// that has proven to be the scheduler.
static void test_the_number_is_for_the_scheduler(void **state)
{
    static const struct {
        enum wire_role says, link;
        bool told;
    } cases[] = {
        {WIRE_SCHEDULER, WIRE_SCHEDULER, true}, {WIRE_SCHEDULER, WIRE_OPERATOR, true},
        {WIRE_SCHEDULER, WIRE_SERVER, false},   {WIRE_SCHEDULER, WIRE_WORKER, false},
        {WIRE_SCHEDULER, WIRE_TOOL, false},     {WIRE_SERVER, WIRE_SCHEDULER, false},
        {WIRE_WORKER, WIRE_SCHEDULER, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct sim_options net = {
            .seed = i, .delay_min = MILLIS, .delay_max = 9 * MILLIS};
        struct other x = {.says = cases[i].says};
        struct van_handler h = {
            .ctx = &x, .opened = on_link, .message = on_words, .tick = no_tick};
        struct node n = {.scheduler = "sim://other", .cluster = CLUSTER, .process = 77};
        struct heartbeat *beat;
        struct van *v;
        struct sim *sim;
        assert_int_equal(sim_open(&sim, &net, NULL), 0);
        assert_int_equal(sim_van_open(&x.v, sim, "other", &h, NULL), 0);
        char address[VAN_ADDRESS_MAX];
        assert_int_equal(van_listen(x.v, "sim://other", address, NULL), 0);
        sim_van_role(x.v, cases[i].link);
        assert_int_equal(heartbeat_open(&beat, &n, NULL, NULL), 0);
        struct van_handler of_beat = heartbeat_handler(beat);
        assert_int_equal(sim_van_open(&v, sim, "beats", &of_beat, NULL), 0);
        heartbeat_serve(beat, v);
        while (sim_now(sim) < 20 * SECONDS && sim_step(sim, 20 * SECONDS))
            ;
        // Without success, heartbeats keep connecting: the scheduler may come back.
        if (cases[i].told ? x.told < 15 || x.links != 1 || x.process != 77
                          : x.told != 0 || x.links < 4)
            fail_msg("case %zu: told %u times over %u links", i, x.told, x.links);
        van_free(v);
        heartbeat_stop(beat);
        van_free(x.v);
        sim_close(sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_silent_heartbeats_are_dialled_again,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(test_the_other_link_is_asked, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(test_the_silent_are_dead, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(test_a_members_dead_link_is_replaced, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(test_an_idle_members_dead_link_is_replaced,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(test_a_dead_attempt_is_given_up, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(test_the_link_after_a_broken_one_is_dead,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(test_links_that_close_one_after_the_other,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(test_dead_while_joining, open_world, close_world),
        cmocka_unit_test_setup_teardown(test_asked_to_end_without_a_driver, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(test_a_server_that_is_asked_to_end,
                                        open_driven_world, close_world),
        cmocka_unit_test_setup_teardown(test_workers_that_are_asked_to_end,
                                        open_driven_world, close_world),
        cmocka_unit_test_setup_teardown(test_asked_to_end_and_nobody_answers,
                                        open_driven_world, close_world),
        cmocka_unit_test_setup_teardown(test_asked_to_end_while_the_scheduler_is_away,
                                        open_kept_world, close_kept_world),
        cmocka_unit_test_setup_teardown(test_stopped_before_the_first_heartbeat,
                                        open_kept_world, close_kept_world),
        cmocka_unit_test_setup_teardown(test_replicas, open_replicas, close_world),
        cmocka_unit_test_setup_teardown(test_links_that_keep_breaking, open_replicas,
                                        close_world),
        cmocka_unit_test(test_the_number_is_for_the_scheduler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
