// The threads of a worker compute a batch that was pulled; each takes some of its
// examples. By gradients, each thread adds up the gradients of its examples, and then
// each adds up the threads' sums for a part of the keys. By steps, all threads update the
// same rows, as the threads of one process do (train/rows/hogwild.c).
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "train_cluster/even.h"
#include "train_cluster/remote.h"

enum {
    // Memory of a thread for the examples that it computes together, layer by layer. The
    // gradient of a layer is complete only after the last part of a batch, so parts are
    // as large as the processor's caches allow.
    WHOLE_BYTES = 16 << 20,
    // Number of examples between two polls of the van, so that answers are received
    // promptly.
    POLL_EVERY = 256,
    BIAS_EVERY = 32,
};

int remote_threads_open(struct remote_worker *w, struct err *e)
{
    int n = w->config->cluster->together ? team_size(w->team) : 1;
    w->threads = mem_aligned(64, (size_t)n * sizeof(*w->threads));
    if (w->threads == NULL)
        return err_nomem(e, "the threads of a worker");
    memset(w->threads, 0, (size_t)n * sizeof(*w->threads));
    w->n_threads = n;
    for (int i = 0; i < n; i++) {
        struct remote_thread *t = &w->threads[i];
        t->stream = metrics_streams(w->model.options.tasks);
        if (t->stream == NULL)
            return err_nomem(e, "the threads of a worker");
        if (dense_open(&t->dense, &w->model) != 0)
            return err_nomem(e, "dense parameters");
        TRY(model_work_open(&t->work, &w->slots[0].model, e));
    }
    return 0;
}

void remote_threads_close(struct remote_worker *w)
{
    for (int i = 0; i < w->n_threads; i++) {
        model_work_close(&w->threads[i].work);
        dense_close(&w->threads[i].dense);
        mem_free(w->threads[i].stream);
        if (i > 0)
            mem_free(w->threads[i].sums);
    }
    mem_free(w->threads);
}

int remote_reserve_order(struct remote_worker *w, size_t n, struct err *e)
{
    if (n <= w->cap_order)
        return 0;
    mem_free(w->order);
    w->order = mem_array(n, sizeof(*w->order));
    w->cap_order = w->order != NULL ? n : 0;
    return w->order != NULL ? 0 : err_nomem(e, "a batch");
}

int remote_failed(struct remote_worker *w, int rc, uint64_t pass, struct err *e)
{
    w->bad_score |= rc == TUG_EDATA;
    if (rc == TUG_ENOMEM)
        return err_nomem(e, "a batch");
    return rc == 0 ? 0
                   : err_because(
                         e, rc, REASON_DIVERGED, 0,
                         "pass %llu: a score is not finite: the model has diverged; try "
                         "a smaller --lr",
                         (unsigned long long)pass);
}

int remote_gradients(const struct remote_worker *w, struct remote_thread *t,
                     const struct exchange *x, const struct model_batch *part,
                     float *dense)
{
    struct model_training training = {
        .loss = w->config->reader.loss,
        .stream = t->stream,
        .dense_gradient = dense,
        .batch = w->config->batch,
    };
    t->work.dense = x->dense;
    TRY(model_reserve(&t->work, model_features(part)));
    return model_gradients(&t->work, part, &training, NULL, t->work.gradients);
}

// A batch that is being computed.
struct job {
    struct remote_worker *worker;
    struct exchange *x;
    struct model_batch batch;
    const struct exchange_push *push;
    bool last; // this thread alone computes the last part of the batch now
    int rc;    // the result of the client's calls, which the first thread makes
    struct err *e;
};

// Polls the van every POLL_EVERY examples, between two parts of the first
// thread's examples: `before` is the number of examples done before the last
// part, `done` the number now.
static int poll_sometimes(struct job *j, int rank, size_t before, size_t done)
{
    if (rank == 0 && j->rc == 0 && before / POLL_EVERY != done / POLL_EVERY)
        j->rc = client_poll(j->worker->remote.client, j->e);
    return rank == 0 ? j->rc : 0;
}

