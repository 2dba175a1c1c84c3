// What a process is told by its environment, in the names of ps-lite's programs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_ENVIRONMENT_H
#define TUG_FACADE_ENVIRONMENT_H

#include "base/err.h"
#include "tug/kvapp.h"
#include "van/van.h"

// Fills what is 0 or NULL in *o; `scheduler` is the memory of its text. TUG_EUSAGE naming
// all that is missing and what cannot be.
int environment_fill(struct tug_node_options *o, char scheduler[VAN_ADDRESS_MAX],
                     struct err *e);

#endif
