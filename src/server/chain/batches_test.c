// Synchronous batches with replicas, one case after the other. A batch has two parts, each
// with half of its micro-batches.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/random.h"
#include "kit/replicas.h"
#include "protocol/limits.h"
#include "rule/rule.h"
#include "server/chain/records.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

enum { MS = 1000000 };

static const uint32_t some[] = {0, 3, 6, 9, 12, 15}; // keys of six partitions

static struct shard_table *table_on(const struct replicas *w, uint32_t server)
{
    return w->servers[server].shard->tables[REPLICAS_TABLE];
}

// Sends half of a batch to a server, with n keys and their values. `number` is that of the
// push.
static void send_values(struct replicas *w, uint32_t server, uint64_t number,
                        uint64_t clock, int half, uint32_t n, const float *values)
{
    uint64_t keys[REPLICAS_PUSH_KEYS];
    for (uint32_t i = 0; i < n; i++)
        keys[i] = w->keys[some[i]];
    replicas_send_half(w, server, number, clock, half, n, keys, values);
}

// Does the same; the value of each key is `value`.
static void send_half(struct replicas *w, uint32_t server, uint64_t number,
                      uint64_t clock, int half, uint32_t n, float value)
{
    float values[REPLICAS_PUSH_KEYS];
    for (uint32_t i = 0; i < n; i++)
        values[i] = value;
    send_values(w, server, number, clock, half, n, values);
}

// Returns the number of the next batch of a partition on a server.
static uint64_t next_on(const struct replicas *w, uint32_t server, uint32_t partition)
{
    return sync_group_of(table_on(w, server), partition)->clock.next;
}

static uint32_t parts_on(const struct replicas *w, uint32_t server, uint32_t partition)
{
    const struct sync_group *g = sync_group_of(table_on(w, server), partition);
    return g->clock.open[g->clock.next % SHARD_MAX_CLOCKS].n;
}

// All members keep the parts, also in partitions without keys of the push, and apply the
// batch.
static void test_batch(void **state)
{
    (void)state;
    for (uint32_t replicas = 2; replicas <= 3; replicas++) {
        struct replicas *w = replicas_open_with_mode(replicas, replicas, CONFIG_SYNC);
        send_half(w, 0, 1, 0, 0, 6, 3);
        REPLICAS_UNTIL(w, w->tables == 1);
        for (uint32_t i = 1; i < replicas; i++)
            for (uint32_t p = 0; p < REPLICAS_PARTITIONS; p++)
                assert_true(parts_on(w, i, p) == 1 && next_on(w, i, p) == 0);
        send_half(w, 0, 2, 0, 1, 4, 4);
        REPLICAS_UNTIL(w, w->tables == 2);
        for (uint32_t i = 0; i < replicas; i++) {
            assert_true(next_on(w, i, 0) == 1 && next_on(w, i, 7) == 1);
            assert_true(parts_on(w, i, 0) == 0);
            assert_true(replicas_value(w, i, some[0]) == 7);
            assert_true(replicas_value(w, i, some[5]) == 3);
        }
        // The backup's clock does not hold up, or run ahead of, the batches of the loop.
        assert_int_equal(sync_most(table_on(w, 1)), 0);
        assert_true(sync_least(table_on(w, 1)) == UINT64_MAX);
        replicas_close(w);
    }
}

// A part is not acknowledged while the backup cannot be reached, also if the part has no
// keys.
static void test_answers_wait(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_mode(2, 2, CONFIG_SYNC);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
    send_half(w, 0, 1, 0, 0, 0, 0);
    replicas_run(w, SECOND_NS);
    assert_true(parts_on(w, 0, 0) == 1 && parts_on(w, 1, 0) == 0 && w->tables == 0);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, false);
    REPLICAS_UNTIL(w, w->tables == 1);
    assert_int_equal(parts_on(w, 1, 0), 1);
    replicas_close(w);
}

