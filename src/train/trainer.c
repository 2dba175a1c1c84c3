// A training run from its beginning to its end.
//
//   open      reader, source, model size, tables (new, resumed, or from another model)
//   passes    by the run's course (train/course.h); after each validation and early stop
//   close     the best pass is put back, the model saved, the test data scored
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "data/input/lines.h"
#include "data/source/paths.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/log.h"
#include "train/checkpoint.h"
#include "train/columns.h"
#include "train/course.h"
#include "train/evaluate/groups.h"
#include "train/evaluate/guard.h"
#include "train/facts.h"
#include "train/fields.h"
#include "train/heads.h"
#include "train/history.h"
#include "train/look.h"
#include "train/names.h"
#include "train/progress.h"
#include "train/record.h"
#include "train/report_data.h"
#include "train/rows/run_rows.h"
#include "train/saved/kept_run.h"
#include "train/scoring.h"

bool run_interrupted(const struct run *r)
{
    return r->config->interrupted != NULL && atomic_load(r->config->interrupted);
}

int run_may_write(const struct run *r, struct err *e)
{
    const struct train_cluster *c = r->config->cluster;
    return c != NULL && c->may_write != NULL ? c->may_write(c->may_write_ctx, e) : 0;
}

bool run_saves_when_interrupted(const struct run *r)
{
    return r->config->out != NULL && !r->config->all_or_nothing;
}

// With whole_passes an interrupted run finishes its pass only in order to save it; so it
// leaves the pass unfinished if it saves nothing.
bool run_leaves_pass(const struct run *r)
{
    return run_interrupted(r) &&
           (!r->rows->whole_passes || !run_saves_when_interrupted(r));
}

bool run_due(uint64_t batches, uint64_t every)
{
    return every != 0 && batches % every == 0;
}

int run_check_examples(const struct run *r, uint64_t examples, struct err *e)
{
    if (examples == 0)
        return err_set(e, TUG_EDATA, "%s: there is no example in the data",
                       r->config->data.items[0]);
    if (r->resumed_examples == 0 || r->resumed_examples == examples)
        return 0;
    return err_set(
        e, TUG_EDATA,
        "--data has %llu examples, but the run being resumed had %llu examples: give "
        "the same data, or use --init-from to start a new run from the saved model",
        (unsigned long long)examples, (unsigned long long)r->resumed_examples);
}

// Returns the number of held-out examples. Every pass holds out the same examples.
uint64_t run_held_out(struct run *r, uint64_t examples)
{
    const struct train_config *c = r->config;
    if (c->valid_part.share == 0 || c->valid.n > 0)
        return 0;
    if (r->held_out.of != examples) {
        r->held_out.of = examples;
        r->held_out.n = 0;
        for (uint64_t i = 0; i < examples; i++)
            r->held_out.n += held_out_has(c->valid_part, c->model.seed, i);
    }
    return r->held_out.n;
}

// ----------------------------------------------------------- opening sources and readers

int run_open_source(struct source **ret, const struct path_list *paths,
                    const atomic_bool *interrupted, double grace_seconds, struct err *e)
{
    struct source_options o = {.paths = paths->items,
                               .n_paths = paths->n,
                               .command = paths->command,
                               .chunk_bytes = RUN_CHUNK_BYTES,
                               .interrupted = interrupted,
                               .grace_seconds = grace_seconds};
    return source_open(ret, &o, e);
}

// Returns whether the data is streamed. Data that, packed, takes at most a third of the
// free memory is not streamed, but loaded into memory.
static bool should_stream(const struct train_config *c, const struct source *s)
{
    if (c->data_in != DATA_IN_AUTO || c->merge != NULL)
        return c->data_in == DATA_IN_STREAM;
    return source_text_bytes(s) / 2 > mem_available() / 3;
}

int run_open_reader(struct run *r, struct err *e)
{
    struct reader *before = r->reader; // `own` points into it, so close it last
    TRY(reader_open(&r->reader, &r->own.reader, e));
    columns_complete(&r->own, r->reader);
    reader_close(before);
    return 0;
}

