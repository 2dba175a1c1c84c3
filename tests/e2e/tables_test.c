// `tug table` and programs on the tables of a running cluster: tables are made, examined,
// changed as a whole, saved, loaded into clusters of other sizes, exported and imported.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <pthread.h>
#include <sys/stat.h>

#include "kit/servers.h"

static struct tug_client *find(const char *name, uint32_t *ret_table)
{
    struct tug_client *c = tables_client();
    tables_check(tug_table_find(c, name, ret_table));
    return c;
}

static void push(const char *name, uint64_t seed, size_t n)
{
    uint32_t table;
    struct tug_client *c = find(name, &table);
    tables_push(c, table, seed, n);
    tables_check(tug_client_close(c));
}

// Returns a number of the only table that `table stat --json` prints.
static double figure(const char *name)
{
    json_t *o = e2e_json();
    const json_t *tables = json_object_get(o, "tables");
    assert_int_equal(json_array_size(tables), 1);
    const json_t *x = json_object_get(json_array_get(tables, 0), name);
    assert_true(json_is_number(x));
    double value = json_number_value(x);
    json_decref(o);
    return value;
}

static double rows_of(const char *table)
{
    tables_admin(0, "stat --json --table %s", table);
    return figure("rows");
}

static void prints(const char *text)
{
    if (strstr(e2e_out, text) == NULL)
        cluster_fail("'%s' is not in: %s", text, e2e_out);
}

// ---------------------------------------------------------------- admin operations

static void made_and_found(void **state)
{
    (void)state;
    tables_start(3);
    tables_admin(0, "stat");
    prints("there are no tables yet");
    tables_admin(0, "create --settings %s", TABLES_USERS);
    prints("table 16");
    // The existing table has the same settings.
    tables_admin(0, "create --settings %s", TABLES_USERS);
    prints("table 16");
    tables_admin(2, "create --settings %s --table ads", TABLES_USERS);
    e2e_says("--settings are those of table 'users', but --table says 'ads'");
    tables_admin(2, "create --settings accessor=plain --table ads --number 16");
    e2e_says("table 16");
    tables_admin(2, "create --settings name=users;accessor=ctr;dim=5");
    e2e_says("dim");
    files_write("ads.table",
                "# of an afternoon\nname = ads\naccessor = merge\ndim = 2\n");
    tables_admin(0, "create --settings ads.table");
    prints("table 17");
    tables_admin(0, "create --settings accessor=plain;dim=3 --table three --number 40");
    prints("table 40");
    tables_admin(0, "stat");
    prints("table users: 0 rows");
    prints("table ads: 0 rows");
    prints("table three: 0 rows");
    tables_stop();
}

static void bad_words(void **state)
{
    (void)state;
    tables_start(1);
    tables_admin(0, "create --settings %s", TABLES_USERS);
    tables_admin(2, "stat --table user");
    e2e_says("no table 'user'; did you mean 'users'?");
    tables_admin(2, "shrink --table zebra");
    e2e_says("there are: users");
    tables_admin(2, "shrink");
    e2e_says("--table NAME");
    tables_admin(2, "drop");
    e2e_says("drop changes a table: give --table NAME");
    tables_admin(0, "top"); // the cluster's only table need not be named
    tables_admin(0, "create --settings name=other;accessor=ctr");
    tables_admin(2, "top");
    e2e_says("the cluster has no table 'sparse', which is the default");
    tables_admin(0, "drop --table other");
    tables_admin(2, "create");
    e2e_says("--settings");
    tables_admin(2, "create --settings name=x;acessor=ctr");
    e2e_says("no setting 'acessor'; did you mean 'accessor'?");
    tables_admin(2, "create --settings name=x;accessor=crt");
    e2e_says("did you mean 'ctr'?");
    tables_admin(2, "create --settings name=x;accessor=ctr;dim=-1");
    e2e_says("dim");
    files_write("bad.table", "name = x\naccessor = ctr\nentry = often\n");
    tables_admin(2, "create --settings bad.table");
    e2e_says("'bad.table': line 3: entry");
    tables_admin(3, "create --settings missing.table");
    e2e_says("missing.table");
    tables_admin(2, "shrimp --table users");
    e2e_says("did you mean 'shrink'?");
    tables_admin(2, "load --table users");
    e2e_says("--from DIR");
    tables_admin(3, "load --table users --from nowhere");
    e2e_says("nowhere");
    tables_admin(2, "save");
    e2e_says("--out DIR");
    tables_admin(2, "dump --table users --out -"); // and no file named "-" is made
    e2e_says("never to standard output");
    tables_stop();
}

