// Bins of numbers: compared with quantiles found by counting, on columns with ties; the
// same bins from a saved schema; missing values; cells and columns that cannot have bins.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "data/format/schema.h"
#include "data/input/lines.h"
#include "kit/lines.h"
#include "kit/test.h"

enum { VALUES_MAX = 400 };

static struct reader *open_with(const char *numeric, const struct schema *schema)
{
    struct reader *r = NULL;
    struct err e;
    struct reader_options o = {.format = "csv",
                               .label_column = "y",
                               .numeric = numeric,
                               .schema = schema,
                               .labels = true};
    if (reader_open(&r, &o, &e) != 0)
        fail_msg("%s", e.text);
    return r;
}

static int decide(struct reader *r, const char *text, struct err *e)
{
    struct buf lines = BUF_INIT(1 << 20);
    assert_int_equal(buf_add(&lines, text, strlen(text)), 0);
    int rc = reader_decide(r, "f.csv", &lines, e);
    buf_free(&lines);
    return rc;
}

static void header(struct reader *r, const char *line)
{
    struct err e;
    if (reader_header(r, line, strlen(line), &line_layout, &e) != 0)
        fail_msg("%s", e.text);
}

static struct reader *decided(const char *numeric, const char *text)
{
    struct reader *r = open_with(numeric, NULL);
    struct err e;
    assert_int_not_equal(reader_wants(r), 0);
    if (decide(r, text, &e) != 0)
        fail_msg("%s", e.text);
    assert_int_equal(reader_wants(r), 0);
    char first[64];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(text, "\n"), text);
    header(r, first);
    return r;
}

// Returns the key of the single feature in the line "1,CELL".
static uint64_t key_of(const struct reader *r, const char *cell)
{
    struct examples x = {0};
    struct err e;
    char line[96];
    snprintf(line, sizeof line, "1,%s", cell);
    if (line_parse(r, line, &x, &e) != 0)
        fail_msg("'%s': %s", line, e.text);
    assert_int_equal(x.nnz, 1);
    assert_true(x.value[0] == 1 && x.slot[0] == 0);
    uint64_t key = x.key[0];
    examples_free(&x);
    return key;
}

static uint64_t key_of_value(const struct reader *r, float v)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", (double)v);
    return key_of(r, text);
}

// ---------------------------------------------------------------- quantiles

// Returns the value that has k n / bins values below it, or the nearest possible cut;
// infinite if all values are below.
static float quantile(const float *v, size_t n, uint32_t k, uint32_t bins)
{
    size_t want = k * n / bins, nearest = n - want;
    float best = INFINITY;
    for (size_t i = 0; i < n; i++) {
        size_t below = 0;
        for (size_t j = 0; j < n; j++)
            below += v[j] < v[i];
        size_t off = below > want ? below - want : want - below;
        if (off < nearest || (off == nearest && v[i] < best)) {
            best = v[i];
            nearest = off;
        }
    }
    return best;
}

// Returns whether two values are in different bins: a quantile lies between them.
static bool apart(const float *quantiles, uint32_t n, float a, float b)
{
    bool between = false;
    for (uint32_t k = 0; k < n; k++)
        between |= a < b ? a < quantiles[k] && quantiles[k] <= b
                         : b < quantiles[k] && quantiles[k] <= a;
    return between;
}

static float any_value(unsigned kind)
{
    if (kind == 0) // many ties
        return (float)any(7) - 3;
    if (kind == 1) // distinct values in random order
        return (float)(any_counter * 1664525u % 65536);
    float v = (float)any(1 << 20) / 977 - 300; // values of all sizes
    return any_in_100(40) ? 0 : v * (float)any(1000) * (any_in_100(10) ? 1e30f : 1e-3f);
}

// Checks that a schema gives the same bins after it was written to a file and to a
// message and read back.
static void assert_kept(const struct reader *r, const float *v, size_t n)
{
    struct schema *s = mem_zalloc(sizeof *s);
    struct buf bytes = BUF_INIT(1 << 20);
    json_t *o = schema_to_json(reader_schema(r));
    struct json_fields f = {0};
    for (int way = 0; way < 2; way++) {
        if (way == 0) {
            schema_from_json(s, o, &f);
            assert_int_equal(f.rc, 0);
        } else {
            assert_int_equal(schema_write(reader_schema(r), &bytes), 0);
            assert_int_equal(schema_read(s, bytes.data, bytes.len), 0);
        }
        const struct reader_layout *before = line_layout;
        struct reader *again = open_with(NULL, s);
        assert_int_equal(reader_wants(again), 0);
        for (size_t i = 0; i < n; i++) {
            line_layout = before;
            uint64_t key = key_of_value(r, v[i]);
            header(again, "y,n");
            assert_true(key_of_value(again, v[i]) == key);
        }
        line_layout = before;
        reader_close(again);
    }
    json_decref(o);
    buf_free(&bytes);
    mem_free(s);
}

