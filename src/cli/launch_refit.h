// tug launch of a run with --refit: all processes are started twice. The first time they look
// for the number of passes, with validation; the second time they train so many on
// everything.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_LAUNCH_REFIT_H
#define TUG_CLI_LAUNCH_REFIT_H

#include "launch/launch.h"

int launch_refit(const struct launch_options *o, struct err *e);

#endif