static void admin_operations(void **state)
{
    (void)state;
    tables_start(3);
    tables_admin(0, "create --settings %s", TABLES_USERS);
    push("users", 1, 4000);
    push("users", 2, 4000);
    double all = rows_of("users");
    assert_true(all > 500 && all < TABLES_KEYS);
    assert_true(figure("refused") > 0 && figure("extra_rows") > 0);
    assert_true(figure("extra_rows") < all && figure("pushes") == 2 * 3);
    tables_admin(0, "day --table users");
    tables_admin(0, "stat --table users");
    prints("day 1");
    // Removes the rows whose score is below that of one and a half shows.
    tables_admin(0, "shrink --table users --threshold 0.15");
    prints("rows removed");
    double left = rows_of("users");
    assert_true(left > 0 && left < all && figure("evicted_score") == all - left);
    tables_admin(0, "save --table users --out saves");
    prints("saves/save-000001");
    tables_admin(0, "dump --table users --out before.txt");
    tables_admin(0, "clear --table users");
    assert_true(rows_of("users") == 0);
    tables_admin(0, "load --table users --from saves");
    prints("rows loaded");
    assert_true(rows_of("users") == left);
    tables_admin(0, "dump --table users --out after.txt");
    tables_same_files("before.txt", "after.txt");
    tables_stop();
}

// ---------------------------------------------------------------- any number of servers

// Each pass saves a delta, some of them after a shrink.
static void passes(uint64_t first, uint64_t n, const char *out)
{
    for (uint64_t pass = first; pass < first + n; pass++) {
        push("users", pass, 1500);
        if (pass % 2 == 0)
            tables_admin(0, "shrink --table users");
        tables_admin(0, "save --table users --mode delta --out %s", out);
    }
}

// Loads the save into a cluster with this number of servers: the rows are the same, also
// after the same further pushes.
static void same_in(unsigned servers)
{
    files_remove("copy");
    tables_start(servers);
    tables_admin(0, "create --settings %s", TABLES_USERS);
    tables_admin(0, "load --table users --from saves");
    tables_admin(0, "save --out copy --zstd 3");
    tug_ends(0, "table export --from copy --state --out copy.txt");
    tables_same_files("saves.txt", "copy.txt");
    push("users", 77, 3000);
    tables_admin(0, "dump --table users --out later-%u.txt", servers);
    tables_same_files("later-3.txt", files_path("later-%u.txt", servers));
    tables_stop();
}

static void other_numbers_of_servers(void **state)
{
    (void)state;
    files_remove("saves");
    tables_start(3);
    tables_admin(0, "create --settings %s", TABLES_USERS);
    push("users", 1, 3000);
    tables_admin(0, "save --table users --mode base --out saves");
    passes(2, 4, "saves");
    tug_ends(0, "table stat --from saves --json");
    assert_true(figure("rows") == rows_of("users"));
    tug_ends(0, "table export --from saves --state --out saves.txt");
    tables_admin(0, "load --table users --from saves");
    push("users", 77, 3000);
    tables_admin(0, "dump --table users --out later-3.txt");
    tables_stop();
    same_in(1);
    same_in(2);
    same_in(5);
}

// ---------------------------------------------------------------- text

#define IMPORTED "--settings name=users;accessor=ctr;dim=4"

static void imports(const char *files, const char *out)
{
    files_remove(out);
    tug_ends(0, "table import %s " IMPORTED " --out %s", files, out);
    tug_ends(0, "table export --from %s --state --out %s.txt", out, out);
}

