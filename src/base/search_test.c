// SPDX-License-Identifier: Apache-2.0
#include "base/search.h"

#include "kit/test.h"

// Compares with a linear search, over every list of up to 40 numbers with gaps and
// repetitions, and every number that may be sought.
static void test_like_linear(void **state)
{
    (void)state;
    for (uint32_t n = 0; n <= 40; n++) {
        uint32_t list[40];
        for (uint32_t i = 0; i < n; i++)
            list[i] = i / 3 * 2 + 1;
        for (uint32_t sought = 0; sought < 40; sought++)
            for (uint32_t begin = 0; begin <= n; begin++) {
                uint32_t at = begin;
                while (at < n && list[at] < sought)
                    at++;
                assert_int_equal(search_first(begin, n, i, list[i] >= sought), at);
            }
    }
}

static void test_large_numbers(void **state)
{
    (void)state;
    assert_int_equal(search_first(0, UINT64_MAX, i, i >= UINT64_MAX - 2), UINT64_MAX - 2);
    assert_int_equal(search_first(5, 5, i, i == 0), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_like_linear),
        cmocka_unit_test(test_large_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
