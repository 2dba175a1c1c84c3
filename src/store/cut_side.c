// Copies of rows for a cut: see cut_side.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "store/cut_side.h"

#include <assert.h>
#include <string.h>

// Links that follow the floats of a slot, stored as bits of floats.
enum { NEXT, EXTRA, LINKS };

static uint32_t get_link(const struct side_slots *x, uint32_t slot, uint32_t link)
{
    uint32_t bits;
    memcpy(&bits, table_row(x->view, slot) + x->width + link, sizeof(bits));
    return bits;
}

static void set_link(const struct side_slots *x, uint32_t slot, uint32_t link,
                     uint32_t to)
{
    memcpy(table_row(x->view, slot) + x->width + link, &to, sizeof(to));
}

static int open_slots(struct side_slots *x, uint32_t width)
{
    x->width = width;
    x->free = TABLE_NONE;
    return slabs_open(&x->slabs, width + LINKS, sizeof(uint64_t), &x->view);
}

static int take_slot(struct side_slots *x, uint32_t *ret)
{
    if (x->free != TABLE_NONE) {
        *ret = x->free;
        x->free = get_link(x, *ret, NEXT);
    } else {
        if (x->next == x->end) {
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
    assert(x->used > 0 && slot != TABLE_NONE);
    set_link(x, slot, NEXT, x->free);
    x->free = slot;
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
    TRY(open_slots(&d->rows, width));
    return extra_width > 0 ? open_slots(&d->extras, extra_width) : 0;
}

void side_close(struct side *d)
{
    slabs_close(&d->rows.slabs);
    slabs_close(&d->extras.slabs);
}

int side_add(struct side *d, uint64_t key, const float *row, const float *extra,
             uint32_t *list)
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
    set_link(&d->rows, slot, EXTRA, extra_slot);
    set_link(&d->rows, slot, NEXT, *list);
    *list = slot;
    return 0;
}

void side_free(struct side *d, uint32_t list, uint32_t until)
{
    while (list != until) {
        assert(list != TABLE_NONE); // `until` must be one of the slots of the list
        uint32_t slot = list, extra = get_link(&d->rows, slot, EXTRA);
        list = side_next(d, slot);
        if (extra != TABLE_NONE)
            give_slot(&d->extras, extra);
        give_slot(&d->rows, slot);
    }
}

const float *side_row(const struct side *d, uint32_t slot)
{
    return table_row(d->rows.view, slot);
}

const float *side_extra(const struct side *d, uint32_t slot)
{
    uint32_t extra = get_link(&d->rows, slot, EXTRA);
    return extra == TABLE_NONE ? NULL : table_row(d->extras.view, extra);
}

uint32_t side_next(const struct side *d, uint32_t slot)
{
    return get_link(&d->rows, slot, NEXT);
}

uint64_t side_bytes(const struct side *d)
{
    return d->rows.used * d->rows.view.stride + d->extras.used * d->extras.view.stride;
}

uint64_t side_row_bytes(const struct side *d)
{
    return (uint64_t)d->rows.view.stride + d->extras.view.stride;
}
