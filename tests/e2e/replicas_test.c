// Servers whose partitions have replicas are killed or stopped while workers push and
// pull: a server that leads partitions and has backups of others, one that is being
// filled, several at once, a server just after the scheduler, and one during an operation
// or a save. Rows are in memory or on disk. All requests of workers succeed, and
// history_check.py finds that no push was lost, counted twice, or seen and then lost.
//
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include "kit/history.h"
#include "kit/servers.h"

static unsigned replicas, servers, clusters;
static bool on_disk; // whether all rows that are not in use are on disk

// ---------------------------------------------------------------- the cluster

static void start_scheduler(const char *address)
{
    cluster_start("scheduler",
                  "scheduler --scheduler %s --servers %u --workers 0 --replicas %u "
                  "--state state%u",
                  address, servers, replicas, clusters);
    tables_port = cluster_port("scheduler");
}

static void restart_scheduler(void)
{
    cluster_wait("scheduler", CLUSTER_PATIENCE);
    start_scheduler(files_path("127.0.0.1:%u", tables_port));
}

static void start_server(const char *name, const char *more)
{
    cluster_start(name, "server --scheduler 127.0.0.1:%u %s %s", tables_port,
                  on_disk ? "--cold-root ." : "--save-root .", more);
}

static void begin(unsigned n, unsigned r)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    servers = n;
    replicas = r;
    clusters++; // a cluster has a state of its own
    start_scheduler("127.0.0.1:0");
    for (unsigned i = 0; i < n; i++)
        start_server(names[i], i == n - 1 ? "--loops 2" : "");
    cluster_await("scheduler", "all have joined");
    tables_admin(0, "create --settings %s%s", HISTORY_TABLE,
                 on_disk ? ";cold=rows;hot-rows=1" : "");
    history_start();
    history_await();
}

static void finish(void)
{
    history_await();
    history_end();
    tables_stop();
    history_check(TUG_TESTS_FOLDER "/e2e/history_check.py");
}

static int64_t fact(const char *object, const char *name)
{
    tug_ends(0, "status --json --scheduler 127.0.0.1:%u", tables_port);
    json_t *all = e2e_json();
    int64_t n = json_integer_value(json_object_get(json_object_get(all, object), name));
    json_decref(all);
    return n;
}

// Waits until each partition has all its replicas.
static void settle(void)
{
    assert_soon(fact("replicas", "partitions_with_fewer") == 0 &&
                fact("moving", "moves_left") == 0);
}

// Starts a server, and waits until it holds its share of the replicas.
static void join(const char *name)
{
    start_server(name, "--join");
    cluster_await("scheduler", files_path(":%d) joined", (int)cluster_pid(name)));
    settle();
}

static void await_death(pid_t pid)
{
    cluster_await("scheduler", files_path(":%d) is gone", (int)pid));
}

static void kill_server(const char *name)
{
    pid_t pid = cluster_pid(name);
    cluster_signal(name, SIGKILL);
    cluster_wait(name, CLUSTER_PATIENCE);
    await_death(pid);
    history_await();
}

// Stops a server until it counts as dead and others have answered in its place. When it
// runs again, it must not answer any more, and ends.
static void stop_server(const char *name)
{
    cluster_signal(name, SIGSTOP);
    await_death(cluster_pid(name));
    history_await();
    cluster_signal(name, SIGCONT);
    cluster_ends(name, 4, CLUSTER_PATIENCE);
    cluster_said(name, "counts as dead");
    history_await();
}

// ---------------------------------------------------------------- tests

static void two_replicas(void **state)
{
    (void)state;
    begin(3, 2);
    kill_server("a");
    settle();
    join("d");
    stop_server("b");
    settle();
    assert_int_equal(fact("replicas", "false_deaths"), 1);
    finish();
}

static void a_server_that_is_filled(void **state)
{
    (void)state;
    begin(2, 2);
    start_server("c", "--join");
    cluster_await("scheduler", files_path(":%d) joined", (int)cluster_pid("c")));
    kill_server("c");
    settle();
    start_server("d", "--join");
    cluster_await("scheduler", files_path(":%d) joined", (int)cluster_pid("d")));
    stop_server("d");
    settle();
    join("e");
    kill_server("a");
    settle();
    finish();
}

// The next scheduler waits for the server first, and then promotes its backups.
static void a_server_after_the_scheduler(void **state)
{
    (void)state;
    begin(3, 2);
    cluster_signal("scheduler", SIGKILL);
    cluster_signal("b", SIGKILL);
    pid_t pid = cluster_pid("b");
    cluster_wait("b", CLUSTER_PATIENCE);
    restart_scheduler();
    await_death(pid);
    history_await();
    settle();
    finish();
}

static void three_replicas(void **state)
{
    (void)state;
    begin(4, 3);
    cluster_signal("a", SIGSTOP);
    kill_server("b");
    await_death(cluster_pid("a"));
    history_await();
    cluster_signal("a", SIGCONT);
    cluster_ends("a", 4, CLUSTER_PATIENCE);
    join("e");
    cluster_signal("c", SIGKILL);
    kill_server("d");
    finish();
}

static uint32_t make_users(struct tug_client **ret)
{
    uint32_t table;
    tables_admin(0, "create --settings %s", TABLES_USERS);
    *ret = tables_client();
    tables_check(tug_table_find(*ret, "users", &table));
    for (int i = 0; i < 2; i++) // the first push only counts the keys
        tables_push(*ret, table, 1, 2000);
    return table;
}

static int64_t rows_of(const char *table)
{
    tables_admin(0, "stat --json --table %s", table);
    json_t *o = e2e_json();
    json_t *first = json_array_get(json_object_get(o, "tables"), 0);
    int64_t n = json_integer_value(json_object_get(first, "rows"));
    json_decref(o);
    return n;
}

