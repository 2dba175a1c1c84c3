// Compares rows of matrices in memory with their text, example by example, as one data
// set and in pieces; and tests which rows readers refuse.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/frame/rows.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "data/dataset/dataset.h"
#include "data/source/piece.h"

#include "kit/files.h"
#include "kit/lines.h"
#include "kit/test.h"

enum { N = 3000, MOST = 12, COLUMNS = 7 };

static uint64_t offsets[N + 1], keys[N * MOST];
static uint32_t fields[N * MOST];
static float labels[N], values[N * MOST];
static double doubles[N * COLUMNS];

static float any_value(void)
{
    float x = (float)any(1000) / 7;
    return any_in_100(50) ? 1 : any_in_100(50) ? x : -x;
}

static void make(void)
{
    for (size_t i = 0; i < N; i++) {
        // the first row is empty, so it is read before any memory for features exists
        size_t n = i == 0 ? 0 : any(MOST);
        labels[i] = (float)any(2);
        offsets[i + 1] = offsets[i] + n;
        for (uint64_t j = offsets[i]; j < offsets[i + 1]; j++) {
            keys[j] = any_in_100(5) ? UINT64_MAX - any(9) : any(5000);
            fields[j] = (uint32_t)any(any_in_100(2) ? 65536 : 30);
            values[j] = any_value();
        }
        for (size_t k = 0; k < COLUMNS; k++)
            doubles[i * COLUMNS + k] = any_in_100(30) ? 0
                                       : any_in_100(5)
                                           ? 1 + 0x1p-24 // halfway between floats
                                           : (double)any(1000000) / 777;
    }
}

// Makes an id from each key, so that different keys get different ids.
static int resolve(void *ctx, const uint64_t *of, size_t n, uint32_t *ret_ids)
{
    (void)ctx;
    for (size_t i = 0; i < n; i++)
        ret_ids[i] = (uint32_t)(mix64(of[i]) & 0x7fffffff);
    return 0;
}

static void write_text(const struct rows *r)
{
    struct buf text = BUF_INIT((size_t)1 << 30);
    for (uint64_t i = 0; i < r->n; i++) {
        OK(rows_text(r, i, &text, &ok_e));
        OK(buf_add(&text, "\n", 1));
    }
    files_write_bytes(files_in("rows.txt"), text.data, text.len);
    buf_free(&text);
}

struct opened {
    struct reader *reader;
    struct source *source;
    struct team *team;
    uint64_t bad;
    struct dataset_options o;
};

static void open_path(struct opened *d, const char *format, const char *path,
                      uint64_t max_bad)
{
    *d = (struct opened){0};
    struct reader_options ro = {.format = format, .labels = true};
    struct source_options so = {.paths = &path, .n_paths = 1, .chunk_bytes = 3000};
    OK(reader_open(&d->reader, &ro, &ok_e));
    OK(source_open(&d->source, &so, &ok_e));
    OK(team_open(&d->team, 2, &ok_e));
    d->o = (struct dataset_options){.source = d->source,
                                    .reader = d->reader,
                                    .team = d->team,
                                    .resolve = resolve,
                                    .max_bad_lines = max_bad,
                                    .bad_lines = &d->bad};
}

static void close_path(struct opened *d)
{
    team_close(d->team);
    source_close(d->source);
    reader_close(d->reader);
}

static void same_features(const struct batch *x, const struct batch *y)
{
    assert_int_equal(x->nnz, y->nnz);
    assert_memory_equal(x->label, y->label, x->n * sizeof(*x->label));
    assert_memory_equal(x->start, y->start, (x->n + 1) * sizeof(*x->start));
    assert_memory_equal(x->id, y->id, x->nnz * sizeof(*x->id));
    assert_memory_equal(x->slot, y->slot, x->nnz * sizeof(*x->slot));
    assert_int_equal(x->value == NULL, y->value == NULL);
    if (x->value != NULL)
        assert_memory_equal(x->value, y->value, x->nnz * sizeof(*x->value));
}

static void same_examples(const struct dataset *a, const struct dataset *b)
{
    struct batch x = {0}, y = {0};
    assert_int_equal(dataset_size(a), dataset_size(b));
    for (uint64_t i = 0; i < dataset_size(a); i++) {
        assert_int_equal(dataset_gather(a, &i, 1, &x), 0);
        assert_int_equal(dataset_gather(b, &i, 1, &y), 0);
        same_features(&x, &y);
    }
    batch_free(&x);
    batch_free(&y);
}

static void compare(const struct rows *r)
{
    char address[ROWS_ADDRESS_MAX];
    struct opened text, memory;
    struct dataset *a, *b, *again;
    write_text(r);
    OK(rows_publish(r, address, &ok_e));
    open_path(&text, r->format, files_in("rows.txt"), 0);
    open_path(&memory, r->format, address, 0);
    OK(dataset_load(&a, &text.o, &ok_e));
    OK(dataset_load(&b, &memory.o, &ok_e));
    same_examples(a, b);
    uint32_t file;
    uint64_t row;
    dataset_where(b, 17, &file, &row);
    assert_int_equal(row, 17);
    OK(source_rewind(memory.source, SOURCE_START, &ok_e));
    OK(dataset_load(&again, &memory.o, &ok_e));
    same_examples(a, again);
    dataset_close(a);
    dataset_close(b);
    dataset_close(again);
    close_path(&text);
    close_path(&memory);
    rows_withdraw(address);
    assert_null(rows_find(address));
}

