// Unbacked tables: backups have the table, and follow its records, but have none of its rows.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/roster.h"

#include <math.h>
#include <string.h>

#include "kit/replicas.h"
#include "kit/shards.h"
#include "protocol/limits.h"
#include "rule/rule.h"
#include "server/chain/chain.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

enum { SPREAD = 2, MEMBERS = 3, NORMAL = 5, COPY = 6 };

static const uint32_t some[] = {0, 3, 6, 9, 12, 15}; // keys of six partitions

static uint64_t operations;

static struct replicas *open_world(void)
{
    static const struct shard_options plain;
    return replicas_open(1, 2, 2, SPREAD, &plain);
}

// Opens a world with an unbacked table with these settings.
static struct replicas *open_with(const char *settings)
{
    struct replicas *w = open_world();
    struct table_config c = w->spec.config;
    OK(table_config_parse(&c, settings, &ok_e));
    OK(spec_make(&w->spec, REPLICAS_TABLE, &c, &ok_e));
    replicas_leave_out_backups(w);
    replicas_make_table(w);
    w->tables = 0;
    return w;
}

static struct shard_table *table_on(const struct replicas *w, uint32_t server,
                                    uint32_t id)
{
    return w->servers[server].shard->tables[id];
}

// Returns the number of rows that a server has in the partitions that it backs up.
static uint64_t rows_of_backup(const struct replicas *w, uint32_t server, uint32_t id)
{
    uint64_t n = 0;
    for (uint32_t p = 0; p < REPLICAS_PARTITIONS; p++)
        if (w->chains[p][0] != replicas_id(server))
            n += store_rows_of(table_on(w, server, id)->store, p);
    return n;
}

static void check_no_backup_rows(const struct replicas *w, uint32_t id)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(rows_of_backup(w, i, id), 0);
}

static void check_channels_empty(const struct replicas *w)
{
    for (uint32_t i = 0; i < REPLICAS_SERVERS; i++)
        for (struct chain_outlet *o = w->servers[i].shard->chain->outlets; o != NULL;
             o = o->next)
            assert_int_equal(outlet_kept(&o->o), 0);
}

// Primaries count each push once, backups follow the positions of the records, and a policy
// makes no difference.
static void test_pushes(void **state)
{
    static const char *const settings[] = {"", "entry=count:2"};
    (void)state;
    for (int policy = 0; policy < 2; policy++) {
        struct replicas *w = open_with(settings[policy]);
        for (int i = 0; i < 20; i++)
            replicas_add_op(w, policy == 0 && i % 4 == 3, some, REPLICAS_PUSH_KEYS);
        REPLICAS_UNTIL(w, replicas_all_done(w));
        replicas_run(w, SECOND_NS);
        check_no_backup_rows(w, REPLICAS_TABLE);
        check_channels_empty(w);
        assert_string_equal(w->refusal, "");
        assert_true(replicas_value(w, 1, some[1]) > 0);
        for (uint32_t k = 0; k < REPLICAS_PUSH_KEYS && policy == 0; k++) {
            uint32_t p = some[k] / (REPLICAS_KEYS / REPLICAS_PARTITIONS);
            assert_true(replicas_value(w, p % SPREAD, some[k]) == 15); // NOLINT: exact
        }
        for (uint32_t p = 0; p < REPLICAS_PARTITIONS; p++) {
            struct shard *primary = w->servers[p % SPREAD].shard;
            struct shard *backup = w->servers[p % SPREAD + 1].shard;
            assert_int_equal(primary->chain->of[WIRE_SPACE_SPARSE][p].applied,
                             backup->chain->of[WIRE_SPACE_SPARSE][p].applied);
        }
        assert_int_equal(w->out, 0);
        replicas_close(w);
    }
}

// A fill from a primary whose backup is dead copies no rows, even while workers push.
static void test_fill(void **state)
{
    (void)state;
    struct replicas *w = open_with("");
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_crash(w, 2);
    replicas_take_out(w, 2);
    replicas_begin_fill(w, 1, 3);
    for (int i = 0; i < 10; i++)
        replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, w->arrived);
    replicas_end_fill(w, true);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_run(w, SECOND_NS);
    assert_non_null(table_on(w, 3, REPLICAS_TABLE));
    assert_int_equal(rows_of_backup(w, 3, REPLICAS_TABLE), 0);
    assert_true(replicas_value(w, 1, some[1]) == 12); // NOLINT: exact
    check_channels_empty(w);
    replicas_close(w);
}

