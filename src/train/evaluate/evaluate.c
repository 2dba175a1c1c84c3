// Evaluation, window by window. All scores are kept (8 bytes an example), so that the AUC
// is exact; sums are exact, too. So neither the threads nor the windows change a bit of
// the metrics.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/evaluate.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "base/relaxed.h"
#include "model/loss.h"
#include "os/log.h"
#include "train/evaluate/group_table.h"
#include "train/evaluate/unseen.h"
#include "train/facts.h"
#include "train/fields.h"
#include "train/merge.h"
#include "train/rows/dense.h"
#include "train/rows/view.h"

enum {
    WINDOW_CHUNKS = 64,
    STRETCH = 4096, // examples that a thread takes at a time
    PIECE = 64,     // examples unpacked at a time
};

struct evaluation {
    const struct evaluation_options *o;
    struct view *views; // a view of the data for each thread
    struct swap_scratch *swapped;
    struct model_work *works;
    float *dense; // the dense parameters, shared by all threads
    uint32_t tasks;
    struct evaluated *all;       // the results of each task; the scores of each window
                                 // follow those of earlier windows
    struct groups slices;        // groups for the table of --by
    struct buf keep;             // the columns of --group and --by
    uint64_t position;           // the position of the window's first example in the text
    struct evaluated_sums *sums; // sums of each thread and task
    struct unseen *unseen;       // unknown values seen by each thread
    struct numbering numbering;
    uint32_t first_field, fields_end; // the fields of the windows so far; 0, 0: none
    // The window that is being scored:
    const struct dataset *data;
    struct dataset *loaded; // the window if it was loaded here; NULL if the caller gave
                            // the data
    float *predictions;     // for `each`: the predictions of the window, for all tasks
    atomic_size_t next_stretch;
    atomic_int rc;
};

// Adds example i, which has this score for a task, to the sums and returns its score.
// Adds nothing if the example has no label for the task, or a weight of 0.
static struct scored score_of(const struct evaluation *ev, const struct batch *b,
                              size_t i, uint32_t task, float score,
                              struct evaluated_sums *sums)
{
    float label = b->label[i * b->labels + task],
          weight = b->weight != NULL ? b->weight[i] : 1;
    if (b->labels > 1 && isnan(label))
        return (struct scored){.score = score};
    if (weight == 0) {
        sums->without_weight++;
        return (struct scored){.score = score};
    }
    double prediction = loss_prediction(ev->o->loss, score);
    double off = prediction - label;
    exact_add(&sums->weight, weight);
    exact_add(&sums->loss, weight * loss_value(ev->o->loss, prediction, label));
    exact_add(&sums->predicted, weight * prediction);
    exact_add(&sums->observed, weight * label);
    exact_add(&sums->squares, weight * label * label);
    exact_add(&sums->off, weight * fabs(off));
    exact_add(&sums->off_squares, weight * off * off);
    sums->examples++;
    return (struct scored){.score = score, .weight = label > 0 ? weight : -weight};
}

// Treats features whose row was never updated as unseen. In the data of a training run
// every feature has a row, even one on which the run has not trained.
static void hide_unseen(struct view *v, const struct parameters *p)
{
    for (size_t j = 0; j < v->batch.nnz; j++)
        if (relaxed_load(v->rows[j] + p->model.accessor.count) == 0)
            v->rows[j] = p->zeros;
}

static void count_known(const struct view *v, const struct parameters *p,
                        struct unseen *u, struct evaluated_sums *sums)
{
    sums->features += v->batch.nnz;
    for (size_t j = 0; j < v->batch.nnz; j++) {
        bool known = v->rows[j] != p->zeros;
        sums->known += known;
        if (u->n > 0) {
            u->slot[v->batch.slot[j]].features++;
            u->slot[v->batch.slot[j]].known += known;
        }
    }
}

// Returns the place for the score of example i of the window.
static struct scored *evaluate_place_of(const struct evaluation *ev, uint32_t task,
                                        uint64_t i)
{
    return ev->all[task].scored + ev->all[task].n + i;
}