// Importing an export with states gives the same table, whatever the history of the table
// is.
static void text_and_back(void **state)
{
    (void)state;
    files_write("a.txt", "5 1 0 0.5 1 2 3 4\n18446744073709551615 3 1 -0.25\n");
    files_write("b.txt", "6 0 0 0.1 1e-9 2 3 -4\n");
    files_write("empty.txt", "");
    imports("a.txt empty.txt b.txt", "first");
    imports("first.txt", "second");
    tables_same_files("first.txt", "second.txt");
    tug_ends(0, "table export --from first --state --converter gzip --out first.gz");
    imports("first.gz", "second"); // the import recognises gzip by the first bytes
    tables_same_files("first.txt", "second.txt");
    imports("first.gz --converter zcat", "second");
    tables_same_files("first.txt", "second.txt");
    tug_ends(0, "table export --from first --state --converter cat");
    files_write("printed.txt", e2e_out);
    tables_same_files("first.txt", "printed.txt");
    // The same save can be loaded into a cluster.
    tables_start(2);
    tables_admin(0, "create --settings name=users;accessor=ctr;dim=4");
    tables_admin(0, "load --table users --from first");
    prints("3 rows loaded");
    tables_admin(0, "list");
    assert_string_equal(e2e_out, "users\n");
    tables_admin(0, "get 5 --table users");
    assert_ptr_equal(strstr(e2e_out, "5 "), e2e_out);
    tables_admin(0, "drop --table users");
    tables_admin(0, "list");
    assert_string_equal(e2e_out, "");
    tables_admin(2, "get 5 --table users");
    e2e_says("has no tables, so no table 'users'");
    tables_stop();
}

static void wrong_text(void **state)
{
    (void)state;
    files_write("good.txt", "5 1 0 0.5 1 2 3 4\n");
    files_write("bad.txt", "5 1 0 0.5\n6 1 0 0.5\n7 1 0 half\n");
    files_write_bytes("cut.gz", "\x1f\x8b\x08\0\0\0\0\0\0\3\x33", 11);
    tug_ends(3, "table import good.txt bad.txt " IMPORTED " --out none");
    e2e_says("bad.txt:3: ");
    tug_ends(3, "table import cut.gz " IMPORTED " --out none");
    e2e_says("cut.gz");
    tug_ends(3, "table import good.txt missing.txt " IMPORTED " --out none");
    e2e_says("missing.txt");
    tug_ends(4, "table import good.txt " IMPORTED " --out none --converter false");
    e2e_says("good.txt");
    tug_ends(2, "table import good.txt --out none");
    e2e_says("--settings");
    assert_false(files_exists("none"));
    imports("good.txt", "first");
    tug_ends(2, "table import good.txt --settings name=ads;accessor=ctr;dim=4 "
                "--out first");
    e2e_says("another directory");
    tug_ends(4, "table export --from first --out first.gz --converter false");
    files_nothing_beside(".");
    tug_ends(4, "table export --from first --out missing/first.txt");
    e2e_says("missing/first.txt");
}

// Imports a part file of Paddle's table. Its lines have: key, slot, unseen days, delta
// score, show, click, embed and its state, embedx and its state.
static void text_of_paddle(void **state)
{
    (void)state;
    files_write("part-000", "7 3 0 0.5 12 2 0.25 0.125 1 2 3 4 0.5\n"
                            "9 3 2 0 1 0 -1 3\n");
    imports("part-000 --paddle", "first");
    tug_ends(0, "table export --from first");
    prints("\n7 12 2 0.25 1 2 3 4\n9 1 0 -1\n");
}

// ---------------------------------------------------------------- a month

enum { DAYS = 30, NEW_KEYS = 60, MOST_ROWS = 1000 };
#define MONTH TABLES_USERS ";delta-keep-days=1000;decay=0.8"

static void save(struct tug_client *c, uint32_t table, enum tug_save_mode mode,
                 const char *dir)
{
    struct tug_save_options o = {
        .directory = dir, .mode = mode, .tables = &table, .n_tables = 1, .keep = 2};
    tables_check(tug_save(c, &o, NULL));
}

// Simulates a month of two passes a day, each with some new keys, and the end of each
// day. With `saves`, each pass saves a delta and each day a base.
static void month(struct tug_client *c, uint32_t table, bool saves)
{
    struct tug_table_stats s;
    for (uint64_t day = 0; day < DAYS; day++) {
        for (uint64_t pass = 2 * day; pass < 2 * day + 2; pass++) {
            tables_push_from(c, table, day * NEW_KEYS, pass, 800);
            if (saves)
                save(c, table, pass == 0 ? TUG_BASE : TUG_DELTA, "saves");
        }
        tables_check(tug_shrink(c, table, NAN, NULL));
        tables_check(tug_day(c, table));
        if (saves)
            save(c, table, TUG_BASE, "saves");
        tables_check(tug_table_stat(c, table, &s));
        if (s.rows == 0 || s.rows > MOST_ROWS || s.day != day + 1)
            cluster_fail("day %u: %zu rows, day %u", (unsigned)day, (size_t)s.rows,
                         s.day);
    }
    assert_true(s.made > 2 * MOST_ROWS);
    tables_push_from(c, table, DAYS * NEW_KEYS, 1000, 800);
}