// Sends half of a synchronous batch to the servers that lead partitions.
static void send_half(struct replicas *w, uint64_t number, int half)
{
    for (uint32_t i = 0; i < SPREAD; i++) {
        uint64_t keys[REPLICAS_PUSH_KEYS];
        float values[REPLICAS_PUSH_KEYS];
        uint32_t n = 0;
        for (uint32_t k = 0; k < REPLICAS_PUSH_KEYS; k++)
            if (some[k] / (REPLICAS_KEYS / REPLICAS_PARTITIONS) % SPREAD == i) {
                values[n] = 1;
                keys[n++] = w->keys[some[k]];
            }
        replicas_send_half(w, i, number, number / 2, half, n, keys, values);
    }
}

// Backups count batches, and keep parts without keys. A fill takes over parts without keys of
// an open batch.
static void test_batches(void **state)
{
    (void)state;
    struct replicas *w = open_with("mode=sync");
    for (uint64_t i = 0; i < 4; i++) {
        send_half(w, i, i % 2);
        REPLICAS_UNTIL(w, w->tables == SPREAD * (i + 1));
    }
    send_half(w, 4, 0);
    REPLICAS_UNTIL(w, w->tables == SPREAD * 5);
    replicas_crash(w, 2);
    replicas_take_out(w, 2);
    replicas_begin_fill(w, 1, 3);
    REPLICAS_UNTIL(w, w->arrived);
    replicas_end_fill(w, true);
    replicas_run(w, SECOND_NS);
    send_half(w, 5, 1);
    REPLICAS_UNTIL(w, w->tables == SPREAD * 6);
    replicas_run(w, SECOND_NS);
    assert_true(replicas_value(w, 1, some[1]) == 6); // NOLINT: exact
    assert_int_equal(sync_group_of(table_on(w, 3, REPLICAS_TABLE), 1)->clock.next, 3);
    assert_int_equal(rows_of_backup(w, 1, REPLICAS_TABLE), 0);
    assert_int_equal(rows_of_backup(w, 3, REPLICAS_TABLE), 0);
    check_channels_empty(w);
    assert_int_equal(w->out, 0);
    replicas_close(w);
}

// The table is made only when the roster names it, and the scheduler is told until then.
static void test_waits_for_scheduler(void **state)
{
    (void)state;
    struct replicas *w = open_world();
    replicas_leave_out_backups(w);
    w->keeps_out = true;
    for (uint32_t i = 0; i < SPREAD; i++)
        replicas_send_table(w, i);
    replicas_run(w, 2 * SECOND_NS);
    assert_int_equal(w->tables, 0);
    assert_in_range(w->unbacked_told, 4 * SPREAD, 12 * SPREAD);
    w->keeps_out = false;
    REPLICAS_UNTIL(w, w->tables == SPREAD);
    replicas_close(w);
}

static void send_do(struct replicas *w, uint8_t what, uint32_t table, uint32_t other)
{
    struct msg_table_do m = {.what = what,
                             .table = table,
                             .other = other,
                             .epoch = w->epoch,
                             .threshold = NAN,
                             .number = ++operations,
                             .low = operations};
    for (uint32_t i = 0; i < SPREAD; i++)
        van_send(w->worker, w->servers[i].s.link, MSG_TABLE_DO,
                 REPLICAS_OTHER + operations, &m, NULL);
}

// Loops tell the scheduler that a table was dropped, and then that the next table with the
// number exists.
static void test_drop(void **state)
{
    (void)state;
    struct replicas *w = open_with("");
    assert_true(w->unbacked_exists);
    assert_int_equal(w->unbacked.drops, 0);
    send_do(w, WIRE_DROP, REPLICAS_TABLE, 0);
    REPLICAS_UNTIL(w, w->others == SPREAD && !w->unbacked_exists);
    assert_int_equal(w->unbacked.drops, 1);
    replicas_make_table(w);
    assert_true(w->unbacked_exists);
    assert_int_equal(w->unbacked.drops, 1);
    replicas_close(w);
}

// Makes a table with these settings and this number.
static void make_other(struct replicas *w, uint32_t id, uint32_t replicas)
{
    const struct table_spec was = w->spec;
    struct table_config c = was.config;
    c.replicas = replicas;
    memcpy(c.name, "other", 6);
    OK(spec_make(&w->spec, id, &c, &ok_e));
    w->tables = 0;
    replicas_make_table(w);
    w->spec = was;
}

