// Advice in errors about csv: words for missing values, quotes behind backslashes, files
// without a header, and labels in another column than the first.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "kit/lines.h"
#include "kit/test.h"

static struct reader *open_with(struct reader_options o)
{
    struct reader *r = NULL;
    struct err e;
    o.format = o.format != NULL ? o.format : "csv";
    o.labels = true;
    if (reader_open(&r, &o, &e) != 0)
        fail_msg("%s", e.text);
    line_layout = NULL;
    return r;
}

static void read_header(struct reader *r, const char *text)
{
    struct err e;
    struct line l = line_make(text, strlen(text));
    if (reader_header(r, l.text, l.len, &line_layout, &e) != 0)
        fail_msg("'%s': %s", text, e.text);
    mem_free(l.text);
}

static void assert_header(struct reader_options o, const char *text, const char *says)
{
    struct reader *r = open_with(o);
    struct err e = {0};
    struct line l = line_make(text, strlen(text));
    if (reader_header(r, l.text, l.len, &line_layout, &e) != TUG_EDATA ||
        strstr(e.text, says) == NULL)
        fail_msg("'%s': %s", text, e.text);
    mem_free(l.text);
    reader_close(r);
}

static void assert_line(const struct reader *r, const char *text, const char *says,
                        const char * not )
{
    struct examples x = {0};
    struct err e = {0};
    if (line_parse(r, text, &x, &e) != TUG_EDATA || strstr(e.text, says) == NULL ||
        (not != NULL && strstr(e.text, not ) != NULL))
        fail_msg("'%s': %s", text, e.text);
    assert_int_not_equal(line_parse(r, text, &x, NULL), 0); // without a struct err
    examples_free(&x);
}

static void test_missing_values(void **state)
{
    (void)state;
    static const char *const words[] = {"NA", "null", "None", "\\N", "?", "nan", "<NA>"};
    struct reader *plain = open_with((struct reader_options){.numeric = "n"}),
                  *given = open_with(
                      (struct reader_options){.numeric = "n", .missing = "x"}),
                  *several = open_with(
                      (struct reader_options){.numeric = "n", .label_column = "y,z"});
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char line[32], says[80];
        read_header(plain, "y,n,c");
        snprintf(line, sizeof line, "1,%s,3", words[i]);
        snprintf(says, sizeof says, "if it means a missing value, give --missing '%s'",
                 words[i]);
        assert_line(plain, line, says, NULL);
        read_header(given, "y,n,c");
        snprintf(says, sizeof says, "missing value, add '%s' to --missing", words[i]);
        assert_line(given, line, says, NULL);
        snprintf(line, sizeof line, "%s,2,3", words[i]);
        assert_line(plain, line,
                    "lines without a label are left out with --max-bad-lines",
                    "--missing");
        read_header(several, "y,n,z");
        snprintf(says, sizeof says, "missing value, give --missing '%s'", words[i]);
        assert_line(several, line, says, "--max-bad-lines");
    }
    assert_line(plain, "1,word,3", "'word' of column 'n' is not a number", "missing");
    assert_line(plain, "word,1,3", "the label 'word' is not a number", "left out");
    reader_close(plain);
    reader_close(given);
    reader_close(several);
}

static void test_missing_values_of_a_model(void **state)
{
    (void)state;
    for (int words = 0; words < 2; words++) {
        struct reader *r = open_with(
            (struct reader_options){.numeric = "n", .missing = words ? "x" : NULL});
        read_header(r, "y,n,c");
        struct reader *scores = open_with(
            (struct reader_options){.schema = reader_schema(r)});
        read_header(scores, "y,n,c");
        assert_line(scores, "1,NA,3",
                    words ? "the model's data has empty cells or 'x' for missing values"
                          : "the model's data has empty cells for missing values",
                    "--missing");
        reader_close(scores);
        reader_close(r);
    }
}

static void test_missing_values_of_other_formats(void **state)
{
    (void)state;
    struct reader *r = open_with((struct reader_options){.format = "libsvm"});
    assert_line(r, "1 3:NA", "if it means a missing value, leave the feature out", NULL);
    assert_line(r, "? 3:1", "lines without a label are left out", NULL);
    reader_close(r);
    r = open_with((struct reader_options){.format = "libffm"});
    assert_line(r, "1 0:3:nan", "if it means a missing value, leave the feature out",
                NULL);
    reader_close(r);
    r = open_with((struct reader_options){.format = "multislot",
                                          .slots = "y:label, p:dense, u:ids"});
    assert_line(r, "1 1 1 NA 1 7", "missing value, give the slot the count 0", NULL);
    reader_close(r);
    char line[200] = "1\tNA";
    memset(line + 4, '\t', 38);
    r = open_with((struct reader_options){.format = "criteo"});
    assert_line(r, line, "missing value, leave the column empty", NULL);
    reader_close(r);
}

// Spark writes \" for a quote within a cell.
static void test_backslashes(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "1,\"a \\\"b\\\" c\",2", // the quote seems to end the cell
        "1,\"y\\\"\",4",         // a doubled quote, and the cell does not end
        "1,\"z\\\",q\",4",       // the line has a cell more
    };
    struct reader *r = open_with((struct reader_options){0});
    read_header(r, "y,t,n");
    struct reader *scores = open_with(
        (struct reader_options){.schema = reader_schema(r)});
    read_header(scores, "y,t,n");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_line(r, lines[i], "has \\\" for a quote within a cell, as Spark writes it",
                    "--quote none");
        assert_line(scores, lines[i], "convert it by sed 's/\\\\\"/\"\"/g'", NULL);
    }
    assert_line(r, "1,\"a", "give --quote none", "Spark");
    assert_line(r, "1,a", "found 2 columns", "Spark");
    reader_close(scores);
    reader_close(r);
    assert_header((struct reader_options){0}, "y,\"t \\\"u\\\"\",n",
                  "as Spark writes it");
}

