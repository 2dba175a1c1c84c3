// Several labels of an example, in csv and multislot.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "kit/lines.h"
#include "kit/test.h"

static struct reader *open_reader(const char *format, struct reader_options o)
{
    struct reader *r = NULL;
    struct err e = {0};
    o.format = format;
    line_layout = NULL;
    if (reader_open(&r, &o, &e) != 0)
        fail_msg("%s: %s", format, e.text);
    return r;
}

static void header(struct reader *r, const char *line)
{
    struct err e;
    if (reader_header(r, line, strlen(line), &line_layout, &e) != 0)
        fail_msg("'%s': %s", line, e.text);
}

static void assert_refuses_header(struct reader *r, const char *line, const char *reason)
{
    struct err e = {0};
    const struct reader_layout *l = NULL;
    assert_true(reader_header(r, line, strlen(line), &l, &e) < 0);
    if (strstr(e.text, reason) == NULL)
        fail_msg("'%s': '%s' does not say '%s'", line, e.text, reason);
}

static void assert_header_refused(struct reader_options o, const char *line,
                                  const char *reason)
{
    struct reader *r = open_reader("csv", o);
    assert_refuses_header(r, line, reason);
    reader_close(r);
}

static void assert_refuses(struct reader_options o, const char *reason)
{
    struct reader *r = NULL;
    struct err e = {0};
    assert_int_equal(reader_open(&r, &o, &e), TUG_EUSAGE);
    if (strstr(e.text, reason) == NULL)
        fail_msg("'%s' does not say '%s'", e.text, reason);
}

// Several labels come in the order of --label, wherever their columns are; some may be
// missing.
static void test_csv(void **state)
{
    (void)state;
    struct reader_options o = {
        .label_column = "buy,click", .missing = "NA", .labels = true};
    struct reader *r = open_reader("csv", o);
    struct examples x = {0};
    header(r, "click,a,buy");
    assert_int_equal(reader_label_count(r), 2);
    assert_int_equal(reader_slots(r), 1);
    assert_string_equal(schema_label(reader_schema(r), 0), "buy");
    assert_string_equal(schema_label(reader_schema(r), 1), "click");
    assert_null(schema_label(reader_schema(r), 2));
    assert_int_equal(line_parse(r, "1,p,0", &x, NULL), 0);
    header(r, "a,buy,click");
    assert_int_equal(line_parse(r, "p,,0", &x, NULL), 0);
    assert_int_equal(line_parse(r, "p,1,NA", &x, NULL), 0);
    assert_true(x.label[0] == 0 && x.label[1] == 1);
    assert_true(isnan(x.label[2]) && x.label[3] == 0);
    assert_true(x.label[4] == 1 && isnan(x.label[5]));
    line_refused(r, "p,,NA", "all 2 labels are missing");
    line_refused(r, "p,1,2", "column 'click': the label '2' is not one of 0, 1");
    assert_refuses_header(r, "a,buy", "label column 'click' is missing");

    // A reader for predictions with the schema of a model needs no labels.
    struct reader *again = NULL;
    struct err e = {0};
    struct reader_options other = {.schema = reader_schema(r), .label_column = "buy"};
    assert_int_equal(reader_open(&again, &other, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "the model has 2 labels, from 'buy' on"));
    other.label_column = "click,buy";
    assert_int_equal(reader_open(&again, &other, &e), TUG_EUSAGE);
    other.label_column = "buy,click";
    assert_int_equal(reader_open(&again, &other, &e), 0);
    examples_clear(&x);
    header(again, "a");
    assert_int_equal(line_parse(again, "p", &x, NULL), 0);
    header(again, "buy,a");
    assert_int_equal(line_parse(again, ",q", &x, NULL), 0);
    assert_int_equal(line_parse(again, "NA,q", &x, NULL), 0);
    for (size_t i = 0; i < 6; i++)
        assert_true(x.label[i] == 0);
    reader_close(again);
    reader_close(r);
    examples_free(&x);
    o.label_column = "buy,buy";
    assert_header_refused(o, "buy,a", "names the column 'buy' twice");
    o.label_column = "buy,sell";
    assert_header_refused(o, "buy,a", "no column 'sell', which --label names");
    o.label_column = "clik";
    assert_header_refused(o, "two clicks,click,\x1b",
                          "'clik', which --label names (did you mean 'click'?); it has");
    assert_header_refused(o, "two clicks,price", "'clik', which --label names; it has");
    o.label_column = "a,b,c,d,e,f,g,h,i";
    assert_header_refused(o, "a,b,c,d,e,f,g,h,i,j", "names 9 columns; the limit is 8");
}

// If the labels of a file have another order than the model's labels, they are found by
// name.
static void test_multislot(void **state)
{
    (void)state;
    struct reader *r = open_reader(
                      "multislot",
                      (struct reader_options){.slots = "click:label, a:ids, buy:label",
                                              .labels = true}),
                  *other;
    struct examples x = {0};
    assert_int_equal(reader_label_count(r), 2);
    assert_int_equal(line_parse(r, "1 1 1 7 1 0", &x, NULL), 0);
    assert_int_equal(line_parse(r, "0 1 7 1 1", &x, NULL), 0);
    assert_true(x.label[0] == 1 && x.label[1] == 0);
    assert_true(isnan(x.label[2]) && x.label[3] == 1);
    assert_int_equal(x.slot[1], 0);
    line_refused(r, "0 1 7 0", "all 2 labels are missing");
    line_refused(r, "1 2 1 7 0", "slot 'click': the label '2' is not one of 0, 1");
    struct reader_options o = {.slots = "buy:label, junk:skip, click:label, a:ids",
                               .schema = reader_schema(r),
                               .labels = true};
    other = open_reader("multislot", o);
    examples_clear(&x);
    assert_int_equal(line_parse(other, "1 0 1 x 1 1 1 7", &x, NULL), 0);
    assert_true(x.label[0] == 1 && x.label[1] == 0);
    reader_close(other);
    o.slots = "buy:label, sell:label, a:ids";
    assert_refuses(o, "was not trained with the label 'sell'");
    o.slots = "buy:label, a:ids";
    assert_refuses(o, "the label 'click' of the model is missing");
    o.labels = false;
    other = open_reader("multislot", o);
    examples_clear(&x);
    assert_int_equal(line_parse(other, "0 1 7", &x, NULL), 0);
    assert_true(x.label[0] == 0 && x.label[1] == 0);
    reader_close(other);
    reader_close(r);
    examples_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_multislot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
