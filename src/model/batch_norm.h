// Batch normalisation of a layer (Ioffe & Szegedy 2015), before it is rectified:
//
//   y = scale (z - mean) / sqrt(variance + 1e-5) + shift      (* by unit)
//
// In training mean and variance are those of the examples that are computed together.
// Scores use running values, which are summaries of the layer: each batch moves them by a
// hundredth of their distance to the batch's own values. They begin at 0. To correct for
// that, one more float is moved towards 1 in the same way, and the running values are
// divided by it when they are used: so from the first batch on they are means, over about
// the last hundred batches.
//
// A batch of one example has no variance, so it is computed as in scoring.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_BATCH_NORM_H
#define TUG_MODEL_BATCH_NORM_H

#include <stdbool.h>

#include "model/matrix.h"

struct batch_norm {
    const float *scale, *shift; // one scale and one shift for each unit
    const float *summary;       // batch_norm_summaries floats
    bool training;
    // In training: the share of the whole batch's examples that are in this part.
    float share;
    // Set by batch_norm_forward: the mean and variance of each unit.
    float *mean, *variance;
    float *by_z; // one float for each unit, which batch_norm_backward needs
};

static inline size_t batch_norm_summaries(size_t units)
{
    return 1 + 2 * units;
}

// Sets y, and replaces z by (z - mean) / sqrt(variance + 1e-5).
void batch_norm_forward(const struct batch_norm *b, struct matrix z, struct matrix ret_y);

// Must be called after batch_norm_forward, with the z that it has set. Replaces d loss /
// d y in dy by d loss / d (the original z), and adds to the gradients of scale and
// shift, and to the change of the summary.
void batch_norm_backward(const struct batch_norm *b, struct matrix z, struct matrix dy,
                         float *scale, float *shift, float *summary);

#endif
