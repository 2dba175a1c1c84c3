// The memory limit for all buffers of a process: one account for all its loops, so that
// no number of peers can make it hold more.
//
// Bytes are counted by kind, and each kind has a share that it cannot exceed, so that
// none starves the others. These functions never wait: a refused caller waits itself or
// reports the refusal. A NULL account has no limit and counts nothing.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_BUDGET_H
#define TUG_OS_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum budget_kind {
    BUDGET_LINKS,   // links and the buffers of TLS
    BUDGET_BODIES,  // messages of which a part has arrived
    BUDGET_QUEUED,  // answers that the peer has not received yet
    BUDGET_PENDING, // requests that wait for an answer, and contributions to batches
    BUDGET_LISTS,   // lists of keys that peers refer to by signature
    BUDGET_CLOCKS,  // records of the applied pushes, by session and piece
    BUDGET_REST, // unused memory that is kept for reuse, which belongs to no other kind
    BUDGET_KINDS
};

struct budget {
    uint64_t bytes; // limit of all kinds together
    atomic_uint_least64_t used, kinds[BUDGET_KINDS];
    atomic_uint_least64_t refused_at; // time of the last refusal by clock_ns; 0: none yet
    atomic_uint_least64_t refused; // how often a peer had to wait or a buffer was freed
    atomic_uint_least64_t closed;  // links closed for lack of memory, or because the peer
                                   // read no answers
};

// Divides `memory`, the limit of a process (0: no limit). Returns the bytes for its
// buffers and sets *ret_rows to the bytes for rows (0: no limit).
uint64_t budget_of(uint64_t memory, uint64_t *ret_rows);

void budget_open(struct budget *b, uint64_t bytes);

// Takes n bytes of the kind. If there is no room, takes nothing, counts a refusal and
// returns false.
bool budget_take(struct budget *b, enum budget_kind kind, uint64_t n);
// Takes n bytes in any case; returns false if more than the limit is taken now.
bool budget_force(struct budget *b, enum budget_kind kind, uint64_t n);
void budget_give(struct budget *b, enum budget_kind kind, uint64_t n);

// Returns whether n bytes could be taken now; does not count a refusal.
bool budget_fits(const struct budget *b, enum budget_kind kind, uint64_t n);
// Returns the most bytes of the kind that could ever be taken at the same time.
uint64_t budget_most(const struct budget *b, enum budget_kind kind);
uint64_t budget_used(const struct budget *b, enum budget_kind kind);

// Count that a peer had to wait or that its link was closed. budget_refused also
// records the time for budget_short; budget_delayed does not, because the peer
// exceeded a limit of its own. budget_pressed only records the time: a peer that was
// counted before still waits.
void budget_refused(struct budget *b);
void budget_delayed(struct budget *b);
void budget_pressed(struct budget *b);
void budget_closed(struct budget *b); // counts a link that was closed for lack of memory
// Returns whether a peer was refused within the last seconds. If so, slow peers must be
// closed, which frees their memory.
bool budget_short(const struct budget *b, uint64_t now);

const char *budget_name(
    enum budget_kind kind); // returns the name that `tug status` shows

#endif
