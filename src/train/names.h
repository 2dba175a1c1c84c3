// The words behind hashed keys, such as "site=f3845767", with the number of examples that
// have each. They are a file beside the rows of a save. Only a limited number of words is
// kept, the first in the data.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_NAMES_H
#define TUG_TRAIN_NAMES_H

#include "data/format/reader.h"
#include "data/source/source.h"
#include "os/team.h"

// Columns whose texts are read for their words (data/format/kept.h): columns with hashed keys
// whose names contain no comma.
struct named_columns {
    struct buf list; // "a,b", ended by a NUL
    uint32_t *slot;  // the slot of each column
    size_t n;
};
int named_columns_open(struct named_columns *c, const struct reader *r, struct err *e);
void named_columns_close(struct named_columns *c); // a zeroed struct is fine

struct names;
struct names_options {
    struct source *source;
    struct reader *reader;
    struct team *team;
    uint64_t max; // the greatest number of words
    uint64_t max_bad_lines;
    const atomic_bool *interrupted; // stops the reading; NULL: never stops it
};
// Reads the whole source. Returns TUG_EUSAGE if keys of this format are not hashes.
int names_read(struct names **ret, const struct names_options *o, struct err *e);
void names_close(struct names *n); // `n` may be NULL

// Returns the word of a key, or NULL if it is unknown; for columns of numbers, the
// column's name.
const char *names_find(const struct names *n, uint64_t key, uint64_t *ret_examples);

// names_write writes the file into a save's directory, completely or not at all.
// names_load sets *ret to NULL if the save has no such file; it returns TUG_EDATA, naming
// the file, if the file is damaged.
int names_write(const struct names *n, const char *dir, struct err *e);
int names_load(struct names **ret, const char *dir, struct err *e);

#endif
