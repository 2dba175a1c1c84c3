// Records the admin operations of a session (shrink, clear, load, ...), so that each is
// done once however often its request arrives, over whichever link. Pure: no clock, no
// I/O.
//
// With replicas it is done once in each partition, whichever loop leads the partition: the
// record of the operation has a value for each partition in which it was done, its part of
// the answer. Backups keep these values, too, and the facts of a partition have them.
//
// Admin operations of a session are numbered from 1 on. The argument `low` of admin_begin
// says that all operations with lower numbers were answered. A session has at most
// ADMIN_WINDOW (protocol/limits.h) operations under way.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_ADMIN_H
#define TUG_SERVER_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "server/sessions.h"
#include "wire/wire.h"

struct buf;
struct stream;

enum admin_state { ADMIN_NEW, ADMIN_GOING, ADMIN_DONE };

struct admin {
    struct sessions sessions;
};

void admin_fini(struct admin *o); // a zeroed one is fine

// Looks up an admin operation whose request has arrived. *ret_value is its answer if the
// operation is done and still in the window. Returns 0, TUG_EUSAGE (its number is beyond
// the window, or below `low`) or TUG_ENOMEM.
int admin_begin(struct admin *o, uint64_t session, uint64_t number, uint64_t low,
                enum admin_state *ret, uint64_t *ret_value, struct err *e);

// Record that an operation has begun, or is done with this answer. If the session has
// ended, nothing is recorded.
void admin_going(struct admin *o, uint64_t session, uint64_t number);
void admin_done(struct admin *o, uint64_t session, uint64_t number, uint64_t value);

// Returns the state of an operation; ADMIN_NEW if it was never recorded, or
// is no longer recorded.
enum admin_state admin_look(const struct admin *o, uint64_t session, uint64_t number);

void admin_end_session(struct admin *o, uint64_t session);

// Values of partitions: the operation was not done there, or is under way.
#define ADMIN_LACKS UINT64_MAX
#define ADMIN_OPEN (UINT64_MAX - 1)

// Returns the values of an operation, one for each of the n partitions of the space; makes
// them if they are missing. *ret is NULL if the operation need not be recorded, because it
// is answered. Returns 0 or TUG_ENOMEM.
int admin_parts(struct admin *o, uint64_t session, uint64_t number, uint64_t low,
                enum wire_space space, uint32_t n, uint64_t **ret);
// Returns the `low` for a record of an operation that admin_begin has accepted, so that other
// loops find it possible.
uint64_t admin_record_low(uint64_t number, uint64_t low);
// Returns TUG_EDATA if a number that another loop has sent is impossible, or if its session
// is a new one and `most` sessions are recorded already.
int admin_check(const struct admin *o, uint64_t session, uint64_t number, uint64_t low,
                size_t most, struct err *e);
// Returns the values of an operation; NULL if it has none.
uint64_t *admin_find_parts(const struct admin *o, uint64_t session, uint64_t number);
// Forgets in all operations that they were done in the partition, whose rows were dropped.
void admin_drop(struct admin *o, enum wire_space space, uint32_t partition);
// admin_get appends the values of a partition to *to, and returns what buf_add returns.
// admin_put adds them to the records of another loop, with n partitions, except those of
// sessions for which is_over is true; it records at most `most` sessions. Returns 0,
// TUG_EDATA or TUG_ENOMEM, after which it may have added some of them.
int admin_get(const struct admin *o, enum wire_space space, uint32_t partition,
              struct buf *to);
int admin_put(struct admin *o, enum wire_space space, uint32_t partition, uint32_t n,
              size_t most, bool (*is_over)(const void *ctx, uint64_t session),
              const void *ctx, struct stream *x, struct err *e);

#endif
