// The thread that asks the source for facts, at most once a second and only if somebody
// wants them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_FACTS_INTERNAL_H
#define TUG_MONITOR_FACTS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "monitor/monitor.h"

struct facts;

// The last answer of the source. One thread has it: values of jansson are not shared.
struct facts_told {
    json_t *now, *before;         // the last facts and those before; NULL: none yet
    uint64_t asked_ns, before_ns; // when they were asked for
    uint64_t told_ns;             // when the last answer or error was taken
    uint64_t version;             // increased by each answer or error
    struct err why;               // code 0, or why the source has not told any since
};

// Writes to the event descriptor `wake` when there is something new.
int facts_open(struct facts **ret, const struct monitor_source *s, int wake,
               struct err *e);
void facts_close(struct facts *f); // NULL is fine

// Asks for newer facts. They are asked for at once, or a second after the last ones.
void facts_want(struct facts *f);
// Moves what is new into *t; returns whether there was anything.
bool facts_take(struct facts *f, struct facts_told *t);
void facts_told_free(struct facts_told *t);

#endif