// Returns where thread `rank`'s part of n elements begins: a multiple of `unit`, at most
// n.
static size_t part_begin(const struct remote_worker *w, int rank, size_t n, size_t unit)
{
    size_t units = (n + unit - 1) / unit;
    size_t from = units * (size_t)rank / (size_t)w->n_threads * unit;
    return from < n ? from : n;
}

// Returns whether parts of the dense parameters are pulled and pushed while the model
// computes.
static bool flows(const struct job *j)
{
    return j->x->n_parts > 1 && j->worker->n_threads == 1 && model_by_layer(&j->x->model);
}

static size_t equal_parts(size_t n, size_t most)
{
    size_t parts = (n + most - 1) / most;
    return parts > 1 ? (n + parts - 1) / parts : most;
}

static void on_needs(void *job, size_t first, size_t n)
{
    struct job *j = job;
    if (j->rc == 0)
        j->rc = exchange_pulled_dense(j->x, first, n, j->e);
    if (j->rc == 0)
        j->rc = client_poll(j->worker->remote.client, j->e);
}

static void on_has(void *job, size_t first, size_t n)
{
    struct job *j = job;
    if (j->rc == 0 && j->last)
        j->rc = exchange_complete(j->x, j->push, first, n, j->e);
    if (j->rc == 0)
        j->rc = client_poll(j->worker->remote.client, j->e);
}

static int thread_gradients(struct job *j, struct remote_thread *t, int rank)
{
    struct remote_worker *w = j->worker;
    struct exchange *x = j->x;
    struct model_flow flow = {on_needs, on_has, j};
    t->work.flow = flows(j) ? &flow : NULL;
    size_t n = j->batch.n,
           at_once = flows(j) ? equal_parts(n, t->work.room) : remote_at_once(w);
    size_t end = part_begin(w, rank + 1, n, at_once);
    float *dense = rank == 0 ? x->dense_gradient : t->dense.gradient;
    struct model_batch part;
    exchange_clear(x, t->sums, dense);
    for (size_t i = part_begin(w, rank, n, at_once); i < end; i += part.n) {
        part = model_part(&j->batch, i, at_once);
        if (t->work.flow != NULL)
            j->last = i + part.n == n;
        TRY(remote_gradients(w, t, x, &part, dense));
        exchange_add(x, t->sums, i, part.n, t->work.gradients);
        TRY(poll_sometimes(j, rank, i, i + part.n));
    }
    return 0;
}

// Adds the sums of the other threads to those of the first one, for a part of the floats.
static void add_sums(void *job, int rank)
{
    struct job *j = job;
    struct remote_worker *w = j->worker;
    struct exchange *x = j->x;
    size_t n = x->n * x->push_width, line = 64 / sizeof(float);
    size_t from = part_begin(w, rank, n, line), end = part_begin(w, rank + 1, n, line);
    for (int i = 1; i < w->n_threads; i++) {
        const struct remote_thread *t = &w->threads[i];
        x->model.kernels->axpy(x->gradients + from, 1, t->sums + from, end - from);
        if (rank == 0)
            x->model.kernels->axpy(x->dense_gradient, 1, t->dense.gradient,
                                   x->dense_floats);
    }
}

// Trains on n examples from `first` on. Then updates dense parameters, as in one
// process: the bias, which every example uses, after every few examples, and layers by
// the mean gradient of a batch.
static int step_unit(struct job *j, struct remote_thread *t, int rank, size_t first,
                     size_t n)
{
    struct remote_worker *w = j->worker;
    const struct model *m = &j->x->model;
    struct model_batch part;
    dense_read(m, j->x->blocks, t->dense.values);
    t->work.dense = t->dense.values;
    for (size_t i = first; i < first + n; i += part.n) {
        struct model_training training = {
            .loss = w->config->reader.loss,
            .dense_gradient = t->dense.gradient,
            .batch = w->config->batch,
            .rules = w->rules,
            .pass = j->push->pass,
            .stream = t->stream,
        };
        size_t most = model_has_layers(m) ? remote_at_once(w) : n, left = first + n - i;
        part = model_part(&j->batch, i, left < most ? left : most);
        TRY(model_step(&t->work, &part, &training));
        TRY(poll_sometimes(j, rank, i, i + part.n));
    }
    dense_step(&t->dense, m, w->dense_rule, j->x->blocks,
               model_has_layers(m) ? 1 / (float)n : 1);
    return 0;
}