// The owner dies between two parts: its successor has the first one, and finds a repeat.
static void test_promotion(void **state)
{
    (void)state;
    for (uint32_t replicas = 2; replicas <= 3; replicas++) {
        struct replicas *w = replicas_open_with_mode(replicas, replicas, CONFIG_SYNC);
        send_half(w, 0, 1, 0, 0, 6, 1);
        send_half(w, 0, 2, 0, 1, 6, 1);
        send_half(w, 0, 3, 1, 0, 6, 5);
        REPLICAS_UNTIL(w, w->tables == 3);
        replicas_crash(w, 0);
        replicas_take_out(w, 0);
        REPLICAS_UNTIL(w, !sync_group_of(table_on(w, 1), 0)->away);
        send_half(w, 1, 3, 1, 0, 6, 5);
        send_half(w, 1, 4, 1, 1, 6, 6);
        REPLICAS_UNTIL(w, w->tables == 5);
        assert_int_equal(table_on(w, 1)->figures.repeats, 1);
        for (uint32_t i = 1; i < replicas; i++)
            assert_true(replicas_value(w, i, 0) == 13 && next_on(w, i, 0) == 2);
        // The groups of single partitions have joined again.
        assert_true(!table_on(w, 1)->sync_empty && table_on(w, 1)->sync.next == NULL);
        replicas_close(w);
    }
}

// The owner has no memory for the rows of a batch that is complete. The backup applies it
// only when it is the owner.
static void test_owner_decides(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_mode(2, 2, CONFIG_SYNC);
    struct shard *s = w->servers[0].shard;
    s->o.max_bytes = 1;
    send_half(w, 0, 1, 0, 0, 6, 1);
    send_half(w, 0, 2, 0, 1, 6, 1);
    REPLICAS_UNTIL(w, w->tables == 2);
    assert_true(table_on(w, 0)->stuck.code != 0);
    assert_true(parts_on(w, 1, 0) == 2 && next_on(w, 1, 0) == 0);
    assert_true(replicas_value(w, 1, 0) == 0);
    replicas_crash(w, 0);
    replicas_take_out(w, 0);
    REPLICAS_UNTIL(w, next_on(w, 1, 0) == 1);
    assert_true(replicas_value(w, 1, 0) == 2 && replicas_value(w, 1, 15) == 2);
    replicas_close(w);
}

// A member that is filled gets the parts of the open batch with the facts, and later parts
// by records.
static void test_fill(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_mode(2, 1, CONFIG_SYNC);
    send_half(w, 0, 1, 0, 0, 6, 1);
    REPLICAS_UNTIL(w, w->tables == 1);
    replicas_begin_fill(w, 0, 1);
    REPLICAS_UNTIL(w, w->arrived);
    assert_int_equal(parts_on(w, 1, 0), 1);
    send_half(w, 0, 2, 0, 1, 6, 1);
    REPLICAS_UNTIL(w, w->tables == 2);
    replicas_end_fill(w, true);
    replicas_run(w, 100 * MS);
    assert_true(replicas_value(w, 1, 0) == 2 && next_on(w, 1, 0) == 1);
    replicas_close(w);
}

// A member that leaves the chain forgets the parts that no other member has. So if it is
// filled again and promoted, it takes the worker's repeat of such a part.
static void test_forgotten(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_mode(2, 2, CONFIG_SYNC);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
    send_half(w, 0, 1, 0, 0, 6, 1);
    replicas_run(w, SECOND_NS);
    assert_true(parts_on(w, 0, 0) == 1 && parts_on(w, 1, 0) == 0 && w->tables == 0);
    replicas_take_out(w, 0);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, false);
    REPLICAS_UNTIL(w, roles_of(&w->servers[0].shard->roles, WIRE_SPACE_SPARSE, 0) ==
                          ROLE_AWAY);
    replicas_begin_fill(w, 0, 0);
    REPLICAS_UNTIL(w, w->arrived);
    replicas_end_fill(w, true);
    replicas_run(w, SECOND_NS);
    w->chains[0][0] = replicas_id(0);
    w->chains[0][1] = 0;
    w->epoch++;
    replicas_send_rosters(w);
    replicas_run(w, SECOND_NS);
    send_half(w, 0, 1, 0, 0, 1, 1);
    REPLICAS_UNTIL(w, w->tables == 1);
    assert_int_equal(parts_on(w, 0, 0), 1);
    replicas_close(w);
}

