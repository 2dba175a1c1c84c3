// See run_options.h. Each option is a line of saved_options_to_json or of add_shared.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/saved/run_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/printable.h"
#include "options/options.h"
#include "os/file.h"
#include "rule/rule.h"
#include "save/save.h"
#include "train/saved/saved.h"

static void copy(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text != NULL ? text : "");
}

// Prints the table's settings. Leaves the text empty if there is not enough memory; the
// save then fails for the same reason.
static void copy_table(char to[SAVED_TEXT_MAX], const struct table_config *t)
{
    struct buf text = BUF_INIT(SAVED_TEXT_MAX);
    bool there = t != NULL && table_config_print(t, &text) == 0;
    copy(to, SAVED_TEXT_MAX, there ? buf_str(&text) : NULL);
    buf_free(&text);
}

void run_options_fill(const struct train_config *c, const struct model_options *model,
                      struct saved_options *ret)
{
    const struct train_cluster *k = c->cluster;
    const char *by = k != NULL ? k->shuffle_by : NULL;
    *ret = (struct saved_options){.settings = c->settings};
    ret->model = *model;
    snprintf(ret->shuffle, sizeof(ret->shuffle), "%s%s%s",
             k != NULL && k->shuffle ? "global" : "pieces", by != NULL ? " by " : "",
             by != NULL ? by : "");
    copy_table(ret->table, c->table);
    copy(ret->merge, sizeof(ret->merge), c->merge);
    copy(ret->dims, sizeof(ret->dims), c->dims);
}

// ----------------------------------------- options that all processes of a cluster share

enum { MODE_TEXT_MAX = SAVED_WORD_MAX };

static void print_mode(const struct train_cluster *k, char ret[MODE_TEXT_MAX])
{
    if (k->mode == CONFIG_SSP)
        snprintf(ret, MODE_TEXT_MAX, "ssp:%u", k->staleness);
    else if (k->geo > 0 && k->elastic > 0)
        snprintf(ret, MODE_TEXT_MAX, "elastic:%u:%.7g", k->geo, (double)k->elastic);
    else if (k->geo > 0)
        snprintf(ret, MODE_TEXT_MAX, "geo:%u", k->geo);
    else
        snprintf(ret, MODE_TEXT_MAX, "%s",
                 k->mode == CONFIG_SYNC ? "sync"
                 : k->together          ? "half-async"
                                        : "async");
}

static const char *text_of(const char *text)
{
    return text != NULL ? text : "";
}

// Returns the options of reading lines; NULL if there is not enough memory.
static json_t *reader_to_json(const struct reader_options *r, const char *slots)
{
    const char separator[] = {r->separator != 0 ? r->separator : ',', '\0'},
               list_separator[] = {r->list_separator != 0 ? r->list_separator : '|',
                                   '\0'};
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, "
        "s:b}",
        "format", text_of(r->format), "slots", slots, "loss", loss_name(r->loss), "label",
        text_of(r->label_column), "drop", text_of(r->drop), "numeric",
        text_of(r->numeric), "lists", text_of(r->lists), "list-separator", list_separator,
        "missing", text_of(r->missing), "columns", text_of(r->columns), "cross-columns",
        text_of(r->cross_columns), "weight-column", text_of(r->weight_column),
        "separator", separator, "quote", r->quote != NULL ? r->quote : "double",
        "decimal", r->decimal != NULL ? r->decimal : ".", "allow-missing",
        r->allow_missing);
}

static const char *const rules[] = {
    [TRAIN_RULES_AUTO] = "auto",
    [TRAIN_RULES_SERVER] = "server",
    [TRAIN_RULES_WORKER] = "worker",
};

// Copies a setting of the plan into a save.
#define COPY(kind, member, name, arg, was) ret->member = c->member;

