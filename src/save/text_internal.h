// Shared by text.c (columns, export), text_import.c (lines, batches) and text_paddle.c.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SAVE_TEXT_INTERNAL_H
#define TUG_SAVE_TEXT_INTERNAL_H

#include "save/text.h"
#include "store/store_internal.h"

// How a number stands in a row: as a float, in two floats as a double, as bits, or as a
// day, which is written as the days since.
enum text_kind { TEXT_FLOAT, TEXT_DOUBLE, TEXT_BITS, TEXT_DAY };

struct text_column {
    enum text_kind kind;
    uint32_t at; // column of the row or the extra row
};
struct text_columns {
    struct text_column *row, *extra;
    uint32_t n_row, n_extra;
};
int text_columns(const struct store *s, bool state, struct text_columns *ret,
                 struct err *e);
void text_columns_free(struct text_columns *c);

// A row being imported, initialized as a new row of its key.
struct text_row {
    float *row, *extra;
    bool has_extra;
    uint32_t day; // of the table
};

// The life of rows as text knows it. LIFE_OTHER: a program's own, or none.
enum text_life { LIFE_OTHER, LIFE_SINGLE, LIFE_WIDE };
enum text_life text_life(const struct accessor *a);
const char *text_accessor(const struct store *s); // its name, of all it may have

void text_set(float *row, struct text_column c, double x, uint32_t day);

// Numbers of a line of Paddle's, behind its key: what is wrong with them, or 0.
int text_paddle_row(const struct store *s, const double *x, uint32_t n,
                    struct text_row *ret, const char *where, struct err *e);
// Whether the table's rules have a counterpart.
int text_paddle_check(const struct store *s, struct err *e);

#endif
