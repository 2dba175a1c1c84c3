// The parts of `tug bench kvstore`, which compares rounds of push and pull of one large
// array by all workers: through a kvstore and, with the same bytes and number of
// processes, through vans alone.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_KVSTORE_H
#define TUG_BENCH_KVSTORE_H

#include <semaphore.h>
#include <stdatomic.h>

#include "bench/bench.h"
#include "van/van.h"

enum { BENCH_KV_ROUNDS = 8, BENCH_KV_NODES = 64 };

// Memory that the processes of one run share.
struct bench_kv_shared {
    // Addresses of the servers that use vans without a kvstore.
    char addresses[BENCH_KV_NODES][VAN_ADDRESS_MAX];
    char scheduler[VAN_ADDRESS_MAX]; // the kvstore's scheduler
    // A server posts its semaphore once for each worker when it listens.
    sem_t listening[BENCH_KV_NODES];
    double seconds[BENCH_KV_NODES]; // the time that each worker's rounds took
    char error[ERR_TEXT_MAX];       // the error of the first process that failed
    atomic_flag failing;
    atomic_bool failed;
};

struct bench_kv {
    const struct bench_options *o;
    struct bench_kv_shared *shared;
    uint32_t rank;
};

// Run a server or a worker from its start to its end. Return 0 or an error.
int bench_kv_van_server(const struct bench_kv *b, struct err *e);
int bench_kv_van_worker(const struct bench_kv *b, struct err *e);

#endif
