// The answers of a monitor to requests: which path gets what, who may ask, and the
// answers kept for all requests until the facts change.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_ANSWERS_INTERNAL_H
#define TUG_MONITOR_ANSWERS_INTERNAL_H

#include "monitor/address_internal.h"
#include "monitor/connections_internal.h"
#include "monitor/events_internal.h"
#include "monitor/facts_internal.h"
#include "monitor/render_internal.h"
#include "monitor/trust_internal.h"

enum answer_kind {
    ANSWER_PAGE,
    ANSWER_STATUS,
    ANSWER_METRICS, // in the older format of Prometheus
    ANSWER_OPEN_METRICS,
    ANSWER_KEPT, // number of the kinds above, whose answers are kept until the facts change
    ANSWER_READY = ANSWER_KEPT,
    ANSWER_EVENTS,
    ANSWER_HEALTH,
    ANSWER_NONE, // the request was answered with an error
};

struct answers {
    const struct mhd *lib;
    const struct address *address;
    struct trust trust;
    struct render_page page;
    struct facts_told told;
    struct MHD_Response *kept[ANSWER_KEPT]; // NULL: not made yet
    struct event *event;                    // the event of told.now; NULL: not made yet
    bool closing;
};

// Drops what was made of older facts.
void answers_forget(struct answers *a);

// Says what a request asks for. Answers it, and returns ANSWER_NONE, if it may not.
enum answer_kind answers_route(struct answers *a, struct connection *one,
                               const struct connections *all, const char *url,
                               const char *method, enum MHD_Result *ret);
// Answers a request with the facts in a->told.
enum MHD_Result answers_give(struct answers *a, struct connection *one,
                             enum answer_kind kind);

// Adds the headers of events to a response.
void answers_head_events(const struct answers *a, struct MHD_Response *r);
// The event of the facts in a->told; NULL: there are none.
struct event *answers_event(struct answers *a);

#endif
