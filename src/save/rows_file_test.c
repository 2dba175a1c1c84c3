// Files of rows: fixed bytes, writing and reading back, and every kind of damage, also
// with checksums that were recomputed after it.
//
// SPDX-License-Identifier: Apache-2.0
#include "save/rows_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/random.h"
#include "kit/files.h"
#include "kit/test.h"
#include "os/disk.h"
#include "os/file.h"
#include "save/rows_format.h"

static char path[FILES_PATH], other[FILES_PATH];

static int make_dir(void **state)
{
    if (files_begin_in_memory(state) != 0)
        return -1;
    snprintf(path, sizeof(path), "%s", files_in("a.rows"));
    snprintf(other, sizeof(other), "%s", files_in("b.rows"));
    return 0;
}

// The expected contents of a file: its blocks in order, with their payloads in one
// buffer.
struct content {
    struct rows_shape shape;
    struct rows_block blocks[256];
    size_t n;
    struct rows_info counts;
};

static void content_free(struct content *c)
{
    for (size_t i = 0; i < c->n; i++)
        mem_free((void *)(uintptr_t)c->blocks[i].payload);
    c->n = 0;
}

static void add_block(struct content *c, enum rows_kind kind, uint32_t partition,
                      uint32_t n, uint32_t width, char *payload)
{
    c->blocks[c->n++] = (struct rows_block){kind, partition, n, width, payload};
    c->counts.gone += kind == ROWS_GONE ? n : 0;
    c->counts.rows += kind == ROWS_ROW ? n : 0;
    c->counts.extras += kind == ROWS_EXTRA ? n : 0;
}

