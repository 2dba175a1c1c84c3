// The distance of the moment of a save of shares.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/test.h"
#include "remote/driver_internal.h"

// A save that came late puts the next ones further away, none beyond the limit; once they
// are made in time, they come back to where they began.
static void test_ahead(void **state)
{
    (void)state;
    uint64_t ahead = DRIVER_AHEAD;
    for (int i = 0; i < 20; i++) {
        uint64_t before = ahead;
        ahead = driver_ahead(ahead, true);
        assert_true(ahead == DRIVER_AHEAD_MAX || ahead == 2 * before);
    }
    assert_int_equal(ahead, DRIVER_AHEAD_MAX);
    for (int i = 0; i < 100; i++) {
        uint64_t before = ahead;
        ahead = driver_ahead(ahead, false);
        assert_true(ahead < before || ahead == DRIVER_AHEAD);
        assert_true(ahead >=
                    before - before / 8 - 1); // not so far that it is late at once
    }
    assert_int_equal(ahead, DRIVER_AHEAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
