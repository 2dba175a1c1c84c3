// Admin operations on tables whose partitions have replicas: the loops that lead partitions
// get the requests, and their backups do the same.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "kit/replicas.h"
#include "server/chain/chain.h"
#include "server/clocks/sync_group.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

enum { SPREAD = 2, MEMBERS = 3 }; // two servers lead partitions, a third has only copies

static const uint32_t some[] = {0, 3, 6, 9, 12, 15}; // keys of six partitions

static uint64_t operations;

static void send_to_leaders(struct replicas *w, struct msg_table_do m)
{
    m.table = w->spec.id;
    m.number = m.low = ++operations;
    m.threshold = NAN;
    for (uint32_t i = 0; i < SPREAD; i++)
        van_send(w->worker, w->servers[i].s.link, MSG_TABLE_DO,
                 REPLICAS_OTHER + operations * SPREAD + i, &m, NULL);
}

static struct replicas *open_world(enum config_mode mode)
{
    static const struct shard_options options;
    struct replicas *w = replicas_open(1, 2, 2, SPREAD, &options);
    replicas_make_spec(w, mode, 1);
    replicas_make_table(w);
    return w;
}

static struct shard_table *table_on(struct replicas *w, uint32_t server)
{
    return w->servers[server].shard->tables[w->spec.id];
}

static bool are_cleared(struct replicas *w)
{
    bool all = true;
    for (uint32_t i = 0; i < MEMBERS; i++)
        for (uint32_t k = 0; k < REPLICAS_PUSH_KEYS; k++)
            all &= replicas_value(w, i, some[k]) == 0; // NOLINT: exact
    return all;
}

static void test_clear(void **state)
{
    (void)state;
    struct replicas *w = open_world(CONFIG_ASYNC);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    assert_false(are_cleared(w));
    send_to_leaders(w, (struct msg_table_do){.what = WIRE_CLEAR});
    REPLICAS_UNTIL(w, are_cleared(w));
    assert_string_equal(w->refusal, "");
    memset(w->acked, 0, sizeof(w->acked));
    memset(w->invoked, 0, sizeof(w->invoked));
    memset(w->shown, 0, sizeof(w->shown));
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    replicas_close(w);
}

// The days of a server's copies show when it leads their partitions.
static void test_day(void **state)
{
    (void)state;
    struct replicas *w = open_world(CONFIG_ASYNC);
    for (uint32_t day = 1; day < 4; day++)
        send_to_leaders(w, (struct msg_table_do){.what = WIRE_DAY});
    REPLICAS_UNTIL(w, table_on(w, 1) != NULL && store_day_of(table_on(w, 1)->store) == 3);
    replicas_run(w, SECOND_NS);
    replicas_crash(w, 1);
    replicas_take_out(w, 1);
    replicas_run(w, SECOND_NS);
    assert_int_equal(store_day_of(table_on(w, 2)->store), 3);
    replicas_close(w);
}

static bool clocks_are(struct replicas *w, uint64_t clock)
{
    bool all = true;
    for (uint32_t p = 0; p < REPLICAS_PARTITIONS; p++)
        for (uint32_t i = 0; i < 2; i++)
            all &= sync_group_of(table_on(w, p % SPREAD + i), p)->clock.next == clock;
    return all;
}

static void test_clock(void **state)
{
    (void)state;
    struct replicas *w = open_world(CONFIG_SYNC);
    REPLICAS_UNTIL(w, table_on(w, MEMBERS - 1) != NULL);
    send_to_leaders(w, (struct msg_table_do){.what = WIRE_CLOCK, .clock = 77});
    REPLICAS_UNTIL(w, clocks_are(w, 77));
    replicas_close(w);
}

static void test_drop(void **state)
{
    (void)state;
    struct replicas *w = open_world(CONFIG_ASYNC);
    REPLICAS_UNTIL(w, table_on(w, MEMBERS - 1) != NULL);
    send_to_leaders(w, (struct msg_table_do){.what = WIRE_DROP});
    for (uint32_t i = 0; i < MEMBERS; i++)
        REPLICAS_UNTIL(w, table_on(w, i) == NULL);
    replicas_make_table(w);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    replicas_close(w);
}

static void send_drop(struct replicas *w, uint32_t server)
{
    struct msg_table_do m = {.what = WIRE_DROP, .table = w->spec.id, .threshold = NAN};
    m.number = m.low = ++operations;
    van_send(w->worker, w->servers[server].s.link, MSG_TABLE_DO,
             REPLICAS_OTHER + operations * SPREAD, &m, NULL);
}

static void forget_ops(struct replicas *w)
{
    memset(w->acked, 0, sizeof(w->acked));
    memset(w->invoked, 0, sizeof(w->invoked));
    memset(w->shown, 0, sizeof(w->shown));
}

// A member that drops a table because of a record passes this on, although it has no table
// any more when a client tells it..
static void test_drop_is_passed_on(void **state)
{
    (void)state;
    struct replicas *w = open_world(CONFIG_ASYNC);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    send_drop(w, 0);
    REPLICAS_UNTIL(w, table_on(w, 1) == NULL);
    send_drop(w, 1);
    REPLICAS_UNTIL(w, table_on(w, 2) == NULL);
    forget_ops(w);
    replicas_make_spec(w, CONFIG_ASYNC, 1);
    w->tables = 0;
    replicas_make_table(w);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    assert_int_equal(w->out, 0);
    replicas_close(w);
}

// A loop has dropped a table when records for it still come: it does not have to leave the
// chains.
static void test_records_after_drop(void **state)
{
    (void)state;
    struct replicas *w = open_world(CONFIG_ASYNC);
    replicas_run(w, SECOND_NS);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_value(w, 0, some[0]) == 1);
    send_drop(w, 1);
    REPLICAS_UNTIL(w, table_on(w, 1) == NULL);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, false);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    send_drop(w, 0);
    REPLICAS_UNTIL(w, table_on(w, 0) == NULL);
    replicas_run(w, 3 * SECOND_NS);
    assert_int_equal(w->out, 0);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_null(table_on(w, i));
    replicas_close(w);
}

static void test_refused(void **state)
{
    (void)state;
    struct replicas *w = open_world(CONFIG_ASYNC);
    send_to_leaders(w, (struct msg_table_do){.what = WIRE_COPY, .other = 5});
    REPLICAS_UNTIL(w, strstr(w->refusal, "tables cannot be copied or averaged") != NULL);
    replicas_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clear),
        cmocka_unit_test(test_day),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_drop),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_drop_is_passed_on),
        cmocka_unit_test(test_records_after_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
