// Training of a program's model (tug/train.h): each call is a run of tug train that
// resumes from the newest save.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "doors/models/model_cluster.h"
#include "doors/models/model_train.h"
#include "os/log.h"
#include "run/train_config.h"
#include "runtime/job.h"
#include "runtime/last_error.h"
#include "train/saved/run_options.h"

static const char not_here[] = "data json log-dir log-format cv dot-every report http";

struct training {
    struct tug_model *m;
    const struct tug_data *data, *valid;
    char **words;
    size_t n_words;
    struct options *options;
    // The parsed options, and a copy in which the call's data is set.
    struct train_options parsed, values;
    struct train_setup setup;
    struct train_result result;
    struct given_rows rows, valid_rows;
    const char *path; // the address of rows in memory, which stands for a path
    char valid_path[FILE_PATH_MAX], out[FILE_PATH_MAX];
    struct metrics last[LABELS_MAX]; // metrics of the last pass, by label
    bool has_last;
    struct train_listener listener;
    // The number of passes that earlier calls have trained; 0 if the run's own count
    // includes them, which is so only in the first worker.
    uint32_t before;
    pthread_mutex_t mutex; // guards the members below
    struct tug_progress progress;
    bool has_news;
    // Reports that later reports must not replace: the reports of ended passes; with the
    // option `log-every`, all reports. train_tell passes them to the program in order.
    struct report {
        struct tug_progress progress;
        struct tug_pass pass; // the figures of an ended pass
    } * reports;
    size_t n_reports, cap_reports;
    char warning[WARNINGS_TEXT]; // about the options and the result, for tug_last_warning
    struct buf printed;          // warnings that the training printed, for its page
};

// Adds the warnings since last_warning_begin to t->warning. (Warnings during the training
// are printed at once, because a training may take long.)
static void keep_warnings(struct training *t)
{
    size_t n = strlen(t->warning);
    last_warning_end();
    if (tug_last_warning()[0] != '\0')
        snprintf(t->warning + n, sizeof(t->warning) - n, "%s%s", n > 0 ? "\n" : "",
                 tug_last_warning());
}

// Parses the options; adds the option `format` if it was not given.
static int train_parse(struct training *t, const char *format, struct err *e)
{
    struct tug_model *m = t->m;
    char word[64];
    memset(&t->parsed, 0, sizeof(t->parsed));
    t->words = mem_array(m->n_words + 1, sizeof(*t->words));
    if (t->words == NULL)
        return err_nomem(e, "options");
    if (m->n_words > 0)
        memcpy(t->words, m->words, m->n_words * sizeof(*t->words));
    t->n_words = m->n_words;
    TRY(model_parse(&t->options, &cli_train_options, t->words, t->n_words, not_here,
                    &t->parsed, e));
    t->values = t->parsed;
    if (format == NULL)
        return 0;
    char given[OPTION_NAME_MAX];
    if (options_given(t->options, "format"))
        return strcmp(options_word(TRAIN_FORMATS, t->values.format, given), format) == 0
                   ? 0
                   : err_set(e, TUG_EUSAGE,
                             "rows in memory are of format %s, but --format is %s",
                             format, given);
    snprintf(word, sizeof(word), "--format=%s", format);
    t->words[t->n_words] = word;
    options_close(t->options);
    memset(&t->parsed, 0, sizeof(t->parsed));
    TRY(model_parse(&t->options, &cli_train_options, t->words, t->n_words + 1, not_here,
                    &t->parsed, e));
    t->values = t->parsed;
    return 0;
}

static void close_training(struct training *t)
{
    train_setup_close(&t->setup);
    options_close(t->options);
    mem_free(t->words);
    given_rows_close(&t->rows);
    given_rows_close(&t->valid_rows);
    mem_free(t->reports);
    buf_free(&t->printed);
    pthread_mutex_destroy(&t->mutex);
    mem_free(t);
}

static struct training *open_training(struct tug_model *m)
{
    struct training *t = mem_zalloc(sizeof(*t));
    if (t == NULL)
        return NULL;
    t->m = m;
    t->setup.interrupted = &m->stop;
    pthread_mutex_init(&t->mutex, NULL);
    return t;
}

