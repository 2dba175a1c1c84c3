// HMAC-SHA256 over parts: proves the knowledge of a key without showing it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_MAC_H
#define TUG_VAN_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAC_BYTES = 32 }; // size of a key, a nonce and a proof

struct mac_part {
    const void *data;
    size_t n;
};

// Computes the code of `parts`. `what` names the purpose of the code, so that a code made
// for one purpose is never valid for another. Each part is hashed with its length.
// Returns false if there is no memory or the parts are too long (over 1 KiB in all); *ret
// is then random, so that it proves nothing.
bool mac(uint8_t ret[MAC_BYTES], const uint8_t key[MAC_BYTES], const char *what,
         const struct mac_part *parts, unsigned n);

// Returns whether two codes are equal. The time of the comparison does not depend on
// where they differ.
bool mac_same(const void *a, size_t n, const uint8_t b[MAC_BYTES]);

// Fills *ret with random bytes of the system; false if the system gives none.
bool mac_random(uint8_t ret[MAC_BYTES]);

#endif
