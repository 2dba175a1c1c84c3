// Guard rails: warnings about a model that says less than a guess would, or that does not
// know the data that it is given, with the likely reason and what to try.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_GUARD_H
#define TUG_TRAIN_GUARD_H

#include <stdbool.h>

#include "data/paths.h"
#include "data/reader.h"
#include "model/metrics.h"
#include "model/model.h"

// The share of features that the model knows, 0 to 1; NaN: there are none.
double guard_known(const struct metrics *m);

// Warns when a file is trained on, as the first `trained` of them are, and tested on too,
// or twice in --data.
void guard_files(const struct data_files *f, size_t trained);
// Warns when one of the files [from, to), which `option` names, is there twice.
void guard_repeated(const struct data_files *f, size_t from, size_t to,
                    const char *option);

// After the last of `passes` passes over the training data, by the sums over it; `lr`:
// the rate. `loaded`: the loader of the data has reported that its labels are all one.
// True: it warned.
bool guard_training(const struct metrics *last, enum loss loss, uint32_t passes,
                    double lr, bool loaded);

// Scores on other data, which `what` names: says the share of known features, and warns when
// it is below 5 % or the scores are worse than a guess.
void guard_scores(const struct metrics *m, const char *what, bool labels);

// Before models with layers are trained: warns when OpenBLAS does not know this CPU.
void guard_layers(const struct model_options *o);

// Warns of feature columns that files lacked (--allow-missing).
void guard_columns(const struct reader *r);

#endif
