// Real data (see TUG_SHARED in cmake/tug.cmake): a cluster trains FM on MovieLens. In
// mode sync the AUC is bit-identical to that of one process; in other modes the model is
// about as good.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/processes.h"

#define OPTIONS "--format libsvm --epochs 1 --batch 2000 --data-in memory --json"

struct data {
    const char *train, *test;
};

static struct data movielens(void)
{
    struct data d = {files_shared("ml1m/train.libsvm.zst"),
                     files_shared("ml1m/test.libsvm.zst")};
    return d;
}

// Trains in one process, saves the model to "one" and returns its AUC.
static double of_one(const struct data *d)
{
    files_remove("one");
    tug_ends(0, "train --data %s --test %s " OPTIONS " --out one --deterministic",
             d->train, d->test);
    return e2e_number("auc");
}

// Trains with two servers and two workers, saves the model to "many" and returns its AUC.
static double of_many(const struct data *d, const char *mode)
{
    files_remove("many");
    cluster_start("run",
                  "launch --servers 2 --workers 2 -- train --data %s --test %s " OPTIONS
                  " --out many --mode %s",
                  d->train, d->test, mode);
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    cluster_none_left();
    assert_true(e2e_number("servers") == 2 && e2e_number("workers") == 2);
    return e2e_number("auc");
}

static void sync_has_the_same_bytes(void **state)
{
    (void)state;
    struct data d = movielens();
    double auc = of_one(&d), examples = e2e_number("examples");
    assert_true(of_many(&d, "sync") == auc);
    assert_true(e2e_number("examples") == examples);
    cluster_same_parts("one", "many");
}

// Compares the mean AUC of three runs with that of one process. The AUC of a run on a
// cluster has a standard deviation of 0.0003, because the relative speed of the workers
// differs from run to run.
static void as_good_as_one(const char *mode)
{
    struct data d = movielens();
    double auc = of_one(&d), examples = e2e_number("examples"), got[3];
    for (int i = 0; i < 3; i++) {
        got[i] = of_many(&d, mode);
        assert_true(e2e_number("examples") == examples);
    }
    print_message("%s: AUC %.5f %.5f %.5f, of one process %.5f\n", mode, got[0], got[1],
                  got[2], auc);
    if ((got[0] + got[1] + got[2]) / 3 < auc - 0.002)
        cluster_fail("%s: the mean AUC is more than 0.002 below %.5f", mode, auc);
}

static void async_is_as_good(void **state)
{
    (void)state;
    as_good_as_one("async");
}

static void ssp_is_as_good(void **state)
{
    (void)state;
    as_good_as_one("ssp:2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(sync_has_the_same_bytes),
        cluster_test(async_is_as_good),
        cluster_test(ssp_is_as_good),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
