// Makes valid frames from a fuzzer's bytes: every message of messages.def, field by
// field. Most fields get a plausible value (the number of an existing session or table).
// Some get numbers at which programs often break, and some get any number. So the fuzzer
// reaches the state machines behind the decoder.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_DRAW_H
#define TUG_KIT_DRAW_H

#include <stdio.h>
#include <stdlib.h>

#include "wire/wire.h"

enum { DRAW_KNOWN = 8 };

struct draw {
    const uint8_t *at;
    size_t left;
    // Values that make sense at this point.
    uint64_t sessions[DRAW_KNOWN], epoch, version;
    uint32_t nodes[DRAW_KNOWN], n_sessions, bits;
    uint64_t request;         // number of the last request that was not answered
    const char *const *texts; // further values for text fields; NULL ends the list
    // Memory of the drawn messages; draw_free frees it.
    struct draw_memory {
        struct draw_memory *next;
        _Alignas(16) char bytes[];
    } * memory;
};

#define require(ok)                                                                      \
    ((ok) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #ok), abort()))

// Frees the memory of the drawn messages; the known values remain.
void draw_free(struct draw *d);
// Allocates exactly this size, so that sanitizers notice reading beyond it.
void *draw_room(struct draw *d, size_t n);

// Returns the next byte; 0 when none are left.
uint8_t draw_byte(struct draw *d);
uint32_t draw_below(struct draw *d, uint32_t n); // n is at most 256
uint64_t draw_any(struct draw *d, unsigned bits);

// Draws a sensible value for a field of that name.
uint64_t draw_sense(struct draw *d, const char *name);

// Draws keys, mostly distinct and sorted by partition.
struct wire_span draw_keys(struct draw *d, uint32_t n, enum wire_space space);
struct wire_span draw_floats(struct draw *d, uint64_t n);

// Functions that draw a record of each kind.
#define RECORD(NAME, name, about)                                                        \
    void draw_record_##name(struct draw *d, struct wire_##name *ret);
#include "wire/messages.def"

// Draws a message of this type. Returns false if the type does not exist.
bool draw_message(struct draw *d, uint16_t type, union wire_any *ret);
uint16_t draw_type(struct draw *d); // any existing type
// Adds a node to the known nodes, in place of the oldest.
void draw_know(struct draw *d, uint32_t node, uint64_t session);

#endif