// Lists in order[] those of the examples [first, first + n) that are to be scored. The
// other examples get scores without a weight, which do not count.
static size_t pick(struct evaluation *ev, uint64_t first, size_t n, uint64_t order[PIECE])
{
    const struct evaluation_options *o = ev->o;
    size_t picked = 0;
    for (uint64_t i = first; i < first + n; i++) {
        for (uint32_t k = 0; k < ev->tasks; k++)
            *evaluate_place_of(ev, k, i) = (struct scored){0};
        groups_skip(&ev->all->users, ev->all->n + i);
        groups_skip(&ev->slices, ev->all->n + i);
        memset(ev->predictions + i * ev->tasks, 0, ev->tasks * sizeof(float));
        if (o->held_out.share == 0 ||
            held_out_has(o->held_out, o->seed, ev->position + i))
            order[picked++] = i;
    }
    return picked;
}

// Stores the score of example i of the window with its groups, if groups are asked for.
static void grade(const struct evaluation *ev, uint64_t i, struct scored s)
{
    if (ev->all->users.columns == 0 && ev->slices.columns == 0)
        return;
    const char *kept = dataset_kept(ev->data, i);
    groups_put(&ev->all->users, ev->all->n + i, kept, s);
    groups_put(&ev->slices, ev->all->n + i, kept, s);
}

// Stores the score of example i of the batch, which is example `at` of the window. An
// example that stands for a skipped line has no labels.
static void take_score(struct evaluation *ev, const struct batch *b, size_t i,
                       uint32_t task, float score, uint64_t at,
                       struct evaluated_sums *sums)
{
    const struct evaluation_options *o = ev->o;
    struct scored s = score_of(ev, b, i, task, ev->dense[task] + score, sums + task);
    float *to = &ev->predictions[at * ev->tasks + task];
    *evaluate_place_of(ev, task, at) = s;
    if (task == 0)
        grade(ev, at, s);
    *to = o->raw ? s.score : (float)loss_prediction(o->loss, s.score);
    if (o->hold_places && isnan(b->label[i * b->labels]))
        *to = (float)NAN;
}

static int score_piece(struct evaluation *ev, int rank, uint64_t first, size_t n,
                       struct evaluated_sums *sums)
{
    const struct evaluation_options *o = ev->o;
    struct view *v = &ev->views[rank];
    uint64_t order[PIECE];
    float scores[PIECE * MODEL_MAX_TASKS];
    n = pick(ev, first, n, order);
    TRY(o->swap == NULL ? dataset_gather(ev->data, order, n, &v->batch)
                        : dataset_gather_swapped(ev->data, order, n, o->swap,
                                                 &ev->swapped[rank], &v->batch));
    TRY(view_rows(v, o->parameters, NULL));
    if (o->hide_new)
        hide_unseen(v, o->parameters);
    count_known(v, o->parameters, &ev->unseen[rank], sums);
    struct model_batch b = view_batch(v);
    TRY(model_scores(&ev->works[rank], &b, scores));
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < ev->tasks; k++)
            take_score(ev, &v->batch, i, k, scores[i * ev->tasks + k], order[i], sums);
    return 0;
}

static void score_window(void *arg, int rank)
{
    struct evaluation *ev = arg;
    uint64_t size = dataset_size(ev->data);
    for (;;) {
        uint64_t first = (uint64_t)atomic_fetch_add(&ev->next_stretch, 1) * STRETCH;
        uint64_t end = first + STRETCH;
        if (first >= size || atomic_load(&ev->rc) != 0)
            return;
        if (ev->o->interrupted != NULL && atomic_load(ev->o->interrupted))
            atomic_store(&ev->rc, TUG_EINTERRUPTED);
        train_facts_alive(ev->o->facts);
        end = end < size ? end : size;
        for (; first < end; first += PIECE) {
            size_t n = first + PIECE < end ? PIECE : (size_t)(end - first);
            int rc = score_piece(ev, rank, first, n, &ev->sums[(size_t)rank * ev->tasks]);
            if (rc != 0)
                atomic_store(&ev->rc, rc);
        }
    }
}

static int evaluate_make_room(struct evaluation *ev, size_t n, struct err *e)
{
    for (uint32_t k = 0; k < ev->tasks; k++)
        TRY(evaluated_reserve(&ev->all[k], n, e));
    TRY(groups_reserve(&ev->slices, ev->all->cap, e));
    mem_free(ev->predictions);
    ev->predictions = mem_array((n + 1) * ev->tasks, sizeof(float));
    return ev->predictions != NULL ? 0 : err_nomem(e, "the scores of an evaluation");
}

