// Evaluation, window by window; the scores are kept (8 bytes an example) so
// that the AUC is exact.
//
// Losses and errors are added by stretches of the text, which begin at its multiples of
// STRETCH: neither threads nor windows change a sum's order, and so not its bits.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "base/relaxed.h"
#include "model/loss.h"
#include "train/dense.h"
#include "train/fields.h"
#include "train/group_table.h"
#include "train/merge.h"
#include "train/view.h"

enum {
    WINDOW_CHUNKS = 64,
    STRETCH = 4096, // examples whose sums are made by one thread, in order
    PIECE = 64,     // examples unpacked at a time
};

struct sums {
    double weight, loss, predicted, observed, squares, off, off_squares;
    uint64_t examples, features, known;
};

struct evaluation {
    const struct evaluation_options *o;
    struct view *views; // one a thread
    struct swap_scratch *swapped;
    struct model_work *works;
    float *dense;          // parameters, of all threads
    struct scored *scored; // of all windows
    size_t n, cap;
    struct groups users;  // of all windows, beside `scored`
    struct groups slices; // of the table by group, likewise
    struct buf keep;      // the columns of both
    uint64_t position;    // of the window's first example in the text
    struct sums total;    // of whole stretches
    struct sums begun;    // of the one that goes on in the next window
    // The window being scored.
    const struct dataset *data;
    struct dataset *loaded; // the same, unless it was given
    struct scored *window;  // its scores, where they belong in `scored`
    float *predictions;     // for `each`
    struct sums *stretches; // its sums, a stretch each
    atomic_size_t next_stretch;
    atomic_int rc;
};

bool evaluate_held_out(double share, uint64_t seed, uint64_t position)
{
    return share > 0 && random_f64(seed, 0x76616c6964, position) < share;
}

static void add(struct sums *to, const struct sums *from)
{
    to->weight += from->weight;
    to->loss += from->loss;
    to->predicted += from->predicted;
    to->observed += from->observed;
    to->squares += from->squares;
    to->off += from->off;
    to->off_squares += from->off_squares;
    to->examples += from->examples;
    to->features += from->features;
    to->known += from->known;
}

// Adds up what example i with this score says.
static struct scored score_of(const struct evaluation *ev, const struct batch *b,
                              size_t i, float score, struct sums *sums)
{
    float label = b->label[i], weight = b->weight != NULL ? b->weight[i] : 1;
    double prediction = loss_prediction(ev->o->loss, score);
    sums->weight += weight;
    sums->loss += weight * loss_value(ev->o->loss, prediction, label);
    sums->predicted += weight * prediction;
    sums->observed += weight * label;
    sums->squares += weight * label * label;
    double off = prediction - label;
    sums->off += weight * fabs(off);
    sums->off_squares += weight * off * off;
    sums->examples++;
    return (struct scored){.score = score, .weight = label > 0 ? weight : -weight};
}

// The data of a training run has a row for every feature; those that were never updated
// count as unseen here.
static void hide_unseen(struct view *v, const struct parameters *p)
{
    for (size_t j = 0; j < v->batch.nnz; j++)
        if (relaxed_load(v->rows[j] + p->model.accessor.count) == 0)
            v->rows[j] = p->zeros;
}

static void count_known(const struct view *v, const struct parameters *p,
                        struct sums *sums)
{
    sums->features += v->batch.nnz;
    for (size_t j = 0; j < v->batch.nnz; j++)
        sums->known += v->rows[j] != p->zeros;
}

// Those of [first, first + n) that are scored; the others get scores without weight.
static size_t pick(struct evaluation *ev, uint64_t first, size_t n, uint64_t order[PIECE])
{
    const struct evaluation_options *o = ev->o;
    size_t picked = 0;
    for (uint64_t i = first; i < first + n; i++) {
        ev->window[i] = (struct scored){0};
        groups_skip(&ev->users, ev->n + i);
        groups_skip(&ev->slices, ev->n + i);
        ev->predictions[i] = 0;
        if (o->held_out == 0 || evaluate_held_out(o->held_out, o->seed, ev->position + i))
            order[picked++] = i;
    }
    return picked;
}

