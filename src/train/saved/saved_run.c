// A save's description of its run, as JSON (jansson). For each field, one line writes it,
// and one line of the same shape reads it. saved_options.c has the options.
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

// Returns the readers' positions, a valid text of JSON in x->readers, as a value; null
// if the save has none.
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

static double get_real_or_nan(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static void get_position(struct json_fields *f, const json_t *o, struct position *ret)
{
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
        // Saves of older versions lack the field.
        .averaged = json_object_get(o, "averaged") != NULL
                        ? json_read_int(f, o, "averaged", INT64_MAX)
                        : 0,
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
    if (o == NULL) // the features are not numbers, or the save is of an older version
        return;
    ret->numbers.first_inverted = ~json_read_hex(f, o, "first");
    ret->numbers.last = json_read_hex(f, o, "last");
}

// Returns whether the data is rows that a program passed: the only entry of its list
// is "HASH BYTES data".
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
    // The field is missing if the data is files, and in older saves.
    if (json_object_get(root, "columns") != NULL)
        ret->columns = json_read_int(&f, root, "columns", INT64_MAX);
    get_numbers(&f, json_object_get(root, "numbers"), ret);
    // The field exists for libffm only, and not in older saves.
    if (json_object_get(root, "fields_end") != NULL) {
        ret->first_field = json_read_int(&f, root, "first_field", UINT16_MAX);
        ret->fields_end = json_read_int(&f, root, "fields_end", UINT16_MAX + 1);
    }
    const json_t *data = json_object_get(root, "data");
    // The field is missing if no command has written the data.
    if (json_object_get(data, "piped") != NULL)
        ret->piped = json_read_flag(&f, data, "piped");
    ret->examples = json_read_int(&f, root, "examples", INT64_MAX);
    ret->finished = json_read_flag(&f, root, "finished");
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
