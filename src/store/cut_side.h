// Keeps copies of rows, with their extra rows, as they were when a cut began.
//
// A copy is a slot: the key, the floats, the slot of the extra row's copy, and the next
// slot of a list. Slots of one size lie in slabs. Freed slots are reused, so that memory
// grows only to the most copies at one time.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_CUT_SIDE_H
#define TUG_STORE_CUT_SIDE_H

#include "table/slabs.h"

struct side_slots { // of one size
    struct slabs slabs;
    struct table_slabs view;
    uint32_t width;     // floats of a row
    uint32_t next, end; // in the current chunk
    uint32_t free;      // first of a list; TABLE_NONE: empty
    uint64_t used;
};

struct side {
    struct side_slots rows, extras;
};

// extra_width 0: there are no extra rows.
int side_open(struct side *d, uint32_t width, uint32_t extra_width);
void side_close(struct side *d); // a zeroed one is fine

// Copies a row (extra NULL: it has none) and puts the copy in front of *list.
int side_add(struct side *d, uint64_t key, const float *row, const float *extra,
             uint32_t *list);
// Frees the slots of a list before `until` (TABLE_NONE: all).
void side_free(struct side *d, uint32_t list, uint32_t until);

const float *side_row(const struct side *d, uint32_t slot);   // its key stands before it
const float *side_extra(const struct side *d, uint32_t slot); // NULL: none
uint32_t side_next(const struct side *d, uint32_t slot);      // TABLE_NONE after the last

uint64_t side_bytes(const struct side *d);     // in use
uint64_t side_row_bytes(const struct side *d); // the most that one copy takes

#endif