static int open_data(struct run *r, struct err *e)
{
    const struct train_config *c = r->config;
    r->data_identity = mem_zalloc(sizeof(*r->data_identity));
    if (r->data_identity == NULL)
        return err_nomem(e, "the data");
    if (!r->course->reads_data && c->merge != NULL)
        return err_set(
            e, TUG_EUSAGE,
            "--merge-ids needs all of the data in memory at once; on a cluster, "
            "and with --table where rows have a server of their own (as with "
            "--deterministic), it is read in pieces");
    if (!r->course->reads_data)
        return run_open_reader(r, e);
    TRY(columns_check_drop(c, &r->own.reader.drop_elsewhere, e));
    TRY(run_open_reader(r, e));
    TRY(run_open_source(&r->source, &c->data, c->interrupted, 0, e));
    TRY(source_identity(r->source, r->data_identity, e));
    r->columns = numbering_columns(source_data_files(r->source));
    r->streaming = should_stream(c, r->source);
    if (r->streaming && !source_can_rewind(r->source) &&
        (c->epochs > 1 || c->valid_part.share > 0))
        return err_set(e, TUG_EUSAGE,
                       "a pipe can be streamed once only: use --epochs 1 without --valid "
                       "FRACTION, or --data-in memory");
    return columns_decide(r->reader, r->source, e);
}

// Keeps the pass if it is the best so far, by the validation loss of the first label.
static int judge_pass(struct run *r, const struct metrics *valid, struct err *e)
{
    bool better = !r->has_best || valid->logloss < r->best_loss || isnan(r->best_loss);
    if (!better) {
        r->passes_since_best++;
        return 0;
    }
    r->has_best = false;
    TRY(scoring_swap(r, e));
    TRY(r->rows->keep_best(r, e));
    TRY(scoring_swap(r, e));
    report_data_keep(r->config->report_data);
    r->has_best = true;
    r->best_loss = valid->logloss;
    memcpy(r->best_valids, valid, r->model->options.tasks * sizeof(*valid));
    r->best_epoch = r->at.epoch;
    r->passes_since_best = 0;
    return 0;
}

static bool validates(const struct run *r)
{
    return r->config->valid.n > 0 || r->config->valid_part.share > 0;
}

