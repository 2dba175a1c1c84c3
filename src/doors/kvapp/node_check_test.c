// The invariants of a node: each is broken once, in a worker with requests that a stopped
// server does not answer, and with a request of that server that has no customer yet.
//
// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doors/kvapp/node.h"
#include "kit/broken.h"
#include "kit/ports.h"
#include "kit/test.h"
#include "os/clock.h"

enum { KEYS = 10, REQUESTS = 3, NO_APP = 77 };

static struct tug_node *n;
static struct tug_app *app;

static struct tug_node_options options_of(int role, const char *scheduler)
{
    return (struct tug_node_options){.role = role,
                                     .servers = 1,
                                     .workers = 1,
                                     .scheduler = scheduler,
                                     .dead_seconds = 60,
                                     .wait_seconds = 60};
}

static void serve(struct tug_node *server)
{
    struct tug_kv_default *store;
    struct tug_app *its, *other;
    uint32_t ts;
    (void)tug_kv_default_open(&store);
    struct tug_app_handlers h = {.kv = tug_kv_default_handle, .ctx = store};
    (void)tug_app_open(&its, server, 1, 1, &h);
    (void)tug_app_open(&other, server, NO_APP, NO_APP, NULL);
    (void)tug_app_request(other, 1, "x", 1, TUG_GROUP_WORKERS, &ts);
}

static pid_t begin(int role, const char *scheduler)
{
    struct tug_node_options o = options_of(role, scheduler);
    struct tug_node *node;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid != 0)
        return pid;
    if (tug_node_start(&node, &o) != 0)
        _exit(1);
    if (role == TUG_GROUP_SERVERS)
        serve(node);
    _exit(tug_node_finalize(node, false) != 0);
}

static void check(void)
{
    kv_node_check(n, van_now(n->van));
}

static void break_timestamp(void)
{
    n->first->timestamp++;
}

static void break_open(void)
{
    n->first->open += 2;
}

static void break_number(void)
{
    n->first->parts[0].number = n->peers->last_number + 1;
}

static void break_list(void)
{
    n->n_in_flight++;
}

static void break_waiting(void)
{
    n->first->parts[0].peer->waiting++;
}

static void break_window(void)
{
    struct kv_peer *p = n->first->parts[0].peer;
    p->answered[p->acked % KV_WINDOW / 64] |= (uint64_t)1 << (p->acked % 64);
}

static void break_peer(void)
{
    struct kv_peer *p = n->first->parts[0].peer;
    chains_take(&n->peers_by_node, &p->by_node);
}

static void break_ticket(void)
{
    n->held->ticket++;
}

static void break_held(void)
{
    n->last_held = NULL;
}

static const struct broken all[] = {
    {"request_is_found", break_timestamp},   {"answers_are_counted", break_open},
    {"part_is_in_the_window", break_number}, {"requests_hold", break_list},
    {"parts_wait_at_peers", break_waiting},  {"window_holds", break_window},
    {"peer_is_found", break_peer},           {"received_are_found", break_ticket},
    {"held_are_in_order", break_held},
};

static void wait_until_held(void)
{
    uint64_t until = clock_ns() + 60 * SECOND_NS;
    bool held = false;
    while (!held) {
        assert_true(clock_ns() < until);
        sched_yield();
        pump_enter(n->pump);
        held = n->held != NULL;
        pump_leave(n->pump);
    }
}

static void test_every_invariant_can_fail(void **state)
{
    (void)state;
    char scheduler[32];
    uint64_t keys[KEYS];
    float values[KEYS] = {0};
    uint32_t ts;
    unsigned port;
    int status;
#ifdef NDEBUG
    // Skipped here, before the test starts processes that it would have to end.
    skip_because("a build without asserts");
#endif
    ports_free(&port, 1);
    snprintf(scheduler, sizeof(scheduler), "127.0.0.1:%u", port);
    struct tug_node_options o = options_of(TUG_GROUP_WORKERS, scheduler);
    pid_t host = begin(TUG_GROUP_SCHEDULER, scheduler);
    pid_t server = begin(TUG_GROUP_SERVERS, scheduler);
    assert_int_equal(tug_node_start(&n, &o), 0);
    assert_int_equal(tug_app_open(&app, n, 1, 1, NULL), 0);
    for (uint64_t i = 0; i < KEYS; i++)
        keys[i] = i;
    struct tug_kv_request q = {.push = true, .data = {keys, KEYS, values, KEYS, NULL, 0}};
    assert_int_equal(tug_kv_send(app, &q, &ts), 0);
    assert_int_equal(tug_app_wait(app, ts), 0);
    wait_until_held();
    kill(server, SIGSTOP);
    assert_int_equal(waitpid(server, &status, WUNTRACED), server);
    for (int i = 0; i < REQUESTS; i++)
        assert_int_equal(tug_kv_send(app, &q, &ts), 0);
    pump_enter(n->pump);
    expect_all_broken(all, sizeof(all) / sizeof(*all), check);
    pump_leave(n->pump);
    n->o.wait_seconds = 0.1;
    (void)tug_node_finalize(n, false); // gives up the requests: their server is stopped
    kill(server, SIGKILL);
    kill(host, SIGKILL);
    waitpid(server, NULL, 0);
    waitpid(host, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_invariant_can_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
