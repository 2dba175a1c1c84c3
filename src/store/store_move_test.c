// A partition that moves to another store takes along all that a later delta, budget or
// parent check needs, not only its rows.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "kit/cuts.h"
#include "kit/test.h"
#include "store/cut.h"
#include "store/parcel.h"

enum { UNIVERSE = 1500, BITS = 3, PARENT = 77 };

static const char *const settings[] = {
    "accessor=ctr; dim=3; embedx-threshold=2; delete-threshold=0.6; decay=0.7; "
    "deltas=yes",
    "accessor=sparse; dim=2; embedx-threshold=1; deltas=yes",
    "accessor=plain; dim=2; deltas=yes",
};
enum { N_SETTINGS = sizeof(settings) / sizeof(settings[0]) };

static bool moves(uint32_t partition)
{
    return partition % 3 == 1;
}

static void traffic(struct store *s, struct batch *b, struct rng *d)
{
    for (uint32_t i = 0; i < 12; i++) {
        batch_draw(b, d, 200);
        if (i % 4 == 3)
            OK(store_remove(s, b->keys, b->n < 40 ? b->n : 40, &ok_e));
        else
            OK(batch_push(s, b, d, &ok_e));
    }
}

// Pushes, removes, publishes a base, and pushes and removes again.
static struct chain *begin(struct store *s, uint64_t seed)
{
    struct batch *batch = batch_make(UNIVERSE);
    struct rng rng = {.seed = seed};
    struct chain *chain = chain_make(s, UNIVERSE);
    traffic(s, batch, &rng);
    image_free(cuts_all(s, SAVE_BASE, true, chain));
    OK(store_finish(s, &ok_e));
    store_set_published_by(s, PARENT);
    traffic(s, batch, &rng);
    batch_free(batch);
    return chain;
}

static void check_equal(const struct chain *x, const struct chain *y)
{
    uint64_t deleted = 0;
    for (uint64_t k = 0; k < x->universe; k++) {
        assert_int_equal(x->has[k], y->has[k]);
        assert_int_equal(x->has_extra[k], y->has_extra[k]);
        deleted += !x->has[k];
        if (x->has[k])
            assert_memory_equal(x->rows + k * x->width, y->rows + k * x->width,
                                x->width * sizeof(float));
    }
    assert_true(deleted > 0 && deleted < x->universe);
}

// After moves, the deltas of both stores together have the same contents as the delta of
// one store.
static void test_delta_after_a_move(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < N_SETTINGS; i++) {
        struct store *a = stores_open(settings[i], BITS);
        struct store *b = stores_open(settings[i], BITS);
        struct store *alone = stores_open(settings[i], BITS);
        struct chain *x = begin(a, 40 + i), *y = begin(alone, 40 + i);
        for (uint32_t p = 0; p < 1u << BITS; p++)
            if (moves(p))
                OK(store_move(b, a, p, &ok_e));
        // A row counts as changed after a move only if it did before.
        assert_int_equal(store_stats(a).changed + store_stats(b).changed,
                         store_stats(alone).changed);
        image_free(cuts_all(a, SAVE_DELTA, true, x));
        image_free(cuts_all(b, SAVE_DELTA, true, x));
        image_free(cuts_all(alone, SAVE_DELTA, true, y));
        check_equal(x, y);
        chain_free(x);
        chain_free(y);
        store_close(a);
        store_close(b);
        store_close(alone);
    }
}

// A store whose partitions were published by different saves has no parent for a delta.
static void test_parents(void **state)
{
    (void)state;
    struct store *a = stores_open(settings[2], BITS), *b = stores_open(settings[2], BITS);
    bool mixed;
    store_set_published_by(a, PARENT);
    OK(store_move(b, a, 1, &ok_e));
    assert_int_equal(store_published_by(a, &mixed), PARENT);
    assert_false(mixed);
    assert_int_equal(store_published_by(b, &mixed), 0);
    assert_true(mixed);
    store_set_published_by(b, PARENT);
    assert_int_equal(store_published_by(b, &mixed), PARENT);
    assert_false(mixed);
    // Here store a still has partitions, which PARENT has published. After the loop it
    // has none, and then its delta may follow any save.
    assert_true(store_follows(a, PARENT, 5) && store_follows(a, 5, PARENT));
    assert_false(store_follows(a, 5, 5));
    for (uint32_t p = 0; p < 1u << BITS; p++)
        if (store_owns(a, p)) {
            store_set_owned(b, p, false);
            OK(store_move(b, a, p, &ok_e));
        }
    assert_true(store_follows(a, 5, 5));
    store_close(a);
    store_close(b);
}

