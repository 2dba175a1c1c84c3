// The inside of the multislot reader: what its slots and its lines share.
//
// A text says what a line holds, slot after slot, with commas or line ends between them
// and '#' before comments:
//
//   label:label, user:ids, history:ids@user, price:dense[3], junk:skip, c1..c26:ids
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_READER_MULTISLOT_H
#define TUG_DATA_READER_MULTISLOT_H

#include "data/reader_ops.h"

// A slot of a line, out of a column of a schema whose name is NAME, NAME@GROUP (ids) or
// NAME[N] (numbers).
struct slot {
    enum schema_use use;
    bool ids;       // of ids or keys
    uint16_t field; // of a feature
    uint32_t dense; // how many numbers it has
    uint64_t seed;  // of its keys
    const char *column, *name;
    size_t name_len;
};

struct slots {
    size_t n;
    struct slot *slot;
    uint32_t features; // slots that are
    uint32_t labels;
    bool weight;
};

struct multislot {
    struct reader base;
    char *text; // the option; NULL: not given
    bool model; // the schema is that of a model
    bool allow_missing, no_options;
    uint32_t fields;       // feature slots of the schema
    struct schema *schema; // of the lines, where they have another one than the reader
    struct slots slots;    // of the lines
    bool in_order;         // fields ascend
};

// Slots by the text `given`, which is one or the name of a file with it.
int multislot_parse(const char *given, struct schema *ret, struct err *e);

// The slots of a schema, which must be good ones: they are a user's or a file's.
int multislot_take(const struct schema *s, struct slots *ret, struct err *e);

// Makes the fields of lines those of a model, by the slots' names.
int multislot_match(struct multislot *m, const struct slots *model, struct err *e);

#endif