// Returns how the run resumes. With TRAIN_RESUME, options about reading data that are not
// given are taken from the save. The option `init-from` has an effect only in the first
// call of tug_model_train.
static enum train_resume resumes_as(const struct training *t)
{
    bool said = options_given(t->options, "format") || t->values.init_from != NULL;
    return said ? TRAIN_RESUME_AUTO : TRAIN_RESUME;
}

// Checks all options and their values, without data. If the option `format` is not given,
// assumes data in memory: columns if options name columns, else rows.
static int train_check(struct training *t, struct err *e)
{
    TRY(train_parse(t, NULL, e));
    // With resume=auto, the save may be missing.
    bool from_save = t->m->from[0] != '\0' || t->values.resume == TRAIN_RESUME ||
                     t->values.init_from != NULL;
    if (!options_given(t->options, "format") && !from_save) {
        const struct train_options *o = &t->parsed;
        bool names = o->label != NULL || o->drop != NULL || o->numeric != NULL ||
                     o->lists != NULL || o->missing != NULL || o->quote != NULL ||
                     o->decimal != NULL || o->weight_column != NULL ||
                     o->cross_columns != NULL;
        options_close(t->options);
        t->options = NULL;
        mem_free(t->words);
        TRY(train_parse(t, names ? "csv" : "libffm", e));
    }
    t->values.data = (struct option_list){0};
    if (t->m->from[0] != '\0' &&
        t->values.resume == TRAIN_NEW) { // the run resumes from the model's save
        t->values.out = t->values.out != NULL ? t->values.out : t->m->from;
        t->values.resume = resumes_as(t);
    }
    TRY(model_cluster_check(t->m, &t->values, NULL, NULL, e));
    t->setup.own_plan = t->m->from[0] != '\0' || t->m->client != NULL;
    return train_configure(&t->setup, &t->values, t->options, model_cluster_node(t->m),
                           e);
}

int model_train_check(struct tug_model *m, const struct tug_model_options *o,
                      const struct saved_run *saved, struct err *e)
{
    TRY(model_cluster_find(m, o, e));
    struct training *t = open_training(m);
    if (t == NULL)
        return err_nomem(e, "a training");
    last_warning_begin();
    int rc = train_check(t, e);
    last_warning_end();
    if (rc == 0 && saved != NULL && options_given(t->options, "model"))
        rc = run_options_same_net(&saved->options.model, &t->setup.config.model, m->from,
                                  e);
    close_training(t);
    return rc;
}

// ---------------------------------------------------------------- progress

// Stores a report that later reports must not replace. If there is not enough memory, the
// report is lost, but tug_model_pass still returns the pass.
static void train_keep(struct training *t, const struct tug_pass *pass)
{
    if (mem_room(&t->reports, &t->cap_reports, t->n_reports + 1) != 0)
        return;
    t->reports[t->n_reports++] = (struct report){t->progress, *pass};
    t->has_news = false;
}

static void hear(void *ctx, const struct train_news *n)
{
    struct training *t = ctx;
    uint32_t before = t->before;
    pthread_mutex_lock(&t->mutex);
    t->progress = (struct tug_progress){
        .pass = before + n->pass,
        .passes = before + n->passes,
        .share = n->share,
        .done = n->done,
        .examples = n->metrics->examples,
        .loss = n->metrics->logloss,
        .auc = n->metrics->auc,
        .valid_loss = n->valid != NULL ? n->valid->logloss : (double)NAN,
        .valid_auc = n->valid != NULL ? n->valid->auc : (double)NAN,
    };
    t->has_news = true;
    if (n->seen != NULL)
        model_spread(t->m, n->seen);
    if (n->done) {
        memcpy(t->last, n->metrics, n->labels * sizeof(*t->last));
        t->has_last = true;
        struct tug_pass pass = model_pass(n->record, 0);
        pass.pass += before;
        train_keep(t, &pass);
    } else if (t->values.log_every != 0) {
        train_keep(t, &(struct tug_pass){0});
    }
    pthread_mutex_unlock(&t->mutex);
}

