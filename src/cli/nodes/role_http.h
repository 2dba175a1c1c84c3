// The option --http of the commands that run long: what each role tells its monitor.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_NODES_ROLE_HTTP_H
#define TUG_CLI_NODES_ROLE_HTTP_H

#include <jansson.h>
#include <stdatomic.h>

#include "cluster/node.h"
#include "os/usage.h"

// A row of option tables, without its braces, for a field `http`.
#define HTTP_OPTION(field)                                                               \
    "http", STRING_AT(field, "HOST:PORT|unix:PATH"),                                     \
        "serve a page about this process, and /metrics for Prometheus: at an address "   \
        "of loopback for all accounts of this machine, or at a Unix socket for this one"

struct role_http;

// Opens the monitor of a role if `address` is not NULL, and logs where it is; *ret is NULL
// without. The scheduler asks itself and the servers. The caller keeps `n` until
// role_http_close.
int role_http_scheduler(struct role_http **ret, const char *address, struct node *n,
                        struct err *e);
// A server asks its own loops, whose addresses role_http_add_loop tells, from any thread.
int role_http_server(struct role_http **ret, const char *address, struct node *n,
                     struct err *e);
void role_http_add_loop(void *http, uint32_t loop, const char *loop_address);
// A process that listens to nobody: `role`, what it uses of the machine, and the members
// that `more` writes, which may be NULL.
int role_http_process(struct role_http **ret, const char *address, const char *role,
                      struct usage *u, void (*more)(void *of, struct json_out *o),
                      void *of, struct err *e);
void role_http_close(struct role_http *h); // NULL is fine

#endif
