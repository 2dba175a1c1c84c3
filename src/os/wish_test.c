// Signals within a second are one request; a later one is another.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/wish.h"

#include "kit/test.h"

static void test_signals_within_a_second_are_one(void **state)
{
    (void)state;
    struct wish w = {0};
    const uint64_t first = 77;
    assert_int_equal(wish_take(&w, first), WISH_FIRST);
    assert_int_equal(wish_take(&w, first), WISH_SAME);
    assert_int_equal(wish_take(&w, first + 1000000), WISH_SAME);
    // The time may be earlier than the first, because another thread read the clock
    // before.
    assert_int_equal(wish_take(&w, first - 1), WISH_SAME);
    assert_int_equal(wish_take(&w, first + WISH_SAME_NS - 1), WISH_SAME);
}

// All signals within one second of the first count as the same request. Later signals do
// not lengthen this second.
static void test_later(void **state)
{
    (void)state;
    struct wish w = {0};
    assert_int_equal(wish_take(&w, 1), WISH_FIRST);
    for (uint64_t ms = 1; ms < 1000; ms++)
        assert_int_equal(wish_take(&w, 1 + ms * 1000000), WISH_SAME);
    assert_int_equal(wish_take(&w, 1 + WISH_SAME_NS), WISH_AT_ONCE);
    assert_int_equal(wish_take(&w, 1 + 3 * (uint64_t)WISH_SAME_NS), WISH_AT_ONCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals_within_a_second_are_one),
        cmocka_unit_test(test_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
