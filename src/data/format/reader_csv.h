// The inside of the csv reader, shared by its files.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_FORMAT_READER_CSV_H
#define TUG_DATA_FORMAT_READER_CSV_H

#include <stdatomic.h>
#include <string.h>

#include "data/format/reader_ops.h"
#include "data/frame/columns.h"

// The bins of a column: bin i has the numbers from edge[i - 1] to below edge[i]. The
// first bin has the numbers below all edges, the last bin has the numbers from the last
// edge on.
struct bins {
    uint32_t most; // requested number of bins
    uint32_t edges;
    const float *edge; // ascending; NULL: not decided yet
};

// The decimal mark of numbers in text; in texts of a data frame both marks may occur.
enum decimal_mark { DECIMAL_POINT, DECIMAL_COMMA, DECIMAL_EITHER };

// A column of the schema or of a file.
struct column {
    enum schema_use use;
    uint32_t slot;    // slot of a feature, or number of a label
    uint64_t seed;    // seed of the hash of words; for numbers their key
    const char *name; // owned by the schema
    bool absent;      // some file lacks this feature column, which is allowed
    enum decimal_mark mark;
    const struct bins *bins;
    // From SCHEMA_TYPE: how spellings are mapped to words; 0: they are not mapped.
    uint32_t cells;
};

struct reader_layout {
    struct reader_layout *next;
    char *header; // the text of the header, followed by padding
    size_t header_len;
    struct column *column;
    size_t columns;
    // The number of columns of bins that the file lacks; these columns follow the other
    // columns.
    size_t absent;
    bool in_order; // features of a line are in the order of slots
    bool named;    // a line of data cannot look like this header
};

// Returns whether a line after the header repeats the header.
static inline bool csv_repeats_header(const struct reader_layout *l, const char *line,
                                      size_t len)
{
    return l->named && len == l->header_len && memcmp(line, l->header, len) == 0;
}

struct empty_word {
    const char *text; // owned by the schema
    size_t len;
};

enum { CSV_CROSS_PARTS = 3 };

struct cross {
    const struct column *column, *part[CSV_CROSS_PARTS];
    size_t parts;
};

// Counts and flags for warnings about suspicious text (reader_csv_odd.c); any thread sets
// them.
struct csv_odd {
    atomic_bool told_of_bytes;
    atomic_uint lines; // lines that were checked for decimal commas
    // For each slot: the number of cells in the lines that `lines` counts, and of cells
    // with a decimal comma. If csv.old_cells is true, `cells` becomes nonzero once the
    // reader has warned about the column's spelling.
    atomic_uint *cells, *commas;
};

struct csv {
    struct reader base;
    char separator;
    char trained_separator; // the separator of the training data, if an option has
                            // replaced it; else 0
    // The options; NULL: not given.
    char *label, *drop, *numeric, *weight, *lists, *missing, *cross_columns;
    char *names; // "a,b" for files without a header; taken from the model if not given
    bool allow_missing, drop_elsewhere, no_options;
    bool names_optional;      // --columns was given, and without it files have a header
    char list_separator;      // 0: not given
    bool unquoted;            // quotes are part of the text
    bool decimal_comma;       // numbers in text have a decimal comma
    bool has_lists;           // some column has several words in a cell
    struct empty_word *empty; // words that mean an empty cell
    size_t empties;
    const struct reader_layout *only; // the layout of all files without a header
    uint64_t name_bits[4]; // a set of the first letters and lengths of the columns' names
    bool given;            // the schema comes from a model
    bool old_cells;        // the schema has no SCHEMA_WRITTEN
    struct column *column; // columns of the schema; NULL: not decided yet
    size_t columns;
    struct bins *bin; // the bins of the columns that have bins
    size_t binned;
    float *edges;        // the edges of the bins of all columns
    bool looking;        // the first lines are being read to decide the bins
    struct cross *cross; // crosses of the schema; their columns follow the other columns
    size_t crosses;
    uint32_t *index; // hash table of columns by name: 1 + index of the column; 0: free
    size_t index_mask;
    atomic_uint slots; // 0 until the schema is decided
    struct reader_layout *layouts;
    struct csv_odd odd;
};

// Warns about bytes that are not UTF-8; if the schema does not come from a model, about
// columns of words with numbers that have a decimal comma; and if it comes from a model
// with old_cells, about words that may have another spelling in the model's data.
void csv_look_at_line(const struct csv *c, const struct reader_layout *l,
                      const char *line, size_t len);

struct field {
    const char *text;
    size_t len;
    bool doubled; // the field contains "" for a quote
};

