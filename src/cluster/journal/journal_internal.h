// Declares the format of a journal's file, for its reader and its writer.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLUSTER_JOURNAL_JOURNAL_INTERNAL_H
#define TUG_CLUSTER_JOURNAL_JOURNAL_INTERNAL_H

#include "cluster/journal/journal.h"

#define JOURNAL_MAGIC "tugjour1"
enum { JOURNAL_MAGIC_BYTES = 8, JOURNAL_ALIGN = 8 };

// Both structs are written to the file as they lie in memory, so journals, like saves,
// exist only on little-endian machines.
struct journal_head {
    char magic[JOURNAL_MAGIC_BYTES];
    uint64_t random, sum;
};
struct journal_group {
    uint32_t mark;
    uint32_t n;
    uint64_t sum;
};

void journal_head_make(struct journal_head *ret, uint64_t random);
// Makes the head of a group that begins at `at` in a file with this random number.
void journal_group_make(struct journal_group *ret, uint64_t random, uint64_t at,
                        const void *bytes, size_t n);

// Returns the length of a group with n bytes, with its head and the zeros at its end.
static inline uint64_t journal_group_bytes(uint64_t n)
{
    return sizeof(struct journal_group) +
           (n + JOURNAL_ALIGN - 1) / JOURNAL_ALIGN * JOURNAL_ALIGN;
}

#endif