static int by_key(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

// Makes n ascending keys of a partition. If partitions are ranges, the keys differ in
// their low bits.
static uint64_t *some_keys(const struct rows_shape *s, uint32_t partition, uint32_t n,
                           uint64_t seed)
{
    uint64_t *keys = mem_array(n + 1, sizeof(*keys));
    uint64_t i = 0;
    for (uint32_t have = 0; have < n;) {
        uint64_t key = random_u64(seed, partition, i++);
        if (s->by_range && s->partition_bits > 0)
            key = key >> s->partition_bits | (uint64_t)partition
                                                 << (64 - s->partition_bits);
        if (rows_partition(s, key) == partition)
            keys[have++] = key;
    }
    qsort(keys, n, sizeof(*keys), by_key);
    return keys;
}

static char *payload_of(const uint64_t *keys, uint32_t n, uint32_t width)
{
    char *bytes = mem_alloc(n * rows_row_bytes(width) + 1), *to = bytes;
    for (uint32_t i = 0; i < n; i++) {
        memcpy(to, &keys[i], sizeof(*keys));
        to += sizeof(*keys);
        for (uint32_t c = 0; c < width; c++, to += sizeof(float)) {
            float x = (float)(keys[i] % 100) / (float)(c + 1);
            memcpy(to, &x, sizeof(x));
        }
    }
    return bytes;
}

static void add_rows(struct content *c, enum rows_kind kind, uint32_t partition,
                     uint32_t n, uint32_t pieces, uint64_t seed)
{
    uint32_t width = kind == ROWS_ROW     ? c->shape.width
                     : kind == ROWS_EXTRA ? c->shape.extra_width
                                          : 0;
    uint64_t *keys = some_keys(&c->shape, partition, n, seed);
    for (uint32_t i = 0; i < pieces; i++) {
        uint32_t from = n * i / pieces, to = n * (i + 1) / pieces;
        if (to > from)
            add_block(c, kind, partition, to - from, width,
                      payload_of(keys + from, to - from, width));
    }
    mem_free(keys);
}

static struct content some_content(struct rows_shape shape, uint32_t rows)
{
    struct content c = {.shape = shape};
    uint32_t parts = 1u << shape.partition_bits;
    for (uint32_t p = 0; p < parts && p < 20; p++) {
        if (p % 5 == 3)
            continue;
        if (shape.mode == SAVE_CHECKPOINT) {
            char *state = mem_alloc(300);
            memset(state, (int)p, 300);
            add_block(&c, ROWS_PARTITION, p, 300 - p, 0, state);
        }
        if (shape.mode == SAVE_DELTA)
            add_rows(&c, ROWS_GONE, p, rows / 2 + 1, 1, 7);
        add_rows(&c, ROWS_ROW, p, rows, 3, 8);
        if (shape.extra_width > 0)
            add_rows(&c, ROWS_EXTRA, p, rows / 3 + 1, 2, 8);
    }
    return c;
}

static int write_content(const struct content *c, const char *to, int level,
                         struct rows_info *ret, struct err *e)
{
    struct rows_writer *w;
    TRY(rows_create(&w, FILE_ANYWHERE, to, &c->shape, level, e));
    for (size_t i = 0; i < c->n; i++) {
        int rc = rows_write(w, &c->blocks[i], e);
        if (rc != 0) {
            rows_abort(w);
            return rc;
        }
    }
    return rows_commit(w, ret, e);
}

static struct rows_info must_write(const struct content *c, const char *to, int level)
{
    struct rows_info info;
    struct err e = {0};
    if (write_content(c, to, level, &info, &e) != 0)
        fail_msg("%s", e.text);
    return info;
}

static size_t payload_bytes(const struct rows_block *b)
{
    return b->kind == ROWS_PARTITION ? b->n : b->n * rows_row_bytes(b->width);
}

struct walk {
    const struct content *c;
    size_t at;
    uint32_t partition; // ROWS_ALL, or the partition that is read
};

static int any_block(void *ctx, const struct rows_block *b, struct err *e)
{
    (void)ctx, (void)b, (void)e;
    return 0;
}

static int same_block(void *ctx, const struct rows_block *b, struct err *e)
{
    (void)e;
    struct walk *w = ctx;
    const struct rows_block *want = &w->c->blocks[w->at++];
    assert_true(w->at <= w->c->n);
    assert_int_equal(b->kind, want->kind);
    assert_int_equal(b->partition, want->partition);
    assert_int_equal(b->n, want->n);
    assert_int_equal(b->width, want->width);
    assert_int_equal((uintptr_t)b->payload % 8, 0);
    assert_memory_equal(b->payload, want->payload, payload_bytes(b));
    return 0;
}

static void check_content(const struct content *c, const char *from,
                          const struct rows_info *info)
{
    struct rows_reader *r;
    struct err e = {0};
    if (rows_open(&r, FILE_ANYWHERE, from, info, &e) != 0)
        fail_msg("%s", e.text);
    struct walk all = {.c = c};
    assert_memory_equal(rows_shape(r), &c->shape, sizeof(c->shape));
    assert_int_equal(rows_each(r, ROWS_ALL, same_block, &all, &e), 0);
    assert_int_equal(all.at, c->n);
    // Reads the partitions one by one, from the last to the first.
    for (uint32_t p = 1u << c->shape.partition_bits; p-- > 0;) {
        struct walk w = {.c = c};
        while (w.at < c->n && c->blocks[w.at].partition < p)
            w.at++;
        bool there = w.at < c->n && c->blocks[w.at].partition == p;
        assert_int_equal(rows_has(r, p), there);
        assert_int_equal(rows_each(r, p, same_block, &w, &e), 0);
        assert_true(w.at == c->n || c->blocks[w.at].partition != p || !there);
    }
    rows_close(r);
}

static const struct rows_shape shapes[] = {
    {.width = 3, .partition_bits = 2, .mode = SAVE_BASE, .day = 9},
    {.width = 0, .partition_bits = 0, .mode = SAVE_CHECKPOINT},
    {.width = 12, .extra_width = 9, .partition_bits = 4, .mode = SAVE_DELTA},
    {.width = 7, .extra_width = 1, .partition_bits = 4, .mode = SAVE_CHECKPOINT},
    {.width = 5, .partition_bits = 3, .by_range = true, .mode = SAVE_CHECKPOINT},
};
static const struct rows_shape small_shapes[] = {
    {.width = 2, .extra_width = 3, .partition_bits = 1, .mode = SAVE_DELTA},
    // In these files all rows are 0, so they compress well.
    {.width = 3, .partition_bits = 1, .mode = SAVE_CHECKPOINT},
};
enum { N_SHAPES = sizeof(shapes) / sizeof(*shapes) };

static void test_round_trip(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SHAPES; i++) {
        for (int level = 0; level <= 3; level += 3) {
            struct content c = some_content(shapes[i], 200);
            struct rows_info info = must_write(&c, path, level);
            assert_int_equal(info.rows, c.counts.rows);
            assert_int_equal(info.extras, c.counts.extras);
            assert_int_equal(info.gone, c.counts.gone);
            struct stat st;
            assert_int_equal(stat(path, &st), 0);
            assert_int_equal(info.bytes, st.st_size);
            check_content(&c, path, &info);
            check_content(&c, path, NULL);
            content_free(&c);
        }
    }
}

