// CSV: random tables, printed with and without quotes, are read back. Compares permuted,
// added and missing columns with a naive model. Also tests headers, schemas and bad
// lines.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "data/format/number.h"
#include "kit/files.h"
#include "kit/lines.h"
#include "kit/test.h"

static struct reader *open_reader(struct reader_options o)
{
    struct reader *r = NULL;
    o.format = "csv";
    line_layout = NULL;
    assert_int_equal(reader_open(&r, &o, NULL), 0);
    assert_true(reader_has_header(r));
    return r;
}

static void header(struct reader *r, const char *line)
{
    struct err e;
    if (reader_header(r, line, strlen(line), &line_layout, &e) != 0)
        fail_msg("'%s': %s", line, e.text);
}

static uint64_t word_key(const char *column, const char *text)
{
    return hash_bytes(text, strlen(text), hash_bytes(column, strlen(column), 0));
}

static uint64_t number_key(const char *column)
{
    return hash_bytes(column, strlen(column), 1);
}

static void assert_refuses_header(struct reader *r, const char *line, const char *reason)
{
    struct err e = {0};
    const struct reader_layout *l = NULL;
    assert_true(reader_header(r, line, strlen(line), &l, &e) < 0);
    if (strstr(e.text, reason) == NULL)
        fail_msg("'%s': '%s' does not say '%s'", line, e.text, reason);
    assert_null(l);
}

static void assert_header_refused(struct reader_options o, const char *line,
                                  const char *reason)
{
    struct reader *r = open_reader(o);
    assert_refuses_header(r, line, reason);
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
    if (!must && any_in_100(70)) {
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
    bool missing = any_in_100(20);
    buf_clear(b);
    for (int i = 0; i < 4; i++) {
        any_text(text[i], any_in_100(90) ? 8 : 60, separator);
        print_field(b, text[i], separator);
        buf_add(b, &separator, 1);
    }
    print_field(b, label > 0 ? "1" : "0", separator);
    buf_add(b, &separator, 1);
    print_field(b, missing ? "" : number, separator);
    if (any_in_100(10))
        buf_add(b, "\r", 1);
    struct err e;
    examples_clear(x);
    if (line_parse(r, buf_str(b), x, &e) != 0)
        fail_msg("'%s': %s", buf_str(b), e.text);
    assert_true(x->label[0] == label);
    size_t k = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t slot = i < 2 ? i : i - 1; // the third column is dropped
        if (i == 2 || text[i][0] == '\0')
            continue;
        assert_int_equal(x->slot[k], slot);
        const char name[2] = {(char)('a' + (int)i), 0};
        assert_true(x->key[k] == word_key(name, text[i]));
        assert_true(x->value[k++] == 1);
    }
    if (!missing) {
        assert_true(x->key[k] == number_key("num") && x->slot[k] == 3);
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
        .labels = true, .label_column = "y", .drop = "id", .numeric = "n"};
    assert_header_refused(o, "", "is empty");
    assert_header_refused(o, "id,x,n", "no column 'y', which --label names");
    assert_header_refused(o, "y,x,n", "no column 'id', which --drop names");
    assert_header_refused(o, "y,x,id", "no column 'n', which --numeric names");
    assert_header_refused(
        o, "x,m",
        "has no column 'y', which --label names; the header has no "
        "column 'id', which --drop names; the header has no column 'n', "
        "which --numeric names; it has 'x', 'm'");
    assert_header_refused(o, "y;id;n;x", "it has 'y;id;n;x'");
    assert_header_refused(o, "y,\"x", "is not closed");
    o.drop = "y";
    assert_header_refused(o, "y,x,n", "cannot also be");
    static const char *const twice[] = {"n:bins:2,n:log", "n,n:log", "n:bins:2,n:bins:3"};
    for (size_t i = 0; i < sizeof twice / sizeof twice[0]; i++)
        assert_header_refused(
            (struct reader_options){.labels = true, .numeric = twice[i]}, "y,x,n",
            "--numeric names 'n' in two ways");
    assert_header_refused((struct reader_options){.labels = true}, "y;a;b",
                          "could be a feature; it looks separated by semicolons");

    o.drop = "id";
    struct reader *r = open_reader(o);
    struct err e;
    struct examples x = {0};
    assert_int_equal(line_parse(r, "1,2,3,4", &x, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "the header"));
    header(r, "\xef\xbb\xbfid,y,n,x"); // with a byte order mark
    const struct reader_layout *first = line_layout;
    header(r, "id,y,n,x\r");
    assert_ptr_equal(line_layout, first);
    header(r, "id,y,x,n");
    assert_ptr_not_equal(line_layout, first);
    header(r, "x,n,y"); // a dropped column may be missing
    assert_int_equal(reader_slots(r), 2);
    assert_refuses_header(r, "id,y,n,x,z", "the first file does not have the column 'z'");
    assert_refuses_header(r, "id,y,n", "lacks the feature column 'x', which the first");
    assert_refuses_header(r, "id,y", "lacks the feature columns 'n', 'x', which");
    assert_refuses_header(r, "id,n,x", "label column 'y' is missing");
    assert_refuses_header(
        r, "N,y,a,b,c,d,X",
        "does not have the columns 'N', 'a', 'b', 'c' and 2 more; "
        "use --drop to ignore them; the header lacks the feature columns");
    assert_refuses_header(
        r, "id;y;n;x",
        "the header is one column, 'id;y;n;x': the separator of the first file is ',', "
        "and all files of a run need the same");
    assert_refuses_header(r, "y,n,x,n", "has the column 'n' twice");
    examples_free(&x);
    reader_close(r);
}

