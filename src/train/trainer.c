// The course of a training run: passes over windows of data, validation, saves, and the
// end.
//
//   open      reader, source, model size, tables (new, resumed, or from another model)
//   passes    for each window: load, then stretches of batches; between stretches progress lines,
//             saves and signals; after a pass validation and early stop
//   close     the best pass is put back, the model saved, the test data scored
//
// In memory there is one window, loaded once; streaming reads the text again each pass.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "data/paths.h"
#include "train/evaluate.h"
#include "train/fields.h"
#include "train/progress.h"
#include "train/run.h"

enum { CHUNK_BYTES = 1 << 20 };

bool run_held_out(const struct run *r, uint64_t example)
{
    return evaluate_held_out(r->config->valid_fraction, r->config->model.seed,
                             r->at.seen + example);
}

size_t run_pick(struct worker *w, uint64_t first, size_t n, uint64_t *ret_order)
{
    const struct run *r = w->run;
    size_t taken = order_take(&r->order, &w->hand, first, n, ret_order), picked = 0;
    if (r->config->valid_fraction == 0)
        return taken;
    for (size_t i = 0; i < taken; i++)
        if (!run_held_out(r, ret_order[i]))
            ret_order[picked++] = ret_order[i];
    return picked;
}

// Sources and readers.

static int open_source(struct source **ret, const struct run *r,
                       const struct path_list *paths, struct err *e)
{
    struct source_options o = {.paths = paths->items,
                               .n_paths = paths->n,
                               .chunk_bytes = CHUNK_BYTES,
                               .interrupted = r->config->interrupted};
    return source_open(ret, &o, e);
}

// In memory if the data, packed, would take at most a third of what is there now.
static bool should_stream(const struct train_config *c, const struct source *s)
{
    if (c->data_in != DATA_IN_AUTO)
        return c->data_in == DATA_IN_STREAM;
    return source_text_bytes(s) / 2 > mem_available() / 3;
}

static int open_data(struct run *r, struct err *e)
{
    const struct train_config *c = r->config;
    TRY(reader_open(&r->reader, &c->reader, e));
    TRY(open_source(&r->source, r, &c->data, e));
    r->streaming = should_stream(c, r->source);
    if (r->streaming && !source_can_rewind(r->source) &&
        (c->epochs > 1 || c->valid_fraction > 0))
        return err_set(e, TUG_EUSAGE,
                       "standard input can be streamed once only: use --epochs 1 without "
                       "--valid FRACTION, or --data-in memory");
    return 0;
}

// Workers.

static int open_workers(struct run *r, struct err *e)
{
    size_t n = (size_t)team_size(r->team);
    r->workers = mem_aligned(64, n * sizeof(*r->workers));
    if (r->workers == NULL)
        return err_nomem(e, "the workers");
    memset(r->workers, 0, n * sizeof(*r->workers));
    for (size_t i = 0; i < n; i++) {
        r->workers[i].run = r;
        metrics_stream_clear(&r->workers[i].stream);
        TRY(model_scratch_init(&r->workers[i].scratch, &r->parameters.model, e));
    }
    return r->config->deterministic ? synchronous_open(r, e) : 0;
}

static void close_workers(struct run *r)
{
    synchronous_close(r);
    for (int i = 0; r->workers != NULL && i < team_size(r->team); i++) {
        view_free(&r->workers[i].view);
        model_scratch_fini(&r->workers[i].scratch);
    }
    mem_free(r->workers);
}

static void set_rates(struct run *r, double factor)
{
    const struct model *m = &r->parameters.model;
    for (int i = 0; i < team_size(r->team); i++) {
        struct worker *w = &r->workers[i];
        accessor_rules(&m->accessor, (float)factor, w->rules);
        accessor_rules(&m->bias, (float)factor, w->bias_rule);
    }
}

static struct metrics_stream *merge_streams(struct run *r)
{
    static struct metrics_stream all; // large; one run a process prints
    metrics_stream_clear(&all);
    for (int i = 0; i < team_size(r->team); i++)
        metrics_stream_merge(&all, &r->workers[i].stream);
    return &all;
}

