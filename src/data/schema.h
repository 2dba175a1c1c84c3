// The schema of data: all that says how a text becomes keys, slots and labels. A model is
// of use only for data of the schema that it was trained on, so it is saved with it, and
// workers of a cluster are told it.
//
// csv has columns: their keys go by name, and their slots, the fields of an ffm, are the
// places of the feature columns here. So has multislot, whose slots are columns here;
// their names may end in "@GROUP" (ids) or "[N]" (numbers), see reader_multislot.h.
// Other formats have none.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_SCHEMA_H
#define TUG_DATA_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/loss.h"

enum schema_use {
    SCHEMA_WORDS,   // a feature: its text is hashed
    SCHEMA_NUMBERS, // a feature: its number is the value
    SCHEMA_LABEL,
    SCHEMA_WEIGHT,
    SCHEMA_DROPPED,
    SCHEMA_IDS,     // multislot: features, whose keys are made of ids and the slot
    SCHEMA_KEYS,    // multislot: features, whose keys are the numbers themselves
    SCHEMA_LISTS,   // csv: features, several words in a cell
    SCHEMA_LOGS,    // csv: a feature, the logarithm of its number is the value
    SCHEMA_BINS,    // csv: a feature, which of the column's bins its number is in
    SCHEMA_CROSSES, // csv: features, the words of columns together; the name is theirs
                    // with '*' between them. No column of the data, and behind all
    // Settings of csv, which are no columns; what is a name else is their text.
    SCHEMA_MISSING,        // a word that stands for an empty cell
    SCHEMA_LIST_SEPARATOR, // the character between words of a cell
    SCHEMA_HEADER,         // of files that have none: the names, with commas
    SCHEMA_QUOTE,          // "none": quotes are text as any other
    SCHEMA_EDGES, // of the bins of a column, one entry for each of SCHEMA_BINS, in
                  // their order: how many were asked for, and where they begin
    SCHEMA_WRITTEN, // there in all schemas that were decided since the words of a frame's cells
    // are what csv writers write; without it as CELL_OLD has them (columns.h)
    SCHEMA_TYPE, // "bool NAME": of what type a frame's column of words was, whose spellings
                 // are folded (reader_csv_fold.c)
    SCHEMA_DECIMAL, // ",": numbers have a decimal comma
    SCHEMA_USES
};

enum { SCHEMA_TEXT_MAX = 256 << 10, SCHEMA_FORMAT_MAX = 16 };

// Large, and flat: it can be copied.
struct schema {
    char format[SCHEMA_FORMAT_MAX]; // "": nothing is known
    enum loss loss;
    char separator;   // csv
    uint32_t columns; // csv, multislot
    uint32_t text_len;
    char text[SCHEMA_TEXT_MAX]; // of each column: a letter for its use, its name, a NUL
};

struct schema_column {
    enum schema_use use;
    const char *name; // in the schema
};

// The columns in order: begins with *at = 0; false when there is none left.
bool schema_next(const struct schema *s, size_t *at, struct schema_column *ret);
// Likewise for the settings of one kind.
bool schema_next_setting(const struct schema *s, enum schema_use kind, size_t *at,
                         const char **ret);

// Returns the number of labels, and the name of label i; NULL if it has none.
uint32_t schema_labels(const struct schema *s);
const char *schema_label(const struct schema *s, uint32_t i);

static inline bool schema_is_feature(enum schema_use use)
{
    return use == SCHEMA_WORDS || use == SCHEMA_NUMBERS || use == SCHEMA_IDS ||
           use == SCHEMA_KEYS || use == SCHEMA_LISTS || use == SCHEMA_LOGS ||
           use == SCHEMA_BINS || use == SCHEMA_CROSSES;
}

// TUG_EDATA for a name with a NUL byte, and for names that are too long together.
int schema_add(struct schema *s, enum schema_use use, const char *name, size_t len,
               struct err *e);

// Whether models trained on data of one format know the keys of the other's.
bool schema_same_keys(const char *format, const char *other);

static inline bool schema_is_setting(enum schema_use use)
{
    return use == SCHEMA_MISSING || use == SCHEMA_LIST_SEPARATOR ||
           use == SCHEMA_HEADER || use == SCHEMA_EDGES || use == SCHEMA_QUOTE ||
           use == SCHEMA_WRITTEN || use == SCHEMA_TYPE || use == SCHEMA_DECIMAL;
}

// For files. NULL: no memory, or (schema_has_text false) names that are no UTF-8.
bool schema_has_text(const struct schema *s);
json_t *schema_to_json(const struct schema *s);
void schema_from_json(struct schema *ret, const json_t *o, struct json_fields *f);

// For messages.
int schema_write(const struct schema *s, struct buf *b);
int schema_read(struct schema *ret, const char *bytes, size_t n);

#endif
