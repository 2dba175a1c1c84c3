// The admin operations of a session that were done (shrink, clear, load, ...): an admin
// operation is done once however often it comes, over whatever link. Pure.
//
// Admin operations of a session are numbered from 1 on; `low` says that all below were
// answered. A session has at most ADMIN_WINDOW (protocol/limits.h) under way.
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

// An admin operation has come. *ret_value: its answer, if it is done and not long ago.
// TUG_EUSAGE: its number is beyond the window, or below its own mark; TUG_ENOMEM.
int admin_begin(struct admin *o, uint64_t session, uint64_t number, uint64_t low,
                enum admin_state *ret, uint64_t *ret_value, struct err *e);

// One that has come takes time, or is done. Of a session that has ended: nothing happens.
void admin_going(struct admin *o, uint64_t session, uint64_t number);
void admin_done(struct admin *o, uint64_t session, uint64_t number, uint64_t value);

// How one is that has come; ADMIN_NEW if that is not known (any more).
enum admin_state admin_look(const struct admin *o, uint64_t session, uint64_t number);

void admin_end_session(struct admin *o, uint64_t session);

#endif
