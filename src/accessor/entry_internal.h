// The classes of tug's policies, for entry.c, and numbers that their files share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_ACCESSOR_ENTRY_INTERNAL_H
#define TUG_ACCESSOR_ENTRY_INTERNAL_H

#include "accessor/entry.h"

// The highest count of bloom's counters, which have 4 bits (sketch's have 32).
enum { ENTRY_BLOOM_COUNTS = 15 };
#define ENTRY_SKETCH_COUNTS UINT32_MAX

extern const struct entry_class entry_none, entry_probability; // entry.c
extern const struct entry_class entry_count, entry_show_click; // entry_exact.c
extern const struct entry_class entry_bloom, entry_sketch;     // entry_shared.c

// Returns what a push adds to its key's count: its shows, or 1. Shows that are NaN or
// negative count 0.
static inline double entry_counts(const struct entry_options *o, float show)
{
    if (!o->by_shows)
        return 1;
    return show > 0 && show <= 3.4e38f ? (double)show : 0;
}

#endif
