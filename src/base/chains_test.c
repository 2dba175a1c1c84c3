// Compares chains with an array that is searched from its end, also when memory is out.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/chains.h"

#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"

enum { THINGS = 600, ROUNDS = 6000, KEYS = 200 };

static struct chained things[THINGS];
static struct chained *in[THINGS]; // all things, in the order in which they were put
static uint64_t keys[THINGS];      // the keys of `in`
static size_t n_in;

static void check_key(const struct chains *c, uint64_t key)
{
    struct chained *x = chains_find(c, key);
    for (size_t i = n_in; i > 0; i--)
        if (keys[i - 1] == key) {
            assert_ptr_equal(x, in[i - 1]);
            x = chains_again(x);
        }
    assert_null(x);
}

static void take(struct chains *c, size_t i)
{
    chains_take(c, in[i]);
    for (n_in--; i < n_in; i++) {
        in[i] = in[i + 1];
        keys[i] = keys[i + 1];
    }
}

static bool is_in(const struct chained *x)
{
    bool found = false;
    for (size_t i = 0; i < n_in; i++)
        found |= in[i] == x;
    return found;
}

static size_t n_freed;

static void count_freed(struct chained *x)
{
    assert_true(is_in(x));
    memset(x, 0xee, sizeof(*x));
    n_freed++;
}

static void run(uint64_t seed, bool without_memory)
{
    struct chains c = {0};
    n_in = 0;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct chained *x = &things[random_below(seed, 0, i, THINGS)];
        mem_fault_after(without_memory ? 0 : -1);
        if (random_below(seed, 1, i, 5) < 2 && n_in > 0) {
            take(&c, random_below(seed, 2, i, n_in));
        } else if (!is_in(x)) {
            keys[n_in] = random_below(seed, 3, i, KEYS) << 40;
            in[n_in] = x;
            chains_put(&c, x, keys[n_in++]);
        }
        mem_fault_after(-1);
        assert_int_equal(c.n, n_in);
        check_key(&c, random_below(seed, 4, i, KEYS) << 40);
    }
    for (uint64_t k = 0; k < KEYS; k++)
        check_key(&c, k << 40);
    n_freed = 0;
    chains_free(&c, count_freed);
    assert_int_equal(n_freed, n_in);
    assert_int_equal(mem_live(), 0);
}

static void test_against_an_array(void **state)
{
    (void)state;
    run(1, false);
    run(2, false);
    run(3, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_an_array)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
