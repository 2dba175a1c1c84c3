// A scheduler with its state in a real etcd, and a standby: the leader is killed, stopped
// and woken, etcd is killed; members find the scheduler that leads, and the result is
// that of a run that was not disturbed.
//
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <string.h>

#include "base/random.h"
#include "kit/etcd.h"
#include "kit/processes.h"
#include "tug/table.h"

enum { ROWS = 9000, EPOCHS = 40, KILLS = 4, MOST_MS = 1500, LEASE_MS = 3000 };
static const double takeover_seconds = 5;

static struct kit_etcd etcd;
static unsigned ports[2]; // ports of the two schedulers
static int leader;        // index of the scheduler that leads
static int dead_seconds;  // --dead-timeout

static const char *name_of(int which)
{
    return which == 0 ? "first" : "second";
}

static void start_scheduler(int which, const char *train)
{
    cluster_start(name_of(which),
                  "scheduler --scheduler 127.0.0.1:%u --servers 2 --workers %d "
                  "--dead-timeout %d --state etcd://127.0.0.1:%u%s%s",
                  ports[which], train[0] != '\0' ? 2 : 0, dead_seconds, etcd.port,
                  train[0] != '\0' ? " -- " : "", train);
}

static const char *both(void)
{
    static char list[64];
    snprintf(list, sizeof(list), "127.0.0.1:%u,127.0.0.1:%u", ports[0], ports[1]);
    return list;
}

// Starts a scheduler, and when it leads, a standby.
static void start_both(const char *train)
{
    leader = 0;
    for (int i = 0; i < 2; i++)
        ports[i] = cluster_free_port() + (unsigned)i; // two different ports
    start_scheduler(0, train);
    cluster_await(name_of(0), "waiting for 2 servers");
    start_scheduler(1, train);
    cluster_await(name_of(1), "standby: 127.0.0.1");
}

static void start_servers(void)
{
    for (int i = 0; i < 2; i++)
        cluster_start(files_path("server%d", i), "server --scheduler %s", both());
}

static int begin_test(void **state)
{
    dead_seconds = 30;
    return cluster_setup_etcd(&etcd, state);
}

static int end_test(void **state)
{
    return cluster_teardown_etcd(&etcd, state);
}

// ---------------------------------------------------------------- a training

static const char *words_of(const char *out, const char *more)
{
    static char words[FILES_PATH];
    files_remove(out);
    snprintf(words, sizeof(words),
             "train --data data.svm --format libsvm --epochs %d --json --out %s --batch "
             "64 --dim 2 --data-in memory %s",
             EPOCHS, out, more);
    return words;
}

// The leader is killed, the standby continues, and the killed scheduler is started again
// as the next standby. etcd, too, is killed and started again, one time.
static void test_leaders_are_killed(void **state)
{
    (void)state;
    kit_etcd_or_skip();
    const char *train = words_of("many", "--mode sync");
    start_both(train);
    start_servers();
    for (int i = 0; i < 2; i++)
        cluster_start(files_path("worker%d", i), "worker --scheduler %s -- %s", both(),
                      train);
    for (int i = 0; i < KILLS; i++) {
        int next = 1 - leader;
        poll(NULL, 0, (int)random_below(1, 1, (uint64_t)i, MOST_MS));
        if (i == 1) {
            kit_etcd_kill(&etcd);
            poll(NULL, 0, LEASE_MS / 2);
            kit_etcd_start(&etcd);
        }
        cluster_signal(name_of(leader), SIGKILL);
        if (cluster_wait(name_of(leader), CLUSTER_PATIENCE) != 128 + SIGKILL)
            cluster_fail("the run was over after %d kills", i);
        cluster_await(name_of(next), "the scheduler was started again");
        start_scheduler(leader, train);
        cluster_await(name_of(leader), "standby: 127.0.0.1");
        leader = next;
    }
    cluster_ends(name_of(leader), 0, CLUSTER_PATIENCE);
    assert_true(e2e_number("examples") == ROWS && e2e_number("epochs") == EPOCHS);
    cluster_ends(name_of(1 - leader), 0, CLUSTER_PATIENCE); // the standby has ended, too
    e2e_says("the cluster has ended");
    for (int i = 0; i < 2; i++) {
        cluster_ends(files_path("server%d", i), 0, CLUSTER_PATIENCE);
        cluster_ends(files_path("worker%d", i), 0, CLUSTER_PATIENCE);
    }
    cluster_same_parts("truth", "many");
}

