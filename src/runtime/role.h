// Reads the role of this process from the environment variables of ps-lite's tracker
// (DMLC_*) or of Paddle's launcher (TRAINING_ROLE, PADDLE_*).
//
//   DMLC_ROLE scheduler|server|worker, DMLC_NUM_WORKER, DMLC_NUM_SERVER,
//   DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT (the scheduler's address); optional:
//   DMLC_NODE_HOST, DMLC_INTERFACE, PORT; DMLC_WORKER_ID or DMLC_SERVER_ID, the rank
//   that this process gets if it is free
//
//   TRAINING_ROLE TRAINER|PSERVER, PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINERS_NUM;
//   trainers PADDLE_TRAINER_ID; servers POD_IP and PADDLE_PORT. Paddle has no scheduler:
//   the first server of the list hosts it, on its own port
//
// If variables of both kinds are set, DMLC_ROLE counts. All missing or wrong variables
// are reported in one error.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUNTIME_ROLE_H
#define TUG_RUNTIME_ROLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/wire.h"

enum { ROLE_TEXT_MAX = 256, ROLE_PROCESSES_MAX = 4096 };

enum role_scheme { ROLE_NONE, ROLE_DMLC, ROLE_PADDLE };

struct role {
    enum role_scheme scheme;
    enum wire_role role;  // WIRE_SCHEDULER, WIRE_SERVER or WIRE_WORKER
    bool hosts_scheduler; // whether this process is the first server of Paddle's list
    uint32_t servers, workers;
    bool has_rank;
    uint32_t rank;
    char scheduler[ROLE_TEXT_MAX]; // the scheduler's HOST:PORT
    char host[ROLE_TEXT_MAX];      // address to listen at; "": not given
    char interface[ROLE_TEXT_MAX]; // network interface to listen at; "": not given
    uint16_t port;                 // port to listen at; 0: any
};

typedef const char *(*role_getenv)(void *ctx, const char *name);

// Reads the role. `known` is the role if the caller knows it, for example from the
// command; otherwise WIRE_NOBODY. The scheme of *ret is ROLE_NONE if the environment
// names no role. Returns TUG_EUSAGE if variables are missing or wrong.
int role_read(struct role *ret, enum wire_role known, role_getenv get, void *ctx,
              struct err *e);

// Returns TUG_EUSAGE if Python's launcher has started this program only in its workers
// (TUG_LAUNCHED=workers). Interfaces whose servers must run the program too call this.
int role_needs_servers(role_getenv get, void *ctx, struct err *e);

// Warns if the rank of this process is not the one that its environment names.
void role_tell_rank(const struct role *r, bool server, uint32_t rank);

#endif
