// A batch of dense variables, sent one variable after the other while the program computes the
// gradients of the next ones: startBatch, update and finishBatch of Paddle's first version.
//
// d->rows has the gradient of a variable until the servers have answered, and its new
// values afterwards.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "doors/tables/tug_dense.h"

void dense_leave_batch(struct tug_dense *d)
{
    for (size_t i = 0; i < d->n; i++) {
        if (d->variables[i].ts != 0)
            (void)tug_cancel(d->client, d->variables[i].ts);
        d->variables[i].ts = 0;
        d->variables[i].sent = false;
    }
    d->in_batch = false;
}

int tug_dense_start_batch(struct tug_dense *d)
{
    struct tug_table_learning l;
    TRY(dense_ready(d));
    TRY(tug_table_learning(d->client, d->table, &l));
    if (l.sync)
        return err_set(last_error(), TUG_EUSAGE,
                       "table %u is of mode sync, where a worker pushes its part of a "
                       "batch at once: call batch with the number of the part, and push "
                       "all variables together",
                       d->table);
    d->in_batch = true;
    return 0;
}

int tug_dense_update(struct tug_dense *d, size_t variable, const float *gradient)
{
    struct variable *v = variable < d->n ? &d->variables[variable] : NULL;
    if (v == NULL)
        return err_set(last_error(), TUG_EUSAGE,
                       "there is no variable %zu of table %u; they count from 0 to %zu",
                       variable, d->table, d->n - 1);
    if (!d->in_batch || v->sent)
        return err_set(last_error(), TUG_EUSAGE,
                       d->in_batch
                           ? "variable %zu of table %u was already updated in this batch"
                           : "update of variable %zu of table %u: call start_batch first",
                       variable, d->table);
    float *rows = d->rows + v->block * d->dim;
    uint64_t blocks = (v->n + d->dim - 1) / d->dim;
    memset(rows, 0, blocks * d->dim * sizeof(*rows));
    memcpy(rows, gradient, v->n * sizeof(*rows));
    TRY(tug_push_pull(d->client, d->table, d->keys + v->block, blocks, rows, rows, NULL,
                      NULL, &v->ts));
    v->sent = true;
    return 0;
}

// Pulls the variables for which no gradient was pushed in this batch.
static int pull_others(struct tug_dense *d)
{
    for (size_t i = 0; i < d->n; i++) {
        struct variable *v = &d->variables[i];
        uint64_t blocks = (v->n + d->dim - 1) / d->dim;
        if (!v->sent)
            TRY(tug_pull(d->client, d->table, d->keys + v->block, blocks,
                         d->rows + v->block * d->dim, NULL, NULL, &v->ts));
    }
    return 0;
}

int tug_dense_finish_batch(struct tug_dense *d, float *values)
{
    if (!d->in_batch)
        return err_set(last_error(), TUG_EUSAGE,
                       "no batch of table %u is in progress: call start_batch first",
                       d->table);
    int rc = values != NULL ? pull_others(d) : 0;
    for (size_t i = 0; i < d->n && rc == 0; i++) {
        uint64_t ts = d->variables[i].ts;
        d->variables[i].ts = 0;
        rc = ts != 0 ? calls_wait_or_cancel(d->client, ts) : 0;
    }
    dense_leave_batch(d);
    if (rc == 0 && values != NULL)
        dense_unpack(d, values);
    return rc;
}
