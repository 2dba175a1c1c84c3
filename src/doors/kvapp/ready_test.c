// A wait for a complete cluster ends after the time that was asked for, or names the longer
// time that it took.
//
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doors/kvapp/node.h"
#include "kit/clock.h"
#include "kit/ports.h"
#include "kit/test.h"

static char scheduler[32];

static struct tug_node_options options_of(int role, double wait_seconds)
{
    return (struct tug_node_options){.role = role,
                                     .servers = 1,
                                     .workers = 1,
                                     .scheduler = scheduler,
                                     .dead_seconds = 60,
                                     .wait_seconds = wait_seconds};
}

static void choose_port(void)
{
    unsigned port;
    ports_free(&port, 1);
    snprintf(scheduler, sizeof(scheduler), "127.0.0.1:%u", port);
}

static void says(const char *text)
{
    if (strstr(tug_last_error(), text) == NULL)
        fail_msg("'%s' is not in: %s", text, tug_last_error());
}

static void test_nobody_to_wait_for(void **state)
{
    static const int roles[] = {TUG_GROUP_SERVERS, TUG_GROUP_WORKERS};
    (void)state;
    choose_port();
    for (size_t i = 0; i < 2; i++) {
        struct tug_node_options o = options_of(roles[i], 0.1);
        struct tug_node *n;
        assert_int_equal(tug_node_start(&n, &o), TUG_EIO);
        says("the cluster is not complete after 0.1 s: the scheduler at ");
        says("cannot be reached");
    }
}

struct waiting {
    struct tug_node *node;
    atomic_bool over;
    int rc;
    char said[ERR_TEXT_MAX];
};

static void *wait_for_all(void *arg)
{
    struct waiting *w = arg;
    w->rc = tug_node_wait(w->node);
    snprintf(w->said, sizeof(w->said), "%s", tug_last_error());
    atomic_store(&w->over, true);
    return NULL;
}

static bool is_admitted(struct tug_node *n)
{
    pump_enter(n->pump);
    bool admitted = member_id(n->member) != 0;
    pump_leave(n->pump);
    return admitted;
}

// No server joins; the worker's time limit passes before the scheduler's.
static void test_admitted(void **state)
{
    struct tug_node_options o = options_of(TUG_GROUP_WORKERS, 0.1);
    struct waiting w = {.rc = 0};
    pthread_t thread;
    (void)state;
    choose_port();
    pid_t pid = fork();
    if (pid == 0) {
        struct tug_node_options host = options_of(TUG_GROUP_SCHEDULER, 600);
        _exit(tug_node_start(&w.node, &host) != 0);
    }
    o.async = true;
    assert_int_equal(tug_node_start(&w.node, &o), 0);
    while (!is_admitted(w.node))
        poll(NULL, 0, 1);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_all, &w), 0);
    while (!atomic_load(&w.over)) {
        kit_clock_skip(SECOND_NS / 10);
        van_wake(w.node->van);
        poll(NULL, 0, 1);
    }
    pthread_join(thread, NULL);
    assert_int_equal(w.rc, TUG_EIO);
    if (strstr(w.said, "after 5.1 s: the scheduler at ") == NULL ||
        strstr(w.said, "still waits for servers or workers") == NULL)
        fail_msg("%s", w.said);
    (void)tug_node_finalize(w.node, false);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_to_wait_for),
        cmocka_unit_test(test_admitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
