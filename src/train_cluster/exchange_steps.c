// A batch by steps: the rows that the worker updates, and the part of their changes that
// it pushes. See exchange.h.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "rule/rule.h"
#include "train_cluster/exchange.h"

// Rows of one layout, and which parts of them are private to the worker.
struct layout {
    const struct accessor *a;
    bool weights;
    const bool *state; // for each group, whether the group's state is private
};

static struct layout sparse_layout(const struct exchange *x)
{
    return (struct layout){&x->model.accessor, x->local->weights, x->local->state};
}

static struct layout dense_layout(const struct exchange *x)
{
    return (struct layout){&x->model.dense, x->local->weights, &x->local->dense_state};
}

int exchange_local_open(struct exchange_local *o, const struct model *m, bool weights,
                        struct err *e)
{
    const struct accessor *a = &m->accessor;
    struct table_options rows = {.width = a->width + 1};
    bool any = weights;
    *o = (struct exchange_local){.weights = weights};
    for (uint32_t g = 0; g < a->n_groups; g++) {
        o->state[g] = !rule_info(a->groups[g].rule.kind)->state_adds_up;
        any |= o->state[g];
    }
    o->dense_state = !rule_info(m->dense.groups[0].rule.kind)->state_adds_up;
    if (any)
        TRY(table_open(&o->rows, &rows, e));
    if (weights || o->dense_state) {
        o->dense = mem_array(m->blocks * m->dense.width, sizeof(*o->dense));
        if (o->dense == NULL)
            return err_nomem(e, "dense parameters");
    }
    return 0;
}

void exchange_local_close(struct exchange_local *o)
{
    table_close(o->rows);
    mem_free(o->dense);
    *o = (struct exchange_local){0};
}

// Replaces pulled values in `row` by the worker's private ones. Replaces private states
// in `before` as well, so that the change that is pushed is computed from them.
static void take_row(struct layout l, const float *local, float *row, float *before)
{
    for (uint32_t g = 0; g < l.a->n_groups; g++) {
        const struct accessor_group *group = &l.a->groups[g];
        uint32_t state = group->state;
        if (l.weights)
            memcpy(row + group->weights, local + group->weights, group->n * sizeof(*row));
        if (l.weights || l.state[g]) {
            memcpy(row + state, local + state, group->n_state * sizeof(*row));
            memcpy(before + state, local + state, group->n_state * sizeof(*row));
        }
    }
}

// Removes the private parts from the change that is pushed, and stores the row. Private
// weights move towards the servers' weights by the same amount by which the servers'
// weights move towards them.
static void keep_row(const struct exchange *x, struct layout l, const float *row,
                     float *change, float *local)
{
    for (uint32_t g = 0; g < l.a->n_groups; g++)
        if (l.state[g])
            memset(change + l.a->groups[g].state, 0,
                   l.a->groups[g].n_state * sizeof(*change));
    memcpy(local, row, l.a->width * sizeof(*local));
    for (uint32_t g = 0; g < l.a->n_groups && l.weights; g++)
        x->model.kernels->axpy(local + l.a->groups[g].weights, -1,
                               change + l.a->groups[g].weights, l.a->groups[g].n);
}

static float *local_row(const struct exchange *x, struct table_slabs slabs, size_t i)
{
    return table_row(slabs, x->local_row[i]);
}

static void take_local(struct exchange *x)
{
    const struct exchange_local *o = x->local;
    struct layout l = sparse_layout(x);
    if (o->rows != NULL) {
        struct table_slabs slabs = table_slabs(o->rows);
        for (size_t i = 0; i < x->n; i++) {
            const float *local = local_row(x, slabs, i);
            // The worker has trained this row before, so it has private values.
            if (local[x->width] != 0)
                take_row(l, local, x->values + i * x->width, x->gradients + i * x->width);
        }
    }
    l = dense_layout(x);
    for (size_t at = 0; o->dense_known && at < x->dense_floats; at += l.a->width)
        take_row(l, o->dense + at, x->dense + at, x->dense_gradient + at);
}

static void keep_local(struct exchange *x)
{
    struct exchange_local *o = x->local;
    struct layout l = sparse_layout(x);
    if (o->rows != NULL) {
        struct table_slabs slabs = table_slabs(o->rows);
        for (size_t i = 0; i < x->n; i++) {
            float *local = local_row(x, slabs, i);
            size_t at = i * x->width;
            keep_row(x, l, x->values + at, x->gradients + at, local);
            local[x->width] = 1;
        }
    }
    l = dense_layout(x);
    for (size_t at = 0; o->dense != NULL && at < x->dense_floats; at += l.a->width)
        keep_row(x, l, x->dense + at, x->dense_gradient + at, o->dense + at);
    o->dense_known = o->dense != NULL;
}

void exchange_catch_up(struct exchange *x)
{
    const struct exchange *before = x->before;
    if (before != NULL) {
        for (size_t i = 0; i < x->n_overlaps; i++)
            x->model.kernels->axpy(x->values + x->overlaps[i].place * x->width, 1,
                                   before->gradients + x->overlaps[i].before * x->width,
                                   x->width);
        x->model.kernels->axpy(x->dense, 1, before->dense_gradient, x->dense_floats);
    }
    if (x->n > 0) // a batch may have no keys, and a model no dense weights
        memcpy(x->gradients, x->values, x->n * x->width * sizeof(float));
    if (x->dense_floats > 0)
        memcpy(x->dense_gradient, x->dense, x->dense_floats * sizeof(float));
    if (x->local != NULL)
        take_local(x);
}

// Scales the changes so that weights and states become the average over the workers.
// Counts of updates are not scaled.
static void scale_changes(struct exchange *x)
{
    const struct kernels *k = x->model.kernels;
    uint32_t count = x->model.accessor.count;
    for (size_t i = 0; i < x->n; i++) {
        float *change = x->gradients + i * x->width;
        float updates = count != ACCESSOR_NO_COUNT ? change[count] : 0;
        k->scale(change, x->fraction, change, x->width);
        if (count != ACCESSOR_NO_COUNT)
            change[count] = updates;
    }
    k->scale(x->dense_gradient, x->fraction, x->dense_gradient, x->dense_floats);
}

void exchange_finish(struct exchange *x)
{
    for (size_t i = 0; i < x->n * x->width; i++)
        x->gradients[i] = x->values[i] - x->gradients[i];
    for (size_t i = 0; i < x->dense_floats; i++)
        x->dense_gradient[i] = x->dense[i] - x->dense_gradient[i];
    if (x->fraction != 1)
        scale_changes(x);
    if (x->local != NULL)
        keep_local(x);
}
