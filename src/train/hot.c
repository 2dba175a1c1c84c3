// Copies of hot rows.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/hot.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "base/relaxed.h"

enum { SAMPLE = 4096, TIMES = SAMPLE / 512, LONG_EXAMPLE = 256 };

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
    h->map[at] = (uint16_t)h->n;
    h->id[h->n++] = id;
}

bool hot_adds_up(const struct model *m)
{
    bool sums = true;
    for (uint32_t g = 0; g < m->n_groups; g++) {
        enum rule_kind kind = m->groups[g].rule.kind;
        sums &= kind != RULE_MOMENTUM && kind != RULE_RMSPROP && kind != RULE_ADAM;
    }
    return sums;
}

int hot_find(struct hot_rows *h, const struct dataset *d, uint64_t seed)
{
    uint64_t order[SAMPLE], n = dataset_size(d);
    struct batch b = {0};
    h->n = 0;
    for (uint32_t i = 0; i < 1 << HOT_MAP_BITS; i++)
        h->map[i] = HOT_NONE;
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
            if (end - i > TIMES)
                add(h, b.id[i]);
        }
    }
    batch_free(&b);
    return rc;
}

int hot_open(struct hot_copies *c, struct hot_rows *h, const struct table *t)
{
    *c = (struct hot_copies){
        .rows = h, .slabs = table_slabs(t), .width = table_options(t)->width};
    size_t floats = h->n * (size_t)c->width;
    c->local = mem_aligned(64, (2 * floats + 1) * sizeof(float));
    c->base = c->local + floats;
    return c->local != NULL ? 0 : TUG_ENOMEM;
}

void hot_close(struct hot_copies *c)
{
    mem_free(c->local);
    *c = (struct hot_copies){0};
}

void hot_begin(struct hot_copies *c)
{
    for (uint32_t i = 0; i < c->rows->n; i++) {
        float *local = c->local + (size_t)i * c->width;
        relaxed_load_n(local, table_row(c->slabs, c->rows->id[i]), c->width);
        memcpy(c->base + (size_t)i * c->width, local, c->width * sizeof(float));
    }
    c->begun = true;
}

// False when another worker is at this row and `wait` is not asked for.
static bool lock(struct hot_rows *h, uint32_t i, bool wait)
{
    while (atomic_flag_test_and_set_explicit(&h->merging[i], memory_order_acquire))
        if (!wait) // a merge is a few hundred instructions
            return false;
    return true;
}

static void merge_row(struct hot_copies *c, uint32_t i, bool wait)
{
    float *local = c->local + (size_t)i * c->width;
    float *base = c->base + (size_t)i * c->width;
    float *shared = table_row(c->slabs, c->rows->id[i]);
    if (!lock(c->rows, i, wait))
        return;
    for (uint32_t k = 0; k < c->width; k++) {
        float x = relaxed_load(shared + k) + (local[k] - base[k]);
        relaxed_store(shared + k, x);
        local[k] = base[k] = x;
    }
    atomic_flag_clear_explicit(&c->rows->merging[i], memory_order_release);
}

static void merge(struct hot_copies *c, bool wait)
{
    for (uint32_t i = 0; i < c->rows->n && c->begun; i++)
        merge_row(c, i, wait);
}

void hot_merge(struct hot_copies *c)
{
    merge(c, false);
}

void hot_finish(struct hot_copies *c)
{
    merge(c, true);
    c->begun = false;
}
