// The settings (store/config.h) of a run's two tables, of its sparse features and of its
// dense parameters. --table gives rows a feature lifecycle; the other settings follow
// from the model and the mode.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_ROWS_RUN_TABLES_H
#define TUG_TRAIN_ROWS_RUN_TABLES_H

#include "model/model.h"
#include "store/config.h"
#include "train/config.h"

#define RUN_SPARSE "sparse" // names of the tables, and of their files in a save
#define RUN_DENSE "dense"

// Returns the settings that --table changes or completes: accessor sparse, the model's
// rules and initial values. Gradients are sums over a batch and are not divided by shows.
struct table_config run_living_defaults(const struct model_options *o);

// Returns whether a run in one process with --table updates its rows in place
// (living_rows.h). This depends on its settings alone; if they need a server, a server
// within the process is used (lifecycle.h).
bool run_steps_in_place(const struct train_config *c);

// Return the tables of a model whose rows are never removed, in any mode; saves of such
// rows have these settings.
struct table_config run_features(const struct model *m);
struct table_config run_dense(const struct model *m);

// Sets both tables of a run; c->cluster NULL counts as mode async. Returns TUG_EUSAGE for
// settings that the model does not support.
int run_tables(const struct train_config *c, const struct model *m,
               struct table_config *ret_sparse, struct table_config *ret_dense,
               struct err *e);

#endif