// Some columns have no name, such as the line numbers that some tools add.
static void test_empty_names(void **state)
{
    (void)state;
    struct reader_options o = {.labels = true, .label_column = "y", .drop = ""};
    struct reader *r = open_reader(o);
    struct examples x = {0};
    header(r, ",y,a");
    assert_int_equal(reader_slots(r), 1);
    assert_int_equal(line_parse(r, "17,1,p", &x, NULL), 0);
    assert_int_equal(x.nnz, 1);
    assert_true(x.key[0] == word_key("a", "p"));
    reader_close(r);
    assert_header_refused(o, "y,a", "no column '', which --drop names");
    o.drop = "b,,a"; // an empty name between commas is also a name
    r = open_reader(o);
    header(r, ",y,a,b,c,");
    assert_int_equal(reader_slots(r), 1);
    reader_close(r);
    examples_free(&x);
}

// A first line of data is refused as a header. Names that are numbers are accepted.
static void test_no_header(void **state)
{
    (void)state;
    struct reader_options o = {.labels = true};
    assert_header_refused(o, "0,1,1,5,0,1382", "csv needs a header");
    assert_header_refused(o, "1,a,b,c", "csv needs a header");
    assert_header_refused(o, "1.5,68fd1e64,80e26c9b", "csv needs a header");
    o.label_column = "click";
    assert_header_refused(o, "1,a,b,c", "csv needs a header");
    o.label_column = NULL;
    static const char *const names[] = {"0,1,2,3", "1,2,3", "y,1,0", "label,0.5"};
    for (size_t i = 0; i < 4; i++) {
        struct reader *r = open_reader(o);
        header(r, names[i]);
        reader_close(r);
    }
}

// ---------------------------------------------------------------- files in any order

enum { MOST = 12 };

// A row has a word or a number for each name; a file has some of the names in some order.
struct table_column {
    char name[8];
    enum schema_use use;
};

struct row {
    char text[MOST][16]; // per column; "": missing
};

static void any_table(struct table_column *t, size_t *ret_n)
{
    static const enum schema_use uses[] = {SCHEMA_WORDS,   SCHEMA_WORDS, SCHEMA_NUMBERS,
                                           SCHEMA_DROPPED, SCHEMA_LISTS, SCHEMA_LOGS};
    *ret_n = 3 + any(MOST - 3);
    for (size_t i = 0; i < *ret_n; i++) {
        snprintf(t[i].name, sizeof t[i].name, "c%zu", i * 7 % 100);
        t[i].use = i == 0   ? SCHEMA_LABEL
                   : i == 1 ? SCHEMA_WORDS
                   : i == 2 ? SCHEMA_NUMBERS
                            : uses[any(sizeof uses / sizeof uses[0])];
    }
}

static void any_row(const struct table_column *t, size_t n, struct row *row)
{
    for (size_t i = 0; i < n; i++) {
        int number = (int)any(50);
        bool list = t[i].use == SCHEMA_LISTS && any_in_100(70);
        snprintf(row->text[i], sizeof row->text[i],
                 list                       ? "w%d|x||NA"
                 : t[i].use == SCHEMA_WORDS ? "w%d"
                                            : "%d",
                 t[i].use == SCHEMA_LABEL ? number % 2 : number);
        if (i > 0 && any_in_100(10))
            snprintf(row->text[i], sizeof row->text[i], "NA");
        if (i > 0 && any_in_100(20))
            row->text[i][0] = 0;
    }
}

static void shuffle(size_t *order, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = any(i), x = order[i - 1];
        order[i - 1] = order[j];
        order[j] = x;
    }
}

