// Rows of examples that a program has in memory, as data beside files: a sparse matrix, a
// dense matrix, or columns. They are published under an address, which can be used
// wherever a path of data can. Readers make examples directly from them (reader_row),
// without writing and parsing text. Only code that looks at single rows asks for their
// text; rows and their text give the same examples.
//
// The arrays belong to the caller and must not change while the rows are published. Rows
// are numbered from 0, also in messages.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_FRAME_ROWS_H
#define TUG_DATA_FRAME_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"

// A sparse matrix: row i has the features with indices offsets[i] .. offsets[i + 1] - 1.
struct sparse_rows {
    const uint64_t *offsets; // n + 1 elements, ascending
    const uint64_t *keys;
    const uint32_t *fields; // NULL: no fields
    const float *values;    // NULL: all are 1
    uint64_t columns;       // columns of the matrix; 0: unknown
};

// A dense matrix: keys are the numbers of its columns, and zeros are left out.
struct dense_rows {
    const void *values;
    bool doubles; // elements are doubles, else floats
    size_t columns;
    ptrdiff_t row_bytes, column_bytes; // distance to the next row, and to the next column
};

struct columns;

struct rows {
    const char *name;   // used in messages
    const char *format; // format whose reader makes examples: libsvm, libffm, csv
    uint64_t n;
    const float *labels; // the label of each row; NULL: no labels
    // The weight of each row, which the text of rows does not contain; NULL: all are 1.
    const float *weights;
    // Exactly one of these is set.
    const struct sparse_rows *sparse;
    const struct dense_rows *dense;
    const struct columns *columns;
    // The following members are for `columns`. The text of such rows is csv with these
    // separators; its first column has the `labels`. In columns named in `categorical`,
    // numbers are words.
    char separator, list_separator;
    const char *label_name;
    const char *const *categorical;
    size_t n_categorical;
};

enum { ROWS_ADDRESS_MAX = 40 };
// Publishes rows and returns their address. The rows and everything they point to must
// outlive the address. May return TUG_ENOMEM.
int rows_publish(const struct rows *r, char ret_address[ROWS_ADDRESS_MAX], struct err *e);
void rows_withdraw(const char *address); // "" is fine
bool rows_is_address(const char *path);
// Returns the rows that are published under this address; NULL if there are none.
const struct rows *rows_find(const char *address);

// Returns the approximate length of the rows' text, at least a byte per row.
uint64_t rows_text_bytes(const struct rows *r);
// Returns how many rows have about `text_bytes` bytes of text, at least 1.
uint64_t rows_within(const struct rows *r, uint64_t text_bytes);
// Hashes the text of the first and the last rows.
int rows_hash(const struct rows *r, uint64_t *ret, struct err *e);

// Appends row i as a line of text in the format, without the newline.
int rows_text(const struct rows *r, uint64_t i, struct buf *to, struct err *e);
// Appends the first lines of the rows' text, without the last newline: at most `lines`
// lines and about `most` bytes.
int rows_first_lines(const struct rows *r, size_t lines, size_t most, struct buf *to,
                     struct err *e);

// Sets *ret to the weight of row i; 1 if there are no weights. Returns TUG_EDATA if the
// weight is negative or not finite.
int rows_weight(const struct rows *r, uint64_t i, float *ret, struct err *e);

// Append a row of columns as csv, or the header with the names of the columns.
int columns_text(const struct rows *r, uint64_t i, struct buf *to);
int columns_header(const struct rows *r, struct buf *to);

// Returns the float that is read from a number's shortest text. That is the nearest
// float, unless a double lies exactly between two floats and its text does not.
float rows_float(double x);

// Returns the number of columns of the matrix; 0 if it is unknown or the rows are not a
// matrix.
static inline uint64_t rows_matrix_columns(const struct rows *r)
{
    return r->dense != NULL    ? r->dense->columns
           : r->sparse != NULL ? r->sparse->columns
                               : 0;
}

static inline float rows_dense_value(const struct dense_rows *d, uint64_t row,
                                     size_t column)
{
    const char *at = (const char *)d->values + (ptrdiff_t)row * d->row_bytes +
                     (ptrdiff_t)column * d->column_bytes;
    float x;
    double wide;
    if (!d->doubles) {
        memcpy(&x, at, sizeof x);
        return x;
    }
    memcpy(&wide, at, sizeof wide);
    return rows_float(wide);
}

#endif
