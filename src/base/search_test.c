// SPDX-License-Identifier: Apache-2.0
#include "base/search.h"

#include "kit/rng.h"
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

enum { PLACES = 16, KEYS = 64 };

static uint32_t places[PLACES]; // 0: free

// Returns one of few homes, so that entries of several homes follow one another, also
// across the end of the table.
static size_t home_of(uint32_t key)
{
    return (PLACES - 3 + key % 5) % PLACES;
}

static size_t find(uint32_t key)
{
    size_t at = home_of(key);
    while (places[at] != 0 && places[at] != key)
        at = (at + 1) % PLACES;
    return at;
}

// A key can be found as long as it is in the table, whatever was removed before.
static void test_gaps_are_closed(void **state)
{
    bool is_in[KEYS] = {false};
    uint32_t n = 0;
    struct rng d = {.seed = 1};
    (void)state;
    for (int i = 0; i < 100000; i++) {
        uint32_t key = 1 + (uint32_t)rng_below(&d, KEYS - 1);
        size_t gap = find(key);
        assert_int_equal(places[gap] == key, is_in[key]);
        if (is_in[key]) {
            probe_close(gap, PLACES - 1, at, places[at] != 0, home_of(places[at]),
                        places[gap] = places[at]);
            places[gap] = 0;
        } else if (n < PLACES - 1) {
            places[gap] = key;
        } else {
            continue;
        }
        n += is_in[key] ? -1u : 1;
        is_in[key] = !is_in[key];
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_like_linear),
        cmocka_unit_test(test_large_numbers),
        cmocka_unit_test(test_gaps_are_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
