// A queue by priority: items with the greatest priority are taken first, items with equal
// priorities in their order. If the oldest item was overtaken KV_OVERTAKES times in a
// row, it is taken next, so that none waits for ever.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_KVAPP_LINE_H
#define TUG_DOORS_KVAPP_LINE_H

#include <stddef.h>
#include <stdint.h>

enum { KV_OVERTAKES = 64 };

// The priority of items of kv_line_put_at_once. It is above all priorities of 32 bits, so
// these items are never overtaken.
#define KV_AT_ONCE INT64_MAX

// An item; the first member of structs that are put into a line.
struct kv_lined {
    struct kv_lined *next;
    int64_t priority;
    uint64_t order;
};

// A queue ordered by priority; empty if zeroed.
struct kv_line {
    struct kv_lined *first, *last;
    uint64_t count; // number of items put so far
    uint32_t n;     // number of items in the line
    uint32_t overtook;
};

// Adds an item after the items with the same priority.
void kv_line_put(struct kv_line *l, struct kv_lined *x, int32_t priority);
// Adds an item before all items that kv_line_put has added. Among themselves, the items
// that this function adds are ordered by number.
void kv_line_put_at_once(struct kv_line *l, struct kv_lined *x, uint64_t number);
// Removes and returns the next item; NULL if the line is empty.
struct kv_lined *kv_line_take(struct kv_line *l);
void kv_line_clear(struct kv_line *l); // drops all items, which are not freed

#endif
