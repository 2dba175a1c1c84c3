// Servers join a running training and leave it. The result is that of a run in which no
// server moves.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "kit/joins.h"

static const char *const changed[] = {"third", "fourth", "w0", "w1", NULL};
static double quiet_auc; // AUC of the run `quiet`, in which nothing moves

static void sync_has_the_same_bits(void **state)
{
    (void)state;
    joins_start(joins_words("moved", "--mode sync --save-every 4"), "");
    joins_change_all(false, "");
    joins_end(changed);
    cluster_same_parts("truth", "moved");
}

// No update is lost or applied twice: each row counts its updates.
static void async_counts_each_example(void **state)
{
    (void)state;
    joins_start(joins_words("async", ""), "");
    joins_change_all(false, "");
    joins_end(changed);
    assert_true(fabs(e2e_number("auc") - quiet_auc) < 0.02);
    cluster_same_counts("quiet", "async");
}

static void ssp_goes_on(void **state)
{
    (void)state;
    joins_start(joins_words("ssp", "--mode ssp:2"), "");
    joins_change_all(true, "");
    joins_end(changed);
    cluster_same_counts("quiet", "ssp");
}

static void refusals(void **state)
{
    (void)state;
    joins_start(joins_words("refused", "--epochs 100000"), "");
    tug_ends(2, "drain 7 --scheduler 127.0.0.1:%u", joins_port());
    e2e_says("there is no server 7 in this cluster");
    tug_ends(2, "drain --scheduler 127.0.0.1:%u", joins_port());
    e2e_says("give the rank of one server");
    joins_drain(1);
    tug_ends(2, "drain 0 --scheduler 127.0.0.1:%u", joins_port());
    e2e_says("no other server can take its partitions");
    cluster_start("late", "server --scheduler 127.0.0.1:%u", joins_port());
    cluster_ends("late", 4, CLUSTER_PATIENCE);
    cluster_said("late", "--join");
    tug_ends(0, "rebalance --scheduler 127.0.0.1:%u", joins_port());
    assert_non_null(strstr(e2e_out, "nothing moves"));
    tug_ends(0, "stop --scheduler 127.0.0.1:%u", joins_port());
    cluster_wait("run", CLUSTER_PATIENCE);
    joins_wait((const char *const[]){"first", "second", "w0", "w1", NULL});
}

static int begin(void **state)
{
    if (joins_begin(state) != 0)
        return -1;
    tug_ends(0, "%s", joins_words("truth", "--deterministic"));
    tug_ends(0, "%s", joins_words("quiet", "--threads 1"));
    quiet_auc = e2e_number("auc");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(sync_has_the_same_bits),
        cluster_test(async_counts_each_example),
        cluster_test(ssp_goes_on),
        cluster_test(refusals),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
