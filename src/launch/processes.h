// The processes of a run, started and watched from one thread on libuv: their output line
// by line, their ends, signals to all of them, and timers.
//
// Each process leads a session of its own, so that Ctrl-C reaches the launcher only, and
// a signal sent to it reaches what it has started, too.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_LAUNCH_PROCESSES_H
#define TUG_LAUNCH_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct processes;

struct processes_handler {
    void *ctx;
    // A process has ended and all it wrote has been passed on.
    void (*ended)(void *ctx, uint32_t member, int pid, int code, int signal,
                  const char *said);
    // It has written this to its descriptor PROCESSES_ANNOUNCE_FD, and closed it.
    void (*announced)(void *ctx, uint32_t member, const char *text);
    // SIGINT, SIGTERM or SIGHUP came to the launcher: once for those that are one wish
    // (base/wish.h), and for each that comes later.
    void (*interrupted)(void *ctx, bool at_once);
    void (*timer)(void *ctx); // of processes_timer
};

enum { PROCESSES_ANNOUNCE_FD = 3 };

enum processes_output {
    PROCESSES_LINES,    // both outputs line by line, with the prefix
    PROCESSES_RAW,      // standard output as it is: a result
    PROCESSES_TERMINAL, // in, out and err are the launcher's own: a debugger
};

struct processes_process {
    const char *name;        // "worker 0": the prefix of its lines is "[worker 0] "
    const char *const *argv; // ends with NULL
    const char *const *env;  // whole environment, ends with NULL
    enum processes_output output;
    bool
        lines_to_stdout; // of its standard output, with PROCESSES_LINES; else to standard error
    bool announces;
    // Written to its standard input, which then stays open for as long as the launcher
    // lives. NULL: /dev/null.
    const char *input;
    size_t n_input;
    const char *log; // file for all it writes; NULL: none
    bool (*holds)(const char *line,
                  size_t n); // of its standard error: see lines.h; or NULL
};

int processes_open(struct processes **ret, const struct processes_handler *h,
                   struct err *e);
void processes_close(struct processes *c); // whoever still lives is killed; NULL is fine

// Members are numbered from 0 in the order of their start. The memory that *p points to
// is copied.
int processes_start(struct processes *c, const struct processes_process *p,
                    struct err *e);
void processes_signal(struct processes *c, uint32_t member,
                      int number); // if it still lives
void processes_signal_all(struct processes *c, int number);
// The lines that were held, of one of them: see lines.h.
bool processes_has(const struct processes *c, uint32_t member);
void processes_say_held(struct processes *c, uint32_t member,
                        bool (*said)(void *ctx, const char *line), void *ctx);
// Kills all; does not wait for other processes that hold their outputs open.
void processes_kill_all(struct processes *c);

void processes_timer(struct processes *c,
                     double seconds); // one timer: the last call counts

// Runs until all have ended.
int processes_run(struct processes *c, struct err *e);
// After it: whether all logs were written to their end, else the first error.
int processes_logs(const struct processes *c, struct err *e);

#endif
