// See about.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/about.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/printable.h"
#include "kernels/kernels.h"
#include "os/clock.h"
#include "os/file.h"
#include "tug/tug.h"

enum { TEXT_MAX = 1 << 20 };

// Returns a text that may not be UTF-8 (the name of a file) as a JSON string.
static json_t *text(const char *t, size_t n)
{
    struct buf b = BUF_INIT(TEXT_MAX);
    const char *shown = printable_add(&b, t, n) == 0 ? buf_str(&b) : NULL;
    json_t *ret = shown != NULL ? json_string(shown) : json_null();
    buf_free(&b);
    return ret;
}

static json_t *texts(const char *const *items, size_t n)
{
    json_t *all = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(all, text(items[i], strlen(items[i])));
    return all;
}

// ---------------------------------------------------------------- options

// Appends a word as a shell reads it.
static int quote(struct buf *b, const char *word)
{
    static const char plain[] = "_./=:,+-@%";
    size_t n = strlen(word), i = 0;
    while (i < n && (isalnum((unsigned char)word[i]) || strchr(plain, word[i]) != NULL))
        i++;
    if (n > 0 && i == n)
        return buf_printf(b, " %s", word);
    TRY(buf_add(b, " '", 2));
    for (i = 0; i < n; i++)
        TRY(word[i] == '\'' ? buf_add(b, "'\\''", 4) : buf_add(b, word + i, 1));
    return buf_add(b, "'", 1);
}

static int add_word(struct buf *b, const struct option *o, const char *value,
                    const void *values)
{
    const char *at = (const char *)values + o->offset;
    if (o->kind == OPTION_FLAG)
        return buf_printf(b, " --%s%s", *(const bool *)at ? "" : "no-", o->name);
    // An option with an optional value takes a value only after '='.
    TRY(buf_printf(b, " --%s", o->name));
    if (o->bare != NULL)
        return buf_printf(b, "=%s", value);
    if (o->kind != OPTION_LIST)
        return quote(b, value);
    const struct option_list *l = (const void *)at;
    for (size_t i = 0; i < l->n; i++)
        TRY(quote(b, l->items[i]));
    return 0;
}

// Adds to `to` the options that differ from their defaults, and to `line` those that the
// user gave.
static int add_options(json_t *to, struct buf *line, const struct option_table *t,
                       const struct options *o, const void *values)
{
    int rc = buf_printf(line, "tug %s", t->command);
    for (size_t i = 0; i < t->n_options && rc == 0; i++) {
        const struct option *one = &t->options[i];
        enum option_source source = options_source(o, i);
        struct buf b = BUF_INIT(TEXT_MAX);
        if (source == OPTION_DEFAULT)
            continue;
        rc = options_text(o, i, &b);
        const char *value = rc == 0 ? buf_str(&b) : NULL, *usual = one->fallback;
        bool same = value != NULL && usual != NULL && strcmp(value, usual) == 0;
        if (value != NULL && source != OPTION_PRESET)
            rc = add_word(line, one, value, values);
        if (value != NULL && !same && strcmp(one->name, "json") != 0 &&
            strcmp(one->name, "report") != 0)
            json_array_append_new(
                to, json_pack("{s:s, s:o, s:s?, s:o}", "name", one->name, "value",
                              text(value, strlen(value)), "default", usual, "from",
                              text(options_place(o, i), strlen(options_place(o, i)))));
        buf_free(&b);
    }
    return rc;
}

// ---------------------------------------------------------------- the process

// Returns the processor's name in /proc/cpuinfo; null if it has none.
static json_t *cpu_name(void)
{
    static const char *const names[] = {"model name", "cpu model", "Model"};
    char line[512];
    json_t *ret = NULL;
    FILE *f = fopen("/proc/cpuinfo", "re");
    while (f != NULL && ret == NULL && fgets(line, sizeof(line), f) != NULL) {
        const char *colon = strchr(line, ':');
        for (size_t i = 0; colon != NULL && ret == NULL && i < 3; i++)
            if (strncmp(line, names[i], strlen(names[i])) == 0) {
                colon += strspn(colon, ": \t");
                ret = text(colon, strcspn(colon, "\n"));
            }
    }
    if (f != NULL)
        fclose(f);
    return ret != NULL ? ret : json_null();
}