void run_options_plan(const struct train_config *c, struct saved_plan *ret)
{
    const struct train_cluster *k = c->cluster;
    *ret = (struct saved_plan){.save_passes = c->save_passes,
                               .save_batches = c->save_batches};
    PLAN_SETTINGS(COPY, COPY, SETTING_NOTHING)
    if (k == NULL || k->node == NULL)
        return;
    print_mode(k, ret->mode);
    snprintf(ret->rules, sizeof(ret->rules), "%s", rules[k->rules]);
    ret->bf16 = k->bf16;
    ret->in_flight = k->in_flight;
    ret->dense_bounded = k->dense_bounded;
    ret->dense_staleness = k->dense_staleness;
}

static int add_shared(json_t *o, const struct train_config *c)
{
    const struct train_cluster *k = c->cluster;
    char mode[MODE_TEXT_MAX], tower[MODEL_HIDDEN_TEXT_MAX],
        weights[MODEL_WEIGHTS_TEXT_MAX];
    struct saved_plan plan;
    print_mode(k, mode);
    run_options_plan(c, &plan);
    model_hidden_print(c->model.tower, tower);
    model_weights_print(c->model.task_weight, weights);
    saved_plan_put_shared(o, &plan);
    return json_object_update_new(
        o,
        json_pack("{s:s, s:s, s:i, s:o, s:s, s:s, s:s, s:s, s:s, s:s, s:b}", "mode", mode,
                  "rules", rules[k->rules], "in-flight", (int)k->in_flight,
                  "dense-staleness",
                  k->dense_bounded ? json_integer(k->dense_staleness) : json_string(""),
                  "values", k->bf16 ? "bf16" : "f32", "tower", tower, "task-weights",
                  weights, "score-by", k->workers_score ? "workers" : "driver", "group",
                  text_of(k->workers_score ? c->group : NULL), "pipe-command",
                  text_of(c->data.command), "publish", c->publish != NULL));
}

// Returns all options; NULL if there is not enough memory.
static json_t *options_to_json(const struct train_config *c, const char *slots)
{
    struct saved_options *saved = mem_alloc(sizeof(*saved));
    if (saved == NULL)
        return NULL;
    run_options_fill(c, &c->model, saved);
    json_t *o = saved_options_to_json(saved);
    mem_free(saved);
    if (o != NULL && add_shared(o, c) == 0 &&
        json_object_update_new(o, reader_to_json(&c->reader, slots)) == 0)
        return o;
    json_decref(o);
    return NULL;
}

static int all_options(const struct train_config *c, json_t **ret, struct err *e)
{
    struct buf slots = BUF_INIT(2 * SCHEMA_TEXT_MAX);
    int rc = c->reader.slots != NULL ? reader_slots_text(c->reader.slots, &slots, e) : 0;
    *ret = rc == 0 ? options_to_json(c, slots.len > 0 ? buf_str(&slots) : "") : NULL;
    buf_free(&slots);
    return rc == 0 && *ret == NULL ? err_nomem(e, "the options of a run") : rc;
}

int run_options_print(const struct train_config *c, char **ret, struct err *e)
{
    json_t *o;
    json_begin();
    *ret = NULL;
    TRY(all_options(c, &o, e));
    *ret = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    if (*ret != NULL && !json_memory_failed())
        return 0;
    mem_free(*ret);
    *ret = NULL;
    return err_nomem(e, "the options of a run");
}

// ----------------------------------------------------- comparing the options of two runs

enum { MORE_MAX = 32 }; // room for "; and 9 more"

