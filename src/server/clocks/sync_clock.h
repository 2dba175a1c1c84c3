// The clock of synchronous batches: it records which micro-batches of each open batch
// have arrived. Pure: no clock of the machine, no I/O.
//
// A contribution stands for an aligned dyadic range of micro-batches. If two
// contributions are nested, only the larger one is kept, so the kept ones are disjoint. A
// batch is complete when they cover all its micro-batches.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_CLOCKS_SYNC_CLOCK_H
#define TUG_SERVER_CLOCKS_SYNC_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "server/shard.h"

// The highest number of a batch. It is so far below UINT64_MAX that the numbers of the
// next batches do not overflow.
#define SYNC_CLOCK_MAX (UINT64_MAX - UINT32_MAX)

struct sync_part {
    uint8_t micro, micros;
    void *what; // the contribution
};

struct sync_batch {
    struct sync_part parts[SHARD_MICROS]; // sorted by their first micro-batch
    uint32_t n;
    uint32_t covered; // a bit for each micro-batch that has arrived
};

struct sync_clock {
    uint64_t next;                            // number of the batch that is applied next
    struct sync_batch open[SHARD_MAX_CLOCKS]; // batch c is at c % SHARD_MAX_CLOCKS
};

// Checks that a batch can have this number. Returns 0 or TUG_EUSAGE.
int sync_clock_check_number(uint64_t clock, struct err *e);
// Checks that a contribution can stand for these micro-batches of this batch. Returns 0 or
// TUG_EUSAGE.
int sync_clock_check(uint64_t clock, uint8_t micro, uint8_t micros, struct err *e);
// Returns whether this batch cannot be opened yet because too many earlier batches are
// open.
bool sync_clock_is_ahead(const struct sync_clock *c, uint64_t clock);

// Returns whether all micro-batches of a contribution have arrived already.
bool sync_clock_has(const struct sync_clock *c, uint64_t clock, uint8_t micro,
                    uint8_t micros);

// Returns whether the part lies within these micro-batches, so that a contribution to them
// replaces it.
static inline bool sync_part_within(const struct sync_part *p, uint8_t micro,
                                    uint8_t micros)
{
    return p->micro >= micro && p->micro < micro + micros;
}

// Adds a contribution. The caller has checked it with the functions above: it is valid,
// not ahead and not there yet. Copies the contributions that it replaces (at most
// SHARD_MICROS) to ret_dropped, and returns their number.
uint32_t sync_clock_add(struct sync_clock *c, uint64_t clock, uint8_t micro,
                        uint8_t micros, void *what, void **ret_dropped);

// sync_clock_complete returns whether the next batch is complete. sync_clock_advance
// drops the next batch and makes the one after it the next.
bool sync_clock_complete(const struct sync_clock *c);
struct sync_batch *sync_clock_next(struct sync_clock *c);
void sync_clock_advance(struct sync_clock *c);

// Returns the micro-batches that the next batch lacks, as bits.
uint32_t sync_clock_missing(const struct sync_clock *c);

#endif
