// Programs on tug/kvapp.h and tug/kvstore.h as real processes: a scheduler, servers and
// workers, forked from the test. Each runs a function as the main function of such a
// program.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_NODES_H
#define TUG_KIT_NODES_H

#include <stdio.h>
#include <unistd.h>

#include "kit/test.h"
#include "tug/kvapp.h"

enum {
    NODES_SERVERS = 2,
    NODES_WORKERS = 2,
    NODES_PROCESSES = 1 + NODES_SERVERS + NODES_WORKERS,
    NODES_ADDRESS = 32 // bytes of a scheduler's address
};

// An assertion for forked processes, where cmocka cannot be used.
#define expect(x)                                                                        \
    do {                                                                                 \
        if (!(x)) {                                                                      \
            fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #x,       \
                    tug_last_error());                                                   \
            _exit(99);                                                                   \
        }                                                                                \
    } while (0)

// Seconds without a sign of life after which a process is declared dead; it applies to
// every process that is started later. Tests that kill a process set it low, to avoid
// waiting a minute; other tests must not declare a process dead because the machine is
// busy.
extern double nodes_dead_seconds;

// Sets the options of a node: dead after nodes_dead_seconds, waits of up to a minute.
void nodes_options(struct tug_node_options *o, int role, const char *scheduler);

typedef int (*nodes_main)(const char *scheduler); // returns 0 or a code of tug/tug.h

// nodes_address sets `ret` to an unused address of this machine; nodes_begin forks a
// process, which ends by itself after 100 seconds.
void nodes_address(char ret[NODES_ADDRESS]);
pid_t nodes_begin(nodes_main fn, const char *scheduler);

// Starts all processes. *ret_pids are in the order scheduler, servers, workers.
void nodes_start(nodes_main scheduling, nodes_main server, nodes_main worker,
                 char ret_scheduler[NODES_ADDRESS], pid_t ret_pids[NODES_PROCESSES]);

// Runs all processes to their end. *ret_status are their exit statuses, in the order
// scheduler, servers, workers.
void nodes_run(nodes_main scheduling, nodes_main server, nodes_main worker,
               int ret_status[NODES_PROCESSES]);

// A scheduler that only waits for the end.
int nodes_schedule(const char *scheduler);

// The scheduler and the servers of a store of tug/kvstore.h.
int nodes_kvstore_schedule(const char *scheduler);
int nodes_kvstore_serve(const char *scheduler);

#endif
