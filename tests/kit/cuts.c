// See cuts.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/cuts.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"

// ---------------------------------------------------------------- pushes

struct batch *batch_make(uint64_t universe)
{
    struct batch *b = mem_zalloc(sizeof(*b));
    assert_non_null(b);
    b->universe = universe;
    b->in = mem_zalloc(universe);
    b->values = mem_zalloc((size_t)BATCH_MAX * 2 * ROW_MAX * sizeof(float));
    assert_true(b->in != NULL && b->values != NULL);
    return b;
}

void batch_free(struct batch *b)
{
    mem_free(b->in);
    mem_free(b->values);
    mem_free(b);
}

static int compare_mixed(const void *a, const void *b)
{
    uint64_t x = mix64(*(const uint64_t *)a), y = mix64(*(const uint64_t *)b);
    return (x > y) - (x < y);
}

void batch_sort(struct batch *b)
{
    qsort(b->keys, b->n, sizeof(b->keys[0]), compare_mixed);
}

void batch_draw(struct batch *b, struct rng *d, size_t n)
{
    b->n = 0;
    for (size_t i = 0; i < n && i < BATCH_MAX; i++) {
        double u = random_f64(d->seed, 1, d->at++);
        uint64_t key = (uint64_t)(u * u * u * (double)b->universe);
        if (b->in[key] == 0)
            b->keys[b->n++] = key;
        b->in[key] = 1;
    }
    for (size_t i = 0; i < b->n; i++)
        b->in[b->keys[i]] = 0;
    batch_sort(b);
}

int batch_push(struct store *s, struct batch *b, struct rng *d, struct err *e)
{
    const struct accessor *a = store_accessor(s);
    float *to = b->values;
    for (size_t i = 0; i < b->n; i++) {
        for (uint32_t c = 0; c + a->pushed_stats < a->push_width; c++)
            *to++ = (float)rng_below(d, 2001) / 1000 - 1;
        // The statistics: show, click, slot.
        for (uint32_t c = 0; c < a->pushed_stats; c++)
            *to++ = c == 0 ? (float)(1 + rng_below(d, 3)) : (float)rng_below(d, 2);
        // Occurrences, and the sum of their squares. The tests work with any numbers
        // here.
        if (a->count != ACCESSOR_NO_COUNT) {
            to[-2] = (float)(1 + rng_below(d, 3));
            to[-1] = to[-2];
        }
    }
    struct store_push p = {.op = STORE_GRADIENT,
                           .keys = b->keys,
                           .n = b->n,
                           .values = b->values,
                           .rate = 1,
                           .scale = 1};
    return store_push(s, &p, NULL, e);
}

// ---------------------------------------------------------------- images of a store

struct image *image_make(void)
{
    struct image *x = mem_zalloc(sizeof(*x));
    assert_non_null(x);
    for (uint32_t i = 0; i < PARTS_MAX * KINDS; i++)
        x->of[i / KINDS][i % KINDS] = BUF_INIT(64 << 20);
    return x;
}

void image_free(struct image *x)
{
    for (uint32_t i = 0; i < PARTS_MAX * KINDS; i++)
        buf_free(&x->of[i / KINDS][i % KINDS]);
    mem_free(x);
}

void image_add(struct image *x, const struct rows_block *b)
{
    size_t bytes = b->kind == ROWS_PARTITION ? b->n : b->n * (8 + 4 * (size_t)b->width);
    assert_true(b->partition < PARTS_MAX && (uint32_t)b->kind < KINDS);
    OK(buf_add(&x->of[b->partition][b->kind], b->payload, bytes));
}

struct image_ctx {
    struct image *image;
    struct store *s;
    uint32_t partition;
    enum save_mode mode;
};

static bool is_published(const struct image_ctx *x)
{
    return x->mode == SAVE_BASE || x->mode == SAVE_DELTA;
}

static int image_row(void *ctx, uint64_t key, const float *row, const float *extra,
                     struct err *e)
{
    struct image_ctx *x = ctx;
    const struct accessor *a = store_accessor(x->s);
    const struct life_class *life = x->s->life;
    struct buf *of = x->image->of[x->partition];
    float copy[ROW_MAX];
    (void)e;
    if (is_published(x) && life->saved != NULL &&
        !life->saved(a, row, x->mode, store_time(x->s, x->partition)))
        return 0;
    memcpy(copy, row, a->width * sizeof(float));
    if (a->extra_width > 0)
        accessor_set_extra(a, copy, extra != NULL ? 0 : TABLE_NONE);
    if (is_published(x) && life->published != NULL)
        life->published(a, copy);
    OK(buf_add(&of[ROWS_ROW], &key, sizeof(key)));
    OK(buf_add(&of[ROWS_ROW], copy, a->width * sizeof(float)));
    if (extra == NULL)
        return 0;
    OK(buf_add(&of[ROWS_EXTRA], &key, sizeof(key)));
    OK(buf_add(&of[ROWS_EXTRA], extra, a->extra_width * sizeof(float)));
    return 0;
}