// Example i of the window belongs to groups.
static void grade(const struct evaluation *ev, uint64_t i, struct scored s)
{
    if (ev->users.columns == 0 && ev->slices.columns == 0)
        return;
    const char *kept = dataset_kept(ev->data, i);
    groups_put(&ev->users, ev->n + i, kept, s);
    groups_put(&ev->slices, ev->n + i, kept, s);
}

static int score_piece(struct evaluation *ev, int rank, uint64_t first, size_t n,
                       struct sums *sums)
{
    const struct evaluation_options *o = ev->o;
    struct view *v = &ev->views[rank];
    uint64_t order[PIECE];
    float scores[PIECE];
    n = pick(ev, first, n, order);
    TRY(o->swap == NULL ? dataset_gather(ev->data, order, n, &v->batch)
                        : dataset_gather_swapped(ev->data, order, n, o->swap,
                                                 &ev->swapped[rank], &v->batch));
    TRY(view_rows(v, o->parameters, NULL));
    if (o->hide_new)
        hide_unseen(v, o->parameters);
    count_known(v, o->parameters, sums);
    struct model_batch b = view_batch(v);
    TRY(model_scores(&ev->works[rank], &b, scores));
    for (size_t i = 0; i < n; i++) {
        struct scored s = score_of(ev, &v->batch, i, ev->dense[0] + scores[i], sums);
        ev->window[order[i]] = s;
        grade(ev, order[i], s);
        bool skipped = o->hold_places && isnan(v->batch.label[i]);
        ev->predictions[order[i]] = skipped  ? (float)NAN
                                    : o->raw ? s.score
                                             : (float)loss_prediction(o->loss, s.score);
    }
    return 0;
}

static void score_window(void *arg, int rank)
{
    struct evaluation *ev = arg;
    uint64_t size = dataset_size(ev->data), before = ev->position % STRETCH;
    for (;;) {
        size_t s = atomic_fetch_add(&ev->next_stretch, 1);
        uint64_t first = s > 0 ? (uint64_t)s * STRETCH - before : 0;
        uint64_t end = (uint64_t)(s + 1) * STRETCH - before;
        if (first >= size || atomic_load(&ev->rc) != 0)
            return;
        if (ev->o->interrupted != NULL && atomic_load(ev->o->interrupted))
            atomic_store(&ev->rc, TUG_EINTERRUPTED);
        end = end < size ? end : size;
        for (; first < end; first += PIECE) {
            size_t n = first + PIECE < end ? PIECE : (size_t)(end - first);
            int rc = score_piece(ev, rank, first, n, &ev->stretches[s]);
            if (rc != 0)
                atomic_store(&ev->rc, rc);
        }
    }
}

// Stretches that end in a window of n examples.
static size_t whole_stretches(const struct evaluation *ev, size_t n)
{
    return (size_t)(ev->position % STRETCH + n) / STRETCH;
}

static int make_room(struct evaluation *ev, size_t n, struct err *e)
{
    if (ev->n + n > ev->cap) {
        size_t cap = ev->cap + ev->cap / 2 + n;
        struct scored *more = mem_realloc_array(ev->scored, cap, sizeof(*more));
        if (more == NULL)
            return err_nomem(e, "the scores of an evaluation");
        ev->scored = more;
        ev->cap = cap;
    }
    TRY(groups_reserve(&ev->users, ev->cap, e));
    TRY(groups_reserve(&ev->slices, ev->cap, e));
    mem_free(ev->predictions);
    mem_free(ev->stretches);
    ev->predictions = mem_array(n + 1, sizeof(float));
    ev->stretches = mem_zalloc((whole_stretches(ev, n) + 1) * sizeof(*ev->stretches));
    if (ev->predictions == NULL || ev->stretches == NULL)
        return err_nomem(e, "the scores of an evaluation");
    ev->stretches[0] = ev->begun;
    return 0;
}

// The values that the window's n examples have.
static int meet_slices(struct evaluation *ev, size_t n, struct err *e)
{
    for (size_t i = 0; i < n && ev->slices.columns > 0; i++) {
        const struct graded *g = &ev->slices.graded[ev->n + i];
        if (g->scored.weight != 0)
            TRY(group_table_meet(ev->o->table, &ev->slices, g->group,
                                 dataset_kept(ev->data, i), e));
    }
    return 0;
}

