// --deterministic: the same seed and data give files with the same bytes, whatever the
// number of threads and the kernels for the CPU.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/command.h"

static const char *const models[] = {"lr", "fm", "ffm"};
static const char *const kernels[] = {"ref", "avx2", "avx512"};

static void train(const char *out, const char *model, const char *more, int threads)
{
    files_remove(out);
    bool ffm = strcmp(model, "ffm") == 0;
    tug_ends(0,
             "train --data %s --format %s --model %s --dim 3 --batch 50 --epochs 2 "
             "--deterministic --out %s --threads %d %s",
             ffm ? "data.ffm" : "data.svm", ffm ? "libffm" : "libsvm", model, out,
             threads, more);
}

static void same_for_any_threads(const char *model, const char *more)
{
    train("one", model, more, 1);
    for (int threads = 2; threads <= 5; threads += threads == 3 ? 2 : 1) {
        train("many", model, more, threads);
        e2e_same_model("one", "many");
    }
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++)
        same_for_any_threads(models[i], "");
    same_for_any_threads("fm", "--reduce mean --batch 64");
    same_for_any_threads("fm", "--loss squared --no-normalize");
    same_for_any_threads("lr", "--schedule poly --valid 0.2");
    // One batch size is smaller than the number of threads, and one makes a single batch
    // of all examples.
    same_for_any_threads("fm", "--batch 2 --epochs 1");
    same_for_any_threads("fm", "--batch 1000000");
}

static void optimizers(void **state)
{
    (void)state;
    static const char *const rules[] = {"sgd",     "momentum", "adagrad", "adagrad-row",
                                        "rmsprop", "adam",     "ftrl"};
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
        char more[64];
        snprintf(more, sizeof(more), "--optimizer %s --l1 0.001", rules[i]);
        train("one", "fm", more, 1);
        train("many", "fm", more, 3);
        e2e_same_model("one", "many");
        // Another update rule gives another model: this shows that the comparison of
        // files can fail.
        train("many", "fm", rules[i][0] == 's' ? "--optimizer ftrl" : "--optimizer sgd",
              1);
        assert_true(e2e_models_differ("one", "many"));
    }
}

static void kernels_do_not_matter(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        setenv("TUG_KERNELS", "ref", 1);
        train("one", models[i], "", 2);
        for (size_t k = 1; k < 3; k++) {
            if (strcmp(kernels[k], "avx512") == 0 && !__builtin_cpu_supports("avx512f"))
                continue;
            setenv("TUG_KERNELS", kernels[k], 1);
            train("many", models[i], "", 3);
            e2e_same_model("one", "many");
        }
        unsetenv("TUG_KERNELS");
    }
}

// Saves, progress lines and the location of the data do not change the model.
static void other_options_do_not_matter(void **state)
{
    (void)state;
    // Saves and progress lines stop the training between the steps of the schedule, which
    // are a hundredth of a pass.
    const char *steps = "--schedule exp --schedule-a 0.2 --batch 2";
    train("one", "fm", steps, 2);
    train("many", "fm",
          files_path("%s --log-every 3 --save-every 7batches --keep 2 --test data.svm",
                     steps),
          3);
    e2e_same_model("one", "many");
    train("one", "fm", "--seed 7", 1);
    train("many", "fm", "--seed 8", 1);
    assert_true(e2e_models_differ("one", "many"));
}

// Reads data in windows. The lines are padded so that the text has several windows of a
// megabyte.
static void streaming(void **state)
{
    (void)state;
    const char *stream = "--data-in stream --window 1";
    for (size_t i = 0; i < 3; i++)
        for (int threads = 1; threads <= 3; threads++) {
            char more[200];
            snprintf(more, sizeof(more), "%s --data long.%s", stream,
                     i == 2 ? "ffm" : "svm");
            train(threads == 1 ? "one" : "many", models[i], more, threads);
            if (threads > 1)
                e2e_same_model("one", "many");
        }
    // Reading by windows changes the order of the examples, so data in memory gives
    // another model.
    train("many", "ffm", "--data long.ffm --data-in memory", 1);
    assert_true(e2e_models_differ("one", "many"));
}

static int begin(void **state)
{
    if (e2e_begin(state) != 0)
        return -1;
    struct e2e_data d = {.path = "data.svm", .rows = 600, .seed = 1};
    e2e_write_data(&d);
    d = (struct e2e_data){.path = "data.ffm", .fields = true, .rows = 600, .seed = 1};
    e2e_write_data(&d);
    d = (struct e2e_data){.path = "long.svm", .rows = 400, .seed = 2, .padding = 6000};
    e2e_write_data(&d);
    d.path = "long.ffm", d.fields = true;
    e2e_write_data(&d);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(optimizers),
        cmocka_unit_test(kernels_do_not_matter),
        cmocka_unit_test(other_options_do_not_matter),
        cmocka_unit_test(streaming),
    };
    return cmocka_run_group_tests(tests, begin, e2e_end);
}
