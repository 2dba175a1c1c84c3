// Gives a thread access to rows with a feature lifecycle (train/rows/living_rows.h), batch by
// batch.
//
// First the examples of the batch arrive: its distinct keys are counted, with shows and
// clicks, and are brought to their partitions, one after the other. Each partition
// decides which of its keys get rows. A batch is one push, as on a cluster. Then examples
// are taken a few at a time, as in any run. A feature without a row is left out, because
// nothing is known about it; a feature without an embedding takes no part in products.
//
// Examples that were counted in an earlier pass do not arrive again: their rows exist and
// their counters stay. During a batch a thread only lists the keys that have no row and
// that the policy has not refused for good; these keys arrive after the batch.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_ROWS_LIVING_STEPS_H
#define TUG_TRAIN_ROWS_LIVING_STEPS_H

#include "train/run.h"

// The functions of a worker in struct run_rows (train/rows/run_rows.h). The view is valid
// until the batch ends.
int living_steps_open(struct worker *w);
void living_steps_close(struct worker *w); // fine for a worker that was not opened
void living_steps_batch(struct worker *w, size_t size, uint64_t number);
int living_steps_take(struct worker *w, const uint64_t *order, size_t n,
                      const struct hot_copies *hot);

// Writes to ret the number of floats that workers copy of each piece of a hot row:
// weights and the states of rules, without statistics. Leaves ret unchanged, so that
// nothing is copied, if the table has a budget (a row could be removed while copies of it
// exist) or these columns are not adjacent.
void living_steps_copied(const struct living_rows *l, uint32_t ret[HOT_PIECES]);
bool living_steps_find_hot(const void *run, uint32_t id, float *ret[HOT_PIECES]);

#endif
