// Compares criteo lines with a naive reader that splits at tabs and calls log().
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "kit/files.h"
#include "kit/lines.h"
#include "kit/test.h"

enum { INTEGERS = 13, SLOTS = 39 };

static struct reader *open_reader(bool labels)
{
    struct reader *r = NULL;
    struct reader_options o = {.format = "criteo", .labels = labels};
    assert_int_equal(reader_open(&r, &o, NULL), 0);
    assert_int_equal(reader_slots(r), SLOTS);
    assert_false(reader_has_header(r));
    return r;
}

static uint64_t naive_key(uint32_t slot, const char *text)
{
    char bucket[64];
    if (slot < INTEGERS) {
        long long v = strtoll(text, NULL, 10);
        double l = log((double)v);
        if (v > 2)
            snprintf(bucket, sizeof bucket, "L%d", (int)floor(l * l));
        else
            snprintf(bucket, sizeof bucket, "%lld", v);
        text = bucket;
    }
    return reader_key(slot, text, strlen(text));
}

// Checks example i against its line. With 40 columns, the first column is the label.
static void assert_same(const struct examples *x, size_t i, const char *line, bool label)
{
    char copy[4096], *rest = copy, *column;
    snprintf(copy, sizeof copy, "%s", line);
    if (label)
        assert_true(x->label[i] == (float)(strsep(&rest, "\t")[0] == '1'));
    size_t k = x->start[i];
    for (uint32_t slot = 0; (column = strsep(&rest, "\t")) != NULL; slot++) {
        if (column[0] == '\0')
            continue;
        assert_true(k < x->start[i + 1]);
        assert_int_equal(x->slot[k], slot);
        assert_true(x->value[k] == 1);
        if (x->key[k] != naive_key(slot, column))
            fail_msg("slot %u: '%s'", slot, column);
        k++;
    }
    assert_int_equal(k, x->start[i + 1]);
}

static void any_column(struct buf *b, uint32_t slot)
{
    if (any_in_100(20))
        return;
    if (slot >= INTEGERS) {
        static const char alphabet[] = "0123456789abcdef .:\"\x80";
        for (uint64_t n = any_in_100(70) ? 8 : 1 + any(30); n > 0; n--)
            buf_add(b, &alphabet[any(sizeof alphabet - 1)], 1);
    } else if (any_in_100(60)) {
        buf_printf(b, "%d", (int)any(30) - 10);
    } else {
        buf_printf(
            b, "%s%llu",
            any_in_100(10)   ? "-"
            : any_in_100(10) ? "00"
                             : "",
            (unsigned long long)(random_u64(8, 8, any_counter++) >> (1 + any(63))));
    }
}

static void any_line(struct buf *b, bool label)
{
    buf_clear(b);
    if (label)
        buf_printf(b, "%d\t", (int)any(2));
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        any_column(b, slot);
        if (slot < SLOTS - 1)
            buf_add(b, "\t", 1);
    }
}

static void test_round_trips(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 16);
    struct examples x = {0};
    for (int labels = 0; labels < 2; labels++) {
        struct reader *r = open_reader(labels);
        for (int i = 0; i < 10000; i++) {
            struct err e;
            bool label = labels || any_in_100(50);
            any_line(&b, label);
            examples_clear(&x);
            if (line_parse(r, buf_str(&b), &x, &e) != 0)
                fail_msg("'%s': %s", buf_str(&b), e.text);
            assert_same(&x, 0, buf_str(&b), label);
        }
        reader_close(r);
    }
    examples_free(&x);
    buf_free(&b);
}

// Tests every value that has its own bucket, and both sides of the borders of the other
// buckets.
static void test_buckets(void **state)
{
    (void)state;
    struct reader *r = open_reader(false);
    struct examples x = {0};
    int64_t last = -20;
    for (int k = 0; k < 700; k++) {
        int64_t border = k < 30 ? k - 20 : (int64_t)ceil(exp(sqrt(k - 28)));
        for (int64_t v = border - 1; v <= border + 1; v++) {
            char line[128];
            int n = snprintf(line, sizeof line, "%lld", (long long)v);
            memset(line + n, '\t', SLOTS - 1);
            line[n + SLOTS - 1] = '\0';
            examples_clear(&x);
            assert_int_equal(line_parse(r, line, &x, NULL), 0);
            assert_same(&x, 0, line, false);
        }
        last = border;
    }
    assert_true(last > 100000000000);
    examples_free(&x);
    reader_close(r);
}

