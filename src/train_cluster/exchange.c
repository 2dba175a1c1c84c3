// A batch between a worker and the servers: see exchange.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/exchange.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

#define NO_SUM UINT32_MAX

enum { AHEAD = 16 }; // marks are prefetched this many features ahead

int exchange_keys_open(struct exchange_keys *k, struct err *e)
{
    struct table_options o = {.width = 0};
    *k = (struct exchange_keys){0};
    return table_open(&k->table, &o, e);
}

void exchange_keys_close(struct exchange_keys *k)
{
    table_close(k->table);
    mem_free(k->marks);
    *k = (struct exchange_keys){0};
}

int exchange_keys_resolve(void *keys, const uint64_t *k, size_t n, uint32_t *ret_ids)
{
    struct exchange_keys *x = keys;
    numbering_add(&x->seen, k, n);
    return table_rows(x->table, k, n, ret_ids);
}

// Makes room for the marks of the ids below n.
static int reserve_marks(struct exchange_keys *k, size_t n)
{
    if (n <= k->cap)
        return 0;
    size_t cap = k->cap > 0 ? k->cap : 4096;
    while (cap < n)
        cap *= 2;
    struct mark *marks = mem_realloc_array(k->marks, cap, sizeof(*marks));
    if (marks == NULL)
        return TUG_ENOMEM;
    memset(marks + k->cap, 0, (cap - k->cap) * sizeof(*marks));
    k->marks = marks;
    k->cap = cap;
    return 0;
}

static void begin_batch(struct exchange_keys *k)
{
    // The batch number has overflowed: clears all marks, because an old
    // number could look new.
    if (++k->batch == 0) {
        memset(k->marks, 0, k->cap * sizeof(*k->marks));
        k->batch = 1;
    }
}

static void cut_parts(struct exchange *x, size_t width)
{
    bool sync = client_spec(x->client, EXCHANGE_DENSE)->config.mode == CONFIG_SYNC;
    size_t blocks = x->model.blocks, n = blocks / EXCHANGE_PART_BLOCKS;
    n = n < 1 || x->steps || sync ? 1 : n < EXCHANGE_PARTS ? n : EXCHANGE_PARTS;
    x->n_parts = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        struct exchange_part *p = &x->parts[i];
        p->block = blocks * i / n;
        p->n = blocks * (i + 1) / n - p->block;
        p->first = p->block * width;
        p->end = p->first + p->n * width;
    }
}

static int open_dense(struct exchange *x, const struct model *m, struct err *e)
{
    size_t width = x->steps ? m->dense.width : m->dense.pull_width;
    x->dense_floats = m->blocks * width;
    x->dense_keys = dense_keys(m);
    x->blocks = mem_array(m->blocks, sizeof(*x->blocks));
    x->dense = mem_array(x->dense_floats + KERNEL_PADDING, sizeof(float));
    x->dense_gradient = mem_array(x->dense_floats + KERNEL_PADDING, sizeof(float));
    if (x->dense_keys == NULL || x->blocks == NULL || x->dense == NULL ||
        x->dense_gradient == NULL)
        return err_nomem(e, "dense parameters");
    for (size_t i = 0; i < m->blocks; i++)
        x->blocks[i] = x->dense + i * width;
    cut_parts(x, width);
    return 0;
}

int exchange_open(struct exchange *x, const struct model *m, bool steps, struct client *c,
                  struct exchange_keys *k, struct err *e)
{
    const struct accessor *a = &m->accessor;
    *x = (struct exchange){
        .steps = steps,
        .fraction = 1,
        .lives = a->class != NULL,
        .model = *m,
        .width = steps ? a->width : a->pull_width,
        .push_width = steps ? a->width : a->push_width,
        .client = c,
        .keys = k,
    };
    if (!steps)
        model_packed(&x->model, m);
    return open_dense(x, m, e);
}

void exchange_close(struct exchange *x)
{
    for (size_t i = 0; i <= x->n_parts && x->client != NULL; i++) {
        client_cancel(x->client, x->pulls[i]);
        client_cancel(x->client, x->pushes[i]);
    }
    view_free(&x->view);
    mem_free(x->place);
    mem_free(x->to);
    mem_free(x->key);
    mem_free(x->order);
    mem_free(x->last);
    mem_free(x->overlaps);
    mem_free(x->values);
    mem_free(x->gradients);
    mem_free(x->local_row);
    mem_free(x->dense_keys);
    mem_free(x->blocks);
    mem_free(x->dense);
    mem_free(x->dense_gradient);
    dense_sums_close(&x->dense_sums);
    mem_free(x->sums);
    mem_free(x->sum_values);
    *x = (struct exchange){0};
}

