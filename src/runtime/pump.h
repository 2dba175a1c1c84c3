// The pump: lets many threads use one van.
//
// The users of a van (members, clients, shards) know no threads. The pump lends the van
// to one thread at a time, and makes sure that some thread always polls it:
//
//   - a call that only sends takes the van for a moment: pump_enter, pump_leave;
//   - a thread that waits for something polls the van itself, so that no answer has to be
//     handed from thread to thread (sleeping and waking costs more than a request does).
//     One of several waiting threads, the leader, polls; it wakes the others;
//   - when no thread has waited or called for a moment, a background thread polls;
//   - while work takes long, a thread called the relief polls: it waits for messages
//     without having the van, so that calls of the work itself get the van at once.
//
// Callers' code never runs while the van is lent out: van handlers queue it as work, and
// the thread that polls runs it afterwards, one piece at a time, in the order in which it
// was queued. So callbacks may send, and may take locks that other callers hold.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUNTIME_PUMP_H
#define TUG_RUNTIME_PUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "van/van.h"

struct pump;

// Work that the pump runs while no thread has the van. The code that queues the work owns
// its memory; `run` may free it.
struct pump_work {
    struct pump_work *next;
    void (*run)(struct pump_work *w);
};

// Opens a pump for `v`, which the caller still owns, and starts the background thread.
// From now on only the pump polls `v`.
int pump_open(struct pump **ret, struct van *v, struct err *e);
// Stops the pump's threads and frees it. No other thread may be in one of its functions.
// NULL is fine.
void pump_close(struct pump *p);

// Sets how long the polling thread spins before it sleeps. May be called from any thread.
void pump_set_spin(struct pump *p, uint64_t spin_ns);

// Lends the van to the caller, which must not have the van yet; pump_leave gives it back.
void pump_enter(struct pump *p);
void pump_leave(struct pump *p);

// Work that has the van calls pump_leave_long, which gives the van back, before an
// operation that takes long, and pump_enter_again after it. Meanwhile the relief polls
// the van and sends the messages that the work has left to it (van_defer), so that the
// next messages have arrived when the operation is done. For an operation of a few
// microseconds this costs more than it saves.
void pump_leave_long(struct pump *p);
void pump_enter_again(struct pump *p);

// Queues work. Only the thread that has the van may call this: in the van's handlers, or
// between pump_enter and pump_leave.
void pump_queue(struct pump *p, struct pump_work *w);

// Waits until over(ctx) is true, and returns true. Returns false if `deadline` (a time of
// van_now) has passed, the van has failed (pump_broken), or the program has interrupted
// the wait (interrupt_came). over() is called by any thread that has the van. Work must
// not call this function: see pump_working.
bool pump_wait(struct pump *p, bool (*over)(void *ctx), void *ctx, uint64_t deadline);

// Waits as pump_wait does, but without calling the program's interrupt function, which
// may continue to return true while the interrupted node tells the other nodes why it
// leaves.
bool pump_wait_uninterrupted(struct pump *p, bool (*over)(void *ctx), void *ctx,
                             uint64_t deadline);

// Returns whether the calling thread runs work of this pump. If it does, it must not
// wait.
bool pump_working(const struct pump *p);

// Returns whether work is queued or runs on any thread. Only the thread that has the van
// may call this.
bool pump_has_work(const struct pump *p);

// Returns whether the van has failed; *ret_why (may be NULL) becomes its error. Only the
// thread that has the van may call this.
bool pump_broken(const struct pump *p, struct err *ret_why);

#endif
