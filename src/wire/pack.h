// Keys in fewer bytes. Ids from a small space lie close together: what a block of them
// has above its least key, or each above the one before it, needs a few bits instead of
// 64. Hashed keys have nothing to save; pack_pays tells which is which.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_WIRE_PACK_H
#define TUG_WIRE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

// A guess, from the range of the keys and whether they ascend: packing saves at least a
// third. One pass over the keys.
bool pack_pays(const uint64_t *keys, size_t n);

// Adds the keys, packed, to *ret. Any keys in any order come back as they were; those
// that ascend, or lie close together in blocks, are packed best. TUG_ENOMEM; TUG_EDATA:
// more than the buffer may hold.
int pack_keys(const uint64_t *keys, size_t n, struct buf *ret);

// The n keys that were packed into exactly these bytes; else TUG_EDATA.
int unpack_keys(const void *bytes, size_t bytes_n, size_t n, uint64_t *ret,
                struct err *e);

#endif