static int reserve_places(struct exchange *x, size_t n)
{
    if (n <= x->cap_places)
        return 0;
    mem_free(x->place);
    mem_free(x->to);
    x->place = mem_array(n + n / 4, sizeof(*x->place));
    x->to = mem_array(n + n / 4, sizeof(*x->to));
    x->cap_places = x->place != NULL && x->to != NULL ? n + n / 4 : 0;
    return x->cap_places != 0 ? 0 : TUG_ENOMEM;
}

static int reserve_keys(struct exchange *x, size_t n)
{
    if (n <= x->cap)
        return 0;
    size_t cap = n + n / 4, pull = x->width, push = x->push_width;
    mem_free(x->key);
    mem_free(x->order);
    mem_free(x->last);
    mem_free(x->overlaps);
    mem_free(x->values);
    mem_free(x->gradients);
    mem_free(x->local_row);
    x->local_row = mem_array(cap, sizeof(*x->local_row));
    x->overlaps = mem_array(cap, sizeof(*x->overlaps));
    // the second half is for the keys before they are arranged
    x->key = mem_array(2 * cap, sizeof(*x->key));
    x->order = mem_array(2 * cap, sizeof(*x->order));
    x->last = mem_array(cap, sizeof(*x->last));
    x->values = mem_array(cap * pull + KERNEL_PADDING, sizeof(float));
    x->gradients = mem_array(cap * push + KERNEL_PADDING, sizeof(float));
    bool ok = x->overlaps != NULL && x->key != NULL && x->order != NULL &&
              x->last != NULL && x->values != NULL && x->gradients != NULL &&
              x->local_row != NULL;
    x->cap = ok ? cap : 0;
    return ok ? 0 : TUG_ENOMEM;
}

// Numbers the distinct ids of the batch in the order of their first occurrence;
// their keys go into the second half of x->key. The batch has at most as many
// distinct ids as features.
static void find_distinct(struct exchange *x)
{
    struct exchange_keys *k = x->keys;
    struct table_slabs slabs = table_slabs(k->table);
    const uint32_t *id = x->view.batch.id;
    uint64_t *found = x->key + x->cap;
    size_t n = 0, nnz = x->view.batch.nnz;
    for (size_t j = 0; j < nnz; j++) {
        if (j + AHEAD < nnz)
            __builtin_prefetch(&k->marks[id[j + AHEAD]], 1);
        struct mark *m = &k->marks[id[j]];
        if (m->batch != k->batch) {
            if (x->before != NULL && m->batch == x->before->number)
                x->overlaps[x->n_overlaps++] = (struct overlap){(uint32_t)n, m->place};
            *m = (struct mark){k->batch, (uint32_t)n};
            found[n++] = id[j]; // the keys of many ids are looked up together below
        }
        x->place[j] = m->place;
    }
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            __builtin_prefetch((char *)table_row(slabs, (uint32_t)found[i + AHEAD]) -
                               sizeof(uint64_t));
        found[i] = table_row_key(table_row(slabs, (uint32_t)found[i]));
    }
    x->n = n;
}

// Puts the keys in the order in which they are sent, and updates the features' positions.
static int arrange(struct exchange *x)
{
    const uint64_t *found = x->key + x->cap;
    uint32_t *order = x->order, *rank = x->order + x->cap;
    TRY(client_arrange(x->client, EXCHANGE_SPARSE, found, x->n, order));
    for (size_t i = 0; i < x->n; i++) {
        x->key[i] = found[order[i]];
        rank[order[i]] = (uint32_t)i;
    }
    for (size_t j = 0; j < x->view.batch.nnz; j++) {
        x->place[j] = rank[x->place[j]];
        x->view.rows[j] = x->values + (size_t)x->place[j] * x->width;
    }
    for (size_t j = x->view.batch.nnz; j < x->view.batch.nnz + KERNEL_PADDING; j++)
        x->view.rows[j] = x->values; // padding is read by kernels and not used
    for (size_t i = 0; i < x->n_overlaps; i++) {
        struct overlap *o = &x->overlaps[i];
        *o = (struct overlap){rank[o->place],
                              x->before->order[x->before->cap + o->before]};
    }
    return 0;
}

