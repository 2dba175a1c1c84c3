// Reads columns that this test makes: cells of every kind of array, slices and nulls.
// Each array and each schema must be released once, even if something is malformed, which
// must give an error that names the column.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/frame/columns.h"

#include <string.h>

#include "base/alloc.h"

#include "kit/test.h"

enum { MOST = 8, CHILDREN = 4 };

// A table made by hand; `released` counts the releases of its top-level struct.
struct made {
    struct ArrowSchema schema, child[MOST], *children[CHILDREN], *inner[MOST];
    struct ArrowArray array, part[MOST], *parts[CHILDREN], *inner_parts[MOST];
    const void *buffers[MOST][4], *top[1];
    size_t n;
};

static int schemas_released, arrays_released, streams_released;

static void release_schema(struct ArrowSchema *s)
{
    assert_non_null(s->release);
    schemas_released++;
    s->release = NULL;
}

static void release_array(struct ArrowArray *a)
{
    assert_non_null(a->release);
    arrays_released++;
    a->release = NULL;
}

static size_t add(struct made *m, const char *name, const char *format, int64_t n,
                  int64_t buffers, const void *b0, const void *b1, const void *b2)
{
    size_t i = m->n++;
    m->child[i] = (struct ArrowSchema){.format = format, .name = name};
    m->buffers[i][0] = b0;
    m->buffers[i][1] = b1;
    m->buffers[i][2] = b2;
    m->part[i] = (struct ArrowArray){.length = n,
                                     .null_count = b0 != NULL ? -1 : 0,
                                     .n_buffers = buffers,
                                     .buffers = m->buffers[i]};
    return i;
}

// Makes the top-level struct; its columns are part[0] .. part[columns - 1].
static void close_table(struct made *m, int64_t rows, size_t columns)
{
    for (size_t i = 0; i < columns; i++) {
        m->children[i] = &m->child[i];
        m->parts[i] = &m->part[i];
    }
    m->schema = (struct ArrowSchema){.format = "+s",
                                     .n_children = (int64_t)columns,
                                     .children = m->children,
                                     .release = release_schema};
    m->array = (struct ArrowArray){.length = rows,
                                   .n_buffers = 1,
                                   .buffers = m->top,
                                   .n_children = (int64_t)columns,
                                   .children = m->parts,
                                   .release = release_array};
}

static int64_t whole(const struct columns *c, size_t column, int64_t row)
{
    struct cell cell;
    OK(column_cell(&c->batch[0].span[column], row, &cell, &ok_e));
    assert_int_equal(cell.kind, CELL_NUMBER);
    return cell.negative ? -(int64_t)cell.whole : (int64_t)cell.whole;
}

static void text_is(const struct column_span *s, int64_t row, const char *wanted)
{
    struct cell cell;
    OK(column_cell(s, row, &cell, &ok_e));
    if (wanted == NULL) {
        assert_int_equal(cell.kind, CELL_MISSING);
        return;
    }
    assert_int_equal(cell.kind, CELL_TEXT);
    assert_int_equal(cell.len, strlen(wanted));
    assert_memory_equal(cell.text, wanted, cell.len);
}

static const uint8_t all_but_second[] = {0xfd};
static const int32_t offsets32[] = {0, 2, 2, 5, 6};
static const int64_t offsets64[] = {0, 1, 3, 3, 6};
static const int16_t wholes[] = {-7, 9, 300, -32768};
static const int8_t indices[] = {2, 1, 0, 2};

// Makes a table with four columns: numbers, texts, a dictionary of texts, lists of texts.
static void make(struct made *m)
{
    memset(m, 0, sizeof(*m));
    add(m, "n", "s", 4, 2, NULL, wholes, NULL);
    add(m, "t", "u", 4, 3, all_but_second, offsets32, "abcdef");
    add(m, "d", "c", 4, 2, NULL, indices, NULL);
    add(m, "l", "+L", 4, 2, NULL, offsets64, NULL);
    size_t values = add(m, "", "U", 3, 3, NULL, offsets64, "xyz");
    size_t items = add(m, "item", "u", 6, 3, NULL, (const int32_t[]){0, 1, 2, 3, 4, 5, 6},
                       "uvwxyz");
    static const int32_t item_offsets[] = {0, 1, 2, 3, 4, 5, 6};
    m->buffers[items][1] = item_offsets;
    m->child[2].dictionary = &m->child[values];
    m->part[2].dictionary = &m->part[values];
    m->inner[3] = &m->child[items];
    m->inner_parts[3] = &m->part[items];
    m->child[3].n_children = m->part[3].n_children = 1;
    m->child[3].children = &m->inner[3];
    m->part[3].children = &m->inner_parts[3];
    close_table(m, 4, 4);
    schemas_released = arrays_released = streams_released = 0;
}

