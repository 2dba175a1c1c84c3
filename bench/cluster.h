// What `tug bench cluster` measures: its workers' script, and the records that come of
// it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_CLUSTER_H
#define TUG_BENCH_CLUSTER_H

#include <limits.h>

#include "bench/bench.h"
#include "cluster/node.h"

// A figure of one worker.
struct bench_figure {
    char name[40];
    double rate;     // keys, or requests, a second
    double p50, p99; // seconds, from the call to the end of the wait
    double bytes;    // sent and received for a key; 0: not counted
};

// What is written to the parent's pipe at one go.
struct bench_record {
    struct bench_figure figure;
    char error[ERR_TEXT_MAX]; // not empty: there is no figure, but this
};

_Static_assert(sizeof(struct bench_record) <= PIPE_BUF, "records do not mix");

struct bench_worker {
    const struct bench_options *o;
    struct node *node;
    double began; // clock_seconds() when the first process was started
    int results;  // the pipe
};

// Runs all measurements; all workers do the same at the same time.
int bench_cluster_worker(const struct bench_worker *w, struct err *e);

#endif
