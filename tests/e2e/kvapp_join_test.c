// A cluster of programs on tug/kvapp.h accepts only processes that expect its numbers of
// servers and workers, and no more processes than it was started for.
//
// SPDX-License-Identifier: Apache-2.0
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

// A third worker is refused, and the other two are not disturbed. It was started without
// counts, and would have taken the counts of the cluster.

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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_counts),
        cmocka_unit_test(one_too_many),
        cmocka_unit_test(one_is_missing),
    };
    if (argc > 1) // this process is the third worker
        return -come_late(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
