// The processes of a cluster that is measured: the scheduler in this process, servers and
// workers forked from it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BENCH_NODES_H
#define TUG_BENCH_NODES_H

#include <semaphore.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "bench/bench.h"
#include "cluster/node.h"
#include "cluster/scheduler/scheduler.h"

enum { BENCH_NODES_MAX = 192 };

// Memory that all processes share. It is the first member of a measurement's own struct.
struct bench_shared {
    // Posted once for each process when the scheduler listens at `address`.
    sem_t listening;
    sem_t late; // posted once for each server that joins late
    char address[VAN_ADDRESS_MAX];
    atomic_flag failing; // the process that sets it first writes `error`
    atomic_bool failed;
    char error[ERR_TEXT_MAX];
};

struct bench_nodes {
    const struct bench_options *o;
    uint32_t servers, workers, late_servers;
    uint32_t partition_bits;
    uint32_t replicas;     // 0: 1
    const char *save_root; // the directory below which servers write saves; NULL: none
    // Runs a worker. All workers call it at the same time.
    int (*work)(struct bench_nodes *b, struct node *n, struct err *e);
    struct bench_shared *shared;
    // Only nodes.c uses the members below.
    double began; // clock_seconds() when the first process was started
    pid_t pids[BENCH_NODES_MAX];
    uint32_t n_pids;
    struct node node; // the scheduler's node
    char token[TOKEN_TEXT_MAX];
    struct van *van;
    struct scheduler *scheduler;
};

// Maps zeroed memory that forked processes share, for a struct of `bytes` bytes that begins
// with a struct bench_shared. munmap frees it.
int bench_share(struct bench_shared **ret, size_t bytes, struct err *e);

// Starts all processes and the scheduler.
int bench_nodes_open(struct bench_nodes *b, struct err *e);
// Lets the scheduler serve for about `ns`, or until the cluster has ended. If it has ended,
// sets *ret_over, and returns the error of a process if there was one.
int bench_nodes_serve(struct bench_nodes *b, uint64_t ns, bool *ret_over, struct err *e);
// Lets the scheduler serve for these seconds. If the cluster ends before, returns an error.
int bench_nodes_run(struct bench_nodes *b, double seconds, struct err *e);
// Returns the CPU seconds that processes [first, first + n) have used, in the order in which
// they were started: servers, workers, servers that join late.
double bench_nodes_cpu(const struct bench_nodes *b, uint32_t first, uint32_t n);
// Returns the id of a process's node, by its place in this order; 0 if it has not joined.
uint32_t bench_nodes_id(const struct bench_nodes *b, uint32_t i);
// Kills a process (SIGKILL), by its place in this order.
void bench_nodes_kill(const struct bench_nodes *b, uint32_t i);
// Ends what is open, and waits for all processes; with kill_now they are killed at once.
// Returns rc, or the error of the first process that failed.
int bench_nodes_close(struct bench_nodes *b, int rc, struct err *e);

#endif
