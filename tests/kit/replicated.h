// A cluster of real processes whose partitions have replicas, without workers of its own: those
// of kit/history.h push and pull while servers die. The scheduler is called "scheduler", the
// first servers "a", "b", "c" and "d", with the ranks 0 to 3.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_REPLICATED_H
#define TUG_KIT_REPLICATED_H

#include "kit/processes.h"

// Whether clusters that begin from now on keep all rows that are not in use on disk.
void replicated_use_disk(bool use);
// Starts a cluster of n servers with r replicas, and the workers.
void replicated_begin(unsigned n, unsigned r);
// Ends the workers and the cluster, and lets the script check the history.
void replicated_finish(const char *script);
// Returns a number of `tug status --json`.
int64_t replicated_fact(const char *object, const char *name);
void replicated_settle(void); // waits until each partition has all its replicas

// Pushes so many rows that moves of partitions take several times as long as a command.
void replicated_fill(void);
// Waits until partitions are moving. Fails if they have moved before.
void replicated_await_moves(void);

void replicated_start(const char *name, const char *more); // starts a server
// Starts a server that joins. replicated_join also waits until it holds its share.
void replicated_begin_join(const char *name);
void replicated_join(const char *name);
// Starts the scheduler again, which was killed.
void replicated_restart_scheduler(void);

// Waits until the scheduler has declared a process dead.
void replicated_await_death(pid_t pid);
// Kills a server, and waits until others have answered in its place.
void replicated_kill(const char *name);
// Stops a server until it counts as dead and others have answered in its place. When it
// runs again, it must not answer any more, and ends.
void replicated_stop(const char *name);

#endif
