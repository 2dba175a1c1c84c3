// Pushes whose results are not finite: each partition refuses its keys as a whole, with
// the key in the error, and the rest of the table is as without the push. The outcome is
// the same whether a store watches its rows or keeps copies of them.
//
// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kit/rng.h"
#include "kit/stores.h"
#include "kit/test.h"
#include "store/store_internal.h"

static struct err e;

static int push(struct store *s, enum store_op op, const uint64_t *keys, size_t n,
                const float *values, size_t *ret_keys)
{
    struct store_push p = {.op = op,
                           .keys = keys,
                           .n = n,
                           .values = values,
                           .rate = 1,
                           .pass = 1,
                           .scale = 1};
    return store_push(s, &p, ret_keys, &e);
}

static float pulled(struct store *s, uint64_t key, uint8_t *ret_found)
{
    float x = NAN;
    assert_int_equal(0, store_pull(s, &key, 1, &x, ret_found, &e));
    return x;
}

// Sorts keys by partition.
static size_t sorted(struct store *s, uint64_t *keys, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t j = i;
             j > 0 && store_partition(s, keys[j - 1]) > store_partition(s, keys[j]);
             j--) {
            uint64_t swap = keys[j];
            keys[j] = keys[j - 1];
            keys[j - 1] = swap;
        }
    return n;
}

enum { KEYS = 64 };

// Checks a push of a large value that would make one key's weight infinite: it must
// change nothing in the key's partition and in later partitions.
static void overflow(const char *settings, float large)
{
    struct store *s = stores_open(settings, 3);
    uint64_t keys[KEYS], last;
    float values[KEYS];
    size_t done, odd = KEYS / 2;
    for (size_t i = 0; i < KEYS; i++)
        keys[i] = i * 77;
    sorted(s, keys, KEYS);
    for (size_t i = 0; i < KEYS; i++)
        values[i] = i == odd ? large : 1;
    uint32_t p = store_partition(s, keys[odd]);
    assert_int_equal(0, push(s, STORE_GRADIENT, keys, KEYS, values, &done));
    last = keys[KEYS - 1];
    float before = pulled(s, keys[odd], NULL), end = pulled(s, last, NULL);
    float first = pulled(s, keys[0], NULL);
    assert_int_equal(TUG_EUSAGE, push(s, STORE_GRADIENT, keys, KEYS, values, &done));
    char name[32];
    snprintf(name, sizeof(name), "key %llu ", (unsigned long long)keys[odd]);
    assert_non_null(strstr(e.text, name));
    assert_true(done > 0 && done <= odd);
    for (size_t i = 0; i < KEYS; i++)
        assert_int_equal(i < done, store_partition(s, keys[i]) < p);
    assert_true(pulled(s, keys[0], NULL) != first);
    assert_true(pulled(s, keys[odd], NULL) == before && pulled(s, last, NULL) == end);
    values[odd] = 1; // with a small value for this key the push is applied
    assert_int_equal(0, push(s, STORE_GRADIENT, keys, KEYS, values, &done));
    assert_true(isfinite(pulled(s, keys[odd], NULL)));
    store_close(s);
}

static void test_weights(void **state)
{
    (void)state;
    overflow("accessor=plain; dim=1; rule=sum", FLT_MAX / 1.5f);
    overflow("accessor=plain; dim=1; rule=sgd:lr=1", -FLT_MAX / 1.5f);
    overflow("accessor=plain; dim=1; rule=sum; init=1", -FLT_MAX / 1.5f);
}

// If a push would make a row with an infinite value, the row does not exist afterwards.
static void test_new_rows(void **state)
{
    (void)state;
    struct store *s = stores_open("accessor=plain; dim=2; rule=sgd:lr=1e38; deltas=yes",
                                  2);
    uint64_t keys[] = {5};
    float values[2] = {1e30f, 1}, got[2];
    uint8_t found = 1;
    size_t done;
    assert_int_equal(TUG_EUSAGE, push(s, STORE_GRADIENT, keys, 1, values, &done));
    assert_int_equal(0, done);
    assert_int_equal(0, store_pull(s, keys, 1, got, &found, &e));
    assert_int_equal(0, found);
    store_close(s);
}

