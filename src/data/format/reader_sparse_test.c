// libsvm and libffm: random examples, printed in every legal way, are read back; illegal
// lines are refused with the reason.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "kit/lines.h"
#include "kit/test.h"

enum { MOST = 60 };

static struct reader *open_reader(const char *format, enum loss loss, bool labels,
                                  uint32_t fields)
{
    struct reader *r = NULL;
    struct reader_options o = {
        .format = format, .loss = loss, .labels = labels, .fields = fields};
    assert_int_equal(reader_open(&r, &o, NULL), 0);
    return r;
}

// ---------------------------------------------------------------- round trips

struct naive {
    float label;
    size_t n;
    uint64_t key[MOST];
    uint16_t slot[MOST];
    float value[MOST];
};

static void add_blanks(struct buf *b, unsigned least)
{
    for (uint64_t n = least + (any_in_100(10) ? any(3) : 0); n > 0; n--)
        assert_int_equal(buf_add(b, any_in_100(20) ? "\t" : " ", 1), 0);
}

static float any_value(char *ret_text, size_t cap)
{
    static const char *const ones[] = {"1", "1", "1", "1.0", "+1", "1e0", "01"};
    switch (any(5)) {
    case 0:
        snprintf(ret_text, cap, "%d", (int)any(2000) - 1000);
        break;
    case 1:
        snprintf(ret_text, cap, "%.*f", (int)any(6), (double)any(1000000) / 1000);
        break;
    case 2:
        snprintf(ret_text, cap, "%.9g", (double)any(1000000) / 7e9);
        break;
    default:
        snprintf(ret_text, cap, "%s", ones[any(7)]);
    }
    return strtof(ret_text, NULL);
}

static void add_feature(struct buf *b, struct naive *x, bool fields)
{
    char text[40];
    size_t k = x->n++;
    x->key[k] = random_u64(3, 3, any_counter++) >> any(64);
    x->slot[k] = fields ? (uint16_t)any(any_in_100(90) ? 40 : 65536) : 0;
    x->value[k] = any_value(text, sizeof text);
    if (fields)
        buf_printf(b, "%s%u:", any_in_100(5) ? "00" : "", x->slot[k]);
    buf_printf(b, "%s%" PRIu64 ":%s", any_in_100(5) ? "000000000000000000000" : "",
               x->key[k], text);
}

static void make_line(struct buf *b, struct naive *x, bool fields)
{
    static const char *const labels[] = {"0",   "1",    "-1",  "+1",
                                         "1.0", "-1.0", "0.0", "1e0"};
    size_t label = any(8);
    x->label = strtof(labels[label], NULL) > 0 ? 1 : 0;
    x->n = 0;
    buf_clear(b);
    add_blanks(b, 0);
    buf_printf(b, "%s", labels[label]);
    for (uint64_t n = any(any_in_100(90) ? 15 : MOST); n > 0; n--) {
        add_blanks(b, 1);
        add_feature(b, x, fields);
    }
    add_blanks(b, 0);
    if (any_in_100(10))
        buf_printf(b, "# 4:5 a comment");
    if (any_in_100(20))
        buf_printf(b, "\r");
}

static void assert_same(const struct examples *x, size_t i, const struct naive *want)
{
    assert_true(x->label[i] == want->label);
    assert_int_equal(x->start[i + 1] - x->start[i], want->n);
    for (size_t k = 0; k < want->n; k++) {
        size_t at = x->start[i] + k;
        assert_true(x->key[at] == want->key[k]);
        assert_int_equal(x->slot[at], want->slot[k]);
        assert_true(x->value[at] == want->value[k]);
    }
}

