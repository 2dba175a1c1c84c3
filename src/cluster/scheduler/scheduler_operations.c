// Records the last operations, which tug status shows: joins, deaths, admin operations and other
// events that an operator may ask about later, each with its time and its requester.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/json_out.h"
#include "cluster/scheduler/scheduler_internal.h"

void scheduler_note(struct scheduler *s, const char *what, const char *who,
                    const char *text)
{
    struct operation *o = &s->operations[s->n_operations++ % SCHEDULER_OPERATIONS];
    o->unix_ns = scheduler_unix_ns(s);
    o->what = what;
    snprintf(o->who, sizeof(o->who), "%s", who);
    snprintf(o->text, sizeof(o->text), "%s", text);
}

void scheduler_operations_print(const struct scheduler *s, struct json_out *o)
{
    uint64_t first = s->n_operations > SCHEDULER_OPERATIONS
                         ? s->n_operations - SCHEDULER_OPERATIONS
                         : 0;
    json_out_u64(o, "operations_seen", s->n_operations);
    json_out_open(o, "operations", '[');
    for (uint64_t i = first; i < s->n_operations; i++) {
        const struct operation *one = &s->operations[i % SCHEDULER_OPERATIONS];
        json_out_open(o, NULL, '{');
        json_out_real(o, "unix_seconds", 13, (double)one->unix_ns * 1e-9);
        json_out_text(o, "what", one->what);
        json_out_text(o, "who", one->who);
        json_out_text(o, "text", one->text);
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}
