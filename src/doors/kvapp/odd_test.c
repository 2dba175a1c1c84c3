// Tests unusual ends of the library's clients and customers: they are closed, cancelled
// or time out with requests in flight, while servers are stopped or dead. A sanitizer
// would find most faults: memory that is freed too early or never.
//
// Scheduler and server are processes of their own, so that they can be stopped.
//
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "doors/tables/tug_client.h"
#include "kit/ports.h"
#include "kit/test.h"
#include "os/clock.h"
#include "tug/kvapp.h"
#include "tug/table.h"

// All rows, of 256 bytes each, are more than socket buffers hold. So a request for all
// rows partly waits in the van.
enum { TABLE = 7, WIDTH = 64, KEYS = 100000 };

static struct cluster {
    char address[64];
    pid_t scheduler, server;
} cluster;

struct arrays {
    uint64_t *keys;
    float *values;
};

static void check(int rc)
{
    if (rc != 0)
        fail_msg("%s", tug_last_error());
}

// ---------------------------------------------------------- the processes of the cluster

static pid_t start(int role, double dead_seconds)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    struct tug_node *n;
    struct tug_app *app;
    struct tug_kv_default *store;
    struct tug_node_options o = {
        .role = role,
        .servers = 1,
        .workers = 1,
        .scheduler = cluster.address,
        .dead_seconds = dead_seconds,
    };
    int rc = tug_node_start(&n, &o);
    if (rc == 0 && role == TUG_GROUP_SERVERS) {
        tug_kv_default_open(&store);
        struct tug_app_handlers h = {.kv = tug_kv_default_handle, .ctx = store};
        tug_app_open(&app, n, 1, 1, &h);
    }
    if (rc == 0)
        rc = tug_node_finalize(n, false);
    _exit(rc != 0);
}

static void cluster_open(double dead_seconds)
{
    unsigned port;
    ports_free(&port, 1);
    snprintf(cluster.address, sizeof(cluster.address), "127.0.0.1:%u", port);
    cluster.scheduler = start(TUG_GROUP_SCHEDULER, dead_seconds);
    cluster.server = start(TUG_GROUP_SERVERS, dead_seconds);
}

static void end(pid_t *pid)
{
    if (*pid <= 0)
        return;
    kill(*pid, SIGKILL);
    waitpid(*pid, NULL, 0);
    *pid = 0;
}

static void server_stands_still(void)
{
    int status;
    kill(cluster.server, SIGSTOP);
    assert_int_equal(waitpid(cluster.server, &status, WUNTRACED), cluster.server);
    assert_true(WIFSTOPPED(status));
}

static int teardown(void **state)
{
    (void)state;
    end(&cluster.server);
    end(&cluster.scheduler);
    return mem_live() == 0 ? 0 : -1;
}

// ----------------------------------------------------- opening a client of a new cluster

static struct tug_client *client_of(double dead_seconds)
{
    struct tug_client *c;
    cluster_open(dead_seconds);
    struct tug_client_options o = {.scheduler = cluster.address, .wait_seconds = 60};
    check(tug_client_open(&c, &o));
    check(tug_table_create(c, TABLE, "name = t; dim = 64; rule = sum"));
    return c;
}

static struct arrays arrays_open(void)
{
    struct arrays a = {mem_array(KEYS, sizeof(*a.keys)),
                       mem_array(KEYS, WIDTH * sizeof(*a.values))};
    assert_true(a.keys != NULL && a.values != NULL);
    for (uint64_t i = 0; i < KEYS; i++)
        a.keys[i] = i;
    for (size_t i = 0; i < (size_t)KEYS * WIDTH; i++)
        a.values[i] = 1;
    return a;
}

static void arrays_close(struct arrays *a)
{
    mem_free(a->keys);
    mem_free(a->values);
}

// State that the callbacks of a client share with the test.
struct heard {
    struct tug_client *client;
    struct arrays *arrays;
    atomic_int calls, rc;
    int more; // number of pushes that the callback still sends
    atomic_bool entered, go;
};

static void on_done(void *ctx, uint64_t ts, int rc)
{
    struct heard *h = ctx;
    (void)ts;
    atomic_fetch_add(&h->calls, 1);
    atomic_store(&h->rc, rc);
    if (h->more-- > 0)
        atomic_store(&h->rc, tug_push(h->client, TABLE, h->arrays->keys, 100,
                                      h->arrays->values, on_done, h, NULL));
}

