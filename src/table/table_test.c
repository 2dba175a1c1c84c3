// Compares tables with a naive model: rows are found, made and erased while the table
// grows, with and without threads, without memory, and with keys whose hashes collide.
//
// SPDX-License-Identifier: Apache-2.0
#include "table/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/relaxed.h"
#include "kit/test.h"
#include "os/team.h"

static const struct table_options narrow = {
    .seed = 7,
    .id = 1,
    .width = 2,
    .partition_bits = 5,
    .n_inits = 1,
    .inits = {{.begin = 0, .count = 2, .low = -1, .high = 1}},
};

static struct table *open_table(const struct table_options *o)
{
    struct table *t;
    struct err e = {0};
    if (table_open(&t, o, &e) != 0)
        fail_msg("%s", e.text);
    return t;
}

static uint32_t find_one(struct table *t, uint64_t key)
{
    uint32_t handle;
    table_find(t, &key, 1, &handle);
    return handle;
}

static uint32_t row_of(struct table *t, uint64_t key)
{
    uint32_t handle;
    assert_int_equal(table_rows(t, &key, 1, &handle), 0);
    return handle;
}

// Inverts one step of mix64, to find the key for a chosen hash.
static uint64_t unshift(uint64_t x, uint32_t by)
{
    uint64_t y = x;
    for (uint32_t done = by; done < 64; done += by)
        y = x ^ (y >> by);
    return y;
}

static uint64_t inverse(uint64_t odd)
{
    uint64_t x = odd;
    for (int i = 0; i < 6; i++)
        x *= 2 - odd * x;
    return x;
}

static uint64_t key_of_hash(uint64_t hash)
{
    uint64_t x = unshift(hash, 31) * inverse(0x94d049bb133111ebull);
    return unshift(unshift(x, 27) * inverse(0xbf58476d1ce4e5b9ull), 30);
}

// The naive model: whether each key has a row, and the row's value.
enum { KEYS = 60000, BATCH = 700, ROUNDS = 1500 };

struct model {
    uint64_t key[KEYS];
    uint32_t handle[KEYS]; // handle of each key's row; TABLE_NONE if the key has no row
    float value[KEYS];
    size_t rows;
};

static struct model *model_make(void)
{
    struct model *m = mem_zalloc(sizeof(*m));
    assert_non_null(m);
    for (uint32_t i = 0; i < KEYS; i++) {
        // The first key is 0.
        m->key[i] = mix64(i) * (i % 3 == 0 ? 1 : i);
        m->handle[i] = TABLE_NONE;
    }
    m->key[1] = UINT64_MAX;
    return m;
}

struct draw {
    uint32_t which[BATCH];
    uint64_t key[BATCH];
    uint32_t handle[BATCH];
};

// Draws a batch of keys, some of them twice. The set from which keys are drawn
// grows from round to round.
static void draw_batch(const struct model *m, uint32_t round, struct draw *d)
{
    uint32_t known = 100 + (KEYS - 100) / ROUNDS * round;
    for (uint32_t i = 0; i < BATCH; i++) {
        d->which[i] = (uint32_t)random_below(1, round, i, known);
        if (i % 16 == 5)
            d->which[i] = d->which[i - 1];
        d->key[i] = m->key[d->which[i]];
    }
}

static void check_rows(struct table *t, struct model *m, const struct draw *d)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        uint32_t k = d->which[i];
        float *row = table_row(table_slabs(t), d->handle[i]);
        float first[2];
        assert_int_equal(table_row_key(row), d->key[i]);
        if (m->handle[k] == TABLE_NONE) {
            table_first_values(t, d->key[i], first);
            assert_memory_equal(row, first, sizeof(first));
            m->handle[k] = d->handle[i];
            m->value[k] = (float)k;
            m->rows++;
            row[1] = (float)k;
        }
        assert_int_equal(d->handle[i], m->handle[k]);
        assert_true(row[1] == m->value[k]);
    }
}

static size_t model_erase(struct model *m, const struct draw *d)
{
    size_t gone = 0;
    for (uint32_t i = 0; i < BATCH; i++) {
        gone += m->handle[d->which[i]] != TABLE_NONE;
        m->handle[d->which[i]] = TABLE_NONE;
    }
    m->rows -= gone;
    return gone;
}

