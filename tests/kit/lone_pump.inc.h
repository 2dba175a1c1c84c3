// The pump of a program that has one thread (kit/lone_node.h), instead of runtime/pump.c.
// That program includes this file: if the pump were in the kit's library, other programs
// would be linked with it. Work is done when the van's handlers have returned.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/lone_node.h"

struct pump {
    struct pump_work *first, **last;
    bool working;
};
static struct pump the_pump;

int pump_open(struct pump **ret, struct van *v, struct err *e)
{
    (void)v, (void)e;
    *ret = &the_pump;
    return 0;
}
void pump_close(struct pump *p)
{
    (void)p;
}
void pump_set_spin(struct pump *p, uint64_t spin_ns)
{
    (void)p, (void)spin_ns;
}
void pump_enter(struct pump *p)
{
    (void)p;
}
void pump_leave(struct pump *p)
{
    (void)p;
}
void pump_leave_long(struct pump *p)
{
    (void)p;
}
void pump_enter_again(struct pump *p)
{
    (void)p;
}
void pump_queue(struct pump *p, struct pump_work *work)
{
    work->next = NULL;
    *p->last = work;
    p->last = &work->next;
}
bool pump_wait(struct pump *p, bool (*over)(void *ctx), void *ctx, uint64_t deadline)
{
    (void)p, (void)deadline;
    return over(ctx);
}
bool pump_wait_uninterrupted(struct pump *p, bool (*over)(void *ctx), void *ctx,
                             uint64_t deadline)
{
    return pump_wait(p, over, ctx, deadline);
}
bool pump_working(const struct pump *p)
{
    return p->working;
}
bool pump_has_work(const struct pump *p)
{
    return p->working || p->first != NULL;
}
bool pump_broken(const struct pump *p, struct err *ret_why)
{
    (void)p, (void)ret_why;
    return false;
}

struct pump *lone_pump_begin(void)
{
    the_pump = (struct pump){.last = &the_pump.first};
    return &the_pump;
}

void lone_node_work(void)
{
    the_pump.working = true;
    for (struct pump_work *x; (x = the_pump.first) != NULL;) {
        the_pump.first = x->next;
        if (the_pump.first == NULL)
            the_pump.last = &the_pump.first;
        x->run(x);
    }
    the_pump.working = false;
}
