// tug launch with --restart role: a run that has lost a server is resumed as a whole, from
// its last save, by new processes. The rows of the other servers are newer than the save,
// and those of the lost server are gone, so no process of the attempt before is of use.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_LAUNCH_AGAIN_H
#define TUG_CLI_LAUNCH_AGAIN_H

#include "launch/launch.h"

// Runs the processes. If a server was lost, runs them again, up to o->restarts times.
// `saves`: the run has a directory for its saves (--out); a run without one is not resumed.
int launch_again(const struct launch_options *o, bool saves, struct err *e);

#endif
