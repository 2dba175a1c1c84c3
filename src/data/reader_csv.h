// The inside of the csv reader: what its headers and its lines share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_READER_CSV_H
#define TUG_DATA_READER_CSV_H

#include <stdatomic.h>
#include <string.h>

#include "data/columns.h"
#include "data/reader_ops.h"

// Into which numbers of a column go: bin i holds those from edge[i - 1] on that
// are below edge[i], the first one what is below all edges, and the last what
// is not below the last.
struct bins {
    uint32_t most; // were asked for
    uint32_t edges;
    const float *edge; // ascend; NULL: not decided yet
};

// The mark before the fraction of numbers in text. A frame's texts may have either.
enum decimal_mark { DECIMAL_POINT, DECIMAL_COMMA, DECIMAL_EITHER };

// A column of the schema or of a file.
struct column {
    enum schema_use use;
    uint32_t slot;    // or which of the labels it is
    uint64_t seed;    // of words; of numbers their key
    const char *name; // of the schema
    bool absent;      // some header lacks this feature, which was allowed
    enum decimal_mark mark;
    const struct bins *bins;
    uint32_t cells; // of SCHEMA_TYPE: what its spellings are folded by; 0: by nothing
};

struct reader_layout {
    struct reader_layout *next;
    char *header; // padded
    size_t header_len;
    struct column *column;
    size_t columns;
    size_t absent; // behind these: columns of bins that the file lacks
    bool in_order; // slots ascend
    bool named;    // no line of data looks like this header
};

// Whether a line behind the header is that header once more.
static inline bool csv_repeats_header(const struct reader_layout *l, const char *line,
                                      size_t len)
{
    return l->named && len == l->header_len && memcmp(line, l->header, len) == 0;
}

struct empty_word {
    const char *text; // in the schema
    size_t len;
};

enum { CSV_CROSS_PARTS = 3 };

struct cross {
    const struct column *column, *part[CSV_CROSS_PARTS];
    size_t parts;
};

// Notes of text that is perhaps not what it seems (reader_csv_odd.c); from any thread.
struct csv_odd {
    atomic_bool told_of_bytes;
    atomic_uint lines; // looked at for decimal commas
    atomic_uint *cells,
        *commas; // by slot: cells of these lines, and those with a decimal comma
};

struct csv {
    struct reader base;
    char separator;
    // Options; NULL: not given.
    char *label, *drop, *numeric, *weight, *lists, *missing, *cross_columns;
    char *names; // "a,b" of files without a header, the model's if not given
    bool allow_missing, drop_elsewhere, no_options;
    char list_separator;      // 0: not given
    bool unquoted;            // quotes are text
    bool decimal_comma;       // of numbers in text
    bool has_lists;           // some column has several words in a cell
    struct empty_word *empty; // words that stand for an empty cell
    size_t empties;
    const struct reader_layout *only; // of all files without a header
    uint64_t name_bits[4];            // of its names: by first letter and length
    bool given;                       // the schema: by a model
    bool old_cells;                   // it has no SCHEMA_WRITTEN
    struct column *column;            // of the schema; NULL: not decided yet
    size_t columns;
    struct bins *bin; // of the schema's columns that have some
    size_t binned;
    float *edges;        // of all of them
    bool looking;        // the first lines are seen: bins are not needed
    struct cross *cross; // of the schema, whose columns are behind the others
    size_t crosses;
    uint32_t *index; // of columns by their names' hashes: 1 + the column; 0: none
    size_t index_mask;
    atomic_uint slots; // 0 before the schema is decided
    struct reader_layout *layouts;
    struct csv_odd odd;
};

// Warns of bytes that are not UTF-8 and, where the schema is not a model's, of columns of words
// that hold numbers with decimal commas.
void csv_look_at_line(const struct csv *c, const struct reader_layout *l,
                      const char *line, size_t len);

struct field {
    const char *text;
    size_t len;
    bool doubled; // holds "" for "
};

// The field at p, which is a quote; returns the separator behind it or the end, NULL with
// *e filled.
const char *csv_quoted_field(const char *p, const char *end, char separator,
                             struct field *ret, struct err *e);