static const char *list_of(const struct table_column *t, size_t n, enum schema_use use,
                           char ret[128])
{
    size_t len = 0;
    ret[0] = 0;
    for (size_t i = 0; i < n; i++)
        if (t[i].use == use)
            len += (size_t)snprintf(ret + len, 128 - len, "%s%s", len > 0 ? "," : "",
                                    t[i].name);
    return len > 0 ? ret : NULL;
}

// Columns whose words are crossed, by their index in the table.
struct crossing {
    size_t parts, at[3];
};

static struct crossing crossings[3];
static size_t n_crossings;

static const char *any_crossings(const struct table_column *t, size_t n, char ret[128])
{
    size_t words[MOST], n_words = 0, len = 0;
    for (size_t i = 0; i < n; i++)
        if (t[i].use == SCHEMA_WORDS || t[i].use == SCHEMA_LISTS)
            words[n_words++] = i;
    for (n_crossings = 0; n_words > 2 && n_crossings < 3; n_crossings++) {
        struct crossing *k = &crossings[n_crossings];
        shuffle(words, n_words);
        k->parts = n_crossings == 0 ? 3 : 2;
        for (size_t p = 0; p < k->parts; p++) {
            k->at[p] = words[p];
            len += (size_t)snprintf(ret + len, 128 - len, "%s%s",
                                    p > 0     ? "*"
                                    : len > 0 ? ","
                                              : "",
                                    t[words[p]].name);
        }
        for (size_t i = 0; i < n_crossings; i++) // naming a cross twice is refused
            if (memcmp(crossings[i].at, k->at, k->parts * sizeof k->at[0]) == 0 &&
                crossings[i].parts == k->parts) {
                n_crossings = 0;
                return NULL;
            }
    }
    return n_crossings > 0 ? ret : NULL;
}

// Prints the columns in `order`; the index n stands for a column that the table lacks.
static void print_line(const struct table_column *t, size_t n, const size_t *order,
                       size_t shown, const struct row *row, char ret[512])
{
    size_t len = 0;
    for (size_t i = 0; i < shown; i++)
        len += (size_t)snprintf(ret + len, 512 - len, "%s%s", i > 0 ? "," : "",
                                order[i] == n ? (row != NULL ? "?" : "stranger")
                                : row != NULL ? row->text[order[i]]
                                              : t[order[i]].name);
}

// Computes the keys of a column's words, if the column exists; returns their number.
static size_t keys_of(const struct table_column *c, const char *text, bool there,
                      uint64_t ret[4])
{
    size_t n = 0;
    for (size_t len; there && *text != 0; text += len + (text[len] != 0)) {
        char word[16];
        len = c->use == SCHEMA_LISTS ? strcspn(text, "|") : strlen(text);
        snprintf(word, sizeof word, "%.*s", (int)len, text);
        if (len > 0 && strcmp(word, "NA") != 0)
            ret[n++] = word_key(c->name, word);
    }
    return n;
}

static void assert_crossing(const struct table_column *t, const struct crossing *k,
                            const bool *there, const struct row *row, size_t slot,
                            const struct examples *x, size_t *at)
{
    char name[40] = "";
    uint64_t keys[3][4] = {{0}};
    size_t n[3] = {1, 1, 1};
    for (size_t p = 0; p < k->parts; p++) {
        const struct table_column *c = &t[k->at[p]];
        n[p] = keys_of(c, row->text[k->at[p]], there[k->at[p]], keys[p]);
        snprintf(name + strlen(name), sizeof name - strlen(name), "%s%s",
                 p > 0 ? "*" : "", c->name);
    }
    for (size_t i = 0; i < n[0]; i++)
        for (size_t j = 0; j < n[1]; j++)
            for (size_t l = 0; l < n[2]; l++, ++*at) {
                const uint64_t all[] = {keys[0][i], keys[1][j], keys[2][l]};
                assert_true(*at < x->nnz && x->value[*at] == 1);
                assert_int_equal(x->slot[*at], slot);
                assert_true(x->key[*at] == hash_bytes(all, k->parts * sizeof all[0],
                                                      hash_bytes(name, strlen(name), 2)));
            }
}

