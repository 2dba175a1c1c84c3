// The interface between `tug bench moves`, `tug bench replicas` and their workers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_MOVES_H
#define TUG_BENCH_MOVES_H

#include "bench/nodes.h"

struct client;

enum { BENCH_MOVES_WORKERS = 17, BENCH_MOVES_SEEN = 1 << 20, BENCH_ORDER_KEYS = 1024 };

// The number of requests that a worker has under way, at first and at most.
enum { BENCH_IN_FLIGHT = 2, BENCH_IN_FLIGHT_MAX = 8 };

// A request that a worker has made.
struct bench_seen {
    double ended; // clock_seconds() at the end of the request
    double took;
    uint32_t keys;
};

// The requests that workers send: pushes and pulls in turn, or only one kind.
enum bench_load { BENCH_LOAD_BOTH, BENCH_LOAD_PUSHES, BENCH_LOAD_PULLS };

// The orders of the last worker, if it sends no load: to push keys, each in a push of its
// own and all at the same time; or to save the table.
enum bench_order { BENCH_ORDER_PUSH_EACH, BENCH_ORDER_SAVE };

struct bench_orders {
    // Numbers of the orders that were given, and that were carried out. `given` is set
    // last, and `done` after the results.
    atomic_uint given, done;
    enum bench_order what;
    uint32_t n; // number of keys
    uint64_t keys[BENCH_ORDER_KEYS];
    double acknowledged[BENCH_ORDER_KEYS]; // clock_seconds() at the end of each push
    char dir[FILE_PATH_MAX];               // directory for saves
    double began, ended;                   // clock_seconds() around a save
};

struct bench_moves_plan {
    uint32_t servers, workers; // numbers of processes, without the server that joins late
    uint32_t bits;             // the tables have 2^bits partitions
    uint64_t keys;             // number of keys in the table
    uint32_t floats;           // number of floats of a row
    bool loaded;               // workers push and pull without a pause
    bool obeys;                // the last worker carries out orders instead
};

// Memory that all processes share.
struct bench_moves {
    struct bench_shared shared;
    struct bench_moves_plan plan;
    atomic_uint filled; // the number of workers that have filled their part of the table
    atomic_bool stop;   // tells workers to leave
    _Atomic enum bench_load load;
    atomic_uint in_flight;
    atomic_uint n[BENCH_MOVES_WORKERS]; // number of requests of each worker
    struct bench_orders orders;
    struct bench_seen seen[BENCH_MOVES_WORKERS][BENCH_MOVES_SEEN];
};

uint64_t bench_moves_key(uint64_t number); // returns the table's key with this number
// Waits until the workers have filled the table, at most `patience` seconds.
int bench_moves_fill(struct bench_nodes *b, double patience, struct err *e);
int bench_moves_worker(struct bench_nodes *b, struct node *n, struct err *e);

// Gives the last worker the order whose arguments were set. bench_order_wait waits until it
// was carried out, at most `patience` seconds.
void bench_order(struct bench_nodes *b, enum bench_order what);
int bench_order_wait(struct bench_nodes *b, double patience, struct err *e);
// Carries out the next order, if there is one: the client is that of the last worker, and
// `values` has a row of zeros.
int bench_order_obey(struct bench_moves *m, struct client *c, uint32_t table,
                     const float *values, struct err *e);

#endif
