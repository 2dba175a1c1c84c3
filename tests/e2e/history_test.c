// Workers push and pull while servers join and leave, and while the scheduler is killed
// and started again. Then history_check.py checks the results that the workers got: no
// push was lost, counted twice, or seen and then lost.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/history.h"
#include "kit/servers.h"

// ---------------------------------------------------------------- the cluster

static void start_scheduler(const char *address)
{
    cluster_start("scheduler",
                  "scheduler --scheduler %s --servers 2 --workers 0 --state state",
                  address);
    tables_port = cluster_port("scheduler");
}

static void start_server(const char *name, const char *more)
{
    cluster_start(name, "server --scheduler 127.0.0.1:%u %s", tables_port, more);
}

static void restart_scheduler(void)
{
    cluster_signal("scheduler", SIGKILL);
    cluster_wait("scheduler", CLUSTER_PATIENCE);
    start_scheduler(files_path("127.0.0.1:%u", tables_port));
}

static void drain(unsigned rank, const char *name)
{
    tug_ends(0, "drain %u --wait --timeout %d --scheduler 127.0.0.1:%u", rank,
             CLUSTER_PATIENCE, tables_port);
    cluster_ends(name, 0, CLUSTER_PATIENCE);
}

static void history_is_possible(void **state)
{
    (void)state;
    start_scheduler("127.0.0.1:0");
    start_server("first", "");
    start_server("second", "--rank 1 --loops 2");
    cluster_await("scheduler", "all have joined");
    tables_admin(0, "create --settings %s", HISTORY_TABLE);
    history_start();
    history_await();
    start_server("third", "--join");
    drain(0, "first");
    history_await();
    restart_scheduler();
    start_server("fourth", "--join --loops 2");
    history_await();
    restart_scheduler();
    drain(1, "second");
    history_await();
    history_end();
    tables_stop();
    history_check(TUG_TESTS_FOLDER "/e2e/history_check.py");
}

static void the_rules_agree_with_a_search(void **state)
{
    (void)state;
    if (cluster_system("python3 -B %s/e2e/history_check.py --test", TUG_TESTS_FOLDER) !=
        0)
        cluster_fail("%s%s", e2e_out, e2e_err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(history_is_possible),
        cluster_test(the_rules_agree_with_a_search),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
