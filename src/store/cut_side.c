// Copies of rows for a cut: see cut_side.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/cut_side.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

// The copy of a row has the slot of its extra row's copy, whose bits follow the floats.
enum { LINK = 1 };

// Most bytes that the number of a slot takes in the caller's array, and in `free`. An array
// grows to twice its size, so up to half of it is unused.
enum { CALLERS_NUMBER = 2 * sizeof(uint32_t), FREE_NUMBER = 2 * sizeof(uint32_t) };

static uint32_t get_link(const struct side_slots *x, uint32_t slot)
{
    uint32_t bits;
    memcpy(&bits, table_row(x->view, slot) + x->width, sizeof(bits));
    return bits;
}

static void set_link(const struct side_slots *x, uint32_t slot, uint32_t to)
{
    memcpy(table_row(x->view, slot) + x->width, &to, sizeof(to));
}

static int open_slots(struct side_slots *x, uint32_t width, uint32_t links)
{
    x->width = width;
    return slabs_open(&x->slabs, width + links, sizeof(uint64_t), &x->view);
}

static void close_slots(struct side_slots *x)
{
    slabs_close(&x->slabs);
    mem_free(x->free);
}

static int take_slot(struct side_slots *x, uint32_t *ret)
{
    if (x->n_free > 0) {
        *ret = x->free[--x->n_free];
    } else {
        if (x->next == x->end) {
            TRY(mem_room(&x->free, &x->cap_free, x->used + x->slabs.chunk_rows));
            TRY(slabs_take(&x->slabs, &x->next));
            x->end = x->next + x->slabs.chunk_rows;
        }
        *ret = x->next++;
    }
    x->used++;
    return 0;
}

static void give_slot(struct side_slots *x, uint32_t slot)
{
    assert(x->used > 0 && x->n_free < x->cap_free);
    x->free[x->n_free++] = slot;
    x->used--;
}

static void fill_slot(const struct side_slots *x, uint32_t slot, uint64_t key,
                      const float *values)
{
    float *row = table_row(x->view, slot);
    memcpy((char *)row - sizeof(key), &key, sizeof(key));
    memcpy(row, values, x->width * sizeof(float));
}

int side_open(struct side *d, uint32_t width, uint32_t extra_width)
{
    *d = (struct side){0};
    TRY(open_slots(&d->rows, width, extra_width > 0 ? LINK : 0));
    return extra_width > 0 ? open_slots(&d->extras, extra_width, 0) : 0;
}

void side_close(struct side *d)
{
    close_slots(&d->rows);
    close_slots(&d->extras);
}

int side_add(struct side *d, uint64_t key, const float *row, const float *extra,
             uint32_t *ret_slot)
{
    uint32_t slot, extra_slot = TABLE_NONE;
    assert(extra == NULL || d->extras.width > 0);
    TRY(take_slot(&d->rows, &slot));
    if (extra != NULL && take_slot(&d->extras, &extra_slot) != 0) {
        give_slot(&d->rows, slot);
        return TUG_ENOMEM;
    }
    fill_slot(&d->rows, slot, key, row);
    if (extra != NULL)
        fill_slot(&d->extras, extra_slot, key, extra);
    if (d->extras.width > 0)
        set_link(&d->rows, slot, extra_slot);
    *ret_slot = slot;
    return 0;
}

void side_free(struct side *d, const uint32_t *slots, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t extra = d->extras.width > 0 ? get_link(&d->rows, slots[i]) : TABLE_NONE;
        if (extra != TABLE_NONE)
            give_slot(&d->extras, extra);
        give_slot(&d->rows, slots[i]);
    }
}

const float *side_row(const struct side *d, uint32_t slot)
{
    return table_row(d->rows.view, slot);
}

const float *side_extra(const struct side *d, uint32_t slot)
{
    uint32_t extra = d->extras.width > 0 ? get_link(&d->rows, slot) : TABLE_NONE;
    return extra == TABLE_NONE ? NULL : table_row(d->extras.view, extra);
}

static uint64_t row_slot_bytes(const struct side *d)
{
    return d->rows.view.stride + CALLERS_NUMBER + FREE_NUMBER;
}

static uint64_t extra_slot_bytes(const struct side *d)
{
    return d->extras.width > 0 ? d->extras.view.stride + FREE_NUMBER : 0;
}

uint64_t side_bytes(const struct side *d)
{
    return d->rows.used * row_slot_bytes(d) + d->extras.used * extra_slot_bytes(d);
}

uint64_t side_row_bytes(const struct side *d)
{
    return row_slot_bytes(d) + extra_slot_bytes(d);
}