// Writes a value as it is typed on the command line.
static void show_value(const char *name, const json_t *value, char ret[OPTION_NAME_MAX])
{
    const char *text = json_string_value(value);
    int64_t number = json_integer_value(value);
    if (value == NULL || (text != NULL && text[0] == '\0'))
        snprintf(ret, OPTION_NAME_MAX, "nothing");
    else if (strcmp(name, "seed") == 0 && text != NULL)
        snprintf(ret, OPTION_NAME_MAX, "%llu", strtoull(text, NULL, 16));
    else if (strcmp(name, "schedule") == 0 && number >= 0 && number <= SCHEDULE_LINEAR)
        options_word(SCHEDULE_NAMES, (int)number, ret);
    else if (strcmp(name, "window") == 0)
        snprintf(ret, OPTION_NAME_MAX, "%" PRId64, number >> 20);
    else if (text != NULL)
        snprintf(ret, OPTION_NAME_MAX, "'%.60s'", text);
    else if (json_is_real(value))
        snprintf(ret, OPTION_NAME_MAX, "%.7g", json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(ret, OPTION_NAME_MAX, "%s", json_is_true(value) ? "on" : "off");
    else
        snprintf(ret, OPTION_NAME_MAX, "%" PRId64, number);
}

// The options that differ, collected for a message in the form in which they are typed.
struct differences {
    // `and`: the words between two options; `here`: the words before the value of this
    // process.
    const char *and, *here;
    const struct options *typed; // only options that are in `typed` are listed; NULL: all
                                 // options are
    char text[RUN_OPTIONS_TEXT_MAX];
    unsigned left; // options that `text` has no room for
};

// Prints the name of an option as it is typed. A number of a rule is printed as "optimizer's
// n0", because it is typed with the rule's name.
static void typed_name(const char *group, const char *name, char ret[OPTION_NAME_MAX])
{
    bool latent = strcmp(group, "latent") == 0 && strcmp(name, "lr") == 0,
         dense = strcmp(group, "dense") == 0,
         number = strcmp(name, "n0") == 0 || strncmp(name, "beta", 4) == 0;
    snprintf(ret, OPTION_NAME_MAX, "%s%s%s",
             latent  ? "latent-"
             : dense ? "dense-"
                     : "",
             number ? "optimizer's " : "", name);
}

// Returns whether the user gave the option, or another option that implies it.
static bool is_typed(const struct options *typed, const char *name)
{
    char option[OPTION_NAME_MAX];
    snprintf(option, sizeof(option), "%.*s", (int)strcspn(name, "'"), name);
    return options_given(typed, option) ||
           (strcmp(option, "valid-from") == 0 && options_given(typed, "valid")) ||
           (strcmp(option, "shuffle") == 0 && options_given(typed, "shuffle-by")) ||
           (strcmp(option, "deterministic") == 0 && options_given(typed, "mode"));
}

// Shortens two long lists to the parts from the first difference on. Returns false if the
// lists are short or differ from the beginning.
static bool cut_lists(const json_t *then, const json_t *now, json_t *ret[2])
{
    enum { LONG = 40 };
    const char *a = json_string_value(then), *b = json_string_value(now);
    size_t same = 0, from = 0;
    for (; a != NULL && b != NULL && a[same] != '\0' && a[same] == b[same]; same++)
        from = a[same] == ',' ? same + 1 : from;
    if (from == 0 || strlen(a) < LONG)
        return false;
    ret[0] = json_sprintf("...,%s", a + from);
    ret[1] = json_sprintf("...,%s", b + from);
    return true;
}

static void add_difference(struct differences *d, const char *group, const char *name,
                           const json_t *then, const json_t *now)
{
    char was[OPTION_NAME_MAX], is[OPTION_NAME_MAX], option[OPTION_NAME_MAX];
    json_t *cut[2] = {0};
    typed_name(group, name, option);
    if (d->typed != NULL && !is_typed(d->typed, option))
        return;
    bool lists = cut_lists(then, now, cut);
    show_value(name, lists ? cut[0] : then, was);
    show_value(name, lists ? cut[1] : now, is);
    json_decref(cut[0]);
    json_decref(cut[1]);
    char one[4 * OPTION_NAME_MAX];
    snprintf(one, sizeof(one), "%s --%s %s, %s %s", d->text[0] != '\0' ? d->and : "",
             option, was, d->here, is);
    size_t at = strlen(d->text), room = sizeof(d->text) - at;
    if (d->left > 0 || strlen(one) + MORE_MAX > room)
        d->left++;
    else
        snprintf(d->text + at, room, "%s", one);
}

static void end_differences(struct differences *d)
{
    size_t at = strlen(d->text);
    if (d->left > 0)
        snprintf(d->text + at, sizeof(d->text) - at, "; and %u more", d->left);
}

static enum rule_kind kind_of(const json_t *rule, enum rule_kind otherwise)
{
    const char *name = json_string_value(json_object_get(rule, "optimizer"));
    enum rule_kind kind = otherwise;
    return name != NULL && rule_find(name, &kind, NULL) == 0 ? kind : otherwise;
}

// Returns the options that a model has when only the model, its optimizers and its
// learning rate are given. NULL if this version does not know the model, or there
// is not enough memory.
static json_t *defaults_of(const json_t *options)
{
    const json_t *rule = json_object_get(options, "linear"),
                 *layers = json_object_get(options, "layers");
    const char *model = json_string_value(json_object_get(options, "model"));
    const struct model_ops *ops = NULL;
    if (model == NULL || model_find(model, &ops, NULL) != 0)
        return NULL;
    struct saved_options *o = mem_zalloc(sizeof(*o));
    if (o == NULL)
        return NULL;
    struct model_options *m = &o->model;
    model_defaults(m, ops, kind_of(rule, RULE_ADAGRAD));
    enum rule_kind dense = kind_of(json_object_get(layers, "dense"), m->dense.kind);
    if (dense != m->dense.kind)
        m->dense = rule_defaults(dense);
    float ratio = m->linear.lr > 0 ? m->latent.lr / m->linear.lr : 1;
    const json_t *lr = json_object_get(rule, "lr");
    if (json_is_number(lr))
        m->latent.lr = (float)json_number_value(lr) * ratio;
    json_t *ret = saved_options_to_json(o);
    mem_free(o);
    return ret;
}

struct side {
    const json_t *root; // all options of one of the two runs that are compared
    // The compared part of the options, an object or a value, and its default.
    json_t *all, *defaults;
};

static struct side side_of(const struct side *s, const char *name)
{
    return (struct side){s->root, json_object_get(s->all, name),
                         json_object_get(s->defaults, name)};
}

static bool same_value(const json_t *a, const json_t *b)
{
    return a == b || (a != NULL && b != NULL && json_equal(a, b));
}

// Returns whether the option belongs to the linear rule. The rule of the vectors has only
// one option of its own: its learning rate.
static bool is_of_linear(const char *name, const struct side *then,
                         const struct side *now)
{
    return strcmp(name, "lr") != 0 &&
           !same_value(json_object_get(json_object_get(then->root, "linear"), name),
                       json_object_get(json_object_get(now->root, "linear"), name));
}

// Returns whether a value only follows from the model and its optimizers, and so need not
// be named.
static bool follows(const char *group, const char *name, const struct side *then,
                    const struct side *now)
{
    bool latent = strcmp(group, "latent") == 0;
    if (latent && is_of_linear(name, then, now))
        return true;
    if (strcmp(name, "model") == 0 ||
        (strcmp(name, "optimizer") == 0 && !latent && now->all != NULL))
        return false;
    return then->defaults != NULL && same_value(then->all, then->defaults) &&
           same_value(now->all, now->defaults);
}

static void compare_values(struct differences *d, const char *group,
                           const struct side *then, const struct side *now)
{
    json_t *value;
    const char *name;
    bool other_model = !same_value(json_object_get(then->root, "model"),
                                   json_object_get(now->root, "model"));
    json_object_foreach(then->all, name, value) {
        const struct side a = side_of(then, name), b = side_of(now, name);
        if (json_is_object(value))
            compare_values(d, name, &a, &b);
        else if (same_value(a.all, b.all) || follows(group, name, &a, &b) ||
                 // The number of fields follows from the data, so it is not named.
                 (other_model && strcmp(name, "fields") == 0))
            continue;
        else
            add_difference(d, group, name, a.all, b.all);
    }
}

// Compares and frees both objects. An object is NULL if there was not enough memory for
// it.
static int compare_options(struct differences *d, json_t *then, json_t *now,
                           struct err *e)
{
    struct side a = {then, then, defaults_of(then)}, b = {now, now, defaults_of(now)};
    bool failed = then == NULL || now == NULL || json_memory_failed();
    if (!failed)
        compare_values(d, "", &a, &b);
    end_differences(d);
    json_decref(a.all);
    json_decref(a.defaults);
    json_decref(b.all);
    json_decref(b.defaults);
    return failed ? err_nomem(e, "the options of a run") : 0;
}

int run_options_differ(const struct saved_options *then, const struct saved_options *now,
                       const struct options *typed, char ret[RUN_OPTIONS_TEXT_MAX],
                       struct err *e)
{
    struct differences d = {
        .and = "; the earlier run had", .here = "but this run has", .typed = typed};
    json_begin();
    TRY(compare_options(&d, saved_options_to_json(then), saved_options_to_json(now), e));
    snprintf(ret, RUN_OPTIONS_TEXT_MAX, "%s", d.text);
    return 0;
}

// Returns whether a run with the options `now` can begin with a model trained with `then`.
static bool same_shape(const struct saved_options *then, const struct saved_options *now)
{
    struct model a, b;
    return model_init(&a, &then->model, NULL) != 0 ||
           model_init(&b, &now->model, NULL) != 0 ||
           (model_same_rows(&a, &b) && model_same_dense(&a, &b));
}

int run_options_same(const struct saved_options *then, const struct saved_options *now,
                     const struct options *typed, struct err *e)
{
    char text[RUN_OPTIONS_TEXT_MAX];
    TRY(run_options_differ(then, now, NULL, text, e));
    if (text[0] == '\0')
        return 0;
    if (typed != NULL)
        TRY(run_options_differ(then, now, typed, text, e));
    return err_set(
        e, TUG_EUSAGE,
        "the run being resumed had%s: give the same options, or leave them out, and the "
        "run takes them from the save%s",
        text,
        same_shape(then, now)
            ? "; or use --init-from to start a new run from the saved model"
            : " (--init-from needs the same model, sizes and optimizer, too)");
}

// Copies the member `from_name` of `from`, if it exists.
static void copy_value(json_t *to, const char *name, const json_t *from,
                       const char *from_name)
{
    json_t *value = json_object_get(from, from_name);
    if (value != NULL)
        json_put_value(to, name, json_incref(value));
}

// Returns the options on which the shape of a model depends, including those of its layers
// if `layers` is true.
static json_t *shape_to_json(const struct saved_options *o, bool layers)
{
    const struct model_ops *ops = o->model.ops;
    json_t *all = saved_options_to_json(o), *ret = json_object();
    const json_t *of_layers = json_object_get(all, "layers");
    copy_value(ret, "model", all, "model");
    copy_value(ret, "optimizer", json_object_get(all, "latent"), "optimizer");
    if (ops->layout != NULL) {
        copy_value(ret, "dim", all, "dim");
        copy_value(ret, "dims", all, "dims");
    }
    if (ops->needs_fields)
        copy_value(ret, "fields", all, "fields");
    if (layers) { // `of_layers` is NULL in models without layers
        copy_value(ret, "hidden", of_layers, "hidden");
        copy_value(ret, "cross", of_layers, "cross");
        copy_value(ret, "batch-norm", of_layers, "batch-norm");
        copy_value(ret, "data-norm", of_layers, "data-norm");
        copy_value(ret, "dense-optimizer", json_object_get(of_layers, "dense"),
                   "optimizer");
        copy_value(ret, "tower", of_layers, "tower");
    }
    json_decref(all);
    return ret;
}

int run_options_same_shape(const struct saved_options *then,
                           const struct saved_options *now, const struct options *typed,
                           bool layers, const char *dir, struct err *e)
{
    struct differences d = {.and = "; it has", .here = "this run has", .typed = typed};
    struct model a, b;
    TRY(model_init(&a, &then->model, e));
    TRY(model_init(&b, &now->model, e));
    bool same_rows = model_same_rows(&a, &b);
    if (same_rows && (!layers || model_same_dense(&a, &b)))
        return 0;
    json_begin();
    TRY(compare_options(&d, shape_to_json(then, layers), shape_to_json(now, layers), e));
    if (d.text[0] == '\0')
        return err_set(e, TUG_EUSAGE,
                       "the model in %s has %s of another form than this run's: give the "
                       "options that it was trained with",
                       dir, same_rows ? "layers" : "rows");
    return err_set(
        e, TUG_EUSAGE,
        "the model in %s has%s: give the same options, or leave them out, and the run "
        "takes them from the save%s",
        dir, d.text,
        same_rows ? "; or take its features alone: --init-tables sparse" : "");
}

static json_t *net_to_json(const struct model_options *m)
{
    char hidden[MODEL_HIDDEN_TEXT_MAX];
    model_hidden_print(m->hidden, hidden);
    json_t *o = json_pack("{s:s, s:i}", "model", m->ops->name, "dim", (int)m->dim);
    if (o != NULL && m->ops->dense != NULL)
        json_object_update_new(
            o, json_pack("{s:s, s:i}", "hidden", hidden, "cross", (int)m->cross));
    return o;
}

int run_options_same_net(const struct model_options *then,
                         const struct model_options *now, const char *dir, struct err *e)
{
    struct differences d = {.and = "; it has", .here = "here it is"};
    json_begin();
    TRY(compare_options(&d, net_to_json(then), net_to_json(now), e));
    if (d.text[0] == '\0')
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "%s: is a model with%s: give the options that it was "
                   "trained with",
                   dir, d.text);
}

