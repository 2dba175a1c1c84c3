// Memory for answers: it is taken for a message, given back when the van has sent the
// message, and taken again for the next one. The pool outlives pool_close until its last
// buffer is given back.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_SERVER_POOL_H
#define TUG_SERVER_POOL_H

#include <stddef.h>

#include "os/budget.h"
#include "van/van.h"

struct pool;

// Opens a pool. `b` (may be NULL) counts the memory of unused buffers. Returns NULL if
// memory is out.
struct pool *pool_open(struct budget *b);
void pool_close(struct pool *p);

// Takes at least `bytes` bytes, aligned to a cache line. *ret_release gives the memory
// back; the van calls it after sending the message, and a caller that sends no message
// calls it itself. Returns NULL if memory is out.
void *pool_take(struct pool *p, size_t bytes, struct van_release *ret_release);

#endif
