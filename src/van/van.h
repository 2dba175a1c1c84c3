// The van carries messages between nodes. tcp.h implements it: TCP (IPv4, IPv6) and Unix
// sockets on libuv, TLS 1.3 with mutual authentication. Tests have two more vans
// (tests/kit): inproc, between threads of one process, and sim, a network in virtual
// time, whose delays, losses, duplications, reorderings, partitions and crashes depend on
// a seed.
//
// A van belongs to one node and serves one handler. The code above it (members, clients,
// shards, the scheduler) does no I/O and reads no clock: the van calls it with messages
// and the time. The time never goes back.
//
// Links. A link is one connection to another node's van. van_connect returns a link at
// once. The van then tries to connect, with back-off, until the timeout has passed. It
// calls `opened` when the link can be used. If all attempts fail, it calls `closed` with
// a reason, which names the address, the failure and the time that the attempts took. A
// broken link never works again; a caller that still needs the peer connects again.
// Messages of a link arrive in order and at most once; in sim a seed may reorder and
// repeat them. When a link breaks, messages may be lost, and `closed` is called on both
// ends. A link's number is never used again.
//
// Threads. A van belongs to the thread that calls van_poll. All functions and handlers
// run on that thread; only van_wake may be called from others. Handlers may call any
// function but van_poll and van_free; van_close_link inside a handler takes effect after
// the handler.
//
// Blocking. Only van_poll waits. van_send queues the bytes that the system does not take
// at once; a caller that sends many messages has to check van_queued. A van never stops
// reading; so the sender of requests has to limit the number of requests without an
// answer.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_VAN_H
#define TUG_VAN_VAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/wire.h"

typedef uint32_t van_link; // 0: none

enum { VAN_ADDRESS_MAX = 256 };
#define VAN_NEVER UINT64_MAX

// The kinds of links, ordered by how much a kind alone proves about the peer before the
// peer has sent anything. A higher value proves more.
enum van_kind {
    VAN_OPEN, // any process that can reach the address; also returned for an unknown link
    VAN_LOOPBACK, // plain TCP over loopback: a process of any user of this machine
    VAN_TLS,      // a process with a certificate of the cluster's CA
    VAN_OWNER, // the user of this process: a Unix socket whose peer has the same uid, or
               // another thread of this process
};

struct van;

// A message that the handler gets. Its texts and spans are valid until the handler
// returns; van_keep keeps the body, and with it all spans, for longer.
struct van_message {
    uint16_t type;    // enum wire_type
    uint64_t request; // the request number in the frame
    const union wire_any *m;
    void *body;          // the body; NULL: the message has none
    uint64_t body_bytes; // size of the body with padding
    // The body lies at the address that `place` returned, and the van does not own it.
    bool placed;
};

// The identity of the peer, as the van knows it before the first message.
struct van_trust {
    enum wire_role role;     // the role whose messages the peer may send (wire_may)
    uint8_t certificate[32]; // fingerprint of the peer's certificate; zeros: none
    // A number that is the same at both ends and different on each link.
    uint8_t binding[32];
};

// The functions that the van calls. `opened`, `closed`, `refused` and `place` may be
// NULL.
struct van_handler {
    void *ctx;

    // A link is open, so that messages can be sent. `accepted` is true if the peer has
    // connected, false if this node has. On tcp with TLS the peer has shown its
    // certificate.
    void (*opened)(void *ctx, van_link link, bool accepted, uint64_t now);

    void (*message)(void *ctx, van_link link, struct van_message *m, uint64_t now);

    // The head of a message has arrived and its body of body_bytes bytes follows. Returns
    // the address where the van must put the body; NULL: the van uses its own memory. The
    // returned memory must stay valid until `message` or `closed` is called. A van that
    // already has the whole body copies it to the returned memory.
    void *(*place)(void *ctx, van_link link, uint16_t type, uint64_t request,
                   const union wire_any *head, uint64_t body_bytes);

