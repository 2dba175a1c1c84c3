// Programs that use libtug beside `tug scheduler` and `tug server`: they find their
// cluster by all forms of TUG_SCHEDULER, and their errors say what is wrong with it.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/processes.h"

#include <pthread.h>

#include "tug/communicator.h"
#include "tug/metric.h"
#include "tug/table.h"

enum { TABLE = 3, WIDTH = 4 };

static const char of_width_4[] = "name = w; dim = 4; rule = sum";

static double pushes; // pushes since the cluster began

static int open_client(struct tug_client **ret, bool guest, double seconds)
{
    struct tug_client_options o = {.guest = guest, .wait_seconds = seconds};
    return tug_client_open(ret, &o);
}

static void check(int rc)
{
    if (rc != 0)
        cluster_fail("TUG_SCHEDULER=%s: %s", getenv("TUG_SCHEDULER"), tug_last_error());
}

static void check_uses(bool guest)
{
    struct tug_client *c;
    uint64_t key = 1, ts;
    float ones[WIDTH] = {1, 1, 1, 1}, row[WIDTH] = {0};
    check(open_client(&c, guest, CLUSTER_PATIENCE));
    check(tug_table_create(c, TABLE, of_width_4));
    check(tug_push(c, TABLE, &key, 1, ones, NULL, NULL, &ts));
    check(tug_wait(c, ts, 0));
    check(tug_pull(c, TABLE, &key, 1, row, NULL, NULL, &ts));
    check(tug_wait(c, ts, 0));
    check(tug_client_close(c));
    assert_true(row[0] == ++pushes && row[WIDTH - 1] == pushes);
}

static void check_at(const char *address)
{
    setenv("TUG_SCHEDULER", address, 1);
    check_uses(true);
}

static void forms_of_an_address(void **state)
{
    (void)state;
    pushes = 0;
    cluster_start("scheduler",
                  "scheduler --servers 1 --workers 0 --cluster lib --transport unix");
    unsigned port = cluster_port("scheduler");
    cluster_start("server", "server --cluster lib --scheduler 127.0.0.1:%u", port);
    cluster_await("scheduler", "all have joined");
    char local[FILES_PATH + 64], tcp[64];
    snprintf(local, sizeof(local), "unix://%s/tug/lib@%u.sock", files_dir, port);
    snprintf(tcp, sizeof(tcp), "tcp://127.0.0.1:%u", port);
    setenv("TUG_CLUSTER", "lib", 1);
    check_at(tcp);
    check_at(tcp + strlen("tcp://"));
    check_at(local);
    check_at(files_path("%s,%s", local, tcp));
    check_at(files_path("unix://%s/nosuch.sock,%s", files_dir, tcp));
    check_uses(false); // one more worker has joined
    // TUG_SCHEDULER is used, not the variables of ps-lite
    setenv("DMLC_PS_ROOT_URI", "192.0.2.1", 1);
    setenv("DMLC_PS_ROOT_PORT", "1", 1);
    setenv("DMLC_ROLE", "worker", 1);
    setenv("DMLC_NUM_SERVER", "1", 1);
    setenv("DMLC_NUM_WORKER", "1", 1);
    check_at(local);
    unsetenv("DMLC_PS_ROOT_URI");
    unsetenv("DMLC_PS_ROOT_PORT");
    unsetenv("DMLC_ROLE");
    unsetenv("DMLC_NUM_SERVER");
    unsetenv("DMLC_NUM_WORKER");
    setenv("TUG_CLUSTER", "other", 1);
    struct tug_client *c;
    assert_int_not_equal(open_client(&c, true, CLUSTER_PATIENCE), 0);
    if (strstr(tug_last_error(), "not of your cluster") == NULL)
        cluster_fail("%s", tug_last_error());
    unsetenv("TUG_CLUSTER");
    tug_ends(0, "stop --cluster lib --scheduler 127.0.0.1:%u", port);
    cluster_ends("server", 130, CLUSTER_PATIENCE);
    cluster_none_left();
}

// Checks that opening a client with an impossible address fails at once with this
// message: retrying until the timeout would not help.
static void check_told(double seconds, const char *says)
{
    struct tug_client *c;
    assert_int_not_equal(open_client(&c, true, seconds), 0);
    if (strstr(tug_last_error(), says) == NULL)
        cluster_fail("'%s' is not in: %s", says, tug_last_error());
}