// Three servers and one process have the same rows after a month; loading the last base
// and delta gives the same rows again.
static void a_month(void **state)
{
    (void)state;
    struct tug_client *one;
    struct tug_client_options alone = {.local_loops = 1,
                                       .wait_seconds = CLUSTER_PATIENCE};
    files_remove("saves");
    tables_start(3);
    struct tug_client *c = tables_client();
    tables_check(tug_table_create(c, 16, MONTH));
    month(c, 16, true);
    save(c, 16, TUG_DELTA, "saves");
    save(c, 16, TUG_CHECKPOINT, "checkpoint");
    tables_check(tug_dump(c, 16, "three.txt"));
    tables_check(tug_client_close(c));
    tables_stop();
    tug_ends(0, "table export --from saves --out published.txt");
    tug_ends(0, "table export --from checkpoint --out checkpoint.txt");
    tables_same_files("published.txt", "checkpoint.txt");

    tables_check(tug_client_open(&one, &alone));
    tables_check(tug_table_create(one, 16, MONTH));
    month(one, 16, false);
    tables_check(tug_dump(one, 16, "one.txt"));
    tables_check(tug_client_close(one));
    tables_same_files("three.txt", "one.txt");
}

// ---------------------------------------------------------------- beside a training run

static void await_rows(void)
{
    double until = cluster_now() + CLUSTER_PATIENCE;
    while (tug("table stat --table sparse --json --scheduler 127.0.0.1:%u",
               tables_port) != 0 ||
           figure("rows") < 10)
        if (cluster_now() > until)
            cluster_fail("no rows came");
}

// Reads, admin operations and saves of other processes, one of which dies, do not disturb
// a run.
static void beside_training(void **state)
{
    (void)state;
    tug_ends(0, "synth --rows 2000 --format libsvm --out data.svm");
    cluster_start("run",
                  "launch --servers 3 --workers 2 --save-root . -- train --data data.svm "
                  "--format libsvm --model fm --table entry=count:2 "
                  "--epochs 1000000 --out model");
    tables_port = cluster_port("run");
    await_rows();
    tables_admin(0, "stat");
    prints("table sparse: ");
    tables_admin(0, "top --table sparse --top 3 --json");
    json_t *o = e2e_json();
    assert_int_equal(json_array_size(json_object_get(o, "rows")), 3);
    json_decref(o);
    tables_admin(2, "get --table sparse user=1");
    e2e_says("only a saved model knows the keys of words");
    tables_admin(0, "save --table sparse --out beside");
    tug_ends(0, "table stat --from beside --json");
    assert_true(figure("rows") >= 10);
    tables_admin(0, "shrink --table sparse");
    cluster_start("killed",
                  "table save --table sparse --out beside --scheduler "
                  "127.0.0.1:%u",
                  tables_port);
    cluster_signal("killed", SIGKILL);
    cluster_ends("killed", 128 + SIGKILL, CLUSTER_PATIENCE);
    tables_admin(0, "save --table sparse --mode base --out beside");
    tables_admin(0, "stat --table sparse");
    tug_ends(0, "table stat --from beside");
    cluster_signal("run", SIGINT);
    cluster_ends("run", 130, CLUSTER_PATIENCE);
    cluster_none_left();
    tug_ends(0, "table stat --from model");
}

// ---------------------------------------------------------------- roots of servers

