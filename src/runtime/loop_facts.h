// The facts that loops of servers answer to STATUS (docs/cluster.md, "The facts of a
// node"), for a process that keeps them: the scheduler's page holds several answers of each
// loop. A server may be an attacker's, so only documented members are kept, as far as their
// types and sizes are as documented, and sums stay within their types.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUNTIME_LOOP_FACTS_H
#define TUG_RUNTIME_LOOP_FACTS_H

#include <jansson.h>
#include <stdint.h>

// Returns a copy of an answer with its documented members only; NULL if memory is out. It
// shares numbers and texts with the answer.
json_t *loop_facts_keep(const json_t *answer);

// Adds up the tables of the loops' answers: users see one table, however many loops hold
// it. Sums of counts end at 2^53. The caller releases the list.
json_t *loop_facts_sum_tables(const json_t *loops);

// Returns x + y, or the greatest number if that is less.
static inline uint64_t loop_facts_add(uint64_t x, uint64_t y)
{
    return x + y >= x ? x + y : UINT64_MAX;
}

#endif
