// For tests of the wire: makes and compares messages of every type, with known or random
// contents, by messages.def.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KIT_FRAMES_H
#define TUG_KIT_FRAMES_H

#include "wire/wire.h"

// Contents that depend on the seed. `longest` limits texts, byte strings and spans.
struct fill {
    uint64_t seed, count, longest;
    // The bytes to which texts, byte strings and spans point: 2 * `longest` bytes.
    const char *bytes;
};

// The number of all message types.
enum {
#define MESSAGE(NAME, name, id, ...) COUNT_OF_##NAME,
#include "wire/messages.def"
    N_WIRE_TYPES
};
extern const uint16_t wire_types[N_WIRE_TYPES];

void fill_any(struct fill *f, uint16_t type, union wire_any *m);
bool same_any(uint16_t type, const union wire_any *a, const union wire_any *b);

// Functions that fill and compare records, for each kind of record.
#define RECORD(NAME, name, about)                                                        \
    void fill_record_##name(struct fill *f, struct wire_##name *m);                      \
    bool same_record_##name(const struct wire_##name *a, const struct wire_##name *b);
#include "wire/messages.def"

#endif