// Ends a pass. `began` is the time when the pass began, on a clock that excludes saves.
static int finish_pass(struct run *r, double began, struct train_result *result,
                       struct err *e)
{
    const struct course *course = r->course;
    struct metrics seen[LABELS_MAX], valids[LABELS_MAX];
    const struct metrics *valid = validates(r) ? valids : NULL;
    double start = clock_seconds();
    const struct metrics_stream *all = course->seen_by_all != NULL
                                           ? course->seen_by_all(r)
                                           : course->streams(r);
    for (uint32_t k = 0; k < r->model->options.tasks; k++)
        seen[k] = metrics_stream_result(&all[k], r->config->reader.loss);
    report_data_note(r->config->report_data, r->at.epoch + 1, &all[0],
                     r->config->reader.loss);
    if (valid != NULL) {
        (void)train_facts_state(r->config->facts, TRAIN_VALIDATING);
        // If validation is interrupted, the pass does not count as finished, and a
        // resumed run validates again.
        TRY(scoring_validate(r, result->examples, valids, e));
        (void)train_facts_state(r->config->facts, TRAIN_TRAINING);
    }
    result->trained_examples += seen[0].examples;
    r->last_pass = seen[0];
    uint32_t pass = r->at.epoch++;
    r->in_pass = false;
    r->at.window = r->at.batch = r->at.seen = r->at.bad_lines = 0;
    r->at.place = SOURCE_START;
    if (valid != NULL)
        TRY(judge_pass(r, valid, e));
    double end = clock_seconds();
    result->valid_seconds += valid != NULL ? end - start : 0;
    struct record_of_pass done = {all, seen, valid, result->examples,
                                  end - result->save_seconds - began};
    TRY(record_pass(r, &done, e));
    progress_pass(r->progress, pass, seen, valid, course->streams(r),
                  &r->history->pass[r->history->n - 1]);
    train_facts_pass(r->config->facts, r->history, r->best_epoch, seen[0].base);
    run_rows_tell(r);
    course->clear_streams(r);
    if (r->config->out != NULL && run_due(r->at.epoch, r->config->save_passes) &&
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
    (void)train_facts_state(r->config->facts, TRAIN_TRAINING);
    while (r->at.epoch < r->config->epochs && !should_stop_early(r)) {
        double began = clock_seconds() - result->save_seconds;
        r->in_pass = true;
        TRY(r->course->pass(r, result, e));
        TRY(finish_pass(r, began, result, e));
        if (run_interrupted(r))
            return TUG_EINTERRUPTED;
    }
    if (should_stop_early(r))
        log_info("stopped after pass %u: validation was best at pass %u", r->at.epoch,
                 r->best_epoch);
    return 0;
}

// ----------------------------------------------------- testing, saving and closing a run

static bool guard(const struct run *r)
{
    return guard_training(&r->last_pass, r->config->reader.loss, r->at.epoch,
                          (double)r->config->model.linear.lr,
                          r->course->reads_data && !r->streaming);
}

static int test(struct run *r, struct train_result *result, struct err *e)
{
    int rc = scoring_test(r, result, e);
    if (rc == 0)
        guard_scores(&result->test, "--test", !guard(r));
    if (rc != TUG_EINTERRUPTED)
        return rc;
    bool saved = result->saved[0] != 0;
    return err_set(e, rc, "interrupted while testing; training was over, %s%s",
                   saved ? "the model is in "
                         : "nothing was saved, because there is no --out DIR",
                   result->saved);
}

// Sets the error of an interrupted run. A run that was interrupted when a pass had ended
// names that pass, not the next one.
static int on_interrupt(struct run *r, struct train_result *result, struct err *e)
{
    bool after = (r->rows->whole_passes && run_saves_when_interrupted(r)) ||
                 (!r->in_pass && r->at.epoch > 0);
    uint32_t next = r->at.epoch < r->config->epochs ? r->at.epoch + 1 : r->at.epoch,
             pass = after ? r->at.epoch : next;
    const char *where = after ? "after" : "in";
    if (r->config->all_or_nothing)
        return err_set(e, TUG_EINTERRUPTED,
                       "interrupted %s pass %u; the model is as it was before", where,
                       pass);
    if (r->config->out == NULL)
        return err_set(
            e, TUG_EINTERRUPTED,
            "interrupted %s pass %u; nothing was saved, because there is no --out DIR",
            where, pass);
    TRY(checkpoint_save(r, false, result, e));
    return err_set(
        e, TUG_EINTERRUPTED,
        "interrupted %s pass %u; saved to %s: the same command with --resume%s continues",
        where, pass, result->saved,
        r->config->init_from != NULL ? " instead of --init-from" : "");
}

static uint32_t name_labels(const struct run *r, char ret[LABELS_MAX][TRAIN_LABEL_MAX])
{
    const struct schema *s = r->reader != NULL ? reader_schema(r->reader) : NULL;
    uint32_t n = s != NULL ? schema_labels(s) : 1;
    for (uint32_t i = 0; i < n; i++) {
        const char *name = s != NULL ? schema_label(s, i) : NULL;
        snprintf(ret[i], TRAIN_LABEL_MAX, "%s", name != NULL ? name : "");
    }
    return n;
}

static void fill_result(struct run *r, struct train_result *result)
{
    result->epochs = r->at.epoch, result->epochs_before = r->resumed_epochs;
    result->skipped_lines = r->bad_lines;
    result->validated = r->has_best;
    memcpy(result->valids, r->best_valids, sizeof(result->valids));
    result->labels = name_labels(r, result->label);
    result->held_out = run_held_out(r, result->examples);
    result->best_epoch = r->best_epoch;
    // adds the examples of a pass that was not finished
    result->trained_examples += r->course->streams(r)->examples;
    r->rows->fill_result(r, result);
    result->streamed = r->course->reads_data ? r->streaming
                                             : r->config->data_in == DATA_IN_STREAM;
}

// Checks the columns of all files before the training, not after it. Checks them
// together, because only one of the files can be standard input.
static int check_paths(const struct run *r, struct err *e)
{
    static const struct path_list none;
    const struct train_config *c = r->config;
    const struct path_list *const lists[] = {r->course->reads_data ? &c->data : &none,
                                             scoring_elsewhere(c) ? &none : &c->test,
                                             scoring_elsewhere(c) ? &none : &c->valid};
    struct data_files files = {.command = c->data.command, .interrupted = c->interrupted};
    int rc = guard_outputs(c, e);
    size_t trained = 0; // number of files that are trained on
    for (size_t l = 0; l < sizeof(lists) / sizeof(*lists); l++) {
        for (size_t i = 0; i < lists[l]->n && rc == 0; i++)
            rc = data_files_add(&files, lists[l]->items[i], e);
        if (l == 0)
            trained = files.n;
    }
    if (rc == 0)
        guard_files(&files, trained);
    // An output of the run must not overwrite files that other processes read.
    if (!r->course->reads_data)
        data_files_add_seen(&files, c->data.items, c->data.n);
    if (scoring_elsewhere(c)) {
        data_files_add_seen(&files, c->test.items, c->test.n);
        data_files_add_seen(&files, c->valid.items, c->valid.n);
    }
    if (rc == 0)
        rc = look_check_dump(c->dump, &files, e);
    if (rc == 0)
        rc = record_check(c, &files, e);
    if (rc == 0)
        rc = report_data_check_file(c->report_file, &files, e);
    data_files_free(&files);
    return rc;
}

// Reads words in a pass of their own, so that a run resumed in any pass has all of them.
// On a cluster the driver reads them, so that their order does not depend on the speed of
// workers.
static int keep_names(struct run *r, struct err *e)
{
    struct names_options o = {.reader = r->reader,
                              .team = r->team,
                              .max = r->config->keep_names,
                              .max_bad_lines = r->config->max_bad_lines,
                              .interrupted = r->config->interrupted};
    int rc = run_open_source(&o.source, &r->config->data, r->config->interrupted, 0, e);
    if (rc != 0 && !r->course->reads_data)
        return err_wrap(e, "--keep-names needs --data on the machine of the scheduler, "
                           "where the driver reads it");
    TRY(rc);
    if (!source_can_rewind(o.source))
        rc = err_set(e, TUG_EUSAGE,
                     "--keep-names reads the data once more, and a pipe can be read "
                     "once only: give files");
    if (rc == 0)
        rc = names_read(&r->names, &o, e);
    source_close(o.source);
    return rc;
}

// Takes over the totals of a run that goes on after its scheduler was killed.
static void take_totals(const struct kept_run *kept, struct train_result *result)
{
    if (kept == NULL)
        return;
    result->trained_examples = kept->trained;
    result->read_seconds += kept->read_seconds;
    result->train_seconds = kept->train_seconds;
    result->valid_seconds = kept->valid_seconds;
    result->save_seconds = kept->save_seconds;
    result->wait_seconds = kept->wait_seconds;
}

static int open_run(struct run *r, struct train_result *result, struct err *e)
{
    const struct train_config *c = r->config;
    TRY(check_paths(r, e));
    TRY(checkpoint_check_out(c, &r->out_lock, &r->resumes, e));
    TRY(checkpoint_find(r, e));
    TRY(team_open(&r->team, c->threads, e));
    TRY(progress_open(&r->progress, c->epochs, c->log_batches, c->dot_batches,
                      c->listener, e));
    progress_set_facts(r->progress, c->facts);
    train_facts_begin(c->facts, c->model.ops->name, c->epochs);
    if (checkpoint_kept(c) != NULL)
        train_facts_goes_on(c->facts);
    struct model_options model = c->model;
    double start = clock_seconds();
    TRY(checkpoint_also_differs(r, open_data(r, e), e));
    TRY(fields_count(r->team, &c->data, &c->reader, r->reader, c->interrupted, &model,
                     e));
    result->read_seconds = clock_seconds() - start;
    TRY(fields_numbers(reader_schema(r->reader), &model, e));
    TRY(fields_dims(reader_schema(r->reader), c->dims, &model, e));
    model.tasks = schema_labels(reader_schema(r->reader));
    TRY(progress_name_labels(r->progress, reader_schema(r->reader), e));
    TRY(parameters_open(&r->parameters, &model, e));
    r->model = &r->parameters.model;
    // A driver of workers does not warn, because it computes nothing itself; its workers do.
    if (r->course->reads_data || c->cluster->peer != NULL)
        guard_layers(&model);
    if (r->rows->open != NULL)
        TRY(r->rows->open(r, e));
    if (r->course->open != NULL)
        TRY(r->course->open(r, e));
    TRY(checkpoint_check_data(r, e));
    TRY(groups_check("--group", c->group, c->reader.loss, e));
    if (!scoring_elsewhere(c)) {
        TRY(heads_check(c, r->reader, &c->test, "--test", e));
        TRY(heads_check(c, r->reader, &c->valid, "--valid", e));
    }
    TRY(checkpoint_start(r, e));
    r->history->labels = name_labels(r, r->history->label);
    train_facts_past(c->facts, r->history, r->best_epoch);
    TRY(record_open(r, e));
    start = clock_seconds();
    if (c->keep_names > 0)
        TRY(keep_names(r, e));
    result->read_seconds += clock_seconds() - start;
    result->examples = r->resumed_examples;
    take_totals(checkpoint_kept(c), result);
    if (r->rows->local != NULL)
        TRY(r->rows->local->begin(r, e));
    return r->course->begin != NULL ? r->course->begin(r, e) : 0;
}

static void close_run(struct run *r)
{
    r->course->close(r);
    if (r->rows->close != NULL)
        r->rows->close(r);
    dataset_close(r->data);
    source_close(r->source);
    reader_close(r->reader);
    checkpoint_forget(r);
    mem_free(r->data_identity);
    parameters_close(&r->best);
    parameters_close(&r->parameters);
    names_close(r->names);
    progress_close(r->progress);
    record_close(r);
    team_close(r->team);
    file_unlock_dir(r->out_lock);
}

static int publish_last(struct run *r, struct train_result *result, struct err *e)
{
    double start = clock_seconds();
    int rc = r->rows->publish != NULL ? r->rows->publish(r, result, e) : 0;
    result->save_seconds += clock_seconds() - start;
    return rc;
}

static int trainer_finish(struct run *r, struct train_result *result, struct err *e)
{
    if (r->rows->check != NULL)
        TRY(r->rows->check(r, e));
    checkpoint_tell_over(r, result);
    if (result->nothing_to_do)
        TRY(save_find(r->config->out, result->saved, e));
    else if (r->config->out != NULL)
        TRY(checkpoint_save(r, true, result, e));
    // Publishes also if the resumed run had nothing left to do, because its last
    // publication may have failed.
    TRY(publish_last(r, result, e));
    if (r->config->test.n > 0)
        TRY(test(r, result, e));
    else
        (void)guard(r);
    guard_columns(r->reader);
    return record_error(r, result, e);
}

int train_run(const struct train_config *c, struct train_result *ret, struct err *e)
{
    double start = clock_seconds();
    struct run r = {
        .own = *c, .given = c->reader, .at = {.place = SOURCE_START}, .out_lock = -1};
    r.config = &r.own;
    r.course = c->cluster == NULL ? &course_local : c->cluster->course;
    r.rows = r.course->rows != NULL ? r.course->rows
             : c->table != NULL     ? &rows_living
                                    : &rows_own;
    struct history unasked = {0};
    r.history = c->history != NULL ? c->history : &unasked;
    history_free(r.history);
    *ret = (struct train_result){0};
    report_data_begin(c->report_data);
    int rc = open_run(&r, ret, e);
    if (rc == 0)
        snprintf(ret->format, sizeof(ret->format), "%s", r.config->reader.format);
    if (rc == 0) {
        rc = passes(&r, ret, e);
        if (rc == TUG_EINTERRUPTED)
            rc = on_interrupt(&r, ret, e);
        else if (rc == 0)
            rc = trainer_finish(&r, ret, e);
        fill_result(&r, ret);
    }
    struct err end = {.code = rc};
    if (rc != 0 && e != NULL)
        end = *e;
    train_facts_end(c->facts, &end);
    if (r.course->over != NULL)
        r.course->over(&r, &end);
    close_run(&r);
    report_data_end(c->report_data);
    history_free(&unasked);
    ret->total_seconds = clock_seconds() - start;
    return rc;
}
