// Hot rows: the rows of features that nearly every example has (a sex, an age group,
// "missing"). If threads shared such rows, each update would wait for the row's cache
// line from another core, and more threads would not be faster. So each worker has its
// own copies of hot rows and regularly adds its changes to the shared rows.
//
// A worker sees its own updates at once, and those of others some thousand examples
// later. Copies begin only when the run has seen many examples: from then on the steps of
// all workers between two merges change a row little. No change is lost: a worker merges a
// row under a flag, and merges it the next time if another worker has the flag.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_ROWS_HOT_H
#define TUG_TRAIN_ROWS_HOT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "data/dataset/dataset.h"
#include "model/model.h"

enum {
    HOT_MAX = 4096,
    HOT_MAP_BITS = 14,
    HOT_NONE = HOT_MAX,
    HOT_MERGE_EXAMPLES = 16384, // examples of a worker between two merges
    // Copies begin when the run has seen this many examples times the number of workers.
    HOT_BEGIN_EXAMPLES = 65536,
};

// The hot rows of a data set; all workers share this struct.
struct hot_rows {
    uint32_t n;
    uint32_t id[HOT_MAX];
    // The index in id[] by the hash of an id, or HOT_NONE.
    uint16_t map[1 << HOT_MAP_BITS];
    atomic_flag merging[HOT_MAX];
};

// The copied part of a row is one block of memory, or two: the embedding of a row with a
// lifecycle is in a row of its own (accessor/life.h).
enum { HOT_PIECES = 2 };

// Finds the current address of a row's pieces; NULL for a piece that does not exist.
// Returns false if the row does not exist.
typedef bool (*hot_find_fn)(const void *ctx, uint32_t id, float *ret[HOT_PIECES]);

struct hot_copy {
    // The address of each piece of the row when copies began; NULL: the piece is not
    // copied.
    float *shared[HOT_PIECES];
};

// The copies of one worker.
struct hot_copies {
    struct hot_rows *rows;
    hot_find_fn find;
    const void *find_ctx;
    uint32_t widths[HOT_PIECES], width;
    bool begun; // the copies are in use
    struct hot_copy *copies;
    // The pieces of each row, one after the other: the worker's values, and the values at
    // its last merge.
    float *local, *base;
};

// Returns whether changes that workers made separately can be added
// (rule_info.state_adds_up). For rules that compute a weight from the rule's state,
// adding the states is enough: the next update computes the weight again.
bool hot_adds_up(const struct model *m);

// Finds, by a sample, the ids that occur in more than 1/2,048 of the examples.
// May return TUG_ENOMEM.
int hot_find(struct hot_rows *h, const struct dataset *d, uint64_t seed);

// Allocates memory for copies without making them. `find` returns the addresses of a
// row's pieces. May return TUG_ENOMEM.
int hot_open(struct hot_copies *c, struct hot_rows *h, const uint32_t widths[HOT_PIECES],
             hot_find_fn find, const void *ctx);
void hot_close(struct hot_copies *c); // a zeroed struct is fine

// Copies the shared rows; the worker uses its copies from now on.
void hot_begin(struct hot_copies *c);

// Adds the worker's changes to the shared rows and sets its copies to the result.
void hot_merge(struct hot_copies *c);

// Merges at the end of a stretch of batches: waits for rows that other workers are
// merging, and frees the copies.
void hot_finish(struct hot_copies *c);

static inline uint32_t hot_hash(uint32_t id)
{
    return id * 2654435761u >> (32 - HOT_MAP_BITS);
}

// Returns the index of row `id` among the worker's copies, or HOT_NONE. Only valid after
// hot_begin.
static inline uint32_t hot_number(const struct hot_copies *c, uint32_t id)
{
    uint32_t i = c->rows->map[hot_hash(id)];
    bool copied = i != HOT_NONE && c->rows->id[i] == id && c->copies[i].shared[0] != NULL;
    return copied ? i : HOT_NONE;
}

// Return the worker's copies of a row's two pieces; the second is NULL if it did not
// exist when copies began.
static inline float *hot_first(const struct hot_copies *c, uint32_t number)
{
    return c->local + (size_t)number * c->width;
}
static inline float *hot_second(const struct hot_copies *c, uint32_t number)
{
    return c->copies[number].shared[1] != NULL ? hot_first(c, number) + c->widths[0]
                                               : NULL;
}

// Returns the worker's copy of row `id`, or NULL if it has none.
static inline float *hot_row(const struct hot_copies *c, uint32_t id)
{
    uint32_t i = hot_number(c, id);
    return i != HOT_NONE ? hot_first(c, i) : NULL;
}

#endif
