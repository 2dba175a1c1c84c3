// Servers join and leave while a cluster trains on real data (see TUG_SHARED in
// cmake/tug.cmake): in sync the rows have the bits of a run in one process; without sync each
// row has the count of updates of a run in which nothing moves.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "kit/processes.h"

#define EPOCHS "6"

static unsigned port;

static const char *words_of(const char *out, const char *more)
{
    static char words[1024];
    snprintf(words, sizeof(words),
             "train --data %s --test %s --format libsvm --epochs " EPOCHS
             " --batch 2000 --data-in memory --json --out %s %s",
             files_shared("ml1m/train.libsvm.zst"), files_shared("ml1m/test.libsvm.zst"),
             out, more);
    return words;
}

// Trains with two servers and two workers. Meanwhile a third server joins, and a signal
// takes the first one out. Returns the AUC.
static double of_moved(const char *out, const char *mode)
{
    static const char *const others[] = {"second", "third", "w0", "w1"};
    const char *words = words_of(out, mode);
    cluster_start("run", "scheduler --servers 2 --workers 2 -- %s", words);
    port = cluster_port("run");
    cluster_start("first", "server --scheduler 127.0.0.1:%u --rank 0", port);
    cluster_start("second", "server --scheduler 127.0.0.1:%u --rank 1", port);
    cluster_start("w0", "worker --scheduler 127.0.0.1:%u -- %s", port, words);
    cluster_start("w1", "worker --scheduler 127.0.0.1:%u -- %s", port, words);
    cluster_await("run", "pass 1/");
    cluster_start("third", "server --join --scheduler 127.0.0.1:%u", port);
    cluster_await("run", "because server 2 has joined");
    cluster_signal("first", SIGTERM);
    cluster_ends("first", 0, CLUSTER_PATIENCE);
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    cluster_said("run", "server 0 was asked to end: its partitions move");
    double auc = e2e_number("auc");
    for (int i = 0; i < 4; i++)
        cluster_ends(others[i], 0, CLUSTER_PATIENCE);
    cluster_none_left();
    return auc;
}

static void sync_has_the_same_bits(void **state)
{
    (void)state;
    tug_ends(0, "%s", words_of("one", "--deterministic"));
    (void)of_moved("moved", "--mode sync");
    cluster_same_parts("one", "moved");
}

// The AUC of an asynchronous run has a standard deviation of 0.0003.
static void async_counts_each_example(void **state)
{
    (void)state;
    tug_ends(0, "%s", words_of("quiet", "--threads 1"));
    double quiet = e2e_number("auc"), auc = of_moved("async", "");
    print_message("AUC %.5f, of a run in one process %.5f\n", auc, quiet);
    assert_true(fabs(auc - quiet) < 0.002);
    cluster_same_counts("quiet", "async");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(sync_has_the_same_bits),
        cluster_test(async_counts_each_example),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