static void check_column(unsigned kind, size_t n, uint32_t bins)
{
    float v[VALUES_MAX], q[64];
    uint64_t key[VALUES_MAX];
    struct buf text = BUF_INIT(1 << 20);
    char numeric[32];
    snprintf(numeric, sizeof numeric, "n:bins:%u", bins);
    buf_printf(&text, "y,n");
    for (size_t i = 0; i < n; i++) {
        v[i] = any_value(kind);
        buf_printf(&text, "\n%u,%.9g", (unsigned)any(2), (double)v[i]);
        if (any_in_100(10))
            buf_printf(&text, "\n0,");
    }
    for (uint32_t k = 1; k < bins; k++)
        q[k - 1] = quantile(v, n, k, bins);
    struct reader *r = decided(numeric, buf_str(&text));
    for (size_t i = 0; i < n; i++)
        key[i] = key_of_value(r, v[i]);
    for (size_t i = 0; i < n; i++) {
        size_t with = 0;
        for (size_t j = 0; j < n; j++) {
            if ((key[i] == key[j]) == apart(q, bins - 1, v[i], v[j]))
                fail_msg("%g and %g of %zu values in %u bins", (double)v[i], (double)v[j],
                         n, bins);
            with += key[i] == key[j];
        }
        if (kind == 1 && n >= bins) // without ties, all bins have the same size
            assert_true(with >= n / bins && with <= n / bins + 1);
    }
    if (n < 20)
        assert_kept(r, v, n);
    reader_close(r);
    buf_free(&text);
}

static void test_quantiles(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 3; kind++)
        for (size_t n = 1; n < 60; n++)
            check_column(kind, n, 2 + (uint32_t)any(12));
    check_column(1, VALUES_MAX, 64);
    check_column(2, VALUES_MAX, 10);
}

static void test_other_values(void **state)
{
    (void)state;
    struct reader *r = decided("n:bins:4", "y,n\n0,1\n0,2\n0,3\n0,4\n1,\n");
    assert_true(key_of(r, "-1e30") == key_of(r, "1.99"));
    assert_true(key_of(r, "2") == key_of(r, "2.5"));
    assert_true(key_of(r, "3.999999") == key_of(r, "3"));
    assert_true(key_of(r, "4") == key_of(r, "1e38"));
    assert_true(key_of(r, "true") == key_of(r, "1")); // "true" counts as a number
    for (const char *cell = "1234"; *cell != '\0'; cell++) {
        const char one[2] = {*cell, 0};
        assert_true(key_of(r, one) != key_of(r, ""));
    }
    line_refused(r, "1,x", "value 'x' of column 'n' is not a number");
    line_refused(r, "1,\"79,5\"",
                 "'79,5' of column 'n' has a decimal comma: give --decimal ,");
    line_refused(
        r, "1,\"1,000\"",
        "'1,000' of column 'n' has a comma: remove it if it separates thousands");
    line_refused(r, "1,\"-1,0001\"", "has a decimal comma: give --decimal ,");
    line_refused(r, "1, 5", "' 5' of column 'n' is not a number: remove the blanks");
    line_refused(r, "1,nan", "is not finite");
    reader_close(r);
    r = decided("n:bins:2", "y,n\n0,-0\n0,0\n0,-0\n0,1\n0,1");
    assert_true(key_of(r, "-0") == key_of(r, "0") && key_of(r, "0") != key_of(r, "1"));
    reader_close(r);
}

// ---------------------------------------------------------------- columns

