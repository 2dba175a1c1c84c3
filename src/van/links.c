// Links by number.
//
// SPDX-License-Identifier: Apache-2.0
#include "van/links.h"

#include <string.h>

#include "base/alloc.h"
#include "base/search.h"

van_link links_add(struct links *l, void *link)
{
    if (l->last == UINT32_MAX)
        return 0;
    if (mem_room(&l->list, &l->cap, l->n + 1) != 0)
        return 0;
    l->list[l->n++] = (struct links_entry){++l->last, link};
    return l->last;
}

// Returns the index of the first entry whose number is not below `number`.
static uint32_t lower_bound(const struct links *l, van_link number)
{
    return (uint32_t)search_first(0, l->n, i, l->list[i].number >= number);
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
