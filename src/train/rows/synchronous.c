// Synchronous batches: all gradients of a batch are computed from the rows at its start
// and are added per row in a fixed order; then each row's rule is applied once. The order
// is: within a micro-batch (train/rows/micro.h) from the first example to the last, then the
// sums of the micro-batches as a tree. So the result depends on the batch size and the
// seed, but not on the number of threads or on the CPU.
//
// A batch has three phases with barriers between them:
//   1. each thread takes a slice of the examples and computes the gradients of its
//      features;
//   2. each thread owns the rows whose id hashes to it, walks over all features of the
//      batch in order, adds up the gradients of its rows (in place, into the first one's
//      memory in each micro-batch), and applies them; thread 0 also does the dense
//      parameters;
//   3. thread 0 decides whether to go on.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "train/progress.h"
#include "train/rows/micro.h"
#include "train/run.h"

// The gradient of a row from one micro-batch, or from several that the tree has joined.
struct sum {
    // The gradient of each group of weights.
    union {
        // The gradient of a group of one float, kept here so that threads share no cache
        // line.
        float one;
        float *at; // the gradient of a larger group, in the memory of the first gradient
    } of[ACCESSOR_MAX_GROUPS];
    float occurrences, squares; // squares: the sum of u squared
    uint32_t micro;             // the first micro-batch in the sum
    // Index in synchronous.sums of an earlier sum that is not joined with this
    // one yet; NO_SUM: none.
    uint32_t earlier;
};

#define NO_SUM UINT32_MAX

struct entry {
    uint32_t id;
    // Number of the batch that uses the entry; if it is not the current
    // one, the entry is free.
    uint32_t stamp;
    float *row;
    struct sum sum; // the sum to which the last micro-batch belongs
};

// The memory of one thread for a batch.
struct synchronous {
    uint64_t *order; // the examples of the thread's slice
    float *err;      // d loss / d score of the slice's examples, for each task
    size_t n;
    // For each micro-batch, the end of its examples in the slice.
    size_t micro_end[SYNC_MICROS];
    size_t cap;                            // features that the arrays have room for
    float *gradients[ACCESSOR_MAX_GROUPS]; // gradients of the features in the slice
    size_t width[ACCESSOR_MAX_GROUPS]; // floats of a gradient; 0: the model does not have
                                       // the group
    struct entry *entries;             // hash table of the rows that the thread owns
    size_t n_entries;                  // a power of two
    uint32_t stamp;
    struct entry **filled;
    struct sum *sums; // sums of earlier micro-batches, not yet joined
    uint32_t n_sums, free_sum;
    struct accessor_scratch scratch;
    // Gradients of the layers for the micro-batches in the slice.
    struct dense_sums dense;
    // Rank 0 writes this field before the last barrier of a batch; all read it after that.
    bool go_on;
};

static int synchronous_open(struct run *r, struct err *e)
{
    size_t threads = (size_t)team_size(r->team);
    size_t slice = r->config->batch / threads + r->config->batch / SYNC_MICROS + 2;
    for (size_t i = 0; i < threads; i++) {
        struct synchronous *s = mem_zalloc(sizeof(*s));
        if (s == NULL)
            return err_nomem(e, "synchronous batches");
        r->local.workers[i].synchronous = s;
        s->order = mem_array(slice, sizeof(*s->order));
        s->err = mem_array(slice * r->model->options.tasks, sizeof(*s->err));
        if (s->order == NULL || s->err == NULL)
            return err_nomem(e, "synchronous batches");
        const struct model *m = &r->parameters.model;
        for (uint32_t g = 0; g < m->accessor.n_groups; g++)
            s->width[g] = m->accessor.groups[g].n;
        TRY(accessor_scratch_init(&s->scratch, &m->accessor, m->kernels, e));
    }
    return 0;
}

static void synchronous_close(struct run *r)
{
    for (int i = 0; r->local.workers != NULL && i < team_size(r->team); i++) {
        struct synchronous *s = r->local.workers[i].synchronous;
        if (s == NULL)
            continue;
        mem_free(s->order);
        mem_free(s->err);
        for (uint32_t g = 0; g < ACCESSOR_MAX_GROUPS; g++)
            mem_free(s->gradients[g]);
        mem_free(s->entries);
        mem_free(s->filled);
        mem_free(s->sums);
        accessor_scratch_fini(&s->scratch);
        dense_sums_close(&s->dense);
        mem_free(s);
        r->local.workers[i].synchronous = NULL;
    }
}