static void test_columns(void **state)
{
    (void)state;
    struct reader *r = decided("b:bins:2,c:log,d:bins",
                               "y,a,b,c,d\n1,w,1,1,5\n0,w,2,1,6\n");
    struct examples x = {0};
    assert_int_equal(line_parse(r, "1,,7,,", &x, NULL), 0);
    assert_int_equal(x.nnz, 2); // missing words and numbers are not features
    assert_true(x.slot[0] == 1 && x.slot[1] == 3);
    uint64_t missing = x.key[1], high = x.key[0];
    // The columns are in another order, and a column of bins is missing: all lines then
    // have its bin of missing values.
    header(r, "d,c,b,a,y");
    examples_clear(&x);
    assert_int_equal(line_parse(r, ",1,2,,1", &x, NULL), 0);
    assert_int_equal(x.nnz, 3);
    assert_true(x.slot[0] == 1 && x.key[0] == high && x.slot[2] == 3 &&
                x.key[2] == missing);
    struct schema s = *reader_schema(r);
    reader_close(r);
    struct reader_options o = {.schema = &s, .labels = true, .allow_missing = true};
    assert_int_equal(reader_open(&r, &o, NULL), 0);
    header(r, "y,b,a");
    examples_clear(&x);
    assert_int_equal(line_parse(r, "1,2,w", &x, NULL), 0);
    assert_int_equal(x.nnz, 3);
    assert_true(x.slot[0] == 0 && x.slot[1] == 1 && x.key[1] == high);
    assert_true(x.slot[2] == 3 && x.key[2] == missing);
    reader_close(r);
    // Files may have no header.
    o = (struct reader_options){
        .format = "csv", .columns = "y,n", .numeric = "n:bins:2", .labels = true};
    assert_int_equal(reader_open(&r, &o, NULL), 0);
    line_layout = NULL;
    struct err e;
    examples_clear(&x);
    // the bin boundaries of the column are not set
    assert_int_equal(line_parse(r, "1,5", &x, &e), TUG_EINTERNAL);
    assert_int_equal(decide(r, "1,5\n0,6", &e), 0);
    assert_true(key_of(r, "5") != key_of(r, "6"));
    reader_close(r);
    examples_free(&x);
}

