// Two ends of one connection over loopback, each with a thread: a plain TCP socket, the
// van, or the van with TLS. What `tug bench van` compares.
//
// This end sends messages, the other takes each to the same place in memory and
// acknowledges it. All pairs set the same options of the socket (TCP_NODELAY, cubic, the
// system's buffers) and look for as long before they sleep.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_PAIR_H
#define TUG_BENCH_PAIR_H

#include <stdint.h>

#include "os/json.h"

struct tls;

struct bench_pair_options {
    struct tls *tls;
    uint64_t max_bytes; // of a message
    uint64_t spin_ns;
    uint64_t timeout_ns; // for an answer
};

struct bench_pair {
    void (*close)(struct bench_pair *p);
    // A message of so many bytes, from memory that was written before.
    int (*send)(struct bench_pair *p, uint64_t bytes, struct err *e);
    int (*await)(struct bench_pair *p, struct err *e); // the oldest answer
};

int bench_pair_socket(struct bench_pair **ret, const struct bench_pair_options *o,
                      struct err *e);
int bench_pair_van(struct bench_pair **ret, const struct bench_pair_options *o,
                   struct err *e);

// What TLS can reach at best on this CPU: AES-128-GCM of records by one core, each
// direction's bytes a second.
int bench_cipher(double seconds, json_t *figures, struct err *e);

static inline void bench_pair_close(struct bench_pair *p)
{
    if (p != NULL)
        p->close(p);
}

#endif
