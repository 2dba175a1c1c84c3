// Log lines about refused peers. At most one line is logged each second, with the number
// of refusals that it stands for, so that no peer can fill a disk.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_SCHEDULER_REFUSALS_H
#define TUG_CLUSTER_SCHEDULER_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct refusals {
    uint64_t next;   // time before which no line is logged
    uint64_t hidden; // refusals since the last line
};

// Counts a refusal. Returns true if a line is due, with its text in `ret`.
bool refusals_note(struct refusals *r, const struct err *why, uint64_t now,
                   char ret[ERR_TEXT_MAX]);

#endif
