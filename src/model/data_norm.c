// Normalises the numbers of the data: see data_norm.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/data_norm.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"

enum {
    SIZE,
    HIGH,
    LOW,
    SQUARES,
    SUMMARY
}; // the summaries have these floats for each number

// The sums cover about this number of the latest examples. The limit keeps the sums so small
// that a single term still changes a sum of floats.
static const double memory = 1 << 18;

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
    struct model_data_norm *d = &w->data_norm;
    uint32_t number = 1;
    d->n = data_norm_numbers(o);
    if (d->n == 0)
        return 0;
    d->first = mem_zalloc(o->fields * 2 * sizeof(*d->first));
    d->end = d->first + o->fields;
    d->sums = mem_array(2 * d->n, sizeof(*d->sums));
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
    mem_free(w->data_norm.first);
    mem_free(w->data_norm.sums);
    mem_free(w->data_norm.values);
    mem_free(w->data_norm.number);
    w->data_norm = (struct model_data_norm){0};
}

static int data_norm_reserve(struct model_data_norm *d, size_t n)
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

// Sets the index of each feature's number, from 1 on; 0 if the feature is not a number.
static void find_numbers(struct model_data_norm *d, const struct model_batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        // place: position of the feature in its field
        uint32_t begin = b->start[i], place = 0;
        for (uint32_t j = begin; j < b->start[i + 1]; j++) {
            place = j > begin && b->slot[j] == b->slot[j - 1] ? place + 1 : 0;
            uint32_t number = d->first[b->slot[j]] + place;
            d->number[j] = number < d->end[b->slot[j]] ? number : 0;
        }
    }
}

static double mean_of(const struct model_sums *s)
{
    return s->size > 0 ? s->sum / s->size : 0;
}

// Returns 1 / standard deviation; 0 if the deviation is smaller than the rounding errors of
// floats as large as the mean.
static double scale_of(const struct model_sums *s)
{
    double mean = mean_of(s), variance = s->squares / s->size;
    return s->size > 0 && variance > 0x1p-42 * mean * mean ? 1 / sqrt(variance) : 0;
}

static void read_summaries(struct model_data_norm *d, const float *summaries)
{
    for (size_t k = 0; k < d->n; k++, summaries += SUMMARY)
        d->sums[k] = (struct model_sums){.size = (double)summaries[SIZE],
                                         .sum = (double)summaries[HIGH] +
                                                (double)summaries[LOW],
                                         .squares = (double)summaries[SQUARES]};
}

// Adds up the numbers of the batch, and the squares of their distances from the previous
// means. For a number that never occurred before, uses the batch's own mean.
static void add_up(struct model_data_norm *d, const struct model_batch *b)
{
    struct model_sums *old = d->sums, *new = d->sums + d->n;
    uint32_t begin = b->start[0], end = b->start[b->n];
    memset(new, 0, d->n * sizeof(*new));
    for (uint32_t j = begin; j < end; j++)
        if (d->number[j] > 0) {
            new[d->number[j] - 1].size += 1;
            new[d->number[j] - 1].sum += (double)b->x[j];
        }
    for (size_t k = 0; k < d->n; k++)
        if (!(old[k].size > 0)) {
            old[k] = new[k];
            old[k].squares = -1; // -1: set below
        }
    for (uint32_t j = begin; j < end; j++)
        if (d->number[j] > 0) {
            size_t k = d->number[j] - 1;
            double off = (double)b->x[j] - mean_of(&old[k]);
            new[k].squares += off *off;
        }
    for (size_t k = 0; k < d->n; k++)
        if (old[k].squares < 0)
            old[k].squares = new[k].squares;
}

// Returns the part of a sum that can be added to floats without rounding: a multiple of
// `unit`, a power of two. The whole sum is at most 2^23 times `unit`. All workers use about
// the same `unit`.
static double exact_part(double sum, const struct model_sums *old)
{
    double most = 2 * fabs(mean_of(old)) * fmax(memory, old->size);
    if (!(most > 0 && most < (double)INFINITY))
        return 0;
    double unit = scalbn(1, ilogb(most) - 22);
    return unit * rint(sum / unit);
}

// Returns the fraction of the old sums to forget. When the sums cover enough examples, a
// batch makes them forget as many examples as it adds. A large batch makes them forget
// fewer, because other workers may do the same at the same time. The number of forgotten
// examples is rounded, so that `size` stays exact.
static double forgotten(const struct model_sums *old, const struct model_batch *b)
{
    double share = fmin((double)b->n / memory, (double)b->share / 64);
    return old->size > memory ? rint(old->size * share) / old->size : 0;
}

static void leave(const struct model_data_norm *d, const struct model_batch *b,
                  float *ret)
{
    for (size_t k = 0; k < d->n; k++, ret += SUMMARY) {
        const struct model_sums *old = &d->sums[k], *new = &d->sums[d->n + k];
        double gone = forgotten(old, b), sum = new->sum - gone * old->sum,
               high = exact_part(sum, old);
        ret[SIZE] += (float)rint(new->size - gone * old->size);
        ret[HIGH] += (float)high;
        ret[LOW] += (float)(sum - high);
        ret[SQUARES] += (float)(new->squares - gone * old->squares);
    }
}

int data_norm(struct model_work *w, struct model_batch *b, float *ret_summaries)
{
    struct model_data_norm *d = &w->data_norm;
    if (d->n == 0)
        return 0;
    assert(b->latent.start == NULL && b->u != NULL);
    TRY(data_norm_reserve(d, b->start[b->n]));
    find_numbers(d, b);
    read_summaries(d, w->dense + w->model->data_norm_at);
    if (b->training) {
        add_up(d, b);
        leave(d, b, ret_summaries);
    }
    for (uint32_t j = b->start[0]; j < b->start[b->n]; j++) {
        d->values[j] = b->x[j];
        if (d->number[j] > 0) {
            const struct model_sums *s = d->sums + d->number[j] - 1;
            d->values[j] = (float)(((double)b->x[j] - mean_of(s)) * scale_of(s));
        }
    }
    b->x = b->u = d->values;
    return 0;
}