// If the list of removed keys was dropped, the new owner of the partition knows that the
// list is incomplete. The old owner begins a new list if it gets the partition back.
static void test_lost_lists(void **state)
{
    (void)state;
    struct store *a = stores_open(settings[2], BITS), *b = stores_open(settings[2], BITS);
    a->parts[2].gone_lost = true;
    OK(store_move(b, a, 2, &ok_e));
    assert_true(b->parts[2].gone_lost && !a->parts[2].gone_lost);
    store_close(a);
    store_close(b);
}

// Moved rows keep the order in which they were made, because budgets remove rows in this
// order.
static void test_order(void **state)
{
    (void)state;
    struct store *a = stores_open(settings[2], 0), *b = stores_open(settings[2], 0);
    struct batch *batch = batch_make(UNIVERSE);
    struct rng rng = {.seed = 9};
    struct handle_list live = {0}, there = {0};
    uint64_t keys[UNIVERSE];
    for (uint32_t i = 0; i < 10; i++) {
        batch_draw(batch, &rng, 60);
        OK(batch_push(a, batch, &rng, &ok_e));
    }
    OK(store_live_rows(a, 0, &live));
    for (uint32_t i = 0; i < live.n; i++)
        keys[i] = store_key_at(a, live.at[i]);
    OK(store_move(b, a, 0, &ok_e));
    OK(store_live_rows(b, 0, &there));
    assert_int_equal(there.n, live.n);
    for (uint32_t i = 0; i < live.n; i++)
        assert_int_equal(store_key_at(b, there.at[i]), keys[i]);
    mem_free(live.at);
    mem_free(there.at);
    batch_free(batch);
    store_close(a);
    store_close(b);
}

// The step of a partition does not decrease if its new owner knows of fewer steps.
static void test_step(void **state)
{
    (void)state;
    struct store *a = stores_open(settings[0], BITS), *b = stores_open(settings[0], BITS);
    store_set_step(a, 50);
    OK(store_move(b, a, 4, &ok_e));
    store_set_step(b, 20);
    assert_int_equal(store_time(b, 4).step, 50);
    assert_int_equal(store_time(b, 3).step, 20);
    store_set_step(b, 60);
    assert_int_equal(store_time(b, 4).step, 60);
    store_close(a);
    store_close(b);
}

// The day of a partition that the store does not own has no effect on the store's day. A
// dropped copy of a partition may have a later day than the store's own partitions,
// because the owner from which it came may have ended a day earlier than this store.
static void test_days(void **state)
{
    (void)state;
    struct store *a = stores_open(settings[0], BITS), *b = stores_open(settings[0], BITS);
    store_set_owned(a, 4, false);
    store_day(b);
    OK(store_move(a, b, 4, &ok_e));
    store_day(a);
    OK(store_drop(a, 4, &ok_e));
    assert_int_equal(store_day_of(a), 1);
    store_close(a);
    store_close(b);
}

// A new row begins at the partition's step, as it would have at the former owner.
static void test_first_rows(void **state)
{
    static const char ttl[] = "accessor=ctr; dim=2; ttl-steps=40";
    (void)state;
    struct store *a = stores_open(ttl, BITS), *b = stores_open(ttl, BITS);
    float first[ROW_MAX] = {0}, moved[ROW_MAX] = {0};
    uint64_t key = 0;
    while (store_partition(a, key) != 4)
        key++;
    store_set_step(a, 50);
    OK(store_move(b, a, 4, &ok_e));
    store_set_step(b, 20);
    store_first_row(a, key, 0, first, NULL);
    store_first_row(b, key, 0, moved, NULL);
    assert_memory_equal(first, moved, sizeof(first));
    store_close(a);
    store_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delta_after_a_move),
        cmocka_unit_test(test_parents),
        cmocka_unit_test(test_lost_lists),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_step),
        cmocka_unit_test(test_days),
        cmocka_unit_test(test_first_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
