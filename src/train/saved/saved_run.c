// A save's description of its run, as JSON (jansson). For each field, one line writes it,
// and one line of the same shape reads it.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/saved/saved_run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "options/options.h"
#include "os/file.h"
#include "rule/rule.h"
#include "train/fields.h"

static json_t *rule_to_json(const struct rule_params *p)
{
    json_t *o = json_object();
    json_put(o, "optimizer", rule_info(p->kind)->name);
    json_put(o, "lr", p->lr);
    json_put(o, "l1", p->l1);
    json_put(o, "l2", p->l2);
    json_put(o, "prior", p->prior);
    json_put(o, "n0", p->n0);
    json_put(o, "beta", p->beta);
    json_put(o, "beta1", p->beta1);
    json_put(o, "beta2", p->beta2);
    return o;
}

// Describes the tasks of a model with several labels; the schema has their number.
static void put_tasks(json_t *o, const struct model_options *m)
{
    char tower[MODEL_HIDDEN_TEXT_MAX], weights[MODEL_WEIGHTS_TEXT_MAX];
    model_hidden_print(m->tower, tower);
    model_weights_print(m->task_weight, weights);
    json_put(o, "tower", tower);
    json_put(o, "task-weights", weights);
}

// Describes the layers of a model.
static json_t *layers_to_json(const struct model_options *m)
{
    char hidden[MODEL_HIDDEN_TEXT_MAX];
    json_t *o = json_object();
    model_hidden_print(m->hidden, hidden);
    json_put(o, "hidden", hidden);
    json_put(o, "cross", m->cross);
    json_put(o, "dropout", m->dropout);
    json_put(o, "batch-norm", m->batch_norm);
    json_put(o, "data-norm", m->data_norm);
    json_put(o, "pooling", m->pooling_mean ? "mean" : "sum");
    json_put_value(o, "dense", rule_to_json(&m->dense));
    if (m->tasks > 1)
        put_tasks(o, m);
    return o;
}

json_t *saved_options_to_json(const struct saved_options *s)
{
    const struct model_options *m = &s->model;
    json_t *o = json_object();
    json_put(o, "model", m->ops->name);
    json_put(o, "dim", m->dim);
    json_put(o, "fields", m->fields);
    json_put(o, "init", m->init);
    json_put_value(o, "seed", json_hex(m->seed));
    json_put(o, "normalize", m->normalize);
    json_put_value(o, "linear", rule_to_json(&m->linear));
    json_put_value(o, "latent", rule_to_json(&m->latent));
    json_put(o, "schedule", (uint32_t)s->schedule.kind);
    json_put(o, "schedule-a", s->schedule.a);
    json_put(o, "schedule-b", s->schedule.b);
    json_put(o, "batch", s->batch);
    json_put(o, "deterministic", s->deterministic);
    json_put(o, "reduce", s->reduce_mean ? "mean" : "sum");
    json_put(o, "data-in", s->streaming ? "stream" : "memory");
    json_put(o, "window", s->window_bytes);
    json_put(o, "valid", s->valid_part.share);
    json_put(o, "table", s->table);
    json_put(o, "average", s->average);
    json_put(o, "merge-ids", s->merge);
    json_put(o, "dims", s->dims);
    if (m->ops->dense != NULL)
        json_put_value(o, "layers", layers_to_json(m));
    if (s->valid_part.from > 0)
        json_put(o, "valid-from", s->valid_part.from);
    if (s->shuffle[0] != '\0')
        json_put(o, "shuffle", s->shuffle);
    return o;
}

static json_t *position_to_json(const struct position *p)
{
    return json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:I, s:I, s:I}", "epoch",
                     (int)p->epoch, "window", (json_int_t)p->window, "batch",
                     (json_int_t)p->batch, "batches", (json_int_t)p->batches, "seen",
                     (json_int_t)p->seen, "bad_lines", (json_int_t)p->bad_lines, "chunk",
                     (json_int_t)p->place.number, "file", (int)p->place.file, "line",
                     (json_int_t)p->place.line, "offset", (json_int_t)p->place.offset,
                     "averaged", (json_int_t)p->averaged);
}