static void check_all(struct table *t, const struct model *m)
{
    for (uint32_t i = 0; i < KEYS; i++)
        assert_int_equal(find_one(t, m->key[i]), m->handle[i]);
    assert_int_equal(table_stats(t).rows, m->rows);
}

static void test_model(void **state)
{
    (void)state;
    struct table *t = open_table(&narrow);
    struct model *m = model_make();
    struct draw d;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        draw_batch(m, round, &d);
        uint64_t what = random_below(2, 0, round, 10);
        if (what == 0) {
            assert_int_equal(table_erase(t, d.key, BATCH), model_erase(m, &d));
        } else if (what < 4) {
            table_find(t, d.key, BATCH, d.handle);
            for (uint32_t i = 0; i < BATCH; i++)
                assert_int_equal(d.handle[i], m->handle[d.which[i]]);
        } else {
            assert_int_equal(table_rows(t, d.key, BATCH, d.handle), 0);
            check_rows(t, m, &d);
        }
        if (round % 500 == 0)
            check_all(t, m);
    }
    check_all(t, m);
    assert_true(table_stats(t).index_moves > 2 * KEYS); // the index has grown several
                                                        // times
    mem_free(m);
    table_close(t);
}

// Inserts the smallest and the largest key, in both orders, into an empty table.
static void test_extreme_keys(void **state)
{
    (void)state;
    struct table *t = open_table(&narrow);
    uint64_t keys[4] = {UINT64_MAX, 0, 0, UINT64_MAX};
    uint32_t h[4];
    table_find(t, keys, 4, h);
    for (int i = 0; i < 4; i++)
        assert_int_equal(h[i], TABLE_NONE);
    assert_int_equal(table_rows(t, keys, 4, h), 0);
    assert_int_equal(h[0], h[3]);
    assert_int_equal(h[1], h[2]);
    assert_int_not_equal(h[0], h[1]);
    assert_int_equal(table_erase(t, keys, 4), 2);
    assert_int_equal(find_one(t, 0), TABLE_NONE);
    assert_int_equal(table_stats(t).rows, 0);
    table_close(t);
}

static void test_first_values(void **state)
{
    (void)state;
    struct table_options o = {
        .seed = 3,
        .id = 9,
        .width = 6,
        .n_inits = 2,
        .inits = {{.begin = 1, .count = 2, .low = 0.5f, .high = 0.5f},
                  {.begin = 3, .count = 2, .low = -2, .high = 3}},
    };
    struct table *t = open_table(&o);
    float sum = 0, first[6];
    for (uint64_t key = 0; key < 2000; key++) {
        const float *row = table_row(table_slabs(t), row_of(t, key * 77));
        table_first_values(t, key * 77, first);
        assert_memory_equal(row, first, sizeof(first));
        assert_true(row[0] == 0 && row[1] == 0.5f && row[2] == 0.5f && row[5] == 0);
        assert_true(row[3] >= -2 && row[3] < 3 && row[3] != row[4]);
        sum += row[3];
    }
    assert_true(sum / 2000 > 0.4f && sum / 2000 < 0.6f);
    table_close(t);
    // With another table id the random numbers differ. With the same id they are equal,
    // in whatever order the keys come.
    float other[6];
    o.id = 10;
    t = open_table(&o);
    table_first_values(t, 1999 * 77, other);
    assert_memory_not_equal(first, other, sizeof(first));
    table_close(t);
    o.id = 9;
    t = open_table(&o);
    assert_memory_equal(table_row(table_slabs(t), row_of(t, 1999 * 77)), first,
                        sizeof(first));
    table_close(t);
}

static void test_shapes(void **state)
{
    (void)state;
    static const struct {
        uint32_t width, align;
    } shapes[] = {{0, 0},    {1, 0},      {14, 64},   {15, 64},
                  {3, 4096}, {1000, 256}, {70000, 8}, {TABLE_MAX_WIDTH, 0}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct table_options o = {.width = shapes[i].width, .align = shapes[i].align};
        struct table *t = open_table(&o);
        uint32_t align = table_options(t)->align;
        uint64_t keys = o.width < 1000 ? 5000 : o.width < TABLE_MAX_WIDTH ? 40 : 3;
        for (uint64_t key = 0; key < keys; key++) {
            float *row = table_row(table_slabs(t), row_of(t, key));
            assert_int_equal(((uintptr_t)row - 8) % align, 0);
            if (o.width > 0)
                row[0] = row[o.width - 1] = (float)key;
        }
        for (uint64_t key = 0; key < keys; key++) {
            const float *row = table_row(table_slabs(t), find_one(t, key));
            assert_int_equal(table_row_key(row), key);
            assert_true(o.width == 0 || row[o.width - 1] == (float)key);
        }
        table_close(t);
    }
}

