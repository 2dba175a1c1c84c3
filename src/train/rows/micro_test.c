// Micro-batches cover the batch exactly, for any size.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/test.h"
#include "train/rows/micro.h"

static void micro_batches_cover_the_batch(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 2, 15, 16, 17, 256, 1000, 1 << 20};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (uint64_t b = 0; b < 3; b++) {
            uint64_t at = b * sizes[i];
            for (uint32_t m = 0; m < SYNC_MICROS; m++) {
                struct micro part = micro_of(b, sizes[i], m);
                assert_int_equal(part.first, at);
                assert_true(part.end >= at);
                assert_true(part.end - at <= sizes[i] / SYNC_MICROS + 1);
                at = part.end;
            }
            assert_int_equal(at, (b + 1) * sizes[i]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(micro_batches_cover_the_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
