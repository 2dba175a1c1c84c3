// Which orders of a session were obeyed (shrink, clear, load, ...): an order happens once
// however often it comes, over whatever link. Pure.
//
// Orders of a session are numbered from 1 on; `low` says that all below were answered. A
// session has at most ORDERS_WINDOW orders under way.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_ORDERS_H
#define TUG_SERVER_ORDERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { ORDERS_WINDOW = 16 };

enum orders_state { ORDERS_NEW, ORDERS_GOING, ORDERS_DONE };

struct orders_session;

struct orders {
    struct orders_session *sessions; // by ascending session
    size_t n, max;
};

void orders_fini(struct orders *o); // a zeroed one is fine

// An order has come. *ret_value: its answer, if it is done and not long ago. TUG_EUSAGE:
// its number is beyond the window, or below its own mark; TUG_ENOMEM.
int orders_begin(struct orders *o, uint64_t session, uint64_t number, uint64_t low,
                 enum orders_state *ret, uint64_t *ret_value, struct err *e);

// One that has come takes time, or is done. Of a session that has ended: nothing happens.
void orders_going(struct orders *o, uint64_t session, uint64_t number);
void orders_done(struct orders *o, uint64_t session, uint64_t number, uint64_t value);

// How one is that has come; ORDERS_NEW if that is not known (any more).
enum orders_state orders_look(const struct orders *o, uint64_t session, uint64_t number);

void orders_end_session(struct orders *o, uint64_t session);

// The sessions it knows, ascending: number i, below o->n.
uint64_t orders_session_at(const struct orders *o, size_t i);

#endif