// Returns a time as "2026-01-31T12:00:00Z".
static json_t *time_text(uint64_t unix_ns)
{
    char shown[32];
    time_t seconds = (time_t)(unix_ns / SECOND_NS);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    size_t n = strftime(shown, sizeof(shown), "%Y-%m-%dT%H:%M:%SZ", &tm);
    return text(shown, n);
}

static json_t *warnings(const struct buf *b)
{
    json_t *all = json_array();
    for (const char *at = b->data, *end = at + b->len; b->len > 0 && at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((stop != NULL ? stop : end) - at);
        json_array_append_new(all, text(at, n));
        at += n + 1;
    }
    return all;
}

static void add_run(json_t *to, const struct option_table *t, const struct options *o,
                    const void *values, const struct report_data *p)
{
    char host[256] = "", directory[FILE_PATH_MAX];
    struct buf line = BUF_INIT(TEXT_MAX);
    json_t *options = json_array();
    bool whole = add_options(options, &line, t, o, values) == 0;
    (void)gethostname(host, sizeof(host) - 1);
    bool known = getcwd(directory, sizeof(directory)) != NULL;
    json_object_set_new(
        to, "run",
        json_pack("{s:o, s:o, s:o, s:s, s:s, s:o, s:o, s:i, s:o, s:o}", "command",
                  whole ? text(line.data, line.len) : json_null(), "directory",
                  known ? text(directory, strlen(directory)) : json_null(), "options",
                  options, "version", tug_version(), "kernels", kernels_get()->name,
                  "cpu", cpu_name(), "host", text(host, strlen(host)), "cores",
                  (int)sysconf(_SC_NPROCESSORS_ONLN), "began",
                  time_text(p->began_unix_ns), "warnings", warnings(&p->warnings)));
    buf_free(&line);
}

// ---------------------------------------------------------------- data and curves

static void add_data(json_t *to, const char *use, json_t *files, uint64_t examples,
                     double positives)
{
    json_array_append_new(to, json_pack("{s:s, s:o, s:I, s:o}", "use", use, "files",
                                        files, "examples", (json_int_t)examples,
                                        "positives", json_real_or_null(positives)));
}

static double positives_of(const struct curves *c)
{
    return c->bars > 0 ? c->positives : (double)NAN;
}

static json_t *course(const struct report_data *p)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < p->points; i++) {
        const struct report_data_point *x = &p->point[i];
        json_array_append_new(
            all, json_pack("{s:i, s:I, s:o, s:o, s:o, s:o}", "pass", (int)x->pass,
                           "examples", (json_int_t)x->examples, "loss",
                           json_real_or_null(x->loss), "auc", json_real_or_null(x->auc),
                           "window_loss", json_real_or_null(x->window_loss), "window_auc",
                           json_real_or_null(x->window_auc)));
    }
    return all;
}

static json_t *train_data(const struct result *r, const struct train_setup *s)
{
    const struct train_config *c = &s->config;
    const struct report_data *p = &s->report_data;
    bool clicks = c->reader.loss == LOSS_LOGISTIC;
    json_t *all = json_array();
    add_data(all, "train", texts(c->data.items, c->data.n), r->examples,
             clicks ? p->positives : (double)NAN);
    if (r->validated)
        add_data(all, "valid", texts(c->valid.items, c->valid.n), r->valid.examples,
                 positives_of(&p->valid));
    if (r->tested)
        add_data(all, "test", texts(c->test.items, c->test.n), r->test.examples,
                 positives_of(&p->test));
    return all;
}

void about_add_train(json_t *to, const struct result *r, const struct train_setup *s)
{
    const struct report_data *p = &s->report_data;
    const struct curves *c = r->tested ? &p->test : &p->valid;
    if (to == NULL)
        return;
    json_object_set_new(to, "course", course(p));
    json_object_set_new(to, "data", train_data(r, s));
    if (c->bars > 0) {
        json_object_set_new(to, "curves_of", json_string(r->tested ? "test" : "valid"));
        curves_add_json(to, c);
    }
    if (p->has_importance && r->tested)
        json_object_set_new(to, "importance", importance_to_json(&p->importance));
    add_run(to, &cli_train_options, s->options, s->values, p);
}