static void mistakes(void **state)
{
    static const char *const bad[][2] = {
        {"foo://", "foo://: it is not an address; an address is tcp://HOST:PORT"},
        {"127.0.0.1", "tcp://127.0.0.1: the port is missing"},
        {"127.0.0.1:99999", "the port must be a number from 0 to 65535"},
        {"tcp://127.0.0.1:1,unix://x", "the path of a socket must begin with /"},
    };
    (void)state;
    unsetenv("TUG_SCHEDULER");
    check_told(CLUSTER_PATIENCE,
               "the address of the scheduler is missing: set TUG_SCHEDULER");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        setenv("TUG_SCHEDULER", bad[i][0], 1);
        check_told(CLUSTER_PATIENCE, bad[i][1]);
    }
    setenv("TUG_SCHEDULER", files_path("127.0.0.1:%u", cluster_free_port()), 1);
    check_told(0.3, "cannot be reached (is it running, and is this its address?)");
    setenv("TUG_SCHEDULER", files_path("unix://%s/nosuch.sock", files_dir), 1);
    check_told(0.3, "cannot be reached (is it running, and is this its address?)");
    unsetenv("TUG_SCHEDULER");
}

// A communicator merges the pushes of two threads and sends them in the background; other
// clients see the sum of the pushes.

enum { SENDS = 500 };

static void *send_ones(void *communicator)
{
    const uint64_t keys[2] = {1, 2};
    const float ones[2 * WIDTH] = {1, 1, 1, 1, 2, 2, 2, 2};
    for (int i = 0; i < SENDS; i++)
        check(tug_communicator_send(communicator, TABLE, keys, 2, ones, 0));
    return NULL;
}

static void send_by_two(struct tug_client *c)
{
    const struct tug_communicator_table t = {.table = TABLE, .queue = 4};
    struct tug_communicator_stats s;
    struct tug_communicator *m;
    pthread_t thread;
    check(tug_communicator_open(&m, c, &t, 1));
    check(tug_communicator_start(m));
    assert_int_equal(pthread_create(&thread, NULL, send_ones, m), 0);
    send_ones(m);
    pthread_join(thread, NULL);
    check(tug_communicator_stop(m, 0));
    check(tug_communicator_stat(m, TABLE, &s));
    assert_true(s.taken == 2 * SENDS && s.queued == 0 && s.failed == 0);
    // Pushes were merged, because the threads hand over pushes faster than a server
    // answers.
    assert_true(s.sent < s.taken);
    check(tug_communicator_close(m));
}

static void communicators(void **state)
{
    (void)state;
    const uint64_t keys[2] = {1, 2};
    struct tug_client *c, *other;
    float rows[2 * WIDTH];
    uint64_t ts;
    unsetenv("TUG_SCHEDULER");
    cluster_start("scheduler", "scheduler --servers 2 --workers 0 --cluster com");
    unsigned port = cluster_port("scheduler");
    for (int i = 0; i < 2; i++)
        cluster_start(files_path("server%d", i),
                      "server --cluster com --scheduler 127.0.0.1:%u", port);
    cluster_await("scheduler", "all have joined");
    setenv("TUG_CLUSTER", "com", 1);
    setenv("TUG_SCHEDULER", files_path("127.0.0.1:%u", port), 1);
    check(open_client(&c, true, CLUSTER_PATIENCE));
    check(open_client(&other, true, CLUSTER_PATIENCE));
    check(tug_table_create(c, TABLE, of_width_4));
    check(tug_table_create(other, TABLE, of_width_4));
    send_by_two(c);
    check(tug_pull(other, TABLE, keys, 2, rows, NULL, NULL, &ts));
    check(tug_wait(other, ts, 0));
    assert_true(rows[0] == 2 * SENDS && rows[2 * WIDTH - 1] == 4 * SENDS);
    check(tug_client_close(other));
    check(tug_client_close(c));
    unsetenv("TUG_CLUSTER");
    unsetenv("TUG_SCHEDULER");
    tug_ends(0, "stop --cluster com --scheduler 127.0.0.1:%u", port);
    cluster_ends("server0", 130, CLUSTER_PATIENCE);
    cluster_ends("server1", 130, CLUSTER_PATIENCE);
    cluster_none_left();
}

// Two workers each compute metrics of a part of the examples, in batches of their own
// size. Both get the metrics of all examples, with each kind of link to the scheduler.

enum { WORKERS = 2, EXAMPLES = 5000 };

