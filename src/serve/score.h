// Scores examples with a served model, on any number of threads at the same time. Scoring
// takes no lock, and allocates nothing once a thread's memory is as large as its batches.
//
// Predictions are bit-identical to those of evaluation (train/evaluate/evaluate.h),
// because the same functions compute them: each example by itself, or, with layers, in
// pieces of the same size.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVE_SCORE_H
#define TUG_SERVE_SCORE_H

#include "serve/served.h"

struct score_rows { // members have the meaning of struct tug_rows (tug/train.h)
    size_t n;
    const uint64_t *offsets; // n + 1 offsets
    const uint64_t *keys;
    const uint32_t *fields; // one for each feature; NULL: not given
    const float *values;    // one for each feature; NULL: all are 1
    uint64_t columns; // number of columns of the matrix with these rows; 0: not a matrix
};

// Writes one prediction (or one score, if `raw` is true) for each label of each row, all
// from the same copy of the model. *ret_number (may be NULL) becomes the number of that
// copy's save. Returns TUG_EUSAGE if rows are not valid.
int score_rows(struct served *s, const struct score_rows *rows, bool raw, float *ret,
               uint32_t *ret_number, struct err *e);

// Does what score_rows does, for lines of text in the format of the model's data. Labels
// may be missing and are ignored; csv begins with a header. Empty lines are skipped.
// `ret` has room for `room` floats; *ret_n becomes the number of examples. Returns
// TUG_EDATA if a line is wrong; the error names the line.
int score_text(struct served *s, const char *text, size_t bytes, bool raw, float *ret,
               size_t room, size_t *ret_n, uint32_t *ret_number, struct err *e);

// Does what score_text does, for columns in memory with names and types, which are read
// as evaluation reads them. Returns TUG_EDATA if a row is wrong; the error names the row.
struct rows;
int score_columns(struct served *s, const struct rows *rows, bool raw, float *ret,
                  size_t room, size_t *ret_n, uint32_t *ret_number, struct err *e);

// Gets the key and the field of a feature by its name, "COLUMN=WORD". Returns TUG_EUSAGE
// if data of this format has no such names, and TUG_EDATA if the model does not know the
// feature.
int score_feature(struct served *s, const char *name, uint64_t *ret_key,
                  uint32_t *ret_field, struct err *e);

void score_close(
    struct served *s); // frees the memory of all threads; no thread may be scoring

#endif