static void test_words(void **state)
{
    (void)state;
    struct reader *r = decided("n:bins:3", "y,n\n0,0.1\n0,2\n0,3.25\n");
    static const char *const words[][2] = {
        {"1", "<2"},     {"2", "[2,3.25)"},        {"4", ">=3.25"},
        {"", "missing"}, {"[2,3.25)", "[2,3.25)"}, {"missing", "missing"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct reader_word w = {0};
        assert_int_equal(reader_word(r, 0, words[i][0], strlen(words[i][0]), &w, NULL),
                         0);
        assert_int_equal(w.len, strlen(words[i][1]));
        assert_memory_equal(w.text, words[i][1], w.len);
        assert_false(w.number);
        if (i < 4)
            assert_true(w.key == key_of(r, words[i][0]));
    }
    struct reader_word w;
    struct err e;
    const char *cells[] = {"", "2"};
    for (int i = 0; i < 2; i++) {
        const char *text = cells[i];
        assert_true(reader_next_word(r, 0, &text, &w) && w.key == key_of(r, cells[i]));
        assert_false(reader_next_word(r, 0, &text, &w));
    }
    assert_int_equal(reader_word(r, 0, "x", 1, &w, &e), TUG_EDATA);
    assert_string_equal(e.text, "'x' is neither a number nor a bin of column 'n'");
    reader_close(r);
    // An edge is named by the number as it is written in the data, not by
    // all digits of its float.
    r = decided("n:bins:3", "y,n\n0,0.1\n0,104.2\n0,1e10\n");
    assert_int_equal(reader_word(r, 0, "104.2", 5, &w, NULL), 0);
    assert_int_equal(w.len, strlen("[104.2,1e+10)"));
    assert_memory_equal(w.text, "[104.2,1e+10)", w.len);
    reader_close(r);
}

// ---------------------------------------------------------------- errors

static void assert_undecided(const char *numeric, const char *text, const char *want)
{
    struct err e = {0};
    struct reader *r = open_with(numeric, NULL);
    assert_true(decide(r, text, &e) < 0);
    if (strstr(e.text, want) == NULL)
        fail_msg("'%s' does not say '%s'", e.text, want);
    reader_close(r);
}

static void test_columns_without_numbers(void **state)
{
    (void)state;
    assert_undecided("n:bins", "y,n\n1,a\n0,b\n",
                     "f.csv:2: value 'a' of column 'n' is not a number");
    assert_undecided("n:bins", "y,n\n1,\n\n0,b\n", "f.csv:4: value 'b'");
    assert_undecided("n:bins", "y,n\n1,\n0,\n", "the first 2 lines have no number there");
    assert_undecided("n:bins", "y,n", "the first 0 lines have no number there");
    assert_undecided("m:bins", "y,n\n1,2\n",
                     "f.csv:1: the header has no column 'm', which --numeric names");
    // Lines that are not examples are skipped here; they are reported or counted when the
    // data is read.
    struct reader *r = decided("n:bins:2", "y,n\n1,a\n0,1\nx,3\n0,2\n");
    assert_true(key_of(r, "1") != key_of(r, "2") && key_of(r, "2") == key_of(r, "3"));
    reader_close(r);
}

static void test_options(void **state)
{
    (void)state;
    static const char *const bad[] = {"n:bins:1", "a,n:bins:1025,b",
                                      "n:bins:99999999999999999999999", "n:bins:0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct reader *r = NULL;
        struct reader_options o = {.format = "csv", .numeric = bad[i]};
        struct err e = {0};
        int rc = reader_open(&r, &o, &e);
        // ":bins:" without a number belongs to the name
        assert_true(rc == TUG_EUSAGE || i == 2);
        if (rc == 0)
            reader_close(r);
        else
            assert_non_null(strstr(e.text, "there can be 2 to 1024 bins"));
    }
    // A column's own name may end in ":bins".
    struct reader *r = decided("n:bins:value", "y,n:bins\n0,1\n0,2\n");
    struct examples x = {0};
    assert_int_equal(line_parse(r, "1,7", &x, NULL), 0);
    assert_true(x.value[0] == 7);
    examples_free(&x);
    reader_close(r);
    r = decided("n:bins:4", "y,n\n0,1\n0,2\n");
    struct schema s = *reader_schema(r);
    reader_close(r);
    static const char *const others[][2] = {{"n:bins:4", NULL},
                                            {"n:bins", "was trained on 4 bins"},
                                            {"n:log", "was not trained on logarithms"},
                                            {"n", "was not trained on numbers"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct reader_options o = {.schema = &s, .numeric = others[i][0]};
        struct err e = {0};
        assert_int_equal(reader_open(&r, &o, &e), others[i][1] == NULL ? 0 : TUG_EUSAGE);
        if (others[i][1] == NULL)
            reader_close(r);
        else if (strstr(e.text, others[i][1]) == NULL)
            fail_msg("%s", e.text);
    }
}

static void test_damaged_schemas(void **state)
{
    (void)state;
    static const char *const texts[] = {"",        "x",       "2",     "2 1",  "2 1 2",
                                        "1",       "4 1 1",   "4 2 1", "4 1 ", "4  1",
                                        "4 1 nan", "4 1 1e9", "4 a",   "2000", "-4 1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        bool fine = i == 2 || i == 3 || i == 11;
        struct schema s = {.format = "csv", .separator = ','};
        struct reader *r = NULL;
        struct err e = {0};
        struct reader_options o = {.schema = &s};
        assert_int_equal(schema_add(&s, SCHEMA_LABEL, "y", 1, NULL), 0);
        assert_int_equal(schema_add(&s, SCHEMA_BINS, "n", 1, NULL), 0);
        assert_int_equal(reader_open(&r, &o, &e), TUG_EDATA); // the schema has no edges
        assert_int_equal(schema_add(&s, SCHEMA_EDGES, texts[i], strlen(texts[i]), NULL),
                         0);
        int rc = reader_open(&r, &o, &e);
        if (rc != (fine ? 0 : TUG_EDATA))
            fail_msg("'%s': %d %s", texts[i], rc, e.text);
        if (rc == 0)
            reader_close(r);
        assert_int_equal(schema_add(&s, SCHEMA_EDGES, "2 1", 3, NULL), 0);
        // the edges belong to no column
        assert_int_equal(reader_open(&r, &o, &e), TUG_EDATA);
    }
}

static void test_allocation_failures(void **state)
{
    (void)state;
    static const char text[] = "y,n,m\n1,2,3\n0,4,5\n";
    size_t live = mem_live();
    bool done = false;
    for (long n = 0; !done; n++) {
        struct reader_options o = {.format = "csv", .numeric = "n:bins,m:bins:3"};
        struct reader *r = NULL;
        struct buf lines = BUF_INIT(1000);
        mem_fault_after(n);
        int rc = buf_add(&lines, text, strlen(text));
        if (rc == 0)
            rc = reader_open(&r, &o, NULL);
        if (rc == 0)
            rc = reader_decide(r, "f", &lines, NULL);
        done = !mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(rc, done ? 0 : TUG_ENOMEM);
        buf_free(&lines);
        reader_close(r);
        assert_int_equal(mem_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantiles),
        cmocka_unit_test(test_other_values),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_columns_without_numbers),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_damaged_schemas),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
