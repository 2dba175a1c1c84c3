// The tables of a run, as settings (store/config.h): its sparse features' and the dense
// parameters'. Whether features live is a matter of --table; all else follows from the
// model and the mode.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_RUN_TABLES_H
#define TUG_TRAIN_RUN_TABLES_H

#include "model/model.h"
#include "store/config.h"
#include "train/config.h"

#define RUN_SPARSE "sparse" // their names, and their files' in a save
#define RUN_DENSE "dense"

// The base to which --table adds its settings: accessor sparse, the model's rules and
// initial values. Gradients are of sums over a batch, so they are not divided by shows.
struct table_config run_living_defaults(const struct model_options *o);

// Whether a run in one process with --table steps on its rows in place (living_rows.h). By
// its settings alone: what these want of a server, a server within the process does
// (lifecycle.h).
bool run_steps_in_place(const struct train_config *c);

// The tables of a model's rows where these stay once they were made, whatever the mode:
// what is in a save of them.
struct table_config run_features(const struct model *m);
struct table_config run_dense(const struct model *m);

// c->cluster NULL: as in mode async. TUG_EUSAGE for settings that a model cannot have.
int run_tables(const struct train_config *c, const struct model *m,
               struct table_config *ret_sparse, struct table_config *ret_dense,
               struct err *e);

#endif