// Marks all parts as not pushed yet. The padding of the last block has no gradient.
static void begin_parts(struct exchange *x)
{
    size_t used = model_dense_used(&x->model);
    for (uint32_t i = 0; i < x->n_parts; i++) {
        struct exchange_part *p = &x->parts[i];
        size_t end = p->first < used && used < p->end ? used : p->end;
        p->missing = end - p->first;
        p->pushed = false;
    }
}

static int exchange_take_part(struct exchange *x, const struct dataset *d,
                              const uint64_t *order, size_t n, struct exchange *before)
{
    x->n = x->n_overlaps = 0;
    TRY(dataset_gather(d, order, n, &x->view.batch));
    TRY(view_values(&x->view, &x->model));
    size_t nnz = x->view.batch.nnz, ids = table_handles(x->keys->table);
    TRY(reserve_places(x, nnz));
    TRY(reserve_keys(x, nnz < ids ? nnz : ids));
    TRY(reserve_marks(x->keys, ids));
    begin_batch(x->keys);
    x->number = x->keys->batch;
    x->before = x->steps ? before : NULL;
    begin_parts(x);
    find_distinct(x);
    TRY(arrange(x));
    bool rows = x->local != NULL && x->local->rows != NULL;
    return rows ? table_rows(x->local->rows, x->key, x->n, x->local_row) : 0;
}

int exchange_take(struct exchange *x, const struct dataset *d, const uint64_t *order,
                  size_t n, struct exchange *before, struct err *e)
{
    return exchange_take_part(x, d, order, n, before) == 0 ? 0 : err_nomem(e, "a batch");
}

static int pull_part(struct exchange *x, uint32_t i, uint64_t clock, struct err *e)
{
    const struct exchange_part *p = &x->parts[i];
    struct client_pull pull = {
        .table = EXCHANGE_DENSE,
        .keys = x->dense_keys + p->block,
        .n = p->n,
        .values = x->blocks[p->block],
        .whole_rows = x->steps,
        .clock = clock,
        .arranged = x->model.blocks == 1,
    };
    x->pulls[1 + i] = client_pull(x->client, &pull, e);
    return x->pulls[1 + i] != 0 ? 0 : e->code;
}

int exchange_pull(struct exchange *x, uint64_t clock, struct err *e)
{
    struct client_pull sparse = {
        .table = EXCHANGE_SPARSE,
        .keys = x->key,
        .n = x->n,
        .values = x->values,
        .whole_rows = x->steps,
        .clock = clock,
        // In sync mode the pull waits for all loops, even those that have none of its
        // keys. Otherwise this worker could continue before such a loop has the whole
        // batch. If the worker with a missing part died then, no worker would do that
        // part again.
        .all_loops = client_spec(x->client, EXCHANGE_SPARSE)->config.mode == CONFIG_SYNC,
        .arranged = true,
    };
    x->pulls[0] = client_pull(x->client, &sparse, e);
    if (x->pulls[0] == 0)
        return e->code;
    for (uint32_t i = 0; i < x->n_parts; i++)
        TRY(pull_part(x, i, clock, e));
    return 0;
}

// Waits for one request. After an interrupt the request is still open: its timestamp
// stays for exchange_close.
static int wait_one(struct client *c, client_ts *ts, struct err *e)
{
    if (*ts != 0)
        TRY(client_wait(c, *ts, e));
    *ts = 0;
    return 0;
}

int exchange_part_failed(int rc, struct err *e)
{
    if (rc != 0 && e != NULL && e->reason == REASON_NOT_FINITE)
        e->reason = REASON_NONE;
    return rc;
}

static int wait_part(struct exchange *x, client_ts *ts, struct err *e)
{
    return exchange_part_failed(wait_one(x->client, ts, e), e);
}

static int wait_parts(struct exchange *x, client_ts *ts, struct err *e)
{
    for (uint32_t i = 0; i < x->n_parts; i++)
        TRY(wait_part(x, &ts[1 + i], e));
    return 0;
}

int exchange_pulled_rows(struct exchange *x, struct err *e)
{
    return wait_one(x->client, &x->pulls[0], e);
}

int exchange_pulled_dense(struct exchange *x, size_t first, size_t n, struct err *e)
{
    for (uint32_t i = 0; i < x->n_parts; i++)
        if (x->parts[i].first < first + n && first < x->parts[i].end)
            TRY(wait_part(x, &x->pulls[1 + i], e));
    return 0;
}

int exchange_pulled(struct exchange *x, struct err *e)
{
    TRY(exchange_pulled_rows(x, e));
    return wait_parts(x, x->pulls, e);
}

int exchange_dense_pushed(struct exchange *x, struct err *e)
{
    return wait_parts(x, x->pushes, e);
}

