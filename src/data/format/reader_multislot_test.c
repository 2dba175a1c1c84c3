// multislot: random slots and lines, printed in every legal way, are compared with a
// naive model of features by name. Also tests texts of slots, lines in another order than
// the model's, and errors, which name the slot and the reason.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "kit/files.h"
#include "kit/lines.h"
#include "kit/test.h"

enum { SLOTS = 12, VALUES = 20 };

static struct reader_options options_of(const char *slots)
{
    return (struct reader_options){.format = "multislot", .slots = slots, .labels = true};
}

static struct reader *open_reader(struct reader_options o)
{
    struct reader *r = NULL;
    struct err e = {0};
    line_layout = NULL;
    if (reader_open(&r, &o, &e) != 0)
        fail_msg("'%s': %s", o.slots, e.text);
    assert_false(reader_has_header(r));
    return r;
}

static void assert_refuses(struct reader_options o, const char *reason)
{
    struct reader *r = NULL;
    struct err e = {0};
    assert_int_equal(reader_open(&r, &o, &e), TUG_EUSAGE);
    if (strstr(e.text, reason) == NULL)
        fail_msg("'%s': '%s' does not say '%s'", o.slots, e.text, reason);
}

static uint64_t id_key(const char *slot, uint64_t id)
{
    return mix64(id ^ hash_bytes(slot, strlen(slot), 2));
}

static uint64_t number_key(const char *slot, uint64_t i)
{
    return mix64(hash_bytes(slot, strlen(slot), 3) + i);
}

// ---------------------------------------------------------------- round trips

enum kind { LABEL, WEIGHT, IDS, SHARED, KEYS, DENSE, SKIP };

struct naive_slot {
    enum kind kind;
    char name[16];
    size_t n; // number of values of a dense slot
};

// The slots, one of which is the label; the ids of the first slot are shared by other
// slots.
struct naive {
    struct naive_slot slot[SLOTS];
    size_t n;
    float label, weight; // label and weight of the line
    size_t nnz;
    uint64_t key[SLOTS * VALUES];
    uint16_t field[SLOTS * VALUES];
    float value[SLOTS * VALUES];
};

static void make_slots(struct naive *x, struct buf *b)
{
    static const char *const words[] = {"label", "weight", "ids", "ids@first",
                                        "keys",  "dense",  "skip"};
    size_t label = 1 + any(SLOTS / 2), weight = label + 1;
    x->n = weight + 1 + any(SLOTS - weight - 1);
    buf_clear(b);
    for (size_t i = 0; i < x->n; i++) {
        struct naive_slot *s = &x->slot[i];
        s->kind = i == 0        ? IDS
                  : i == label  ? LABEL
                  : i == weight ? WEIGHT
                                : (enum kind)(IDS + (int)any(5));
        s->n = s->kind == DENSE ? 1 + any(VALUES) : 0;
        snprintf(s->name, sizeof s->name, i == 0 ? "first" : "s%zu", i);
        buf_printf(b, "%s%s%s: %s", any_in_100(10) ? "# a comment, ids\n" : "",
                   any_in_100(20) ? "\n" : " ", s->name, words[s->kind]);
        if (s->n > 1 || (s->n == 1 && any_in_100(50)))
            buf_printf(b, "[%zu]", s->n);
        buf_printf(b, "%s", any_in_100(20) ? "\r\n" : ",");
    }
}

static void add_blank(struct buf *b)
{
    buf_printf(b, "%s%s", any_in_100(20) ? "\t" : " ", any_in_100(5) ? "  " : "");
}

static void add_feature(struct naive *x, uint64_t key, uint16_t field, float value)
{
    x->key[x->nnz] = key;
    x->field[x->nnz] = field;
    x->value[x->nnz++] = value;
}

static void add_id(struct naive *x, const struct naive_slot *s, uint16_t field,
                   struct buf *b)
{
    uint64_t id = any_in_100(10) ? 0 : random_u64(5, 5, any_counter++) >> any(64);
    if (any_in_100(10))
        buf_printf(b, "%" PRId64, (int64_t)id);
    else
        buf_printf(b, "%s%" PRIu64, any_in_100(5) ? "0000000000000" : "", id);
    add_feature(x,
                s->kind == KEYS ? id : id_key(s->kind == SHARED ? "first" : s->name, id),
                field, 1);
}

