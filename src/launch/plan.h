// Plans a run: the command line, environment and standard input of each role.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_LAUNCH_PLAN_H
#define TUG_LAUNCH_PLAN_H

#include "launch/argv.h"
#include "launch/exit_policy.h"
#include "launch/hosts.h"
#include "launch/launch.h"
#include "launch/secrets.h"

enum { PLAN_ADDRESS_MAX = 256 };

struct plan {
    const struct launch_options *o;
    // When it is known: HOST:PORT, or addresses with commas between.
    char scheduler[PLAN_ADDRESS_MAX];
    bool sockets;                // of Unix, besides TCP
    char host[PLAN_ADDRESS_MAX]; // of the scheduler
    uint16_t port;               // of the scheduler; 0: it finds one
    uint16_t *server_ports;      // programs: of Paddle's list
    bool spin;
    struct hosts hosts; // n == 0: this machine
    struct secrets secrets;
    char job[64]; // name of the run's directory on the hosts
};

int plan_open(struct plan *p, const struct launch_options *o, struct err *e);
void plan_close(struct plan *p);

// The words that a role's command line is wrapped by, or NULL.
const char *plan_wrap(const struct plan *p, enum launch_role role, uint32_t rank);

// The host; NULL: this machine. And the beginning of a command line of ssh.
const struct host *plan_host(const struct plan *p, enum launch_role role, uint32_t rank);
int plan_ssh(struct argv *argv, const struct host *h);

// p->scheduler is known, but for the scheduler's own.
int plan_role(struct plan *p, enum launch_role role, uint32_t rank, struct argv *ret_argv,
              struct argv *ret_env, struct buf *ret_input, struct err *e);

#endif
