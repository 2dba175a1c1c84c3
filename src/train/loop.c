// The loop of a run whose rows are in this process: it loads windows of data and lets the
// team train on stretches of batches, by an updater.
//
// In memory, there is one window, loaded once. When streaming, each pass reads the text
// again. Progress lines, saves and signals are handled between stretches.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "os/clock.h"
#include "os/log.h"
#include "train/checkpoint.h"
#include "train/course.h"
#include "train/evaluate/diverged.h"
#include "train/fields.h"
#include "train/look.h"
#include "train/merge.h"
#include "train/progress.h"
#include "train/report_data.h"
#include "train/rows/averaging.h"
#include "train/rows/run_rows.h"

// Returns whether example i of the current window is held out for validation.
static bool is_held_out(const struct run *r, uint64_t example)
{
    return held_out_has(r->config->valid_part, r->config->model.seed,
                        r->at.seen + example);
}

size_t run_pick(struct worker *w, uint64_t first, size_t n, uint64_t *ret_order)
{
    const struct run *r = w->run;
    size_t taken = order_take(&r->local.order, &w->hand, first, n, ret_order), picked = 0;
    if (r->config->valid_part.share == 0)
        return taken;
    for (size_t i = 0; i < taken; i++)
        if (!is_held_out(r, ret_order[i]))
            ret_order[picked++] = ret_order[i];
    return picked;
}

// ------------------------------------------------------- opening and closing the workers

static int loop_begin(struct run *r, struct err *e)
{
    size_t n = (size_t)team_size(r->team);
    r->local.seen = metrics_streams(r->model->options.tasks);
    r->local.workers = r->local.seen != NULL
                           ? mem_aligned(64, n * sizeof(*r->local.workers))
                           : NULL;
    if (r->local.workers == NULL)
        return err_nomem(e, "the workers");
    memset(r->local.workers, 0, n * sizeof(*r->local.workers));
    for (size_t i = 0; i < n; i++) {
        r->local.workers[i].run = r;
        r->local.workers[i].stream = metrics_streams(r->model->options.tasks);
        if (r->local.workers[i].stream == NULL)
            return err_nomem(e, "the workers");
        TRY(model_work_open(&r->local.workers[i].work, r->model, e));
        if (dense_open(&r->local.workers[i].dense, r->model) != 0)
            return err_nomem(e, "the workers");
        r->local.workers[i].work.dense = r->local.workers[i].dense.values;
    }
    r->local.updater = r->config->deterministic ? &updater_synchronous : &updater_hogwild;
    TRY(look_open(&r->look, r, e));
    return r->local.updater->open != NULL ? r->local.updater->open(r, e) : 0;
}

static void close_workers(struct run *r)
{
    look_close(r->look);
    if (r->local.updater != NULL && r->local.updater->close != NULL)
        r->local.updater->close(r);
    for (int i = 0; r->local.workers != NULL && i < team_size(r->team); i++) {
        view_free(&r->local.workers[i].view);
        model_work_close(&r->local.workers[i].work);
        dense_close(&r->local.workers[i].dense);
        mem_free(r->local.workers[i].stream);
    }
    mem_free(r->local.workers);
    mem_free(r->local.seen);
}

static void set_rates(struct run *r, double factor)
{
    const struct model *m = r->model;
    for (int i = 0; i < team_size(r->team); i++) {
        struct worker *w = &r->local.workers[i];
        accessor_rules(&m->accessor, (float)factor, w->rules);
        accessor_rules(&m->dense, (float)factor, w->dense_rule);
    }
}

static struct metrics_stream *streams(struct run *r)
{
    uint32_t tasks = r->model->options.tasks;
    metrics_streams_clear(r->local.seen, tasks);
    for (int i = 0; i < team_size(r->team); i++)
        for (uint32_t k = 0; k < tasks; k++)
            metrics_stream_merge(&r->local.seen[k], &r->local.workers[i].stream[k]);
    return r->local.seen;
}

// ----------------------------------------------------------- loading windows of the data

// Loads the window at `next`, which then becomes the run's position. Until the
// window is loaded, the position is the end of the previous window, so that an
// interrupted run resumes there.
static int load_window(struct run *r, struct position next, struct train_result *result,
                       struct err *e)
{
    uint64_t chunks = r->config->window_bytes / RUN_CHUNK_BYTES;
    struct dataset_options o = {
        .source = r->source,
        .reader = r->reader,
        .team = r->team,
        .max_chunks = !r->streaming ? 0
                      : chunks > 0  ? chunks
                                    : 1,
        .max_bad_lines = r->config->max_bad_lines,
        .bad_lines = &r->bad_lines,
        // The option that errors about kept columns name.
        .keep_option = "--group",
    };
    struct merge merge = {0};
    const char *group = !r->streaming && r->config->valid_part.share > 0
                            ? r->config->group
                            : NULL;
    o.keep = look_keep(r->look, group);
    if (group == NULL)
        o.keep_option = "--dump-fields";
    TRY(merge_begin(&merge, r->config->merge, &o, e));
    double start = clock_seconds();
    dataset_close(r->data);
    r->data = NULL;
    TRY(r->rows->local->begin_data(r, &o, e));
    next.place = source_place(r->source);
    next.bad_lines = r->bad_lines;
    int rc = dataset_load(&r->data, &o, e);
    if (rc == 0)
        rc = merge_end(&merge, &o, e);
    if (rc == 0 && r->rows->local->end_data != NULL)
        rc = r->rows->local->end_data(r, e);
    if (rc == 0) {
        r->at = next;
        if (dataset_bytes(r->data) > result->data_bytes)
            result->data_bytes = dataset_bytes(r->data);
        rc = r->local.updater->begin_data != NULL ? r->local.updater->begin_data(r, e)
                                                  : 0;
    }
    result->read_seconds += clock_seconds() - start;
    TRY(rc);
    TRY(fields_check(r->data, r->source, NULL, &r->parameters.model.options,
                     &r->parameters.known, e));
    numbering_join(&r->fields, numbering_range(&r->parameters.known));
    return 0;
}

