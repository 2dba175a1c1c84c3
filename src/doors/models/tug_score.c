// Metrics and predictions of a program's model (tug/train.h), as tug eval and tug predict
// make them.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/models/model_internal.h"
#include "os/log.h"
#include "report/report.h"
#include "run/about.h"
#include "run/eval_tables.h"
#include "run/explained.h"
#include "run/predict_options.h"
#include "runtime/job.h"
#include "runtime/last_error.h"
#include "train/evaluate/guard.h"

struct scoring {
    struct tug_model *m;
    const struct tug_data *data;
    char **words;
    size_t n_words;
    struct options *options;
    // The options of tug eval or of tug predict; the other struct is not used.
    struct eval_values eval;
    struct predict_values predict;
    struct model_values values; // the options of both commands, with the call's data
    struct given_rows rows;
    const char *path;
    enum scoring_what { EVALUATES, PREDICTS, EXPLAINS } what;
    struct metrics metrics[MODEL_MAX_TASKS];
    struct metrics_stream *seen; // an evaluation's histograms of the first label
    float *to;
    size_t room, n;
    struct buf text; // the explanations, as lines of JSON
    char warning[WARNINGS_TEXT];
    struct eval_tables tables;
};

static int score_parse(struct scoring *s, struct err *e)
{
    static const char *const not_here[] = {
        [EVALUATES] = "from data json log-format",
        [PREDICTS] = "from data out keep stream json log-format explain top",
        [EXPLAINS] = "from data out keep stream json log-format explain raw"};
    bool evaluates = s->what == EVALUATES;
    TRY(model_parse(&s->options, evaluates ? &cli_eval_options : &cli_predict_options,
                    s->words, s->n_words, not_here[s->what],
                    evaluates ? (void *)&s->eval : (void *)&s->predict, e));
    s->values = evaluates ? s->eval.model : s->predict.model;
    return evaluates ? eval_tables_check(&s->eval, s->options, e) : 0;
}

static int format_number(const char *format)
{
    char word[OPTION_NAME_MAX];
    int i = 0;
    while (strcmp(options_word(MODEL_FORMATS, i, word), format) != 0)
        i++;
    return i;
}

static int set_data(struct scoring *s, struct err *e)
{
    const struct tug_data *d = s->data;
    s->values.data = (struct option_list){(const char **)(uintptr_t)d->paths, d->n_paths};
    if (!given_rows_are(d))
        return d->n_paths > 0
                   ? 0
                   : err_set(e, TUG_EUSAGE,
                             "there is nothing to score: give files, or rows in memory");
    if (s->values.format != 0 || s->values.pipe_command != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--%s works only with files, but the data is rows in memory",
                       s->values.format != 0 ? "format" : "pipe-command");
    TRY(model_opened(s->m, e));
    const struct given_as as = {.name = "data",
                                .labels = s->what == EVALUATES,
                                .schema = &s->m->opened->run.schema};
    TRY(given_rows_open(&s->rows, d, &as, e));
    s->path = s->rows.address;
    s->values.data = (struct option_list){&s->path, 1};
    s->values.format = format_number(given_rows_format(d));
    return 0;
}

// Adds predictions to the histograms of tug_model_spread. Examples without a label do not
// count.
static int score_count_histograms(void *ctx, const struct dataset *d,
                                  const float *predictions, size_t n, struct err *e)
{
    enum { AT_ONCE = 256 };
    struct scoring *s = ctx;
    struct batch b = {0};
    uint64_t order[AT_ONCE];
    size_t tasks = schema_labels(&s->m->opened->run.schema);
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i += AT_ONCE) {
        size_t some = n - i < AT_ONCE ? n - i : AT_ONCE;
        for (size_t k = 0; k < some; k++)
            order[k] = i + k;
        rc = dataset_gather(d, order, some, &b);
        for (size_t k = 0; k < some && rc == 0; k++) {
            float label = b.label[k * b.labels], p = predictions[(i + k) * tasks];
            if (!isnan(label))
                metrics_stream_add(s->seen, LOSS_LOGISTIC, logf(p / (1 - p)), (double)p,
                                   label, b.weight != NULL ? b.weight[k] : 1);
        }
    }
    batch_free(&b);
    return rc == 0 ? 0 : err_nomem(e, "an evaluation");
}

// Stores the tables of an evaluation as JSON, which tug_model_tables returns.
static int keep_tables(struct scoring *s, struct err *e)
{
    json_begin();
    json_t *all = json_object();
    if (all != NULL)
        eval_tables_add_json(all, &s->tables);
    if (all != NULL && !json_memory_failed())
        s->m->tables = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return s->m->tables != NULL ? 0 : err_nomem(e, "the tables of an evaluation");
}

