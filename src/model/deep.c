// Common functions of the models with layers: see deep.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/deep.h"

#include <stdio.h>
#include <stdlib.h>

#include "rule/rule.h"

// Sets values found by a search on MovieLens-1M (docs/models.md).
void deep_defaults(struct model_options *o)
{
    for (size_t l = 0; l < 3; l++)
        o->hidden[l] = 400;
    o->dim = 16;
    o->normalize = false;
    o->init = 0.01f;
    o->latent.lr = 2 * o->linear.lr;
    o->dense = rule_defaults(RULE_ADAM);
}

int deep_check(const struct model_options *o, struct err *e)
{
    TRY(model_check_dim(o, e));
    if (o->hidden[0] == 0)
        return err_set(e, TUG_EUSAGE, "--hidden is empty; this model needs a layer");
    for (size_t l = 0; l < MODEL_MAX_HIDDEN; l++)
        if (o->hidden[l] > MODEL_MAX_UNITS || o->tower[l] > MODEL_MAX_UNITS)
            return err_set(e, TUG_EUSAGE, "--%s has a layer of %u units; at most %d",
                           o->hidden[l] > MODEL_MAX_UNITS ? "hidden" : "tower",
                           o->hidden[l] > MODEL_MAX_UNITS ? o->hidden[l] : o->tower[l],
                           MODEL_MAX_UNITS);
    if (o->tower[0] != 0 && o->tasks == 1)
        return err_set(e, TUG_EUSAGE,
                       "--tower needs several labels: each label gets layers of its own "
                       "above those of --hidden");
    if (!(o->dropout >= 0 && o->dropout < 1))
        return err_set(e, TUG_EUSAGE,
                       "--dropout is %g; it must be at least 0 and below 1",
                       (double)o->dropout);
    return 0;
}

int model_hidden_parse(const char *text, uint32_t ret[MODEL_MAX_HIDDEN], struct err *e)
{
    const char *at = text;
    memset(ret, 0, MODEL_MAX_HIDDEN * sizeof(*ret));
    for (size_t l = 0; l < MODEL_MAX_HIDDEN; l++) {
        char *end;
        unsigned long units = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : 0;
        if (units == 0 || units > MODEL_MAX_UNITS)
            break;
        ret[l] = (uint32_t)units;
        if (*end == '\0')
            return 0;
        if (*end != ',')
            break;
        at = end + 1;
    }
    return err_set(e, TUG_EUSAGE,
                   "'%.100s' is not a list of layers: give the units of each, as "
                   "400,400,400; at most %d layers, each of 1 to %d units",
                   text, MODEL_MAX_HIDDEN, MODEL_MAX_UNITS);
}

void model_hidden_print(const uint32_t hidden[MODEL_MAX_HIDDEN],
                        char ret[MODEL_HIDDEN_TEXT_MAX])
{
    size_t used = 0;
    ret[0] = '\0';
    for (size_t l = 0; l < MODEL_MAX_HIDDEN && hidden[l] != 0; l++)
        used += (size_t)snprintf(ret + used, MODEL_HIDDEN_TEXT_MAX - used, "%s%u",
                                 l > 0 ? "," : "", hidden[l]);
}

int model_weights_parse(const char *text, float ret[MODEL_MAX_TASKS], struct err *e)
{
    const char *at = text;
    memset(ret, 0, MODEL_MAX_TASKS * sizeof(*ret));
    for (size_t k = 0; k < MODEL_MAX_TASKS; k++) {
        char *end;
        float weight = (*at >= '0' && *at <= '9') || *at == '.' ? strtof(at, &end) : 0;
        if (!(weight > 0 && weight <= 1e6f))
            break;
        ret[k] = weight;
        if (*end == '\0')
            return 0;
        if (*end != ',')
            break;
        at = end + 1;
    }
    return err_set(
        e, TUG_EUSAGE,
        "'%.100s' is not a list of weights: give a number for each label, above "
        "0, as 1,0.5",
        text);
}

void model_weights_print(const float weights[MODEL_MAX_TASKS],
                         char ret[MODEL_WEIGHTS_TEXT_MAX])
{
    size_t used = 0;
    ret[0] = '\0';
    for (size_t k = 0; k < MODEL_MAX_TASKS && weights[k] > 0; k++)
        used += (size_t)snprintf(ret + used, MODEL_WEIGHTS_TEXT_MAX - used, "%s%.9g",
                                 k > 0 ? "," : "", (double)weights[k]);
}

void deep_layout(const struct model_options *o, struct accessor_options *ret)
{
    struct dims d = dims_of(o);
    ret->dim = d.longest;
    ret->random = o->n_dims > 0 ? d.shortest : 0;
}

void deep_wide_layout(const struct model_options *o, struct accessor_options *ret)
{
    deep_layout(o, ret);
    ret->embed = o->tasks;
}

// Returns the shared layers, whose input is all fields' vectors.
static struct tower shared(const struct model_options *o)
{
    return tower_of(o, fields_floats(o));
}