static void test_bad_options(void **state)
{
    (void)state;
    struct table_options bad[8];
    for (int i = 0; i < 8; i++)
        bad[i] = narrow;
    bad[0].width = TABLE_MAX_WIDTH + 1;
    bad[1].align = 24;
    bad[2].align = 8192;
    bad[3].partition_bits = 17;
    bad[4].n_inits = TABLE_MAX_INITS + 1;
    bad[5].inits[0].count = 3;
    bad[6].inits[0].high = -2;
    bad[7].inits[0].low = -3e38f, bad[7].inits[0].high = 3e38f;
    for (int i = 0; i < 8; i++) {
        struct table *t;
        struct err e = {0};
        assert_int_equal(table_open(&t, &bad[i], &e), TUG_EUSAGE);
        assert_true(strlen(e.text) > 20);
    }
}

static int by_partition(uint64_t a, uint64_t b, uint32_t bits)
{
    uint64_t pa = bits > 0 ? mix64(a) >> (64 - bits) : 0;
    uint64_t pb = bits > 0 ? mix64(b) >> (64 - bits) : 0;
    return pa != pb ? pa < pb : a < b;
}

static void check_sorted(struct table *t, uint32_t first, uint32_t n, size_t expect)
{
    uint32_t bits = table_options(t)->partition_bits;
    struct table_entry *x;
    size_t rows;
    struct err e = {0};
    assert_int_equal(table_sorted(t, first, n, &x, &rows, &e), 0);
    assert_int_equal(rows, expect);
    for (size_t i = 0; i < rows; i++) {
        uint64_t p = bits > 0 ? mix64(x[i].key) >> (64 - bits) : 0;
        assert_true(p >= first && p < first + n);
        assert_int_equal(find_one(t, x[i].key), x[i].handle);
        if (i > 0)
            assert_true(by_partition(x[i - 1].key, x[i].key, bits));
    }
    mem_free(x);
}

static void test_sorted_and_scan(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits <= 16; bits += 8) {
        struct table_options o = {.partition_bits = bits, .width = 1};
        struct table *t = open_table(&o);
        enum { N = 20000 };
        size_t low = 0, rows = 0;
        for (uint64_t i = 0; i < N; i++) {
            uint64_t key = i % 2 ? i : mix64(i);
            row_of(t, key);
            if (i % 5 == 0) {
                table_erase(t, &key, 1);
                continue;
            }
            rows++;
            low += bits > 0 && mix64(key) >> 63 == 0;
        }
        check_sorted(t, 0, 1u << bits, rows);
        if (bits > 0)
            check_sorted(t, 0, 1u << (bits - 1), low);
        uint32_t h[77];
        uint64_t cursor = 0;
        size_t seen = 0;
        for (size_t n; (n = table_scan(t, &cursor, h, 77)) > 0; seen += n)
            for (size_t i = 0; i < n; i++)
                assert_int_equal(
                    find_one(t, table_row_key(table_row(table_slabs(t), h[i]))), h[i]);
        assert_int_equal(seen, rows);
        struct table_entry *x;
        struct err e = {0};
        assert_int_equal(table_sorted(t, 1, 1u << bits, &x, &seen, &e), TUG_EUSAGE);
        table_close(t);
    }
}

static void test_clone(void **state)
{
    (void)state;
    struct table *t = open_table(&narrow);
    for (uint64_t key = 0; key < 5000; key++)
        table_row(table_slabs(t), row_of(t, key))[1] = (float)key;
    for (uint64_t key = 0; key < 5000; key += 3)
        table_erase(t, &key, 1);
    struct table *copy;
    struct err e = {0};
    assert_int_equal(table_clone(&copy, t, &e), 0);
    assert_int_equal(table_stats(copy).rows, table_stats(t).rows);
    for (uint64_t key = 0; key < 5000; key++) {
        uint32_t a = find_one(t, key), b = find_one(copy, key);
        assert_int_equal(a == TABLE_NONE, b == TABLE_NONE);
        if (a != TABLE_NONE)
            assert_memory_equal(table_row(table_slabs(t), a),
                                table_row(table_slabs(copy), b), 8);
    }
    table_close(t);
    table_close(copy);
}

