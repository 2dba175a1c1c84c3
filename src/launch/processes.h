// Starts and watches the processes of a run, in one thread, by libuv: their output line
// by line, their ends, signals to all of them, and timers.
//
// Each process leads a session of its own. So Ctrl-C reaches only the launcher, and a
// signal to a process also reaches the processes that it started.
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
    // Called when a process has ended and all its output was written.
    void (*ended)(void *ctx, uint32_t member, int pid, int code, int signal,
                  const char *said);
    // Called with each line that a process writes to its descriptor
    // PROCESSES_ANNOUNCE_FD.
    void (*announced)(void *ctx, uint32_t member, const char *line);
    // Called when the launcher gets SIGINT, SIGTERM or SIGHUP: once for signals that
    // count as one request (os/wish.h), and again, with at_once, for each later request.
    // Not called for a SIGHUP that makes the launcher open the log files again.
    void (*interrupted)(void *ctx, bool at_once);
    void (*timer)(void *ctx); // called after the time of processes_timer
    void (*later)(void *ctx); // called after the time of processes_later
};

enum { PROCESSES_ANNOUNCE_FD = 3 };

// A process that fails announces a line with this word and the number of an enum reason
// (base/err.h).
#define PROCESSES_REASON "reason "

enum processes_output {
    PROCESSES_LINES, // standard output and error are written line by line, with the prefix
    PROCESSES_RAW,   // as PROCESSES_LINES, but standard output, a result, stays unchanged
    PROCESSES_TERMINAL, // for a debugger: the process has the launcher's standard input,
                        // output and error
};

struct processes_process {
    const char *name;        // "worker 0": its lines get the prefix "[worker 0] "
    const char *const *argv; // ends with NULL
    const char *const *env;  // the whole environment; ends with NULL
    enum processes_output output;
    // With PROCESSES_LINES: whether the lines of standard output are written to standard
    // output (else to standard error).
    bool lines_to_stdout;
    bool announces;
    // Text for the process's standard input, which then stays open as long as the launcher
    // lives. NULL: standard input is /dev/null.
    const char *input;
    size_t n_input;
    const char *log; // file for all output of the process; NULL: none
    bool again;      // the process is started again: its output is appended to the file
    bool json;       // lines are written as JSON (lines.h) with this role and rank:
    const char *role;
    int rank;
    // Gets the lines of standard error (lines.h); NULL: not called.
    bool (*holds)(const char *line, size_t n);
};

int processes_open(struct processes **ret, const struct processes_handler *h,
                   struct err *e);
// Kills the processes that still run, and frees the memory. `c` may be NULL.
void processes_close(struct processes *c);

// Starts a process. Processes are numbered from 0 in the order of their start. The memory
// that *p points to is copied.
int processes_start(struct processes *c, const struct processes_process *p,
                    struct err *e);
// Starts process number `member`, which has ended, again.
int processes_start_again(struct processes *c, uint32_t member,
                          const struct processes_process *p, struct err *e);
// Sends a signal to the process if it still lives.
void processes_signal(struct processes *c, uint32_t member, int number);
void processes_signal_all(struct processes *c, int number);
int processes_pid(const struct processes *c, uint32_t member);
// Returns whether there is a process with this number.
bool processes_has(const struct processes *c, uint32_t member);
// Calls `said` for the held lines of a process (lines.h).
void processes_say_held(struct processes *c, uint32_t member,
                        bool (*said)(void *ctx, const char *line), void *ctx);
// Kills all processes. Closes their outputs without waiting for processes that they have
// started and that still have the outputs open.
void processes_kill_all(struct processes *c);

// Calls handler.timer once, after this time. A second call replaces the time.
void processes_timer(struct processes *c, double seconds);

// Calls handler.later once, after this time. A second call replaces the time.
// processes_run does not return before it has called handler.later.
void processes_later(struct processes *c, double seconds);

// Runs until all processes have ended.
int processes_run(struct processes *c, struct err *e);
// After processes_run: returns 0 if all logs are complete, else the first error.
int processes_logs(const struct processes *c, struct err *e);

#endif
