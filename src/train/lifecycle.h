// Features that live: a model whose sparse table is made from settings (store/config.h),
// with statistics, entry policies, embeddings that are earned, and an end.
//
// In one process threads step on such rows in place (train/living_rows.h). If servers
// hold the rows (remote/remote.h), the worker pulls weights and pushes gradients with
// shows and clicks, and the rules are applied there: what the model sees is a row as a
// pull returns it, so lr is embed alone, and embedx is the latent vectors of fm and ffm.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_LIFECYCLE_H
#define TUG_TRAIN_LIFECYCLE_H

#include "model/model.h"
#include "train/config.h"
#include "train/parameters.h"
#include "train/run_tables.h"

// The model on rows of that table; to be packed for use (model_packed).
int lifecycle_model(const struct table_config *t, const struct model *m,
                    struct model *ret, struct err *e);

// A pulled row into a row of the model's own, which counts as updated.
void lifecycle_put(const struct accessor *pulled, const struct accessor *own,
                   const float *values, float *ret_row);

// Likewise, copies a row and its extra row (NULL: none) into a row of the model.
void lifecycle_copy_row(const struct accessor *from, const struct accessor *own,
                        const float *row, const float *extra, float *ret_row);

#endif
