// A cluster of programs on tug/kvapp.h accepts only processes that expect its numbers of
// servers and workers, and no more processes than it was started for.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "kit/nodes.h"

static int start(struct tug_node **ret, int role, const char *scheduler, uint32_t workers)
{
    struct tug_node_options o;
    nodes_options(&o, role, scheduler);
    o.workers = workers;
    return tug_node_start(ret, &o);
}

static bool said(const char *what)
{
    return strstr(tug_last_error(), what) != NULL;
}

// One worker expects three workers and would divide its data by three: all processes get
// an error.

static int hear_of_it(int role, const char *scheduler, uint32_t workers)
{
    struct tug_node *n;
    int rc = start(&n, role, scheduler, workers);
    if (rc == 0) // the cluster was complete before the third process joined
        rc = tug_node_finalize(n, true);
    expect(rc == TUG_EUSAGE);
    expect(said("expects 2 servers and 3 workers, but the scheduler at "));
    expect(said(" expects 2 and 2: DMLC_NUM_SERVER and DMLC_NUM_WORKER"));
    return 0;
}

static int schedule(const char *scheduler)
{
    return hear_of_it(TUG_GROUP_SCHEDULER, scheduler, NODES_WORKERS);
}

static int serve(const char *scheduler)
{
    return hear_of_it(TUG_GROUP_SERVERS, scheduler, NODES_WORKERS);
}

static int work_for_three(const char *scheduler)
{
    return hear_of_it(TUG_GROUP_WORKERS, scheduler, 3);
}

static void other_counts(void **state)
{
    int status[NODES_PROCESSES];
    (void)state;
    nodes_run(schedule, serve, work_for_three, status);
    for (int i = 0; i < NODES_PROCESSES; i++)
        assert_int_equal(0, status[i]);
}

// One of three workers does not join: when wait_seconds are over, the error of all
// processes names the missing worker.

static int miss_one(int role, const char *scheduler)
{
    struct tug_node_options o;
    struct tug_node *n;
    nodes_options(&o, role, scheduler);
    o.workers = 3;
    o.wait_seconds = 2;
    expect(tug_node_start(&n, &o) == TUG_EIO);
    expect(said("waited 2 s for ") && said(" of 3 workers: missing ") &&
           said("worker 2"));
    return 0;
}

static int miss_in_schedule(const char *scheduler)
{
    return miss_one(TUG_GROUP_SCHEDULER, scheduler);
}

static int miss_in_serve(const char *scheduler)
{
    return miss_one(TUG_GROUP_SERVERS, scheduler);
}

static int miss_in_work(const char *scheduler)
{
    return miss_one(TUG_GROUP_WORKERS, scheduler);
}

static void one_is_missing(void **state)
{
    int status[NODES_PROCESSES];
    (void)state;
    nodes_run(miss_in_schedule, miss_in_serve, miss_in_work, status);
    for (int i = 0; i < NODES_PROCESSES; i++)
        assert_int_equal(0, status[i]);
}

// A third worker, which was started without the numbers of servers and workers, is
// refused in a cluster of two workers. The other two are not disturbed.

static int serve_two(const char *scheduler)
{
    struct tug_node *n;
    expect(start(&n, TUG_GROUP_SERVERS, scheduler, NODES_WORKERS) == 0);
    return tug_node_finalize(n, false);
}

static int start_async(struct tug_node **ret, const char *scheduler)
{
    struct tug_node_options o;
    nodes_options(&o, TUG_GROUP_WORKERS, scheduler);
    o.servers = o.workers = 0;
    o.async = true;
    return tug_node_start(ret, &o);
}

static int come_late(const char *scheduler)
{
    struct tug_node *n;
    // A synchronous start would try again for some seconds.
    expect(start_async(&n, scheduler) == 0);
    expect(tug_node_wait(n) == TUG_EUSAGE);
    expect(
        said("was started for 2 workers, and all have joined: it does not take another"));
    expect(tug_node_barrier(n, TUG_GROUP_WORKERS) == TUG_EUSAGE);
    return tug_node_finalize(n, false);
}