static void test_cells(void **state)
{
    (void)state;
    struct made m;
    struct columns *c;
    make(&m);
    OK(columns_open_array(&c, &m.schema, &m.array, &ok_e));
    assert_null(m.schema.release);
    assert_null(m.array.release);
    assert_int_equal(c->rows, 4);
    assert_int_equal(whole(c, 0, 0), -7);
    assert_int_equal(whole(c, 0, 3), -32768);
    const struct column_span *s = c->batch[0].span;
    text_is(&s[1], 0, "ab");
    text_is(&s[1], 1, NULL);
    text_is(&s[1], 3, "f");
    text_is(&s[2], 0, "");
    text_is(&s[2], 1, "yz");
    text_is(&s[2], 2, "x");
    struct cell cell;
    OK(column_cell(&s[3], 1, &cell, &ok_e));
    assert_int_equal(cell.kind, CELL_LIST);
    assert_int_equal(cell.to - cell.from, 2);
    text_is(cell.list, cell.from, "v");
    columns_close(c);
    assert_int_equal(schemas_released, 1);
    assert_int_equal(arrays_released, 1);
}

static void test_slices(void **state)
{
    (void)state;
    struct made m;
    struct columns *c;
    make(&m);
    m.array.offset = 1; // selects rows 2 and 3; the text column has an offset of its own
    m.array.length = 2;
    m.part[1].offset = 1;
    m.part[1].length = 3;
    OK(columns_open_array(&c, &m.schema, &m.array, &ok_e));
    assert_int_equal(whole(c, 0, 0), 9);
    text_is(&c->batch[0].span[1], 0, "cde");
    text_is(&c->batch[0].span[1], 1, "f");
    columns_close(c);
    assert_int_equal(schemas_released + arrays_released, 2);
}

static struct ArrowArray *next;
static int fails_at;

static int get_schema(struct ArrowArrayStream *s, struct ArrowSchema *out)
{
    struct made *m = s->private_data;
    if (fails_at == 1)
        return 5;
    *out = m->schema;
    return 0;
}

static int get_next(struct ArrowArrayStream *s, struct ArrowArray *out)
{
    (void)s;
    if (fails_at == 2)
        return 5;
    if (next != NULL)
        *out = *next;
    else
        out->release = NULL;
    next = NULL;
    return 0;
}

static const char *get_last_error(struct ArrowArrayStream *s)
{
    (void)s;
    return fails_at == 1 ? "no schema" : NULL;
}

static void release_stream(struct ArrowArrayStream *s)
{
    streams_released++;
    s->release = NULL;
}

static void test_streams(void **state)
{
    (void)state;
    struct made m;
    struct columns *c;
    struct err e;
    for (fails_at = 0; fails_at <= 2; fails_at++) {
        make(&m);
        next = &m.array;
        struct ArrowArrayStream s = {get_schema, get_next, get_last_error, release_stream,
                                     &m};
        int rc = columns_open_stream(&c, &s, &e);
        assert_int_equal(rc, fails_at == 0 ? 0 : TUG_EDATA);
        if (rc == 0)
            columns_close(c);
        else
            assert_non_null(strstr(e.text, "the producer of the Arrow stream failed"));
        assert_int_equal(streams_released, 1);
        assert_int_equal(schemas_released, fails_at != 1);
        assert_int_equal(arrays_released, fails_at == 0);
        assert_int_equal(columns_open_stream(&c, &s, &e), TUG_EUSAGE);
    }
    make(&m);
    FAIL_EACH_ALLOCATION(
        (make(&m), columns_open_array(&c, &m.schema, &m.array, &test_err)),
        columns_close(c));
    assert_int_equal(schemas_released + arrays_released, 2);
}

static void break_it(struct made *m, int how)
{
    static const int32_t descend[] = {0, 5, 2, 5, 6};
    static const int64_t far[] = {0, 1, 3, 3, 60};
    switch (how) {
    case 0:
        m->part[0].length = -1;
        break;
    case 1:
        m->part[0].offset = INT64_MAX;
        break;
    case 2:
        m->buffers[0][1] = NULL;
        break;
    case 3:
        m->part[0].n_buffers = 3;
        break;
    case 4:
        m->part[0].length = 3;
        break;
    case 5:
        m->buffers[1][1] = descend;
        break;
    case 6:
        m->buffers[1][2] = NULL;
        break;
    case 7:
        m->part[3].n_children = 0;
        break;
    case 8:
        m->buffers[3][1] = far;
        break;
    case 9:
        m->part[2].dictionary = NULL;
        break;
    case 10:
        m->child[2].format = "u";
        break;
    case 11:
        m->child[3].n_children = 2;
        break;
    case 12:
        m->child[1].format = NULL;
        break;
    case 13:
        m->part[0].null_count = 2;
        break;
    case 14:
        m->parts[1] = NULL;
        break;
    default:
        break;
    }
}

