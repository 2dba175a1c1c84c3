// Warnings about a model that predicts worse than a guess, or that does not know the
// features of its data, each with the likely reason and a remedy.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_EVALUATE_GUARD_H
#define TUG_TRAIN_EVALUATE_GUARD_H

#include <stdbool.h>

#include "data/format/reader.h"
#include "data/source/paths.h"
#include "model/metrics.h"
#include "model/model.h"
#include "train/config.h"

// Returns the share of features that the model knows, 0 to 1; NaN if the data has no
// features.
double guard_known(const struct metrics *m);

// Warns if a file of --data is also one of --valid or --test, or is named twice in
// --data. The first `trained` files of `f` are those of --data.
void guard_files(const struct data_files *f, size_t trained);
// Warns if a file occurs twice among the files [from, to), which `option` names.
void guard_repeated(const struct data_files *f, size_t from, size_t to,
                    const char *option);

// Refuses --out, --dump, --history or --tfevents in a directory of data, where the next run
// would read the outputs as data.
int guard_outputs(const struct train_config *c, struct err *e);

// Warns after the last of `passes` passes over the training data if the model has learned
// nothing; `last` has the metrics of that pass and `lr` is the learning rate. `loaded` is
// true if the code that loads data has already warned that all labels are equal. Returns
// whether a warning was given.
bool guard_training(const struct metrics *last, enum loss loss, uint32_t passes,
                    double lr, bool loaded);

// Checks the scores of data other than the training data; `what` names the data.
// Logs the share of known features. Warns if that share is below 5 % or the scores
// are worse than a guess.
void guard_scores(const struct metrics *m, const char *what, bool labels);

// Warns, before a model with layers is trained, if OpenBLAS does not know this CPU.
void guard_layers(const struct model_options *o);

// Warns of feature columns that some files do not have (--allow-missing).
void guard_columns(const struct reader *r);

#endif
