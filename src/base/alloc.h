// Memory: every allocation of the project uses these functions, so that tests can make
// the n-th one fail and can count what was not freed.
//
// All functions return NULL on failure, and any thread may call them. The caller checks
// sizes from outside against a limit first; mem_array refuses products that overflow.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_ALLOC_H
#define TUG_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t bytes);
void *mem_zalloc(size_t bytes);
void *mem_array(size_t n, size_t bytes);  // room for n elements, not zeroed
void *mem_realloc(void *p, size_t bytes); // on failure p stays valid and unchanged
void *mem_realloc_array(void *p, size_t n, size_t bytes);
// Makes room for `n` elements in *p_array, which has room for *p_cap: an array that grows
// at least doubles. New elements are not zeroed. Returns 0, or TUG_ENOMEM, which leaves the
// array and *p_cap unchanged.
#define mem_room(p_array, p_cap, n)                                                      \
    ({                                                                                   \
        size_t cap_ = (size_t) * (p_cap);                                                \
        int rc_ = mem_room_for((p_array), &cap_, (n), sizeof(**(p_array)),               \
                               (__typeof__(*(p_cap)))-1);                                \
        *(p_cap) = (__typeof__(*(p_cap)))cap_;                                           \
        rc_;                                                                             \
    })
int mem_room_for(void *p_array, size_t *p_cap, size_t n, size_t bytes, size_t most);
void *mem_aligned(size_t align, size_t bytes); // free with mem_free
char *mem_strdup(const char *s);
void mem_free(void *p); // `p` may be NULL

// mem_map returns zeroed whole pages straight from the kernel; large mappings are aligned
// to 2 MiB and ask for huge pages, which makes random reads 2.5 times as fast. mem_unmap
// needs the same size.
void *mem_map(size_t bytes);
void mem_unmap(void *p, size_t bytes);

// mem_reserve reserves address space without memory, for arrays that grow in place.
// mem_commit makes the bytes from `old_bytes` (the size committed before) up to
// `new_bytes` usable and zeroed. Only a 2 MiB block that is committed whole becomes a
// huge page, so that no huge page is half unused. Free the space with mem_unmap and the
// reserved size.
void *mem_reserve(size_t bytes);
bool mem_commit(void *p, size_t old_bytes, size_t new_bytes);

// Returns the bytes that the system could give now: free memory and its caches of files,
// but not more than the limits of the process and of its container. (On a machine that
// has read files for a while, caches fill nearly all memory.)
uint64_t mem_available(void);

// These functions are for tests. mem_fault_after(n) makes the (n+1)-th allocation from
// now on fail, and only that one; n < 0 cancels this. mem_faulted returns whether that
// allocation has failed.
void mem_fault_after(long n);
bool mem_faulted(void);
size_t mem_live(void); // number of allocations and mappings not freed yet

#endif
