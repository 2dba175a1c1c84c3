// See train_resumed.h. Each option of saved_options_to_json and of saved_plan is filled in
// here, as it would be typed: settings (model/setting.h) by their kinds, others by hand.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/train_resumed.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "os/log.h"
#include "rule/rule.h"
#include "train/saved/saved.h"

// The copy of the options, and the first error in making it.
struct filling {
    struct options *options;
    const char *place; // the directory of the save
    const struct saved_run *run;
    int rc;
    struct err *e;
};

PRINTF_LIKE(3, 4)
static void train_resumed_fill(struct filling *f, const char *name, const char *format,
                               ...)
{
    char text[SAVED_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (f->rc == 0)
        f->rc = options_fill(f->options, name, text, f->place, f->e);
}

static void fill_text(struct filling *f, const char *name, const char *text)
{
    if (text[0] != '\0')
        train_resumed_fill(f, name, "%s", text);
}

static void fill_word(struct filling *f, const char *name, const char *words, int index)
{
    char word[OPTION_NAME_MAX];
    train_resumed_fill(f, name, "%s", options_word(words, index, word));
}

// Sets a flag. A flag without a default is off already, so only `on` is set.
static void fill_flag(struct filling *f, const char *name, bool on)
{
    if (on || options_has(f->options, name))
        train_resumed_fill(f, name, "%s", on ? "true" : "false");
}

// Fills in a rule's name, followed by the numbers that differ from its defaults.
static void fill_rule(struct filling *f, const char *name, const struct rule_params *p,
                      const struct rule_params *usual)
{
    const struct {
        const char *name;
        float is, usual;
    } numbers[] = {{"n0", p->n0, usual->n0},
                   {"beta", p->beta, usual->beta},
                   {"beta1", p->beta1, usual->beta1},
                   {"beta2", p->beta2, usual->beta2}};
    char text[256];
    int at = snprintf(text, sizeof(text), "%s", rule_info(p->kind)->name);
    const char *before = ":";
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        if (numbers[i].is == numbers[i].usual)
            continue;
        at += snprintf(text + at, sizeof(text) - (size_t)at, "%s%s=%.9g", before,
                       numbers[i].name, (double)numbers[i].is);
        before = ",";
    }
    train_resumed_fill(f, name, "%s", text);
}

// Fills in the rates and penalties of the save's rules. The caller checks that the run
// has the same rules, because other rules may lack them.
static void fill_rates(struct filling *f, const struct model_options *m)
{
    struct model_options usual;
    model_defaults(&usual, m->ops, m->latent.kind);
    train_resumed_fill(f, "lr", "%.9g", (double)m->linear.lr);
    if (m->linear.l1 != usual.linear.l1 || m->latent.l1 != usual.latent.l1)
        train_resumed_fill(f, "l1", "%.9g", (double)m->linear.l1);
    if (m->linear.l2 != usual.linear.l2 || m->latent.l2 != usual.latent.l2)
        train_resumed_fill(f, "l2", "%.9g", (double)m->linear.l2);
    if (m->linear.prior != usual.linear.prior || m->latent.prior != usual.latent.prior)
        train_resumed_fill(f, "prior", "%.9g", (double)m->linear.prior);
    train_resumed_fill(f, "latent-lr", "%.9g", (double)m->latent.lr);
    if (m->ops->dense != NULL)
        train_resumed_fill(f, "dense-lr", "%.9g", (double)m->dense.lr);
}

// Returns whether the save's value of a setting could have been typed.
static bool could_be_typed(const struct filling *f, const char *name)
{
    const struct model_options *m = &f->run->options.model;
    struct model_options usual;
    if (strcmp(name, "deterministic") == 0)
        // --mode decides whether the run is deterministic.
        return !options_given(f->options, "mode");
    if (strcmp(name, "fields") == 0) // other formats have columns or slots instead
        return m->fields > 0 && strcmp(f->run->schema.format, "libffm") == 0;
    if (strcmp(name, "cross") == 0)
        return m->cross > 0; // models without cross layers have no such option
    if (strcmp(name, "normalize") != 0)
        return true;
    model_defaults(&usual, m->ops, m->latent.kind);
    return m->normalize != usual.normalize;
}

// Fills in the settings of a list from the struct `from`, by their kinds.
#define FILL(kind, member, name, arg, was)                                               \
    if (could_be_typed(f, name))                                                         \
        FILL_##kind(f, name, from->member, arg);
