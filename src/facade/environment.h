// Reads a process's settings from its environment, in the names of ps-lite's programs or
// of Paddle's, and a few of tug's.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_ENVIRONMENT_H
#define TUG_FACADE_ENVIRONMENT_H

#include "base/err.h"
#include "facade/role.h"
#include "server/roots.h"
#include "tug/kvapp.h"

// Fills what is 0 or NULL in *o; *r, the memory of its texts, also says whether this
// process hosts the scheduler without being one. TUG_EUSAGE naming all that is
// missing and what cannot be.
int environment_fill(struct tug_node_options *o, struct role *r, struct err *e);

// Roles as programs name them (enum tug_group), and as messages do; 0 and WIRE_NOBODY: none.
enum wire_role role_of_group(int group);
int group_of_role(enum wire_role role);

// The directories of a server in a program: TUG_SAVE_ROOT, TUG_LOAD_ROOT (with commas
// between them) and likewise `load` (may be NULL), TUG_COLD_ROOT.
int environment_roots(struct roots **ret, const char *load, struct err *e);

#endif