// Data windows.

static int find_hot_rows(struct run *r, struct err *e)
{
    r->hot.n = 0;
    if (team_size(r->team) == 1 || r->config->deterministic ||
        !hot_adds_up(&r->parameters.model))
        return 0;
    return hot_find(&r->hot, r->data, r->config->model.seed) == 0
               ? 0
               : err_nomem(e, "hot rows");
}

// Loads the window of `next`, which becomes the run's position. Until then that is the
// end of the window before: a run that is interrupted here goes on from there.
static int load_window(struct run *r, struct position next, struct train_result *result,
                       struct err *e)
{
    uint64_t chunks = r->config->window_bytes / CHUNK_BYTES;
    struct dataset_options o = {
        .source = r->source,
        .reader = r->reader,
        .team = r->team,
        .resolve = parameters_resolve_new,
        .resolve_ctx = &r->parameters,
        .max_chunks = !r->streaming ? 0
                      : chunks > 0  ? chunks
                                    : 1,
        .max_bad_lines = r->config->max_bad_lines,
        .bad_lines = &r->bad_lines,
    };
    double start = clock_seconds();
    dataset_close(r->data);
    r->data = NULL;
    next.place = source_place(r->source);
    next.bad_lines = r->bad_lines;
    int rc = dataset_load(&r->data, &o, e);
    result->read_seconds += clock_seconds() - start;
    TRY(rc);
    r->at = next;
    if (dataset_bytes(r->data) > result->data_bytes)
        result->data_bytes = dataset_bytes(r->data);
    TRY(find_hot_rows(r, e));
    return fields_check(r->data, r->source, NULL, &r->parameters.model.options, e);
}

// The one thing that training on one class cannot do is what everybody wants from it.
static void warn_about_labels(struct run *r)
{
    uint64_t positives = dataset_positives(r->data), n = dataset_size(r->data);
    if (r->config->reader.loss == READER_LOGISTIC && n > 0 &&
        (positives == 0 || positives == n))
        progress_note(r->progress,
                      "warning: all %llu labels are %d: there is nothing to tell apart "
                      "and no AUC",
                      (unsigned long long)n, positives == 0 ? 0 : 1);
}

// Batches.

static double passes_done(const struct run *r, uint64_t end)
{
    return schedule_passes(r->at.epoch, r->at.batch, end, r->config->batch,
                           r->streaming ? 0 : dataset_size(r->data));
}

// The next batch at which somebody wants the team to stop, by count.
static uint64_t next_stop(const struct run *r, uint64_t end)
{
    const uint64_t every[] = {r->config->save_batches, r->config->log_batches};
    uint64_t stop = end;
    for (size_t i = 0; i < 2; i++) {
        if (every[i] == 0)
            continue;
        uint64_t left = every[i] - r->at.batches % every[i];
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
        const struct worker *w = &r->workers[i];
        if (w->rc == TUG_ENOMEM)
            return err_nomem(e, "a batch");
        if (w->rc != 0 && (bad == NULL || w->bad < bad->bad))
            bad = w;
    }
    return bad == NULL ? 0 : diverged_score(r, bad->bad, e);
}

static bool interrupted(const struct run *r)
{
    return r->config->interrupted != NULL && atomic_load(r->config->interrupted);
}

// Batches until the next stop.
static int stretch(struct run *r, uint64_t end, struct train_result *result,
                   struct err *e)
{
    uint64_t first = r->at.batch;
    double start = clock_seconds();
    set_rates(r, schedule_factor(&r->config->schedule, passes_done(r, end)));
    atomic_store(&r->next_batch, first);
    r->last_batch = next_stop(r, end);
    atomic_store(&r->stop, false);
    team_run(r->team, r->config->deterministic ? synchronous_batches : hogwild_batches,
             r);
    uint64_t next = atomic_load(&r->next_batch);
    next = next < r->last_batch ? next : r->last_batch;
    r->at.batch = next;
    r->at.batches += next - first;
    result->train_seconds += clock_seconds() - start;
    return stretch_result(r, e);
}

