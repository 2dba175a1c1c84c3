// Tests arrays that change while an answer is sent from their memory: the sent bytes stay
// the same, the array gets the new values, and no memory leaks. Compares adding two
// arrays in one pass with adding them one after the other.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/kvstore/value.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "doors/kvstore/block.h"
#include "kit/rng.h"
#include "kit/test.h"

enum { N = 37 };

static struct kvs_value *make(struct kvs_values *all, float first)
{
    static float w[N];
    struct tug_array a = {TUG_FLOAT32, false, N, 1, w, NULL, 0};
    struct tug_kvstore_key name = {.number = 1};
    struct kvs_key key;
    struct kvs_value *v;
    struct err e;
    for (int i = 0; i < N; i++)
        w[i] = first + (float)i;
    assert_int_equal(kvs_key_make(&key, &name, &e), 0);
    assert_int_equal(kvs_values_make(all, &key, &a, &v, &e), 0);
    return v;
}

static void is(const float *x, float first, float step)
{
    for (int i = 0; i < N; i++)
        assert_true(x[i] == first + step * (float)i);
}

static int add_ones(void *ctx, const struct tug_kvstore_key *key,
                    const struct tug_array *merged, struct tug_array *stored)
{
    (void)ctx, (void)key;
    for (int i = 0; i < N; i++)
        ((float *)stored->data)[i] += ((const float *)merged->data)[i];
    return 0;
}

// Changes an array by an updater, by assignment, and by a sum whose memory becomes the
// array's: each time with and without another holder of the array's memory.
static void array_in_use(void **state)
{
    (void)state;
    float ones[N];
    struct tug_array merged = {TUG_FLOAT32, false, N, 1, ones, NULL, 0};
    struct err e;
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    for (int way = 0; way < 6; way++) {
        struct kvs_values all = {0};
        struct kvs_rows sum = {0};
        struct kvs_rule rule = {.updater = way / 2 == 0 ? add_ones : NULL};
        struct kvs_value *v = make(&all, 5);
        void *sent = v->a.data;
        bool holds = way % 2;
        if (holds)
            kvs_block_hold(sent);
        assert_int_equal(kvs_rows_set(&sum, TUG_FLOAT32, &merged, &e), 0);
        for (int round = 0; round < 3; round++) {
            if (way / 2 < 2)
                assert_int_equal(kvs_value_update(v, &rule, &merged, &e), 0);
            else
                assert_int_equal(kvs_value_update_by_sum(v, &rule, &sum, &e), 0);
            assert_int_equal(kvs_rows_set(&sum, TUG_FLOAT32, &merged, &e), 0);
        }
        if (way / 2 == 0)
            is(v->a.data, 8, 1);
        else
            is(v->a.data, 1, 0);
        if (holds) {
            is(sent, 5, 1);
            kvs_block_release(sent);
        }
        kvs_values_free(&all);
        kvs_rows_free(&sum);
        assert_int_equal(mem_live(), 0);
    }
}

// If there is no memory for a copy of the array, the update fails and changes nothing.
static void no_memory(void **state)
{
    (void)state;
    float ones[N] = {0};
    struct tug_array merged = {TUG_FLOAT32, false, N, 1, ones, NULL, 0};
    struct kvs_values all = {0};
    struct kvs_value *v = make(&all, 5);
    struct err e;
    void *sent = v->a.data;
    kvs_block_hold(sent);
    mem_fault_after(0);
    assert_int_equal(kvs_value_update(v, &(struct kvs_rule){0}, &merged, &e), TUG_ENOMEM);
    mem_fault_after(-1);
    is(v->a.data, 5, 1);
    kvs_block_release(sent);
    kvs_values_free(&all);
    assert_int_equal(mem_live(), 0);
}

static void two_at_once(void **state)
{
    (void)state;
    struct rng r = {.seed = 1};
    uint8_t bytes[2][N * 8];
    for (int type = 0; type <= TUG_INT64; type++)
        for (int k = 0; k < 40; k++) {
            struct kvs_rows one = {0}, two = {0};
            struct err e;
            for (size_t i = 0; i < sizeof(bytes); i++)
                bytes[i / sizeof(*bytes)][i % sizeof(*bytes)] =
                    (uint8_t)(rng_below(&r, 256) & (i % 8 % 2 == 1 ? 0x3b : 0xff));
            struct tug_array x = {(enum tug_dtype)type, false, N, 1, bytes[0], NULL, 0};
            struct tug_array y = {(enum tug_dtype)type, false, N, 1, bytes[1], NULL, 0};
            bool finite, odd = k % 4 == 3;
            size_t each = kvs_dtype_size(x.dtype);
            if (each == 0)
                continue;
            if (odd) // makes one float of x or y NaN
                memset(bytes[k % 8 / 4] + (size_t)k % N * each, 0xff, each);
            assert_int_equal(kvs_rows_set(&one, x.dtype, &x, &e), 0);
            assert_int_equal(kvs_rows_set_sum(&two, &x, &y, &finite, &e), 0);
            assert_int_equal(kvs_rows_add(&one, &y, &e), finite ? 0 : TUG_EUSAGE);
            assert_memory_equal(one.a.data, two.a.data, kvs_bytes(&one.a, N));
            assert_int_equal(finite, !odd || !kvs_dtype_is_float(x.dtype));
            kvs_rows_free(&one);
            kvs_rows_free(&two);
        }
    assert_int_equal(mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(array_in_use),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(two_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
