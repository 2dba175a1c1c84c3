// The parameters of a model: its two tables, and the way from keys to ids of their rows.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_PARAMETERS_H
#define TUG_TRAIN_PARAMETERS_H

#include "base/err.h"
#include "data/numbering.h"
#include "model/model.h"
#include "table/table.h"

struct parameters {
    struct model model;
    struct table *sparse; // one row a feature
    struct table *dense;  // one row a block of dense parameters
    float **blocks;       // these rows
    float *zeros;         // a row of zeros
    // The keys that came with training or from a save, where they are numbers from the data.
    struct numbering known;
};

int parameters_open(struct parameters *p, const struct model_options *o, struct err *e);
// Likewise for scoring only: rows of features hold only weights (model_packed), each in
// as few cache lines as possible, and begin as zeros.
int parameters_open_packed(struct parameters *p, const struct model_options *o,
                           struct err *e);
void parameters_close(struct parameters *p);

// Copies the rows (the best pass). *ret is opened by it.
int parameters_clone(struct parameters *ret, const struct parameters *p, struct err *e);

// For dataset_load: creates rows as keys come; ids are handles. ctx: struct parameters.
int parameters_resolve_new(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids);

// Likewise for reading without training: creates no rows. A key that training never
// updated gets PARAMETERS_UNSEEN, whose row is all zeros: a feature that nothing is known
// of says nothing. (What its row would begin with is noise to break the symmetry of
// training.)
int parameters_resolve_seen(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids);

#define PARAMETERS_UNSEEN TABLE_MAX_ROWS // ids have 31 bits, and this one

static inline float *parameters_row(const struct parameters *p, struct table_slabs slabs,
                                    uint32_t id)
{
    return id == PARAMETERS_UNSEEN ? p->zeros : table_row(slabs, id);
}

#endif