static void add_metrics(json_t *o, const struct metrics *m)
{
    struct metrics values = *m;
    for (size_t i = 0; i < METRICS_FIELDS && o != NULL; i++)
        json_object_set_new(o, metrics_fields[i].name,
                            json_real_or_null(*metrics_value(&values, i)));
}

static json_t *best_to_json(const struct saved_run *m)
{
    if (!m->has_best)
        return json_null();
    json_t *o = json_pack("{s:o, s:i, s:i, s:I}", "loss", json_real_or_null(m->best_loss),
                          "epoch", (int)m->best_epoch, "passes_since",
                          (int)m->passes_since_best, "examples",
                          (json_int_t)m->best_valid.examples);
    add_metrics(o, &m->best_valid);
    json_t *others = m->options.model.tasks > 1 ? json_array() : NULL;
    for (uint32_t k = 1; k < m->options.model.tasks; k++) {
        json_t *one = json_pack("{s:I}", "examples",
                                (json_int_t)m->best_valids[k].examples);
        add_metrics(one, &m->best_valids[k]);
        json_array_append_new(others, one);
    }
    if (others != NULL)
        json_object_set_new(o, "others", others);
    return o;
}

// Returns the readers' positions. They are also used if reading fails: the text is valid
// JSON.
static json_t *readers_to_json(const struct saved_run *x)
{
    return x->readers != NULL ? json_loads(x->readers, 0, NULL) : json_null();
}

int saved_run_print(const struct saved_run *x, char **ret, struct err *e)
{
    json_begin();
    json_t *root = json_pack(
        "{s:o, s:o, s:o, s:I, s:b, s:o, s:I, s:o, s:o}", "schema",
        schema_to_json(&x->schema), "data", identity_to_json(&x->data), "options",
        saved_options_to_json(&x->options), "examples", (json_int_t)x->examples,
        "finished", x->finished, "position", position_to_json(&x->at), "bad_lines",
        (json_int_t)x->bad_lines, "best", best_to_json(x), "readers", readers_to_json(x));
    if (root != NULL && x->columns > 0)
        json_object_set_new(root, "columns", json_integer((json_int_t)x->columns));
    if (root != NULL && (x->numbers.last != 0 || x->numbers.first_inverted != 0))
        json_object_set_new(root, "numbers",
                            json_pack("{s:o, s:o}", "first",
                                      json_hex(~x->numbers.first_inverted), "last",
                                      json_hex(x->numbers.last)));
    if (root != NULL && x->fields_end > 0) {
        json_object_set_new(root, "first_field",
                            json_integer((json_int_t)x->first_field));
        json_object_set_new(root, "fields_end", json_integer((json_int_t)x->fields_end));
    }
    if (root != NULL && x->piped)
        json_object_set_new(json_object_get(root, "data"), "piped", json_true());
    if (root != NULL && x->plan.epochs > 0)
        json_object_set_new(root, "plan", saved_plan_to_json(&x->plan));
    *ret = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (*ret != NULL && !json_memory_failed())
        return 0;
    mem_free(*ret);
    *ret = NULL;
    return err_nomem(e, "the options of a saved run");
}

void saved_run_free(struct saved_run *x)
{
    mem_free(x->readers);
    x->readers = NULL;
}

// ----------------------------------------------------- reading the description from JSON

static double get_real(struct json_fields *f, const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    if (!json_is_number(v))
        json_complain(f, name, "is missing or not a number");
    return json_number_value(v);
}