static void usable(struct tug_client *c, struct arrays *a)
{
    uint64_t ts;
    check(tug_push(c, TABLE, a->keys, 10, a->values, NULL, NULL, &ts));
    check(tug_wait(c, ts, 0));
}

// If a client is closed while requests are in flight, the requests' callbacks get an
// error. After the callback, the caller owns the arrays again.
static void closed_in_flight(void **state)
{
    (void)state;
    struct tug_client *c = client_of(60);
    struct arrays a = arrays_open();
    struct heard h = {.client = c, .arrays = &a};
    uint64_t ts;
    usable(c, &a);
    server_stands_still();
    check(tug_push(c, TABLE, a.keys, KEYS, a.values, NULL, NULL, &ts));
    check(tug_push(c, TABLE, a.keys, KEYS, a.values, on_done, &h, NULL));
    check(tug_pull(c, TABLE, a.keys, KEYS, a.values, on_done, &h, NULL));
    c->o.wait_seconds = 0.1;
    assert_int_equal(tug_client_close(c), TUG_EIO);
    assert_non_null(strstr(tug_last_error(), "in flight"));
    arrays_close(&a);
    assert_int_equal(atomic_load(&h.calls), 2);
    assert_int_equal(atomic_load(&h.rc), TUG_EIO);
}

// A request that is given up does not use its arrays any more, and the client continues.
static void given_up(void **state)
{
    (void)state;
    struct tug_client *c = client_of(60);
    struct arrays a = arrays_open();
    usable(c, &a);
    server_stands_still();
    c->o.wait_seconds = 0.1;
    assert_int_equal(tug_push_range(c, TABLE, 0, KEYS, a.values), TUG_EIO);
    assert_int_equal(tug_pull_range(c, TABLE, 0, KEYS, a.values), TUG_EIO);
    struct tug_table_stats s;
    assert_int_equal(tug_table_stat(c, TABLE, &s), TUG_EIO);
    arrays_close(&a);
    c->o.wait_seconds = 60;
    kill(cluster.server, SIGCONT);
    a = arrays_open();
    usable(c, &a);
    check(tug_pull_range(c, TABLE, 0, KEYS, a.values));
    assert_true(a.values[0] >= 2);
    check(tug_client_close(c));
    arrays_close(&a);
}

// After a wait has timed out, the request can be waited for again.
static void waited_for_again(void **state)
{
    (void)state;
    struct tug_client *c = client_of(60);
    struct arrays a = arrays_open();
    uint64_t ts;
    server_stands_still();
    check(tug_push(c, TABLE, a.keys, KEYS, a.values, NULL, NULL, &ts));
    assert_int_equal(tug_wait(c, ts, 0.05), TUG_EIO);
    assert_int_equal(tug_wait(c, ts, 0.05), TUG_EIO);
    kill(cluster.server, SIGCONT);
    check(tug_wait(c, ts, 60));
    assert_int_equal(tug_wait(c, ts, 60), TUG_EUSAGE);
    check(tug_client_close(c));
    arrays_close(&a);
}

// When the interrupt function returns true, and how often it was called.
struct asked {
    atomic_int times;
    int until; // number of the call from which on the function returns true
};

static bool interrupts(void *ctx)
{
    struct asked *a = ctx;
    return atomic_fetch_add(&a->times, 1) + 1 >= a->until;
}

// A wait calls the interrupt function ten times a second, and ends when the function
// returns true. If the program has the request's timestamp, the request continues; other
// requests are given up.
static void interrupted(void **state)
{
    (void)state;
    struct tug_client *c = client_of(60);
    struct arrays a = arrays_open();
    struct asked asked = {.until = 3};
    uint64_t ts, other;
    struct tug_table_stats s;
    usable(c, &a);
    server_stands_still();
    tug_interrupt_by(interrupts, &asked);
    double begin = clock_seconds();
    check(tug_push(c, TABLE, a.keys, KEYS, a.values, NULL, NULL, &ts));
    assert_int_equal(tug_wait(c, ts, 0), TUG_EINTERRUPTED);
    assert_non_null(strstr(tug_last_error(), "goes on"));
    assert_int_equal(atomic_load(&asked.times), 3);
    assert_true(clock_seconds() - begin >= 0.29);
    assert_false(tug_is_done(c, ts));
    assert_int_equal(tug_table_stat(c, TABLE, &s), TUG_EINTERRUPTED);
    asked.until = 1000000;
    assert_int_equal(tug_wait(c, ts, 0.25), TUG_EIO); // the time limit ends the wait
    kill(cluster.server, SIGCONT);
    check(tug_wait(c, ts, 60));
    assert_true(tug_is_done(c, ts));

    server_stands_still();
    asked.until = 0;
    check(tug_push(c, TABLE, a.keys, KEYS, a.values, NULL, NULL, &other));
    assert_int_equal(tug_client_close(c), TUG_EINTERRUPTED);
    tug_interrupt_by(NULL, NULL);
    arrays_close(&a);
}

