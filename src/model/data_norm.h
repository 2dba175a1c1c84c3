// The numbers of the data brought to one size before a model sees them (Paddle's
// data_norm):
//
//   x' = (x - sum / size) * sqrt(size / squares)
//
// where `size` counts examples that have it, `sum` adds it up, `squares` adds the squares
// of x - sum / size, as that is at the time. The first batch, before which there is
// nothing, is normalised by itself. A number that is always the same becomes 0.
//
// Summaries of the model have four floats of each number: size, sum in two, squares. They
// are only ever added to, by several at a time, so what is added to the first float of a
// sum is a multiple of a power of two, which is exact, and the second has the rest: of a
// date in seconds a float alone would lose days.
//
// Numbers are features of the fields in model_options.numbers; of those of one field in
// an example the first is the field's first number. Other features stay as they are.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_DATA_NORM_H
#define TUG_MODEL_DATA_NORM_H

#include "model/model.h"

// Numbers in all; 0: values are not normalised.
size_t data_norm_numbers(const struct model_options *o);
static inline size_t data_norm_summaries(const struct model_options *o)
{
    return 4 * data_norm_numbers(o);
}

int data_norm_open(struct model_work *w); // TUG_ENOMEM
void data_norm_close(struct model_work *w);

// The batch's x and u become those of the thread's memory, normalised. In training what
// its numbers add to the summaries is added to ret_summaries. TUG_ENOMEM.
int data_norm(struct model_work *w, struct model_batch *b, float *ret_summaries);

#endif
