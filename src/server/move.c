// A partition goes to another shard, with what is known of the pushes to it.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "base/relaxed.h"
#include "server/shard_internal.h"

// What is moved of one table: its keys, where they are and where they go.
struct load {
    uint64_t *keys;
    uint32_t *from, *to; // handles
    size_t n;
};

static void load_free(struct load *l)
{
    mem_free(l->keys);
    mem_free(l->from);
    mem_free(l->to);
}

static bool in_partition(const struct shard *s, const struct shard_table *t,
                         uint32_t handle, uint32_t partition, uint64_t *ret_key)
{
    *ret_key = table_row_key(table_row(table_slabs(t->rows), handle));
    return tables_partition(s, t, *ret_key) == partition;
}

static int load_make(const struct shard *s, const struct shard_table *t,
                     uint32_t partition, struct load *ret, struct err *e)
{
    size_t rows = table_stats(t->rows).rows;
    uint64_t cursor = 0, key;
    uint32_t handle;
    *ret = (struct load){.keys = mem_array(rows + 1, sizeof(*ret->keys)),
                         .from = mem_array(rows + 1, sizeof(*ret->from)),
                         .to = mem_array(rows + 1, sizeof(*ret->to))};
    if (ret->keys == NULL || ret->from == NULL || ret->to == NULL)
        return err_nomem(e, "the rows of a partition");
    while (table_scan(t->rows, &cursor, &handle, 1) == 1)
        if (in_partition(s, t, handle, partition, &key)) {
            ret->keys[ret->n] = key;
            ret->from[ret->n++] = handle;
        }
    return 0;
}

static int check_table(const struct shard *to, const struct shard_table *t, struct err *e)
{
    struct shard_table *x = tables_find(to, t->spec.id, e);
    if (x == NULL)
        return TUG_EUSAGE;
    if (t->store != NULL)
        return err_set(e, TUG_EUSAGE, "table '%s' is by configuration: it can't be moved",
                       t->spec.name);
    if (!spec_same(&x->spec, &t->spec))
        return err_set(e, TUG_EUSAGE, "table %u is not the same on both sides",
                       t->spec.id);
    for (uint32_t i = 0; i < SHARD_MAX_CLOCKS; i++)
        if (t->sync.open[i].n > 0)
            return err_set(e, TUG_EUSAGE,
                           "table '%s' can't be moved while a batch is open",
                           t->spec.name);
    return 0;
}

static int move_table(struct shard *from, struct shard_table *t, struct shard *to,
                      uint32_t partition, struct err *e)
{
    struct shard_table *x = to->tables[t->spec.id];
    struct load l;
    int rc = load_make(from, t, partition, &l, e);
    if (rc == 0 && table_rows(x->rows, l.keys, l.n, l.to) != 0)
        rc = err_nomem(e, "the rows of a partition");
    if (rc == 0) {
        struct table_slabs a = table_slabs(t->rows), b = table_slabs(x->rows);
        for (size_t i = 0; i < l.n; i++)
            relaxed_store_n(table_row(b, l.to[i]), table_row(a, l.from[i]),
                            t->spec.accessor.width);
        table_erase(t->rows, l.keys, l.n);
        t->generation = ++from->generation; // walks over it have ended
        t->changed_at[partition] = ++t->version;
        x->changed_at[partition] = ++x->version;
        tables_measure(from, t);
        tables_measure(to, x);
    }
    load_free(&l);
    return rc;
}

int shard_move(struct shard *from, struct shard *to, uint32_t partition,
               enum wire_space space, struct err *e)
{
    if (!from->ready || !to->ready || from->bits != to->bits ||
        (partition >> from->bits) != 0)
        return err_set(e, TUG_EUSAGE, "partition %u can't be moved between these nodes",
                       partition);
    for (uint32_t i = 0; i < from->n_tables; i++)
        if (from->tables[i] != NULL && from->tables[i]->spec.space == space)
            TRY(check_table(to, from->tables[i], e));
    TRY(repeats_move(from->repeats, to->repeats, partition, space, e));
    for (uint32_t i = 0; i < from->n_tables; i++)
        if (from->tables[i] != NULL && from->tables[i]->spec.space == space)
            TRY(move_table(from, from->tables[i], to, partition, e));
    return 0;
}
