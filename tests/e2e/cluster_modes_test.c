// All modes of training on a cluster learn about equally well: the AUC of each on test
// data of a known model is compared with the AUC of mode sync.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "kit/processes.h"

enum { ROWS = 60000, EPOCHS = 2 };

static double auc_of(const char *words)
{
    cluster_start(
        "run",
        "launch --servers 2 --workers 2 -- train --data day.tsv --test next.tsv "
        "--format criteo --epochs %d --threads 2 --json %s",
        EPOCHS, words);
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    assert_true(e2e_number("examples") == ROWS);
    assert_true(e2e_number("epochs") == EPOCHS);
    return e2e_number("auc");
}

// Checks that the AUC of a run with these options is at most `below` lower than that of
// sync.
static void check(double sync, const char *words, double below)
{
    double auc = auc_of(words);
    if (!(auc > sync - below) || !(auc < sync + 0.03))
        cluster_fail("%s: AUC %.4f, that of sync %.4f", words, auc, sync);
}

static void all_learn(void **state)
{
    (void)state;
    double sync = auc_of("--model fm --mode sync");
    assert_true(sync > 0.68);
    // With small batches, the gradients that async applies are recent. With batches of
    // 1000, the AUC of async was up to .01 below sync.
    check(auc_of("--model fm --mode sync --batch 64"),
          "--model fm --mode async --batch 64", 0.015);
    check(sync, "--model fm --mode half-async", 0.03);
    check(sync, "--model fm --mode geo:1", 0.02);
    check(sync, "--model fm --mode geo:8", 0.02);
    // 1000 steps are more than the batches of one piece of the data.
    check(sync, "--model fm --mode geo:1000", 0.02);
    check(sync, "--model fm --mode elastic:8", 0.02);
    check(sync, "--model fm --mode elastic:8:0.5", 0.03);
    check(auc_of("--model lr --mode sync"), "--model lr --mode geo:8", 0.02);
}

// The workers train the weights of layers; the servers train the weights of rows.
static void layers_learn(void **state)
{
    (void)state;
    const char *small = "--model mlp --hidden 8 --dim 4 --dense-optimizer adagrad "
                        "--dense-lr 0.05";
    double sync = auc_of(files_path("%s --mode sync", small));
    assert_true(sync > 0.65);
    check(sync, files_path("%s --mode geo:4 --batch 256", small), 0.03);
    check(sync, files_path("%s --mode half-async", small), 0.04);
    // adam's moments stay with the worker that computed them
    small = "--model mlp --hidden 8 --dim 4 --dense-lr 0.003";
    sync = auc_of(files_path("%s --mode sync", small));
    assert_true(sync > 0.65);
    check(sync, files_path("%s --mode geo:4 --batch 256", small), 0.03);
    check(sync, files_path("%s --mode elastic:4 --batch 256", small), 0.03);
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    tug_ends(0, "synth --rows %d --out day.tsv --test-rows 10000 --test-out next.tsv",
             ROWS);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(all_learn),
        cluster_test(layers_learn),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
