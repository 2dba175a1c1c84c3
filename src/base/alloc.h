// Memory: every allocation of the project goes through here, so that tests can make the
// n-th one fail and can see what was left behind.
//
// All functions return NULL on failure, at any thread. Sizes that come from outside are
// checked by the caller against a limit first; mem_array refuses products that overflow.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_ALLOC_H
#define TUG_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t bytes);
void *mem_zalloc(size_t bytes);
void *mem_array(size_t n, size_t bytes);  // n elements, not zeroed
void *mem_realloc(void *p, size_t bytes); // on failure p stays as it was
void *mem_realloc_array(void *p, size_t n, size_t bytes);
void *mem_aligned(size_t align, size_t bytes); // freed with mem_free
char *mem_strdup(const char *s);
void mem_free(void *p); // NULL is fine

// Whole pages straight from the kernel, zeroed, aligned to 2 MiB when that large, with
// huge pages asked for (worth 2.5x on random reads). Unmapped with the same size.
void *mem_map(size_t bytes);
void mem_unmap(void *p, size_t bytes);

// Address space without memory, for arrays that grow in place: mem_commit makes the bytes
// from `old_bytes` (what was committed before) up to `new_bytes` usable, zeroed. Only
// 2 MiB blocks that are committed whole become huge pages, so none is half unused.
// Given back with mem_unmap and the reserved size.
void *mem_reserve(size_t bytes);
bool mem_commit(void *p, size_t old_bytes, size_t new_bytes);

// Bytes that the system could give now: what is free, and what it only caches (on a machine
// that has read files for a while nearly nothing is free), but no more than the limits of
// the process and of its container.
uint64_t mem_available(void);

// For tests. mem_fault_after(n): the (n+1)-th allocation from now on fails, and only that
// one; n < 0 switches the fault off. mem_faulted(): whether it has struck.
void mem_fault_after(long n);
bool mem_faulted(void);
size_t mem_live(void); // allocations and mappings not freed yet

#endif
