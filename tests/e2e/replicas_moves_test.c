// As e2e/replicas, in other phases: servers die while partitions move or while they fill others,
// the scheduler is stopped, alone or with a server that dies, and a worker is stopped.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/history.h"
#include "kit/replicated.h"
#include "kit/servers.h"

#define CHECK TUG_TESTS_FOLDER "/e2e/history_check.py"

// Server a gives its partitions away when server b dies; later partitions move to make the
// servers' shares equal when server c dies.
static void while_partitions_move(void **state)
{
    (void)state;
    replicated_begin(4, 2);
    replicated_fill();
    tug_ends(0, "drain 0 --scheduler 127.0.0.1:%u", tables_port);
    replicated_await_moves();
    replicated_kill("b");
    cluster_ends("a", 0, CLUSTER_PATIENCE);
    replicated_settle();
    replicated_begin_join("e");
    tug_ends(0, "rebalance --scheduler 127.0.0.1:%u", tables_port);
    replicated_await_moves();
    replicated_kill("c");
    replicated_settle();
    replicated_finish(CHECK);
}

// First the server that is filled dies, then one that fills another.
static void three_while_one_is_filled(void **state)
{
    (void)state;
    replicated_begin(3, 3);
    replicated_fill();
    replicated_begin_join("d");
    replicated_await_moves();
    replicated_kill("d");
    replicated_settle();
    replicated_begin_join("e");
    replicated_await_moves();
    replicated_kill("a");
    replicated_settle();
    replicated_finish(CHECK);
}

// While the scheduler is stopped, workers go on; if a server dies then, they wait until the
// scheduler runs again. It declares no living server dead.
static void the_scheduler_is_stopped(void **state)
{
    (void)state;
    replicated_begin(3, 2);
    cluster_signal("scheduler", SIGSTOP);
    history_await();
    cluster_signal("scheduler", SIGCONT);
    history_await();
    pid_t pid = cluster_pid("b");
    cluster_signal("scheduler", SIGSTOP);
    cluster_signal("b", SIGKILL);
    cluster_wait("b", CLUSTER_PATIENCE);
    cluster_signal("scheduler", SIGCONT);
    replicated_await_death(pid);
    history_await();
    replicated_settle();
    assert_int_equal(replicated_fact("replicas", "false_deaths"), 0);
    replicated_finish(CHECK);
}

// A worker is stopped in a request, and runs again when other servers lead.
static void a_worker_is_stopped(void **state)
{
    (void)state;
    replicated_begin(3, 2);
    history_stop();
    replicated_kill("a");
    replicated_settle();
    history_continue();
    replicated_finish(CHECK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(while_partitions_move),
        cluster_test(three_while_one_is_filled),
        cluster_test(the_scheduler_is_stopped),
        cluster_test(a_worker_is_stopped),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
