// Training in tests: data that a model can learn from, models and threads.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_TRAINING_H
#define TUG_KIT_TRAINING_H

#include "os/team.h"
#include "train/config.h"
#include "train/saved/saved.h"

// Writes lines in the format libffm, whose label depends on the parity of two features.
// Each of 4 fields has `features` different features; each line has a comment of
// `padding` bytes. Returns the path in the test's folder.
const char *training_data(const char *name, uint64_t rows, uint64_t features,
                          int padding);
struct model_options training_model(const char *name); // trained by adagrad
struct model_options training_model_by(const char *name, enum rule_kind rule);
// Returns the settings of a short run of this model in one thread, which trains on the
// libffm file *data and tests on it.
struct train_config training_config(const char *model, const char *const *data);
struct team *training_team(int threads);

// Opens lr with these weights for the features below n.
void training_linear(struct parameters *p, uint64_t n, float (*weight)(uint64_t key));

#endif
