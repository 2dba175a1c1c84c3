// Hogwild's steps, for owners of rows (run_rows.batch).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_HOGWILD_H
#define TUG_TRAIN_HOGWILD_H

#include "train/run.h"

// Examples whose rows are fetched ahead of the first's use.
enum { HOGWILD_AHEAD = 32 };

// Hands each few examples of batch `number` to `each`, `size` of them at most, which is
// MODEL_AT_ONCE_MAX or less. Both stop at w->rc.
void hogwild_deal(struct worker *w, size_t size, uint64_t number,
                  void (*each)(struct worker *w, const uint64_t *order, size_t n));

// Takes examples, and steps on their rows.
void hogwild_step(struct worker *w, const uint64_t *order, size_t n);

// The two together.
void hogwild_batch(struct worker *w, size_t size, uint64_t number);

#endif
