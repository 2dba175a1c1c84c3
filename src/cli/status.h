// The functions of tug status that other commands use, too.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_STATUS_H
#define TUG_CLI_STATUS_H

#include <jansson.h>
#include <stdatomic.h>

#include "cli/nodes/node_options.h"

struct status_limits {
    double seconds;      // the time limit for reaching the scheduler and for its answer
    double loop_seconds; // the time limit for each loop's answer
    const atomic_bool *stop; // when it becomes true, the waits end
};

// Gets the scheduler's answer to STATUS, with the loops' answers as "servers" and their
// sums as "tables". The caller releases *ret.
int status_ask(struct node *n, const struct status_limits *l, json_t **ret,
               struct err *e);

// Returns the answer of a loop, or an object with the error if the loop did not answer;
// `node` is the loop's entry in the scheduler's answer.
json_t *status_ask_loop(struct node *n, const json_t *node,
                        const struct status_limits *l);

// Sorts the nodes of the scheduler's answer, which come in the order of joining, by role,
// rank and loop.
void status_sort_nodes(json_t *status);

// Prints how far moves of partitions are; nothing if there were none.
void status_print_moves(const json_t *status);
// Prints requests, the run, saves and the last operations, at most 12 lines.
void status_print_facts(const json_t *status);

// Returns the limits of a command; `seconds` is the time limit for the scheduler.
struct status_limits status_usual(double seconds);

#endif
