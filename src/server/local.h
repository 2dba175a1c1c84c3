// A cluster inside one process: a scheduler and a server's loops as threads, for programs
// that use tables on one machine with nothing started first. Clients reach it as they
// would another, over loopback, under a name that nobody else knows.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_LOCAL_H
#define TUG_SERVER_LOCAL_H

#include <stdint.h>

#include "base/err.h"

struct local;

// For one worker.
int local_open(struct local **ret, uint32_t loops, struct err *e);
const char *local_scheduler(const struct local *l); // its address
const char *local_cluster(const struct local *l);   // its name
// Ends it, whether or not the worker has left. NULL is fine.
void local_close(struct local *l);

#endif
