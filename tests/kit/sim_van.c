// The van of a node in the simulated world.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "kit/sim_internal.h"

static const char scheme[] = "sim://";

static struct sim_van *of(const struct van *v)
{
    return (struct sim_van *)(uintptr_t)v;
}

static struct sim_end *end_of(const struct van *v, van_link link)
{
    return links_find(&of(v)->links, link);
}

static int sim_van_listen(struct van *v, const char *address, char ret[VAN_ADDRESS_MAX],
                          struct err *e)
{
    size_t n = strlen(address);
    if (strncmp(address, scheme, sizeof(scheme) - 1) != 0 || n >= VAN_ADDRESS_MAX)
        return err_set(
            e, TUG_EUSAGE,
            "cannot listen on '%.*s': in a simulation an address is sim://NAME",
            VAN_ADDRESS_MAX, address);
    TRY(sim_listen(of(v)->s, of(v), address, e));
    memcpy(ret, address, n + 1);
    return 0;
}

static van_link sim_van_connect(struct van *v, const char *address, uint64_t timeout_ns)
{
    struct sim_conn *c = sim_dial(of(v)->s, of(v), address, timeout_ns);
    return c != NULL ? c->ends[0].number : 0;
}

static int sim_van_send(struct van *v, van_link link, uint16_t type, uint64_t request,
                        const void *msg, const struct van_release *release)
{
    struct sim_end *end = end_of(v, link);
    struct parcel *p;
    int rc = end != NULL && end->open ? 0 : TUG_EIO;
    if (rc == 0)
        rc = parcel_pack(&p, &of(v)->out, type, request, msg);
    if (rc == 0)
        rc = sim_transmit(of(v)->s, end, p);
    if (release != NULL) // the message was copied
        release->release(release->ctx);
    return rc;
}

static void sim_van_close_link(struct van *v, van_link link)
{
    struct sim_end *end = end_of(v, link);
    if (end != NULL)
        sim_hang_up(of(v)->s, end, SIM_BY_PEER);
}

static uint64_t sim_van_queued(const struct van *v, van_link link)
{
    const struct sim_end *end = end_of(v, link);
    return end != NULL ? end->in_flight : 0;
}

static const char *sim_van_peer(const struct van *v, van_link link)
{
    const struct sim_end *end = end_of(v, link);
    if (end == NULL)
        return "";
    return end == &end->conn->ends[0] ? end->conn->address : end->conn->from;
}

// A link has the kind of its less trusted end.
static enum van_kind sim_van_kind(const struct van *v, van_link link)
{
    const struct sim_end *end = end_of(v, link);
    if (end == NULL)
        return VAN_OPEN;
    const struct sim_end *other = &end->conn->ends[end == &end->conn->ends[0]];
    enum van_kind mine = of(v)->kind,
                  theirs = other->van != NULL ? other->van->kind : mine;
    return mine < theirs ? mine : theirs;
}

static uint64_t sim_van_heard(const struct van *v, van_link link)
{
    const struct sim_end *end = end_of(v, link);
    return end != NULL ? end->heard : 0;
}

void sim_van_is(struct van *v, enum van_kind kind)
{
    of(v)->kind = kind;
}

void sim_van_role(struct van *v, enum wire_role role)
{
    of(v)->role = role;
}

void sim_van_silences(struct van *v, double rate)
{
    of(v)->silences = rate;
}

void sim_van_loses_none(struct van *v)
{
    of(v)->loses_none = true;
}

void sim_van_breaks_none(struct van *v)
{
    of(v)->breaks_none = true;
}

void sim_van_rounds(struct van *v, uint64_t ns)
{
    of(v)->round = ns;
}

static void sim_van_trust(const struct van *v, van_link link, struct van_trust *ret)
{
    const struct sim_end *end = end_of(v, link);
    if (end == NULL)
        return;
    const struct sim_end *other = &end->conn->ends[end == &end->conn->ends[0]];
    ret->role = other->van != NULL ? other->van->role : other->role;
    // This is not a secret: it is the same in each run of the seed.
    memcpy(ret->binding, &end->conn->began, sizeof(end->conn->began));
}

static uint64_t sim_van_now(const struct van *v)
{
    return of(v)->s->now;
}

static int sim_van_poll(struct van *v, uint64_t until, struct err *e)
{
    (void)until;
    return err_set(e, TUG_EUSAGE, "van %s is simulated: step its world instead",
                   of(v)->name);
}

static void sim_van_wake(struct van *v)
{
    struct sim *s = of(v)->s;
    if (!of(v)->crashed)
        s->tick_at[of(v)->slot] = of(v)->still_until > s->now ? of(v)->still_until
                                                              : s->now;
}

static void sim_van_free(struct van *van)
{
    struct sim_van *v = of(van);
    struct sim *s = v->s;
    while (v->links.n > 0)
        sim_hang_up(s, v->links.list[v->links.n - 1].link, SIM_BY_PEER);
    sim_unlisten(s, v);
    sim_queue_forget(&s->queue, v);
    for (struct sim_van **at = &s->vans; *at != NULL;) {
        sim_put_apart(*at, v, false); // another van may take the slot
        if (*at == v)
            *at = v->next;
        else
            at = &(*at)->next;
    }
    s->slots[v->slot] = NULL;
    s->tick_at[v->slot] = VAN_NEVER;
    links_free(&v->links);
    buf_free(&v->out.head);
    mem_free(v);
}

static const struct van_ops ops = {
    .listen = sim_van_listen,
    .connect = sim_van_connect,
    .send = sim_van_send,
    .close_link = sim_van_close_link,
    .queued = sim_van_queued,
    .peer = sim_van_peer,
    .kind = sim_van_kind,
    .heard = sim_van_heard,
    .trust = sim_van_trust,
    .keep = parcel_keep,
    .unkeep = parcel_unkeep,
    .now = sim_van_now,
    .poll = sim_van_poll,
    .wake = sim_van_wake,
    .free = sim_van_free,
};

static uint32_t free_slot(const struct sim *s)
{
    uint32_t slot = 0;
    while (slot < SIM_VANS_MAX && s->slots[slot] != NULL)
        slot++;
    return slot;
}

int sim_van_open(struct van **ret, struct sim *s, const char *name,
                 const struct van_handler *h, struct err *e)
{
    uint32_t slot = free_slot(s);
    if (slot == SIM_VANS_MAX)
        return err_set(e, TUG_EUSAGE, "a simulated world has room for %d vans",
                       SIM_VANS_MAX);
    struct sim_van *v = mem_zalloc(sizeof(*v));
    if (v == NULL)
        return err_nomem(e, "a simulated van");
    v->base.ops = &ops;
    v->s = s;
    v->h = *h;
    v->out = WIRE_OUT_INIT;
    v->slot = slot;
    v->kind = VAN_OWNER;
    v->role = WIRE_OPERATOR;
    s->slots[slot] = v;
    s->tick_at[slot] = s->now;
    s->n_slots = slot < s->n_slots ? s->n_slots : slot + 1;
    snprintf(v->name, sizeof(v->name), "%s", name);
    struct sim_van **at = &s->vans;
    while (*at != NULL)
        at = &(*at)->next;
    *at = v;
    *ret = &v->base;
    return 0;
}
