// The connections of a monitor, and the limits that keep a few clients from occupying all
// of them. All functions are called by the thread that runs libmicrohttpd.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_CONNECTIONS_INTERNAL_H
#define TUG_MONITOR_CONNECTIONS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/mhd_internal.h"

enum {
    CONNECTIONS_MAX = 128,
    // From this number of connections on, each new connection closes an old one: the one
    // that has waited longest without a complete request, or, if all have sent their
    // requests, the one whose client has been reading its answer for the longest time.
    CONNECTIONS_CROWD = 96,
    CONNECTIONS_EVENTS_MAX = 16, // the greatest number of connections that read /events
    // Time limits in seconds: for an idle connection to send a whole request, for a peer
    // to read an answer, and for a peer to read an event.
    CONNECTIONS_IDLE_SECONDS = 30,
    CONNECTIONS_ANSWER_SECONDS = 30,
    CONNECTIONS_EVENT_SECONDS = 10,
};

enum connection_state {
    CONNECTION_FREE,
    CONNECTION_IDLE,   // no request, or an incomplete one
    CONNECTION_WAITS,  // suspended until new facts come
    CONNECTION_ANSWER, // the answer is being sent
    CONNECTION_EVENTS, // gets events; suspended between them
};

struct event;

struct connection {
    enum connection_state state;
    void *of; // the monitor
    struct MHD_Connection *mhd;
    int fd;
    // When `state` began, or, with CONNECTION_EVENTS, when sending the event began.
    uint64_t since_ns;
    bool suspended;
    bool refused; // the connection is being closed, and starts no answer
    struct event *event;
    size_t sent;      // number of bytes of `event` that were sent
    uint64_t version; // version of the facts in the last event sent
    // Whether the answer is the metrics or the page, and whether it has the
    // facts of the work's end.
    bool reads_metrics, reads_page, reads_end;
};

struct connections {
    const struct mhd *lib;
    struct connection at[CONNECTIONS_MAX];
    size_t n, n_events;
};

// Returns the new connection; NULL if all are in use.
struct connection *connections_add(struct connections *c, struct MHD_Connection *mhd,
                                   int fd);
void connections_remove(struct connections *c, struct connection *one);
void connection_begin(struct connections *c, struct connection *one,
                      enum connection_state state);

void connection_suspend(struct connections *c, struct connection *one);
// Resumes the suspended connections that entered `state` before the given time;
// CONNECTION_FREE stands for any state.
void connections_resume(struct connections *c, enum connection_state state,
                        uint64_t before_ns);
// Returns the pointer that connections_add returned for this connection.
struct connection *connection_of(const struct mhd *lib, struct MHD_Connection *mhd);

// Shuts down the connections that have exceeded their time limit at time `now`.
void connections_sweep(struct connections *c, uint64_t now);

#endif
