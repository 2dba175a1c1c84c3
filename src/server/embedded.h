// A cluster inside one process: a scheduler and a server's loops as threads, for programs
// that use tables on one machine with nothing started first. Clients reach it as they
// would another, over loopback, under a name and with a token that
// nobody else knows.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_EMBEDDED_H
#define TUG_SERVER_EMBEDDED_H

#include <stdint.h>

#include "base/err.h"

struct embedded;

// For one worker.
int embedded_open(struct embedded **ret, uint32_t loops, struct err *e);
const char *embedded_scheduler(const struct embedded *l); // its address
const char *embedded_cluster(const struct embedded *l);   // its name
const char *embedded_token(const struct embedded *l);     // what it lets in: node_options
// Ends it, whether or not the worker has left. NULL is fine.
void embedded_close(struct embedded *l);

#endif