int exchange_pushed(struct exchange *x, struct err *e)
{
    TRY(wait_one(x->client, &x->pushes[0], e));
    return exchange_dense_pushed(x, e);
}

// Adds the gradients of n examples to the values of the push, group by group of columns;
// x->to[j] is the place for feature j of the batch.
static void add_part(const struct exchange *x, size_t first, size_t n,
                     float *const *gradients)
{
    const struct accessor *a = &x->model.accessor;
    const uint32_t *start = x->view.batch.start;
    const float *u = x->view.u;
    float *const *to = x->to;
    size_t from = start[first], end = start[first + n], column = 0;
    for (uint32_t g = 0; g < a->n_groups; g++) {
        size_t width = a->groups[g].n;
        const float *gradient = gradients[g];
        for (size_t j = from; j < end && width == 1; j++)
            to[j][column] += gradient[j - from];
        for (size_t j = from; j < end && width > 1; j++)
            x->model.kernels->axpy(to[j] + column, 1, gradient + (j - from) * width,
                                   width);
        column += width;
    }
    for (size_t k = first; k < first + n; k++) {
        const struct batch *b = &x->view.batch;
        // the first label decides whether the example is a click
        float click = b->label[k * b->labels] > 0 ? 1.0f : 0.0f;
        for (size_t j = start[k]; j < start[k + 1]; j++) {
            to[j][column] += 1; // the number of occurrences, or shows
            to[j][column + 1] += x->lives ? click : u[j] * u[j];
        }
    }
}

// Sets the slot of each key. Unlike gradients, slots of equal keys are not added up.
static void set_slots(struct exchange *x)
{
    size_t width = x->push_width;
    for (size_t j = 0; j < x->view.batch.nnz && x->lives; j++)
        x->gradients[x->place[j] * width + width - 1] = x->view.batch.slot[j];
}

void exchange_clear(const struct exchange *x, float *sums, float *dense)
{
    memset(sums, 0, x->n * x->push_width * sizeof(float));
    memset(dense, 0, x->dense_floats * sizeof(float));
}

void exchange_add(struct exchange *x, float *sums, size_t first, size_t n,
                  float *const *gradients)
{
    const uint32_t *start = x->view.batch.start;
    for (size_t j = start[first]; j < start[first + n]; j++)
        x->to[j] = sums + x->place[j] * (size_t)x->push_width;
    add_part(x, first, n, gradients);
}

void exchange_begin(struct exchange *x, uint32_t first, uint32_t n)
{
    for (size_t i = 0; i < x->n; i++)
        x->last[i] = NO_SUM;
    x->n_sums = 0;
    dense_sums_begin(&x->dense_sums, &x->model, first, first + n);
}

static int reserve_sums(struct exchange *x, size_t more)
{
    if (x->n_sums + more <= x->cap_sums)
        return 0;
    size_t cap = (x->n_sums + more) + (x->n_sums + more) / 2, width = x->push_width;
    struct piece_sum *sums = mem_realloc_array(x->sums, cap, sizeof(*sums));
    x->sums = sums != NULL ? sums : x->sums;
    float *values = mem_realloc_array(x->sum_values, cap * width + KERNEL_PADDING,
                                      sizeof(*values));
    x->sum_values = values != NULL ? values : x->sum_values;
    if (sums == NULL || values == NULL)
        return TUG_ENOMEM;
    x->cap_sums = cap;
    return 0;
}

// Returns the key's sum in this micro-batch; begins one if there is none.
static float *sum_of(struct exchange *x, uint32_t place, uint8_t micro)
{
    size_t width = x->push_width;
    uint32_t last = x->last[place];
    if (last == NO_SUM || x->sums[last].micro != micro) {
        x->sums[x->n_sums] = (struct piece_sum){last, micro};
        memset(x->sum_values + x->n_sums * width, 0, width * sizeof(float));
        last = x->last[place] = (uint32_t)x->n_sums++;
    }
    return x->sum_values + last * width;
}

float *exchange_dense_micro(struct exchange *x, uint8_t micro)
{
    return dense_sums_micro(&x->dense_sums, x->model.kernels, micro);
}

int exchange_add_micro(struct exchange *x, uint8_t micro, size_t first, size_t n,
                       float *const *gradients)
{
    const uint32_t *start = x->view.batch.start;
    TRY(reserve_sums(x, start[first + n] - start[first]));
    for (size_t j = start[first]; j < start[first + n]; j++)
        x->to[j] = sum_of(x, x->place[j], micro);
    add_part(x, first, n, gradients);
    return 0;
}

