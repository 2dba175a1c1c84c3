// See view.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/rows/view.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"

static int view_reserve(struct view *v, size_t n)
{
    n += KERNEL_PADDING;
    if (n <= v->cap)
        return 0;
    size_t cap = n + n / 2;
    mem_free(v->rows);
    mem_free(v->x);
    v->rows = mem_array(cap, sizeof(*v->rows));
    v->x = mem_array(2 * cap, sizeof(*v->x));
    v->u = v->x + cap;
    v->n_ones = 0;
    v->cap = v->rows != NULL && v->x != NULL ? cap : 0;
    return v->cap != 0 ? 0 : TUG_ENOMEM;
}

void view_free(struct view *v)
{
    batch_free(&v->batch);
    mem_free(v->rows);
    mem_free(v->x);
    mem_free(v->draw);
    *v = (struct view){0};
}

// Sets u to x, with each example scaled to length 1.
static void scale(struct view *v)
{
    const struct batch *b = &v->batch;
    for (size_t i = 0; i < b->n; i++) {
        uint32_t from = b->start[i], to = b->start[i + 1];
        float squares = 0;
        for (uint32_t j = from; j < to; j++)
            squares += v->x[j] * v->x[j];
        float factor = squares > 0 ? 1 / sqrtf(squares) : 0;
        for (uint32_t j = from; j < to; j++)
            v->u[j] = v->x[j] * factor;
    }
}

// Sets the features' values. If no feature has a value in the data, writes only those 1s
// that an earlier batch has not left in the arrays.
int view_values(struct view *v, const struct model *m)
{
    const struct batch *b = &v->batch;
    TRY(view_reserve(v, b->nnz));
    if (b->value == NULL && !m->options.normalize) {
        for (; v->n_ones < b->nnz; v->n_ones++)
            v->x[v->n_ones] = v->u[v->n_ones] = 1;
        return 0;
    }
    v->n_ones = 0;
    for (size_t j = 0; j < b->nnz; j++)
        v->x[j] = b->value != NULL ? b->value[j] : 1;
    if (m->options.normalize)
        scale(v);
    else
        memcpy(v->u, v->x, b->nnz * sizeof(float));
    return 0;
}

int view_take(struct view *v, const struct dataset *d, const uint64_t *order, size_t n,
              const struct parameters *p, const struct hot_copies *hot)
{
    TRY(dataset_gather(d, order, n, &v->batch));
    return view_rows(v, p, hot);
}

int view_rows(struct view *v, const struct parameters *p, const struct hot_copies *hot)
{
    const struct batch *b = &v->batch;
    TRY(view_values(v, &p->model));
    struct table_slabs slabs = table_slabs(p->sparse);
    for (size_t j = 0; j < b->nnz; j++) {
        float *row = hot != NULL ? hot_row(hot, b->id[j]) : NULL;
        if (row == NULL) {
            row = parameters_row(p, slabs, b->id[j]);
            table_row_prefetch(row, slabs.stride);
        }
        v->rows[j] = row;
    }
    for (size_t j = b->nnz; j < b->nnz + KERNEL_PADDING; j++)
        v->rows[j] = p->zeros;
    return 0;
}

int view_draw(struct view *v, const struct model *m, uint64_t pass, const uint64_t *order,
              size_t n)
{
    v->n_draws = 0;
    if (m->options.dropout == 0)
        return 0;
    if (n > v->cap_draws) {
        mem_free(v->draw);
        v->draw = mem_array(n, sizeof(*v->draw));
        v->cap_draws = v->draw != NULL ? n : 0;
    }
    if (v->draw == NULL)
        return TUG_ENOMEM;
    for (size_t i = 0; i < n; i++)
        v->draw[i] = random_u64(m->options.seed, pass, order[i]);
    v->n_draws = n;
    return 0;
}

struct model_batch view_batch(const struct view *v)
{
    return (struct model_batch){
        .n = v->batch.n,
        .tasks = v->batch.labels,
        .start = v->batch.start,
        .rows = v->rows,
        .x = v->x,
        .u = v->u,
        .slot = v->batch.slot,
        .label = v->batch.label,
        .weight = v->batch.weight,
        .draw = v->n_draws > 0 ? v->draw : NULL,
        .latent = v->latent,
    };
}