static void test_malformed(void **state)
{
    (void)state;
    struct made m;
    struct columns *c;
    struct err e;
    for (int how = 0; how <= 14; how++) {
        make(&m);
        break_it(&m, how);
        int rc = columns_open_array(&c, &m.schema, &m.array, &e);
        if (rc != TUG_EDATA || strstr(e.text, "column '") == NULL)
            fail_msg("%d: %d %s", how, rc, rc != 0 ? e.text : "");
        assert_int_equal(schemas_released, 1);
        assert_int_equal(arrays_released, 1);
    }
    make(&m);
    m.schema.format = "u";
    assert_int_equal(columns_open_array(&c, &m.schema, &m.array, &e), TUG_EDATA);
    make(&m);
    m.array.n_children = 3;
    assert_int_equal(columns_open_array(&c, &m.schema, &m.array, &e), TUG_EDATA);
    assert_int_equal(schemas_released + arrays_released, 2);
}

// Columns of unsupported kinds, and indices out of range, give errors when the cell is
// read.
static void test_cells_refused(void **state)
{
    (void)state;
    static const int8_t wrong[] = {3, -1, 0, 0};
    struct made m;
    struct columns *c;
    struct cell cell;
    struct err e;
    make(&m);
    m.child[0].format = "tDn";
    m.buffers[2][1] = wrong;
    m.buffers[1][2] = "\0bcdef";
    OK(columns_open_array(&c, &m.schema, &m.array, &ok_e));
    assert_int_equal(column_cell(&c->batch[0].span[0], 0, &cell, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "column 'n' has the Arrow format 'tDn'"));
    for (int i = 0; i < 2; i++)
        assert_int_equal(column_cell(&c->batch[0].span[2], i, &cell, &e), TUG_EDATA);
    assert_int_equal(column_cell(&c->batch[0].span[1], 0, &cell, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "byte 0"));
    columns_close(c);
}

// cell_make_old writes cells as earlier versions of tug did. Models without
// SCHEMA_WRITTEN, which those versions saved, expect such cells.
static void test_old_cells(void **state)
{
    (void)state;
    static const uint8_t bits[] = {0x0a};
    static const double reals[] = {18, 1e16, 0.5, 2};
    struct made m = {0};
    struct columns *c;
    struct cell cell;
    add(&m, "b", "b", 4, 2, NULL, bits, NULL);
    add(&m, "r", "g", 4, 2, NULL, reals, NULL);
    close_table(&m, 4, 2);
    OK(columns_open_array(&c, &m.schema, &m.array, &ok_e));
    static const char *const now[] = {"18.0", "1e16", "0.5", "2.0"}, *const old[] = {
                                                                         "18", "1e+16",
                                                                         "0.5", "2"};
    for (int i = 0; i < 4; i++) {
        OK(column_cell(&c->batch[0].span[1], i, &cell, &ok_e));
        cell_write(&cell);
        assert_int_equal(cell.len, strlen(now[i]));
        assert_memory_equal(cell.text, now[i], cell.len);
        cell_make_old(&cell);
        cell_write(&cell);
        assert_int_equal(cell.len, strlen(old[i]));
        assert_memory_equal(cell.text, old[i], cell.len);
        OK(column_cell(&c->batch[0].span[0], i, &cell, &ok_e));
        cell_make_old(&cell);
        assert_string_equal(cell.text, i % 2 == 1 ? "true" : "false");
    }
    columns_close(c);
}

// When columns_take_out removes a column, the next column takes its place. If a cell is
// not a number, the error names the cell's row.
static void test_a_column_taken_out(void **state)
{
    (void)state;
    static const uint8_t bits[] = {0x0a};
    static const double reals[] = {18, 1 + 0x1p-24, 0.5, 2};
    static const int64_t counts[] = {1, -2, 3, 4};
    struct made m = {0};
    struct columns *c;
    struct cell cell;
    struct err e;
    float *ret = NULL;
    add(&m, "b", "b", 4, 2, NULL, bits, NULL);
    add(&m, "w", "g", 4, 2, NULL, reals, NULL);
    add(&m, "n", "l", 4, 2, bits, counts, NULL);
    close_table(&m, 4, 3);
    OK(columns_open_array(&c, &m.schema, &m.array, &ok_e));
    assert_int_equal(columns_take_out(c, "x", &ret, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "no column 'x'"));
    assert_int_equal(columns_take_out(c, "n", &ret, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "row 0: column 'n': it is missing"));
    assert_int_equal(c->n, 3);
    OK(columns_take_out(c, "w", &ret, &ok_e));
    // 1 + 0x1p-24 is rounded as if it were read from its text
    assert_true(ret[0] == 18 && ret[1] == 1 + 0x1p-23F && ret[2] == 0.5F);
    mem_free(ret);
    assert_int_equal(c->n, 2);
    assert_string_equal(c->type[1].name, "n");
    OK(column_cell(&c->batch[0].span[1], 1, &cell, &ok_e));
    assert_true(cell.is_whole && cell.negative && cell.whole == 2);
    OK(columns_take_out(c, "b", &ret, &ok_e));
    assert_true(ret[0] == 0 && ret[1] == 1 && ret[3] == 1);
    mem_free(ret);
    columns_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_cells_refused),
        cmocka_unit_test(test_old_cells),
        cmocka_unit_test(test_a_column_taken_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
