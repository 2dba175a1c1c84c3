// The global shuffle with real processes: every example is trained once a pass, also when
// workers die while examples are dealt or trained on, and in a resumed run; sorted data
// trains as well as data in random order; examples with equal ids reach the same worker.
//
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include "kit/processes.h"

enum { ROWS = 9000, EPOCHS = 3 };

#define DEALT "all examples were redistributed"

static void shell(const char *text)
{
    files_write("do.sh", text);
    assert_int_equal(cluster_system("sh do.sh"), 0);
}

static const char *words_of(const char *out, const char *more)
{
    // Static, because the caller uses this text after files_path() has reused its memory.
    static char words[FILES_PATH * 4];
    files_remove(out);
    snprintf(words, sizeof(words),
             "train --format libsvm --epochs %d --json --out %s --batch 64 --dim 2 %s",
             EPOCHS, out, more);
    return words;
}

static void all_were_trained_once(void)
{
    assert_true(e2e_number("examples") == ROWS);
    assert_true(e2e_number("epochs") == EPOCHS);
    cluster_same_counts("truth", "many");
}

static void await_lines(const char *path, size_t n)
{
    double until = cluster_now() + CLUSTER_PATIENCE;
    for (size_t lines = 0; lines < n; poll(NULL, 0, 5)) {
        char *text = files_read(path, NULL);
        lines = 0;
        for (const char *at = text; at != NULL && (at = strchr(at, '\n')) != NULL; at++)
            lines++;
        mem_free(text);
        if (cluster_now() > until)
            cluster_fail("%s has %zu lines", path, lines);
    }
}

static void await_file(const char *path)
{
    double until = cluster_now() + CLUSTER_PATIENCE;
    while (!files_exists(path)) {
        if (cluster_now() > until)
            cluster_fail("%s has not come", path);
        poll(NULL, 0, 2);
    }
}

static void kill_worker(const char *worker)
{
    assert_int_equal(kill(cluster_node("run", worker), SIGKILL), 0);
}

// Kills a worker, with the examples in its memory, in the middle of a pass.
static void lose_worker(const char *more)
{
    cluster_start(
        "run", "launch --servers 2 --workers 2 --dead-timeout 2 -- %s",
        words_of("many", files_path("--data data.svm --shuffle global %s", more)));
    cluster_await("run", DEALT);
    cluster_await("run", files_path("pass 1/%d done", EPOCHS));
    kill_worker("worker 1");
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    cluster_said("run", "was killed by signal 9");
    all_were_trained_once();
    cluster_none_left();
}

static void worker_dies_in_async(void **state)
{
    (void)state;
    lose_worker("--mode async");
}

static void worker_dies_in_ssp(void **state)
{
    (void)state;
    lose_worker("--mode ssp:1 --values bf16 --data-in stream");
}

// A worker is killed while both workers are in the middle of their second of three files:
// the script that reads the files waits there.
static void worker_dies_while_dealing(void **state)
{
    (void)state;
    // The commands for the first two pieces copy their input at once; each later one
    // waits for the file "go". Each shell appends its PID to "begun": the number of this
    // line says how many commands began before it, on any worker.
    files_write("wait.sh", "echo $$ >>begun\n"
                           "test $(grep -n -x -m1 $$ begun | cut -d: -f1) -le 2 ||\n"
                           "    until test -e go; do sleep 0.02; done\n"
                           "exec cat\n");
    cluster_start("run", "launch --servers 2 --workers 2 --dead-timeout 2 -- %s",
                  words_of("many", "--data parts --shuffle global --threads 1 "
                                   "--pipe-command sh${IFS}wait.sh"));
    cluster_node("run", "worker 0");
    cluster_node("run", "worker 1");
    cluster_await("run", "all have joined");
    await_lines("begun", 4);
    kill_worker("worker 1");
    cluster_await("run", "is gone");
    files_write("go", "");
    cluster_await("run", DEALT);
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    all_were_trained_once();
    cluster_none_left();
}

// All processes are killed, with all examples that the servers hold, after a save in the
// middle of a pass. The resumed run ends with the same counts.
static void run_goes_on(void **state)
{
    (void)state;
    const char *table = "--data data.svm --table accessor=sparse;count-passes=all";
    tug_ends(0, "%s", words_of("living", table));
    char words[FILES_PATH * 5];
    // All saves are kept: in a quick run, the second save could otherwise be removed
    // before the test looks for it.
    snprintf(words, sizeof(words),
             "%s --shuffle global --save-every 20batches --keep 1000",
             words_of("many", table));
    cluster_start("run", "launch --servers 2 --workers 2 -- %s", words);
    await_file("many/save-000002");
    cluster_signal("run", SIGKILL);
    cluster_ends("run", 128 + SIGKILL, CLUSTER_PATIENCE);
    cluster_none_left();
    cluster_start("run", "launch --servers 1 --workers 3 -- %s --resume", words);
    cluster_await("run", DEALT);
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    assert_true(e2e_number("epochs") == EPOCHS);
    cluster_same_counts("living", "many");
    // The save has a position in the shuffled data, so a resumed run must use the same
    // shuffle.
    snprintf(words, sizeof(words),
             "train --format libsvm --epochs 4 --out many --batch "
             "64 --dim 2 %s --shuffle pieces --resume",
             table);
    cluster_start("run", "launch --servers 1 --workers 1 -- %s", words);
    cluster_ends("run", 2, CLUSTER_PATIENCE);
    cluster_said("run", "--shuffle 'global'");
    cluster_none_left();
}

