// The van: how nodes send messages to each other. Behind the interface is tcp.h:
// TCP (IPv4, IPv6) and Unix sockets on libuv, TLS 1.3 with mutual authentication.
// Tests have two more (tests/kit): inproc, between threads of one process, and sim,
// a network in virtual time with delay, loss, duplication, reordering, partitions
// and crashes from a seed.
//
// A van belongs to one node and serves one handler. What is above it (members,
// clients, shards, the scheduler) does no I/O and reads no clock: it is called with
// messages and the time, and sends. The time never goes back.
//
// Links. A link is one connection to another node's van. van_connect gives a link at
// once; `opened` tells when it can be used, or `closed` why not: connecting is tried
// again with back-off until the timeout has passed, and the reason names the address,
// what failed and for how long. A link that breaks is closed for good; whoever needs the
// peer connects again. Messages of a link arrive in order (sim: only if the seed says
// so), each at most once (likewise), or not at all when the link breaks: then `closed` is
// called on both ends. Numbers of links are not given twice.
//
// Threads. A van belongs to one thread: that which calls van_poll. All functions
// and all handlers run on it; only van_wake may be called from others. Handlers may
// call any function but van_poll and van_free; van_close_link inside a handler
// takes effect after it.
//
// Blocking. Only van_poll waits. van_send queues what the system does not take at once:
// who sends without end looks at van_queued. Reading never stops: back-pressure is the
// business of who sends requests.
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

// What a link itself says of who is at the other end, before that has said a word. The
// higher, the more.
enum van_kind {
    VAN_OPEN,     // anybody who reaches the address; also: no such link
    VAN_LOOPBACK, // plain TCP over loopback: some account of this machine
    VAN_TLS,      // has shown a certificate of the cluster's CA
    VAN_OWNER, // the user of this process: a Unix socket whose peer has the same uid, or
               // another thread of this process
};

// How the refusal (MSG_ERROR, TUG_EIO) of a message begins for which there is no room
// now: it may be sent again in a moment.
#define VAN_NO_ROOM "no room now"

struct van;

// A message as it is handed to the handler. Everything in it, texts and spans
// too, is valid until the handler returns; van_keep keeps the body, and with it
// all spans, for longer.
struct van_message {
    uint16_t type;    // enum wire_type
    uint64_t request; // of the frame
    const union wire_any *m;
    void *body;          // NULL: it has none
    uint64_t body_bytes; // padding included
    bool placed;         // the body lies where `place` said: it is not the van's
};

// Who is at the other end, as the van knows it before a word is said.
struct van_trust {
    enum wire_role role;     // what it may do at most: wire_may
    uint8_t certificate[32]; // fingerprint of its certificate; zeros: it has shown none
    uint8_t binding[32];     // the same at both ends, and on no other link
};

// What the van calls. `opened`, `closed`, `refused` and `place` may be NULL.
struct van_handler {
    void *ctx;

    // A link is ready to send: one that was asked for, or (accepted) a peer's. On tcp the
    // peer has shown its certificate when TLS is on.
    void (*opened)(void *ctx, van_link link, bool accepted, uint64_t now);

    void (*message)(void *ctx, van_link link, struct van_message *m, uint64_t now);

    // The head of a message has come and its body, of body_bytes, follows: where to put
    // it? NULL: the van takes memory of its own. The memory must stay until `message` or
    // `closed` is called. Vans that have the whole body already copy it there.
    void *(*place)(void *ctx, van_link link, uint16_t type, uint64_t request,
                   const union wire_any *head, uint64_t body_bytes);

    // The link is gone, by the peer, an error or a timeout (why->code TUG_EIO;
    // TUG_EDATA when the peer sent what cannot be read; 0 when the peer just closed).
    // Not called for van_close_link.
    void (*closed)(void *ctx, van_link link, const struct err *why, uint64_t now);

    // What is due by `now` is done; returns when to call again at the latest (VAN_NEVER:
    // after the next message). Called after each round of messages.
    uint64_t (*tick)(void *ctx, uint64_t now);

    // Somebody came to this node and was not let in, or had its link closed for what it
    // cost: why->text says who and why.
    void (*refused)(void *ctx, const struct err *why, uint64_t now);
};

// Memory of a body that is on its way out. `release` is called once, when the van needs
// it no more (it has left, or the link is gone), maybe before van_send returns. NULL in
// van_send: the van copies the body at once.
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
    // May be NULL: between threads everybody is believed.
    void (*trust)(const struct van *v, van_link link, struct van_trust *ret);
    // May be NULL: links are never short.
    void (*joined)(struct van *v, van_link link);
    uint64_t (*heard)(const struct van *v, van_link link);
    void *(*keep)(struct van *v, struct van_message *m);
    void (*unkeep)(struct van *v, void *kept);
    void (*drop)(void *kept); // may be NULL: nothing kept outlives the van
    uint64_t (*now)(const struct van *v);
    void (*hold)(struct van *v); // may be NULL: nothing is ever held
    // May be NULL, all three: who waits, waits in van_poll.
    int (*descriptor)(const struct van *v);
    bool (*unsettled)(const struct van *v);
    void (*defer)(struct van *v, bool on);
    int (*poll)(struct van *v, uint64_t until, struct err *e);
    void (*wake)(struct van *v);
    void (*free)(struct van *v);
};

