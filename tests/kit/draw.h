// Valid frames out of a fuzzer's bytes: every message of messages.def, field by field.
// Most fields get something that makes sense where the fuzzer has come to (a session that
// was given, a table that is there), others the numbers at which programs break, some any
// number at all. So state machines are reached behind their decoder.
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
    // Sensible values.
    uint64_t sessions[DRAW_KNOWN], epoch, version;
    uint32_t nodes[DRAW_KNOWN], n_sessions, bits;
    uint64_t request;         // of the last question that nobody has answered
    const char *const *texts; // beside those below, for every text; NULL at the end
    // Memory of what was drawn, until draw_free.
    struct draw_memory {
        struct draw_memory *next;
        _Alignas(16) char bytes[];
    } * memory;
};

#define require(ok)                                                                      \
    ((ok) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #ok), abort()))

// Frees the memory of drawn messages; known values stay.
void draw_free(struct draw *d);
// As large as was asked for, so that reading beyond it is seen.
void *draw_room(struct draw *d, size_t n);

// Bytes; zeros when there are no more.
uint8_t draw_byte(struct draw *d);
uint32_t draw_below(struct draw *d, uint32_t n); // n: at most 256
uint64_t draw_any(struct draw *d, unsigned bits);

// Draws a sensible value for a field of that name.
uint64_t draw_sense(struct draw *d, const char *name);

// Keys by ascending partition, without one that comes twice: mostly.
struct wire_span draw_keys(struct draw *d, uint32_t n, enum wire_space space);
struct wire_span draw_floats(struct draw *d, uint64_t n);

// A record of each kind.
#define RECORD(NAME, name, about)                                                        \
    void draw_record_##name(struct draw *d, struct wire_##name *ret);
#include "wire/messages.def"

// Draws a message of the type; false if there is no such type.
bool draw_message(struct draw *d, uint16_t type, union wire_any *ret);
uint16_t draw_type(struct draw *d); // any that there is
// Sets the known nodes: the last ones.
void draw_know(struct draw *d, uint32_t node, uint64_t session);

#endif