static void sum_key(struct exchange *x, size_t i)
{
    size_t width = x->push_width, n = 0;
    float *values[TREE_LEAVES];
    uint8_t micros[TREE_LEAVES];
    for (uint32_t s = x->last[i]; s != NO_SUM; s = x->sums[s].earlier)
        n++;
    size_t at = n;
    for (uint32_t s = x->last[i]; s != NO_SUM; s = x->sums[s].earlier) {
        values[--at] = x->sum_values + s * width;
        micros[at] = x->sums[s].micro;
    }
    float *to = x->gradients + i * width;
    if (n == 0) {
        memset(to, 0, width * sizeof(float));
        return;
    }
    tree_sum(x->model.kernels, micros, values, n, width);
    memcpy(to, values[0], width * sizeof(float));
}

void exchange_sum(struct exchange *x)
{
    struct dense_sums *d = &x->dense_sums;
    for (size_t i = 0; i < x->n; i++)
        sum_key(x, i);
    memset(x->dense_gradient, 0, x->dense_floats * sizeof(float));
    if (d->n == 0)
        return;
    tree_sum(x->model.kernels, d->first, d->values, d->n, d->width);
    memcpy(x->dense_gradient, d->values[0], d->width * sizeof(float));
}

static struct client_push push_of(const struct exchange *x, const struct exchange_push *p)
{
    return (struct client_push){
        .op = x->steps ? WIRE_DELTA : WIRE_GRADIENT,
        .rate = p->rate,
        .pass = p->pass,
        .again = p->pass > 1, // an example counts only in the run's first pass
        .clock = p->clock,
        .micro = p->micro,
        .micros = p->micros,
        .id_pass = p->id_pass,
        .id_piece = p->id_piece,
        .id_group = p->id_group,
        .id_low = p->id_low,
        .examples = p->examples,
    };
}

// Scales a part of the gradient, except summaries, which are added up and never averaged.
static void scale_part(struct exchange *x, const struct exchange_part *part, float scale)
{
    float *g = x->dense_gradient + part->first;
    size_t end = part->end;
    if (x->model.summaries > 0 && x->model.summaries < end)
        end = x->model.summaries;
    if (scale != 0 && end > part->first)
        x->model.kernels->scale(g, scale, g, end - part->first);
}

static int push_part(struct exchange *x, const struct exchange_push *p, uint32_t i,
                     struct err *e)
{
    struct exchange_part *part = &x->parts[i];
    struct client_push push = push_of(x, p);
    if (part->pushed)
        return 0;
    scale_part(x, part, p->dense_scale);
    push.table = EXCHANGE_DENSE;
    push.keys = x->dense_keys + part->block;
    push.n = part->n;
    push.values = x->dense_gradient + part->first;
    push.arranged = x->model.blocks == 1;
    // Several parts may have blocks of the same partition, so each part is a group of its
    // own.
    push.id_group = p->id_group * x->n_parts + i;
    push.id_low = p->id_low * x->n_parts;
    push.examples = i == 0 ? p->examples : 0;
    // Saves of features with a lifecycle wait until both tables have come to
    // the same batch, on every loop. So loops that have no dense parameters
    // must get the push as well.
    push.fixed_keys = !x->lives;
    x->pushes[1 + i] = client_push(x->client, &push, e);
    part->pushed = x->pushes[1 + i] != 0;
    return part->pushed ? 0 : e->code;
}

int exchange_complete(struct exchange *x, const struct exchange_push *p, size_t first,
                      size_t n, struct err *e)
{
    size_t end = first + n;
    for (uint32_t i = x->n_parts; i-- > 0;) {
        struct exchange_part *part = &x->parts[i];
        size_t from = first > part->first ? first : part->first,
               to = end < part->end ? end : part->end;
        if (from >= to)
            continue;
        assert(part->missing >= to - from);
        part->missing -= to - from;
        if (part->missing == 0)
            TRY(push_part(x, p, i, e));
    }
    return 0;
}

int exchange_push(struct exchange *x, const struct exchange_push *p, struct err *e)
{
    set_slots(x);
    struct client_push push = push_of(x, p);
    push.table = EXCHANGE_SPARSE;
    push.keys = x->key;
    push.n = x->n;
    push.values = x->gradients;
    push.arranged = true;
    x->pushes[0] = client_push(x->client, &push, e);
    if (x->pushes[0] == 0)
        return e->code;
    for (uint32_t i = 0; i < x->n_parts; i++)
        TRY(push_part(x, p, i, e));
    return 0;
}