// Returns true. The first call also stops the scheduler and starts a process that wakes the
// scheduler up.
static bool interrupts_all(void *ctx)
{
    int status;
    if (atomic_fetch_add(&((struct asked *)ctx)->times, 1) > 0)
        return true;
    kill(cluster.scheduler, SIGSTOP);
    assert_int_equal(waitpid(cluster.scheduler, &status, WUNTRACED), cluster.scheduler);
    if (fork() == 0) {
        poll(NULL, 0, 300);
        kill(cluster.scheduler, SIGCONT);
        _exit(0);
    }
    return true;
}

// A node that leaves waits until the scheduler knows why, even if the interrupt function
// would return true: it is not called while a node leaves.
static void interrupted_leave_arrives(void **state)
{
    (void)state;
    struct asked asked = {0};
    struct tug_node *n;
    cluster_open(60);
    end(&cluster.server);
    struct tug_node_options o = {.role = TUG_GROUP_SERVERS,
                                 .servers = 1,
                                 .workers = 1,
                                 .scheduler = cluster.address,
                                 .async = true};
    check(tug_node_start(&n, &o));
    tug_interrupt_by(interrupts_all, &asked);
    assert_int_equal(tug_node_finalize(n, false), TUG_EINTERRUPTED);
    tug_interrupt_by(NULL, NULL);
    assert_int_equal(atomic_load(&asked.times), 1);
    while (wait(NULL) > 0) // waits for the scheduler and the process that woke it
        ;
    cluster.scheduler = 0;
}

// A cancelled request releases its arrays at once, and cannot be waited for.
static void cancelled(void **state)
{
    (void)state;
    struct tug_client *c = client_of(60);
    struct arrays a = arrays_open();
    uint64_t push, pull;
    usable(c, &a);
    server_stands_still();
    check(tug_push(c, TABLE, a.keys, KEYS, a.values, NULL, NULL, &push));
    check(tug_pull(c, TABLE, a.keys, KEYS, a.values, NULL, NULL, &pull));
    check(tug_cancel(c, push));
    check(tug_cancel(c, pull));
    arrays_close(&a);
    assert_true(tug_is_done(c, push));
    assert_int_equal(tug_wait(c, push, 0), TUG_EUSAGE);
    check(tug_cancel(c, push)); // cancelling twice is fine
    check(tug_cancel(c, 12345));
    kill(cluster.server, SIGCONT);
    a = arrays_open();
    usable(c, &a);
    check(tug_pull(c, TABLE, a.keys, 10, a.values, NULL, NULL, &pull));
    while (!tug_is_done(c, pull))
        sched_yield();
    check(tug_cancel(c, pull)); // cancelling a request that has ended is fine
    assert_int_equal(tug_wait(c, pull, 0), TUG_EUSAGE);
    assert_int_equal(tug_client_servers(c), 1);
    check(tug_client_close(c));
    arrays_close(&a);
}

static void server_gone(void **state)
{
    (void)state;
    struct tug_client *c = client_of(5);
    struct arrays a = arrays_open();
    struct heard h = {.client = c, .arrays = &a};
    uint64_t ts;
    server_stands_still();
    check(tug_push(c, TABLE, a.keys, KEYS, a.values, NULL, NULL, &ts));
    check(tug_push(c, TABLE, a.keys, KEYS, a.values, on_done, &h, NULL));
    end(&cluster.server);
    assert_int_equal(tug_wait(c, ts, 60), TUG_EIO);
    assert_int_not_equal(tug_push(c, TABLE, a.keys, KEYS, a.values, NULL, NULL, &ts), 0);
    assert_int_not_equal(tug_client_close(c), 0);
    arrays_close(&a);
    assert_int_equal(atomic_load(&h.calls), 1);
    assert_int_equal(atomic_load(&h.rc), TUG_EIO);
}

