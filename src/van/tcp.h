// The van over TCP and Unix sockets, with TLS 1.3 and mutual authentication.
//
// Off loopback a van refuses to listen or connect without TLS unless `insecure` says so.
// With TLS both ends show a certificate of the cluster's CA; who has none is told nothing
// and can do nothing. Bytes are checked by TLS then; without it, off loopback, each body
// carries a checksum.
//
// With a `prover` both ends show that they belong to the cluster before a link is opened
// (van/handshake.h): by TLS, by the user at the other end of a Unix socket, or by the
// cluster's token. Who does not is told why, and the handler's `refused` hears of it.
//
// A peer that came is a stranger until its first message is there: that has at most 16
// KiB (a hello fits), and a time by which it must have come. A link whose TLS handshake
// fails is never `opened`, and at the end that accepted it not `closed` either; the
// other end is told why. When there are max_links, or hardly a descriptor is left, and
// another one comes, the stranger that has been there for longest is closed; if there is
// none, a link of a lesser role that has not joined (van_joined), once the handshake has
// shown whose role is greater; else who comes is sent MSG_ERROR (plain) and closed.
// There are never more than max_strangers: however many come and say nothing, who
// belongs here finds room.
//
// What accepted links cost is counted in the account `budget`: the links, messages that
// have come in part, and what their peers have not taken yet. A message for which there
// is no room is read and thrown away, and answered by MSG_ERROR (VAN_NO_ROOM, or that it
// never fits). A peer that stands still in the middle of a message, or takes nothing of
// what waits for it, is closed after stall_timeout_ns; while others are refused for want
// of room, who holds much and moves little is closed after 5 s; and who has most unread
// answers, when there is no room for more.
//
// The loop is libuv's. The first van of a process ignores SIGPIPE, unless the program has
// a handler of its own: a peer that is gone is an error of a call. A `release` may free
// memory, but calls no function of the van.
//
// A van that listens on 0.0.0.0 or [::] gives out the address of this machine's default
// route (base/route.h).
//
// Bulk data is read straight to where the handler's `place` says, and sent straight from
// the sender's memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_TCP_H
#define TUG_VAN_TCP_H

#include "van/van.h"

struct budget;
struct tls;    // the keys of a node: van/tls.h
struct prover; // what it shows without them: van/handshake.h

struct tcp_options {
    struct tls *tls; // NULL: plain; belongs to the caller, may be shared by vans
    bool insecure;   // plain off loopback is meant
    // The handshake of links; NULL: there is none, and whoever comes is believed (tests,
    // measurements). Belongs to the caller, may be shared by vans.
    const struct prover *prover;
    // van_poll looks again and again for this long before it sleeps: about 50 us of
    // waking saved for a request. 0 where loops outnumber the cores.
    uint64_t spin_ns;
    // An accepted link that has not sent a whole first message by then is closed; 0: 10
    // s.
    uint64_t hello_timeout_ns;
    // So is a link that stands still in the middle of a message, or reads nothing of its
    // answers; 0: 60 s.
    uint64_t stall_timeout_ns;
    // While others are refused for want of room: a link that moves little; 0: 5 s.
    uint64_t slow_timeout_ns;
    // A node that cannot show the token dials again for so long: the scheduler may be about
    // to leave a new one; 0: 3 s.
    uint64_t token_timeout_ns;
    uint32_t max_links;     // accepted ones, at the same time; 0: as descriptors allow
    uint32_t max_strangers; // of them that have said nothing yet; 0: 1024
    struct budget *budget;  // of the process; NULL: no limit
};

int tcp_van_open(struct van **ret, const struct tcp_options *o,
                 const struct van_handler *h, struct err *e);

// Others reach the van's listener by this address, a proxy's: a handshake for it is for
// this van, too. To be said before the van is polled.
void tcp_van_known_as(struct van *v, const char *address);

#endif
