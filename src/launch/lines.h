// Output of many processes, put together line by line: each line whole, with the name of
// who wrote it in front.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_LAUNCH_LINES_H
#define TUG_LAUNCH_LINES_H

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"

enum { LINES_MAX = 16 << 10 }; // a longer line comes in pieces of this size

struct lines {
    const char *prefix; // "[worker 0] "; "": none
    FILE *to, *log;     // each may be NULL; a log that is full becomes it
    const char *log_path;
    struct err failed; // why the log was given up; code 0: it was not
    struct buf part;   // of a line whose end has not come yet
    // Lines for which it returns true are kept in `held` and not written to `to`; may be NULL.
    bool (*holds)(const char *line, size_t n);
    struct buf held;
    char last[512]; // the last line that was not empty, cut
};

void lines_open(struct lines *l, const char *prefix, FILE *to, FILE *log,
                const char *log_path);
int lines_add(struct lines *l, const char *bytes, size_t n); // 0 or TUG_ENOMEM
void lines_close(struct lines *l); // the last line may have had no end; `held` stays
// Writes those of the held lines that `said` does not return true of, and forgets all.
void lines_say_held(struct lines *l, bool (*said)(void *ctx, const char *line),
                    void *ctx);

#endif
