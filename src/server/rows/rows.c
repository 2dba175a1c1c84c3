// Walks over the rows of partitions in ascending order of keys, page by page. Rows of
// tables without a feature lifecycle are returned whole, other rows as a pull returns
// them.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "server/room.h"
#include "server/rows/place.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

struct page {
    const struct accessor *a;
    uint32_t width; // floats per row
    uint64_t *keys;
    float *values;
    size_t n, max;
    bool more;
};

enum { PAGE_FULL = 1 }; // the code with which add_row stops the walk; not an error

static int add_row(void *ctx, uint64_t key, const float *row, const float *extra,
                   struct err *e)
{
    struct page *p = ctx;
    (void)e;
    // A page begins after the last key of the page before it, so keys ascend.
    assert(p->n == 0 || p->keys[p->n - 1] < key);
    p->more = p->n == p->max;
    if (p->more)
        return PAGE_FULL;
    // the row is only read here, though the function takes pointers to
    // floats that may change
    float *rows[1] = {(float *)(uintptr_t)row}, *extras[1] = {(float *)(uintptr_t)extra};
    float *to = p->values + p->n * p->width;
    if (accessor_has_lifecycle(p->a))
        accessor_gather_life(p->a, rows, extras, 1, to);
    else
        memcpy(to, row, p->width * sizeof(*to));
    p->keys[p->n++] = key;
    return 0;
}

// Returns the largest size, in bytes, of a page of `max` rows.
static uint64_t page_bytes(const struct table_spec *s, uint32_t max)
{
    uint64_t row = sizeof(uint64_t) + spec_page_width(s) * sizeof(float);
    return spec_page_rows(s, max) * row + sizeof(uint64_t);
}

static enum outcome send_page(struct shard *s, const struct shard_request *q,
                              struct shard_table *t, const struct msg_rows *m)
{
    const struct accessor *a = store_accessor(t->store);
    uint32_t width = spec_page_width(&t->spec);
    size_t max = spec_page_rows(&t->spec, m->max);
    struct van_release release;
    struct err e = {0};
    char *memory = pool_take(s->pool, page_bytes(&t->spec, m->max), &release);
    if (memory == NULL) {
        err_nomem(&e, "a page of rows");
        return shard_refuse_keys(s, q, "rows", t, &e);
    }
    struct page p = {
        .a = a, .width = width, .keys = (uint64_t *)(void *)memory, .max = max};
    p.values = (float *)(void *)(p.keys + max);
    int rc = store_each_from(t->store, m->partition, m->from, add_row, &p, &e);
    if (rc != 0 && rc != PAGE_FULL) {
        release.release(release.ctx);
        return shard_refuse_keys(s, q, "rows", t, &e);
    }
    struct msg_rows_are answer = {.n = (uint32_t)p.n,
                                  .width = width,
                                  .more = p.more,
                                  .keys = {p.keys, p.n * sizeof(*p.keys)},
                                  .values = {p.values, p.n * width * sizeof(float)}};
    shard_send(s, q, MSG_ROWS_ARE, &answer, &release, page_bytes(&t->spec, m->max));
    return ANSWERED;
}

enum outcome rows_serve(struct shard *s, struct shard_request *q)
{
    const struct msg_rows *m = &q->m->rows;
    struct err e = {0};
    struct shard_table *t = tables_find(s, m->table, &e);
    if (t != NULL && (m->partition >> s->bits) != 0)
        err_set(&e, TUG_EUSAGE, "there is no partition %u", m->partition);
    else if (t != NULL && m->max == 0)
        err_set(&e, TUG_EUSAGE, "rows of table '%s': the request asks for 0 rows",
                t->spec.config.name);
    if (e.code != 0) {
        shard_refuse(s, q, &e);
        return ANSWERED;
    }
    struct key_run run[2] = {{m->partition, 0}, {UINT32_MAX, 0}};
    struct keys k = {.runs = run, .n_runs = 1};
    enum outcome outcome = place_check(s, q, m->epoch, t, &k, false, &e);
    if (outcome != GOES_ON)
        return outcome;
    outcome = room_for(s, q, page_bytes(&t->spec, m->max), &e);
    if (outcome != GOES_ON)
        return outcome;
    if (e.code != 0)
        return shard_refuse_keys(s, q, "rows", t, &e);
    return send_page(s, q, t, m);
}
