// The interface of a format, and functions that formats share. Only readers include this
// header.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_FORMAT_READER_OPS_H
#define TUG_DATA_FORMAT_READER_OPS_H

#include <stdatomic.h>

#include "data/format/number.h"
#include "data/format/reader.h"

struct reader_ops {
    const char *name;
    bool header; // every file begins with a header
    // true: refuses an empty line, because every line is an example; false: skips it.
    bool every_line;
    bool no_fields; // all slots are 0, so that models that need fields refuse the format
    bool quotes;    // words may be in quotes, as reader_text reads them
    bool numbers_fields; // a column's name is the number of a field
    // Makes the reader of the format, which begins with a struct reader; reader_open sets
    // the fields of that struct.
    int (*open)(struct reader **ret, const struct reader_options *o, struct err *e);
    // If r->schema has columns, uses it as the schema of a model; otherwise sets the
    // columns of r->schema. Not called for a format that needs a header first. NULL: the
    // format has no columns.
    int (*adopt)(struct reader *r, struct err *e);
    void (*close)(struct reader *r); // closes the reader, also after a failed open
    uint32_t (*slots)(const struct reader *r);
    int (*read_header)(struct reader *r, const char *line, size_t len,
                       const struct reader_layout **ret, struct err *e);
    // `wants` returns the number of lines after the header that the format needs first;
    // `decide` receives these lines: `text` is padded and begins with line `first` of the
    // file `name`. Both are NULL if the format needs no such lines.
    size_t (*wants)(const struct reader *r);
    int (*decide)(struct reader *r, const struct reader_layout *layout, const char *name,
                  const char *text, size_t len, uint64_t first, struct err *e);
    // Implements reader_line; the line has no '\r' at its end, and is empty only with
    // every_line.
    int (*line)(const struct reader *r, const struct reader_layout *layout,
                const char *line, size_t len, struct examples *x, struct err *e);
    // Implements reader_row. NULL: rows in memory cannot have this format.
    int (*row)(const struct reader *r, const struct reader_layout *layout,
               const struct rows *rows, uint64_t i, struct examples *x, struct err *e);
    // find_column returns the column of a name, or READER_NO_COLUMN; `column` appends a
    // column's text of a line that was read. NULL: lines have no columns.
    int (*find_column)(const struct reader *r, const struct reader_layout *layout,
                       const char *name, size_t len, size_t *ret, struct err *e);
    int (*column)(const struct reader *r, const struct reader_layout *layout,
                  const char *line, const char *end, size_t column, struct buf *to);
    // Implements reader_word. NULL: words are integers and are the keys.
    int (*word)(const struct reader *r, uint32_t slot, const char *text, size_t len,
                struct reader_word *ret, struct err *e);
    // Implements reader_slot_name for formats whose schema has no columns.
    int (*slot_name)(uint32_t slot, struct buf *ret);
    const char *columns; // the columns that exist, for messages; NULL: the file decides
    // Implements reader_absent_columns. NULL: no column can be absent.
    void (*absent_columns)(const struct reader *r, char text[READER_NAMES_MAX]);
};

#define READER_NO_COLUMN SIZE_MAX

#define READER_DECLARE(name, about) extern const struct reader_ops reader_##name;
READER_FORMATS(READER_DECLARE)
#undef READER_DECLARE

// Returns the functions of a format; NULL if it is unknown or NULL.
const struct reader_ops *reader_ops_find(const char *format);

struct reader {
    const struct reader_ops *ops;
    enum loss loss;
    bool labels;
    bool given;        // a model decides how the data is read
    uint32_t n_labels; // labels of an example, as in the schema
    bool headless;     // the format has headers, but the current files do not
    char between;      // separates the words of a column's text
    struct schema *schema;
    const struct rows *rows; // the rows that reader_see_rows has set
    // The negative labels seen so far: 1 for label 0, plus 2 for label -1.
    atomic_uint negatives;
};

enum { READER_MAX_SLOT = 65535 };

// Makes room for one more example with up to `features` features.
int examples_reserve(struct examples *x, size_t features, struct err *e);

// An example that a format has read from a line. Its features are already stored after
// the first x->nnz features; examples_commit completes it.
struct example {
    float label[LABELS_MAX], weight;
    size_t nnz; // value of x->nnz after this example
    bool has_values;
};
void examples_commit(struct examples *x, const struct example *new);

// Returns TUG_EUSAGE, naming the option, if an option contradicts o->schema.
int reader_agrees(const struct reader_options *o, struct err *e);

// Parses a label and checks it by the rules of the loss.
int reader_label(const struct reader *r, const char *text, size_t len, float *ret,
                 struct err *e);

// Records a label of the logistic loss before the label becomes 0 or 1. Any thread may
// call it.
void reader_note_negative(const struct reader *r, bool minus);
static inline void reader_note_label(const struct reader *r, float label)
{
    unsigned bit = label < 0 ? 2 : 1;
    if (label <= 0 && r->loss == LOSS_LOGISTIC &&
        (atomic_load_explicit(&r->negatives, memory_order_relaxed) & bit) == 0)
        reader_note_negative(r, label < 0);
}

// Checks a label that is a number by the rules of the loss.
int reader_label_number(const struct reader *r, float label, float *ret, struct err *e);

// Checks that a training example has a label: some of several labels may be missing
// (NaN), but not all.
int reader_check_labels(const struct reader *r, const struct example *new, struct err *e);

// Returns whether a line is a JSON object; READER_JSON is the advice for such a line.
bool reader_is_json(const char *line, size_t len);
#define READER_JSON                                                                      \
    "the line looks like JSON, which tug does not read; convert it to csv, for example " \
    "by --pipe-command"

// Returns whether a text is a word that other programs write for a missing value.
bool reader_means_missing(const char *text, size_t len);
// If other programs write the text for a missing value, appends to the reason in *e how
// tug expects a missing value (`how`). Returns TUG_EDATA.
int reader_explain_missing(const char *text, size_t len, const char *how, struct err *e);

// Reports a text that is not a finite number, with the status from number_parse; `what`
// is "value", or another name for the number.
int reader_bad_number(enum number_status status, const char *what, const char *text,
                      size_t len, const char *where, struct err *e);

// A part of a line for a message: cut, and without bytes that could control a terminal.
struct shown {
    char text[64];
};
struct shown show(const char *text, size_t len);

// Prepares a line for its format: removes a byte order mark and a carriage return at the
// end. Returns TUG_EDATA for text that is not lines of UTF-8: UTF-16, bytes 0, or lines
// that end with CR alone (with `quotes`, a CR is allowed between quotes).
int reader_text(const char **line, size_t *len, bool quotes, struct err *e);
void reader_text_trim(const char **line, size_t *len);

// Appends "; " and a further error to a message.
void reader_add_clause(char text[ERR_TEXT_MAX], const char *fmt, ...) PRINTF_LIKE(2, 3);

static inline bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

#endif
