// A partition that moves as bytes: the other shard serves it as this one did, whatever the
// mode, and damaged bytes change nothing.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/moves/partition.h"

#include "kit/lone_shard.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/random.h"
#include "kit/test.h"
#include "store/parcel.h"

enum { BITS = 3, P = 2, WIDTH = 2, KEYS = 400, ASYNC = 2, SYNC = 3, SSP = 4, DENSE = 5 };

static const struct shard_options plain;
static float values[KEYS * WIDTH];

static void make_tables(struct lone *w)
{
    for (uint32_t id = ASYNC; id <= DENSE; id++) {
        static const enum wire_mode modes[] = {[ASYNC] = WIRE_ASYNC,
                                               [SYNC] = WIRE_SYNC,
                                               [SSP] = WIRE_SSP,
                                               [DENSE] = WIRE_ASYNC};
        struct table_spec s = lone_plain_spec(id, modes[id], WIDTH);
        s.config.staleness = id == SSP ? 1 : 0;
        if (id == DENSE)
            s.config.place = lone_place_of(WIRE_SPACE_DENSE);
        lone_make_table(w, &s);
    }
}

// Opens a shard with the partitions below `end`, without those whose number modulo 4 is
// 3.
static struct lone *open_with(uint32_t end, const struct shard_options *o)
{
    struct lone *w = lone_open_shard(BITS, o);
    for (uint32_t p = end; p < 1u << BITS; p++)
        w->mine[p] = false;
    lone_begin(w, WORKERS);
    return w;
}

static struct lone *open_full(void)
{
    struct lone *w = open_with(1u << BITS, &plain);
    make_tables(w);
    return w;
}

static uint32_t keys_of(struct lone *w, enum wire_space space, bool all, uint64_t *ret)
{
    uint64_t keys[KEYS];
    uint32_t n = lone_draw_keys(w, space, KEYS, 1, keys), found = 0;
    for (uint32_t i = 0; i < n; i++)
        if (all || roster_partition(BITS, space, keys[i]) == P)
            ret[found++] = keys[i];
    return found;
}

static struct msg_push push_of(struct lone *w, uint32_t worker, uint32_t table, bool all,
                               uint64_t *keys, uint64_t draw)
{
    enum wire_space space = table == DENSE ? WIRE_SPACE_DENSE : WIRE_SPACE_SPARSE;
    uint32_t n = keys_of(w, space, all, keys);
    for (uint32_t i = 0; i < n * WIDTH; i++)
        values[i] = (float)random_below(1, draw, i, 100);
    return lone_push_of(w, worker, table, keys, n, values, WIDTH);
}

// Trains a little: pushes with and without an identity, ticks, steps, and parts of batches.
static void train(struct lone *w)
{
    uint64_t keys[KEYS];
    for (uint32_t table = ASYNC; table <= DENSE; table++)
        for (uint32_t i = 0; i < 6; i++) {
            struct msg_push m = push_of(w, i % WORKERS, table, true, keys, i);
            if (table == SYNC) {
                m.clock = i / 2;
                m.micro = (uint8_t)(i % 2 * SHARD_MICROS / 2);
                m.micros = i < 4 ? SHARD_MICROS / 2 : 1;
                m.examples = 3 + i;
            } else if (i == 3) {
                m.id_pass = 1;
                m.id_piece = 7;
                m.id_group = 4;
                m.id_low = 2;
            }
            lone_send_push(w, i % WORKERS, &m);
            lone_expect_ok(w);
        }
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct msg_tick tick = {
            .table = SSP, .epoch = w->epoch, .session = lone_session(i), .clock = 3 + i};
        struct msg_step step = {
            .epoch = w->epoch, .session = lone_session(i), .steps = 10 * i};
        lone_deliver(w, WORKER_LINK + i, MSG_TICK, ++w->next_request, &tick);
        lone_deliver(w, WORKER_LINK + i, MSG_STEP, ++w->next_request, &step);
    }
    lone_forget(w);
}

static struct buf bytes_of(struct lone *w)
{
    struct buf bytes = BUF_INIT(64 << 20);
    struct err e;
    if (partition_get_rows(w->shard, WIRE_SPACE_SPARSE, P, &bytes, &e) != 0 ||
        partition_get_facts(w->shard, WIRE_SPACE_SPARSE, P, &bytes, &e) != 0)
        fail_msg("%s", e.text);
    return bytes;
}

