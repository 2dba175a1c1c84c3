// Facts about the data's fields that models need before the first row: their number,
// which are numbers, which have vectors of another length.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_FIELDS_H
#define TUG_TRAIN_FIELDS_H

#include "base/team.h"
#include "data/dataset.h"
#include "data/piece.h"
#include "data/reader.h"
#include "model/model.h"
#include "train/config.h"

// Fills in m->fields for a model that needs it, where it is 0: as the format says
// (criteo, the header of a csv), or by reading the text once for the highest field
// (libffm). Standard input cannot be read twice, and asks for --fields.
int fields_count(struct team *team, const struct path_list *paths,
                 const struct reader_options *options, struct reader *reader,
                 const atomic_bool *interrupted, struct model_options *m, struct err *e);

// Fills in m->numbers for a model with data_norm: columns of numbers, which only csv and
// multislot have. TUG_EUSAGE if there is none, or there are too many.
int fields_numbers(const struct schema *s, struct model_options *m, struct err *e);

// Fills in m->dims of "COLUMN=N,..." (NULL: none), by the names of the data's columns, of
// which m->fields is the number. TUG_EUSAGE. And as such a text, in the order of fields;
// "" where there is no memory.
enum { FIELDS_DIMS_MAX = 16384 };
int fields_dims(const struct schema *s, const char *text, struct model_options *m,
                struct err *e);
void fields_dims_print(const struct schema *s, const struct model_options *m,
                       char ret[FIELDS_DIMS_MAX]);

// TUG_EDATA naming the first example with a field that the model has no vectors for: a
// test file can have fields that the training data had not. `s` or `p`, whichever it was
// loaded from, tells file names.
int fields_check(const struct dataset *d, const struct source *s, const struct pieces *p,
                 const struct model_options *m, struct err *e);

#endif
