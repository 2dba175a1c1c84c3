// A cluster trains the same model as one process: in mode sync the files have the same
// bytes, whatever the number of servers, loops and workers; in other modes the model is
// about as good.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "kit/processes.h"

static const char *const models[] = {"lr", "fm", "ffm"};

// Each shape has three numbers: servers, loops of each server, workers.
static const unsigned shapes[][3] = {{1, 1, 1}, {2, 1, 2}, {3, 1, 4}, {2, 2, 2}};
enum { SHAPES = sizeof(shapes) / sizeof(*shapes) };

static double number(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    if (!json_is_number(v))
        cluster_fail("'%s' is not a number in: %s", name, e2e_out);
    return json_number_value(v);
}

// Checks that the run printed one line of JSON that describes this shape and number of
// examples. Returns the AUC in it.
static double check_result(const unsigned shape[3], const char *model, double examples)
{
    assert_ptr_equal(strchr(e2e_out, '\n'), e2e_out + strcspn(e2e_out, "\n"));
    json_t *o = e2e_json();
    assert_string_equal(json_string_value(json_object_get(o, "command")), "train");
    assert_string_equal(json_string_value(json_object_get(o, "model")), model);
    assert_true(number(o, "servers") == shape[0]);
    assert_true(number(o, "workers") == shape[2]);
    assert_true(number(o, "examples") == examples);
    double auc = number(o, "auc");
    json_decref(o);
    return auc;
}

// Returns the "train" command for a model on the synthetic data, which is libffm for ffm
// and libsvm for the other models.
static const char *words_of(const char *model, const char *out, const char *more)
{
    const char *format = strcmp(model, "ffm") == 0 ? "libffm" : "libsvm";
    files_remove(out);
    return files_path("train --data %s --test test.%s --format %s --model %s --json "
                      "--out %s %s",
                      format, format, format, model, out, more);
}

static void launch(const unsigned shape[3], const char *words)
{
    cluster_start("run", "launch --servers %u --loops %u --workers %u -- %s", shape[0],
                  shape[1], shape[2], words);
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    cluster_none_left();
}

static void same_for_all_shapes(const char *model, const char *more, double examples)
{
    tug_ends(0, "%s --deterministic", words_of(model, "one", more));
    double auc = e2e_number("auc");
    for (size_t i = 0; i < SHAPES; i++) {
        launch(shapes[i], files_path("%s --mode sync", words_of(model, "many", more)));
        assert_true(check_result(shapes[i], model, examples) == auc);
        cluster_same_parts("one", "many");
    }
}

static void sync_has_the_same_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++)
        same_for_all_shapes(models[i], "--epochs 2 --batch 128 --data-in memory", 2000);
}

// Another seed gives another model: this shows that the comparison of files can fail.
static void comparison_can_fail(void **state)
{
    (void)state;
    const char *few = "--epochs 1 --batch 500 --data-in memory";
    tug_ends(0, "%s --deterministic", words_of("lr", "one", few));
    launch(shapes[1], files_path("%s --mode sync --seed 2", words_of("lr", "many", few)));
    assert_true(cluster_parts_differ("one", "many"));
}

static const char *next_trained(const char *line)
{
    while (*line != 0) {
        const char *end = strchr(line, '\n'), *count = line;
        assert_non_null(end);
        // Skips the key and w; the count comes next.
        for (int words = 0; words < 2; words++)
            count += strcspn(count, " \n") + 1;
        if (*count != '0')
            return line;
        line = end + 1;
    }
    return line;
}