static void test_compressed_is_smaller(void **state)
{
    (void)state;
    struct content c = some_content(shapes[3], 500);
    struct rows_info plain = must_write(&c, path, 0), packed = must_write(&c, other, 1);
    assert_true(packed.bytes < plain.bytes * 2 / 3);
    content_free(&c);
}

// The rows are larger than any buffer: blocks are split, and the reader moves its window.
static void test_large(void **state)
{
    (void)state;
    struct content c = {.shape = {.width = 30, .partition_bits = 1}};
    add_rows(&c, ROWS_ROW, 0, 60000, 8, 1);
    add_rows(&c, ROWS_ROW, 1, 50000, 1, 2); // more than 4 MiB
    struct rows_info info = must_write(&c, path, 0);
    struct rows_reader *r;
    assert_int_equal(rows_open(&r, FILE_ANYWHERE, path, &info, NULL), 0);
    assert_int_equal(rows_each(r, ROWS_ALL, any_block, NULL, NULL), 0);
    struct walk w = {.c = &c};
    assert_int_equal(rows_each(r, 0, same_block, &w, NULL), 0);
    rows_close(r);
    content_free(&c);

    c = (struct content){.shape = {.width = TABLE_MAX_WIDTH}};
    add_rows(&c, ROWS_ROW, 0, 3, 3, 1); // each row alone is larger than a block should be
    for (int level = 0; level < 2; level++) {
        info = must_write(&c, path, level);
        check_content(&c, path, &info);
    }
    content_free(&c);
}

static void test_empty(void **state)
{
    (void)state;
    struct content c = {.shape = shapes[0]};
    struct rows_info info = must_write(&c, path, 0);
    assert_int_equal(info.rows, 0);
    check_content(&c, path, &info);
}

// The bytes of a delta with two partitions. If this test fails, older saves can no longer
// be read: a new format needs a new version.
// clang-format off
static void test_golden(void **state)
{
    (void)state;
    static const char golden[] =
        // header: magic, version 1, widths 1 and 0, 1 bit of partitions, by hash, delta,
        // level 0, day 0, checksum
        "545547524f575301" "01000000" "01000000" "00000000" "01000000" "00000000"
        "02000000" "00000000" "00000000" "45e9b8a7e3740d42"
        // removed keys of partition 0: n 1, width 0, 8 bytes, 8 stored, checksums; a key
        "02000000" "00000000" "01000000" "00000000" "0800000000000000"
        "0800000000000000" "969a7993d28df3ec" "ac7358fcccd5b43b"
        // row of partition 1: n 1, width 1, 12 bytes, 12 stored, checksums; key, float,
        // zeros
        "03000000" "01000000" "01000000" "01000000" "0c00000000000000"
        "0c00000000000000" "95e9d88e2a96f2e9" "9b532987350c012e" "00004c42" "00000000"
        // directory, partition 0: 1 block at 48, 0 rows, 0 extra rows, 1 removed key,
        // checksum
        "00000000" "01000000" "3000000000000000" "0000000000000000" "0000000000000000"
        "0100000000000000" "c0c1afeedad3641f"
        // directory, partition 1: 1 block at 96, 1 row, checksum
        "01000000" "01000000" "6000000000000000" "0100000000000000" "0000000000000000"
        "0000000000000000" "67d1e7340bef1710"
        // trailer: directory at 152, 96 bytes, 1 row in all, checksum, magic
        "9800000000000000" "6000000000000000" "0100000000000000" "1368d89af32ff061"
        "545547524f575302";
    struct content c = {.shape = {.width = 1, .partition_bits = 1, .mode = SAVE_DELTA}};
    add_rows(&c, ROWS_GONE, 0, 1, 1, 5);
    add_rows(&c, ROWS_ROW, 1, 1, 1, 6);
    struct rows_info info = must_write(&c, path, 0);
    struct buf b = files_buf(path);
    char text[1024] = "";
    for (size_t i = 0; i < b.len; i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned char)b.data[i]);
    assert_string_equal(text, golden);
    assert_int_equal(info.checksum, 0x61f02ff39ad86813);
    buf_free(&b);
    content_free(&c);
}

