// Partitions of a sync table that move between two shards: each has its own parts of
// batches, and no part is lost or counted twice.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/lone_shard.h"
#include "kit/test.h"
#include "server/moves/partition.h"

enum { BITS = 3, PARTITIONS = 1 << BITS, KEYS = 4000, WIDTH = 2, T = 2, P = 2 };

static const struct shard_options plain;
static uint64_t all_keys[KEYS], keys[KEYS]; // keys of all partitions, and of partition P
static float values[KEYS * WIDTH];
static uint32_t n_keys;

static struct lone *open_sync(const struct shard_options *o)
{
    struct lone *w = lone_open(BITS, o);
    struct table_spec s = lone_plain_spec(T, WIRE_SYNC, WIDTH);
    lone_make_table(w, &s);
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS / 2, 1, all_keys);
    n_keys = 0;
    for (uint32_t i = 0; i < n; i++)
        if (roster_partition(BITS, WIRE_SPACE_SPARSE, all_keys[i]) == P)
            keys[n_keys++] = all_keys[i];
    assert_true(n_keys > 2);
    return w;
}

static struct shard_table *table_of(struct lone *w)
{
    return w->shard->tables[T];
}

// Sends a part of a batch with these keys; all gradients are 1.
static void send_part(struct lone *w, uint32_t worker, uint64_t clock, uint8_t micro,
                      uint8_t micros, const uint64_t *k, uint32_t n, uint8_t flags)
{
    for (uint32_t i = 0; i < n * WIDTH; i++)
        values[i] = 1;
    struct msg_push m = lone_push_of(w, worker, T, k, n, values, WIDTH);
    m.clock = clock;
    m.micro = micro;
    m.micros = micros;
    m.flags = (uint8_t)(m.flags | flags);
    lone_send_push(w, worker, &m);
}

static void part(struct lone *w, uint64_t clock, uint8_t micro, uint8_t micros,
                 uint32_t n)
{
    send_part(w, 0, clock, micro, micros, keys, n, 0);
    lone_expect_ok(w);
}

static void give(struct lone *w, uint32_t partition, bool mine)
{
    w->mine[partition] = mine;
    w->epoch++;
    lone_send_roster(w);
}

static void move(struct lone *from, struct lone *to, uint32_t partition)
{
    struct err e;
    assert_int_equal(shards_move(from->shard, to->shard, partition, &e), 0);
}

static void drop(struct lone *w, uint32_t partition)
{
    struct err e;
    assert_int_equal(partition_drop(w->shard, WIRE_SPACE_SPARSE, partition, &e), 0);
}

// Opens two shards; b does not have partition P.
static void open_two(struct lone **a, struct lone **b)
{
    *a = open_sync(&plain);
    *b = lone_open(BITS, &plain);
    give(*b, P, false);
    drop(*b, P);
    lone_forget(*b);
    struct table_spec s = lone_plain_spec(T, WIRE_SYNC, WIDTH);
    lone_make_table(*b, &s);
}

static void close_two(struct lone *a, struct lone *b)
{
    lone_forget(a);
    lone_forget(b);
    // With SIZE_MAX, lone_close(b) checks no memory; lone_close(a) then checks the
    // memory of both shards.
    b->live = SIZE_MAX;
    lone_close(b);
    lone_close(a);
}

// The pushes to a shard reserve the memory to add up a batch. This batch arrives with its
// partition, so no push has reserved memory for it.
static void test_reserves_for_what_arrives(void **state)
{
    (void)state;
    struct lone *a, *b;
    open_two(&a, &b);
    part(a, 0, 0, SHARD_MICROS / 2, 1);
    part(a, 1, 0, SHARD_MICROS, n_keys);
    move(a, b, P);
    give(b, P, true);
    part(b, 0, SHARD_MICROS / 2, SHARD_MICROS / 2, 0);
    assert_int_equal(sync_group_of(table_of(b), P)->clock.next, 2);
    for (uint32_t i = 0; i < n_keys; i++)
        assert_non_null(shards_row(b->shard, T, keys[i]));
    close_two(a, b);
}

