// Checks the first lines of --test and --valid before training: the run reads these files
// late, and an error in them should not come after hours.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_HEADS_H
#define TUG_TRAIN_HEADS_H

#include "train/config.h"

// Reads the header and the first example of each file in `paths`, which `option` names.
// Skips pipes, whose lines can be read only once. Returns TUG_EDATA if reading the whole
// file would fail at one of these lines.
int heads_check(const struct train_config *c, struct reader *r,
                const struct path_list *paths, const char *option, struct err *e);

#endif
