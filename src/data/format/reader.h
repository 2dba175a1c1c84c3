// Readers: a line of text becomes an example. To add a format, write a file with a
// `reader_ops` and add a line to READER_FORMATS below.
//
// A feature is a 64-bit key, a slot and a value. The key of a text is its hash with its
// slot (reader_key) or, in csv, with its column's name; so no vocabulary is needed.
// libsvm and libffm contain indices, which are the keys. In multislot, a key is made of
// an id and its slot.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_FORMAT_READER_H
#define TUG_DATA_FORMAT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "data/format/schema.h"

// The formats, one per line, with the text of --help about their lines; `reader_NAME` is
// the struct reader_ops of a format.
#define READER_FORMATS(FORMAT)                                                           \
    FORMAT(criteo, "label, 13 integers, 26 words, tabs")                                 \
    FORMAT(libsvm, "label index:value")                                                  \
    FORMAT(libffm, "label field:index:value")                                            \
    FORMAT(csv, "with a header")                                                         \
    FORMAT(multislot, "for each slot of --slots: count value value ...")
// Advice about the first field that a model does not have.
#define READER_FIELDS_FROM_1                                                             \
    "; if this data counts its fields from 1 and the training data did from 0, "         \
    "subtract 1"
#define READER_FORMAT_WORD(name, about) " " #name // the names as words of an option
#define READER_FORMAT_ABOUT(name, about) " " #name " (" about "),"

// Parsed examples, one after the other (CSR). examples_reserve enlarges the arrays.
struct examples {
    size_t n, nnz;
    size_t cap_n, cap_nnz;
    float *label;    // `labels` labels of each example, one after the other; NaN: missing
    uint32_t labels; // labels of an example; set when the first example is read
    size_t cap_labels;
    float *weight;   // weight of each example; 1 if the format has none
    uint32_t *start; // cap_n + 1 elements: features of example i are start[i] .. start[i
                     // + 1]
    uint32_t *line;  // line within the chunk, from 0
    uint64_t *key;
    uint16_t *slot;
    float *value;
    bool has_weights; // some weight is not 1
    bool has_values;  // some value is not 1
};

void examples_clear(struct examples *x);
void examples_free(struct examples *x);

struct reader_options {
    // The schema of the model's training data; NULL if there is no model. The options
    // below must not contradict it; missing options are taken from it.
    const struct schema *schema;
    const char *format; // one of READER_FORMATS; NULL: not given
    enum loss loss;     // logistic: labels 0/1 and -1/+1 become 0/1, other labels are
                        // errors; squared: any finite number is a label
    bool loss_given;    // false: the loss of the schema, if there is one, is used
    bool labels; // false (for predict): a label may be missing if the format allows it
    uint32_t fields; // libffm: fields must be below this number; 0: at most 65,535
    // The following options, up to drop_elsewhere, are for csv only, except allow_missing
    // and no_options; NULL means not given. label_column: "a,b" for several labels, in
    // this order; NULL: the first column.
    const char *label_column;
    const char *drop;    // "a,b,c"; with a schema also columns that the schema does not
                         // contain. "" names the column without a name
    const char *numeric; // "a,b:log,c:bins:64": columns whose texts are numbers
    const char *lists;   // "a,b": columns with several words in a cell
    char list_separator; // separator of the words in a cell of `lists`; 0: not given, so
                         // '|'
    const char *missing; // "NA,null": words that mean an empty cell
    // "none": quotes are text; "double": cells may be quoted; NULL: not given.
    const char *quote;
    const char *decimal;       // "," or ".": the decimal mark of numbers
    const char *columns;       // "a,b": the columns of files without a header
    const char *cross_columns; // "a*b,a*c*d": combinations of columns' words, which
                               // become additional features
    const char *weight_column;
    char separator; // 0: not given, so ','
    // The separator in the model's data, if an option has replaced it in the schema; else
    // 0.
    char trained_separator;
    bool allow_missing; // files may lack feature columns of the schema
    // Errors contain no advice about options, because some callers, such as a scorer, do
    // not have options.
    bool no_options;
    bool drop_elsewhere; // the columns of `drop` need not be in the first file
    // multislot only: the slots of a line, as text or as the name of a file with the text
    // (reader_multislot.h). If a schema is given, the order of slots may differ from it,
    // and with allow_missing slots may be missing. NULL: the slots of the schema.
    const char *slots;
};

struct reader;

int reader_open(struct reader **ret, const struct reader_options *o, struct err *e);
void reader_close(struct reader *r);