// After a shard has lost all its partitions, no request at this shard waits for a batch.
static void test_nothing_left(void **state)
{
    (void)state;
    struct lone *a, *b;
    open_two(&a, &b);
    struct msg_table_do day = {
        .what = WIRE_DAY, .table = T, .number = 1, .low = 1, .clock = 3};
    lone_deliver(a, WORKER_LINK, MSG_TABLE_DO, 98, &day);
    assert_null(a->sent);
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        a->mine[p] = false;
        if (p != P)
            drop(b, p);
    }
    a->epoch++;
    lone_send_roster(a);
    for (uint32_t p = 0; p < PARTITIONS; p++)
        if (store_owns(table_of(a)->store, p))
            move(a, b, p);
    lone_expect_ok(a); // the answer to the pull that had waited for the batch
    assert_int_equal(lone_figures(a, T).clock, UINT64_MAX);
    day.number = 2;
    day.clock = 5;
    lone_deliver(a, WORKER_LINK, MSG_TABLE_DO, 99, &day);
    lone_expect_ok(a);
    send_part(a, 0, 7, 0, 1, NULL, 0, 0);
    lone_expect_ok(a);
    struct msg_pull pull = lone_pull_of(a, 1, T, NULL, 0);
    pull.clock = 7;
    lone_send_pull(a, 1, &pull);
    parcel_unpin(lone_expect(a, MSG_PULLED));
    lone_pass_time(a, 700 * SECOND_NS);
    close_two(a, b);
}

// The roster that gives a partition to a shard may arrive before the rows of the
// partition. Parts of batches then wait for the rows. With the rows come the parts that
// had arrived at the other shard.
static void test_roster_comes_first(void **state)
{
    (void)state;
    struct lone *a, *b;
    open_two(&a, &b);
    part(a, 0, 0, SHARD_MICROS / 2, n_keys);
    send_part(b, 0, 0, 0, SHARD_MICROS / 2, NULL, 0, 0);
    lone_expect_ok(b);
    give(b, P, true);
    send_part(b, 1, 0, SHARD_MICROS / 2, SHARD_MICROS / 2, keys, n_keys, 0);
    assert_null(b->sent);
    struct msg_pull pull = lone_pull_of(b, 2, T, keys, n_keys);
    lone_send_pull(b, 2, &pull);
    assert_null(b->sent);
    move(a, b, P);
    lone_pass_time(b, 1);
    lone_expect_ok(b);
    parcel_unpin(lone_expect(b, MSG_PULLED));
    assert_int_equal(sync_group_of(table_of(b), P)->clock.next, 1);
    assert_int_equal(table_of(b)->sync.clock.next, 1);
    assert_null(table_of(b)->sync.next); // the partition has joined the others
    close_two(a, b);
}

// The roster gives a partition to another shard before its rows move. The partition
// leaves the common group, keeps all parts that have arrived, and gets no more.
static void test_parts(void **state)
{
    (void)state;
    struct lone *a, *b;
    open_two(&a, &b);
    part(a, 0, 0, SHARD_MICROS / 2, n_keys);
    give(a, P, false);
    struct sync_group *g = sync_group_of(table_of(a), P);
    assert_ptr_not_equal(g, &table_of(a)->sync);
    assert_true(g->away);
    send_part(a, 0, 0, SHARD_MICROS / 2, SHARD_MICROS / 2, NULL, 0, 0);
    lone_expect_ok(a);
    assert_int_equal(table_of(a)->sync.clock.next, 1);
    assert_int_equal(g->clock.next, 0);
    // The roster gives the partition back before its rows have moved. It is now behind
    // the other partitions, which have received further parts.
    give(a, P, true);
    assert_false(g->away);
    part(a, 0, SHARD_MICROS / 2, SHARD_MICROS / 2, n_keys);
    assert_null(table_of(a)->sync.next);
    assert_non_null(shards_row(a->shard, T, keys[0]));
    close_two(a, b);
}

