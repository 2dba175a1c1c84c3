// Runs on a cluster that are interrupted, resumed, validated and stopped early, and other
// commands that use their saved models.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/processes.h"

static const char *words_of(const char *out, const char *more)
{
    static char words[512];
    snprintf(words, sizeof(words),
             "train --data data.svm --test test.svm --format libsvm --batch 64 "
             "--data-in memory --json --out %s %s",
             out, more);
    return words;
}

static void start_run(unsigned servers, unsigned workers, const char *words)
{
    cluster_start("run", "launch --servers %u --workers %u -- %s", servers, workers,
                  words);
}

static void launch(unsigned servers, unsigned workers, const char *words)
{
    start_run(servers, workers, words);
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    cluster_none_left();
}

static void interrupt_in_pass(int pass)
{
    cluster_await("run", files_path("pass %d/", pass));
    cluster_signal("run", SIGINT);
    cluster_ends("run", 130, CLUSTER_PATIENCE);
    cluster_none_left();
}

// Checks that the history has a record of each of `n` passes, in order and each with all
// examples.
static void passes_in(const char *path, int n)
{
    char *text = files_read(path, &(size_t){0}), *line = text;
    assert_non_null(text);
    for (int i = 1; i <= n; i++) {
        char begin[64];
        snprintf(begin, sizeof(begin), "{\"pass\":%d,\"examples\":%.0f,", i,
                 e2e_number("examples"));
        assert_int_equal(strncmp(line, begin, strlen(begin)), 0);
        line += strcspn(line, "\n") + 1;
    }
    assert_true(*line == '\0');
    mem_free(text);
}

// A run that is resumed on a cluster of another shape, and then in one process, ends with
// the same model as a run that did not stop.
static void resumed_in_sync(void **state)
{
    (void)state;
    tug_ends(0, "%s", words_of("truth", "--epochs 4 --deterministic"));
    launch(2, 2, words_of("parts", "--epochs 2 --mode sync"));
    launch(1, 3, words_of("parts", "--epochs 3 --mode sync --resume --history h.jsonl"));
    passes_in("h.jsonl", 3);
    tug_ends(0, "%s", words_of("parts", "--epochs 4 --deterministic --resume"));
    cluster_same_parts("truth", "parts");
    // A run of one process is resumed on a cluster.
    tug_ends(0, "%s", words_of("back", "--epochs 1 --deterministic"));
    launch(3, 2, words_of("back", "--epochs 4 --mode sync --resume"));
    cluster_same_parts("truth", "back");
}

// A run is interrupted in the middle by Ctrl-C twice, and saves each time; one process
// then finishes it.
static void interrupted_in_sync(void **state)
{
    (void)state;
    start_run(2, 2, words_of("cut", "--mode sync --epochs 30"));
    interrupt_in_pass(3);
    cluster_said("run", "saved to cut/save-000001");
    start_run(1, 3, words_of("cut", "--mode sync --epochs 30 --resume"));
    interrupt_in_pass(10);
    cluster_said("run", "saved to cut/save-000002");
    tug_ends(0, "%s", words_of("cut", "--epochs 30 --deterministic --resume"));
    assert_true(e2e_number("epochs") == 30);
}

// An interrupted run finishes its pass with the validation, and then saves. If the save
// said that the pass had not ended, the resumed run would train on its examples twice.
static void interrupted_with_validation(void **state)
{
    (void)state;
    static const char more[] = "--epochs 30 --valid valid.svm --patience 0";
    tug_ends(0, "%s --deterministic", words_of("whole", more));
    start_run(2, 2, files_path("%s --mode sync", words_of("held", more)));
    interrupt_in_pass(3);
    cluster_said("run", "saved to held/save-000001");
    tug_ends(0, "%s --deterministic --resume", words_of("held", more));
    assert_true(e2e_number("epochs") == 30);
    cluster_same_parts("whole", "held");
}

static void interrupted_in_async(void **state)
{
    (void)state;
    start_run(2, 2, words_of("async", "--epochs 30"));
    interrupt_in_pass(3);
    cluster_said("run", "--resume");
    launch(2, 2, words_of("async", "--epochs 30 --resume --history h.jsonl"));
    passes_in("h.jsonl", 30);
    assert_true(e2e_number("epochs") == 30);
    launch(1, 2, words_of("more", "--epochs 1 --init-from async"));
    assert_true(e2e_number("auc") > 0.55);
}