// Warns if all labels are equal. Training on one class cannot separate classes.
static void warn_about_labels(struct run *r)
{
    uint64_t positives = dataset_positives(r->data), n = dataset_size(r->data);
    if (r->config->reader.loss == LOSS_LOGISTIC && n > 0 &&
        (positives == 0 || positives == n))
        log_warn("all %llu labels are %d: there is nothing to learn, and no AUC",
                 (unsigned long long)n, positives == 0 ? 0 : 1);
}

// ------------------------------------------------------ training on stretches of batches

static double passes_done(const struct run *r, uint64_t end)
{
    return schedule_passes(r->at.epoch, r->at.batch, end, r->config->batch,
                           r->streaming ? 0 : dataset_size(r->data));
}

// Returns the number of the batch before which the team must stop next.
static uint64_t next_stop(const struct run *r, uint64_t end)
{
    const uint64_t every[] = {r->config->save_batches, r->config->log_batches,
                              r->config->dot_batches,
                              r->look != NULL ? r->config->fetch_batches : 0};
    uint64_t stop = end;
    for (size_t i = 0; i < sizeof(every) / sizeof(*every); i++) {
        if (every[i] == 0)
            continue;
        uint64_t left = every[i] - r->at.batches % every[i];
        stop = r->at.batch + left < stop ? r->at.batch + left : stop;
    }
    uint64_t note = report_data_every(r->config->report_data, r->config->epochs, end);
    if (note > 0 && r->at.batch - r->at.batch % note + note < stop)
        stop = r->at.batch - r->at.batch % note + note;
    if (r->local.averaging != NULL) {
        uint64_t at = averaging_next(r->local.averaging, r->at.averaged);
        // in a run resumed from an older version's save, a sample may be overdue
        uint64_t left = at > r->at.batches ? at - r->at.batches : 1;
        stop = r->at.batch + left < stop ? r->at.batch + left : stop;
    }
    uint64_t step = schedule_step(end);
    if (r->config->schedule.kind != SCHEDULE_CONSTANT &&
        r->at.batch - r->at.batch % step + step < stop)
        stop = r->at.batch - r->at.batch % step + step;
    return stop;
}

static int stretch_result(struct run *r, struct err *e)
{
    const struct worker *bad = NULL;
    for (int i = 0; i < team_size(r->team); i++) {
        const struct worker *w = &r->local.workers[i];
        if (w->rc == TUG_ENOMEM)
            return err_nomem(e, "a batch");
        if (w->rc != 0 && (bad == NULL || w->bad < bad->bad))
            bad = w;
    }
    return bad == NULL ? 0 : diverged_score(r, bad->bad, e);
}

// Takes a sample for the mean of the parameters between stretches, at most one at each
// count of batches, so that a run that is interrupted and resumed here does not take a
// second one.
static int sample(struct run *r, uint64_t end, struct err *e)
{
    struct averaging *a = r->local.averaging;
    bool due = a != NULL && r->at.averaged < r->at.batches &&
               (r->at.batch == end || r->at.batches >= averaging_next(a, r->at.averaged));
    return due ? averaging_sample(a, r->at.batches, &r->at.averaged, e) : 0;
}

// Trains on the batches up to the next stop.
static int stretch(struct run *r, uint64_t end, struct train_result *result,
                   struct err *e)
{
    uint64_t first = r->at.batch;
    double start = clock_seconds();
    set_rates(r, schedule_factor(&r->config->schedule, passes_done(r, end)));
    atomic_store(&r->local.next_batch, first);
    r->local.last_batch = next_stop(r, end);
    atomic_store(&r->local.stop, false);
    team_run(r->team, r->local.updater->batches, r);
    uint64_t next = atomic_load(&r->local.next_batch);
    next = next < r->local.last_batch ? next : r->local.last_batch;
    r->at.batch = next;
    r->at.batches += next - first;
    int rc = stretch_result(r, e);
    if (rc == 0)
        rc = sample(r, end, e);
    result->train_seconds += clock_seconds() - start;
    return rc;
}

