// Growth of arrays that structs hold as typed pointers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DATA_FORMAT_GROW_H
#define TUG_DATA_FORMAT_GROW_H

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"

// Gives *array, a pointer to elements of `bytes` bytes, room for n elements. Returns
// false if memory is out; the array is then unchanged.
static inline bool grow(void *array, size_t n, size_t bytes)
{
    void *old;
    // memcpy is used because only the caller knows the type of the array.
    memcpy(&old, array, sizeof old);
    void *grown = mem_realloc_array(old, n, bytes);
    if (grown != NULL)
        memcpy(array, &grown, sizeof grown);
    return grown != NULL;
}

#endif