static void test_no_header(void **state)
{
    (void)state;
    const struct reader_options none = {0}, label = {.label_column = "click"};
    assert_header(none, "1,a,b", "or --columns NAME,... with all names");
    assert_header(label, "1,a,b", "or --columns NAME,... with all names");
    assert_header(label, "a,1,b",
                  "if the first line is data, name the columns by --columns");
    assert_header(none, "a,1,1",
                  "'1' twice: give them different names, or --drop '1' "
                  "leaves both out; if the first line is data");
    struct reader *r = open_with(none);
    read_header(r, "a,1,23");
    assert_line(r, "b,0,24",
                "the label is the first column, 'a', because no --label was given; "
                "if the first line is data, name the columns by --columns",
                "did you mean");
    reader_close(r);
}

static void test_labels(void **state)
{
    (void)state;
    struct reader_options o = {.label_column = "lable"};
    assert_header(o, "id,label,age",
                  "(did you mean 'label'?); it has 'id', 'label', 'age'");
    o.numeric = "age:bin";
    o.label_column = "id";
    assert_header(o, "id,label,age", "(a column's name may be followed by :log, :bins");
    o.numeric = NULL;
    o.label_column = "AGE";
    assert_header(o, "id,bought,age", "(did you mean 'age'?)");
    o.label_column = "buy";
    assert_header(o, "id,age,Target", "(did you mean 'Target'?)");
    o.label_column = "click";
    assert_header(o, "id,age,bought", "--label names; it has 'id', 'age', 'bought'");
    struct reader *r = open_with((struct reader_options){0});
    read_header(r, "id,age,target");
    assert_line(r, "u1,3,0",
                "the label is the first column, 'id', because no --label was "
                "given; did you mean --label 'target'?",
                "--columns");
    reader_close(r);
    r = open_with((struct reader_options){0});
    read_header(r, "id,age,bought");
    assert_line(r, "u1,33,0", "did you mean --label 'bought'?", NULL);
    assert_line(r, "u1,33,7",
                "the label is the first column, 'id', because no --label was given",
                "did you mean");
    reader_close(r);
    r = open_with((struct reader_options){.columns = "id,age,y"});
    assert_line(r, "u1,33,0", "did you mean --label 'y'?", NULL);
    reader_close(r);
    r = open_with((struct reader_options){.label_column = "id"});
    read_header(r, "id,age,click");
    assert_line(r, "u1,33,0", "the label 'u1' is not a number", "no --label");
    reader_close(r);
    r = open_with((struct reader_options){0});
    read_header(r, "click,age,id");
    assert_line(r, "7,33,0", "the label '7' is not one of", "no --label");
    reader_close(r);
}

// The error explains a first line that is neither a header nor data.
static void test_other_first_lines(void **state)
{
    (void)state;
    const struct reader_options none = {0}, label = {.label_column = "click"};
    assert_header(none, "sep=;", "the line 'sep=;' is for Excel and not a header");
    assert_header((struct reader_options){.separator = ';'}, "sep=;", "is for Excel and");
    assert_header(label, "# export, 2020", "the line looks like a comment");
    assert_header(none, "{\"click\": 1, \"a\": \"x\"}", "the line looks like JSON");
    assert_header(none, "y\1a\1b", "as Hive's files are: --separator $'\\001'");
    struct reader *r = open_with((struct reader_options){.format = "libsvm"});
    static const char json[] = "{\"click\": 1}";
    struct err e = {.code = TUG_EDATA, .text = "the label is bad"};
    reader_explain_first(r, json, strlen(json), &e);
    assert_string_equal(e.text,
                        "the label is bad; the line looks like JSON, which tug does "
                        "not read; convert it to csv, for example by "
                        "--pipe-command");
    reader_close(r);
    r = open_with(none);
    read_header(r, "y,a,b");
    assert_line(r, "positive,1,2", "is not a number; labels are 0 and 1, or -1 and 1",
                NULL);
    reader_close(r);
}

static void test_separators(void **state)
{
    (void)state;
    struct reader *r = open_with((struct reader_options){0});
    read_header(r, "y,a,b");
    const struct schema *trained = reader_schema(r);
    struct schema *other = mem_alloc(sizeof *other);
    assert_non_null(other);
    assert_header((struct reader_options){.schema = trained}, "y;a;b",
                  "the header is one column, 'y;a;b': the separator is ',', that of the "
                  "model's training data; it looks separated by semicolons: --separator");
    assert_header((struct reader_options){.schema = trained}, "y a b",
                  "that of the model's training data; --separator C gives another");
    *other = *trained;
    other->separator = '|';
    assert_header((struct reader_options){.schema = other, .trained_separator = ','},
                  "y;a;b",
                  "one column, 'y;a;b': --separator is '|', and that of the model's "
                  "training data was ','; it looks separated by semicolons");
    mem_free(other);
    reader_close(r);
    r = open_with((struct reader_options){.columns = "y,a,b"});
    assert_line(r, "1\t2\t3",
                "found 1 column, and --columns names 3; it looks separated by "
                "tabs: --separator tab",
                NULL);
    reader_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_values),
        cmocka_unit_test(test_missing_values_of_a_model),
        cmocka_unit_test(test_missing_values_of_other_formats),
        cmocka_unit_test(test_backslashes),
        cmocka_unit_test(test_no_header),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_other_first_lines),
        cmocka_unit_test(test_separators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
