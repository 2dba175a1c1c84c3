// CSV: random tables printed with and without quotes are read back; headers and bad
// lines.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/data_testing.h"

static struct reader *open_reader(struct reader_options o)
{
    struct reader *r = NULL;
    o.format = "csv";
    assert_int_equal(reader_open(&r, &o, NULL), 0);
    assert_true(reader_has_header(r));
    return r;
}

static void header(struct reader *r, const char *line)
{
    struct err e;
    if (reader_header(r, line, strlen(line), &e) != 0)
        fail_msg("'%s': %s", line, e.text);
}

static void assert_header_refused(struct reader_options o, const char *line,
                                  const char *reason)
{
    struct reader *r = open_reader(o);
    struct err e = {0};
    assert_true(reader_header(r, line, strlen(line), &e) < 0);
    if (strstr(e.text, reason) == NULL)
        fail_msg("'%s': '%s' does not say '%s'", line, e.text, reason);
    reader_close(r);
}

// ---------------------------------------------------------------- round trips

static void any_text(char *ret, size_t most, char separator)
{
    const char alphabet[] = {'a', 'b', '7', '"', separator, ' ', '\'', '\t', (char)0xc3};
    size_t n = any(most + 1);
    for (size_t i = 0; i < n; i++)
        ret[i] = alphabet[any(sizeof alphabet)];
    ret[n] = '\0';
}

static void print_field(struct buf *b, const char *text, char separator)
{
    bool must = strchr(text, separator) != NULL || text[0] == '"';
    if (!must && chance(70)) {
        buf_printf(b, "%s", text);
        return;
    }
    buf_add(b, "\"", 1);
    for (; *text != '\0'; text++)
        buf_add(b, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    buf_add(b, "\"", 1);
}

static void round_trip(struct reader *r, char separator, struct buf *b,
                       struct examples *x)
{
    char text[4][64], number[32];
    float label = (float)any(2), value = (float)any(1000) / 8;
    snprintf(number, sizeof number, "%g", (double)value);
    bool missing = chance(20);
    buf_clear(b);
    for (int i = 0; i < 4; i++) {
        any_text(text[i], chance(90) ? 8 : 60, separator);
        print_field(b, text[i], separator);
        buf_add(b, &separator, 1);
    }
    print_field(b, label > 0 ? "1" : "0", separator);
    buf_add(b, &separator, 1);
    print_field(b, missing ? "" : number, separator);
    if (chance(10))
        buf_add(b, "\r", 1);
    struct err e;
    examples_clear(x);
    if (parse(r, buf_str(b), x, &e) != 0)
        fail_msg("'%s': %s", buf_str(b), e.text);
    assert_true(x->label[0] == label);
    size_t k = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t slot = i < 2 ? i : i - 1; // the third column is dropped
        if (i == 2 || text[i][0] == '\0')
            continue;
        assert_int_equal(x->slot[k], slot);
        assert_true(x->key[k] == reader_key(slot, text[i], strlen(text[i])));
        assert_true(x->value[k++] == 1);
    }
    if (!missing) {
        assert_true(x->key[k] == reader_key(3, "num", 3) && x->slot[k] == 3);
        assert_true(x->value[k++] == value);
    }
    assert_int_equal(x->nnz, k);
}

static void test_round_trips(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(1 << 16);
    struct examples x = {0};
    static const char separators[] = ",\t;|";
    for (int s = 0; s < 4; s++) {
        char line[64];
        struct reader *r = open_reader(
            (struct reader_options){.labels = true,
                                    .label_column = "click",
                                    .drop = "c",
                                    .numeric = "num",
                                    .separator = separators[s]});
        snprintf(line, sizeof line, "a,b,c,\"d\",click,num\r");
        for (char *p = line; *p != '\0'; p++)
            *p = *p == ',' ? separators[s] : *p;
        header(r, line);
        assert_int_equal(reader_slots(r), 4);
        for (int i = 0; i < 5000; i++)
            round_trip(r, separators[s], &b, &x);
        reader_close(r);
    }
    examples_free(&x);
    buf_free(&b);
}

// ---------------------------------------------------------------- headers

static void test_headers(void **state)
{
    (void)state;
    struct reader_options o = {
        .labels = true, .label_column = "y", .drop = "id,", .numeric = "n"};
    assert_header_refused(o, "", "is empty");
    assert_header_refused(o, "id,x,n", "no column 'y', which --label names");
    assert_header_refused(o, "y,x,n", "no column 'id', which --drop names");
    assert_header_refused(o, "y,x,id", "no column 'n', which --numeric names");
    assert_header_refused(o, "y,\"x", "is not closed");
    o.drop = "y";
    assert_header_refused(o, "y,x,n", "has another use already");
    assert_header_refused((struct reader_options){.labels = true}, "y;a;b",
                          "as a feature");

    o.drop = "id";
    struct reader *r = open_reader(o);
    struct err e;
    struct examples x = {0};
    assert_int_equal(parse(r, "1,2,3,4", &x, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "the header"));
    header(r, "\xef\xbb\xbfid,y,n,x"); // with a byte order mark
    header(r, "id,y,n,x\r");
    assert_int_equal(reader_header(r, "id,y,x,n", 8, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "is not that of the first file"));
    assert_int_equal(reader_slots(r), 2);
    examples_free(&x);
    reader_close(r);
}

