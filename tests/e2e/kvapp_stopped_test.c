// A process of a program on tug/kvapp.h is stopped (SIGSTOP). Its links stay open, but
// nodes that wait for it get an error when the scheduler declares it dead.
//
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kit/nodes.h"

enum { APP = 3 };

// PID of the stopped process, in memory that all processes share
static atomic_int *stopped;

static int serve(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    nodes_options(&o, TUG_GROUP_SERVERS, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    return tug_node_finalize(n, false);
}

static int ask(struct tug_app *a, uint32_t whom)
{
    uint32_t ts;
    expect(tug_app_request(a, 0, NULL, 0, whom, &ts) == 0);
    return tug_app_wait(a, ts);
}

static void stop(void)
{
    atomic_store(stopped, getpid());
    raise(SIGSTOP);
    _exit(97);
}

static int work(const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    struct tug_app *a;
    uint32_t ids[NODES_WORKERS];
    nodes_options(&o, TUG_GROUP_WORKERS, scheduler);
    expect(tug_node_start(&n, &o) == 0);
    expect(tug_app_open(&a, n, APP, APP, NULL) == 0);
    expect(tug_node_ids(n, TUG_GROUP_WORKERS, ids, NODES_WORKERS) == NODES_WORKERS);
    uint32_t other = ids[0] == tug_node_id(n) ? ids[1] : ids[0];
    expect(ask(a, other) == 0); // the link to the other worker is open
    expect(tug_node_barrier(n, TUG_GROUP_WORKERS) == 0);
    if (tug_node_rank(n) == 1)
        stop();
    while (atomic_load(stopped) == 0)
        poll(NULL, 0, 1);
    expect(ask(a, other) == TUG_EIO);
    expect(strstr(tug_last_error(), "worker 1") &&
           strstr(tug_last_error(), "the cluster continues without it"));
    return tug_node_finalize(n, false);
}

// All other processes end: one without an error, the others with an error, because the
// cluster has lost a worker.
static void stopped_worker(void **state)
{
    char scheduler[NODES_ADDRESS];
    pid_t pids[NODES_PROCESSES];
    int status, ended_well = 0;
    (void)state;
    nodes_start(nodes_schedule, serve, work, scheduler, pids);
    for (int i = 0; i < NODES_PROCESSES - 1; i++) {
        assert_true(wait(&status) > 0);
        assert_true(status == 0 || WEXITSTATUS(status) == -TUG_EIO);
        ended_well += status == 0;
    }
    assert_int_equal(1, ended_well);
    assert_int_equal(0, kill(atomic_load(stopped), SIGKILL));
    assert_int_equal(atomic_load(stopped), wait(&status));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stopped_worker)};
    nodes_dead_seconds = 3;
    stopped = mmap(NULL, sizeof(*stopped), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return stopped == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
