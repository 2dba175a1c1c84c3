// Vectors of different lengths: the fields in options.dims have the lengths given there,
// all others have options.dim floats.
//
// Rows of all features are as wide as the longest vector, and a field uses their first
// floats. The other floats must stay 0 and have no effect. So rows have random initial
// values only up to the length of the shortest vector, gradients of unused floats are
// 0, and a rule that shares state among weights does so in blocks that divide the
// length of every vector.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_DIMS_H
#define TUG_MODEL_DIMS_H

#include "model/model.h"

// Returns TUG_EUSAGE if the model needs vectors of one length, or if a field or a length
// is out of range.
int dims_check(const struct model_options *o, struct err *e);

// The longest and the shortest length of all fields' vectors, and the greatest common
// divisor of the lengths; all three are options.dim if no field has another
// length.
struct dims {
    uint32_t longest, shortest, divisor;
};
struct dims dims_of(const struct model_options *o);

// Returns the number of floats of all fields' vectors together.
size_t dims_sum(const struct model_options *o);

// Sets the position of each field's vector among these floats. Returns 0 or TUG_ENOMEM.
int dims_open(struct model_work *w);
void dims_close(struct model_work *w);

static inline struct model_span dims_span(const struct model_work *w, uint16_t field)
{
    uint32_t dim = w->model->options.dim;
    return w->spans != NULL ? w->spans[field] : (struct model_span){field * dim, dim};
}

#endif
