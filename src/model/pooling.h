// Pools several features of a field: adds up their vectors or, with `pooling_mean`,
// computes their mean over all features, also those that the model does not know.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_POOLING_H
#define TUG_MODEL_POOLING_H

#include "model/model.h"

int pooling_open(struct model_work *w); // returns 0 or TUG_ENOMEM
void pooling_close(struct model_work *w);

// Lets the batch's u point to the thread's memory, where each value is divided by the
// number of features that its example has in the field. Returns 0 or TUG_ENOMEM.
int pooling(struct model_work *w, struct model_batch *b);

#endif