static double share_of_pass(const struct run *r, uint64_t end)
{
    if (!r->streaming)
        return end > 0 ? (double)r->at.batch / (double)end : 1;
    uint64_t text = source_text_bytes(r->source);
    double read = (double)(r->at.place.number * RUN_CHUNK_BYTES);
    return text > 0 && read < (double)text ? read / (double)text : -1;
}

// Returns the examples that this run has trained on in the pass. A label may be empty in
// some of them.
static uint64_t examples_so_far(const struct metrics_stream *seen, uint32_t labels)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < labels; k++)
        n = seen[k].examples > n ? seen[k].examples : n;
    return n;
}

static double learning_rate(const struct run *r, uint64_t end)
{
    return (double)r->config->model.linear.lr *
           schedule_factor(&r->config->schedule, passes_done(r, end));
}

static void print_line(struct run *r, uint64_t end)
{
    enum loss loss = r->config->reader.loss;
    struct metrics_stream *seen = streams(r);
    struct metrics m[LABELS_MAX], window[LABELS_MAX];
    progress_event(r->progress, examples_so_far(seen, r->model->options.tasks), seen,
                   learning_rate(r, end));
    for (uint32_t k = 0; k < r->model->options.tasks; k++)
        m[k] = metrics_stream_result(&seen[k], loss);
    bool since = progress_window(r->progress, r->at.epoch, seen, loss, window);
    run_rows_tell(r);
    progress_line(r->progress, r->at.epoch, share_of_pass(r, end), r->at.batches, m,
                  since ? window : NULL);
}

static int loop_look(struct run *r, struct err *e)
{
    if (r->look == NULL || !run_due(r->at.batches, r->config->fetch_batches))
        return 0;
    struct metrics m = metrics_stream_result(streams(r), r->config->reader.loss);
    return look_now(r->look, r, &m, e);
}

// Adds a point for the report between two stretches. A point is also added at the end of
// the pass, so none is added shortly before the end.
static void note_course(struct run *r, uint64_t end)
{
    struct report_data *p = r->config->report_data;
    uint64_t every = report_data_every(p, r->config->epochs, end);
    if (every > 0 && r->at.batch % every == 0 && end - r->at.batch >= every)
        report_data_note(p, r->at.epoch + 1, streams(r), r->config->reader.loss);
}

static int train_window(struct run *r, struct train_result *result, struct err *e)
{
    r->local.order = order_make(dataset_size(r->data), r->config->model.seed,
                                (uint64_t)r->at.epoch << 32 | (uint32_t)r->at.window);
    for (int i = 0; i < team_size(r->team); i++)
        r->local.workers[i].hand.known = false;
    uint64_t end = (order_positions(&r->local.order) + r->config->batch - 1) /
                   r->config->batch;
    (void)progress_at(r->progress, r->at.batches);
    while (r->at.batch < end) {
        TRY(stretch(r, end, result, e));
        if (run_leaves_pass(r))
            return TUG_EINTERRUPTED;
        if (progress_at(r->progress, r->at.batches) &&
            (r->config->log_batches != 0 || r->at.batch < end))
            print_line(r, end);
        note_course(r, end);
        TRY(loop_look(r, e));
        if (r->config->out != NULL && run_due(r->at.batches, r->config->save_batches))
            TRY(checkpoint_save(r, false, result, e));
    }
    return 0;
}

// -------------------------------------------------------------- training on whole passes

static int train_pass_in_memory(struct run *r, struct train_result *result, struct err *e)
{
    if (r->data == NULL) {
        r->bad_lines = 0;
        TRY(load_window(r, r->at, result, e));
        result->examples = dataset_size(r->data);
        TRY(run_check_examples(r, result->examples, e));
        warn_about_labels(r);
        checkpoint_compare_numbering(r);
    }
    return train_window(r, result, e);
}

static int train_pass_streaming(struct run *r, struct train_result *result, struct err *e)
{
    struct position next = r->at;
    r->bad_lines = r->at.bad_lines;
    if (r->at.epoch > 0 || r->at.window > 0 || r->at.batch > 0)
        TRY(source_rewind(r->source, r->at.window > 0 ? r->at.place : SOURCE_START, e));
    for (bool more = true; more;) {
        TRY(load_window(r, next, result, e));
        TRY(train_window(r, result, e));
        more = !dataset_at_end(r->data);
        next = r->at;
        next.window++;
        next.batch = 0;
        next.seen += dataset_size(r->data);
    }
    checkpoint_compare_numbering(r);
    result->examples = next.seen;
    return run_check_examples(r, result->examples, e);
}

static void clear_streams(struct run *r)
{
    for (int i = 0; i < team_size(r->team); i++)
        metrics_streams_clear(r->local.workers[i].stream, r->model->options.tasks);
}

static int train_pass(struct run *r, struct train_result *result, struct err *e)
{
    return r->streaming ? train_pass_streaming(r, result, e)
                        : train_pass_in_memory(r, result, e);
}

const struct course course_local = {
    .reads_data = true,
    .begin = loop_begin,
    .close = close_workers,
    .pass = train_pass,
    .streams = streams,
    .clear_streams = clear_streams,
};
