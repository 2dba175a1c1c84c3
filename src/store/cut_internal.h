// What a cut is made of, for cut.c (beginning, ending, changes meanwhile), cut_read.c
// (reading out) and cut_sort.c.
//
// A row belongs to the cut if it was there when the cut began. Of each partition, the
// first `n_rows` handles of its list hold all of them. What became of a handle since says
//
//   made      the row in it is a new one; if an older one lay there, it was copied or its
//             partition had been read out
//   copied    the row that lay in it is among the copies, or is not needed any more
//   neither   it holds the row as it was
//
// While a partition is read out, its rows are entries sorted by key; those that change
// then become copies in place.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_CUT_INTERNAL_H
#define TUG_STORE_CUT_INTERNAL_H

#include "store/cut.h"
#include "store/cut_side.h"
#include "store/store_internal.h"

struct cut_part {
    uint32_t n_rows; // of the partition's list, when the cut began
    uint32_t day;    // likewise
    uint32_t copies; // list of the side's slots
    bool admitted;   // `state` is its ROWS_PARTITION from before pushes changed it
    struct buf state;
    struct handle_list promoted; // rows that were cold when the cut began

    // What was noted before the cut, and of it, after reading out, what stays for the
    // next delta; and rows in memory that were written.
    struct handle_list changed, kept, published;
    struct key_list gone;
    bool gone_lost; // see store_part
};

// What is read out next of the partition at hand, in the order of blocks.
enum cut_stage { CUT_BEGIN, CUT_PARTITION, CUT_GONE, CUT_ROWS, CUT_EXTRAS, CUT_DONE };

struct cut {
    struct cut_options o; // side_bytes is not 0
    uint64_t step;
    struct cut_part *parts;
    struct handle_bits made, copied;
    struct handle_bits changed; // the store's, when the cut began
    struct side side;
    uint64_t state_bytes; // of all states
    struct cut_stats stats;

    // The partition at hand; those before it are read out.
    uint32_t at;
    enum cut_stage stage;
    // Its rows. [0, n_extras): were written, and have an extra row that was
    // not; [rows_at, n_entries): were not written. Handles with CUT_COPY
    // are slots of the side.
    struct table_entry *entries;
    size_t n_entries, cap_entries, rows_at, n_extras, extras_at;
    struct key_list gone; // to write
    size_t gone_at;

    char *block;
    size_t cap_block;
};

#define CUT_COPY TABLE_MAX_ROWS // no handle has this bit

static inline bool cut_publishes(const struct cut *c)
{
    return c->o.mode == SAVE_BASE || c->o.mode == SAVE_DELTA;
}

static inline bool cut_read_out(const struct cut *c, uint32_t p)
{
    return p < c->at;
}

static inline struct life_time cut_time(const struct cut *c, uint32_t p)
{
    return (struct life_time){.day = c->parts[p].day, .step = c->step};
}

void cut_sort(struct table_entry *x, size_t n); // cut_sort.c: by key

#endif