static void test_refused(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 16);
    struct reader *r = open_reader(true);
    line_refused(r, "1", "found 1 column between tabs, expected 40");
    line_refused(r, "1\t2\t3", "found 3 columns between tabs, expected 40");
    any_line(&b, true);
    buf_printf(&b, "\t");
    line_refused(r, buf_str(&b), "found 41 columns");
    static const char tabs[] =
        "\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t";
    static const char *const bad[][2] = {
        {"\t", "the label is missing"},
        {"2\t", "the label '2' is not one of"},
        {"x\t", "the label 'x' is not a number"},
        {"nan\t", "is not finite"},
        {"1\tabc", "integer column 1 holds 'abc'"},
        {"1\t1.5", "integer column 1 holds '1.5'"},
        {"1\t99999999999999999999", "integer column 1 holds '99999999999999999999'"},
        {"1\t-", "integer column 1 holds '-'"},
        {"1\t 5", "integer column 1 holds ' 5'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        buf_clear(&b);
        buf_printf(&b, "%s%s", bad[i][0], tabs);
        line_refused(r, buf_str(&b), bad[i][1]);
    }
    reader_close(r);
    r = open_reader(false);
    line_refused(r, "1\t2\t3", "found 3 columns between tabs, expected 39");
    reader_close(r);
    buf_free(&b);
}

static void test_real_data(void **state)
{
    (void)state;
    const char *path = files_shared("criteo/train.tsv");
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    struct reader *r = open_reader(true);
    struct examples x = {0};
    char line[4096];
    size_t n = 0;
    for (; fgets(line, sizeof line, f) != NULL; n++) {
        line[strcspn(line, "\n")] = '\0';
        assert_int_equal(line_parse(r, line, &x, NULL), 0);
        assert_same(&x, n, line, true);
    }
    assert_int_equal(n, 7200);
    fclose(f);
    examples_free(&x);
    reader_close(r);
}

// The texts of columns are returned unchanged, in lines with and without a label.
static void test_columns(void **state)
{
    (void)state;
    for (int label = 0; label < 2; label++) {
        struct reader *r = open_reader(label);
        char line[1024] = "";
        for (int i = label ? -1 : 0; i < SLOTS; i++) {
            size_t at = strlen(line);
            if (i == -1)
                snprintf(line, sizeof line, "1\t");
            else if (i % 3 != 1) // each third text is empty
                snprintf(line + at, sizeof line - at, "%d%s", 100 + i,
                         i < SLOTS - 1 ? "\t" : "");
            else
                snprintf(line + at, sizeof line - at, "\t");
        }
        struct buf text = BUF_INIT(1 << 20);
        size_t column[8], n;
        assert_int_equal(reader_find_columns(r, NULL, "I1,I2,I13,C1,C2,C26", "--keep", 8,
                                             column, &n, NULL),
                         0);
        assert_int_equal(n, 6);
        size_t len = strlen(line);
        assert_int_equal(reader_columns(r, NULL, line, len, column, n, &text), 0);
        static const char want[] = "100\0\000112\0\000114\000138";
        assert_int_equal(text.len, sizeof want);
        assert_memory_equal(text.data, want, sizeof want);
        static const char *const wrong[] = {"I0", "I14", "C27", "C", "", "i1", "C1x"};
        struct err e;
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
            assert_int_equal(
                reader_find_columns(r, NULL, wrong[i], "--keep", 8, column, &n, &e),
                TUG_EDATA);
        assert_string_equal(e.text, "the data has no column 'C1x', which --keep names; "
                                    "its columns are I1 to I13 and C1 to C26");
        buf_free(&text);
        reader_close(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns),   cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_buckets),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_real_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