// If the square of a gradient exceeds the range of a float, the gradient does not change
// the row; later gradients still do.
static void test_states(void **state)
{
    static const char *const rules[] = {"adagrad:lr=0.1", "adam:lr=0.1",
                                        "rmsprop:lr=0.1"};
    (void)state;
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
        char settings[96];
        snprintf(settings, sizeof(settings), "accessor=plain; dim=1; rule=%s", rules[i]);
        struct store *s = stores_open(settings, 1), *never = stores_open(settings, 1);
        const uint64_t key = 3;
        const float large = 1e20f, one = 1;
        assert_int_equal(0, push(s, STORE_GRADIENT, &key, 1, &large, NULL));
        for (int k = 0; k < 5; k++) {
            assert_int_equal(0, push(s, STORE_GRADIENT, &key, 1, &one, NULL));
            assert_int_equal(0, push(never, STORE_GRADIENT, &key, 1, &one, NULL));
        }
        assert_true(pulled(s, key, NULL) == pulled(never, key, NULL));
        assert_true(pulled(s, key, NULL) != 0);
        store_close(s);
        store_close(never);
    }
}

// Deltas that would make rows infinite are refused, and so are loaded rows that are not
// finite.
static void test_whole_rows(void **state)
{
    (void)state;
    struct store *s = stores_open("accessor=plain; dim=1; rule=adagrad", 1);
    const uint64_t key = 3;
    float row[2] = {3e38f, 1};
    assert_int_equal(0, push(s, STORE_DELTA, &key, 1, row, NULL));
    assert_int_equal(TUG_EUSAGE, push(s, STORE_DELTA, &key, 1, row, NULL));
    assert_true(pulled(s, key, NULL) == 3e38f);
    row[1] = NAN;
    assert_int_equal(TUG_EDATA, store_put_rows(s, &key, 1, row, &e));
    assert_non_null(strstr(e.text, "key 3"));
    row[0] = INFINITY, row[1] = 1;
    assert_int_equal(TUG_EDATA, store_put_rows(s, &key, 1, row, &e));
    assert_true(pulled(s, key, NULL) == 3e38f);
    store_close(s);
}

// A store that watches its rows and a store that copies rows before each push
// end with the same bits.
static void test_same(void **state)
{
    static const char *const rules[] = {"sum",         "sgd",      "adagrad", "adam",
                                        "ftrl:l1=0.1", "momentum", "rmsprop"};
    (void)state;
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
        char settings[96];
        snprintf(settings, sizeof(settings), "accessor=plain; dim=1; rule=%s", rules[i]);
        struct store *s[2] = {stores_open(settings, 2), stores_open(settings, 2)};
        uint64_t keys[KEYS];
        float values[KEYS];
        struct rng d = {.seed = i + 1};
        s[1]->wild = true;
        for (size_t k = 0; k < KEYS; k++)
            keys[k] = k;
        sorted(s[0], keys, KEYS);
        for (int round = 0; round < 60; round++) {
            int rc[2];
            size_t done[2];
            for (size_t k = 0; k < KEYS; k++) {
                values[k] = (float)rng_below(&d, 2001) / 1000 - 1;
                if (rng_below(&d, 300) == 0)
                    values[k] *= ldexpf(1, 20 + (int)rng_below(&d, 108));
            }
            for (int j = 0; j < 2; j++)
                rc[j] = push(s[j], STORE_GRADIENT, keys, KEYS, values, &done[j]);
            assert_int_equal(rc[0], rc[1]);
            assert_int_equal(done[0], done[1]);
            for (size_t k = 0; k < KEYS; k++) {
                float x = pulled(s[0], keys[k], NULL), y = pulled(s[1], keys[k], NULL);
                assert_true(isfinite(x) && x == y);
            }
        }
        store_close(s[0]);
        store_close(s[1]);
    }
}

// A model of a store: each row is one weight, to which pushes are added partition by
// partition. If a row would not stay finite, the push ends before the row's partition.
enum { MANY = 20000 };

struct sums {
    float sign; // factor of gradients
    float row[MANY];
};

static size_t model_push(struct sums *m, struct store *s, const uint64_t *keys, size_t n,
                         const float *values)
{
    for (size_t i = 0, end; i < n; i = end) {
        bool finite = true;
        for (end = i;
             end < n && store_partition(s, keys[end]) == store_partition(s, keys[i]);
             end++)
            finite &= isfinite(m->row[keys[end]] + m->sign * values[end]) != 0;
        if (!finite)
            return i;
        for (size_t k = i; k < end; k++)
            m->row[keys[k]] += m->sign * values[k];
    }
    return n;
}

static void compare(struct store *s, const struct sums *m, const uint64_t *keys, size_t n)
{
    static float got[MANY];
    assert_int_equal(0, store_pull(s, keys, n, got, NULL, &e));
    for (size_t i = 0; i < n; i++)
        assert_true(got[i] == m->row[keys[i]]);
}

