// Internals that text.c (columns, export), text_import.c (lines, batches) and
// text_paddle.c share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SAVE_TEXT_INTERNAL_H
#define TUG_SAVE_TEXT_INTERNAL_H

#include "save/text.h"
#include "store/store.h"

// A column of the text. A row stores a day, but its text has the number of days from that
// day to the table's day.
struct text_column {
    enum accessor_number form;
    uint32_t at; // column of the row or the extra row
};
struct text_columns {
    struct text_column *row, *extra;
    uint32_t n_row, n_extra;
};
int text_columns(const struct store *s, bool state, struct text_columns *ret,
                 struct err *e);
void text_columns_free(struct text_columns *c);

// A row that is being imported, initialized as a new row with its key.
struct text_row {
    float *row, *extra;
    bool has_extra;
    uint32_t day; // day of the table
};

// Returns the name of the store's accessor; if it has several names, the first.
const char *text_accessor(const struct store *s);

void text_set(float *row, struct text_column c, double x, uint32_t day);

// Fills a row from the numbers after the key in a line of Paddle's text. Returns an error
// if the numbers are wrong.
int text_paddle_row(const struct store *s, const double *x, uint32_t n,
                    struct text_row *ret, const char *where, struct err *e);
// Checks that the table's rules have a counterpart in Paddle.
int text_paddle_check(const struct store *s, struct err *e);

#endif