static void round_trips(const char *format, bool fields)
{
    struct reader *r = open_reader(format, LOSS_LOGISTIC, true, 0);
    struct buf b = BUF_INIT(1 << 20);
    struct examples x = {0};
    for (int round = 0; round < 20; round++) {
        static struct naive want[200];
        bool has_values = false;
        examples_clear(&x);
        for (size_t i = 0; i < 200; i++) {
            struct err e;
            make_line(&b, &want[i], fields);
            for (size_t k = 0; k < want[i].n; k++)
                has_values |= want[i].value[k] != 1;
            if (line_parse(r, buf_str(&b), &x, &e) != 0)
                fail_msg("'%s': %s", buf_str(&b), e.text);
            assert_int_equal(x.n, i + 1);
        }
        for (size_t i = 0; i < 200; i++)
            assert_same(&x, i, &want[i]);
        assert_int_equal(x.has_values, has_values);
        assert_false(x.has_weights);
    }
    examples_free(&x);
    buf_free(&b);
    reader_close(r);
}

static void test_libsvm_round_trips(void **state)
{
    (void)state;
    round_trips("libsvm", false);
}

static void test_libffm_round_trips(void **state)
{
    (void)state;
    round_trips("libffm", true);
}

// ---------------------------------------------------------------- bad lines

static void test_libsvm_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"1:1 2:1", "the label is missing"},
        {"2 1:1", "the label '2' is not one of 0, 1, -1, +1 (use --loss squared"},
        {"0.5 1:1", "the label '0.5' is not one of"},
        {"abc 1:1", "the label 'abc' is not a number"},
        {"nan 1:1", "the label 'nan' is not finite"},
        {"1 -3:1", "index '-3' is negative"},
        {"1 18446744073709551616:1", "is over 2^64-1"},
        {"1 99999999999999999999999:1", "is over 2^64-1"},
        {"1 abc:1", "index 'abc' is not a whole number"},
        {"1 1.5:1", "index '1.5' is not a whole number"},
        {"1 :1", "has no index"},
        {"1 7:nan", "value 'nan' of feature 7 is not finite"},
        {"1 7:1e999", "value '1e999' of feature 7 is too large"},
        {"1 7:-inf", "value '-inf' of feature 7 is not finite"},
        {"1 7:x", "value 'x' of feature 7 is not a number"},
        {"1 7:", "value of feature 7 is missing"},
        {"1 7: 8:1", "value of feature 7 is missing"},
        {"1 7", "'7' is not a feature"},
        {"1 7 8:1", "'7' is not a feature"},
        {"1 2:3:4", "--format libffm"},
        {"1 2:1:1 3:1", "--format libffm"},
        {"1 123456789:1:1", "--format libffm"},
        {"1 qid:3 1:1", "ranking data"},
        {"1 1:1\x01 2:1", "not a feature"},
        {"1 1:1\x01", "not a feature"},
        {"\x7f"
         "ELF\x02\x01",
         "the label '\\x7fELF"},
    };
    struct reader *r = open_reader("libsvm", LOSS_LOGISTIC, true, 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        line_refused(r, bad[i][0], bad[i][1]);
    struct examples x = {0};
    struct line l = line_make("1 1:1\0 2:1", 10); // a zero byte within a line
    assert_int_equal(reader_line(r, NULL, l.text, l.len, &x, NULL), TUG_EDATA);
    mem_free(l.text);
    examples_free(&x);
    reader_close(r);
}

static void test_libffm_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"0:1:1 2:2:1", "the label is missing"},
        {"3 0:1:1", "the label '3' is not one of"},
        {"1 0:1", "--format libsvm"},
        {"1 5", "not a feature of the form field:index:value"},
        {"1 10:1:1", "field 10 is not below 10"},
        {"1 99999999999:1:1", "is not below 10"},
        {"1 -1:1:1", "field '-1' is not a whole number"},
        {"1 a:1:1", "field 'a' is not a whole number"},
        {"1 1:-1:1", "index '-1' is negative"},
        {"1 1:18446744073709551616:1", "is over 2^64-1"},
        {"1 1:2:nan", "value 'nan' of feature 2 is not finite"},
        {"1 1:2:", "value of feature 2 is missing"},
        {"1 1:2:3:4", "value '3:4' of feature 2 is not a number"},
    };
    struct reader *r = open_reader("libffm", LOSS_LOGISTIC, true, 10);
    assert_int_equal(reader_slots(r), 10);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        line_refused(r, bad[i][0], bad[i][1]);
    reader_close(r);
    r = open_reader("libffm", LOSS_LOGISTIC, true, 0);
    assert_int_equal(reader_slots(r), 0);
    line_refused(r, "1 65536:1:1", "field 65536 is not below 65536");
    reader_close(r);
    struct reader_options o = {.format = "libffm", .fields = 65537};
    assert_int_equal(reader_open(&r, &o, NULL), TUG_EUSAGE);
}

