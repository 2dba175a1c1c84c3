// The table of metrics, which maps facts to metrics.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_METRICS_INTERNAL_H
#define TUG_MONITOR_METRICS_INTERNAL_H

#include "monitor/render_internal.h"

enum metric_type {
    METRIC_GAUGE,
    METRIC_COUNTER,   // the name ends in _total
    METRIC_HISTOGRAM, // its value is an object with `count`, `seconds` and `buckets`
    METRIC_TEXT,      // a gauge with the value 1 and the fact, a text, as a label
};

// The objects in the facts that contain a metric's value; metric_scopes has the path to
// them.
enum metric_place {
    OWN,      // the facts as a whole
    SERVER,   // the facts as a whole, if the process is a server
    LOOP,     // each loop of a server
    REQUESTS, // each kind of requests of each loop
    DOOR,     // the requests of programs on each server, as the scheduler knows them
    TABLE,    // each table of each loop
    CLOCK,    // each worker of each table
    TRAINED,  // each table of `tug train`
    DISK,     // each directory
    NODE,     // each node that the scheduler knows
    WORKERS,  // each worker that the scheduler knows
    SPACE,    // each space of partitions
    RUN,      // the object about the training run
    PROCESS,  // each process that `tug launch` has started
};

enum { METRIC_STEPS = 3, METRIC_LABELS = 3 };

struct metric_step {
    // The member to descend into, an object or an array of objects; NULL: no further
    // step.
    const char *name;
    // Pairs of a label and the member that has its value.
    const char *labels[METRIC_LABELS][2];
    // If set, each member of the object is visited, and its name is the value of this label.
    const char *key_label;
    const char *only; // if set, only objects with this `role` are visited
};

struct metric_scope {
    // The names of the roles whose processes have this metric, in one string. It is NULL if
    // all roles have it.
    const char *role;
    struct metric_step steps[METRIC_STEPS];
};
extern const struct metric_scope metric_scopes[];

struct metric {
    const char *name;
    enum metric_place scope;
    // Path of the value in the object: member names with dots in between.
    const char *field;
    enum metric_type type;
    // A fixed label with its value, or ""; for METRIC_TEXT the name of the label.
    const char *label;
    const char *help;
};
// Rows with the same name are adjacent, because a format writes all samples of a name in
// one block.
extern const struct metric metrics[];
extern const size_t metrics_n;

#endif
