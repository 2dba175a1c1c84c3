// Pools several features of a field: adds up their vectors, or with `pooling_mean` takes
// the mean of them, whether or not the model knows them all.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MODEL_POOLING_H
#define TUG_MODEL_POOLING_H

#include "model/model.h"

int pooling_open(struct model_work *w); // TUG_ENOMEM
void pooling_close(struct model_work *w);

// The batch's u become those of the thread's memory: each over the number of features that
// its example has of the field. TUG_ENOMEM.
int pooling(struct model_work *w, struct model_batch *b);

#endif
