// tug_dump: pulls a whole table and writes it as text. Rows arrive partition by partition
// and are written sorted by key, so all are in memory.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/tables/dump.h"
#include "doors/tables/tug_client.h"
#include "os/file.h"
#include "tug/table.h"

enum { PAGE_ROWS = 1 << 14 };

struct dump {
    struct tug_client *client;
    struct accessor accessor;
    uint32_t width; // number of floats that a pull returns for a row
    uint64_t *keys; // the keys of all rows
    float *values;
    size_t n, cap;
};

static int dump_reserve(struct dump *d)
{
    if (d->n + PAGE_ROWS <= d->cap)
        return 0;
    size_t cap = (d->n + PAGE_ROWS) * 2;
    uint64_t *keys = mem_realloc_array(d->keys, cap, sizeof(*keys));
    d->keys = keys != NULL ? keys : d->keys;
    float *values = mem_realloc_array(d->values, cap * d->width + 1, sizeof(*values));
    d->values = values != NULL ? values : d->values;
    if (keys == NULL || values == NULL)
        return err_nomem(last_error(), "the rows of a table");
    d->cap = cap;
    return 0;
}

static int pull_partition(struct dump *d, struct client_walk *w)
{
    struct tug_client *c = d->client;
    while (!w->over) {
        TRY(dump_reserve(d));
        TRY(calls_enter(c));
        client_ts ts = client_walk_next(c->client, w, PAGE_ROWS, d->keys + d->n,
                                        d->values + d->n * d->width, last_error());
        pump_leave(c->pump);
        if (ts == 0)
            return last_error()->code;
        TRY(calls_wait_for(c, ts, c->o.wait_seconds));
        d->n += w->n;
    }
    return 0;
}

struct place {
    uint64_t key;
    size_t row;
};

static int dump_compare(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key;
}

// Copies the floats that a pull of the row would return. If the accessor has a lifecycle,
// `row` already has this form; else it is a whole row, of which the weights are copied.
static void pulled(const struct dump *d, float *row, float *ret)
{
    if (accessor_has_lifecycle(&d->accessor))
        memcpy(ret, row, d->width * sizeof(*ret));
    else
        accessor_gather(&d->accessor, &row, 1, ret);
}

static int write_row(struct file_writer *w, uint64_t key, const float *values, uint32_t n)
{
    char text[32];
    snprintf(text, sizeof(text), "%" PRIu64, key);
    TRY(file_write(w, text, strlen(text), last_error()));
    for (uint32_t i = 0; i < n; i++) {
        snprintf(text, sizeof(text), " %.9g", (double)values[i]);
        TRY(file_write(w, text, strlen(text), last_error()));
    }
    return file_write(w, "\n", 1, last_error());
}

static int dump_write_rows(const struct dump *d, const struct place *places,
                           const char *file)
{
    struct file_writer *w;
    uint32_t n = d->accessor.pull_width;
    TRY(file_create(&w, file, last_error()));
    float *values = mem_array(n + 1, sizeof(*values));
    int rc = values != NULL ? 0 : err_nomem(last_error(), "a row");
    for (size_t i = 0; i < d->n && rc == 0; i++) {
        pulled(d, d->values + places[i].row * d->width, values);
        rc = write_row(w, places[i].key, values, n);
    }
    mem_free(values);
    if (rc == 0)
        return file_commit(w, last_error());
    file_abort(w);
    return rc;
}

static int write_sorted(const struct dump *d, const char *file)
{
    struct place *places = mem_array(d->n + 1, sizeof(*places));
    if (places == NULL)
        return err_nomem(last_error(), "the rows of a table");
    for (size_t i = 0; i < d->n; i++)
        places[i] = (struct place){d->keys[i], i};
    qsort(places, d->n, sizeof(*places), dump_compare);
    int rc = dump_write_rows(d, places, file);
    mem_free(places);
    return rc;
}

static int pull_all(struct dump *d, uint32_t table)
{
    struct tug_client *c = d->client;
    struct client_walk walk = client_walk_begin(table);
    struct table_spec spec;
    TRY(calls_spec(c, table, &spec));
    d->accessor = spec.accessor;
    d->width = spec_page_width(&spec);
    pump_enter(c->pump);
    uint32_t partitions = (uint32_t)1
                          << member_roster(client_member(c->client))->partition_bits;
    pump_leave(c->pump);
    for (uint32_t p = 0; p < partitions; p++) {
        client_walk_partition(&walk, p);
        TRY(pull_partition(d, &walk));
    }
    return 0;
}

static void dump_free(struct dump *d)
{
    mem_free(d->keys);
    mem_free(d->values);
}

int tug_dump(struct tug_client *c, uint32_t table, const char *file)
{
    struct dump d = {.client = c};
    int rc = pull_all(&d, table);
    if (rc == 0)
        rc = write_sorted(&d, file);
    dump_free(&d);
    return rc;
}

int dump_rows(struct tug_client *c, uint32_t table, dump_row_fn each, void *ctx)
{
    struct dump d = {.client = c};
    struct accessor packed;
    int rc = pull_all(&d, table);
    accessor_packed(&packed, &d.accessor);
    bool pulled = accessor_has_lifecycle(&d.accessor);
    for (size_t i = 0; i < d.n && rc == 0; i++)
        rc = each(ctx, &d.accessor, pulled ? &packed : &d.accessor, d.keys[i],
                  d.values + i * d.width);
    dump_free(&d);
    return rc;
}
