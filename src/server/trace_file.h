// Server loops' records (PROFILE) for people: a file of trace events as Chrome and
// Perfetto read them, and a table of how long each kind of request takes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_TRACE_FILE_H
#define TUG_SERVER_TRACE_FILE_H

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
    uint32_t rank, loop; // of which server
    char process[128];   // "server 0 (host:pid)"
    struct trace_table *tables;
    size_t n_tables;
    int64_t ahead_ns;  // its clock is ahead of ours
    uint64_t doubt_ns; // or behind, by so much
    struct wire_event *events;
    size_t n, max;
    uint64_t dropped;
};

struct trace {
    struct trace_loop *loops;
    size_t n;
};
void trace_free(struct trace *t); // a zeroed one is fine

// Adds EVENT records to a loop's. TUG_EDATA if they are not records.
int trace_add(struct trace_loop *l, struct wire_text events, struct err *e);

// The name of a table. TUG_ENOMEM.
int trace_name(struct trace_loop *l, uint32_t table, const char *name);

// Puts all events on one clock, ours, and each loop's in order. Loops of a server share a
// clock; a difference that the time on the way may explain is none.
void trace_align(struct trace *t);

// There when complete.
int trace_write(const struct trace *t, const char *path, struct err *e);

// For each kind the number of requests, and their times.
int trace_print(const struct trace *t, struct buf *to);

#endif
