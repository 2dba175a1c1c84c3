// Hot rows: features that nearly every example has (a sex, an age group, "missing"). If
// threads shared them, each update would wait for the row's cache line to come from the
// other core, and threads would not pay. So each worker has copies of its own, and adds
// what it changed to the shared rows after every batch.
//
// A worker's own updates count at once, the others' some thousand examples later. Copies
// begin only when a run has seen so many examples that the steps between two merges, of
// all workers together, change a row little. Nothing is lost: a row is merged under a
// flag; who finds it taken merges the next time.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_HOT_H
#define TUG_TRAIN_HOT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "data/dataset.h"
#include "model/model.h"

enum {
    HOT_MAX = 4096,
    HOT_MAP_BITS = 14,
    HOT_NONE = HOT_MAX,
    HOT_MERGE_EXAMPLES = 16384, // of a worker, from merge to merge
    HOT_BEGIN_EXAMPLES = 65536, // of the run, for each worker, before there are copies
};

// The hot rows of a data set; shared by the workers.
struct hot_rows {
    uint32_t n;
    uint32_t id[HOT_MAX];
    uint16_t map[1 << HOT_MAP_BITS]; // from a hash of the id to its number, or HOT_NONE
    atomic_flag merging[HOT_MAX];
};

// The copied part of a row is in one piece, or in two: rows with a lifecycle have their
// embedding elsewhere (accessor/life.h).
enum { HOT_PIECES = 2 };

// The current address of a row's pieces; NULL: none. False: there is no row.
typedef bool (*hot_find_fn)(const void *ctx, uint32_t id, float *ret[HOT_PIECES]);

struct hot_copy {
    float *shared[HOT_PIECES]; // when copies began; NULL: this piece is not copied
};

// A worker's copies.
struct hot_copies {
    struct hot_rows *rows;
    hot_find_fn find;
    const void *find_ctx;
    uint32_t widths[HOT_PIECES], width;
    bool begun; // there are copies
    struct hot_copy *copies;
    // The pieces of each row, one after the other: the worker's values; and those at the
    // last merge.
    float *local, *base;
};

// Whether changes that workers made apart can be added (rule_info.state_adds_up). Weights
// that follow from a state are right again at their next update, which is soon.
bool hot_adds_up(const struct model *m);

// Finds the ids that occur in more than one of 2,048 examples, by a sample. TUG_ENOMEM.
int hot_find(struct hot_rows *h, const struct dataset *d, uint64_t seed);

// Allocates memory for copies, but makes none yet. `find` gives the addresses of a row's
// pieces. TUG_ENOMEM.
int hot_open(struct hot_copies *c, struct hot_rows *h, const uint32_t widths[HOT_PIECES],
             hot_find_fn find, const void *ctx);
void hot_close(struct hot_copies *c); // a zeroed one is fine

// Makes the copies.
void hot_begin(struct hot_copies *c);

// Adds the changes to the shared rows and takes their values.
void hot_merge(struct hot_copies *c);

// The same at the end of a stretch: waits for rows that others are merging, gives up the
// copies.
void hot_finish(struct hot_copies *c);

static inline uint32_t hot_hash(uint32_t id)
{
    return id * 2654435761u >> (32 - HOT_MAP_BITS);
}

// The number of the row `id` among those that the worker has copies of, or HOT_NONE. Only
// after hot_begin.
static inline uint32_t hot_number(const struct hot_copies *c, uint32_t id)
{
    uint32_t i = c->rows->map[hot_hash(id)];
    bool copied = i != HOT_NONE && c->rows->id[i] == id && c->copies[i].shared[0] != NULL;
    return copied ? i : HOT_NONE;
}

// The worker's copies of its pieces; the second is NULL when there was none.
static inline float *hot_first(const struct hot_copies *c, uint32_t number)
{
    return c->local + (size_t)number * c->width;
}
static inline float *hot_second(const struct hot_copies *c, uint32_t number)
{
    return c->copies[number].shared[1] != NULL ? hot_first(c, number) + c->widths[0]
                                               : NULL;
}

// The worker's copy of row `id`, or NULL when it has none.
static inline float *hot_row(const struct hot_copies *c, uint32_t id)
{
    uint32_t i = hot_number(c, id);
    return i != HOT_NONE ? hot_first(c, i) : NULL;
}

#endif
