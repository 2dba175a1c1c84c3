// Serves the facts of a running process over HTTP, for people and for Prometheus: a page,
// its events, metrics, health. Changes nothing: it answers GET and HEAD only.
//
// The facts come from a function of the caller. A thread of the monitor calls it at most
// once a second, and only while requests or readers of events need facts. All requests
// share the facts, so the load on the nodes does not grow with the number of requests.
//
// Others must not see the facts: the monitor listens on loopback, or on a Unix
// socket of mode 0600 for this user only, and refuses requests under a foreign name
// (DNS rebinding). At other addresses it needs TLS, and each request but those for
// health needs a token.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_MONITOR_H
#define TUG_MONITOR_MONITOR_H

#include <stdatomic.h>
#include <stdbool.h>

#include <jansson.h>

#include "base/err.h"

struct monitor;

struct monitor_source {
    // Gets the facts of the process as an object (docs/cluster.md), which the monitor
    // releases. The function may take seconds; only one thread of the monitor calls it.
    int (*facts)(void *of, json_t **ret, struct err *e);
    void *of;
    // monitor_close sets this flag so that a running `facts` returns soon. NULL: `facts`
    // is always quick.
    atomic_bool *closing;
};

// The options of --http.
struct monitor_options {
    const char *address; // "HOST:PORT" or "unix:PATH"; NULL: no monitor
    // Files of certificate and key (PEM), and of the token that requests must
    // show. An address that is not on loopback needs all three. On loopback each
    // one is used if it is given.
    const char *cert, *key, *token_file;
    // The cluster's certificate and key, which monitor_check uses if `cert` is NULL and
    // the address is not on loopback; may be NULL.
    const char *cluster_cert, *cluster_key;
};

// Checks the options and reads the files, before a command begins its work. Decides which
// certificate is used. All options may be NULL.
int monitor_check(struct monitor_options *o, struct err *e);

// Takes options that were checked, listens at the address and serves until monitor_close.
// Returns TUG_EUSAGE if libmicrohttpd is missing.
int monitor_open(struct monitor **ret, const struct monitor_options *o,
                 const struct monitor_source *source, struct err *e);
// Returns the address of the monitor: "http://127.0.0.1:9100/", or "unix:PATH".
const char *monitor_url(const struct monitor *m);

// Tells the monitor that the work of the process has ended, which the facts also show.
// monitor_is_seen then returns whether all open pages have got these facts. If `seconds` is
// above 0, a client that read /metrics before must have got them, too. The monitor stops
// waiting for pages after 3 s and for /metrics after `seconds`. The source must give facts
// until monitor_is_seen returns true.
void monitor_end(struct monitor *m, double seconds);
bool monitor_is_seen(const struct monitor *m);
// Returns whether a client has read /metrics in the last two minutes.
bool monitor_is_read(const struct monitor *m);

void monitor_close(struct monitor *m); // NULL is fine

enum { MONITOR_TEXT_MAX = 1024 };
// Writes the problems that the page of a scheduler with these facts names in its first
// line; "" if there are none.
void monitor_problems(json_t *facts, char ret[MONITOR_TEXT_MAX]);

#endif
