// Lines for a log about refused peers: at most one a second, with the number of others,
// so that no peer can fill a disk.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_REFUSALS_H
#define TUG_CLUSTER_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct refusals {
    uint64_t next;   // before it nothing is said
    uint64_t hidden; // since the last line
};

// False: nothing is to be said now.
bool refusals_note(struct refusals *r, const struct err *why, uint64_t now,
                   char ret[ERR_TEXT_MAX]);

#endif
