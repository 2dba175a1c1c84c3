// Servers join and leave while a cluster trains on real data (see TUG_SHARED in
// cmake/tug.cmake): in sync the rows have the bits of a run in one process; without sync each
// row has the count of updates of a run in which nothing moves.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "kit/processes.h"

// EPOCHS: number of passes of a factorization machine; MANY_EPOCHS: of a linear model,
// whose passes are shorter.
#define EPOCHS "6"
#define MANY_EPOCHS "40"

static unsigned port;

static const char *words_of(const char *out, const char *more)
{
    static char words[1024];
    snprintf(words, sizeof(words),
             "train --data %s --test %s --format libsvm"
             " --batch 2000 --data-in memory --json --out %s %s",
             files_shared("ml1m/train.libsvm.zst"), files_shared("ml1m/test.libsvm.zst"),
             out, more);
    return words;
}

// Trains with two servers and two workers. Meanwhile a third server joins, and the first one
// leaves after a signal. Returns the AUC.
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
    tug_ends(0, "%s", words_of("one", "--epochs " EPOCHS " --deterministic"));
    (void)of_moved("moved", "--epochs " EPOCHS " --mode sync");
    cluster_same_parts("one", "moved");
}

// Trains twice: in one process, and in a cluster whose servers come and go. The two AUCs
// may differ by at most `most`.
static void compare(const char *quiet, const char *quiet_words, const char *moved,
                    const char *words, double most)
{
    tug_ends(0, "%s", words_of(quiet, quiet_words));
    double quiet_auc = e2e_number("auc"), auc = of_moved(moved, words);
    print_message("AUC %.5f, of a run in one process %.5f\n", auc, quiet_auc);
    assert_true(fabs(auc - quiet_auc) < most);
    cluster_same_counts(quiet, moved);
}

// In runs in which nothing moves, the AUC differs from that of one process by 0.00003 at most.
static void async_counts_each_example(void **state)
{
    (void)state;
#define LINEAR "--model lr --epochs " MANY_EPOCHS
    compare("quiet_lr", LINEAR " --threads 1", "async_lr", LINEAR, 0.001);
}

// The AUC of runs in which nothing moves has a standard deviation of 0.0005, because two
// workers update the latent vectors in another order each time.
static void async_counts_with_latent_vectors(void **state)
{
    (void)state;
    compare("quiet_fm", "--epochs " EPOCHS " --threads 1", "async_fm", "--epochs " EPOCHS,
            0.003);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(sync_has_the_same_bits),
        cluster_test(async_counts_each_example),
        cluster_test(async_counts_with_latent_vectors),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
