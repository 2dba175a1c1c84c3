// The thread that asks the source for facts, at most once a second and only while a
// request waits for them or a client reads events.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_FACTS_INTERNAL_H
#define TUG_MONITOR_FACTS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "monitor/monitor.h"

struct facts;

// The last answer of the source. Only the monitor's thread uses it, because values of
// jansson must not be shared between threads.
struct facts_told {
    json_t *now, *before;         // the last facts and those before; NULL: none yet
    uint64_t asked_ns, before_ns; // when the source was asked for each of the two
    uint64_t told_ns;             // when facts_take took the last answer or error
    uint64_t version;             // increased by each answer or error
    struct err why; // code 0, or the error of the last question to the source
};

// Starts the thread, which writes to the event descriptor `wake` when it has a new answer
// or error.
int facts_open(struct facts **ret, const struct monitor_source *s, int wake,
               struct err *e);
void facts_close(struct facts *f); // NULL is fine

// Tells the thread to ask for newer facts: at once, or a second after the last question.
void facts_want(struct facts *f);
// Moves a new answer or error into *t; returns false if there is none.
bool facts_take(struct facts *f, struct facts_told *t);
void facts_told_free(struct facts_told *t);

#endif
