// The van between threads. The sender encodes a message into one block of memory and puts
// that block into the receiver's inbox. A link consists of two vans that know each
// other's inbox and number.
//
// Opening or ending a link allocates no memory: each link is made together with the item
// that will end it, and the item of a dial is returned as its answer.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/inproc.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "kit/inbox.h"
#include "os/clock.h"
#include "van/links.h"

static const char scheme[] = "inproc://";
static const uint64_t backoff_first = 1000000, backoff_most = 100000000; // ns

struct link {
    // Next in the list of links that dial, or in the list of links that can be freed.
    struct link *next;
    van_link number, peer_link;
    struct inbox *peer; // the other end's inbox; NULL while the link dials
    struct item *bye;   // tells the peer that the link has ended
    // The item of the dial; NULL while this item is in the inbox of the other van.
    struct item *dial;
    uint64_t began, deadline, again, backoff;
    uint64_t heard;                // time of the last message that arrived
    char address[VAN_ADDRESS_MAX]; // the peer's address
};

struct inproc_van {
    struct van base;
    struct van_handler h;
    struct links links;
    struct link *dialing, *done;
    struct inbox *inbox;
    struct wire_out out;
    uint64_t tick_at;
    bool listens;
    char address[VAN_ADDRESS_MAX];
};

static struct inproc_van *of(const struct van *v)
{
    return (struct inproc_van *)(uintptr_t)v;
}

static int inproc_listen(struct van *van, const char *address, char ret[VAN_ADDRESS_MAX],
                         struct err *e)
{
    struct inproc_van *v = of(van);
    size_t n = strlen(address);
    if (strncmp(address, scheme, sizeof(scheme) - 1) != 0 || n < sizeof(scheme) ||
        n >= VAN_ADDRESS_MAX)
        return err_set(e, TUG_EUSAGE,
                       "cannot listen on '%.*s': an address between threads must begin "
                       "with inproc://NAME",
                       VAN_ADDRESS_MAX, address);
    TRY(inbox_publish(v->inbox, address, e));
    if (!v->listens)
        memcpy(v->address, address, n + 1);
    v->listens = true;
    memcpy(ret, address, n + 1);
    return 0;
}

// ---------------------------------------------------------------- links

static void link_free(struct link *l)
{
    if (l == NULL)
        return;
    item_free(l->bye);
    item_free(l->dial);
    inbox_unref(l->peer);
    mem_free(l);
}

static struct link *link_new(struct inproc_van *v, const char *address)
{
    struct link *l = mem_zalloc(sizeof(*l));
    if (l == NULL)
        return NULL;
    snprintf(l->address, sizeof(l->address), "%s", address);
    l->bye = item_new(ITEM_CLOSED, "");
    l->number = l->bye != NULL ? links_add(&v->links, l) : 0;
    if (l->number == 0) {
        link_free(l);
        return NULL;
    }
    return l;
}

static void stop_dialing(struct inproc_van *v, struct link *l)
{
    struct link **at = &v->dialing;
    while (*at != NULL && *at != l)
        at = &(*at)->next;
    if (*at != NULL)
        *at = l->next;
}

// Removes the link from the van; its memory is freed later, when no handler runs.
static void drop(struct inproc_van *v, struct link *l)
{
    if (l->peer == NULL)
        stop_dialing(v, l);
    links_remove(&v->links, l->number);
    l->next = v->done;
    v->done = l;
}

static void hang_up(struct inproc_van *v, struct link *l)
{
    if (l->peer != NULL) {
        l->bye->to = l->peer_link;
        if (inbox_post(l->peer, l->bye))
            l->bye = NULL;
    }
    drop(v, l);
}

static void free_done(struct inproc_van *v)
{
    while (v->done != NULL) {
        struct link *l = v->done;
        v->done = l->next;
        link_free(l);
    }
}

static void call_closed(struct inproc_van *v, struct link *l, const struct err *why)
{
    van_link number = l->number;
    hang_up(v, l);
    if (v->h.closed != NULL)
        v->h.closed(v->h.ctx, number, why, clock_ns());
}

static void call_opened(struct inproc_van *v, const struct link *l, bool accepted)
{
    if (v->h.opened != NULL)
        v->h.opened(v->h.ctx, l->number, accepted, clock_ns());
}

