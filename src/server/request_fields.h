// Common fields of requests: fields that have the same meaning in every message to a
// server's loop are found by their types and names in messages.def.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_REQUEST_FIELDS_H
#define TUG_SERVER_REQUEST_FIELDS_H

#include <string.h>

#include "wire/wire.h"

// Fields of a message. If the message lacks a field, the member is not changed.
struct request_fields {
    uint64_t session, clock;
    uint32_t table, keys;
    uint64_t bytes; // total bytes of the message's spans
};

// Always inlined: `what` is known at compile time, so that the comparisons cost nothing.
static inline __attribute__((always_inline)) void request_field(struct request_fields *f,
                                                                const char *what,
                                                                const void *value)
{
    if (strcmp(what, "u64 session") == 0)
        memcpy(&f->session, value, sizeof(f->session));
    else if (strcmp(what, "u64 clock") == 0)
        memcpy(&f->clock, value, sizeof(f->clock));
    else if (strcmp(what, "u32 table") == 0)
        memcpy(&f->table, value, sizeof(f->table));
    else if (strcmp(what, "u32 n") == 0 || strcmp(what, "u32 max") == 0)
        memcpy(&f->keys, value, sizeof(f->keys));
    else if (strncmp(what, "span ", 5) == 0)
        f->bytes += ((const struct wire_span *)value)->n;
}

#define MESSAGE(NAME, name, id, ...)                                                     \
    static inline void request_fields_of_##name(struct request_fields *f,                \
                                                const struct msg_##name *m)              \
    {                                                                                    \
        (void)f, (void)m;
#define RECORD(NAME, name, about)                                                        \
    static inline void request_fields_of_record_##name(struct request_fields *f,         \
                                                       const struct wire_##name *m)      \
    {
#define FIELD(type, name, about) request_field(f, #type " " #name, &m->name);
#define END(name) }
#include "wire/messages.def"

static inline void request_fields(uint16_t type, const union wire_any *m,
                                  struct request_fields *f)
{
    switch (type) {
#define TO_SERVER(NAME, name)                                                            \
    case MSG_##NAME:                                                                     \
        request_fields_of_##name(f, &m->name);                                           \
        break;
#include "wire/messages.def"
    default:
        break;
    }
}

#endif