// clang-format on

static int stop_at_second(void *ctx, const struct rows_block *b, struct err *e)
{
    (void)b, (void)e;
    return ++*(int *)ctx == 2 ? TUG_EINTERRUPTED : 0;
}

static void test_stops(void **state)
{
    (void)state;
    struct content c = some_content(shapes[2], 20);
    struct rows_info info = must_write(&c, path, 0);
    struct rows_reader *r;
    int count = 0;
    assert_int_equal(rows_open(&r, FILE_ANYWHERE, path, &info, NULL), 0);
    assert_int_equal(rows_each(r, ROWS_ALL, stop_at_second, &count, NULL),
                     TUG_EINTERRUPTED);
    assert_int_equal(count, 2);
    rows_close(r);
    content_free(&c);
}

// Opens and reads a file. Returns the first error.
static int read_all(const char *from, const struct rows_info *expect, struct err *e)
{
    struct rows_reader *r;
    TRY(rows_open(&r, FILE_ANYWHERE, from, expect, e));
    int rc = rows_each(r, ROWS_ALL, any_block, NULL, e);
    rows_close(r);
    return rc;
}

static void refuse(const char *bytes, size_t n, const char *what)
{
    struct err e = {0};
    files_write_bytes(other, bytes, n);
    if (read_all(other, NULL, &e) != TUG_EDATA)
        fail_msg("not refused: %s", what);
    assert_non_null(strstr(e.text, other));
}

static void test_cut_short(void **state)
{
    (void)state;
    struct content c = some_content(small_shapes[0], 4);
    must_write(&c, path, 0);
    struct buf b = files_buf(path);
    for (size_t n = 0; n < b.len; n++)
        refuse(b.data, n, "cut short");
    buf_free(&b);
    content_free(&c);
}

static void test_flipped_bytes(void **state)
{
    (void)state;
    for (int level = 0; level < 2; level++) {
        struct content c = some_content(small_shapes[level], 4);
        must_write(&c, path, level);
        struct buf b = files_buf(path);
        for (size_t i = 0; i < b.len; i++) {
            char was = b.data[i];
            b.data[i] ^= (char)(1u << (i % 8));
            refuse(b.data, b.len, "a flipped bit");
            b.data[i] = was;
        }
        buf_free(&b);
        content_free(&c);
    }
}

// Refuses the file of another save with the same name, length and number of rows.
static void test_another_file(void **state)
{
    (void)state;
    struct content c = some_content(shapes[2], 9);
    struct rows_info info = must_write(&c, path, 0), now;
    char *last = (char *)(uintptr_t)c.blocks[c.n - 1].payload;
    last[payload_bytes(&c.blocks[c.n - 1]) - 1] ^= 1;
    now = must_write(&c, path, 0);
    assert_int_equal(now.bytes, info.bytes);
    struct rows_reader *r;
    struct err e = {0};
    assert_int_equal(rows_open(&r, FILE_ANYWHERE, path, &info, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "not the file that was saved"));
    assert_non_null(strstr(e.text, path));
    uint64_t *fields[] = {&now.rows, &now.extras, &now.gone, &now.bytes, &now.checksum};
    for (size_t i = 0; i < 5; i++) {
        ++*fields[i];
        assert_int_equal(rows_open(&r, FILE_ANYWHERE, path, &now, &e), TUG_EDATA);
        --*fields[i];
    }
    check_content(&c, path, &now);
    content_free(&c);
}

static void test_no_file(void **state)
{
    (void)state;
    struct rows_reader *r;
    struct err e = {0};
    assert_int_equal(rows_open(&r, FILE_ANYWHERE, "/tmp/tug/none", NULL, &e), TUG_EDATA);
    assert_non_null(strstr(e.text, "'/tmp/tug/none': No such file"));
    assert_int_equal(rows_open(&r, FILE_ANYWHERE, files_dir, NULL, &e), TUG_EDATA);
    (void)unlink(other);
    assert_int_equal(mkfifo(other, 0600), 0);
    assert_int_equal(rows_open(&r, FILE_ANYWHERE, other, NULL, &e), TUG_EDATA);
    assert_int_equal(unlink(other), 0);
    static const char text[] =
        "this is another kind of file altogether, and it is long\n";
    refuse(text, strlen(text), "another kind of file");
}

