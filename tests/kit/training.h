// Training in tests: data with something to learn, models and threads.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_TRAINING_H
#define TUG_KIT_TRAINING_H

#include "base/team.h"
#include "train/config.h"
#include "train/saved.h"

// libffm lines with something to learn: the label follows the parity of two
// features. `features` of each of 4 fields; a comment of `padding` bytes. Gives
// its path in the folder.
const char *training_data(const char *name, uint64_t rows, uint64_t features,
                          int padding);
struct model_options training_model(const char *name); // by adagrad
struct model_options training_model_by(const char *name, enum rule_kind rule);
// A short run of that model by one thread, which trains on the libffm file
// *data and tests on it.
struct train_config training_config(const char *model, const char *const *data);
struct team *training_team(int threads);

// Opens lr with these weights of the features below n.
void training_linear(struct parameters *p, uint64_t n, float (*weight)(uint64_t key));

#endif
