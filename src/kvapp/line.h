// A line of what waits: the greatest priority first, of equal ones the first. So that none
// waits for ever, the one that has waited longest goes when others have gone before it
// KV_OVERTAKES times in a row.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KVAPP_LINE_H
#define TUG_KVAPP_LINE_H

#include <stddef.h>
#include <stdint.h>

enum { KV_OVERTAKES = 64 };

// Priorities are 32-bit numbers; this one goes before all, and is not overtaken.
#define KV_AT_ONCE INT64_MAX

// The first member of anything in line.
struct kv_lined {
    struct kv_lined *next;
    int64_t priority;
    uint64_t order;
};

// Zeroed, it is empty.
struct kv_line {
    struct kv_lined *first, *last;
    uint64_t count; // that have come
    uint32_t n;     // that wait
    uint32_t overtook;
};

// Adds behind those of its priority.
void kv_line_put(struct kv_line *l, struct kv_lined *x, int32_t priority);
// Adds before all priorities, ordered by number among those added so.
void kv_line_put_at_once(struct kv_line *l, struct kv_lined *x, uint64_t number);
// Takes the next one; NULL if the line is empty.
struct kv_lined *kv_line_take(struct kv_line *l);
void kv_line_clear(struct kv_line *l); // what was in it is nobody's

#endif
