// Headers in csv data that should have none are recognized by their names.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "kit/lines.h"
#include "kit/test.h"

static struct reader *open_headless(const char *columns, bool labels)
{
    struct reader_options o = {.format = "csv",
                               .columns = columns,
                               .label_column = "y",
                               .numeric = "b",
                               .labels = labels};
    struct reader *r = NULL;
    struct err e;
    if (reader_open(&r, &o, &e) != 0)
        fail_msg("%s", e.text);
    assert_false(reader_has_header(r));
    line_layout = NULL;
    return r;
}

static void assert_header(struct reader *r, const char *line, const char *advice)
{
    struct examples x = {0};
    struct err e;
    if (line_parse(r, line, &x, &e) != TUG_EDATA ||
        strstr(e.text, "the line is a header, the names of the columns") == NULL ||
        strstr(e.text, advice) == NULL)
        fail_msg("'%s': %s", line, e.text);
    examples_free(&x);
}

static const char other_order[] =
    "and give --columns the names in the order of this file";

// A header in the data is refused, even if it has another order of columns, other
// capitals, or additional names.
static void test_headers(void **state)
{
    (void)state;
    static const char *const same[] = {"y,a,b,c", "\"y\",\"a\",b,c\r", " y ,a\t,b,c",
                                       "\xef\xbb\xbfy,a,b,c"};
    static const char *const others[] = {"c,b,a,y",     "Y,A,B,C", "click,a,b,d",
                                         "click,A,b,C", "y,a,d,e", "click,site,b,c"};
    for (int labels = 0; labels < 2; labels++) {
        struct reader *r = open_headless("y,a,b,c", labels);
        for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
            assert_header(r, same[i], "or leave --columns out");
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
            assert_header(r, others[i], other_order);
        reader_close(r);
    }
}

// Names are ordinary words if they are fewer than half of a line's cells, or if the
// line's label is a number.
static void test_data(void **state)
{
    (void)state;
    static const char *const lines[] = {"1,a,3,c", "0,c,,a", ",a,7,d", "?,x,1,c", "1,,,"};
    struct reader *r = open_headless("y,a,b,c", false);
    struct examples x = {0};
    struct err e;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (line_parse(r, lines[i], &x, &e) != 0)
            fail_msg("'%s': %s", lines[i], e.text);
    assert_int_equal(x.n, sizeof lines / sizeof lines[0]);
    assert_int_equal(line_parse(r, "1,a", &x, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "found 2 columns, and --columns names 4"));
    examples_free(&x);
    reader_close(r);
}

// If --columns is the output of $(head -1 FILE) for a file whose lines end with CR LF,
// the CR is not part of the last name.
static void test_names_of_windows(void **state)
{
    (void)state;
    struct reader *r = open_headless("y,a,b\r", false);
    struct examples x = {0};
    assert_int_equal(line_parse(r, "1,a,3\r", &x, NULL), 0);
    assert_true(x.nnz == 2);
    assert_header(r, "y,a,b\r", "or leave --columns out");
    assert_header(r, "b,a,y", other_order);
    examples_free(&x);
    reader_close(r);
}

static struct reader *open_with_header(const char *line, struct reader_options o)
{
    struct reader *r = NULL;
    struct err e;
    o.format = "csv";
    if (reader_open(&r, &o, &e) != 0 ||
        reader_header(r, line, strlen(line), &line_layout, &e) != 0)
        fail_msg("'%s': %s", line, e.text);
    return r;
}

// Without labels, as in data for predictions, no other check would notice that a header
// is not an example.
static void test_repeated_header(void **state)
{
    (void)state;
    static const char *const again[] = {"y,a,b", "y,a,b\r", "\xef\xbb\xbfy,a,b"};
    for (int labels = 0; labels < 2; labels++) {
        struct reader_options o = {.labels = labels == 1, .label_column = "y"};
        struct reader *r = open_with_header("y,a,b", o);
        struct examples x = {0};
        assert_int_equal(line_parse(r, "1,y,a", &x, NULL), 0);
        for (size_t i = 0; i < sizeof again / sizeof again[0]; i++) {
            struct err e;
            assert_int_equal(line_parse(r, again[i], &x, &e), TUG_EDATA);
            assert_non_null(strstr(e.text, "the line repeats the header"));
        }
        examples_free(&x);
        reader_close(r);
    }
    // A line of data may also equal a header of numbers.
    struct reader *r = open_with_header("1,2,3", (struct reader_options){.labels = true});
    struct examples x = {0};
    assert_int_equal(line_parse(r, "1,2,3", &x, NULL), 0);
    examples_free(&x);
    reader_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_repeated_header),
        cmocka_unit_test(test_data),
        cmocka_unit_test(test_names_of_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
