// Tables of a running cluster in the hands of `tug table` and of programs: made, looked
// at, ordered about, saved, loaded into clusters of other sizes, exported and imported.
//
// SPDX-License-Identifier: Apache-2.0
#include "tables.h"

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

// A number of the only table that stat --json shows.
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
    tables_order(0, "stat --json --table %s", table);
    return figure("rows");
}

static void prints(const char *text)
{
    if (strstr(e2e_out, text) == NULL)
        cluster_fail("'%s' is not in: %s", text, e2e_out);
}

// ---------------------------------------------------------------- orders

static void made_and_found(void **state)
{
    (void)state;
    tables_start(3);
    tables_order(0, "stat");
    prints("no tables so far");
    tables_order(0, "create --settings %s", TABLES_USERS);
    prints("table 16");
    tables_order(0, "create --settings %s", TABLES_USERS); // is the same one
    prints("table 16");
    tables_order(2, "create --settings %s --table ads", TABLES_USERS);
    e2e_says("settings of table 'users', not of 'ads'");
    tables_order(2, "create --settings accessor=plain --table ads --number 16");
    e2e_says("table 16");
    tables_order(2, "create --settings name=users;accessor=ctr;dim=5");
    e2e_says("dim");
    e2e_write("ads.table", "# of an afternoon\nname = ads\naccessor = merge\ndim = 2\n");
    tables_order(0, "create --settings ads.table");
    prints("table 17");
    tables_order(0, "create --settings accessor=plain;dim=3 --table three --number 40");
    prints("table 40");
    tables_order(0, "stat");
    prints("table users: 0 rows");
    prints("table ads: 0 rows");
    prints("table three: 0 rows");
    tables_stop();
}

static void bad_words(void **state)
{
    (void)state;
    tables_start(1);
    tables_order(0, "create --settings %s", TABLES_USERS);
    tables_order(2, "stat --table user");
    e2e_says("no table 'user'; did you mean 'users'?");
    tables_order(2, "shrink --table zebra");
    e2e_says("there are: users");
    tables_order(2, "shrink");
    e2e_says("--table NAME");
    tables_order(2, "create");
    e2e_says("--settings");
    tables_order(2, "create --settings name=x;acessor=ctr");
    e2e_says("no setting 'acessor'; did you mean 'accessor'?");
    tables_order(2, "create --settings name=x;accessor=crt");
    e2e_says("did you mean 'ctr'?");
    tables_order(2, "create --settings name=x;accessor=ctr;dim=-1");
    e2e_says("dim");
    e2e_write("bad.table", "name = x\naccessor = ctr\nentry = often\n");
    tables_order(2, "create --settings bad.table");
    e2e_says("'bad.table': line 3: entry");
    tables_order(3, "create --settings missing.table");
    e2e_says("missing.table");
    tables_order(2, "shrimp --table users");
    e2e_says("did you mean 'shrink'?");
    tables_order(2, "load --table users");
    e2e_says("--from DIR");
    tables_order(3, "load --table users --from nowhere");
    e2e_says("nowhere");
    tables_order(2, "save");
    e2e_says("--out DIR");
    tables_stop();
}

static void orders(void **state)
{
    (void)state;
    tables_start(3);
    tables_order(0, "create --settings %s", TABLES_USERS);
    push("users", 1, 4000);
    push("users", 2, 4000);
    double all = rows_of("users");
    assert_true(all > 500 && all < TABLES_KEYS);
    assert_true(figure("refused") > 0 && figure("extra_rows") > 0);
    assert_true(figure("extra_rows") < all && figure("pushes") == 2 * 3);
    tables_order(0, "day --table users");
    tables_order(0, "stat --table users");
    prints("day 1");
    // Of those that are less than a show and a half worth.
    tables_order(0, "shrink --table users --threshold 0.15");
    prints("rows removed");
    double left = rows_of("users");
    assert_true(left > 0 && left < all && figure("evicted_score") == all - left);
    tables_order(0, "save --table users --out saves");
    prints("saves/save-000001");
    tables_order(0, "dump --table users --out before.txt");
    tables_order(0, "clear --table users");
    assert_true(rows_of("users") == 0);
    tables_order(0, "load --table users --from saves");
    prints("rows loaded");
    assert_true(rows_of("users") == left);
    tables_order(0, "dump --table users --out after.txt");
    tables_same_files("before.txt", "after.txt");
    tables_stop();
}

// ---------------------------------------------------------------- any number of servers

// What each pass leaves: a delta, now and then after a shrink.
static void passes(uint64_t first, uint64_t n, const char *out)
{
    for (uint64_t pass = first; pass < first + n; pass++) {
        push("users", pass, 1500);
        if (pass % 2 == 0)
            tables_order(0, "shrink --table users");
        tables_order(0, "save --table users --mode delta --out %s", out);
    }
}

// The save under `from` in a cluster of so many servers: the same rows, also after more
// pushes as the one before had.
static void same_in(unsigned servers)
{
    e2e_remove("copy");
    tables_start(servers);
    tables_order(0, "create --settings %s", TABLES_USERS);
    tables_order(0, "load --table users --from saves");
    tables_order(0, "save --out copy --zstd 3");
    tug_ends(0, "table export --from copy --state --out copy.txt");
    tables_same_files("saves.txt", "copy.txt");
    push("users", 77, 3000);
    tables_order(0, "dump --table users --out later-%u.txt", servers);
    tables_same_files("later-3.txt", e2e_path("later-%u.txt", servers));
    tables_stop();
}

static void other_numbers_of_servers(void **state)
{
    (void)state;
    e2e_remove("saves");
    tables_start(3);
    tables_order(0, "create --settings %s", TABLES_USERS);
    push("users", 1, 3000);
    tables_order(0, "save --table users --mode base --out saves");
    passes(2, 4, "saves");
    tug_ends(0, "table stat --from saves --json");
    assert_true(figure("rows") == rows_of("users"));
    tug_ends(0, "table export --from saves --state --out saves.txt");
    tables_order(0, "load --table users --from saves");
    push("users", 77, 3000);
    tables_order(0, "dump --table users --out later-3.txt");
    tables_stop();
    same_in(1);
    same_in(2);
    same_in(5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(made_and_found),
        cluster_test(bad_words),
        cluster_test(orders),
        cluster_test(other_numbers_of_servers),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
