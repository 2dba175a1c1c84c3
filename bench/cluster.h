// What `tug bench cluster` measures: its workers' script, and what comes of it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_CLUSTER_H
#define TUG_BENCH_CLUSTER_H

#include <semaphore.h>
#include <stdatomic.h>

#include "bench/bench.h"
#include "cluster/node.h"

enum { BENCH_FIGURES = 8192 }; // those beyond are lost

// A figure of one worker.
struct bench_figure {
    char name[40];
    double rate;     // keys, or requests, a second
    double p50, p99; // seconds, from the call to the end of the wait
    double bytes;    // sent and received for a key; 0: not counted
};

// Memory that all processes share.
struct bench_shared {
    sem_t listening; // the scheduler does, at `address`; for each process once
    char address[VAN_ADDRESS_MAX];
    atomic_uint n; // figures
    struct bench_figure figures[BENCH_FIGURES];
    atomic_flag failing; // who sets it first says why
    atomic_bool failed;
    char error[ERR_TEXT_MAX];
};

struct bench_worker {
    const struct bench_options *o;
    struct node *node;
    double began; // clock_seconds() when the first process was started
    struct bench_shared *shared;
};

// Runs all measurements; all workers do the same at the same time.
int bench_cluster_worker(const struct bench_worker *w, struct err *e);

#endif