static van_link inproc_connect(struct van *van, const char *address, uint64_t timeout_ns)
{
    struct inproc_van *v = of(van);
    struct link *l = link_new(v, address);
    if (l == NULL)
        return 0;
    l->dial = item_new(ITEM_DIAL, v->address);
    l->began = clock_ns();
    l->deadline = timeout_ns < VAN_NEVER - l->began ? l->began + timeout_ns : VAN_NEVER;
    l->backoff = backoff_first;
    l->next = v->dialing;
    v->dialing = l;
    if (l->dial == NULL) {
        drop(v, l);
        return 0;
    }
    return l->number;
}

// Sends the dial if a van listens at the address now.
static void dial(struct inproc_van *v, struct link *l, uint64_t now)
{
    struct inbox *to = inbox_look_up(l->address);
    l->dial->kind = ITEM_DIAL;
    l->dial->to = 0;
    l->dial->from = inbox_ref(v->inbox);
    l->dial->from_link = l->number;
    if (to != NULL && inbox_post(to, l->dial)) {
        l->dial = NULL;
        l->again = l->deadline;
    } else {
        inbox_unref(l->dial->from);
        l->dial->from = NULL;
        l->again = now + l->backoff < l->deadline ? now + l->backoff : l->deadline;
        l->backoff = l->backoff * 2 < backoff_most ? l->backoff * 2 : backoff_most;
    }
    inbox_unref(to);
}

static void dial_timeout(struct inproc_van *v, struct link *l, uint64_t now)
{
    struct err e;
    err_set(&e, TUG_EIO, "cannot connect to %s: %s (tried for %.1f s)", l->address,
            l->dial != NULL ? "nobody listens there" : "its van does not answer",
            (double)(now - l->began) * 1e-9);
    call_closed(v, l, &e);
}

// Returns a link whose time to dial has come; NULL if there is none.
static struct link *due(const struct inproc_van *v, uint64_t now)
{
    struct link *l = v->dialing;
    while (l != NULL && l->again > now)
        l = l->next;
    return l;
}

static void dial_all(struct inproc_van *v, uint64_t now)
{
    for (struct link *l = due(v, now); l != NULL; l = due(v, now)) {
        if (l->dial != NULL && (l->again < l->deadline || l->again == 0))
            dial(v, l, now);
        if (l->again <= now)
            dial_timeout(v, l, now);
    }
}

static int send_copy(struct inproc_van *v, van_link link, uint16_t type, uint64_t request,
                     const void *msg)
{
    struct link *l = links_find(&v->links, link);
    if (l == NULL || l->peer == NULL)
        return TUG_EIO;
    struct item *i = item_new(ITEM_MESSAGE, "");
    if (i == NULL)
        return TUG_ENOMEM;
    i->to = l->peer_link;
    int rc = parcel_pack(&i->parcel, &v->out, type, request, msg);
    if (rc == 0 && !inbox_post(l->peer, i))
        rc = TUG_EIO;
    if (rc != 0)
        item_free(i);
    return rc;
}

static int inproc_send(struct van *van, van_link link, uint16_t type, uint64_t request,
                       const void *msg, const struct van_release *release)
{
    int rc = send_copy(of(van), link, type, request, msg);
    if (release != NULL)
        release->release(release->ctx);
    return rc;
}

static void inproc_close_link(struct van *van, van_link link)
{
    struct link *l = links_find(&of(van)->links, link);
    if (l != NULL)
        hang_up(of(van), l);
}

// Returns the bytes in the peer's inbox, including bytes from other senders: the peer
// takes all of these bytes before the next message.
static uint64_t inproc_queued(const struct van *van, van_link link)
{
    const struct link *l = links_find(&of(van)->links, link);
    if (l == NULL || l->peer == NULL)
        return 0;
    return inbox_bytes(l->peer);
}

static const char *inproc_peer(const struct van *van, van_link link)
{
    const struct link *l = links_find(&of(van)->links, link);
    return l != NULL ? l->address : "";
}

static enum van_kind inproc_kind(const struct van *van, van_link link)
{
    return links_find(&of(van)->links, link) != NULL ? VAN_OWNER : VAN_OPEN;
}

static uint64_t inproc_heard(const struct van *van, van_link link)
{
    const struct link *l = links_find(&of(van)->links, link);
    return l != NULL ? l->heard : 0;
}

// These functions handle items. Each takes over its item.

static void on_dial(struct inproc_van *v, struct item *i)
{
    struct link *l = link_new(v, i->address);
    if (l == NULL) { // out of memory: the peer tries again
        item_answer(i, ITEM_REFUSED, NULL, 0);
        return;
    }
    l->peer = inbox_ref(i->from);
    l->peer_link = i->from_link;
    if (item_answer(i, ITEM_ACCEPTED, v->inbox, l->number))
        call_opened(v, l, true);
    else
        drop(v, l);
}