static int put(struct lone *w, const struct buf *bytes, struct err *e)
{
    size_t used;
    bool settled;
    int rc = partition_put(w->shard, WIRE_SPACE_SPARSE, P, bytes->data, bytes->len, &used,
                           &settled, e);
    if (rc == 0 && !settled)
        rc = err_set(e, TUG_EDATA, "the bytes end too early");
    if (rc != 0)
        assert_int_equal(partition_drop(w->shard, WIRE_SPACE_SPARSE, P, NULL), 0);
    return rc;
}

static void check_same(const struct buf *a, const struct buf *b)
{
    assert_int_equal(a->len, b->len);
    assert_memory_equal(a->data, b->data, a->len);
}

static void give(struct lone *w, bool mine)
{
    w->mine[P] = mine;
    w->epoch++;
    lone_send_roster(w);
    lone_forget(w);
}

static void close_both(struct lone *a, struct lone *b)
{
    b->live = SIZE_MAX; // then only lone_close(a) checks the memory, that of both shards
    lone_close(b);
    lone_close(a);
}

// When a partition arrives at a shard that owns no partition of the space, the
// shard makes the tables of the record that it lacks, and removes the tables
// that the record lacks.
static void test_round_trip(void **state)
{
    (void)state;
    struct lone *a = open_full(), *b = open_with(0, &plain);
    struct table_spec other = lone_plain_spec(9, WIRE_ASYNC, WIDTH);
    // The record lacks this table, as if the other shard had dropped the table.
    lone_make_table(b, &other);
    train(a);
    struct buf x = bytes_of(a);
    struct err e;
    if (put(b, &x, &e) != 0)
        fail_msg("%s", e.text);
    struct buf y = bytes_of(b);
    check_same(&x, &y);
    assert_null(b->shard->tables[9]);
    assert_null(b->shard->tables[DENSE]);
    assert_int_equal(step_clock_sum(&b->shard->steps), 30);
    assert_int_equal(b->shard->tables[SSP]->ssp.slowest, 3);
    assert_int_equal(partition_drop(a->shard, WIRE_SPACE_SPARSE, P, &e), 0);
    assert_int_equal(roles_of(&a->shard->roles, WIRE_SPACE_SPARSE, P), ROLE_AWAY);
    // The partition moves back. The first shard still has other partitions, and tables
    // and sessions that the records contain.
    if (put(a, &x, &e) != 0)
        fail_msg("%s", e.text);
    struct buf z = bytes_of(a);
    check_same(&x, &z);
    buf_free(&x);
    buf_free(&y);
    buf_free(&z);
    close_both(a, b);
}

// A shard that gets a partition learns which saves have ended. It drops a mark of such a
// save, and keeps no later one, so that the pushes of the mark's session need not wait.
static void test_ended_saves(void **state)
{
    (void)state;
    struct lone *a = open_full(), *b = open_with(1, &plain);
    struct msg_mark mark = {.epoch = 1, .save = 7, .session = lone_session(0)};
    make_tables(b);
    save_remember(&a->shard->saves, 7, true);
    lone_deliver(b, WORKER_LINK, MSG_MARK, ++b->next_request, &mark);
    lone_expect_ok(b);
    const struct shard_table *t = b->shard->tables[ASYNC];
    assert_true(saves_hold(b->shard, t, mark.session));
    struct buf bytes = bytes_of(a);
    struct err e;
    assert_int_equal(put(b, &bytes, &e), 0);
    assert_false(saves_hold(b->shard, t, mark.session));
    lone_deliver(b, WORKER_LINK, MSG_MARK, ++b->next_request, &mark);
    lone_expect_ok(b);
    assert_false(saves_hold(b->shard, t, mark.session));
    buf_free(&bytes);
    close_both(a, b);
}