static void test_bad_lines(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"1,2,3", "found 3 columns, the header has 5"},
        {"1,2,3,4,5,6", "found 6 columns, the header has 5"},
        {"2,a,1,b,1", "the label '2' is none of"},
        {",a,1,b,1", "the label is missing"},
        {"1,a,nan,b,1", "value 'nan' of column 'n' is not finite"},
        {"1,a,1e999,b,1", "value '1e999' of column 'n' is not finite"},
        {"1,a,x,b,1", "value 'x' of column 'n' is no number"},
        {"1,a,1,b,", "weight of column 'w' is missing"},
        {"1,a,1,b,-1", "weight '-1' is negative"},
        {"1,\"a,1,b,1", "is not closed"},
        {"1,\"a\"b,1,b,1", "is not followed by ','"},
        {"1,\"", "is not closed"},
    };
    struct reader *r = open_reader(
        (struct reader_options){.labels = true, .numeric = "n", .weight_column = "w"});
    header(r, "y,a,n,b,w");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_refused(r, bad[i][0], bad[i][1]);
    struct examples x = {0};
    assert_int_equal(parse(r, "1,a,1,b,1", &x, NULL), 0);
    assert_false(x.has_weights || x.has_values);
    assert_int_equal(parse(r, "-1,a,2,b,2.5", &x, NULL), 0);
    assert_true(x.has_weights && x.has_values);
    assert_true(x.weight[0] == 1 && x.weight[1] == 2.5F && x.label[1] == 0);
    examples_free(&x);
    reader_close(r);
}

// Slots and keys are the same whether the label's column is there or not.
static void test_without_label(void **state)
{
    (void)state;
    struct examples with = {0}, without = {0};
    struct reader_options o = {.labels = true, .label_column = "y"};
    struct reader *r = open_reader(o);
    header(r, "a,y,b");
    assert_int_equal(parse(r, "p,1,q", &with, NULL), 0);
    reader_close(r);
    o.labels = false;
    r = open_reader(o);
    header(r, "a,b");
    assert_int_equal(parse(r, "p,q", &without, NULL), 0);
    reader_close(r);
    assert_int_equal(without.nnz, 2);
    assert_memory_equal(with.key, without.key, 2 * sizeof(uint64_t));
    assert_memory_equal(with.slot, without.slot, 2 * sizeof(uint16_t));
    r = open_reader(o);
    header(r, "a,y,b");
    assert_int_equal(parse(r, "p,,q", &without, NULL), 0); // there, but not known
    reader_close(r);
    examples_free(&with);
    examples_free(&without);
}

static void test_options(void **state)
{
    (void)state;
    static const char bad[] = "\"\n\r";
    for (int i = 0; i < 3; i++) {
        struct reader *r;
        struct reader_options o = {.format = "csv", .separator = bad[i]};
        assert_int_equal(reader_open(&r, &o, NULL), TUG_EUSAGE);
    }
}

static void test_allocation_failures(void **state)
{
    (void)state;
    static const char line[64] = "1,2,3,4,\"5\"\"6\"\n";
    size_t live = mem_live();
    bool done = false;
    for (long n = 0; !done; n++) {
        struct reader_options o = {.format = "csv",
                                   .labels = true,
                                   .label_column = "y",
                                   .drop = "a",
                                   .numeric = "b",
                                   .weight_column = "w"};
        struct reader *r = NULL;
        struct examples x = {0};
        mem_fault_after(n);
        int rc = reader_open(&r, &o, NULL);
        if (rc == 0)
            rc = reader_header(r, "y,a,b,w,c", 9, NULL);
        if (rc == 0)
            rc = reader_line(r, line, strcspn(line, "\n"), &x, NULL);
        done = !mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(rc, done ? 0 : TUG_ENOMEM);
        examples_free(&x);
        reader_close(r);
        assert_int_equal(mem_live(), live);
    }
}

static void test_real_data(void **state)
{
    (void)state;
    const char *path = shared_file("avazu/avazu_10k.csv");
    if (path == NULL) {
        print_message("no shared data sets here: skipped\n");
        skip();
    }
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    struct reader *r = open_reader(
        (struct reader_options){.labels = true, .label_column = "click", .drop = "id"});
    struct examples x = {0};
    char line[4096];
    assert_non_null(fgets(line, sizeof line, f));
    line[strcspn(line, "\n")] = '\0';
    header(r, line);
    while (fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        assert_int_equal(parse(r, line, &x, NULL), 0);
    }
    assert_int_equal(reader_slots(r), 22);
    assert_int_equal(x.n, 10000);
    assert_int_equal(x.nnz, x.n * 22);
    fclose(f);
    examples_free(&x);
    reader_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips), cmocka_unit_test(test_headers),
        cmocka_unit_test(test_bad_lines),   cmocka_unit_test(test_without_label),
        cmocka_unit_test(test_options),     cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_real_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
