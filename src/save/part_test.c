// Part files: golden bytes, round trips, and damage of every kind.
//
// SPDX-License-Identifier: Apache-2.0
#include "save/part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "kit/files.h"
#include "kit/test.h"

static char path[FILES_PATH], other[FILES_PATH];

static int make_dir(void **state)
{
    if (files_begin(state) != 0)
        return -1;
    snprintf(path, sizeof(path), "%s", files_in("a.part"));
    snprintf(other, sizeof(other), "%s", files_in("b.part"));
    return 0;
}

static struct table *open_table(uint32_t width, uint32_t bits)
{
    struct table_options o = {.seed = 1, .width = width, .partition_bits = bits};
    struct table *t;
    assert_int_equal(table_open(&t, &o, NULL), 0);
    return t;
}

static void add_rows(struct table *t, uint64_t n)
{
    uint32_t width = table_options(t)->width;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t key = mix64(i * i);
        uint32_t h;
        assert_int_equal(table_rows(t, &key, 1, &h), 0);
        float *row = table_row(table_slabs(t), h);
        for (uint32_t c = 0; c < width; c++)
            row[c] = (float)(i + 1) / (float)(c + 1);
    }
}

static struct part_info save(const struct table *t, uint32_t first, uint32_t n,
                             const char *to)
{
    struct part_info info;
    struct err e = {0};
    if (part_save(t, first, n, PART_ALL, to, &info, &e) != 0)
        fail_msg("%s", e.text);
    return info;
}

// Three rows of two floats in 4 partitions. If this test fails, saved models can't be
// read any more: a new format needs a new version. clang-format off
static void test_golden(void **state)
{
    (void)state;
    static const char golden[] =
        // magic, version 1, width 2, 2 bits, partitions 0 to 4, 0, rows 3, checksum
        "5455475041525401"
        "01000000"
        "02000000"
        "02000000"
        "00000000"
        "04000000"
        "00000000"
        "0300000000000000"
        "dec6cfa380aa5ec5"
        // key, two floats
        "0000000000000000"
        "0000803f"
        "0000003f"
        "e5050b101d169256"
        "00000040"
        "0000803f"
        "142956742c71a4b7"
        "00004040"
        "0000c03f"
        // checksum of the block
        "3a469665389042c0";
    struct table *t = open_table(2, 2);
    add_rows(t, 3);
    struct part_info info = save(t, 0, 4, path);
    struct buf b = files_buf(path);
    char text[512] = "";
    for (size_t i = 0; i < b.len; i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned char)b.data[i]);
    assert_string_equal(text, golden);
    assert_int_equal(info.bytes, b.len);
    assert_int_equal(info.rows, 3);
    assert_int_equal(info.checksum, hash_bytes(b.data, b.len, 0));
    buf_free(&b);
    table_close(t);
}

// clang-format on

static void check_equal_files(void)
{
    struct buf a = files_buf(path), b = files_buf(other);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    buf_free(&a);
    buf_free(&b);
}

// Save, load, save: the same bytes. Several blocks, odd widths, none at all.
static void test_round_trip(void **state)
{
    (void)state;
    static const struct {
        uint32_t width, bits;
        uint64_t rows;
    } shapes[] = {{0, 0, 0},    {0, 3, 20000}, {1, 16, 9000},
                  {7, 5, 6000}, {20000, 2, 5}, {2, 0, 30000}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct table *t = open_table(shapes[i].width, shapes[i].bits);
        struct table *back = open_table(shapes[i].width, shapes[i].bits);
        add_rows(t, shapes[i].rows);
        struct part_info info = save(t, 0, 1u << shapes[i].bits, path);
        struct err e = {0};
        assert_int_equal(part_load(back, path, &info, &e), 0);
        assert_int_equal(table_stats(back).rows, shapes[i].rows);
        save(back, 0, 1u << shapes[i].bits, other);
        check_equal_files();
        table_close(t);
        table_close(back);
    }
}

// Parts of a table are the table, whatever the order they are loaded in.
static void test_ranges(void **state)
{
    (void)state;
    struct table *t = open_table(3, 4), *back = open_table(3, 4);
    add_rows(t, 4000);
    for (uint32_t first = 16; first-- > 0;) {
        struct part_info info = save(t, first, 1, other);
        assert_int_equal(part_load(back, other, &info, NULL), 0);
    }
    save(t, 0, 16, path);
    save(back, 0, 16, other);
    check_equal_files();
    table_close(t);
    table_close(back);
}

static int count_rows(void *ctx, uint64_t key, const float *values, uint32_t width,
                      struct err *e)
{
    (void)key, (void)values, (void)width, (void)e;
    return ++*(int *)ctx == 7 ? TUG_EINTERRUPTED : 0;
}

static void test_each(void **state)
{
    (void)state;
    int count = 100;
    struct table *t = open_table(3, 4);
    add_rows(t, 50);
    struct part_info info = save(t, 0, 16, path);
    assert_int_equal(part_each(path, &info, count_rows, &count, NULL), 0);
    assert_int_equal(count, 150);
    count = 0;
    assert_int_equal(part_each(path, NULL, count_rows, &count, NULL), TUG_EINTERRUPTED);
    assert_int_equal(count, 7);
    table_close(t);
}

