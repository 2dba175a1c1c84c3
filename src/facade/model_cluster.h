// A model of tug/train.h as one of a cluster's workers: its stay, and what cannot be done there.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_MODEL_CLUSTER_H
#define TUG_FACADE_MODEL_CLUSTER_H

#include "facade/model_internal.h"
#include "remote/peer.h"
#include "run/train_config.h"

// Whether the model is trained on a cluster: that of the client it was given, or the one that
// the environment names.
int model_cluster_find(struct tug_model *m, const struct tug_model_options *o,
                       struct err *e);
void model_cluster_leave(struct tug_model *m); // a stay of its own ends

// Refuses options that a program's worker cannot have; data NULL: not known yet.
int model_cluster_check(const struct tug_model *m, const struct train_options *t,
                        const struct tug_data *data, const struct tug_data *valid,
                        struct err *e);

// Joins the cluster unless joined; afterwards the first worker is known.
int model_cluster_join(struct tug_model *m, const struct train_options *t, struct err *e);
bool model_cluster_first(const struct tug_model *m);

// For train_configure, also before there is a stay.
struct node *model_cluster_node(const struct tug_model *m);

// So many passes with *s, which was configured with that node, on rows that servers have.
// Others use the client meanwhile as little as they use a model: they wait.
int model_cluster_run(struct tug_model *m, struct train_setup *s, uint32_t passes,
                      struct train_result *ret, struct err *e);

#endif
