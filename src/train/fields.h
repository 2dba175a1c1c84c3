// Facts about the data's fields that a model needs before its first row: the number of
// fields, the fields of numbers, and the fields with vectors of another length.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_FIELDS_H
#define TUG_TRAIN_FIELDS_H

#include "data/dataset/dataset.h"
#include "data/format/reader.h"
#include "data/source/numbering.h"
#include "data/source/piece.h"
#include "model/model.h"
#include "os/team.h"
#include "train/config.h"

// Sets m->fields if the model needs it and it is 0: from the format (criteo, the header
// of a csv file), or from the highest field of the text, which is read once (libffm).
// Standard input cannot be read twice, so for standard input the error asks for --fields.
int fields_count(struct team *team, const struct path_list *paths,
                 const struct reader_options *options, struct reader *reader,
                 const atomic_bool *interrupted, struct model_options *m, struct err *e);

// Sets m->numbers, the columns of numbers, for a model with data_norm. Only
// csv and multislot have such columns. Returns TUG_EUSAGE if the data has no
// such column, or too many.
int fields_numbers(const struct schema *s, struct model_options *m, struct err *e);

// fields_dims sets m->dims from "COLUMN=N,..." (NULL: none) and the names of the data's
// m->fields columns; it may return TUG_EUSAGE. fields_dims_print writes m->dims as such a
// text, in the order of the fields; "" if there is not enough memory.
enum { FIELDS_DIMS_MAX = 16384 };
int fields_dims(const struct schema *s, const char *text, struct model_options *m,
                struct err *e);
void fields_dims_print(const struct schema *s, const struct model_options *m,
                       char ret[FIELDS_DIMS_MAX]);

// Returns TUG_EDATA about the first example with a field for which the model has no
// vectors: a test file can have fields that the training data did not have. The error
// takes the name of the file from `s` or `p`, by which the data was loaded. Adds the
// fields to `seen` (may be NULL) if the model uses fields.
int fields_check(const struct dataset *d, const struct source *s, const struct pieces *p,
                 const struct model_options *m, struct numbering *seen, struct err *e);

#endif