static int evaluate_window(struct evaluation *ev, struct err *e)
{
    size_t n = (size_t)dataset_size(ev->data);
    TRY(make_room(ev, n, e));
    ev->window = ev->scored + ev->n;
    atomic_store(&ev->next_stretch, 0);
    team_run(ev->o->team, score_window, ev);
    if (atomic_load(&ev->rc) == TUG_EINTERRUPTED)
        return err_set(e, TUG_EINTERRUPTED, "interrupted while examples were scored");
    if (atomic_load(&ev->rc) != 0)
        return err_nomem(e, "scoring examples");
    size_t whole = whole_stretches(ev, n);
    for (size_t s = 0; s < whole; s++)
        add(&ev->total, &ev->stretches[s]);
    ev->begun = ev->stretches[whole];
    TRY(meet_slices(ev, n, e));
    ev->n += ev->o->predict ? 0 : n;
    ev->position += n;
    return ev->o->each != NULL ? ev->o->each(ev->o->ctx, ev->data, ev->predictions, n, e)
                               : 0;
}

int evaluation_load(const struct evaluation_options *o, size_t max_chunks,
                    struct dataset **ret, struct err *e)
{
    struct dataset_options d = {
        .source = o->source,
        .reader = o->reader,
        .team = o->team,
        .resolve = o->resolve != NULL ? o->resolve : parameters_resolve_seen,
        .resolve_ctx = o->resolve != NULL ? o->resolve_ctx
                                          : (void *)(uintptr_t)o->parameters, // only read
        .max_chunks = max_chunks,
        .eager = o->eager,
        .max_bad_lines = o->max_bad_lines,
        .bad_lines = o->bad_lines,
        .hold_places = o->hold_places,
        .keep = o->keep,
        .keep_option = o->keep_option,
    };
    struct merge merge = {0};
    TRY(merge_begin(&merge, o->merge, &d, e));
    TRY(dataset_load(ret, &d, e));
    int rc = merge_end(&merge, &d, e);
    if (rc == 0)
        rc = fields_check(*ret, o->source, NULL, &o->parameters->model.options, e);
    if (rc != 0) {
        dataset_close(*ret);
        *ret = NULL;
    }
    return rc;
}

static int load_window(struct evaluation *ev, struct err *e)
{
    struct evaluation_options o = *ev->o;
    if (o.data != NULL) {
        ev->data = o.data;
        return 0;
    }
    if (ev->keep.len > 0) {
        o.keep = buf_str(&ev->keep);
        o.keep_option = o.by == NULL      ? "--group"
                        : o.group == NULL ? "--by"
                                          : "--group or --by";
    }
    dataset_close(ev->loaded);
    ev->loaded = NULL;
    TRY(evaluation_load(&o, o.eager ? 1 : WINDOW_CHUNKS, &ev->loaded, e));
    ev->data = ev->loaded;
    return 0;
}

static int rank_groups(struct evaluation *ev, struct metrics *ret, struct err *e)
{
    size_t n = ev->n;
    TRY(groups_sort(&ev->users, &n, e));
    struct gauc g = graded_gauc(ev->users.graded, n);
    ret->gauc = g.gauc;
    ret->groups = g.groups;
    ret->one_class = g.one_class;
    ret->without_group = g.without;
    return 0;
}

// What depends on the order of the scores, of those that count.
static int rank(struct evaluation *ev, struct metrics *ret, struct err *e)
{
    size_t n = 0;
    if (ev->users.columns > 0)
        TRY(rank_groups(ev, ret, e));
    groups_free(&ev->users);
    if (ev->slices.columns > 0)
        TRY(group_table_make(ev->o->table, &ev->slices, ev->n, ev->o->top, e));
    groups_free(&ev->slices);
    for (size_t i = 0; i < ev->n; i++)
        if (ev->scored[i].weight != 0)
            ev->scored[n++] = ev->scored[i];
    struct scored *scratch = mem_array(n + 1, sizeof(*scratch));
    if (scratch == NULL)
        return err_nomem(e, "sorting the scores of an evaluation");
    ret->auc = metrics_auc(ev->scored, scratch, n);
    ret->pr_auc = metrics_pr_auc(ev->scored, n);
    mem_free(scratch);
    return 0;
}