static void add_number(struct naive *x, const struct naive_slot *s, size_t i,
                       uint16_t field, struct buf *b)
{
    char text[40];
    snprintf(text, sizeof text, any_in_100(50) ? "%g" : "%.9e",
             any_in_100(30) ? 1.0 : ((double)any(2000) - 1000) / 64);
    buf_printf(b, "%s", text);
    add_feature(x, number_key(s->name, i), field, strtof(text, NULL));
}

static void add_slot(struct naive *x, const struct naive_slot *s, uint16_t field,
                     struct buf *b)
{
    size_t n = s->kind == DENSE                        ? s->n
               : s->kind == LABEL || s->kind == WEIGHT ? 1
                                                       : any(VALUES);
    if (s->kind == DENSE && any_in_100(10))
        n = 0;
    buf_printf(b, "%zu", n);
    for (size_t i = 0; i < n; i++) {
        add_blank(b);
        switch (s->kind) {
        case LABEL:
            x->label = (float)any(2);
            buf_printf(b, any_in_100(50) ? "%g" : "%.1f", (double)x->label);
            break;
        case WEIGHT:
            x->weight = (float)any(64) / 8;
            buf_printf(b, "%g", (double)x->weight);
            break;
        case DENSE:
            add_number(x, s, i, field, b);
            break;
        case SKIP:
            buf_printf(b, "%s", any_in_100(50) ? "#x:7,y" : "12");
            break;
        default:
            add_id(x, s, field, b);
        }
    }
}

static void make_line(struct naive *x, struct buf *b)
{
    uint16_t field = 0;
    x->nnz = 0;
    buf_clear(b);
    for (size_t i = 0; i < x->n; i++) {
        const struct naive_slot *s = &x->slot[i];
        if (i > 0)
            add_blank(b);
        add_slot(x, s, field, b);
        field = (uint16_t)(field + (s->kind >= IDS && s->kind <= DENSE));
    }
    if (any_in_100(20))
        add_blank(b);
    if (any_in_100(20))
        buf_printf(b, "\r");
}

static void assert_same(const struct naive *want, const struct examples *x)
{
    assert_int_equal(x->n, 1);
    assert_int_equal(x->nnz, want->nnz);
    assert_true(x->label[0] == want->label);
    assert_true(x->weight[0] == want->weight);
    bool has_values = false;
    for (size_t k = 0; k < want->nnz; k++) {
        assert_true(x->key[k] == want->key[k]);
        assert_int_equal(x->slot[k], want->field[k]);
        assert_true(x->value[k] == want->value[k]);
        has_values |= want->value[k] != 1;
    }
    assert_int_equal(x->has_values, has_values);
}

static void test_round_trips(void **state)
{
    (void)state;
    static struct naive want;
    struct buf slots = BUF_INIT(1 << 16), b = BUF_INIT(1 << 16);
    struct examples x = {0};
    struct err e;
    for (int round = 0; round < 200; round++) {
        make_slots(&want, &slots);
        struct reader *r = open_reader(options_of(buf_str(&slots)));
        for (int i = 0; i < 50; i++) {
            make_line(&want, &b);
            examples_clear(&x);
            if (line_parse(r, buf_str(&b), &x, &e) != 0)
                fail_msg("%s\n'%s': %s", buf_str(&slots), buf_str(&b), e.text);
            assert_same(&want, &x);
        }
        reader_close(r);
    }
    examples_free(&x);
    buf_free(&slots);
    buf_free(&b);
}

// ---------------------------------------------------------------- slots

static void test_slots(void **state)
{
    (void)state;
    static const char text[] = "y:label, c8..c11:ids, x.1:dense[2] # that is all\n";
    struct reader *r = open_reader(options_of(text));
    static const char *const names[] = {"y", "c8", "c9", "c10", "c11", "x.1[2]"};
    struct schema_column c;
    size_t at = 0;
    for (size_t i = 0; i < 6; i++) {
        assert_true(schema_next(reader_schema(r), &at, &c));
        assert_string_equal(c.name, names[i]);
    }
    assert_false(schema_next(reader_schema(r), &at, &c));
    assert_int_equal(reader_slots(r), 5);
    reader_close(r);
    // Reads the same slots from a file; errors name the file's lines.
    const char *path = files_write(files_in("slots"), "y:label\n\nc1..c4:ids # four\n");
    r = open_reader(options_of(path));
    assert_int_equal(reader_slots(r), 4);
    reader_close(r);
    assert_refuses(options_of(files_write(path, "y:label\n\nc1:idz\n")),
                   "slots:3: 'c1:idz': there is no type 'idz'; the types are label, ids");
}