// A file in memory, whose checksums can be recomputed.
struct forged {
    char bytes[4096];
    size_t n;
};

static struct rows_trailer *trailer_of(struct forged *f)
{
    return (void *)(f->bytes + f->n - sizeof(struct rows_trailer));
}
static struct rows_entry *entry_of(struct forged *f, size_t i)
{
    return (struct rows_entry *)(void *)(f->bytes + trailer_of(f)->at) + i;
}
static struct rows_block_header *block_of(struct forged *f, size_t i)
{
    char *at = f->bytes + sizeof(struct rows_header);
    for (; i > 0; i--) {
        const struct rows_block_header *h = (void *)at;
        at += sizeof(*h) + rows_padded(h->stored);
    }
    return (void *)at;
}

static void seal_blocks(struct forged *f)
{
    size_t block = 0, n = trailer_of(f)->bytes / sizeof(struct rows_entry);
    for (size_t i = 0; i < n; i++) {
        entry_of(f, i)->checksum = 0;
        for (size_t j = 0; j < entry_of(f, i)->blocks; j++) {
            struct rows_block_header *h = block_of(f, block++);
            h->checksum = rows_block_checksum(h, h + 1);
            entry_of(f, i)->checksum = rows_add_checksum(entry_of(f, i)->checksum,
                                                         h->checksum);
        }
    }
}

static void seal(struct forged *f)
{
    struct rows_header *h = (void *)f->bytes;
    struct rows_trailer *t = trailer_of(f);
    h->checksum = rows_header_checksum(h);
    if (t->bytes <= f->n - t->at)
        t->checksum = rows_file_checksum(h, entry_of(f, 0), t);
}

// Makes a file with partition 0 (4 removed keys, 6 rows in two blocks, 4 extra rows) and
// partition 1 (1 row).
static struct forged good_file(void)
{
    struct content c = {
        .shape = {.width = 2, .extra_width = 1, .partition_bits = 1, .mode = SAVE_DELTA}};
    add_rows(&c, ROWS_GONE, 0, 4, 1, 1);
    add_rows(&c, ROWS_ROW, 0, 6, 2, 2);
    add_rows(&c, ROWS_EXTRA, 0, 4, 1, 2);
    add_rows(&c, ROWS_ROW, 1, 1, 1, 3);
    must_write(&c, path, 0);
    content_free(&c);
    struct buf b = files_buf(path);
    struct forged f = {.n = b.len};
    assert_true(b.len <= sizeof(f.bytes));
    memcpy(f.bytes, b.data, b.len);
    buf_free(&b);
    return f;
}

static void refuse_forged(struct forged *f, const char *what)
{
    struct err e = {0};
    seal(f);
    files_write_bytes(other, f->bytes, f->n);
    if (read_all(other, NULL, &e) != TUG_EDATA)
        fail_msg("not refused: %s", what);
    if (strstr(e.text, what) == NULL || strstr(e.text, other) == NULL)
        fail_msg("'%s' instead of '%s'", e.text, what);
    *f = good_file();
}

