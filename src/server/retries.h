// Records which pushes were applied in which partitions: this is the vector clock by
// which each push is applied once (OSDI'14, section 4.1, with partitions as the ranges).
//
// For each session it keeps the low-water mark and, for the SHARD_WINDOW numbers from it
// on, the set of partitions in which each was applied. For each table and each piece of
// the data that is being trained on, whichever worker pushes, it keeps the low-water mark
// of the piece's groups and the sets of the groups above it, until the piece is done. So
// its memory grows with the pushes under way, not with the batches of a piece. Pushes of
// a pass that is over count as applied. A shard has one struct for the gradients of each
// sync table, and one for all other pushes, because clients number these separately.
// Pure: no clock, no I/O.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_RETRIES_H
#define TUG_SERVER_RETRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "os/budget.h"
#include "server/sessions.h"
#include "wire/wire.h"

// A worker has a few batches under way, each with one push of rows and at most 28 pushes
// of layers. A cluster has at most 2^16 nodes. So this many identities are enough.
enum { RETRIES_MAX_IDENTITIES = 1 << 21 };

struct buf;
struct retries;
struct stream;

// Makes the records. `b`, which may be NULL, counts their memory.
int retries_open(struct retries **ret, uint32_t partition_bits, struct budget *b,
                 struct err *e);
void retries_close(struct retries *r); // NULL is fine

// The identity of a push, which is the same whichever worker sends the push. pass 0: the
// push has no identity.
struct retries_id {
    uint64_t pass, piece;
    uint32_t table, group;
    // All groups of the piece with smaller numbers are applied in all their partitions.
    uint32_t low;
};

// The record of a push that is being applied. The record is valid until the next call of
// a function that takes `struct retries`.
struct retries_push {
    uint64_t *number, *identity; // sets of partitions; NULL if no set is kept
    bool below;                  // the push is below a low-water mark, so it was applied
};

// Looks up a push that has arrived. Returns 0; TUG_EUSAGE if its number is beyond the
// window, or its number or group is below the mark that the push itself carries; or
// TUG_ENOMEM, after which nothing has changed, except perhaps the piece's mark.
int retries_begin(struct retries *r, uint64_t session, uint64_t number, uint64_t low,
                  enum wire_space space, const struct retries_id *id,
                  struct retries_push *ret, struct err *e);
// Does the same for a push of a session that has ended: looks up its identity only.
int retries_begin_identity(struct retries *r, enum wire_space space,
                           const struct retries_id *id, struct retries_push *ret,
                           struct err *e);

static inline bool retries_bit(const uint64_t *set, uint32_t partition)
{
    return set != NULL && (set[partition / 64] >> (partition % 64) & 1) != 0;
}

// Returns whether the push was applied in the partition.
static inline bool retries_applied(const struct retries_push *p, uint32_t partition)
{
    return p->below || retries_bit(p->number, partition) ||
           retries_bit(p->identity, partition);
}

// Records that the push is applied in the partition, by its number and by its identity.
// It is also called for a push that was applied before: if only its number was recorded,
// its identity is now recorded as well, and vice versa.
static inline void retries_note(const struct retries_push *p, uint32_t partition)
{
    uint64_t bit = (uint64_t)1 << (partition % 64);
    if (p->number != NULL)
        p->number[partition / 64] |= bit;
    if (p->identity != NULL)
        p->identity[partition / 64] |= bit;
}

// retries_end_session forgets a session that has ended; retries_forget forgets a piece
// that is done. It also forgets all pieces of earlier passes, because the message that a
// piece is done is sent only once and may be lost with a link. Late pushes of these
// passes, from the slower of two workers that trained on one piece, count as applied.
void retries_end_session(struct retries *r, uint64_t session);
void retries_forget(struct retries *r, uint64_t pass, uint64_t piece);
// For tests: the number of entries of pieces at which the calls so far have looked in order
// to forget some.
uint64_t retries_looked(const struct retries *r);

// Returns the sessions that have records.
const struct sessions *retries_sessions(const struct retries *r);

// Forgets which pushes were applied in a partition whose rows were dropped, because some
// of these pushes may be missing in the rows that it gets later. The marks stay.
void retries_drop(struct retries *r, uint32_t partition, enum wire_space space);

// retries_get appends the records of a partition to *to, and retries_put adds them to the
// records of another shard. After a failure it may leave some of them. Without replicas,
// records of a partition that is not here do no harm: they remain true, and are used only
// if the partition comes back. retries_put returns 0, TUG_EDATA or TUG_ENOMEM.
int retries_get(const struct retries *r, uint32_t partition, enum wire_space space,
                struct buf *to);
int retries_put(struct retries *r, uint32_t partition, enum wire_space space,
                struct stream *x, struct err *e);

#endif