static double share_of_pass(const struct run *r, uint64_t end)
{
    if (!r->streaming)
        return end > 0 ? (double)r->at.batch / (double)end : 1;
    uint64_t text = source_text_bytes(r->source);
    double read = (double)(r->at.place.number * CHUNK_BYTES);
    return text > 0 && read < (double)text ? read / (double)text : -1;
}

static void print_line(struct run *r, uint64_t end)
{
    struct metrics m = metrics_stream_result(merge_streams(r), r->config->reader.loss);
    progress_line(r->progress, r->at.epoch, share_of_pass(r, end), r->at.batches, &m);
}

static bool due(uint64_t batches, uint64_t every)
{
    return every != 0 && batches % every == 0;
}

static int train_window(struct run *r, struct train_result *result, struct err *e)
{
    r->order = order_make(dataset_size(r->data), r->config->model.seed,
                          (uint64_t)r->at.epoch << 32 | (uint32_t)r->at.window);
    for (int i = 0; i < team_size(r->team); i++)
        r->workers[i].hand.known = false;
    uint64_t end = (order_positions(&r->order) + r->config->batch - 1) / r->config->batch;
    while (r->at.batch < end) {
        TRY(stretch(r, end, result, e));
        if (interrupted(r))
            return TUG_EINTERRUPTED;
        if (r->config->log_batches == 0
                ? r->at.batch < end && progress_is_due(r->progress)
                : due(r->at.batches, r->config->log_batches))
            print_line(r, end);
        if (r->config->out != NULL && due(r->at.batches, r->config->save_batches))
            TRY(checkpoint_save(r, false, result, e));
    }
    return 0;
}

// Passes.

// There must be something to train on, and a run that goes on must find the data that it
// had.
static int check_examples(const struct run *r, uint64_t examples, struct err *e)
{
    if (examples == 0)
        return err_set(e, TUG_EDATA, "%s: there is no example in the data",
                       source_file_name(r->source, 0));
    if (r->resumed_examples == 0 || r->resumed_examples == examples)
        return 0;
    return err_set(
        e, TUG_EDATA,
        "--data has %llu examples, but the run being resumed had %llu examples: give "
        "the same data, or use --init-from to start a new run from the saved model",
        (unsigned long long)examples, (unsigned long long)r->resumed_examples);
}

static int train_pass_in_memory(struct run *r, struct train_result *result, struct err *e)
{
    if (r->data == NULL) {
        r->bad_lines = 0;
        TRY(load_window(r, r->at, result, e));
        result->examples = dataset_size(r->data);
        TRY(check_examples(r, result->examples, e));
        warn_about_labels(r);
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
        if (r->at.epoch == 0 && r->at.window == 0)
            warn_about_labels(r);
        TRY(train_window(r, result, e));
        more = !dataset_at_end(r->data);
        next = r->at;
        next.window++;
        next.batch = 0;
        next.seen += dataset_size(r->data);
    }
    result->examples = next.seen;
    return check_examples(r, result->examples, e);
}

static int evaluate_source(const struct evaluation_options *o, struct metrics *ret,
                           struct err *e)
{
    int rc = evaluate(o, ret, e);
    source_close(o->source);
    return rc;
}

// `examples`: of the pass, held-out ones included.
static int validate(struct run *r, uint64_t examples, struct metrics *ret, struct err *e)
{
    const struct train_config *c = r->config;
    struct evaluation_options o = {
        .team = r->team,
        .parameters = &r->parameters,
        .reader = r->reader,
        .loss = c->reader.loss,
        .max_bad_lines = c->max_bad_lines,
        .bad_lines = &(uint64_t){0},
        .held_out = c->valid.n > 0 ? 0 : c->valid_fraction,
        .seed = c->model.seed,
        .interrupted = c->interrupted,
    };
    if (c->valid.n == 0 && !r->streaming)
        o.data = r->data; // and not the text again
    else
        TRY(open_source(&o.source, r, c->valid.n > 0 ? &c->valid : &c->data, e));
    TRY(evaluate_source(&o, ret, e));
    if (o.held_out == 0 || (ret->examples > 0 && ret->examples < examples))
        return 0;
    return err_set(
        e, TUG_EDATA,
        "--valid %g leaves none of the %llu examples to %s: give another fraction, "
        "or a file",
        o.held_out, (unsigned long long)examples,
        ret->examples == 0 ? "validate on" : "train on");
}