// Reads the field at p, which begins with a quote. Returns the separator behind the
// field, or the end; NULL with *e set if the field is malformed.
const char *csv_quoted_field(const char *p, const char *end, char separator,
                             struct field *ret, struct err *e);

// These functions add advice to the error in *e (reader_csv_hints.c) and return TUG_EDATA.
// The error given to csv_explain_quote is about a quoted field of the line, the one given
// to csv_explain_missing about a field that is not a number, and the one given to
// csv_explain_label about the label of the line.
int csv_explain_quote(const struct csv *c, const char *line, const char *end,
                      struct err *e);
int csv_explain_missing(const struct csv *c, const struct field *f, struct err *e);
// Returns TUG_EDATA for a first line that cannot be a header: JSON, or Excel's "sep=;".
int csv_check_header(const char *line, size_t len, struct err *e);
// Adds advice to an error about a header; returns rc.
int csv_explain_header(const char *line, size_t len, int rc, struct err *e);
int csv_explain_label(const struct csv *c, const struct reader_layout *l,
                      const char *line, const char *end, struct err *e);
// Returns whether a line has a quote behind a backslash.
bool csv_has_backslash_quote(const char *line, const char *end);
// csv_names_label returns whether a column of this name is usually the label,
// csv_usual_label the first such column (NULL if no column has such a name), and
// csv_has_number whether some name is a number, which suggests a line of data.
bool csv_names_label(const char *name);
const char *csv_usual_label(const struct schema *names);
bool csv_has_number(const struct schema *names);
// Suggests a separator for a line of one column; "" if the line contains no other
// separator.
const char *csv_separator_hint(const struct csv *c, const char *line, size_t len);

// Returns the character that quotes cells. For rows in memory this is always '"', which
// rows_text writes. If quotes are text, it is 0, a byte that no line contains.
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

// Removes the blanks around a name, because names do not begin or end with blanks. If an
// option is the first line of a file, its last name may also end with a carriage return.
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

// Copies a field and replaces "" by "; `ret` has room for f->len bytes.
static inline size_t csv_unquote(const struct field *f, char *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < f->len; i++) {
        ret[n++] = f->text[i];
        i += f->doubled && f->text[i] == '"';
    }
    return n;
}

// Read an example: csv_begin makes room for a line with at most `words` features,
// csv_take_field reads one field, and csv_end adds what depends on all fields.
int csv_begin(const struct csv *c, const struct reader_layout *l, size_t words,
              struct examples *x, struct example *new, struct err *e);
int csv_take_field(const struct csv *c, const struct column *column,
                   const struct field *f, struct examples *x, struct example *new,
                   struct err *e);
int csv_end(const struct csv *c, const struct reader_layout *l, struct examples *x,
            struct example *new, struct err *e);
// Adds a number in a column of numbers or of logarithms of numbers.
void csv_take_number(const struct column *column, float v, struct examples *x,
                     struct example *new);
int csv_row(const struct reader *r, const struct reader_layout *l,
            const struct rows *rows, uint64_t i, struct examples *x, struct err *e);
// Returns the default use of a column in memory, by its type.
enum schema_use csv_row_use(const struct rows *rows, size_t column, const char *name);

// Decides the schema from the options and the first header, whose columns are `names`.
int csv_decide_schema(struct csv *c, const struct schema *names, struct err *e);
// Takes the columns of *c from its schema. The slots are the feature columns, in the
// schema's order.
int csv_take_schema(struct csv *c, struct err *e);
void csv_forget_schema(struct csv *c);
// Returns the column of the schema with this name; NULL if there is none.
struct column *csv_schema_column(const struct csv *c, const char *name, size_t len);

// Returns whether the comma of a number, such as 1,500, may separate thousands: one to
// three digits precede it, and three follow.
bool csv_is_of_thousands(const char *text, size_t n);
const char *csv_separator_name(char c, char ret[8]); // "tab", "';'"
// For a column that was trained on a data frame: csv_fold_cells converts a text to the
// word that the frame's writer would write for the same value. It returns `text` if there
// is nothing to change, else `own`, which has CELL_OWN bytes. csv_find_cells returns the
// value of `cells` for the name of a type in the schema; 0 if the name is unknown.
const char *csv_fold_cells(uint32_t cells, const char *text, size_t *len, char *own);
uint32_t csv_find_cells(const char *name, size_t len);
// Write the types of columns in memory into the schema, and read them from it.
int csv_add_type(struct csv *c, size_t column, enum schema_use use, const char *name,
                 struct err *e);
int csv_take_types(struct csv *c, struct err *e);

static inline const char *csv_fold(const struct column *column, const char *text,
                                   size_t *len, char *own)
{
    return column->cells == 0 ? text : csv_fold_cells(column->cells, text, len, own);
}

