// The words behind hashed keys, "site=f3845767", and in how many examples each came: a
// file beside the rows of a save. It has a limited number of words, the first ones in the
// data.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_NAMES_H
#define TUG_TRAIN_NAMES_H

#include "base/team.h"
#include "data/reader.h"
#include "data/source.h"

// Columns whose texts are read for their words (data/kept.h): those of keys that are
// hashes, as far as a list with commas can name them.
struct named_columns {
    struct buf list; // "a,b", with a zero at its end
    uint32_t *slot;  // of each
    size_t n;
};
int named_columns_open(struct named_columns *c, const struct reader *r, struct err *e);
void named_columns_close(struct named_columns *c); // a zeroed one is fine

struct names;
struct names_options {
    struct source *source;
    struct reader *reader;
    struct team *team;
    uint64_t max; // words
    uint64_t max_bad_lines;
    const atomic_bool *interrupted; // NULL: never
};
// Reads the whole source. TUG_EUSAGE if keys of this format are not hashes.
int names_read(struct names **ret, const struct names_options *o, struct err *e);
void names_close(struct names *n); // NULL is fine

// NULL if it is not known. For numbers only the column's name.
const char *names_find(const struct names *n, uint64_t key, uint64_t *ret_examples);

// Writes the file into a save's directory, complete or not at all. TUG_EDATA names one
// that is damaged; of a save without one *ret is NULL.
int names_write(const struct names *n, const char *dir, struct err *e);
int names_load(struct names **ret, const char *dir, struct err *e);

#endif