// Adds the groups of the window's n examples to the table of --by.
static int meet_slices(struct evaluation *ev, size_t n, struct err *e)
{
    for (size_t i = 0; i < n && ev->slices.columns > 0; i++) {
        const struct graded *g = &ev->slices.graded[ev->all->n + i];
        if (g->scored.weight != 0)
            TRY(group_table_meet(ev->o->table, &ev->slices, g->group,
                                 dataset_kept(ev->data, i), e));
    }
    return 0;
}

static bool counts_slots(const struct evaluation_options *o)
{
    return o->what != NULL || o->slots != NULL;
}

static int evaluate_window(struct evaluation *ev, struct err *e)
{
    size_t n = (size_t)dataset_size(ev->data);
    TRY(evaluate_make_room(ev, n, e));
    for (int i = 0; counts_slots(ev->o) && i < team_size(ev->o->team); i++)
        if (unseen_reserve(&ev->unseen[i], dataset_slots(ev->data) + 1) != 0)
            return err_nomem(e, "an evaluation");
    atomic_store(&ev->next_stretch, 0);
    team_run(ev->o->team, score_window, ev);
    if (atomic_load(&ev->rc) == TUG_EINTERRUPTED)
        return err_set(e, TUG_EINTERRUPTED, "interrupted while examples were scored");
    if (atomic_load(&ev->rc) != 0)
        return err_nomem(e, "scoring examples");
    TRY(meet_slices(ev, n, e));
    for (uint32_t k = 0; k < ev->tasks; k++) {
        ev->all[k].n += ev->o->predict ? 0 : n;
        ev->all[k].places += n;
    }
    ev->position += n;
    return ev->o->each != NULL ? ev->o->each(ev->o->ctx, ev->data, ev->predictions, n, e)
                               : 0;
}

static int evaluate_resolve(void *ctx, const uint64_t *keys, size_t n, uint32_t *ret_ids)
{
    const struct evaluation_options *o = ctx;
    if (o->numbering != NULL)
        numbering_add(o->numbering, keys, n);
    return o->resolve != NULL ? o->resolve(o->resolve_ctx, keys, n, ret_ids)
                              // The cast removes const, but the parameters are only read.
                              : parameters_resolve_seen((void *)(uintptr_t)o->parameters,
                                                        keys, n, ret_ids);
}

