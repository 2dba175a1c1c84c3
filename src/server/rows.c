// Walks over the rows of partitions in the order of their keys, page by page. What was
// sorted for a page serves the next ones: a walk sorts as many partitions at once as a
// bound on memory allows, for each sort looks at all rows.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "base/relaxed.h"
#include "server/shard_internal.h"

enum { SCAN_ROWS = 1024 };
#define PAGE_BYTES ((uint64_t)4 << 20)
#define WALK_BYTES ((uint64_t)64 << 20)

void walk_end(struct shard *s, struct walk *w)
{
    budget_give(s->o.budget, BUDGET_HELD, w->counted);
    mem_free(w->entries);
    *w = (struct walk){0};
}

static uint64_t scan(const struct shard *s, const struct shard_table *t,
                     const struct walk *w, struct table_entry *ret)
{
    struct table_slabs slabs = table_slabs(t->rows);
    uint32_t handles[SCAN_ROWS];
    uint64_t cursor = 0, found = 0;
    for (size_t n; (n = table_scan(t->rows, &cursor, handles, SCAN_ROWS)) > 0;)
        for (size_t i = 0; i < n; i++) {
            uint64_t key = table_row_key(table_row(slabs, handles[i]));
            if (tables_partition(s, t, key) - w->first >= w->n)
                continue;
            if (ret != NULL)
                ret[found] = (struct table_entry){key, handles[i]};
            found++;
        }
    return found;
}

// The table itself knows partitions by hash only.
static int sort_range(const struct shard *s, const struct shard_table *t, struct walk *w,
                      struct err *e)
{
    w->n_entries = scan(s, t, w, NULL);
    w->entries = mem_array(w->n_entries + 1, sizeof(*w->entries));
    if (w->entries == NULL)
        return err_nomem(e, "keys to sort");
    scan(s, t, w, w->entries);
    table_sort_by_key(w->entries, w->n_entries);
    return 0;
}

static int walk_begin(struct shard *s, const struct shard_table *t, struct walk *w,
                      uint32_t partition, struct err *e)
{
    uint32_t partitions = (uint32_t)1 << s->bits, n = partitions - partition;
    uint64_t each = table_stats(t->rows).rows * sizeof(struct table_entry) / partitions;
    walk_end(s, w);
    if (each > 0 && WALK_BYTES / each < n)
        n = WALK_BYTES / each > 0 ? (uint32_t)(WALK_BYTES / each) : 1;
    w->first = partition;
    w->n = n;
    int rc;
    if (t->spec.space == WIRE_SPACE_RANGE)
        rc = sort_range(s, t, w, e);
    else
        rc = table_sorted(t->rows, partition, n, &w->entries, &w->n_entries, e);
    if (rc == 0)
        w->counted = w->n_entries * sizeof(*w->entries);
    if (rc == 0 && !budget_force(s->o.budget, BUDGET_HELD, w->counted))
        rc = err_set(e, TUG_EIO, VAN_NO_ROOM " to sort %zu keys (--memory)",
                     w->n_entries);
    if (rc == 0)
        w->generation = t->generation;
    else
        walk_end(s, w);
    return rc;
}