#define FILL_flag(f, name, x, none) fill_flag(f, name, x)
#define FILL_u32(f, name, x, most) train_resumed_fill(f, name, "%u", x)
#define FILL_u64(f, name, x, most) train_resumed_fill(f, name, "%" PRIu64, x)
#define FILL_f32(f, name, x, none) train_resumed_fill(f, name, "%.9g", (double)(x))
#define FILL_hex(f, name, x, none) FILL_u64(f, name, x, none)
#define FILL_word(f, name, x, words) fill_word(f, name, words, x)

static void fill_layers(struct filling *f, const struct model_options *from,
                        const struct model_options *usual)
{
    char hidden[MODEL_HIDDEN_TEXT_MAX], tower[MODEL_HIDDEN_TEXT_MAX],
        weights[MODEL_WEIGHTS_TEXT_MAX];
    struct rule_params dense = from->dense.kind == usual->dense.kind
                                   ? usual->dense
                                   : rule_defaults(from->dense.kind);
    model_hidden_print(from->hidden, hidden);
    model_hidden_print(from->tower, tower);
    model_weights_print(from->task_weight, weights);
    fill_text(f, "hidden", hidden);
    if (from->tasks > 1) {
        fill_text(f, "tower", tower);
        fill_text(f, "task-weights", weights);
    }
    LAYER_SETTINGS(FILL)
    if (from->dense.kind != usual->dense.kind || !rule_same(&dense, &from->dense))
        fill_rule(f, "dense-optimizer", &from->dense, &dense);
}

// Fills in the options of the model, including those without effect on it, which the save
// also has.
static void fill_model(struct filling *f)
{
    const struct model_options *from = &f->run->options.model;
    struct model_options usual;
    model_defaults(&usual, from->ops, from->latent.kind);
    train_resumed_fill(f, "model", "%s", from->ops->name);
    fill_rule(f, "optimizer", &from->latent, &usual.latent);
    MODEL_SETTINGS(FILL)
    fill_text(f, "dims", f->run->options.dims);
    if (from->ops->dense != NULL)
        fill_layers(f, from, &usual);
}

static void fill_valid(struct filling *f, struct held_out h)
{
    if (!(h.share > 0))
        return;
    if (!(h.from > 0)) {
        train_resumed_fill(f, "valid", "%.17g", h.share);
        return;
    }
    double parts = round(1 / h.share);
    train_resumed_fill(f, "valid", "%.0f/%.0f", round(h.from * parts) + 1, parts);
}

// Fills in the options of training. `t` has the options that the user gave. A program
// that calls the library may give validation data itself.
static void fill_training(struct filling *f, const struct train_options *t, bool cluster)
{
    const struct saved_options *from = &f->run->options;
    if (from->schedule.kind != SCHEDULE_CONSTANT) {
        fill_word(f, "schedule", SCHEDULE_NAMES, (int)from->schedule.kind);
        train_resumed_fill(f, "schedule-a", "%.17g", from->schedule.a);
        train_resumed_fill(f, "schedule-b", "%.17g", from->schedule.b);
    }
    TRAINING_SETTINGS(FILL, SETTING_NOTHING)
    if (from->streaming)
        train_resumed_fill(f, "window", "%" PRIu64, from->window_bytes >> 20);
    if (t->valid == NULL)
        fill_valid(f, from->valid_part);
    fill_text(f, "table", from->table);
    fill_text(f, "merge-ids", from->merge);
    if (cluster && strncmp(from->shuffle, "global", 6) == 0) {
        train_resumed_fill(f, "shuffle", "global");
        if (strncmp(from->shuffle, "global by ", 10) == 0)
            train_resumed_fill(f, "shuffle-by", "%s", from->shuffle + 10);
    }
}

// Fills in the options of the mode in which workers cooperated. One process has no such
// options, and the options that depend on the mode are taken only with the saved mode.
static void fill_mode(struct filling *f, const struct saved_options *s,
                      const struct saved_plan *p)
{
    const struct options *o = f->options;
    if (p->mode[0] == '\0' || options_given(o, "mode") ||
        options_given(o, "deterministic"))
        return;
    train_resumed_fill(f, "mode", "%s", p->mode);
    train_resumed_fill(f, "rules", "%s", p->rules);
    train_resumed_fill(f, "values", "%s", p->bf16 ? "bf16" : "f32");
    if (p->dense_bounded)
        train_resumed_fill(f, "dense-staleness", "%u", p->dense_staleness);
    uint32_t usual = s->model.ops->dense != NULL ? 1 : TRAIN_MAX_IN_FLIGHT;
    if (p->in_flight != usual && strcmp(p->mode, "sync") != 0)
        train_resumed_fill(f, "in-flight", "%u", p->in_flight);
}

