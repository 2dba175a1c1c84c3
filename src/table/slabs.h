// The memory of rows: slabs that never move, a directory of them, and one bit per row
// that says whether it is live.
//
//     directory           slab 0, 2 MiB or more
//     +--------+          +--------------+--------------+-----
//     | slab 0 |--------->| key | floats | key | floats | ...     rows: a power of two,
//     +--------+          +--------------+--------------+-----    each `stride` bytes
//     | slab 1 |--->
//     +--------+          live: one bit per handle
//
// A handle is slab << shift | row. Directory and bits are reserved addresses, whose
// memory is committed slab by slab, so they never move either. Several slabs are mapped
// together (an extent), more of them in a larger table, since the kernel limits the
// number of mappings; memory is used when it is first touched.
//
// Rows are given out in chunks, so that each stripe writes to its own memory and rarely
// takes this lock.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TABLE_SLABS_H
#define TUG_TABLE_SLABS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "table/table.h"

struct slabs {
    char **slab; // the address of each slab
    _Atomic uint64_t *live;
    uint64_t slab_bytes;
    uint32_t slab_rows;
    uint32_t chunk_rows; // a power of two, at most slab_rows
    uint32_t max_slabs;

    pthread_mutex_t lock;
    uint32_t mapped;           // number of slabs whose memory is mapped
    _Atomic uint64_t next_row; // the first handle that was not given out yet
};

// Opens the memory of a table's rows, and fills in the view that table_row needs.
int slabs_open(struct slabs *s, uint32_t width, uint32_t align,
               struct table_slabs *ret_view);
void slabs_close(struct slabs *s); // zeroed slabs are fine

// Gives out the zeroed rows [*ret_first, *ret_first + s->chunk_rows). May be called from
// any thread.
int slabs_take(struct slabs *s, uint32_t *ret_first);

// Returns a number above all handles that were given out so far.
static inline uint64_t slabs_end(const struct slabs *s)
{
    return atomic_load_explicit(&s->next_row, memory_order_relaxed);
}

// Returns the number of bytes of the slabs from which rows were given out.
uint64_t slabs_bytes(const struct slabs *s);

// Marks a row as live. The operation is atomic, because rows of other stripes may have
// bits in the same word.
static inline void slabs_set_live(struct slabs *s, uint32_t handle)
{
    atomic_fetch_or_explicit(&s->live[handle >> 6], 1ull << (handle & 63),
                             memory_order_relaxed);
}

static inline void slabs_clear_live(struct slabs *s, uint32_t handle)
{
    atomic_fetch_and_explicit(&s->live[handle >> 6], ~(1ull << (handle & 63)),
                              memory_order_relaxed);
}

#endif