// All keys hash to one line of the index, or are dense in one stripe. Inserts still
// succeed, and the number of moves per insert stays bounded.
static void test_collisions(void **state)
{
    (void)state;
    static const struct {
        uint64_t hash, step;
    } fills[] = {
        {0x0000000000000000ull, 1},          // the first line
        {0x0000ffffffff0000ull, 1},          // the last line: all keys spill over the end
        {0x00007fffffff0000ull, 1},          // a line in the middle
        {0x3000000000000000ull, 1ull << 32}, // a dense run from the beginning of a stripe
    };
    enum { N = SANITIZED ? 2000 : 6000 };
    for (size_t f = 0; f < sizeof(fills) / sizeof(fills[0]); f++) {
        struct table *t = open_table(&narrow);
        for (uint64_t i = 0; i < N; i++)
            row_of(t, key_of_hash(fills[f].hash + i * fills[f].step));
        for (uint64_t i = 0; i < N; i += 2) {
            uint64_t key = key_of_hash(fills[f].hash + i * fills[f].step);
            assert_int_equal(table_erase(t, &key, 1), 1);
        }
        // The index grows by other keys, so the entries of the first keys move several
        // times.
        for (uint64_t i = 0; i < N; i++) {
            row_of(t, key_of_hash(mix64(i + 1) >> 4));
            uint64_t key = key_of_hash(fills[f].hash + i * fills[f].step);
            assert_int_equal(find_one(t, key) == TABLE_NONE, i % 2 == 0);
        }
        assert_int_equal(table_stats(t).rows, N / 2 + N);
        assert_true(table_stats(t).index_max_moves < 36);
        table_close(t);
    }
}

// Checks the bytes per key and the moves per insert while the table doubles. Under
// sanitizers the test uses fewer keys and does not check the bytes, because with few keys
// half-empty slabs matter more.
static void test_memory(void **state)
{
    (void)state;
    enum { N = SANITIZED ? 100000 : 1000000, STEP = 10000 };
    struct table_options o = {.width = 2};
    struct table *t = open_table(&o);
    static uint64_t keys[STEP];
    static uint32_t h[STEP];
    double sum = 0, worst = 0, samples = 0;
    for (uint64_t at = 0; at < N; at += STEP) {
        for (uint64_t i = 0; i < STEP; i++)
            keys[i] = at + i;
        assert_int_equal(table_rows(t, keys, STEP, h), 0);
        struct table_stats s = table_stats(t);
        double bytes = (double)(s.row_bytes + s.index_bytes) / (double)s.rows;
        if (s.rows <= N / 2)
            continue;
        sum += bytes;
        samples++;
        worst = bytes > worst ? bytes : worst;
    }
    struct table_stats s = table_stats(t);
    print_message("bytes per key: mean %.2f, worst %.2f; moves per insert: mean %.2f, "
                  "most %llu\n",
                  sum / samples, worst, (double)s.index_moves / (double)s.inserts,
                  (unsigned long long)s.index_max_moves);
    assert_true(SANITIZED || sum / samples <= 4 * o.width + 16);
    assert_true(SANITIZED || worst <= 4 * o.width + 24);
    assert_true(s.index_max_moves < 36);
    table_close(t);
}

// Adds the keys of partitions, one partition after the other, each announced
// by table_reserve_partition if `announced` is true. Returns how many
// entries were moved per key.
static double moves_of(uint32_t bits, uint32_t mine, uint32_t of, uint32_t partitions,
                       bool announced)
{
    enum { N = 400000, STEP = 1000 };
    struct table_options o = {.width = 2, .partition_bits = bits};
    struct table *t = open_table(&o);
    static uint64_t keys[STEP];
    static uint32_t h[STEP];
    for (uint32_t p = 0; p < partitions; p++) {
        uint32_t n = 0;
        if (announced)
            table_reserve_partition(t, p, N >> bits, mine, of);
        for (uint64_t key = 0; key <= N; key++) {
            if (n == STEP || key == N) {
                assert_int_equal(table_rows(t, keys, n, h), 0);
                n = 0;
            }
            if (key < N && table_partition(mix64(key), bits) == p)
                keys[n++] = key;
        }
    }
    struct table_stats s = table_stats(t);
    for (uint64_t key = 0; key < N; key++)
        assert_true((find_one(t, key) != TABLE_NONE) ==
                    (table_partition(mix64(key), bits) < partitions));
    assert_true(s.index_bytes <= 24 * s.rows + 64 * 1024);
    table_close(t);
    return (double)s.index_moves / (double)s.rows;
}

