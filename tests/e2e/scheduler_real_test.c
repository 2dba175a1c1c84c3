// The scheduler of one run on real data (see TUG_SHARED in cmake/tug.cmake) is killed
// many times at random moments, with its state in a file and in a real etcd. In sync the
// model has the bits of a run that was not disturbed. In async each row has the count of
// updates of such a run, and the AUC is about the same.
//
// The rate of learning is low, so that the AUC of asynchronous runs differs by less than 0.0001.
// TUG_KILLS sets another number of kills in each run.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "kit/etcd.h"
#include "kit/processes.h"

#define EPOCHS "20"

// There are fewer kills with etcd, because each of them takes the time of a lease, 3 s.
enum { KILLS = 20, KILLS_ETCD = SANITIZED ? 4 : 10, FILE_MS = 400, ETCD_MS = 1000 };

static struct kit_etcd etcd;
static unsigned ports[2]; // ports of the scheduler and, with etcd, of the standby
static bool in_etcd;
static double quiet_auc; // AUC of asynchronous runs in which nothing was killed

static const char *words_of(const char *out, const char *mode)
{
    static char words[FILES_PATH];
    files_remove(out);
    snprintf(words, sizeof(words),
             "train --data %s --test %s --format libsvm --epochs " EPOCHS
             " --dim 2 --lr 0.02 --batch 500 --data-in memory --json --out %s %s",
             files_shared("ml1m/train.libsvm.zst"), files_shared("ml1m/test.libsvm.zst"),
             out, mode);
    return words;
}

static const char *name_of(int which)
{
    return which == 0 ? "first" : "second";
}

static void start_scheduler(int which, const char *words)
{
    char state[64] = "state";
    if (in_etcd)
        snprintf(state, sizeof(state), "etcd://127.0.0.1:%u", etcd.port);
    cluster_start(name_of(which),
                  "scheduler --scheduler 127.0.0.1:%u --servers 2 --workers 2 "
                  "--dead-timeout 30 --state %s -- %s",
                  ports[which], state, words);
}

static void start_nodes(const char *words)
{
    char list[64];
    snprintf(list, sizeof(list), in_etcd ? "127.0.0.1:%u,127.0.0.1:%u" : "127.0.0.1:%u",
             ports[0], ports[1]);
    for (int i = 0; i < 2; i++) {
        cluster_start(files_path("server%d", i), "server --scheduler %s", list);
        cluster_start(files_path("worker%d", i), "worker --scheduler %s -- %s", list,
                      words);
    }
}

static void kill_scheduler(int which, int kills)
{
    cluster_signal(name_of(which), SIGKILL);
    if (cluster_wait(name_of(which), CLUSTER_PATIENCE) != 128 + SIGKILL)
        cluster_fail("the run was over after %d kills", kills);
}

static int kills_wanted(void)
{
    const char *text = getenv("TUG_KILLS");
    int kills = in_etcd ? KILLS_ETCD : KILLS;
    if (text != NULL && sscanf(text, "%d", &kills) != 1)
        cluster_fail("TUG_KILLS is not a number: %s", text);
    return kills;
}

// The killed scheduler is started again at once, as the leader or as the next standby.
// Returns the number of the scheduler that leads at the end.
static int kill_again_and_again(const char *words, uint64_t seed)
{
    int leader = 0, most = kills_wanted();
    for (int i = 0; i < most; i++) {
        poll(NULL, 0,
             (int)random_below(seed, 1, (uint64_t)i, in_etcd ? ETCD_MS : FILE_MS));
        kill_scheduler(leader, i);
        if (in_etcd)
            cluster_await(name_of(1 - leader), "the scheduler was started again");
        start_scheduler(leader, words);
        if (in_etcd) {
            cluster_await(name_of(leader), "standby: 127.0.0.1");
            leader = 1 - leader;
        }
    }
    print_message("the scheduler was killed %d times\n", most);
    return leader;
}

static double quiet_run(void)
{
    cluster_start("quiet", "launch --servers 2 --workers 2 -- %s",
                  words_of("quiet", "--mode async"));
    cluster_ends("quiet", 0, 2 * CLUSTER_PATIENCE);
    double auc = e2e_number("auc");
    print_message("a run left in peace: AUC %.5f\n", auc);
    return auc;
}

// Trains the runs without kills, once for all tests. The runs with kills are compared
// with them. Each test calls this function: a test can be skipped if the data is missing,
// but the setup of a group cannot.
static void train_quietly(void)
{
    static bool done;
    if (done)
        return;
    tug_ends(0, "%s", words_of("truth", "--deterministic"));
    for (int i = 0; i < 2; i++)
        quiet_auc += quiet_run() / 2;
    done = true;
}

// Trains while schedulers are killed. Returns the AUC.
static double train_killed(const char *mode, uint64_t seed)
{
    train_quietly();
    const char *words = words_of("many", mode);
    files_remove("state");
    for (int i = 0; i < 2; i++)
        ports[i] = cluster_free_port() + (unsigned)i; // two different ports
    start_scheduler(0, words);
    if (in_etcd) {
        cluster_await(name_of(0), "waiting for 2 servers");
        start_scheduler(1, words);
        cluster_await(name_of(1), "standby: 127.0.0.1");
    }
    start_nodes(words);
    int leader = kill_again_and_again(words, seed);
    cluster_ends(name_of(leader), 0, 2 * CLUSTER_PATIENCE);
    double auc = e2e_number("auc");
    if (in_etcd)
        cluster_ends(name_of(1 - leader), 0, CLUSTER_PATIENCE); // the standby
    for (int i = 0; i < 2; i++) {
        cluster_ends(files_path("server%d", i), 0, CLUSTER_PATIENCE);
        cluster_ends(files_path("worker%d", i), 0, CLUSTER_PATIENCE);
    }
    if (!in_etcd) // with etcd, the process of etcd is still running
        cluster_none_left();
    return auc;
}

static void in_sync(uint64_t seed)
{
    (void)train_killed("--mode sync", seed);
    cluster_same_parts("truth", "many");
    cluster_same_counts("truth", "many");
}

static void in_async(uint64_t seed)
{
    double auc = train_killed("--mode async", seed);
    print_message("AUC %.5f, of runs left in peace %.5f\n", auc, quiet_auc);
    if (fabs(auc - quiet_auc) >= 0.001)
        cluster_fail("the AUC is %.5f, but %.5f without kills", auc, quiet_auc);
    cluster_same_counts("truth", "many");
}

static void file_in_sync(void **state)
{
    (void)state;
    in_sync(1);
}

static void file_in_async(void **state)
{
    (void)state;
    in_async(2);
}

static void etcd_in_sync(void **state)
{
    (void)state;
    kit_etcd_or_skip();
    in_sync(3);
}

static void etcd_in_async(void **state)
{
    (void)state;
    kit_etcd_or_skip();
    in_async(4);
}

static int begin_etcd(void **state)
{
    in_etcd = true;
    return cluster_setup_etcd(&etcd, state);
}

static int end_etcd(void **state)
{
    in_etcd = false;
    return cluster_teardown_etcd(&etcd, state);
}

#define etcd_test(f) cmocka_unit_test_setup_teardown(f, begin_etcd, end_etcd)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(file_in_sync),
        cluster_test(file_in_async),
        etcd_test(etcd_in_sync),
        etcd_test(etcd_in_async),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
