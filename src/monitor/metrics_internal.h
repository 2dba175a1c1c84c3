// The table of metrics: which fact becomes which metric.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_MONITOR_METRICS_INTERNAL_H
#define TUG_MONITOR_METRICS_INTERNAL_H

#include "monitor/render_internal.h"

enum metric_type {
    METRIC_GAUGE,
    METRIC_COUNTER,   // the name ends in _total
    METRIC_HISTOGRAM, // its value is an object with `count`, `seconds` and `buckets`
    METRIC_TEXT,      // a gauge of 1 with the text as a label
};

// Where a fact stands: the whole object, or each object that some steps lead to.
enum metric_place {
    OWN,      // the process
    SERVER,   // the process of a server
    LOOP,     // each loop of a server
    REQUESTS, // each kind of requests of each loop
    TABLE,    // each table of each loop
    CLOCK,    // each worker of each table
    TRAINED,  // each table of `tug train`
    DISK,     // each directory
    NODE,     // each node that the scheduler knows
    WORKERS,  // each worker that the scheduler knows
    SPACE,    // each space of partitions
    RUN,      // the training
    PROCESS,  // each process of `tug launch`
};

enum { METRIC_STEPS = 3, METRIC_LABELS = 3 };

struct metric_step {
    // The name of a member, which is an array of objects or an object; NULL: no step.
    const char *name;
    const char *labels[METRIC_LABELS][2]; // label, and the member with its value
    const char *key_label; // the member's members are visited, and give this label
    const char *only;      // only objects with this `role`
};

struct metric_scope {
    // The roles whose facts have this metric, in one text; NULL: all roles.
    const char *role;
    struct metric_step steps[METRIC_STEPS];
};
extern const struct metric_scope metric_scopes[];

struct metric {
    const char *name;
    enum metric_place scope;
    const char *field; // path of the value in the object: names with dots in between
    enum metric_type type;
    const char *label; // a label and its value, or "" ; METRIC_TEXT: the label's name
    const char *help;
};
// Rows of one name follow each other.
extern const struct metric metrics[];
extern const size_t metrics_n;

#endif