static void test_reserve_partitions(void **state)
{
    (void)state;
    assert_true(moves_of(3, 1, 2, 4, true) == 0);   // each partition has whole stripes
    assert_true(moves_of(6, 1, 4, 16, true) < 1.6); // all partitions of four stripes
    assert_true(moves_of(6, 1, 4, 16, false) > 3);
    assert_true(moves_of(6, 1, 1, 64, true) < 0.5);
    assert_true(moves_of(6, 3, 3, 16, true) < 0.5);
}

// If room for all keys was reserved, the index does not grow. Without a
// reservation it grows in steps.
static void test_reserve(void **state)
{
    (void)state;
    enum { N = SANITIZED ? 20000 : 200000, STEP = 1000, BITS = 6 };
    struct table_options o = {.width = 2};
    static uint64_t keys[STEP];
    static uint32_t h[STEP];
    uint64_t all = N, none = 0, each[1 << BITS];
    for (int i = 0; i < 1 << BITS; i++)
        each[i] = N >> BITS;
    const uint64_t *rows[] = {&all, each, &none};
    for (int k = 0; k < 3; k++) {
        struct table *t = open_table(&o);
        table_reserve(t, rows[k], rows[k] == each ? BITS : 0);
        uint64_t bytes = table_stats(t).index_bytes;
        for (uint64_t at = 0; at < N; at += STEP) {
            for (uint64_t i = 0; i < STEP; i++)
                keys[i] = at + i;
            assert_int_equal(table_rows(t, keys, STEP, h), 0);
            table_reserve(t, &all, 0); // the table is not empty, so this does nothing
        }
        for (uint64_t i = 0; i < N; i++)
            assert_true(find_one(t, i) != TABLE_NONE);
        struct table_stats s = table_stats(t);
        assert_int_equal(s.rows, N);
        assert_int_equal(s.index_moves == 0, rows[k] != &none);
        assert_int_equal(s.index_bytes == bytes, rows[k] != &none);
        table_close(t);
    }
}

// The memory of an erased row is not reused while a reader that was pinned before the
// erase is still pinned. After its unpin the memory is reused.
static void test_reuse(void **state)
{
    (void)state;
    struct table *t = open_table(&narrow);
    struct table_reader *old, *young;
    struct err e = {0};
    assert_int_equal(table_reader_open(&old, t, &e), 0);
    assert_int_equal(table_reader_open(&young, t, &e), 0);
    uint64_t key = 5;
    uint32_t handle = row_of(t, key);
    table_pin(old);
    assert_int_equal(find_one(t, key), handle);
    assert_int_equal(table_erase(t, &key, 1), 1);
    // This reader was pinned after the erase, so it does not delay the reuse.
    table_pin(young);
    // Makes more rows than a chunk has, with keys of the same stripe as `key`.
    uint64_t stripe = mix64(key) & 0xf000000000000000ull;
    for (uint64_t i = 0; i < 300; i++)
        assert_int_not_equal(row_of(t, key_of_hash(stripe + i)), handle);
    assert_int_equal(table_row_key(table_row(table_slabs(t), handle)), key);
    table_unpin(old);
    assert_int_equal(row_of(t, key_of_hash(stripe + 300)), handle);
    table_unpin(young);
    table_reader_close(old);
    table_reader_close(young);
    table_close(t);
}

