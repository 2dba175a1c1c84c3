// The option --http of the long-running commands: the facts that each role gives to its
// monitor.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_NODES_ROLE_HTTP_H
#define TUG_CLI_NODES_ROLE_HTTP_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cluster/journal/journal.h"
#include "cluster/node.h"
#include "monitor/monitor.h"
#include "os/usage.h"

// Rows of option tables, with their braces, for a field of type struct monitor_options.
#define HTTP_OPTIONS(field)                                                              \
    {"http", STRING_AT(field.address, "HOST:PORT|unix:PATH"),                            \
     "serve a page about this process, and /metrics for Prometheus: at an address of "   \
     "loopback, for all accounts of this machine; at a Unix socket, for this account; "  \
     "or at any other address, with TLS and a token"},                                   \
        HTTP_TRUST_OPTIONS(field)
#define HTTP_TRUST_OPTIONS(field)                                                        \
    {"http-cert", STRING_AT(field.cert, "FILE"),                                         \
     "serve --http over TLS, with this certificate (PEM); without it, --cert and --key " \
     "are used off loopback"},                                                           \
        {"http-key", STRING_AT(field.key, "FILE"), "key of that certificate"},           \
    {                                                                                    \
        "http-token-file", STRING_AT(field.token_file, "FILE"),                          \
            "answer only those HTTP requests that carry the token in this file: as a "   \
            "'Bearer' token (Prometheus), or as the password of any user (browsers)"     \
    }

struct role_http;

// Opens the monitor of a role and logs its address; without an address in *at, *ret
// becomes NULL. The monitor asks the scheduler and the servers. While the scheduler
// cannot answer because the place of the journal (which may be NULL) is silent, the page
// says so. The caller keeps `n` and `j` until role_http_close.
int role_http_scheduler(struct role_http **ret, const struct monitor_options *at,
                        struct node *n, struct journal *j, struct err *e);
// Opens the monitor of a server, which asks the server's own loops. Any thread may pass
// the address of a loop to role_http_add_loop.
int role_http_server(struct role_http **ret, const struct monitor_options *at,
                     struct node *n, struct err *e);
void role_http_add_loop(void *http, uint32_t loop, const char *loop_address);
// The page of a process that accepts no links. Its facts are `role`, its use of the
// machine, and the members that `more` writes; `more` may be NULL.
int role_http_process(struct role_http **ret, const struct monitor_options *at,
                      const char *role, struct usage *u,
                      void (*more)(void *of, struct json_out *o), void *of,
                      struct err *e);

// Says that the work of the process has ended with `rc`. The process still answers until
// role_http_is_seen, so that an open page shows the end. If the run has failed, and
// Prometheus has read the metrics before, the process also waits until Prometheus has read
// of the failure; but with `launched` (tug launch has started this scheduler), tug launch
// tells Prometheus instead. role_http_await_seen waits until the end is seen. `h` may be
// NULL.
void role_http_end(struct role_http *h, int rc, bool launched);
bool role_http_is_seen(const struct role_http *h);
void role_http_await_seen(const struct role_http *h);
// Returns the address of an open monitor, as monitor_url does.
const char *role_http_url(const struct role_http *h);
void role_http_close(struct role_http *h); // NULL is fine

// Serves the failure of a run and its reason, for tug launch, until a client reads the
// metrics or `seconds` have passed.
void role_http_tell_failure(const struct monitor_options *at, const struct err *why,
                            double seconds);

#endif
