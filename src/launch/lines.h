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
    FILE *to, *log;     // either may be NULL; `log` becomes NULL after a failed write
    const char *log_path;
    struct err failed; // the error that ended the log; code 0: none
    struct buf part;   // the begin of a line whose end has not arrived
    // Lines for which this returns true are kept in `held` and not written to `to`; may
    // be NULL.
    bool (*holds)(const char *line, size_t n);
    struct buf held;
    char last[512]; // the last line that was not empty, cut
    // If it is not NULL, all lines are written as JSON, without the prefix. A log line in
    // JSON is passed on as it is, and its message is the line that `holds`, `last` and
    // `said` get; any other line becomes the message of a log line of this process.
    const struct log_origin *json;
};

void lines_open(struct lines *l, const char *prefix, FILE *to, FILE *log,
                const char *log_path);
int lines_add(struct lines *l, const char *bytes, size_t n); // returns 0 or TUG_ENOMEM
// Ends the lines: also writes a last line that lacks its line end. Keeps `held`.
void lines_close(struct lines *l);
// Writes the held lines, except those for which `said` returns true, and removes all held
// lines.
void lines_say_held(struct lines *l, bool (*said)(void *ctx, const char *line),
                    void *ctx);

#endif