// Memory of erased rows is used again: a table whose rows are made and erased all the
// time does not grow.
static void test_churn(void **state)
{
    (void)state;
    struct table *t = open_table(&narrow);
    enum { N = 3000 };
    uint64_t keys[N];
    uint32_t h[N];
    uint64_t end = 0;
    for (uint64_t round = 0; round < 60; round++) {
        for (uint64_t i = 0; i < N; i++)
            keys[i] = round * N + i;
        assert_int_equal(table_rows(t, keys, N, h), 0);
        assert_int_equal(table_erase(t, keys, N), N);
        for (uint64_t i = 0; i < N; i++)
            end = h[i] >= end ? h[i] + 1ull : end;
    }
    assert_true(end < N * 2);
    table_close(t);
}

static void test_many_readers(void **state)
{
    (void)state;
    struct table *t = open_table(&narrow);
    static struct table_reader *r[TABLE_MAX_READERS];
    struct table_reader *more;
    struct err e = {0};
    for (int i = 0; i < TABLE_MAX_READERS; i++)
        assert_int_equal(table_reader_open(&r[i], t, &e), 0);
    assert_int_equal(table_reader_open(&more, t, &e), TUG_EUSAGE);
    for (int i = 0; i < TABLE_MAX_READERS; i++)
        table_reader_close(r[i]);
    table_reader_close(NULL);
    table_close(t);
}

// Each allocation fails once: the table stays valid, and no row is lost.
static void test_no_memory(void **state)
{
    (void)state;
    // Keys of one stripe, so that its index grows beyond its first pages.
    enum { N = 4000 };
    uint64_t *keys = mem_array(N, sizeof(*keys));
    uint32_t *h = mem_array(N, sizeof(*h));
    size_t before = mem_live();
    bool struck = true;
    for (uint32_t i = 0; i < N; i++)
        keys[i] = key_of_hash(mix64(i) >> 4);
    for (long n = 0; struck; n++) {
        struct table *t = NULL, *copy = NULL;
        struct table_reader *r = NULL;
        struct err e = {0};
        mem_fault_after(n);
        int rc = table_open(&t, &narrow, &e);
        if (rc == 0)
            rc = table_rows(t, keys, N, h);
        // Each key has no row, or a row of its own.
        if (t != NULL)
            for (uint32_t i = 0; i < N; i += 97)
                assert_true(h[i] == TABLE_NONE ||
                            table_row_key(table_row(table_slabs(t), h[i])) == keys[i]);
        if (rc == 0)
            table_erase(t, keys, 2000);
        if (rc == 0)
            rc = table_clone(&copy, t, &e);
        if (rc == 0)
            rc = table_reader_open(&r, t, &e);
        struck = mem_faulted();
        mem_fault_after(-1);
        assert_true(struck || rc == 0);
        assert_true(rc == 0 || rc == TUG_ENOMEM);
        if (t != NULL) { // the operation succeeds once memory is available
            assert_int_equal(table_rows(t, keys, N, h), 0);
            assert_int_equal(table_stats(t).rows, N);
        }
        table_reader_close(r);
        table_close(copy);
        table_close(t);
        assert_int_equal(mem_live(), before);
    }
    mem_free(keys);
    mem_free(h);
}

// Test of threads: each thread creates rows of shared keys and adds to its own column of
// each row. It also erases and creates rows of keys that only this thread changes.
enum { THREADS = 4, SHARED = 40000, OWN = 3000, STEP = 500 };

struct race {
    struct table *t;
    struct table_reader *reader[THREADS];
};

static void touch_shared(struct race *x, int rank, uint32_t at)
{
    uint64_t keys[STEP];
    uint32_t h[STEP];
    // The threads walk through the keys in different orders, so that each
    // creates some of the keys.
    for (uint32_t i = 0; i < STEP; i++)
        keys[i] = mix64((at + i) * (uint64_t)(2 * rank + 1) % SHARED);
    assert_int_equal(table_rows(x->t, keys, STEP, h), 0);
    for (uint32_t i = 0; i < STEP; i++) {
        float *row = table_row(table_slabs(x->t), h[i]);
        assert_int_equal(table_row_key(row), keys[i]);
        relaxed_store(row + rank, relaxed_load(row + rank) + 1);
    }
    table_find(x->t, keys, STEP, h);
    for (uint32_t i = 0; i < STEP; i++)
        assert_int_not_equal(h[i], TABLE_NONE);
}

