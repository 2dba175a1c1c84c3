// Records which pushes were applied in which partitions: the vector clock that makes a
// push happen once (OSDI'14, section 4.1, with partitions as the ranges).
//
// For each session it keeps the low-water mark and, for the SHARD_WINDOW numbers from it
// on, the set of partitions in which each was applied. Likewise for each piece of the
// data in training, and each table, whichever worker pushes: the low-water mark of its
// groups, and the sets of those above it, until the piece is done. So what is remembered
// grows with the pushes that are on their way, not with the batches of a piece. Pure: no
// clock, no I/O.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_RETRIES_H
#define TUG_SERVER_RETRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/err.h"
#include "server/sessions.h"
#include "wire/wire.h"

// A worker has a few batches on their way, each a push of rows and a few of layers (28 of
// these at most, now), and no cluster has more than 2^16 nodes.
enum { RETRIES_MAX_IDENTITIES = 1 << 21 };

struct retries;

// `b`, which may be NULL, counts its memory.
int retries_open(struct retries **ret, uint32_t partition_bits, struct budget *b,
                 struct err *e);
void retries_close(struct retries *r); // NULL is fine

// The identity of a push's work, whichever worker sends it. pass 0: none.
struct retries_id {
    uint64_t pass, piece;
    uint32_t table, group;
    uint32_t low; // the piece's groups below are applied wherever they had something to
};

// A push that is being applied; valid until the next call of a function that takes
// `struct retries`.
struct retries_push {
    uint64_t *number, *identity; // sets of partitions; NULL: none is kept
    bool below;                  // below a low-water mark
};

// A push has come. TUG_EUSAGE: its number is beyond the window, or its number or group is
// below its own mark. TUG_ENOMEM: unchanged, except maybe the piece's mark.
int retries_begin(struct retries *r, uint64_t session, uint64_t number, uint64_t low,
                  enum wire_space space, const struct retries_id *id,
                  struct retries_push *ret, struct err *e);

static inline bool retries_bit(const uint64_t *set, uint32_t partition)
{
    return set != NULL && (set[partition / 64] >> (partition % 64) & 1) != 0;
}

// Whether it was applied in the partition.
static inline bool retries_applied(const struct retries_push *p, uint32_t partition)
{
    return p->below || retries_bit(p->number, partition) ||
           retries_bit(p->identity, partition);
}

// It is applied in the partition. Said also of what was applied before: by its number or
// by its identity, and both are to know, for the identity is forgotten first.
static inline void retries_note(const struct retries_push *p, uint32_t partition)
{
    uint64_t bit = (uint64_t)1 << (partition % 64);
    if (p->number != NULL)
        p->number[partition / 64] |= bit;
    if (p->identity != NULL)
        p->identity[partition / 64] |= bit;
}

// A session has ended, a piece is done: nothing of them comes any more, nor of the passes
// before. (That a piece was done is told once: it may be lost with a link.)
void retries_end_session(struct retries *r, uint64_t session);
void retries_forget(struct retries *r, uint64_t pass, uint64_t piece);

const struct sessions *retries_sessions(const struct retries *r); // that it knows

// Hands over what is known of a partition. TUG_ENOMEM: both are as they were, but for
// empty sets and marks.
int retries_move(struct retries *from, struct retries *to, uint32_t partition,
                 enum wire_space space, struct err *e);

#endif
