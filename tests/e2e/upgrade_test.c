// A rolling restart: every process of a running cluster is replaced, one after the other,
// by a process of a program that speaks a newer version of the protocol. The servers are
// replaced by joining and draining, the workers by joining and leaving, the scheduler by
// its state. In mode sync the model has the bits of a run that was not disturbed.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/processes.h"

enum { EPOCHS = 150 };

static unsigned port;

static const char *words_of(const char *out, const char *more)
{
    // Static, because the caller uses this text after files_path() has reused its memory.
    static char words[FILES_PATH];
    files_remove(out);
    snprintf(words, sizeof(words),
             "train --data data.svm --format libsvm --batch 64 --data-in memory --json "
             "--epochs %d --dim 2 --out %s %s",
             EPOCHS, out, more);
    return words;
}

// From now on, processes are started from the newer program.
static void use_next(void)
{
    char path[512];
    snprintf(path, sizeof(path), "%s", getenv("TUG_BINARY"));
    *strrchr(path, '/') = '\0';
    assert_int_equal(setenv("TUG_BINARY", files_path("%s/tests/next/tug", path), 1), 0);
}

static void start_scheduler(const char *words)
{
    cluster_start("run",
                  "scheduler --scheduler 127.0.0.1:%u --servers 2 --workers 2 "
                  "--dead-timeout 20 --state state -- %s",
                  port, words);
}

static void start_worker(const char *name, const char *words)
{
    cluster_start(name, "worker --scheduler 127.0.0.1:%u -- %s", port, words);
}

static void replace_servers(void)
{
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "third" : "fourth";
        cluster_start(name, "server --scheduler 127.0.0.1:%u --join", port);
        cluster_await("run", files_path("because server %d has joined", 2 + i));
        tug_ends(0, "drain %d --wait --timeout %d --scheduler 127.0.0.1:%u", i,
                 CLUSTER_PATIENCE, port);
        cluster_ends(i == 0 ? "first" : "second", 0, CLUSTER_PATIENCE);
    }
}

static void replace_workers(const char *words)
{
    for (int i = 0; i < 2; i++) {
        const char *old = i == 0 ? "w0" : "w1", *name = i == 0 ? "w2" : "w3";
        start_worker(name, words);
        cluster_await("run", files_path("worker %d (", 2 + i));
        cluster_signal(old, SIGTERM);
        cluster_ends(old, 130, CLUSTER_PATIENCE);
    }
}

static void replace_scheduler(const char *words)
{
    cluster_signal("run", SIGKILL);
    cluster_ends("run", 128 + SIGKILL, CLUSTER_PATIENCE);
    start_scheduler(words);
    cluster_await("run", "the scheduler was started again");
}

// `scheduler_first`: the newer scheduler has old servers and workers; else the old
// scheduler has newer servers and workers.
static void upgrade(bool scheduler_first)
{
    char old[512];
    snprintf(old, sizeof(old), "%s", getenv("TUG_BINARY"));
    const char *words = words_of("moved", "--mode sync");
    port = cluster_free_port();
    files_remove("state");
    start_scheduler(words);
    cluster_start("first", "server --scheduler 127.0.0.1:%u --rank 0", port);
    cluster_start("second", "server --scheduler 127.0.0.1:%u --rank 1", port);
    start_worker("w0", words);
    start_worker("w1", words);
    cluster_await("run", "pass 2/");
    use_next();
    if (scheduler_first)
        replace_scheduler(words);
    replace_servers();
    replace_workers(words);
    if (!scheduler_first)
        replace_scheduler(words);
    cluster_ends("run", 0, 2 * CLUSTER_PATIENCE);
    assert_true(e2e_number("epochs") == EPOCHS);
    static const char *const names[] = {"third", "fourth", "w2", "w3"};
    for (size_t i = 0; i < 4; i++)
        cluster_ends(names[i], 0, CLUSTER_PATIENCE);
    cluster_none_left();
    assert_int_equal(setenv("TUG_BINARY", old, 1), 0);
    cluster_same_parts("truth", "moved");
    cluster_same_counts("truth", "moved");
}

static void scheduler_last(void **state)
{
    (void)state;
    upgrade(false);
}

static void scheduler_first(void **state)
{
    (void)state;
    upgrade(true);
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    tug_ends(0, "synth --rows 6000 --format libsvm --out data.svm");
    tug_ends(0, "%s", words_of("truth", "--deterministic"));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(scheduler_last),
        cluster_test(scheduler_first),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