static double auc_of(const char *more)
{
    cluster_start("run",
                  "launch --servers 1 --workers 2 -- train --format libsvm "
                  "--epochs 1 --test test.svm --json %s",
                  more);
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    return e2e_number("auc");
}

static void sorted_data(void **state)
{
    (void)state;
    shell("LC_ALL=C sort -s -k1,1 data.svm > sorted.svm");
    double mixed = auc_of("--data data.svm"), sorted = auc_of("--data sorted.svm"),
           dealt = auc_of("--data sorted.svm --shuffle global");
    if (!(sorted < mixed - 0.03) || !(dealt > mixed - 0.02))
        cluster_fail("AUC %.4f, of sorted data %.4f, dealt anew %.4f", mixed, sorted,
                     dealt);
}

static void by_id(void **state)
{
    (void)state;
    const char *words = "train --data data.criteo --format criteo --epochs 1 --json";
    cluster_start("run",
                  "launch --servers 1 --workers 2 -- %s --shuffle global "
                  "--shuffle-by C1,I2",
                  words);
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    assert_true(e2e_number("examples") == ROWS);
    cluster_start("run",
                  "launch --servers 1 --workers 2 -- %s --shuffle global "
                  "--shuffle-by nobody",
                  words);
    cluster_ends("run", 3, CLUSTER_PATIENCE);
    cluster_said("run", "--shuffle-by");
    cluster_said("run", "nobody");
}

static void refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"--mode sync --shuffle global", "in sync mode every worker holds all examples"},
        {"--shuffle-by user", "--shuffle-by works only with --shuffle global"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        cluster_start("run",
                      "launch --servers 1 --workers 1 -- train --data data.svm "
                      "--format libsvm %s",
                      cases[i][0]);
        cluster_ends("run", 2, CLUSTER_PATIENCE);
        cluster_said("run", cases[i][1]);
    }
    tug_ends(2, "train --data data.svm --format libsvm --shuffle global");
    e2e_says("On one machine the only worker");
}

// The servers hold all text of the data. If their limit is too small, the error comes
// before training.
static void no_room(void **state)
{
    (void)state;
    shell("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do cat data.svm; done > "
          "large.svm");
    const char *train = "train --data large.svm --format libsvm --shuffle global";
    cluster_start("scheduler", "scheduler --servers 1 --workers 1 -- %s", train);
    unsigned port = cluster_port("scheduler");
    cluster_start("server", "server --scheduler 127.0.0.1:%u --memory 50MB", port);
    cluster_start("worker", "worker --scheduler 127.0.0.1:%u -- %s", port, train);
    cluster_ends("worker", 4, CLUSTER_PATIENCE);
    cluster_said("worker", "the servers hold the text of --data");
    cluster_ends("scheduler", 4, CLUSTER_PATIENCE);
    cluster_ends("server", 4, CLUSTER_PATIENCE);
}

// The error for a bad line names its file and line, whichever bucket the line was put
// into.
static void bad_line(void **state)
{
    (void)state;
    shell("sed '5000s/.*/broken/' data.svm > bad.svm");
    cluster_start("run", "launch --servers 1 --workers 2 -- train --data bad.svm "
                         "--format libsvm --shuffle global");
    cluster_ends("run", 3, CLUSTER_PATIENCE);
    cluster_said("run", "bad.svm:5000: ");
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    tug_ends(0,
             "synth --rows %d --format libsvm --out data.svm --test-rows 3000 "
             "--test-out test.svm",
             ROWS);
    tug_ends(0, "synth --rows %d --format criteo --out data.criteo", ROWS);
    tug_ends(0, "%s", words_of("truth", "--data data.svm --deterministic"));
    shell("mkdir parts && split -n l/6 data.svm parts/");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(worker_dies_in_async),
        cluster_test(worker_dies_in_ssp),
        cluster_test(worker_dies_while_dealing),
        cluster_test(run_goes_on),
        cluster_test(sorted_data),
        cluster_test(by_id),
        cluster_test(refused),
        cluster_test(no_room),
        cluster_test(bad_line),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