static void test_bad_slots(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {NULL, "needs --slots"},
        {"", "is neither slots"},
        {"no-such-file", "'no-such-file' is neither slots, such as"},
        {"y:label", "no slot is a feature"},
        {"a:ids", "no slot is the label"},
        {"y1..y9:label, a:ids", "more than 8 slots are labels"},
        {"y:label, v:weight, w:weight, a:ids", "'w', are the weight"},
        {"y:label, a:ids, a:skip", "there are two slots 'a'"},
        {"y:label, a:ids@b", "'a' shares the ids of 'b', which is not a slot of ids"},
        {"y:label, a:ids@b, b:keys", "'a' shares the ids of 'b'"},
        {"y:label, a:ids@b, b:ids@c, c:ids", "'a' shares the ids of 'b'"},
        {"y:label, a:ids@", "there is no type 'ids@'"},
        {"y:label, a:dense[0]", "there is no type 'dense[0]'"},
        {"y:label, a:dense[99999999]", "there is no type"},
        {"y:label, a:dense[", "there is no type"},
        {"y:label, a:", "'a:': there is no type ''; the types"},
        {"y:label, :ids", "':ids': a slot is written as NAME:TYPE"},
        {"y:label, a b:ids", "'a b:ids': a slot is written as NAME:TYPE"},
        {"y:label, c9..c8:ids", "a range of slots is written as c1..c26"},
        {"y:label, c..:ids", "a range of slots is written as c1..c26"},
        {"y:label, c1..d2:ids", "a range of slots is written as c1..c26"},
        {"y:label, c0..c99999:ids", "a range of slots is written as c1..c26"},
        {"y:label, c0..c9:ids, c1..c60000:ids", "longer than 262144 bytes together"},
        {"c18446744073709551614..c18446744073709551615:ids", "no slot is the label"},
        {"# y:label", "no slot is named"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_refuses(options_of(bad[i][0]), bad[i][1]);
    struct reader_options o = options_of("y:label, a:ids");
    o.format = "libsvm";
    assert_refuses(o, "--slots works only with multislot data, not with libsvm");
    o = options_of("y:label, a:ids");
    o.label_column = "y";
    assert_refuses(o, "--label works only with csv data");
}

// ---------------------------------------------------------------- lines for a model's slots

static void parse(const struct reader *r, const char *line, struct examples *x)
{
    struct err e;
    examples_clear(x);
    if (line_parse(r, line, x, &e) != 0)
        fail_msg("'%s': %s", line, e.text);
}

static void assert_examples_equal(const struct examples *a, const struct examples *b)
{
    assert_int_equal(a->nnz, b->nnz);
    assert_memory_equal(a->key, b->key, a->nnz * sizeof *a->key);
    assert_memory_equal(a->slot, b->slot, a->nnz * sizeof *a->slot);
    assert_memory_equal(a->value, b->value, a->nnz * sizeof *a->value);
}

static void test_other_order(void **state)
{
    (void)state;
    struct reader *of_model = open_reader(
        options_of("y:label, a:ids, b:ids@a, p:dense[2], k:keys, j:skip, w:weight"));
    struct reader_options o = {.schema = reader_schema(of_model), .labels = true};
    struct reader *same = open_reader(o);
    o.slots = "j:skip, p:dense[2], k:keys, new:skip, b:ids@a, y:label, a:ids";
    struct reader *other = open_reader(o);
    assert_int_equal(reader_slots(other), 4);
    struct examples x = {0}, y = {0};
    parse(of_model, "1 1 2 7 8 3 7 0 9 2 .5 -3 1 12 1 text 1 2", &x);
    parse(same, "1 1 2 7 8 3 7 0 9 2 .5 -3 1 12 1 text 1 2", &y);
    assert_examples_equal(&x, &y);
    assert_true(y.weight[0] == 2);
    parse(other, "1 text 2 .5 -3 1 12 2 5 6 3 7 0 9 1 1 2 7 8", &y);
    assert_examples_equal(&x, &y);
    assert_true(y.weight[0] == 1);
    assert_true(x.key[0] == x.key[2]); // id 7 of slot a, and of slot b, which shares the
                                       // ids of a
    parse(of_model, "1 1 0 0 0 0 0 1 1", &x);
    parse(other, "0 0 0 0 0 1 1 0", &y);
    assert_int_equal(x.nnz + y.nnz, 0);
    assert_int_equal(y.n, 1);
    examples_free(&x);
    examples_free(&y);
    reader_close(same);
    reader_close(other);
    reader_close(of_model);
}

static void test_slots_that_do_not_fit_the_model(void **state)
{
    (void)state;
    struct reader *of_model = open_reader(
        options_of("y:label, a:ids, b:ids, p:dense[2]"));
    static const char *const bad[][2] = {
        {"y:label, a:ids", "'b', 'p', which the model was trained with, are missing; "
                           "--allow-missing reads the data without them"},
        {"y:label, a:ids, b:ids", "'p', which the model was trained with, is missing"},
        {"y:label, a:ids, b:ids, p:dense[2], c:keys", "not trained with 'c'"},
        {"y:label, a:ids, b:ids@a, p:dense[2]", "'b' is of another type in the model"},
        {"y:label, a:ids, b:ids, p:dense[3]", "whose slot is p[2]"},
        {"y:label, a:ids, b:keys, p:dense[2]", "'b' is of another type"},
        {"y:ids, a:ids, b:ids, p:dense[2]", "not trained with 'y'"},
        {"a:ids, b:ids, p:dense[2]", "no slot is the label"},
    };
    struct reader_options o = {.schema = reader_schema(of_model), .labels = true};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        o.slots = bad[i][0];
        assert_refuses(o, bad[i][1]);
    }
    o.slots = "b:ids";
    o.labels = false;
    assert_refuses(o, "'a', 'p', which the model was trained with, are missing");
    o.allow_missing = true;
    struct reader *r = open_reader(o);
    struct examples x = {0};
    parse(r, "2 0 0", &x);
    assert_int_equal(x.nnz, 2);
    assert_int_equal(x.slot[0], 1);
    assert_true(x.key[1] == id_key("b", 0));
    examples_free(&x);
    reader_close(r);
    o.format = "libsvm";
    o.slots = NULL;
    assert_refuses(o, "--format libsvm, but the model was trained on multislot data");
    reader_close(of_model);
}

