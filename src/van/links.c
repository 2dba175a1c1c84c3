// Links by number.
//
// SPDX-License-Identifier: Apache-2.0
#include "van/links.h"

#include <string.h>

#include "base/alloc.h"

van_link links_add(struct links *l, void *link)
{
    if (l->last == UINT32_MAX)
        return 0;
    if (l->n == l->cap) {
        uint32_t cap = l->cap < 8 ? 8 : l->cap * 2;
        struct links_entry *list = mem_realloc_array(l->list, cap, sizeof(*list));
        if (list == NULL)
            return 0;
        l->list = list;
        l->cap = cap;
    }
    l->list[l->n++] = (struct links_entry){++l->last, link};
    return l->last;
}

// Returns the index of the first entry whose number is not below `number`.
static uint32_t lower_bound(const struct links *l, van_link number)
{
    uint32_t low = 0, high = l->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (l->list[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void *links_find(const struct links *l, van_link number)
{
    uint32_t i = lower_bound(l, number);
    return i < l->n && l->list[i].number == number ? l->list[i].link : NULL;
}

void links_remove(struct links *l, van_link number)
{
    uint32_t i = lower_bound(l, number);
    if (i == l->n || l->list[i].number != number)
        return;
    l->n--;
    memmove(l->list + i, l->list + i + 1, (l->n - i) * sizeof(*l->list));
}

void links_free(struct links *l)
{
    mem_free(l->list);
    *l = (struct links){.list = NULL};
}