// With n threads, each thread trains on every n-th unit of examples, so that all
// threads are at about the same position in the data. In models with layers a unit is a
// batch of the stretch.
static int thread_steps(struct job *j, struct remote_thread *t, int rank)
{
    struct remote_worker *w = j->worker;
    bool layers = model_has_layers(&j->x->model);
    size_t n = j->batch.n, most = layers ? w->config->batch : BIAS_EVERY,
           units = even_parts(n, most), end;
    for (size_t u = (size_t)rank; u < units; u += (size_t)w->n_threads) {
        size_t first = layers ? even_begin(n, units, u) : u * most;
        end = layers ? even_begin(n, units, u + 1) : first + most;
        TRY(step_unit(j, t, rank, first, (end < n ? end : n) - first));
    }
    return 0;
}

static void compute(void *job, int rank)
{
    struct job *j = job;
    struct remote_thread *t = &j->worker->threads[rank];
    t->rc = j->x->steps ? thread_steps(j, t, rank) : thread_gradients(j, t, rank);
    t->work.flow = NULL;
}

// Runs a function in as many threads as compute a batch.
static void remote_batch_run(struct job *j, team_fn fn)
{
    if (j->worker->n_threads > 1)
        team_run(j->worker->team, fn, j);
    else
        fn(j, 0);
}

static int compute_all(struct job *j)
{
    struct remote_worker *w = j->worker;
    remote_batch_run(j, compute);
    TRY(j->rc);
    for (int i = 0; i < w->n_threads; i++)
        TRY(remote_failed(w, w->threads[i].rc, (uint64_t)j->push->pass, j->e));
    return 0;
}

// Makes room for the threads' sums. The first thread adds up in the memory of the batch's
// sums.
static int reserve_sums(struct remote_worker *w, struct exchange *x)
{
    size_t n = x->n * x->push_width + KERNEL_PADDING;
    w->threads[0].sums = x->gradients;
    for (int i = 1; i < w->n_threads; i++) {
        struct remote_thread *t = &w->threads[i];
        if (n <= t->cap)
            continue;
        mem_free(t->sums);
        t->sums = mem_array(n + n / 4, sizeof(*t->sums));
        t->cap = t->sums != NULL ? n + n / 4 : 0;
        if (t->sums == NULL)
            return TUG_ENOMEM;
    }
    return 0;
}

static int take_gradients(struct job *j)
{
    struct exchange *x = j->x;
    int rc = reserve_sums(j->worker, x);
    if (rc == 0 && flows(j))
        rc = model_room(&j->worker->threads[0].work, j->batch.n, WHOLE_BYTES);
    TRY(remote_failed(j->worker, rc, (uint64_t)j->push->pass, j->e));
    TRY(flows(j) ? exchange_pulled_rows(x, j->e) : exchange_pulled(x, j->e));
    TRY(compute_all(j));
    // If the batch has no examples, nothing has waited for the layers yet.
    TRY(exchange_pulled(x, j->e));
    if (j->worker->n_threads > 1)
        remote_batch_run(j, add_sums);
    return 0;
}

static int take_steps(struct job *j)
{
    TRY(exchange_pulled(j->x, j->e));
    exchange_catch_up(j->x);
    TRY(compute_all(j));
    exchange_finish(j->x);
    return 0;
}

int remote_compute(struct remote_worker *w, struct exchange *x,
                   const struct exchange_push *push, struct err *e)
{
    struct job j = {
        .worker = w, .x = x, .batch = view_batch(&x->view), .push = push, .e = e};
    return x->steps ? take_steps(&j) : take_gradients(&j);
}
