// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "data/format/reader.h"
#include "kit/test.h"

// Short values of neighbouring slots, which are common in real logs, have different keys.
static void test_short_values(void **state)
{
    (void)state;
    enum { SLOTS = 64, VALUES = 1000 };
    static const char *const before[] = {"", "L", "zz"};
    enum { FORMS = sizeof(before) / sizeof(*before), N = FORMS * SLOTS * VALUES };
    uint64_t *keys = mem_array(N, sizeof(*keys)), *next = keys;
    for (int f = 0; f < FORMS; f++)
        for (uint32_t slot = 0; slot < SLOTS; slot++)
            for (int v = 0; v < VALUES; v++) {
                char text[16];
                int n = snprintf(text, sizeof(text), "%s%d", before[f], v);
                *next++ = reader_key(slot, text, (size_t)n);
            }
    qsort(keys, N, sizeof(*keys), compare_u64);
    for (int i = 1; i < N; i++)
        assert_true(keys[i - 1] < keys[i]);
    mem_free(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_short_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
