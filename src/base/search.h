// Binary search, and removal from hash tables with linear probing.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_SEARCH_H
#define TUG_BASE_SEARCH_H

#include <stddef.h>
#include <stdint.h>

// Returns the first number i from `begin` to `end` - 1 for which `condition`, an expression
// of `i`, is true; `end` if it is true for none of them. If the condition is true for a
// number, it must be true for all larger ones.
#define search_first(begin, end, i, condition)                                           \
    ({                                                                                   \
        uint64_t low_ = (begin), high_ = (end);                                          \
        while (low_ < high_) {                                                           \
            uint64_t i = low_ + (high_ - low_) / 2;                                      \
            if (condition)                                                               \
                high_ = i;                                                               \
            else                                                                         \
                low_ = i + 1;                                                            \
        }                                                                                \
        low_;                                                                            \
    })

// Closes the gap that an entry leaves at the place `gap`, a variable, of a table with linear
// probing and `mask` + 1 places: each entry that a search would no longer reach moves
// into the gap, and its old place becomes the gap. `is_used` and `home` are expressions
// of the place `i`: whether it has an entry, and the place at which a search for this
// entry begins. `move` moves the entry from `i` to `gap`. At the end the caller frees the
// place `gap`. A place other than the gap must be free.
#define probe_close(gap, mask, i, is_used, home, move)                                   \
    for (size_t i = (gap + 1) & (mask); is_used; i = (i + 1) & (mask))                   \
        if (((i - (home)) & (mask)) >= ((i - gap) & (mask))) {                           \
            move;                                                                        \
            gap = i;                                                                     \
        }

#endif