// Checks the features of a row by name, in the order of the first file's columns, if the
// columns `order[0 .. shown)` exist.
static void assert_row(const struct table_column *t, size_t n, const size_t *first,
                       const size_t *order, size_t shown, const struct row *row,
                       const struct examples *x)
{
    uint16_t slot = 0;
    size_t k = 0;
    bool all[MOST + 1] = {0};
    for (size_t j = 0; j < shown; j++)
        all[order[j]] = true;
    for (size_t i = 0; i < n; i++) {
        const struct table_column *c = &t[first[i]];
        bool there = all[first[i]];
        if (!schema_is_feature(c->use))
            continue;
        slot++;
        const char *text = row->text[first[i]];
        char word[16];
        for (size_t len; there && *text != 0; text += len + (text[len] != 0)) {
            len = c->use == SCHEMA_LISTS ? strcspn(text, "|") : strlen(text);
            snprintf(word, sizeof word, "%.*s", (int)len, text);
            if (len == 0 || strcmp(word, "NA") == 0)
                continue;
            assert_true(k < x->nnz);
            assert_int_equal(x->slot[k], slot - 1);
            bool log_of = c->use == SCHEMA_LOGS;
            bool number = c->use == SCHEMA_NUMBERS || log_of;
            assert_true(x->key[k] ==
                        (number ? number_key(c->name) : word_key(c->name, word)));
            float value = 1;
            if (number)
                assert_int_equal(number_parse(word, strlen(word), &value), NUMBER_OK);
            double want = log_of ? log1p((double)value) : (double)value;
            assert_true(fabs((double)x->value[k] - want) < 1e-6);
            k++;
        }
    }
    for (size_t i = 0; i < n_crossings; i++)
        assert_crossing(t, &crossings[i], all, row, slot + i, x, &k);
    assert_int_equal(x->nnz, k);
}

static void one_file(struct reader *r, const struct table_column *t, size_t n,
                     const size_t *first, const size_t *order, size_t shown)
{
    char line[512];
    struct examples x = {0};
    print_line(t, n, order, shown, NULL, line);
    header(r, line);
    for (int i = 0; i < 3; i++) {
        struct row row;
        any_row(t, n, &row);
        print_line(t, n, order, shown, &row, line);
        examples_clear(&x);
        struct err e;
        if (line_parse(r, line, &x, &e) != 0)
            fail_msg("'%s': %s", line, e.text);
        assert_row(t, n, first, order, shown, &row, &x);
    }
    examples_free(&x);
}

// Columns are found by name in all files, whatever their order; an unknown column is
// allowed if it is dropped, and a missing column if allow_missing is set.
static void test_any_order(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct table_column t[MOST];
        size_t n, first[MOST], order[MOST + 1];
        char numeric[128], logs[128], numbers[400], lists[128], drop[128], drops[160],
            crosses[128];
        any_table(t, &n);
        for (size_t i = 0; i < n; i++)
            first[i] = i;
        shuffle(first, n);
        const char *dropped = list_of(t, n, SCHEMA_DROPPED, drop);
        snprintf(drops, sizeof drops, "%s%sstranger", dropped != NULL ? dropped : "",
                 dropped != NULL ? "," : "");
        assert_non_null(list_of(t, n, SCHEMA_NUMBERS, numeric)); // the list is not empty
        snprintf(numbers, sizeof numbers, "%s", numeric);
        const char *name, *rest = list_of(t, n, SCHEMA_LOGS, logs);
        for (size_t len; reader_next_name(&rest, &name, &len);) {
            size_t at = strlen(numbers);
            snprintf(numbers + at, sizeof numbers - at, ",%.*s:log", (int)len, name);
        }
        const char *crossed = any_crossings(t, n, crosses);
        bool strangers = any_in_100(50), missing = any_in_100(50);
        struct reader *r = open_reader(
            (struct reader_options){.labels = true,
                                    .label_column = t[0].name,
                                    .numeric = numbers,
                                    .lists = list_of(t, n, SCHEMA_LISTS, lists),
                                    .missing = "null,NA",
                                    .cross_columns = crossed,
                                    .drop = strangers ? drops : dropped,
                                    .drop_elsewhere = strangers,
                                    .allow_missing = missing});
        one_file(r, t, n, first, first, n);
        for (int file = 0; file < 3; file++) {
            size_t shown = 0;
            for (size_t i = 0; i < n; i++)
                if (i == 0 || !missing || any_in_100(70))
                    order[shown++] = i;
            if (strangers)
                order[shown++] = n;
            shuffle(order, shown);
            one_file(r, t, n, first, order, shown);
        }
        reader_close(r);
    }
}

static bool schema_same(const struct schema *a, const struct schema *b)
{
    return strcmp(a->format, b->format) == 0 && a->loss == b->loss &&
           a->separator == b->separator && a->text_len == b->text_len &&
           memcmp(a->text, b->text, a->text_len) == 0;
}

// ---------------------------------------------------------------- schemas

