// Facts. A thread asks the source for facts, at most once a second, and only while a
// request waits for facts or a client reads events. Other functions here read the members
// of facts.
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
    struct err why;               // the error of the source's last answer; code 0: none
};

// Starts the thread, which writes to the event descriptor `wake` when it has a new answer
// or error.
int facts_open(struct facts **ret, const struct monitor_source *s, int wake,
               struct err *e);
void facts_close(struct facts *f); // NULL is fine

// Tells the thread to ask the source for newer facts, but at most once a second.
void facts_want(struct facts *f);
// Moves a new answer or error into *t; returns false if there is none.
bool facts_take(struct facts *f, struct facts_told *t);
void facts_told_free(struct facts_told *t);

// ---------------------------------------------------------------- fields of facts

// These functions return a member of an object, or a default if it is missing or has
// another type. `o` may be NULL.
const char *fact_text(const json_t *o, const char *name);
double fact_number(const json_t *o, const char *name); // default: NaN
bool fact_true(const json_t *o, const char *name);
const json_t *fact_at(const json_t *o, const char *name); // NULL
// Returns whether a disk has less free space than an operator should leave on it.
bool fact_disk_is_low(const json_t *disk);
// Returns whether a living node has given no sign of life for longer than the time
// between heartbeats.
bool fact_is_silent(const json_t *node);
// Returns whether a signal or a debugger has stopped a process of tug launch.
bool fact_is_stopped(const json_t *process);
// Returns the examples per second of a worker, measured over the last half minute to
// minute; NaN if the scheduler's facts lack them.
double fact_recent_rate(const json_t *node);
// Returns whether a dead node was replaced: another node with its role, rank and loop is
// alive, or joined later.
bool fact_is_replaced(const json_t *nodes, const json_t *node);
// Returns whether a worker that is behind by this many clocks holds up the others.
bool fact_holds_up(double behind, double bound);

#endif
