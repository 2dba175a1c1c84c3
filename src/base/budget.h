// The memory limit of all buffers of a process: one account for all of its loops, so that
// no peer, and no number of peers, makes it hold more than was allowed.
//
// Bytes are counted by kinds, each of which has its share at most: none starves the
// others. A refused caller waits or reports it; the functions here never wait. A NULL
// account has no limit and counts nothing.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_BUDGET_H
#define TUG_BASE_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum budget_kind {
    BUDGET_LINKS,   // links themselves, with what TLS needs
    BUDGET_BODIES,  // messages that have come in part
    BUDGET_QUEUED,  // answers that the other end has not taken yet
    BUDGET_PENDING, // requests that wait, and contributions to batches
    BUDGET_LISTS,   // lists of keys that are known by their signature
    BUDGET_CLOCKS,  // what is remembered of pushes, by session and piece
    BUDGET_REST,    // memory at rest between two uses; beside all others
    BUDGET_KINDS
};

struct budget {
    uint64_t bytes; // of everything
    atomic_uint_least64_t used, kinds[BUDGET_KINDS];
    atomic_uint_least64_t refused_at; // by clock_ns; 0: never
    atomic_uint_least64_t refused;    // times that something had to wait or to go
    atomic_uint_least64_t closed;     // links, for want of room or of an answer's reader
};

// Divides `memory`, the limit of a process (0: none given): the bytes for its buffers,
// and the rest for rows (0: no limit).
uint64_t budget_of(uint64_t memory, uint64_t *ret_rows);

void budget_open(struct budget *b, uint64_t bytes);

// Takes n bytes of the kind. False: nothing is taken, and the refusal is counted.
bool budget_take(struct budget *b, enum budget_kind kind, uint64_t n);
// Takes them in any case; false: more than allowed is taken now.
bool budget_force(struct budget *b, enum budget_kind kind, uint64_t n);
void budget_give(struct budget *b, enum budget_kind kind, uint64_t n);

// Whether n bytes could be taken now; asking counts no refusal.
bool budget_fits(const struct budget *b, enum budget_kind kind, uint64_t n);
uint64_t budget_most(const struct budget *b, enum budget_kind kind); // ever, at once
uint64_t budget_used(const struct budget *b, enum budget_kind kind);

// Counts that a peer had to wait or was closed, and notes it for budget_short.
// budget_delayed only counts: the peer's own limit was the reason; budget_pressed only
// notes: who was refused before still waits.
void budget_refused(struct budget *b);
void budget_delayed(struct budget *b);
void budget_pressed(struct budget *b);
void budget_closed(struct budget *b); // a link was closed for it
// Returns whether a peer was refused within the last seconds: slow peers must be closed
// then.
bool budget_short(const struct budget *b, uint64_t now);

const char *budget_name(enum budget_kind kind); // for status

#endif
