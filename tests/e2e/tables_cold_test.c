// Rows on disk: servers use a real RocksDB below --cold-root. Pushed, saved and loaded
// rows equal those of a table in memory, and the files that a kill -9 leaves are never
// used again.
//
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "kit/servers.h"

enum { SERVERS = 2, ROWS = 1000, USERS = 16, SUMS = 17 };

#define COLD TABLES_USERS ";cold=tier;hot-rows=150"
#define DURABLE                                                                          \
    "name=sums;accessor=plain;dim=1;rule=sum;cold=sums;cold-durable=yes;hot-rows=50"

static void start(void)
{
    cluster_start("scheduler", "scheduler --servers %u --workers 0", SERVERS);
    tables_port = cluster_port("scheduler");
    for (unsigned i = 0; i < SERVERS; i++)
        cluster_start(files_path("server%u", i),
                      "server --scheduler 127.0.0.1:%u --save-root . --cold-root tiers",
                      tables_port);
    cluster_await("scheduler", "all have joined");
}

static void begin(void)
{
    tables_need_disk();
    files_remove("tiers");
    files_remove("saves");
    assert_int_equal(mkdir("tiers", 0755), 0);
    start();
}

static bool some_are_cold(struct tug_client *c, uint32_t table)
{
    struct tug_table_stats s;
    tables_check(tug_table_stat(c, table, &s));
    return s.cold_rows > 0;
}

static void push_passes(struct tug_client *c, uint64_t first, uint64_t last)
{
    for (uint64_t pass = first; pass <= last; pass++)
        tables_push(c, USERS, pass, ROWS);
}

// Returns a client of one process that holds all rows in memory, after this many passes.
static struct tug_client *in_memory(uint64_t passes)
{
    struct tug_client *one;
    struct tug_client_options o = {.local_loops = 1, .wait_seconds = CLUSTER_PATIENCE};
    tables_check(tug_client_open(&one, &o));
    tables_check(tug_table_create(one, USERS, TABLES_USERS));
    push_passes(one, 1, passes);
    return one;
}

static void same_rows(struct tug_client *c, uint64_t passes)
{
    struct tug_client *one = in_memory(passes);
    tables_check(tug_dump(one, USERS, "memory.txt"));
    tables_check(tug_dump(c, USERS, "disk.txt"));
    tables_check(tug_client_close(one));
    tables_same_files("disk.txt", "memory.txt");
}

static void same_save(const char *dir, uint64_t passes)
{
    struct tug_client *one = in_memory(passes);
    struct tug_save_options o = {.directory = "memory", .mode = TUG_CHECKPOINT};
    files_remove("memory");
    tables_check(tug_save(one, &o, NULL));
    tables_check(tug_client_close(one));
    tug_ends(0, "table export --state --from memory --out memory.txt");
    tug_ends(0, "table export --state --from %s --out disk.txt", dir);
    tables_same_files("disk.txt", "memory.txt");
}

static struct tug_client *make_users(void)
{
    struct tug_client *c = tables_client();
    tables_check(tug_table_create(c, USERS, COLD));
    return c;
}

static void saved_and_loaded(void **state)
{
    (void)state;
    begin();
    struct tug_client *c = make_users();
    push_passes(c, 1, 3);
    assert_true(some_are_cold(c, USERS));
    same_rows(c, 3);
    tables_admin(0, "save --table users --out saves");
    push_passes(c, 4, 4); // these pushes are in no save
    assert_true(some_are_cold(c, USERS));
    tables_check(tug_client_close(c));
    tables_kill(SERVERS);

    start();
    c = make_users();
    tables_admin(0, "load --table users --from saves");
    same_rows(c, 3);
    push_passes(c, 4, 5);
    assert_true(some_are_cold(c, USERS));
    same_rows(c, 5);
    tables_admin(0, "save --table users --out saves");
    tables_check(tug_client_close(c));
    tables_stop();
    same_save("saves", 5);
}

// Pushes a one to each key of a round; the rows of earlier rounds move to disk.
static void push_round(struct tug_client *c, uint64_t round)
{
    static uint64_t keys[ROWS];
    static float ones[ROWS];
    uint64_t ts;
    for (uint64_t i = 0; i < ROWS; i++) {
        keys[i] = round * ROWS + i;
        ones[i] = 1;
    }
    tables_check(tug_push(c, SUMS, keys, ROWS, ones, NULL, NULL, &ts));
    tables_check(tug_wait(c, ts, 0));
}

// Checks that all rows of the rounds before `end` exist, and no row of round `end`.
static void rounds_are(struct tug_client *c, uint64_t end)
{
    static uint64_t keys[ROWS];
    static float values[ROWS];
    for (uint64_t round = 0; round <= end; round++) {
        uint64_t ts;
        for (uint64_t i = 0; i < ROWS; i++)
            keys[i] = round * ROWS + i;
        tables_check(tug_pull(c, SUMS, keys, ROWS, values, NULL, NULL, &ts));
        tables_check(tug_wait(c, ts, 0));
        for (size_t i = 0; i < ROWS; i++)
            assert_true(values[i] == (round < end ? 1 : 0));
    }
}

// A durable tier is opened again after an orderly end, and refused after a crash.
static void found_again_or_refused(void **state)
{
    (void)state;
    begin();
    struct tug_client *c = tables_client();
    tables_check(tug_table_create(c, SUMS, DURABLE));
    for (uint64_t round = 0; round < 4; round++)
        push_round(c, round);
    assert_true(some_are_cold(c, SUMS));
    tables_admin(0, "save --table sums --out saves");
    tables_check(tug_client_close(c));
    tables_stop();

    start();
    c = tables_client();
    tables_check(tug_table_create(c, SUMS, DURABLE));
    rounds_are(c, 4);
    push_round(c, 4);
    rounds_are(c, 5);
    tables_check(tug_client_close(c));
    tables_kill(SERVERS);

    start();
    tables_admin(3, "create --settings %s --number %u", DURABLE, SUMS);
    e2e_says("load a save");
    tables_stop();

    files_remove("tiers/sums");
    start();
    c = tables_client();
    tables_check(tug_table_create(c, SUMS, DURABLE));
    tables_admin(0, "load --table sums --from saves");
    rounds_are(c, 4);
    tables_check(tug_client_close(c));
    tables_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cluster_test(saved_and_loaded),
                                       cluster_test(found_again_or_refused)};
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
