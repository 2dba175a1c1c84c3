// Reference-counted memory of arrays. A van holds a block while it sends an answer
// directly from it; only a holder that is alone may change the bytes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_KVSTORE_BLOCK_H
#define TUG_DOORS_KVSTORE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

// Returns memory that is not zeroed and is aligned for vectors; NULL: memory is short.
void *kvs_block_new(size_t bytes);
void kvs_block_hold(void *block);
bool kvs_block_is_held(const void *block); // whether there is more than one holder
// Releases a block; the last release frees it. Any thread may call this function. NULL is
// fine.
void kvs_block_release(void *block);

// Makes *block at least `bytes` long. If the block is too short or has another holder,
// replaces it by a new one, without copying the contents.
int kvs_block_reserve(void **block, size_t *cap, size_t bytes);

#endif
