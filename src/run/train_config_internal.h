// Shared by the files that make a run's configuration:
//
//   train_model_options.c   the model
//   train_mode.c            how workers work together
//   train_config.c          the data, the table, and all together
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUN_TRAIN_CONFIG_INTERNAL_H
#define TUG_RUN_TRAIN_CONFIG_INTERNAL_H

#include "run/train_config.h"

static inline int err_in(int rc, const char *where, struct err *e)
{
    return rc == 0 ? 0 : err_wrap(e, "%s", where);
}

// Copies a setting (model/setting.h) from its option, if that was given or has a default.
#define TRAIN_TAKE(kind, member, name, arg, was)                                         \
    if (options_has(o, name))                                                            \
        to->member = (SETTING_##kind)t->member;

// Warns of options that were given but have no effect on this model.
void train_warn_of_unused(const struct model_ops *ops, const struct options *o);
int train_set_model(struct model_options *m, const struct train_options *t,
                    const struct options *o, struct err *e);

// Sets the mode. The model, the data and the batch must be known.
int train_set_mode(struct train_setup *setup, const struct train_options *t,
                   const struct options *o, const struct train_settings *s,
                   struct err *e);

#endif
