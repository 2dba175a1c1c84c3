// Two ends of one connection over loopback, each with a thread: a plain TCP socket, the
// van, or the van with TLS. `tug bench van` compares them.
//
// One end sends messages; the other end receives each into the same buffer and
// acknowledges it. All pairs set the same socket options (TCP_NODELAY, cubic, the
// system's buffer sizes) and poll equally long before they sleep.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_PAIR_H
#define TUG_BENCH_PAIR_H

#include <stdint.h>

#include "os/json.h"

struct tls;

struct bench_pair_options {
    struct tls *tls;
    uint64_t max_bytes; // size of the longest message
    uint64_t spin_ns;
    uint64_t timeout_ns; // the longest wait for an answer, in ns
};

struct bench_pair {
    void (*close)(struct bench_pair *p);
    // Sends a message of `bytes` bytes, without waiting for its answer.
    int (*send)(struct bench_pair *p, uint64_t bytes, struct err *e);
    // Waits for the answer of the oldest message that has none yet.
    int (*await)(struct bench_pair *p, struct err *e);
};

int bench_pair_socket(struct bench_pair **ret, const struct bench_pair_options *o,
                      struct err *e);
int bench_pair_van(struct bench_pair **ret, const struct bench_pair_options *o,
                   struct err *e);

// Sends messages for `seconds`, with `in_flight` under way. *ret becomes the bytes per
// second.
int bench_pair_stream(struct bench_pair *p, uint64_t bytes, uint64_t in_flight,
                      double seconds, double *ret, struct err *e);

// Measures the rate that the cipher allows TLS on this CPU: the bytes per second of
// records that one core encrypts, and decrypts, with AES-128-GCM.
int bench_cipher(double seconds, json_t *figures, struct err *e);

static inline void bench_pair_close(struct bench_pair *p)
{
    if (p != NULL)
        p->close(p);
}

#endif
