// Columns that a program has in memory, as the Arrow C data interface hands them over:
// whole numbers, floats, bool, text, dates, times, decimals, dictionaries of these, and
// lists of them; any of them null. A cell's text is what the frame's own csv writer
// writes: polars' for Arrow data, pandas' and Python's where the metadata of the table's
// schema has the key tug.python. Opening checks every offset that could lead out of a
// buffer, so that cells are read without checks. Columns of other kinds may be there, as
// long as they are not read.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_COLUMNS_H
#define TUG_DATA_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "tug/arrow.h"

enum column_kind {
    COLUMN_NULL,
    COLUMN_BOOL,
    COLUMN_WHOLE, // of `bytes`, signed or not
    COLUMN_REAL,  // of `bytes`
    COLUMN_TEXT,  // its offsets have `bytes`
    COLUMN_VIEW,  // text, by views
    COLUMN_LIST,  // its offsets have `bytes`; 0: each has `each` items
    COLUMN_DICTIONARY,
    COLUMN_DATE,    // days (4 bytes) or milliseconds (8) since 1970
    COLUMN_CLOCK,   // time of a day, in units of 10^-digits seconds, of `bytes`
    COLUMN_TIME,    // such units since 1970
    COLUMN_DECIMAL, // of `bytes`, with `digits` behind the point
    COLUMN_OTHER,
};

// The writer whose text cells have.
enum cell_style {
    CELL_ARROW,  // true, 1e16: as polars does
    CELL_PYTHON, // True, 1e+16
    CELL_OLD,    // true, 19 for 19.0: tug before it wrote what others do
};

enum { COLUMN_STATED = 16 };

// The schema of a column, or of the items of its lists or its dictionary.
struct column_type {
    enum column_kind kind;
    uint8_t bytes;
    bool is_signed;
    uint8_t digits;
    bool has_zone; // of COLUMN_TIME; `zone` is added to it
    int32_t zone;  // seconds
    enum cell_style style;
    char stated[COLUMN_STATED]; // what the metadata (tug.type) says that texts are; or ""
    int64_t each;
    const char *name, *format; // in the schema
    struct column_type *of;    // of a list's items, of a dictionary's values
};

// An array of a column: where it lies.
struct column_span {
    const struct column_type *type;
    const uint8_t *valid; // NULL: all are
    int64_t offset, length;
    const void *values;       // of numbers; offsets; views; indices
    const char *text;         // of COLUMN_TEXT
    const void *const *texts; // of COLUMN_VIEW
    struct column_span *of;
};

struct columns_batch {
    struct ArrowArray array;
    uint64_t first; // of its rows
    struct column_span *span;
};

struct columns {
    struct ArrowArrayStream stream; // release NULL: none
    struct ArrowSchema schema;
    size_t n;
    struct column_type *type;
    struct columns_batch *batch;
    size_t batches;
    uint64_t rows;
};

// Both take over what they are given, also when they fail: it is released then, and at
// columns_close. TUG_EDATA where the producer failed, or naming the column whose array is
// malformed.
int columns_open_stream(struct columns **ret, struct ArrowArrayStream *s, struct err *e);
int columns_open_array(struct columns **ret, struct ArrowSchema *s, struct ArrowArray *a,
                       struct err *e);
void columns_close(struct columns *c); // NULL is fine
// Takes a column of numbers out: *ret has its numbers, a float for each row, which the
// caller frees, and the column is no longer there. TUG_EUSAGE if there is no such column;
// TUG_EDATA names a row without a number.
int columns_take_out(struct columns *c, const char *name, float **ret, struct err *e);

// Inside: the types of a schema, and the spans of an array of them.
int columns_take_schema(struct columns *c, struct err *e);
void columns_free_types(struct column_type *type, size_t n);
int columns_take_array(struct columns *c, struct ArrowArray *a, struct err *e);
void columns_free_spans(struct column_span *span, size_t n);

// Also texts that are stated to be numbers.
bool column_is_number(const struct column_type *t);
// The column's type in the schema of a model ("bool", "whole", "float64", ...), by which
// csv's spellings of its words are folded (reader_csv_fold.c); NULL: texts are words.
const char *column_cells(const struct column_type *t);

// The content of a cell. Lists are items of `list`, which are cells themselves.
enum cell_kind { CELL_MISSING, CELL_TEXT, CELL_NUMBER, CELL_LIST };

enum { CELL_OWN = 64 };

struct cell {
    enum cell_kind kind;
    const char *text; // of CELL_TEXT; of a number when cell_write was called
    size_t len;
    double number; // the nearest to it
    enum cell_style style;
    bool is_bool; // of CELL_TEXT
    bool single;  // `number` is a float's
    bool is_real; // of a column of floats
    bool is_whole, negative;
    uint64_t whole; // without its sign
    const struct column_span *list;
    int64_t from, to;
    char own[CELL_OWN];
};

// The batch that a row is in.
const struct columns_batch *columns_find(const struct columns *c, uint64_t row);
// TUG_EDATA: an index is behind the end of its dictionary, text has a byte 0, or the column
// is of another kind.
int column_cell(const struct column_span *s, int64_t i, struct cell *ret, struct err *e);
// Gives a number its text: that of an integer has no point, floats have one and as few digits
// as tell them apart.
void cell_write(struct cell *cell);
// The float that the number's text is read as.
float cell_float(const struct cell *cell);
// From here on the cell is the same as with CELL_OLD.
void cell_make_old(struct cell *cell);
// A float's text as cell_write makes it; `ret` has CELL_OWN bytes.
size_t cell_write_float(double x, bool single, enum cell_style style, char *ret);
// Texts of dates, times and decimals (columns_time.c).
void cell_take_time(const struct column_span *s, int64_t i, struct cell *ret);
void cell_take_decimal(const struct column_span *s, int64_t i, struct cell *ret);
// A cell as one text, in place of what is in *to: items with `between` between them.
int cell_join(struct cell *cell, char between, struct buf *to);

#endif
