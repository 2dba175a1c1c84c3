// A model of tug/train.h that trains as a worker of a cluster: joining and leaving, and
// the options that are refused there.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_MODELS_MODEL_CLUSTER_H
#define TUG_DOORS_MODELS_MODEL_CLUSTER_H

#include "doors/models/model_internal.h"
#include "run/train_config.h"
#include "train_cluster/peer.h"

// Finds out whether the model is trained on a cluster: that of the client in the options,
// or the cluster that the environment names. Returns TUG_EUSAGE if the environment makes
// this process a server or scheduler.
int model_cluster_find(struct tug_model *m, const struct tug_model_options *o,
                       struct err *e);
// Leaves a cluster that model_cluster_join has joined.
void model_cluster_leave(struct tug_model *m);

// Refuses options that need tug's own driver, and data in memory, with TUG_EUSAGE. `data`
// is NULL if it is not known yet.
int model_cluster_check(const struct tug_model *m, const struct train_options *t,
                        const struct tug_data *data, const struct tug_data *valid,
                        struct err *e);

// model_cluster_join joins the cluster unless this model has joined it. After that,
// model_cluster_first returns whether this is the worker of rank 0.
int model_cluster_join(struct tug_model *m, const struct train_options *t, struct err *e);
bool model_cluster_first(const struct tug_model *m);

// Returns the node for train_configure, also before the cluster is joined; NULL if the
// model is trained alone.
struct node *model_cluster_node(const struct tug_model *m);

// Trains `passes` passes with the rows on the servers. *s was configured with the node
// that model_cluster_node returns. The program must not use the client until this function
// returns.
int model_cluster_run(struct tug_model *m, struct train_setup *s, uint32_t passes,
                      struct train_result *ret, struct err *e);

#endif
