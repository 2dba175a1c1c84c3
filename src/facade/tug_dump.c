// tug_dump: a whole table as text, pulled by whoever calls it. Rows come partition by
// partition; sorted by key they are in the end, so all of them are held.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "facade/tug_client.h"
#include "tug/table.h"

enum { PAGE_ROWS = 1 << 14 };

struct dump {
    struct tug_client *client;
    uint32_t table, width;
    uint64_t *keys; // all of them
    float *values;
    size_t n, cap;
};

static int reserve(struct dump *d)
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

static int pull_partition(struct dump *d, uint32_t partition)
{
    struct tug_client *c = d->client;
    uint64_t from = 0;
    uint32_t n;
    for (bool more = true; more;) {
        TRY(reserve(d));
        uint64_t *keys = d->keys + d->n;
        pump_enter(c->pump);
        client_ts ts = client_rows(c->client, d->table, partition, from, PAGE_ROWS, keys,
                                   d->values + d->n * d->width, &n, &more, last_error());
        pump_leave(c->pump);
        if (ts == 0)
            return last_error()->code;
        TRY(calls_wait_for(c, ts, c->o.wait_seconds));
        more = more && n > 0 && keys[n - 1] != UINT64_MAX;
        from = n > 0 ? keys[n - 1] + 1 : 0;
        d->n += n;
    }
    return 0;
}

struct place {
    uint64_t key;
    size_t row;
};

static int compare(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key;
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

static int write_rows(const struct dump *d, const struct place *places, const char *file)
{
    struct file_writer *w;
    int rc = 0;
    TRY(file_create(&w, file, last_error()));
    for (size_t i = 0; i < d->n && rc == 0; i++)
        rc = write_row(w, places[i].key, d->values + places[i].row * d->width, d->width);
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
    qsort(places, d->n, sizeof(*places), compare);
    int rc = write_rows(d, places, file);
    mem_free(places);
    return rc;
}

int tug_dump(struct tug_client *c, uint32_t table, const char *file)
{
    struct tug_table_widths w;
    TRY(tug_table_widths(c, table, &w));
    struct dump d = {.client = c, .table = table, .width = w.pull};
    pump_enter(c->pump);
    uint32_t partitions = (uint32_t)1
                          << member_roster(client_member(c->client))->partition_bits;
    pump_leave(c->pump);
    int rc = 0;
    for (uint32_t p = 0; p < partitions && rc == 0; p++)
        rc = pull_partition(&d, p);
    if (rc == 0)
        rc = write_sorted(&d, file);
    mem_free(d.keys);
    mem_free(d.values);
    return rc;
}
