// The facts with which loops of servers answer STATUS (docs/cluster.md, "The facts of a
// node"), for a process that keeps them, as the scheduler's page keeps several answers of
// each loop. An attacker may run a server. So only documented members with the documented
// type and size are kept, and sums do not overflow.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_RUNTIME_LOOP_FACTS_H
#define TUG_RUNTIME_LOOP_FACTS_H

#include <jansson.h>
#include <stdint.h>

// Returns a copy of an answer with only its documented members; NULL if memory ran out.
// The copy shares numbers and texts with the answer.
json_t *loop_facts_keep(const json_t *answer);

// Adds up the tables of the loops' answers: users see one table, however many loops hold
// its rows. Sums of counts end at 2^53. The caller releases the list.
json_t *loop_facts_sum_tables(const json_t *loops);

// Returns x + y, or UINT64_MAX if the sum is larger.
static inline uint64_t loop_facts_add(uint64_t x, uint64_t y)
{
    return x + y >= x ? x + y : UINT64_MAX;
}

#endif
