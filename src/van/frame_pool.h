// Reuses the memory of received message bodies. If each message of 64 MB got a new
// mapping, page faults would halve the speed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_FRAME_POOL_H
#define TUG_VAN_FRAME_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "os/budget.h"

// The sizes of blocks are powers of two, from 1 << FRAME_POOL_MIN on; the largest block
// holds WIRE_BODY_MAX bytes.
enum { FRAME_POOL_MIN = 8, FRAME_POOL_CLASSES = 25 };

struct frame_block;

struct frame_pool {
    struct frame_block *unused[FRAME_POOL_CLASSES];
    uint64_t unused_bytes;
    // The process's budget, set before the first take; NULL: no limit.
    struct budget *budget;
};

// Returns a block of at least `bytes` bytes, aligned to 64; NULL if there is no memory.
void *frame_pool_take(struct frame_pool *p, uint64_t bytes);
void frame_pool_give(struct frame_pool *p, void *memory); // NULL is fine
uint64_t frame_pool_size(const void *memory); // the bytes requested from frame_pool_take
void frame_pool_close(struct frame_pool *p);
void frame_pool_drop(void *memory); // frees memory whose pool was closed

#endif
