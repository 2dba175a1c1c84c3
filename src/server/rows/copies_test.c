// Copies and means of tables whose partitions have replicas: the members of a chain have the
// same rows, also if memory is out, and each operation is done once.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/rows/copies.h"

#include <string.h>

#include "base/alloc.h"
#include "cluster/roster.h"
#include "kit/replicas.h"
#include "kit/shards.h"
#include "server/chain/chain.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

enum { SPREAD = 2, MEMBERS = 3 }; // two servers lead partitions, a third has only copies

static const uint32_t some[] = {0, 3, 6, 9, 12, 15}; // keys of six partitions

static uint64_t operations, requests;

// Sends the operation with the last number to a server.
static void send_again(struct replicas *w, uint32_t server, struct msg_table_do m)
{
    m.table = w->spec.id;
    m.epoch = w->epoch;
    m.number = m.low = operations;
    van_send(w->worker, w->servers[server].s.link, MSG_TABLE_DO,
             REPLICAS_OTHER + ++requests, &m, NULL);
}

static void send_to_leaders(struct replicas *w, struct msg_table_do m)
{
    operations++;
    for (uint32_t i = 0; i < SPREAD; i++)
        send_again(w, i, m);
}

static struct replicas *open_world(void)
{
    return replicas_open_with_table(1, 2, 2, SPREAD);
}

enum { OTHER = 5 }; // number of the table into which rows are copied

static float copied(struct replicas *w, uint32_t server, uint32_t key)
{
    const float *row = shards_row(w->servers[server].shard, OTHER, w->keys[key]);
    return row != NULL ? *row : 0;
}

static uint32_t partition_of(const struct replicas *w, uint32_t key)
{
    return roster_partition(REPLICAS_BITS, w->spec.space, w->keys[key]);
}

// Returns whether both members of each chain have the value in the copy, and the third
// server has no row.
static bool all_copied(struct replicas *w, float value)
{
    bool all = true;
    for (uint32_t k = 0; k < REPLICAS_PUSH_KEYS; k++)
        for (uint32_t i = 0; i < MEMBERS; i++) {
            uint32_t first = partition_of(w, some[k]) % SPREAD;
            bool member = i == first || i == first + 1;
            all &= copied(w, i, some[k]) == (member ? value : 0); // NOLINT: exact
        }
    return all;
}

static void push_some(struct replicas *w)
{
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
}

static void test_copy_and_mean(void **state)
{
    (void)state;
    struct replicas *w = open_world();
    push_some(w);
    send_to_leaders(w, (struct msg_table_do){.what = WIRE_COPY, .other = OTHER});
    REPLICAS_UNTIL(w, all_copied(w, 1));
    push_some(w);
    send_to_leaders(
        w, (struct msg_table_do){.what = WIRE_MEAN, .other = OTHER, .threshold = 0.5f});
    REPLICAS_UNTIL(w, all_copied(w, 1.5f));
    push_some(w);
    send_to_leaders(w, (struct msg_table_do){.what = WIRE_COPY, .other = OTHER});
    REPLICAS_UNTIL(w, all_copied(w, 3));
    assert_string_equal(w->refusal, "");
    assert_int_equal(w->out, 0);
    replicas_close(w);
}

// Does the operation at server 0, as if its request had arrived. Memory is out after n
// allocations.
static int lead(struct replicas *w, uint8_t what, int n)
{
    const union wire_any m = {.table_do = {.table = w->spec.id,
                                           .what = what,
                                           .other = OTHER,
                                           .threshold = 0.5f,
                                           .number = ++operations,
                                           .low = operations}};
    struct shard_peer peer = {.session = REPLICAS_SESSION};
    const struct shard_request q = {.peer = &peer, .type = MSG_TABLE_DO, .m = &m};
    struct shard *s = w->servers[0].shard;
    enum admin_state state = ADMIN_NEW;
    uint64_t value;
    OK(chain_find_left(s, &q, &state, &value, &ok_e));
    assert_int_equal(s->chain->n_left, REPLICAS_PARTITIONS / SPREAD);
    mem_fault_after(n);
    return copies_do(s, s->tables[w->spec.id], &m.table_do, NULL);
}