static void scheduler_gone(void **state)
{
    (void)state;
    struct tug_client *c = client_of(60);
    struct arrays a = arrays_open();
    uint64_t ts;
    end(&cluster.scheduler);
    check(tug_push(c, TABLE, a.keys, KEYS, a.values, NULL, NULL, &ts));
    check(tug_wait(c, ts, 60));
    (void)tug_client_close(c);
    arrays_close(&a);
}

// Closing a client waits for a callback that runs. If callbacks send further requests, it
// waits until the callback of the last request has ended.
static void closed_with_callbacks(void **state)
{
    (void)state;
    struct tug_client *c = client_of(60);
    struct arrays a = arrays_open();
    struct heard h = {.client = c, .arrays = &a, .more = 20};
    check(tug_push(c, TABLE, a.keys, 100, a.values, on_done, &h, NULL));
    check(tug_client_close(c));
    assert_int_equal(atomic_load(&h.calls), 21);
    assert_int_equal(atomic_load(&h.rc), 0);
    arrays_close(&a);
}

static void on_done_slowly(void *ctx, uint64_t ts, int rc)
{
    struct heard *h = ctx;
    (void)ts;
    atomic_store(&h->entered, true);
    while (!atomic_load(&h->go))
        sched_yield();
    atomic_store(&h->rc, rc);
    atomic_fetch_add(&h->calls, 1);
}

static void *let_go(void *arg)
{
    struct heard *h = arg;
    uint64_t until = clock_ns() + 300000000;
    while (clock_ns() < until)
        sched_yield();
    atomic_store(&h->go, true);
    return NULL;
}

static void closed_inside_a_callback(void **state)
{
    (void)state;
    struct tug_client *c = client_of(60);
    struct arrays a = arrays_open();
    struct heard h = {.client = c, .arrays = &a};
    pthread_t thread;
    check(tug_push(c, TABLE, a.keys, 100, a.values, on_done_slowly, &h, NULL));
    while (!atomic_load(&h.entered)) // the callback runs on the library's thread
        sched_yield();
    c->o.wait_seconds = 0.1;
    assert_int_equal(pthread_create(&thread, NULL, let_go, &h), 0);
    (void)tug_client_close(c);
    assert_int_equal(atomic_load(&h.calls), 1);
    pthread_join(thread, NULL);
    arrays_close(&a);
}

// ---------------------------------------------------------------- customers

static void on_kv_done(void *ctx, uint32_t ts, int rc)
{
    struct heard *h = ctx;
    (void)ts;
    atomic_fetch_add(&h->calls, 1);
    atomic_store(&h->rc, rc);
}

static struct tug_node *node_of(double wait_seconds, struct tug_app **ret)
{
    struct tug_node *n;
    cluster_open(60);
    struct tug_node_options o = {.role = TUG_GROUP_WORKERS,
                                 .servers = 1,
                                 .workers = 1,
                                 .scheduler = cluster.address,
                                 .wait_seconds = wait_seconds};
    check(tug_node_start(&n, &o));
    check(tug_app_open(ret, n, 1, 1, NULL));
    return n;
}

// A customer cannot be closed in its own callback, because closing waits for callbacks.
static void on_done_closes(void *ctx, uint32_t ts, int rc)
{
    (void)ts, (void)rc;
    assert_int_equal(TUG_EUSAGE, tug_app_close(ctx));
}

static void customer_closed_in_a_callback(void **state)
{
    (void)state;
    struct tug_app *app;
    struct tug_node *n = node_of(2, &app);
    const uint64_t key = 1;
    const float value = 1;
    struct tug_kv_request q = {.push = true,
                               .data = {&key, 1, &value, 1, NULL, 0},
                               .done = on_done_closes,
                               .ctx = app};
    uint32_t ts;
    check(tug_kv_send(app, &q, &ts));
    check(tug_app_wait(app, ts));
    q.done = NULL;
    check(tug_kv_send(app, &q, &ts)); // the customer is still open
    check(tug_app_wait(app, ts));
    check(tug_app_close(app));
    (void)tug_node_finalize(n, false);
    check(tug_node_finalize(NULL, true));
}

