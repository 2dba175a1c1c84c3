// Free lists of blocks by size. Large blocks are mappings, touched only as far as a
// message reaches.
//
// SPDX-License-Identifier: Apache-2.0
#include "van/frame_pool.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "wire/wire.h"

enum { ALIGN = 64, MAPPED_FROM = 1 << 20 };
// If the unused blocks have more bytes than this, or the budget has no room for a
// block, blocks are freed.
#define UNUSED_MAX ((uint64_t)256 << 20)

// The header in front of the memory that frame_pool_take returns.
struct frame_block {
    struct frame_block *next;
    uint32_t class;
} __attribute__((aligned(ALIGN)));

_Static_assert((uint64_t)1 << (FRAME_POOL_MIN + FRAME_POOL_CLASSES - 1) >= WIRE_BODY_MAX,
               "the largest class holds any body");
_Static_assert(sizeof(struct frame_block) == ALIGN,
               "the memory behind the block is aligned, too");

static uint64_t class_bytes(uint32_t class)
{
    return (uint64_t)1 << (FRAME_POOL_MIN + class);
}

static uint32_t class_of(uint64_t bytes)
{
    if (bytes <= class_bytes(0))
        return 0;
    return 64 - (uint32_t)__builtin_clzll(bytes - 1) - FRAME_POOL_MIN;
}

static void block_free(struct frame_block *b)
{
    uint64_t bytes = class_bytes(b->class);
    if (bytes >= MAPPED_FROM)
        mem_unmap(b, sizeof(*b) + bytes);
    else
        mem_free(b);
}

void *frame_pool_take(struct frame_pool *p, uint64_t bytes)
{
    uint32_t class = class_of(bytes);
    if (class >= FRAME_POOL_CLASSES)
        return NULL;
    struct frame_block *b = p->unused[class];
    if (b != NULL) {
        p->unused[class] = b->next;
        p->unused_bytes -= class_bytes(class);
        budget_give(p->budget, BUDGET_REST, class_bytes(class));
        return b + 1;
    }
    uint64_t all = sizeof(*b) + class_bytes(class);
    b = class_bytes(class) >= MAPPED_FROM ? mem_map(all) : mem_aligned(ALIGN, all);
    if (b == NULL)
        return NULL;
    b->class = class;
    return b + 1;
}

void frame_pool_give(struct frame_pool *p, void *memory)
{
    if (memory == NULL)
        return;
    struct frame_block *b = (struct frame_block *)memory - 1;
    uint64_t bytes = class_bytes(b->class);
    if (bytes > UNUSED_MAX - p->unused_bytes ||
        !budget_take(p->budget, BUDGET_REST, bytes)) {
        block_free(b);
        return;
    }
    b->next = p->unused[b->class];
    p->unused[b->class] = b;
    p->unused_bytes += bytes;
}

void frame_pool_drop(void *memory)
{
    if (memory != NULL)
        block_free((struct frame_block *)memory - 1);
}

uint64_t frame_pool_size(const void *memory)
{
    return class_bytes(((const struct frame_block *)memory - 1)->class);
}

void frame_pool_close(struct frame_pool *p)
{
    for (uint32_t i = 0; i < FRAME_POOL_CLASSES; i++) {
        for (struct frame_block *b = p->unused[i], *next; b != NULL; b = next) {
            next = b->next;
            block_free(b);
        }
    }
    budget_give(p->budget, BUDGET_REST, p->unused_bytes);
    *p = (struct frame_pool){0};
}