static void evaluation_fini(struct evaluation *ev)
{
    for (int i = 0; i < team_size(ev->o->team); i++) {
        if (ev->views != NULL)
            view_free(&ev->views[i]);
        if (ev->swapped != NULL)
            swap_scratch_free(&ev->swapped[i]);
        if (ev->works != NULL)
            model_work_close(&ev->works[i]);
    }
    mem_free(ev->views);
    mem_free(ev->swapped);
    mem_free(ev->works);
    mem_free(ev->dense);
    mem_free(ev->scored);
    groups_free(&ev->users);
    groups_free(&ev->slices);
    buf_free(&ev->keep);
    mem_free(ev->predictions);
    mem_free(ev->stretches);
    dataset_close(ev->loaded);
}

// Which columns stay with the data: those of the users, and then those of the table.
static int init_groups(struct evaluation *ev, struct err *e)
{
    const struct evaluation_options *o = ev->o;
    ev->keep = BUF_INIT(1 << 20);
    ev->users = groups_of(o->group, 0);
    ev->slices = groups_of(o->by, ev->users.columns);
    bool both = o->group != NULL && o->by != NULL;
    int rc = o->group == NULL && o->by == NULL
                 ? 0
                 : buf_printf(&ev->keep, "%s%s%s", o->group != NULL ? o->group : "",
                              both ? "," : "", o->by != NULL ? o->by : "");
    if (rc == 0 && buf_str(&ev->keep) == NULL)
        rc = TUG_ENOMEM;
    return rc == 0 ? 0 : err_set(e, rc, "the names of columns: %s", err_text(rc));
}

static int evaluation_init(struct evaluation *ev, struct err *e)
{
    TRY(init_groups(ev, e));
    size_t threads = (size_t)team_size(ev->o->team);
    ev->views = mem_zalloc(threads * sizeof(*ev->views));
    ev->swapped = mem_zalloc(threads * sizeof(*ev->swapped));
    ev->works = mem_zalloc(threads * sizeof(*ev->works));
    if (ev->views == NULL || ev->swapped == NULL || ev->works == NULL)
        return err_nomem(e, "an evaluation");
    const struct parameters *p = ev->o->parameters;
    ev->dense = dense_floats(&p->model);
    if (ev->dense == NULL)
        return err_nomem(e, "an evaluation");
    dense_read(&p->model, p->blocks, ev->dense);
    for (size_t i = 0; i < threads; i++) {
        TRY(model_work_open(&ev->works[i], &p->model, e));
        ev->works[i].dense = ev->dense;
    }
    return 0;
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : (double)NAN;
}

// All but what depends on the order of the scores.
static struct metrics metrics_of(const struct evaluation_options *o, const struct sums *s)
{
    struct metrics m = {.features = s->features, .known = s->known};
    if (o->predict)
        return m;
    m.examples = s->examples;
    m.auc = m.pr_auc = m.ne = m.gauc = (double)NAN;
    m.logloss = ratio(s->loss, s->weight);
    m.copc = ratio(s->predicted, s->observed);
    m.mae = ratio(s->off, s->weight);
    m.rmse = sqrt(ratio(s->off_squares, s->weight));
    m.base = metrics_base(o->loss, s->weight, s->observed, s->squares);
    if (o->loss == LOSS_LOGISTIC)
        m.ne = metrics_ne(m.logloss, m.base);
    return m;
}

int evaluate(const struct evaluation_options *o, struct metrics *ret, struct err *e)
{
    struct evaluation ev = {.o = o};
    int rc = evaluation_init(&ev, e);
    for (bool more = true; rc == 0 && more;) {
        rc = load_window(&ev, e);
        if (rc == 0)
            rc = evaluate_window(&ev, e);
        more = rc == 0 && o->data == NULL && !dataset_at_end(ev.data);
    }
    add(&ev.total, &ev.begun);
    struct metrics m = metrics_of(o, &ev.total);
    if (rc == 0 && ev.position == 0)
        rc = err_set(e, TUG_EDATA, "%s: there is no example in the data",
                     o->source != NULL ? source_file_name(o->source, 0) : "evaluation");
    if (rc == 0 && o->loss == LOSS_LOGISTIC && !o->predict)
        rc = rank(&ev, &m, e);
    evaluation_fini(&ev);
    if (rc == 0)
        *ret = m;
    return rc;
}
