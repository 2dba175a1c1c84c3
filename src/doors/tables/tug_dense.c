// Dense variables (tug/table.h): arrays of floats stored as rows of a table, by the
// public calls.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "doors/tables/tug_dense.h"

static uint64_t blocks_of(const struct tug_dense *d, uint64_t floats)
{
    return (floats + d->dim - 1) / d->dim;
}

static int take_variable(struct tug_dense *d, const struct tug_variable *v, struct err *e)
{
    struct variable *x = &d->variables[d->n++];
    if (v->name == NULL || v->name[0] == 0 || v->n == 0 || v->n > (uint64_t)1 << 40)
        return err_set(e, TUG_EUSAGE,
                       "variable %zu of table %u needs a name and 1 to 2^40 floats", d->n,
                       d->table);
    *x = (struct variable){.n = v->n,
                           .block = d->blocks,
                           .at = d->floats,
                           .stream = hash_bytes(v->name, strlen(v->name), 0)};
    for (size_t i = 0; i + 1 < d->n; i++)
        if (d->variables[i].stream == x->stream)
            return err_set(e, TUG_EUSAGE, "there are two variables '%.200s' of table %u",
                           v->name, d->table);
    d->floats += v->n;
    d->blocks += blocks_of(d, v->n);
    if (initial_parse(v->init != NULL ? v->init : "constant:0", &x->initial, e) != 0)
        return err_wrap(e, "variable '%.200s'", v->name);
    return 0;
}

static int allocate(struct tug_dense *d, struct err *e)
{
    d->keys = mem_array(d->blocks, sizeof(*d->keys));
    d->rows = mem_array(d->blocks * d->dim, sizeof(*d->rows));
    if (d->keys == NULL || d->rows == NULL)
        return err_nomem(e, "the blocks of dense variables");
    memset(d->rows, 0, d->blocks * d->dim * sizeof(*d->rows));
    for (uint64_t i = 0; i < d->blocks; i++)
        d->keys[i] = i;
    return 0;
}

// pack copies all variables from one array of floats to the rows of blocks; unpack copies
// them back. Each variable begins with a new block.

static void pack(struct tug_dense *d, const float *values)
{
    for (size_t i = 0; i < d->n; i++) {
        const struct variable *v = &d->variables[i];
        memcpy(d->rows + v->block * d->dim, values + v->at, v->n * sizeof(*values));
    }
}

void dense_unpack(const struct tug_dense *d, float *ret)
{
    for (size_t i = 0; i < d->n; i++) {
        const struct variable *v = &d->variables[i];
        memcpy(ret + v->at, d->rows + v->block * d->dim, v->n * sizeof(*ret));
    }
}

int dense_ready(const struct tug_dense *d)
{
    if (d->in_batch)
        return err_set(last_error(), TUG_EUSAGE,
                       "a batch of table %u is in progress: call finish_batch first",
                       d->table);
    TRY(calls_may_wait(d->client));
    return calls_check_push(d->client, d->table, d->dim);
}

int dense_assign_rows(struct tug_dense *d)
{
    uint64_t ts;
    TRY(dense_ready(d));
    TRY(tug_assign(d->client, d->table, d->keys, d->blocks, d->rows, NULL, NULL, &ts));
    return calls_wait_or_cancel(d->client, ts);
}

// ---------------------------------------------------------------- opening

void dense_initial(struct tug_dense *d, uint64_t seed)
{
    for (size_t i = 0; i < d->n; i++) {
        const struct variable *v = &d->variables[i];
        initial_fill(&v->initial, seed, v->stream, 0, v->n, d->rows + v->block * d->dim);
    }
}

static int set_first_values(struct tug_dense *d, uint64_t seed)
{
    struct tug_table_stats s;
    TRY(tug_table_stat(d->client, d->table, &s));
    if (s.rows + s.cold_rows > 0)
        return 0; // the table already has values, from a save or from earlier workers
    dense_initial(d, seed);
    return dense_assign_rows(d);
}

