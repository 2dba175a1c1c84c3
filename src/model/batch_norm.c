// Batch normalisation of a layer: see batch_norm.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/batch_norm.h"

#include <math.h>
#include <string.h>

static const float epsilon = 1e-5f;
// The fraction by which one batch moves a summary. The changes by all workers are added to
// the same summaries: with PyTorch's 0.1, the changes by ten or more workers would make the
// summaries oscillate.
static const float momentum = 0.01f;

static bool has_own(const struct batch_norm *b, struct matrix z)
{
    return b->training && z.rows > 1;
}

static void add_rows(struct matrix x, float *ret)
{
    memset(ret, 0, x.columns * sizeof(*ret));
    for (size_t i = 0; i < x.rows; i++)
        for (size_t c = 0; c < x.columns; c++)
            ret[c] += x.at[i * x.stride + c];
}

static void examples_statistics(const struct batch_norm *b, struct matrix z)
{
    add_rows(z, b->mean);
    for (size_t c = 0; c < z.columns; c++)
        b->mean[c] /= (float)z.rows;
    memset(b->variance, 0, z.columns * sizeof(float));
    for (size_t i = 0; i < z.rows; i++)
        for (size_t c = 0; c < z.columns; c++) {
            float d = z.at[i * z.stride + c] - b->mean[c];
            b->variance[c] += d * d;
        }
    for (size_t c = 0; c < z.columns; c++)
        b->variance[c] /= (float)z.rows;
}

// Computes the statistics from the summaries. Before the first batch, sets mean 0 and
// variance 1.
static void summary_statistics(const struct batch_norm *b, size_t units)
{
    float count = b->summary[0];
    const float *means = b->summary + 1, *variances = means + units;
    for (size_t c = 0; c < units; c++) {
        float variance = count > 0 ? variances[c] / count : 1;
        b->mean[c] = count > 0 ? means[c] / count : 0;
        b->variance[c] = variance > 0 ? variance : 0;
    }
}

void batch_norm_forward(const struct batch_norm *b, struct matrix z, struct matrix ret_y)
{
    if (has_own(b, z))
        examples_statistics(b, z);
    else
        summary_statistics(b, z.columns);
    float *inverse = b->by_z;
    for (size_t c = 0; c < z.columns; c++)
        inverse[c] = 1 / sqrtf(b->variance[c] + epsilon);
    for (size_t i = 0; i < z.rows; i++) {
        float *row = z.at + i * z.stride, *y = ret_y.at + i * ret_y.stride;
        for (size_t c = 0; c < z.columns; c++) {
            row[c] = (row[c] - b->mean[c]) * inverse[c];
            y[c] = b->scale[c] * row[c] + b->shift[c];
        }
    }
}

// Adds to `ret` the change that a batch makes to the summaries. The variance of n examples
// is corrected by n / (n - 1), since the variance of a sample is slightly smaller than the
// variance of all examples.
static void move_summary(const struct batch_norm *b, size_t n, size_t units, float *ret)
{
    float by = momentum * b->share, unbiased = (float)n / (float)(n - 1);
    const float *means = b->summary + 1, *variances = means + units;
    ret[0] += by * (1 - b->summary[0]);
    for (size_t c = 0; c < units; c++) {
        ret[1 + c] += by * (b->mean[c] - means[c]);
        ret[1 + units + c] += by * (unbiased * b->variance[c] - variances[c]);
    }
}

// Computes, for each unit, the sum of dy in b->mean and the sum of dy z in b->by_z.
static void sums(const struct batch_norm *b, struct matrix z, struct matrix dy)
{
    add_rows(dy, b->mean);
    memset(b->by_z, 0, z.columns * sizeof(float));
    for (size_t i = 0; i < z.rows; i++)
        for (size_t c = 0; c < z.columns; c++)
            b->by_z[c] += dy.at[i * dy.stride + c] * z.at[i * z.stride + c];
}

// Each z also changes the mean and the variance of all examples (Ioffe & Szegedy 2015,
// section 3). So two terms are subtracted from d loss / d z: one that is the same for all
// examples, and one that is proportional to z.
void batch_norm_backward(const struct batch_norm *b, struct matrix z, struct matrix dy,
                         float *scale, float *shift, float *summary)
{
    float part = has_own(b, z) ? 1 / (float)z.rows : 0;
    if (part > 0)
        move_summary(b, z.rows, z.columns, summary);
    sums(b, z, dy);
    for (size_t c = 0; c < z.columns; c++) {
        scale[c] += b->by_z[c];
        shift[c] += b->mean[c];
        b->variance[c] = b->scale[c] / sqrtf(b->variance[c] + epsilon);
    }
    for (size_t i = 0; i < z.rows; i++)
        for (size_t c = 0; c < z.columns; c++) {
            float *d = &dy.at[i * dy.stride + c];
            *d = b->variance[c] *
                 (*d - part * (b->mean[c] + b->by_z[c] * z.at[i * z.stride + c]));
        }
}
