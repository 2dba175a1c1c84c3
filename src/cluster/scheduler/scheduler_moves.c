// Moves of partitions between servers: late servers, drains, and who may hand over when.
//
// SPDX-License-Identifier: Apache-2.0
#include "cluster/scheduler/scheduler_internal.h"

static const char cannot[] = "this scheduler does not move partitions";

void scheduler_move_says_serve(struct scheduler *s, struct node *n, uint64_t request,
                               const struct msg_move_says *m)
{
    (void)m;
    scheduler_send(s, n->link, MSG_OK, request, &(struct msg_ok){WIRE_MOVE_OVER});
}

void scheduler_hold_serve(struct scheduler *s, struct node *n, uint64_t request,
                          const struct msg_hold *m)
{
    (void)m;
    scheduler_send(s, n->link, MSG_OK, request, &(struct msg_ok){s->roster.epoch});
}

void scheduler_drain_serve(struct scheduler *s, struct link *l, uint64_t request,
                           const struct msg_drain *m)
{
    (void)m;
    scheduler_refuse(s, l->link, request, TUG_EUSAGE, cannot);
}

void scheduler_rebalance_serve(struct scheduler *s, struct link *l, uint64_t request,
                               const struct msg_rebalance *m)
{
    (void)m;
    scheduler_refuse(s, l->link, request, TUG_EUSAGE, cannot);
}