// The worker of rank 0 sets initial values; other workers wait until it has. A guest does
// neither: its rank is counted among the guests.
static int dense_begin(struct tug_dense *d)
{
    int rc = 0;
    if (d->client->o.guest)
        return 0;
    if (tug_client_rank(d->client) == 0)
        rc = set_first_values(d, d->table);
    if (rc == 0 && tug_client_workers(d->client) > 1)
        rc = tug_barrier(d->client);
    return rc;
}

static int dense_make(struct tug_dense *d, const struct tug_variable *variables, size_t n)
{
    struct err *e = last_error();
    struct tug_table_widths w;
    TRY(tug_table_widths(d->client, d->table, &w));
    if (w.pull != w.push || w.pull != w.assign)
        return err_set(
            e, TUG_EUSAGE,
            "dense variables need a table of accessor plain, which table %u is not",
            d->table);
    d->dim = w.pull;
    d->variables = mem_array(n, sizeof(*d->variables));
    if (d->variables == NULL)
        return err_nomem(e, "dense variables");
    for (size_t i = 0; i < n; i++)
        TRY(take_variable(d, &variables[i], e));
    TRY(allocate(d, e));
    return dense_begin(d);
}

int tug_dense_open(struct tug_dense **ret, struct tug_client *c, uint32_t table,
                   const struct tug_variable *variables, size_t n)
{
    if (n == 0)
        return err_set(last_error(), TUG_EUSAGE,
                       "no variables were given for table %u; give at least one", table);
    struct tug_dense *d = mem_zalloc(sizeof(*d));
    if (d == NULL)
        return err_nomem(last_error(), "dense variables");
    d->client = c;
    d->table = table;
    int rc = dense_make(d, variables, n);
    if (rc != 0)
        tug_dense_close(d);
    else
        *ret = d;
    return rc;
}

void tug_dense_close(struct tug_dense *d)
{
    if (d == NULL)
        return;
    if (d->in_batch)
        dense_leave_batch(d);
    mem_free(d->variables);
    mem_free(d->keys);
    mem_free(d->rows);
    mem_free(d);
}

uint64_t tug_dense_floats(const struct tug_dense *d)
{
    return d->floats;
}

// ---------------------------------------------------------------- use

int dense_pull_rows(struct tug_dense *d)
{
    uint64_t ts;
    TRY(dense_ready(d));
    TRY(tug_pull(d->client, d->table, d->keys, d->blocks, d->rows, NULL, NULL, &ts));
    return calls_wait_or_cancel(d->client, ts);
}

int tug_dense_pull(struct tug_dense *d, float *values)
{
    TRY(dense_pull_rows(d));
    dense_unpack(d, values);
    return 0;
}

int tug_dense_push(struct tug_dense *d, const float *gradients)
{
    uint64_t ts;
    TRY(dense_ready(d));
    pack(d, gradients);
    TRY(tug_push(d->client, d->table, d->keys, d->blocks, d->rows, NULL, NULL, &ts));
    return calls_wait_or_cancel(d->client, ts);
}

int tug_dense_assign(struct tug_dense *d, const float *values)
{
    if (!d->in_batch) // in a batch, requests in flight use d->rows; the next call fails
        pack(d, values);
    return dense_assign_rows(d);
}

int tug_dense_pull_range(struct tug_dense *d, size_t variable, uint64_t begin, uint64_t n,
                         float *values)
{
    const struct variable *v = variable < d->n ? &d->variables[variable] : NULL;
    if (v == NULL || begin > v->n || n > v->n - begin)
        return err_set(
            last_error(), TUG_EUSAGE,
            "floats %llu to %llu are not all in variable %zu of table %u, which has %llu",
            (unsigned long long)begin, (unsigned long long)(begin + n), variable,
            d->table, (unsigned long long)(v != NULL ? v->n : 0));
    if (n == 0)
        return 0;
    TRY(dense_ready(d));
    uint64_t first = begin / d->dim, blocks = (begin + n - 1) / d->dim + 1 - first, ts;
    float *rows = d->rows + (v->block + first) * d->dim;
    TRY(tug_pull(d->client, d->table, d->keys + v->block + first, blocks, rows, NULL,
                 NULL, &ts));
    TRY(calls_wait_or_cancel(d->client, ts));
    memcpy(values, rows + (begin - first * d->dim), n * sizeof(*values));
    return 0;
}
