// Copies a workspace to the hosts of a run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_LAUNCH_COPY_H
#define TUG_LAUNCH_COPY_H

#include "launch/plan.h"

// Copies the directory plan->o->sync to ~/.tug/JOB/work on each host, by tar over ssh;
// earlier contents are removed.
int copy_workspace(const struct plan *p, struct err *e);

#endif
