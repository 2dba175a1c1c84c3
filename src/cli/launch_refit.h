// tug launch with --refit: starts all processes twice. The first run has validation and
// finds the number of passes; the second run trains for that number of passes on all
// examples.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_LAUNCH_REFIT_H
#define TUG_CLI_LAUNCH_REFIT_H

#include "launch/launch.h"

int launch_refit(const struct launch_options *o, struct err *e);

#endif
