// Averaging of parameters (--average) on a cluster. Averaging does not change the trained
// parameters. Validation, tests and saves use the mean. A resumed run restores the
// trained parameters and the mean.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "kit/processes.h"

#define RUN                                                                              \
    "launch --servers 2 --workers 2 -- train --data data.ffm --test data.ffm "           \
    "--format libffm --model deepfm --hidden 8 --dim 4 --batch 100 --lr 0.3 --mode "     \
    "sync "                                                                              \
    "--json "

static double trained(const char *out, const char *more)
{
    cluster_start("run", RUN "--out %s %s", out, more);
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    cluster_none_left();
    return e2e_number("logloss");
}

static const char *rows_of(const char *out, const char *table)
{
    const char *to = files_path("%s.%s", out, table);
    tug_ends(0, "table export --from %s --table %s --out %s", out, table, to);
    return to;
}

// Returns whether both files have the same text after their first line, which names the
// table.
static bool same_rows(const char *a, const char *b)
{
    size_t n;
    char *x = files_read(a, &n), *y = files_read(b, &n);
    assert_true(x != NULL && y != NULL);
    bool same = strcmp(strchr(x, '\n'), strchr(y, '\n')) == 0;
    mem_free(x);
    mem_free(y);
    return same;
}

static void same_training(const char *averaged, const char *plain)
{
    static const char *const tables[] = {"sparse", "dense"};
    for (size_t t = 0; t < 2; t++)
        assert_true(same_rows(rows_of(averaged, files_path("training-%s", tables[t])),
                              rows_of(plain, tables[t])));
}

static void mean_of_a_run(void **state)
{
    (void)state;
    double plain = trained("plain", "--epochs 4"),
           mean = trained("mean", "--epochs 4 --average 60");
    same_training("mean", "plain");
    assert_false(same_rows(rows_of("mean", "sparse"), rows_of("plain", "sparse")));
    assert_true(mean != plain && mean < 0.7);
    tug_ends(0, "eval --from mean --data data.ffm --json");
    assert_true(e2e_number("logloss") == mean);
    (void)trained("two", "--epochs 2 --average 60");
    (void)trained("two", "--epochs 4 --average 60 --resume");
    same_training("two", "plain");
}

// With --valid, the mean with the best validation loss is kept. A save holds this best
// mean, the current mean, and the trained parameters.
static void best_of_means(void **state)
{
    (void)state;
    double best = trained("best",
                          "--epochs 3 --average 40 --valid data.ffm --patience 1");
    tug_ends(0, "eval --from best --data data.ffm --json");
    assert_true(e2e_number("logloss") == best);
    (void)rows_of("best", "mean-sparse");
    (void)rows_of("best", "training-dense");
    (void)trained("best",
                  "--epochs 5 --average 40 --valid data.ffm --patience 9 --resume");
}

static void refused(void **state)
{
    (void)state;
    static const char *const with[][2] = {
        {"--table dim=2", "--table, whose rows come and go"},
        {"--score-by workers", "give --score-by driver"},
    };
    for (size_t i = 0; i < sizeof(with) / sizeof(*with); i++) {
        tug_ends(
            2,
            "launch -- train --data data.ffm --format libffm --model fm --average 9 %s",
            with[i][0]);
        e2e_says("--average cannot be used with");
        e2e_says(with[i][1]);
    }
}

static int begin(void **state)
{
    struct e2e_data d = {.path = "data.ffm", .rows = 1000, .seed = 7, .fields = true};
    if (cluster_begin(state) != 0)
        return -1;
    e2e_write_data(&d);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(mean_of_a_run),
        cluster_test(best_of_means),
        cluster_test(refused),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
