// The interface between `tug bench cluster` and its workers, which measure.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_CLUSTER_H
#define TUG_BENCH_CLUSTER_H

#include "bench/nodes.h"

enum { BENCH_FIGURES = 8192 }; // figures beyond this number are dropped

// A figure that one worker has measured.
struct bench_figure {
    char name[40];
    double rate; // keys per second; of a barrier, barriers per second
    // Quantiles of the seconds from a request to the end of the wait for it.
    double p50, p99;
    double bytes; // bytes sent and received per key; 0: not counted
};

// Memory that all processes share.
struct bench_figures {
    struct bench_shared shared;
    atomic_uint n; // number of figures that were added, including those dropped
    struct bench_figure list[BENCH_FIGURES];
};

// Runs all measurements. All workers call it at the same time.
int bench_cluster_worker(struct bench_nodes *b, struct node *n, struct err *e);

#endif
