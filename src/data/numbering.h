// How features are numbered, where a feature's key is its number: the least and the greatest
// number, and, of a matrix, how many columns there are. Files of libsvm and libffm count from 0
// or from 1, and the columns of a matrix from 0, so data of one kind that is scored by a model
// of the other has each feature in the place of its neighbour.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_NUMBERING_H
#define TUG_DATA_NUMBERING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct schema;
struct data_files;

// Zeroed: no feature was seen.
struct numbering {
    atomic_uint_least64_t last, first_inverted; // greatest key, and greatest ~key
    uint64_t columns;                           // of a matrix; 0: not known
};

// Threads: any at the same time.
void numbering_add(struct numbering *n, const uint64_t *keys, size_t count);
void numbering_copy(struct numbering *to, const struct numbering *from);
// Adds the keys that `from` has seen.
void numbering_join(struct numbering *to, const struct numbering *from);

static inline bool numbering_any(const struct numbering *n)
{
    return n->last != 0 || n->first_inverted != 0;
}

static inline uint64_t numbering_first(const struct numbering *n)
{
    return ~(uint64_t)n->first_inverted;
}

// Whether the keys of data of this schema are numbers from the data.
bool numbering_has(const struct schema *s);
// Returns the columns of the widest matrix among the files; 0 if no width is known.
uint64_t numbering_columns(const struct data_files *f);

enum { NUMBERING_TEXT = 400 };
// Whether `data`, which `what` names, seems to be counted from another number than what the
// model learnt from; then `text` is a sentence that says so. For data that the model learns
// from next, where a feature that it does not know yet is learnt.
bool numbering_shifted(const struct numbering *model, const struct numbering *data,
                       const char *what, char text[NUMBERING_TEXT]);
// As numbering_shifted, and also whether `data` has another width. For data to score.
bool numbering_differs(const struct numbering *model, const struct numbering *data,
                       const char *what, char text[NUMBERING_TEXT]);

#endif
