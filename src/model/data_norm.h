// Normalises the numbers of the data before the model reads them (Paddle's data_norm):
//
//   x' = (x - sum / size) * sqrt(size / squares)
//
// where `size` counts the examples that have the number, `sum` is the sum of its
// values, and `squares` is the sum of the squares of x - sum / size, with the sums
// at that time. The first batch is normalised by its own sums. A number that is
// always the same becomes 0.
//
// Summaries of the model have four floats of each number: size, sum in two, squares.
// Several workers add to them at the same time, and nothing is ever set. So the
// amount that is added to the first float of a sum is a multiple of a power of two,
// which is exact, and the second float gets the rest; one float alone would lose days
// of a date in seconds.
//
// Numbers are features of the fields in model_options.numbers; the first feature
// of such a field in an example is the field's first number, and so on. Other
// features stay as they are.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_DATA_NORM_H
#define TUG_MODEL_DATA_NORM_H

#include "model/model.h"

// Returns how many numbers an example has in all fields; 0 if numbers are not normalised.
size_t data_norm_numbers(const struct model_options *o);
static inline size_t data_norm_summaries(const struct model_options *o)
{
    return 4 * data_norm_numbers(o);
}

int data_norm_open(struct model_work *w); // returns 0 or TUG_ENOMEM
void data_norm_close(struct model_work *w);

// Normalises a batch: its x and u then point to the thread's memory. In training the sums
// of the batch are added to ret_summaries. Returns 0 or TUG_ENOMEM.
int data_norm(struct model_work *w, struct model_batch *b, float *ret_summaries);

#endif