static void test_forged_heads(void **state)
{
    (void)state;
    struct forged f = good_file();
    struct rows_header *h = (void *)f.bytes;
    h->version = 2;
    refuse_forged(&f, "format version 2; this program reads version 1");
    h->width = TABLE_MAX_WIDTH + 1;
    refuse_forged(&f, "its header is wrong");
    h->extra_width = UINT32_MAX;
    refuse_forged(&f, "its header is wrong");
    h->partition_bits = 17;
    refuse_forged(&f, "its header is wrong");
    h->mode = 4;
    refuse_forged(&f, "its header is wrong");
    h->by_range = 2;
    refuse_forged(&f, "its header is wrong");
    h->by_range = 1;
    refuse_forged(&f, "out of place");
    h->partition_bits = 0;
    refuse_forged(&f, "its size differs from the size that it states");
    trailer_of(&f)->bytes += 48;
    refuse_forged(&f, "its size differs from the size that it states");
    trailer_of(&f)->bytes = UINT64_MAX - 47;
    refuse_forged(&f, "its size differs from the size that it states");
    trailer_of(&f)->rows++;
    refuse_forged(&f, "its directory is wrong");
    entry_of(&f, 0)->at += 8;
    refuse_forged(&f, "its directory is wrong");
    entry_of(&f, 1)->at = UINT64_MAX;
    refuse_forged(&f, "its directory is wrong");
    entry_of(&f, 1)->at = entry_of(&f, 0)->at;
    refuse_forged(&f, "its directory is wrong");
    entry_of(&f, 1)->partition = 0;
    refuse_forged(&f, "its directory is wrong");
    entry_of(&f, 1)->partition = 2;
    refuse_forged(&f, "its directory is wrong");
    entry_of(&f, 0)->blocks = UINT32_MAX;
    refuse_forged(&f, "its directory is wrong");
    entry_of(&f, 0)->blocks--;
    refuse_forged(&f, "does not match the file's directory");
    entry_of(&f, 0)->blocks++;
    refuse_forged(&f, "a block is missing");
    entry_of(&f, 0)->gone++;
    refuse_forged(&f, "does not match the file's directory");
    entry_of(&f, 0)->checksum++;
    refuse_forged(&f, "does not match the file's directory");
}

static void refuse_block(struct forged *f, const char *what)
{
    seal_blocks(f);
    refuse_forged(f, what);
}

static void test_forged_blocks(void **state)
{
    (void)state;
    struct forged f = good_file();
    static const struct {
        uint32_t block, kind;
        const char *what;
    } kinds[] = {
        {0, 0, "an unknown kind"},          {0, 5, "an unknown kind"},
        {0, UINT32_MAX, "an unknown kind"}, {1, ROWS_GONE, "width"},
        {2, ROWS_EXTRA, "width"},           {0, ROWS_ROW, "width"},
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        block_of(&f, kinds[i].block)->kind = kinds[i].kind;
        refuse_block(&f, kinds[i].what);
    }
    block_of(&f, 0)->kind = ROWS_EXTRA;
    block_of(&f, 0)->width = 1;
    block_of(&f, 0)->n = 3;
    block_of(&f, 0)->bytes = 36;
    refuse_block(&f, "does not decompress"); // the block's stored bytes are truncated
    block_of(&f, 0)->kind = ROWS_PARTITION;
    block_of(&f, 0)->n = 32;
    refuse_block(&f, "does not match the file's directory");
    block_of(&f, 1)->kind = ROWS_PARTITION;
    block_of(&f, 1)->n = (uint32_t)block_of(&f, 1)->bytes;
    block_of(&f, 1)->width = 0;
    refuse_block(&f, "out of order");
    block_of(&f, 0)->partition = 1;
    refuse_block(&f, "another partition");
    block_of(&f, 0)->partition = 2;
    refuse_block(&f, "of a partition that does not exist");
    block_of(&f, 0)->n = 0;
    refuse_block(&f, "is empty");
    block_of(&f, 0)->n++;
    refuse_block(&f, "length of a block is wrong");
    block_of(&f, 0)->n = UINT32_MAX;
    refuse_block(&f, "length of a block is wrong");
    block_of(&f, 0)->bytes++;
    refuse_block(&f, "length of a block is wrong");
    block_of(&f, 4)->stored = 0;
    block_of(&f, 4)->checksum = 0;
    refuse_forged(&f, "length of a block is wrong");
    block_of(&f, 4)->stored = UINT64_MAX;
    refuse_forged(&f, "length of a block is wrong");
    block_of(&f, 4)->stored -= 8;
    refuse_block(&f, "does not decompress");
}

static char *key_at(struct forged *f, uint32_t block, uint32_t row)
{
    struct rows_block_header *h = block_of(f, block);
    return (char *)(h + 1) + row * rows_row_bytes(h->width);
}

static void copy_key(struct forged *f, uint32_t to_block, uint32_t to, uint32_t block,
                     uint32_t row)
{
    memcpy(key_at(f, to_block, to), key_at(f, block, row), sizeof(uint64_t));
}

static void test_forged_keys(void **state)
{
    (void)state;
    struct forged f = good_file();
    copy_key(&f, 0, 1, 0, 0); // the same key occurs twice
    refuse_block(&f, "is out of place");
    copy_key(&f, 0, 1, 0, 3); // a key that is smaller than the one before it
    refuse_block(&f, "is out of place");
    copy_key(&f, 2, 0, 1, 0); // a key that is smaller than the last key of the previous
                              // block
    refuse_block(&f, "is out of place");
    copy_key(&f, 4, 0, 0, 0); // a key of another partition
    refuse_block(&f, "is out of place");
}

