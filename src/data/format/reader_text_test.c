// Lines as they occur in real files, in every format: byte order marks, line ends of
// other systems, UTF-16.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "data/format/reader.h"
#include "kit/test.h"

static const char *const formats[][2] = {
    {"libsvm", "1 3:1 5:0.5"},
    {"libffm", "1 0:3:1 1:5:0.5"},
    {"csv", "1,a,b"},
    {"multislot", "1 1 2 7 8"},
    {"criteo",
     "1\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\t12\t13\ta\tb\tc\td\te\tf\tg\th\ti\tj\tk"
     "\tl\tm\tn\to\tp\tq\tr\ts\tt\tu\tv\tw\tx\ty\tz"},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static struct reader *open_reader(size_t format)
{
    bool csv = strcmp(formats[format][0], "csv") == 0;
    bool slots = strcmp(formats[format][0], "multislot") == 0;
    const struct reader_options o = {.format = formats[format][0],
                                     .labels = true,
                                     .columns = csv ? "y,u,v" : NULL,
                                     .slots = slots ? "y:label,u:ids" : NULL};
    struct reader *r = NULL;
    struct err e;
    if (reader_open(&r, &o, &e) != 0)
        fail_msg("%s: %s", o.format, e.text);
    return r;
}

static int read_line(struct reader *r, const char *text, size_t len, struct examples *x,
                     struct err *e)
{
    char line[512] = "";
    assert_true(len + READER_PADDING <= sizeof line);
    memcpy(line, text, len);
    return reader_line(r, NULL, line, len, x, e);
}

static void assert_read(size_t format, const char *before, const char *behind)
{
    struct examples want = {0}, x = {0};
    struct err e;
    char line[512];
    struct reader *r = open_reader(format);
    const char *good = formats[format][1];
    int len = snprintf(line, sizeof line, "%s%s%s", before, good, behind);
    if (read_line(r, good, strlen(good), &want, &e) != 0 ||
        read_line(r, line, (size_t)len, &x, &e) != 0)
        fail_msg("%s: %s", formats[format][0], e.text);
    assert_int_equal(x.n, 1);
    assert_int_equal(x.nnz, want.nnz);
    assert_memory_equal(x.key, want.key, x.nnz * sizeof *x.key);
    assert_memory_equal(x.value, want.value, x.nnz * sizeof *x.value);
    assert_true(x.label[0] == want.label[0]);
    examples_free(&x);
    examples_free(&want);
    reader_close(r);
}

static void marks_and_returns_are_removed(void **state)
{
    (void)state;
    for (size_t i = 0; i < FORMATS; i++) {
        assert_read(i, "", "\r");
        assert_read(i, "\xef\xbb\xbf", "");
        assert_read(i, "\xef\xbb\xbf", "\r");
    }
}

static void assert_refused(size_t format, const char *line, size_t len, const char *why)
{
    struct examples x = {0};
    struct err e = {0};
    struct reader *r = open_reader(format);
    assert_int_equal(read_line(r, line, len, &x, &e), TUG_EDATA);
    if (strstr(e.text, why) == NULL)
        fail_msg("%s: '%s' does not say '%s'", formats[format][0], e.text, why);
    assert_int_equal(x.n, 0);
    examples_free(&x);
    reader_close(r);
}

static void other_texts_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < FORMATS; i++) {
        char line[512];
        size_t len = strlen(formats[i][1]);
        memcpy(line, formats[i][1], len);
        memcpy(line + len, "\r0", 2);
        assert_refused(i, line, len + 2, "carriage return (CR)");
        line[len] = '\0';
        assert_refused(i, line, len + 2, "a byte 0");
        assert_refused(i, "\xff\xfe\x31\n", 4, "UTF-16");
        assert_refused(i, "\xfe\xff\n\x31", 4, "UTF-16");
    }
}

// A line with only a byte order mark, or only a carriage return, is empty.
static void empty_lines(void **state)
{
    (void)state;
    struct reader *r = open_reader(0);
    assert_true(reader_skips(r, "\xef\xbb\xbf\r", 4));
    assert_true(reader_is_blank(r, "\xef\xbb\xbf\r\n\n\r\n", 7));
    assert_true(reader_is_blank(r, NULL, 0));
    assert_false(reader_is_blank(r, "\n1 1:1", 6));
    reader_close(r);
}