enum { BATCHES = 6, DEATH = 3 };

// Trains a table whose rule has a state, and whose gradients are divided by the examples.
// The owner may die between the parts of batch DEATH. Returns the weights in *ret.
static void train(bool dies, float ret[REPLICAS_PUSH_KEYS])
{
    static const struct shard_options plain;
    struct replicas *w = replicas_open(1, 2, 2, 1, &plain);
    struct table_config c = table_config_defaults();
    uint32_t server = 0;
    snprintf(c.name, sizeof(c.name), "t");
    c.accessor.dim = 1;
    c.accessor.rule = rule_defaults(RULE_ADAGRAD);
    c.mode = CONFIG_SYNC;
    c.mean = true;
    OK(spec_make(&w->spec, REPLICAS_TABLE, &c, &ok_e));
    replicas_make_table(w);
    w->tables = 0;
    for (uint64_t i = 0; i < (uint64_t)2 * BATCHES; i++) {
        float values[REPLICAS_PUSH_KEYS];
        if (dies && i == 2 * DEATH + 1) {
            server = 1;
            replicas_crash(w, 0);
            replicas_take_out(w, 0);
            REPLICAS_UNTIL(w, !sync_group_of(table_on(w, 1), 0)->away);
        }
        for (uint64_t k = 0; k < REPLICAS_PUSH_KEYS; k++)
            values[k] = random_f32(7, 1, i * REPLICAS_PUSH_KEYS + k) - 0.3f;
        send_values(w, server, i, i / 2, i % 2 == 0 ? 0 : 1, REPLICAS_PUSH_KEYS, values);
        REPLICAS_UNTIL(w, w->tables == i + 1);
    }
    for (uint32_t k = 0; k < REPLICAS_PUSH_KEYS; k++) {
        ret[k] = replicas_value(w, server, some[k]);
        assert_true(ret[k] != 0);
        assert_true(dies || ret[k] == replicas_value(w, 1, some[k]));
    }
    replicas_close(w);
}

// A run in which the owner dies has the bits of one without a death.
static void test_same_bits(void **state)
{
    (void)state;
    float without[REPLICAS_PUSH_KEYS], with[REPLICAS_PUSH_KEYS];
    train(false, without);
    train(true, with);
    assert_memory_equal(without, with, sizeof(with));
}

// The entry policies of two members have counted different batches. Keys still get rows on
// both, or on neither.
static void test_policies_differ(void **state)
{
    (void)state;
    static const struct shard_options plain;
    static const float values[REPLICAS_PUSH_KEYS] = {1, 1, 1, 1, 1, 1};
    struct replicas *w = replicas_open(1, 2, 2, 1, &plain);
    struct table_config c = w->spec.config;
    c.mode = CONFIG_SYNC;
    OK(entry_parse("count:2", &c.entry, &ok_e));
    OK(spec_make(&w->spec, REPLICAS_TABLE, &c, &ok_e));
    replicas_make_table(w);
    w->tables = 0;
    replicas_run(w, SECOND_NS);
    replicas_count_once(w, 0, some[0]);
    replicas_count_once(w, 1, some[2]);
    for (uint64_t batch = 0; batch < 2; batch++) {
        send_values(w, 0, 2 * batch, batch, 0, 3, values);
        send_values(w, 0, 2 * batch + 1, batch, 1, 1, values);
        REPLICAS_UNTIL(w, w->tables == 2 * (batch + 1));
        for (uint32_t k = 0; k < 3; k++)
            assert_true(replicas_value(w, 0, some[k]) == replicas_value(w, 1, some[k]));
        assert_true(replicas_value(w, 0, some[0]) > 0);
        assert_true((replicas_value(w, 0, some[2]) > 0) == (batch == 1));
    }
    replicas_close(w);
}

