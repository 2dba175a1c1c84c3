// The inside of the multislot reader, shared by its files.
//
// A text describes the slots of a line, in order, separated by commas or line ends; '#'
// begins a comment:
//
//   label:label, user:ids, history:ids@user, price:dense[3], junk:skip, c1..c26:ids
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_FORMAT_READER_MULTISLOT_H
#define TUG_DATA_FORMAT_READER_MULTISLOT_H

#include "data/format/reader_ops.h"

// A slot of a line, from a column of the schema named NAME, NAME@GROUP (ids) or NAME[N]
// (numbers).
struct slot {
    enum schema_use use;
    bool ids;       // whether the slot has ids or keys
    uint16_t field; // field of the slot's features
    uint32_t dense; // count of numbers in the slot
    uint64_t seed;  // seed of the hashes of the slot's keys
    const char *column, *name;
    size_t name_len;
};

struct slots {
    size_t n;
    struct slot *slot;
    uint32_t features; // number of slots that are features
    uint32_t labels;
    bool weight;
};

struct multislot {
    struct reader base;
    char *text; // the value of --slots; NULL: it was not given
    bool model; // the schema comes from a model
    bool allow_missing, no_options;
    uint32_t fields;       // number of feature slots in the schema
    struct schema *schema; // schema of the lines, if it differs from the reader's
    struct slots slots;    // slots of the lines
    bool in_order;         // fields ascend in a line
};

// Parses the description of slots in `given`, a text or the name of a file with it.
int multislot_parse(const char *given, struct schema *ret, struct err *e);

// Reads and checks the slots of a schema, which may come from a user or a file.
int multislot_take(const struct schema *s, struct slots *ret, struct err *e);

// Sets the fields of the lines' slots to those of a model, by the slots' names.
int multislot_match(struct multislot *m, const struct slots *model, struct err *e);

#endif