    // The peer, an error or a timeout has ended the link. why->code is TUG_EIO, TUG_EDATA
    // if the peer sent bytes that are not valid frames, or 0 if the peer closed the link
    // without an error. Not called after van_close_link.
    void (*closed)(void *ctx, van_link link, const struct err *why, uint64_t now);

    // Does the handler's timed work. The van calls it after each round of messages, and not
    // later than at the time that the last call has returned (VAN_NEVER: no such time).
    uint64_t (*tick)(void *ctx, uint64_t now);

    // Reports that a peer was refused, or that its link was closed because it used too
    // much memory or its place was needed: why->text names the peer and the reason.
    void (*refused)(void *ctx, const struct err *why, uint64_t now);
};

// Memory of a body that is being sent. `release` is called once, when the van no longer
// needs the memory (the body was sent, or the link has ended), possibly before van_send
// returns. Without a van_release, van_send copies the body at once.
struct van_release {
    void (*release)(void *ctx);
    void *ctx;
};

struct van_ops {
    int (*listen)(struct van *v, const char *address, char ret[VAN_ADDRESS_MAX],
                  struct err *e);
    van_link (*connect)(struct van *v, const char *address, uint64_t timeout_ns);
    int (*send)(struct van *v, van_link link, uint16_t type, uint64_t request,
                const void *msg, const struct van_release *release);
    void (*close_link)(struct van *v, van_link link);
    uint64_t (*queued)(const struct van *v, van_link link);
    const char *(*peer)(const struct van *v, van_link link);
    enum van_kind (*kind)(const struct van *v, van_link link);
    // May be NULL in a van between threads of a process, which trust each other.
    void (*trust)(const struct van *v, van_link link, struct van_trust *ret);
    // May be NULL in a van without a limit of links.
    void (*joined)(struct van *v, van_link link);
    uint64_t (*heard)(const struct van *v, van_link link);
    void *(*keep)(struct van *v, struct van_message *m);
    void (*unkeep)(struct van *v, void *kept);
    void (*drop)(void *kept); // NULL: a body cannot be kept after its van was freed
    uint64_t (*now)(const struct van *v);
    void (*hold)(struct van *v); // NULL: the van always sends at once
    // All three may be NULL; then a thread can wait for messages only in van_poll.
    int (*descriptor)(const struct van *v);
    bool (*unsettled)(const struct van *v);
    void (*defer)(struct van *v, bool on);
    int (*poll)(struct van *v, uint64_t until, struct err *e);
    void (*wake)(struct van *v);
    void (*free)(struct van *v);
};

// The first member of every van.
struct van {
    const struct van_ops *ops;
};

// Listens. Addresses: "tcp://HOST:PORT" (port 0: a free port; [::1] for IPv6),
// "unix:///PATH"; in tests "inproc://NAME", "sim://NAME". Peers connect to *ret.
// Fails with TUG_EIO, naming the address, the reason and the remedy, or with TUG_EUSAGE
// if `address` is not an address.
static inline int van_listen(struct van *v, const char *address,
                             char ret[VAN_ADDRESS_MAX], struct err *e)
{
    return v->ops->listen(v, address, ret, e);
}

// Connects, and tries again until timeout_ns have passed. On tcp `address` may be a list
// with commas, for example if a node listens on a Unix socket and on TCP; the addresses
// are tried in the order of the list. Errors arrive through `closed`, never inside this call.
// Returns 0 if there is no memory.
static inline van_link van_connect(struct van *v, const char *address,
                                   uint64_t timeout_ns)
{
    return v->ops->connect(v, address, timeout_ns);
}

// Sends `msg`, a struct msg_x of the type (wire/wire.h). The data that its fields point
// at is copied, except spans with a `release`. Returns 0; TUG_EUSAGE if the message is
// too long; TUG_ENOMEM; TUG_EIO if the link is closed or not yet open. The release is
// called in every case.
static inline int van_send(struct van *v, van_link link, uint16_t type, uint64_t request,
                           const void *msg, const struct van_release *release)
{
    return v->ops->send(v, link, type, request, msg, release);
}

// Closes a link; queued bytes are still sent for a moment. `link` may be 0.
static inline void van_close_link(struct van *v, van_link link)
{
    v->ops->close_link(v, link);
}

