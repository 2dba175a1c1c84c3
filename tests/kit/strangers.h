// Strangers in a simulated world. One never joins, and sends a HELLO of any kind. The
// other joins and leaves, and has a proof of its ended session. At random times both send
// valid frames of every type to the scheduler and to servers. These frames must have no
// effect.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_STRANGERS_H
#define TUG_KIT_STRANGERS_H

#include "kit/cast.h"
#include "server/shard.h"

struct sim_strangers;

// A key whose row the world checks, and which a stranger's push would change if it took
// effect.
struct sim_seen {
    uint32_t table, width; // table, and floats per key of a push
    uint64_t key;
};

int sim_strangers_open(struct sim_strangers **ret, struct sim *s, uint64_t seed,
                       const struct sim_seen *seen, struct err *e);
void sim_strangers_close(struct sim_strangers *x); // NULL is fine

// Lets the strangers act, with some probability.
void sim_strangers_step(struct sim_strangers *x, const struct scheduler *s,
                        struct shard *const *shards, uint32_t n);
// Returns the number of frames that the strangers have sent.
uint64_t sim_strangers_frames(const struct sim_strangers *x);

#endif
