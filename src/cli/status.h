// The data of tug status, also for other commands.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_STATUS_H
#define TUG_CLI_STATUS_H

#include <jansson.h>

#include "cli/node_options.h"

// Gets the scheduler's answer to STATUS, with the loops' answers as "servers" and their
// sums as "tables". `seconds` limits the time to reach the scheduler. The caller releases
// *ret.
int status_ask(struct opened_node *n, double seconds, json_t **ret, struct err *e);

#endif
