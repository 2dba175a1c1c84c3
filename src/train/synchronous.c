// Synchronous batches: the gradients of a whole batch are taken at the batch's
// start, added per row in the order of the examples, and each row's rule is applied
// once. The result depends on the batch size and the seed, not on the number of
// threads, nor on the CPU.
//
// A batch has three phases with barriers between them:
//   1. each thread takes a slice of the examples and computes the gradients of its
//      features;
//   2. each thread owns the rows whose id hashes to it, walks over all
//      features of the batch in
//      order, adds up the gradients of its rows (in place, into the first one's memory), and
//      applies them; thread 0 also does the bias;
//   3. thread 0 decides whether to go on.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "model/loss.h"
#include "train/progress.h"
#include "train/run.h"

struct entry {
    uint32_t id;
    uint32_t stamp; // of the batch; older: free
    float *row, *linear, *latent;
    float occurrences, squares; // in the batch, and their sum of u^2
};

// One thread's memory for a batch.
struct synchronous {
    uint64_t *order; // the slice's examples
    float *err;      // their d loss / d score
    size_t n;
    size_t cap;             // features
    float *linear, *latent; // gradients of the slice's features
    struct entry *entries;  // hash table of the rows it owns
    size_t n_entries;       // a power of two
    uint32_t stamp;
    struct entry **filled;
    struct accessor_scratch scratch;
    bool go_on; // rank 0's, written before the last barrier of a batch, read after it
};

static size_t latent_n(const struct run *r)
{
    return model_latent(&r->parameters.model);
}

int synchronous_open(struct run *r, struct err *e)
{
    size_t threads = (size_t)team_size(r->team);
    size_t slice = r->config->batch / threads + 1;
    for (size_t i = 0; i < threads; i++) {
        struct synchronous *s = mem_zalloc(sizeof(*s));
        if (s == NULL)
            return err_nomem(e, "synchronous batches");
        r->workers[i].synchronous = s;
        s->order = mem_array(slice, sizeof(*s->order));
        s->err = mem_array(slice, sizeof(*s->err));
        if (s->order == NULL || s->err == NULL)
            return err_nomem(e, "synchronous batches");
        const struct model *m = &r->parameters.model;
        TRY(accessor_scratch_init(&s->scratch, &m->accessor, m->kernels, e));
    }
    return 0;
}

void synchronous_close(struct run *r)
{
    for (int i = 0; r->workers != NULL && i < team_size(r->team); i++) {
        struct synchronous *s = r->workers[i].synchronous;
        if (s == NULL)
            continue;
        mem_free(s->order);
        mem_free(s->err);
        mem_free(s->linear);
        mem_free(s->latent);
        mem_free(s->entries);
        mem_free(s->filled);
        accessor_scratch_fini(&s->scratch);
        mem_free(s);
        r->workers[i].synchronous = NULL;
    }
}

static int reserve_gradients(struct synchronous *s, size_t nnz, size_t latent)
{
    if (nnz <= s->cap)
        return 0;
    size_t cap = nnz + nnz / 2;
    mem_free(s->linear);
    mem_free(s->latent);
    s->linear = mem_array(cap, sizeof(float));
    s->latent = mem_array(cap * latent + KERNEL_PADDING, sizeof(float));
    s->cap = s->linear != NULL && s->latent != NULL ? cap : 0;
    return s->cap != 0 ? 0 : TUG_ENOMEM;
}

// Phase 1.
static int gradients_of_slice(struct worker *w, uint64_t first, size_t n)
{
    struct run *r = w->run;
    struct synchronous *s = w->synchronous;
    enum reader_loss loss = r->config->reader.loss;
    s->n = run_pick(w, first, n, s->order);
    TRY(view_take(&w->view, r->data, s->order, s->n, &r->parameters, NULL));
    TRY(reserve_gradients(s, w->view.batch.nnz, latent_n(r)));
    for (size_t i = 0; i < s->n; i++) {
        struct model_example x = view_example(&w->view, i);
        TRY(model_scratch_reserve(&w->scratch, x.n));
        float label = w->view.batch.label[i];
        float weight = w->view.batch.weight != NULL ? w->view.batch.weight[i] : 1;
        float score = *r->parameters.bias + model_score(&w->scratch, &x);
        if (!(score - score == 0)) {
            w->bad = s->order[i];
            return TUG_EDATA;
        }
        double prediction = loss_prediction(loss, score);
        metrics_stream_add(&w->stream, loss, score, prediction, label, weight);
        s->err[i] = weight * loss_gradient(loss, prediction, label);
        size_t from = w->view.batch.start[i];
        model_grad(&w->scratch, &x, s->err[i], s->linear + from,
                   s->latent + from * latent_n(r));
    }
    return 0;
}

static int reserve_entries(struct synchronous *s, size_t nnz)
{
    if (nnz * 2 <= s->n_entries)
        return 0;
    size_t n = 1024;
    while (n < nnz * 2)
        n *= 2;
    mem_free(s->entries);
    mem_free(s->filled);
    s->entries = mem_zalloc(n * sizeof(*s->entries));
    s->filled = mem_array(n, sizeof(struct entry *));
    s->stamp = 0;
    s->n_entries = s->entries != NULL && s->filled != NULL ? n : 0;
    return s->n_entries != 0 ? 0 : TUG_ENOMEM;
}

static struct entry *find_entry(struct synchronous *s, uint32_t id, uint32_t hash)
{
    size_t mask = s->n_entries - 1, at = hash & mask;
    while (s->entries[at].stamp == s->stamp && s->entries[at].id != id)
        at = (at + 1) & mask;
    return &s->entries[at];
}

