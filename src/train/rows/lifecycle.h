// Feature lifecycle: a model whose sparse table is made from settings (store/config.h),
// with statistics of features, entry policies, embeddings that a feature must earn, and
// removal of rows.
//
// In one process, threads update such rows in place (train/rows/living_rows.h). If servers
// hold the rows (train_cluster/remote.h), the worker pulls weights and pushes gradients with
// shows and clicks, and the servers apply the rules. Then the model sees rows as a pull
// returns them: the weights of lr are the column embed, and the latent vectors of fm and
// ffm are embedx.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_ROWS_LIFECYCLE_H
#define TUG_TRAIN_ROWS_LIFECYCLE_H

#include "model/model.h"
#include "train/config.h"
#include "train/rows/parameters.h"
#include "train/rows/run_tables.h"

// Initializes *ret as the model `m` on rows of the table `t`; model_packed makes it ready
// for use.
int lifecycle_model(const struct table_config *t, const struct model *m,
                    struct model *ret, struct err *e);

// Copies a pulled row into a row of the model, and marks it as updated.
void lifecycle_put(const struct accessor *pulled, const struct accessor *own,
                   const float *values, float *ret_row);

// Copies a stored row and its extra row (NULL: none) into a row of the model, and marks
// it as updated.
void lifecycle_copy_row(const struct accessor *from, const struct accessor *own,
                        const float *row, const float *extra, float *ret_row);

#endif
