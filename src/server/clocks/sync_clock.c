// The clock of synchronous batches: see sync_clock.h. One bit for each micro-batch is set
// when the micro-batch has arrived. A batch has at most sixteen parts, which are sorted.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/clocks/sync_clock.h"

#include <assert.h>
#include <string.h>

static const uint32_t everything = (uint32_t)(((uint64_t)1 << SHARD_MICROS) - 1);

static uint32_t bits_of(uint8_t micro, uint8_t micros)
{
    return (uint32_t)((((uint64_t)1 << micros) - 1) << micro);
}

int sync_clock_check_number(uint64_t clock, struct err *e)
{
    if (clock <= SYNC_CLOCK_MAX)
        return 0;
    return err_set(e, TUG_EUSAGE, "there is no batch %llu", (unsigned long long)clock);
}

int sync_clock_check(uint64_t clock, uint8_t micro, uint8_t micros, struct err *e)
{
    if (micros == 0 || micros > SHARD_MICROS || (micros & (micros - 1)) != 0 ||
        micro % micros != 0 || micro + micros > SHARD_MICROS)
        return err_set(
            e, TUG_EUSAGE,
            "it covers %u micro-batches from number %u on; their number must be a power "
            "of two, the first must be a multiple of it, and a batch has %d",
            micros, micro, SHARD_MICROS);
    return sync_clock_check_number(clock, e);
}

bool sync_clock_is_ahead(const struct sync_clock *c, uint64_t clock)
{
    return clock >= c->next && clock - c->next >= SHARD_MAX_CLOCKS;
}

static struct sync_batch *batch_of(struct sync_clock *c, uint64_t clock)
{
    return &c->open[clock % SHARD_MAX_CLOCKS];
}

bool sync_clock_has(const struct sync_clock *c, uint64_t clock, uint8_t micro,
                    uint8_t micros)
{
    const struct sync_batch *b = &c->open[clock % SHARD_MAX_CLOCKS];
    if (clock < c->next)
        return true;
    // All micro-batches of this range may have arrived in a part with a larger range, or
    // in several parts with smaller ranges.
    uint32_t bits = bits_of(micro, micros);
    return (b->covered & bits) == bits;
}

uint32_t sync_clock_add(struct sync_clock *c, uint64_t clock, uint8_t micro,
                        uint8_t micros, void *what, void **ret_dropped)
{
    struct sync_batch *b = batch_of(c, clock);
    uint32_t left = 0, dropped = 0, at = 0;
    assert(clock >= c->next && clock - c->next < SHARD_MAX_CLOCKS);
    assert(micros > 0 && micro % micros == 0 && micro + micros <= SHARD_MICROS);
    assert(!sync_clock_has(c, clock, micro, micros));
    for (uint32_t i = 0; i < b->n; i++) {
        struct sync_part p = b->parts[i];
        if (sync_part_within(&p, micro, micros)) {
            ret_dropped[dropped++] = p.what;
            continue;
        }
        at += p.micro < micro;
        b->parts[left++] = p;
    }
    assert(left < SHARD_MICROS);
    memmove(b->parts + at + 1, b->parts + at, (left - at) * sizeof(*b->parts));
    b->parts[at] = (struct sync_part){micro, micros, what};
    b->n = left + 1;
    b->covered |= bits_of(micro, micros);
    return dropped;
}

bool sync_clock_complete(const struct sync_clock *c)
{
    return c->open[c->next % SHARD_MAX_CLOCKS].covered == everything;
}

struct sync_batch *sync_clock_next(struct sync_clock *c)
{
    return batch_of(c, c->next);
}

void sync_clock_advance(struct sync_clock *c)
{
    assert(sync_clock_complete(c) && c->next <= SYNC_CLOCK_MAX);
    *batch_of(c, c->next) = (struct sync_batch){0};
    c->next++;
}

uint32_t sync_clock_missing(const struct sync_clock *c)
{
    return everything & ~c->open[c->next % SHARD_MAX_CLOCKS].covered;
}
