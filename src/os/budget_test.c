// Compares the budget with a naive one, and uses it from several threads.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/budget.h"

#include <pthread.h>
#include <string.h>

#include "base/random.h"
#include "kit/test.h"
#include "os/clock.h"

#define MIB ((uint64_t)1 << 20)

static uint64_t sum_of(const uint64_t used[BUDGET_KINDS])
{
    uint64_t sum = 0;
    for (int k = 0; k < BUDGET_KINDS; k++)
        sum += k != BUDGET_REST ? used[k] : 0;
    return sum;
}

// Random takes and returns: no kind exceeds its share, all kinds together leave the
// quarter for unused blocks, and a refusal takes nothing.
static void like_a_naive_one(void **state)
{
    (void)state;
    struct budget b;
    uint64_t used[BUDGET_KINDS] = {0}, refused = 0;
    budget_open(&b, 64 * MIB);
    for (uint64_t i = 0; i < 100000; i++) {
        enum budget_kind k = (enum budget_kind)(random_u64(1, 1, i) % BUDGET_KINDS);
        uint64_t n = random_u64(1, 2, i) % (9 * MIB);
        bool fits = used[k] + n <= budget_most(&b, k) &&
                    (k == BUDGET_REST || sum_of(used) + n <= 48 * MIB);
        if (random_u64(1, 3, i) % 2 == 0) {
            uint64_t some = n < used[k] ? n : used[k];
            budget_give(&b, k, some);
            used[k] -= some;
            continue;
        }
        assert_int_equal(budget_fits(&b, k, n), fits);
        assert_int_equal(budget_take(&b, k, n), fits);
        used[k] += fits ? n : 0;
        refused += !fits && k != BUDGET_REST;
        assert_int_equal(budget_used(&b, k), used[k]);
        assert_int_equal(atomic_load(&b.refused), refused);
    }
    assert_true(refused > 1000);
    assert_int_equal(atomic_load(&b.used), sum_of(used));
}

static void shares(void **state)
{
    (void)state;
    struct budget b;
    uint64_t rows;
    const uint64_t G = 1024 * MIB;
    assert_int_equal(budget_of(4 * G, &rows), G); // a quarter
    assert_int_equal(rows, 3 * G);
    assert_int_equal(budget_of(100 * G, &rows), 4 * G); // the upper bound
    assert_int_equal(rows, 96 * G);
    assert_int_equal(budget_of(100 << 10, &rows), 64 * MIB); // the lower bound
    assert_int_equal(rows, 75 << 10);
    uint64_t unsaid = budget_of(0, &rows);
    assert_int_equal(rows, 0);
    assert_true(unsaid >= 64 * MIB && unsaid <= 4 * G);
    budget_open(&b, 4 * G);
    assert_true(budget_most(&b, BUDGET_BODIES) >= G + 8); // the longest message fits
    assert_int_equal(budget_most(&b, BUDGET_REST), G);
    budget_open(&b, unsaid);
    assert_true(budget_take(&b, BUDGET_REST, budget_most(&b, BUDGET_REST)));
    assert_true(budget_fits(&b, BUDGET_BODIES, budget_most(&b, BUDGET_BODIES)));
    assert_false(budget_fits(&b, BUDGET_BODIES, UINT64_MAX)); // no sum wraps around
    assert_false(budget_take(&b, BUDGET_BODIES, UINT64_MAX / 2));
}

static void forced_and_short(void **state)
{
    (void)state;
    struct budget b;
    budget_open(&b, 64 * MIB);
    uint64_t most = budget_most(&b, BUDGET_QUEUED);
    assert_false(budget_short(&b, clock_ns()));
    assert_true(budget_force(&b, BUDGET_QUEUED, most));
    assert_false(budget_force(&b, BUDGET_QUEUED, 1)); // refused, but counted as taken
    assert_int_equal(budget_used(&b, BUDGET_QUEUED), most + 1);
    assert_false(budget_short(&b, clock_ns()));
    assert_false(budget_take(&b, BUDGET_QUEUED, 1));
    assert_true(budget_short(&b, clock_ns()));
    assert_false(budget_short(&b, clock_ns() + 10 * SECOND_NS));
    budget_open(&b, 64 * MIB);
    budget_delayed(&b);
    assert_false(budget_short(&b, clock_ns()));
    assert_int_equal(atomic_load(&b.refused), 1);
    budget_pressed(&b);
    assert_true(budget_short(&b, clock_ns()));
    assert_int_equal(atomic_load(&b.refused), 1);
    assert_false(budget_force(&b, BUDGET_QUEUED, most + 1));
    budget_give(&b, BUDGET_QUEUED, most + 1);
    assert_true(budget_take(&b, BUDGET_QUEUED, most));
}

static void without_a_limit(void **state)
{
    (void)state;
    assert_true(budget_take(NULL, BUDGET_PENDING, UINT64_MAX));
    assert_true(budget_force(NULL, BUDGET_PENDING, 1));
    assert_true(budget_fits(NULL, BUDGET_PENDING, UINT64_MAX));
    assert_int_equal(budget_used(NULL, BUDGET_PENDING), 0);
    assert_false(budget_short(NULL, UINT64_MAX));
    budget_give(NULL, BUDGET_PENDING, 1);
    budget_refused(NULL);
    budget_delayed(NULL);
    budget_pressed(NULL);
    budget_closed(NULL);
}

static void *take_and_give(void *arg)
{
    struct budget *b = arg;
    for (int i = 0; i < 20000; i++)
        if (budget_take(b, BUDGET_BODIES, 3 * MIB))
            budget_give(b, BUDGET_BODIES, 3 * MIB);
    return NULL;
}

static void threads(void **state)
{
    (void)state;
    struct budget b;
    pthread_t thread[4];
    budget_open(&b, 16 * MIB);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, take_and_give, &b), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(atomic_load(&b.used), 0);
    assert_int_equal(budget_used(&b, BUDGET_BODIES), 0);
}

static void names(void **state)
{
    (void)state;
    for (int k = 0; k < BUDGET_KINDS; k++)
        for (int i = 0; i < k; i++)
            assert_string_not_equal(budget_name((enum budget_kind)k),
                                    budget_name((enum budget_kind)i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(like_a_naive_one), cmocka_unit_test(shares),
        cmocka_unit_test(forced_and_short), cmocka_unit_test(without_a_limit),
        cmocka_unit_test(threads),          cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
