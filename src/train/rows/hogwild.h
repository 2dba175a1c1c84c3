// Hogwild's steps, for owners of rows (local_rows.batch).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_ROWS_HOGWILD_H
#define TUG_TRAIN_ROWS_HOGWILD_H

#include "train/run.h"

// The number of examples whose rows are prefetched before the first of them is used.
enum { HOGWILD_AHEAD = 32 };

// Calls `each` for the examples of batch `number`, at most `size` of them at a time;
// `size` is at most MODEL_AT_ONCE_MAX. Stops when w->rc is not 0.
void hogwild_deal(struct worker *w, size_t size, uint64_t number,
                  void (*each)(struct worker *w, const uint64_t *order, size_t n));

// Trains on n examples: updates their rows.
void hogwild_step(struct worker *w, const uint64_t *order, size_t n);

// Calls hogwild_step for all examples of a batch.
void hogwild_batch(struct worker *w, size_t size, uint64_t number);

#endif
