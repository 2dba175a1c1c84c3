// SPDX-License-Identifier: Apache-2.0
#include "base/descriptors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

#include <cmocka.h>

static void raised_to_the_hard_limit(void **state)
{
    (void)state;
    struct rlimit was, now;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    now = was;
    now.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
    assert_int_equal(descriptors_limit(), 64);
    descriptors_raise();
    uint64_t most = was.rlim_max < 1 << 20 ? was.rlim_max : 1 << 20;
    assert_int_equal(descriptors_limit(), most);
    descriptors_raise(); // once more: nothing changes
    assert_int_equal(descriptors_limit(), most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(raised_to_the_hard_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