// The run is interrupted before all workers have joined: nothing was trained, so nothing
// is saved.
static void interrupted_while_gathering(void **state)
{
    (void)state;
    cluster_start("scheduler", "scheduler --workers 2 -- %s", words_of("none", ""));
    unsigned port = cluster_port("scheduler");
    cluster_start("server", "server --scheduler 127.0.0.1:%u", port);
    cluster_start("worker", "worker --scheduler 127.0.0.1:%u -- %s", port,
                  words_of("none", ""));
    cluster_node("scheduler", "server 0");
    cluster_node("scheduler", "worker 0");
    cluster_signal("scheduler", SIGINT);
    cluster_ends("scheduler", 130, CLUSTER_PATIENCE);
    cluster_ends("server", 130, CLUSTER_PATIENCE);
    cluster_ends("worker", 130, CLUSTER_PATIENCE);
}

// The other commands read the save of a cluster as they read any model.
static void other_commands(void **state)
{
    (void)state;
    launch(2, 2, words_of("model", "--epochs 2 --mode sync"));
    double auc = e2e_number("auc");
    tug_ends(0, "eval --from model --data test.svm --json");
    assert_true(e2e_number("auc") == auc);
    tug_ends(0, "predict --from model --data test.svm");
    double of_predictions = e2e_auc("test.svm");
    assert_true(of_predictions > auc - 1e-4 && of_predictions < auc + 1e-4);
    tug_ends(0, "table stat --from model");
    // One process begins with the cluster's model, and a cluster begins with the model of
    // one process.
    tug_ends(0, "%s", words_of("one", "--epochs 1 --init-from model --deterministic"));
    launch(2, 2, words_of("many", "--epochs 1 --init-from model --mode sync"));
    cluster_same_parts("one", "many");
}

static double best_pass(void)
{
    json_t *o = e2e_json();
    const json_t *v = json_object_get(o, "epochs");
    double x = json_number_value(v);
    json_decref(o);
    return x;
}

static void early_stop(const char *valid)
{
    const char *more = files_path("--epochs 40 --valid %s --patience 1 --lr 1", valid);
    files_remove("one");
    files_remove("many");
    tug_ends(0, "%s --deterministic", words_of("one", more));
    double epochs = best_pass(), auc = e2e_number("auc");
    e2e_says("validation was best");
    launch(2, 2, files_path("%s --mode sync", words_of("many", more)));
    assert_true(best_pass() == epochs);
    assert_true(e2e_number("auc") == auc);
    cluster_said("run", "validation was best");
}

static void validation_stops(void **state)
{
    (void)state;
    early_stop("valid.svm");
    cluster_same_parts("one", "many");
    early_stop("0.3");
    files_remove("many");
    launch(2, 2, words_of("many", "--epochs 40 --valid valid.svm --patience 1 --lr 1"));
    assert_true(best_pass() < 40);
}

// A run refuses an --out directory that already holds a run.
static void out_is_kept(void **state)
{
    (void)state;
    files_remove("kept");
    launch(1, 1, words_of("kept", "--epochs 1"));
    start_run(1, 2, words_of("kept", "--epochs 1"));
    cluster_ends("run", 2, CLUSTER_PATIENCE);
    cluster_said("run", "--resume");
    cluster_none_left();
    start_run(1, 1, words_of("nowhere", "--epochs 1 --resume"));
    int code = cluster_wait("run", CLUSTER_PATIENCE);
    assert_in_range(code, 2, 3);
    cluster_said("run", "nowhere");
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    tug_ends(0, "synth --rows 2000 --test-rows 1000 --format libsvm --out data.svm "
                "--test-out test.svm");
    tug_ends(0, "synth --rows 1000 --format libsvm --out valid.svm --seed 1 "
                "--test-rows 1 --test-out unused.svm");
    return 0;
}

// The number of batches since the last save is counted across passes, so --save-every may
// be larger than a pass.
static void saves_of_short_passes(void **state)
{
    (void)state;
    static const char *const modes[] = {"ssp:2", "sync"};
    for (int i = 0; i < 2; i++) {
        char names[64][64];
        files_remove("short");
        launch(1, 1,
               words_of("short", files_path("--mode %s --table accessor=sparse --epochs "
                                            "24 --save-every 25batches --keep 100",
                                            modes[i])));
        // The driver makes about eight saves, or fewer if it counts batches late; it
        // always makes the last save.
        assert_true(files_list("short", names, 64) >= 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(saves_of_short_passes), cluster_test(resumed_in_sync),
        cluster_test(interrupted_in_sync),   cluster_test(interrupted_with_validation),
        cluster_test(interrupted_in_async),  cluster_test(interrupted_while_gathering),
        cluster_test(other_commands),        cluster_test(validation_stops),
        cluster_test(out_is_kept),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
