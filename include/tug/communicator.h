// tug: communicators, which send a program's pushes behind its back.
//
// Trainer threads hand over gradients and compute on; a thread of the communicator puts
// what has come meanwhile into one push and sends that. So the slower the network is, the
// more is merged, and a queue that is full makes its senders wait. (Paddle: AsyncCommunicator;
// there the sizes of its queues come from FLAGS_communicator_send_queue_size and
// FLAGS_communicator_max_merge_var_num.)
//
// All functions may be called from any thread, and return a status of tug/tug.h. The thread alone
// hears what a push failed with: the next call of tug_communicator_flush or _stop returns it, and
// until then each tug_communicator_send does, and takes nothing. A communicator belongs to the
// program, and is closed before its client. Waits that the program interrupts (tug_interrupt_by)
// are TUG_EINTERRUPTED.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMMUNICATOR_H
#define TUG_COMMUNICATOR_H

#include "tug/tug.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tug_communicator;

// What becomes of the gradients of pushes that are put into one: those of a key are added
// up, and, with TUG_GRAD_MEAN, divided by the number of these pushes, whether each had the
// key or not. What counts (shows, clicks, tables of sums) is added up with either.
enum tug_grad_reduce { TUG_GRAD_SUM, TUG_GRAD_MEAN };

// A table's queue.
struct tug_communicator_table {
    uint32_t table; // that the client has made or found
    uint32_t queue; // pushes that wait to be sent, at most; 0: 16
    // Pushes that are put into one, at most; 0: as many as the queue holds. They are put
    // into one of 8 MiB at most, or are a single one. Must be 1 for tables whose rows become
    // what was pushed last (rule `assign`), or the mean of what is pushed (`average`).
    uint32_t merge;
    enum tug_grad_reduce grad_reduce;
};

// A communicator of n tables, whose list is copied. Its thread does not run yet. TUG_EUSAGE: there
// is no table, or one is unknown, or is named twice, or cannot be merged. (Paddle:
// Communicator.init_with_ctx.)
TUG_API int tug_communicator_open(struct tug_communicator **ret, struct tug_client *c,
                                  const struct tug_communicator_table *tables, size_t n);

// Starts the thread that sends. TUG_EUSAGE: it runs; TUG_EIO: the system has no thread.
TUG_API int tug_communicator_start(struct tug_communicator *m);

// Hands over a push: n keys, in any order, and for each the floats of a push of the table
// (tug_table_widths), as for tug_push. They are copied, and the arrays are the caller's
// again at once. While the table's queue is full the call waits, `seconds` at most (0: the
// client's wait_seconds), also before the thread was started. TUG_EIO: there was no room in
// this time; TUG_EUSAGE: a value is not finite, no such table, or a callback of the client
// would have to wait; or what an earlier push failed with. Then nothing was taken.
TUG_API int tug_communicator_send(struct tug_communicator *m, uint32_t table,
                                  const uint64_t *keys, size_t n, const float *values,
                                  double seconds);

// Waits until all that was handed over before is applied on the servers: `seconds` at most
// (0: the client's wait_seconds); TUG_EIO then. Pulls see it from then on. To be called
// before tug_tick, tug_again and tug_save, which know nothing of queues. TUG_EUSAGE: in a
// callback of the client; the thread does not run, and something is queued.
TUG_API int tug_communicator_flush(struct tug_communicator *m, double seconds);

// Whether its thread runs. (Paddle: Communicator.is_running.)
TUG_API bool tug_communicator_is_running(struct tug_communicator *m);

// Flushes, and ends the thread, which then takes as long as its last push, at most the
// client's wait_seconds. What could not be sent in time stays in its queue, and the
// thread ends all the same, but in a callback. It may be started again. Errors: those of
// tug_communicator_flush.
TUG_API int tug_communicator_stop(struct tug_communicator *m, double seconds);

// Ends the thread, which takes as long as its last push, throws away what is queued, and frees:
// call tug_communicator_stop first. NULL is fine. TUG_EUSAGE: in a callback of the client; it stays
// open.
TUG_API int tug_communicator_close(struct tug_communicator *m);

// What has happened to a table's pushes since the communicator was opened.
struct tug_communicator_stats {
    uint64_t taken;        // pushes that were handed over
    uint64_t sent;         // pushes that were made of them, and have ended
    uint64_t failed;       // of these
    uint32_t queued;       // that wait to be sent, now
    uint64_t waits;        // sends that found the queue full
    double waited_seconds; // how long these waited for room, together
};
// Returns at once. TUG_EUSAGE: the communicator has no such table.
TUG_API int tug_communicator_stat(struct tug_communicator *m, uint32_t table,
                                  struct tug_communicator_stats *ret);

#ifdef __cplusplus
}
#endif

#endif