// Gives the program the stored reports, and then the newest report of the current pass.
// After the program has interrupted the training, it gets no more reports.
static void train_tell(void *ctx)
{
    struct training *t = ctx;
    struct tug_model *m = t->m;
    bool hears = m->progress != NULL && !t->values.quiet;
    pthread_mutex_lock(&t->mutex);
    struct tug_progress p = t->progress;
    struct report *kept = t->reports;
    size_t n = t->n_reports;
    bool news = t->has_news;
    t->reports = NULL;
    t->n_reports = t->cap_reports = 0;
    t->has_news = false;
    pthread_mutex_unlock(&t->mutex);
    for (size_t i = 0; i < n; i++) {
        if (hears && !atomic_load(&m->stop))
            m->progress(m->ctx, &kept[i].progress);
        if (kept[i].progress.done && m->on_pass != NULL && !atomic_load(&m->stop))
            m->on_pass(m->ctx, &kept[i].pass);
    }
    mem_free(kept);
    if (news && hears && !atomic_load(&m->stop))
        m->progress(m->ctx, &p);
}

// ---------------------------------------------------------------- data

static int open_rows(struct training *t, struct given_rows *to, const struct tug_data *d,
                     const char *name, struct err *e)
{
    struct tug_model *m = t->m;
    struct given_as as = {.name = name,
                          .labels = true,
                          .label = t->values.label,
                          .weight = t->values.weight_column};
    if (m->from[0] != '\0' && d->columns != NULL) {
        TRY(model_opened(m, e));
        as.schema = &m->opened->run.schema;
    }
    return given_rows_open(to, d, &as, e);
}

static int set_data(struct training *t, struct err *e)
{
    const struct tug_data *d = t->data;
    // The environment variable TUG_REPORT has no effect: a program that wants a report
    // calls tug_model_report.
    t->values.report = NULL;
    t->values.data = (struct option_list){(const char **)(uintptr_t)d->paths, d->n_paths};
    if (!given_rows_are(d))
        return d->n_paths > 0 || (t->m->client != NULL && t->m->own_files)
                   ? 0
                   : err_set(e, TUG_EUSAGE,
                             "there is nothing to train on: give files, or rows");
    if (t->values.pipe_command != NULL)
        return err_set(
            e, TUG_EUSAGE,
            "--pipe-command works only with files, but the data is rows in memory");
    if (d->columns != NULL &&
        (t->values.columns != NULL || options_given(t->options, "separator")))
        return err_set(e, TUG_EUSAGE,
                       "--%s works only with files, but the data is in memory",
                       t->values.columns != NULL ? "columns" : "separator");
    TRY(open_rows(t, &t->rows, d, "data", e));
    t->path = t->rows.address;
    t->values.data = (struct option_list){&t->path, 1};
    return 0;
}

// Sets the option `valid` from the call's validation data. A relative path gets "./" in
// front, because a path such as "0.1" would be read as a fraction.
static int set_valid(struct training *t, struct err *e)
{
    const struct tug_data *d = t->valid;
    if (d == NULL)
        return 0;
    if (t->values.valid != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--valid is given as an option and as data: give "
                       "only one of them");
    bool rows = given_rows_are(d);
    char format[OPTION_NAME_MAX];
    options_word(TRAIN_FORMATS, t->values.format, format);
    if (!rows && d->n_paths != 1)
        return err_set(e, TUG_EUSAGE,
                       "the validation data has to be one path, or rows in memory");
    if (rows && strcmp(given_rows_format(d), format) != 0)
        return err_set(e, TUG_EUSAGE,
                       "the validation data is rows in memory of format %s, and the data "
                       "is of format %s",
                       given_rows_format(d), format);
    t->values.valid = t->valid_path;
    if (!rows)
        return d->paths[0][0] == '/' || strncmp(d->paths[0], "./", 2) == 0 ||
                       strchr(d->paths[0], ':') != NULL
                   ? (snprintf(t->valid_path, sizeof(t->valid_path), "%s", d->paths[0]),
                      0)
                   : file_join(t->valid_path, ".", d->paths[0], e);
    TRY(open_rows(t, &t->valid_rows, d, "valid", e));
    memcpy(t->valid_path, t->valid_rows.address, sizeof(t->valid_rows.address));
    return 0;
}

// Gets the number of passes that were trained before the save at `from`. Returns
// TUG_EUSAGE for a save from the middle of a pass, which could continue only with the data
// of that pass.
static int passes_done(const char *from, uint32_t *ret, struct err *e)
{
    struct saved_run *run = mem_zalloc(sizeof(*run));
    if (run == NULL)
        return err_nomem(e, "a model");
    int rc = saved_check_whole(from, e);
    if (rc == 0)
        rc = saved_read(run, from, e);
    if (rc == 0 && saved_run_within_pass(run))
        rc = err_set(e, TUG_EUSAGE,
                     "%s was saved in the middle of a pass, which must be finished "
                     "first: open the model with resume=yes and the same data",
                     from);
    *ret = run->at.epoch;
    saved_run_free(run);
    mem_free(run);
    return rc;
}