static void customer_closed_in_flight(void **state)
{
    (void)state;
    struct tug_app *app;
    struct tug_node *n = node_of(2, &app);
    struct arrays a = arrays_open();
    struct heard h = {0};
    struct tug_kv_request q = {.push = true,
                               .data = {a.keys, 10, a.values, 10 * WIDTH, NULL},
                               .done = on_kv_done,
                               .ctx = &h};
    uint32_t ts;
    check(tug_kv_send(app, &q, &ts));
    check(tug_app_wait(app, ts));
    server_stands_still();
    q.data = (struct tug_kv_data){a.keys, KEYS, a.values, (size_t)KEYS * WIDTH, NULL, 0};
    check(tug_kv_send(app, &q, &ts));
    check(tug_kv_send(app, &q, &ts));
    check(tug_app_close(app));
    arrays_close(&a);
    assert_int_equal(atomic_load(&h.calls), 3);
    assert_int_equal(atomic_load(&h.rc), TUG_EIO);
    (void)tug_node_finalize(n, false);
}

// A callback of tug_node_call uses a customer while another thread ends the node.
struct late {
    struct tug_node *node;
    struct tug_app *app;
    atomic_bool begun, ended;
};

static void use_customer(void *ctx)
{
    enum { ROUNDS = 30000 };
    struct late *l = ctx;
    uint32_t ts;
    bool there = true;
    atomic_store(&l->begun, true);
    for (int i = 0; i < ROUNDS && there; i++) {
        there = tug_app_find(l->node, 1, 1, 0) != NULL;
        sched_yield();
    }
    (void)tug_app_request(l->app, 0, NULL, 0, 8, &ts); // may succeed or be refused
    assert_ptr_equal(tug_app_node(l->app), l->node);
    atomic_store(&l->ended, true);
}

static void node_ended_beneath_a_callback(void **state)
{
    (void)state;
    struct late l = {0};
    l.node = node_of(60, &l.app);
    check(tug_node_call(l.node, use_customer, &l));
    while (!atomic_load(&l.begun))
        sched_yield();
    (void)tug_node_finalize(l.node, false);
    assert_true(atomic_load(&l.ended));
}

// Waits, in a thread of its own, for a request of a customer that is closed meanwhile.
static void *wait_for_request(void *arg)
{
    struct late *l = arg;
    uint32_t ts;
    if (tug_app_request(l->app, 0, NULL, 0, 8, &ts) != 0)
        return NULL;
    atomic_store(&l->begun, true);
    (void)tug_app_wait(l->app, ts);
    return NULL;
}

static void customer_closed_beneath_a_wait(void **state)
{
    (void)state;
    struct late l = {0};
    l.node = node_of(60, &l.app);
    check(tug_app_close(l.app));
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        atomic_store(&l.begun, false);
        check(tug_app_open(&l.app, l.node, 1, 1, NULL));
        assert_int_equal(pthread_create(&thread, NULL, wait_for_request, &l), 0);
        while (!atomic_load(&l.begun))
            sched_yield();
        check(tug_app_close(l.app));
        pthread_join(thread, NULL);
    }
    (void)tug_node_finalize(l.node, false);
}

// A program that is started for replicas ends at once, instead of losing data later.
static void replicas_are_refused(void **state)
{
    (void)state;
    struct tug_node_options o = {.role = TUG_GROUP_SCHEDULER,
                                 .servers = 1,
                                 .workers = 1,
                                 .scheduler = "127.0.0.1:0"};
    struct tug_node *n;
    assert_int_equal(setenv("TUG_REPLICAS", "2", 1), 0);
    int rc = tug_node_start(&n, &o);
    assert_int_equal(unsetenv("TUG_REPLICAS"), 0);
    assert_int_equal(rc, TUG_EUSAGE);
    assert_non_null(strstr(tug_last_error(),
                           "TUG_REPLICAS is 2, but handlers of a program hold state that "
                           "has no replicas: unset it"));
}

int main(void)
{
#define odd(f) cmocka_unit_test_teardown(f, teardown)
    const struct CMUnitTest tests[] = {
        odd(closed_in_flight),
        odd(given_up),
        odd(waited_for_again),
        odd(server_gone),
        odd(scheduler_gone),
        odd(closed_with_callbacks),
        odd(closed_inside_a_callback),
        odd(customer_closed_in_a_callback),
        odd(customer_closed_in_flight),
        odd(node_ended_beneath_a_callback),
        odd(customer_closed_beneath_a_wait),
        odd(interrupted),
        odd(interrupted_leave_arrives),
        odd(cancelled),
        odd(replicas_are_refused),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
