// HMAC-SHA256 over parts: what proves that somebody knows a key without showing it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_MAC_H
#define TUG_VAN_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAC_BYTES = 32 }; // of a key, a nonce and a proof

struct mac_part {
    const void *data;
    size_t n;
};

// `what` says what the number is for: those of one kind never serve as another's. Each
// part goes in with its length. False: out of memory, or the parts are too long (over 1
// KiB in all); *ret is then random, so that it proves nothing.
bool mac(uint8_t ret[MAC_BYTES], const uint8_t key[MAC_BYTES], const char *what,
         const struct mac_part *parts, unsigned n);

// In a time that says nothing of where they differ.
bool mac_same(const void *a, size_t n, const uint8_t b[MAC_BYTES]);

// Random bytes of the system's. False: it gives none.
bool mac_random(uint8_t ret[MAC_BYTES]);

#endif
