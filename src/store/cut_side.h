// Keeps copies of rows, with their extra rows, as they were when a cut began.
//
// A copy is a slot with the key, the floats, and, if rows can have extra rows, the slot of
// the extra row's copy. Slots of the same size are in slabs. Freed slots are reused, so
// that memory grows only to the most copies at one time. The caller keeps the numbers of
// its slots, in an array: a list from slot to slot would cost a cache miss for each copy
// whenever the copies are gone through.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_STORE_CUT_SIDE_H
#define TUG_STORE_CUT_SIDE_H

#include <stddef.h>

#include "table/slabs.h"

struct side_slots { // slots of one size
    struct slabs slabs;
    struct table_slabs view;
    uint32_t width;     // floats of a row
    uint32_t next, end; // the next unused slot of the current chunk, and the chunk's end
    // The freed slots; there is room for all slots that were given out.
    uint32_t *free;
    size_t n_free, cap_free;
    uint64_t used;
};

struct side {
    struct side_slots rows, extras;
};

// Opens the store of copies. extra_width is 0 if rows have no extra rows.
int side_open(struct side *d, uint32_t width, uint32_t extra_width);
void side_close(struct side *d); // *d may be zeroed

// Copies a row (`extra` is NULL if it has no extra row).
int side_add(struct side *d, uint64_t key, const float *row, const float *extra,
             uint32_t *ret_slot);
void side_free(struct side *d, const uint32_t *slots, size_t n);

// Returns the floats of a copied row; its key comes before them.
const float *side_row(const struct side *d, uint32_t slot);
// Returns the copy of the extra row; NULL if the row has no extra row.
const float *side_extra(const struct side *d, uint32_t slot);

// Returns the bytes of the slots in use, and of their numbers in the arrays of free slots and
// of the caller.
uint64_t side_bytes(const struct side *d);
uint64_t side_row_bytes(const struct side *d); // the most bytes that one copy takes

#endif
