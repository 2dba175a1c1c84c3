// Serves the facts of a running process over HTTP, for people and for Prometheus: a page,
// its events, metrics, health. Changes nothing: it answers GET and HEAD only.
//
// The facts come from a function of the caller. They are asked for only while somebody
// looks, at most once a second, by a thread of the monitor, and all requests share them.
// So any number of requests costs the asked nodes the same.
//
// Strangers may not look: the monitor listens on loopback, or on a Unix socket of mode
// 0600 for this user only, and refuses requests under a foreign name (DNS rebinding). At
// other addresses it needs TLS, and each request needs a token.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_MONITOR_H
#define TUG_MONITOR_MONITOR_H

#include <stdatomic.h>

#include <jansson.h>

#include "base/err.h"

struct monitor;

struct monitor_source {
    // Gets the facts of the process (docs/cluster.md), an object that the caller
    // releases. May take seconds; called by one thread of the monitor.
    int (*facts)(void *of, json_t **ret, struct err *e);
    void *of;
    // Set by monitor_close, so that `facts` returns soon. NULL: it never takes long.
    atomic_bool *closing;
};

struct monitor_options {
    // For addresses off loopback: certificate and key (PEM), and the token that each
    // request must show. NULL: no such address is accepted.
    const char *cert, *key, *token;
};

// Checks an address of loopback, "HOST:PORT" or "unix:PATH", before a command begins its
// work.
int monitor_check(const char *address, struct err *e);

// Listens at the address and serves until monitor_close. TUG_EUSAGE if libmicrohttpd is
// missing. Copies what the options point to.
int monitor_open(struct monitor **ret, const char *address,
                 const struct monitor_source *source, const struct monitor_options *o,
                 struct err *e);
// Returns the address of the monitor: "http://127.0.0.1:9100/", or "unix:PATH".
const char *monitor_url(const struct monitor *m);
void monitor_close(struct monitor *m); // NULL is fine

#endif