static void refuse_write(struct content *c, const char *what)
{
    struct rows_info info;
    struct err e = {0};
    (void)unlink(path);
    assert_int_equal(write_content(c, path, 0, &info, &e), TUG_EINTERNAL);
    if (strstr(e.text, what) == NULL)
        fail_msg("'%s' instead of '%s'", e.text, what);
    assert_false(file_exists(path));
}

static void test_writer_refuses(void **state)
{
    (void)state;
    struct rows_writer *w;
    struct err e = {0};
    assert_int_equal(rows_create(&w, FILE_ANYWHERE, path, &shapes[0], 1000, &e),
                     TUG_EUSAGE);
    assert_non_null(strstr(e.text, "level 1000"));
    assert_int_equal(rows_create(&w, FILE_ANYWHERE, path, &shapes[0], -1, &e),
                     TUG_EUSAGE);
    struct content c = {.shape = shapes[0]};
    add_rows(&c, ROWS_ROW, 1, 10, 2, 1);
    struct rows_block good[2] = {c.blocks[0], c.blocks[1]};
    c.blocks[0] = good[1], c.blocks[1] = good[0];
    refuse_write(&c, "out of place");
    c.blocks[0] = good[0], c.blocks[1] = good[1];
    c.blocks[1].partition = 0;
    refuse_write(&c, "partition 0 is written after 1");
    c.blocks[1].partition = 2;
    refuse_write(&c, "out of place");
    c.blocks[1].partition = 4;
    refuse_write(&c, "a partition that does not exist");
    c.blocks[1].partition = 1;
    c.blocks[1].width = 2;
    refuse_write(&c, "another width");
    c.blocks[1].width = 0;
    c.blocks[1].kind = ROWS_GONE;
    refuse_write(&c, "out of order");
    c.blocks[1].kind = ROWS_EXTRA;
    refuse_write(&c, "extra rows");
    c.blocks[1].kind = ROWS_ROW;
    content_free(&c);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct content c = some_content(shapes[3], 50);
    struct rows_info info;
    struct err e = {0};
    size_t live = mem_live();
    for (long n = 0;; n++) {
        mem_fault_after(n);
        int rc = write_content(&c, path, 1, &info, &e);
        if (!mem_faulted())
            break;
        assert_int_equal(rc, TUG_ENOMEM);
        assert_int_equal(mem_live(), live);
    }
    for (long n = 0;; n++) {
        mem_fault_after(n);
        int rc = read_all(path, &info, &e);
        if (!mem_faulted())
            break;
        assert_int_equal(rc, TUG_ENOMEM);
        assert_int_equal(mem_live(), live);
    }
    mem_fault_after(-1);
    check_content(&c, path, &info);
    content_free(&c);
}

static void test_disk_fails(void **state)
{
    (void)state;
    struct content c = {.shape = {.width = 30}};
    add_rows(&c, ROWS_ROW, 0, 10000, 3, 1);
    struct rows_info info;
    struct err e = {0};
    size_t live = mem_live();
    (void)unlink(path);
    long n = 0;
    for (;; n++) {
        disk_fault_after(n, ENOSPC);
        int rc = write_content(&c, path, 0, &info, &e);
        if (!disk_faulted())
            break;
        assert_int_equal(rc, TUG_EIO);
        assert_non_null(strstr(e.text, "No space left on device"));
        assert_int_equal(mem_live(), live);
        assert_int_equal(unlink(path),
                         -1 + (n == 7)); // only the last failure, in the fsync of the
                                         // directory, leaves the file
    }
    assert_int_equal(n, 8);
    disk_fault_after(-1, 0);
    check_content(&c, path, &info);
    content_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_compressed_is_smaller),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_stops),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_flipped_bytes),
        cmocka_unit_test(test_another_file),
        cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_forged_heads),
        cmocka_unit_test(test_forged_blocks),
        cmocka_unit_test(test_forged_keys),
        cmocka_unit_test(test_writer_refuses),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_disk_fails),
    };
    return cmocka_run_group_tests(tests, make_dir, files_end);
}
