// See deep.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/deep.h"

#include <stdio.h>
#include <stdlib.h>

#include "rule/rule.h"

// Found by search on MovieLens-1M (docs/models.md).
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
        if (o->hidden[l] > MODEL_MAX_UNITS)
            return err_set(e, TUG_EUSAGE, "--hidden has a layer of %u units; at most %d",
                           o->hidden[l], MODEL_MAX_UNITS);
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

void deep_layout(const struct model_options *o, struct accessor_options *ret)
{
    ret->dim = o->dim;
}

// The input is all fields' vectors.
static struct tower tower(const struct model_options *o)
{
    return tower_of(o, fields_floats(o));
}

size_t deep_dense(const struct model_options *o)
{
    struct tower t = tower(o);
    return tower_score_parameters(&t);
}

void deep_first(const struct model_options *o, float *ret)
{
    struct tower t = tower(o);
    tower_score_first(&t, ret);
}

void deep_layer_name(const struct model_options *o, size_t at,
                     char ret[MODEL_LAYER_NAME_MAX])
{
    struct tower t = tower(o);
    tower_layer_name(&t, at, ret);
}

size_t deep_summaries(const struct model_options *o)
{
    struct tower t = tower(o);
    return tower_summaries(&t);
}

struct deep deep_of(const struct model_work *w, const struct model_batch *b)
{
    const struct model_options *o = &w->model->options;
    size_t floats = fields_floats(o);
    return (struct deep){
        .tower = tower(o),
        .x = {w->kept, b->n, floats, w->stride},
        .dx = {w->kept + floats, b->n, floats, w->stride},
        .kept = w->kept + 2 * floats,
    };
}

size_t deep_kept(const struct model *m)
{
    struct tower t = tower(&m->options);
    return 2 * fields_floats(&m->options) + tower_kept(&t);
}

void deep_forward(struct deep *d, const struct model_work *w, const struct model_batch *b,
                  float *ret_scores)
{
    memset(ret_scores, 0, b->n * sizeof(*ret_scores));
    fields_forward(w, b, d->x);
    tower_score(&d->tower, w, b, d->x, d->kept, ret_scores);
}

void deep_layers(struct model_work *w, const struct model_batch *b, float *ret_scores)
{
    struct deep d = deep_of(w, b);
    deep_forward(&d, w, b, ret_scores);
}

void deep_backward(struct deep *d, const struct model_work *w,
                   const struct model_batch *b, const float *err, float *dense)
{
    tower_score_backward(&d->tower, w, b, d->x, err, d->kept, dense, d->dx);
}

void deep_linear(const struct model_work *w, const struct model_batch *b, float *scores)
{
    for (size_t i = 0; i < b->n; i++) {
        struct model_example x = model_example(b, i);
        scores[i] += model_linear(w, &x);
    }
}

void deep_linear_gradients(const struct model_work *w, const struct model_batch *b,
                           const float *err, float *ret_gradients)
{
    for (size_t i = 0; i < b->n; i++) {
        struct model_example x = model_example(b, i);
        model_linear_gradients(w, &x, err[i], ret_gradients);
        ret_gradients += x.n;
    }
}
