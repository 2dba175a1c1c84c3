// Log lines as objects of JSON, one per line:
//
//   {"time":"2026-01-31T23:59:59.999Z","level":"warn","role":"worker","rank":0,
//    "host":"a","pid":77,"pass":3,"loss":0.51,"message":"..."}
//
// A line is valid JSON whatever its text contains: the text is made printable first
// (base/printable.h), as in the other format.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OS_LOG_JSON_H
#define TUG_OS_LOG_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "os/log.h"

// The process that wrote a line. The line lacks what is unknown.
struct log_origin {
    const char *role; // a word of ASCII letters; NULL: unknown
    int rank;         // -1: unknown, or the role has none
    const char *host; // NULL: unknown
    int pid;          // 0: unknown
};

enum { LOG_TIME_BYTES = 32, LOG_JSON_HEAD_MAX = 1024 };

// Writes the present time as "2026-01-31T23:59:59.999Z".
void log_json_time(char to[LOG_TIME_BYTES]);

// Writes a line with its line end and returns its length. If the line does not fit into
// `cap` bytes, `text` is cut. `cap` must be at least LOG_JSON_HEAD_MAX; LOG_JSON_HEAD_MAX
// + 8 n bytes are always enough for a text of n bytes.
size_t log_json_line(char *to, size_t cap, enum log_level level,
                     const struct log_origin *from, const struct log_field *fields,
                     size_t n_fields, const char *text, size_t n);

// Parses a line, which any program may have written. Returns whether it has the form that
// log_json_line writes. If so, `ret` gets its message, cut to `cap` bytes with the NUL.
bool log_json_message(const char *line, size_t n, char *ret, size_t cap);

#endif
