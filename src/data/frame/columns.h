// Columns that a program has in memory, passed through the Arrow C data interface:
// integers, floats, bool, text, dates, times, decimals, dictionaries of these, and lists
// of them; any value may be null. The text of a cell is what the csv writer of the data
// frame's library writes: polars' for Arrow data, and pandas' and Python's if the
// metadata of the table's schema has the key tug.python. Opening checks every offset that
// could point outside a buffer, so that cells are read without checks. Columns of other
// kinds are allowed as long as they are not read.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_FRAME_COLUMNS_H
#define TUG_DATA_FRAME_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "tug/arrow.h"

enum column_kind {
    COLUMN_NULL,
    COLUMN_BOOL,
    COLUMN_WHOLE, // integers of `bytes` bytes, signed or not
    COLUMN_REAL,  // floats of `bytes` bytes
    COLUMN_TEXT,  // text, with offsets of `bytes` bytes
    COLUMN_VIEW,  // text, stored as views
    COLUMN_LIST, // lists, with offsets of `bytes` bytes; `bytes` 0: no offsets, each list
                 // has `each` items
    COLUMN_DICTIONARY,
    COLUMN_DATE,    // days (4 bytes) or milliseconds (8 bytes) since 1970
    COLUMN_CLOCK,   // time of day of `bytes` bytes, in units of 10^-digits seconds
    COLUMN_TIME,    // time since 1970, with size and units as COLUMN_CLOCK
    COLUMN_DECIMAL, // a number of `bytes` bytes with `digits` digits behind the point
    COLUMN_OTHER,
};

// How a cell's text is written.
enum cell_style {
    CELL_ARROW,  // true, 1e16: as polars writes
    CELL_PYTHON, // True, 1e+16: as pandas and Python write
    CELL_OLD,    // true, 19 for 19.0: as earlier versions of tug wrote
};

enum { COLUMN_STATED = 16 };

// The type of a column, or of the items of its lists, or of the values of its dictionary.
struct column_type {
    enum column_kind kind;
    uint8_t bytes;
    bool is_signed;
    uint8_t digits;
    bool has_zone; // for COLUMN_TIME: `zone` is added to the time
    int32_t zone;  // seconds
    enum cell_style style;
    // The type that the metadata (tug.type) states for the texts; "" if it states none.
    char stated[COLUMN_STATED];
    int64_t each;
    const char *name, *format; // owned by the schema
    struct column_type *of;    // type of a list's items, or of a dictionary's values
};

// The place in memory of one array of a column (of the column itself, its list
// items or its dictionary).
struct column_span {
    const struct column_type *type;
    const uint8_t *valid; // bits of the values that are not null; NULL: no value is null
    int64_t offset, length;
    const void *values;       // numbers, offsets, views or indices
    const char *text;         // the text of COLUMN_TEXT
    const void *const *texts; // the texts of COLUMN_VIEW
    struct column_span *of;
};

struct columns_batch {
    struct ArrowArray array;
    uint64_t first; // number of the batch's first row
    struct column_span *span;
};

struct columns {
    struct ArrowArrayStream stream; // release is NULL if there is no stream
    struct ArrowSchema schema;
    size_t n;
    struct column_type *type;
    struct columns_batch *batch;
    size_t batches;
    uint64_t rows;
};

// Both functions take ownership of their arguments, even on failure: columns_close, or
// the failing call, releases them. They return TUG_EDATA if the producer failed or an
// array is malformed; the error then names the column.
int columns_open_stream(struct columns **ret, struct ArrowArrayStream *s, struct err *e);
int columns_open_array(struct columns **ret, struct ArrowSchema *s, struct ArrowArray *a,
                       struct err *e);
void columns_close(struct columns *c); // `c` may be NULL
// Removes a column of numbers. Sets *ret to an array with the number of each row, which
// the caller frees. Returns TUG_EUSAGE if there is no such column; TUG_EDATA if a row has
// no number (the error names the row).
int columns_take_out(struct columns *c, const char *name, float **ret, struct err *e);

// The next four functions are internal. columns_take_schema takes the columns' types from
// a stream's schema. columns_take_array makes a span for each column of an array of the
// stream. The others free types and spans.
int columns_take_schema(struct columns *c, struct err *e);
void columns_free_types(struct column_type *type, size_t n);
int columns_take_array(struct columns *c, struct ArrowArray *a, struct err *e);
void columns_free_spans(struct column_span *span, size_t n);

// Returns whether the column holds numbers, or texts that the metadata states to be
// numbers.
bool column_is_number(const struct column_type *t);
// Returns the name of the column's type in a model's schema ("bool", "whole", "float64",
// ...). The type decides how spellings in csv files are mapped to the column's words
// (reader_csv_fold.c). NULL: each text is a word, without a mapping.
const char *column_cells(const struct column_type *t);

// The content of a cell. A list consists of items in `list`, which are cells, too.
enum cell_kind { CELL_MISSING, CELL_TEXT, CELL_NUMBER, CELL_LIST };

enum { CELL_OWN = 64 };

struct cell {
    enum cell_kind kind;
    const char *text; // the text of CELL_TEXT, and of CELL_NUMBER after cell_write
    size_t len;
    double number; // the double nearest to the cell's number
    enum cell_style style;
    bool is_bool; // for CELL_TEXT: whether the text is a bool
    bool single;  // `number` comes from a 32-bit float
    bool is_real; // the column holds floats
    bool is_whole, negative;
    uint64_t whole; // the absolute value of an integer
    const struct column_span *list;
    int64_t from, to;
    char own[CELL_OWN];
};

// Returns the batch that contains a row.
const struct columns_batch *columns_find(const struct columns *c, uint64_t row);
// Reads cell i. Returns TUG_EDATA if an index is outside its dictionary, a text contains
// a byte 0, or the column is of an unsupported kind.
int column_cell(const struct column_span *s, int64_t i, struct cell *ret, struct err *e);
// Sets the text of a number: integers without a point; floats with a point and the fewest
// digits that distinguish them.
void cell_write(struct cell *cell);
// Returns the float that a reader of the number's text would get.
float cell_float(const struct cell *cell);
// Changes the text of the cell to the form CELL_OLD.
void cell_make_old(struct cell *cell);
// Writes the text of a float as cell_write does; `ret` has CELL_OWN bytes.
size_t cell_write_float(double x, bool single, enum cell_style style, char *ret);
// Set the texts of dates, times and decimals (columns_time.c).
void cell_take_time(const struct column_span *s, int64_t i, struct cell *ret);
void cell_take_decimal(const struct column_span *s, int64_t i, struct cell *ret);
// Writes a cell as one text into *to, replacing its content; items of a list are
// separated by `between`.
int cell_join(struct cell *cell, char between, struct buf *to);

#endif
