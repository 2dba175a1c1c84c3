// The van over TCP and Unix sockets, with TLS 1.3 and mutual authentication.
//
// Without TLS a van refuses to listen on, or connect to, addresses other than loopback,
// unless `insecure` is set. With TLS both ends show a certificate of the cluster's CA; a
// peer without such a certificate gets no data, and its messages are not read. TLS also
// detects damaged bytes. On links between machines without TLS, each body carries a
// checksum.
//
// If there is a `prover`, both ends prove that they belong to the cluster before a link
// is opened (van/handshake.h): by TLS, by the user at the other end of a Unix socket, or
// by the cluster's token. A peer whose proof fails gets an error with the reason, and the
// handler's `refused` is called.
//
// An accepted peer is a stranger until its first message has arrived. This message may
// have at most 16 KiB (a hello fits) and must arrive within hello_timeout_ns. For a link
// whose TLS handshake fails, `opened` is never called, and on the accepting end `closed`
// is not called either; the dialler gets the reason.
//
// If a peer connects while there are max_links links, or while few descriptors are left,
// the link of the oldest stranger is closed. If there are no strangers, the handshake
// first shows the role of the new peer. Then a link that has not joined (van_joined) is
// closed if it has been silent for some time or the new peer's role ranks high enough
// (goes_for in tcp_limits.c). If there is no such link, the new peer gets MSG_ERROR (on
// plain links) and its link is closed. There are never more than max_strangers strangers.
// So silent strangers, however many connect, cannot keep members of the cluster out.
//
// `budget` counts the memory of accepted links: the links themselves, messages that have
// arrived in part, and bytes that peers have not read yet. A message for which there is
// no room is read and discarded, and answered by MSG_ERROR (with REASON_NO_ROOM, or a
// text that it will never fit). If a peer stops in the middle of a message, or reads none
// of the bytes that wait for it, its link is closed after stall_timeout_ns. If a peer's
// link holds much memory and transfers few bytes, it is closed after slow_timeout_ns
// while other peers are refused for lack of room. When there is no room for more answers,
// the link with the most unread answers is closed.
//
// The loop is libuv's. The first van of a process ignores SIGPIPE, unless the program has
// its own handler: writing to a closed socket then fails instead of ending the process. A
// `release` may free memory, but calls no function of the van.
//
// A van that listens on 0.0.0.0 or [::] gives out the address of this machine's default
// route (os/route.h).
//
// Bulk data is received directly into the memory that the handler's `place` returns, and
// sent directly from the sender's memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_TCP_H
#define TUG_VAN_TCP_H

#include "van/van.h"

struct budget;
struct tls;    // the keys of a node: van/tls.h
struct prover; // the proofs of nodes without keys (van/handshake.h)

struct tcp_options {
    struct tls *tls; // NULL: links are plain; belongs to the caller, may be shared by
                     // vans
    bool insecure;   // allows plain links off loopback
    // The handshake of links; NULL: links have no handshake, and every peer is trusted
    // (tests, measurements). Belongs to the caller, may be shared by vans.
    const struct prover *prover;
    // van_poll spins for this long before it sleeps, which saves a request about 50 us of
    // waking. 0: never spins, as is best if a machine has more loops than cores.
    uint64_t spin_ns;
    // An accepted link is closed if it has not sent a whole first message in this time;
    // 0: 10 s.
    uint64_t hello_timeout_ns;
    // An accepted link is closed if for this time it stops in the middle of a message, or
    // reads none of its answers; 0: 60 s.
    uint64_t stall_timeout_ns;
    // An accepted link is closed if for this time it moves few bytes while other peers
    // are refused for lack of room; 0: 5 s.
    uint64_t slow_timeout_ns;
    // If the token of this node is missing or refused, the node dials again for this
    // time, because the scheduler may be about to write a new token; 0: 3 s.
    uint64_t token_timeout_ns;
    uint32_t max_links; // most accepted links at a time; 0: as many as descriptors allow
    // Most accepted links at a time that have sent no message yet; 0: 1024.
    uint32_t max_strangers;
    struct budget *budget; // limits the memory of the process; NULL: no limit
};

int tcp_van_open(struct van **ret, const struct tcp_options *o,
                 const struct van_handler *h, struct err *e);

// Sets an additional address, such as a proxy's, by which peers reach the van's listener,
// so that handshakes for that address are valid. Call it before the van is polled.
void tcp_van_known_as(struct van *v, const char *address);

#endif
