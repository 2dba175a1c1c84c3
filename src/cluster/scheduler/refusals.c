// Log lines about refused peers: see refusals.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/scheduler/refusals.h"

#include <inttypes.h>
#include <stdio.h>

#include "os/clock.h"

bool refusals_note(struct refusals *r, const struct err *why, uint64_t now,
                   char ret[ERR_TEXT_MAX])
{
    char others[64] = "";
    if (now < r->next) {
        r->hidden++;
        return false;
    }
    if (r->hidden > 0)
        snprintf(others, sizeof(others), " (and %" PRIu64 " more since the last line)",
                 r->hidden);
    snprintf(ret, ERR_TEXT_MAX, "refused: %.*s%s", ERR_TEXT_MAX - 100, why->text, others);
    *r = (struct refusals){.next = now + SECOND_NS};
    return true;
}
