// XXH3 for bytes, compiled in line: feature values are a few bytes long, and a call into
// the shared library costs as much as hashing them.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash_bytes(const void *bytes, size_t n, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, n, seed);
}
