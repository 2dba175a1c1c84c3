// Compares stores without a cluster with naive models; casts and compression are compared
// with formulas that are written a second time here.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doors/kvstore/array.h"
#include "doors/kvstore/coding.h"
#include "kit/kvstores.h"
#include "kit/rng.h"
#include "os/clock.h"
#include "runtime/last_error.h"
#include "tug/kvstore.h"

static struct tug_array sparse(float *data, int64_t *ids, size_t n)
{
    return (struct tug_array){TUG_FLOAT32, true, ROWS, WIDTH, data, ids, n};
}

// ---------------------------------------------------------------- half floats

static double half_by_hand(uint16_t h)
{
    double f = h & 0x3ff, sign = h & 0x8000 ? -1 : 1;
    int e = h >> 10 & 31;
    return e == 0 ? sign * ldexp(f, -24) : sign * ldexp(1024 + f, e - 25);
}

static void halves(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 1 << 16; h++) {
        float f = kvs_half_to_float((uint16_t)h);
        if ((h >> 10 & 31) == 31) {
            assert_true((h & 0x3ff) != 0 ? isnan(f) : isinf(f));
            if (isnan(f))
                continue;
        } else {
            assert_true((double)f == half_by_hand((uint16_t)h));
        }
        assert_int_equal(h, kvs_float_to_half(f));
    }
    // The middle between two half floats is rounded to the even one, any other float to
    // the nearest.
    for (uint32_t h = 0; h < 0x7bff; h++) {
        double a = half_by_hand((uint16_t)h), b = half_by_hand((uint16_t)(h + 1));
        float middle = (float)((a + b) / 2);
        assert_int_equal(h % 2 == 0 ? h : h + 1, kvs_float_to_half(middle));
        assert_int_equal(h, kvs_float_to_half(nextafterf(middle, 0)));
        assert_int_equal(h + 1, kvs_float_to_half(nextafterf(middle, 1e9f)));
    }
    assert_int_equal(0x7bff, kvs_float_to_half(65519));
    assert_int_equal(0x7c00, kvs_float_to_half(65520));
    assert_int_equal(0xfc00, kvs_float_to_half(-1e30f));
}

static void casts(void **state)
{
    const double from[] = {1.75, -2.5, 1e30, -1e30, (double)NAN, 3e9};
    const int32_t as_int[] = {1, -2, INT32_MAX, INT32_MIN, 0, INT32_MAX};
    // 2^53 + 1 is not a double, so a cast that used doubles would change it.
    const int64_t big[] = {(INT64_C(1) << 53) + 1, -5};
    int32_t i32[6];
    int64_t i64[2];
    (void)state;
    kvs_cast(TUG_INT32, i32, TUG_FLOAT64, from, 6);
    assert_memory_equal(as_int, i32, sizeof(i32));
    kvs_cast(TUG_INT64, i64, TUG_INT64, big, 2);
    assert_memory_equal(big, i64, sizeof(big));
    kvs_cast(TUG_INT32, i32, TUG_INT64, big, 2);
    assert_int_equal(INT32_MAX, i32[0]);
    assert_int_equal(-5, i32[1]);
    kvs_cast(TUG_INT64, i64, TUG_INT32, i32, 2);
    assert_int_equal(-5, i64[1]);
}

// ------------------------------------------------------ compression, computed bit by bit

static void naive_coding(bool two, float t, const float *g, float *r, size_t n,
                         uint8_t *bits, float *out)
{
    for (size_t i = 0; i < n; i++) {
        r[i] += g[i];
        if (two) {
            bool up = r[i] >= t, down = !up && r[i] <= -t;
            out[i] = up ? t : down ? -t : 0;
            r[i] -= out[i];
            bits[2 * i] = up || down;
            bits[2 * i + 1] = up;
        } else {
            out[i] = r[i] > t ? 1 : -1;
            r[i] -= out[i];
            bits[i] = out[i] > 0;
        }
    }
}

