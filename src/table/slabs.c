// Memory of rows; see slabs.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "table/slabs.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

enum {
    SLAB_BYTES_MIN = 2 << 20, // a huge page of 2 MiB
    SLAB_ROWS_MIN = 64,
    SLABS_MAX = 1 << 20,
    CHUNK_ROWS_MAX = 64,
    CHUNK_BYTES_MAX = 64 << 10,
    EXTENT_SLABS_MAX = 64,
    EXTENT_BYTES_MAX = 128 << 20,
};

static uint32_t clamp(uint64_t x, uint32_t low, uint32_t high)
{
    return x < low ? low : x > high ? high : (uint32_t)x;
}

// Returns the number of slabs in the extent that begins with slab `first`; the number
// depends on `first` only, so it is not stored.
static uint32_t extent_slabs(const struct slabs *s, uint32_t first)
{
    uint64_t most = clamp(EXTENT_BYTES_MAX / s->slab_bytes, 1, EXTENT_SLABS_MAX);
    uint64_t slabs = clamp(first / 16, 1, (uint32_t)most);
    return slabs < s->max_slabs - first ? (uint32_t)slabs : s->max_slabs - first;
}

static uint32_t row_stride(uint32_t width, uint32_t align)
{
    uint32_t bytes = (uint32_t)(sizeof(uint64_t) + width * sizeof(float));
    return (bytes + align - 1) / align * align;
}

static void set_shape(struct slabs *s, uint32_t stride, struct table_slabs *ret_view)
{
    uint32_t shift = 6;
    while (((uint64_t)stride << shift) < SLAB_BYTES_MIN)
        shift++;
    s->slab_rows = (uint32_t)1 << shift;
    s->slab_bytes = (uint64_t)stride << shift;
    s->max_slabs = clamp(TABLE_MAX_ROWS >> shift, 1, SLABS_MAX);
    s->chunk_rows = CHUNK_ROWS_MAX;
    while (s->chunk_rows > 1 && (uint64_t)s->chunk_rows * stride > CHUNK_BYTES_MAX)
        s->chunk_rows /= 2;
    *ret_view = (struct table_slabs){s->slab, shift, s->slab_rows - 1, stride};
}

static_assert(SLAB_ROWS_MIN == 1 << 6, "where set_shape begins");
static_assert(CHUNK_ROWS_MAX <= SLAB_ROWS_MIN, "a chunk lies in one slab");

static uint64_t directory_bytes(uint32_t slabs)
{
    return (uint64_t)slabs * sizeof(char *);
}

static uint64_t live_bytes(const struct slabs *s, uint32_t slabs)
{
    return (uint64_t)slabs * s->slab_rows / 8;
}

int slabs_open(struct slabs *s, uint32_t width, uint32_t align,
               struct table_slabs *ret_view)
{
    memset(s, 0, sizeof(*s));
    pthread_mutex_init(&s->lock, NULL);
    set_shape(s, row_stride(width, align), ret_view);
    s->slab = mem_reserve(directory_bytes(s->max_slabs));
    s->live = mem_reserve(live_bytes(s, s->max_slabs));
    ret_view->slab = s->slab;
    return s->slab == NULL || s->live == NULL ? TUG_ENOMEM : 0;
}

void slabs_close(struct slabs *s)
{
    if (s->slab_bytes == 0)
        return;
    for (uint32_t i = 0, n; i < s->mapped; i += n) {
        n = extent_slabs(s, i);
        mem_unmap(s->slab[i], n * s->slab_bytes);
    }
    mem_unmap(s->live, live_bytes(s, s->max_slabs));
    mem_unmap(s->slab, directory_bytes(s->max_slabs));
    pthread_mutex_destroy(&s->lock);
    memset(s, 0, sizeof(*s));
}

static int map_extent(struct slabs *s)
{
    uint32_t first = s->mapped;
    uint32_t n = extent_slabs(s, first);
    if (n == 0 ||
        !mem_commit(s->slab, directory_bytes(first), directory_bytes(first + n)) ||
        !mem_commit(s->live, live_bytes(s, first), live_bytes(s, first + n)))
        return TUG_ENOMEM;
    char *p = mem_map(n * s->slab_bytes);
    if (p == NULL)
        return TUG_ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        s->slab[first + i] = p + i * s->slab_bytes;
    s->mapped += n;
    return 0;
}

static int take_locked(struct slabs *s, uint32_t *ret_first)
{
    uint64_t first = slabs_end(s);
    // The largest handle stays unused, because an index entry has handle + 1 in 31 bits.
    if (first + s->chunk_rows >= TABLE_MAX_ROWS)
        return TUG_ENOMEM;
    if (first == (uint64_t)s->mapped * s->slab_rows)
        TRY(map_extent(s));
    atomic_store_explicit(&s->next_row, first + s->chunk_rows, memory_order_relaxed);
    *ret_first = (uint32_t)first;
    return 0;
}

int slabs_take(struct slabs *s, uint32_t *ret_first)
{
    pthread_mutex_lock(&s->lock);
    int rc = take_locked(s, ret_first);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

uint64_t slabs_bytes(const struct slabs *s)
{
    return (slabs_end(s) + s->slab_rows - 1) / s->slab_rows * s->slab_bytes;
}
