// The schema of data: everything that decides how text becomes keys, slots and labels. A
// model can score only data with the schema of its training data. So the schema is saved
// with the model and sent to the workers of a cluster.
//
// In csv, keys depend on the names of columns, and the slots (the fields of an ffm) are
// the feature columns in this order. In multislot, the slots are the columns here; their
// names may end in "@GROUP" (ids) or "[N]" (numbers), see reader_multislot.h. Other
// formats have no columns.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_FORMAT_SCHEMA_H
#define TUG_DATA_FORMAT_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/loss.h"
#include "os/json.h"

enum schema_use {
    SCHEMA_WORDS,   // a feature: the hash of its text is the key
    SCHEMA_NUMBERS, // a feature: its number is the value
    SCHEMA_LABEL,
    SCHEMA_WEIGHT,
    SCHEMA_DROPPED,
    SCHEMA_IDS,   // multislot: features; the key is made of the id and the slot
    SCHEMA_KEYS,  // multislot: features; the numbers in the data are the keys
    SCHEMA_LISTS, // csv: several features, the words of one cell
    SCHEMA_LOGS,  // csv: a feature; its value is the logarithm of the cell's number
    SCHEMA_BINS,  // csv: a feature: the bin that contains the cell's number
    // csv: features that are combinations of columns' words. The entry's name is the
    // columns' names joined by '*'. Such an entry is not a column of the data; it follows
    // all columns.
    SCHEMA_CROSSES,
    // Settings of csv. They are not columns; an entry's `name` holds the value of the setting.
    SCHEMA_MISSING,        // a word that means an empty cell
    SCHEMA_LIST_SEPARATOR, // the character between the words of a cell
    // For files without a header: the names of the columns, separated by commas.
    SCHEMA_HEADER,
    SCHEMA_QUOTE, // "none": quotes are ordinary text
    SCHEMA_EDGES, // the bins of one column: the requested number of bins, and the edges.
                  // These entries are in the order of the SCHEMA_BINS entries
    SCHEMA_WRITTEN, // Present if cells of a data frame become text as in csv files (True,
                    // 1e16). Without this entry, cells become text as earlier versions of
                    // tug wrote it (true, 19 for 19.0: CELL_OLD in columns.h)
    SCHEMA_TYPE, // "bool NAME": the type of the data frame's column NAME. It decides how
                 // spellings in csv files are mapped to words (reader_csv_fold.c)
    SCHEMA_DECIMAL, // ",": numbers have a decimal comma
    SCHEMA_USES
};

enum { SCHEMA_TEXT_MAX = 256 << 10, SCHEMA_FORMAT_MAX = 16 };

// This struct is large and has no pointers, so it can be copied.
struct schema {
    char format[SCHEMA_FORMAT_MAX]; // "": unknown
    enum loss loss;
    char separator;   // csv only
    uint32_t columns; // csv and multislot only
    uint32_t text_len;
    // For each column a letter for its use, then its name and a NUL.
    char text[SCHEMA_TEXT_MAX];
};

struct schema_column {
    enum schema_use use;
    const char *name; // owned by the schema
};

// Gets the next column; *at begins as 0. Returns false at the end.
bool schema_next(const struct schema *s, size_t *at, struct schema_column *ret);
// Gets the next setting of one kind, as schema_next gets the next column. Returns false
// at the end.
bool schema_next_setting(const struct schema *s, enum schema_use kind, size_t *at,
                         const char **ret);

// Return the number of labels, and the name of label i (NULL if it has none).
uint32_t schema_labels(const struct schema *s);
const char *schema_label(const struct schema *s, uint32_t i);

static inline bool schema_is_feature(enum schema_use use)
{
    return use == SCHEMA_WORDS || use == SCHEMA_NUMBERS || use == SCHEMA_IDS ||
           use == SCHEMA_KEYS || use == SCHEMA_LISTS || use == SCHEMA_LOGS ||
           use == SCHEMA_BINS || use == SCHEMA_CROSSES;
}

// Appends a column or setting. Returns TUG_EDATA for a name with a NUL byte, or if all
// names together are too long.
int schema_add(struct schema *s, enum schema_use use, const char *name, size_t len,
               struct err *e);

// Returns whether both formats compute keys in the same way, so that a model trained on
// one format can predict data of the other.
bool schema_same_keys(const char *format, const char *other);

static inline bool schema_is_setting(enum schema_use use)
{
    return use == SCHEMA_MISSING || use == SCHEMA_LIST_SEPARATOR ||
           use == SCHEMA_HEADER || use == SCHEMA_EDGES || use == SCHEMA_QUOTE ||
           use == SCHEMA_WRITTEN || use == SCHEMA_TYPE || use == SCHEMA_DECIMAL;
}

// Sets whether numbers have a decimal comma; replaces what the schema said before.
// Returns TUG_EDATA as schema_add does.
int schema_set_decimal(struct schema *s, bool comma, struct err *e);

// Convert the schema for JSON files. schema_to_json returns NULL if there is not enough
// memory, or if a name is not UTF-8 (schema_has_text then returns false).
bool schema_has_text(const struct schema *s);
json_t *schema_to_json(const struct schema *s);
void schema_from_json(struct schema *ret, const json_t *o, struct json_fields *f);

// Write the schema to a message between processes, and read it from one.
int schema_write(const struct schema *s, struct buf *b);
int schema_read(struct schema *ret, const char *bytes, size_t n);

#endif