// Returns the number of slots: 39 for criteo; for csv the feature columns of the schema
// (0 before the first header if no schema was given); for multislot its feature slots; 1
// for libsvm; for libffm `fields`, or 0 (unknown).
uint32_t reader_slots(const struct reader *r);

// Returns the number of labels of an example, at most LABELS_MAX; 1 before the first
// header of csv. schema_label returns their names. Some labels of an example may be
// missing, but not all.
uint32_t reader_label_count(const struct reader *r);

// Returns whether the first line of every file is a header (csv, unless --columns is
// given).
bool reader_has_header(const struct reader *r);

// Reads the first line of a csv file and returns the places of the schema's columns in
// the file. Without a schema, the first header decides the schema. A layout is valid as
// long as the reader.
struct reader_layout;
int reader_header(struct reader *r, const char *line, size_t len,
                  const struct reader_layout **ret, struct err *e);

// Returns the number of lines of the first file that reader_decide needs before other
// data is read: the header if the header decides the schema, and the lines from which
// bins of numbers are made. 0: the schema is complete.
size_t reader_wants(const struct reader *r);
// The most bytes of these lines; if lines are long, fewer lines suffice.
enum { READER_LOOK_BYTES = 64 << 20 };
// Completes the schema from these lines, to which it adds padding. Skips lines that are
// not examples; they are reported after the whole file was read. Returns TUG_EDATA, with
// `name`:LINE in front if a line is the cause.
int reader_decide(struct reader *r, const char *name, struct buf *lines, struct err *e);

// Finds the columns with the names "a,b,c" in the lines of a file. csv has the columns of
// its header and their crosses; criteo has I1 to I13 and C1 to C26; libffm has the
// numbers of its fields. Returns TUG_EDATA naming a column that does not exist and the
// option that asks for it; TUG_EUSAGE for formats without columns.
int reader_find_columns(const struct reader *r, const struct reader_layout *layout,
                        const char *names, const char *option, size_t max, size_t *ret,
                        size_t *ret_n, struct err *e);

// Checks names of libffm's fields after the data was read, which shows that its fields are
// [first, end). Returns TUG_EDATA naming a field that no line has. Returns 0 for the other
// formats, whose columns reader_find_columns checks.
int reader_check_fields(const struct reader *r, const char *names, const char *option,
                        uint32_t first, uint32_t end, struct err *e);

// Lists the feature columns that some file lacked in reading with allow_missing, as "'a',
// 'b' and 3 more", for a message; "" if none was missing.
enum { READER_NAMES_MAX = 320 };
void reader_absent_columns(const struct reader *r, char text[READER_NAMES_MAX]);

// Appends the texts of these columns of a line that was read, each ended by a NUL. A
// field with several features gives all its indices, separated by '|' (in csv by the list
// separator).
int reader_columns(const struct reader *r, const struct reader_layout *layout,
                   const char *line, size_t len, const size_t *columns, size_t n,
                   struct buf *to);

// ---------------------------------------------------------------- names of features

// Appends the name of a slot's column to *ret; nothing if the format has no names. May
// return TUG_ENOMEM.
int reader_slot_name(const struct reader *r, uint32_t slot, struct buf *ret);
// Returns whether the slot's column has a name, which may be empty.
bool reader_slot_is_named(const struct reader *r, uint32_t slot);
int reader_schema_slot_name(const struct schema *s, uint32_t slot, struct buf *ret);
// Finds the slot of a feature column among the first `slots` slots. Returns TUG_EUSAGE
// naming a column that does not exist.
int reader_find_slot(const struct reader *r, const char *name, size_t len, uint32_t slots,
                     uint32_t *ret, struct err *e);
int reader_schema_find_slot(const struct schema *s, const char *name, size_t len,
                            uint32_t slots, uint32_t *ret, struct err *e);

// The feature of a text in a slot's column. Several texts may belong to one word
// (criteo's integers form buckets). Numbers have no word, because their whole column is
// one feature.
struct reader_word {
    uint64_t key;
    const char *text; // points into the given text or to `own`
    size_t len;
    bool number; // the column has numbers
    char own[48];
};
// Returns TUG_EDATA if the column cannot contain this text.
int reader_word(const struct reader *r, uint32_t slot, const char *text, size_t len,
                struct reader_word *ret, struct err *e);