// ---------------------------------------------------------------- labels and edges

static void test_labels(void **state)
{
    (void)state;
    struct examples x = {0};
    struct reader *r = open_reader("libsvm", LOSS_SQUARED, true, 0);
    assert_int_equal(line_parse(r, "-2.75 1:1", &x, NULL), 0);
    assert_int_equal(line_parse(r, "1e3", &x, NULL), 0);
    assert_int_equal(line_parse(r, "-1 0:1 18446744073709551615:1", &x, NULL), 0);
    assert_true(x.label[0] == -2.75F && x.label[1] == 1000 && x.label[2] == -1);
    assert_int_equal(x.start[2] - x.start[1], 0);
    assert_true(x.key[1] == 0 && x.key[2] == UINT64_MAX);
    line_refused(r, "nan 1:1", "not finite");
    reader_close(r);

    r = open_reader("libsvm", LOSS_LOGISTIC, false, 0);
    examples_clear(&x);
    assert_int_equal(line_parse(r, "3:1 4:1", &x, NULL), 0);
    assert_int_equal(line_parse(r, " 1 3:1", &x, NULL), 0);
    assert_int_equal(x.n, 2);
    assert_true(x.label[0] == 0 && x.label[1] == 1);
    assert_true(x.nnz == 3 && x.key[0] == 3 && x.key[2] == 3);
    examples_free(&x);
    reader_close(r);
}

// The reader of sparse formats ignores the labels of data for predictions, but it still
// refuses lines of csv.
static void test_lines_of_csv(void **state)
{
    (void)state;
    static const char *const bad[] = {"id,click,hour", "7,0,u3", " 0;a;b \r", "1|x # y"};
    static const char *const good[] = {"", "?", "abcd-1234", "a,b 3:1", "1,5 1:1:1"};
    for (int fields = 0; fields < 2; fields++) {
        struct reader *r = open_reader(fields ? "libffm" : "libsvm", LOSS_LOGISTIC, false,
                                       0);
        struct examples x = {0};
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
            line_refused(r, bad[i], "is not a feature of the form");
        for (int i = 0; i < 3; i++)
            assert_int_equal(line_parse(r, good[i], &x, NULL), 0);
        assert_int_equal(line_parse(r, good[3 + fields], &x, NULL), 0);
        assert_true(x.n == 3 && x.nnz == 1);
        examples_free(&x);
        reader_close(r);
    }
}

static void test_lines_without_examples(void **state)
{
    (void)state;
    static const char *const empty[] = {"", "\r", "   ", "\t \r", "# 1 2:3", "  #"};
    struct reader *r = open_reader("libsvm", LOSS_LOGISTIC, true, 0);
    struct examples x = {0};
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++)
        assert_int_equal(line_parse(r, empty[i], &x, NULL), 0);
    assert_int_equal(x.n, 0);
    examples_free(&x);
    reader_close(r);
}

static void test_long_line(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(12 << 20);
    struct examples x = {0};
    struct reader *r = open_reader("libsvm", LOSS_LOGISTIC, true, 0);
    assert_int_equal(buf_add(&b, "1", 1), 0);
    uint32_t n = 0;
    for (; b.len < 10 << 20; n++)
        assert_int_equal(buf_printf(&b, " %u:1", n), 0);
    assert_int_equal(line_parse(r, buf_str(&b), &x, NULL), 0);
    assert_int_equal(x.nnz, n);
    for (uint32_t i = 0; i < n; i++)
        assert_true(x.key[i] == i);
    examples_free(&x);
    buf_free(&b);
    reader_close(r);
}

