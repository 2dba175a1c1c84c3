// A thread's way to rows that live (train/living_rows.h), batch by batch.
//
// First the batch's examples arrive: its distinct keys are counted, with shows and clicks,
// and brought to their partitions, one after the other, where they get rows or not. A
// batch is one push, as it is of a worker on a cluster. Then the examples are taken a few
// at a time, as any other's: a feature without a row is left out, for nothing is known of
// it, and one without an embedding takes no part in products.
//
// Examples that were counted in an earlier pass do not arrive once more: their rows are
// there, and their counters stay. Only keys that have no row, and of which the policy has
// not said its last word, are noted on the way and arrive behind the batch.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_LIVING_STEPS_H
#define TUG_TRAIN_LIVING_STEPS_H

#include "train/run.h"

// The worker's part of run_rows (train/run_rows.h). The view is valid until the end of
// the batch.
int living_steps_open(struct worker *w);
void living_steps_close(struct worker *w); // one that was not opened is fine
void living_steps_batch(struct worker *w, size_t size, uint64_t number);
int living_steps_take(struct worker *w, const uint64_t *order, size_t n,
                      const struct hot_copies *hot);

// The part of a hot row that workers copy: the groups' columns, not the statistics.
// Nothing, unless rows stay while there are copies, and these columns are together.
void living_steps_copied(const struct living_rows *l, uint32_t ret[HOT_PIECES]);
bool living_steps_find_hot(const void *run, uint32_t id, float *ret[HOT_PIECES]);

#endif