static void coding(void **state)
{
    enum { MOST = 101 };
    struct rng rng = {.seed = 7};
    (void)state;
    for (int round = 0; round < 200; round++) {
        bool two = round % 2 == 0;
        enum kvs_coding c = two ? KVS_2BIT : KVS_1BIT;
        size_t n = 1 + rng_below(&rng, MOST - 1), k = kvs_coded_words(c, n);
        float g[MOST], left[MOST] = {0}, r[MOST] = {0}, out[MOST], got[MOST];
        uint32_t words[MOST];
        uint8_t bits[2 * MOST + 64];
        assert_int_equal((n + (two ? 15 : 31)) / (two ? 16 : 32), k);
        for (int step = 0; step < 5; step++) {
            for (size_t i = 0; i < n; i++) // some values are exactly the threshold
                g[i] = ((float)rng_below(&rng, 17) - 8) * 0.25f;
            memset(bits, 0, sizeof(bits));
            naive_coding(two, 0.5f, g, r, n, bits, out);
            kvs_encode(c, 0.5f, g, left, n, words);
            const uint8_t *bytes = (const uint8_t *)words;
            for (size_t b = 0; b < k * 32; b++)
                assert_int_equal(bits[b], bytes[b / 8] >> (7 - b % 8) & 1);
            kvs_decode(c, 0.5f, words, n, got);
            assert_memory_equal(out, got, n * sizeof(float));
            assert_memory_equal(r, left, n * sizeof(float));
        }
    }
}

// These functions compare a local store with sums in a plain array.

static int add(void *ctx, const struct tug_kvstore_key *key,
               const struct tug_array *merged, struct tug_array *stored)
{
    assert_string_equal("w", key->name);
    ++*(int *)ctx;
    for (size_t i = 0; i < (merged->sparse ? merged->n_ids : merged->rows); i++) {
        size_t row = merged->sparse ? (size_t)merged->ids[i] : i;
        for (size_t k = 0; k < WIDTH; k++)
            ((float *)stored->data)[row * WIDTH + k] +=
                ((const float *)merged->data)[i * WIDTH + k];
    }
    return 0;
}

struct pushed {
    struct tug_array a;
    int64_t ids[ROWS];
    float data[N];
};

static void random_push(struct rng *rng, struct pushed *p, float sum[N],
                        bool touched[ROWS])
{
    bool whole = rng_below(rng, 3) == 0;
    size_t n = 0;
    for (int64_t r = 0; r < ROWS; r++)
        if (whole || rng_below(rng, 2) == 0) {
            for (size_t k = 0; k < WIDTH; k++) {
                p->data[n * WIDTH + k] = (float)rng_below(rng, 9) - 4;
                sum[(size_t)r * WIDTH + k] += p->data[n * WIDTH + k];
            }
            touched[r] = true;
            p->ids[n++] = r;
        }
    p->a = whole ? dense(p->data) : sparse(p->data, p->ids, n);
}

static void sums(void **state)
{
    struct rng rng = {.seed = 11};
    (void)state;
    for (int round = 0; round < 300; round++) {
        bool updates = round % 2;
        int calls = 0;
        float stored[N], got[N], zero[N] = {0};
        struct tug_kvstore *s = open_type("local");
        struct tug_array first = round % 3 == 0 ? sparse(NULL, NULL, 0) : dense(zero);
        struct tug_array out = dense(got);
        memset(stored, 0, sizeof(stored));
        check(init(s, "w", &first));
        if (updates)
            check(tug_kvstore_set_updater(s, add, &calls));
        for (int step = 0; step < 4; step++) {
            struct pushed p[3];
            struct tug_kvstore_item items[3];
            float sum[N] = {0};
            bool touched[ROWS] = {false};
            size_t n = 1 + rng_below(&rng, 3);
            for (size_t i = 0; i < n; i++) {
                random_push(&rng, &p[i], sum, touched);
                items[i] = (struct tug_kvstore_item){{.name = "w"}, &p[i].a};
            }
            check(tug_kvstore_push(s, items, n, 0));
            for (size_t i = 0; i < N; i++)
                stored[i] = updates ? stored[i] + sum[i] : sum[i];
            check(pull(s, "w", &out));
            assert_memory_equal(stored, got, sizeof(got));
        }
        assert_int_equal(updates ? 4 : 0, calls);
        uint64_t rounds;
        check(tug_kvstore_rounds(s, &(struct tug_kvstore_key){.name = "w"}, &rounds));
        assert_int_equal(4, rounds);
        check(tug_kvstore_close(s));
    }
}