// The start of every van.
struct van {
    const struct van_ops *ops;
};

// Listens. Addresses: "tcp://HOST:PORT" (port 0: any; [::1] for IPv6), "unix:///PATH"; of
// tests "inproc://NAME", "sim://NAME". *ret is the address that peers connect to. TUG_EIO
// saying which address, why, and what to do; TUG_EUSAGE: that is not an address.
static inline int van_listen(struct van *v, const char *address,
                             char ret[VAN_ADDRESS_MAX], struct err *e)
{
    return v->ops->listen(v, address, ret, e);
}

// Connects; tried again until timeout_ns have passed. On tcp `address` may be several
// with commas between, as a node has that listens on a Unix socket and on TCP: they are
// tried in this order. Errors come as `closed`, never inside this call. 0: out of memory.
static inline van_link van_connect(struct van *v, const char *address,
                                   uint64_t timeout_ns)
{
    return v->ops->connect(v, address, timeout_ns);
}

// Sends `msg`, a struct msg_x of the type (wire/wire.h). What its fields point at is
// copied, but for spans with a `release`. 0; TUG_EUSAGE: too long; TUG_ENOMEM; TUG_EIO:
// the link is closed or not yet open. The release is called in every case.
static inline int van_send(struct van *v, van_link link, uint16_t type, uint64_t request,
                           const void *msg, const struct van_release *release)
{
    return v->ops->send(v, link, type, request, msg, release);
}

// Closes a link; what is queued still goes out, for a moment. 0 is fine.
static inline void van_close_link(struct van *v, van_link link)
{
    v->ops->close_link(v, link);
}

// Bytes that wait to be sent on a link.
static inline uint64_t van_queued(const struct van *v, van_link link)
{
    return v->ops->queued(v, link);
}

// "tcp://10.0.0.7:40112" of the other end, for messages; valid until the link closes.
static inline const char *van_peer(const struct van *v, van_link link)
{
    return v->ops->peer(v, link);
}

// Whom the link is to, as far as its kind tells. From `opened` on it stays as it is.
static inline enum van_kind van_kind(const struct van *v, van_link link)
{
    return v->ops->kind(v, link);
}

// Of an open link. Between threads, and of one that is closed: an operator without a
// certificate (nothing more will come from a closed link).
static inline struct van_trust van_trust(const struct van *v, van_link link)
{
    struct van_trust t = {.role = WIRE_OPERATOR};
    if (v->ops->trust != NULL)
        v->ops->trust(v, link, &t);
    return t;
}

// Who is at the other end has joined the cluster: its link is not closed to make room for
// another's. There may be no such link any more.
static inline void van_joined(struct van *v, van_link link)
{
    if (v->ops->joined != NULL)
        v->ops->joined(v, link);
}

// When something came on the link last (by van_now), be it a part of a message, or when
// it was accepted; 0: neither, or there is no such link.
static inline uint64_t van_heard(const struct van *v, van_link link)
{
    return v->ops->heard(v, link);
}

// Inside `message`: keeps the body (not one that was placed) until van_unkeep of what is
// returned. NULL: out of memory, or there is no body.
static inline void *van_keep(struct van *v, struct van_message *m)
{
    return v->ops->keep(v, m);
}

static inline void van_unkeep(struct van *v, void *kept)
{
    v->ops->unkeep(v, kept);
}

// What does the same when the van is gone: for what somebody keeps beyond its end. From any
// thread. NULL: nothing may be kept so long.
static inline void (*van_dropper(const struct van *v))(void *kept)
{
    return v->ops->drop;
}

// Nanoseconds since some fixed moment: what handlers get as `now`.
static inline uint64_t van_now(const struct van *v)
{
    return v->ops->now(v);
}

// Small messages that are sent from here on wait for the next van_poll and then leave
// together: for who sends several before polling. Large ones leave at once, as ever.
static inline void van_hold(struct van *v)
{
    if (v->ops->hold != NULL)
        v->ops->hold(v);
}

// A descriptor that can be read when van_poll would find something, for who waits for that
// without the van; -1: this van has none. What was sent, connected or closed since the last
// poll it does not tell of: see van_unsettled.
static inline int van_descriptor(const struct van *v)
{
    return v->ops->descriptor != NULL ? v->ops->descriptor(v) : -1;
}

// Whether something has been left to the next van_poll that the descriptor does not tell of.
static inline bool van_unsettled(const struct van *v)
{
    return v->ops->unsettled != NULL && v->ops->unsettled(v);
}

// While it is on, bodies with a `release` are left to the next van_poll: another thread
// than the one that sends polls soon, and has the time for it.
static inline void van_defer(struct van *v, bool on)
{
    if (v->ops->defer != NULL)
        v->ops->defer(v, on);
}

// Waits for events until `until` (by van_now; at most until the handler's next tick),
// runs the handlers of what came, then tick. Returns 0 after at least one round; TUG_EIO
// when the van itself is broken.
static inline int van_poll(struct van *v, uint64_t until, struct err *e)
{
    return v->ops->poll(v, until, e);
}

// From any thread: van_poll returns soon.
static inline void van_wake(struct van *v)
{
    v->ops->wake(v);
}

// Closes all links without calling handlers, and frees. NULL is fine.
static inline void van_free(struct van *v)
{
    if (v != NULL)
        v->ops->free(v);
}

#endif
