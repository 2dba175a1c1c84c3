// DCN-v2 (Wang et al. 2021, figure 1b, the parallel structure): cross layers and fully
// connected layers in parallel, both on the fields' vectors x.
//
//   x_0 = x;  x_{l+1} = x_0 * (x_l W_l + b_l) + x_l          (* by element)
//   score = b + c . x_L + u . relu(... relu(x W1 + b1) ...)
//
// Tasks share the cross layers, and each has a c of its own.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/deep.h"

#include <stdio.h>

static void defaults(struct model_options *o)
{
    deep_defaults(o);
    o->cross = 3;
}

static int dcn_check(const struct model_options *o, struct err *e)
{
    if (o->cross < 1 || o->cross > MODEL_MAX_CROSS)
        return err_set(e, TUG_EUSAGE, "--cross is %u; it must be between 1 and %d",
                       o->cross, MODEL_MAX_CROSS);
    return deep_check(o, e);
}

// Returns the position of cross layer l among the dense parameters. The dense
// parameters are, in this order, those of the towers, of the cross layers, and c of each task.
static size_t cross_at(const struct model_options *o, size_t l)
{
    size_t in = fields_floats(o);
    return deep_dense(o) + l * layer_parameters(in, in);
}

static size_t dense(const struct model_options *o)
{
    return cross_at(o, o->cross) + o->tasks * fields_floats(o);
}

static void first(const struct model_options *o, float *ret)
{
    enum { STREAM = 1 << 30 }; // towers use smaller numbers of streams
    size_t in = fields_floats(o);
    deep_first(o, ret);
    for (uint32_t l = 0; l < o->cross; l++)
        layer_first(in, in, o->seed, STREAM + l, ret + cross_at(o, l));
    for (uint32_t k = 0; k < o->tasks; k++)
        unit_first(in, o->seed + 1, MODEL_MAX_HIDDEN + k,
                   ret + cross_at(o, o->cross) + k * in);
}

// The values that are kept for an example, after the deep_kept floats: x_l W_l + b_l and
// x_{l+1} of each layer, then d loss / d x_L, then d loss / d (x_l W_l + b_l).
struct cross {
    size_t n;
    struct matrix x0, z[MODEL_MAX_CROSS], x[MODEL_MAX_CROSS], dx, dz;
};

static struct cross cross_of(const struct model_work *w, const struct deep *d)
{
    struct cross c = {.n = w->model->options.cross, .x0 = d->x};
    struct matrix at = d->x;
    at.at = w->kept + deep_kept(w->model);
    for (size_t l = 0; l < c.n; l++) {
        c.z[l] = at;
        at.at += at.columns;
        c.x[l] = at;
        at.at += at.columns;
    }
    c.dx = at;
    at.at += at.columns;
    c.dz = at;
    return c;
}

static size_t kept(const struct model *m)
{
    return deep_kept(m) + 2 * (m->options.cross + 1) * fields_floats(&m->options);
}

static void forward(struct model_work *w, const struct model_batch *b, float *ret)
{
    const struct model_options *o = &w->model->options;
    const float *dense = model_layers(w);
    struct deep d = deep_of(w, b);
    deep_forward(&d, w, b, ret);
    struct cross c = cross_of(w, &d);
    for (size_t l = 0; l < c.n; l++) {
        struct matrix in = l > 0 ? c.x[l - 1] : c.x0;
        model_needs(w, cross_at(o, l), cross_at(o, l + 1) - cross_at(o, l));
        layer_forward(layers_exact(w, b), in, dense + cross_at(o, l), c.z[l]);
        for (size_t i = 0; i < b->n; i++) {
            size_t row = i * in.stride;
            for (size_t k = row; k < row + in.columns; k++)
                c.x[l].at[k] = c.x0.at[k] * c.z[l].at[k] + in.at[k];
        }
    }
    model_needs(w, cross_at(o, c.n), o->tasks * c.dx.columns);
    for (uint32_t k = 0; k < o->tasks; k++)
        unit_forward(layers_exact(w, b), c.x[c.n - 1],
                     dense + cross_at(o, c.n) + k * c.dx.columns, o->tasks, ret + k);
}

// Replaces d loss / d x_{l+1} in c->dx by d loss / d x_l. Adds to dx0 the
// derivative by x_0, which is a factor in this layer.
static void backward_layer(const struct cross *c, size_t l, const float *parameters,
                           float *gradients, struct matrix dx0)
{
    struct matrix in = l > 0 ? c->x[l - 1] : c->x0;
    for (size_t i = 0; i < in.rows; i++) {
        size_t row = i * in.stride;
        for (size_t k = row; k < row + in.columns; k++) {
            c->dz.at[k] = c->dx.at[k] * c->x0.at[k];
            dx0.at[k] += c->dx.at[k] * c->z[l].at[k];
        }
    }
    layer_backward_add(in, parameters, c->dz, gradients, c->dx);
}

static void backward(struct model_work *w, const struct model_batch *b, const float *err,
                     float *const *ret, float *dense)
{
    const struct model_options *o = &w->model->options;
    struct deep d = deep_of(w, b);
    deep_backward(&d, w, b, err, dense);
    struct cross c = cross_of(w, &d);
    for (uint32_t k = 0; k < o->tasks; k++) {
        size_t unit = cross_at(o, c.n) + k * c.dx.columns;
        unit_backward(c.x[c.n - 1], model_layers(w) + unit, o->tasks, err + k,
                      dense + unit, c.dx, k > 0);
    }
    model_has(w, cross_at(o, c.n), o->tasks * c.dx.columns);
    for (size_t l = c.n; l-- > 0;) {
        backward_layer(&c, l, model_layers(w) + cross_at(o, l), dense + cross_at(o, l),
                       d.dx);
        model_has(w, cross_at(o, l), cross_at(o, l + 1) - cross_at(o, l));
    }
    for (size_t i = 0; i < b->n; i++)
        for (size_t k = i * c.dx.stride; k < i * c.dx.stride + c.dx.columns; k++)
            d.dx.at[k] += c.dx.at[k];
    deep_no_linear(b, ret[MODEL_LINEAR]);
    fields_backward(w, b, d.dx, ret[MODEL_LATENT]);
}

static void layer_name(const struct model_options *o, size_t at,
                       char ret[MODEL_LAYER_NAME_MAX])
{
    size_t in = fields_floats(o), cross = (at - deep_dense(o)) / layer_parameters(in, in);
    if (at < deep_dense(o))
        deep_layer_name(o, at, ret);
    else if (cross < o->cross)
        snprintf(ret, MODEL_LAYER_NAME_MAX, "cross layer %zu of %u", cross + 1, o->cross);
    else
        snprintf(ret, MODEL_LAYER_NAME_MAX, "a unit on the cross layers");
}

const struct model_ops model_dcn = {
    .name = "dcn",
    .groups = {"w", "v"},
    .needs_fields = true,
    .dims_by_field = true,
    .tasks = true,
    .defaults = defaults,
    .check = dcn_check,
    .layout = deep_layout,
    .dense = dense,
    .first = first,
    .summaries = deep_summaries,
    .kept = kept,
    .at_once = MODEL_AT_ONCE_MAX,
    .by_layer = true,
    .forward = forward,
    .backward = backward,
    .layers = forward,
    .layer_name = layer_name,
};
