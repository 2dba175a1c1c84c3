// Any bytes can be stored in finite floats, and be read back.
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/deal_words.h"

#include <math.h>

#include "base/random.h"
#include "kit/test.h"

static void check(const uint32_t words[DEAL_WORDS])
{
    float row[DEAL_WIDTH];
    uint32_t back[DEAL_WORDS];
    deal_pack(words, row);
    for (int i = 0; i < DEAL_WIDTH; i++)
        assert_true(isfinite(row[i]));
    deal_unpack(row, back);
    assert_memory_equal(back, words, sizeof(back));
}

static void bytes_come_back(void **state)
{
    (void)state;
    uint32_t words[DEAL_WORDS];
    for (uint64_t round = 0; round < 2000; round++) {
        for (uint32_t i = 0; i < DEAL_WORDS; i++)
            words[i] = (uint32_t)random_u64(1, round, i);
        check(words);
    }
    memset(words, 0xff, sizeof(words)); // as floats, all words would be NaN
    check(words);
    for (uint32_t i = 0; i < DEAL_WORDS; i++) { // tries each bit alone
        memset(words, 0, sizeof(words));
        for (int bit = 0; bit < 32; bit++) {
            words[i] = UINT32_C(1) << bit;
            check(words);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_come_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
