// The options and the plan of a saved run, as JSON. Settings (model/setting.h) are written
// and read by their kinds; for each other value, one line writes it, and one line of the
// same shape reads it. The plan is an object beside the options, since a resumed run may
// have another plan, but never other options.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "options/options.h"
#include "rule/rule.h"
#include "train/saved/saved_run.h"

// ----------------------------------------------------------------- settings, by kind

#define put_flag(x, none) json_flag(x)
#define put_u32(x, most) json_integer(x)
#define put_u64(x, most) json_integer((json_int_t)(x))
#define put_f32(x, none) json_real((double)(x))
#define put_hex(x, none) json_hex(x)

static json_t *put_word(bool second, const char *words)
{
    char word[OPTION_NAME_MAX];
    return json_string(options_word(words, second, word));
}

#define get_flag(f, o, name, none) json_read_flag(f, o, name)
#define get_u32(f, o, name, most) (uint32_t) json_read_int(f, o, name, most)
#define get_u64(f, o, name, most) json_read_int(f, o, name, most)
#define get_f32(f, o, name, none) (float)json_read_real(f, o, name)
#define get_hex(f, o, name, none) json_read_hex(f, o, name)

// Reads a field that has one of two words. Returns whether it has the second word;
// records an error if it has neither word.
static bool get_word(struct json_fields *f, const json_t *o, const char *name,
                     const char *words)
{
    const char *text = json_read_text(f, o, name);
    char first[OPTION_NAME_MAX], second[OPTION_NAME_MAX];
    bool is_second = strcmp(text, options_word(words, 1, second)) == 0;
    if (!is_second && strcmp(text, options_word(words, 0, first)) != 0)
        json_complain(f, name, "is a word that this version does not know");
    return is_second;
}

