// Launching a whole run: a scheduler, servers and workers, on this machine or on hosts
// that ssh reaches. It starts `tug scheduler`, `tug server` and `tug worker`, or one
// program in all roles.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_LAUNCH_LAUNCH_H
#define TUG_LAUNCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct launch_list {
    const char *const *items;
    size_t n;
};

struct launch_options {
    const char *tug; // path of the command itself
    uint32_t servers, workers;
    struct launch_list words; // behind "--": `train` and its options, or a program's
    bool program;             // not `train`
    const char *cluster;
    const char *host, *interface; // where the scheduler listens; on one machine all do
    const char *advertise;        // the scheduler's address for others; may be NULL
    bool sockets;                 // Unix sockets, where all run on this machine
    uint16_t port;
    uint32_t loops, sparse_loops;
    const char *save_root, *cold_root; // of servers (server/roots.h); NULL: none
    struct launch_list load_roots;
    const char *ca, *cert, *key;
    bool insecure;
    double connect_seconds, dead_seconds, gather_seconds;
    const char *log_level;
    const char *hosts; // file; NULL: this machine
    const char *sync;  // workspace to copy to the hosts; NULL: none
    bool force;
    struct launch_list wraps; // "ROLE:RANK=COMMAND"
    struct launch_list env;   // "NAME=VALUE"
    const char *log_dir;
};

// Returns when all processes have ended: 0, or an error that names the role.
int launch_run(const struct launch_options *o, struct err *e);

// Between SIGTERM and SIGKILL, for programs.
enum { LAUNCH_GENTLE_SECONDS = 5 };

// Each started process runs under one of these, so that none stays behind when the
// launcher is killed: the program takes this process's place and gets SIGKILL when
// `parent` ends; or it is a child whose group is ended when standard input closes, and
// all that is read there is passed on to it. Both return errors only, or (supervise) its
// exit code in *ret_code.
int launch_child_of(uint64_t parent, char *const *argv, struct err *e);
int launch_supervise(char *const *argv, const char *lock, bool force, int *ret_code,
                     struct err *e);

#endif