static void churn_own(struct race *x, int rank, uint32_t round)
{
    uint64_t keys[STEP];
    uint32_t h[STEP];
    for (uint32_t i = 0; i < STEP; i++)
        keys[i] = ((uint64_t)rank + 1) << 40 | (round * STEP + i) % OWN;
    assert_int_equal(table_rows(x->t, keys, STEP, h), 0);
    for (uint32_t i = 0; i < STEP; i++) {
        float *row = table_row(table_slabs(x->t), h[i]);
        assert_int_equal(table_row_key(row), keys[i]);
        relaxed_store(row, (float)rank);
    }
    if (round % 2 == 0)
        assert_int_equal(table_erase(x->t, keys, STEP), STEP);
    table_find(x->t, keys, STEP, h);
    for (uint32_t i = 0; i < STEP; i++)
        assert_int_equal(h[i] == TABLE_NONE, round % 2 == 0);
}

// Searches keys whose rows another thread erases and creates. A row that is found must
// have the searched key.
static void watch_other(struct race *x, int rank)
{
    uint64_t keys[STEP];
    uint32_t h[STEP];
    uint64_t owner = (uint64_t)((rank + 1) % THREADS);
    for (uint32_t i = 0; i < STEP; i++)
        keys[i] = (owner + 1) << 40 | i;
    table_find(x->t, keys, STEP, h);
    for (uint32_t i = 0; i < STEP; i++)
        if (h[i] != TABLE_NONE)
            assert_int_equal(table_row_key(table_row(table_slabs(x->t), h[i])), keys[i]);
}

static void race(void *arg, int rank)
{
    struct race *x = arg;
    for (uint32_t at = 0, round = 0; at < SHARED; at += STEP, round++) {
        table_pin(x->reader[rank]);
        touch_shared(x, rank, at);
        churn_own(x, rank, round);
        watch_other(x, rank);
        table_unpin(x->reader[rank]);
    }
}

static void test_threads(void **state)
{
    (void)state;
    struct table_options o = {.width = THREADS};
    struct race x = {.t = open_table(&o)};
    struct err e = {0};
    struct team *team;
    assert_int_equal(team_open(&team, THREADS, &e), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(table_reader_open(&x.reader[i], x.t, &e), 0);
    team_run(team, race, &x);
    size_t sum = 0;
    for (uint64_t i = 0; i < SHARED; i++) {
        uint32_t h = find_one(x.t, mix64(i));
        if (h == TABLE_NONE)
            continue;
        for (int r = 0; r < THREADS; r++)
            sum += (size_t)table_row(table_slabs(x.t), h)[r];
    }
    // All additions are there: no row was made twice or lost in a move.
    assert_int_equal(sum, (size_t)THREADS * SHARED);
    assert_true(table_stats(x.t).index_moves > SHARED);
    for (int i = 0; i < THREADS; i++)
        table_reader_close(x.reader[i]);
    team_close(team);
    table_close(x.t);
}

// Under an emulator or valgrind, addresses may run out although no limit is set. The test
// gives a child process 16 GiB of addresses; four tables must leave some of them free.
static void test_few_addresses(void **state)
{
    (void)state;
    enum { TABLES = 4 };
    const size_t hole = (size_t)16 << 30, least = (size_t)16 << 20;
    if (SANITIZED)
        skip_because("a sanitizer, which needs the address space");
    pid_t pid = fork();
    if (pid == 0) {
        struct table *tables[TABLES];
        struct err e = {0};
        void *kept = mem_reserve(hole);
        for (size_t bytes = (size_t)1 << 46; bytes >= least; bytes /= 2)
            while (mem_reserve(bytes) != NULL)
                ;
        mem_unmap(kept, hole);
        for (int i = 0; i < TABLES; i++)
            if (table_open(&tables[i], &narrow, &e) != 0)
                _exit(1);
        _exit(mem_reserve(hole / 64) != NULL ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),         cmocka_unit_test(test_extreme_keys),
        cmocka_unit_test(test_first_values),  cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_bad_options),   cmocka_unit_test(test_sorted_and_scan),
        cmocka_unit_test(test_clone),         cmocka_unit_test(test_collisions),
        cmocka_unit_test(test_memory),        cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_churn),         cmocka_unit_test(test_many_readers),
        cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_threads),
        cmocka_unit_test(test_reserve),       cmocka_unit_test(test_reserve_partitions),
        cmocka_unit_test(test_few_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