// Clears the options about saves on a worker that is not the first: the servers have the
// rows, and the first worker saves them.
static void set_out_elsewhere(struct training *t)
{
    t->values.out = NULL;
    t->values.init_from = NULL;
    t->values.resume = TRAIN_NEW;
    t->values.test = (struct option_list){0};
    t->values.history = t->values.tfevents = NULL;
    t->setup.config.all_or_nothing = true;
}

static int set_out(struct training *t, struct err *e)
{
    struct tug_model *m = t->m;
    uint32_t done = 0;
    if (m->client != NULL && !model_cluster_first(m)) {
        set_out_elsewhere(t);
        return 0;
    }
    t->setup.config.all_or_nothing = t->values.out == NULL;
    if (t->values.out == NULL) {
        TRY(model_make_home(m, e));
        TRY(file_join(t->out, m->home.path, "model", e));
        t->values.out = t->out;
        t->values.keep = 1;
    }
    if (m->from[0] == '\0')
        return 0;
    TRY(passes_done(m->from, &done, e));
    if (!m->own) {
        char copy[FILE_PATH_MAX];
        TRY(model_copy_save(m->from, t->values.out, copy, e));
        memcpy(m->from, copy, sizeof(copy));
        m->own = true;
        model_forget_opened(m);
    }
    t->values.resume = resumes_as(t);
    t->values.epochs += done;
    return 0;
}

static int prepare(struct training *t, struct err *e)
{
    TRY(train_parse(t, given_rows_are(t->data) ? given_rows_format(t->data) : NULL, e));
    TRY(model_cluster_check(t->m, &t->values, t->data, t->valid, e));
    TRY(model_cluster_join(t->m, &t->values, e));
    TRY(set_data(t, e));
    TRY(set_valid(t, e));
    TRY(set_out(t, e));
    bool alone = t->setup.config.all_or_nothing;
    t->setup.own_plan = t->m->from[0] != '\0' || t->m->client != NULL;
    last_warning_begin();
    int rc = train_configure(&t->setup, &t->values, t->options, model_cluster_node(t->m),
                             e);
    keep_warnings(t);
    TRY(rc);
    struct train_config *c = &t->setup.config;
    t->listener = (struct train_listener){hear, t};
    c->listener = &t->listener;
    c->all_or_nothing = alone;
    c->other_data = t->m->from[0] != '\0';
    return 0;
}

static void say_results(struct training *t)
{
    const struct train_result *r = &t->result;
    struct tug_model *m = t->m;
    const char *label = r->label[0];
    model_add(m, (double)(r->examples - r->held_out), "examples");
    model_add(m, (double)r->held_out, "held_out");
    model_add(m, (double)(m->elsewhere ? m->passes : r->epochs), "epochs");
    model_add(m, (double)r->keys, "keys");
    model_add(m, (double)r->skipped_lines, "skipped_lines");
    model_add(m, r->read_seconds, "read_seconds");
    model_add(m, r->train_seconds, "train_seconds");
    model_add(m, r->valid_seconds, "valid_seconds");
    model_add(m, r->save_seconds, "save_seconds");
    model_add(m, r->test_seconds, "test_seconds");
    double other = r->total_seconds - r->read_seconds - r->train_seconds -
                   r->valid_seconds - r->save_seconds - r->test_seconds;
    model_add(m, other > 0 ? other : 0, "other_seconds");
    model_add(m, r->total_seconds, "total_seconds");
    for (uint32_t k = 0; k < r->labels && t->has_last; k++) {
        const char *name = k > 0 ? r->label[k] : "", *colon = k > 0 ? ":" : "";
        model_add(m, t->last[k].auc, "train.%s%sauc", name, colon);
        model_add(m, t->last[k].logloss, "train.%s%slogloss", name, colon);
    }
    if (r->validated)
        model_add(m, (double)r->best_epoch, "best_epoch");
    if (r->validated)
        model_add_metrics(m, "valid.", r->valids, r->labels, label, TRAIN_LABEL_MAX);
    if (r->tested)
        model_add_metrics(m, "test.", r->tests, r->labels, label, TRAIN_LABEL_MAX);
}

