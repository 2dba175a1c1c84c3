// Models of a program (tug/train.h): opens, loads, saves and closes them, and returns
// their results.
//
// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "doors/models/model_cluster.h"
#include "doors/models/model_train.h"
#include "model/metrics.h"
#include "os/descriptors.h"
#include "os/disk.h"
#include "report/report.h"
#include "run/about.h"
#include "run/eval_options.h"
#include "run/predict_options.h"
#include "run/train_options.h"
#include "runtime/last_error.h"

void model_begin(struct tug_model *m)
{
    pthread_mutex_lock(&m->mutex);
    atomic_store(&m->stop, false);
    mem_free(m->explained);
    mem_free(m->tables);
    mem_free(m->predictions);
    m->explained = NULL;
    m->tables = NULL;
    m->predictions = NULL;
    m->n_predictions = 0;
}

int model_end(struct tug_model *m, int rc)
{
    pthread_mutex_unlock(&m->mutex);
    return rc;
}

int model_make_home(struct tug_model *m, struct err *e)
{
    return m->home.path[0] != '\0' ? 0 : temp_home_make(&m->home, "model", e);
}

void model_words_free(char **words, size_t n)
{
    for (size_t i = 0; i < n && words != NULL; i++)
        mem_free(words[i]);
    mem_free(words);
}

int model_words(const char *const *options, size_t n, char ***ret, struct err *e)
{
    char **words = mem_array(n + 1, sizeof(*words));
    if (words == NULL)
        return err_nomem(e, "options");
    for (size_t i = 0; i < n; i++) {
        size_t size = strlen(options[i]) + 3;
        words[i] = mem_alloc(size);
        if (words[i] == NULL) {
            model_words_free(words, i);
            return err_nomem(e, "options");
        }
        snprintf(words[i], size, "--%s", options[i]);
    }
    *ret = words;
    return 0;
}

static int model_refuse(const struct option_table *t, const struct options *o,
                        const char *not_here, struct err *e)
{
    for (size_t i = 0; i < t->n_options; i++) {
        const char *name = t->options[i].name, *found = strstr(not_here, name);
        size_t len = strlen(name);
        while (found != NULL && ((found > not_here && found[-1] != ' ') ||
                                 (found[len] != ' ' && found[len] != '\0')))
            found = strstr(found + 1, name);
        if (found != NULL && options_source(o, i) == OPTION_ARGS &&
            strcmp(name, "cv") == 0)
            return err_set(
                e, TUG_EUSAGE,
                "--cv is not supported in a program: train once for each part, "
                "with --valid 1/5 and so on (Python: tug.cv)");
        if (found != NULL && options_source(o, i) == OPTION_ARGS &&
            strcmp(name, "report") == 0)
            return err_set(e, TUG_EUSAGE,
                           "--report is not supported in a program: call "
                           "tug_model_report on the trained model (Python: "
                           "Model.report)");
        if (found != NULL && options_source(o, i) == OPTION_ARGS)
            return err_set(
                e, TUG_EUSAGE,
                "--%s is not supported in a program: leave it out, or use 'tug "
                "%s' on the saved model",
                name, t->command);
    }
    return 0;
}

// Names of environment variables TUG_<NAME> that programs may set besides those of
// options. They are not reported as misspelt options.
static const struct option told[] = {
    {.name = "scheduler"},    {.name = "cluster"},   {.name = "ca"},
    {.name = "cert"},         {.name = "key"},       {.name = "insecure"},
    {.name = "host"},         {.name = "port"},      {.name = "spin-us"},
    {.name = "wait-seconds"}, {.name = "save-root"}, {.name = "load-root"},
    {.name = "cold-root"},    {.name = "token"},     {.name = "kernels"}};
static const struct option_table program = {
    .command = "", .options = told, .n_options = sizeof(told) / sizeof(*told)};
static const struct option_table *const family[] = {&cli_train_options, &cli_eval_options,
                                                    &cli_predict_options, &program, NULL};

int model_parse(struct options **ret, const struct option_table *t, char *const *words,
                size_t n, const char *not_here, void *values, struct err *e)
{
    *ret = NULL;
    if (options_family == NULL) // otherwise a command has set its own list
        options_family = family;
    TRY(options_parse(ret, t, (int)n, words, values, OPTIONS_INCOMPLETE, e));
    if (options_help_wanted(*ret))
        return err_set(
            e, TUG_EUSAGE,
            "--help is not supported in a program: 'tug %s --help' prints the options",
            t->command);
    return model_refuse(t, *ret, not_here, e);
}

void model_forget_opened(struct tug_model *m)
{
    if (m->opened != NULL)
        model_close(m->opened);
    mem_free(m->opened);
    m->opened = NULL;
}

static int has_none(const struct tug_model *m, struct err *e)
{
    return err_set(e, TUG_EUSAGE,
                   m->elsewhere ? "only the first worker of the cluster has the model: "
                                  "make the call there, or load the first worker's save"
                                : "the model is not trained yet: train it first");
}