// Gives a warning about the numbering of keys, unless the model's last warning was the
// same.
static void hear(void *ctx, const char *text)
{
    struct scoring *s = ctx;
    if (strcmp(s->m->warned, text) == 0)
        return;
    snprintf(s->m->warned, sizeof(s->m->warned), "%s", text);
    log_warn("%s", text);
}

// Writes the page of the option `report`: about the training, and the evaluation of this
// data.
static int write_page(struct scoring *s, struct err *e)
{
    struct tug_model *m = s->m;
    json_begin();
    json_t *page = model_page(m);
    about_add_warnings(page, tug_last_warning());
    about_add_evaluation(page, &s->metrics[0], &s->tables,
                         given_rows_are(s->data) ? NULL : &s->values.data);
    int rc = report_write_run(page, s->eval.report, e);
    json_decref(page);
    return rc;
}

// Checks, before the evaluation, that the file of the option `report` can be written.
static int check_page(struct scoring *s, struct err *e)
{
    struct data_files read = {0};
    if (s->what != EVALUATES || s->eval.report == NULL)
        return 0;
    if (!given_rows_are(s->data))
        data_files_add_seen(&read, s->values.data.items, s->values.data.n);
    int rc = report_data_check_file(s->eval.report, &read, e);
    data_files_free(&read);
    return rc;
}

static int evaluate_all(struct scoring *s, struct err *e)
{
    struct opened_model *m = s->m->opened;
    struct evaluation_options o;
    TRY(eval_options_evaluation(m, &s->eval, &o, e));
    struct metrics_stream *seen = metrics_streams(1);
    if (seen == NULL)
        return err_nomem(e, "an evaluation");
    s->seen = seen;
    o.each = score_count_histograms;
    o.ctx = s;
    int rc = eval_tables_find(&o, &s->eval, &s->tables, s->metrics, e);
    if (rc == 0)
        model_spread(s->m, seen);
    mem_free(seen);
    TRY(rc);
    guard_columns(m->reader);
    guard_scores(&s->metrics[0], "this data", true);
    TRY(keep_tables(s, e));
    return s->eval.report != NULL ? write_page(s, e) : 0;
}

// If the model stores the predictions, enlarges its array for n more predictions.
static int score_make_room(struct scoring *s, size_t n, struct err *e)
{
    if (s->to != NULL || s->n + n <= s->room)
        return 0;
    return mem_room(&s->m->predictions, &s->room, s->n + n) == 0
               ? 0
               : err_nomem(e, "predictions");
}

static int score_take(void *ctx, const struct dataset *d, const float *predictions,
                      size_t n, struct err *e)
{
    struct scoring *s = ctx;
    (void)d;
    n *= schema_labels(&s->m->opened->run.schema);
    TRY(score_make_room(s, n, e));
    float *to = s->to != NULL ? s->to : s->m->predictions;
    size_t left = s->n < s->room ? s->room - s->n : 0;
    if (n > 0 && left > 0)
        memcpy(to + s->n, predictions, (n < left ? n : left) * sizeof(*to));
    s->n += n;
    return 0;
}

static int predict_all(struct scoring *s, struct err *e)
{
    struct opened_model *m = s->m->opened;
    struct evaluation_options o = model_evaluation(m, &s->predict.model);
    o.each = score_take;
    o.ctx = s;
    o.predict = true;
    o.raw = s->predict.raw;
    o.hold_places = true;
    TRY(evaluate(&o, s->metrics, e));
    guard_columns(m->reader);
    guard_scores(&s->metrics[0], "this data", false);
    return 0;
}

static int take_explained(void *ctx, const struct explained *x, struct err *e)
{
    struct scoring *s = ctx;
    return explained_put(&s->text, x, true) == 0 ? 0 : err_nomem(e, "an explanation");
}

static int explain_all(struct scoring *s, struct err *e)
{
    struct opened_model *m = s->m->opened;
    const struct predict_values *v = &s->predict;
    uint32_t labels = schema_labels(&m->run.schema);
    if (labels > 1)
        return err_set(e, TUG_EUSAGE,
                       "predictions can be explained only for models with one label, and "
                       "this model has %u labels",
                       labels);
    return explained_run(m, v, take_explained, s, e);
}

static int open_model(struct scoring *s, struct err *e)
{
    struct tug_model *m = s->m;
    TRY(model_opened(m, e));
    int threads = model_threads(s->values.threads);
    if (team_size(m->opened->team) != threads) {
        team_close(m->opened->team);
        m->opened->team = NULL;
        TRY(team_open(&m->opened->team, threads, e));
    }
    TRY(model_open_data(m->opened, &s->values, s->what == EVALUATES, e));
    return m->opened->parameters.sparse == NULL ? model_load(m->opened, e) : 0;
}

