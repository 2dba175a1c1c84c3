// Internals of a cut, for cut.c (begin, end, changes meanwhile), cut_read.c
// (reading out) and cut_sort.c.
//
// A row belongs to the cut if it existed when the cut began; it is then among the first
// `n_rows` handles of its partition's list. Two marks tell what has happened to a handle since:
//
//   copied    its row of the cut is among the copies, or is not needed any more
//   made      it has a new row; then it has the mark `copied`, too
//   neither   it has its row unchanged
//
// The rows of a partition are first collected as entries, in steps; then entries of rows
// that have changed meanwhile are replaced by copies, and all are sorted by key. While the
// partition is written, entries of rows that change become copies in place.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_CUT_INTERNAL_H
#define TUG_STORE_CUT_INTERNAL_H

#include "store/cut.h"
#include "store/cut_side.h"
#include "store/store_internal.h"

struct cut_part {
    // The partition does not belong to the cut: another store led it when the cut began.
    bool out;
    uint32_t n_rows; // length of the partition's list of rows when the cut began
    uint32_t day;    // the partition's day when the cut began
    struct handle_list copies; // slots of the copies of the partition's rows
    bool admitted; // whether `state` is set: the partition's state before the first push
                   // since the cut began
    struct buf state;
    // Handles of rows that were cold when the cut began and were promoted since.
    struct handle_list promoted;

    // Handles. changed: of rows that had changed before the cut; kept: of those that the
    // next delta still needs; published: of the rows in memory that were written.
    struct handle_list changed, kept, published;
    struct key_list gone;
    bool gone_lost; // the list of removed rows is incomplete, as in store_part.gone_lost
};

// The next step for the current partition: its rows are collected, or blocks of one kind are
// written.
enum cut_stage {
    CUT_BEGIN,
    CUT_COLLECT,
    CUT_PARTITION,
    CUT_GONE,
    CUT_ROWS,
    CUT_EXTRAS,
    CUT_DONE
};

enum cut_list { CUT_ROWS_LIST, CUT_PROMOTED_LIST, CUT_COPIES_LIST, CUT_LISTS };

struct cut {
    // The options. If the caller gave 0 as side_bytes, it has the default limit here.
    struct cut_options o;
    uint64_t step;
    struct cut_part *parts;
    struct handle_bits made, copied;
    struct handle_bits changed; // the store's bits of changed rows when the cut began
    struct side side;
    uint64_t state_bytes; // bytes of the states of all partitions
    struct cut_stats stats;

    // The current partition; all partitions before it have been read out.
    uint32_t at;
    enum cut_stage stage;
    // In CUT_COLLECT: how many handles of the partition's list of rows (for a delta: of its
    // list of changed rows), of `promoted` and of `copies` were looked at.
    uint32_t looked[CUT_LISTS];
    // The rows of the current partition. The rows of entries [0, n_extras) were
    // written, but their extra rows are collected for the next stage; the rows of
    // entries [rows_at, n_entries) are not written yet. A handle with the bit CUT_COPY
    // is the slot of a copy.
    struct table_entry *entries;
    size_t n_entries, cap_entries, rows_at, n_extras, extras_at;
    struct key_list gone; // keys of removed rows that are to be written
    size_t gone_at;

    char *block;
    size_t cap_block;
};

// Adds a copy of a row to those of partition p (`extra` is NULL if it has no extra row).
int cut_add_copy(struct store *s, uint32_t p, uint64_t key, const float *row,
                 const float *extra);
// Updates stats.side_peak. Called after rows were copied.
void cut_note_peak(struct cut *c);

#define CUT_COPY TABLE_MAX_ROWS // no handle has this bit

static inline bool cut_publishes(const struct cut *c)
{
    return c->o.mode == SAVE_BASE || c->o.mode == SAVE_DELTA;
}

// Returns whether the rows of the current partition are entries sorted by key.
static inline bool cut_is_sorted(const struct cut *c, uint32_t p)
{
    return p == c->at && c->stage > CUT_COLLECT;
}

// Returns whether the rows of a partition may change without being copied.
static inline bool cut_read_out(const struct cut *c, uint32_t p)
{
    return p < c->at || c->parts[p].out;
}

static inline struct life_time cut_time(const struct cut *c, uint32_t p)
{
    return (struct life_time){.day = c->parts[p].day, .step = c->step};
}

void cut_sort(struct table_entry *x, size_t n); // sorts by key; in cut_sort.c

#endif