static int reserve_gradients(struct synchronous *s, size_t nnz)
{
    if (nnz <= s->cap)
        return 0;
    size_t cap = nnz + nnz / 2;
    bool ok = true;
    for (uint32_t g = 0; g < ACCESSOR_MAX_GROUPS; g++) {
        mem_free(s->gradients[g]);
        s->gradients[g] = mem_array(cap * s->width[g] + KERNEL_PADDING, sizeof(float));
        ok &= s->gradients[g] != NULL;
    }
    s->cap = ok ? cap : 0;
    return ok ? 0 : TUG_ENOMEM;
}

// Lists the examples at the batch's positions [from, to), without those held out.
static void pick_slice(struct worker *w, uint64_t batch, uint64_t from, uint64_t to)
{
    struct synchronous *s = w->synchronous;
    s->n = 0;
    for (uint32_t m = 0; m < SYNC_MICROS; m++) {
        struct micro part = micro_of(batch, w->run->config->batch, m);
        uint64_t first = part.first > from ? part.first : from,
                 end = part.end < to ? part.end : to;
        if (first < end)
            s->n += run_pick(w, first, end - first, s->order + s->n);
        s->micro_end[m] = s->n;
    }
}

// Returns the first micro-batch of a thread in a model with layers. In such a model
// threads share no micro-batch, because the gradients of a micro-batch are one product of
// matrices.
static uint32_t first_micro(const struct run *r, uint32_t rank)
{
    return rank * SYNC_MICROS / (uint32_t)team_size(r->team);
}

// Computes the gradients of n examples of the slice.
static int gradients_of(struct worker *w, const struct model_batch *slice, size_t first,
                        size_t n, float *dense)
{
    struct synchronous *s = w->synchronous;
    struct model_batch b = model_part(slice, first, n);
    struct model_training t = {
        .batch = w->run->config->batch,
        .loss = w->run->config->reader.loss,
        .stream = w->stream,
        .dense_gradient = dense,
    };
    float *to[ACCESSOR_MAX_GROUPS];
    for (uint32_t g = 0; g < ACCESSOR_MAX_GROUPS; g++)
        to[g] = s->gradients[g] + b.start[0] * s->width[g];
    int rc = model_gradients(&w->work, &b, &t, s->err + first * b.tasks, to);
    if (rc != 0)
        w->bad = s->order[first + t.bad];
    return rc;
}

