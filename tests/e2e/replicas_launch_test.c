// tug launch --replicas: a training goes on when a server is killed whose partitions have
// replicas; with --restart role the server comes back by joining again. The run ends, with
// the names of the partitions, when no replica of them is left.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/replicated.h"
#include "kit/servers.h"

enum { ROWS = 3000 };

static void launch(unsigned servers, const char *more, unsigned epochs)
{
    cluster_start("run",
                  "launch --servers %u --workers 2 --replicas 2 %s -- train --data "
                  "data.svm --format libsvm --batch 64 --data-in memory --epochs %u",
                  servers, more, epochs);
    cluster_await("run", "pass 1/");
}

// Waits until the partitions of a server that is dead have all replicas again.
static void await_copies(const char *node, pid_t pid)
{
    char host[64] = "";
    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    cluster_await("run", files_path("MB, because %s (%s:%d) is gone", node, host, pid));
}

static void the_run_goes_on(void **state)
{
    (void)state;
    launch(3, "", 100);
    pid_t pid = cluster_kill_node("run", "server 1");
    cluster_await("run",
                  "was killed by signal 9 (Killed); the run goes on if other servers "
                  "have its partitions");
    await_copies("server 1", pid);
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    cluster_said("run", "is gone: it gave no sign of life");
    cluster_none_left();
}

// A server is killed in a training.
static void train_and_kill(const char *words, const char *mode, const char *out)
{
    cluster_start("run",
                  "launch --servers 3 --workers 2 --replicas 2 -- %s --mode %s --out %s",
                  words, mode, out);
    cluster_await("run", "pass 3/");
    pid_t pid = cluster_kill_node("run", "server 1");
    cluster_await("run", files_path(":%d) is gone", (int)pid));
    cluster_ends("run", 0, CLUSTER_PATIENCE);
    cluster_none_left();
}

// In mode sync the model has the bits of a run in one process, and so have its saves and
// the copy of its best pass.
static void the_bits_stay(void **state)
{
    static const char words[] = "train --data data.svm --format libsvm --batch 64 "
                                "--data-in memory --epochs 40 --save-every 5 "
                                "--valid data.svm";
    (void)state;
    tug_ends(0, "%s --deterministic --out truth", words);
    train_and_kill(words, "sync", "killed");
    cluster_same_parts("truth", "killed");
}

static void the_bits_stay_on_disk(void **state)
{
    static const char words[] = "train --data data.svm --format libsvm --batch 64 "
                                "--data-in memory --epochs 12 --save-every 5 --table "
                                "accessor=ctr;embedx-threshold=0";
    (void)state;
    tables_need_disk();
    tug_ends(0, "%s --deterministic --out hot", words);
    train_and_kill(files_path("%s;hot-rows=256;cold=rows", words), "sync", "cold");
    cluster_same_tables("hot", "cold");
}

// The servers update the mean all the time. So the mean depends on timing, but the
// trained parameters have the bits of a run in one process.
static void means_go_on(void **state)
{
    static const char *const tables[] = {"sparse", "dense"};
    static const char words[] = "train --data data.svm --format libsvm --batch 64 "
                                "--data-in memory --epochs 12 --average 2";
    (void)state;
    tug_ends(0, "%s --deterministic --out plain", words);
    train_and_kill(words, "sync", "mean");
    for (size_t i = 0; i < 2; i++)
        assert_true(files_same(
            files_path("%s/training-%s-0.rows", e2e_newest("plain"), tables[i]),
            files_path("%s/training-%s-0.rows", e2e_newest("mean"), tables[i])));
    tug_ends(0, "eval --from mean --data data.svm --json");
    assert_true(e2e_number("logloss") < 0.5);
}

// In the other modes each row was updated as often as in a run in one process.
static void the_counts_stay(void **state)
{
    static const char words[] = "train --data data.svm --format libsvm --batch 64 "
                                "--data-in memory --epochs 40";
    (void)state;
    tug_ends(0, "%s --threads 1 --out quiet", words);
    train_and_kill(words, "ssp:2", "ssp");
    cluster_same_counts("quiet", "ssp");
    train_and_kill(words, "async", "async");
    cluster_same_counts("quiet", "async");
}

// Each server is killed once, so at the end no server of the beginning is left. A server
// that comes back gets the rank of the dead one only if that one's death is known already.
static void servers_come_back(void **state)
{
    (void)state;
    launch(2, "--restart role", 4000);
    tables_port = cluster_port("run");
    for (unsigned i = 0; i < 2; i++) {
        pid_t pid = cluster_kill_node("run", files_path("server %u", i));
        cluster_await("run", files_path("server %u (process %d) was killed by signal 9 "
                                        "(Killed); it is started again in 0.25 s "
                                        "(restart 1 of at most 10)",
                                        i, (int)pid));
        cluster_await("run", files_path(":%d) is gone", (int)pid));
        replicated_settle();
    }
    cluster_signal("run", SIGTERM);
    cluster_ends("run", 130, CLUSTER_PATIENCE);
    cluster_none_left();
}

static void no_replica_is_left(void **state)
{
    (void)state;
    launch(2, "", 100000);
    (void)cluster_kill_node("run", "server 0");
    (void)cluster_kill_node("run", "server 1");
    cluster_ends("run", 4, CLUSTER_PATIENCE);
    cluster_said("run", "was lost with partitions");
    cluster_none_left();
}

// The other servers end with the run, with errors that do not say that the run goes on.
static void others_end_with_the_run(void **state)
{
    (void)state;
    cluster_start("run", "launch --servers 3 --workers 2 --replicas 2 -- train --data "
                         "data.svm --format libsvm --batch 64 --data-in memory --epochs "
                         "100000 --table replicas=1");
    cluster_await("run", "pass 1/");
    (void)cluster_kill_node("run", "server 1");
    cluster_ends("run", 4, CLUSTER_PATIENCE);
    cluster_said("run", "of table 'sparse', which have no other replica");
    assert_null(strstr(e2e_err, "if there is one; the run goes on"));
    cluster_none_left();
}

static int begin(void **state)
{
    int rc = cluster_begin(state);
    e2e_write_data(&(struct e2e_data){.path = "data.svm", .rows = ROWS, .seed = 1});
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(the_run_goes_on),       cluster_test(the_bits_stay),
        cluster_test(the_bits_stay_on_disk), cluster_test(the_counts_stay),
        cluster_test(means_go_on),           cluster_test(servers_come_back),
        cluster_test(no_replica_is_left),    cluster_test(others_end_with_the_run),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
