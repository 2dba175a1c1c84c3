// A server process: one shard a loop, one thread a shard.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_SERVER_H
#define TUG_SERVER_SERVER_H

#include <stdatomic.h>

#include "cluster/node.h"
#include "server/shard.h"

enum { SERVER_MAX_LOOPS = 256 };

struct server_options {
    struct node *node;
    uint32_t loops; // of all
    // > 0: the first so many hold sparse tables, the others dense ones.
    uint32_t sparse_loops;
    uint64_t max_bytes; // of rows, in all loops; 0: no limit. Of buffers: the node's
    void (*log)(void *ctx, const char *line); // see shard_options; from any loop's thread
    void *log_ctx;
    const struct roots *roots; // see server/roots.h; NULL: none
    void (*app)(void *ctx, van_link link, uint32_t node, struct van_message *m);
    void *app_ctx;                  // see shard_options
    const atomic_bool *interrupted; // ends the server; NULL: never
    // Likewise, in order: where the run can save first, the server serves until it has.
    const atomic_bool *asked;
};

// Serves until the cluster has ended. 0 when all was well, else why it ended.
int server_run(const struct server_options *o, struct err *e);

#endif
