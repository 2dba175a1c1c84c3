// Roles from the environment, as ps-lite's tracker (DMLC_*) and Paddle's launcher
// (TRAINING_ROLE, PADDLE_*) tell them.
//
//   DMLC_ROLE scheduler|server|worker, DMLC_NUM_WORKER, DMLC_NUM_SERVER,
//   DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT (the scheduler); may be there:
//   DMLC_NODE_HOST, DMLC_INTERFACE, PORT
//
//   TRAINING_ROLE TRAINER|PSERVER, PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINERS_NUM;
//   trainers PADDLE_TRAINER_ID; servers POD_IP and PADDLE_PORT. No scheduler is named:
//   the first server of the list hosts it, on its own port
//
// DMLC_ROLE counts where both are there. All missing or wrong settings are reported at
// once.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_ROLE_H
#define TUG_FACADE_ROLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/wire.h"

enum { ROLE_TEXT_MAX = 256, ROLE_PROCESSES_MAX = 4096 };

enum role_scheme { ROLE_NONE, ROLE_DMLC, ROLE_PADDLE };

struct role {
    enum role_scheme scheme;
    enum wire_role role;  // WIRE_SCHEDULER, WIRE_SERVER or WIRE_WORKER
    bool hosts_scheduler; // Paddle's first server
    uint32_t servers, workers;
    bool has_rank;
    uint32_t rank;
    char scheduler[ROLE_TEXT_MAX]; // HOST:PORT
    char host[ROLE_TEXT_MAX];      // own; "" when not told
    char interface[ROLE_TEXT_MAX]; // likewise
    uint16_t port;                 // own; 0: any
};

typedef const char *(*role_getenv)(void *ctx, const char *name);

// `known` is the role when something else than the environment tells it, else
// WIRE_NOBODY. *ret has scheme ROLE_NONE when the environment says nothing about a role.
// TUG_EUSAGE.
int role_read(struct role *ret, enum wire_role known, role_getenv get, void *ctx,
              struct err *e);

#endif