// The rows of an unbacked table cannot be copied into a table with backups; the other direction
// leaves the copy's backups empty. A copy that is made is unbacked, too.
static void test_copies(void **state)
{
    (void)state;
    struct replicas *w = open_with("");
    make_other(w, NORMAL, 0);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    send_do(w, WIRE_COPY, REPLICAS_TABLE, NORMAL);
    REPLICAS_UNTIL(w, strstr(w->refusal, "cannot be copied into table 'other'") != NULL);
    assert_non_null(strstr(w->refusal, "table 't', which has one replica, "));
    send_do(w, WIRE_COPY, REPLICAS_TABLE, COPY);
    REPLICAS_UNTIL(w, w->others == SPREAD);
    assert_int_equal(w->unbacked.table, COPY); // the kit's scheduler keeps the last one
    replicas_run(w, SECOND_NS);
    assert_true(table_on(w, 1, COPY)->unbacked);
    assert_int_equal(store_rows_of(table_on(w, 1, COPY)->store, 1), 1);
    check_no_backup_rows(w, COPY);
    send_do(w, WIRE_COPY, NORMAL, REPLICAS_TABLE);
    REPLICAS_UNTIL(w, w->others == 2 * SPREAD);
    replicas_run(w, SECOND_NS);
    check_no_backup_rows(w, REPLICAS_TABLE);
    assert_int_equal(w->out, 0);
    replicas_close(w);
}

// A copy from a table with backups: the primaries have its rows, the backups none.
static void test_copy_from_backed(void **state)
{
    (void)state;
    struct replicas *w = open_world();
    replicas_make_table(w);
    make_other(w, COPY, 1);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    send_do(w, WIRE_COPY, REPLICAS_TABLE, COPY);
    REPLICAS_UNTIL(w, w->others == SPREAD);
    replicas_run(w, SECOND_NS);
    assert_int_equal(store_rows_of(table_on(w, 1, COPY)->store, 1), 1);
    check_no_backup_rows(w, COPY);
    assert_true(rows_of_backup(w, 2, REPLICAS_TABLE) > 0);
    replicas_close(w);
}

// Sends the table to server 0, and checks that it is refused with this text, and that the
// scheduler was not told.
static void check_refused(struct replicas *w, const char *text)
{
    uint32_t told = w->unbacked_told;
    w->refusal[0] = '\0';
    replicas_send_table(w, 0);
    REPLICAS_UNTIL(w, w->refusal[0] != '\0');
    assert_non_null(strstr(w->refusal, text));
    replicas_run(w, SECOND_NS);
    assert_int_equal(w->unbacked_told, told);
    assert_null(table_on(w, 0, w->spec.id));
}

// The scheduler is not told of a table, or of a copy, that is refused.
static void test_refused_tables(void **state)
{
    (void)state;
    struct replicas *w = open_with("");
    const struct table_spec was = w->spec;
    struct table_config c = was.config;
    struct shard *s = w->servers[0].shard;
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    OK(table_config_parse(&c, "cold=rows;hot-rows=1;cold-durable=yes", &ok_e));
    OK(spec_make(&w->spec, NORMAL, &c, &ok_e));
    check_refused(w, "cannot have the setting cold-durable");
    OK(table_config_parse(&c, "cold-durable=no", &ok_e));
    OK(spec_make(&w->spec, NORMAL, &c, &ok_e));
    check_refused(w, "--cold-root");
    OK(spec_make(&w->spec, NORMAL, &was.config, &ok_e));
    for (uint32_t i = 0; i < SPREAD; i++)
        w->servers[i].shard->o.max_bytes = 1;
    tables_measure(s, table_on(w, 0, REPLICAS_TABLE));
    check_refused(w, "no room for table 't'");
    uint32_t told = w->unbacked_told;
    w->refusal[0] = '\0';
    send_do(w, WIRE_COPY, REPLICAS_TABLE, COPY);
    REPLICAS_UNTIL(w, w->refusal[0] != '\0');
    assert_non_null(strstr(w->refusal, "no room for a copy of table 't'"));
    replicas_run(w, SECOND_NS);
    assert_int_equal(w->unbacked_told, told);
    replicas_close(w);
}