static struct schema *copy_schema(const struct reader *r)
{
    struct schema *s = mem_alloc(sizeof *s), *again = mem_alloc(sizeof *s);
    assert_non_null(s);
    assert_non_null(again);
    *s = *reader_schema(r);
    // The schema does not change when it is written as JSON or as bytes and read back.
    json_begin();
    json_t *o = schema_to_json(s);
    struct json_fields f = {.path = "x"};
    schema_from_json(again, o, &f);
    json_decref(o);
    assert_int_equal(f.rc, 0);
    assert_true(schema_same(s, again));
    struct buf b = BUF_INIT(1 << 20);
    assert_int_equal(schema_write(s, &b), 0);
    assert_int_equal(schema_read(again, b.data, b.len), 0);
    assert_true(schema_same(s, again));
    assert_int_equal(s->columns, again->columns);
    for (size_t n = 0; n < b.len; n++)
        if (schema_read(again, b.data, n) == 0)
            assert_true(again->text_len < s->text_len);
    buf_free(&b);
    mem_free(again);
    return s;
}

static void assert_contradicts(struct reader_options o, const char *reason)
{
    struct reader *r = NULL;
    struct err e = {0};
    assert_int_equal(reader_open(&r, &o, &e), TUG_EUSAGE);
    if (strstr(e.text, reason) == NULL)
        fail_msg("'%s' does not say '%s'", e.text, reason);
}

static void test_schema(void **state)
{
    (void)state;
    struct reader *r = open_reader((struct reader_options){.labels = true,
                                                           .loss = LOSS_SQUARED,
                                                           .drop = "id",
                                                           .numeric = "age",
                                                           .weight_column = "w",
                                                           .separator = ';'});
    header(r, "y;id;city;age;w");
    struct schema *s = copy_schema(r);
    reader_close(r);

    // A reader with a schema needs none of the options again, but accepts all of them.
    struct reader_options o = {.schema = s, .labels = true};
    assert_int_equal(reader_open(&r, &o, NULL), 0);
    assert_int_equal(reader_slots(r), 2);
    struct examples x = {0};
    header(r, "w;age;city;y");
    assert_int_equal(line_parse(r, "2;30;Ulm;5.5", &x, NULL), 0);
    assert_true(x.label[0] == 5.5F && x.weight[0] == 2 && x.nnz == 2);
    assert_true(x.key[0] == word_key("city", "Ulm") && x.key[1] == number_key("age"));
    assert_refuses_header(
        r, "w;age;city;y;z",
        "the model was not trained with the column 'z'; use --drop 'z' to ignore");
    assert_refuses_header(r, "w;city;y", "'age', which the model was trained with");
    assert_refuses_header(r, "age;city;y", "weight column 'w' is missing");
    assert_refuses_header(r, "z;id",
                          "label column 'y' is missing; the weight "
                          "column 'w' is missing; the header lacks the "
                          "feature columns");
    assert_refuses_header(r, "7;2;3", "this line looks like data: csv needs a header");
    assert_refuses_header(r, "w,age,city,y", "the separator is ';', that of the model's");
    reader_close(r);
    o = (struct reader_options){.schema = s,
                                .format = "csv",
                                .loss = LOSS_SQUARED,
                                .loss_given = true,
                                .label_column = "y",
                                .drop = "id,z",
                                .numeric = "age",
                                .weight_column = "w",
                                .separator = ';'};
    assert_int_equal(reader_open(&r, &o, NULL), 0);
    header(r, "z;city;age"); // a header without the label, as for predictions
    examples_clear(&x);
    assert_int_equal(line_parse(r, "?;Ulm;30", &x, NULL), 0);
    assert_int_equal(x.nnz, 2);
    assert_true(schema_same(reader_schema(r), s));
    reader_close(r);

    o = (struct reader_options){.schema = s};
    o.format = "criteo";
    assert_contradicts(o, "--format criteo");
    o = (struct reader_options){.schema = s, .loss_given = true};
    assert_contradicts(o, "--loss logistic");
    o = (struct reader_options){.schema = s, .label_column = "city"};
    assert_contradicts(o, "--label 'city', but in the model's data it is column 'y'");
    o = (struct reader_options){.schema = s, .weight_column = "v"};
    assert_contradicts(o, "--weight-column 'v'");
    o = (struct reader_options){.schema = s, .numeric = "age,city"};
    assert_contradicts(o, "--numeric 'city'");
    o = (struct reader_options){.schema = s, .drop = "id,city"};
    assert_contradicts(o, "--drop 'city'");
    o = (struct reader_options){.schema = s, .separator = '\t'};
    assert_contradicts(o, "--separator tab, but the model's data has ;");
    o.label_column = "city";
    o.numeric = "city";
    assert_contradicts(o,
                       "has ;; --label 'city', but in the model's data it is column 'y'; "
                       "--numeric 'city', but the model was not trained on numbers");
    examples_free(&x);
    mem_free(s);
}

