// See dense.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/rows/dense.h"

#include <string.h>

#include "base/alloc.h"
#include "base/relaxed.h"

float *dense_floats(const struct model *m)
{
    size_t bytes = (model_dense(m) + KERNEL_PADDING) * sizeof(float);
    float *ret = mem_aligned(64, bytes);
    if (ret != NULL)
        memset(ret, 0, bytes);
    return ret;
}

uint64_t *dense_keys(const struct model *m)
{
    uint64_t *ret = mem_array(m->blocks, sizeof(*ret));
    for (size_t i = 0; i < m->blocks && ret != NULL; i++)
        ret[i] = i;
    return ret;
}

void dense_read(const struct model *m, float *const *blocks, float *ret)
{
    size_t n = model_dense_block(m);
    uint32_t weights = m->dense.groups[0].weights;
    for (size_t i = 0; i < m->blocks; i++)
        relaxed_load_n(ret + i * n, blocks[i] + weights, n);
}

void dense_write(const struct model *m, const float *values, float *const *blocks)
{
    size_t n = model_dense_block(m);
    uint32_t weights = m->dense.groups[0].weights;
    for (size_t i = 0; i < m->blocks; i++)
        relaxed_store_n(blocks[i] + weights, values + i * n, n);
}

int dense_open(struct dense *d, const struct model *m)
{
    d->values = dense_floats(m);
    d->gradient = dense_floats(m);
    return d->values != NULL && d->gradient != NULL ? 0 : TUG_ENOMEM;
}

void dense_close(struct dense *d)
{
    mem_free(d->values);
    mem_free(d->gradient);
    *d = (struct dense){0};
}

void dense_scale(const struct model *m, float scale, float *gradient)
{
    size_t n = m->summaries > 0 ? m->summaries : model_dense(m);
    if (scale != 1)
        m->kernels->scale(gradient, scale, gradient, n);
}

void dense_step(struct dense *d, const struct model *m, const struct rule_params *rule,
                float *const *blocks, float scale)
{
    dense_scale(m, scale, d->gradient);
    model_step_dense(m, rule, blocks, d->gradient);
    memset(d->gradient, 0, model_dense(m) * sizeof(*d->gradient));
}

void dense_sums_begin(struct dense_sums *s, const struct model *m, uint32_t from,
                      uint32_t end)
{
    s->n = 0;
    s->from = from;
    s->end = end;
    s->width = model_dense(m);
}

void dense_sums_close(struct dense_sums *s)
{
    for (size_t i = 0; i < TREE_LEAVES; i++)
        mem_free(s->values[i]);
    *s = (struct dense_sums){0};
}

// Returns whether the smallest subtree that contains both micro-batches lies in [from,
// end).
static bool is_whole(const struct dense_sums *s, uint32_t a, uint32_t b)
{
    uint32_t size = 1;
    while ((a ^ b) >= size)
        size *= 2;
    uint32_t first = a & ~(size - 1);
    return first >= s->from && first + size <= s->end;
}

// Joins the last two sums while they are the halves of a subtree that does not
// contain micro-batch `next`.
static void dense_join(struct dense_sums *s, const struct kernels *k, uint8_t next)
{
    while (s->n > 1 && tree_joins(s->first[s->n - 2], s->first[s->n - 1], next) &&
           is_whole(s, s->first[s->n - 2], s->first[s->n - 1])) {
        s->n--;
        k->axpy(s->values[s->n - 1], 1, s->values[s->n], s->width);
    }
}

float *dense_sums_micro(struct dense_sums *s, const struct kernels *k, uint8_t micro)
{
    if (s->n > 0 && s->first[s->n - 1] == micro)
        return s->values[s->n - 1];
    dense_join(s, k, micro);
    size_t bytes = (s->width + KERNEL_PADDING) * sizeof(float);
    if (s->values[s->n] == NULL)
        s->values[s->n] = mem_aligned(64, bytes);
    if (s->values[s->n] == NULL)
        return NULL;
    memset(s->values[s->n], 0, bytes);
    s->first[s->n] = micro;
    return s->values[s->n++];
}