// Returns the next word of a column's text, in which words are separated as
// reader_columns writes them; *text is NULL after the last word. Returns false if there
// are no more words.
bool reader_next_word(const struct reader *r, uint32_t slot, const char **text,
                      struct reader_word *ret);
// Returns whether keys are hashes; messages then name words instead of keys.
bool reader_hashes(const struct reader *r);
// Returns whether the keys of a format are numbers that its lines contain;
// false if `format` is NULL.
bool reader_format_is_numbered(const char *format);
// Returns whether the features of a format have no fields.
bool reader_format_lacks_fields(const char *format);

// Splits the header of a csv file into the names of its columns.
int reader_header_names(const char *line, size_t len, char separator, bool quotes,
                        struct schema *ret, struct err *e);

// Returns the next name of a list "a,b,c": the name that begins at *list. Returns false
// at the end, or if *list is NULL. Each name between commas counts, even an empty one.
bool reader_next_name(const char **list, const char **ret, size_t *ret_len);

// An entry of --numeric, where ":log" or ":bins:64" may follow a name.
// reader_next_numeric returns the next entry, as reader_next_name does.
struct reader_numeric {
    const char *name;
    size_t len;
    enum schema_use use;
    uint32_t bins; // the greatest number of bins, with SCHEMA_BINS
};
// The number of bins if --numeric gives none, and the largest number that it can give.
enum { READER_BINS = 32, READER_BINS_MAX = 1024 };
bool reader_next_numeric(const char **list, struct reader_numeric *ret);

// Returns the schema by which data is read. It is complete from the beginning, except for
// the columns of csv, which the first header decides.
const struct schema *reader_schema(const struct reader *r);

// The number of bytes from line[len] on that must be readable, because parsers read
// several bytes at a time. line[len] is the newline or NUL; the other bytes may have any
// value.
enum { READER_PADDING = 32 };

// Appends one example. `layout` is that of the line's file; NULL if files have no
// headers. The line has no newline; a '\r' at its end is ignored. Adds nothing for a line
// that reader_skips. On failure *x is unchanged and e has the reason without FILE:LINE,
// which the caller adds; the caller also sets x->line. Several threads may call it, each
// with its own x, even while reader_header reads headers of other files.
int reader_line(const struct reader *r, const struct reader_layout *layout,
                const char *line, size_t len, struct examples *x, struct err *e);

// Puts the place of a header in front of the error about it: NAME:1 for a file, NAME for
// rows in memory. Returns TUG_EDATA.
int reader_wrap_header(const struct reader *r, const char *name, struct err *e);

// Returns whether the line is empty and may be ignored. In multislot no line may be
// ignored, because an empty line is a lost example.
bool reader_skips(const struct reader *r, const char *line, size_t len);

// Returns whether all lines of the text may be ignored.
bool reader_is_blank(const struct reader *r, const char *text, size_t len);

// Must be called before rows in memory are read: if the first header decides the schema,
// the types of the columns also matter. `rows` may be NULL; they must outlive the reader,
// or be replaced by another call.
struct rows;
void reader_see_rows(struct reader *r, const struct rows *rows);

// Appends row i of rows in memory, like reader_line; TUG_EUSAGE if the rows are for
// another format.
int reader_row(const struct reader *r, const struct reader_layout *layout,
               const struct rows *rows, uint64_t i, struct examples *x, struct err *e);

// The reader warns once if a data set has both labels 0 and -1. Call this function with
// `seen` 0 before another data set is read. It returns the labels that the first data set
// had so far; pass them to a second call to continue with the first data set. `r` may be
// NULL.
unsigned reader_begin_labels(struct reader *r, unsigned seen);

// If the first line of a file looks like a header, and the format has no headers, appends
// an explanation to the line's error.
void reader_explain_first(const struct reader *r, const char *line, size_t len,
                          struct err *e);

// Writes the slots of --slots (a text or a file) as "NAME:TYPE,NAME:TYPE". Returns
// TUG_EUSAGE as reader_open does.
struct buf;
int reader_slots_text(const char *given, struct buf *to, struct err *e);

// Returns the key of a text in a slot. Seeds of slots must be far apart, because XXH3
// only adds the seed for texts of one to three bytes: with the slot number as the seed,
// "L12" and "L13" of neighbouring slots would have the same key.
static inline uint64_t reader_key(uint32_t slot, const char *value, size_t len)
{
    return hash_bytes(value, len, slot * 0x9e3779b97f4a7c15ull);
}

// Returns the formats, separated by commas, for messages and help.
const char *reader_formats(void);

#endif
