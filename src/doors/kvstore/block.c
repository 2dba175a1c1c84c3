// Reference-counted memory (block.h). The count is stored before the bytes.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/kvstore/block.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "tug/tug.h"

enum { BEFORE = 64 }; // bytes before the data, so that the data are aligned for vectors

struct head {
    atomic_uint holders;
};

static struct head *head_of(const void *block)
{
    return (struct head *)((char *)(uintptr_t)block - BEFORE);
}

void *kvs_block_new(size_t bytes)
{
    char *p = bytes <= SIZE_MAX - BEFORE ? mem_alloc(BEFORE + bytes) : NULL;
    if (p == NULL)
        return NULL;
    atomic_init(&((struct head *)(void *)p)->holders, 1);
    return p + BEFORE;
}

void kvs_block_hold(void *block)
{
    assert(atomic_load(&head_of(block)->holders) > 0);
    atomic_fetch_add(&head_of(block)->holders, 1);
}

bool kvs_block_is_held(const void *block)
{
    return atomic_load(&head_of(block)->holders) > 1;
}

void kvs_block_release(void *block)
{
    if (block != NULL && atomic_fetch_sub(&head_of(block)->holders, 1) == 1)
        mem_free(head_of(block));
}

int kvs_block_reserve(void **block, size_t *cap, size_t bytes)
{
    if (*block != NULL && bytes <= *cap)
        return 0;
    void *more = kvs_block_new(bytes);
    if (more == NULL)
        return TUG_ENOMEM;
    kvs_block_release(*block);
    *block = more;
    *cap = bytes;
    return 0;
}