// Keeps the pass if it is the best so far.
static int judge_pass(struct run *r, const struct metrics *valid, struct err *e)
{
    bool better = !r->has_best || valid->logloss < r->best_loss || isnan(r->best_loss);
    if (!better) {
        r->passes_since_best++;
        return 0;
    }
    if (r->has_best)
        parameters_close(&r->best);
    r->has_best = false;
    TRY(parameters_clone(&r->best, &r->parameters, e));
    r->has_best = true;
    r->best_loss = valid->logloss;
    r->best_valid = *valid;
    r->best_epoch = r->at.epoch;
    r->passes_since_best = 0;
    return 0;
}

static bool validates(const struct run *r)
{
    return r->config->valid.n > 0 || r->config->valid_fraction > 0;
}

static int finish_pass(struct run *r, struct train_result *result, struct err *e)
{
    struct metrics seen = metrics_stream_result(merge_streams(r), r->config->reader.loss),
                   valid;
    if (validates(r)) // interrupted in it, the pass is not done: --resume validates again
        TRY(validate(r, result->examples, &valid, e));
    for (int i = 0; i < team_size(r->team); i++)
        metrics_stream_clear(&r->workers[i].stream);
    result->trained_examples += seen.examples;
    uint32_t pass = r->at.epoch++;
    r->at.window = r->at.batch = r->at.seen = r->at.bad_lines = 0;
    r->at.place = SOURCE_START;
    if (validates(r))
        TRY(judge_pass(r, &valid, e));
    progress_pass(r->progress, pass, &seen, validates(r) ? &valid : NULL);
    if (r->config->out != NULL && due(r->at.epoch, r->config->save_passes) &&
        r->at.epoch < r->config->epochs)
        return checkpoint_save(r, false, result, e);
    return 0;
}

static bool should_stop_early(const struct run *r)
{
    return r->has_best && r->config->patience > 0 &&
           r->passes_since_best >= r->config->patience;
}

static int passes(struct run *r, struct train_result *result, struct err *e)
{
    while (r->at.epoch < r->config->epochs && !should_stop_early(r)) {
        int rc = r->streaming ? train_pass_streaming(r, result, e)
                              : train_pass_in_memory(r, result, e);
        TRY(rc);
        TRY(finish_pass(r, result, e));
        if (interrupted(r))
            return TUG_EINTERRUPTED;
    }
    if (should_stop_early(r))
        progress_note(r->progress,
                      "stopped after pass %u: validation was best at pass %u",
                      r->at.epoch, r->best_epoch);
    return 0;
}

// The end.

static int test(struct run *r, struct train_result *result, struct err *e)
{
    const struct train_config *c = r->config;
    struct evaluation_options o = {
        .team = r->team,
        .parameters = r->has_best ? &r->best : &r->parameters,
        .reader = r->reader,
        .loss = c->reader.loss,
        .max_bad_lines = c->max_bad_lines,
        .bad_lines = &r->bad_lines,
        .interrupted = c->interrupted,
    };
    double start = clock_seconds();
    TRY(open_source(&o.source, r, &c->test, e));
    int rc = evaluate_source(&o, &result->test, e);
    result->test_seconds = clock_seconds() - start;
    result->tested = rc == 0;
    if (rc != TUG_EINTERRUPTED)
        return rc;
    bool saved = result->saved[0] != 0;
    return err_set(e, rc, "interrupted while testing; training was over, %s%s",
                   saved ? "the model is in "
                         : "nothing was saved: there is no --out DIR",
                   result->saved);
}