static void test_same_as_text(void **state)
{
    (void)state;
    const struct sparse_rows sparse = {offsets, keys, NULL, values, 0},
                             with_fields = {offsets, keys, fields, NULL, 0};
    const struct dense_rows dense = {doubles, true, COLUMNS, COLUMNS * sizeof(double),
                                     sizeof(double)},
                            turned = {values, false, COLUMNS, sizeof(float),
                                      (ptrdiff_t)(N * sizeof(float))};
    const struct rows rows[] = {
        {.name = "data", .format = "libsvm", .n = N, labels, .sparse = &sparse},
        {.name = "data", .format = "libffm", .n = N, labels, .sparse = &with_fields},
        {.name = "data", .format = "libsvm", .n = N, labels, .dense = &dense},
        {.name = "data", .format = "libsvm", .n = N / 2, labels, .dense = &turned},
    };
    for (int round = 0; round < 4; round++) {
        make();
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
            compare(&rows[i]);
    }
}

// If no row has a feature, the matrix has no array of keys, and the examples have no
// memory for keys.
static void test_without_features(void **state)
{
    (void)state;
    static const uint64_t none[N + 1];
    static const float label[N];
    const struct sparse_rows sparse = {none, NULL, NULL, NULL, 0};
    const struct rows rows = {
        .name = "data", .format = "libsvm", .n = N, label, .sparse = &sparse};
    char address[ROWS_ADDRESS_MAX];
    struct opened memory;
    struct dataset *d;
    OK(rows_publish(&rows, address, &ok_e));
    open_path(&memory, rows.format, address, 0);
    OK(dataset_load(&d, &memory.o, &ok_e));
    assert_int_equal(dataset_size(d), N);
    dataset_close(d);
    close_path(&memory);
    rows_withdraw(address);
}

static void test_pieces(void **state)
{
    (void)state;
    const struct dense_rows dense = {doubles, true, COLUMNS, COLUMNS * sizeof(double),
                                     sizeof(double)};
    const struct rows rows = {
        .name = "data", .format = "libsvm", .n = N, labels, .dense = &dense};
    char address[ROWS_ADDRESS_MAX];
    struct opened m;
    struct pieces *p;
    make();
    OK(rows_publish(&rows, address, &ok_e));
    open_path(&m, "libsvm", address, 0);
    const char *path = address;
    struct pieces_options po = {.paths = &path, .n_paths = 1, .piece_bytes = 5000};
    OK(pieces_open(&p, &po, &ok_e));
    bool exact;
    uint64_t pieces = pieces_count(p, 0, &exact), at = 0;
    assert_true(exact && pieces > 5);
    struct batch x = {0};
    for (uint64_t i = 0; i < pieces; i++) {
        struct dataset *d;
        OK(dataset_load_piece(&d, &m.o, p, 0, i, &ok_e));
        assert_int_equal(dataset_at_end(d), i == pieces - 1);
        for (uint64_t k = 0; k < dataset_size(d); k++, at++) {
            uint32_t file;
            uint64_t row;
            dataset_where(d, k, &file, &row);
            assert_int_equal(row, at);
            assert_int_equal(dataset_gather(d, &k, 1, &x), 0);
            assert_true(x.label[0] == labels[at]);
        }
        dataset_close(d);
    }
    assert_int_equal(at, N);
    batch_free(&x);
    pieces_close(p);
    close_path(&m);
    rows_withdraw(address);
}

static void refused(const struct rows *r, uint64_t max_bad, const char *why)
{
    char address[ROWS_ADDRESS_MAX];
    struct opened m;
    struct dataset *d;
    struct err e;
    OK(rows_publish(r, address, &ok_e));
    open_path(&m, r->format, address, max_bad);
    int rc = dataset_load(&d, &m.o, &e);
    if (why == NULL) {
        assert_int_equal(rc, 0);
        assert_int_equal(m.bad, max_bad);
        assert_int_equal(dataset_size(d), r->n - max_bad);
        dataset_close(d);
    } else {
        assert_int_equal(rc, TUG_EDATA);
        assert_string_equal(e.text, why);
    }
    close_path(&m);
    rows_withdraw(address);
}

static void test_refused(void **state)
{
    (void)state;
    const struct sparse_rows sparse = {offsets, keys, fields, values, 0};
    const struct rows rows = {
        .name = "data", .format = "libffm", .n = N, labels, .sparse = &sparse};
    make();
    while (offsets[2001] == offsets[2000])
        make();
    uint64_t j = offsets[2000];
    keys[j] = 9;
    values[j] = (float)NAN;
    refused(&rows, 0,
            "data: row 2000: the value of feature 9 is NaN, but values must be finite "
            "numbers");
    refused(&rows, 1, NULL);
    values[j] = 1;
    fields[j] = 65536;
    refused(&rows, 0,
            "data: row 2000: field 65536 is not below 65536, the number of fields");
    fields[j] = 1;
    labels[7] = 2;
    refused(&rows, 0,
            "data: row 7: the label '2' is not one of 0, 1, -1, +1 (use --loss squared "
            "for numbers)");
    struct err e;
    struct source *s;
    const char *gone = "memory://999999";
    struct source_options so = {.paths = &gone, .n_paths = 1};
    assert_int_equal(source_open(&s, &so, &e), TUG_EDATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_text),
        cmocka_unit_test(test_without_features),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