int model_opened(struct tug_model *m, struct err *e)
{
    if (m->from[0] == '\0')
        return has_none(m, e);
    if (m->opened != NULL)
        return 0;
    m->opened = mem_zalloc(sizeof(*m->opened));
    if (m->opened == NULL)
        return err_nomem(e, "a model");
    m->opened->interrupted = &m->stop;
    int rc = model_read(m->opened, m->from, 0, e);
    if (rc != 0)
        model_forget_opened(m);
    return rc;
}

void model_add(struct tug_model *m, double value, const char *format, ...)
{
    if (mem_room(&m->value, &m->cap_values, m->n_values + 1) != 0)
        return; // memory is short: the result is left out
    struct model_value *v = &m->value[m->n_values++];
    va_list args;
    va_start(args, format);
    vsnprintf(v->name, sizeof(v->name), format, args);
    va_end(args);
    v->value = value;
}

void model_add_metrics(struct tug_model *m, const char *prefix,
                       const struct metrics *metrics, uint32_t labels, const char *label,
                       size_t bytes)
{
    for (uint32_t k = 0; k < labels; k++) {
        struct metrics one = metrics[k];
        for (size_t i = 0; i < METRICS_FIELDS; i++)
            model_add(m, *metrics_value(&one, i), "%s%s%s%s", prefix,
                      k > 0 ? label + k * bytes : "", k > 0 ? ":" : "",
                      metrics_fields[i].name);
    }
}

bool tug_model_result(const struct tug_model *m, size_t i, const char **ret_name,
                      double *ret)
{
    if (i >= m->n_values)
        return false;
    *ret_name = m->value[i].name;
    *ret = m->value[i].value;
    return true;
}

const char *tug_model_tables(const struct tug_model *m)
{
    return m->tables;
}

const float *tug_model_predictions(const struct tug_model *m, size_t *ret_n)
{
    *ret_n = m->n_predictions;
    return m->predictions;
}

void tug_model_interrupt(struct tug_model *m)
{
    atomic_store(&m->stop, true);
}

struct tug_pass model_pass(const struct history_pass *p, uint32_t label)
{
    const struct history_score *valid = p->validated ? &p->valid[label] : NULL;
    return (struct tug_pass){
        .pass = p->pass,
        .examples = p->examples,
        .loss = p->seen[label].loss,
        .auc = p->seen[label].auc,
        .valid_examples = valid != NULL ? valid->examples : 0,
        .valid_loss = valid != NULL ? valid->loss : (double)NAN,
        .valid_auc = valid != NULL ? valid->auc : (double)NAN,
        .seconds = p->seconds,
        .best = p->best,
    };
}

bool tug_model_pass(const struct tug_model *m, size_t i, uint32_t label,
                    struct tug_pass *ret)
{
    if (i >= m->history.n || label >= m->history.labels)
        return false;
    *ret = model_pass(&m->history.pass[i], label);
    return true;
}

void model_spread(struct tug_model *m, const struct metrics_stream *seen)
{
    size_t bytes = sizeof(seen->positive);
    if (m->positive == NULL)
        m->positive = mem_alloc(bytes);
    if (m->negative == NULL)
        m->negative = mem_alloc(bytes);
    if (m->positive == NULL || m->negative == NULL)
        return;
    memcpy(m->positive, seen->positive, bytes);
    memcpy(m->negative, seen->negative, bytes);
}

size_t tug_model_spread(const struct tug_model *m, const double **ret_positive,
                        const double **ret_negative)
{
    *ret_positive = m->positive;
    *ret_negative = m->negative;
    return m->positive != NULL && m->negative != NULL ? METRICS_BUCKETS : 0;
}

static const struct schema *schema_of(struct tug_model *m)
{
    return model_opened(m, last_error()) == 0 ? &m->opened->run.schema : NULL;
}

uint32_t tug_model_labels(struct tug_model *m)
{
    pthread_mutex_lock(&m->mutex);
    const struct schema *s = schema_of(m);
    uint32_t n = s != NULL ? schema_labels(s) : 0;
    pthread_mutex_unlock(&m->mutex);
    return n;
}

uint64_t tug_model_columns(struct tug_model *m)
{
    pthread_mutex_lock(&m->mutex);
    uint64_t n = schema_of(m) != NULL ? m->opened->run.columns : 0;
    pthread_mutex_unlock(&m->mutex);
    return n;
}

const char *tug_model_label(struct tug_model *m, uint32_t i)
{
    pthread_mutex_lock(&m->mutex);
    const struct schema *s = schema_of(m);
    const char *name = s != NULL && i < schema_labels(s) ? schema_label(s, i) : NULL;
    bool nameless = s != NULL && i < schema_labels(s) && name == NULL;
    pthread_mutex_unlock(&m->mutex);
    return nameless ? "" : name;
}

