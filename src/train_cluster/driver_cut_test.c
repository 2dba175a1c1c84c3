// Tests how many batches ahead the moment of a save of shares is chosen.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/test.h"
#include "train_cluster/driver_internal.h"

// A save that came too late increases this distance for the next saves, up to the limit.
// If saves come in time, the distance returns to its initial value in small steps:
// otherwise the next save could be too late again.
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
        assert_true(ahead >= before - before / 8 - 1);
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
