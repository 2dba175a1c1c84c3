// What `tug bench kvstore` compares: rounds of push and pull of one large array by all
// workers, through a kvstore and, the same bytes between as many processes, through vans
// alone.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_KVSTORE_H
#define TUG_BENCH_KVSTORE_H

#include <semaphore.h>
#include <stdatomic.h>

#include "bench/bench.h"
#include "van/van.h"

enum { BENCH_KV_ROUNDS = 8, BENCH_KV_NODES = 64 };

// Memory that a turn's processes share.
struct bench_kv_shared {
    char addresses[BENCH_KV_NODES][VAN_ADDRESS_MAX]; // of servers that are vans alone
    char scheduler[VAN_ADDRESS_MAX];                 // of the kvstore
    sem_t listening[BENCH_KV_NODES]; // each server does; posted for each worker
    double seconds[BENCH_KV_NODES];  // that a worker's rounds took
    char error[ERR_TEXT_MAX];        // of the first that failed
    atomic_flag failing;
    atomic_bool failed;
};

struct bench_kv {
    const struct bench_options *o;
    struct bench_kv_shared *shared;
    uint32_t rank;
};

// Each is the whole life of a process; 0 or why it failed.
int bench_kv_van_server(const struct bench_kv *b, struct err *e);
int bench_kv_van_worker(const struct bench_kv *b, struct err *e);

#endif