static int on_interrupt(struct run *r, struct train_result *result, struct err *e)
{
    uint32_t pass = r->at.epoch < r->config->epochs ? r->at.epoch + 1 : r->at.epoch;
    if (r->config->out == NULL)
        return err_set(e, TUG_EINTERRUPTED,
                       "interrupted in pass %u; nothing was saved, for there is "
                       "no --out DIR",
                       pass);
    TRY(checkpoint_save(r, false, result, e));
    return err_set(
        e, TUG_EINTERRUPTED,
        "interrupted in pass %u; saved to %s: the same command with --resume%s goes on",
        pass, result->saved,
        r->config->init_from != NULL ? " instead of --init-from" : "");
}

static void fill_result(struct run *r, struct train_result *result)
{
    struct table_stats s = table_stats(r->parameters.sparse);
    for (int i = 0; i < team_size(r->team); i++) // of a pass that was cut short
        result->trained_examples += r->workers[i].stream.examples;
    result->epochs = r->at.epoch;
    result->keys = s.rows;
    result->bytes_per_key = s.rows > 0
                                ? (double)(s.row_bytes + s.index_bytes) / (double)s.rows
                                : 0;
    result->skipped_lines = r->bad_lines;
    result->validated = r->has_best;
    result->valid = r->best_valid;
    result->best_epoch = r->best_epoch;
}

// What is missing is said before the training, not after it.
// Together, for standard input can be one of them only.
static int check_paths(const struct train_config *c, struct err *e)
{
    const struct path_list *const lists[] = {&c->data, &c->test, &c->valid};
    struct data_files files = {0};
    int rc = 0;
    for (size_t l = 0; l < sizeof(lists) / sizeof(*lists); l++)
        for (size_t i = 0; i < lists[l]->n && rc == 0; i++)
            rc = data_files_add(&files, lists[l]->items[i], e);
    data_files_free(&files);
    return rc;
}

static int open_run(struct run *r, struct train_result *result, struct err *e)
{
    const struct train_config *c = r->config;
    TRY(check_paths(c, e));
    TRY(checkpoint_check_out(c, &r->out_lock, e));
    TRY(team_open(&r->team, c->threads, e));
    TRY(progress_open(&r->progress, c->epochs, c->log_batches, e));
    TRY(open_data(r, e));
    struct model_options model = c->model;
    if (model.kind == MODEL_FFM)
        TRY(fields_count(r->team, &c->data, &c->reader, r->reader, c->interrupted,
                         &model.fields, e));
    TRY(parameters_open(&r->parameters, &model, e));
    if (c->init_from != NULL)
        TRY(checkpoint_init_from(r, e));
    if (c->resume)
        TRY(checkpoint_resume(r, e));
    result->examples = r->resumed_examples;
    return open_workers(r, e);
}

static void close_run(struct run *r)
{
    close_workers(r);
    dataset_close(r->data);
    source_close(r->source);
    reader_close(r->reader);
    if (r->has_best)
        parameters_close(&r->best);
    parameters_close(&r->parameters);
    progress_close(r->progress);
    team_close(r->team);
    file_unlock_dir(r->out_lock);
}

static int finish(struct run *r, struct train_result *result, struct err *e)
{
    TRY(diverged_check(r, e));
    if (r->config->out != NULL)
        TRY(checkpoint_save(r, true, result, e));
    return r->config->test.n > 0 ? test(r, result, e) : 0;
}

int train_run(const struct train_config *c, struct train_result *ret, struct err *e)
{
    double start = clock_seconds();
    struct run r = {.config = c, .at = {.place = SOURCE_START}, .out_lock = -1};
    *ret = (struct train_result){0};
    int rc = open_run(&r, ret, e);
    if (rc == 0) {
        rc = passes(&r, ret, e);
        if (rc == TUG_EINTERRUPTED)
            rc = on_interrupt(&r, ret, e);
        else if (rc == 0)
            rc = finish(&r, ret, e);
        fill_result(&r, ret);
    }
    close_run(&r);
    ret->total_seconds = clock_seconds() - start;
    return rc;
}
