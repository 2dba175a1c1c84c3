// --refit trains twice. The first run has validation and finds the best number of passes.
// The second run trains from the start, for that number of passes, on all examples,
// including those of the validation.
//
// Each of the two is an ordinary run. In one process they run one after the other; on a
// cluster `tug launch` starts all processes twice, and an environment variable tells them
// which run it is.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_REFIT_H
#define TUG_TRAIN_REFIT_H

#include "base/buf.h"
#include "train/config.h"

// Does the two runs of --refit, each as train_run would; `c` must have validation. *ret
// gets the validation metrics of the first run, and all other results of the second run.
int refit_run(const struct train_config *c, struct train_result *ret, struct err *e);

// Return the configurations of the two runs. The first run saves nothing.
struct train_config refit_search(const struct train_config *c);
// `paths` has room for refit_paths(c) file names, and must live as long as the returned
// configuration.
struct train_config refit_all(const struct train_config *c, uint32_t passes,
                              const char **paths);
size_t refit_paths(const struct train_config *c);

// Write the result of the first run (its best pass and validation metrics) as one word,
// and read it. refit_take_found returns TUG_EDATA if the text is not such a word.
int refit_put_found(const struct train_result *t, struct buf *ret);
int refit_take_found(const char *text, struct train_result *ret, struct err *e);

#endif
