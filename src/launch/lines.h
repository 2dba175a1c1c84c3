// Collects the output of many processes and writes it line by line, with the name of the
// process in front.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_LAUNCH_LINES_H
#define TUG_LAUNCH_LINES_H

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "os/log_json.h"

enum { LINES_MAX = 16 << 10 }; // a longer line is written in pieces of this size

struct lines {
    const char *prefix; // "[worker 0] "; "": none
    FILE *to, *log;     // each may be NULL; `log` becomes NULL after a failed write to it
    const char *log_path;
    struct err failed; // the error that ended the log; code 0: none
    struct buf part;   // the beginning of a line whose end has not arrived
    // Lines for which `holds` returns true are kept in `held` and not written to `to`. May
    // be NULL.
    bool (*holds)(const char *line, size_t n);
    struct buf held;
    char last[512]; // the last line that was not empty, cut to this size
    // NULL: lines are written as text. Else all lines are written as JSON, without the
    // prefix: a JSON log line is written unchanged, and `holds`, `last` and `said` get its
    // message; any other line becomes the message of a log line of this process.
    const struct log_origin *json;
};

void lines_open(struct lines *l, const char *prefix, FILE *to, FILE *log,
                const char *log_path);
int lines_add(struct lines *l, const char *bytes, size_t n); // may return TUG_ENOMEM
// Ends the lines: writes the last line even if it lacks its newline. `held` stays.
void lines_close(struct lines *l);
// Writes the held lines, except those for which `said` returns true, and removes all held
// lines.
void lines_say_held(struct lines *l, bool (*said)(void *ctx, const char *line),
                    void *ctx);

#endif
