// Copies of hot rows.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/hot.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "base/relaxed.h"

enum { SAMPLE = 512, SHARE = 16, UPDATES_PER_WORKER = 1024, LONG_EXAMPLE = 2048 };

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

// Two hot ids of one hash: the first stays.
static void add(struct hot_rows *h, uint32_t id)
{
    uint32_t at = hot_hash(id);
    if (h->n == HOT_MAX || h->map[at] != HOT_NONE)
        return;
    h->map[at] = (uint8_t)h->n;
    h->id[h->n++] = id;
}

int hot_find(struct hot_rows *h, const struct dataset *d, uint64_t seed)
{
    uint64_t order[SAMPLE], n = dataset_size(d);
    struct batch b = {0};
    h->n = 0;
    memset(h->map, HOT_NONE, sizeof(h->map));
    for (uint32_t i = 0; i < HOT_MAX; i++)
        atomic_flag_clear(&h->merging[i]);
    if (n == 0 || dataset_features(d) / n > LONG_EXAMPLE)
        return 0; // the sample would cost more than the copies save
    for (uint64_t i = 0; i < SAMPLE; i++)
        order[i] = random_below(seed, 0x686f74, i, n);
    int rc = dataset_gather(d, order, SAMPLE, &b);
    if (rc == 0) {
        qsort(b.id, b.nnz, sizeof(*b.id), by_number);
        for (size_t i = 0, end; i < b.nnz; i = end) {
            for (end = i; end < b.nnz && b.id[end] == b.id[i]; end++)
                continue;
            if (end - i > SAMPLE / SHARE)
                add(h, b.id[i]);
        }
    }
    batch_free(&b);
    return rc;
}

int hot_open(struct hot_copies *c, struct hot_rows *h, const struct table *t,
             uint32_t count, uint32_t workers)
{
    *c = (struct hot_copies){
        .rows = h,
        .slabs = table_slabs(t),
        .width = table_options(t)->width,
        .count = count,
        .threshold = (float)(UPDATES_PER_WORKER * workers),
    };
    size_t floats = HOT_MAX * (size_t)c->width;
    c->local = mem_aligned(64, 2 * floats * sizeof(float));
    c->base = c->local + floats;
    return c->local != NULL ? 0 : TUG_ENOMEM;
}

void hot_close(struct hot_copies *c)
{
    mem_free(c->local);
    *c = (struct hot_copies){0};
}

static void take(struct hot_copies *c, uint32_t i, const float *shared)
{
    float *local = c->local + (size_t)i * c->width;
    relaxed_load_n(local, shared, c->width);
    memcpy(c->base + (size_t)i * c->width, local, c->width * sizeof(float));
    c->copied[i] = true;
}

static void give(struct hot_copies *c, uint32_t i, float *shared)
{
    float *local = c->local + (size_t)i * c->width,
          *base = c->base + (size_t)i * c->width;
    for (uint32_t k = 0; k < c->width; k++) {
        float x = relaxed_load(shared + k) + (local[k] - base[k]);
        relaxed_store(shared + k, x);
        local[k] = base[k] = x;
    }
}

static bool lock(struct hot_rows *h, uint32_t i)
{
    return !atomic_flag_test_and_set_explicit(&h->merging[i], memory_order_acquire);
}

static void unlock(struct hot_rows *h, uint32_t i)
{
    atomic_flag_clear_explicit(&h->merging[i], memory_order_release);
}

void hot_merge(struct hot_copies *c)
{
    for (uint32_t i = 0; i < c->rows->n; i++) {
        float *shared = table_row(c->slabs, c->rows->id[i]);
        if (!c->copied[i]) {
            if (relaxed_load(shared + c->count) >= c->threshold)
                take(c, i, shared);
        } else if (lock(c->rows, i)) {
            give(c, i, shared);
            unlock(c->rows, i);
        }
    }
}

void hot_finish(struct hot_copies *c)
{
    for (uint32_t i = 0; i < c->rows->n; i++) {
        if (!c->copied[i])
            continue;
        while (!lock(c->rows, i))
            continue; // a merge is a few hundred instructions
        give(c, i, table_row(c->slabs, c->rows->id[i]));
        unlock(c->rows, i);
        c->copied[i] = false;
    }
}
