// Training of a program's model (tug/train.h), and its saves.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_MODELS_MODEL_TRAIN_H
#define TUG_DOORS_MODELS_MODEL_TRAIN_H

#include "doors/models/model_internal.h"

// Checks the model's options for training, as far as that is possible without data. If
// they name a model, it must be that of the save which the model was loaded from
// (`saved`; NULL: none).
int model_train_check(struct tug_model *m, const struct tug_model_options *o,
                      const struct saved_run *saved, struct err *e);

// Copies the save at `from` into `directory`, which must be empty or not exist. ret_path
// becomes the path of the copy.
int model_copy_save(const char *from, const char *directory, char ret_path[FILE_PATH_MAX],
                    struct err *e);

#endif
