// A run in this process by its settings, where they may want a server: the loop of one is within
// the process then (server/embedded.h), as it is elsewhere on a cluster.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_REMOTE_WITHIN_H
#define TUG_REMOTE_WITHIN_H

#include "train/config.h"

// Trains in this process. c->cluster says how, without a node.
int within_run(const struct train_config *c, struct train_result *ret, struct err *e);

#endif