static float scores[EXAMPLES], labels[EXAMPLES];
static struct tug_client_options measurer_options;

static struct tug_metric *measure(size_t first, size_t n, size_t batch)
{
    struct tug_metric *m;
    check(tug_metric_open(&m, "auc", &(struct tug_metric_options){.window = EXAMPLES}));
    for (size_t end = first + n; first < end; first += batch) {
        size_t some = end - first < batch ? end - first : batch;
        check(tug_metric_add(m, scores + first, labels + first, some));
    }
    return m;
}

struct measurer {
    pthread_t thread;
    size_t first, n;
    struct tug_metric_values values[2];
};

static void *measure_part(void *arg)
{
    struct measurer *w = arg;
    struct tug_client *c;
    struct tug_metric *m = measure(w->first, w->n, w->first == 0 ? 64 : 100);
    check(tug_client_open(&c, &measurer_options));
    for (int i = 0; i < 2; i++)
        check(tug_metric_reduce(m, c, 0, &w->values[i]));
    check(tug_client_close(c));
    tug_metric_close(m);
    return NULL;
}

// Returns the TLS options of a process of this role.
static const char *tls_of(const char *role)
{
    return files_path("--ca tls/ca.pem --cert tls/%s.pem --key tls/%s.key", role, role);
}

static void make_certificates(void)
{
    tug_ends(0, "cert ca --dir tls");
    tug_ends(0, "cert node --dir tls --name scheduler --role scheduler");
    tug_ends(0, "cert node --dir tls --name server --role server");
    tug_ends(0, "cert node --dir tls --name worker --role worker");
    measurer_options.ca = "tls/ca.pem";
    measurer_options.cert = "tls/worker.pem";
    measurer_options.key = "tls/worker.key";
}

static void measure_on(const char *links)
{
    bool local = strcmp(links, "unix") == 0, tls = strcmp(links, "tls") == 0;
    unsetenv("TUG_SCHEDULER");
    measurer_options = (struct tug_client_options){.wait_seconds = CLUSTER_PATIENCE};
    if (tls)
        make_certificates();
    cluster_start("scheduler", "scheduler --servers 2 --workers 2 --cluster met %s",
                  tls     ? tls_of("scheduler")
                  : local ? "--transport unix"
                          : "--transport tcp");
    unsigned port = cluster_port("scheduler");
    for (int i = 0; i < 2; i++)
        cluster_start(i == 0 ? "server0" : "server1",
                      "server --cluster met --scheduler 127.0.0.1:%u %s", port,
                      tls ? tls_of("server") : "");
    setenv("TUG_CLUSTER", "met", 1);
    setenv("TUG_SCHEDULER",
           local ? files_path("unix://%s/tug/met@%u.sock", files_dir, port)
                 : files_path("127.0.0.1:%u", port),
           1);
    struct measurer w[WORKERS] = {{.n = EXAMPLES / 3},
                                  {.first = EXAMPLES / 3, .n = EXAMPLES - EXAMPLES / 3}};
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&w[i].thread, NULL, measure_part, &w[i]), 0);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(w[i].thread, NULL);
    unsetenv("TUG_CLUSTER");
    unsetenv("TUG_SCHEDULER");
    // The scheduler ends because its workers have left.
    cluster_ends("scheduler", 0, CLUSTER_PATIENCE);
    cluster_ends("server0", 0, CLUSTER_PATIENCE);
    cluster_ends("server1", 0, CLUSTER_PATIENCE);
    cluster_none_left();
    struct tug_metric *m = measure(0, EXAMPLES, EXAMPLES);
    struct tug_metric_values one;
    tug_metric_read(m, &one);
    tug_metric_close(m);
    assert_true(one.auc > 0.5 && one.examples == EXAMPLES);
    for (int i = 0; i < WORKERS; i++)
        for (int j = 0; j < 2; j++)
            assert_memory_equal(&w[i].values[j], &one, sizeof(one));
}

static void metrics_of_workers(void **state)
{
    (void)state;
    for (size_t i = 0; i < EXAMPLES; i++) {
        scores[i] = (float)(i * 7919 % 10007) / 10007;
        labels[i] = i * 104729 % 1009 < 1009 * (double)scores[i];
    }
    measure_on("tcp");
    measure_on("unix");
    measure_on("tls");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(forms_of_an_address), cluster_test(communicators),
        cluster_test(metrics_of_workers), cluster_test(mistakes)};
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