static int score_work(void *ctx, struct err *e)
{
    struct scoring *s = ctx;
    log_want(LOG_WARN);
    last_warning_begin();
    int rc = open_model(s, e);
    if (rc == 0) {
        s->m->opened->warn = hear;
        s->m->opened->warn_ctx = s;
        rc = s->what == EVALUATES  ? evaluate_all(s, e)
             : s->what == PREDICTS ? predict_all(s, e)
                                   : explain_all(s, e);
    }
    last_warning_end();
    snprintf(s->warning, sizeof(s->warning), "%s", tug_last_warning());
    log_unwant(LOG_WARN);
    if (s->m->opened != NULL && !given_rows_are(s->data))
        rc = model_read_error(s->m->opened, &s->values, rc, e);
    if (rc != 0)
        model_forget_opened(s->m); // perhaps only a part of the model's rows is loaded
    return rc;
}

static int score_data(struct scoring *s, const char *const *options, size_t n_options,
                      struct err *e)
{
    last_warning_set("");
    TRY(model_words(options, n_options, &s->words, e));
    s->n_words = n_options;
    TRY(score_parse(s, e));
    TRY(set_data(s, e));
    TRY(check_page(s, e));
    TRY(job_run(score_work, NULL, s, &s->m->stop, e));
    last_warning_set(s->warning);
    if (s->what != EVALUATES)
        return 0;
    const struct schema *schema = &s->m->opened->run.schema;
    char label[MODEL_MAX_TASKS][VALUE_NAME_MAX];
    for (uint32_t k = 0; k < schema_labels(schema); k++) {
        const char *name = schema_label(schema, k);
        snprintf(label[k], sizeof(label[k]), "%s", name != NULL ? name : "");
    }
    model_add(s->m, (double)s->metrics[0].examples, "examples");
    model_add_metrics(s->m, "", s->metrics, schema_labels(schema), label[0],
                      sizeof(label[0]));
    return 0;
}

static struct scoring *open_scoring(struct tug_model *m, const struct tug_data *data)
{
    struct scoring *s = mem_zalloc(sizeof(*s));
    if (s == NULL)
        return NULL;
    s->m = m;
    s->data = data;
    s->text = BUF_INIT(SIZE_MAX);
    return s;
}

static void close_scoring(struct scoring *s)
{
    options_close(s->options);
    model_words_free(s->words, s->n_words);
    given_rows_close(&s->rows);
    buf_free(&s->text);
    eval_tables_free(&s->tables);
    mem_free(s);
}

int tug_model_evaluate(struct tug_model *m, const struct tug_data *data,
                       const char *const *options, size_t n_options)
{
    struct err *e = last_error();
    model_begin(m);
    m->n_values = 0;
    struct scoring *s = open_scoring(m, data);
    if (s == NULL)
        return model_end(m, err_nomem(e, "an evaluation"));
    int rc = score_data(s, options, n_options, e);
    close_scoring(s);
    given_rows_forget(data);
    return model_end(m, rc);
}

int tug_model_predict(struct tug_model *m, const struct tug_data *data,
                      const char *const *options, size_t n_options, float *ret,
                      size_t room, size_t *ret_n)
{
    struct err *e = last_error();
    model_begin(m);
    *ret_n = 0;
    struct scoring *s = open_scoring(m, data);
    if (s == NULL)
        return model_end(m, err_nomem(e, "predictions"));
    s->what = PREDICTS;
    s->to = ret;
    s->room = ret != NULL ? room : 0;
    int rc = score_data(s, options, n_options, e);
    *ret_n = rc == 0 ? s->n : 0;
    if (rc == 0 && ret == NULL)
        m->n_predictions = s->n;
    else if (rc == 0 && s->n > room)
        rc = err_set(e, TUG_EUSAGE, "there are %zu predictions, and room for %zu", s->n,
                     room);
    close_scoring(s);
    given_rows_forget(data);
    return model_end(m, rc);
}

int tug_model_explain(struct tug_model *m, const struct tug_data *data,
                      const char *const *options, size_t n_options, const char **ret)
{
    struct err *e = last_error();
    model_begin(m);
    *ret = NULL;
    struct scoring *s = open_scoring(m, data);
    if (s == NULL)
        return model_end(m, err_nomem(e, "an explanation"));
    s->what = EXPLAINS;
    int rc = score_data(s, options, n_options, e);
    const char *text = rc == 0 ? buf_str(&s->text) : NULL;
    if (rc == 0 && text == NULL)
        rc = err_nomem(e, "an explanation");
    if (rc == 0) { // the model owns the text from now on
        mem_free(m->explained);
        *ret = m->explained = s->text.data;
        s->text = BUF_INIT(0);
    }
    close_scoring(s);
    given_rows_forget(data);
    return model_end(m, rc);
}
