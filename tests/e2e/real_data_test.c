// Real data (see TUG_SHARED in cmake/tug.cmake): models reach the quality that is known
// to be possible.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/command.h"

static const char *const models[] = {"lr", "fm", "ffm"};

static const char *data(const char *name)
{
    return files_shared(name);
}

static void reaches(double floor)
{
    double auc = e2e_number("auc");
    if (!(auc >= floor))
        fail_msg("AUC %.5f is below %.5f", auc, floor);
}

// Census income: a logistic regression has an AUC of about 0.90.
static void a9a(void **state)
{
    (void)state;
    const char *train = data("a9a/a9a"), *test = data("a9a/a9a.t");
    tug_ends(0, "train --data %s --test %s --format libsvm --model lr --json", train,
             test);
    assert_true(e2e_number("examples") == 32561);
    reaches(0.90);
    tug_ends(
        0,
        "train --data %s --test %s --format libsvm --model lr --json --deterministic "
        "--batch 64 --epochs 3",
        train, test);
    reaches(0.895);
}

// The two classes of mushrooms can be separated perfectly.
static void agaricus(void **state)
{
    (void)state;
    const char *train = data("agaricus/agaricus.txt.train");
    const char *test = data("agaricus/agaricus.txt.test");
    tug_ends(0, "train --data %s --test %s --format libsvm --model lr --json", train,
             test);
    reaches(0.99999);
}

// The data is too small to compare models. So each model must only train, and its saved
// model must give the same metrics.
static void slice(const char *options, const char *train, const char *test, double floor)
{
    for (size_t i = 0; i < 3; i++) {
        files_remove("out");
        tug_ends(0, "train --data %s --test %s %s --model %s --epochs 2 --out out --json",
                 train, test, options, models[i]);
        reaches(floor);
        double auc = e2e_number("auc");
        tug_ends(0, "eval --from out --data %s --json", test);
        assert_true(e2e_number("auc") == auc);
        double examples = e2e_number("examples"), lines = 0;
        tug_ends(0, "predict --from out --data %s", test);
        for (const char *p = e2e_out; *p != 0; p++)
            lines += *p == '\n';
        assert_true(lines == examples);
    }
}

static void criteo(void **state)
{
    (void)state;
    slice("--format criteo", data("criteo/train.tsv"), data("criteo/test.tsv"), 0.6);
}

static void avazu(void **state)
{
    (void)state;
    const char *path = data("avazu/avazu_10k.csv");
    slice("--format csv --label click --drop id", path, path, 0.7);
}

// Two passes are too few for the best AUC, so the floors are below it.
static void ml1m(void **state)
{
    (void)state;
    const char *train = data("ml1m/train.libsvm.zst"),
               *test = data("ml1m/test.libsvm.zst");
    static const double floors[] = {0.785, 0.795, 0.798};
    for (size_t i = 0; i < 3; i++) {
        bool ffm = i == 2;
        tug_ends(0, "train --data %s --test %s --format %s --model %s --epochs 2 --json",
                 ffm ? data("ml1m/train.ffm.zst") : train,
                 ffm ? data("ml1m/test.ffm.zst") : test, ffm ? "libffm" : "libsvm",
                 models[i]);
        assert_true(e2e_number("examples") == 438885);
        reaches(floors[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a9a),   cmocka_unit_test(agaricus), cmocka_unit_test(criteo),
        cmocka_unit_test(avazu), cmocka_unit_test(ml1m),
    };
    return cmocka_run_group_tests(tests, e2e_begin, e2e_end);
}
