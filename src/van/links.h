// A van's links by number. Numbers only grow, so the list is sorted by itself and a link
// is found by bisection.
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

van_link links_add(struct links *l, void *link); // 0: out of memory or of numbers
void *links_find(const struct links *l, van_link number); // NULL: there is none
void links_remove(struct links *l, van_link number);
void links_free(struct links *l);

#endif
