// Explains diverged training: the example, the key and the remedy.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_DIVERGED_H
#define TUG_TRAIN_DIVERGED_H

#include "train/run.h"

// TUG_EDATA about an example whose score is not finite: where it stands, and which key is
// to blame. The team is idle.
int diverged_score(struct run *r, uint64_t example, struct err *e);

// TUG_EDATA when a parameter is not finite. Scores find out about most of them, but not
// about those that no example meets again.
int diverged_check(const struct run *r, struct err *e);
int diverged_check_table(const struct table *t, const struct reader *r, struct err *e);
// Likewise for a divergence found elsewhere. `r`, the data's reader, knows the columns.
int diverged_key(uint64_t key, const struct reader *r, struct err *e);
// The same of a key in a batch that a worker computed. `what` says what is not finite, and
// ends with "(... of"; `where`: the first line that has the key, or "".
#define DIVERGED_NO_SLOT UINT32_MAX
int diverged_update(const struct reader *r, uint32_t slot, uint64_t key, const char *what,
                    const char *where, struct err *e);
// Warns of an update that a server has left out.
void diverged_left_out(const struct reader *r, uint32_t slot, uint64_t key,
                       const char *where);
// `blocks`: the rows of the dense parameters; NULL if they are elsewhere.
int diverged_dense(const struct model *m, float *const *blocks, struct err *e);

#endif