static void test_damaged_records(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_mode(2, 2, CONFIG_SYNC);
    struct shard *s = w->servers[1].shard;
    uint64_t common[12] = {REPLICAS_SESSION, 7, 0, 0, REPLICAS_TABLE};
    uint32_t micro[2] = {0, SHARD_MICROS};
    memcpy(&common[9], micro, sizeof(micro));
    struct channel_place place = {.partition = 1};
    struct channel_record r = {.kind = RECORD_PART,
                               .space = WIRE_SPACE_SPARSE,
                               .bits = REPLICAS_BITS,
                               .n_places = 1,
                               .places = &place,
                               .common = (const void *)common,
                               .n_common = sizeof(common),
                               .each = {8, 4}};
    struct err e;
    uint32_t n;
    s->chain->of[WIRE_SPACE_SPARSE][1].applies = true;
    micro[1] = 3; // not a power of two
    memcpy(&common[9], micro, sizeof(micro));
    assert_int_equal(records_apply(s, &r, &n, &e), TUG_EDATA);
    micro[1] = SHARD_MICROS;
    memcpy(&common[9], micro, sizeof(micro));
    common[7] = SHARD_MAX_CLOCKS; // too far ahead
    assert_int_equal(records_apply(s, &r, &n, &e), TUG_EDATA);
    common[7] = 0;
    OK(records_apply(s, &r, &n, &e));
    assert_int_equal(n, 1);
    assert_int_equal(records_apply(s, &r, &n, &e), TUG_EDATA); // it has this part
    common[4] = REPLICAS_TABLE + 1;                            // no such table
    assert_int_equal(records_apply(s, &r, &n, &e), TUG_EDATA);
    uint64_t batch[3] = {REPLICAS_TABLE, 1, 0};
    r.kind = RECORD_BATCH;
    r.each[0] = r.each[1] = 0;
    r.common = (const void *)batch;
    r.n_common = sizeof(batch);
    assert_int_equal(records_apply(s, &r, &n, &e), TUG_EDATA); // not the next batch
    batch[1] = 0;
    OK(records_apply(s, &r, &n, &e));
    assert_int_equal(next_on(w, 1, 1), 1);
    assert_int_equal(next_on(w, 1, 2), 0);
    place.partition = 2; // its batch lacks parts
    s->chain->of[WIRE_SPACE_SPARSE][2].applies = true;
    sync_group_of(table_on(w, 1), 2)->told = true;
    assert_int_equal(records_apply(s, &r, &n, &e), TUG_EDATA);
    replicas_close(w);
}

// A load that is refused before it changes rows leaves the parts of open batches alone.
static void test_refused_load(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_mode(2, 2, CONFIG_SYNC);
    send_half(w, 0, 1, 0, 0, 6, 3);
    REPLICAS_UNTIL(w, w->tables == 1 && parts_on(w, 1, 0) == 1);
    struct msg_load m = {.table = w->spec.id,
                         .epoch = w->epoch,
                         .clear = 1,
                         .number = 1,
                         .low = 1,
                         .path = wire_text("wrong"),
                         .checksum = 1,
                         .name = wire_text("t")};
    van_send(w->worker, w->servers[0].s.link, MSG_LOAD, REPLICAS_OTHER + 77, &m, NULL);
    REPLICAS_UNTIL(w, w->refusal[0] != '\0');
    assert_int_equal(parts_on(w, 0, 0), 1);
    send_half(w, 0, 2, 0, 1, 4, 4);
    REPLICAS_UNTIL(w, next_on(w, 0, 0) == 1 && next_on(w, 1, 0) == 1);
    replicas_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch),           cmocka_unit_test(test_forgotten),
        cmocka_unit_test(test_answers_wait),    cmocka_unit_test(test_promotion),
        cmocka_unit_test(test_owner_decides),   cmocka_unit_test(test_fill),
        cmocka_unit_test(test_same_bits),       cmocka_unit_test(test_policies_differ),
        cmocka_unit_test(test_damaged_records), cmocka_unit_test(test_refused_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
