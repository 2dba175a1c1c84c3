// Readers: one line of text becomes one example. A new format is one file with a
// `reader_ops`, and a line of READER_FORMATS below.
//
// A feature is a 64-bit key, a slot and a value. Text values are hashed with their slot
// (reader_key) or, of csv, with their column's name, so there is no vocabulary to build;
// libsvm and libffm carry ids of their own: the index is the key. multislot has ids in
// slots: the key is made of both.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_READER_H
#define TUG_DATA_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "data/schema.h"

// The formats, a line each: `reader_NAME` is its struct reader_ops.
#define READER_FORMATS(FORMAT)                                                           \
    FORMAT(criteo)                                                                       \
    FORMAT(libsvm)                                                                       \
    FORMAT(libffm)                                                                       \
    FORMAT(csv)                                                                          \
    FORMAT(multislot)
#define READER_FORMAT_WORD(name) " " #name // their names as words of an option

// Parsed examples, one after the other (CSR). Grows as examples_begin/feature ask for it.
struct examples {
    size_t n, nnz;
    size_t cap_n, cap_nnz;
    float *label;    // `labels` of each, one behind the other; NaN: it is missing
    uint32_t labels; // of an example: the reader's, from the first one on
    size_t cap_labels;
    float *weight;   // of the example, 1 unless the format has one
    uint32_t *start; // cap_n + 1: features of example i are start[i] .. start[i + 1]
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
    // The schema of the model's training data; NULL if there is no model. Options below
    // must not contradict it; missing ones are taken from it.
    const struct schema *schema;
    const char *format; // of READER_FORMATS; NULL: not said
    enum loss loss;     // logistic: labels 0/1 or -1/+1 become 0/1, others are errors;
                        // squared: any finite number
    bool loss_given;    // else it is the schema's, if there is one
    bool labels;        // false (predict): a label may be absent where the format allows
    uint32_t fields;    // libffm: fields must be below; 0 means no bound but 65,535
    // csv only, but for allow_missing; NULL means not said
    const char
        *label_column; // "a,b": several labels, in this order; else the first column
    const char *drop;  // "a,b,c"; with a schema also columns that it does not know. "" is
                       // the column whose name is empty
    const char *numeric; // "a,b:log,c:bins:64": taken as numbers, not as text
    const char *lists;   // "a,b": several words in a cell
    char list_separator; // between them; 0: not said; else '|'
    const char *missing; // "NA,null": words that stand for an empty cell
    const char
        *quote; // "none": quotes are text; "double": cells may be in them; NULL: not said
    const char *decimal; // "," or ".": what numbers have before their fraction
    const char *columns; // "a,b": names of the columns of files, which have no header
    const char *cross_columns; // "a*b,a*c*d": their words together are features, too
    const char *weight_column;
    char separator;      // 0: not said; else ','
    bool allow_missing;  // feature columns of the schema may be absent
    bool no_options;     // who reads has no options that errors could advise: a scorer
    bool drop_elsewhere; // some file has the columns of `drop`, not always the first one
    // multislot only: the slots of a line, as text or the name of a file with it
    // (reader_multislot.h). With a schema it may be another order, or fewer slots with
    // allow_missing; NULL: as the schema says.
    const char *slots;
};

struct reader;

int reader_open(struct reader **ret, const struct reader_options *o, struct err *e);
void reader_close(struct reader *r);

// Slots of the format: 39 for criteo, the schema's feature columns for csv (0 before the
// first header when no schema was given), its feature slots for multislot, 1 for libsvm,
// 0 (unknown) for libffm without `fields`.
uint32_t reader_slots(const struct reader *r);

// Returns the number of labels of an example, at most LABELS_MAX; 1 before the first
// header of csv. schema_label has their names. Some of several may be missing, but not
// all.
uint32_t reader_label_count(const struct reader *r);

// Whether the first line of every file is a header (csv, unless its columns are given).
bool reader_has_header(const struct reader *r);

// The first line of a file (csv): where the columns of the schema lie in it. Without a
// schema the first header decides it. Layouts live as long as the reader.
struct reader_layout;
int reader_header(struct reader *r, const char *line, size_t len,
                  const struct reader_layout **ret, struct err *e);

// How many lines of the first file have to be seen before anything else of it is read:
// its header where that decides the schema, and as many lines behind it as bins of
// numbers are made by. 0: nothing is open.
size_t reader_wants(const struct reader *r);
enum { READER_LOOK_BYTES = 64 << 20 }; // they may be fewer, where they are long
// Decides what is open, by these lines, to which it adds its padding. Lines that are not
// examples are skipped: the reader of the whole file reports them. TUG_EDATA, with
// `name`:LINE where it is a line's fault.
int reader_decide(struct reader *r, const char *name, struct buf *lines, struct err *e);

// Gets the columns of the names "a,b,c" in a file's lines, in ret[]. csv has those of its
// header and crosses of them, criteo I1 to I13 and C1 to C26, libffm the fields' numbers.
// TUG_EDATA naming one that is not there, with the option that asks for it; TUG_EUSAGE
// for formats without columns.
int reader_find_columns(const struct reader *r, const struct reader_layout *layout,
                        const char *names, const char *option, size_t max, size_t *ret,
                        size_t *ret_n, struct err *e);

// After reading with allow_missing: the feature columns that some file lacked, "'a', 'b'
// and 3 more", for a message; "" when there is none.
enum { READER_NAMES_MAX = 320 };
void reader_absent_columns(const struct reader *r, char text[READER_NAMES_MAX]);