// ---------------------------------------------------------------- bad lines

static void test_bad_lines(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"1", "slot 'y' should have 1 value, and the line ends after 0"},
        {"1 1", "the line ends before slot 'a'"},
        {"1 1 3 5 6", "slot 'a' should have 3 values, and the line ends after 2"},
        {"1 1 18446744073709551615 5", "18446744073709551615 values, and the line ends"},
        {"1 1 18446744073709551616 5", "slot 'a' begins with '18446744073709551616'"},
        {"1 1 -1 5", "slot 'a' begins with '-1', not with the number of its values"},
        {"1 1 1 5 1 7", "the line ends before slot 'p'"},
        {"1 1 1 x 0 0 0 1 1", "'x' in slot 'a' is not an id"},
        {"1 1 1 1.5 0 0 0 1 1", "'1.5' in slot 'a' is not an id"},
        {"1 1 1 18446744073709551616 0 0 0 1 1", "is not an id"},
        {"1 1 1 -9223372036854775809 0 0 0 1 1", "is not an id"},
        {"1 1 1 - 0 0 0 1 1", "'-' in slot 'a' is not an id"},
        {"1 1 0 0 1 4 0 1 1", "slot 'p', dense, has 1 value; it must have 2"},
        {"1 1 0 0 2 4 x 0 1 1", "value 'x' in slot 'p' is not a number"},
        {"1 1 0 0 2 4 nan 0 1 1", "value 'nan' in slot 'p' is not finite"},
        {"1 1 0 0 2 4", "slot 'p' should have 2 values, and the line ends after 1"},
        {"1 1 0 0 0 2 s", "slot 'j' should have 2 values, and the line ends after 1"},
        {"1 1 0 0 0 0 0", "slot 'w', the weight, has 0 values; it must have 1"},
        {"1 1 0 0 0 0 1 -2", "weight '-2' in slot 'w' is negative"},
        {"1 1 0 0 0 0 1 1 0", "'0' follows the last slot, 'w'"},
        {"0 0 0 0 0 1 1", "slot 'y', the label, has 0 values; it must have 1"},
        {"1 2 0 0 0 0 1 1", "the label '2' is not one of 0, 1, -1, +1"},
        {"1 1 1 7\x01 0 0 0 1 1", "begins with '\\x01'"},
        {"1 1 0 0 0 1 a\x01"
         "b 1 1",
         "slot 'w' begins with '\\x01b'"},
        {"1 1 0 0 0 1 \x01 1 1", "'\\x01' in slot 'j' is not text"},
        {"x", "slot 'y' begins with 'x'"},
        {"", "the line is blank, and an example has 6 slots"},
        {"\r", "the line is blank"},
        {" \t", "the line is blank"},
    };
    struct reader *r = open_reader(
        options_of("y:label, a:ids, b:keys, p:dense[2], j:skip, w:weight"));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        line_refused(r, bad[i][0], bad[i][1]);
    struct examples x = {0};
    parse(r, "1 1 1 -9223372036854775808 1 -1 0 0 1 1", &x);
    assert_true(x.key[0] == id_key("a", (uint64_t)1 << 63));
    assert_true(x.key[1] == UINT64_MAX);
    examples_free(&x);
    reader_close(r);
    // For predictions, the label's slot may be empty.
    struct reader_options o = options_of("y:label, a:ids, w:weight");
    o.labels = false;
    r = open_reader(o);
    parse(r, "0 1 5 1 8", &x);
    assert_int_equal(x.nnz, 1);
    assert_true(x.weight[0] == 1);
    line_refused(r, "2 0 1 1 5 1 8", "slot 'y', the label, has 2 values");
    examples_free(&x);
    reader_close(r);
}

