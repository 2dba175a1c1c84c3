// The measurements behind `tug bench NAME`: each takes its options, measures, and prints
// lines for people or one JSON object.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_BENCH_H
#define TUG_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define BENCH_READ_KEYS 10000000
#define BENCH_GROW_KEYS 100000000

// How close a table comes to the machine's limits. grow_keys 0: that part is left out, as
// it is when memory is short.
struct bench_table_options {
    uint64_t read_keys, grow_keys;
    bool json;
};
int bench_table(const struct bench_table_options *o, struct err *e);

// How fast examples are read and trained on, and what `threads` gain over one.
struct bench_train_options {
    uint64_t rows, epochs;
    int threads;
    bool json;
};
int bench_train(const struct bench_train_options *o, struct err *e);

// What a message costs, and what pushes and pulls of a cluster on this machine do.
struct bench_net_options {
    double seconds;     // of each figure
    double spin_us;     // how long is looked for an answer before sleeping
    uint64_t max_bytes; // longer messages are left out
    uint32_t servers, workers;
    uint64_t keys; // in the cluster's tables
    bool sockets;  // the cluster's processes use Unix sockets
    bool json;
};
int bench_van(const struct bench_net_options *o, struct err *e);
int bench_cluster(const struct bench_net_options *o, struct err *e);

// Tables of rows with a life: applying rules, saves, shrink, rows on disk.
struct bench_store_options {
    uint64_t rows;
    uint64_t hot_rows; // of tier: in memory; 0: a tenth
    const char *dir;   // for what is written
    bool json;
};
int bench_rules(const struct bench_store_options *o, struct err *e);
int bench_save(const struct bench_store_options *o, struct err *e);
int bench_shrink(const struct bench_store_options *o, struct err *e);
int bench_tier(const struct bench_store_options *o, struct err *e);

#endif
