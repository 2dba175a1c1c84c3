// All batches have the same number of examples, or one more, however many batches there
// are.
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/even.h"

#include "kit/test.h"

static void same_size(uint64_t examples, uint64_t most)
{
    uint64_t n = even_parts(examples, most), least = examples / n, at = 0;
    assert_true(n * most >= examples && (n - 1) * most < examples);
    for (uint64_t b = 0; b < n; b++) {
        assert_int_equal(even_begin(examples, n, b), at);
        uint64_t size = even_begin(examples, n, b + 1) - at;
        assert_true(size >= least && size <= least + (examples % n != 0) && size <= most);
        at += size;
    }
    assert_int_equal(at, examples);
}

// Batches also have the same size if there are more batches than examples in a batch.
static void batches_have_one_size(void **state)
{
    (void)state;
    for (uint64_t examples = 1; examples < 400; examples++)
        for (uint64_t most = 1; most < 40; most++)
            same_size(examples, most);
    same_size(1000003, 64);
    assert_int_equal(even_parts(0, 64), 0);
    assert_int_equal(even_begin(UINT64_MAX, 1 << 20, 1 << 20), UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(batches_have_one_size)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