static int train_work(void *ctx, struct err *e)
{
    struct training *t = ctx;
    bool level = options_given(t->options, "log-level");
    enum log_level wanted = level ? (enum log_level)t->values.log_level : LOG_WARN;
    log_want(wanted);
    t->printed = BUF_INIT(WARNINGS_TEXT);
    log_collect_warnings(&t->printed);
    int rc = t->m->client != NULL
                 ? model_cluster_run(t->m, &t->setup, (uint32_t)t->parsed.epochs,
                                     &t->result, e)
                 : train_setup_run(&t->setup, &t->result, e);
    log_collect_warnings(NULL);
    log_unwant(wanted);
    return rc;
}

// Moves the run's records of passes to the model. If the run resumed from a save, its
// records include the earlier passes; if not, the model already has those.
static void take_history(struct training *t, uint32_t before)
{
    struct history *run = &t->setup.history, *all = &t->m->history;
    if (before == 0) {
        history_free(all);
        *all = *run;
        *run = (struct history){0};
        return;
    }
    struct err ignored;
    memcpy(all->label, run->label, sizeof(all->label));
    all->labels = run->labels;
    for (size_t i = 0; i < run->n; i++) {
        run->pass[i].pass += before;
        (void)history_add(all, &run->pass[i], &ignored);
    }
}

static void warn_of_nothing(struct training *t)
{
    const struct train_result *r = &t->result;
    bool early = r->epochs < t->setup.config.epochs;
    last_warning_begin();
    log_warn(
        "there was nothing to train: the run in %s has done %u pass%s%s, and %s: give "
        "a larger %s to train longer",
        t->values.out, r->epochs, PLURAL_ES(r->epochs),
        r->within_pass ? " and a part of the next one" : "",
        early ? "validation has stopped it" : "no more are asked for",
        early ? "patience" : "epochs");
    keep_warnings(t);
}

static int train(struct training *t, struct err *e)
{
    struct tug_model *m = t->m;
    TRY(prepare(t, e));
    model_forget_opened(m); // frees the rows, so that they are not in memory twice
    bool counts = m->client == NULL || model_cluster_first(m);
    t->before = counts ? 0 : m->passes;
    uint32_t before = t->before;
    int rc = job_run(train_work, train_tell, t, &m->stop, e);
    if (rc == 0 || t->result.saved[0] != '\0')
        take_history(t, before);
    if (t->result.saved[0] != '\0') { // even if the test after the save was interrupted
        memcpy(m->from, t->result.saved, sizeof(t->result.saved));
        m->own = true;
    } else if (rc == 0) {
        m->from[0] = '\0';
        m->elsewhere = true;
    }
    if (rc == 0 && t->result.nothing_to_do && !t->setup.own_plan)
        warn_of_nothing(t);
    if (rc == 0)
        say_results(t);
    return rc;
}

// Stores the warnings of a training for the model's report, each on a line. A text that is
// too long ends with "...".
static void report_warnings(struct tug_model *m, const struct training *t)
{
    size_t room = sizeof(m->warnings);
    int n = snprintf(m->warnings, room, "%s%s%.*s", t->warning,
                     t->warning[0] != '\0' && t->printed.len > 0 ? "\n" : "",
                     (int)t->printed.len, t->printed.len > 0 ? t->printed.data : "");
    if (n >= (int)room)
        memcpy(m->warnings + room - 4, "...", 4);
}

int tug_model_train(struct tug_model *m, const struct tug_data *data,
                    const struct tug_data *valid)
{
    struct err *e = last_error();
    model_begin(m);
    m->n_values = 0;
    if (!m->trains) {
        given_rows_forget(data);
        given_rows_forget(valid);
        return model_end(
            m, err_set(e, TUG_EUSAGE,
                       "the model was loaded without options, so it cannot be trained: "
                       "load it with the options with which it was trained"));
    }
    struct training *t = open_training(m);
    if (t == NULL)
        return model_end(m, err_nomem(e, "a training"));
    t->data = data;
    t->valid = valid;
    int rc = train(t, e);
    last_warning_set(t->warning);
    if (rc == 0)
        report_warnings(m, t);
    close_training(t);
    given_rows_forget(data);
    given_rows_forget(valid);
    return model_end(m, rc);
}
