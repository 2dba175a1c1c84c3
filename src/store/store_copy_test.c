// Copies and means of single partitions equal those of the whole table, also in a store that
// has other rows before; other partitions stay as they are; and a copy for which memory is
// out can be made again.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "kit/cuts.h"
#include "kit/test.h"
#include "store/parcel.h"

enum { UNIVERSE = 900, BITS = 2, PARTS = 1 << BITS, STEP = 40 };

#define PLAIN "accessor=plain; dim=2; deltas=yes"
#define LIVES                                                                            \
    "accessor=ctr; dim=3; embedx-threshold=2; delete-threshold=0.6; decay=0.7; "         \
    "entry=count:2; deltas=yes"

static struct store *fill(const char *settings, uint64_t seed, uint32_t days)
{
    struct store *s = stores_open(settings, BITS);
    struct batch *b = batch_make(UNIVERSE);
    struct rng d = {.seed = seed};
    for (uint32_t i = 0; i < 6; i++) {
        batch_draw(b, &d, 150);
        OK(batch_push(s, b, &d, &ok_e));
    }
    for (uint32_t i = 0; i < days; i++)
        store_day(s);
    store_set_published_by(s, seed);
    batch_free(b);
    return s;
}

static bool are_equal(struct store *a, struct store *b, uint32_t p)
{
    struct buf x = BUF_INIT(SIZE_MAX), y = BUF_INIT(SIZE_MAX);
    OK(parcel_get(a, p, &x, &ok_e));
    OK(parcel_get(b, p, &y, &ok_e));
    bool same = x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
    buf_free(&x);
    buf_free(&y);
    return same;
}

// Does the operation in one partition after the other of `to`, which must then equal those
// of `whole`.
static void check_partitions(struct store *to, struct store *from, struct store *whole,
                             float share)
{
    for (uint32_t p = 0; p < PARTS; p++) {
        for (uint32_t i = 0; i < PARTS; i++)
            assert_int_equal(are_equal(to, whole, i), i < p);
        if (share == 0) // NOLINT: exact
            OK(store_copy_partition(to, from, p, STEP, &ok_e));
        else
            OK(store_mean_partition(to, from, p, share, &ok_e));
        assert_true(are_equal(to, whole, p));
    }
}

static void test_copy(void **state)
{
    (void)state;
    static const char *const settings[] = {PLAIN, LIVES};
    for (uint32_t i = 0; i < 2; i++) {
        struct store *from = fill(settings[i], 1, 3), *to = fill(settings[i], 2, 1),
                     *whole = stores_open(settings[i], BITS);
        store_set_step(from, STEP);
        OK(store_copy(whole, from, &ok_e));
        // The copy in a backup has the step of the leader, whose step may be ahead.
        store_set_step(from, STEP - 1);
        check_partitions(to, from, whole, 0);
        store_close(from);
        store_close(to);
        store_close(whole);
    }
}

static void test_mean(void **state)
{
    (void)state;
    struct store *from = fill(PLAIN, 1, 0), *to = fill(PLAIN, 2, 0),
                 *whole = fill(PLAIN, 2, 0);
    OK(store_mean(whole, from, 0.25f, &ok_e));
    check_partitions(to, from, whole, 0.25f);
    store_close(from);
    store_close(to);
    store_close(whole);
}

static void test_without_memory(void **state)
{
    (void)state;
    struct store *from = fill(LIVES, 1, 3), *to = fill(LIVES, 2, 1),
                 *whole = stores_open(LIVES, BITS);
    int rc = TUG_ENOMEM;
    store_set_step(from, STEP);
    OK(store_copy(whole, from, &ok_e));
    for (uint32_t n = 0; rc != 0; n++) {
        assert_true(n < 1000);
        mem_fault_after(n);
        rc = store_copy_partition(to, from, 1, STEP, NULL);
        mem_fault_after(-1);
        assert_true(rc == 0 || rc == TUG_ENOMEM);
    }
    assert_true(are_equal(to, whole, 1) && !are_equal(to, whole, 0));
    store_close(from);
    store_close(to);
    store_close(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_mean),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