// ---------------------------------------------------------------- etcd is away

static void start_run(const char *train)
{
    start_both(train);
    start_servers();
    for (int i = 0; i < 2; i++)
        cluster_start(files_path("worker%d", i), "worker --scheduler %s -- %s", both(),
                      train);
    cluster_await(name_of(0), "all have joined");
}

static void check_run_ends(int which, int servers)
{
    cluster_ends(name_of(which), 0, CLUSTER_PATIENCE);
    assert_true(e2e_number("examples") == ROWS && e2e_number("epochs") == EPOCHS);
    for (int i = 0; i < servers; i++)
        cluster_ends(files_path("server%d", i), 0, CLUSTER_PATIENCE);
    for (int i = 0; i < 2; i++)
        cluster_ends(files_path("worker%d", i), 0, CLUSTER_PATIENCE);
}

// etcd is away for longer than --dead-timeout, so the scheduler cannot answer heartbeats. No
// node may be declared dead for this reason.
static void test_long_silence_of_etcd(void **state)
{
    (void)state;
    kit_etcd_or_skip();
    dead_seconds = 3;
    const char *train = words_of("silent", "--mode sync");
    start_run(train);
    kit_etcd_kill(&etcd);
    poll(NULL, 0, LEASE_MS + 2 * 3000);
    kit_etcd_start(&etcd);
    check_run_ends(0, 2);
    cluster_ends(name_of(1), 0, CLUSTER_PATIENCE);
}

// A leader that has lost its lease ends at once and without another save, although its
// driver waits for answers. The next driver shares the lock on --out, so it does not wait
// for this driver to end.
static void test_leader_with_driver_is_woken(void **state)
{
    (void)state;
    kit_etcd_or_skip();
    const char *train = words_of("woken", "--mode sync");
    start_run(train);
    cluster_signal(name_of(0), SIGSTOP);
    cluster_await(name_of(1), "the scheduler was started again");
    double begin = cluster_now();
    cluster_signal(name_of(0), SIGCONT);
    cluster_ends(name_of(0), 4, CLUSTER_PATIENCE);
    // The old leader has learnt from etcd or from a member that another scheduler leads.
    e2e_says("has taken over");
    if (!SANITIZED && cluster_now() - begin > takeover_seconds)
        cluster_fail("the old leader ended after %.1f s", cluster_now() - begin);
    check_run_ends(1, 2);
}

// A server is asked to end while no scheduler answers: it says for what it waits, longer
// than without --state, and its partitions move when the standby has taken over.
static void test_server_is_asked_while_none_leads(void **state)
{
    (void)state;
    kit_etcd_or_skip();
    const char *train = words_of("drained", "--mode sync");
    start_run(train);
    cluster_await(name_of(0), "pass 2/"); // before, a server that is asked may leave
    for (int i = 0; i < 2; i++)
        cluster_signal(name_of(i), SIGSTOP);
    cluster_signal("server1", SIGTERM);
    cluster_await("server1", "the partitions of this server must first move to other "
                             "servers");
    cluster_signal(name_of(1), SIGCONT);
    cluster_await(name_of(1),
                  "was asked to end: its partitions move to the other servers");
    cluster_ends("server1", 0, CLUSTER_PATIENCE);
    cluster_signal(name_of(0), SIGCONT);
    cluster_ends(name_of(0), 4, CLUSTER_PATIENCE);
    check_run_ends(1, 1);
    cluster_same_parts("truth", "drained");
}

// ---------------------------------------------------------------- who may answer

static struct tug_client *join(void)
{
    struct tug_client *c;
    struct tug_client_options o = {
        .scheduler = both(), .guest = true, .wait_seconds = CLUSTER_PATIENCE};
    if (tug_client_open(&c, &o) != 0)
        cluster_fail("%s", tug_last_error());
    return c;
}

