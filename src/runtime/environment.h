// Reads the settings of a process from environment variables: those of ps-lite's programs
// or of Paddle's, and tug's own.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUNTIME_ENVIRONMENT_H
#define TUG_RUNTIME_ENVIRONMENT_H

#include "base/err.h"
#include "runtime/role.h"
#include "server/saves/roots.h"
#include "tug/kvapp.h"

// Fills the members of *o that are 0 or NULL from the environment. *r holds the texts,
// and whether the process hosts the scheduler besides its own role. Returns TUG_EUSAGE
// with all variables that are missing or wrong.
int environment_fill(struct tug_node_options *o, struct role *r, struct err *e);

// Calls role_needs_servers with this process's environment.
int environment_needs_servers(struct err *e);

// These functions convert between a role of the public interface (enum tug_group; 0: no
// role) and a role in messages (enum wire_role; WIRE_NOBODY: no role).
enum wire_role role_of_group(int group);
int group_of_role(enum wire_role role);

// Opens the directories that a server in a program may use: TUG_SAVE_ROOT for saves,
// TUG_LOAD_ROOT and `load` (may be NULL) for loads, and TUG_COLD_ROOT for cold rows.
// Commas separate the directories for loads.
int environment_roots(struct roots **ret, const char *load, struct err *e);

#endif
