// See averaging.h. The means of a table's rows are an array indexed by handle, so that
// taking a sample walks over rows and means in the order of memory.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/rows/averaging.h"

#include <string.h>

#include "base/alloc.h"
#include "base/relaxed.h"

// The means of one table's rows. A mean has the layout [count, if rows have one][weights
// of group 0][weights of group 1]. If the count is 0, the row does not have a mean yet.
struct means {
    struct table *table;
    const struct accessor *accessor;
    size_t width, n; // `width`: floats of one mean; `n`: number of handles that `values`
                     // has room for
    float *values;
};

struct averaging {
    struct team *team;
    uint64_t window;    // batches that the mean covers
    struct means of[2]; // the means of the sparse and of the dense table
    // The operation that the team runs on each row and its mean: a sample or a swap.
    void (*each)(const struct means *m, float *row, float *mean, float share);
    float share;
};

static bool counts(const struct accessor *a)
{
    return a->count != ACCESSOR_NO_COUNT;
}

static struct means means_of(struct table *t, const struct accessor *a)
{
    struct means m = {.table = t, .accessor = a, .width = counts(a)};
    for (uint32_t g = 0; g < a->n_groups; g++)
        m.width += a->groups[g].n;
    return m;
}

int averaging_open(struct averaging **ret, uint64_t window, struct team *team,
                   const struct parameters *p, struct err *e)
{
    struct averaging *a = mem_zalloc(sizeof(*a));
    if (a == NULL)
        return err_nomem(e, "the mean of the parameters");
    *a = (struct averaging){.team = team,
                            .window = window,
                            .of = {means_of(p->sparse, &p->model.accessor),
                                   means_of(p->dense, &p->model.dense)}};
    *ret = a;
    return 0;
}

void averaging_close(struct averaging *a)
{
    for (size_t t = 0; a != NULL && t < 2; t++)
        mem_free(a->of[t].values);
    mem_free(a);
}

uint64_t averaging_due(uint64_t window, uint64_t at)
{
    uint64_t over = at < window ? at : window;
    return at + (over > 0 ? (over - 1) / AVERAGING_SAMPLES : 0) + 1;
}

float averaging_share(uint64_t window, uint64_t batches, uint64_t at)
{
    uint64_t over = batches < window ? batches : window;
    return (float)((double)(batches - at) / (double)over);
}

uint64_t averaging_next(const struct averaging *a, uint64_t at)
{
    return averaging_due(a->window, at);
}

// Makes room for the means of rows that were made since the last sample, with means of 0.
static int averaging_make_room(struct averaging *a, struct err *e)
{
    for (size_t t = 0; t < 2; t++) {
        struct means *m = &a->of[t];
        size_t n = table_handles(m->table);
        if (n <= m->n)
            continue;
        float *more = mem_realloc_array(m->values, n, m->width * sizeof(*more));
        if (more == NULL)
            return err_nomem(e, "the mean of the parameters");
        memset(more + m->n * m->width, 0, (n - m->n) * m->width * sizeof(*more));
        m->values = more;
        m->n = n;
    }
    return 0;
}

static void walk(void *averaging, int rank)
{
    struct averaging *a = averaging;
    size_t members = (size_t)team_size(a->team), i = (size_t)rank;
    for (size_t t = 0; t < 2; t++) {
        const struct means *m = &a->of[t];
        struct table_slabs slabs = table_slabs(m->table);
        for (size_t h = m->n * i / members; h < m->n * (i + 1) / members; h++)
            a->each(m, table_row(slabs, (uint32_t)h), m->values + h * m->width, a->share);
    }
}

// Moves a mean towards the weights by `share`. Weights are read by relaxed loads because
// the threads of a run write them by relaxed stores; none of them writes now.
static void averaging_add(float *mean, const float *weights, size_t n, float share)
{
    for (size_t i = 0; i < n; i++) {
        float w = relaxed_load(weights + i);
        mean[i] = share < 1 ? mean[i] + share * (w - mean[i]) : w;
    }
}

static void sample_row(const struct means *m, float *row, float *mean, float share)
{
    const struct accessor *a = m->accessor;
    if (counts(a)) {
        float count = relaxed_load(row + a->count);
        if (count == 0)
            return;
        share = *mean == 0 ? 1 : share;
        *mean++ = count;
    }
    for (uint32_t g = 0; g < a->n_groups; g++) {
        averaging_add(mean, row + a->groups[g].weights, a->groups[g].n, share);
        mean += a->groups[g].n;
    }
}

int averaging_sample(struct averaging *a, uint64_t batches, uint64_t *at, struct err *e)
{
    TRY(averaging_make_room(a, e));
    a->each = sample_row;
    a->share = averaging_share(a->window, batches, *at);
    team_run(a->team, walk, a);
    *at = batches;
    return 0;
}

static void floats_swap(float *a, float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x = relaxed_load(a + i);
        relaxed_store(a + i, b[i]);
        b[i] = x;
    }
}

static void swap_row(const struct means *m, float *row, float *mean, float share)
{
    const struct accessor *a = m->accessor;
    (void)share;
    if (counts(a))
        floats_swap(row + a->count, mean++, 1);
    for (uint32_t g = 0; g < a->n_groups; g++) {
        floats_swap(row + a->groups[g].weights, mean, a->groups[g].n);
        mean += a->groups[g].n;
    }
}

int averaging_swap(struct averaging *a, struct err *e)
{
    TRY(averaging_make_room(a, e));
    a->each = swap_row;
    team_run(a->team, walk, a);
    return 0;
}

// Loads the means of n rows from the saved table `from`.
static void load_rows(struct means *m, const struct table *from, const uint32_t *handles,
                      size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float *row = table_row(table_slabs(from), handles[i]);
        uint64_t key = table_row_key(row);
        uint32_t handle;
        table_find(m->table, &key, 1, &handle);
        if (handle == TABLE_NONE)
            continue; // A save has a mean without its row only if its files were
                      // changed.
        float *mean = m->values + handle * m->width;
        if (counts(m->accessor))
            *mean = 0;
        sample_row(m, row, mean, 1);
    }
}

int averaging_load(struct averaging *a, const struct parameters *mean, struct err *e)
{
    enum { ROWS = 256 };
    const struct table *const tables[] = {mean->sparse, mean->dense};
    uint32_t handles[ROWS];
    TRY(averaging_make_room(a, e));
    for (size_t t = 0; t < 2; t++) {
        uint64_t cursor = 0;
        for (size_t n; (n = table_scan(tables[t], &cursor, handles, ROWS)) > 0;)
            load_rows(&a->of[t], tables[t], handles, n);
    }
    return 0;
}
