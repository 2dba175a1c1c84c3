// Waits for a complete cluster; see ready.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/ready.h"

#include "os/log.h"
#include "runtime/interrupt.h"

bool ready_wait(struct pump *p, struct van *van, const struct member *m,
                bool (*over)(void *ctx), void *ctx, double seconds, double *ret_seconds)
{
    *ret_seconds = seconds;
    if (pump_wait(p, over, ctx, van_now(van) + clock_ns_of(seconds)))
        return true;
    pump_enter(p);
    bool admitted = member_id(m) != 0 && !interrupt_came();
    pump_leave(p);
    if (!admitted)
        return false;
    *ret_seconds += (double)READY_LONGER_NS / (double)SECOND_NS;
    return pump_wait(p, over, ctx, van_now(van) + READY_LONGER_NS);
}
