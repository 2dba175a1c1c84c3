// Batch normalisation of a layer (Ioffe & Szegedy 2015), before it is rectified:
//
//   y = scale (z - mean) / sqrt(variance + 1e-5) + shift      (* by unit)
//
// In training mean and variance are those of the examples that are computed together.
// Scores are made with running ones, which are summaries of the layer: each batch moves
// them a hundredth of the way to its own. They begin at 0, so that one more float is
// moved towards 1 in the same way, as their divisor when they are used: from the first
// batch on they are means, over the last hundred batches or so.
//
// One example alone has no variance: it is computed as when it is scored.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_BATCH_NORM_H
#define TUG_MODEL_BATCH_NORM_H

#include <stdbool.h>

#include "model/matrix.h"

struct batch_norm {
    const float *scale, *shift; // of each unit
    const float *summary;       // batch_norm_summaries floats
    bool training;
    float share;            // in training: of the examples of a whole batch
    float *mean, *variance; // of each unit: forward leaves them for backward,
    float *by_z;            // which needs room for another float of each
};

static inline size_t batch_norm_summaries(size_t units)
{
    return 1 + 2 * units;
}

// z becomes (z - mean) / sqrt(variance + 1e-5).
void batch_norm_forward(const struct batch_norm *b, struct matrix z, struct matrix ret_y);

// After forward, whose z it is: d loss / d y becomes that by z as it was before, the
// gradients of scale and shift are added, and the summary's change is added.
void batch_norm_backward(const struct batch_norm *b, struct matrix z, struct matrix dy,
                         float *scale, float *shift, float *summary);

#endif
