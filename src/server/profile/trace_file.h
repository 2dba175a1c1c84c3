// The records of server loops (PROFILE) for people: a file of trace events for Chrome and
// Perfetto, and a table of the times of each kind of request.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_PROFILE_TRACE_FILE_H
#define TUG_SERVER_PROFILE_TRACE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/wire.h"

enum { TRACE_NAME_MAX = 64 };

struct trace_table {
    uint32_t id;
    char name[TRACE_NAME_MAX];
};

struct trace_loop {
    uint32_t rank, loop; // rank of the server, and number of its loop
    char process[128];   // "server 0 (host:pid)"
    struct trace_table *tables;
    size_t n_tables;
    // Time in ns by which the loop's clock is ahead of this process's clock.
    int64_t ahead_ns;
    uint64_t doubt_ns; // the largest possible error of ahead_ns, in ns
    struct wire_event *events;
    size_t n, max;
    uint64_t dropped;
};

struct trace {
    struct trace_loop *loops;
    size_t n;
};
void trace_free(struct trace *t); // *t may be zeroed

// Adds EVENT records of a loop. Returns TUG_EDATA if they cannot be decoded.
int trace_add(struct trace_loop *l, struct wire_text events, struct err *e);

// Adds the name of a table. Returns 0 or TUG_ENOMEM.
int trace_name(struct trace_loop *l, uint32_t table, const char *name);

// Converts the times of all events to the clock of this process, and sorts the events
// of each loop. The loops of a server share a clock; a difference of clocks that is at
// most doubt_ns is ignored.
void trace_align(struct trace *t);

// Writes the file, which appears under its name only when it is complete.
int trace_write(const struct trace *t, const char *path, struct err *e);

// Appends a table with the number of requests of each kind and their times.
int trace_print(const struct trace *t, struct buf *to);

#endif
