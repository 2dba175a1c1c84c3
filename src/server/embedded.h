// A cluster inside one process: a scheduler and a server's loops run as threads, for
// programs that use tables on one machine without starting other processes first. Clients
// connect over loopback, as to any cluster; its name and token are known to this process
// only.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_EMBEDDED_H
#define TUG_SERVER_EMBEDDED_H

#include <stdint.h>

#include "base/err.h"

struct embedded;

// Starts a cluster for one worker, with this number of server loops.
int embedded_open(struct embedded **ret, uint32_t loops, struct err *e);
const char *embedded_scheduler(const struct embedded *l); // address of the scheduler
const char *embedded_cluster(const struct embedded *l);   // name of the cluster
const char *embedded_token(const struct embedded *l);     // token for node_options
// Ends the cluster, even if the worker has not left. NULL is fine.
void embedded_close(struct embedded *l);

#endif
