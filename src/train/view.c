// From packed examples to what a model sees: row pointers, values, and rows on
// their way into cache.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "train/run.h"

static int reserve(struct view *v, size_t n)
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
    v->cap = v->rows != NULL && v->x != NULL ? cap : 0;
    return v->cap != 0 ? 0 : TUG_ENOMEM;
}

void view_free(struct view *v)
{
    batch_free(&v->batch);
    mem_free(v->rows);
    mem_free(v->x);
    *v = (struct view){0};
}

void view_scale(const struct batch *b, const float *x, float *ret_u)
{
    for (size_t i = 0; i < b->n; i++) {
        uint32_t from = b->start[i], to = b->start[i + 1];
        float squares = 0;
        for (uint32_t j = from; j < to; j++)
            squares += x[j] * x[j];
        float scale = squares > 0 ? 1 / sqrtf(squares) : 0;
        for (uint32_t j = from; j < to; j++)
            ret_u[j] = x[j] * scale;
    }
}

int view_take(struct view *v, const struct dataset *d, const uint64_t *order, size_t n,
              const struct parameters *p, const struct hot_copies *hot)
{
    TRY(dataset_gather(d, order, n, &v->batch));
    const struct batch *b = &v->batch;
    TRY(reserve(v, b->nnz));
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
    if (b->value != NULL)
        memcpy(v->x, b->value, b->nnz * sizeof(float));
    else
        for (size_t j = 0; j < b->nnz; j++)
            v->x[j] = 1;
    if (p->model.options.normalize)
        view_scale(b, v->x, v->u);
    else
        memcpy(v->u, v->x, b->nnz * sizeof(float));
    return 0;
}

struct model_example view_example(const struct view *v, size_t i)
{
    uint32_t from = v->batch.start[i];
    return (struct model_example){
        .n = v->batch.start[i + 1] - from,
        .rows = v->rows + from,
        .x = v->x + from,
        .u = v->u + from,
        .slot = v->batch.slot + from,
    };
}
