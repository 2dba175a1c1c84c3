// Compares key sets with a linear search.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/key_set.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/random.h"
#include "kit/test.h"

enum { KEYS = 700 };

// Draws keys of different shapes: near each other, far apart, equal in low or high bits.
static uint64_t draw(int shape, uint64_t i)
{
    uint64_t x = random_below(1, (uint64_t)shape, i, KEYS / 2);
    return shape == 0 ? x : shape == 1 ? x << 48 : shape == 2 ? UINT64_MAX - x : mix64(x);
}

static void test_numbers(void **state)
{
    (void)state;
    static uint64_t keys[KEYS];
    struct key_set s = {0};
    for (int shape = 0; shape < 4; shape++) {
        size_t n = 0, max = KEYS >> shape;
        assert_int_equal(key_set_reserve(&s, max), 0);
        key_set_clear(&s, max);
        for (uint64_t i = 0; i < max; i++) {
            uint64_t key = draw(shape, i);
            size_t number = 0;
            while (number < n && keys[number] != key)
                number++;
            key_set_prefetch(&s, key);
            uint32_t *place = key_set_place(&s, keys, key);
            assert_int_equal(*place, number < n ? number + 1 : 0);
            if (*place != 0)
                continue;
            keys[n] = key;
            *place = (uint32_t)++n;
        }
        assert_true(n > 0 && n < max);
    }
    key_set_fini(&s);
    assert_int_equal(mem_live(), 0);
}

// A set can hold as many keys as were reserved.
static void test_full(void **state)
{
    (void)state;
    uint64_t keys[8];
    struct key_set s = {0};
    for (size_t n = 0; n <= 8; n++) {
        assert_int_equal(key_set_reserve(&s, n), 0);
        key_set_clear(&s, n);
        for (uint32_t i = 0; i < n; i++) {
            keys[i] = i;
            *key_set_place(&s, keys, i) = i + 1;
        }
        assert_int_equal(*key_set_place(&s, keys, 99), 0);
    }
    key_set_fini(&s);
}

static void test_no_memory(void **state)
{
    (void)state;
    uint64_t key = 7;
    struct key_set s = {0};
    assert_int_equal(key_set_reserve(&s, 4), 0);
    key_set_clear(&s, 4);
    *key_set_place(&s, &key, key) = 1;
    mem_fault_after(0);
    assert_int_equal(key_set_reserve(&s, 1000), TUG_ENOMEM);
    mem_fault_after(-1);
    // The key's value is unchanged after the failure.
    assert_int_equal(*key_set_place(&s, &key, key), 1);
    key_set_fini(&s);
    assert_int_equal(mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
