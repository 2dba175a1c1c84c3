// The parameters of a model: its two tables, and the way from keys to ids of their rows.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_PARAMETERS_H
#define TUG_TRAIN_PARAMETERS_H

#include "base/err.h"
#include "model/model.h"
#include "table/table.h"

struct parameters {
    struct model model;
    struct table *sparse; // one row a feature
    struct table *dense;  // the bias, at key 0
    float *bias;          // its row
};

int parameters_open(struct parameters *p, const struct model_options *o, struct err *e);
void parameters_close(struct parameters *p);

// Copies the rows (the best pass). *ret is opened by it.
int parameters_clone(struct parameters *ret, const struct parameters *p, struct err *e);

// For dataset_load: creates rows as keys come; ids are handles. ctx: struct parameters.
int parameters_resolve_new(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids);

// Reading without training. A key without a row has the values that its row would begin with: such
// rows are made in a table beside, and their ids have the top bit set.
struct lookup {
    const struct parameters *parameters;
    struct table *unseen;
};
int lookup_open(struct lookup *l, const struct parameters *p, struct err *e);
void lookup_close(struct lookup *l);
int lookup_resolve(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids); // ctx: lookup

enum { LOOKUP_UNSEEN_SHIFT = 31 };
static inline float *lookup_row(struct table_slabs seen, struct table_slabs unseen, uint32_t id)
{
    return id >> LOOKUP_UNSEEN_SHIFT ? table_row(unseen, id & (TABLE_MAX_ROWS - 1))
                                     : table_row(seen, id);
}

#endif