static void test_several_words(void **state)
{
    (void)state;
    struct examples x = {0};
    struct reader *r = open_reader((struct reader_options){
        .labels = true, .lists = "a", .list_separator = ';', .missing = "NA,\\N"});
    header(r, "y,b,a");
    assert_int_equal(line_parse(r, "yes,\\N,\"p;;\"\"q\"\";NA\"", &x, NULL), 0);
    assert_int_equal(x.nnz, 2);
    assert_true(x.key[0] == word_key("a", "p") && x.key[1] == word_key("a", "\"q\""));
    assert_true(x.slot[0] == 1 && x.slot[1] == 1 && x.label[0] == 1);
    // A model that was saved reads the same data; a contradicting option is an error.
    struct schema *s = copy_schema(r);
    reader_close(r);
    r = open_reader((struct reader_options){.schema = s, .labels = true});
    header(r, "a,b,y");
    examples_clear(&x);
    assert_int_equal(line_parse(r, "p;q;NA,NA,FALSE", &x, NULL), 0);
    assert_true(x.nnz == 2 && x.label[0] == 0);
    reader_close(r);
    assert_contradicts((struct reader_options){.schema = s, .lists = "b"},
                       "--lists 'b', but the model was not trained on several words");
    assert_contradicts((struct reader_options){.schema = s, .missing = "NA,none"},
                       "--missing 'none'");
    assert_contradicts((struct reader_options){.schema = s, .list_separator = '|'},
                       "--list-separator '|'");
    assert_contradicts((struct reader_options){.schema = s, .numeric = "b:log"},
                       "not trained on logarithms");
    examples_free(&x);
    mem_free(s);
}

// Checks that a column has the text `text` in this line, and that the words of the text
// have the n keys `keys`, in this order.
static void assert_words(const struct reader *r, const char *name, const char *line,
                         const char *text, const uint64_t *keys, size_t n)
{
    size_t column, found, at = 0;
    struct buf b = BUF_INIT(1 << 20);
    struct err e;
    char padded[256] = "";
    uint32_t slot;
    snprintf(padded, sizeof padded - READER_PADDING, "%s", line);
    if (reader_find_columns(r, line_layout, name, "--keep", 1, &column, &found, &e) != 0)
        fail_msg("%s", e.text);
    assert_int_equal(reader_columns(r, line_layout, padded, strlen(line), &column, 1, &b),
                     0);
    assert_string_equal(b.data, text);
    assert_int_equal(reader_find_slot(r, name, strlen(name), reader_slots(r), &slot, &e),
                     0);
    const char *rest = b.data;
    for (struct reader_word w; reader_next_word(r, slot, &rest, &w); at++)
        assert_true(at < n && w.key == keys[at]);
    assert_int_equal(at, n);
    buf_free(&b);
}

