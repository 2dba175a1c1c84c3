// The warning about data whose features are numbered in another way than the model's.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/source/numbering.h"

#include <string.h>

#include "kit/test.h"

enum { NONE = -1 };

static void fill(struct numbering *n, int first, int last, int columns)
{
    *n = (struct numbering){.columns = (uint64_t)columns};
    if (first != NONE)
        numbering_add(n, (const uint64_t[]){(uint64_t)last, (uint64_t)first}, 2);
}

static void test_added(void **state)
{
    (void)state;
    struct numbering n = {0}, copy = {0};
    numbering_add(&n, NULL, 0);
    assert_false(numbering_any(&n));
    numbering_add(&n, (const uint64_t[]){7, 3, 9}, 3);
    numbering_add(&n, (const uint64_t[]){5}, 1);
    assert_true(numbering_first(&n) == 3 && n.last == 9);
    n.columns = 12;
    numbering_copy(&copy, &n);
    assert_true(numbering_first(&copy) == 3 && copy.last == 9 && copy.columns == 12);
    numbering_add(&n, (const uint64_t[]){0, UINT64_MAX}, 2);
    assert_true(numbering_first(&n) == 0 && n.last == UINT64_MAX && numbering_any(&n));
    struct numbering zero = {0}; // the key 0 alone counts as a key
    numbering_add(&zero, (const uint64_t[]){0}, 1);
    assert_true(numbering_any(&zero) && numbering_first(&zero) == 0);
}

// Each case has the range of fields of the model's data (the first field, and one more
// than the last), that of the new data, and the expected warning; "": none.
static void test_fields(void **state)
{
    (void)state;
    static const struct {
        uint64_t model[2], data[2];
        const char *text;
    } cases[] = {
        {{1, 40},
         {0, 39},
         "numbered from 0 to 38, and those of the model's data from 1 to"},
        {{1, 40}, {0, 12}, "add 1 to each field's number"},
        {{0, 39},
         {1, 40},
         "from 1 to 39, and those of the model's data from 0 to 38: sub"},
        {{1, 40}, {1, 40}, ""},
        {{0, 39}, {0, 39}, ""},
        {{0, 39}, {1, 39}, ""}, // data without the first field
        {{1, 40}, {3, 20}, ""},
        {{2, 40}, {0, 39}, ""},
        {{0, 39}, {2, 50}, ""},
        {{0, 0}, {1, 40}, ""}, // models saved by earlier versions have no range
        {{1, 40}, {0, 0}, ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct numbering model = {0}, part = {0}, data = {0};
        char text[NUMBERING_TEXT] = "";
        numbering_add(&model, (const uint64_t[]){3, 7}, 2);
        numbering_add(&part, (const uint64_t[]){3, 7}, 2);
        numbering_add_fields(&model, cases[i].model[0], cases[i].model[1]);
        numbering_add_fields(&part, cases[i].data[0], cases[i].data[1]);
        numbering_join(&data, numbering_range(&part)); // as processes of a cluster do
        bool said = numbering_shifted(&model, &data, "--test", text);
        if (said != (cases[i].text[0] != '\0') || strstr(text, cases[i].text) == NULL ||
            (said && strncmp(text, "--test: its fields", 18) != 0))
            fail_msg("case %zu: '%s'", i, text);
    }
}

// Each case has a model and data, given by their first key, last key and columns, and the
// expected warning; "" if none is expected.
static void test_warnings(void **state)
{
    (void)state;
    static const struct {
        int model[3], data[3];
        const char *text;
    } cases[] = {
        // The model was trained on a file numbered from 1; the data is mostly numbered
        // from 0.
        {{1, 30, 0}, {1, 30, 0}, ""},
        {{1, 30, 0},
         {0, 29, 0},
         "numbered from 0 to 29, and the model knows features 1 to 30"},
        {{1, 30, 0}, {0, 12, 0}, "add 1 to each number"},
        {{1, 30, 0}, {2, 35, 0}, ""},
        {{1, 30, 0}, {0, 29, 30}, "put an empty column before the first"},
        {{1, 30, 0}, {3, 17, 30}, "put an empty column before the first"},
        {{1, 30, 0}, {0, 30, 31}, "add 1 to each number"},
        {{1, 30, 0}, {1, 30, 31}, ""}, // a matrix with an empty first column
        {{1, 62, 0}, {1, 62, 64}, ""}, // an image of 64 pixels; the corners are always 0
        {{100, 30000, 0}, {0, 29, 0}, ""},
        // The model's data is numbered from 0, and the new data from 1.
        {{0, 29, 0}, {0, 29, 0}, ""},
        {{0, 29, 0},
         {1, 30, 0},
         "numbered from 1 to 30, and the model knows features 0 to 29"},
        {{0, 29, 0}, // the data has new features
         {1, 44, 0},
         "numbered from 1 to 44, and the model knows features 0 to 29: subtract 1"},
        {{0, 29, 0}, {2, 44, 0}, ""},
        {{0, 29, 0}, {0, 44, 0}, ""},
        {{2, 28, 30}, {1, 44, 0}, "subtract 1 from each number"},
        {{0, 29, 0}, {1, 29, 0}, ""},
        {{2, 28, 30},
         {1, 30, 0},
         "numbered from 1 to 30, and the model knows features 0 to 29"},
        {{2, 28, 30}, {1, 29, 0}, ""},
        {{2, 28, 30},
         {4, 44, 0},
         "learnt from a matrix of 30 columns, numbered from 0: features from 30"},
        // The model's data and the new data have different numbers of columns.
        {{0, 29, 30}, {0, 29, 30}, ""},
        {{0, 29, 30},
         {NONE, 0, 20},
         "the matrix has 20 columns, and the model learnt from 30: the "
         "columns that are missing count as 0"},
        {{0, 29, 30}, {0, 49, 50}, "learnt from 30: the columns from 30 on are ignored"},
        {{0, 29, 0},
         {0, 49, 50},
         "knows features up to 29: the columns from 30 on are ignored"},
        {{0, 29, 0}, {0, 9, 10}, "knows features up to 29: the columns that are missing"},
        // The first key of the model's data or of the new data is unknown.
        {{NONE, 0, 0}, {0, 29, 30}, ""},
        {{0, 29, 0}, {NONE, 0, 0}, ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct numbering model, data;
        char text[NUMBERING_TEXT] = "";
        fill(&model, cases[i].model[0], cases[i].model[1], cases[i].model[2]);
        fill(&data, cases[i].data[0], cases[i].data[1], cases[i].data[2]);
        bool said = numbering_differs(&model, &data, "this data", text);
        if (said != (cases[i].text[0] != '\0') || strstr(text, cases[i].text) == NULL ||
            (said && strncmp(text, "this data: ", 11) != 0))
            fail_msg("case %zu: '%s'", i, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_added),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
