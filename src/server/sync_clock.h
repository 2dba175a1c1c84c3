// The clock of synchronous batches: which micro-batches of which open batch are in. Pure.
//
// A contribution stands for an aligned dyadic range of micro-batches. Of two nested
// contributions the larger counts, so that kept ones are disjoint; a batch is complete
// when they cover it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SYNC_CLOCK_H
#define TUG_SERVER_SYNC_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "server/shard.h"

// Batches have numbers up to this one: counting on from it does not wrap.
#define SYNC_CLOCK_MAX (UINT64_MAX - UINT32_MAX)

struct sync_part {
    uint8_t micro, micros;
    void *what; // the contribution
};

struct sync_batch {
    struct sync_part parts[SHARD_MICROS]; // by ascending micro
    uint32_t n;
    uint32_t covered; // a bit for each micro-batch
};

struct sync_clock {
    uint64_t next;                            // the batch to be applied next
    struct sync_batch open[SHARD_MAX_CLOCKS]; // clock c at c % SHARD_MAX_CLOCKS
};

// Whether a batch can have the number: TUG_EUSAGE saying why not.
int sync_clock_check_number(uint64_t clock, struct err *e);
// Whether a contribution can stand for these micro-batches of this batch: TUG_EUSAGE
// saying why not.
int sync_clock_check(uint64_t clock, uint8_t micro, uint8_t micros, struct err *e);
// Whether so many earlier batches are open that this one cannot be opened yet.
bool sync_clock_is_ahead(const struct sync_clock *c, uint64_t clock);

// Whether what it stands for is in already.
bool sync_clock_has(const struct sync_clock *c, uint64_t clock, uint8_t micro,
                    uint8_t micros);

// Adds a contribution that was checked, is not ahead and is not in. Copies the contributions that it replaces to
// ret_dropped (at most SHARD_MICROS); returns how many.
uint32_t sync_clock_add(struct sync_clock *c, uint64_t clock, uint8_t micro,
                        uint8_t micros, void *what, void **ret_dropped);

// Whether the next batch is complete; it is left by sync_clock_advance.
bool sync_clock_complete(const struct sync_clock *c);
struct sync_batch *sync_clock_next(struct sync_clock *c);
void sync_clock_advance(struct sync_clock *c);

// The micro-batches that the next batch waits for, as bits.
uint32_t sync_clock_missing(const struct sync_clock *c);

#endif
