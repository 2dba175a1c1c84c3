// A team of threads runs one function on all members and waits for all. All parallel
// computing within a process is done by teams. The caller is member 0.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_TEAM_H
#define TUG_OS_TEAM_H

#include "base/err.h"

struct team;

typedef void (*team_fn)(void *arg, int rank);

// Opens a team of `size` >= 1 threads, the caller included.
int team_open(struct team **ret, int size, struct err *e);
void team_close(struct team *t); // `t` may be NULL

int team_size(const struct team *t);

// Calls fn(arg, rank) for every rank at the same time; returns when all these calls have
// returned. A run sees the writes of the previous run (a run begins and ends with a
// barrier). Runs cannot be nested, and only one thread may call team_run.
void team_run(struct team *t, team_fn fn, void *arg);

// Waits until every member has called team_barrier. All members must call it equally
// often within a run.
void team_barrier(struct team *t);

#endif
