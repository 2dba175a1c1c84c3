// A table with one replica on a cluster whose other tables have two: its rows survive servers
// that join, and the death of one that leads none of them; saves have them. The death of a
// server that leads some ends the run, and the error names them.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/history.h"
#include "kit/replicated.h"
#include "kit/servers.h"

#define CHECK TUG_TESTS_FOLDER "/e2e/history_check.py"
enum { ROWS = 5000 };

static uint64_t keys[ROWS];
static float values[ROWS];

static uint32_t make_lone(struct tug_client **ret)
{
    uint32_t table;
    for (uint64_t i = 0; i < ROWS; i++)
        keys[i] = i;
    tables_admin(0,
                 "create --settings name=lone;accessor=plain;dim=1;rule=sum;replicas=1");
    *ret = tables_client();
    tables_check(tug_table_find(*ret, "lone", &table));
    return table;
}

// Adds 1 to each row.
static void push(struct tug_client *c, uint32_t table)
{
    uint64_t ts;
    for (size_t i = 0; i < ROWS; i++)
        values[i] = 1;
    tables_check(tug_push(c, table, keys, ROWS, values, NULL, NULL, &ts));
    tables_check(tug_wait(c, ts, 0));
}

static void check_counts(struct tug_client *c, uint32_t table, unsigned pushes)
{
    uint64_t ts;
    tables_check(tug_pull(c, table, keys, ROWS, values, NULL, NULL, &ts));
    tables_check(tug_wait(c, ts, 0));
    for (size_t i = 0; i < ROWS; i++)
        if (values[i] != (float)pushes) // NOLINT: exact
            cluster_fail("row %zu is %g instead of %u", i, (double)values[i], pushes);
}

static void rows_stay(void **state)
{
    (void)state;
    struct tug_client *c;
    replicated_begin(3, 2);
    uint32_t table = make_lone(&c);
    push(c, table);
    replicated_begin_join("d"); // it becomes a backup, and leads in other spaces
    push(c, table);
    replicated_settle();
    check_counts(c, table, 2);
    tables_admin(0, "save --table lone --mode checkpoint --out saves");
    push(c, table);
    replicated_kill("d");
    replicated_settle();
    check_counts(c, table, 3);
    tables_admin(0, "clear --table lone");
    tables_admin(0, "load --table lone --from saves");
    check_counts(c, table, 2);
    tug_ends(2, "drain 0 --scheduler 127.0.0.1:%u", tables_port);
    if (strstr(e2e_err,
               "only it has the rows of its partitions of table 'lone', which has "
               "one replica; drop the table first") == NULL)
        cluster_fail("the drain said: %s", e2e_err);
    tables_admin(0, "drop --table lone");
    tug_ends(0, "drain 0 --scheduler 127.0.0.1:%u", tables_port);
    cluster_ends("a", 0, CLUSTER_PATIENCE);
    tables_check(tug_client_close(c));
    replicated_finish(CHECK);
}

static void a_primary_dies(void **state)
{
    (void)state;
    struct tug_client *c;
    replicated_begin(3, 2);
    uint32_t table = make_lone(&c);
    push(c, table);
    tables_check(tug_client_close(c));
    history_end();
    cluster_signal("b", SIGKILL);
    cluster_ends("scheduler", 4, CLUSTER_PATIENCE);
    cluster_said("scheduler", ") was lost with partitions ");
    cluster_said("scheduler", " of 256 of table 'lone', which have no other replica "
                              "(replicas = 1)");
    cluster_wait("a", CLUSTER_PATIENCE);
    cluster_wait("c", CLUSTER_PATIENCE);
}

// A table that was refused does not prevent drains.
static void refused_table(void **state)
{
    (void)state;
    replicated_begin(3, 2);
    tables_admin(2, "create --settings "
                    "name=ghost;accessor=plain;dim=1;rule=sum;replicas=1;cold=rows;"
                    "hot-rows=1;cold-durable=yes");
    tug_ends(0, "drain 0 --scheduler 127.0.0.1:%u", tables_port);
    cluster_ends("a", 0, CLUSTER_PATIENCE);
    replicated_finish(CHECK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(rows_stay),
        cluster_test(a_primary_dies),
        cluster_test(refused_table),
    };
    return cmocka_run_group_tests(tests, cluster_begin, cluster_end);
}