// The texts of those columns of a line that was read, each with a NUL behind it;
// of a field with several features all indices, with '|' (of csv its list
// separator) between them.
int reader_columns(const struct reader *r, const struct reader_layout *layout,
                   const char *line, size_t len, const size_t *columns, size_t n,
                   struct buf *to);

// Features for people: a column by its name, and a word in it.

// Appends the name of a slot's column to *ret; nothing in formats without names of
// columns. TUG_ENOMEM.
int reader_slot_name(const struct reader *r, uint32_t slot, struct buf *ret);
// Whether it has a name, which may be empty.
bool reader_slot_is_named(const struct reader *r, uint32_t slot);
int reader_schema_slot_name(const struct schema *s, uint32_t slot, struct buf *ret);
// The slot of a feature column, of the first `slots`. TUG_EUSAGE naming one that is not
// there.
int reader_find_slot(const struct reader *r, const char *name, size_t len, uint32_t slots,
                     uint32_t *ret, struct err *e);
int reader_schema_find_slot(const struct schema *s, const char *name, size_t len,
                            uint32_t slots, uint32_t *ret, struct err *e);

// Returns the feature of a text in a slot's column. Several texts may have one word
// (criteo's integers are buckets); numbers have none, since their column is the feature.
struct reader_word {
    uint64_t key;
    const char *text; // in the text that was given, or in `own`
    size_t len;
    bool number; // of a column of numbers
    char own[48];
};
// TUG_EDATA if such a column cannot have the text.
int reader_word(const struct reader *r, uint32_t slot, const char *text, size_t len,
                struct reader_word *ret, struct err *e);
// The next word of a column's text as reader_columns gives it, where a column
// with several features has '|' (of csv its list separator) between them; *text may be NULL
// behind the last one. False: there is none.
bool reader_next_word(const struct reader *r, uint32_t slot, const char **text,
                      struct reader_word *ret);
// Whether keys are hashes, so that words say more than they do.
bool reader_hashes(const struct reader *r);

// The names of a csv header's columns, as words.
int reader_header_names(const char *line, size_t len, char separator, bool quotes,
                        struct schema *ret, struct err *e);

// The next name of "a,b,c", which begins as *list; false when there is none left, and of
// NULL. Every name between commas counts, also an empty one.
bool reader_next_name(const char **list, const char **ret, size_t *ret_len);

// Likewise for --numeric, whose ":log" or ":bins:64" behind a name is not part of it.
struct reader_numeric {
    const char *name;
    size_t len;
    enum schema_use use;
    uint32_t bins; // at most so many, of SCHEMA_BINS
};
enum { READER_BINS = 32, READER_BINS_MAX = 1024 }; // when no number is given; at most
bool reader_next_numeric(const char **list, struct reader_numeric *ret);

// The schema by which the data is read: complete from the beginning, except the columns
// of csv, which the first header decides.
const struct schema *reader_schema(const struct reader *r);

// The parsers look ahead in words: this many bytes from line[len] on must be readable,
// whatever they hold; line[len] itself is the newline or NUL.
enum { READER_PADDING = 32 };

// Appends one example. `layout`: of the line's file; NULL where files have no header.
// The line has no newline; a '\r' at its end is ignored. A line that reader_skips adds nothing. On
// failure *x is as before and e says why, without FILE:LINE (the caller adds it, and
// sets x->line). Threads: any, each with its own x, also while reader_header reads
// other files' headers.
int reader_line(const struct reader *r, const struct reader_layout *layout,
                const char *line, size_t len, struct examples *x, struct err *e);

// Says before an error of a header whose it is: a file's first line, or rows in memory. TUG_EDATA.
int reader_wrap_header(const struct reader *r, const char *name, struct err *e);

// Whether it is an empty line that means nothing. In multislot, which has no names or
// separators, none is: an empty line there is a lost example.
bool reader_skips(const struct reader *r, const char *line, size_t len);

// Whether all of these lines are such.
bool reader_is_blank(const struct reader *r, const char *text, size_t len);

// Before anything of rows in memory is read: where the first header decides the schema of
// columns, their types do, too. NULL is fine. The rows outlive the reader, or reader_see_rows
// with others.
struct rows;
void reader_see_rows(struct reader *r, const struct rows *rows);

// Likewise for row i of rows in memory in the reader's format (else TUG_EUSAGE).
int reader_row(const struct reader *r, const struct reader_layout *layout,
               const struct rows *rows, uint64_t i, struct examples *x, struct err *e);

// Labels 0 and -1 in one set of data are warned of, once. Other data begins with `seen` 0,
// and gives what the data before had, which goes on with that. NULL is fine.
unsigned reader_begin_labels(struct reader *r, unsigned seen);

// Adds to the error of a file's first line what it looks like when it is a header, which
// the format does not have.
void reader_explain_first(const struct reader *r, const char *line, size_t len,
                          struct err *e);

// The slots of --slots, a text or a file with it, as "NAME:TYPE,NAME:TYPE", however they
// were written there. TUG_EUSAGE as of the reader.
struct buf;
int reader_slots_text(const char *given, struct buf *to, struct err *e);

// Returns the key of a text value in a slot. XXH3 of one to three bytes only adds the
// seed to them, so slots must lie far apart: with the slot itself as the seed, "L12" and
// "L13" of neighbours are one key.
static inline uint64_t reader_key(uint32_t slot, const char *value, size_t len)
{
    return hash_bytes(value, len, slot * 0x9e3779b97f4a7c15ull);
}

// A comma-separated list of the formats, for messages and help.
const char *reader_formats(void);

#endif