int evaluation_load(const struct evaluation_options *o, size_t max_chunks,
                    struct dataset **ret, struct err *e)
{
    struct dataset_options d = {
        .source = o->source,
        .reader = o->reader,
        .team = o->team,
        .resolve = evaluate_resolve,
        .resolve_ctx = (void *)(uintptr_t)o,
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
        rc = fields_check(*ret, o->source, NULL, &o->parameters->model.options,
                          o->numbering, e);
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
    if (o.numbered != NULL)
        o.numbering = &ev->numbering;
    if (o.group != NULL || o.by != NULL) { // "" names the column without a name
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

static void note_fields(struct evaluation *ev)
{
    uint32_t first = dataset_first_slot(ev->data), end = dataset_slots(ev->data);
    if (end > 0 && (ev->fields_end == 0 || first < ev->first_field))
        ev->first_field = first;
    ev->fields_end = end > ev->fields_end ? end : ev->fields_end;
}

// Refuses --by with a field that no example has, because its table would have one line
// only, and warns if --group or --keep name such a field.
static int check_fields(const struct evaluation *ev, struct err *e)
{
    const struct evaluation_options *o = ev->o;
    const char *const others[][2] = {{o->group, "--group"}, {o->keep, o->keep_option}};
    struct err odd;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (reader_check_fields(o->reader, others[i][0], others[i][1], ev->first_field,
                                ev->fields_end, &odd) != 0)
            log_warn("%s", odd.text);
    return reader_check_fields(o->reader, o->by, "--by", ev->first_field, ev->fields_end,
                               e);
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
        if (ev->unseen != NULL)
            unseen_free(&ev->unseen[i]);
    }
    mem_free(ev->views);
    mem_free(ev->swapped);
    mem_free(ev->works);
    mem_free(ev->unseen);
    mem_free(ev->dense);
    groups_free(&ev->slices);
    buf_free(&ev->keep);
    mem_free(ev->predictions);
    mem_free(ev->sums);
    dataset_close(ev->loaded);
}

// Lists the columns to keep: first those of --group, then those of --by.
static int init_groups(struct evaluation *ev, struct err *e)
{
    const struct evaluation_options *o = ev->o;
    ev->keep = BUF_INIT(1 << 20);
    ev->all->users = groups_of(o->group, 0);
    ev->slices = groups_of(o->by, ev->all->users.columns);
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
    ev->unseen = mem_zalloc(threads * sizeof(*ev->unseen));
    ev->sums = mem_zalloc(threads * ev->tasks * sizeof(*ev->sums));
    if (ev->unseen == NULL || ev->views == NULL || ev->swapped == NULL ||
        ev->works == NULL || ev->sums == NULL)
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

void evaluation_compare(const struct evaluation_options *o, struct numbering *numbering)
{
    char text[NUMBERING_TEXT];
    if (o->numbered == NULL || !numbering_has(reader_schema(o->reader)))
        return;
    numbering->columns = numbering_columns(source_data_files(o->source));
    if (!numbering_differs(&o->parameters->known, numbering, o->numbered, text))
        return;
    if (o->warn != NULL)
        o->warn(o->warn_ctx, text);
    else
        log_warn("%s", text);
}

static int evaluate_all(struct evaluation *ev, struct err *e)
{
    const struct evaluation_options *o = ev->o;
    TRY(evaluation_init(ev, e));
    for (bool more = true; more;) {
        TRY(load_window(ev, e));
        note_fields(ev);
        TRY(evaluate_window(ev, e));
        more = o->data == NULL && !dataset_at_end(ev->data);
    }
    TRY(check_fields(ev, e));
    for (int i = 1; counts_slots(o) && i < team_size(o->team); i++)
        unseen_add(&ev->unseen[0], &ev->unseen[i]);
    if (o->what != NULL)
        unseen_warn(&ev->unseen[0], o, o->what);
    if (o->slots != NULL) {
        *o->slots = ev->unseen[0];
        ev->unseen[0] = (struct unseen){0};
    }
    if (o->data == NULL)
        evaluation_compare(o, &ev->numbering);
    size_t sums = (size_t)team_size(o->team) * ev->tasks;
    for (size_t i = 0; i < sums; i++)
        evaluated_add_sums(&ev->all[i % ev->tasks].sums, &ev->sums[i]);
    return ev->slices.columns == 0
               ? 0
               : group_table_make(o->table, &ev->slices, ev->all->n, o->top, e);
}

int evaluate_part(const struct evaluation_options *o,
                  struct evaluated ret[MODEL_MAX_TASKS], struct err *e)
{
    struct evaluation ev = {
        .o = o, .all = ret, .tasks = o->parameters->model.options.tasks};
    memset(ret, 0, ev.tasks * sizeof(*ret));
    unsigned labels = reader_begin_labels(o->reader, 0);
    int rc = evaluate_all(&ev, e);
    (void)reader_begin_labels(o->reader, labels);
    evaluation_fini(&ev);
    for (uint32_t k = 0; k < ev.tasks && rc != 0; k++)
        evaluated_free(&ret[k]);
    return rc;
}

static int metrics_of(const struct evaluation_options *o, struct evaluated *all,
                      struct metrics *ret, struct err *e)
{
    TRY(evaluated_metrics(all, o->loss, o->loss == LOSS_LOGISTIC && !o->predict, ret, e));
    // The only metric that predictions need is the share of known features.
    if (o->predict)
        *ret = (struct metrics){
            .examples = ret->examples, .features = ret->features, .known = ret->known};
    return 0;
}

int evaluate(const struct evaluation_options *o, struct metrics *ret, struct err *e)
{
    struct evaluated all[MODEL_MAX_TASKS];
    struct metrics m[MODEL_MAX_TASKS];
    uint32_t tasks = o->parameters->model.options.tasks;
    TRY(evaluate_part(o, all, e));
    int rc = all[0].places > 0
                 ? 0
                 : err_set(e, TUG_EDATA, "%s: there is no example in the data",
                           o->source != NULL ? source_file_name(o->source, 0)
                                             : "evaluation");
    for (uint32_t k = 0; k < tasks; k++) {
        if (rc == 0)
            rc = metrics_of(o, &all[k], &m[k], e);
        if (rc == 0 && k == 0 && o->calibration != NULL)
            calibration_make(o->calibration, all[0].scored, all[0].n);
        if (rc == 0 && k == 0 && o->curves != NULL)
            curves_make(o->curves, all[0].scored, all[0].n);
        evaluated_free(&all[k]);
    }
    if (rc == 0)
        memcpy(ret, m, tasks * sizeof(*m));
    return rc;
}
