// The first lines of files that are read late: --test and --valid are opened and looked at
// before training, so that a mistake in them is said before hours of it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_HEADS_H
#define TUG_TRAIN_HEADS_H

#include "train/config.h"

// Reads the header and the first example of each file of `paths`, which `option` names, but
// not of pipes, whose lines come once. TUG_EDATA, as when the file is read.
int heads_check(const struct train_config *c, struct reader *r,
                const struct path_list *paths, const char *option, struct err *e);

#endif
