// The columns of a run's data, before it is read: options that name columns, checked
// against the files' headers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_COLUMNS_H
#define TUG_TRAIN_COLUMNS_H

#include "data/source.h"
#include "train/config.h"

// Each column that --drop names has to be in the header of some file: of --data, --test or
// --valid, where these can be read here. *ret: all of them are, so that the first header
// need not have them.
int columns_check_drop(const struct train_config *c, bool *ret, struct err *e);

// The first lines of the first file that has some decide what `r` does not know yet of the
// columns: their
// names, and the bins of numbers.
int columns_decide(struct reader *r, struct source *s, struct err *e);

// Facts that the reader knows and the options did not give.
void columns_complete(struct train_config *c, const struct reader *r);

#endif