// Fills in when the run ends, when it saves, and how its workers cooperate.
static void fill_plan(struct filling *f, const struct train_options *t, bool cluster)
{
    const struct saved_plan *from = &f->run->plan;
    bool living = t->table != NULL || saved_run_has_lifecycle(f->run);
    if (from->epochs == 0)
        return; // an older save has no plan
    PLAN_SETTINGS(FILL, FILL, SETTING_NOTHING)
    if (from->save_passes > 0)
        train_resumed_fill(f, "save-every", "%u", from->save_passes);
    else if (from->save_batches > 0 && (living || !cluster))
        train_resumed_fill(f, "save-every", "%" PRIu64 "batches", from->save_batches);
    if (cluster)
        fill_mode(f, &f->run->options, from);
    else if (from->mode[0] != '\0' && strcmp(from->mode, "sync") != 0 &&
             strcmp(from->mode, "async") != 0)
        log_warn("the run was trained on a cluster with --mode %s, which one process "
                 "does not have: the run continues %s",
                 from->mode,
                 f->run->options.deterministic ? "with --deterministic" : "as async");
}

// Returns whether a rule that the user gave, as "adagrad:n0=1", is of another kind.
static bool is_other_rule(const struct options *o, const char *name, const char *given,
                          enum rule_kind saved)
{
    const char *is = rule_info(saved)->name;
    size_t n = given != NULL ? strcspn(given, ":") : 0;
    return options_given(o, name) && (strlen(is) != n || memcmp(is, given, n) != 0);
}

static bool is_other_model(const struct saved_options *s, const struct train_options *t,
                           const struct options *o)
{
    char name[OPTION_NAME_MAX];
    const struct model_ops *ops;
    return model_find(options_word(TRAIN_MODELS, t->model, name), &ops, NULL) != 0 ||
           (options_given(o, "model") && ops != s->model.ops);
}

static bool has_other_rules(const struct saved_options *s, const struct train_options *t,
                            const struct options *o)
{
    return is_other_rule(o, "optimizer", t->optimizer, s->model.latent.kind) ||
           (s->model.ops->dense != NULL &&
            is_other_rule(o, "dense-optimizer", t->dense_optimizer, s->model.dense.kind));
}

// Fills in the options on which the save's rows, layers and scores depend. A new run does
// not take rates, penalties and other parameters of rules.
static void fill_shape(struct filling *f, const struct saved_options *s,
                       const struct train_options *t)
{
    const struct model_options *m = &s->model;
    struct model_options usual;
    char hidden[MODEL_HIDDEN_TEXT_MAX], tower[MODEL_HIDDEN_TEXT_MAX];
    bool layers = m->ops->dense != NULL;
    model_defaults(&usual, m->ops, m->latent.kind);
    train_resumed_fill(f, "model", "%s", m->ops->name);
    train_resumed_fill(f, "optimizer", "%s", rule_info(m->latent.kind)->name);
    if (m->normalize != usual.normalize)
        fill_flag(f, "normalize", m->normalize);
    if (m->ops->layout != NULL)
        train_resumed_fill(f, "dim", "%u", m->dim);
    fill_text(f, "dims", s->dims);
    fill_text(f, "table", s->table);
    if (layers)
        train_resumed_fill(f, "pooling", "%s", m->pooling_mean ? "mean" : "sum");
    if (!layers || (t->init_tables != NULL && strstr(t->init_tables, "dense") == NULL))
        return;
    model_hidden_print(m->hidden, hidden);
    model_hidden_print(m->tower, tower);
    fill_text(f, "hidden", hidden);
    if (m->tasks > 1)
        fill_text(f, "tower", tower);
    if (m->cross > 0)
        train_resumed_fill(f, "cross", "%u", m->cross);
    fill_flag(f, "batch-norm", m->batch_norm);
    fill_flag(f, "data-norm", m->data_norm);
    train_resumed_fill(f, "dense-optimizer", "%s", rule_info(m->dense.kind)->name);
}