static void refuse(const char *what)
{
    int count = 100;
    struct err e = {0};
    if (part_each(other, NULL, count_rows, &count, &e) != TUG_EDATA)
        fail_msg("%s was not refused", what);
    assert_non_null(strstr(e.text, other));
}

static void test_damage(void **state)
{
    (void)state;
    char what[64];
    struct table *t = open_table(2, 2);
    add_rows(t, 20);
    save(t, 0, 4, path);
    struct buf b = files_buf(path);
    for (size_t len = 0; len < b.len; len++) {
        snprintf(what, sizeof(what), "a part of %zu bytes", len);
        files_write_bytes(other, b.data, len);
        refuse(what);
    }
    for (size_t bit = 0; bit < 8 * b.len; bit++) {
        b.data[bit / 8] ^= (char)(1 << bit % 8);
        snprintf(what, sizeof(what), "a part with bit %zu flipped", bit);
        files_write_bytes(other, b.data, b.len);
        refuse(what);
        b.data[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_int_equal(buf_add(&b, "x", 1), 0);
    files_write_bytes(other, b.data, b.len);
    refuse("a part with a byte too many");
    buf_free(&b);
    table_close(t);
}

// Checksums are right, rows are not: order, partition, twice.
static void test_forged(void **state)
{
    (void)state;
    struct table *t = open_table(2, 0);
    add_rows(t, 3);
    save(t, 0, 1, path);
    struct buf b = files_buf(path);
    char *rows = b.data + 48;
    char row[16];
    memcpy(row, rows, 16);
    memcpy(rows, rows + 16, 16);
    memcpy(rows + 16, row, 16);
    for (int twice = 0; twice < 2; twice++) {
        if (twice)
            memcpy(rows, rows + 16, 16);
        uint64_t sum = hash_bytes(rows, 48, 0);
        memcpy(rows + 48, &sum, sizeof(sum));
        files_write_bytes(other, b.data, b.len);
        refuse("a part out of order");
    }
    buf_free(&b);
    table_close(t);
}

static void test_mismatch(void **state)
{
    (void)state;
    struct table *t = open_table(2, 2), *wide = open_table(3, 2),
                 *bits = open_table(2, 3);
    add_rows(t, 20);
    struct part_info info = save(t, 0, 4, path);
    struct err e = {0};
    assert_int_equal(part_load(wide, path, &info, &e), TUG_EDATA);
    assert_int_equal(part_load(bits, path, &info, &e), TUG_EDATA);
    struct part_info wrong[3] = {info, info, info};
    wrong[0].rows++;
    wrong[1].bytes++;
    wrong[2].checksum++;
    for (int i = 0; i < 3; i++)
        assert_int_equal(part_load(t, path, &wrong[i], &e), TUG_EDATA);
    assert_int_equal(part_load(t, "/nowhere/a.part", &info, &e), TUG_EDATA);
    assert_int_equal(part_load(t, files_dir, &info, &e), TUG_EDATA);
    assert_int_equal(part_save(t, 0, 4, PART_ALL, "/nowhere/a.part", &info, &e), TUG_EIO);
    assert_int_equal(part_save(t, 1, 4, PART_ALL, path, &info, &e), TUG_EUSAGE);
    table_close(t);
    table_close(wide);
    table_close(bits);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct table *t = open_table(2, 2);
    add_rows(t, 500);
    bool struck = true;
    for (long n = 0; struck; n++) {
        struct table *back = open_table(2, 2);
        struct part_info info;
        size_t before = mem_live();
        mem_fault_after(n);
        int rc = part_save(t, 0, 4, PART_ALL, path, &info, NULL);
        size_t saved = mem_live();
        if (rc == 0)
            rc = part_load(back, path, &info, NULL);
        struck = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(saved, before);
        assert_int_equal(rc, struck ? TUG_ENOMEM : 0);
        table_close(back);
    }
    table_close(t);
}

// Rows without a count are left out, and no others.
static void test_counted(void **state)
{
    (void)state;
    enum { ROWS = 1000, COUNT = 2 };
    struct part_info some, all;
    struct table *t = open_table(3, 2), *few = open_table(3, 2);
    add_rows(t, ROWS);
    for (uint64_t i = 0; i < ROWS; i++) {
        uint64_t key = mix64(i * i);
        uint32_t h, g;
        assert_int_equal(table_rows(t, &key, 1, &h), 0);
        float *row = table_row(table_slabs(t), h);
        if (i % 3 == 0) {
            row[COUNT] = 0;
            continue;
        }
        assert_int_equal(table_rows(few, &key, 1, &g), 0);
        memcpy(table_row(table_slabs(few), g), row, 3 * sizeof(float));
    }
    assert_int_equal(part_save(t, 0, 4, COUNT, path, &some, NULL), 0);
    all = save(few, 0, 4, path);
    assert_int_equal(some.rows, ROWS - (ROWS + 2) / 3);
    assert_int_equal(some.checksum, all.checksum);
    table_close(t);
    table_close(few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),     cmocka_unit_test(test_counted),
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_each),       cmocka_unit_test(test_damage),
        cmocka_unit_test(test_forged),     cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, make_dir, files_end);
}
