// Asking the nodes of a running cluster from outside, for commands and for calls that no
// member answers (profiles): one question at a time, each with a deadline.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_FACADE_TOOL_H
#define TUG_FACADE_TOOL_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "cluster/node.h"
#include "cluster/session.h"
#include "van/van.h"
#include "wire/wire.h"

struct tool {
    const atomic_bool *interrupted; // ends waits, when set before tool_open; may be NULL
    struct session_who who;
    struct session_side side;
    struct session s;
    char address[VAN_ADDRESS_MAX];
    bool answered;
    // About the answering process:
    uint64_t unix_ns;
    char version[32];
    // The answer:
    uint16_t type;
    struct err why;         // of ERROR
    struct msg_trace trace; // its events are in `text`
    struct buf text;        // JSON of STATUS_IS
    bool too_long;          // there was more than that may hold
};

// A link to a node that has shown who it is. Errors name the address. Only `interrupted`
// of *t is used.
int tool_open(struct tool *t, struct node *n, const char *address, double seconds,
              struct err *e);
void tool_close(struct tool *t); // a zeroed one is fine

// Asks and waits; TUG_EIO when no answer comes, the code of an ERROR, TUG_EDATA when the
// answer is of another type than wire_answer says.
int tool_ask(struct tool *t, uint16_t type, const void *msg, double seconds,
             struct err *e);

// STATUS as an object that the caller gives back. Its texts are printable.
int tool_status(struct tool *t, double seconds, json_t **ret, struct err *e);

// Members of an object, with what to take where there is none.
const char *tool_text(const json_t *o, const char *name);
double tool_number(const json_t *o, const char *name);
// A whole number, as near as 2^53 allows.
int64_t tool_count(const json_t *o, const char *name);
bool tool_true(const json_t *o, const char *name);

#endif
