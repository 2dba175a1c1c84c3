// The numbering of features, where the key of a feature is its number: the least and the
// greatest number, and the number of columns of a matrix. Files of libsvm and libffm
// count from 0 or from 1, and columns of a matrix from 0. If a model is used on data of
// the other numbering, each feature is taken for its neighbour. The same holds for the
// fields of libffm.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_SOURCE_NUMBERING_H
#define TUG_DATA_SOURCE_NUMBERING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct schema;
struct data_files;

// The range of the feature numbers that were seen. All zero: no feature was seen.
struct numbering {
    // `last` is the greatest key, `first_inverted` the bitwise inverse of the least key.
    atomic_uint_least64_t last, first_inverted;
    // Only for models with a vector for each field: one more than the greatest field, and
    // the bitwise inverse of the least field. These members are 0 if the fields are unknown.
    atomic_uint_least64_t fields_end, fields_first_inverted;
    uint64_t columns; // number of columns of a matrix; 0: unknown
};

// numbering_add may be called by several threads at the same time.
void numbering_add(struct numbering *n, const uint64_t *keys, size_t count);
// Adds the fields [first, end); none if end is 0. Any thread may call it.
void numbering_add_fields(struct numbering *n, uint64_t first, uint64_t end);
void numbering_copy(struct numbering *to, const struct numbering *from);

// The members of struct numbering that a process sends to others: the least and greatest
// numbers that it has seen.
struct numbering_range {
    uint64_t last, first_inverted, fields_end, fields_first_inverted;
};
static inline struct numbering_range numbering_range(const struct numbering *n)
{
    return (struct numbering_range){n->last, n->first_inverted, n->fields_end,
                                    n->fields_first_inverted};
}
void numbering_join(struct numbering *to, struct numbering_range from);
void numbering_range_join(struct numbering_range *to, struct numbering_range from);

static inline bool numbering_any(const struct numbering *n)
{
    return n->last != 0 || n->first_inverted != 0;
}

static inline uint64_t numbering_first(const struct numbering *n)
{
    return ~(uint64_t)n->first_inverted;
}

static inline uint64_t numbering_first_field(const struct numbering *n)
{
    return ~(uint64_t)n->fields_first_inverted;
}

// Returns whether keys in data of this schema are the data's feature numbers (not hashes).
bool numbering_has(const struct schema *s);
// Returns the number of columns of the widest matrix among the files; 0 if unknown.
uint64_t numbering_columns(const struct data_files *f);

enum { NUMBERING_TEXT = 400 };
// Returns whether the features of data on which the model will train seem to be counted from
// 0, and the features of the model's data from 1, or the reverse. New features alone do not
// make it true. If true, `text` becomes the warning, in which `what` names the data.
bool numbering_shifted(const struct numbering *model, const struct numbering *data,
                       const char *what, char text[NUMBERING_TEXT]);
// Like numbering_shifted, but for data to score: also returns true if `data` has another
// number of features than the model's data.
bool numbering_differs(const struct numbering *model, const struct numbering *data,
                       const char *what, char text[NUMBERING_TEXT]);

#endif
