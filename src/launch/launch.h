// Launches a whole run: a scheduler, servers and workers, on this machine or on hosts
// that ssh reaches. It starts `tug scheduler`, `tug server` and `tug worker`, or the same
// program in all roles.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_LAUNCH_LAUNCH_H
#define TUG_LAUNCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "launch/launch_facts.h"

struct launch_list {
    const char *const *items;
    size_t n;
};

struct launch_options {
    const char *tug; // path of the tug program
    uint32_t servers, workers;
    uint32_t replicas;        // number of servers that hold a partition
    struct launch_list words; // the words after "--": `train` and its options, or a
                              // program and its arguments
    bool program;             // the words are a program, not `train`
    const char *cluster;
    // Where the scheduler listens; if all processes run on this machine, where all listen.
    const char *host, *interface;
    const char *advertise; // address of the scheduler for other processes; may be NULL
    bool sockets;          // use Unix sockets if all processes run on this machine
    uint16_t port;
    uint32_t loops, sparse_loops;
    // Directories that servers may use (server/saves/roots.h); NULL: none.
    const char *save_root, *cold_root;
    struct launch_list load_roots;
    const char *ca, *cert, *key;
    bool insecure;
    double connect_seconds, dead_seconds, gather_seconds;
    bool dead_given; // dead_seconds is not the default
    // How often the scheduler, or a worker, is started again after it was killed; 0: never.
    uint32_t restarts;
    const char *log_level;
    bool log_json;     // messages of all processes are JSON (os/log_json.h)
    const char *hosts; // the file of hosts; NULL: this machine
    const char *sync;  // workspace to copy to the hosts; NULL: none
    bool force;
    struct launch_list wraps; // "ROLE:RANK=COMMAND"
    struct launch_list env;   // "NAME=VALUE"
    const char *log_dir;
    // http: the address of the scheduler's page, "HOST:PORT" or "unix:PATH"; NULL: no
    // page. The pages of the other processes on this machine get other ports of the same
    // host, or paths in the same directory. http_targets: the file that lists these
    // addresses for Prometheus; NULL: none.
    const char *http, *http_targets;
    const char *http_cert, *http_key, *http_token_file; // NULL: not given
    // The launcher records facts about the processes in `facts` and serves them at http_own
    // ("HOST:PORT"). The file http_targets lists http_own as long as it lists a process. If
    // `facts` and http_own are NULL, the facts are not served.
    struct launch_facts *facts;
    const char *http_own;
    // With --http-targets, called when a run has failed and all its processes have ended.
    // Until this function returns, the file lists only `address`, the scheduler's, which no
    // process uses any more.
    void (*failed)(void *ctx, const char *address, const struct err *why);
    void *failed_ctx;
};

// Runs the processes until all have ended. Returns 0, or an error that names the process.
// Sets *ret_lost (may be NULL) to whether a server has ended and its rows are lost.
int launch_run(const struct launch_options *o, bool *ret_lost, struct err *e);

// Seconds that programs have between SIGTERM and SIGKILL.
enum { LAUNCH_GENTLE_SECONDS = 5 };

// Each started process calls one of these two functions, so that it ends when the launcher
// is killed. launch_child_of replaces this process by the program, which gets SIGKILL when
// `parent` ends; it returns only on error. launch_supervise runs the program as a child,
// passes standard input on to the program, ends the program's process group when standard
// input closes, and sets *ret_code to the program's exit code.
int launch_child_of(uint64_t parent, char *const *argv, struct err *e);
int launch_supervise(char *const *argv, const char *lock, bool force, int *ret_code,
                     struct err *e);

#endif
