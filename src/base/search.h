// Binary search.
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

#endif