static void rows(void **state)
{
    float data[2 * WIDTH] = {1, 2, 3, 4, 5, 6}, got[N] = {0};
    int64_t ids[] = {1, 5}, found[ROWS];
    int64_t wanted[] = {0, 5}, wrong[] = {5, 0};
    struct tug_kvstore *s = open_type("local");
    struct tug_array a = sparse(data, ids, 2), out = sparse(got, found, 0);
    struct tug_array some = sparse(got, wanted, 2), whole = dense(got);
    struct tug_kvstore_item item = {{.name = "e"}, &some};
    (void)state;
    check(init(s, "e", &a));
    check(pull(s, "e", &out));
    assert_int_equal(2, out.n_ids);
    assert_memory_equal(ids, found, sizeof(ids));
    assert_memory_equal(data, got, sizeof(data));
    check(tug_kvstore_pull_rows(s, &item, 1, 0));
    for (size_t k = 0; k < WIDTH; k++)
        assert_true(got[k] == 0 && got[WIDTH + k] == data[WIDTH + k]);
    some.ids = wrong;
    refused(tug_kvstore_pull_rows(s, &item, 1, 0), "ascend");
    item.array = &whole;
    refused(tug_kvstore_pull_rows(s, &item, 1, 0), "dense");
    check(init(s, "d", &whole));
    some.ids = wanted;
    item = (struct tug_kvstore_item){{.name = "d"}, &some};
    refused(tug_kvstore_pull_rows(s, &item, 1, 0), "key is dense");
    check(tug_kvstore_close(s));
}

// Arrays that are pushed, and arrays that receive pulls, may have other dtypes than the key.
static void dtypes(void **state)
{
    const enum tug_dtype all[] = {TUG_FLOAT16, TUG_FLOAT32, TUG_FLOAT64, TUG_INT32,
                                  TUG_INT64};
    (void)state;
    for (int k = 0; k < 5; k++)
        for (int p = 0; p < 5; p++) {
            double whole[N], got[N], bytes[N];
            struct tug_kvstore *s = open_type("local_allreduce_cpu");
            struct tug_array key = {all[k], false, ROWS, WIDTH, bytes, NULL, 0};
            struct tug_array a = {all[p], false, ROWS, WIDTH, bytes, NULL, 0};
            struct tug_array out = {TUG_FLOAT64, false, ROWS, WIDTH, got, NULL, 0};
            memset(bytes, 0, sizeof(bytes));
            check(init(s, "w", &key));
            for (int i = 0; i < N; i++)
                whole[i] = i - 10;
            kvs_cast(all[p], bytes, TUG_FLOAT64, whole, N);
            struct tug_kvstore_item twice[] = {{{.name = "w"}, &a}, {{.name = "w"}, &a}};
            check(tug_kvstore_push(s, twice, 2, 0));
            check(pull(s, "w", &out));
            for (int i = 0; i < N; i++)
                assert_true(got[i] == 2 * whole[i]);
            assert_string_equal("local_allreduce_cpu", tug_kvstore_type(s));
            check(tug_kvstore_close(s));
        }
}

// A push with a value out of the range of the key's dtype is refused.
static void out_of_range(void **state)
{
    static const struct {
        enum tug_dtype from, key;
        double last, first; // the last value that fits, and the first that does not fit
    } pairs[] = {
        {TUG_FLOAT64, TUG_FLOAT32, 0x1.fffffep127, 0x1p128},
        {TUG_FLOAT64, TUG_FLOAT16, -65519, -65520},
        {TUG_FLOAT32, TUG_FLOAT16, 65504, 65536},
        {TUG_FLOAT32, TUG_INT32, -0x1p31, 0x1p31},
        {TUG_FLOAT64, TUG_INT32, INT32_MAX + 0.5, -0x1p31 - 1},
        {TUG_FLOAT64, TUG_INT64, -0x1p63, 0x1p63},
        {TUG_INT64, TUG_INT32, INT32_MIN, -0x1p31 - 1},
        {TUG_INT64, TUG_FLOAT16, 65504, 65536},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        double numbers[N] = {0}, bytes[N], got[N];
        struct tug_kvstore *s = open_type("local");
        struct tug_array a = {pairs[i].from, false, ROWS, WIDTH, bytes, NULL, 0};
        struct tug_array out = {TUG_FLOAT64, false, ROWS, WIDTH, got, NULL, 0}, key = out;
        key.dtype = pairs[i].key;
        memset(got, 0, sizeof(got));
        check(init(s, "w", &key));
        numbers[N - 1] = pairs[i].last;
        kvs_cast(pairs[i].from, bytes, TUG_FLOAT64, numbers, N);
        check(push(s, "w", &a));
        numbers[N - 1] = pairs[i].first;
        kvs_cast(pairs[i].from, bytes, TUG_FLOAT64, numbers, N);
        refused(push(s, "w", &a), "element 20");
        check(pull(s, "w", &out));
        // The key still has the value before the refused push.
        assert_true(fabs(got[N - 1] - pairs[i].last) <= 15);
        check(tug_kvstore_close(s));
    }
}

