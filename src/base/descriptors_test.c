// SPDX-License-Identifier: Apache-2.0
#include "base/descriptors.h"

#include <sys/resource.h>
#include <unistd.h>

#include "kit/test.h"

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

static void what_is_open_is_not_left(void **state)
{
    int ends[2];
    (void)state;
    uint64_t before = descriptors_left();
    assert_in_range(before, 3, descriptors_limit());
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(descriptors_left(), before - 2);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(raised_to_the_hard_limit),
                                       cmocka_unit_test(what_is_open_is_not_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