// A server is killed, and an operation begins before its death is known. The operation ends
// well, and has removed each row once.
static void an_operation_meanwhile(void **state)
{
    (void)state;
    struct tug_client *c;
    begin(3, 2);
    (void)make_users(&c);
    tables_check(tug_client_close(c));
    int64_t rows = rows_of("users");
    assert_true(rows > 100);
    pid_t pid = cluster_pid("a");
    cluster_signal("a", SIGKILL);
    cluster_wait("a", CLUSTER_PATIENCE);
    tables_admin(0, "shrink --table users --threshold 1e9");
    if (strstr(e2e_out, files_path("%lld rows removed", (long long)rows)) == NULL)
        cluster_fail("not all %lld rows were removed: %s", (long long)rows, e2e_out);
    assert_int_equal(rows_of("users"), 0);
    await_death(pid);
    settle();
    finish();
}

struct saver {
    struct tug_client *client;
    struct tug_save_options options;
    int rc;
    char why[1024];
};

static void *save(void *arg)
{
    struct saver *x = arg;
    x->rc = tug_save(x->client, &x->options, NULL);
    snprintf(x->why, sizeof(x->why), "%s", x->rc != 0 ? tug_last_error() : "");
    return NULL;
}

static bool is_saving(void)
{
    tug_ends(0, "status --json --scheduler 127.0.0.1:%u", tables_port);
    return strstr(e2e_out, "\"waits\"") != NULL || strstr(e2e_out, "\"writes\"") != NULL;
}

// A worker saves, and does not mark its save, which therefore waits until the server dies.
// Such a save cannot begin again.
static void save_fails(struct saver *x, const char *server, const char *text)
{
    pthread_t thread;
    x->options.mark++;
    assert_int_equal(pthread_create(&thread, NULL, save, x), 0);
    assert_soon(is_saving());
    kill_server(server);
    pthread_join(thread, NULL);
    assert_int_equal(x->rc, TUG_EIO);
    if (strstr(x->why, text) == NULL)
        cluster_fail("the save said: %s", x->why);
    settle();
}

static void a_marked_save(void **state)
{
    (void)state;
    struct tug_client *guest;
    struct tug_client_options worker = {.wait_seconds = CLUSTER_PATIENCE};
    begin(4, 2);
    uint32_t table = make_users(&guest);
    tables_check(tug_client_close(guest));
    struct saver x = {.options = {.directory = "days",
                                  .tables = &table,
                                  .n_tables = 1,
                                  .mode = TUG_DAY,
                                  .mark = 7}};
    worker.scheduler = files_path("127.0.0.1:%u", tables_port);
    tables_check(tug_client_open(&x.client, &worker));
    tables_check(tug_table_find(x.client, "users", &table));
    save_fails(&x, "a", "the day may have ended in some partitions only");
    x.options.mode = TUG_BASE;
    save_fails(&x, "b", "it must be made again");
    tables_check(tug_client_close(x.client));
    finish();
}

// A server is stopped when a save begins, and counts as dead: the save is made without it.
static void a_save_meanwhile(void **state)
{
    (void)state;
    struct tug_client *c;
    begin(3, 2);
    uint32_t table = make_users(&c);
    struct tug_save_options o = {
        .directory = "saves", .tables = &table, .n_tables = 1, .mode = TUG_BASE};
    cluster_signal("b", SIGSTOP);
    tables_check(tug_save(c, &o, NULL));
    tables_check(tug_client_close(c));
    cluster_signal("b", SIGCONT);
    cluster_ends("b", 4, CLUSTER_PATIENCE);
    assert_int_equal(fact("replicas", "false_deaths"), 1);
    finish();
}

// With fewer servers than replicas the cluster works, and says what is missing. When the
// last copy of a partition is lost, the cluster ends.
static void too_few_servers(void **state)
{
    (void)state;
    begin(1, 2);
    cluster_await("scheduler", "placement: 768 partitions have fewer than 2 replicas, "
                               "because there are too few servers; start more with "
                               "--join");
    join("b");
    kill_server("a");
    join("c");
    history_end();
    cluster_signal("c", SIGKILL);
    cluster_signal("b", SIGKILL);
    cluster_ends("scheduler", 4, CLUSTER_PATIENCE);
    cluster_said("scheduler", "was lost with partitions");
}

// Returns how many servers have rows in a directory with this end of its name.
static unsigned count_dirs(const char *end)
{
    unsigned n = 0;
    for (unsigned rank = 0; rank < 5; rank++)
        n += files_exists(files_path("rows/16-server%u-loop0%s/rows/CURRENT", rank, end));
    return n;
}

// A server that joins has the directory of a dead one. While a server is stopped, its
// directory is in use, and the server that has its number takes another one.
static void rows_on_disk(void **state)
{
    (void)state;
    tables_need_disk();
    on_disk = true;
    begin(3, 2);
    kill_server("a");
    assert_int_equal(count_dirs(""), 3);
    join("d");
    assert_int_equal(count_dirs("") + count_dirs("-1"), 3);
    cluster_signal("b", SIGSTOP);
    await_death(cluster_pid("b"));
    join("e");
    assert_int_equal(count_dirs("-1"), 1);
    cluster_signal("b", SIGCONT);
    cluster_ends("b", 4, CLUSTER_PATIENCE);
    kill_server("c");
    settle();
    finish();
    on_disk = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(two_replicas),
        cluster_test(a_server_that_is_filled),
        cluster_test(a_server_after_the_scheduler),
        cluster_test(three_replicas),
        cluster_test(an_operation_meanwhile),
        cluster_test(a_save_meanwhile),
        cluster_test(a_marked_save),
        cluster_test(too_few_servers),
        cluster_test(rows_on_disk),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
