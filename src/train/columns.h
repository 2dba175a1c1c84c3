// Columns of a run's data: checks options that name columns against the headers of the
// files, before the data is read.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_COLUMNS_H
#define TUG_TRAIN_COLUMNS_H

#include "data/source/source.h"
#include "train/config.h"

// Looks for each column of --drop in the headers of --data, --test and --valid, in those
// files that can be read here. Sets *ret to whether every column was found. If so, the
// header of the first file need not have all of them.
int columns_check_drop(const struct train_config *c, bool *ret, struct err *e);

// Reads the first lines of the first file that has lines, and completes `r` from them:
// the names of the columns and the bins of numbers, unless they are known.
int columns_decide(struct reader *r, struct source *s, struct err *e);

// Copies the format and the loss that the reader has found in the data into the
// configuration.
void columns_complete(struct train_config *c, const struct reader *r);

#endif