// The only partition of a shard becomes its common group.
static void test_becomes_the_common_group(void **state)
{
    (void)state;
    struct lone *a, *b;
    open_two(&a, &b);
    part(a, 0, 0, SHARD_MICROS, n_keys);
    part(a, 1, 0, 4, n_keys);
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        b->mine[p] = false;
        drop(b, p);
    }
    give(b, P, true);
    assert_true(table_of(b)->sync_empty);
    move(a, b, P);
    lone_pass_time(b, 1);
    assert_false(table_of(b)->sync_empty);
    assert_null(table_of(b)->sync.next);
    assert_int_equal(table_of(b)->sync.clock.next, 1);
    assert_int_equal(table_of(b)->sync.clock.open[1].covered, 0xf);
    close_two(a, b);
}

// The pushes of a table always have the same keys. A partition without these keys does
// not delay the others.
static void test_same_keys(void **state)
{
    (void)state;
    struct lone *a, *b;
    uint64_t one = 0;
    open_two(&a, &b);
    uint32_t n = lone_draw_keys(b, WIRE_SPACE_SPARSE, 100, 1, all_keys);
    assert_true(n > 0);
    one = all_keys[0];
    send_part(b, 0, 0, 0, SHARD_MICROS, &one, 1, WIRE_KEYS_ONLY);
    lone_expect_ok(b);
    move(a, b, P); // moves a partition of which no push has had keys
    give(b, P, true);
    lone_forget(b);
    assert_true(sync_is_idle(table_of(b), sync_group_of(table_of(b), P)));
    for (uint64_t clock = 1; clock < 3 * SHARD_MAX_CLOCKS; clock++) {
        send_part(b, 0, clock, 0, SHARD_MICROS, &one, 1, WIRE_KEYS_ONLY);
        lone_expect_ok(b);
    }
    assert_int_equal(lone_figures(b, T).clock, 3 * SHARD_MAX_CLOCKS);
    close_two(a, b);
}

// The pushes of a table always have the same keys, all in partition P, which moves away
// and back. The partitions that stay do not wait for batches of which they get no part.
static void test_same_keys_move(void **state)
{
    (void)state;
    struct lone *a, *b;
    open_two(&a, &b);
    uint32_t n = lone_draw_keys(a, WIRE_SPACE_SPARSE, 100, 1, all_keys), at = 0;
    while (roster_partition(BITS, WIRE_SPACE_SPARSE, all_keys[at]) == P)
        at++;
    assert_true(at < n);
    uint64_t one = all_keys[at];
    uint32_t keyed = roster_partition(BITS, WIRE_SPACE_SPARSE, one);
    drop(b, keyed);
    give(b, keyed, false);
    lone_forget(b);
    send_part(a, 0, 0, 0, SHARD_MICROS, &one, 1, WIRE_KEYS_ONLY);
    lone_expect_ok(a);
    send_part(a, 0, 1, 0, SHARD_MICROS / 2, &one, 1, WIRE_KEYS_ONLY);
    lone_expect_ok(a);
    // Moves a partition whose group has received one part of a batch and
    // will receive no more.
    move(a, b, P);
    give(a, P, false);
    give(b, P, true);
    assert_true(sync_is_idle(table_of(b), sync_group_of(table_of(b), P)));
    move(a, b, keyed);
    give(a, keyed, false);
    give(b, keyed, true);
    lone_forget(a);
    lone_forget(b);
    assert_true(sync_is_idle(table_of(a), &table_of(a)->sync));
    // Worker 1 sends the push, because b would take a push with worker 0's
    // first number for a repeat.
    send_part(b, 1, 1, SHARD_MICROS / 2, SHARD_MICROS / 2, &one, 1, WIRE_KEYS_ONLY);
    lone_expect_ok(b);
    for (uint64_t clock = 2; clock < 9; clock++) {
        send_part(b, 1, clock, 0, SHARD_MICROS, &one, 1, WIRE_KEYS_ONLY);
        lone_expect_ok(b);
    }
    assert_int_equal(lone_figures(b, T).clock, 9);
    move(b, a, keyed);
    give(b, keyed, false);
    give(a, keyed, true);
    lone_forget(a);
    lone_forget(b);
    assert_int_equal(lone_figures(a, T).clock, 9);
    send_part(a, 0, 9, 0, SHARD_MICROS, &one, 1, WIRE_KEYS_ONLY);
    lone_expect_ok(a);
    assert_int_equal(lone_figures(a, T).clock, 10);
    close_two(a, b);
}

