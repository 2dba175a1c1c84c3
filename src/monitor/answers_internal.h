// The monitor's answers to requests: the paths, the checks of a request's rights, and a
// cache of answers that is valid until the facts change.
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
    // /metrics in the text format of Prometheus, for clients that do not accept OpenMetrics.
    ANSWER_METRICS,
    ANSWER_OPEN_METRICS,
    // The number of kinds above. Answers of these kinds are cached until the facts change.
    ANSWER_KEPT,
    ANSWER_READY = ANSWER_KEPT,
    ANSWER_EVENTS,
    ANSWER_HEALTH,
    ANSWER_NONE, // no kind of answer: the request was already answered with an error
};

struct answers {
    const struct mhd *lib;
    const struct monitor_address *address;
    struct trust trust;
    struct render_page page;
    struct facts_told told;
    // Cached answers by kind; NULL: not made since the facts changed.
    struct MHD_Response *kept[ANSWER_KEPT];
    struct event *event; // the event of told.now; NULL: not made yet
    bool closing;
};

// Drops the cached answers and the cached event. Must be called when the facts change.
void answers_forget(struct answers *a);

// Returns the kind of answer that a request asks for. If the request is not allowed,
// answers it with an error and returns ANSWER_NONE.
enum answer_kind answers_route(struct answers *a, struct connection *one,
                               const struct connections *all, const char *url,
                               const char *method, enum MHD_Result *ret);
// Answers a request with the facts in a->told.
enum MHD_Result answers_give(struct answers *a, struct connection *one,
                             enum answer_kind kind);

// Adds the HTTP headers of an event stream to a response.
void answers_head_events(const struct answers *a, struct MHD_Response *r);
// Returns the event of the facts in a->told. Returns NULL if there are no facts yet, or
// memory ran out.
struct event *answers_event(struct answers *a);

#endif
