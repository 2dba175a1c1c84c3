// The data of tug status, for other commands.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_STATUS_H
#define TUG_CLI_STATUS_H

#include <jansson.h>

#include "cli/node_options.h"

// The scheduler's answer to STATUS, with "servers", the loops' answers, and "tables",
// which are theirs added up. `seconds`: to reach the scheduler. The caller gives it back.
int status_ask(struct opened_node *n, double seconds, json_t **ret, struct err *e);

#endif