static void compressed(void **state)
{
    float zero[N] = {0}, g[2][N], left[2][N] = {{0}}, out[N], got[N];
    uint8_t bits[2 * N + 64];
    struct tug_kvstore *s = open_type("device");
    struct tug_array w = dense(zero), a = dense(g[0]), b = dense(g[1]), to = dense(got);
    struct tug_kvstore_item items[] = {{{.name = "w"}, &a}, {{.name = "w"}, &b}};
    struct rng rng = {.seed = 3};
    (void)state;
    check(init(s, "w", &w));
    check(tug_kvstore_set_compression(s, "2bit", 0.5f));
    for (int step = 0; step < 20; step++) {
        float sum[N] = {0};
        for (int d = 0; d < 2; d++) {
            for (int i = 0; i < N; i++)
                g[d][i] = ((float)rng_below(&rng, 9) - 4) * 0.125f;
            naive_coding(true, 0.5f, g[d], left[d], N, bits, out);
            for (int i = 0; i < N; i++)
                sum[i] += out[i];
        }
        check(tug_kvstore_push(s, items, 2, 0));
        check(pull(s, "w", &to));
        assert_memory_equal(sum, got, sizeof(got));
    }
    refused(tug_kvstore_set_compression(s, "4bit", NAN), "4bit");
    refused(tug_kvstore_set_compression(s, "2bit", 0), "threshold");
    check(tug_kvstore_set_compression(s, "1bit", 0));
    check(tug_kvstore_set_compression(s, "2bit", NAN));
    refused(tug_kvstore_set_compression(s, "2bit", -1), "threshold");
    // If one key of a push cannot be compressed, the other key is not pushed either.
    int64_t numbers[N] = {0};
    struct tug_array whole = {TUG_INT64, false, ROWS, WIDTH, numbers, NULL, 0};
    struct tug_kvstore_item both[] = {{{.name = "w"}, &a}, {{.name = "i"}, &whole}};
    check(init(s, "i", &whole));
    check(pull(s, "w", &to));
    memcpy(out, got, sizeof(out));
    for (int i = 0; i < N; i++)
        g[0][i] = 5;
    refused(tug_kvstore_push(s, both, 2, 0), "key 'i' is of dtype int64");
    check(pull(s, "w", &to));
    assert_memory_equal(out, got, sizeof(got));
    check(tug_kvstore_close(s));
    s = open_type("local");
    refused(tug_kvstore_set_compression(s, "2bit", 0.5f), "local");
    check(tug_kvstore_close(s));
}

static int cannot(void *ctx, const struct tug_kvstore_key *key,
                  const struct tug_array *merged, struct tug_array *stored)
{
    (void)ctx, (void)key, (void)merged, (void)stored;
    return TUG_EDATA;
}

// An updater that changes some elements, and makes one of them NaN so that the push is
// refused.
static int leaves(void *ctx, const struct tug_kvstore_key *key,
                  const struct tug_array *merged, struct tug_array *stored)
{
    (void)ctx, (void)key, (void)merged;
    ((float *)stored->data)[1] = 9;
    ((float *)stored->data)[2] = (float)NAN;
    return 0;
}