// Phase 1: computes the gradients of the thread's slice.
static int gradients_of_slice(struct worker *w)
{
    struct run *r = w->run;
    const struct model *m = &r->parameters.model;
    struct synchronous *s = w->synchronous;
    TRY(view_take(&w->view, r->data, s->order, s->n, &r->parameters, NULL));
    TRY(view_draw(&w->view, m, r->at.epoch, s->order, s->n));
    TRY(reserve_gradients(s, w->view.batch.nnz));
    dense_read(m, r->local.blocks, w->dense.values);
    struct model_batch b = view_batch(&w->view);
    if (!model_has_layers(m)) // bias_gradient adds up s->err instead
        return gradients_of(w, &b, 0, s->n, w->dense.gradient);
    uint32_t rank = (uint32_t)(w - r->local.workers);
    dense_sums_begin(&s->dense, m, first_micro(r, rank), first_micro(r, rank + 1));
    for (uint32_t i = 0, from = 0; i < SYNC_MICROS; i++) {
        uint32_t end = (uint32_t)s->micro_end[i];
        if (end == from)
            continue;
        float *dense = dense_sums_micro(&s->dense, m->kernels, (uint8_t)i);
        TRY(dense != NULL ? gradients_of(w, &b, from, end - from, dense) : TUG_ENOMEM);
        from = end;
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
    mem_free(s->sums);
    s->entries = mem_zalloc(n * sizeof(*s->entries));
    s->filled = mem_array(n, sizeof(struct entry *));
    s->stamp = 0;
    s->sums = mem_array(n / 2, sizeof(*s->sums));
    bool ok = s->entries != NULL && s->filled != NULL && s->sums != NULL;
    s->n_entries = ok ? n : 0;
    return ok ? 0 : TUG_ENOMEM;
}

static struct entry *find_entry(struct synchronous *s, uint32_t id, uint32_t hash)
{
    size_t mask = s->n_entries - 1, at = hash & mask;
    while (s->entries[at].stamp == s->stamp && s->entries[at].id != id)
        at = (at + 1) & mask;
    return &s->entries[at];
}

// Returns the thread that owns the row.
static size_t owner(uint64_t hash, size_t threads)
{
    return (size_t)((hash >> 32) * threads >> 32);
}

enum { ENTRIES_AHEAD = 8 }; // entries are prefetched this many features ahead

static void prefetch_entry(const struct synchronous *s, uint32_t id)
{
    __builtin_prefetch(&s->entries[mix64(id) & (s->n_entries - 1)], 1);
}

// Adds a gradient of group g, if the model has this group.
static inline void synchronous_add(const struct synchronous *s, const struct kernels *k,
                                   uint32_t g, struct sum *to, const float *from)
{
    if (s->width[g] == 1)
        to->of[g].one += *from;
    else if (s->width[g] > 0)
        k->axpy(to->of[g].at, 1, from, s->width[g]);
}

// Joins the sums that the tree joins before micro-batch `next` (SYNC_MICROS: all).
static inline void synchronous_join(struct synchronous *s, const struct kernels *k,
                                    struct sum *last, uint32_t next)
{
    while (last->earlier != NO_SUM) {
        uint32_t number = last->earlier;
        struct sum *earlier = &s->sums[number];
        if (!tree_joins(earlier->micro, last->micro, next))
            return;
        for (uint32_t g = 0; g < ACCESSOR_MAX_GROUPS; g++) {
            if (s->width[g] == 1) {
                last->of[g].one += earlier->of[g].one;
                continue;
            }
            synchronous_add(s, k, g, earlier, last->of[g].at);
            last->of[g].at = earlier->of[g].at;
        }
        last->occurrences += earlier->occurrences;
        last->squares += earlier->squares;
        last->micro = earlier->micro;
        last->earlier = earlier->earlier;
        earlier->earlier = s->free_sum;
        s->free_sum = number;
    }
}

// Moves the sum of the earlier micro-batches to s->sums, so that a new sum can begin;
// returns its index there.
static uint32_t put_aside(struct synchronous *s, const struct sum *sum)
{
    uint32_t number = s->free_sum;
    if (number == NO_SUM)
        number = s->n_sums++;
    else
        s->free_sum = s->sums[number].earlier;
    s->sums[number] = *sum;
    return number;
}

// Adds the gradients of features [from, to) of a slice, all in one micro-batch, to the
// rows that this thread owns.
static size_t add_features(struct worker *w, const struct worker *of, size_t from,
                           size_t to, uint32_t micro, size_t filled)
{
    struct run *r = w->run;
    struct synchronous *s = w->synchronous;
    const struct synchronous *f = of->synchronous;
    const struct kernels *k = r->parameters.model.kernels;
    size_t threads = (size_t)team_size(r->team), rank = (size_t)(w - r->local.workers);
    for (size_t j = from; j < to; j++) {
        uint32_t id = of->view.batch.id[j];
        uint64_t hash = mix64(id);
        if (j + ENTRIES_AHEAD < to)
            prefetch_entry(s, of->view.batch.id[j + ENTRIES_AHEAD]);
        if (owner(hash, threads) != rank)
            continue;
        struct entry *e = find_entry(s, id, (uint32_t)hash);
        float u = of->view.u[j];
        if (e->stamp == s->stamp && e->sum.micro == micro) {
            e->sum.occurrences++;
            e->sum.squares += u * u;
            for (uint32_t g = 0; g < ACCESSOR_MAX_GROUPS; g++)
                synchronous_add(s, k, g, &e->sum, f->gradients[g] + j * s->width[g]);
            continue;
        }
        uint32_t earlier = NO_SUM;
        if (e->stamp == s->stamp) {
            synchronous_join(s, k, &e->sum, micro);
            earlier = put_aside(s, &e->sum);
        } else {
            e->id = id;
            e->stamp = s->stamp;
            e->row = of->view.rows[j];
            s->filled[filled++] = e;
        }
        e->sum.occurrences = 1;
        e->sum.squares = u * u;
        e->sum.micro = micro;
        e->sum.earlier = earlier;
        for (uint32_t g = 0; g < ACCESSOR_MAX_GROUPS; g++) {
            if (s->width[g] == 1)
                e->sum.of[g].one = f->gradients[g][j];
            else
                e->sum.of[g].at = f->gradients[g] + j * s->width[g];
        }
    }
    return filled;
}

// Adds the micro-batches of all slices, in order.
static size_t add_batch(struct worker *w)
{
    const struct run *r = w->run;
    size_t filled = 0;
    for (int t = 0; t < team_size(r->team); t++) {
        const struct worker *of = &r->local.workers[t];
        const uint32_t *start = of->view.batch.start;
        size_t from = 0;
        for (uint32_t m = 0; m < SYNC_MICROS; m++) {
            size_t to = start[of->synchronous->micro_end[m]];
            filled = add_features(w, of, from, to, m, filled);
            from = to;
        }
    }
    return filled;
}

// Adds the sums of all slices as a tree, into the memory of the first thread.
static void add_layers(const struct run *r, float *ret)
{
    float *values[SYNC_MICROS];
    uint8_t first[SYNC_MICROS];
    size_t n = 0, width = model_dense(&r->parameters.model);
    for (int t = 0; t < team_size(r->team); t++) {
        const struct dense_sums *s = &r->local.workers[t].synchronous->dense;
        for (size_t i = 0; i < s->n; i++) {
            values[n] = s->values[i];
            first[n++] = s->first[i];
        }
    }
    tree_sum(r->parameters.model.kernels, first, values, n, width);
    memcpy(ret, values[0], width * sizeof(*ret));
}

// Adds the micro-batches' sums of errors as a tree.
static float bias_gradient(const struct run *r)
{
    float sum[SYNC_MICROS], *values[SYNC_MICROS];
    uint8_t first[SYNC_MICROS];
    size_t n = 0;
    for (uint32_t m = 0; m < SYNC_MICROS; m++) {
        bool begun = false;
        for (int t = 0; t < team_size(r->team); t++) {
            const struct synchronous *s = r->local.workers[t].synchronous;
            for (size_t i = m > 0 ? s->micro_end[m - 1] : 0; i < s->micro_end[m]; i++) {
                sum[n] = begun ? sum[n] + s->err[i] : s->err[i];
                begun = true;
            }
        }
        if (begun) {
            values[n] = &sum[n];
            first[n++] = (uint8_t)m;
        }
    }
    tree_sum(r->parameters.model.kernels, first, values, n, 1);
    return sum[0];
}

// The update rule is applied to this many rows at a time.
enum { STRIP = 64 };

static void apply_strip(struct worker *w, struct entry *const *entries, size_t n,
                        float scale)
{
    struct synchronous *s = w->synchronous;
    float *rows[STRIP], occurrences[STRIP], squares[STRIP];
    const float *gradients[ACCESSOR_MAX_GROUPS][STRIP];
    for (size_t i = 0; i < n; i++) {
        struct sum *sum = &entries[i]->sum;
        synchronous_join(s, w->run->parameters.model.kernels, sum, SYNC_MICROS);
        rows[i] = entries[i]->row;
        for (uint32_t g = 0; g < ACCESSOR_MAX_GROUPS; g++)
            gradients[g][i] = s->width[g] == 1 ? &sum->of[g].one : sum->of[g].at;
        occurrences[i] = sum->occurrences;
        squares[i] = sum->squares;
    }
    struct accessor_update update = {
        .rules = w->rules,
        .pass = (float)(w->run->at.epoch + 1),
        .scale = scale,
        .n = n,
        .rows = rows,
        .occurrences = occurrences,
        .squares = squares,
    };
    for (uint32_t g = 0; g < ACCESSOR_MAX_GROUPS; g++)
        update.gradients[g] = gradients[g];
    accessor_apply(&s->scratch, &update);
}

// Phase 2: adds up and applies the gradients of the rows that this thread owns.
static int apply_owned_rows(struct worker *w, float scale)
{
    struct run *r = w->run;
    struct synchronous *s = w->synchronous;
    size_t nnz = 0;
    for (int t = 0; t < team_size(r->team); t++)
        nnz += r->local.workers[t].view.batch.nnz;
    TRY(reserve_entries(s, nnz));
    // The stamp has overflowed: frees all entries, because an old stamp could look new.
    if (++s->stamp == 0) {
        memset(s->entries, 0, s->n_entries * sizeof(*s->entries));
        s->stamp = 1;
    }
    s->n_sums = 0;
    s->free_sum = NO_SUM;
    size_t filled = add_batch(w);
    for (size_t i = 0; i < filled; i += STRIP)
        apply_strip(w, s->filled + i, filled - i < STRIP ? filled - i : STRIP, scale);
    return 0;
}

static bool everyone_is_well(const struct run *r)
{
    bool well = true;
    for (int t = 0; t < team_size(r->team); t++)
        well &= r->local.workers[t].rc == 0;
    return well;
}

static size_t examples_of_batch(const struct run *r)
{
    size_t examples = 0;
    for (int t = 0; t < team_size(r->team); t++)
        examples += r->local.workers[t].synchronous->n;
    return examples;
}

// Updates the layers by the mean of their gradients, even if rows of features use sums.
static void step_dense(struct worker *w, float scale, size_t examples)
{
    const struct run *r = w->run;
    const struct model *m = &r->parameters.model;
    if (model_has_layers(m)) {
        add_layers(r, w->dense.gradient);
        scale = 1 / (float)examples;
    } else {
        w->dense.gradient[0] = bias_gradient(r);
    }
    dense_step(&w->dense, m, w->dense_rule, r->local.blocks, scale);
}

// Returns the start of a thread's slice.
static uint64_t slice_begin(const struct run *r, uint32_t rank)
{
    uint64_t size = r->config->batch, threads = (uint64_t)team_size(r->team);
    return model_has_layers(&r->parameters.model)
               ? micro_of(0, size, first_micro(r, rank)).first
               : rank * size / threads;
}

// Trains on one batch; all members of the team call it together.
static void batch(struct worker *w, int rank)
{
    struct run *r = w->run;
    uint64_t number = atomic_load_explicit(&r->local.next_batch, memory_order_relaxed);
    uint64_t size = r->config->batch;
    uint64_t first = slice_begin(r, (uint32_t)rank),
             end = slice_begin(r, (uint32_t)rank + 1);
    pick_slice(w, number, number * size + first, number * size + end);
    w->rc = gradients_of_slice(w);
    team_barrier(r->team);
    // No thread writes rc in this phase, so all threads get the same answer.
    if (everyone_is_well(r)) {
        size_t examples = examples_of_batch(r);
        float scale = r->config->reduce_mean && examples > 0 ? 1 / (float)examples : 1;
        int rc = apply_owned_rows(w, scale);
        // If all examples are held out, no step is made, because it would
        // still decay the layers.
        if (rank == 0 && examples > 0)
            step_dense(w, scale, examples);
        team_barrier(r->team);
        w->rc = rc;
    } else {
        team_barrier(r->team);
    }
}

static void synchronous_batches(void *run, int rank)
{
    struct run *r = run;
    struct worker *w = &r->local.workers[rank];
    const struct synchronous *leader = r->local.workers[0].synchronous;
    while (atomic_load_explicit(&r->local.next_batch, memory_order_relaxed) <
           r->local.last_batch) {
        batch(w, rank);
        team_barrier(r->team);
        if (rank == 0) {
            atomic_fetch_add_explicit(&r->local.next_batch, 1, memory_order_relaxed);
            r->local.workers[0].synchronous->go_on = everyone_is_well(r) &&
                                                     !progress_wants_a_stop(
                                                         r->progress,
                                                         r->config->interrupted);
        }
        team_barrier(r->team);
        if (!leader->go_on)
            break;
    }
}

const struct updater updater_synchronous = {
    .open = synchronous_open,
    .close = synchronous_close,
    .batches = synchronous_batches,
};