// Adds the gradients of one slice to the rows that this thread owns.
static size_t add_slice(struct worker *w, const struct worker *from, size_t filled)
{
    struct run *r = w->run;
    struct synchronous *s = w->synchronous;
    const struct synchronous *f = from->synchronous;
    size_t latent = latent_n(r), threads = (size_t)team_size(r->team);
    size_t rank = (size_t)(w - r->workers);
    for (size_t j = 0; j < from->view.batch.nnz; j++) {
        uint32_t id = from->view.batch.id[j];
        uint64_t hash = mix64(id);
        if ((hash >> 40) % threads != rank)
            continue;
        struct entry *e = find_entry(s, id, (uint32_t)hash);
        float u = from->view.u[j];
        if (e->stamp != s->stamp) {
            *e = (struct entry){.id = id,
                                .stamp = s->stamp,
                                .row = from->view.rows[j],
                                .linear = f->linear + j,
                                .latent = f->latent + j * latent,
                                .occurrences = 1,
                                .squares = u * u};
            s->filled[filled++] = e;
            continue;
        }
        e->occurrences++;
        e->squares += u * u;
        *e->linear += f->linear[j];
        r->parameters.model.kernels->axpy(e->latent, 1, f->latent + j * latent, latent);
    }
    return filled;
}

static void apply_bias(struct run *r, float scale)
{
    const struct model *m = &r->parameters.model;
    struct worker *w = &r->workers[0];
    float sum = 0;
    for (int t = 0; t < team_size(r->team); t++)
        for (size_t i = 0; i < r->workers[t].synchronous->n; i++)
            sum += r->workers[t].synchronous->err[i];
    sum *= scale;
    m->kernels->apply[w->bias_rule->kind](w->bias_rule, 0, r->parameters.bias,
                                          r->parameters.bias + m->bias.groups[0].state,
                                          &sum, 1);
}

// Rows are applied in strips.
enum { STRIP = 64 };

static void apply_strip(struct worker *w, struct entry *const *entries, size_t n,
                        float scale)
{
    float *rows[STRIP], occurrences[STRIP], squares[STRIP];
    const float *linear[STRIP], *latent[STRIP];
    for (size_t i = 0; i < n; i++) {
        rows[i] = entries[i]->row;
        linear[i] = entries[i]->linear;
        latent[i] = entries[i]->latent;
        occurrences[i] = entries[i]->occurrences;
        squares[i] = entries[i]->squares;
    }
    struct accessor_update update = {
        .rules = w->rules,
        .pass = (float)(w->run->at.epoch + 1),
        .scale = scale,
        .n = n,
        .rows = rows,
        .gradients = {linear, latent},
        .occurrences = occurrences,
        .squares = squares,
    };
    accessor_apply(&w->synchronous->scratch, &update);
}

// Phase 2.
static int apply_owned_rows(struct worker *w, float scale)
{
    struct run *r = w->run;
    struct synchronous *s = w->synchronous;
    size_t nnz = 0, filled = 0;
    for (int t = 0; t < team_size(r->team); t++)
        nnz += r->workers[t].view.batch.nnz;
    TRY(reserve_entries(s, nnz));
    if (++s->stamp == 0) { // wrapped: forget the old stamps
        memset(s->entries, 0, s->n_entries * sizeof(*s->entries));
        s->stamp = 1;
    }
    for (int t = 0; t < team_size(r->team); t++)
        filled = add_slice(w, &r->workers[t], filled);
    for (size_t i = 0; i < filled; i += STRIP)
        apply_strip(w, s->filled + i, filled - i < STRIP ? filled - i : STRIP, scale);
    return 0;
}

static bool everyone_is_well(const struct run *r)
{
    bool well = true;
    for (int t = 0; t < team_size(r->team); t++)
        well &= r->workers[t].rc == 0;
    return well;
}

static size_t examples_of_batch(const struct run *r)
{
    size_t examples = 0;
    for (int t = 0; t < team_size(r->team); t++)
        examples += r->workers[t].synchronous->n;
    return examples;
}

// One batch; all members call it together.
static void batch(struct worker *w, int rank)
{
    struct run *r = w->run;
    uint64_t number = atomic_load_explicit(&r->next_batch, memory_order_relaxed);
    uint64_t size = r->config->batch, threads = (uint64_t)team_size(r->team);
    uint64_t first = (uint64_t)rank * size / threads,
             end = ((uint64_t)rank + 1) * size / threads;
    w->rc = gradients_of_slice(w, number * size + first, end - first);
    team_barrier(r->team);
    if (everyone_is_well(r)) { // the same answer for all: rc is not written in this phase
        size_t examples = examples_of_batch(r);
        float scale = r->config->reduce_mean && examples > 0 ? 1 / (float)examples : 1;
        int rc = apply_owned_rows(w, scale);
        if (rank == 0 && examples > 0) // else all are held out, and it would still decay
            apply_bias(r, scale);
        team_barrier(r->team);
        w->rc = rc;
    } else {
        team_barrier(r->team);
    }
}

void synchronous_batches(void *run, int rank)
{
    struct run *r = run;
    struct worker *w = &r->workers[rank];
    const struct synchronous *leader = r->workers[0].synchronous;
    while (atomic_load_explicit(&r->next_batch, memory_order_relaxed) < r->last_batch) {
        batch(w, rank);
        team_barrier(r->team);
        if (rank == 0) {
            atomic_fetch_add_explicit(&r->next_batch, 1, memory_order_relaxed);
            r->workers[0].synchronous->go_on = everyone_is_well(r) &&
                                               !progress_wants_a_stop(
                                                   r->progress, r->config->interrupted);
        }
        team_barrier(r->team);
        if (!leader->go_on)
            break;
    }
}