// Adds the data of an evaluation and its curves.
static void add_scored(json_t *to, uint64_t examples, const struct eval_tables *t,
                       const struct option_list *files)
{
    const struct curves *c = &t->curves;
    json_t *data = json_object_get(to, "data");
    if (data == NULL) {
        data = json_array();
        json_object_set_new(to, "data", data);
    }
    add_data(data, "test",
             files != NULL ? texts(files->items, files->n)
                           : json_pack("[s]", "(in memory)"),
             examples, positives_of(c));
    if (c->bars > 0) {
        json_object_set_new(to, "curves_of", json_string("test"));
        curves_add_json(to, c);
    }
}

void about_add_eval(json_t *to, const struct result *r, const struct options *o,
                    const struct eval_values *v, const struct report_data *p)
{
    if (to == NULL)
        return;
    add_scored(to, r->examples, r->tables, &v->model.data);
    add_run(to, &cli_eval_options, o, v, p);
}

void about_add_warnings(json_t *to, const char *lines)
{
    json_t *run = json_object_get(to, "run");
    struct buf b = {.data = (char *)(uintptr_t)lines, .len = strlen(lines)};
    json_t *all = json_object_get(run, "warnings"), *more = warnings(&b);
    if (all == NULL)
        json_object_set_new(run, "warnings", more);
    else
        json_array_extend(all, more);
    if (all != NULL)
        json_decref(more);
}

void about_add_evaluation(json_t *to, const struct metrics *m,
                          const struct eval_tables *t, const struct option_list *files)
{
    if (to == NULL)
        return;
    result_add_metrics(to, m);
    eval_tables_add_json(to, t);
    add_scored(to, m->examples, t, files);
}

// ---------------------------------------------------------------- saves

// Adds an option of a save. The options "linear" and "latent" are objects with the
// parameters of a rule. Numbers are printed with the digits of a float.
static void add_saved_option(json_t *to, const char *of, const char *name, json_t *v)
{
    char full[128], value[64];
    const char *member;
    json_t *one;
    if (json_is_object(v)) {
        json_object_foreach(v, member, one)
            add_saved_option(to, name, member, one);
        return;
    }
    snprintf(full, sizeof(full), "%s%s%s", of, of[0] != '\0' ? "." : "", name);
    snprintf(value, sizeof(value), "%.7g", json_number_value(v));
    const char *shown = json_is_string(v) ? json_string_value(v) : value;
    if (strcmp(full, "seed") == 0 && json_is_string(v)) { // a save has the seed in base
                                                          // 16
        snprintf(value, sizeof(value), "%llu", strtoull(shown, NULL, 16));
        shown = value;
    } else if (strcmp(full, "schedule") == 0) {
        (void)options_word(SCHEDULE_NAMES, (int)json_integer_value(v), value);
    }
    if (json_is_boolean(v))
        snprintf(value, sizeof(value), "%s", json_is_true(v) ? "true" : "false");
    json_array_append_new(
        to, json_pack("{s:s, s:s, s:s}", "name", full, "value", shown, "from", "save"));
}

static json_t *saved_options(const struct saved_run *run)
{
    json_t *all = json_array(), *of = saved_options_to_json(&run->options), *v;
    const char *name;
    json_object_foreach(of, name, v)
        add_saved_option(all, "", name, v);
    json_decref(of);
    return all;
}

json_t *about_saved(const struct saved_run *run, const struct history *h, const char *dir)
{
    // Leaves out the examples that are held out for validation, as a run's own result
    // does.
    uint64_t examples = h->n > 0 ? h->pass[h->n - 1].examples : run->examples;
    json_t *o = json_pack("{s:s, s:s, s:I, s:i, s:o, s:o, s:{s:b, s:o, s:s, s:o}}",
                          "command", "train", "model", run->options.model.ops->name,
                          "examples", (json_int_t)examples, "epochs", (int)run->at.epoch,
                          "out", text(dir, strlen(dir)), "history", history_to_json(h),
                          "run", "of_save", 1, "options", saved_options(run), "version",
                          tug_version(), "cpu", cpu_name());
    struct metrics m = run->best_valid;
    json_t *valid = run->has_best ? json_pack("{s:i}", "epoch", (int)run->best_epoch)
                                  : NULL;
    for (size_t i = 0; valid != NULL && i < METRICS_FIELDS; i++)
        json_object_set_new(valid, metrics_fields[i].name,
                            json_real_or_null(*metrics_value(&m, i)));
    if (valid != NULL)
        json_object_set_new(o, "valid", valid);
    return o;
}
