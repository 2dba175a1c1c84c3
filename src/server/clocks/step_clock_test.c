// Sessions report their steps, report them again, and end.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/clocks/step_clock.h"

#include "base/alloc.h"
#include "base/err.h"
#include "kit/test.h"

static void test_sum(void **state)
{
    (void)state;
    struct step_clock c = {0};
    uint64_t sum = 0;
    for (uint64_t session = 1; session <= 40; session++) {
        assert_int_equal(step_clock_set(&c, session, session), 0);
        assert_int_equal(step_clock_set(&c, session, session), 0);     // a repeat
        assert_int_equal(step_clock_set(&c, session, session / 2), 0); // a late report
        sum += session;
        assert_int_equal(step_clock_sum(&c), sum);
    }
    for (uint64_t session = 2; session <= 40; session += 2)
        step_clock_end(&c, session);
    step_clock_end(&c, 2);
    assert_int_equal(c.sessions.n, 20);
    assert_int_equal(step_clock_sum(&c), sum); // steps of ended sessions still count
    // The save has fewer steps than this clock already has, which changes nothing.
    step_clock_begin(&c, 100);
    assert_int_equal(step_clock_sum(&c), sum);
    step_clock_begin(&c, 10000);
    assert_int_equal(step_clock_sum(&c), 10000 + 400);
    step_clock_reach(&c, 10000);
    assert_int_equal(step_clock_sum(&c), 10000 + 400);
    step_clock_reach(&c, 10500);
    step_clock_reach(&c, 10500); // a repeat
    assert_int_equal(step_clock_sum(&c), 10500);
    assert_int_equal(step_clock_set(&c, 1, 2), 0); // this session's steps were 1
    assert_int_equal(step_clock_sum(&c), 10501);
    step_clock_fini(&c);
    mem_fault_after(0);
    assert_int_equal(step_clock_set(&c, 1, 1), TUG_ENOMEM);
    mem_fault_after(-1);
    assert_int_equal(step_clock_sum(&c), 0);
    assert_int_equal(mem_live(), 0);
}

// The sum never decreases and never overflows, even if the greatest numbers are reported.
static void test_limit(void **state)
{
    (void)state;
    struct step_clock c = {0};
    uint64_t before = 0;
    for (uint64_t session = 1; session <= 5; session++) {
        assert_int_equal(step_clock_set(&c, session, UINT64_MAX - session), 0);
        assert_true(step_clock_sum(&c) >= before);
        before = step_clock_sum(&c);
        assert_true(before <= STEP_CLOCK_MAX);
    }
    for (uint64_t session = 1; session <= 5; session++)
        step_clock_end(&c, session);
    step_clock_begin(&c, UINT64_MAX);
    assert_true(step_clock_sum(&c) == STEP_CLOCK_MAX);
    step_clock_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
