// A queue by priority in which no item waits for ever: see line.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/kvapp/line.h"

#include <assert.h>

static void line_put(struct kv_line *l, struct kv_lined *x)
{
    struct kv_lined **at = &l->first;
    if (l->last != NULL && x->priority <= l->last->priority && x->order > l->last->order)
        at = &l->last->next;
    while (*at != NULL && (x->priority < (*at)->priority ||
                           (x->priority == (*at)->priority && x->order > (*at)->order)))
        at = &(*at)->next;
    x->next = *at;
    *at = x;
    if (x->next == NULL)
        l->last = x;
    l->n++;
}

void kv_line_put(struct kv_line *l, struct kv_lined *x, int32_t priority)
{
    x->priority = priority;
    x->order = ++l->count;
    line_put(l, x);
}

void kv_line_put_at_once(struct kv_line *l, struct kv_lined *x, uint64_t number)
{
    x->priority = KV_AT_ONCE;
    x->order = number;
    line_put(l, x);
}

static struct kv_lined **longest_waiting(struct kv_line *l)
{
    struct kv_lined **oldest = &l->first;
    for (struct kv_lined **at = &l->first; *at != NULL; at = &(*at)->next)
        if ((*at)->order < (*oldest)->order)
            oldest = at;
    return oldest;
}

// Removes the item *at from the list, and corrects l->last if it was that item.
static void take_out(struct kv_line *l, struct kv_lined **at)
{
    struct kv_lined *x = *at;
    assert(l->n > 0);
    *at = x->next;
    if (x == l->last)
        l->last = at == &l->first
                      ? NULL
                      : (struct kv_lined *)((char *)at - offsetof(struct kv_lined, next));
    x->next = NULL;
    l->n--;
}

struct kv_lined *kv_line_take(struct kv_line *l)
{
    struct kv_lined **at = &l->first, *x;
    if (l->first == NULL)
        return NULL;
    if (l->first->priority == l->last->priority) // the first item is also the oldest
        l->overtook = 0;
    else if (l->first->priority != KV_AT_ONCE && ++l->overtook > KV_OVERTAKES) {
        l->overtook = 0;
        at = longest_waiting(l);
    }
    x = *at;
    take_out(l, at);
    return x;
}

void kv_line_clear(struct kv_line *l)
{
    *l = (struct kv_line){.count = l->count};
}