// The first entry of the partition with a key of at least `from`.
static size_t walk_find(const struct shard *s, const struct shard_table *t,
                        const struct walk *w, uint32_t partition, uint64_t from)
{
    size_t low = 0, high = w->n_entries;
    while (low < high) {
        size_t mid = (low + high) / 2;
        uint32_t p = tables_partition(s, t, w->entries[mid].key);
        if (p < partition || (p == partition && w->entries[mid].key < from))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void send_page(struct shard *s, const struct request *q,
                      const struct shard_table *t, const struct walk *w,
                      const struct msg_rows *m)
{
    struct table_slabs slabs = table_slabs(t->rows);
    uint32_t width = t->spec.accessor.width;
    uint64_t row_bytes = sizeof(uint64_t) + width * sizeof(float);
    uint64_t fit = PAGE_BYTES / row_bytes > 0 ? PAGE_BYTES / row_bytes : 1;
    uint64_t max = m->max < fit ? m->max : fit;
    size_t at = walk_find(s, t, w, m->partition, m->from), n = 0;
    struct van_release release;
    char *memory = pool_take(s->pool, max * row_bytes + 8, &release);
    if (memory == NULL) {
        struct err e;
        err_nomem(&e, "a page of rows");
        shard_refuse(s, q, &e);
        return;
    }
    uint64_t *keys = (uint64_t *)(void *)memory;
    float *values = (float *)(void *)(keys + max);
    bool more = false;
    for (; at < w->n_entries; at++, n++) {
        if (tables_partition(s, t, w->entries[at].key) != m->partition)
            break;
        more = n == max;
        if (more)
            break;
        keys[n] = w->entries[at].key;
        relaxed_load_n(values + n * width, table_row(slabs, w->entries[at].handle),
                       width);
    }
    struct msg_rows_are answer = {.n = (uint32_t)n,
                                  .width = width,
                                  .more = more,
                                  .keys = {keys, n * sizeof(*keys)},
                                  .values = {values, n * width * sizeof(float)}};
    van_send(s->van, q->peer->link, MSG_ROWS_ARE, q->id, &answer, &release);
}

// Of a table by configuration: rows as pulls return them, cold ones too.

struct page {
    const struct accessor *a;
    uint64_t from;
    uint64_t *keys;
    float *values;
    size_t n, max;
    bool more;
};

enum { PAGE_FULL = 1 }; // no error

static int add_row(void *ctx, uint64_t key, const float *row, const float *extra,
                   struct err *e)
{
    struct page *p = ctx;
    (void)e;
    if (key < p->from)
        return 0;
    p->more = p->n == p->max;
    if (p->more)
        return PAGE_FULL;
    // Gathering only reads.
    float *rows[1] = {(float *)(uintptr_t)row}, *extras[1] = {(float *)(uintptr_t)extra};
    float *to = p->values + p->n * p->a->pull_width;
    if (p->a->class != NULL)
        accessor_gather_life(p->a, rows, extras, 1, to);
    else
        accessor_gather(p->a, rows, 1, to);
    p->keys[p->n++] = key;
    return 0;
}

static enum outcome send_store_page(struct shard *s, const struct request *q,
                                    struct shard_table *t, const struct msg_rows *m)
{
    const struct accessor *a = store_accessor(t->store);
    uint64_t bytes = sizeof(uint64_t) + a->pull_width * sizeof(float);
    uint64_t fit = PAGE_BYTES / bytes > 0 ? PAGE_BYTES / bytes : 1;
    uint64_t max = m->max < fit ? m->max : fit;
    struct van_release release;
    struct err e = {0};
    char *memory = pool_take(s->pool, max * bytes + 8, &release);
    if (memory == NULL) {
        err_nomem(&e, "a page of rows");
        return shard_refuse_keys(s, q, "rows", t, &e);
    }
    struct page p = {
        .a = a, .from = m->from, .keys = (uint64_t *)(void *)memory, .max = max};
    p.values = (float *)(void *)(p.keys + max);
    int rc = store_each(t->store, m->partition, add_row, &p, &e);
    if (rc != 0 && rc != PAGE_FULL) {
        release.release(release.ctx);
        return shard_refuse_keys(s, q, "rows", t, &e);
    }
    struct msg_rows_are answer = {
        .n = (uint32_t)p.n,
        .width = a->pull_width,
        .more = p.more,
        .keys = {p.keys, p.n * sizeof(*p.keys)},
        .values = {p.values, p.n * a->pull_width * sizeof(float)}};
    van_send(s->van, q->peer->link, MSG_ROWS_ARE, q->id, &answer, &release);
    return ANSWERED;
}

enum outcome rows_serve(struct shard *s, struct request *q)
{
    const struct msg_rows *m = &q->m->rows;
    struct walk *w = &q->peer->walk;
    struct err e = {0};
    bool mine = false;
    struct shard_table *t = tables_find(s, m->table, &e);
    if (t != NULL && (m->partition >> s->bits) != 0)
        err_set(&e, TUG_EUSAGE, "there is no partition %u", m->partition);
    else if (t != NULL && m->max == 0)
        err_set(&e, TUG_EUSAGE, "rows of table '%s': at most 0 are wanted", t->spec.name);
    if (e.code != 0) {
        shard_refuse(s, q, &e);
        return ANSWERED;
    }
    struct key_run run[2] = {{m->partition, 0}, {UINT32_MAX, 0}};
    struct keys k = {.runs = run, .n_runs = 1};
    enum outcome outcome = place_check(s, q, m->epoch, t, &k, &mine, &e);
    if (!mine)
        return outcome;
    outcome = room_for(s, q, PAGE_BYTES, &e);
    if (outcome != ANSWERED)
        return outcome;
    if (t->store != NULL)
        return send_store_page(s, q, t, m);
    bool known = w->generation == t->generation && m->partition - w->first < w->n;
    // Its first page looks at the rows anew, unless they were sorted for the one before.
    if (known && m->from == 0 && m->partition == w->first)
        known = false;
    if (!known && walk_begin(s, t, w, m->partition, &e) != 0)
        return shard_refuse_keys(s, q, "rows", t, &e);
    send_page(s, q, t, w, m);
    return ANSWERED;
}