static const struct option_table *options_of(const char *command)
{
    static const struct option_table *const tables[] = {
        &cli_train_options, &cli_eval_options, &cli_predict_options};
    for (size_t t = 0; t < sizeof(tables) / sizeof(*tables); t++)
        if (strcmp(tables[t]->command, command) == 0)
            return tables[t];
    return NULL;
}

bool tug_model_option(const char *command, size_t i, struct tug_option *ret)
{
    const struct option_table *t = options_of(command);
    if (t == NULL || i >= t->n_options)
        return false;
    const struct option *o = &t->options[i];
    *ret = (struct tug_option){.name = o->name,
                               .help = o->help,
                               .default_text = o->fallback,
                               .is_switch = o->kind == OPTION_FLAG,
                               .is_list = o->kind == OPTION_LIST};
    return true;
}

const char *tug_model_option_meant(const char *command, const char *name)
{
    const struct option_table *t = options_of(command);
    char meant[OPTION_NAME_MAX] = "";
    if (t != NULL)
        options_meant(t, name, strlen(name), meant);
    for (size_t i = 0; t != NULL && i < t->n_options; i++)
        if (strcmp(t->options[i].name, meant) == 0)
            return t->options[i].name;
    return NULL;
}

static int open_options(struct tug_model *m, const struct tug_model_options *o,
                        const struct saved_run *saved, struct err *e)
{
    m->trains = true;
    m->progress = o->progress;
    m->on_pass = o->on_pass;
    m->ctx = o->ctx;
    TRY(model_words(o->options, o->n_options, &m->words, e));
    m->n_words = o->n_options;
    return model_train_check(m, o, saved, e);
}

static int open_saved(struct tug_model *m, const char *from,
                      const struct tug_model_options *o, struct err *e)
{
    TRY(save_find(from, m->from, e));
    struct saved_run *run = mem_zalloc(sizeof(*run));
    if (run == NULL)
        return err_nomem(e, "a model");
    int rc = saved_read(run, m->from, e);
    if (rc == 0)
        rc = history_load(&m->history, m->from, e);
    history_cut(&m->history, run->at.epoch);
    if (rc == 0 && o != NULL)
        rc = open_options(m, o, run, e);
    saved_run_free(run);
    mem_free(run);
    return rc;
}

static int models_make(struct tug_model **ret, const char *from,
                       const struct tug_model_options *o, struct err *e)
{
    struct tug_model *m = mem_zalloc(sizeof(*m));
    last_warning_set("");
    if (m == NULL)
        return err_nomem(e, "a model");
    pthread_mutex_init(&m->mutex, NULL);
    int rc = from != NULL ? open_saved(m, from, o, e) : open_options(m, o, NULL, e);
    if (rc == 0)
        *ret = m;
    else
        tug_model_close(m);
    return rc;
}

int tug_model_open(struct tug_model **ret, const struct tug_model_options *o)
{
    descriptors_hold_standard();
    static const struct tug_model_options none;
    return models_make(ret, NULL, o != NULL ? o : &none, last_error());
}

int tug_model_load(struct tug_model **ret, const char *path,
                   const struct tug_model_options *o)
{
    return models_make(ret, path, o, last_error());
}

void tug_model_close(struct tug_model *m)
{
    if (m == NULL)
        return;
    model_forget_opened(m);
    model_cluster_leave(m);
    temp_home_remove(&m->home, 2); // two levels: home/model/save-000001
    model_words_free(m->words, m->n_words);
    history_free(&m->history);
    mem_free(m->value);
    mem_free(m->explained);
    mem_free(m->tables);
    mem_free(m->predictions);
    mem_free(m->positive);
    mem_free(m->negative);
    pthread_mutex_destroy(&m->mutex);
    mem_free(m);
}

json_t *model_page(const struct tug_model *m)
{
    size_t n = strlen(m->home.path);
    // If the save is in the temporary directory, the page does not show its path.
    bool mine = n > 0 && strncmp(m->from, m->home.path, n) == 0;
    json_t *page = about_saved(&m->opened->run, &m->history, mine ? "" : m->from);
    about_add_warnings(page, m->warnings);
    return page;
}

static int model_report(struct tug_model *m, const char *path, struct err *e)
{
    TRY(model_opened(m, e));
    TRY(report_data_check_file(path, NULL, e));
    json_begin();
    json_t *page = model_page(m);
    int rc = report_write_run(page, path, e);
    json_decref(page);
    return rc;
}

int tug_model_report(struct tug_model *m, const char *path)
{
    pthread_mutex_lock(&m->mutex);
    return model_end(m, model_report(m, path, last_error()));
}

int tug_model_save(struct tug_model *m, const char *directory)
{
    struct err *e = last_error();
    char path[FILE_PATH_MAX];
    pthread_mutex_lock(&m->mutex);
    int rc = m->from[0] != '\0' ? model_copy_save(m->from, directory, path, e)
                                : has_none(m, e);
    return model_end(m, rc);
}
