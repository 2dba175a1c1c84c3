// `tug doctor` examines real processes: one that was killed, and one that is only
// stopped.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/processes.h"

#include <poll.h>
#include <sys/wait.h>

#include "os/clock.h"

static void asks_the_doctor(const char *says)
{
    tug_ends(4, "doctor --scheduler 127.0.0.1:%u", cluster_port("scheduler"));
    if (strstr(e2e_out, says) == NULL)
        cluster_fail("the doctor does not say '%s' but: %s", says, e2e_out);
}

static void killed_and_stopped(void **state)
{
    (void)state;
    const char *train = "train --data data.svm --format libsvm --model lr --mode async "
                        "--epochs 1000000";
    cluster_start("scheduler", "scheduler --servers 1 --workers 3 --dead-timeout 2 -- %s",
                  train);
    unsigned port = cluster_port("scheduler");
    cluster_start("server", "server --scheduler 127.0.0.1:%u", port);
    for (int i = 0; i < 3; i++)
        cluster_start(files_path("worker%d", i), "worker --scheduler 127.0.0.1:%u -- %s",
                      port, train);
    pid_t killed = cluster_node("scheduler", "worker 1"),
          stopped = cluster_node("scheduler", "worker 2");
    cluster_await("scheduler", "pass 1/");
    kill(killed, SIGKILL);
    siginfo_t ended;
    assert_int_equal(waitid(P_PID, (id_t)killed, &ended, WEXITED | WNOWAIT), 0);
    // tug doctor reports the killed process at once, also while the scheduler still waits for it
    // to reconnect.
    asks_the_doctor(
        files_path("was killed: its process %d ended without a message", (int)killed));
    assert_null(strstr(e2e_out, "firewall"));
    cluster_await("scheduler", files_path(":%d) is gone", (int)killed));
    asks_the_doctor(
        files_path("was killed: its process %d ended without a message", (int)killed));
    tug_ends(0, "status --scheduler 127.0.0.1:%u", port);
    assert_non_null(strstr(e2e_out, "running (1 server, 3 workers, 1 dead)"));
    assert_non_null(
        strstr(e2e_out, "problems: worker 1 is dead (its work goes to the others)"));
    kill(stopped, SIGSTOP);
    cluster_await("scheduler", files_path(":%d) is gone", (int)stopped));
    asks_the_doctor(files_path("its process %d still exists", (int)stopped));
    kill(stopped, SIGCONT);
    tug_ends(0, "stop --scheduler 127.0.0.1:%u", port);
    for (int i = 0; i < 3; i++)
        cluster_wait(files_path("worker%d", i), CLUSTER_PATIENCE);
    cluster_wait("server", CLUSTER_PATIENCE);
    cluster_wait("scheduler", CLUSTER_PATIENCE);
}

// A worker that runs for a tenth of the time is slow, but none of its links breaks.
static void slow(void **state)
{
    (void)state;
    const char *train = "train --data data.svm --format libsvm --model lr --mode async "
                        "--epochs 1000000";
    cluster_start("scheduler",
                  "scheduler --servers 1 --workers 2 --dead-timeout 600 -- %s", train);
    unsigned port = cluster_port("scheduler");
    cluster_start("server", "server --scheduler 127.0.0.1:%u", port);
    for (int i = 0; i < 2; i++)
        cluster_start(files_path("worker%d", i), "worker --scheduler 127.0.0.1:%u -- %s",
                      port, train);
    pid_t worker = cluster_node("scheduler", "worker 1");
    cluster_await("scheduler", "pass 1/");
    uint64_t until = clock_ns() + 2 * CLUSTER_PATIENCE * SECOND_NS;
    do {
        if (clock_ns() > until)
            cluster_fail("the doctor does not say that worker 1 is slow: %s", e2e_out);
        for (int i = 0; i < 10; i++) {
            kill(worker, SIGSTOP);
            poll(NULL, 0, 180);
            kill(worker, SIGCONT);
            poll(NULL, 0, 20);
        }
        (void)tug("doctor --scheduler 127.0.0.1:%u", port);
    } while (strstr(e2e_out, "problem: worker 1 (") == NULL ||
             strstr(e2e_out, "is slow: ") == NULL);
    tug_ends(0, "stop --scheduler 127.0.0.1:%u", port);
    for (int i = 0; i < 2; i++)
        cluster_wait(files_path("worker%d", i), CLUSTER_PATIENCE);
    cluster_wait("server", CLUSTER_PATIENCE);
    cluster_wait("scheduler", CLUSTER_PATIENCE);
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    tug_ends(0, "synth --rows 20000 --format libsvm --out data.svm");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cluster_test(killed_and_stopped),
                                       cluster_test(slow)};
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