static int work_beside(const char *scheduler)
{
    struct tug_node *n;
    int status;
    expect(start_async(&n, scheduler) == 0 && tug_node_wait(n) == 0);
    expect(tug_node_servers(n) == NODES_SERVERS && tug_node_workers(n) == NODES_WORKERS);
    expect(tug_node_barrier(n, TUG_GROUP_WORKERS) == 0);
    if (tug_node_rank(n) == 0) {
        char late[] = "/proc/self/exe";
        pid_t pid = fork();
        if (pid == 0) {
            execl(late, late, scheduler, (char *)NULL);
            _exit(98);
        }
        expect(waitpid(pid, &status, 0) == pid && status == 0);
    }
    expect(tug_node_barrier(n, TUG_GROUP_WORKERS) == 0);
    // The refused worker does not count as a dead node.
    expect(tug_node_dead(n, NULL, 0) == 0);
    expect(tug_node_barrier(n, TUG_GROUP_WORKERS) == 0);
    return tug_node_finalize(n, false);
}

static void one_too_many(void **state)
{
    int status[NODES_PROCESSES];
    (void)state;
    nodes_run(nodes_schedule, serve_two, work_beside, status);
    for (int i = 0; i < NODES_PROCESSES; i++)
        assert_int_equal(0, status[i]);
}

// Each process gets the rank that its environment names, in whatever order they join.

enum { RANKS = 5 };

static int have_the_named_rank(const char *scheduler)
{
    struct tug_node_options o = {.wait_seconds = 60, .dead_seconds = 60};
    struct tug_node *n;
    const char *rank = getenv("DMLC_SERVER_ID");
    (void)scheduler;
    expect(tug_node_start(&n, &o) == 0);
    if (rank != NULL) {
        uint32_t first = tug_node_role(n) == TUG_GROUP_SERVERS ? 8 : 9;
        expect(tug_node_rank(n) == strtoul(rank, NULL, 10));
        expect(tug_node_id(n) == first + 2 * tug_node_rank(n));
    }
    return tug_node_finalize(n, true);
}

static void set(const char *name, const char *value)
{
    assert_int_equal(0, setenv(name, value, 1));
}

static pid_t begin_ranked(const char *role, int rank)
{
    char text[12];
    snprintf(text, sizeof(text), "%d", rank);
    set("DMLC_ROLE", role);
    set("DMLC_SERVER_ID", text);
    set("DMLC_WORKER_ID", text);
    return nodes_begin(have_the_named_rank, NULL);
}

static void named_ranks(void **state)
{
    char scheduler[NODES_ADDRESS];
    pid_t pids[1 + 2 * RANKS];
    int n = 0, status;
    (void)state;
    nodes_address(scheduler);
    set("DMLC_PS_ROOT_URI", "127.0.0.1");
    set("DMLC_PS_ROOT_PORT", strchr(scheduler, ':') + 1);
    set("DMLC_NUM_SERVER", "5");
    set("DMLC_NUM_WORKER", "5");
    for (int i = RANKS; i-- > 0;) {
        pids[n++] = begin_ranked("worker", i);
        pids[n++] = begin_ranked("server", i);
    }
    assert_int_equal(0, unsetenv("DMLC_SERVER_ID"));
    set("DMLC_ROLE", "scheduler");
    pids[n++] = nodes_begin(have_the_named_rank, NULL);
    while (n-- > 0) {
        assert_int_equal(pids[n], waitpid(pids[n], &status, 0));
        assert_int_equal(0, status);
    }
    static const char *const names[] = {"DMLC_ROLE",         "DMLC_NUM_SERVER",
                                        "DMLC_NUM_WORKER",   "DMLC_PS_ROOT_URI",
                                        "DMLC_PS_ROOT_PORT", "DMLC_WORKER_ID"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        assert_int_equal(0, unsetenv(names[i])); // other tests use options
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_ranks),
        cmocka_unit_test(other_counts),
        cmocka_unit_test(one_too_many),
        cmocka_unit_test(one_is_missing),
    };
    if (argc > 1) // this process is the third worker
        return -come_late(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
