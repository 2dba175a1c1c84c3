// The interface of a format, and functions that formats share. Only readers include it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_READER_OPS_H
#define TUG_DATA_READER_OPS_H

#include <stdatomic.h>

#include "data/number.h"
#include "data/reader.h"

struct reader_ops {
    const char *name;
    bool header;     // the first line of every file is one
    bool every_line; // is an example: an empty one is refused; else it is passed over
    // Makes the format's reader, whose first member is a struct reader; reader_open fills
    // that.
    int (*open)(struct reader **ret, const struct reader_options *o, struct err *e);
    // Takes r->schema as a model's if it has columns; else a format without headers fills
    // it. A format that needs a header is not called. NULL: formats without columns.
    int (*adopt)(struct reader *r, struct err *e);
    void (*close)(struct reader *r); // half-built is fine
    uint32_t (*slots)(const struct reader *r);
    int (*read_header)(struct reader *r, const char *line, size_t len,
                       const struct reader_layout **ret, struct err *e);
    // Returns how many lines behind the header the format needs first; the second
    // function takes them: `text` is padded, and begins with line `first` of the file
    // `name`. NULL: none.
    size_t (*wants)(const struct reader *r);
    int (*decide)(struct reader *r, const struct reader_layout *layout, const char *name,
                  const char *text, size_t len, uint64_t first, struct err *e);
    // As reader_line; the line has no '\r' at its end, and is empty for every_line only.
    int (*line)(const struct reader *r, const struct reader_layout *layout,
                const char *line, size_t len, struct examples *x, struct err *e);
    // As reader_row. NULL: no rows in memory have this format.
    int (*row)(const struct reader *r, const struct reader_layout *layout,
               const struct rows *rows, uint64_t i, struct examples *x, struct err *e);
    // The column of that name, or READER_NO_COLUMN, and the text of one in a line that
    // was read, added to a buffer. NULL: lines have none.
    int (*find_column)(const struct reader *r, const struct reader_layout *layout,
                       const char *name, size_t len, size_t *ret, struct err *e);
    int (*column)(const struct reader *r, const struct reader_layout *layout,
                  const char *line, const char *end, size_t column, struct buf *to);
    // Implements reader_word. NULL: words are whole numbers, and are the keys.
    int (*word)(const struct reader *r, uint32_t slot, const char *text, size_t len,
                struct reader_word *ret, struct err *e);
    // As reader_slot_name, of formats whose schema has no columns.
    int (*slot_name)(uint32_t slot, struct buf *ret);
    const char *columns; // which there are, for messages; NULL: the file knows
};

#define READER_NO_COLUMN SIZE_MAX

#define READER_DECLARE(name) extern const struct reader_ops reader_##name;
READER_FORMATS(READER_DECLARE)
#undef READER_DECLARE

// Returns the format's function; NULL if it has none, or for NULL.
const struct reader_ops *reader_ops_find(const char *format);

struct reader {
    const struct reader_ops *ops;
    enum loss loss;
    bool labels;
    bool given;        // by a model: how the data is read cannot be chosen
    uint32_t n_labels; // of an example: what the schema says
    bool headless;     // the format has headers, the files at hand have none
    char between;      // the words of a column's text
    struct schema *schema;
    const struct rows *rows; // see reader_see_rows
    atomic_uint negatives;   // which labels the data has had: 1: 0, 2: -1
};

enum { READER_MAX_SLOT = 65535 };

// Room for one more example with up to `features` features.
int examples_reserve(struct examples *x, size_t features, struct err *e);

// Completes the example that a format read from a line; its features are behind x->nnz
// already.
struct example {
    float label[LABELS_MAX], weight;
    size_t nnz; // x->nnz with this example
    bool has_values;
};
void examples_commit(struct examples *x, const struct example *new);

// TUG_EUSAGE, naming it, when an option contradicts o->schema.
int reader_agrees(const struct reader_options *o, struct err *e);

// A label by the rules of the loss.
int reader_label(const struct reader *r, const char *text, size_t len, float *ret,
                 struct err *e);

// Notes a label of the logistic loss before it is 0 or 1, from any thread.
void reader_note_negative(const struct reader *r, bool minus);
static inline void reader_note_label(const struct reader *r, float label)
{
    unsigned bit = label < 0 ? 2 : 1;
    if (label <= 0 && r->loss == LOSS_LOGISTIC &&
        (atomic_load_explicit(&r->negatives, memory_order_relaxed) & bit) == 0)
        reader_note_negative(r, label < 0);
}

// Likewise for a number.
int reader_label_number(const struct reader *r, float label, float *ret, struct err *e);

// One of several labels may be missing (NaN), but not all labels of a training example.
int reader_check_labels(const struct reader *r, const struct example *new, struct err *e);

// The error of a text that is not a finite number, as number_parse said;
// `what` is "value", ...
int reader_bad_number(enum number_status status, const char *what, const char *text,
                      size_t len, const char *where, struct err *e);

// A piece of a line for a message: cut, and without bytes that a terminal might obey.
struct shown {
    char text[64];
};
struct shown show(const char *text, size_t len);

// Prepares a line for its format: removes a byte order mark and a carriage return at its
// end. TUG_EDATA for text that is not lines of UTF-8: UTF-16, bytes 0, lines that end
// with CR alone (`quotes`: one may stand between quotes).
int reader_text(const char **line, size_t *len, bool quotes, struct err *e);
void reader_text_trim(const char **line, size_t *len);

// Appends "; " and a further error to a message.
void reader_add_clause(char text[ERR_TEXT_MAX], const char *fmt, ...) PRINTF_LIKE(2, 3);

static inline bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

#endif
