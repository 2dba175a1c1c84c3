// The roles of a cluster as they run in a process: by `tug scheduler`, `tug server` and
// `tug worker`, and by `tug train` if the environment gives it a role.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_NODES_ROLES_H
#define TUG_CLI_NODES_ROLES_H

#include "cli/nodes/node_options.h"
#include "run/train_options.h"

struct scheduler_values {
    struct node_values node;
    uint64_t servers, workers, replicas;
    double dead_timeout, gather_timeout;
    double server_timeout; // not an option; like dead_timeout, for servers; 0: the same
    bool announce;
    const char *state; // directory of the journal, address of etcd, or NULL
    // Not an option. True if the processes were not started by one command, so some may
    // connect only after the run has failed to begin. The scheduler then stays for a few
    // seconds to send them the reason.
    bool tells_late;
};

struct server_values {
    struct node_values node;
    uint64_t loops, sparse_loops, memory;
    const char *save_root, *cold_root;
    struct option_list load_roots;
};

struct worker_values {
    struct node_values node;
    uint64_t threads;
};

// The training of a run, as options; NULL for a role without a training.
struct training {
    const struct train_options *values;
    const struct options *options;
};

// Sets the options that the user has not given to the values of the role in the
// environment.
void scheduler_values_fill(struct scheduler_values *v, const struct options *o,
                           const struct role *r);

// Returns an option with which a scheduler that is started again could not continue the
// training, because its state is only in the process that was killed. Returns NULL if no
// such option is given.
const char *role_not_kept(const struct train_options *t);

int role_scheduler(const struct scheduler_values *v, const struct training *t,
                   struct err *e);
// When *at_once becomes true, the server ends even if the run still needs it. `at_once`
// may be NULL.
int role_server(const struct server_values *v, const atomic_bool *at_once, struct err *e);
int role_worker(const struct worker_values *v, const struct training *t, struct err *e);

// Parses the words `train ...` after "--"; *ret_options is NULL if there are none.
int training_words(int argc, char *const *argv, struct train_options *values,
                   struct options **ret_options, struct err *e);

// Runs `tug train` in the role that the environment gives it, including Paddle's server
// that also hosts the scheduler.
int role_of_environment(const struct role *r, const struct train_options *t,
                        const struct options *o, struct err *e);

// Runs a trainer of Paddle's first version: a worker; the first trainer also runs the
// driver. The words are options of `tug worker`.
int role_trainer(const struct role *r, const struct training *t, int argc,
                 char *const *argv, struct err *e);

// Runs a server and, on another thread, the scheduler, which Paddle's scheme puts into
// the first server.
int role_first_server(const struct server_values *v, const struct role *r,
                      const struct training *t, struct err *e);

#endif
