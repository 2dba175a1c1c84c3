// Memory of answers on their way out: taken for a message, given back when the van has
// sent it, and taken again by the next. It outlives its owner until the last is back.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_POOL_H
#define TUG_SERVER_POOL_H

#include <stddef.h>

#include "base/budget.h"
#include "van/van.h"

struct pool;

// `b` (may be NULL) counts what rests. NULL: out of memory.
struct pool *pool_open(struct budget *b);
void pool_close(struct pool *p);

// At least `bytes`, aligned to a cache line. *ret_release gives it back; who does not
// send it calls that. NULL: out of memory.
void *pool_take(struct pool *p, size_t bytes, struct van_release *ret_release);

#endif
