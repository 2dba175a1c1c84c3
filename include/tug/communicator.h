// tug: communicators, which send a program's pushes in the background.
//
// Trainer threads hand over gradients and continue to compute; the communicator's thread
// merges the queued pushes into one and sends it. The slower the network, the more pushes
// are merged; senders wait while their queue is full. (Paddle: AsyncCommunicator; there
// the sizes of its queues come from FLAGS_communicator_send_queue_size and
// FLAGS_communicator_max_merge_var_num.)
//
// All functions may be called from any thread, and return a status of tug/tug.h. The
// error of a failed push is returned by the next call of tug_communicator_flush or _stop,
// and until then by each tug_communicator_send, which takes nothing. The program closes a
// communicator before its client. Waits that the program interrupts (tug_interrupt_by)
// return TUG_EINTERRUPTED.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_COMMUNICATOR_H
#define TUG_COMMUNICATOR_H

#include "tug/tug.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tug_communicator;

// How the gradients of merged pushes are combined: those of a key are added up and, with
// TUG_GRAD_MEAN, divided by the number of these pushes, whether each had the key or not.
// Counts (shows, clicks, tables of sums) are added up in both cases.
enum tug_grad_reduce { TUG_GRAD_SUM, TUG_GRAD_MEAN };

// A table's queue.
struct tug_communicator_table {
    uint32_t table; // a table that the client has made or found
    uint32_t queue; // the most pushes that wait to be sent; 0: 16
    // The most pushes that are merged into one; 0: as many as the queue holds. Pushes are
    // merged up to 8 MiB; a larger one is sent by itself. Must be 1 for tables whose rows
    // become the last pushed value (rule `assign`), or the mean of pushed values
    // (`average`).
    uint32_t merge;
    enum tug_grad_reduce grad_reduce;
};

// Opens a communicator of n tables, whose list is copied. Its thread does not run yet.
// TUG_EUSAGE if there is no table, or one is unknown, is named twice, or cannot be
// merged. (Paddle: Communicator.init_with_ctx.)
TUG_API int tug_communicator_open(struct tug_communicator **ret, struct tug_client *c,
                                  const struct tug_communicator_table *tables, size_t n);

// Starts the thread that sends. TUG_EUSAGE if it runs already; TUG_EIO if the system has
// no thread.
TUG_API int tug_communicator_start(struct tug_communicator *m);

// Hands over a push: n keys, in any order, and for each the floats of a push of the table
// (tug_table_widths), as for tug_push. They are copied. While the table's queue is full
// the call waits, at most `seconds` (0: the client's wait_seconds), also before the
// thread was started. Takes nothing and returns TUG_EIO if there was no room in this
// time; TUG_EUSAGE if a value is not finite, there is no such table, or a callback of the
// client would have to wait; or the error of an earlier push.
TUG_API int tug_communicator_send(struct tug_communicator *m, uint32_t table,
                                  const uint64_t *keys, size_t n, const float *values,
                                  double seconds);

// Waits until all pushes handed over before are applied on the servers, at most `seconds`
// (0: the client's wait_seconds; TUG_EIO then). Later pulls see them. Call it before
// tug_tick, tug_again and tug_save, which ignore queues. TUG_EUSAGE in a callback of the
// client, or if pushes are queued and the thread does not run.
TUG_API int tug_communicator_flush(struct tug_communicator *m, double seconds);

// Whether its thread runs. (Paddle: Communicator.is_running.)
TUG_API bool tug_communicator_is_running(struct tug_communicator *m);

// Flushes, and ends the thread, which takes as long as its last push, at most the
// client's wait_seconds. Pushes that could not be sent in time stay queued, and the
// thread still ends, except in a callback. It may be started again. Errors as in
// tug_communicator_flush.
TUG_API int tug_communicator_stop(struct tug_communicator *m, double seconds);

// Ends the thread, which takes as long as its last push, drops queued pushes, and frees
// the communicator: call tug_communicator_stop first. NULL is fine. TUG_EUSAGE in a
// callback of the client; the communicator then stays open.
TUG_API int tug_communicator_close(struct tug_communicator *m);

// Counts of a table's pushes since the communicator was opened.
struct tug_communicator_stats {
    uint64_t taken;        // pushes handed over
    uint64_t sent;         // merged pushes that have ended
    uint64_t failed;       // of these
    uint32_t queued;       // pushes that wait to be sent now
    uint64_t waits;        // sends that found the queue full
    double waited_seconds; // the total time that these waited for room
};
// Returns at once. TUG_EUSAGE if the communicator has no such table.
TUG_API int tug_communicator_stat(struct tug_communicator *m, uint32_t table,
                                  struct tug_communicator_stats *ret);

#ifdef __cplusplus
}
#endif

#endif