// The pushes of a table always have the same keys. A partition without these keys moves
// to a shard that gets no pushes, and then a partition with these keys follows. The first
// partition must not delay the pushes to the second.
static void test_same_keys_follow(void **state)
{
    (void)state;
    struct lone *a, *b;
    enum { Q = 1 };
    open_two(&a, &b);
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        b->mine[p] = false;
        drop(b, p);
    }
    give(b, Q, true);
    for (uint64_t clock = 0; clock < 3 * SHARD_MAX_CLOCKS; clock++) {
        send_part(a, 0, clock, 0, SHARD_MICROS, keys, 1, WIRE_KEYS_ONLY);
        lone_expect_ok(a);
        if (clock == 1) {
            move(a, b, Q);
            give(a, Q, false);
            lone_forget(b);
        }
    }
    // No partition with keys is here, so the shard expects no batch.
    assert_int_equal(lone_figures(b, T).clock, UINT64_MAX);
    // A part of a batch is on the way when the partition with keys moves.
    uint64_t clock = 3 * SHARD_MAX_CLOCKS;
    send_part(a, 0, clock, 0, 1, keys, 1, WIRE_KEYS_ONLY);
    lone_expect_ok(a);
    move(a, b, P);
    give(a, P, false);
    give(b, P, true);
    lone_forget(a);
    lone_forget(b);
    assert_false(table_of(a)->sync.told);
    // Worker 0 continues to number its pushes at the other shard.
    b->number[0] = a->number[0];
    for (uint8_t micro = 1; micro < SHARD_MICROS; micro++) {
        send_part(b, 0, clock, micro, 1, keys, 1, WIRE_KEYS_ONLY);
        lone_expect_ok(b);
    }
    send_part(b, 0, clock + 1, 0, SHARD_MICROS, keys, 1, WIRE_KEYS_ONLY);
    lone_expect_ok(b);
    assert_true(*shards_row(b->shard, T, keys[0]) == (float)(clock + SHARD_MICROS + 1));
    assert_int_equal(lone_figures(b, T).clock, clock + 2);
    close_two(a, b);
}

static void expect_rows(struct lone *w, float expected)
{
    struct parcel *p = lone_expect(w, MSG_PULLED);
    assert_true(*(const float *)p->m.pulled.values.data == expected);
    parcel_unpin(p);
}

// A pull of keys that are in each batch waits for the batch before its clock, even at a
// shard that has just received the partition and no push, for instance because the push
// was sent to the old owner.
static void test_pull_waits_for_same_keys(void **state)
{
    (void)state;
    struct lone *a, *b;
    open_two(&a, &b);
    send_part(a, 0, 0, 0, SHARD_MICROS, keys, 1, WIRE_KEYS_ONLY);
    lone_expect_ok(a);
    move(a, b, P);
    give(a, P, false);
    give(b, P, true);
    struct msg_table_do o = {.table = T, .what = WIRE_CLOCK, .clock = 8, .number = 1};
    lone_forget(b);
    lone_deliver(b, WORKER_LINK, MSG_TABLE_DO, ++b->next_request, &o);
    lone_expect_ok(b);
    assert_int_equal(lone_figures(b, T).clock, 8);
    for (int told = 1; told >= 0; told--) {
        uint64_t clock = told ? 8 : 9;
        struct msg_pull m = lone_pull_of(b, 1, T, keys, 1);
        m.clock = clock + 1;
        sync_group_of(table_of(b), P)->told = told;
        lone_send_pull(b, 1, &m);
        assert_null(b->sent);
        send_part(b, 1, clock, 0, SHARD_MICROS, keys, 1, WIRE_KEYS_ONLY);
        lone_expect_ok(b);
        expect_rows(b, told ? 2 : 3);
    }
    close_two(a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reserves_for_what_arrives),
        cmocka_unit_test(test_nothing_left),
        cmocka_unit_test(test_roster_comes_first),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_becomes_the_common_group),
        cmocka_unit_test(test_same_keys),
        cmocka_unit_test(test_same_keys_move),
        cmocka_unit_test(test_same_keys_follow),
        cmocka_unit_test(test_pull_waits_for_same_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
