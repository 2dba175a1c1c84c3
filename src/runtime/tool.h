// Asks a node of a running cluster questions from outside, for commands and for calls
// such as profiles: one question at a time, each with a time limit.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUNTIME_TOOL_H
#define TUG_RUNTIME_TOOL_H

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
    // Set before tool_open. `interrupted` ends waits when true; may be NULL. `max_text` is
    // the most bytes of an answer's text, `max_values` the most numbers, texts, lists and
    // objects in it; 0: enough for the largest cluster.
    const atomic_bool *interrupted;
    size_t max_text, max_values;
    struct session_who who;
    struct session_side side;
    struct session s;
    char address[VAN_ADDRESS_MAX];
    bool answered;
    bool told; // whether a message has told the user that the node does not answer yet
    // The time and the version of the answering process.
    uint64_t unix_ns;
    char version[32];
    // The type of the answer, and the value of an answer OK.
    uint16_t type;
    uint64_t value;
    struct err why;         // the error of an answer of type ERROR
    struct msg_trace trace; // the header of the events in `text`
    struct buf text;        // JSON of STATUS_IS
    bool too_long;          // the text was longer than `text` may be
};

// Opens a link to the node at `address`, which must prove its identity. Errors name the
// address. Before the call, the caller sets only `interrupted`, `max_text` and
// `max_values` of *t; all other members are 0.
int tool_open(struct tool *t, struct node *n, const char *address, double seconds,
              struct err *e);
void tool_close(struct tool *t); // *t may be zeroed

// Sends a question and waits for the answer. Returns TUG_EIO if no answer arrives in
// time, the code of an answer ERROR, or TUG_EDATA if the answer is not of the type that
// wire_answer gives.
int tool_ask(struct tool *t, uint16_t type, const void *msg, double seconds,
             struct err *e);

// Asks for STATUS and returns it as a JSON object, which the caller releases
// (json_decref). Its texts are printable.
int tool_status(struct tool *t, double seconds, json_t **ret, struct err *e);

// Returns the number of values in a JSON text or a larger number, without parsing the
// text.
size_t tool_count_values(const char *text, size_t n);

// These functions return a member of an object; "" or 0 if the object has no such member.
const char *tool_text(const json_t *o, const char *name);
double tool_number(const json_t *o, const char *name);
// Returns a member as an integer; beyond 2^53 it is rounded.
int64_t tool_count(const json_t *o, const char *name);
bool tool_true(const json_t *o, const char *name);

#endif