// Pushes that were applied before the move are not applied again after it, and the open
// batch ends at the new owner with the sum of all its parts.
static void test_exactly_once(void **state)
{
    (void)state;
    struct lone *a = open_full(), *b = open_with(P, &plain);
    uint64_t keys[KEYS];
    make_tables(b);
    train(a);
    struct msg_push again = push_of(a, 1, ASYNC, false, keys, 77);
    lone_send_push(a, 1, &again);
    lone_expect_ok(a);
    struct buf x = bytes_of(a);
    struct err e;
    assert_int_equal(put(b, &x, &e), 0);
    buf_free(&x);
    give(b, true);
    float before[WIDTH];
    memcpy(before, shards_row(b->shard, ASYNC, keys[0]), sizeof(before));
    again.epoch = b->epoch;
    lone_send_push(b, 1, &again);
    lone_expect_ok(b);
    assert_memory_equal(before, shards_row(b->shard, ASYNC, keys[0]), sizeof(before));
    const struct sync_group *g = sync_group_of(b->shard->tables[SYNC], P);
    assert_int_equal(g->clock.next, 2);
    assert_int_equal(g->clock.open[2].covered, 0x101);
    close_both(a, b);
}

// If an allocation fails while a partition arrives, no rows or batches of it stay.
static void test_allocations(void **state)
{
    (void)state;
    struct lone *a = open_full(), *b = open_with(0, &plain);
    train(a);
    struct buf x = bytes_of(a);
    for (long n = 0; n >= 0; n++) {
        struct err e;
        size_t used;
        bool settled;
        mem_fault_after(n);
        int rc = partition_put(b->shard, WIRE_SPACE_SPARSE, P, x.data, x.len, &used,
                               &settled, &e);
        bool struck = mem_faulted();
        mem_fault_after(-1);
        if (rc != 0)
            assert_int_equal(partition_drop(b->shard, WIRE_SPACE_SPARSE, P, &e), 0);
        assert_true(rc == 0 || struck);
        if (rc == 0)
            break;
        assert_int_equal(rc, TUG_ENOMEM);
        assert_int_equal(roles_of(&b->shard->roles, WIRE_SPACE_SPARSE, P), ROLE_AWAY);
        for (uint32_t i = 0; i < b->shard->n_tables; i++)
            if (b->shard->tables[i] != NULL)
                assert_int_equal(store_stats(b->shard->tables[i]->store).rows, 0);
    }
    buf_free(&x);
    close_both(a, b);
}

// Corrects the hashes of damaged records, as a forger would. The head of a record has
// seven numbers; the last two are the length and the hash of the bytes that follow.
static void forge(struct buf *x)
{
    enum { HEAD = 7, N = 5 };
    uint64_t h[HEAD];
    for (size_t at = 0; x->len - at >= sizeof(h); at += sizeof(h) + h[N]) {
        char *head = x->data + at;
        memcpy(h, head, sizeof(h));
        if (h[N] > x->len - at - sizeof(h))
            return;
        h[N + 1] = hash_bytes(head + sizeof(h), h[N], 0);
        memcpy(head, h, sizeof(h));
    }
}

static void test_damaged(void **state)
{
    (void)state;
    struct lone *a = open_full(), *b = open_with(P, &plain);
    make_tables(b);
    train(a);
    struct buf x = bytes_of(a), y = BUF_INIT(64 << 20);
    struct err e;
    for (uint64_t i = 0; i < 2000; i++) {
        buf_clear(&y);
        assert_int_equal(buf_add(&y, x.data, x.len), 0);
        uint64_t at = random_below(2, 1, i, x.len);
        if (i % 10 == 0)
            y.len = at;
        else
            y.data[i % 3 == 0 ? at % 1024 : at] ^= (char)(1 + random_below(2, 2, i, 255));
        forge(&y);
        e = (struct err){0};
        // A damaged fact that cannot be checked, such as a value, may be accepted.
        if (put(b, &y, &e) == 0) {
            assert_int_equal(partition_drop(b->shard, WIRE_SPACE_SPARSE, P, &e), 0);
            continue;
        }
        assert_true(e.code != 0 && e.text[0] != '\0');
        for (uint32_t t = ASYNC; t <= SSP; t++)
            assert_false(store_owns(b->shard->tables[t]->store, P));
    }
    assert_int_equal(lone_figures(b, ASYNC).rows, 0);
    buf_free(&x);
    buf_free(&y);
    close_both(a, b);
}

static void test_no_room(void **state)
{
    (void)state;
    const struct shard_options small = {.max_bytes = 1000};
    struct lone *a = open_full(), *b = open_with(0, &small);
    train(a);
    struct buf x = bytes_of(a);
    struct err e;
    assert_int_equal(put(b, &x, &e), TUG_ENOMEM);
    assert_non_null(strstr(e.text, "--memory"));
    buf_free(&x);
    close_both(a, b);
}