// Compares random pushes to a store with the model. After a refusal, pushes again with
// smaller values for the refused keys, like a user who clips gradients.
static unsigned against_model(const char *settings, float sign, size_t n_keys,
                              unsigned rounds)
{
    static uint64_t all[MANY], keys[MANY];
    static float values[MANY];
    static struct sums m;
    struct store *s = stores_open(settings, 2);
    struct rng d = {.seed = n_keys};
    unsigned refused = 0;
    m = (struct sums){.sign = sign};
    for (size_t k = 0; k < n_keys; k++)
        all[k] = k;
    for (size_t k = 0, p = 0; p < 4; p++) // sorted by partition
        for (size_t i = 0; i < n_keys; i++)
            if (store_partition(s, i) == p)
                all[k++] = i;
    for (unsigned round = 0; round < rounds; round++) {
        size_t n = 0, done, rest = 0;
        for (size_t k = 0; k < n_keys; k++)
            if (rng_below(&d, 3) > 0) {
                keys[n] = all[k];
                values[n++] = rng_below(&d, 100) == 0 ? FLT_MAX * 0.75f
                                                      : (float)rng_below(&d, 2001) - 1000;
            }
        while (rest < n) {
            size_t should = model_push(&m, s, keys + rest, n - rest, values + rest);
            int rc = push(s, STORE_GRADIENT, keys + rest, n - rest, values + rest, &done);
            assert_int_equal(done, should);
            assert_int_equal(rc, done == n - rest ? 0 : TUG_EUSAGE);
            refused += rc != 0;
            rest += done;
            for (size_t k = rest; k < n && rc != 0; k++)
                values[k] = fabsf(values[k]) > 1000 ? 1000 : values[k];
        }
        compare(s, &m, all, n_keys);
    }
    store_close(s);
    return refused;
}

static void test_model(void **state)
{
    (void)state;
    assert_true(against_model("accessor=plain; dim=1; rule=sum", 1, 40, 300) > 20);
    assert_true(against_model("accessor=plain; dim=1; rule=sgd:lr=1", -1, 40, 300) > 20);
    assert_true(against_model("accessor=plain; dim=1; rule=sum", 1, MANY, 20) > 3);
}

// An update that would make a rule's state infinite is left out of its row only: the
// other rows are as in a table that never got this update.
static void test_left_out(void **state)
{
    static const char *const rules[] = {"adagrad", "adam", "rmsprop"};
    (void)state;
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
        char settings[96];
        snprintf(settings, sizeof(settings), "accessor=plain; dim=1; rule=%s", rules[i]);
        struct store *s = stores_open(settings, 2), *never = stores_open(settings, 2);
        uint64_t keys[KEYS], few[KEYS];
        float values[KEYS], some[KEYS];
        struct rng d = {.seed = i + 1};
        for (size_t k = 0; k < KEYS; k++)
            keys[k] = k;
        sorted(s, keys, KEYS);
        uint64_t left_out = 0, first;
        for (int round = 0; round < 60; round++) {
            size_t n = 0;
            for (size_t k = 0; k < KEYS; k++) {
                values[k] = (float)rng_below(&d, 2001) / 1000 - 1;
                if (rng_below(&d, 20) == 0) {
                    values[k] = 1e21f;
                } else {
                    few[n] = keys[k];
                    some[n++] = values[k];
                }
            }
            assert_int_equal(0, push(s, STORE_GRADIENT, keys, KEYS, values, NULL));
            left_out += KEYS - n;
            assert_int_equal(left_out, store_stats(s).left_out);
            size_t bad = 0; // first key whose update was left out: only this key is
                            // reported
            while (bad < KEYS && values[bad] < 2)
                bad++;
            assert_int_equal(bad < KEYS, store_take_left_out(s, &first));
            assert_true(bad == KEYS || first == keys[bad]);
            assert_false(store_take_left_out(s, &first));
            assert_int_equal(0, push(never, STORE_GRADIENT, few, n, some, NULL));
            for (size_t k = 0; k < KEYS; k++)
                assert_true(pulled(s, keys[k], NULL) == pulled(never, keys[k], NULL));
        }
        store_close(s);
        store_close(never);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),   cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_weights), cmocka_unit_test(test_new_rows),
        cmocka_unit_test(test_states),  cmocka_unit_test(test_whole_rows),
        cmocka_unit_test(test_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
