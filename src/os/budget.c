// Counts the bytes of a process's buffers.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/budget.h"

#include <stddef.h>

#include "base/alloc.h"
#include "os/clock.h"

#define LEAST ((uint64_t)64 << 20)
// A message of the greatest length fits into the share of its kind if a process has this
// limit.
#define MOST ((uint64_t)4 << 30)
#define SHORT_NS (5 * SECOND_NS)

enum { EIGHTHS = 8 };

// The share of each kind, in eighths of the limit; BUDGET_REST has no share.
static const struct kind {
    const char *name;
    unsigned eighths;
} kinds[BUDGET_KINDS] = {
    [BUDGET_LINKS] = {"links", 4},   [BUDGET_BODIES] = {"bodies", 4},
    [BUDGET_QUEUED] = {"queued", 4}, [BUDGET_PENDING] = {"held", 4},
    [BUDGET_LISTS] = {"lists", 2},   [BUDGET_CLOCKS] = {"clocks", 4},
    [BUDGET_REST] = {"rest", 0},
};

uint64_t budget_of(uint64_t memory, uint64_t *ret_rows)
{
    uint64_t bytes = (memory != 0 ? memory : mem_available()) / 4;
    bytes = bytes < MOST ? bytes : MOST;
    if (ret_rows != NULL)
        *ret_rows = memory != 0 ? memory - bytes : 0;
    return bytes > LEAST ? bytes : LEAST;
}

void budget_open(struct budget *b, uint64_t bytes)
{
    b->bytes = bytes;
    atomic_init(&b->used, 0);
    atomic_init(&b->refused_at, 0);
    atomic_init(&b->refused, 0);
    atomic_init(&b->closed, 0);
    for (size_t k = 0; k < BUDGET_KINDS; k++)
        atomic_init(&b->kinds[k], 0);
}

static uint64_t budget_read(const atomic_uint_least64_t *x)
{
    return atomic_load_explicit(x, memory_order_relaxed);
}

// Returns the limit of all kinds together except BUDGET_REST, for which the
// last quarter is left.
static uint64_t limit(const struct budget *b)
{
    return b->bytes - b->bytes / 4;
}

uint64_t budget_most(const struct budget *b, enum budget_kind kind)
{
    if (b == NULL)
        return UINT64_MAX;
    return kind == BUDGET_REST ? b->bytes / 4 : limit(b) / EIGHTHS * kinds[kind].eighths;
}

uint64_t budget_used(const struct budget *b, enum budget_kind kind)
{
    return b != NULL ? budget_read(&b->kinds[kind]) : 0;
}

static uint64_t budget_add(atomic_uint_least64_t *x, uint64_t n)
{
    return atomic_fetch_add_explicit(x, n, memory_order_relaxed) + n;
}

bool budget_force(struct budget *b, enum budget_kind kind, uint64_t n)
{
    if (b == NULL)
        return true;
    bool fits = budget_add(&b->kinds[kind], n) <= budget_most(b, kind);
    if (kind != BUDGET_REST)
        fits &= budget_add(&b->used, n) <= limit(b);
    return fits;
}

bool budget_take(struct budget *b, enum budget_kind kind, uint64_t n)
{
    if (budget_force(b, kind, n))
        return true;
    budget_give(b, kind, n);
    if (kind != BUDGET_REST) // memory that cannot be kept for reuse is freed, which
                             // refuses no request
        budget_refused(b);
    return false;
}

void budget_give(struct budget *b, enum budget_kind kind, uint64_t n)
{
    if (b == NULL)
        return;
    atomic_fetch_sub_explicit(&b->kinds[kind], n, memory_order_relaxed);
    if (kind != BUDGET_REST)
        atomic_fetch_sub_explicit(&b->used, n, memory_order_relaxed);
}

static bool has_room(uint64_t used, uint64_t most, uint64_t n)
{
    return used <= most && n <= most - used;
}

bool budget_fits(const struct budget *b, enum budget_kind kind, uint64_t n)
{
    if (b == NULL)
        return true;
    return has_room(budget_read(&b->kinds[kind]), budget_most(b, kind), n) &&
           (kind == BUDGET_REST || has_room(budget_read(&b->used), limit(b), n));
}

void budget_delayed(struct budget *b)
{
    if (b != NULL)
        budget_add(&b->refused, 1);
}

void budget_pressed(struct budget *b)
{
    if (b != NULL)
        atomic_store_explicit(&b->refused_at, clock_ns(), memory_order_relaxed);
}

void budget_refused(struct budget *b)
{
    budget_delayed(b);
    budget_pressed(b);
}

void budget_closed(struct budget *b)
{
    if (b != NULL)
        budget_add(&b->closed, 1);
}

bool budget_short(const struct budget *b, uint64_t now)
{
    uint64_t at = b != NULL ? budget_read(&b->refused_at) : 0;
    return at != 0 && now < at + SHORT_NS;
}

const char *budget_name(enum budget_kind kind)
{
    return kinds[kind].name;
}
