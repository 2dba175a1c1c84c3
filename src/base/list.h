// Doubly linked lists whose elements have the links as members: `first` and `last` are the
// list's two pointers, `before` and `behind` the names of an element's. Both macros
// evaluate their arguments several times.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_LIST_H
#define TUG_BASE_LIST_H

#include <stddef.h>

// Puts x at the end.
#define list_append(first, last, x, before, behind)                                      \
    do {                                                                                 \
        (x)->before = (last);                                                            \
        (x)->behind = NULL;                                                              \
        if ((last) != NULL)                                                              \
            (last)->behind = (x);                                                        \
        else                                                                             \
            (first) = (x);                                                               \
        (last) = (x);                                                                    \
    } while (0)

// Removes x, which must be in the list; x keeps its own links.
#define list_remove(first, last, x, before, behind)                                      \
    do {                                                                                 \
        if ((x)->before != NULL)                                                         \
            (x)->before->behind = (x)->behind;                                           \
        else                                                                             \
            (first) = (x)->behind;                                                       \
        if ((x)->behind != NULL)                                                         \
            (x)->behind->before = (x)->before;                                           \
        else                                                                             \
            (last) = (x)->before;                                                        \
    } while (0)

#endif