// Checks that both models have the same trained rows. Rows with count 0 are left out of
// the comparison, because one process also saves the untrained rows of features that only
// held-out examples have.
static void same_trained_rows(void)
{
    char *text[2];
    for (int i = 0; i < 2; i++) {
        tug_ends(0, "table export --from %s", i == 0 ? "one" : "many");
        text[i] = e2e_out;
        e2e_out = NULL;
    }
    const char *a = next_trained(text[0]), *b = next_trained(text[1]);
    size_t rows = 0;
    for (; *a != 0 && *b != 0; rows++) {
        size_t n = strcspn(a, "\n") + 1;
        if (strncmp(a, b, n) != 0)
            cluster_fail("rows differ: %.200s", a);
        a = next_trained(a + n);
        b = next_trained(b + n);
    }
    assert_true(rows > 1000 && *a == 0 && *b == 0);
    mem_free(text[0]);
    mem_free(text[1]);
}

// Mode sync gives the model of one process for several batch sizes, rules, schedules and
// fractions of held-out examples.
static void sync_with_other_options(void **state)
{
    (void)state;
    static const char *const more[] = {
        "--reduce mean --batch 100 --epochs 1 --optimizer ftrl --l1 0.01",
        "--batch 7 --epochs 1 --valid 0.5",
        "--batch 1000000 --epochs 3",
        "--batch 128 --epochs 3 --schedule poly --optimizer adam --valid 0.2",
        "--batch 128 --epochs 2 --threads 1",
    };
    for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++) {
        const char *all = files_path("%s --data-in memory", more[i]);
        tug_ends(0, "%s --deterministic", words_of("fm", "one", all));
        launch(shapes[2], files_path("%s --mode sync", words_of("fm", "many", all)));
        same_trained_rows();
        if (strstr(all, "--valid") == NULL)
            cluster_same_parts("one", "many");
    }
}

// A cluster with one worker is as deterministic as one process.
static void one_worker_deterministic(void **state)
{
    (void)state;
    const char *all = "--deterministic --batch 128 --epochs 2 --data-in memory";
    tug_ends(0, "%s", words_of("fm", "one", all));
    static const unsigned shape[] = {2, 1, 1};
    launch(shape, words_of("fm", "many", all));
    cluster_same_parts("one", "many");
}

// Returns the command that trains on the `easy` data. Its examples are so easy to
// separate that AUCs can be compared although the examples are few.
static const char *easy_words(const char *model, const char *out, const char *more)
{
    files_remove(out);
    return files_path("train --data easy --test easy.test --format %s --model %s --json "
                      "--out %s %s",
                      strcmp(model, "ffm") == 0 ? "libffm" : "libsvm", model, out, more);
}

static void write_easy(bool fields)
{
    struct e2e_data d = {.path = "easy", .rows = 20000, .seed = 1, .fields = fields};
    e2e_write_data(&d);
    d.path = "easy.test", d.rows = 20000, d.seed = 2;
    e2e_write_data(&d);
}

static void others_are_as_good(void **state)
{
    (void)state;
    static const char *const modes[] = {"async", "ssp:2"};
    const char *all = "--epochs 4 --batch 64 --data-in memory";
    for (size_t i = 0; i < 3; i++) {
        write_easy(i == 2);
        tug_ends(0, "%s --deterministic", easy_words(models[i], "one", all));
        double auc = e2e_number("auc");
        for (size_t m = 0; m < 2; m++) {
            const char *words = easy_words(models[i], "many", all);
            launch(shapes[1], files_path("%s --mode %s", words, modes[m]));
            double got = check_result(shapes[1], models[i], 20000);
            if (got < auc - 0.002)
                cluster_fail("%s in %s: AUC %.5f, of one process %.5f", models[i],
                             modes[m], got, auc);
        }
    }
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    for (size_t i = 0; i < 2; i++) {
        const char *format = i == 0 ? "libsvm" : "libffm";
        tug_ends(0,
                 "synth --rows 2000 --test-rows 1000 --format %s --out %s "
                 "--test-out test.%s",
                 format, format, format);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(sync_has_the_same_bytes), cluster_test(comparison_can_fail),
        cluster_test(sync_with_other_options), cluster_test(one_worker_deterministic),
        cluster_test(others_are_as_good),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
