// The interface between `tug bench cluster` and its workers, which measure.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_CLUSTER_H
#define TUG_BENCH_CLUSTER_H

#include <semaphore.h>
#include <stdatomic.h>

#include "bench/bench.h"
#include "cluster/node.h"

enum { BENCH_FIGURES = 8192 }; // figures beyond this number are dropped

// A figure that one worker has measured.
struct bench_figure {
    char name[40];
    double rate;     // keys, or requests, per second
    double p50, p99; // seconds from the call to the end of its wait
    double bytes;    // bytes sent and received per key; 0: not counted
};

// Memory that all processes share.
struct bench_shared {
    // Posted once for each process when the scheduler listens at `address`.
    sem_t listening;
    char address[VAN_ADDRESS_MAX];
    atomic_uint n; // number of figures that were added, also those dropped
    struct bench_figure figures[BENCH_FIGURES];
    atomic_flag failing; // the process that sets it first writes `error`
    atomic_bool failed;
    char error[ERR_TEXT_MAX];
};

struct bench_worker {
    const struct bench_options *o;
    struct node *node;
    double began; // clock_seconds() when the first process was started
    struct bench_shared *shared;
};

// Runs all measurements. All workers call it at the same time.
int bench_cluster_worker(const struct bench_worker *w, struct err *e);

#endif
