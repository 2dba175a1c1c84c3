// Training of a program's model (tug/train.h), and its saves.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_MODEL_TRAIN_H
#define TUG_FACADE_MODEL_TRAIN_H

#include "facade/model_internal.h"

// Whether the model's options can be trained with, as far as that is known without data; where
// they name a model, whether that of the save it comes from is one (`saved`, or NULL).
int model_train_check(struct tug_model *m, const struct tug_model_options *o,
                      const struct saved_run *saved, struct err *e);

// The save at `from`, as the only one below `directory`, which is empty or not there. Its path
// goes to ret_path.
int model_copy_save(const char *from, const char *directory, char ret_path[FILE_PATH_MAX],
                    struct err *e);

#endif
