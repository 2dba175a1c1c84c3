// A server process: it has one shard per loop, and one thread per shard.
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
    uint32_t loops; // total number of loops
    // If above 0: this number of loops hold sparse tables, and the others dense ones.
    uint32_t sparse_loops;
    uint64_t max_bytes; // limit of the bytes of rows in all loops together; 0: none
                        // (buffers have the node's limit)
    // as in shard_options; each loop's thread calls it
    void (*log)(void *ctx, const char *line);
    void *log_ctx;
    // The process's use of the machine (shard_options); NULL: not reported.
    struct usage *usage;
    // Called with the address of each loop when it listens; NULL: not called.
    void (*listens)(void *ctx, uint32_t loop, const char *address);
    void *listens_ctx;
    const struct roots *roots; // directories for files (server/saves/roots.h); NULL: none
    void (*app)(void *ctx, van_link link, uint32_t node, struct van_message *m);
    void *app_ctx; // the first argument of the application's functions (shard_options)
    const atomic_bool *interrupted; // ends the server when set; NULL: never
    // When set, the server ends in order; if the run can make a save first, the server
    // serves until that save. NULL: never set.
    const atomic_bool *asked;
};

// Serves until the cluster has ended or the server leaves. Returns 0 if the run ended
// without an error, otherwise the error.
int server_run(const struct server_options *o, struct err *e);

#endif
