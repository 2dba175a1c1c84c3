// A van's links by number. A new link gets a greater number than all earlier links, so
// the list stays sorted and a link is found by bisection.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_VAN_LINKS_H
#define TUG_VAN_LINKS_H

#include "van/van.h"

struct links {
    struct links_entry {
        van_link number;
        void *link;
    } * list;
    uint32_t n, cap;
    van_link last;
};

van_link links_add(struct links *l, void *link); // 0: no memory, or no number is left
void *links_find(const struct links *l, van_link number); // NULL: no such link
void links_remove(struct links *l, van_link number);
void links_free(struct links *l);

#endif