static void misuse(void **state)
{
    float w[N] = {0};
    struct tug_array a = dense(w), small = {TUG_FLOAT32, false, 2, WIDTH, w, NULL, 0};
    struct tug_array odd = {(enum tug_dtype)3, false, 2, WIDTH, w, NULL, 0};
    struct tug_kvstore *s = open_type("local"), *other;
    struct tug_kvstore_item number = {{.number = 3}, &a};
    static const char *const types[] = {"",        "remote", "nccl",
                                        "horovod", "p4",     "p3_async"};
    char longest[300];
    (void)state;
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        refused(tug_kvstore_open(&other, &(struct tug_kvstore_options){.type = types[i]}),
                types[i]);
    refused(push(s, "w", &a), "key 'w'");
    refused(pull(s, "w", &a), "init");
    refused(init(s, longest, &a), "299");
    refused(init(s, "", &a), "0");
    refused(init(s, "w", &odd), "dtype 3");
    refused(init(s, "w", NULL), "no array");
    check(init(s, "w", &a));
    refused(init(s, "w", &a), "before");
    refused(push(s, "w", &small), "2 x 3");
    refused(pull(s, "w", &small), "7 x 3");
    refused(tug_kvstore_init(s, &number, 1), "number");
    refused(tug_kvstore_push(s, &number, 1, 0), "number");
    refused(tug_kvstore_command(s, 1, NULL, 0), "no servers");
    check(tug_kvstore_set_updater(s, cannot, NULL));
    assert_int_equal(TUG_EDATA, push(s, "w", &a));
    assert_non_null(strstr(tug_last_error(), "key 'w'"));
    struct tug_array again = a;
    float were[N], are[N];
    again.data = were;
    check(pull(s, "w", &again));
    check(tug_kvstore_set_updater(s, leaves, NULL));
    refused(push(s, "w", &a), "key 'w': its updater made element 2 not finite");
    again.data = are;
    check(pull(s, "w", &again));
    assert_memory_equal(were, are, sizeof(were)); // the store has restored the array
    uint32_t dead = 9;
    check(tug_kvstore_dead(s, TUG_GROUP_ALL, &dead));
    assert_int_equal(0, dead);
    check(tug_kvstore_barrier(s));
    check(tug_kvstore_wait(s));
    assert_true(!tug_kvstore_is_dist(s) && !tug_kvstore_recovers(s));
    assert_int_equal(0, tug_kvstore_rank(s));
    assert_int_equal(1, tug_kvstore_workers(s));
    check(tug_kvstore_close(s));
    s = open_type("local");
    check(tug_kvstore_init(s, &number, 1));
    refused(init(s, "w", &a), "'w' is a name");
    struct tug_kvstore_item out = {{.number = 4}, &a};
    check(tug_kvstore_broadcast(s, &out, 1, &out, 1, 0));
    check(tug_kvstore_push_pull(s, &out, 1, &out, 1, 0));
    check(tug_kvstore_close(s));
    check(tug_kvstore_close(NULL));
}

// A process whose role does not fit its call is refused before it joins the cluster.
// Otherwise a worker that calls tug_kvstore_serve would take another worker's rank, and a
// process without a scheduler's address would wait for a scheduler.
static void wrong_roles(void **state)
{
    (void)state;
    struct tug_node_options node = {.role = TUG_GROUP_WORKERS,
                                    .servers = 1,
                                    .workers = 1,
                                    .scheduler = "127.0.0.1:1",
                                    .wait_seconds = 60};
    struct tug_kvstore *s;
    uint64_t begin = clock_ns();
    refused(tug_kvstore_serve(&(struct tug_kvstore_server_options){.node = &node}),
            "is a worker");
    node.role = TUG_GROUP_SERVERS;
    refused(tug_kvstore_open(&s, &(struct tug_kvstore_options){"dist", &node, 0, 0}),
            "a server");
    assert_true(clock_ns() - begin < 30 * (uint64_t)1000000000);
}

// Makes all calls of a local store that allocate memory.
static int all_calls(void)
{
    float w[N] = {0}, g[N] = {1};
    int64_t ids[] = {1, 2};
    struct tug_kvstore *s;
    struct tug_array a = dense(w), b = sparse(g, ids, 2), c = dense(g);
    struct tug_kvstore_item items[] = {{{.name = "w"}, &b}, {{.name = "w"}, &c}};
    int rc = tug_kvstore_open(&s, NULL);
    if (rc == 0) {
        rc = init(s, "w", &a);
        if (rc == 0)
            rc = tug_kvstore_set_optimizer(s, "adam");
        if (rc == 0)
            rc = tug_kvstore_push(s, items, 2, 0);
        if (rc == 0)
            rc = pull(s, "w", &a);
        test_err = *last_error();
        (void)tug_kvstore_close(s);
    } else {
        test_err = *last_error();
    }
    return rc;
}

static void out_of_memory(void **state)
{
    (void)state;
    FAIL_EACH_ALLOCATION(all_calls(), (void)0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves),        cmocka_unit_test(casts),
        cmocka_unit_test(coding),        cmocka_unit_test(sums),
        cmocka_unit_test(rows),          cmocka_unit_test(dtypes),
        cmocka_unit_test(out_of_range),  cmocka_unit_test(compressed),
        cmocka_unit_test(misuse),        cmocka_unit_test(wrong_roles),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
