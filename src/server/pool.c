// Buffers in size classes of powers of two. The memory of unused buffers is limited.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/pool.h"

#include <assert.h>
#include <stdbool.h>

#include "base/alloc.h"

enum { LEAST_SHIFT = 12, CLASSES = 20, LINE = 64 };
#define AT_REST_MAX ((size_t)256 << 20)

struct buffer {
    struct pool *pool;
    struct buffer *next;
    uint32_t size; // size class; CLASSES if the buffer is too large for one
};

static_assert(sizeof(struct buffer) <= LINE,
              "the header must fit into the cache line before the memory");

struct pool {
    struct buffer *rest[CLASSES];
    size_t at_rest; // bytes of unused buffers
    size_t out;     // number of buffers that are in use
    bool closed;
    struct budget *budget;
};

struct pool *pool_open(struct budget *b)
{
    struct pool *p = mem_zalloc(sizeof(*p));
    if (p != NULL)
        p->budget = b;
    return p;
}

static size_t size_bytes(uint32_t size)
{
    return (size_t)1 << (LEAST_SHIFT + size);
}

static void drop_all(struct pool *p)
{
    for (uint32_t c = 0; c < CLASSES; c++)
        while (p->rest[c] != NULL) {
            struct buffer *b = p->rest[c];
            p->rest[c] = b->next;
            mem_free(b);
        }
}

void pool_close(struct pool *p)
{
    if (p == NULL)
        return;
    drop_all(p);
    budget_give(p->budget, BUDGET_REST, p->at_rest);
    p->closed = true;
    if (p->out == 0)
        mem_free(p);
}

static void pool_give_back(void *ctx)
{
    struct buffer *b = ctx;
    struct pool *p = b->pool;
    assert(p->out > 0); // at least this buffer is still in use
    p->out--;
    if (!p->closed && b->size < CLASSES &&
        p->at_rest + size_bytes(b->size) <= AT_REST_MAX &&
        budget_take(p->budget, BUDGET_REST, size_bytes(b->size))) {
        b->next = p->rest[b->size];
        p->rest[b->size] = b;
        p->at_rest += size_bytes(b->size);
    } else {
        mem_free(b);
    }
    if (p->closed && p->out == 0)
        mem_free(p);
}

void *pool_take(struct pool *p, size_t bytes, struct van_release *ret_release)
{
    uint32_t size = 0;
    while (size < CLASSES && size_bytes(size) < bytes)
        size++;
    struct buffer *b = size < CLASSES ? p->rest[size] : NULL;
    assert(!p->closed);
    if (b != NULL) {
        assert(b->size == size && p->at_rest >= size_bytes(size));
        p->rest[size] = b->next;
        p->at_rest -= size_bytes(size);
        budget_give(p->budget, BUDGET_REST, size_bytes(size));
    } else {
        size_t room = size < CLASSES ? size_bytes(size) : (bytes + LINE - 1) & -LINE;
        b = mem_aligned(LINE, LINE + room);
        if (b == NULL)
            return NULL;
        *b = (struct buffer){.pool = p, .size = size};
    }
    p->out++;
    *ret_release = (struct van_release){.release = pool_give_back, .ctx = b};
    return (char *)b + LINE;
}
