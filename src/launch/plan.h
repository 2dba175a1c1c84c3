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
#include "os/file.h"

enum { PLAN_ADDRESS_MAX = 256 };

struct plan {
    const struct launch_options *o;
    // The scheduler's address, HOST:PORT, or several addresses separated by commas; "": not
    // known yet.
    char scheduler[PLAN_ADDRESS_MAX];
    bool sockets;                // use Unix sockets besides TCP
    char host[PLAN_ADDRESS_MAX]; // the scheduler's host
    uint16_t port;               // the scheduler's port; 0: the scheduler chooses a port
    uint16_t *server_ports;      // for programs: the ports in Paddle's list of servers
    int *held;                   // sockets that hold chosen ports until the run has ended
    uint32_t n_held;
    // The host of the option --http; "": the option was not given, or is a Unix socket.
    char http_host[PLAN_ADDRESS_MAX];
    // The ports of the pages of --http: of the scheduler, the servers, and the workers.
    uint16_t *http_ports;
    bool spin;
    bool joins;         // the server whose command is made next joins a running cluster
    struct hosts hosts; // n == 0: all processes run on this machine
    struct secrets secrets;
    char job[64];              // name of the run's directory on the hosts
    char state[FILE_PATH_MAX]; // directory of the scheduler's state; "": it has none
};

int plan_open(struct plan *p, const struct launch_options *o, struct err *e);
void plan_close(struct plan *p);

// Returns the command of --wrap for this process, which runs the process's command line;
// NULL: none.
const char *plan_wrap(const struct plan *p, enum launch_role role, uint32_t rank);

// plan_host returns the host of a process; NULL: this machine. plan_ssh begins a command
// line that runs a command on a host through ssh.
const struct host *plan_host(const struct plan *p, enum launch_role role, uint32_t rank);
int plan_ssh(struct argv *argv, const struct host *h);

// plan_http_choose chooses the addresses of --http; plan_http_add adds the option to a
// role's command line.
int plan_http_choose(struct plan *p, struct err *e);
int plan_http_add(struct argv *w, const struct plan *p, enum launch_role role,
                  uint32_t rank);
// Writes the address of the scheduler's page, HOST:PORT. Must not be called if --http is a
// Unix socket.
void plan_http_scheduler(const struct plan *p, char ret[PLAN_ADDRESS_MAX + 16]);
// Writes the file of --http-targets: the processes for which runs[i] is true, in the order
// of http_ports, and then the launcher. Does nothing if the option is not given.
int plan_write_targets(const struct plan *p, const bool *runs, struct err *e);

// Makes the command line, environment and standard input of a process. For processes other
// than the scheduler, p->scheduler must be known.
int plan_role(struct plan *p, enum launch_role role, uint32_t rank, struct argv *ret_argv,
              struct argv *ret_env, struct buf *ret_input, struct err *e);

#endif