// Copies the options and fills in those of the save.
static int train_resumed_take(struct train_setup *setup, const struct train_options **t,
                              const struct options **o, const struct saved_run *run,
                              bool resumes, const struct node *node, struct err *e)
{
    struct filling f = {.place = setup->taken_from, .run = run, .e = e};
    bool other_rules = has_other_rules(&run->options, *t, *o);
    if (other_rules)
        setup->typed = *o;
    options_close(setup->taken_options);
    setup->taken = **t;
    f.rc = options_copy(&f.options, *o, &setup->taken, e);
    setup->taken_options = f.options;
    if (f.rc != 0)
        return f.rc;
    if (!resumes) {
        fill_shape(&f, &run->options, *t);
    } else {
        fill_model(&f);
        if (!other_rules)
            fill_rates(&f, &run->options.model);
        if (!setup->own_plan)
            fill_plan(&f, *t, node != NULL);
        fill_training(&f, *t, node != NULL);
    }
    *t = &setup->taken;
    *o = setup->taken_options;
    return f.rc;
}

int train_take_run(struct train_setup *setup, const struct saved_run *run,
                   const char *dir, const struct train_options **t,
                   const struct options **o, const struct node *node, struct err *e)
{
    snprintf(setup->taken_from, sizeof(setup->taken_from), "%s", dir);
    return train_resumed_take(setup, t, o, run, true, node, e);
}

int train_take_saved(struct train_setup *setup, const struct train_options **t,
                     const struct options **o, const struct node *node, struct err *e)
{
    struct err ignored; // checkpoint.c will report why a save cannot be read
    bool resumes = (*t)->resume != TRAIN_NEW && (*t)->out != NULL && saved_any((*t)->out);
    const char *from = resumes                        ? (*t)->out
                       : (*t)->resume != TRAIN_RESUME ? (*t)->init_from
                                                      : NULL;
    setup->typed = NULL;
    if (from == NULL)
        return 0;
    struct saved_run *run = mem_zalloc(sizeof(*run));
    if (run == NULL)
        return err_nomem(e, "a saved model");
    int rc = 0;
    if (saved_read_newest(run, setup->taken_from, from, &ignored) == 0) {
        if (is_other_model(&run->options, *t, *o))
            setup->typed = *o;
        else
            rc = train_resumed_take(setup, t, o, run, resumes, node, e);
    }
    saved_run_free(run);
    mem_free(run);
    return rc;
}

// Returns whether the text has the option as a whole word or, if the option is the model,
// has "fm model" with the model's name.
static bool names_option(const char *text, const char *name, const char *model)
{
    char option[OPTION_NAME_MAX + 8];
    const char *at = text;
    snprintf(option, sizeof(option), "%s model", model);
    if (strcmp(name, "model") == 0 && strstr(text, option) != NULL)
        return true;
    size_t n = (size_t)snprintf(option, sizeof(option), "--%s", name);
    while ((at = strstr(at, option)) != NULL) {
        at += n;
        if (*at != '-' && !(*at >= 'a' && *at <= 'z'))
            return true;
    }
    return false;
}

int train_tell_taken(const struct train_setup *setup, int rc, struct err *e)
{
    const struct options *o = setup->taken_options;
    char names[ERR_TEXT_MAX], model[OPTION_NAME_MAX];
    size_t at = 0;
    int n = 0;
    if (rc == 0 || o == NULL || e == NULL ||
        strstr(e->text, " from the save in ") != NULL)
        return rc;
    options_word(TRAIN_MODELS, setup->taken.model, model);
    for (size_t i = 0; i < cli_train_options.n_options; i++) {
        const char *name = cli_train_options.options[i].name;
        if (options_source(o, i) != OPTION_PRESET ||
            !names_option(e->text, name, model) ||
            strcmp(options_place(o, i), setup->taken_from) != 0)
            continue;
        n++;
        at += (size_t)snprintf(names + at, sizeof(names) - at, "%s--%s",
                               n > 1 ? ", " : "", name);
        if (at >= sizeof(names))
            return rc;
    }
    if (n == 0)
        return rc;
    err_add(e, " (%s %s from the save in %s)", names, n > 1 ? "come" : "comes",
            setup->taken_from);
    return rc;
}
