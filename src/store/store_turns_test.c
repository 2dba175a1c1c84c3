// While a shrink is under way, rows are pushed and pulled. The result is the same as if
// the shrink had finished first, because a row that a request needs is shrunk before the
// shrink reaches its partition.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/alloc.h"
#include "kit/cuts.h"
#include "kit/test.h"

enum { UNIVERSE = 2000, ROUNDS = 8, BITS = 3 };

static const char *const settings[] = {
    "accessor=ctr; dim=3; embedx-threshold=2; delete-threshold=0.6; decay=0.7",
    "accessor=ctr; dim=2; embedx-threshold=0; delete-threshold=0.4; decay=1; "
    "entry=count:2; ttl-steps=20",
    "accessor=sparse; dim=3; embedx-threshold=1; delete-threshold=0.6; decay=0.9; "
    "budget-rows=700; budget-floor=0.5",
    "accessor=ctr_double; dim=0; delete-after-days=1; entry=sketch:2",
    "accessor=plain; dim=2; deltas=yes",
};
enum { N_SETTINGS = sizeof(settings) / sizeof(settings[0]) };

// Does random pushes and pulls, which depend only on *d.
static void traffic(struct store *s, struct batch *b, struct rng *d)
{
    batch_draw(b, d, 1 + rng_below(d, 60));
    switch (rng_below(d, 6)) {
    case 0:
        OK(store_pull(s, b->keys, b->n, b->values, NULL, &ok_e));
        break;
    case 1:
        OK(store_remove(s, b->keys, b->n < 5 ? b->n : 5, &ok_e));
        break;
    case 2:
        store_set_step(s, store_step_of(s) + 1);
        break;
    case 3:
        if (rng_below(d, 6) == 0)
            store_day(s);
        break;
    default:
        OK(batch_push(s, b, d, &ok_e));
        break;
    }
}

static void shrink_before(struct store *s, struct batch *b, struct rng *d, uint32_t n)
{
    OK(store_admin(s, STORE_SHRINK, NAN, &ok_e));
    OK(store_finish(s, &ok_e));
    for (uint32_t i = 0; i < n; i++)
        traffic(s, b, d);
}

static void shrink_meanwhile(struct store *s, struct batch *b, struct rng *d, uint32_t n)
{
    struct rng work = {.seed = d->seed + 1, .at = d->at};
    OK(store_admin(s, STORE_SHRINK, NAN, &ok_e));
    for (uint32_t i = 0; i < n; i++) {
        traffic(s, b, d);
        if (rng_below(&work, 5) == 0)
            store_work(s, 0);
    }
    OK(store_finish(s, &ok_e));
}

// Returns the number of rows that the last shrink has removed.
static uint64_t shrunk(const struct store *s)
{
    uint64_t n = 0;
    for (uint32_t p = 0; p >> BITS == 0; p++)
        n += store_shrunk(s, p);
    return n;
}

static void check_same(struct store *const s[2])
{
    for (uint32_t p = 0; p >> BITS == 0; p++)
        assert_int_equal(store_shrunk(s[0], p), store_shrunk(s[1], p));
    struct image *a = image_of(s[0], SAVE_CHECKPOINT);
    struct image *b = image_of(s[1], SAVE_CHECKPOINT);
    struct store_stats x = store_stats(s[0]), y = store_stats(s[1]);
    image_check_equal(a, b);
    assert_int_equal(x.evicted_score, y.evicted_score);
    assert_int_equal(x.evicted_age, y.evicted_age);
    assert_int_equal(x.evicted_ttl, y.evicted_ttl);
    assert_int_equal(x.evicted_budget, y.evicted_budget);
    assert_int_equal(x.changed, y.changed);
    image_free(a);
    image_free(b);
}

static void test_meanwhile(void **state)
{
    (void)state;
    uint64_t evicted = 0;
    for (uint32_t i = 0; i < N_SETTINGS; i++) {
        uint64_t gone = 0;
        struct store *s[2] = {stores_open(settings[i], BITS),
                              stores_open(settings[i], BITS)};
        struct batch *b = batch_make(UNIVERSE);
        struct rng d[2] = {{.seed = i}, {.seed = i}};
        for (uint32_t r = 0; r < ROUNDS; r++) {
            for (uint32_t k = 0; k < 2; k++)
                for (uint32_t n = 0; n < 30; n++)
                    traffic(s[k], b, &d[k]);
            shrink_before(s[0], b, &d[0], 20);
            shrink_meanwhile(s[1], b, &d[1], 20);
            check_same(s);
            gone += shrunk(s[0]);
            struct store_stats is = store_stats(s[0]);
            assert_int_equal(gone, is.evicted_score + is.evicted_age + is.evicted_ttl);
            if (s[0]->config.deltas) {
                struct image *x = cuts_all(s[0], SAVE_DELTA, true, NULL);
                struct image *y = cuts_all(s[1], SAVE_DELTA, true, NULL);
                image_check_equal(x, y);
                image_free(x);
                image_free(y);
            }
        }
        evicted += store_stats(s[0]).evicted_score;
        batch_free(b);
        store_close(s[0]);
        store_close(s[1]);
    }
    assert_true(evicted > 0);
}

// If a request fails for lack of memory, the next request does the rest of the admin
// operation.
static void test_no_memory(void **state)
{
    (void)state;
    uint32_t failures = 0;
    for (long n = 0, faulted = 1; faulted; n++) {
        struct store *s[2] = {stores_open(settings[0], BITS),
                              stores_open(settings[0], BITS)};
        struct batch *b = batch_make(UNIVERSE);
        struct rng d = {.seed = 9};
        for (uint32_t i = 0; i < 40; i++) {
            struct rng same = d;
            traffic(s[0], b, &d);
            traffic(s[1], b, &same);
        }
        for (uint32_t k = 0; k < 2; k++)
            OK(store_admin(s[k], STORE_SHRINK, NAN, &ok_e));
        OK(store_finish(s[0], &ok_e));
        batch_draw(b, &d, 200);
        mem_fault_after(n);
        int rc = store_pull(s[1], b->keys, b->n, b->values, NULL, NULL);
        faulted = mem_faulted();
        mem_fault_after(-1);
        assert_true(rc == 0 || rc == TUG_ENOMEM);
        failures += rc != 0;
        OK(store_finish(s[1], &ok_e));
        check_same(s);
        batch_free(b);
        store_close(s[0]);
        store_close(s[1]);
    }
    assert_true(failures > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meanwhile),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
