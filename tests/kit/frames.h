// For tests of the wire: messages of every type with known or random contents, made and
// compared by messages.def itself.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_FRAMES_H
#define TUG_KIT_FRAMES_H

#include "wire/wire.h"

// Contents as a function of the seed. `longest` bounds texts, byte strings and spans.
struct fill {
    uint64_t seed, count, longest;
    const char *bytes; // where they point at; `longest` bytes more than the longest
};

// Every type there is.
enum {
#define MESSAGE(NAME, name, id, ...) COUNT_OF_##NAME,
#include "wire/messages.def"
    N_WIRE_TYPES
};
extern const uint16_t wire_types[N_WIRE_TYPES];

void fill_any(struct fill *f, uint16_t type, union wire_any *m);
bool same_any(uint16_t type, const union wire_any *a, const union wire_any *b);

// A record of each kind.
#define RECORD(NAME, name, about)                                                        \
    void fill_record_##name(struct fill *f, struct wire_##name *m);                      \
    bool same_record_##name(const struct wire_##name *a, const struct wire_##name *b);
#include "wire/messages.def"

#endif
