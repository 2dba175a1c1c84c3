// Declarations that the files of fleet (tug/fleet.h) share.
//
//   role_maker.c the role of this process
//   fleet.c a fleet: tables, servers, workers
//   exchange.c collective operations of workers
//   rows.c         saves, loads, shrinks, dense parameters
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_FLEET_FLEET_INTERNAL_H
#define TUG_DOORS_FLEET_FLEET_INTERNAL_H

#include "runtime/last_error.h"
#include "runtime/role.h"
#include "tug/fleet.h"

// A list of endpoints; at[i] points into `text`.
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
const char *role_name(int role); // name of an enum tug_fleet_role, such as "worker"

struct fleet_table {
    uint32_t number;
    char *name, *settings; // the settings include the name
    struct tug_variable *variables;
    size_t n_variables;
    struct tug_dense *dense; // open while the worker is in the run; else NULL
};

// A table that server 0 loads before the run.
struct fleet_load {
    uint32_t table; // index in the fleet's list of tables
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
    struct tug_client *client; // the client while the worker is in the run; else NULL
    struct tug_client *lent; // a client that the program has opened, for `client` to use;
                             // NULL: the fleet opens its own client
    struct tug_communicator *communicator;
    char **infos; // the texts of tug_wrapper_set_clients
    size_t n_infos;
};

int fleet_in_run(const struct tug_fleet *f);
int fleet_find(const struct tug_fleet *f, uint32_t number, struct fleet_table **ret);
// Gives all workers the result of worker 0: its error code, its error text and its *value
// (may be NULL). All workers must call this function. `what` names the operation in
// messages, such as "load".
int fleet_agree(struct tug_fleet *f, int rc, const char *what, uint64_t *value);
// Waits for all workers. Returns TUG_EUSAGE if two processes have joined as the same
// worker, TUG_EIO if a worker is missing.
int fleet_exchange_open(struct tug_fleet *f);

#endif