struct image *image_of(struct store *s, enum save_mode mode)
{
    struct image *x = image_make();
    assert_true(store_accessor(s)->width <= ROW_MAX);
    struct image_ctx ctx = {.image = x, .s = s, .mode = mode};
    for (uint32_t p = 0; p < s->n_parts; p++) {
        ctx.partition = p;
        OK(store_each(s, p, image_row, &ctx, &ok_e));
        if (!is_published(&ctx))
            OK(store_get_partition(s, p, store_time(s, p), &x->of[p][ROWS_PARTITION]));
    }
    return x;
}

uint64_t image_bytes(const struct image *x)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < PARTS_MAX * KINDS; i++)
        bytes += x->of[i / KINDS][i % KINDS].len;
    return bytes;
}

void image_check_equal(const struct image *a, const struct image *b)
{
    for (uint32_t p = 0; p < PARTS_MAX; p++)
        for (uint32_t k = 0; k < KINDS; k++) {
            const struct buf *x = &a->of[p][k], *y = &b->of[p][k];
            if (x->len != y->len)
                fail_msg("partition %u, kind %u: %zu bytes, not %zu", p, k, x->len,
                         y->len);
            if (x->len > 0)
                assert_memory_equal(x->data, y->data, x->len);
        }
}

// ---------------------------------------------------------------- chains of saves

struct chain *chain_make(const struct store *s, uint64_t universe)
{
    struct chain *x = mem_zalloc(sizeof(*x));
    assert_non_null(x);
    x->universe = universe;
    x->width = store_accessor(s)->width;
    x->extra_width = store_accessor(s)->extra_width;
    x->has = mem_zalloc(2 * universe);
    x->rows = mem_zalloc(universe * (x->width + x->extra_width + 1) * sizeof(float));
    assert_true(x->has != NULL && x->rows != NULL);
    x->has_extra = x->has + universe;
    x->extras = x->rows + universe * x->width;
    return x;
}

void chain_free(struct chain *x)
{
    mem_free(x->has);
    mem_free(x->rows);
    mem_free(x);
}

void chain_clear(struct chain *x)
{
    memset(x->has, 0, 2 * x->universe);
}

void chain_add(struct chain *x, const struct rows_block *b)
{
    size_t row = b->width * sizeof(float);
    const char *at = b->payload;
    for (uint32_t i = 0; i < b->n; i++, at += 8 + row) {
        uint64_t key;
        memcpy(&key, at, sizeof(key));
        assert_true(key < x->universe);
        if (b->kind == ROWS_GONE || b->kind == ROWS_ROW) {
            x->has[key] = b->kind == ROWS_ROW;
            x->has_extra[key] = 0;
        }
        if (b->kind == ROWS_ROW)
            memcpy(x->rows + key * x->width, at + 8, row);
        if (b->kind == ROWS_EXTRA) {
            assert_true(x->has[key]);
            x->has_extra[key] = 1;
            memcpy(x->extras + key * x->extra_width, at + 8, row);
        }
    }
}

static int chain_image_key(const struct chain *x, struct image *image, uint32_t p,
                           uint64_t key)
{
    struct buf *of = image->of[p];
    TRY(buf_add(&of[ROWS_ROW], &key, sizeof(key)));
    TRY(buf_add(&of[ROWS_ROW], x->rows + key * x->width, x->width * sizeof(float)));
    if (!x->has_extra[key])
        return 0;
    TRY(buf_add(&of[ROWS_EXTRA], &key, sizeof(key)));
    return buf_add(&of[ROWS_EXTRA], x->extras + key * x->extra_width,
                   x->extra_width * sizeof(float));
}

struct image *chain_image(const struct chain *x, const struct store *s)
{
    struct image *image = image_make();
    for (uint64_t key = 0; key < x->universe; key++)
        if (x->has[key])
            assert_int_equal(chain_image_key(x, image, store_partition(s, key), key), 0);
    return image;
}

// ---------------------------------------------------------------- cuts

void cuts_read_rest(struct store *s, size_t bytes, struct image *image,
                    struct chain *chain)
{
    struct rows_block b;
    for (;;) {
        OK(cut_next(s, bytes, &b, &ok_e));
        if (b.kind == ROWS_END)
            return;
        if (image != NULL)
            image_add(image, &b);
        if (chain != NULL && b.kind != ROWS_PARTITION)
            chain_add(chain, &b);
    }
}

struct image *cuts_all(struct store *s, enum save_mode mode, bool commit,
                       struct chain *chain)
{
    struct image *image = image_make();
    OK(cut_begin(s, &(struct cut_options){.mode = mode}, &ok_e));
    if (chain != NULL && mode != SAVE_DELTA)
        chain_clear(chain);
    cuts_read_rest(s, 1 << 20, image, chain);
    OK(cut_end(s, commit, &ok_e));
    OK(store_finish(s, &ok_e));
    return image;
}