// Returns whether a comma-separated list contains this name; a NULL list is empty.
bool csv_is_listed(const char *list, const char *name);

// Returns whether the first line is data, because it begins with a number. The names 0,
// 1, 2, ..., which some tools write, do not count as data.
bool csv_looks_like_data(const struct schema *names);

#define CSV_NEEDS_HEADER                                                                 \
    "; this line looks like data: csv needs a header, a first line with the columns' "   \
    "names, or --columns NAME,... with all names"

#define CSV_NAMES_COLUMNS "; if the first line is data, name the columns by --columns"

// Columns that a message names: the first few names, and the number of all.
enum { CSV_NAMED_MAX = 4 };

struct csv_named {
    size_t n;
    char text[CSV_NAMED_MAX * (sizeof(struct shown) + 4)];
};

void csv_name_column(struct csv_named *l, const char *name);
const char *csv_named_rest(const struct csv_named *l, char ret[32]);

// Write the options that are not about columns into the schema, and read them from it.
int csv_add_settings(struct csv *c, struct err *e);
int csv_take_settings(struct csv *c, struct err *e);
// Makes the layout of all files without a header.
int csv_take_names(struct csv *c, struct err *e);

// csv_add_crosses writes --cross-columns into the schema; csv_take_crosses reads them
// from it, when the other columns are known.
int csv_add_crosses(struct csv *c, struct err *e);
int csv_take_crosses(struct csv *c, struct err *e);
// Returns the next name of "a*b", which begins at *name; returns false at the end.
bool csv_next_part(const char **name, const char *end, const char **ret, size_t *ret_len);
// Adds the crosses of an example behind its features, which must be sorted by slot.
int csv_cross_line(const struct csv *c, struct examples *x, struct example *new,
                   struct err *e);
// Computes the key of "word*word" of a cross; returns false if the text is not of this
// form.
bool csv_cross_word(const struct csv *c, const struct column *column, const char *text,
                    size_t len, uint64_t *ret);
// Appends the words of a cross in a line; a cell with a list gives several.
int csv_cross_text(const struct csv *c, const struct reader_layout *l, size_t cross,
                   const char *line, const char *end, struct buf *to);

void csv_absent_columns(const struct reader *r, char text[READER_NAMES_MAX]);

// Gets the entry of --numeric about a column; returns false if --numeric does not name
// the column.
bool csv_numeric(const struct csv *c, const char *name, struct reader_numeric *ret);

// Check the bins of --numeric, make room for them, and read the edges from the schema. If
// the schema has no edges, they are computed from the first lines.
int csv_check_bins(const struct csv *c, struct err *e);
int csv_take_bins(struct csv *c, struct err *e);
size_t csv_wants(const struct reader *r);
int csv_decide_bins(struct reader *r, const struct reader_layout *l, const char *name,
                    const char *text, size_t len, uint64_t first, struct err *e);
// Computes the key of a cell in a column of bins. A missing value also has a bin.
int csv_bin_key(const struct csv *c, const struct column *column, const struct field *f,
                uint64_t *ret, struct err *e);
// Finds the bin with this name, or, if the text is a number, the bin that contains it.
int csv_bin_word(const struct csv *c, const struct column *column,
                 struct reader_word *word, struct err *e);

static inline bool csv_is_empty(const struct csv *c, const char *text, size_t len)
{
    bool empty = len == 0;
    for (size_t i = 0; i < c->empties && !empty; i++)
        empty = c->empty[i].len == len && memcmp(c->empty[i].text, text, len) == 0;
    return empty;
}

// Returns TUG_EDATA if a line is a header (it has the names of the columns, in any order)
// although files should have no header.
int csv_refuse_header(const struct csv *c, const char *line, size_t len, struct err *e);
// Prepares csv_refuse_header once the names of c->only are known.
void csv_note_names(struct csv *c);
int csv_header(struct reader *r, const char *line, size_t len,
               const struct reader_layout **ret, struct err *e);
void csv_layout_free(struct reader_layout *l);

int csv_find_column(const struct reader *r, const struct reader_layout *l,
                    const char *name, size_t len, size_t *ret, struct err *e);
int csv_column(const struct reader *r, const struct reader_layout *l, const char *line,
               const char *end, size_t column, struct buf *to);

// Reads a number of a cell, or "true", "no" and so on.
int csv_number(const char *what, const struct column *column, const struct field *f,
               float *ret, struct err *e);
int csv_word(const struct reader *r, uint32_t slot, const char *text, size_t len,
             struct reader_word *ret, struct err *e);

#endif
