// The van over TCP and Unix sockets, with TLS 1.3 and mutual authentication.
//
// Off loopback a van refuses to listen or connect without TLS unless `insecure` says so.
// With TLS both ends show a certificate of the cluster's CA; who has none is told nothing
// and can do nothing. Bytes are checked by TLS then; without it, off loopback, each body
// carries a checksum.
//
// Bulk data is read straight to where the handler's `place` says, and sent straight from
// the sender's memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_TCP_H
#define TUG_VAN_TCP_H

#include "van/van.h"

struct tls; // the keys of a node: van/tls.h

struct tcp_options {
    struct tls *tls; // NULL: plain; belongs to the caller, may be shared by vans
    bool insecure;   // plain off loopback is meant
    // van_poll looks again and again for this long before it sleeps: about 50 us of
    // waking saved for a request. 0 where loops outnumber the cores.
    uint64_t spin_ns;
    uint64_t
        hello_timeout_ns; // an accepted link that has not sent a whole first message by
                          // then is closed; 0: 10 s
    uint64_t
        stall_timeout_ns; // so is one that stands still in the middle of a message; 0:
                          // 60 s
    uint32_t max_links;   // accepted ones, at the same time; 0: 4096
};

int tcp_van_open(struct van **ret, const struct tcp_options *o,
                 const struct van_handler *h, struct err *e);

#endif
