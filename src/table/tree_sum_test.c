// Compares sums by the fixed tree with its definition; some halves are added up
// beforehand.
//
// SPDX-License-Identifier: Apache-2.0
#include "table/tree_sum.h"

#include <string.h>

#include "base/random.h"
#include "kit/test.h"

enum { WIDTH = 5, ROUNDS = 2000 };

// The values of the parts; has[i] is false if part i is missing.
struct parts {
    bool has[TREE_LEAVES];
    float values[TREE_LEAVES][WIDTH];
};

static struct parts make(uint64_t seed)
{
    struct parts p;
    for (unsigned i = 0; i < TREE_LEAVES; i++) {
        p.has[i] = random_below(seed, 0, i, 4) < seed % 4 + 1;
        for (unsigned c = 0; c < WIDTH; c++)
            p.values[i][c] = random_f32(seed, i + 1, c) - 0.5f;
    }
    return p;
}

// Computes the sum of parts [begin, begin + n) by the definition of the tree. Returns
// whether any of these parts has values.
static bool naive(const struct parts *p, unsigned begin, unsigned n, float *ret)
{
    if (n == 1) {
        memcpy(ret, p->values[begin], sizeof(p->values[0]));
        return p->has[begin];
    }
    float right[WIDTH];
    bool has_left = naive(p, begin, n / 2, ret),
         has_right = naive(p, begin + n / 2, n / 2, right);
    for (unsigned c = 0; c < WIDTH; c++)
        ret[c] = has_left && has_right ? ret[c] + right[c] : has_left ? ret[c] : right[c];
    return has_left || has_right;
}

// Divides the parts randomly into contributions, which are subtrees or single parts.
// Returns the number of contributions.
static size_t contribute(const struct parts *p, unsigned begin, unsigned n, uint64_t seed,
                         uint8_t *first, float (*values)[WIDTH])
{
    if (n == 1 || random_below(seed, 7, begin * 32 + n, 3) == 0) {
        *first = (uint8_t)begin;
        return naive(p, begin, n, *values);
    }
    size_t left = contribute(p, begin, n / 2, seed, first, values);
    return left + contribute(p, begin + n / 2, n / 2, seed, first + left, values + left);
}

static void same_as_naive_sum(void **state)
{
    (void)state;
    size_t most = 0;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct parts p = make(seed);
        float want[WIDTH], values[TREE_LEAVES + 1][WIDTH], *at[TREE_LEAVES];
        uint8_t first[TREE_LEAVES + 1];
        for (size_t i = 0; i < TREE_LEAVES; i++)
            at[i] = values[i];
        bool any = naive(&p, 0, TREE_LEAVES, want);
        size_t n = contribute(&p, 0, TREE_LEAVES, seed, first, values);
        most = n > most ? n : most;
        assert_int_equal(any, n > 0);
        tree_sum(kernels_get(), first, at, n, WIDTH);
        if (any)
            assert_memory_equal(values[0], want, sizeof(want));
    }
    assert_true(most > TREE_LEAVES / 2);
}

// Adds the parts one at a time, with a stack of partial sums, as servers can.
static void one_at_a_time(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        struct parts p = make(seed);
        float want[WIDTH], sum[TREE_LEAVES][WIDTH];
        unsigned first[TREE_LEAVES];
        size_t n = 0;
        bool any = naive(&p, 0, TREE_LEAVES, want);
        for (unsigned i = 0; i <= TREE_LEAVES; i++) {
            if (i < TREE_LEAVES && !p.has[i])
                continue;
            // At the end (i == TREE_LEAVES) all sums on the stack are added.
            while (n > 1 && tree_joins(first[n - 2], first[n - 1], i)) {
                for (unsigned c = 0; c < WIDTH; c++)
                    sum[n - 2][c] += sum[n - 1][c];
                n--;
            }
            if (i < TREE_LEAVES) {
                memcpy(sum[n], p.values[i], sizeof(sum[n]));
                first[n++] = i;
            }
        }
        assert_int_equal(n, any);
        if (any)
            assert_memory_equal(sum[0], want, sizeof(want));
    }
}

// Shows that the order of additions changes the result, so the tests above can fail; also
// adds the same part three times.
static void orders_differ(void **state)
{
    (void)state;
    float a[] = {1e8f, -1e8f, 1}, b[] = {1e8f, -1e8f, 1}, c[] = {1, 1e8f, -1e8f};
    float *at[] = {a, a + 1, a + 2}, *bt[] = {b, b + 1, b + 2}, *ct[] = {c, c + 1, c + 2};
    tree_sum(kernels_get(), (const uint8_t[]){0, 1, 2}, at, 3, 1);
    assert_true(a[0] == 1);
    tree_sum(kernels_get(), (const uint8_t[]){0, 2, 3}, bt, 3, 1);
    assert_true(b[0] == 0);
    tree_sum(kernels_get(), (const uint8_t[]){15, 15, 15}, ct, 3, 1);
    assert_true(c[0] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_naive_sum),
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(orders_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
