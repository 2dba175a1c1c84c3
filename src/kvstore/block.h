// Memory of arrays that others may look at for a while: a van that sends an answer
// straight from it. Only a sole holder may change it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KVSTORE_BLOCK_H
#define TUG_KVSTORE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

void *kvs_block_new(size_t bytes); // not zeroed, aligned for vectors; NULL: no memory
void kvs_block_hold(void *block);
bool kvs_block_is_held(const void *block); // by somebody else, too
void kvs_block_release(void *block); // from any thread; the last one frees; NULL is fine

// One of at least so many bytes with nothing in it, if there are not so many already.
int kvs_block_reserve(void **block, size_t *cap, size_t bytes);

#endif
