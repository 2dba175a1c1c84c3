// The data of tug status, also for other commands.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_STATUS_H
#define TUG_CLI_STATUS_H

#include <jansson.h>
#include <stdatomic.h>

#include "cli/nodes/node_options.h"

struct status_limits {
    double seconds;          // for the scheduler to be reached and to answer
    double loop_seconds;     // for each loop
    const atomic_bool *stop; // ends the waits when true
};

// Gets the scheduler's answer to STATUS, with the loops' answers as "servers" and their
// sums as "tables". The caller releases *ret.
int status_ask(struct node *n, const struct status_limits *l, json_t **ret,
               struct err *e);

// Returns the answer of a loop, or an object with the reason why there is none; `node` is
// what the scheduler says of the loop.
json_t *status_ask_loop(struct node *n, const json_t *node,
                        const struct status_limits *l);

// Prints how far moves of partitions are; nothing if there were none.
void status_print_moves(const json_t *status);
// Prints requests, the run, saves and the last operations, at most 12 lines.
void status_print_facts(const json_t *status);

// The limits of a command.
struct status_limits status_usual(double seconds);

#endif