// Adds to the error of a quoted field what may be meant; TUG_EDATA.
int csv_explain_quote(const struct csv *c, struct err *e);

// The quote of cells: for rows in memory always ", as rows_text writes; 0: none, since no
// line has a byte 0.
static inline char csv_quote(const struct csv *c)
{
    return c->unquoted && c->base.rows == NULL ? (char)0 : '"';
}

static inline const char *csv_next_field(const char *p, const char *end, char separator,
                                         char quote, struct field *ret, struct err *e)
{
    if (p < end && *p == quote && quote != 0)
        return csv_quoted_field(p, end, separator, ret, e);
    const char *stop = find_byte(p, end, separator);
    *ret = (struct field){.text = p, .len = (size_t)(stop - p)};
    return stop;
}

// A name without the blanks around it, which no name of a column has. The first line of a
// file, given as an option, may end with a carriage return.
static inline void csv_trim(const char **name, size_t *len)
{
    while (*len > 0 && is_blank(**name))
        ++*name, --*len;
    while (*len > 0 && (is_blank((*name)[*len - 1]) || (*name)[*len - 1] == '\r'))
        --*len;
}

static inline bool csv_same_name(const char *a, size_t a_len, const char *b, size_t b_len)
{
    csv_trim(&a, &a_len);
    csv_trim(&b, &b_len);
    return a_len == b_len && memcmp(a, b, a_len) == 0;
}

// Copies a field with "" as "; `ret` has room for f->len bytes.
static inline size_t csv_unquote(const struct field *f, char *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < f->len; i++) {
        ret[n++] = f->text[i];
        i += f->doubled && f->text[i] == '"';
    }
    return n;
}

// An example, from its begin to its end: room for the features of a line of so many words at
// most, the fields one by one, and what follows from all of them.
int csv_begin(const struct csv *c, const struct reader_layout *l, size_t words,
              struct examples *x, struct example *new, struct err *e);
int csv_take_field(const struct csv *c, const struct column *column,
                   const struct field *f, struct examples *x, struct example *new,
                   struct err *e);
int csv_end(const struct csv *c, const struct reader_layout *l, struct examples *x,
            struct example *new, struct err *e);
// A number of a column of numbers or of their logarithms.
void csv_take_number(const struct column *column, float v, struct examples *x,
                     struct example *new);
int csv_row(const struct reader *r, const struct reader_layout *l,
            const struct rows *rows, uint64_t i, struct examples *x, struct err *e);
// The default use of a column in memory, by its type.
enum schema_use csv_row_use(const struct rows *rows, size_t column, const char *name);

// The schema as the first header, whose columns are `names`, and the options have it.
int csv_decide_schema(struct csv *c, const struct schema *names, struct err *e);
// Takes the columns out of the schema; slots are those of features, in order.
int csv_take_schema(struct csv *c, struct err *e);
void csv_forget_schema(struct csv *c);
// Returns the schema's column of that name; NULL if there is none.
struct column *csv_schema_column(const struct csv *c, const char *name, size_t len);

const char *csv_separator_name(char c, char ret[8]); // "tab", "';'"
// For a column that was learnt from a frame: returns the word that the frame's writer
// gives for the value of this text, which may be spelt differently. Returns `text` where
// there is nothing to fold, or `own`, which has CELL_OWN bytes. The kind of folding, by
// its name in the schema; 0 if unknown.
const char *csv_fold_cells(uint32_t cells, const char *text, size_t *len, char *own);
uint32_t csv_find_cells(const char *name, size_t len);
// Types of columns go into the schema, as rows in memory have them, and out of it.
int csv_add_type(struct csv *c, size_t column, enum schema_use use, const char *name,
                 struct err *e);
int csv_take_types(struct csv *c, struct err *e);

static inline const char *csv_fold(const struct column *column, const char *text,
                                   size_t *len, char *own)
{
    return column->cells == 0 ? text : csv_fold_cells(column->cells, text, len, own);
}

// Whether a comma-separated list of names has this one; a list that is NULL has none.
bool csv_is_listed(const char *list, const char *name);

