// Parameters: rows of keys are found in training and without it, and parameters are
// copied.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/rows/parameters.h"

#include "kit/test.h"
#include "kit/training.h"

static void resolving(void **state)
{
    (void)state;
    struct model_options o = training_model("fm");
    struct parameters p;
    assert_int_equal(parameters_open(&p, &o, NULL), 0);
    uint64_t keys[] = {7, 8, 7, UINT64_MAX, 0};
    uint32_t ids[5], seen[5];
    // Finding the row of a key for scoring makes no row.
    assert_int_equal(parameters_resolve_seen(&p, keys, 5, seen), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(seen[i], PARAMETERS_UNSEEN);
    assert_int_equal(table_stats(p.sparse).rows, 0);
    assert_int_equal(parameters_resolve_new(&p, keys, 5, ids), 0);
    assert_int_equal(ids[0], ids[2]);
    assert_int_equal(table_stats(p.sparse).rows, 4);
    // A row that was made but never updated counts as unseen.
    struct table_slabs slabs = table_slabs(p.sparse);
    table_row(slabs, ids[1])[p.model.accessor.count] = 1;
    assert_int_equal(parameters_resolve_seen(&p, keys, 5, seen), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(seen[i], i == 1 ? ids[1] : PARAMETERS_UNSEEN);
    assert_ptr_equal(parameters_row(&p, slabs, ids[1]), table_row(slabs, ids[1]));
    const float *zeros = parameters_row(&p, slabs, PARAMETERS_UNSEEN);
    for (uint32_t c = 0; c < p.model.accessor.width; c++)
        assert_true(zeros[c] == 0);
    parameters_close(&p);
}

static void copies(void **state)
{
    (void)state;
    struct model_options o = training_model("ffm");
    struct parameters p, copy;
    assert_int_equal(parameters_open(&p, &o, NULL), 0);
    uint32_t id;
    for (uint64_t key = 0; key < 500; key++) {
        assert_int_equal(parameters_resolve_new(&p, &key, 1, &id), 0);
        table_row(table_slabs(p.sparse), id)[0] = (float)key;
    }
    *p.blocks[0] = 0.5f;
    assert_int_equal(parameters_clone(&copy, &p, NULL), 0);
    // The copy is independent: later changes of the original do not reach it.
    for (uint64_t key = 0; key < 600; key++) {
        assert_int_equal(parameters_resolve_new(&p, &key, 1, &id), 0);
        table_row(table_slabs(p.sparse), id)[0] = -1;
    }
    *p.blocks[0] = 7;
    assert_true(*copy.blocks[0] == 0.5f);
    assert_int_equal(table_stats(copy.sparse).rows, 500);
    for (uint64_t key = 0; key < 500; key++) {
        table_find(copy.sparse, &key, 1, &id);
        assert_true(table_row(table_slabs(copy.sparse), id)[0] == (float)key);
    }
    parameters_close(&p);
    parameters_close(&copy);
    parameters_close(&copy); // closing twice is allowed
}

static void failing_allocations(void **state)
{
    (void)state;
    struct model_options o = training_model("fm");
    struct parameters p, copy;
    FAIL_EACH_ALLOCATION(parameters_open(&p, &o, &test_err), parameters_close(&p));
    assert_int_equal(parameters_open(&p, &o, NULL), 0);
    uint32_t ids[100];
    uint64_t keys[100];
    for (uint64_t i = 0; i < 100; i++)
        keys[i] = i;
    assert_int_equal(parameters_resolve_new(&p, keys, 100, ids), 0);
    FAIL_EACH_ALLOCATION(parameters_clone(&copy, &p, &test_err), parameters_close(&copy));
    parameters_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resolving),
        cmocka_unit_test(copies),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
