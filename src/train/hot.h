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
#include "table/table.h"

enum {
    HOT_MAX = 4096,
    HOT_MAP_BITS = 14,
    HOT_NONE = HOT_MAX,
    HOT_MERGE_EXAMPLES = 16384, // of a worker, from merge to merge
    HOT_BEGIN_EXAMPLES = 65536, // of the run, for each worker, before there are copies
};

// Which rows are hot in a data set; shared by the workers.
struct hot_rows {
    uint32_t n;
    uint32_t id[HOT_MAX];
    uint16_t map[1 << HOT_MAP_BITS]; // from a hash of the id to its number, or HOT_NONE
    atomic_flag merging[HOT_MAX];
};

// A worker's copies.
struct hot_copies {
    struct hot_rows *rows;
    struct table_slabs slabs;
    uint32_t width;      // of a row
    bool begun;          // there are copies
    float *local, *base; // of each row: as the worker has it; as it was when merged
};

// Whether changes that workers made apart can be added (rule_info.state_adds_up). Weights
// that follow from a state are right again at their next update, which is soon.
bool hot_adds_up(const struct model *m);

// Finds the ids that occur in more than one of 2,048 examples, by a sample. TUG_ENOMEM.
int hot_find(struct hot_rows *h, const struct dataset *d, uint64_t seed);

// Memory for copies, none made yet. TUG_ENOMEM.
int hot_open(struct hot_copies *c, struct hot_rows *h, const struct table *t);
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

// The worker's copy of row `id`, or NULL when it has none. Only after hot_begin.
static inline float *hot_row(const struct hot_copies *c, uint32_t id)
{
    uint32_t i = c->rows->map[hot_hash(id)];
    return i != HOT_NONE && c->rows->id[i] == id ? c->local + (size_t)i * c->width : NULL;
}

#endif