static void on_accepted(struct inproc_van *v, struct item *i)
{
    struct link *l = links_find(&v->links, i->to);
    if (l == NULL) { // this van has already given the link up
        item_answer(i, ITEM_CLOSED, NULL, 0);
        return;
    }
    stop_dialing(v, l);
    l->peer = i->from;
    l->peer_link = i->from_link;
    i->from = NULL;
    item_free(i);
    call_opened(v, l, false);
}

static void on_refused(struct inproc_van *v, struct item *i)
{
    struct link *l = links_find(&v->links, i->to);
    if (l == NULL) {
        item_free(i);
        return;
    }
    uint64_t again = clock_ns() + l->backoff;
    l->dial = i;
    l->again = again < l->deadline ? again : l->deadline;
}

static void on_message(struct inproc_van *v, struct item *i, uint64_t now)
{
    struct link *l = links_find(&v->links, i->to);
    struct err e = {0};
    if (l != NULL)
        l->heard = now;
    if (l != NULL && parcel_deliver(i->parcel, &v->h, l->number, now, &e) != 0)
        call_closed(v, l, &e);
    item_free(i);
}

static void on_closed(struct inproc_van *v, struct item *i)
{
    struct link *l = links_find(&v->links, i->to);
    struct err e = {0};
    item_free(i);
    if (l == NULL)
        return;
    snprintf(e.text, sizeof(e.text), "%s closed the link", l->address);
    call_closed(v, l, &e);
}

static void handle(struct inproc_van *v, struct item *i, uint64_t now)
{
    switch (i->kind) {
    case ITEM_DIAL:
        on_dial(v, i);
        break;
    case ITEM_ACCEPTED:
        on_accepted(v, i);
        break;
    case ITEM_REFUSED:
        on_refused(v, i);
        break;
    case ITEM_MESSAGE:
        on_message(v, i, now);
        break;
    case ITEM_CLOSED:
        on_closed(v, i);
        break;
    }
}

static uint64_t inproc_now(const struct van *v)
{
    (void)v;
    return clock_ns();
}

static int inproc_poll(struct van *van, uint64_t until, struct err *e)
{
    struct inproc_van *v = of(van);
    (void)e;
    free_done(v);
    if (v->tick_at < until)
        until = v->tick_at;
    for (const struct link *l = v->dialing; l != NULL; l = l->next)
        if (l->again < until)
            until = l->again;
    struct item *list = inbox_take(v->inbox, until);
    while (list != NULL) {
        struct item *i = list;
        list = i->next;
        handle(v, i, clock_ns()); // a link that opens here gets the current time
    }
    dial_all(v, clock_ns());
    v->tick_at = v->h.tick(v->h.ctx, clock_ns());
    return 0;
}

static void inproc_wake(struct van *van)
{
    inbox_wake(of(van)->inbox);
}

static void inproc_free(struct van *van)
{
    struct inproc_van *v = of(van);
    if (v->inbox != NULL) {
        inbox_unpublish(v->inbox);
        while (v->links.n > 0)
            hang_up(v, v->links.list[v->links.n - 1].link);
        inbox_shut(v->inbox);
        free_done(v);
        inbox_unref(v->inbox);
    }
    links_free(&v->links);
    buf_free(&v->out.head);
    mem_free(v);
}

static const struct van_ops ops = {
    .listen = inproc_listen,
    .connect = inproc_connect,
    .send = inproc_send,
    .close_link = inproc_close_link,
    .queued = inproc_queued,
    .peer = inproc_peer,
    .kind = inproc_kind,
    .heard = inproc_heard,
    .keep = parcel_keep,
    .unkeep = parcel_unkeep,
    .now = inproc_now,
    .poll = inproc_poll,
    .wake = inproc_wake,
    .free = inproc_free,
};

int inproc_van_open(struct van **ret, const struct van_handler *h, struct err *e)
{
    static atomic_uint count;
    struct inproc_van *v = mem_zalloc(sizeof(*v));
    if (v == NULL)
        return err_nomem(e, "a van");
    v->base.ops = &ops;
    v->h = *h;
    v->out = WIRE_OUT_INIT;
    v->inbox = inbox_open();
    if (v->inbox == NULL) {
        inproc_free(&v->base);
        return err_nomem(e, "a van");
    }
    snprintf(v->address, sizeof(v->address), "%s#%u", scheme,
             atomic_fetch_add(&count, 1) + 1);
    *ret = &v->base;
    return 0;
}
