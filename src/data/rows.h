// Rows of examples that a program has in memory, as data beside files: a sparse matrix, a
// dense one, or columns. They are published under an address, which stands where a path
// of data may stand, so that all that reads files reads them, too. Readers make examples
// of them as they are (reader_row): no text is written and parsed on the way. Only what
// looks at single rows asks for their text, and rows and their text are the same examples.
//
// Arrays are the caller's, and stay as they are while the rows are published. Rows are
// numbered from 0, and messages say these numbers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_ROWS_H
#define TUG_DATA_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"

// Features of row i are those from offsets[i] on that are before offsets[i + 1].
struct sparse_rows {
    const uint64_t *offsets; // n + 1, ascending
    const uint64_t *keys;
    const uint32_t *fields; // NULL: there are none
    const float *values;    // NULL: all are 1
    uint64_t columns;       // of the matrix that they are of; 0: not known
};

// A matrix, whose columns' numbers are the keys; zeros are left out.
struct dense_rows {
    const void *values;
    bool doubles; // else they are floats
    size_t columns;
    ptrdiff_t row_bytes, column_bytes; // from one to the next
};

struct columns;

struct rows {
    const char *name;   // in messages
    const char *format; // whose reader takes them: libsvm, libffm, csv
    uint64_t n;
    const float *labels;  // one a row; NULL: there are none
    const float *weights; // likewise; NULL: all are 1. Not in their text
    // One of these.
    const struct sparse_rows *sparse;
    const struct dense_rows *dense;
    const struct columns *columns;
    // Of columns. Their text is csv with these separators. `labels` are a column, too, the
    // first one. Numbers in columns named `categorical` are words.
    char separator, list_separator;
    const char *label_name;
    const char *const *categorical;
    size_t n_categorical;
};

enum { ROWS_ADDRESS_MAX = 40 };
// TUG_ENOMEM. The rows and what they point to outlive the address.
int rows_publish(const struct rows *r, char ret_address[ROWS_ADDRESS_MAX], struct err *e);
void rows_withdraw(const char *address); // one that was never given ("") is fine
bool rows_is_address(const char *path);
// NULL if they are not published.
const struct rows *rows_find(const char *address);

// About how long their text would be: at least a byte a row.
uint64_t rows_text_bytes(const struct rows *r);
// Returns how many rows have about that much text; at least 1.
uint64_t rows_within(const struct rows *r, uint64_t text_bytes);
// Hashes of the text of the first and the last rows.
int rows_hash(const struct rows *r, uint64_t *ret, struct err *e);

// Prints row i as a line of text in the format, without the newline.
int rows_text(const struct rows *r, uint64_t i, struct buf *to, struct err *e);
// The first lines of their text, at most `lines` of them and about `most` bytes, appended
// without the last one's newline.
int rows_first_lines(const struct rows *r, size_t lines, size_t most, struct buf *to,
                     struct err *e);

// Gives *ret the weight of row i, 1 where there are no weights. TUG_EDATA if it is
// negative or not finite.
int rows_weight(const struct rows *r, uint64_t i, float *ret, struct err *e);

// For columns: a row, and the header with their names.
int columns_text(const struct rows *r, uint64_t i, struct buf *to);
int columns_header(const struct rows *r, struct buf *to);

// The float that a number's shortest text is read as: the nearest one, but where a double
// lies in the middle of two floats and its text does not.
float rows_float(double x);

// The number of columns of the matrix; 0 if the rows are not a matrix, or its width is
// not known.
static inline uint64_t rows_matrix_columns(const struct rows *r)
{
    return r->dense != NULL    ? r->dense->columns
           : r->sparse != NULL ? r->sparse->columns
                               : 0;
}

// A cell of a matrix.
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
