// Training again on everything: once with validation, which finds the number of passes, and
// then from the start for so many passes on all examples, those of the validation included.
//
// Each of both is an ordinary run: in one process they are one behind the other; on a cluster
// `tug launch` starts all processes twice, and tells them by the environment which of both
// it is.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_REFIT_H
#define TUG_TRAIN_REFIT_H

#include "base/buf.h"
#include "train/config.h"

// Like train_run, for a configuration with validation. The validation of the first run
// stays in *ret; the rest is of the second run.
int refit_run(const struct train_config *c, struct train_result *ret, struct err *e);

// The two, apart. The first saves nothing.
struct train_config refit_search(const struct train_config *c);
// `paths`: for refit_paths(c) names of files, which have to live as long as what is returned.
struct train_config refit_all(const struct train_config *c, uint32_t passes,
                              const char **paths);
size_t refit_paths(const struct train_config *c);

// The result of the first run as one word, and back: the best pass and its metrics of
// validation. TUG_EDATA if it is not such a word.
int refit_put_found(const struct train_result *t, struct buf *ret);
int refit_take_found(const char *text, struct train_result *ret, struct err *e);

#endif
