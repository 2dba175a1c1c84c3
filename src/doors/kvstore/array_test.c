// Tests numbers at the limits of dtypes: sums, pulls and steps of optimizers that would
// exceed them are refused with the key's name, and the key stays unchanged.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/kvstore/array.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "kit/files.h"
#include "kit/test.h"

enum { ROWS = 300, WIDTH = 3, N = ROWS * WIDTH, ODD = 700 };

static struct tug_kvstore *store;

static int set_up(void **state)
{
    (void)state;
    return tug_kvstore_open(&store, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    return tug_kvstore_close(store);
}

static void refused(int rc, const char *why)
{
    assert_int_equal(TUG_EUSAGE, rc);
    if (strstr(tug_last_error(), why) == NULL ||
        strstr(tug_last_error(), "key 7") == NULL)
        fail_msg("'%s' or the key is not in: %s", why, tug_last_error());
}

static struct tug_array array(enum tug_dtype t, void *data)
{
    return (struct tug_array){t, false, ROWS, WIDTH, data, NULL, 0};
}

static void push(struct tug_array *a, int rc, const char *why)
{
    struct tug_kvstore_item item = {{.number = 7}, a};
    if (rc == 0)
        assert_int_equal(0, tug_kvstore_push(store, &item, 1, 0));
    else
        refused(tug_kvstore_push(store, &item, 1, 0), why);
}

static void begin(struct tug_array *a)
{
    struct tug_kvstore_item item = {{.number = 7}, a};
    assert_int_equal(0, tug_kvstore_init(store, &item, 1));
}

static void pulls(enum tug_dtype t, void *into, const void *want, size_t bytes)
{
    struct tug_array a = array(t, into);
    struct tug_kvstore_item item = {{.number = 7}, &a};
    assert_int_equal(0, tug_kvstore_pull(store, &item, 1, 0));
    assert_memory_equal(into, want, bytes);
}

static void whole_numbers(void **state)
{
    static int64_t x[N], y[N], got[N];
    static int32_t narrow[N], before[N];
    struct tug_array a = array(TUG_INT64, x), b = array(TUG_INT64, y),
                     out = array(TUG_INT32, narrow);
    struct tug_kvstore_item two[] = {{{.number = 7}, &a}, {{.number = 7}, &b}},
                            item = {{.number = 7}, &out};
    (void)state;
    x[ODD] = (int64_t)1 << 40;
    narrow[0] = before[0] = 5;
    begin(&a);
    refused(tug_kvstore_pull(store, &item, 1, 0), "element 700 is 1099511627776");
    assert_memory_equal(narrow, before, sizeof(narrow));
    x[ODD] = INT64_MAX;
    y[ODD] = 1;
    refused(tug_kvstore_push(store, two, 2, 0), "beyond dtype int64");
    x[ODD] = INT64_MIN;
    y[ODD] = -1;
    refused(tug_kvstore_push(store, two, 2, 0), "beyond dtype int64");
    y[ODD] = 0;
    x[ODD] = (int64_t)1 << 40; // the store still has the value before the refused push
    pulls(TUG_INT64, got, x, sizeof(x));
    y[ODD] = INT64_MAX - x[ODD]; // the largest value whose sum with x fits
    assert_int_equal(0, tug_kvstore_push(store, two, 2, 0));
    x[ODD] = INT64_MAX;
    pulls(TUG_INT64, got, x, sizeof(x));
}

static void floats(void **state)
{
    static float x[N], y[N], got[N];
    static uint16_t half[N];
    int64_t ids[] = {0, ODD / WIDTH};
    struct tug_array a = array(TUG_FLOAT32, x), b = array(TUG_FLOAT32, y);
    struct tug_array out = array(TUG_FLOAT16, half);
    struct tug_array rows = {TUG_FLOAT32, true, ROWS, WIDTH, y, ids, 2};
    struct tug_kvstore_item two[] = {{{.number = 7}, &a}, {{.number = 7}, &b}},
                            item = {{.number = 7}, &out};
    (void)state;
    x[ODD] = 7e4f;
    begin(&a);
    refused(tug_kvstore_pull(store, &item, 1, 0), "element 700 is 70000");
    x[ODD] = y[ODD] = 2e38f;
    refused(tug_kvstore_push(store, two, 2, 0), "beyond dtype float32");
    y[ODD % WIDTH + WIDTH] = 2e38f; // the sum overflows, also of two sparse arrays
    two[1].array = &rows;
    refused(tug_kvstore_push(store, two, 2, 0), "beyond dtype float32");
    two[0].array = &rows;
    refused(tug_kvstore_push(store, two, 2, 0), "beyond dtype float32");
    x[ODD] = 7e4f;
    pulls(TUG_FLOAT32, got, x, sizeof(x));
}

// With every optimizer, a push that would make a weight infinite is refused and leaves
// weights and states unchanged: the next push has the same result as without it.
static void steps(void **state)
{
    static const char *const names[] = {"sgd",  "sgd:momentum=0.9", "nag",
                                        "adam", "adagrad",          "adadelta",
                                        "ftrl", "rmsprop",          "rmsprop:centered=1"};
    static float w[N], g[N], got[2][N];
    int64_t ids[] = {1, ODD / WIDTH};
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        for (int with = 0; with < 2; with++) {
            struct tug_kvstore *s;
            struct tug_array a = array(TUG_FLOAT32, w), b = array(TUG_FLOAT32, g);
            struct tug_array rows = {TUG_FLOAT32, true, ROWS, WIDTH, g, ids, 2};
            struct tug_array out = array(TUG_FLOAT32, got[with]);
            struct tug_kvstore_item one = {{.number = 7}, &a}, to = {{.number = 7}, &out};
            assert_int_equal(0, tug_kvstore_open(&s, NULL));
            for (int j = 0; j < N; j++)
                w[j] = (float)j / N, g[j] = 1;
            // With the first three optimizers the weight overflows; with the others, the
            // square of the gradient.
            w[ODD] = i < 3 ? -FLT_MAX : -1;
            assert_int_equal(0, tug_kvstore_set_optimizer(s, names[i]));
            assert_int_equal(0, tug_kvstore_init(s, &one, 1));
            one.array = &b;
            assert_int_equal(0, tug_kvstore_push(s, &one, 1, 0));
            for (int again = 0; again < 2 && with; again++) {
                g[ODD] = g[WIDTH + ODD % WIDTH] = FLT_MAX;
                one.array = again ? &rows : &b;
                refused(tug_kvstore_push(s, &one, 1, 0), "not finite");
                g[ODD] = g[WIDTH + ODD % WIDTH] = 1;
            }
            one.array = &b;
            assert_int_equal(0, tug_kvstore_push(s, &one, 1, 0));
            assert_int_equal(0, tug_kvstore_pull(s, &to, 1, 0));
            assert_int_equal(0, tug_kvstore_close(s));
        }
    assert_memory_equal(got[0], got[1], sizeof(got[0]));
}

// A file of states with a value that is not finite is refused, even if its checksum is
// right.
static void states(void **state)
{
    static float w[N], g[N];
    struct tug_array a = array(TUG_FLOAT32, w), b = array(TUG_FLOAT32, g);
    const char *path = files_in("states");
    const float odd = NAN;
    size_t n;
    (void)state;
    g[ODD] = 1;
    begin(&a);
    assert_int_equal(0, tug_kvstore_set_optimizer(store, "adam"));
    push(&b, 0, NULL);
    assert_int_equal(0, tug_kvstore_save_states(store, path));
    assert_int_equal(0, tug_kvstore_load_states(store, path));
    char *bytes = files_read(path, &n);
    memcpy(bytes + n - 12, &odd, sizeof(odd)); // the last value before the checksum
    uint64_t sum = hash_bytes(bytes, n - sizeof(sum), 0);
    memcpy(bytes + n - sizeof(sum), &sum, sizeof(sum));
    files_write_bytes(path, bytes, n);
    mem_free(bytes);
    assert_int_equal(TUG_EDATA, tug_kvstore_load_states(store, path));
    assert_non_null(strstr(tug_last_error(), "not finite"));
    push(&b, 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(floats, set_up, tear_down),
        cmocka_unit_test(steps),
        cmocka_unit_test_setup_teardown(states, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
