// Every example is trained exactly once in each pass, also when workers die and when a
// worker joins. Rows count their updates; the counts are compared with those of a run in
// one process.
//
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include "kit/processes.h"

enum { ROWS = 9000, EPOCHS = 3 }; // the data has several pieces of a megabyte

static const char *words_of(const char *out, const char *more)
{
    // Static, because the caller uses this text after files_path() has reused its memory.
    static char words[FILES_PATH];
    files_remove(out);
    snprintf(words, sizeof(words),
             "train --data data.svm --format libsvm --epochs %d --json --out %s "
             "--batch 64 --dim 2 --data-in memory %s",
             EPOCHS, out, more);
    return words;
}

static void all_were_trained_once(void)
{
    assert_true(e2e_number("examples") == ROWS);
    assert_true(e2e_number("epochs") == EPOCHS);
    cluster_same_counts("truth", "many");
}

// Kills a worker `delay_ms` milliseconds after the end of a pass. The test passes for any
// delay.
static void kill_worker(const char *worker, int pass, int delay_ms)
{
    pid_t pid = cluster_node("run", worker);
    cluster_await("run", files_path("pass %d/%d done", pass, EPOCHS));
    poll(NULL, 0, delay_ms);
    assert_int_equal(kill(pid, SIGKILL), 0);
}

// Kills two of three workers in the middle of passes, and checks that every example was
// trained once.
static void lose_workers(const char *mode, int delay_ms)
{
    cluster_start("run", "launch --servers 2 --workers 3 --dead-timeout 2 -- %s",
                  words_of("many", files_path("--mode %s", mode)));
    kill_worker("worker 1", 1, delay_ms);
    kill_worker("worker 0", 2, delay_ms / 2);
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    cluster_said("run", "was killed by signal 9");
    all_were_trained_once();
    cluster_none_left();
}

static void workers_die_in_async(void **state)
{
    (void)state;
    lose_workers("async", 30);
}

static void workers_die_in_half_async(void **state)
{
    (void)state;
    lose_workers("half-async --threads 2", 20);
}

// Each worker has one thread: several threads that share one copy of the rows may lose
// counts, as they may in one process.
static void workers_die_in_geo(void **state)
{
    (void)state;
    lose_workers("geo:3 --threads 1", 40);
}

// The optimizer state that only a dead worker had is lost, but the updates of its rows
// are counted.
static void workers_die_in_elastic(void **state)
{
    (void)state;
    lose_workers("elastic:3 --threads 1", 40);
}

static void workers_die_in_ssp(void **state)
{
    (void)state;
    lose_workers("ssp:1", 60);
}

// In mode sync, the sums of a batch's gradients are the same, whichever worker computed a
// share. So the model is the same, too.
static void workers_die_in_sync(void **state)
{
    (void)state;
    lose_workers("sync", 90);
    cluster_same_parts("truth", "many");
}

// Waits until workers have begun to read `n` pieces.
static void await_begun(size_t n)
{
    double until = cluster_now() + CLUSTER_PATIENCE;
    for (size_t lines = 0; lines < n; poll(NULL, 0, 5)) {
        char *text = files_read("begun", NULL);
        lines = 0;
        for (const char *at = text; at != NULL && (at = strchr(at, '\n')) != NULL; at++)
            lines++;
        mem_free(text);
        if (cluster_now() > until)
            cluster_fail("workers have begun %zu pieces, not %zu", lines, n);
    }
}

// The first worker that reads the second file waits there, so the other worker has to
// train on this file before the pass can end. In later passes the first worker continues
// and pushes the file's batches once more: none of these batches counts twice.
static void straggler_counts_once(void **state)
{
    (void)state;
    char words[FILES_PATH];
    files_write("wait.sh", "cat >got.$$\n"
                           "if cmp -s got.$$ sixths/ab && mkdir slow 2>/dev/null; then\n"
                           "    echo >>begun\n"
                           "    until test -e go; do sleep 0.02; done\n"
                           "fi\n"
                           "exec cat got.$$\n");
    files_remove("many");
    files_write("split.sh", "mkdir sixths && split -n l/6 data.svm sixths/\n");
    assert_int_equal(cluster_system("sh split.sh"), 0);
    snprintf(
        words, sizeof(words),
        "train --data sixths --format libsvm --epochs %d --json --out many --batch 64 "
        "--dim 2 --mode async --threads 1 --backup-pieces "
        "--pipe-command sh${IFS}wait.sh",
        EPOCHS);
    cluster_start("run", "launch --servers 2 --workers 2 -- %s", words);
    await_begun(1);
    cluster_await("run", files_path("pass 2/%d done", EPOCHS));
    files_write("go", "");
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    all_were_trained_once();
    cluster_none_left();
}