// Servers refuse paths outside their roots before they make any file, and a server
// without roots names the missing option.
static void roots_of_servers(void **state)
{
    (void)state;
    files_remove("inside");
    files_remove("outside");
    assert_int_equal(mkdir("inside", 0755), 0);
    assert_int_equal(mkdir("outside", 0755), 0);
    assert_int_equal(symlink("../outside", "inside/door"), 0);
    cluster_start("scheduler", "scheduler --servers 2 --workers 0");
    tables_port = cluster_port("scheduler");
    for (unsigned i = 0; i < 2; i++)
        cluster_start(files_path("server%u", i),
                      "server --scheduler 127.0.0.1:%u --save-root inside%s", tables_port,
                      i == 0 ? " --load-root outside" : "");
    cluster_await("scheduler", "all have joined");
    tables_admin(0, "create --settings %s", TABLES_USERS);
    push("users", 1, 500);
    tables_admin(0, "save --table users --out inside/a/b");
    assert_true(files_exists("inside/a/b/save-000001/manifest.json"));
    static const char *const wrong[] = {"outside", "inside/../outside", "inside/door",
                                        "inside/door/deeper"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        char names[8][64];
        tables_admin(2, "save --table users --out %s", wrong[i]);
        e2e_says("is not below");
        e2e_says("--save-root");
        assert_int_equal(files_list("outside", names, 8), 0);
    }
    assert_false(files_exists("outside/save-000001"));
    tables_admin(0, "load --table users --from inside/a/b");
    // All servers must be allowed to read the directory, not only one.
    files_copy_dir("inside/a/b", "outside/b");
    tables_admin(2, "load --table users --from outside/b");
    e2e_says("--load-root");
    // Rows on disk need --cold-root.
    tables_admin(2, "create --settings %s --table cold", "accessor=ctr;dim=2;cold=tier");
    e2e_says("start it with --cold-root DIR");
    tables_stop();
    cluster_start("scheduler", "scheduler --servers 1 --workers 0");
    tables_port = cluster_port("scheduler");
    cluster_start("server0", "server --scheduler 127.0.0.1:%u", tables_port);
    cluster_await("scheduler", "all have joined");
    tables_admin(0, "create --settings %s", TABLES_USERS);
    tables_admin(2, "save --table users --out inside");
    e2e_says("has no --save-root: start it with --save-root DIR");
    tables_admin(2, "load --table users --from inside/a/b");
    e2e_says("has no --load-root");
    tables_stop();
    tug_ends(3, "server --scheduler 127.0.0.1:9 --load-root nowhere");
    e2e_says("--load-root: cannot open the directory 'nowhere'");
}

struct saver {
    struct tug_client *client;
    struct tug_save_options options;
    int rc;
    char why[1024];
};

static void *save_once(void *arg)
{
    struct saver *x = arg;
    x->rc = tug_save(x->client, &x->options, NULL);
    if (x->rc != 0)
        snprintf(x->why, sizeof(x->why), "%s", tug_last_error());
    return NULL;
}

// Two processes repeatedly save at once on two servers of two loops: neither process
// waits for the other for ever, and both saves are complete. They start as close together
// as two threads can, so that in some tries the loops get the two requests in different
// orders.
static void two_saves_at_once(void **state)
{
    (void)state;
    enum { TIMES = 50 };
    static const char *const names[] = {"one", "two"};
    struct saver savers[2] = {0};
    files_remove("one");
    files_remove("two");
    tables_loops = 2;
    tables_start(2);
    tables_loops = 0;
    tables_admin(0, "create --settings %s", TABLES_USERS);
    push("users", 1, 2000);
    for (int k = 0; k < 2; k++)
        savers[k] = (struct saver){
            .client = tables_client(),
            .options = {.directory = names[k], .mode = TUG_BASE, .keep = 2}};
    for (int i = 0; i < TIMES; i++) {
        pthread_t threads[2];
        for (int k = 0; k < 2; k++)
            assert_int_equal(pthread_create(&threads[k], NULL, save_once, &savers[k]), 0);
        for (int k = 0; k < 2; k++)
            pthread_join(threads[k], NULL);
        for (int k = 0; k < 2; k++)
            if (savers[k].rc != 0)
                cluster_fail("save %d to '%s': %s", i, names[k], savers[k].why);
    }
    for (int k = 0; k < 2; k++)
        tables_check(tug_client_close(savers[k].client));
    tug_ends(0, "table export --from one --out one.txt");
    tug_ends(0, "table export --from two --out two.txt");
    tables_same_files("one.txt", "two.txt");
    tables_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(roots_of_servers), cluster_test(two_saves_at_once),
        cluster_test(made_and_found),   cluster_test(bad_words),
        cluster_test(admin_operations), cluster_test(other_numbers_of_servers),
        cluster_test(text_and_back),    cluster_test(wrong_text),
        cluster_test(text_of_paddle),   cluster_test(a_month),
        cluster_test(beside_training),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