// A push that follows the rows of a partition is applied with the learning rate of the
// source's step, however many steps the target has counted.
static void test_steps_of_pushes(void **state)
{
    (void)state;
    struct lone *a = open_full(), *b = open_with(0, &plain);
    struct table_spec s = lone_plain_spec(9, WIRE_ASYNC, WIDTH);
    struct store_push p = {.op = STORE_GRADIENT, .rate = 1, .pass = 1, .scale = 1};
    uint64_t keys[KEYS];
    struct err e;
    s.config.accessor.rule = rule_defaults(RULE_SGD);
    if (rate_parse("exponential:steps=100,factor=0.5", &s.config.rate, &e) != 0)
        fail_msg("%s", e.text);
    lone_make_table(a, &s);
    struct shard_table *t = a->shard->tables[9];
    p.n = keys_of(a, WIRE_SPACE_SPARSE, false, keys);
    p.keys = keys;
    p.values = values;
    for (uint32_t i = 0; i < p.n * WIDTH; i++)
        values[i] = (float)(1 + i);
    struct buf x = BUF_INIT(64 << 20);
    assert_int_equal(partition_get_rows(a->shard, WIRE_SPACE_SPARSE, P, &x, &e), 0);
    for (uint64_t step = 100; step < 400; step += 70) {
        store_set_step(t->store, step);
        assert_int_equal(store_push(t->store, &p, NULL, &e), 0);
        assert_int_equal(partition_get_push(a->shard, t, P, &p, 0, p.n, &x, &e), 0);
    }
    assert_int_equal(partition_get_facts(a->shard, WIRE_SPACE_SPARSE, P, &x, &e), 0);
    if (put(b, &x, &e) != 0)
        fail_msg("%s", e.text);
    for (uint32_t i = 0; i < p.n; i++)
        assert_memory_equal(shards_row(a->shard, 9, keys[i]),
                            shards_row(b->shard, 9, keys[i]), WIDTH * sizeof(float));
    assert_int_equal(store_step_of(b->shard->tables[9]->store), 0);
    buf_free(&x);
    close_both(a, b);
}

// A table that the record lacks is kept if another partition is arriving,
// which may have rows of it.
static void test_two_arrive(void **state)
{
    (void)state;
    struct lone *a = open_full(), *b = open_with(0, &plain);
    struct table_spec other = lone_plain_spec(9, WIRE_ASYNC, WIDTH);
    struct incoming m = {.move = {.space = WIRE_SPACE_SPARSE, .partition = P + 1},
                         .n = 8};
    lone_make_table(b, &other); // as if the move of partition P + 1 had made this table
    train(a);
    struct buf x = bytes_of(a);
    struct err e;
    b->shard->moves.in = &m;
    int rc = put(b, &x, &e);
    b->shard->moves.in = NULL;
    if (rc != 0)
        fail_msg("%s", e.text);
    assert_non_null(b->shard->tables[9]);
    buf_free(&x);
    close_both(a, b);
}

// An incomplete partition leaves no group behind, even if an operation has replaced its
// rows.
static void test_replaced_rows(void **state)
{
    (void)state;
    struct lone *a = open_full(), *b = open_with(P, &plain);
    struct buf x = BUF_INIT(64 << 20);
    struct err e;
    size_t used;
    bool settled;
    make_tables(b);
    train(a);
    struct shard_table *t = b->shard->tables[SYNC];
    assert_int_equal(partition_get_rows(a->shard, WIRE_SPACE_SPARSE, P, &x, &e), 0);
    assert_int_equal(
        partition_put(b->shard, WIRE_SPACE_SPARSE, P, x.data, x.len, &used, &settled, &e),
        0);
    assert_non_null(t->groups[P]);
    assert_int_equal(store_drop(t->store, P, &e), 0);
    assert_int_equal(partition_drop(b->shard, WIRE_SPACE_SPARSE, P, &e), 0);
    assert_null(t->groups[P]);
    buf_free(&x);
    close_both(a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ended_saves),     cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_exactly_once),    cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_damaged),         cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_steps_of_pushes), cmocka_unit_test(test_two_arrive),
        cmocka_unit_test(test_replaced_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