static void start_roles(const char *train, int workers)
{
    cluster_start("scheduler",
                  "scheduler --servers 1 --workers %d --dead-timeout 2 -- %s", workers,
                  train);
    unsigned port = cluster_port("scheduler");
    cluster_start("server", "server --scheduler 127.0.0.1:%u", port);
    for (int i = 0; i < workers; i++)
        cluster_start(files_path("worker%d", i), "worker --scheduler 127.0.0.1:%u -- %s",
                      port, train);
}

// A second worker joins during training, and the first one is then killed, so that the
// second has work to do.
static void worker_joins(const char *mode)
{
    const char *train = words_of("many", files_path("--mode %s", mode));
    start_roles(train, 1);
    cluster_await("scheduler", files_path("pass 1/%d done", EPOCHS));
    cluster_start("late", "worker --scheduler 127.0.0.1:%u -- %s",
                  cluster_port("scheduler"), train);
    cluster_node("scheduler", "worker 1");
    cluster_signal("worker0", SIGKILL);
    cluster_ends("scheduler", 0, CLUSTER_PATIENCE);
    all_were_trained_once();
    cluster_ends("late", 0, CLUSTER_PATIENCE);
    cluster_ends("server", 0, CLUSTER_PATIENCE);
    cluster_ends("worker0", 128 + SIGKILL, CLUSTER_PATIENCE);
}

static void worker_joins_async(void **state)
{
    (void)state;
    worker_joins("async");
}

static void worker_joins_ssp(void **state)
{
    (void)state;
    worker_joins("ssp:2");
}

static void worker_joins_sync(void **state)
{
    (void)state;
    worker_joins("sync");
    cluster_same_parts("truth", "many");
}

// A worker that is stopped for longer than --dead-timeout counts as dead, and another
// worker gets its pieces. When it continues, its pushes must not count.
static void stopped_worker_is_dead(void **state)
{
    (void)state;
    const char *train = words_of("many", "--mode async");
    start_roles(train, 2);
    cluster_await("scheduler", files_path("pass 1/%d done", EPOCHS));
    pid_t pid = cluster_node("scheduler", "worker 1");
    kill(pid, SIGSTOP);
    cluster_await("scheduler", files_path("worker 1 (vm:%d) is gone", (int)pid));
    kill(pid, SIGCONT);
    cluster_ends("scheduler", 0, CLUSTER_PATIENCE);
    all_were_trained_once();
    cluster_ends("server", 0, CLUSTER_PATIENCE);
    int a = cluster_wait("worker0", CLUSTER_PATIENCE);
    int b = cluster_wait("worker1", CLUSTER_PATIENCE);
    // The stopped worker was refused because it counted as dead (exit status 4), and the
    // other finished (0). Any other status would make tug launch end the run.
    if (a + b != 4 || (a != 0 && b != 0))
        cluster_fail("the workers ended with %d and %d", a, b);
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    tug_ends(0, "synth --rows %d --format libsvm --out data.svm", ROWS);
    tug_ends(0, "%s", words_of("truth", "--deterministic"));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(workers_die_in_async),      cluster_test(workers_die_in_ssp),
        cluster_test(workers_die_in_elastic),    cluster_test(workers_die_in_geo),
        cluster_test(workers_die_in_half_async), cluster_test(workers_die_in_sync),
        cluster_test(straggler_counts_once),     cluster_test(worker_joins_async),
        cluster_test(worker_joins_ssp),          cluster_test(worker_joins_sync),
        cluster_test(stopped_worker_is_dead),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
