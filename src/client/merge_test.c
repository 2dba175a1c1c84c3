// Compares merging with a search for each key among those seen before.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "client/merge.h"
#include "kit/test.h"

enum { MAX = 700, WIDTH = 3 };

static void check_batch(struct client_merge *m, uint64_t seed)
{
    static uint64_t keys[MAX], seen[MAX];
    static float values[MAX * WIDTH], sums[MAX * WIDTH], got[MAX * WIDTH],
        back[MAX * WIDTH];
    size_t n = random_below(seed, 0, 0, MAX), distinct = 0, n_got;
    const uint64_t *got_keys;
    struct err e;
    memset(sums, 0, sizeof(sums));
    memset(got, 0xff, sizeof(got));
    uint64_t universe = 1 + random_below(seed, 1, 0, 2 * MAX);
    for (size_t i = 0; i < n; i++) {
        keys[i] = random_below(seed, 2, i, universe);
        size_t k = 0;
        while (k < distinct && seen[k] != keys[i])
            k++;
        if (k == distinct)
            seen[distinct++] = keys[i];
        for (size_t j = 0; j < WIDTH; j++) {
            values[i * WIDTH + j] = random_f32(seed, 3, i * WIDTH + j);
            sums[k * WIDTH + j] += values[i * WIDTH + j];
        }
    }
    assert_int_equal(client_merge_keys(m, keys, n, &got_keys, &n_got, &e), 0);
    assert_int_equal(n_got, distinct);
    if (n != 0)
        assert_memory_equal(got_keys, seen, distinct * sizeof(*seen));
    client_merge_add(m, values, WIDTH, got);
    assert_memory_equal(got, sums, distinct * WIDTH * sizeof(float));
    // The last column is that of the key's last row; the other columns are unchanged.
    client_merge_last(m, values, WIDTH, WIDTH - 1, got);
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (seen[k] != keys[i])
            k++;
        sums[k * WIDTH + WIDTH - 1] = values[i * WIDTH + WIDTH - 1];
    }
    assert_memory_equal(got, sums, distinct * WIDTH * sizeof(float));
    client_merge_scatter(m, got, WIDTH, back);
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (seen[k] != keys[i])
            k++;
        assert_memory_equal(back + i * WIDTH, sums + k * WIDTH, WIDTH * sizeof(float));
    }
}

static void test_merge(void **state)
{
    (void)state;
    struct client_merge *m;
    struct err e;
    size_t live = mem_live();
    assert_int_equal(client_merge_open(&m, &e), 0);
    for (uint64_t seed = 0; seed < 200; seed++)
        check_batch(m, seed);
    client_merge_close(m);
    client_merge_close(NULL);
    assert_int_equal(mem_live(), live);
}

static void test_no_memory(void **state)
{
    (void)state;
    const uint64_t keys[4] = {1, 2, 1, 3}, *got;
    size_t n;
    struct err e;
    for (long fault = 0; fault < 10; fault++) {
        struct client_merge *m = NULL;
        mem_fault_after(fault);
        int rc = client_merge_open(&m, &e);
        if (rc == 0)
            rc = client_merge_keys(m, keys, 4, &got, &n, &e);
        bool struck = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(rc, struck ? TUG_ENOMEM : 0);
        if (m != NULL) { // after a failure, the merger works as a new one
            assert_int_equal(client_merge_keys(m, keys, 4, &got, &n, &e), 0);
            assert_int_equal(n, 3);
        }
        client_merge_close(m);
        if (!struck)
            return;
    }
    fail_msg("it allocates without end");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
