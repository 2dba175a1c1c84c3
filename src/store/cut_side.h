// Keeps copies of rows, with their extra rows, as they were when a cut began.
//
// A copy is a slot with the key, the floats, the slot of the extra row's copy, and the
// next slot of a list. Slots of the same size are in slabs. Freed slots are reused, so
// that memory grows only to the most copies at one time.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_CUT_SIDE_H
#define TUG_STORE_CUT_SIDE_H

#include "table/slabs.h"

struct side_slots { // slots of one size
    struct slabs slabs;
    struct table_slabs view;
    uint32_t width;     // floats of a row
    uint32_t next, end; // the next unused slot of the current chunk, and the chunk's end
    // First slot of the list of free slots; TABLE_NONE: no slot is free.
    uint32_t free;
    uint64_t used;
};

struct side {
    struct side_slots rows, extras;
};

// Opens the store of copies. extra_width is 0 if rows have no extra rows.
int side_open(struct side *d, uint32_t width, uint32_t extra_width);
void side_close(struct side *d); // *d may be zeroed

// Copies a row (`extra` is NULL if it has no extra row), and puts the copy in front of
// *list.
int side_add(struct side *d, uint64_t key, const float *row, const float *extra,
             uint32_t *list);
// Frees the slots of a list that come before slot `until`; TABLE_NONE: all slots of the
// list.
void side_free(struct side *d, uint32_t list, uint32_t until);

// Returns the floats of a copied row; its key comes before them.
const float *side_row(const struct side *d, uint32_t slot);
// Returns the copy of the extra row; NULL if the row has no extra row.
const float *side_extra(const struct side *d, uint32_t slot);
uint32_t side_next(const struct side *d, uint32_t slot); // TABLE_NONE after the last slot

uint64_t side_bytes(const struct side *d);     // bytes of the slots in use
uint64_t side_row_bytes(const struct side *d); // the most bytes that one copy takes

#endif
