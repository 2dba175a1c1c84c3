// Records the admin operations of a session (shrink, clear, load, ...), so that each is
// done once however often its request arrives, over whichever link. Pure: no clock, no
// I/O.
//
// Admin operations of a session are numbered from 1 on. The argument `low` of admin_begin
// says that all operations with lower numbers were answered. A session has at most
// ADMIN_WINDOW (protocol/limits.h) operations under way.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_ADMIN_H
#define TUG_SERVER_ADMIN_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "server/sessions.h"

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

#endif