// ---------------------------------------------------------------- columns

static void test_columns(void **state)
{
    (void)state;
    struct reader *r = open_reader(options_of("y:label, a:ids, p:dense[2], j:skip"));
    static const char line[] = " 1 1  2 7 8\t0 2 ins#1 x,y \r\n";
    struct line l = line_make(line, strlen(line) - 1);
    struct buf b = BUF_INIT(1000);
    size_t columns[4], n;
    struct err e;
    OK(reader_find_columns(r, NULL, "j,a,p,y", "--keep", 4, columns, &n, &e));
    assert_int_equal(n, 4);
    OK(reader_columns(r, NULL, l.text, l.len, columns, n, &b));
    assert_int_equal(b.len, 17);
    assert_memory_equal(b.data,
                        "ins#1|x,y\0"
                        "7|8\0"
                        "\0"
                        "1\0",
                        b.len);
    assert_int_equal(reader_find_columns(r, NULL, "z", "--keep", 4, columns, &n, &e),
                     TUG_EDATA);
    assert_string_equal(e.text, "the data has no column 'z', which --keep names; its "
                                "columns are the slots' names");
    buf_free(&b);
    mem_free(l.text);
    reader_close(r);
}

// ---------------------------------------------------------------- memory

static int read_one(const char *slots, const struct schema *model)
{
    struct reader_options o = options_of(slots);
    struct reader *r;
    struct examples x = {0};
    o.schema = model;
    TRY(reader_open(&r, &o, &test_err));
    int rc = line_parse(r, "1 1 2 7 8 1 9", &x, &test_err);
    examples_free(&x);
    reader_close(r);
    return rc;
}

static void test_memory(void **state)
{
    (void)state;
    struct reader *r = open_reader(options_of("y:label, b:ids, a:ids"));
    struct line l = line_make("1 1 2 7 8 1 9", 13);
    mem_free(l.text);
    // If an allocation fails, reader_open fails and leaks nothing.
    for (long n = 0; n < 30; n++) {
        size_t live = mem_live();
        struct reader *other = NULL;
        struct reader_options o = options_of("y:label, a:ids, b:ids");
        o.schema = reader_schema(r);
        mem_fault_after(n);
        int rc = reader_open(&other, &o, NULL);
        bool faulted = mem_faulted();
        mem_fault_after(-1);
        assert_true(rc == 0 ? !faulted : faulted && rc == TUG_ENOMEM);
        if (rc == 0)
            reader_close(other);
        assert_int_equal(mem_live(), live);
    }
    assert_int_equal(read_one("y:label, a:ids, b:ids", reader_schema(r)), 0);
    reader_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_bad_slots),
        cmocka_unit_test(test_other_order),
        cmocka_unit_test(test_slots_that_do_not_fit_the_model),
        cmocka_unit_test(test_bad_lines),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
