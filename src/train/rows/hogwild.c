// Hogwild: each thread takes batches and updates the shared rows after every example, or
// after as many as a model computes at once (model_step), without locks (Recht et al.
// 2011). If there are many features, updates are rarely lost; if there are few, lost
// updates are harmless. The bias, which every example touches, is updated once per
// micro-batch, and layers once per batch.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/rows/hogwild.h"

#include "train/progress.h"
#include "train/rows/run_rows.h"

// Bytes of the rows that are processed at a time, so that prefetched rows stay in
// the second-level cache.
enum { MICRO_BYTES = 256 * 1024 };

// Returns the number of examples processed at a time; for models with layers, the number
// that the layers compute at once.
static size_t micro_batch(const struct run *r)
{
    if (model_has_layers(r->model))
        return r->model->options.ops->at_once;
    uint64_t examples = dataset_size(r->data);
    uint64_t per_example = dataset_features(r->data) / (examples > 0 ? examples : 1) + 1;
    uint64_t n = MICRO_BYTES / (per_example * r->local.row.bytes + 1);
    return n < 2 ? 2 : n > HOGWILD_AHEAD ? HOGWILD_AHEAD : (size_t)n;
}

// Updates the dense parameters: the bias of a model without layers after every few
// examples, the layers of other models by the mean gradient after each batch.
static void step_dense(struct worker *w)
{
    struct run *r = w->run;
    const struct model *m = &r->parameters.model;
    if (w->examples > 0)
        dense_step(&w->dense, m, w->dense_rule, r->local.blocks,
                   model_has_layers(m) ? 1 / (float)w->examples : 1);
    w->examples = 0;
}

void hogwild_step(struct worker *w, const uint64_t *order, size_t n)
{
    struct run *r = w->run;
    const struct model *m = &r->parameters.model;
    const struct hot_copies *hot = w->hot.begun ? &w->hot : NULL;
    w->rc = r->rows->local->take(w, order, n, hot);
    if (w->rc == 0)
        w->rc = view_draw(&w->view, m, r->at.epoch, order, n);
    if (w->rc != 0)
        return;
    if (w->examples == 0)
        dense_read(m, r->local.blocks, w->dense.values);
    struct model_batch b = view_batch(&w->view);
    struct model_training t = {
        .batch = r->config->batch,
        .loss = r->config->reader.loss,
        .dense_gradient = w->dense.gradient,
        .rules = w->rules,
        .pass = (float)(r->at.epoch + 1),
        .stream = w->stream,
    };
    w->rc = model_step(&w->work, &b, &t);
    w->examples += n;
    if (w->rc != 0)
        w->bad = order[t.bad];
    else if (!model_has_layers(m))
        step_dense(w);
}

// Prefetches the examples of a block of the pass's order before the first one is used.
static void prefetch_block(struct worker *w, uint64_t first)
{
    const struct run *r = w->run;
    order_fill_block(&r->local.order, &w->hand, first / ORDER_BLOCK);
    for (uint32_t i = 0; i < w->hand.runs; i++)
        for (uint64_t j = 0; j < ORDER_RUN; j += ORDER_RUN / 2)
            if (w->hand.first[i] + j < r->local.order.n)
                dataset_prefetch(r->data, w->hand.first[i] + j);
}

void hogwild_deal(struct worker *w, size_t size, uint64_t number,
                  void (*each)(struct worker *w, const uint64_t *order, size_t n))
{
    const struct run *r = w->run;
    uint64_t order[MODEL_AT_ONCE_MAX], batch = r->config->batch;
    uint64_t first = number * batch, end = first + batch,
             positions = order_positions(&r->local.order);
    end = end < positions ? end : positions;
    while (first < end && w->rc == 0) {
        if (!w->hand.known || w->hand.number != first / ORDER_BLOCK)
            prefetch_block(w, first);
        uint64_t left = ORDER_BLOCK - first % ORDER_BLOCK; // positions left in the block
        left = left < end - first ? left : end - first;
        size_t n = left < size ? (size_t)left : size;
        size_t picked = run_pick(w, first, n, order);
        // If all examples are held out, no step is made, because it would
        // still decay the bias.
        if (picked > 0)
            each(w, order, picked);
        first += n;
    }
}

void hogwild_batch(struct worker *w, size_t size, uint64_t number)
{
    hogwild_deal(w, size, number, hogwild_step);
}

// Called after batch b. Makes copies of hot rows once the run has seen enough examples,
// and merges the copies regularly.
static void care_for_hot_rows(struct worker *w, uint64_t b)
{
    const struct run *r = w->run;
    uint64_t batch = r->config->batch, workers = (uint64_t)team_size(r->team);
    // The number of examples that all workers together have trained on.
    uint64_t seen = (r->at.batches - r->at.batch + b) * batch;
    if (r->local.hot.n == 0)
        return; // no row has copies, for example with one thread
    w->unmerged += batch;
    if (!w->hot.begun && seen >= workers * HOT_BEGIN_EXAMPLES) {
        hot_begin(&w->hot);
        w->unmerged = 0;
    } else if (w->unmerged >= HOT_MERGE_EXAMPLES) {
        hot_merge(&w->hot);
        w->unmerged = 0;
    }
}

static int open_worker(struct worker *w)
{
    struct run *r = w->run;
    TRY(r->rows->local->open_worker(w));
    return hot_open(&w->hot, &r->local.hot, r->local.row.copied, r->rows->local->find, r);
}

static void close_worker(struct worker *w)
{
    if (w->hot.begun)
        hot_finish(&w->hot);
    hot_close(&w->hot);
    w->run->rows->local->close_worker(w);
}

static void hogwild_batches(void *run, int rank)
{
    struct run *r = run;
    struct worker *w = &r->local.workers[rank];
    const atomic_bool *interrupted = r->rows->whole_passes &&
                                             run_saves_when_interrupted(r)
                                         ? NULL
                                         : r->config->interrupted;
    size_t size = micro_batch(r);
    w->rc = open_worker(w);
    while (w->rc == 0 && !atomic_load_explicit(&r->local.stop, memory_order_relaxed)) {
        uint64_t b = atomic_fetch_add_explicit(&r->local.next_batch, 1,
                                               memory_order_relaxed);
        if (b >= r->local.last_batch)
            break;
        care_for_hot_rows(w, b);
        r->rows->local->batch(w, size, b);
        if (w->rc == 0)
            step_dense(w);
        if (w->rc != 0 || (rank == 0 && progress_wants_a_stop(r->progress, interrupted)))
            atomic_store_explicit(&r->local.stop, true, memory_order_relaxed);
    }
    close_worker(w);
}

static int find_hot_rows(struct run *r, struct err *e)
{
    r->local.hot.n = 0;
    if (team_size(r->team) == 1 || r->local.row.copied[0] == 0 || !hot_adds_up(r->model))
        return 0;
    return hot_find(&r->local.hot, r->data, r->config->model.seed) == 0
               ? 0
               : err_nomem(e, "hot rows");
}

const struct updater updater_hogwild = {
    .begin_data = find_hot_rows,
    .batches = hogwild_batches,
};