static double get_real_or_nan(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static bool get_bool(struct json_fields *f, const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    if (!json_is_boolean(v))
        json_complain(f, name, "is missing or neither true nor false");
    return json_is_true(v);
}

// Adds settings that older saves lack, with the values that those runs had. A new setting
// in an existing object needs a line in `values`, too. Takes ownership of `values`, which
// may be NULL.
static void saved_run_complete(struct json_fields *f, json_t *o, json_t *values)
{
    if (json_is_object(o))
        json_object_update_missing(o, values); // `values` may be NULL for lack of memory
    if (f->rc == 0 && json_memory_failed())
        f->rc = err_nomem(f->e, f->path);
    json_decref(values);
}

// Returns whether the field is the text `second`; reports an error if it is neither
// `first` nor `second`.
static bool get_choice(struct json_fields *f, const json_t *o, const char *name,
                       const char *first, const char *second)
{
    const char *text = json_read_text(f, o, name);
    bool is_second = strcmp(text, second) == 0;
    if (!is_second && strcmp(text, first) != 0)
        json_complain(f, name, "is a word that this version does not know");
    return is_second;
}

static void copy_text(struct json_fields *f, const json_t *o, const char *name, char *to,
                      size_t size)
{
    const char *text = json_read_text(f, o, name);
    if ((size_t)snprintf(to, size, "%s", text) >= size)
        json_complain(f, name, "is too long");
}

static void get_rule(struct json_fields *f, const json_t *o, const char *name,
                     struct rule_params *ret)
{
    const json_t *r = json_object_get(o, name);
    if (!json_is_object(r)) {
        json_complain(f, name, "is missing");
        return;
    }
    enum rule_kind kind = RULE_SGD;
    if (rule_find(json_read_text(f, r, "optimizer"), &kind, NULL) != 0)
        json_complain(f, name, "names no optimizer that this version knows");
    *ret = (struct rule_params){
        .kind = kind,
        .block = 1,
        .lr = (float)get_real(f, r, "lr"),
        .l1 = (float)get_real(f, r, "l1"),
        .l2 = (float)get_real(f, r, "l2"),
        .prior = (float)get_real(f, r, "prior"),
        .n0 = (float)get_real(f, r, "n0"),
        .beta = (float)get_real(f, r, "beta"),
        .beta1 = (float)get_real(f, r, "beta1"),
        .beta2 = (float)get_real(f, r, "beta2"),
    };
}

static void get_tasks(struct json_fields *f, const json_t *o, struct model_options *ret)
{
    const char *tower = json_read_text(f, o, "tower");
    if (tower[0] != '\0' && model_hidden_parse(tower, ret->tower, NULL) != 0)
        json_complain(f, "tower", "is not a list of layers");
    if (model_weights_parse(json_read_text(f, o, "task-weights"), ret->task_weight,
                            NULL) != 0)
        json_complain(f, "task-weights", "is not a list of weights");
}

static void get_layers(struct json_fields *f, json_t *o, struct model_options *ret)
{
    if (!json_is_object(o)) {
        json_complain(f, "layers", "is missing");
        return;
    }
    saved_run_complete(
        f, o,
        json_pack("{s:b, s:b, s:s}", "batch-norm", 0, "data-norm", 0, "pooling", "sum"));
    if (model_hidden_parse(json_read_text(f, o, "hidden"), ret->hidden, NULL) != 0)
        json_complain(f, "hidden", "is not a list of layers");
    ret->cross = (uint32_t)json_read_int(f, o, "cross", MODEL_MAX_CROSS);
    ret->dropout = (float)get_real(f, o, "dropout");
    ret->batch_norm = get_bool(f, o, "batch-norm");
    ret->data_norm = get_bool(f, o, "data-norm");
    ret->pooling_mean = get_choice(f, o, "pooling", "sum", "mean");
    get_rule(f, o, "dense", &ret->dense);
    if (ret->tasks > 1)
        get_tasks(f, o, ret);
}

void saved_options_from_json(struct saved_options *ret, json_t *o, struct json_fields *f)
{
    struct model_options *m = &ret->model;
    saved_run_complete(f, o,
                       json_pack("{s:i, s:s, s:s, s:s}", "average", 0, "merge-ids", "",
                                 "shuffle", "", "dims", ""));
    if (model_find(json_read_text(f, o, "model"), &m->ops, NULL) != 0)
        json_complain(f, "model", "names no model that this version knows");
    m->dim = (uint32_t)json_read_int(f, o, "dim", MODEL_MAX_DIM);
    m->fields = (uint32_t)json_read_int(f, o, "fields", UINT16_MAX + 1);
    m->init = (float)get_real(f, o, "init");
    m->seed = json_read_hex(f, o, "seed");
    m->normalize = get_bool(f, o, "normalize");
    get_rule(f, o, "linear", &m->linear);
    get_rule(f, o, "latent", &m->latent);
    if (m->ops != NULL && m->ops->dense != NULL)
        get_layers(f, json_object_get(o, "layers"), m);
    ret->schedule.kind = (enum schedule_kind)json_read_int(f, o, "schedule",
                                                           SCHEDULE_LINEAR);
    ret->schedule.a = get_real(f, o, "schedule-a");
    ret->schedule.b = get_real(f, o, "schedule-b");
    ret->batch = (uint32_t)json_read_int(f, o, "batch", INT32_MAX);
    ret->deterministic = get_bool(f, o, "deterministic");
    ret->reduce_mean = get_choice(f, o, "reduce", "sum", "mean");
    ret->streaming = get_choice(f, o, "data-in", "memory", "stream");
    ret->window_bytes = json_read_int(f, o, "window", INT64_MAX);
    ret->valid_part.share = get_real(f, o, "valid");
    if (json_object_get(o, "valid-from") != NULL) // older saves lack it: from 0
        ret->valid_part.from = get_real(f, o, "valid-from");
    copy_text(f, o, "table", ret->table, sizeof(ret->table));
    copy_text(f, o, "shuffle", ret->shuffle, sizeof(ret->shuffle));
    ret->average = json_read_int(f, o, "average", INT64_MAX);
    copy_text(f, o, "merge-ids", ret->merge, sizeof(ret->merge));
    copy_text(f, o, "dims", ret->dims, sizeof(ret->dims));
}

static void get_position(struct json_fields *f, json_t *o, struct position *ret)
{
    saved_run_complete(f, o, json_pack("{s:i}", "averaged", 0));
    *ret = (struct position){
        .epoch = (uint32_t)json_read_int(f, o, "epoch", INT32_MAX),
        .window = json_read_int(f, o, "window", INT64_MAX),
        .batch = json_read_int(f, o, "batch", INT64_MAX),
        .batches = json_read_int(f, o, "batches", INT64_MAX),
        .seen = json_read_int(f, o, "seen", INT64_MAX),
        .bad_lines = json_read_int(f, o, "bad_lines", INT64_MAX),
        .place = {.number = json_read_int(f, o, "chunk", INT64_MAX),
                  .file = (uint32_t)json_read_int(f, o, "file", INT32_MAX),
                  .line = json_read_int(f, o, "line", INT64_MAX),
                  .offset = json_read_int(f, o, "offset", INT64_MAX)},
        .averaged = json_read_int(f, o, "averaged", INT64_MAX),
    };
}

static void get_best(struct json_fields *f, const json_t *o, struct saved_run *ret)
{
    ret->has_best = json_is_object(o);
    if (!ret->has_best)
        return;
    ret->best_loss = get_real_or_nan(o, "loss");
    ret->best_epoch = (uint32_t)json_read_int(f, o, "epoch", INT32_MAX);
    ret->passes_since_best = (uint32_t)json_read_int(f, o, "passes_since", INT32_MAX);
    ret->best_valid.examples = json_read_int(f, o, "examples", INT64_MAX);
    for (size_t i = 0; i < METRICS_FIELDS; i++)
        *metrics_value(&ret->best_valid, i) = get_real_or_nan(o, metrics_fields[i].name);
    ret->best_valid.logloss = ret->best_loss;
    for (uint32_t k = 1; k < ret->options.model.tasks; k++) {
        struct metrics *m = &ret->best_valids[k];
        const json_t *one = json_array_get(json_object_get(o, "others"), k - 1);
        m->examples = json_read_int(f, one, "examples", INT64_MAX);
        for (size_t i = 0; i < METRICS_FIELDS; i++)
            *metrics_value(m, i) = get_real_or_nan(one, metrics_fields[i].name);
    }
}

static void get_readers(struct json_fields *f, const json_t *o, struct saved_run *ret)
{
    if (o == NULL || json_is_null(o))
        return;
    if (!json_is_object(o))
        json_complain(f, "readers", "is not a position in the data");
    ret->readers = f->rc == 0 ? json_dumps(o, JSON_COMPACT) : NULL;
    if (f->rc == 0 && ret->readers == NULL)
        f->rc = err_nomem(f->e, f->path);
}

static void get_numbers(struct json_fields *f, const json_t *o, struct saved_run *ret)
{
    if (o == NULL) // features without numbers, and older saves
        return;
    ret->numbers.first_inverted = ~json_read_hex(f, o, "first");
    ret->numbers.last = json_read_hex(f, o, "last");
}

// Returns whether the data is rows of a program, whose name has the form "HASH BYTES
// NAME".
static bool is_of_rows(const json_t *data)
{
    const json_t *list = json_object_get(data, "list");
    const char *text = json_string_value(json_array_get(list, 0));
    const char *name = text != NULL ? strrchr(text, ' ') : NULL;
    return json_array_size(list) == 1 && name != NULL && strcmp(name, " data") == 0;
}

// Completes saves from before the schema said who wrote the words of a table's cells
// (SCHEMA_WRITTEN). A model trained on files has the words of the file's author; a model
// trained on a data frame has the words that tug wrote then.
static void complete_schema(struct json_fields *f, const json_t *root)
{
    json_t *schema = json_object_get(root, "schema");
    json_t *columns = json_object_get(schema, "columns");
    const char *format = json_string_value(json_object_get(schema, "format"));
    if (!json_is_array(columns) || format == NULL || strcmp(format, "csv") != 0 ||
        is_of_rows(json_object_get(root, "data")))
        return;
    for (size_t i = 0; i < json_array_size(columns); i++) {
        const json_t *use = json_array_get(json_array_get(columns, i), 1);
        if (json_is_string(use) && strcmp(json_string_value(use), "written") == 0)
            return;
    }
    if (json_array_insert_new(columns, 0, json_pack("[s, s]", "1", "written")) != 0)
        f->rc = err_nomem(f->e, f->path);
}

int saved_run_parse(struct saved_run *ret, const char *text, const char *path,
                    struct err *e)
{
    struct json_fields f = {.path = path, .e = e};
    memset(ret, 0, sizeof(*ret));
    json_begin();
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    if (json_memory_failed()) {
        json_decref(root);
        return err_nomem(e, path);
    }
    if (!json_is_object(root))
        json_complain(&f, "about", "is not a value that a training run saves");
    complete_schema(&f, root);
    schema_from_json(&ret->schema, json_object_get(root, "schema"), &f);
    ret->options.model.tasks = schema_labels(&ret->schema);
    if (ret->options.model.tasks > MODEL_MAX_TASKS) {
        json_complain(&f, "schema", "has too many labels");
        ret->options.model.tasks = 1;
    }
    saved_options_from_json(&ret->options, json_object_get(root, "options"), &f);
    if (fields_numbers(&ret->schema, &ret->options.model, NULL) != 0)
        json_complain(&f, "data-norm", "is true, and the data has no numbers");
    if (ret->options.dims[0] != '\0' &&
        fields_dims(&ret->schema, ret->options.dims, &ret->options.model, NULL) != 0)
        json_complain(&f, "dims", "name columns that the data does not have");
    saved_plan_from_json(&ret->plan, json_object_get(root, "plan"), &f);
    identity_from_json(&ret->data, json_object_get(root, "data"), &f);
    if (json_object_get(root, "columns") != NULL) // missing for files and in older saves
        ret->columns = json_read_int(&f, root, "columns", INT64_MAX);
    get_numbers(&f, json_object_get(root, "numbers"), ret);
    if (json_object_get(root, "fields_end") != NULL) { // only libffm, not in older saves
        ret->first_field = json_read_int(&f, root, "first_field", UINT16_MAX);
        ret->fields_end = json_read_int(&f, root, "fields_end", UINT16_MAX + 1);
    }
    const json_t *data = json_object_get(root, "data");
    if (json_object_get(data, "piped") != NULL) // missing without a command
        ret->piped = get_bool(&f, data, "piped");
    ret->examples = json_read_int(&f, root, "examples", INT64_MAX);
    ret->finished = get_bool(&f, root, "finished");
    get_position(&f, json_object_get(root, "position"), &ret->at);
    ret->bad_lines = json_read_int(&f, root, "bad_lines", INT64_MAX);
    get_best(&f, json_object_get(root, "best"), ret);
    get_readers(&f, json_object_get(root, "readers"), ret);
    if (ret->at.averaged > 0 && ret->options.average == 0)
        json_complain(&f, "averaged", "is set, but the run takes no mean");
    json_decref(root);
    if (f.rc != 0)
        saved_run_free(ret);
    return f.rc;
}
