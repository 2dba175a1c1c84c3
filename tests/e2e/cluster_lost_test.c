// A process of a cluster is killed: the remaining processes report which one was lost,
// and then end or go on.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/processes.h"

enum { ENDS_WITHIN = 20 }; // seconds; the processes get deadlines of 2 seconds

// Returns the command of a run that would take minutes, so that processes can be killed
// in the middle of it.
static const char *long_words(const char *out)
{
    // Static, because the caller uses this text after files_path() has reused its memory.
    static char words[FILES_PATH];
    files_remove(out);
    snprintf(words, sizeof(words),
             "train --data data.svm --format libsvm --epochs 100000 --batch 64 "
             "--data-in memory --save-every 1 --out %s",
             out);
    return words;
}

static void launch(unsigned servers, unsigned workers, const char *words)
{
    cluster_start("run",
                  "launch --servers %u --workers %u --dead-timeout 2 --connect-timeout 2 "
                  "-- %s",
                  servers, workers, words);
    cluster_await("run", "pass 1/100000 done");
}

// Kills a process and checks that the launcher reports it as killed. The launcher names
// it by its PID, because the launcher does not know ranks.
static const char *kill_node(const char *node)
{
    pid_t pid = cluster_kill_node("run", node);
    return files_path("(process %d) was killed by signal 9", (int)pid);
}

// When a server is killed, the run stops and names the lost server; a resumed run
// continues from the last save.
static void server_killed(void **state)
{
    (void)state;
    launch(2, 2, long_words("saved"));
    cluster_await("run", "pass 2/100000 done"); // so the save of a pass is complete
    const char *killed = kill_node("server 1");
    cluster_ends("run", 4, ENDS_WITHIN);
    cluster_said("run", killed);
    cluster_said("run", "partitions");
    cluster_said("run", "the last save is saved/save-");
    cluster_said("run", "--resume");
    cluster_none_left();
}

static void scheduler_killed(void **state)
{
    (void)state;
    launch(2, 2, long_words("saved"));
    const char *line = strstr(e2e_err, "driver 0 (");
    assert_non_null(line);
    // The driver runs in the process of the scheduler.
    long pid = strtol(strchr(line, ':') + 1, NULL, 10);
    assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
    cluster_ends("run", 4, ENDS_WITHIN);
    cluster_said("run", "the scheduler was killed by signal 9");
    cluster_none_left();
}

// Without a launcher, servers and workers notice the dead scheduler by themselves.
static void scheduler_killed_alone(void **state)
{
    (void)state;
    const char *words = long_words("saved");
    cluster_start("scheduler", "scheduler -- %s", words);
    unsigned port = cluster_port("scheduler");
    cluster_start("server", "server --scheduler 127.0.0.1:%u --connect-timeout 2", port);
    cluster_start("worker", "worker --scheduler 127.0.0.1:%u --connect-timeout 2 -- %s",
                  port, words);
    cluster_await("scheduler", "pass 1/100000 done");
    cluster_signal("scheduler", SIGKILL);
    cluster_ends("server", 4, ENDS_WITHIN);
    cluster_said("server", files_path("scheduler at tcp://127.0.0.1:%u", port));
    cluster_ends("worker", 4, ENDS_WITHIN);
    cluster_said("worker", files_path("scheduler at tcp://127.0.0.1:%u", port));
    cluster_ends("scheduler", 128 + SIGKILL, ENDS_WITHIN);
}

// A restarted scheduler knows no node: all nodes report this, and no node continues under
// another node's id.
static void scheduler_started_again(void **state)
{
    (void)state;
    const char *words = long_words("saved");
    unsigned port = cluster_free_port();
    cluster_start("first", "scheduler --port %u -- %s", port, words);
    cluster_start("server", "server --scheduler 127.0.0.1:%u", port);
    cluster_start("worker", "worker --scheduler 127.0.0.1:%u -- %s", port, words);
    cluster_await("first", "pass 1/100000 done");
    cluster_signal("first", SIGKILL);
    cluster_ends("first", 128 + SIGKILL, ENDS_WITHIN);
    cluster_start("second", "scheduler --port %u --gather-timeout 10 -- %s", port, words);
    cluster_ends("server", 4, ENDS_WITHIN);
    cluster_said("server", "the scheduler was started again after node");
    cluster_ends("worker", 4, ENDS_WITHIN);
    cluster_said("worker", "the scheduler was started again after node");
    cluster_ends("second", 4, ENDS_WITHIN);
    cluster_said("second", "missing server 0, worker 0");
}

static void last_worker_killed(void **state)
{
    (void)state;
    launch(1, 2, long_words("saved"));
    cluster_await("run", kill_node("worker 0"));
    const char *killed = kill_node("worker 1");
    cluster_ends("run", 4, ENDS_WITHIN);
    cluster_said("run", killed);
    cluster_none_left();
}

// All processes that the launcher started die with it.
static void launcher_killed(void **state)
{
    (void)state;
    launch(2, 2, long_words("saved"));
    cluster_signal("run", SIGKILL);
    cluster_ends("run", 128 + SIGKILL, ENDS_WITHIN);
    cluster_none_left();
}

// A server that runs out of memory reports it, and the run ends.
static void server_without_memory(void **state)
{
    (void)state;
    const char *words = long_words("saved");
    cluster_start("scheduler", "scheduler --dead-timeout 2 -- %s", words);
    unsigned port = cluster_port("scheduler");
    cluster_start("server", "server --scheduler 127.0.0.1:%u --memory 100K", port);
    cluster_start("worker", "worker --scheduler 127.0.0.1:%u -- %s", port, words);
    cluster_ends("scheduler", 4, ENDS_WITHIN);
    cluster_said("scheduler", "bytes allowed");
    cluster_wait("worker", ENDS_WITHIN);
    cluster_wait("server", ENDS_WITHIN);
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    tug_ends(0, "synth --rows 2000 --format libsvm --out data.svm");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(server_killed),          cluster_test(scheduler_killed),
        cluster_test(scheduler_killed_alone), cluster_test(scheduler_started_again),
        cluster_test(last_worker_killed),     cluster_test(launcher_killed),
        cluster_test(server_without_memory),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
