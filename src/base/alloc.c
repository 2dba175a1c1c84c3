// The only place that asks the system for memory. A count of live allocations and a
// countdown to a failure let tests check that all memory is freed, and that each failed
// allocation ends in an error.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 // from the kernel's headers; glibc has it since 2.37
#endif

enum { HUGE_PAGE = 2 << 20, FIRST_ROOM = 16 };

static atomic_size_t live;
static atomic_long fault = -1; // allocations until the one that fails; negative: no fault
                               // is set
static atomic_bool faulted;

// Returns whether this allocation must fail. Only one thread sees the count pass 0.
static bool strikes(void)
{
    if (atomic_load_explicit(&fault, memory_order_relaxed) < 0)
        return false;
    if (atomic_fetch_sub_explicit(&fault, 1, memory_order_relaxed) != 0)
        return false;
    atomic_store(&faulted, true);
    return true;
}

static bool alloc_refused(size_t bytes)
{
    return bytes > PTRDIFF_MAX || strikes();
}

static void *counted(void *p)
{
    if (p != NULL)
        atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return p;
}

// Returns at least 1, so that an empty object gets an address and NULL always means
// failure.
static size_t at_least_one(size_t bytes)
{
    return bytes > 0 ? bytes : 1;
}

void *mem_alloc(size_t bytes)
{
    return alloc_refused(bytes) ? NULL : counted(malloc(at_least_one(bytes)));
}

void *mem_zalloc(size_t bytes)
{
    return alloc_refused(bytes) ? NULL : counted(calloc(1, at_least_one(bytes)));
}

void *mem_array(size_t n, size_t bytes)
{
    size_t all;
    return __builtin_mul_overflow(n, bytes, &all) ? NULL : mem_alloc(all);
}

void *mem_realloc(void *p, size_t bytes)
{
    if (p == NULL)
        return mem_alloc(bytes);
    return alloc_refused(bytes) ? NULL : realloc(p, at_least_one(bytes));
}

void *mem_realloc_array(void *p, size_t n, size_t bytes)
{
    size_t all;
    return __builtin_mul_overflow(n, bytes, &all) ? NULL : mem_realloc(p, all);
}

int mem_room_for(void *p_array, size_t *p_cap, size_t n, size_t bytes, size_t most)
{
    void *array;
    if (n <= *p_cap)
        return 0;
    if (n > most)
        return TUG_ENOMEM;
    size_t cap = *p_cap <= most / 2 ? 2 * *p_cap : most;
    cap = cap < n ? n : cap;
    cap = cap < FIRST_ROOM && FIRST_ROOM <= most ? FIRST_ROOM : cap;
    memcpy(&array, p_array, sizeof(array));
    array = mem_realloc_array(array, cap, bytes);
    if (array == NULL)
        return TUG_ENOMEM;
    memcpy(p_array, &array, sizeof(array));
    *p_cap = cap;
    return 0;
}

void *mem_aligned(size_t align, size_t bytes)
{
    assert(align >= sizeof(void *) && (align & (align - 1)) == 0);
    void *p = NULL;
    if (alloc_refused(bytes) || posix_memalign(&p, align, at_least_one(bytes)) != 0)
        return NULL;
    return counted(p);
}

char *mem_strdup(const char *s)
{
    size_t bytes = strlen(s) + 1;
    char *copy = mem_alloc(bytes);
    if (copy != NULL)
        memcpy(copy, s, bytes);
    return copy;
}

void mem_free(void *p)
{
    if (p == NULL)
        return;
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    free(p);
}

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (at_least_one(bytes) + page - 1) / page * page;
}

static void *map_pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

// Returns the part of a mapping that is aligned to 2 MiB, and unmaps the rest. The
// mapping is 2 MiB longer than `bytes`.
static char *align_huge(char *p, size_t bytes)
{
    size_t before = -(uintptr_t)p % HUGE_PAGE;
    if (before > 0)
        munmap(p, before);
    munmap(p + before + bytes, HUGE_PAGE - before);
    return p + before;
}

static void *map_huge(size_t bytes)
{
    char *p = map_pages(bytes + HUGE_PAGE);
    if (p == NULL)
        return NULL;
    p = align_huge(p, bytes);
    madvise(p, bytes, MADV_HUGEPAGE); // only a hint: without it the mapping is slower
    return p;
}

void *mem_map(size_t bytes)
{
    if (bytes > PTRDIFF_MAX - 2 * (size_t)HUGE_PAGE || strikes())
        return NULL;
    size_t all = whole_pages(bytes);
    return counted(all >= HUGE_PAGE ? map_huge(all) : map_pages(all));
}

void *mem_reserve(size_t bytes)
{
    if (bytes > PTRDIFF_MAX - 2 * (size_t)HUGE_PAGE || strikes())
        return NULL;
    size_t all = whole_pages(bytes) + HUGE_PAGE;
    char *p = mmap(NULL, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                   0);
    return p == MAP_FAILED ? NULL : counted(align_huge(p, whole_pages(bytes)));
}

// Asks for huge pages up to the new end. The block that contained the old end already has
// small pages, which the kernel collapses into a huge one (Linux 6.1). The blocks after
// it become huge when first touched.
static void make_huge(char *p, size_t old_bytes, size_t new_bytes)
{
    size_t from = old_bytes / HUGE_PAGE * HUGE_PAGE;
    size_t to = new_bytes / HUGE_PAGE * HUGE_PAGE;
    if (from >= to)
        return;
    madvise(p + from, to - from, MADV_HUGEPAGE);
    if (from < old_bytes)
        madvise(p + from, HUGE_PAGE, MADV_COLLAPSE);
}

bool mem_commit(void *p, size_t old_bytes, size_t new_bytes)
{
    size_t from = old_bytes > 0 ? whole_pages(old_bytes) : 0;
    size_t to = whole_pages(new_bytes);
    if (from >= to)
        return true;
    if (strikes() || mprotect((char *)p + from, to - from, PROT_READ | PROT_WRITE) != 0)
        return false;
    make_huge(p, from, to);
    return true;
}

void mem_unmap(void *p, size_t bytes)
{
    if (p == NULL)
        return;
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    munmap(p, whole_pages(bytes));
}

// Returns the number after `name` in a short file of the system; UINT64_MAX if the file
// has no such number.
static uint64_t number_in(const char *path, const char *name)
{
    char text[1024];
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return UINT64_MAX;
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = 0;
    const char *at = strstr(text, name);
    char *end;
    uint64_t x = at != NULL ? strtoull(at + strlen(name), &end, 10) : 0;
    return at != NULL && end > at + strlen(name) ? x : UINT64_MAX;
}

uint64_t mem_available(void)
{
    uint64_t kib = number_in("/proc/meminfo", "MemAvailable:");
    uint64_t there = kib < UINT64_MAX / 1024 ? kib * 1024 : UINT64_MAX;
    const char *const limits[] = {"/sys/fs/cgroup/memory.max", // "max": no limit
                                  "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        uint64_t limit = number_in(limits[i], "");
        there = limit < there ? limit : there;
    }
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur < there)
        there = space.rlim_cur;
    return there;
}

void mem_fault_after(long n)
{
    atomic_store(&faulted, false);
    atomic_store(&fault, n);
}

bool mem_faulted(void)
{
    return atomic_load(&faulted);
}

size_t mem_live(void)
{
    return atomic_load(&live);
}
