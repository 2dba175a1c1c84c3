// The interface between `tug bench moves`, `tug bench replicas` and their workers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_MOVES_H
#define TUG_BENCH_MOVES_H

#include "bench/nodes.h"

enum { BENCH_MOVES_WORKERS = 16, BENCH_MOVES_SEEN = 1 << 20 };

// A request that a worker has made.
struct bench_seen {
    double ended; // clock_seconds() at the end of the request
    double took;
    uint32_t keys;
};

// The requests that workers send: pushes and pulls in turn, or only one kind.
enum bench_load { BENCH_LOAD_BOTH, BENCH_LOAD_PUSHES, BENCH_LOAD_PULLS };

struct bench_moves_plan {
    uint32_t servers, workers; // numbers of processes, without the server that joins late
    uint32_t bits;             // the tables have 2^bits partitions
    uint64_t keys;             // number of keys in the table
    uint32_t floats;           // number of floats of a row
    bool loaded;               // workers push and pull without a pause
};

// Memory that all processes share.
struct bench_moves {
    struct bench_shared shared;
    struct bench_moves_plan plan;
    atomic_uint filled; // the number of workers that have filled their part of the table
    atomic_bool stop;   // tells workers to leave
    _Atomic enum bench_load load;
    atomic_uint n[BENCH_MOVES_WORKERS]; // number of requests of each worker
    struct bench_seen seen[BENCH_MOVES_WORKERS][BENCH_MOVES_SEEN];
};

uint64_t bench_moves_key(uint64_t number); // returns the table's key with this number
// Waits until the workers have filled the table, at most `patience` seconds.
int bench_moves_fill(struct bench_nodes *b, double patience, struct err *e);
int bench_moves_worker(struct bench_nodes *b, struct node *n, struct err *e);

#endif