// Memory is out at the leader after n allocations: the rows of its backup are the same, or
// the backup leaves the chain of the partition that was copied in part. Returns whether that
// many allocations were made.
static bool fails_at_leader(uint8_t what, int n, bool *ret_left)
{
    struct replicas *w = open_world();
    push_some(w);
    assert_int_equal(lead(w, WIRE_COPY, -1), 0);
    push_some(w);
    int rc = lead(w, what, n);
    bool faulted = mem_faulted();
    mem_fault_after(-1);
    replicas_run(w, 3 * SECOND_NS);
    for (uint32_t k = 0; k < REPLICAS_PUSH_KEYS; k++) {
        bool led = partition_of(w, some[k]) % SPREAD == 0;
        if (led && w->out == 0)
            assert_true(copied(w, 0, some[k]) == copied(w, 1, some[k]));
    }
    assert_true(w->out == 0 || (rc != 0 && w->out == replicas_id(1)));
    *ret_left |= w->out != 0;
    replicas_close(w);
    return faulted;
}

static void test_fails_at_leader(void **state)
{
    (void)state;
    static const uint8_t whats[] = {WIRE_COPY, WIRE_MEAN};
    for (uint32_t i = 0; i < 2; i++) {
        bool left = false;
        for (int n = 0; fails_at_leader(whats[i], n, &left); n++)
            assert_true(n < 1000);
        assert_true(left);
    }
}

// A backup without memory for more rows of a copy leaves its chains.
static void fails_at_backup(uint8_t what)
{
    static const uint32_t others[] = {1, 4, 7, 10, 13, 16};
    struct replicas *w = open_world();
    push_some(w);
    send_to_leaders(w, (struct msg_table_do){.what = WIRE_COPY, .other = OTHER});
    REPLICAS_UNTIL(w, all_copied(w, 1));
    replicas_add_op(w, false, others, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    assert_int_equal(w->out, 0);
    w->servers[2].shard->o.max_bytes = 1;
    send_to_leaders(
        w, (struct msg_table_do){.what = what, .other = OTHER, .threshold = 0.5f});
    REPLICAS_UNTIL(w, w->out == replicas_id(2));
    assert_int_equal(w->out_code, TUG_ENOMEM);
    replicas_close(w);
}

static void test_fails_at_backup(void **state)
{
    (void)state;
    fails_at_backup(WIRE_COPY);
    fails_at_backup(WIRE_MEAN);
}

// A mean that was done before its leader has died is not done again there.
static void test_mean_once(void **state)
{
    (void)state;
    const struct msg_table_do mean = {
        .what = WIRE_MEAN, .other = OTHER, .threshold = 0.5f};
    struct replicas *w = open_world();
    push_some(w);
    send_to_leaders(w, (struct msg_table_do){.what = WIRE_COPY, .other = OTHER});
    REPLICAS_UNTIL(w, all_copied(w, 1));
    push_some(w);
    operations++;
    send_again(w, 0, mean);
    for (uint32_t k = 0; k < REPLICAS_PUSH_KEYS; k++)
        if (partition_of(w, some[k]) % SPREAD == 0)
            REPLICAS_UNTIL(w, copied(w, 1, some[k]) == 1.5f); // NOLINT: exact
    replicas_crash(w, 0);
    replicas_take_out(w, 0);
    replicas_run(w, SECOND_NS);
    send_again(w, 1, mean);
    replicas_run(w, SECOND_NS);
    for (uint32_t k = 0; k < REPLICAS_PUSH_KEYS; k++)
        assert_true(copied(w, 1, some[k]) == 1.5f); // NOLINT: exact
    replicas_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy_and_mean),
        cmocka_unit_test(test_fails_at_leader),
        cmocka_unit_test(test_fails_at_backup),
        cmocka_unit_test(test_mean_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
