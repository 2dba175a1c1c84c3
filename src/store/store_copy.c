// Copies and running means of tables: of all partitions, or of one (for a table whose
// partitions have replicas).
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <string.h>

#include "store/gather.h"
#include "store/parcel.h"
#include "store/store_internal.h"

static int take_copied(struct gather *g, struct err *e)
{
    struct store *to = g->ctx;
    TRY(store_put_rows(to, g->keys, g->n, g->rows, e));
    return g->n_extras > 0
               ? store_put_extras(to, g->extra_keys, g->n_extras, g->extras, e)
               : 0;
}

static int copy_partition(struct gather *g, struct store *to, struct store *from,
                          uint32_t p, struct life_time t, struct err *e)
{
    struct buf head = BUF_INIT(SIZE_MAX);
    TRY(store_each(from, p, gather_row, g, e));
    TRY(gather_flush(g, e));
    int rc = store_get_partition(from, p, t, &head) == 0
                 ? store_put_partition(to, p, head.data, head.len, e)
                 : err_nomem(e, "a partition");
    buf_free(&head);
    return rc;
}

// Opens the rows that are copied from one store to the other.
static int open_copied(struct gather **ret, struct store *to, const struct store *from,
                       struct err *e)
{
    assert(to != from && to->n_parts == from->n_parts);
    assert(to->accessor.width == from->accessor.width &&
           to->accessor.extra_width == from->accessor.extra_width);
    (void)from;
    return gather_open(ret, &to->accessor, take_copied, to, e);
}

int store_copy(struct store *to, struct store *from, struct err *e)
{
    struct gather *g;
    TRY(open_copied(&g, to, from, e));
    int rc = 0;
    for (uint32_t p = 0; p < from->n_parts && rc == 0; p++)
        rc = copy_partition(g, to, from, p, store_time(from, p), e);
    gather_close(g);
    return rc;
}

int store_empty(struct store *s, uint32_t partition, struct err *e)
{
    TRY(store_drop(s, partition, e));
    store_set_owned(s, partition, true);
    s->parts[partition].published_by = 0;
    return 0;
}

int store_copy_partition(struct store *to, struct store *from, uint32_t partition,
                         uint64_t step, struct err *e)
{
    struct life_time t = store_time(from, partition);
    struct gather *g;
    t.step = from->parts[partition].step > step ? from->parts[partition].step : step;
    TRY(open_copied(&g, to, from, e));
    int rc = store_empty(to, partition, e);
    if (rc == 0)
        rc = copy_partition(g, to, from, partition, t, e);
    gather_close(g);
    return rc;
}

struct mean {
    struct store *to;
    struct gather *gather; // the rows that `to` gets
    float share;
};

static int mean_row(void *ctx, uint64_t key, const float *row, const float *extra,
                    struct err *e)
{
    struct mean *m = ctx;
    const struct accessor *a = &m->to->accessor;
    const float *ignored, *mean = store_row(m->to, key, &ignored);
    float *to = m->to->first;
    memcpy(to, row, a->width * sizeof(*row));
    for (uint32_t g = 0; g < a->n_groups && mean != NULL; g++)
        for (uint32_t i = 0; i < a->groups[g].n; i++) {
            uint32_t at = a->groups[g].weights + i;
            to[at] = mean[at] + m->share * (row[at] - mean[at]);
        }
    (void)extra; // rows without a lifecycle have no extra rows
    return gather_row(m->gather, key, to, NULL, e);
}

// Does store_mean in the partitions [first, end).
static int mean_of(struct store *to, struct store *from, uint32_t first, uint32_t end,
                   float share, struct err *e)
{
    if (accessor_has_lifecycle(&to->accessor))
        return err_set(e, TUG_EUSAGE,
                       "rows of table %s have a lifecycle, so they have no mean",
                       from->config.name);
    struct mean m = {.to = to, .share = share};
    TRY(open_copied(&m.gather, to, from, e));
    int rc = 0;
    for (uint32_t p = first; p < end && rc == 0; p++) {
        rc = store_each(from, p, mean_row, &m, e);
        if (rc == 0)
            rc = gather_flush(m.gather, e);
    }
    gather_close(m.gather);
    return rc;
}

int store_mean(struct store *to, struct store *from, float share, struct err *e)
{
    return mean_of(to, from, 0, from->n_parts, share, e);
}

int store_mean_partition(struct store *to, struct store *from, uint32_t partition,
                         float share, struct err *e)
{
    return mean_of(to, from, partition, partition + 1, share, e);
}