// If the run takes its options from a save (--resume, --init-from) that this process does
// not find, returns the option that names the save's directory; else NULL.
static const char *unseen_start(const struct train_config *c)
{
    char dir[FILE_PATH_MAX];
    struct err ignored;
    if (c->resume != TRAIN_NEW && c->out != NULL && saved_any(c->out))
        return NULL;
    if (c->resume == TRAIN_RESUME && c->out != NULL)
        return "out";
    if (c->init_from != NULL)
        return save_find(c->init_from, dir, &ignored) != 0 ? "init-from" : NULL;
    return c->resume != TRAIN_NEW && c->out != NULL ? "out" : NULL;
}

int run_options_agree(const struct train_config *c, const char *text, size_t n,
                      struct err *e)
{
    struct differences d = {.and = "; it has", .here = "this process"};
    json_t *own;
    json_begin();
    TRY(all_options(c, &own, e));
    json_t *theirs = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    bool failed = json_memory_failed(), damaged = !json_is_object(theirs);
    if (failed || damaged) {
        json_decref(own);
        json_decref(theirs);
        return failed ? err_nomem(e, "the options of a run")
                      : err_set(e, TUG_EDATA,
                                "the scheduler's message about the options of the run is "
                                "damaged");
    }
    TRY(compare_options(&d, theirs, own, e));
    if (d.text[0] == '\0')
        return 0;
    printable_make(d.text);
    const char *unseen = unseen_start(c);
    return unseen == NULL
               ? err_set(e, TUG_EUSAGE,
                         "the run was started with%s: give all of its processes the same "
                         "options",
                         d.text)
               : err_set(e, TUG_EUSAGE,
                         "this process sees no save in --%s %.60s, from which the others "
                         "take options that are left out; the run was started with%s: "
                         "give this process access to the save, or these options",
                         unseen, unseen[0] == 'o' ? c->out : c->init_from, d.text);
}
