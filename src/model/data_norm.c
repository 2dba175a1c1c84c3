// See data_norm.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/data_norm.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"

enum { SIZE, SUM, SQUARES, SUMMARY }; // the floats of a number

size_t data_norm_numbers(const struct model_options *o)
{
    size_t n = 0;
    for (size_t i = 0; i < o->n_numbers; i++)
        n += o->numbers[i].n;
    return n;
}

int data_norm_open(struct model_work *w)
{
    const struct model_options *o = &w->model->options;
    struct model_norm *d = &w->norm;
    uint32_t number = 1;
    d->n = data_norm_numbers(o);
    if (d->n == 0)
        return 0;
    d->first = mem_zalloc(o->fields * 2 * sizeof(*d->first));
    d->end = d->first + o->fields;
    d->sums = mem_array(SUMMARY * d->n, sizeof(float));
    if (d->first == NULL || d->sums == NULL)
        return TUG_ENOMEM;
    for (size_t i = 0; i < o->n_numbers; i++) {
        assert(o->numbers[i].field < o->fields);
        d->first[o->numbers[i].field] = number;
        number += o->numbers[i].n;
        d->end[o->numbers[i].field] = number;
    }
    return 0;
}

void data_norm_close(struct model_work *w)
{
    mem_free(w->norm.first);
    mem_free(w->norm.sums);
    mem_free(w->norm.values);
    mem_free(w->norm.number);
    w->norm = (struct model_norm){0};
}

static int reserve(struct model_norm *d, size_t n)
{
    n += KERNEL_PADDING;
    if (n <= d->cap)
        return 0;
    mem_free(d->values);
    mem_free(d->number);
    size_t cap = n + n / 2;
    d->values = mem_array(cap, sizeof(*d->values));
    d->number = mem_array(cap, sizeof(*d->number));
    d->cap = d->values != NULL && d->number != NULL ? cap : 0;
    return d->cap != 0 ? 0 : TUG_ENOMEM;
}

// Of each feature the number that it is, from 1 on, or 0.
static void find_numbers(struct model_norm *d, const struct model_batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        uint32_t begin = b->start[i], place = 0; // in its field
        for (uint32_t j = begin; j < b->start[i + 1]; j++) {
            place = j > begin && b->slot[j] == b->slot[j - 1] ? place + 1 : 0;
            uint32_t number = d->first[b->slot[j]] + place;
            d->number[j] = number < d->end[b->slot[j]] ? number : 0;
        }
    }
}

static float mean_of(const float *sums)
{
    return sums[SIZE] > 0 ? sums[SUM] / sums[SIZE] : 0;
}

// Spread that floats of that size do not resolve is none.
static float scale_of(const float *sums)
{
    float mean = mean_of(sums), variance = sums[SQUARES] / sums[SIZE];
    return sums[SIZE] > 0 && variance > 1e-10f * mean * mean ? 1 / sqrtf(variance) : 0;
}

// What the batch's numbers add up to, with squares from the means that `from` has.
static void add_up(const struct model_norm *d, const struct model_batch *b,
                   const float *from, float *ret)
{
    for (uint32_t j = b->start[0]; j < b->start[b->n]; j++) {
        if (d->number[j] == 0)
            continue;
        size_t k = SUMMARY * (d->number[j] - 1);
        float off = b->x[j] - mean_of(from + k);
        ret[k + SIZE] += 1;
        ret[k + SUM] += b->x[j];
        ret[k + SQUARES] += off * off;
    }
}

// Squares from the means of what has been added up.
static void own_squares(const struct model_norm *d, const struct model_batch *b)
{
    for (size_t k = 0; k < d->n; k++)
        d->sums[SUMMARY * k + SQUARES] = 0;
    for (uint32_t j = b->start[0]; j < b->start[b->n]; j++) {
        if (d->number[j] == 0)
            continue;
        float *sums = d->sums + SUMMARY * (d->number[j] - 1),
              off = b->x[j] - mean_of(sums);
        sums[SQUARES] += off * off;
    }
}

// Those by which a batch is normalised: the summaries, or its own where these have none.
static void choose_sums(struct model_norm *d, const struct model_batch *b,
                        const float *summaries)
{
    bool fresh = false;
    size_t bytes = SUMMARY * d->n * sizeof(float);
    for (size_t k = 0; k < d->n; k++)
        fresh |= summaries[SUMMARY * k + SIZE] == 0;
    memset(d->sums, 0, bytes);
    if (fresh && b->training) {
        add_up(d, b, summaries, d->sums);
        own_squares(d, b);
    }
    for (size_t k = 0; k < SUMMARY * d->n; k += SUMMARY)
        if (summaries[k + SIZE] > 0)
            memcpy(d->sums + k, summaries + k, SUMMARY * sizeof(float));
}

int data_norm(struct model_work *w, struct model_batch *b, float *ret_summaries)
{
    struct model_norm *d = &w->norm;
    if (d->n == 0)
        return 0;
    assert(b->latent.start == NULL && b->u != NULL);
    TRY(reserve(d, b->start[b->n]));
    find_numbers(d, b);
    choose_sums(d, b, w->dense + w->model->norm);
    for (uint32_t j = b->start[0]; j < b->start[b->n]; j++) {
        d->values[j] = b->x[j];
        if (d->number[j] > 0) {
            const float *sums = d->sums + SUMMARY * (d->number[j] - 1);
            d->values[j] = (b->x[j] - mean_of(sums)) * scale_of(sums);
        }
    }
    if (b->training)
        add_up(d, b, d->sums, ret_summaries);
    b->x = b->u = d->values;
    return 0;
}
