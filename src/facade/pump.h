// The pump: many threads and one van.
//
// The users of a van (members, clients, shards) know no threads. The pump lends the van
// to one thread at a time, and makes sure that some thread always polls it:
//
//   - a call that only sends takes the van for a moment: pump_enter, pump_leave;
//   - a thread that waits for something polls the van itself, so that no answer has to be
//     handed from thread to thread (sleeping and waking costs more than a request does).
//     One of several waiting threads, the leader, polls; it wakes the others;
//   - when nobody has waited or called for a moment, a background thread polls;
//   - while work takes long, a relief does: a thread that waits for messages without the
//     van, so that the work's own calls find it free.
//
// Callers' code never runs while the van is lent out: van handlers queue it as work, and
// whoever polls runs it afterwards, one piece at a time, in the order in which it was
// queued. So callbacks may send, and may take locks that other callers hold.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_PUMP_H
#define TUG_FACADE_PUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "van/van.h"

struct pump;

// Something to run when the van is not lent out. Belongs to the code that queues it;
// `run` may free it.
struct pump_work {
    struct pump_work *next;
    void (*run)(struct pump_work *w);
};

// Takes over the polling of `v`, which stays the caller's; the background thread starts.
int pump_open(struct pump **ret, struct van *v, struct err *e);
// Stops the background thread. Nobody may be inside. NULL is fine.
void pump_close(struct pump *p);

// How long the polling thread spins before it sleeps. From any thread.
void pump_set_spin(struct pump *p, uint64_t spin_ns);

// Lends the van to the caller, which must not have it yet.
void pump_enter(struct pump *p);
void pump_leave(struct pump *p);

// The same inside of work, around what takes long: meanwhile a thread of the pump looks
// after the van, and sends what work has left to it (van_defer), so that the next
// messages are there when the work is done. Work of a few microseconds is faster without.
void pump_leave_long(struct pump *p);
void pump_enter_again(struct pump *p);

// Inside the van's handlers, or between pump_enter and pump_leave.
void pump_queue(struct pump *p, struct pump_work *w);

// Waits until over(ctx), which is called while the van is lent to some thread; until
// `deadline` (van_now) has passed: false; or until the van breaks: false, too
// (pump_broken); or until the program interrupts the thread: false, and interrupt_came.
// Not to be called by work: see pump_working.
bool pump_wait(struct pump *p, bool (*over)(void *ctx), void *ctx, uint64_t deadline);

// Whether the calling thread is running work of this pump: it must not wait.
bool pump_working(const struct pump *p);

// Whether work runs, on whatever thread, or waits to be run. For the thread that has the van.
bool pump_has_work(const struct pump *p);

// Whether the van is of no use any more, and why. For the thread that has the van.
bool pump_broken(const struct pump *p, struct err *ret_why);

#endif