static void stop_all(int which)
{
    tug_ends(0, "stop --scheduler %s", both());
    (void)cluster_wait(name_of(which), CLUSTER_PATIENCE);
    for (int i = 0; i < 2; i++)
        (void)cluster_wait(files_path("server%d", i), CLUSTER_PATIENCE);
}

// A join is answered within seconds after the death of the leader.
static void test_takeover_is_quick(void **state)
{
    (void)state;
    kit_etcd_or_skip();
    start_both("");
    start_servers();
    cluster_await(name_of(0), "all have joined");
    assert_int_equal(tug_client_close(join()), 0);
    double begin = cluster_now();
    cluster_signal(name_of(0), SIGKILL);
    struct tug_client *c = join();
    double took = cluster_now() - begin;
    print_message("from the kill to the answer to a join: %.2f s\n", took);
    if (!SANITIZED && took >= takeover_seconds)
        cluster_fail("a join was answered after %.2f s", took);
    assert_int_equal(tug_client_close(c), 0);
    (void)cluster_wait(name_of(0), CLUSTER_PATIENCE);
    stop_all(1);
}

// A leader that was stopped for longer than its lease answers nothing when it continues,
// not even requests that arrived while it was stopped.
static void test_woken_leader_is_silent(void **state)
{
    (void)state;
    kit_etcd_or_skip();
    start_both("");
    start_servers();
    cluster_await(name_of(0), "all have joined");
    cluster_signal(name_of(0), SIGSTOP);
    cluster_start("asks", "status --scheduler 127.0.0.1:%u --connect-timeout 20",
                  ports[0]);
    cluster_await(name_of(1), "the scheduler was started again");
    cluster_signal(name_of(0), SIGCONT);
    cluster_ends(name_of(0), 4, CLUSTER_PATIENCE);
    e2e_says("has lost its lease in etcd");
    cluster_ends("asks", 4, CLUSTER_PATIENCE);
    assert_string_equal(e2e_out, "");
    stop_all(1);
}

// ---------------------------------------------------------------- TLS

static void test_certificates(void **state)
{
    (void)state;
    kit_etcd_or_skip();
    kit_etcd_kill(&etcd);
    files_remove(files_in("etcd"));
    tug_ends(0, "cert ca");
    tug_ends(0, "cert node --name etcd --host 127.0.0.1");
    tug_ends(0, "cert node --name scheduler");
    etcd.ca = "ca.pem";
    etcd.cert = "etcd.pem";
    etcd.key = "etcd.key";
    kit_etcd_start(&etcd);
    ports[0] = cluster_free_port();
    setenv("ETCDCTL_CACERT", "ca.pem", 1);
    tug_ends(4,
             "scheduler --port %u --servers 2 --workers 0 --connect-timeout 1 "
             "--state etcd://127.0.0.1:%u",
             ports[0], etcd.port);
    e2e_says("does not answer");
    setenv("ETCDCTL_CERT", "scheduler.pem", 1);
    setenv("ETCDCTL_KEY", "scheduler.key", 1);
    start_scheduler(0, "");
    cluster_await(name_of(0), "waiting for 2 servers");
    tug_ends(0, "stop --scheduler 127.0.0.1:%u", ports[0]);
    (void)cluster_wait(name_of(0), CLUSTER_PATIENCE);
    unsetenv("ETCDCTL_CACERT");
    unsetenv("ETCDCTL_CERT");
    unsetenv("ETCDCTL_KEY");
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    tug_ends(0, "synth --rows %d --format libsvm --out data.svm", ROWS);
    tug_ends(0, "%s", words_of("truth", "--deterministic"));
    return 0;
}

#define etcd_test(f) cmocka_unit_test_setup_teardown(f, begin_test, end_test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        etcd_test(test_leaders_are_killed),
        etcd_test(test_long_silence_of_etcd),
        etcd_test(test_leader_with_driver_is_woken),
        etcd_test(test_takeover_is_quick),
        etcd_test(test_woken_leader_is_silent),
        etcd_test(test_certificates),
        etcd_test(test_server_is_asked_while_none_leads),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