// Whether the first line is data: it begins with a number. Names that only count columns,
// as some tools write them, are names.
bool csv_looks_like_data(const struct schema *names);

#define CSV_NEEDS_HEADER                                                                 \
    "; this line looks like data: csv needs a header, a first line with the columns' "   \
    "names"

// Columns that a message names: the first few of them, and how many there are.
enum { CSV_NAMED_MAX = 4 };

struct csv_named {
    size_t n;
    char text[CSV_NAMED_MAX * (sizeof(struct shown) + 4)];
};

void csv_name_column(struct csv_named *l, const char *name);
const char *csv_named_rest(const struct csv_named *l, char ret[32]);

// Copies the options that are not about columns into the schema, and from there into the
// reader.
int csv_add_settings(struct csv *c, struct err *e);
int csv_take_settings(struct csv *c, struct err *e);
// For files without a header: the layout of all of them.
int csv_take_names(struct csv *c, struct err *e);

// Copies --cross-columns into the schema, and from there into the reader, once its other
// columns are known.
int csv_add_crosses(struct csv *c, struct err *e);
int csv_take_crosses(struct csv *c, struct err *e);
// The next name of "a*b", which begins as *name; false when there is none left.
bool csv_next_part(const char **name, const char *end, const char **ret, size_t *ret_len);
// Puts an example's crosses behind its features, which are in the order of slots.
int csv_cross_line(const struct csv *c, struct examples *x, struct example *new,
                   struct err *e);
// The key of "word*word" of a cross; false where that is no such text.
bool csv_cross_word(const struct csv *c, const struct column *column, const char *text,
                    size_t len, uint64_t *ret);
// The words of a cross in a line; of lists several.
int csv_cross_text(const struct csv *c, const struct reader_layout *l, size_t cross,
                   const char *line, const char *end, struct buf *to);

// Gets the form that --numeric gives a column; false if it does not name the column.
bool csv_numeric(const struct csv *c, const char *name, struct reader_numeric *ret);

// The bins that --numeric asks for: places for them, and the edges as the schema has
// them. They are wanted of the first lines where it has none.
int csv_check_bins(const struct csv *c, struct err *e);
int csv_take_bins(struct csv *c, struct err *e);
size_t csv_wants(const struct reader *r);
int csv_decide_bins(struct reader *r, const struct reader_layout *l, const char *name,
                    const char *text, size_t len, uint64_t first, struct err *e);
// The key of a cell of numbers that go into bins. Missing values have a bin, too.
int csv_bin_key(const struct csv *c, const struct column *column, const struct field *f,
                uint64_t *ret, struct err *e);
// The bin that a text is in or, as reader_word gives it, is the name of.
int csv_bin_word(const struct csv *c, const struct column *column,
                 struct reader_word *word, struct err *e);

static inline bool csv_is_empty(const struct csv *c, const char *text, size_t len)
{
    bool empty = len == 0;
    for (size_t i = 0; i < c->empties && !empty; i++)
        empty = c->empty[i].len == len && memcmp(c->empty[i].text, text, len) == 0;
    return empty;
}

// 0, or TUG_EDATA where a line of files without a header is one: the names of their columns,
// perhaps in another order.
int csv_refuse_header(const struct csv *c, const char *line, size_t len, struct err *e);
// The names of c->only are known: makes ready for csv_refuse_header.
void csv_note_names(struct csv *c);
int csv_header(struct reader *r, const char *line, size_t len,
               const struct reader_layout **ret, struct err *e);
void csv_layout_free(struct reader_layout *l);

int csv_find_column(const struct reader *r, const struct reader_layout *l,
                    const char *name, size_t len, size_t *ret, struct err *e);
int csv_column(const struct reader *r, const struct reader_layout *l, const char *line,
               const char *end, size_t column, struct buf *to);

// A number as cells have it, also "true" and "no".
int csv_number(const char *what, const struct column *column, const struct field *f,
               float *ret, struct err *e);
int csv_word(const struct reader *r, uint32_t slot, const char *text, size_t len,
             struct reader_word *ret, struct err *e);

#endif
