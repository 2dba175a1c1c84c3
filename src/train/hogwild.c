// Hogwild: each thread takes batches and updates the shared rows after every example,
// without locks (Recht et al. 2011). Lost updates are rare where features are many;
// where they are few, they are harmless. The bias, which every example touches, is
// updated once per micro-batch.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/relaxed.h"
#include "model/loss.h"
#include "train/progress.h"
#include "train/run.h"

// Examples whose rows are fetched ahead of the first's use. Wide rows: fewer, so that
// they stay in the second-level cache.
enum { MICRO_MAX = 32, MICRO_BYTES = 256 * 1024 };

static size_t micro_batch(const struct run *r)
{
    uint64_t examples = dataset_size(r->data);
    uint64_t per_example = dataset_features(r->data) / (examples > 0 ? examples : 1) + 1;
    uint64_t n = MICRO_BYTES /
                 (per_example * table_slabs(r->parameters.sparse).stride + 1);
    return n < 2 ? 2 : n > MICRO_MAX ? MICRO_MAX : (size_t)n;
}

static bool is_finite(float x)
{
    return x - x == 0;
}

// One step on one example; gives d loss / d score, or NaN when the score is not finite.
static float step(struct worker *w, const struct model_example *x, float bias,
                  float label, float weight)
{
    struct run *r = w->run;
    enum reader_loss loss = r->config->reader.loss;
    if (model_scratch_reserve(&w->scratch, x->n) != 0) {
        w->rc = TUG_ENOMEM;
        return NAN;
    }
    float score = bias + model_score(&w->scratch, x);
    if (!is_finite(score)) {
        w->rc = TUG_EDATA;
        return NAN;
    }
    double prediction = loss_prediction(loss, score);
    float err = weight * loss_gradient(loss, prediction, label);
    metrics_stream_add(&w->stream, loss, score, prediction, label, weight);
    model_step(&w->scratch, x, err, w->rules, (float)(r->at.epoch + 1));
    return err;
}

static void micro(struct worker *w, const uint64_t *order, size_t n)
{
    struct run *r = w->run;
    const struct model *m = &r->parameters.model;
    w->rc = view_take(&w->view, r->data, order, n, &r->parameters,
                      w->hot.begun ? &w->hot : NULL);
    float bias = relaxed_load(r->parameters.bias), bias_grad = 0;
    for (size_t i = 0; i < n && w->rc == 0; i++) {
        struct model_example x = view_example(&w->view, i);
        float weight = w->view.batch.weight != NULL ? w->view.batch.weight[i] : 1;
        float err = step(w, &x, bias, w->view.batch.label[i], weight);
        if (w->rc != 0)
            w->bad = order[i];
        bias_grad += err;
    }
    if (w->rc == 0)
        m->kernels->apply[w->bias_rule->kind](
            w->bias_rule, 0, r->parameters.bias,
            r->parameters.bias + m->bias.groups[0].state, &bias_grad, 1);
}

// A hand's runs, on their way into cache before the first example is dealt.
static void prefetch_hand(struct worker *w, uint64_t first)
{
    const struct run *r = w->run;
    order_hand(&r->order, &w->hand, first / ORDER_HAND);
    for (uint32_t i = 0; i < w->hand.runs; i++)
        for (uint64_t j = 0; j < ORDER_RUN; j += ORDER_RUN / 2)
            if (w->hand.first[i] + j < r->order.n)
                dataset_prefetch(r->data, w->hand.first[i] + j);
}

static void batch(struct worker *w, size_t size, uint64_t number)
{
    const struct run *r = w->run;
    uint64_t order[MICRO_MAX], batch = r->config->batch;
    uint64_t first = number * batch, end = first + batch,
             positions = order_positions(&r->order);
    end = end < positions ? end : positions;
    while (first < end && w->rc == 0) {
        if (!w->hand.known || w->hand.number != first / ORDER_HAND)
            prefetch_hand(w, first);
        uint64_t left = ORDER_HAND - first % ORDER_HAND; // of the hand
        left = left < end - first ? left : end - first;
        size_t n = left < size ? (size_t)left : size;
        size_t picked = run_pick(w, first, n, order);
        if (picked > 0) // else all are held out, and a bias would still decay
            micro(w, order, picked);
        first += n;
    }
}

// Copies of hot rows, after batch b: begun when it is time, merged now and then.
static void care_for_hot_rows(struct worker *w, uint64_t b)
{
    const struct run *r = w->run;
    uint64_t batch = r->config->batch, workers = (uint64_t)team_size(r->team);
    uint64_t seen = (r->at.batches - r->at.batch + b) * batch; // by all, in the run
    if (r->hot.n == 0)
        return; // as with one thread
    w->unmerged += batch;
    if (!w->hot.begun && seen >= workers * HOT_BEGIN_EXAMPLES) {
        hot_begin(&w->hot);
        w->unmerged = 0;
    } else if (w->unmerged >= HOT_MERGE_EXAMPLES) {
        hot_merge(&w->hot);
        w->unmerged = 0;
    }
}

void hogwild_batches(void *run, int rank)
{
    struct run *r = run;
    struct worker *w = &r->workers[rank];
    size_t size = micro_batch(r);
    w->rc = hot_open(&w->hot, &r->hot, r->parameters.sparse);
    while (w->rc == 0 && !atomic_load_explicit(&r->stop, memory_order_relaxed)) {
        uint64_t b = atomic_fetch_add_explicit(&r->next_batch, 1, memory_order_relaxed);
        if (b >= r->last_batch)
            break;
        care_for_hot_rows(w, b);
        batch(w, size, b);
        if (w->rc != 0 ||
            (rank == 0 && progress_wants_a_stop(r->progress, r->config->interrupted)))
            atomic_store_explicit(&r->stop, true, memory_order_relaxed);
    }
    if (w->hot.begun)
        hot_finish(&w->hot);
    hot_close(&w->hot);
}
