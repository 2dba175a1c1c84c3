// Servers whose partitions have replicas are killed or stopped while workers push and
// pull: a server that leads partitions and has backups of others, one that is being
// filled, several at once, a server just after the scheduler, and one during an operation
// or a save. Rows are in memory or on disk. All requests of workers succeed, and
// history_check.py finds that no push was lost, counted twice, or seen and then lost.
//
// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include "kit/history.h"
#include "kit/replicated.h"
#include "kit/servers.h"

#define CHECK TUG_TESTS_FOLDER "/e2e/history_check.py"

static void two_replicas(void **state)
{
    (void)state;
    replicated_begin(3, 2);
    replicated_kill("a");
    replicated_settle();
    replicated_join("d");
    replicated_stop("b");
    replicated_settle();
    assert_int_equal(replicated_fact("replicas", "false_deaths"), 1);
    replicated_finish(CHECK);
}

static void a_server_that_is_filled(void **state)
{
    (void)state;
    replicated_begin(2, 2);
    replicated_fill();
    replicated_begin_join("c");
    replicated_await_moves();
    replicated_kill("c");
    replicated_settle();
    replicated_begin_join("d");
    replicated_await_moves();
    replicated_stop("d");
    replicated_settle();
    replicated_join("e");
    replicated_kill("a");
    replicated_settle();
    replicated_finish(CHECK);
}

// The next scheduler waits for the server first, and then promotes its backups.
static void a_server_after_the_scheduler(void **state)
{
    (void)state;
    replicated_begin(3, 2);
    cluster_signal("scheduler", SIGKILL);
    cluster_signal("b", SIGKILL);
    pid_t pid = cluster_pid("b");
    cluster_wait("b", CLUSTER_PATIENCE);
    replicated_restart_scheduler();
    replicated_await_death(pid);
    history_await();
    replicated_settle();
    replicated_finish(CHECK);
}

static void three_replicas(void **state)
{
    (void)state;
    replicated_begin(4, 3);
    cluster_signal("a", SIGSTOP);
    replicated_kill("b");
    replicated_await_death(cluster_pid("a"));
    history_await();
    cluster_signal("a", SIGCONT);
    cluster_ends("a", 4, CLUSTER_PATIENCE);
    replicated_join("e");
    cluster_signal("c", SIGKILL);
    replicated_kill("d");
    replicated_finish(CHECK);
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

// An operation begins when a server was killed a moment before. The operation ends without an
// error, and has removed each row once.
static void an_operation_after_a_kill(void **state)
{
    (void)state;
    struct tug_client *c;
    replicated_begin(3, 2);
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
    replicated_await_death(pid);
    replicated_settle();
    replicated_finish(CHECK);
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
    replicated_kill(server);
    pthread_join(thread, NULL);
    assert_int_equal(x->rc, TUG_EIO);
    if (strstr(x->why, text) == NULL)
        cluster_fail("the save said: %s", x->why);
    replicated_settle();
}

static void a_marked_save(void **state)
{
    (void)state;
    struct tug_client *guest;
    struct tug_client_options worker = {.wait_seconds = CLUSTER_PATIENCE};
    replicated_begin(4, 2);
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
    replicated_finish(CHECK);
}

// A server is stopped when a save begins, and counts as dead: the save is made without it. If
// the save ends the day, the day ends once.
static void a_save_meanwhile(void **state)
{
    (void)state;
    static const char *const servers[] = {"b", "c"};
    struct tug_client *c;
    struct tug_table_stats is;
    replicated_begin(4, 2);
    uint32_t table = make_users(&c);
    struct tug_save_options o = {
        .directory = "saves", .tables = &table, .n_tables = 1, .mode = TUG_BASE};
    for (int i = 0; i < 2; i++) {
        cluster_signal(servers[i], SIGSTOP);
        tables_check(tug_save(c, &o, NULL));
        cluster_signal(servers[i], SIGCONT);
        cluster_ends(servers[i], 4, CLUSTER_PATIENCE);
        replicated_settle();
        o.mode = TUG_DAY;
    }
    tables_check(tug_table_stat(c, table, &is));
    assert_int_equal(is.day, 1);
    tables_check(tug_client_close(c));
    assert_int_equal(replicated_fact("replicas", "false_deaths"), 2);
    replicated_finish(CHECK);
}

// With fewer servers than replicas the cluster works, and says what is missing. When the
// last copy of a partition is lost, the cluster ends.
static void too_few_servers(void **state)
{
    (void)state;
    replicated_begin(1, 2);
    cluster_await("scheduler", "placement: 768 partitions have fewer than 2 replicas, "
                               "because there are too few servers; start more with "
                               "--join");
    replicated_join("b");
    replicated_kill("a");
    replicated_join("c");
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
    replicated_use_disk(true);
    replicated_begin(3, 2);
    replicated_kill("a");
    assert_int_equal(count_dirs(""), 3);
    replicated_join("d");
    assert_int_equal(count_dirs("") + count_dirs("-1"), 3);
    cluster_signal("b", SIGSTOP);
    replicated_await_death(cluster_pid("b"));
    replicated_join("e");
    assert_int_equal(count_dirs("-1"), 1);
    cluster_signal("b", SIGCONT);
    cluster_ends("b", 4, CLUSTER_PATIENCE);
    replicated_kill("c");
    replicated_settle();
    replicated_finish(CHECK);
    replicated_use_disk(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(two_replicas),
        cluster_test(a_server_that_is_filled),
        cluster_test(a_server_after_the_scheduler),
        cluster_test(three_replicas),
        cluster_test(an_operation_after_a_kill),
        cluster_test(a_save_meanwhile),
        cluster_test(a_marked_save),
        cluster_test(too_few_servers),
        cluster_test(rows_on_disk),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
