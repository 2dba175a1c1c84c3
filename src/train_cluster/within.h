// A run in this process whose settings may need a server: then one loop of a server runs
// inside the process (server/embedded.h), and is used as on a cluster.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_WITHIN_H
#define TUG_TRAIN_CLUSTER_WITHIN_H

#include "train/config.h"

// Trains in this process. c->cluster has the settings, without a node.
int within_run(const struct train_config *c, struct train_result *ret, struct err *e);

#endif
