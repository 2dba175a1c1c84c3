// Vectors of different lengths: most fields' have options.dim floats, and those that
// options.dims lists as many as it says.
//
// Rows of all features are as wide as the longest vector; a field uses the first floats of
// them. So that those behind stay 0 and weigh nowhere, rows begin at random only as far as
// the shortest vector goes, gradients of what a field does not use are 0, and a rule that
// shares state among weights shares it among so many that every vector is some of these
// blocks.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_DIMS_H
#define TUG_MODEL_DIMS_H

#include "model/model.h"

// TUG_EUSAGE: the model's vectors have one length, or a field or a length cannot be.
int dims_check(const struct model_options *o, struct err *e);

// The longest and the shortest of all fields' vectors, and the greatest common divisor of
// their lengths: options.dim if none differs.
struct dims {
    uint32_t longest, shortest, divisor;
};
struct dims dims_of(const struct model_options *o);

// Floats of all fields' vectors.
size_t dims_sum(const struct model_options *o);

// The position of each field's vector among them. TUG_ENOMEM.
int dims_open(struct model_work *w);
void dims_close(struct model_work *w);

static inline struct model_span dims_span(const struct model_work *w, uint16_t field)
{
    uint32_t dim = w->model->options.dim;
    return w->spans != NULL ? w->spans[field] : (struct model_span){field * dim, dim};
}

#endif