// A refused line leaves the earlier examples unchanged.
static void test_failure_keeps_examples(void **state)
{
    (void)state;
    struct reader *r = open_reader("libsvm", LOSS_LOGISTIC, true, 0);
    struct examples x = {0};
    assert_int_equal(line_parse(r, "1 5:1 6:1", &x, NULL), 0);
    assert_int_equal(line_parse(r, "0 7:2.5 8:1 9:nan", &x, NULL), TUG_EDATA);
    assert_int_equal(x.n, 1);
    assert_int_equal(x.nnz, 2);
    assert_false(x.has_values);
    assert_true(x.key[1] == 6 && x.start[1] == 2);
    examples_free(&x);
    reader_close(r);
}

static void test_allocation_failures(void **state)
{
    (void)state;
    size_t live = mem_live();
    bool done = false;
    for (long n = 0; !done; n++) {
        struct reader_options o = {.format = "libffm", .labels = true};
        struct reader *r = NULL;
        struct examples x = {0};
        mem_fault_after(n);
        int rc = reader_open(&r, &o, NULL);
        for (int i = 0; rc == 0 && i < 3000; i++)
            rc = reader_line(r, NULL, "1 2:3:1 4:5:1\n                                ",
                             13, &x, NULL);
        done = !mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(rc, done ? 0 : TUG_ENOMEM);
        examples_free(&x);
        reader_close(r);
        assert_int_equal(mem_live(), live);
    }
}

static void test_formats(void **state)
{
    (void)state;
    struct reader *r;
    struct err e;
    struct reader_options o = {.format = "vw"};
    assert_int_equal(reader_open(&r, &o, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "'vw'"));
    assert_non_null(strstr(e.text, reader_formats()));
    o.format = NULL;
    assert_int_equal(reader_open(&r, &o, &e), TUG_EUSAGE);
    o = (struct reader_options){.format = "libsvm", .drop = "id"};
    assert_int_equal(reader_open(&r, &o, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "--drop works only with csv"));
}

// reader_columns returns the fields' indices as they are written in the line.
static void test_columns(void **state)
{
    (void)state;
    static const struct {
        const char *line, *want;
        size_t len;
    } lines[] = {
        {"1 0:17:1 2:5:0.5 2:6:1 7:8:1", "17\0\0005|6", 8},
        {"0:3:1 02:9:1\r", "3\0\0009", 5},
        {"-1  2:12345678901:1\t0:4:2 # 1:1:1", "4\0\00012345678901", 15},
        {"0", "\0\0", 3},
    };
    struct reader *r = open_reader("libffm", LOSS_LOGISTIC, false, 8);
    size_t column[4], n;
    struct err e;
    assert_int_equal(reader_find_columns(r, NULL, "0,1,2", "--keep", 4, column, &n, &e),
                     0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct buf text = BUF_INIT(1 << 20);
        char padded[128] = "";
        snprintf(padded, sizeof padded - READER_PADDING, "%s", lines[i].line);
        assert_int_equal(
            reader_columns(r, NULL, padded, strlen(padded), column, n, &text), 0);
        assert_int_equal(text.len, lines[i].len);
        assert_memory_equal(text.data, lines[i].want, text.len);
        buf_free(&text);
    }
    assert_int_equal(reader_find_columns(r, NULL, "8", "--keep", 4, column, &n, &e),
                     TUG_EDATA);
    assert_string_equal(e.text, "the data has no column '8', which --keep names; its "
                                "columns are the numbers of its fields");
    reader_close(r);
    r = open_reader("libsvm", LOSS_LOGISTIC, false, 0);
    assert_int_equal(reader_find_columns(r, NULL, "0", "--group", 4, column, &n, &e),
                     TUG_EUSAGE);
    assert_string_equal(
        e.text, "--group works with csv, criteo, libffm and multislot data, whose "
                "columns have names, not with libsvm");
    reader_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_libsvm_round_trips),
        cmocka_unit_test(test_libffm_round_trips),
        cmocka_unit_test(test_libsvm_refused),
        cmocka_unit_test(test_libffm_refused),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_lines_of_csv),
        cmocka_unit_test(test_lines_without_examples),
        cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_failure_keeps_examples),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
