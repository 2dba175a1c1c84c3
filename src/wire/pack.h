// Packs keys into fewer bytes. Ids from a small range are close together: the differences
// to the smallest key of a block, or to the previous key, need a few bits instead of 64.
// Hashed keys do not become smaller; pack_pays distinguishes the two kinds of keys.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_WIRE_PACK_H
#define TUG_WIRE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

// Estimates, from the range of the keys and whether they ascend, whether packing saves at
// least a third of their bytes. Reads the keys once.
bool pack_pays(const uint64_t *keys, size_t n);

// Appends the packed keys to *ret. Any keys in any order can be packed; ascending keys,
// and keys close together in blocks, need the fewest bytes. Returns TUG_ENOMEM, or
// TUG_EDATA if the buffer's limit is too small.
int pack_keys(const uint64_t *keys, size_t n, struct buf *ret);

// Unpacks n keys. Returns TUG_EDATA if the bytes_n bytes are not exactly n packed keys.
int unpack_keys(const void *bytes, size_t bytes_n, size_t n, uint64_t *ret,
                struct err *e);

#endif
