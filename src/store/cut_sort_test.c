// Compares cut_sort with an in-place sort: for keys that are spread evenly or not, close
// together or equal, and with and without memory for a copy.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "base/random.h"
#include "kit/cuts.h"
#include "kit/test.h"

enum { MAX = 5000 };

static uint64_t draw(struct rng *d, uint32_t kind)
{
    uint64_t x = random_u64(d->seed, 0, d->at++);
    switch (kind) {
    case 0:
        return x;
    case 1:
        return x >> (x & 63); // makes small keys frequent
    case 2:
        return x % 7 == 0 ? UINT64_MAX - x % 100 : x % 1000;
    case 3:
        return 12345 + x % 3;
    default:
        return UINT64_MAX;
    }
}

static void check(size_t n, uint32_t kind, bool no_memory)
{
    static struct table_entry a[MAX], b[MAX];
    struct rng d = {.seed = n};
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] = (struct table_entry){draw(&d, kind), 0};
    mem_fault_after(no_memory ? 0 : -1);
    cut_sort(a, n);
    mem_fault_after(-1);
    table_sort_by_key(b, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(a[i].key, b[i].key);
}

static void test_sort(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 31, 32, 33, 100, 1000, MAX};
    (void)state;
    for (uint32_t kind = 0; kind < 5; kind++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            check(sizes[i], kind, false);
            check(sizes[i], kind, true);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sort)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
