// Error messages for diverged training: they name the example, the key and a remedy.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_EVALUATE_DIVERGED_H
#define TUG_TRAIN_EVALUATE_DIVERGED_H

#include "train/run.h"

// Returns TUG_EDATA about an example whose score is not finite, with its line and the
// feature that caused it. No thread of the team may be working.
int diverged_score(struct run *r, uint64_t example, struct err *e);

// Return TUG_EDATA if a parameter is not finite. Scores reveal most such parameters, but
// not those that no later example uses.
int diverged_check(const struct run *r, struct err *e);
int diverged_check_table(const struct table *t, const struct reader *r, struct err *e);
// Returns TUG_EDATA about a key whose weights another process found not to be finite.
// `r`, the reader of the data, has the names of columns.
int diverged_key(uint64_t key, const struct reader *r, struct err *e);
// Returns TUG_EDATA about a key in a batch that a worker computed. `what` names the
// number that is not finite and ends with "(... of"; `where` names the first line of the
// data that has the key, or is "".
#define DIVERGED_NO_SLOT UINT32_MAX
int diverged_update(const struct reader *r, uint32_t slot, uint64_t key, const char *what,
                    const char *where, struct err *e);
// Warns that a server has left out an update of this key.
void diverged_left_out(const struct reader *r, uint32_t slot, uint64_t key,
                       const char *where);
// Returns TUG_EDATA about the dense parameters. `blocks` are their rows; NULL if another
// process has them.
int diverged_dense(const struct model *m, float *const *blocks, struct err *e);

#endif
