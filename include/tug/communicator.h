// tug: communicators, which send a program's pushes in the background.
//
// Trainer threads hand over gradients and continue to compute; the communicator's thread
// merges the queued pushes into one and sends it. The slower the network, the more pushes
// are merged; senders wait while their queue is full. (Paddle: AsyncCommunicator; there
// the sizes of its queues come from FLAGS_communicator_send_queue_size and
// FLAGS_communicator_max_merge_var_num.)
//
// All functions may be called from any thread, and return a status of tug/tug.h. If a
// push fails, each tug_communicator_send returns its error and takes no push, until
// tug_communicator_flush or _stop has returned the error once. The program closes a
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

// Says how merging combines the gradients of a key in several pushes. TUG_GRAD_SUM adds
// them up. TUG_GRAD_MEAN also divides the sum by the number of merged pushes, including
// pushes without the key. Counts (shows, clicks, tables of sums) are always added up.
enum tug_grad_reduce { TUG_GRAD_SUM, TUG_GRAD_MEAN };

// The settings of a table's queue of pushes.
struct tug_communicator_table {
    uint32_t table; // a table that the client has made or found
    uint32_t queue; // the most pushes that the queue holds; 0: 16
    // The most pushes that are merged into one; 0: as many as the queue holds. A merged
    // push has at most 8 MiB; a push that is larger is sent by itself. Must be 1 for
    // tables whose rows become the last pushed value (rule `assign`), or the mean of
    // pushed values (`average`).
    uint32_t merge;
    enum tug_grad_reduce grad_reduce;
};

// Opens a communicator for n tables; the list is copied. Its thread does not run before
// tug_communicator_start. TUG_EUSAGE if n is 0, or a table is unknown, listed twice, or
// cannot be merged. (Paddle: Communicator.init_with_ctx.)
TUG_API int tug_communicator_open(struct tug_communicator **ret, struct tug_client *c,
                                  const struct tug_communicator_table *tables, size_t n);

// Starts the communicator's thread. TUG_EUSAGE if it runs already; TUG_EIO if the system
// refuses another thread.
TUG_API int tug_communicator_start(struct tug_communicator *m);

// Copies a push of n keys in any order, with values as for tug_push, into the table's
// queue. While the queue is full, the call waits, at most `seconds` (0: the client's
// wait_seconds), even if the communicator's thread does not run. If the call returns an
// error, the push was not queued. TUG_EIO if the queue stayed full. TUG_EUSAGE if a value
// is not finite, if the communicator does not have this table, or if the queue is full and
// the call is made in a callback of the client, which must not wait. If an earlier push
// has failed, the call returns that push's error.
TUG_API int tug_communicator_send(struct tug_communicator *m, uint32_t table,
                                  const uint64_t *keys, size_t n, const float *values,
                                  double seconds);

// Waits, at most `seconds` (0: the client's wait_seconds), until the servers have applied
// all pushes that were queued before. Later pulls see these pushes. TUG_EIO if the
// servers have not applied them in time. Call tug_communicator_flush before tug_tick,
// tug_again and tug_save, which do not wait for the queues. TUG_EUSAGE in a callback of
// the client, or if pushes are queued and the thread does not run.
TUG_API int tug_communicator_flush(struct tug_communicator *m, double seconds);

// Returns whether the communicator's thread runs. (Paddle: Communicator.is_running.)
TUG_API bool tug_communicator_is_running(struct tug_communicator *m);

// Flushes the queues as tug_communicator_flush does, with the same errors. Then ends the
// communicator's thread when the push that it is sending has ended, at most the client's
// wait_seconds later. Pushes that were not sent in time stay queued. The thread ends even
// if an error is returned, except in a callback of the client; it can be started again.
TUG_API int tug_communicator_stop(struct tug_communicator *m, double seconds);

// Ends the communicator's thread when the push that it is sending has ended, drops the
// queued pushes, and frees the communicator. To send the queued pushes, call
// tug_communicator_stop first. `m` may be NULL. In a callback of the client it returns
// TUG_EUSAGE, and the communicator stays open.
TUG_API int tug_communicator_close(struct tug_communicator *m);

// Counts of a table's pushes since the communicator was opened, for
// tug_communicator_stat.
struct tug_communicator_stats {
    uint64_t taken;        // pushes that tug_communicator_send has queued
    uint64_t sent;         // pushes, after merging, that were sent and have ended
    uint64_t failed;       // those among `sent` that ended with an error
    uint32_t queued;       // pushes that wait to be sent now
    uint64_t waits;        // calls of tug_communicator_send that found the queue full
    double waited_seconds; // the total time that these calls waited for room
};
// Gets the counts of one table. Returns at once. TUG_EUSAGE if the communicator does not
// have this table.
TUG_API int tug_communicator_stat(struct tug_communicator *m, uint32_t table,
                                  struct tug_communicator_stats *ret);

#ifdef __cplusplus
}
#endif

#endif
