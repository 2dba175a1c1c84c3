// See loops.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/loops.h"

#include <string.h>

#include "base/random.h"
#include "kit/test.h"

static const struct shard_options loop_slices = {.slice_ns = 1, .without_threads = true};

struct lone *loop_open(uint32_t i, uint32_t n, const char *config)
{
    struct lone *w = lone_open_shard(BITS, &loop_slices);
    for (uint32_t p = 0; p < PARTITIONS; p++)
        w->mine[p] = p % n == i;
    w->epoch = 1;
    lone_send_roster(w);
    for (uint32_t k = 0; k < WORKERS; k++)
        lone_open_worker(w, k);
    lone_forget(w);
    struct msg_table m = {.table = T, .epoch = w->epoch, .config = wire_text(config)};
    lone_deliver(w, WORKER_LINK, MSG_TABLE, ++w->next_request, &m);
    lone_expect_ok(w);
    w->live = SIZE_MAX; // several loops are open, so allocations of one cannot be counted
    return w;
}

struct shard_table *loop_table(struct lone *w)
{
    return w->shard->tables[T];
}

uint32_t loop_partition(const struct lone *w, uint64_t key)
{
    return roster_partition(w->shard->bits, w->shard->tables[T]->spec.space, key);
}

// The rows of a partition as bytes: the keys, the rows without the handles of their extra
// rows, and the extra rows.
struct dump {
    struct buf bytes;
    const struct accessor *accessor;
    size_t rows;
};

static int dump_row(void *ctx, uint64_t key, const float *row, const float *extra,
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

static struct dump loop_dump(struct lone *w, uint32_t partition)
{
    struct store *s = loop_table(w)->store;
    struct dump d = {.bytes = BUF_INIT(1 << 24), .accessor = store_accessor(s)};
    assert_int_equal(store_each(s, partition, dump_row, &d, NULL), 0);
    return d;
}

size_t loops_check_same(struct lone *a, struct lone *b)
{
    size_t rows = 0;
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        if (!b->mine[p])
            continue;
        struct dump x = loop_dump(a, p), y = loop_dump(b, p);
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

uint64_t loop_key(uint64_t i)
{
    return random_u64(7, 0, i) ^ (i % 3 == 0 ? i : 0);
}

static float gradient(uint64_t draw, uint64_t key, uint32_t column)
{
    return (float)random_below(8, draw, key * 64 + column, 2001) / 1000 - 1;
}

void loop_draw_values(const struct accessor *a, uint64_t draw, uint64_t key, float *to)
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

void loop_draw_batch(struct lone *w, uint64_t draw, struct loop_batch *b)
{
    const struct accessor *a = store_accessor(loop_table(w)->store);
    *b = (struct loop_batch){.width = a->push_width};
    assert_true(b->width <= 32);
    for (uint32_t p = 0; p < PARTITIONS; p++)
        for (uint64_t i = 0; i < KEYS; i++) {
            if (loop_partition(w, loop_key(i)) != p || random_below(11, draw, i, 3) != 0)
                continue;
            b->keys[b->n] = loop_key(i);
            loop_draw_values(a, draw, i, b->values + (size_t)b->n++ * b->width);
        }
}

// Sets *ret to the part of a batch that belongs to this loop.
static void part_of(struct lone *w, const struct loop_batch *b, struct loop_batch *ret)
{
    ret->width = b->width;
    ret->n = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        if (!w->mine[loop_partition(w, b->keys[i])])
            continue;
        ret->keys[ret->n] = b->keys[i];
        memcpy(ret->values + (size_t)ret->n++ * b->width,
               b->values + (size_t)i * b->width, b->width * sizeof(float));
    }
}

void loop_push_with(struct lone *w, const struct loop_batch *b, uint32_t worker,
                    uint64_t clock, uint32_t micro, uint32_t micros, uint8_t flags)
{
    static struct loop_batch part;
    part_of(w, b, &part);
    struct msg_push m = lone_push_of(w, worker, T, part.keys, part.n, part.values,
                                     part.width);
    m.flags |= flags;
    m.clock = clock;
    m.micro = (uint8_t)micro;
    m.micros = (uint8_t)micros;
    m.examples = 3 * micros;
    lone_send_push(w, worker, &m);
    lone_expect_ok(w);
    lone_send_push(w, worker, &m); // repeats the push, which the shard ignores
    lone_expect_ok(w);
}

void loop_push(struct lone *w, const struct loop_batch *b, uint32_t worker,
               uint64_t clock, uint32_t micro, uint32_t micros)
{
    loop_push_with(w, b, worker, clock, micro, micros, 0);
}

uint64_t loop_admin(struct lone *w, enum wire_admin what, float threshold, uint64_t clock)
{
    uint64_t number = ++w->next_request;
    struct msg_table_do m = {.table = T,
                             .what = (uint8_t)what,
                             .clock = clock,
                             .threshold = threshold,
                             .number = number,
                             .low = number > 8 ? number - 8 : 1};
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, number, &m);
    for (int i = 0; i < 1000 && w->sent == NULL; i++)
        lone_pass_time(w, 1000);
    uint64_t value = lone_expect_ok(w);
    // Sends the operation again; the shard does not do it twice.
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, number, &m);
    assert_int_equal(lone_expect_ok(w), value);
    return value;
}

void loop_step(struct lone *w, uint32_t worker, uint64_t steps, uint64_t global)
{
    struct msg_step m = {
        .epoch = w->epoch, .session = lone_session(worker), .steps = steps};
    lone_deliver(w, WORKER_LINK + worker, MSG_STEP, ++w->next_request, &m);
    assert_int_equal(lone_expect_ok(w), global);
}
