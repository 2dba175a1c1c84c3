// See partition_copy.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/moves/partition_copy.h"

#include <string.h>

#include "base/alloc.h"
#include "server/moves/record.h"
#include "server/moves/stream.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"
#include "store/parcel.h"

struct table_copy {
    uint32_t table;
    // The state of copying the table's rows; NULL: all rows were copied.
    struct parcel_copy *rows;
};

struct partition_copy {
    struct shard *s;
    enum wire_space space;
    uint32_t partition;
    uint32_t n, at; // number of tables, and index of the table that is being copied
    struct table_copy tables[SPEC_MAX_TABLES];
};

// Adds a table to the copy. If its rows cannot be copied in slices, appends them now. The
// rows of an unbacked table stay here.
static int add_table(struct partition_copy *c, struct shard_table *t, struct buf *to,
                     struct err *e)
{
    bool slices = parcel_has_slices(t->store);
    TRY(record_add_table(t, c->partition, !slices && !t->unbacked, to, e));
    if (!slices || t->unbacked)
        return 0;
    struct table_copy *x = &c->tables[c->n];
    TRY(parcel_copy_open(&x->rows, t->store, c->partition, e));
    x->table = t->spec.id;
    c->n++;
    return 0;
}

int partition_copy_open(struct partition_copy **ret, struct shard *s,
                        enum wire_space space, uint32_t partition, struct buf *to,
                        struct err *e)
{
    struct partition_copy *c = mem_zalloc(sizeof(*c));
    size_t begin = to->len;
    assert(partition_is_free(s, space));
    *ret = NULL;
    if (c == NULL)
        return err_nomem(e, "a copy of a partition");
    c->s = s;
    c->space = space;
    c->partition = partition;
    int rc = record_begin(s, RECORD_ROWS, space, partition, to, e);
    for (uint32_t i = 0; i < s->n_tables && rc == 0; i++)
        if (s->tables[i] != NULL && s->tables[i]->spec.space == space)
            rc = add_table(c, s->tables[i], to, e);
    rc = record_end(to, begin, rc);
    if (rc == 0)
        *ret = c;
    else
        partition_copy_close(c);
    return rc;
}

void partition_copy_close(struct partition_copy *c)
{
    if (c == NULL)
        return;
    for (uint32_t i = 0; i < c->n; i++)
        parcel_copy_close(c->tables[i].rows);
    mem_free(c);
}

bool partition_copy_done(const struct partition_copy *c)
{
    return c->at == c->n;
}

uint64_t partition_copy_left(const struct partition_copy *c)
{
    uint64_t left = 0;
    for (uint32_t i = c != NULL ? c->at : 0; c != NULL && i < c->n; i++)
        left += parcel_copy_left(c->tables[i].rows);
    return left;
}

static int add_slice(const struct table_copy *x, struct buf *to, bool *ret_last,
                     struct err *e)
{
    uint64_t table = x->table;
    if (stream_add_u64s(to, &table, 1) != 0)
        return record_no_room(to, e);
    return parcel_copy_next(x->rows, to, ret_last, e) == 0
               ? 0
               : err_wrap(e, "table %u", x->table);
}

int partition_copy_next(struct partition_copy *c, struct buf *to, struct err *e)
{
    struct table_copy *x = &c->tables[c->at];
    size_t begin = to->len;
    bool last = false;
    assert(c->at < c->n && partition_is_free(c->s, c->space));
    TRY(record_begin(c->s, RECORD_SLICE, c->space, c->partition, to, e));
    TRY(record_end(to, begin, add_slice(x, to, &last, e)));
    if (!last)
        return 0;
    parcel_copy_close(x->rows);
    x->rows = NULL;
    c->at++;
    return 0;
}

// Appends a record of the rows that were removed since they were copied.
static int add_removed(struct partition_copy *c, const struct table_copy *x,
                       struct buf *to, struct err *e)
{
    size_t n, begin = to->len;
    const uint64_t *keys = parcel_copy_removed(x->rows, &n);
    uint64_t head[] = {x->table, n};
    if (n == 0)
        return 0;
    TRY(record_begin(c->s, RECORD_REMOVED, c->space, c->partition, to, e));
    int rc = stream_add_u64s(to, head, 2);
    if (rc == 0)
        rc = stream_add_u64s(to, keys, n);
    TRY(record_end(to, begin, rc != 0 ? record_no_room(to, e) : 0));
    parcel_copy_told(x->rows);
    return 0;
}

// Appends those of a push's n keys whose rows were already copied.
static int add_copied(struct partition_copy *c, const struct table_copy *x,
                      const struct shard_table *t, const struct store_push *p,
                      size_t first, size_t n, struct buf *to, struct err *e)
{
    size_t width = partition_push_width(t, p), kept = 0;
    bool *copied = mem_array(n, sizeof(*copied));
    uint64_t *keys = mem_array(n, sizeof(*keys));
    float *values = mem_array(n * width + 1, sizeof(*values));
    int rc = copied != NULL && keys != NULL && values != NULL
                 ? 0
                 : err_nomem(e, "the pushes of a partition that moves");
    if (rc == 0)
        parcel_copy_find(x->rows, p->keys + first, n, copied);
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (!copied[i])
            continue;
        keys[kept] = p->keys[first + i];
        memcpy(values + kept++ * width, p->values + (first + i) * width,
               width * sizeof(*values));
    }
    if (rc == 0 && kept > 0) {
        struct store_push some = *p;
        some.keys = keys;
        some.values = values;
        some.n = kept;
        rc = partition_get_push(c->s, t, c->partition, &some, 0, kept, to, e);
    }
    mem_free(copied);
    mem_free(keys);
    mem_free(values);
    return rc;
}

int partition_copy_push(struct partition_copy *c, const struct shard_table *t,
                        const struct store_push *p, size_t first, size_t n,
                        struct buf *to, struct err *e)
{
    struct table_copy *x = c->tables;
    while (x < c->tables + c->n && (x->table != t->spec.id || x->rows == NULL))
        x++;
    if (x < c->tables + c->n) {
        TRY(add_removed(c, x, to, e));
        return n > 0 ? add_copied(c, x, t, p, first, n, to, e) : 0;
    }
    return n > 0 ? partition_get_push(c->s, t, c->partition, p, first, n, to, e) : 0;
}