static void test_crosses(void **state)
{
    (void)state;
    struct examples x = {0};
    struct err e;
    struct reader *r = open_reader((struct reader_options){
        .labels = true, .lists = "b", .cross_columns = "a*b,c*a", .missing = "NA"});
    header(r, "y,a,b,c");
    assert_int_equal(reader_slots(r), 5);
    assert_int_equal(line_parse(r, "1,p,NA,", &x, NULL), 0);
    assert_int_equal(x.nnz, 1);
    examples_clear(&x);
    const char *line = "1,\"p\",u||NA|v,\"q\"\"\"";
    assert_int_equal(line_parse(r, line, &x, NULL), 0);
    assert_int_equal(x.nnz, 7);
    assert_words(r, "a*b", line, "p*u|p*v", x.key + 4, 2);
    assert_words(r, "c*a", line, "q\"*p", x.key + 6, 1);
    assert_words(r, "b", line, "u||NA|v", x.key + 1, 2);
    assert_words(r, "a*b", "1,,u,q", "", NULL, 0);
    assert_words(r, "a*b", "1,p*p,u|v*,q", "", NULL, 0); // crosses lack words with '*'
    // The key depends on the columns of the words.
    assert_true(x.key[4] != x.key[5] && x.key[4] != x.key[6] && x.slot[6] == 4);
    // A line with too many combinations is a bad line.
    struct buf b = BUF_INIT(1 << 16);
    buf_printf(&b, "1,p,w0");
    for (int i = 1; i < 1024; i++)
        buf_printf(&b, "|w%d", i);
    size_t len = b.len;
    buf_printf(&b, ",");
    examples_clear(&x);
    assert_int_equal(line_parse(r, buf_str(&b), &x, &e), 0);
    assert_int_equal(x.nnz, 1 + 2 * 1024);
    b.len = len;
    buf_printf(&b, "|w,");
    assert_int_equal(line_parse(r, buf_str(&b), &x, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "more than 1024 combinations of the words of 'a*b'"));
    buf_free(&b);

    struct schema *s = copy_schema(r);
    reader_close(r);
    r = open_reader((struct reader_options){
        .schema = s, .labels = true, .cross_columns = "c*a", .allow_missing = true});
    header(r, "b,a,y");
    examples_clear(&x);
    assert_int_equal(line_parse(r, "u|v,p,1", &x, NULL), 0);
    assert_int_equal(x.nnz, 5);
    assert_words(r, "a*b", "u|v,p,1", "p*u|p*v", x.key + 3, 2);
    reader_close(r);
    assert_contradicts(
        (struct reader_options){.schema = s, .cross_columns = "a*b,a*c"},
        "--cross-columns 'a*c', but the model was trained without that cross");
    mem_free(s);
    examples_free(&x);
    static const char *const bad[][2] = {
        {"a", "'a' is one column"},
        {"", "no column '', which --cross-columns"},
        {"a*b,a*b", "'a*b' is named twice"},
        {"a*a", "'a*a' names a column twice"},
        {"a*b*c*d", "'a*b*c*d' is more than three columns"},
        {"a*n", "'a*n' is made of 'n', which is not a feature column of words"},
        {"y*a", "is made of 'y', which"},
        {"a*i", "is made of 'i', which"},
        {"a*z,a*", "no column 'z', which --cross-columns names; the header has no column "
                   "'', which"},
        {"c*d", "'c*d' is the name of a column, too"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_header_refused(
            (struct reader_options){
                .labels = true, .numeric = "n", .drop = "i", .cross_columns = bad[i][0]},
            "y,a,b,c,d,n,i,c*d", bad[i][1]);
}

static struct reader *open_headless(struct reader_options o)
{
    struct reader *r = NULL;
    struct err e;
    o.format = "csv";
    if (reader_open(&r, &o, &e) != 0)
        fail_msg("%s", e.text);
    assert_false(reader_has_header(r));
    line_layout = NULL;
    return r;
}

static void test_names_given(void **state)
{
    (void)state;
    struct examples x = {0};
    struct reader *r = open_headless((struct reader_options){
        .labels = true, .columns = "y,a,b", .numeric = "b:log", .separator = '\t'});
    assert_int_equal(reader_slots(r), 2);
    assert_int_equal(line_parse(r, "1\tw\t-3", &x, NULL), 0);
    assert_true(x.nnz == 2 && x.key[0] == word_key("a", "w"));
    assert_true(fabs((double)x.value[1] + log(4)) < 1e-6);
    struct schema *s = copy_schema(r);
    reader_close(r);
    r = open_headless((struct reader_options){.schema = s});
    assert_int_equal(line_parse(r, "\tw\t1", &x, NULL), 0);
    reader_close(r);
    // The file has another order of columns, and no label.
    r = open_headless((struct reader_options){.schema = s, .columns = "b,a"});
    examples_clear(&x);
    assert_int_equal(line_parse(r, "true\tw", &x, NULL), 0);
    assert_true(x.nnz == 2 && x.key[0] == word_key("a", "w"));
    assert_true(fabs((double)x.value[1] - log(2)) < 1e-6);
    reader_close(r);
    static const char *const headers[] = {"y\ta\tb", "\"y\"\ta\t\"b\"\r",
                                          "\xef\xbb\xbfy\ta\tb"};
    r = open_headless((struct reader_options){.schema = s});
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        struct err e;
        assert_int_equal(line_parse(r, headers[i], &x, &e), TUG_EDATA);
        assert_non_null(strstr(e.text, "the line is a header, the names of the columns"));
    }
    assert_int_equal(line_parse(r, "\ta\t", &x, NULL), 0);
    reader_close(r);
    static const char *const bad[][2] = {
        {"y,b", "--columns: the header lacks the feature column 'a'"},
        {"y,a,b,c", "the model was not trained with the column 'c'"},
        {"y,a,\"b\"", "has a quote or the separator in it"},
        {"", "--columns: the header, a line of column names, is empty"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err e;
        struct reader_options o = {.schema = s, .labels = true, .columns = bad[i][0]};
        assert_int_equal(reader_open(&r, &o, &e), TUG_EUSAGE);
        if (strstr(e.text, bad[i][1]) == NULL)
            fail_msg("'%s': %s", bad[i][0], e.text);
    }
    examples_free(&x);
    mem_free(s);
}

// A schema that comes from a peer may be damaged.
static void test_damaged_schemas(void **state)
{
    (void)state;
    struct reader *r = open_reader(
        (struct reader_options){.labels = true, .cross_columns = "a*b,b*c"});
    header(r, "y,a,b,c");
    struct buf b = BUF_INIT(1 << 20);
    struct schema *s = mem_alloc(sizeof *s);
    assert_int_equal(schema_write(reader_schema(r), &b), 0);
    reader_close(r);
    for (size_t i = 0; i < b.len; i++)
        for (int bit = 0; bit < 8; bit++) {
            b.data[i] = (char)(b.data[i] ^ 1 << bit);
            struct reader_options o = {.schema = s};
            if (schema_read(s, b.data, b.len) == 0 && reader_open(&r, &o, NULL) == 0) {
                const struct reader_layout *l;
                (void)(reader_has_header(r) && reader_header(r, "y,a,b,c", 7, &l, NULL));
                reader_close(r);
            }
            b.data[i] = (char)(b.data[i] ^ 1 << bit);
        }
    buf_free(&b);
    mem_free(s);
}

// ---------------------------------------------------------------- lines

static void test_bad_lines(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"1,2,3", "found 3 columns, the header has 5"},
        {"1,2,3,4,5,6", "found 6 columns, the header has 5"},
        {"2,a,1,b,1", "the label '2' is not one of"},
        {",a,1,b,1", "the label is missing"},
        {"1,a,nan,b,1", "value 'nan' of column 'n' is not finite"},
        {"1,a,1e999,b,1", "value '1e999' of column 'n' is too large"},
        {"1,a,x,b,1", "value 'x' of column 'n' is not a number"},
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
        line_refused(r, bad[i][0], bad[i][1]);
    struct examples x = {0};
    assert_int_equal(line_parse(r, "1,a,1,b,1", &x, NULL), 0);
    assert_false(x.has_weights || x.has_values);
    assert_int_equal(line_parse(r, "-1,a,2,b,2.5", &x, NULL), 0);
    assert_true(x.has_weights && x.has_values);
    assert_true(x.weight[0] == 1 && x.weight[1] == 2.5F && x.label[1] == 0);
    examples_free(&x);
    reader_close(r);
}

// Slots and keys do not depend on whether the label's column exists.
static void test_without_label(void **state)
{
    (void)state;
    struct examples with = {0}, without = {0};
    struct reader_options o = {.labels = true, .label_column = "y"};
    struct reader *r = open_reader(o);
    header(r, "a,y,b");
    assert_int_equal(line_parse(r, "p,1,q", &with, NULL), 0);
    reader_close(r);
    o.labels = false;
    r = open_reader(o);
    header(r, "a,b");
    assert_int_equal(line_parse(r, "p,q", &without, NULL), 0);
    reader_close(r);
    assert_int_equal(without.nnz, 2);
    assert_memory_equal(with.key, without.key, 2 * sizeof(uint64_t));
    assert_memory_equal(with.slot, without.slot, 2 * sizeof(uint16_t));
    r = open_reader(o);
    header(r, "a,y,b");
    assert_int_equal(line_parse(r, "p,,q", &without, NULL), 0); // the label is missing
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
    static const char line[64] = "1,2,3,4,\"5\"\"6\",7\n";
    size_t live = mem_live();
    bool done = false;
    for (long n = 0; !done; n++) {
        struct reader_options o = {.format = "csv",
                                   .labels = true,
                                   .label_column = "y",
                                   .drop = "a",
                                   .numeric = "b",
                                   .cross_columns = "c*d",
                                   .weight_column = "w"};
        struct reader *r = NULL;
        struct examples x = {0};
        mem_fault_after(n);
        int rc = reader_open(&r, &o, NULL);
        if (rc == 0)
            rc = reader_header(r, "y,a,b,w,c,d", 11, &line_layout, NULL);
        if (rc == 0)
            rc = reader_line(r, line_layout, line, strcspn(line, "\n"), &x, NULL);
        if (rc == 0)
            rc = reader_header(r, "c,a,b,w,y,d", 11, &line_layout, NULL);
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
    const char *path = files_shared("avazu/avazu_10k.csv");
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
        assert_int_equal(line_parse(r, line, &x, NULL), 0);
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
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_empty_names),
        cmocka_unit_test(test_no_header),
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_schema),
        cmocka_unit_test(test_damaged_schemas),
        cmocka_unit_test(test_several_words),
        cmocka_unit_test(test_names_given),
        cmocka_unit_test(test_crosses),
        cmocka_unit_test(test_bad_lines),
        cmocka_unit_test(test_without_label),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_real_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