// Returns the tower of a task, whose input is the output of the shared layers. The
// tower's parameters come after those of earlier tasks' towers. The tower's unit has the
// random numbers before those of the tower's layers.
static struct tower tower(const struct model_options *o, uint32_t task)
{
    struct tower bottom = shared(o), t = bottom;
    t.in = tower_out(&bottom);
    for (t.n = 0; t.n < MODEL_MAX_HIDDEN && o->tower[t.n] != 0; t.n++)
        t.units[t.n] = o->tower[t.n];
    t.task = task;
    t.number = MODEL_MAX_HIDDEN + task * (MODEL_MAX_HIDDEN + 1) + 1;
    t.parameters = tower_parameters(&bottom) + task * tower_score_parameters(&t);
    t.summaries = tower_summaries(&bottom) + task * tower_summaries(&t);
    return t;
}

// Returns a tower whose parameters begin after those of the last task's tower.
static struct tower deep_end(const struct model_options *o)
{
    return tower(o, o->tasks);
}

size_t deep_dense(const struct model_options *o)
{
    return deep_end(o).parameters;
}

void deep_first(const struct model_options *o, float *ret)
{
    struct tower t = shared(o);
    tower_first(&t, ret);
    for (uint32_t k = 0; k < o->tasks; k++) {
        t = tower(o, k);
        tower_score_first(&t, ret + t.parameters);
    }
}

void deep_layer_name(const struct model_options *o, size_t at,
                     char ret[MODEL_LAYER_NAME_MAX])
{
    struct tower t = shared(o);
    char name[MODEL_LAYER_NAME_MAX / 2];
    uint32_t task = 0;
    if (at < tower_parameters(&t) || o->tasks == 1) {
        tower_layer_name(&t, at, ret);
        return;
    }
    while (at >= tower(o, task + 1).parameters)
        task++;
    t = tower(o, task);
    tower_layer_name(&t, at - t.parameters, ret);
    snprintf(name, sizeof(name), "%s", ret);
    snprintf(ret, MODEL_LAYER_NAME_MAX, "%s of label %u", name, task + 1);
}

size_t deep_summaries(const struct model_options *o)
{
    return deep_end(o).summaries;
}

struct deep deep_of(const struct model_work *w, const struct model_batch *b)
{
    const struct model_options *o = &w->model->options;
    size_t floats = fields_floats(o);
    return (struct deep){
        .shared = shared(o),
        .x = {w->kept, b->n, floats, w->stride},
        .dx = {w->kept + floats, b->n, floats, w->stride},
        .kept = w->kept + 2 * floats,
    };
}

size_t deep_kept(const struct model *m)
{
    struct tower t = shared(&m->options), own = tower(&m->options, 0);
    return 2 * fields_floats(&m->options) + tower_kept(&t) +
           m->options.tasks * tower_kept(&own);
}

// Returns the address of the values that are kept for a task's tower.
static float *tower_kept_at(const struct deep *d, const struct tower *t)
{
    return d->kept + tower_kept(&d->shared) + t->task * tower_kept(t);
}

void deep_forward(struct deep *d, const struct model_work *w, const struct model_batch *b,
                  float *ret_scores)
{
    const struct model_options *o = &w->model->options;
    memset(ret_scores, 0, b->n * o->tasks * sizeof(*ret_scores));
    fields_forward(w, b, d->x);
    struct matrix y = tower_forward(&d->shared, w, b, d->x, d->kept);
    for (uint32_t k = 0; k < o->tasks; k++) {
        struct tower t = tower(o, k);
        tower_score(&t, w, b, y, tower_kept_at(d, &t), ret_scores);
    }
}

void deep_layers(struct model_work *w, const struct model_batch *b, float *ret_scores)
{
    struct deep d = deep_of(w, b);
    deep_forward(&d, w, b, ret_scores);
}

void deep_backward(struct deep *d, const struct model_work *w,
                   const struct model_batch *b, const float *err, float *dense)
{
    const struct model_options *o = &w->model->options;
    struct matrix y = tower_output(&d->shared, d->x, d->kept),
                  dy = tower_delta(&d->shared, d->x, d->kept);
    for (uint32_t k = 0; k < o->tasks; k++) {
        struct tower t = tower(o, k);
        tower_score_backward(&t, w, b, y, err, tower_kept_at(d, &t), dense, dy);
    }
    tower_backward(&d->shared, w, b, d->x, d->kept, dense, d->dx, false);
}

void deep_linear(const struct model_work *w, const struct model_batch *b, float *scores)
{
    uint32_t tasks = w->model->options.tasks, at = model_group(w, MODEL_LINEAR)->weights;
    for (size_t i = 0; i < b->n; i++) {
        struct model_example x = model_example(b, i);
        for (uint32_t k = 0; k < tasks; k++)
            *scores++ += w->model->kernels->gather_dot(x.rows, at + k, x.x, x.n);
    }
}

void deep_linear_gradients(const struct model_work *w, const struct model_batch *b,
                           const float *err, float *ret_gradients)
{
    uint32_t tasks = w->model->options.tasks;
    for (size_t i = 0; i < b->n; i++, err += tasks) {
        struct model_example x = model_example(b, i);
        if (tasks == 1)
            model_linear_gradients(w, &x, *err, ret_gradients);
        for (size_t j = 0; j < x.n && tasks > 1; j++)
            for (uint32_t k = 0; k < tasks; k++)
                ret_gradients[j * tasks + k] = err[k] * x.x[j];
        ret_gradients += x.n * tasks;
    }
}
