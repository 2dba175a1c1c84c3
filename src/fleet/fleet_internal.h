// What the files of fleet (tug/fleet.h) share.
//
//   role_maker.c   who this process is
//   fleet.c        a fleet: its tables, servers, workers, the end
//   exchange.c     what workers tell each other, by way of a table
//   rows.c         saves, loads, shrinks, dense parameters
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FLEET_FLEET_INTERNAL_H
#define TUG_FLEET_FLEET_INTERNAL_H

#include "facade/last_error.h"
#include "facade/role.h"
#include "tug/fleet.h"

// Endpoints, cut out of one text.
struct endpoints {
    char *text;
    const char **at;
    size_t n;
};

struct tug_role_maker {
    struct role role;
    bool alone;
    struct endpoints servers, workers;
};

int role_maker_copy(struct tug_role_maker **ret, const struct tug_role_maker *m,
                    struct err *e);
const char *role_name(int role); // of enum tug_fleet_role: "worker"

struct fleet_table {
    uint32_t number;
    char *name, *settings; // with the name
    struct tug_variable *variables;
    size_t n_variables;
    struct tug_dense *dense; // in a run
};

// The save that server 0 loads before the run.
struct fleet_load {
    uint32_t table; // its place among the fleet's
    char *path;
};

struct tug_fleet {
    struct tug_role_maker *roles;
    struct fleet_table *tables;
    size_t n_tables;
    double wait_seconds;
    uint32_t local_loops;
    struct fleet_load *loads;
    size_t n_loads;
    struct tug_client *client; // in a run
    struct tug_client *lent;   // the caller's, which becomes it
    uint32_t round;            // of the exchange, from 1
    struct tug_communicator *communicator;
    char **infos; // of tug_wrapper_set_clients
    size_t n_infos;
};

int fleet_in_run(const struct tug_fleet *f);
int fleet_find(const struct tug_fleet *f, uint32_t number, struct fleet_table **ret);
// Shares the result of worker 0: its code and sentence become every worker's, and so does
// *value (may be NULL). `what`: "load".
int fleet_agree(struct tug_fleet *f, int rc, const char *what, uint64_t *value);
// Makes the table of the exchange; whether another process says that it is this worker.
int fleet_exchange_open(struct tug_fleet *f);

#endif
