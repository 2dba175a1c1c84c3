// Finds rows with the values that they had before the last batch, and no other rows.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "kit/test.h"
#include "server/rows/previous.h"

enum { ROWS = 3000, WIDTH = 3 };

static float rows[ROWS][WIDTH];

static void add_all(struct previous *b, uint32_t step)
{
    for (uint64_t i = 0; i < ROWS; i += step) {
        float *values = previous_take(b, WIDTH, &i, 1);
        if (values != NULL)
            memcpy(values, rows[i], sizeof(rows[i]));
    }
}

static void found_again(void **state)
{
    (void)state;
    struct previous b = {0};
    // each batch drops the copies of the one before
    for (uint32_t step = 1; step < 5; step++) {
        for (uint32_t i = 0; i < ROWS; i++)
            for (uint32_t j = 0; j < WIDTH; j++)
                rows[i][j] = (float)(i * step + j);
        previous_begin(&b);
        add_all(&b, step);
        for (uint32_t i = 0; i < ROWS; i++)
            rows[i][0] = -1; // the batch changes the row after the copy was made
        assert_true(previous_index(&b));
        for (uint32_t i = 0; i < ROWS; i++) {
            const float *was = previous_find(&b, WIDTH, i);
            assert_int_equal(was != NULL, i % step == 0);
            for (uint32_t j = 0; was != NULL && j < WIDTH; j++)
                assert_true(was[j] == (float)(i * step + j));
        }
    }
    previous_free(&b);
}

static void no_memory(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        struct previous b = {0};
        previous_begin(&b);
        mem_fault_after(n);
        add_all(&b, 1);
        bool well = previous_index(&b), faulted = mem_faulted();
        mem_fault_after(-1);
        assert_true(well != faulted);
        previous_begin(&b); // after a loss, copies can be made again for the next batch
        add_all(&b, 1);
        assert_true(previous_index(&b));
        previous_free(&b);
        if (!faulted)
            break;
    }
    assert_int_equal(mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_again),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
