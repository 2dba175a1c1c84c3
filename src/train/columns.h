// Columns of a run's data: checks options that name columns against the headers of the
// files, before the data is read.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_COLUMNS_H
#define TUG_TRAIN_COLUMNS_H

#include "data/source/source.h"
#include "train/config.h"

// Looks for each column of --drop in the headers of those files of --data, --test and
// --valid that can be read here. Sets *ret to whether every column was found in some
// header. If so, the header of the first file may lack some of them.
int columns_check_drop(const struct train_config *c, bool *ret, struct err *e);

// Reads the first lines of the first file that has lines, and completes `r` from them:
// the names of the columns and the bins of numbers, unless they are known.
int columns_decide(struct reader *r, struct source *s, struct err *e);

// Sets the format and the loss in the configuration to those that the reader
// has found in the data.
void columns_complete(struct train_config *c, const struct reader *r);

#endif