// Settings of a list are written from the struct `from` to the object `o`, and read back to
// the struct `ret`.
#define PUT(kind, member, name, arg, was)                                                \
    json_put_value(o, name, put_##kind(from->member, arg));
#define PUT_PART(part) put_##part(o, from);
#define GET(kind, member, name, arg, was)                                                \
    if ((was) >= 0 && json_object_get(o, name) == NULL)                                  \
        ret->member = (SETTING_##kind)(was);                                             \
    else                                                                                 \
        ret->member = get_##kind(f, o, name, arg);

// ------------------------------------------------------------------------- the model

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
        .lr = (float)json_read_real(f, r, "lr"),
        .l1 = (float)json_read_real(f, r, "l1"),
        .l2 = (float)json_read_real(f, r, "l2"),
        .prior = (float)json_read_real(f, r, "prior"),
        .n0 = (float)json_read_real(f, r, "n0"),
        .beta = (float)json_read_real(f, r, "beta"),
        .beta1 = (float)json_read_real(f, r, "beta1"),
        .beta2 = (float)json_read_real(f, r, "beta2"),
    };
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

static void get_tasks(struct json_fields *f, const json_t *o, struct model_options *ret)
{
    const char *tower = json_read_text(f, o, "tower");
    if (tower[0] != '\0' && model_hidden_parse(tower, ret->tower, NULL) != 0)
        json_complain(f, "tower", "is not a list of layers");
    if (model_weights_parse(json_read_text(f, o, "task-weights"), ret->task_weight,
                            NULL) != 0)
        json_complain(f, "task-weights", "is not a list of weights");
}

static json_t *layers_to_json(const struct model_options *from)
{
    char hidden[MODEL_HIDDEN_TEXT_MAX];
    json_t *o = json_object();
    model_hidden_print(from->hidden, hidden);
    json_put(o, "hidden", hidden);
    LAYER_SETTINGS(PUT)
    json_put_value(o, "dense", rule_to_json(&from->dense));
    if (from->tasks > 1)
        put_tasks(o, from);
    return o;
}

static void get_layers(struct json_fields *f, const json_t *o, struct model_options *ret)
{
    if (!json_is_object(o)) {
        json_complain(f, "layers", "is missing");
        return;
    }
    if (model_hidden_parse(json_read_text(f, o, "hidden"), ret->hidden, NULL) != 0)
        json_complain(f, "hidden", "is not a list of layers");
    LAYER_SETTINGS(GET)
    get_rule(f, o, "dense", &ret->dense);
    if (ret->tasks > 1)
        get_tasks(f, o, ret);
}

static void put_model(json_t *o, const struct model_options *from)
{
    json_put(o, "model", from->ops->name);
    MODEL_SETTINGS(PUT)
    json_put_value(o, "linear", rule_to_json(&from->linear));
    json_put_value(o, "latent", rule_to_json(&from->latent));
}

static void get_model(struct json_fields *f, const json_t *o, struct model_options *ret)
{
    if (model_find(json_read_text(f, o, "model"), &ret->ops, NULL) != 0)
        json_complain(f, "model", "names no model that this version knows");
    MODEL_SETTINGS(GET)
    get_rule(f, o, "linear", &ret->linear);
    get_rule(f, o, "latent", &ret->latent);
    if (ret->ops != NULL && ret->ops->dense != NULL)
        get_layers(f, json_object_get(o, "layers"), ret);
}

// ------------------------------------------------------------------------- training

static void copy_text(struct json_fields *f, const json_t *o, const char *name, char *to,
                      size_t size)
{
    const char *text = json_read_text(f, o, name);
    if ((size_t)snprintf(to, size, "%s", text) >= size)
        json_complain(f, name, "is too long");
}

static void copy_later_text(struct json_fields *f, const json_t *o, const char *name,
                            char *to, size_t size)
{
    to[0] = '\0';
    if (json_object_get(o, name) != NULL)
        copy_text(f, o, name, to, size);
}

static void put_data(json_t *o, const struct saved_options *from)
{
    json_put_value(o, "data-in", put_word(from->streaming, "memory stream"));
    json_put(o, "window", from->window_bytes);
    json_put(o, "valid", from->valid_part.share);
    json_put(o, "table", from->table);
}

json_t *saved_options_to_json(const struct saved_options *from)
{
    json_t *o = json_object();
    put_model(o, &from->model);
    json_put(o, "schedule", (uint32_t)from->schedule.kind);
    json_put(o, "schedule-a", from->schedule.a);
    json_put(o, "schedule-b", from->schedule.b);
    TRAINING_SETTINGS(PUT, PUT_PART)
    json_put(o, "merge-ids", from->merge);
    json_put(o, "dims", from->dims);
    if (from->model.ops->dense != NULL)
        json_put_value(o, "layers", layers_to_json(&from->model));
    if (from->valid_part.from > 0)
        json_put(o, "valid-from", from->valid_part.from);
    if (from->shuffle[0] != '\0')
        json_put(o, "shuffle", from->shuffle);
    return o;
}

void saved_options_from_json(struct saved_options *ret, json_t *o, struct json_fields *f)
{
    get_model(f, o, &ret->model);
    ret->schedule.kind = (enum schedule_kind)json_read_int(f, o, "schedule",
                                                           SCHEDULE_LINEAR);
    ret->schedule.a = json_read_real(f, o, "schedule-a");
    ret->schedule.b = json_read_real(f, o, "schedule-b");
    TRAINING_SETTINGS(GET, SETTING_NOTHING)
    ret->streaming = get_word(f, o, "data-in", "memory stream");
    ret->window_bytes = json_read_int(f, o, "window", INT64_MAX);
    ret->valid_part.share = json_read_real(f, o, "valid");
    // Older saves lack the field: their examples for validation began at 0.
    if (json_object_get(o, "valid-from") != NULL)
        ret->valid_part.from = json_read_real(f, o, "valid-from");
    copy_text(f, o, "table", ret->table, sizeof(ret->table));
    copy_later_text(f, o, "shuffle", ret->shuffle, sizeof(ret->shuffle));
    copy_later_text(f, o, "merge-ids", ret->merge, sizeof(ret->merge));
    copy_later_text(f, o, "dims", ret->dims, sizeof(ret->dims));
}

// ------------------------------------------------------------------------- the plan

static void put_save_every(json_t *o, const struct saved_plan *from)
{
    json_put(o, "save-passes", from->save_passes);
    json_put(o, "save-batches", from->save_batches);
}

json_t *saved_plan_to_json(const struct saved_plan *from)
{
    json_t *o = json_object();
    PLAN_SETTINGS(PUT, PUT, PUT_PART)
    if (from->mode[0] == '\0')
        return o;
    json_put(o, "mode", from->mode);
    json_put(o, "rules", from->rules);
    json_put(o, "bf16", (uint32_t)from->bf16);
    json_put(o, "in-flight", from->in_flight);
    if (from->dense_bounded)
        json_put(o, "dense-staleness", from->dense_staleness);
    return o;
}

void saved_plan_put_shared(json_t *o, const struct saved_plan *from)
{
    PLAN_SETTINGS(PUT, SETTING_NOTHING, SETTING_NOTHING)
}

void saved_plan_from_json(struct saved_plan *ret, const json_t *o, struct json_fields *f)
{
    *ret = (struct saved_plan){0};
    if (o == NULL) // saves of older versions lack the plan
        return;
    PLAN_SETTINGS(GET, GET, SETTING_NOTHING)
    ret->save_passes = (uint32_t)json_read_int(f, o, "save-passes", INT32_MAX);
    ret->save_batches = json_read_int(f, o, "save-batches", INT64_MAX);
    if (json_object_get(o, "mode") == NULL)
        return;
    copy_text(f, o, "mode", ret->mode, sizeof(ret->mode));
    copy_text(f, o, "rules", ret->rules, sizeof(ret->rules));
    ret->bf16 = json_read_int(f, o, "bf16", 1) != 0;
    ret->in_flight = (uint32_t)json_read_int(f, o, "in-flight", INT32_MAX);
    ret->dense_bounded = json_object_get(o, "dense-staleness") != NULL;
    if (ret->dense_bounded)
        ret->dense_staleness = (uint32_t)json_read_int(f, o, "dense-staleness",
                                                       UINT32_MAX);
}