// A carriage return between quotes belongs to the word (csv).
static void returns_between_quotes(void **state)
{
    (void)state;
    struct examples x = {0};
    struct err e = {0};
    struct reader *r = open_reader(2);
    const char *quoted = "1,\"a\rb\",c", *behind = "1,\"a\",b\r0";
    OK(read_line(r, quoted, strlen(quoted), &x, &e));
    assert_int_equal(x.nnz, 2);
    assert_int_equal(read_line(r, behind, strlen(behind), &x, &e), TUG_EDATA);
    examples_free(&x);
    reader_close(r);
}

static void header(struct reader *r, const char *text, size_t len,
                   const struct reader_layout **ret)
{
    struct err e;
    if (reader_header(r, text, len, ret, &e) != 0)
        fail_msg("%s", e.text);
}

// Blanks around a name are ignored, in headers and in options.
static void blanks_around_names(void **state)
{
    (void)state;
    const struct reader_options o = {.format = "csv",
                                     .labels = true,
                                     .label_column = "y",
                                     .numeric = " n",
                                     .drop = "d "};
    static const char blanks[] = "\xef\xbb\xbf y, n ,\"d\", w\t\r", plain[] = "w,n,d,y";
    struct reader *r = NULL;
    struct err e;
    struct examples x = {0};
    const struct reader_layout *l[2];
    OK(reader_open(&r, &o, &e));
    header(r, blanks, sizeof blanks - 1, &l[0]);
    header(r, plain, sizeof plain - 1, &l[1]);
    OK(reader_line(r, l[0],
                   "1,2.5,q,a\0"
                   "                                ",
                   9, &x, &e));
    OK(reader_line(r, l[1],
                   "a,2.5,q,1\0"
                   "                                ",
                   9, &x, &e));
    assert_int_equal(x.nnz, 4);
    assert_memory_equal(x.key, x.key + 2, 2 * sizeof *x.key);
    assert_true(x.value[0] == 2.5f);
    examples_free(&x);
    reader_close(r);
}

static void assert_hint(const char *text, const char *label, const char *hint)
{
    const struct reader_options o = {
        .format = "csv", .labels = true, .label_column = label};
    const struct reader_layout *l;
    struct reader *r = NULL;
    struct err e = {0};
    OK(reader_open(&r, &o, &e));
    assert_int_equal(reader_header(r, text, strlen(text), &l, &e), TUG_EDATA);
    if (strstr(e.text, hint) == NULL)
        fail_msg("'%s' does not say '%s'", e.text, hint);
    reader_close(r);
}

static void another_separator_is_named(void **state)
{
    (void)state;
    for (int label = 0; label < 2; label++) {
        const char *name = label ? "clicked" : NULL;
        assert_hint("clicked\tuser\tad", name, "--separator tab");
        assert_hint("clicked;user;ad", name, "--separator ';'");
        assert_hint("clicked|user|ad", name, "--separator '|'");
    }
}

// With --quote none, a quote is ordinary text. A model trained on such data reads quotes
// in the same way.
static void quotes_are_text(void **state)
{
    (void)state;
    struct reader_options o = {
        .format = "csv", .labels = true, .columns = "y,u", .separator = '\t'};
    static const char open[64] = "1\t\"cheap phone", both[64] = "1\t\"a\"",
                      bare[64] = "1\ta";
    struct reader *r = NULL, *again = NULL;
    struct examples x = {0};
    struct err e = {0};
    OK(reader_open(&r, &o, &e));
    assert_int_equal(reader_line(r, NULL, open, strlen(open), &x, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "--quote none"));
    reader_close(r);
    o.quote = "none";
    OK(reader_open(&r, &o, &e));
    OK(reader_line(r, NULL, open, strlen(open), &x, &e));
    OK(reader_line(r, NULL, both, strlen(both), &x, &e));
    OK(reader_line(r, NULL, bare, strlen(bare), &x, &e));
    assert_true(x.n == 3 && x.key[1] != x.key[2]);
    const struct reader_options model = {.schema = reader_schema(r), .labels = true};
    OK(reader_open(&again, &model, &e));
    OK(reader_line(again, NULL, open, strlen(open), &x, &e));
    assert_true(x.key[3] == x.key[0]);
    reader_close(again);
    const struct reader_options other = {
        .schema = reader_schema(r), .labels = true, .quote = "double"};
    assert_int_equal(reader_open(&again, &other, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "trained with --quote none"));
    examples_free(&x);
    reader_close(r);
    o.quote = "single";
    assert_int_equal(reader_open(&r, &o, &e), TUG_EUSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_and_returns_are_removed),
        cmocka_unit_test(other_texts_are_named),
        cmocka_unit_test(empty_lines),
        cmocka_unit_test(returns_between_quotes),
        cmocka_unit_test(blanks_around_names),
        cmocka_unit_test(another_separator_is_named),
        cmocka_unit_test(quotes_are_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
