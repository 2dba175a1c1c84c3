// A scheduler with --state and its driver are killed twenty times in one run of `tug
// train` on a cluster, at random moments, and started again. The servers and workers go
// on; every example is trained exactly once in each pass, and in mode sync the model has
// the bits of a run that was not disturbed.
//
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <string.h>

#include <jansson.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/processes.h"

enum { ROWS = 9000, VALID = 2000, EPOCHS = 60, KILLS = 20, MOST_MS = 300 };

static const char *words_of(const char *out, const char *more)
{
    // Static, because the caller uses this text after files_path() has reused its memory.
    static char words[FILES_PATH];
    files_remove(out);
    files_remove("passes");
    snprintf(words, sizeof(words),
             "train --data data.svm --valid valid.svm --test valid.svm --format libsvm "
             "--epochs %d --json --out %s --batch 64 --dim 2 --data-in memory "
             "--patience %d --history passes %s",
             EPOCHS, out, EPOCHS, more);
    return words;
}

static void start_scheduler(unsigned port, const char *train)
{
    cluster_start("scheduler",
                  "scheduler --scheduler 127.0.0.1:%u --servers 2 --workers 2 "
                  "--dead-timeout 20 --state state -- %s",
                  port, train);
}

static void start_nodes(unsigned port, const char *train)
{
    for (int i = 0; i < 2; i++) {
        cluster_start(files_path("server%d", i), "server --scheduler 127.0.0.1:%u", port);
        cluster_start(files_path("worker%d", i), "worker --scheduler 127.0.0.1:%u -- %s",
                      port, train);
    }
}

// Kills the scheduler, which may have ended. Returns whether it was killed.
static bool kill_scheduler(void)
{
    cluster_signal("scheduler", SIGKILL);
    int status = cluster_wait("scheduler", CLUSTER_PATIENCE);
    if (status != 0 && status != 128 + SIGKILL)
        cluster_fail("the scheduler ended with %d", status);
    return status != 0;
}

// Returns how often the scheduler was killed before the run was over.
static int train_killed(const char *train, uint64_t seed)
{
    unsigned port = cluster_free_port();
    int kills = 0;
    files_remove("state");
    start_scheduler(port, train);
    start_nodes(port, train);
    for (; kills < KILLS; kills++) {
        // Now and then the scheduler dies before it listens, or before the driver has
        // joined.
        poll(NULL, 0, (int)random_below(seed, 1, (uint64_t)kills, MOST_MS));
        if (!kill_scheduler())
            break;
        start_scheduler(port, train);
    }
    if (kills == KILLS)
        cluster_ends("scheduler", 0, CLUSTER_PATIENCE);
    assert_true(e2e_number("examples") == ROWS && e2e_number("epochs") == EPOCHS);
    for (int i = 0; i < 2; i++) {
        cluster_ends(files_path("server%d", i), 0, CLUSTER_PATIENCE);
        cluster_ends(files_path("worker%d", i), 0, CLUSTER_PATIENCE);
    }
    cluster_none_left();
    return kills;
}

// Checks that the history has the complete reports of pieces and scores of each pass.
static void check_history(void)
{
    char *text = files_read("passes", NULL), *rest = NULL;
    int pass = 0;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *o = json_loads(line, 0, NULL);
        const json_t *valid = json_object_get(o, "valid");
        assert_int_equal(json_integer_value(json_object_get(o, "pass")), ++pass);
        assert_int_equal(json_integer_value(json_object_get(o, "examples")), ROWS);
        assert_int_equal(json_integer_value(json_object_get(valid, "examples")), VALID);
        if (!json_is_real(json_object_get(o, "loss")))
            cluster_fail("pass %d has no loss", pass);
        json_decref(o);
    }
    assert_int_equal(pass, EPOCHS);
    mem_free(text);
}

static void in_mode(const char *mode, uint64_t seed)
{
    int kills = train_killed(words_of("many", files_path("--mode %s", mode)), seed);
    if (kills < KILLS)
        cluster_fail("the run was over after %d kills", kills);
    cluster_same_counts("truth", "many");
    check_history();
}

static void killed_in_async(void **state)
{
    (void)state;
    in_mode("async", 1);
}

static void killed_in_ssp(void **state)
{
    (void)state;
    in_mode("ssp:2", 2);
}

static void killed_in_sync(void **state)
{
    (void)state;
    in_mode("sync", 3);
    cluster_same_parts("truth", "many");
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    tug_ends(0, "synth --rows %d --format libsvm --out data.svm", ROWS);
    tug_ends(0, "synth --rows %d --seed 2 --format libsvm --out valid.svm", VALID);
    tug_ends(0, "%s", words_of("truth", "--deterministic"));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(killed_in_sync),
        cluster_test(killed_in_async),
        cluster_test(killed_in_ssp),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
