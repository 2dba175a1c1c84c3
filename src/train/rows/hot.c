// Copies of hot rows.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/rows/hot.h"

#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "base/relaxed.h"
#include "rule/rule.h"

enum {
    SAMPLE = 16384,
    PIECE = 256, // examples of the sample that are gathered at a time
    TIMES = 8,   // an id that occurs this often in the sample is hot
    LONG_EXAMPLE = 256,
    COUNTS = 1 << 17,
};

// A table with the number of occurrences of ids in the sample. If it is full, further ids
// are not counted and do not become hot.
struct counts {
    struct {
        uint32_t id, times;
    } of[COUNTS];
    uint32_t n;
};

static void hot_count(struct counts *c, uint32_t id)
{
    uint32_t at = id * 2654435761u % COUNTS;
    while (c->of[at].times != 0 && c->of[at].id != id)
        at = (at + 1) % COUNTS;
    if (c->of[at].times == 0 && c->n == COUNTS / 4 * 3)
        return;
    c->n += c->of[at].times == 0;
    c->of[at].id = id;
    c->of[at].times++;
}

// Adds a hot id to the map. If two hot ids have the same hash, the first one stays.
static void hot_add(struct hot_rows *h, uint32_t id)
{
    uint32_t at = hot_hash(id);
    if (h->n == HOT_MAX || h->map[at] != HOT_NONE)
        return;
    h->map[at] = (uint16_t)h->n;
    h->id[h->n++] = id;
}

static int count_sample(struct counts *c, const struct dataset *d, uint64_t seed)
{
    struct batch b = {0};
    int rc = 0;
    for (uint64_t i = 0; i < SAMPLE && rc == 0; i += PIECE) {
        uint64_t order[PIECE];
        for (uint64_t j = 0; j < PIECE; j++)
            order[j] = random_below(seed, 0x686f74, i + j, dataset_size(d));
        rc = dataset_gather(d, order, PIECE, &b);
        for (size_t j = 0; rc == 0 && j < b.nnz; j++)
            hot_count(c, b.id[j]);
    }
    batch_free(&b);
    return rc;
}

int hot_find(struct hot_rows *h, const struct dataset *d, uint64_t seed)
{
    uint64_t n = dataset_size(d);
    h->n = 0;
    for (uint32_t i = 0; i < 1 << HOT_MAP_BITS; i++)
        h->map[i] = HOT_NONE;
    for (uint32_t i = 0; i < HOT_MAX; i++)
        atomic_flag_clear(&h->merging[i]);
    // If the data is small, or its examples are long, the sample would cost more than
    // copies save.
    if (n < SAMPLE || dataset_features(d) / n > LONG_EXAMPLE)
        return 0;
    struct counts *c = mem_zalloc(sizeof(*c));
    if (c == NULL)
        return TUG_ENOMEM;
    int rc = count_sample(c, d, seed);
    // Add the hottest ids first, so that they get places in the map.
    for (uint32_t least = SAMPLE; rc == 0 && least >= TIMES; least /= 2)
        for (uint32_t i = 0; i < COUNTS; i++)
            if (c->of[i].times >= least && c->of[i].times / 2 < least)
                hot_add(h, c->of[i].id);
    mem_free(c);
    return rc;
}

bool hot_adds_up(const struct model *m)
{
    bool sums = true;
    for (uint32_t g = 0; g < m->accessor.n_groups; g++) {
        sums &= rule_info(m->accessor.groups[g].rule.kind)->state_adds_up;
    }
    return sums;
}

int hot_open(struct hot_copies *c, struct hot_rows *h, const uint32_t widths[HOT_PIECES],
             hot_find_fn find, const void *ctx)
{
    *c = (struct hot_copies){.rows = h,
                             .find = find,
                             .find_ctx = ctx,
                             .widths = {widths[0], widths[1]},
                             .width = widths[0] + widths[1]};
    size_t floats = h->n * (size_t)c->width;
    c->local = mem_aligned(64, (2 * floats + 1) * sizeof(float));
    c->copies = mem_array(h->n + 1, sizeof(*c->copies));
    c->base = c->local + floats;
    if (c->local != NULL && c->copies != NULL)
        return 0;
    hot_close(c);
    return TUG_ENOMEM;
}

void hot_close(struct hot_copies *c)
{
    mem_free(c->local);
    mem_free(c->copies);
    *c = (struct hot_copies){0};
}

static void begin_row(struct hot_copies *c, uint32_t i)
{
    struct hot_copy *x = &c->copies[i];
    float *local = c->local + (size_t)i * c->width;
    float *base = c->base + (size_t)i * c->width;
    *x = (struct hot_copy){0};
    if (!c->find(c->find_ctx, c->rows->id[i], x->shared)) {
        *x = (struct hot_copy){0};
        return;
    }
    for (uint32_t p = 0; p < HOT_PIECES; p++) {
        if (x->shared[p] != NULL)
            relaxed_load_n(local, x->shared[p], c->widths[p]);
        else
            memset(local, 0, c->widths[p] * sizeof(float));
        memcpy(base, local, c->widths[p] * sizeof(float));
        local += c->widths[p];
        base += c->widths[p];
    }
}

void hot_begin(struct hot_copies *c)
{
    for (uint32_t i = 0; i < c->rows->n; i++)
        begin_row(c, i);
    c->begun = true;
}

// Locks row i for merging. Returns false if another worker holds the lock and `wait` is
// false.
static bool lock(struct hot_rows *h, uint32_t i, bool wait)
{
    while (atomic_flag_test_and_set_explicit(&h->merging[i], memory_order_acquire))
        if (!wait) // spinning is enough, because a merge takes a few hundred instructions
            return false;
    return true;
}

static void merge_piece(float *shared, float *local, float *base, uint32_t width)
{
    for (uint32_t k = 0; k < width; k++) {
        float x = relaxed_load(shared + k) + (local[k] - base[k]);
        relaxed_store(shared + k, x);
        local[k] = base[k] = x;
    }
}

static void merge_row(struct hot_copies *c, uint32_t i, bool wait)
{
    float *local = c->local + (size_t)i * c->width;
    float *base = c->base + (size_t)i * c->width;
    if (!lock(c->rows, i, wait))
        return;
    for (uint32_t p = 0; p < HOT_PIECES; p++) {
        if (c->copies[i].shared[p] != NULL)
            merge_piece(c->copies[i].shared[p], local, base, c->widths[p]);
        local += c->widths[p];
        base += c->widths[p];
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
