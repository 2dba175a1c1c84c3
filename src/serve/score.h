// Examples scored by a served model, by as many threads as want to at the same time. Nothing is
// allocated once a thread's memory is as large as its batches, and nothing is locked.
//
// Predictions have the bits of evaluation (train/evaluate/evaluate.h): the same functions compute
// them, of an example by itself, or of layers in the same pieces.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVE_SCORE_H
#define TUG_SERVE_SCORE_H

#include "serve/served.h"

struct score_rows { // as struct tug_rows (tug/train.h)
    size_t n;
    const uint64_t *offsets; // n + 1
    const uint64_t *keys;
    const uint32_t *fields; // or NULL
    const float *values;    // or NULL
    uint64_t columns;       // of the matrix that they are; 0: not known
};

// Predictions (`raw`: scores) of one copy of the model: labels of each example. *ret_number (NULL
// is fine): of which save. TUG_EUSAGE: rows that cannot be.
int score_rows(struct served *s, const struct score_rows *rows, bool raw, float *ret,
               uint32_t *ret_number, struct err *e);

// Likewise for lines of text in the format of the model's data; labels are optional and
// ignored; csv has a header. An empty line is none. *ret_n is how many examples there
// are; `ret` has room for `room` floats. TUG_EDATA naming the line.
int score_text(struct served *s, const char *text, size_t bytes, bool raw, float *ret,
               size_t room, size_t *ret_n, uint32_t *ret_number, struct err *e);

// Likewise for columns in memory, with names and types, as evaluation reads them.
// TUG_EDATA naming the row.
struct rows;
int score_columns(struct served *s, const struct rows *rows, bool raw, float *ret,
                  size_t room, size_t *ret_n, uint32_t *ret_number, struct err *e);

// Gets the key and the field of a feature by its name, "COLUMN=WORD". TUG_EUSAGE if data
// of this format has no such names; TUG_EDATA if there is no such feature.
int score_feature(struct served *s, const char *name, uint64_t *ret_key,
                  uint32_t *ret_field, struct err *e);

void score_close(struct served *s); // frees the memory of all threads; nobody reads

#endif
