// Programs on tug/kvapp.h and tug/kvstore.h as real processes: a scheduler, servers and
// workers, forked from the test, each the main function of such a program.
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
    NODES_ADDRESS = 32 // bytes of the address of a scheduler
};

// In a forked process cmocka cannot be asked.
#define expect(x)                                                                        \
    do {                                                                                 \
        if (!(x)) {                                                                      \
            fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #x,       \
                    tug_last_error());                                                   \
            _exit(99);                                                                   \
        }                                                                                \
    } while (0)

// Applies to every process that is started later. A test that kills one does not wait for
// a minute; any other must not take a process for dead because the machine is busy.
extern double nodes_dead_seconds;

// Dead after nodes_dead_seconds, waits for a minute.
void nodes_options(struct tug_node_options *o, int role, const char *scheduler);

typedef int (*nodes_main)(const char *scheduler); // returns 0 or a code of tug/tug.h

// An address of this machine where nobody listens, and a process that ends by itself when
// it has not after 100 seconds.
void nodes_address(char ret[NODES_ADDRESS]);
pid_t nodes_begin(nodes_main fn, const char *scheduler);

// Starts them all: *ret_pids in the order scheduler, servers, workers.
void nodes_start(nodes_main scheduling, nodes_main server, nodes_main worker,
                 char ret_scheduler[NODES_ADDRESS], pid_t ret_pids[NODES_PROCESSES]);

// Runs them all to their ends: *ret_status in the order scheduler, servers, workers.
void nodes_run(nodes_main scheduling, nodes_main server, nodes_main worker,
               int ret_status[NODES_PROCESSES]);

// A scheduler that only waits for the end.
int nodes_schedule(const char *scheduler);

// The scheduler and the servers of a store of tug/kvstore.h.
int nodes_kvstore_schedule(const char *scheduler);
int nodes_kvstore_serve(const char *scheduler);

#endif