// Returns how many bytes wait to be sent on a link.
static inline uint64_t van_queued(const struct van *v, van_link link)
{
    return v->ops->queued(v, link);
}

// Returns the peer's address for logs and errors, for example "tcp://10.0.0.7:40112". It
// is valid until the link closes.
static inline const char *van_peer(const struct van *v, van_link link)
{
    return v->ops->peer(v, link);
}

// Returns how much the kind of the link proves about the peer. The result does not
// change after `opened`.
static inline enum van_kind van_kind(const struct van *v, van_link link)
{
    return v->ops->kind(v, link);
}

// Returns the identity of an open link's peer. For a link between threads, and for a
// closed link, on which no more messages arrive, the peer counts as an operator without a
// certificate.
static inline struct van_trust van_trust(const struct van *v, van_link link)
{
    struct van_trust t = {.role = WIRE_OPERATOR};
    if (v->ops->trust != NULL)
        v->ops->trust(v, link, &t);
    return t;
}

// Tells the van that the peer has joined the cluster: from now on its link is not closed
// to make room for others. The link may already be closed.
static inline void van_joined(struct van *v, van_link link)
{
    if (v->ops->joined != NULL)
        v->ops->joined(v, link);
}

// Returns when the link last received bytes (by van_now), even a part of a message, or
// else when it was accepted; 0 if neither happened or the link is closed.
static inline uint64_t van_heard(const struct van *v, van_link link)
{
    return v->ops->heard(v, link);
}

// Keeps the body (unless it was placed) until the returned pointer is given to
// van_unkeep; called inside `message`. Returns NULL if there is no memory or no body.
static inline void *van_keep(struct van *v, struct van_message *m)
{
    return v->ops->keep(v, m);
}

static inline void van_unkeep(struct van *v, void *kept)
{
    v->ops->unkeep(v, kept);
}

// Returns a function that, from any thread, frees a kept body after its van was freed;
// NULL if no body may be kept that long.
static inline void (*van_dropper(const struct van *v))(void *kept)
{
    return v->ops->drop;
}

// Returns nanoseconds since a fixed moment; `now` of the handlers is a time of the same
// clock.
static inline uint64_t van_now(const struct van *v)
{
    return v->ops->now(v);
}

// Makes small messages wait for the next van_poll and leave together, which is cheaper
// for a caller that sends several before it polls. Large messages still leave at once.
static inline void van_hold(struct van *v)
{
    if (v->ops->hold != NULL)
        v->ops->hold(v);
}

// Returns a descriptor that is readable when van_poll has work, for a thread that waits
// without the van; -1 if this van has none. The descriptor does not show messages that
// were sent, and links that were opened or closed, since the last poll: see
// van_unsettled.
static inline int van_descriptor(const struct van *v)
{
    return v->ops->descriptor != NULL ? v->ops->descriptor(v) : -1;
}

// Returns whether the next van_poll has work that the descriptor does not show.
static inline bool van_unsettled(const struct van *v)
{
    return v->ops->unsettled != NULL && v->ops->unsettled(v);
}

// Switches deferring on or off. While it is on, bodies with a `release` are sent in the
// next van_poll, which another thread calls soon, so that the sending thread need not
// wait.
static inline void van_defer(struct van *v, bool on)
{
    if (v->ops->defer != NULL)
        v->ops->defer(v, on);
}

// Waits for events until `until` (by van_now; at most until the handler's next tick),
// calls the handlers, then tick. Returns 0 after at least one round, or TUG_EIO if the
// van itself fails.
static inline int van_poll(struct van *v, uint64_t until, struct err *e)
{
    return v->ops->poll(v, until, e);
}

// Makes van_poll return soon. May be called from any thread.
static inline void van_wake(struct van *v)
{
    v->ops->wake(v);
}

// Closes all links without calling handlers, and frees the van. `v` may be NULL.
static inline void van_free(struct van *v)
{
    if (v != NULL)
        v->ops->free(v);
}

#endif
