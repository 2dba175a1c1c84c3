// For tests of the tables of shards: loops that share the partitions of a
// table, batches of pushes, and rows as bytes to be compared.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_STORES_TESTING_H
#define TUG_SERVER_STORES_TESTING_H

#include <math.h>

#include "server/shard_testing.h"

enum {
    BITS = 4,
    PARTITIONS = 1 << BITS,
    KEYS = 400,
    T = 5,
    LOOPS = 3,
    MICROS = SHARD_MICROS
};

static const struct shard_options slices = {.slice_ns = 1, .without_threads = true};

// A shard that owns the partitions that are `i` modulo n.
static inline struct world *open_loop(uint32_t i, uint32_t n, const char *config)
{
    struct world *w = world_open_shard(BITS, &slices);
    for (uint32_t p = 0; p < PARTITIONS; p++)
        w->mine[p] = p % n == i;
    w->epoch = 1;
    send_roster(w);
    for (uint32_t k = 0; k < WORKERS; k++)
        open_worker(w, k);
    forget_sent(w);
    struct msg_table m = {.table = T, .config = wire_text(config)};
    deliver(w, WORKER_LINK, MSG_TABLE, ++w->next_request, &m);
    expect_ok(w);
    w->live = SIZE_MAX; // several are open
    return w;
}

static inline struct shard_table *table_of(struct world *w)
{
    return w->shard->tables[T];
}

static inline uint32_t partition_of(const struct world *w, uint64_t key)
{
    return tables_partition(w->shard, w->shard->tables[T], key);
}

// Rows of a partition as bytes: keys, rows without the handles of their extra rows, and
// these.
struct dump {
    struct buf bytes;
    const struct accessor *accessor;
    size_t rows;
};

static inline int dump_row(void *ctx, uint64_t key, const float *row, const float *extra,
                           struct err *e)
{
    struct dump *d = ctx;
    const struct accessor *a = d->accessor;
    (void)e;
    d->rows++;
    buf_add(&d->bytes, &key, sizeof(key));
    for (uint32_t c = 0; c < a->width; c++) {
        float x = a->extra_width > 0 && c == a->extra ? (float)(extra != NULL) : row[c];
        buf_add(&d->bytes, &x, sizeof(x));
    }
    if (extra != NULL)
        buf_add(&d->bytes, extra, a->extra_width * sizeof(float));
    return 0;
}

static inline struct dump dump(struct world *w, uint32_t partition)
{
    struct store *s = table_of(w)->store;
    struct dump d = {.bytes = BUF_INIT(1 << 24), .accessor = store_accessor(s)};
    assert_int_equal(store_each(s, partition, dump_row, &d, NULL), 0);
    return d;
}

static inline size_t check_same(struct world *a, struct world *b)
{
    size_t rows = 0;
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        if (!b->mine[p])
            continue;
        struct dump x = dump(a, p), y = dump(b, p);
        assert_int_equal(x.rows, y.rows);
        assert_int_equal(x.bytes.len, y.bytes.len);
        if (x.bytes.len > 0)
            assert_memory_equal(x.bytes.data, y.bytes.data, x.bytes.len);
        rows += x.rows;
        buf_free(&x.bytes);
        buf_free(&y.bytes);
    }
    return rows;
}

// Keys and values of a push, by ascending partition.
struct batch {
    uint64_t keys[KEYS];
    float values[KEYS * 32];
    uint32_t n, width;
};

static inline uint64_t key_of(uint64_t i)
{
    return random_u64(7, 0, i) ^ (i % 3 == 0 ? i : 0);
}

static inline float gradient(uint64_t draw, uint64_t key, uint32_t column)
{
    return (float)random_below(8, draw, key * 64 + column, 2001) / 1000 - 1;
}

// Values of a key of the batch of that number: gradients, then show, click and slot.
static inline void draw_values(const struct accessor *a, uint64_t draw, uint64_t key,
                               float *to)
{
    uint32_t stats = a->pushed_stats;
    for (uint32_t c = 0; c < a->push_width - stats; c++)
        to[c] = gradient(draw, key, c);
    float *s = to + a->push_width - stats;
    for (uint32_t c = 0; c < stats; c++)
        s[c] = c == 0   ? (float)(1 + random_below(9, draw, key, 3))
               : c == 1 ? (float)random_below(10, draw, key, 2)
                        : (float)(key % 5);
}

static inline void draw_batch(struct world *w, uint64_t draw, struct batch *b)
{
    const struct accessor *a = store_accessor(table_of(w)->store);
    *b = (struct batch){.width = a->push_width};
    assert_true(b->width <= 32);
    for (uint32_t p = 0; p < PARTITIONS; p++)
        for (uint64_t i = 0; i < KEYS; i++) {
            if (partition_of(w, key_of(i)) != p || random_below(11, draw, i, 3) != 0)
                continue;
            b->keys[b->n] = key_of(i);
            draw_values(a, draw, i, b->values + (size_t)b->n++ * b->width);
        }
}

// The part of a batch that is a loop's.
static inline void part_of(struct world *w, const struct batch *b, struct batch *ret)
{
    ret->width = b->width;
    ret->n = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        if (!w->mine[partition_of(w, b->keys[i])])
            continue;
        ret->keys[ret->n] = b->keys[i];
        memcpy(ret->values + (size_t)ret->n++ * b->width,
               b->values + (size_t)i * b->width, b->width * sizeof(float));
    }
}

static inline void push_with(struct world *w, const struct batch *b, uint32_t worker,
                             uint64_t clock, uint32_t micro, uint32_t micros,
                             uint8_t flags)
{
    static struct batch part;
    part_of(w, b, &part);
    struct msg_push m = push_of(w, worker, T, part.keys, part.n, part.values, part.width);
    m.flags |= flags;
    m.clock = clock;
    m.micro = (uint8_t)micro;
    m.micros = (uint8_t)micros;
    m.examples = 3 * micros;
    send_push(w, worker, &m);
    expect_ok(w);
    send_push(w, worker, &m); // once more: nothing happens
    expect_ok(w);
}

static inline void push_to(struct world *w, const struct batch *b, uint32_t worker,
                           uint64_t clock, uint32_t micro, uint32_t micros)
{
    push_with(w, b, worker, clock, micro, micros, 0);
}

static inline uint64_t order(struct world *w, enum wire_order what, float threshold,
                             uint64_t clock)
{
    uint64_t number = ++w->next_request;
    struct msg_table_do m = {.table = T,
                             .what = (uint8_t)what,
                             .clock = clock,
                             .threshold = threshold,
                             .number = number,
                             .low = number > 8 ? number - 8 : 1};
    deliver(w, WORKER_LINK, MSG_TABLE_DO, number, &m);
    for (int i = 0; i < 1000 && w->sent == NULL; i++)
        pass_time(w, 1000);
    uint64_t value = expect_ok(w);
    deliver(w, WORKER_LINK, MSG_TABLE_DO, number, &m); // once more: it is not obeyed
    assert_int_equal(expect_ok(w), value);
    return value;
}

static inline void step(struct world *w, uint32_t worker, uint64_t steps, uint64_t global)
{
    struct msg_step m = {.session = session_of_worker(worker), .steps = steps};
    deliver(w, WORKER_LINK + worker, MSG_STEP, ++w->next_request, &m);
    assert_int_equal(expect_ok(w), global);
}

#endif