// The scheduler was told of a table whose client has gone. The table is made, so that it can be
// dropped. No other table gets its number before the drop.
static void test_client_goes(void **state)
{
    (void)state;
    struct replicas *w = open_world();
    replicas_leave_out_backups(w);
    const struct table_spec was = w->spec;
    struct table_config c = was.config;
    w->keeps_out = true;
    replicas_send_table(w, 0);
    REPLICAS_UNTIL(w, w->unbacked_told > 1);
    c.replicas = 0;
    OK(spec_make(&w->spec, REPLICAS_TABLE, &c, &ok_e));
    replicas_send_table(w, 0);
    REPLICAS_UNTIL(w, strstr(w->refusal, "table 2 is 't' already and differs") != NULL);
    w->spec = was;
    van_close_link(w->worker, w->servers[0].s.link);
    replicas_run(w, SECOND_NS);
    assert_int_equal(w->tables, 0);
    assert_null(table_on(w, 0, REPLICAS_TABLE));
    w->keeps_out = false;
    REPLICAS_UNTIL(w, table_on(w, 0, REPLICAS_TABLE) != NULL &&
                          table_on(w, 1, REPLICAS_TABLE) != NULL);
    assert_true(w->unbacked_exists);
    assert_true(table_on(w, 0, REPLICAS_TABLE)->unbacked);
    replicas_run(w, SECOND_NS);
    uint32_t told = w->unbacked_told;
    replicas_run(w, SECOND_NS);
    assert_int_equal(w->unbacked_told, told);
    replicas_close(w);
}

// The roster has another table with the number, in another space.
static void test_other_space(void **state)
{
    (void)state;
    struct replicas *w = open_world();
    replicas_leave_out_backups(w);
    w->unbacked = (struct wire_unbacked_table){REPLICAS_TABLE, WIRE_SPACE_RANGE, 0};
    w->unbacked_exists = true;
    replicas_send_rosters(w);
    replicas_run(w, SECOND_NS);
    check_refused(w, "another table with one replica has this number");
    // The other table comes while a client waits.
    w->unbacked_exists = false;
    w->keeps_out = true;
    replicas_send_rosters(w);
    replicas_run(w, SECOND_NS);
    w->refusal[0] = '\0';
    replicas_send_table(w, 0);
    REPLICAS_UNTIL(w, w->unbacked_told > 0);
    w->unbacked_exists = true;
    replicas_send_rosters(w);
    REPLICAS_UNTIL(w, w->refusal[0] != '\0');
    replicas_run(w, SECOND_NS);
    assert_null(table_on(w, 0, REPLICAS_TABLE));
    assert_null(w->servers[0].shard->chain->told);
    replicas_close(w);
}

// A copy into a synchronous table drops the parts of open batches, also at backups, which take
// the same part again.
static void test_copy_into_batches(void **state)
{
    (void)state;
    struct replicas *w = open_with("mode=sync");
    make_other(w, NORMAL, 0);
    w->tables = 0;
    send_half(w, 0, 0);
    REPLICAS_UNTIL(w, w->tables == SPREAD);
    send_do(w, WIRE_COPY, NORMAL, REPLICAS_TABLE);
    REPLICAS_UNTIL(w, w->others == SPREAD);
    send_half(w, 1, 0);
    replicas_run(w, 2 * SECOND_NS);
    assert_int_equal(w->tables, 2 * SPREAD);
    assert_int_equal(w->out, 0);
    replicas_close(w);
}

static void test_refused_numbers(void **state)
{
    (void)state;
    struct replicas *w = open_world();
    struct table_config c = w->spec.config;
    c.replicas = 3;
    OK(spec_make(&w->spec, REPLICAS_TABLE, &c, &ok_e));
    replicas_send_table(w, 0);
    REPLICAS_UNTIL(w, w->refusal[0] != '\0');
    assert_string_equal(
        w->refusal, "table 't' cannot have 3 replicas: partitions of this cluster have "
                    "2 (--replicas); give the table 1 or the cluster's number, or "
                    "leave replicas out");
    c.replicas = 2;
    OK(spec_make(&w->spec, REPLICAS_TABLE, &c, &ok_e));
    replicas_make_table(w);
    assert_false(table_on(w, 0, REPLICAS_TABLE)->unbacked);
    replicas_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pushes),
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_waits_for_scheduler),
        cmocka_unit_test(test_drop),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_copy_from_backed),
        cmocka_unit_test(test_refused_tables),
        cmocka_unit_test(test_client_goes),
        cmocka_unit_test(test_other_space),
        cmocka_unit_test(test_copy_into_batches),
        cmocka_unit_test(test_refused_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
