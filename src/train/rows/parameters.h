// The parameters of a model: its two tables, and functions from keys to ids of rows.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_ROWS_PARAMETERS_H
#define TUG_TRAIN_ROWS_PARAMETERS_H

#include "base/err.h"
#include "data/source/numbering.h"
#include "model/model.h"
#include "table/table.h"

struct parameters {
    struct model model;
    struct table *sparse; // has a row for each feature
    struct table *dense;  // has a row for each block of dense parameters
    float **blocks;       // the rows of `dense`
    float *zeros;         // a row of zeros, for features without a row
    // The keys from training or from a save, if keys are numbers in the data.
    struct numbering known;
};

int parameters_open(struct parameters *p, const struct model_options *o, struct err *e);
// Opens tables for scoring only, as parameters_open does: rows of features hold only
// weights (model_packed), lie in as few cache lines as possible, and begin as zeros.
int parameters_open_packed(struct parameters *p, const struct model_options *o,
                           struct err *e);
void parameters_close(struct parameters *p);

// Opens *ret as a copy of all rows; used to keep the rows of the best pass.
int parameters_clone(struct parameters *ret, const struct parameters *p, struct err *e);

// Gets the ids of keys for dataset_load; ctx is a struct parameters. Makes a row for each
// new key. An id is the handle of a row.
int parameters_resolve_new(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids);

// Gets the ids of keys, as parameters_resolve_new does, but makes no rows; for reading
// without training. A key that training never updated gets the id PARAMETERS_UNSEEN,
// whose row is all zeros, so that an unknown feature adds nothing. (The initial values of
// a row are noise that breaks the symmetry of training.)
int parameters_resolve_seen(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids);

// The id of a key without a row: one more than the largest id of a row (ids have 31
// bits).
#define PARAMETERS_UNSEEN TABLE_MAX_ROWS

static inline float *parameters_row(const struct parameters *p, struct table_slabs slabs,
                                    uint32_t id)
{
    return id == PARAMETERS_UNSEEN ? p->zeros : table_row(slabs, id);
}

#endif
