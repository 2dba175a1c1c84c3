// Layers of deep models: see layers.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/random.h"
#include "model/batch_norm.h"
#include "model/blas.h"
#include "model/model_internal.h"

int layers_begin(struct err *e)
{
    return blas_load(e);
}

const char *layers_older_cpu(void)
{
    static const char *const newer[] = {"Haswell",  "SkylakeX", "Cooperlake",
                                        "Sapphire", "Zen",      "Excavator"};
    struct err why; // ignored: the same error is reported when a model is made
    if (layers_begin(&why) != 0)
        return NULL;
    const char *name = blas()->get_corename();
    for (size_t i = 0; i < sizeof(newer) / sizeof(*newer); i++)
        if (strncasecmp(name, newer[i], strlen(newer[i])) == 0)
            return NULL;
    return __builtin_cpu_supports("avx2") ? name : NULL;
}

static void multiply(enum CBLAS_TRANSPOSE ta, enum CBLAS_TRANSPOSE tb, size_t m, size_t n,
                     size_t k, const float *a, size_t lda, const float *b, size_t ldb,
                     float beta, float *c, size_t ldc)
{
    blas()->sgemm(CblasRowMajor, ta, tb, (int)m, (int)n, (int)k, 1, a, (int)lda, b,
                  (int)ldb, beta, c, (int)ldc);
}

const struct kernels *layers_exact(const struct model_work *w,
                                   const struct model_batch *b)
{
    return b->training ? NULL : w->model->kernels;
}

// Computes y += x w.
static void product_add(const struct kernels *exact, struct matrix x, const float *w,
                        struct matrix y)
{
    if (exact != NULL)
        exact->multiply(y.at, y.stride, x.at, x.stride, w, x.rows, x.columns, y.columns);
    else
        multiply(CblasNoTrans, CblasNoTrans, x.rows, y.columns, x.columns, x.at, x.stride,
                 w, y.columns, 1, y.at, y.stride);
}

void layer_forward(const struct kernels *exact, struct matrix x, const float *parameters,
                   struct matrix y)
{
    const float *biases = parameters + x.columns * y.columns;
    for (size_t i = 0; i < x.rows; i++)
        memcpy(y.at + i * y.stride, biases, y.columns * sizeof(float));
    product_add(exact, x, parameters, y);
}

// These functions compute products x w without biases, and their gradients.
static void product_forward(const struct kernels *exact, struct matrix x, const float *w,
                            struct matrix y)
{
    for (size_t i = 0; i < x.rows; i++)
        memset(y.at + i * y.stride, 0, y.columns * sizeof(float));
    product_add(exact, x, w, y);
}

static void product_gradients(struct matrix x, struct matrix dy, float *gradients)
{
    multiply(CblasTrans, CblasNoTrans, x.columns, dy.columns, x.rows, x.at, x.stride,
             dy.at, dy.stride, 1, gradients, dy.columns);
}

static void product_backward(struct matrix x, const float *parameters, struct matrix dy,
                             struct matrix dx, float beta)
{
    multiply(CblasNoTrans, CblasTrans, x.rows, x.columns, dy.columns, dy.at, dy.stride,
             parameters, dy.columns, beta, dx.at, dx.stride);
}

static void layer_gradients(struct matrix x, struct matrix dy, float *gradients)
{
    float *biases = gradients + x.columns * dy.columns;
    for (size_t i = 0; i < x.rows; i++)
        for (size_t c = 0; c < dy.columns; c++)
            biases[c] += dy.at[i * dy.stride + c];
    product_gradients(x, dy, gradients);
}

void layer_backward_add(struct matrix x, const float *parameters, struct matrix dy,
                        float *gradients, struct matrix dx)
{
    layer_gradients(x, dy, gradients);
    product_backward(x, parameters, dy, dx, 1);
}

void layer_first(size_t in, size_t out, uint64_t seed, uint64_t stream, float *ret)
{
    float most = sqrtf(6.0f / (float)in);
    for (size_t i = 0; i < in * out; i++)
        ret[i] = most * (2 * random_f32(seed, stream, i) - 1);
}

struct tower tower_of(const struct model_options *o, size_t in)
{
    struct tower t = {.in = in,
                      .dropout = o->dropout,
                      .batch_norm = o->batch_norm,
                      .seed = o->seed,
                      .tasks = o->tasks};
    while (t.n < MODEL_MAX_HIDDEN && o->hidden[t.n] != 0) {
        t.units[t.n] = o->hidden[t.n];
        t.n++;
    }
    return t;
}

static size_t units_below(const struct tower *t, size_t layer)
{
    return layer == 0 ? t->in : t->units[layer - 1];
}

size_t tower_out(const struct tower *t)
{
    return units_below(t, t->n);
}

static size_t parameters_of(const struct tower *t, size_t layer)
{
    return layer_parameters(units_below(t, layer), t->units[layer]) +
           (t->batch_norm ? t->units[layer] : 0);
}

size_t tower_parameters(const struct tower *t)
{
    size_t n = 0;
    for (size_t l = 0; l < t->n; l++)
        n += parameters_of(t, l);
    return n;
}

void tower_first(const struct tower *t, float *ret)
{
    for (size_t l = 0; l < t->n; l++) {
        layer_first(units_below(t, l), t->units[l], t->seed, UINT32_MAX - t->number - l,
                    ret);
        ret += parameters_of(t, l);
        for (size_t c = 0; c < t->units[l] && t->batch_norm; c++)
            ret[-1 - (ptrdiff_t)c] = 1; // the scales of batch normalisation
    }
}

// Returns the number of units of layers [0, l).
static size_t units_before(const struct tower *t, size_t l)
{
    size_t n = 0;
    while (l > 0)
        n += t->units[--l];
    return n;
}

static size_t summaries_before(const struct tower *t, size_t l)
{
    size_t n = 0;
    while (l > 0)
        n += batch_norm_summaries(t->units[--l]);
    return n;
}

size_t tower_summaries(const struct tower *t)
{
    return t->batch_norm ? summaries_before(t, t->n) : 0;
}

// The kinds of values that are kept for each example; each kind has a value for each unit.
// STATISTICS belong to all examples that are computed together; they
// are stored in the memory of the first of these examples.
enum { OUTPUT, DELTA, NORMALISED, STATISTICS };

size_t tower_kept(const struct tower *t)
{
    return (t->batch_norm ? STATISTICS + 1 : DELTA + 1) * units_before(t, t->n);
}

static struct matrix kept_of(const struct tower *t, size_t what, size_t l,
                             struct matrix x, float *kept)
{
    kept += what * units_before(t, t->n) + units_before(t, l);
    return (struct matrix){kept, x.rows, t->units[l], x.stride};
}

static struct matrix output(const struct tower *t, size_t l, struct matrix x, float *kept)
{
    return kept_of(t, OUTPUT, l, x, kept);
}

static struct matrix delta(const struct tower *t, size_t l, struct matrix x, float *kept)
{
    return kept_of(t, DELTA, l, x, kept);
}

// Returns the batch normalisation of layer l, with its parameters and statistics.
static struct batch_norm norm_of(const struct tower *t, const struct model_work *w,
                                 const struct model_batch *b, size_t l,
                                 const float *parameters, struct matrix x, float *kept)
{
    struct matrix s = kept_of(t, STATISTICS, l, x, kept);
    const float *shift = parameters + units_below(t, l) * t->units[l];
    return (struct batch_norm){.shift = shift,
                               .scale = shift + t->units[l],
                               .summary = model_summaries(w) + t->summaries +
                                          summaries_before(t, l),
                               .training = b->training,
                               .share = b->share,
                               .mean = s.at,
                               .variance = s.at + s.stride,
                               .by_z = s.at + 2 * s.stride};
}

static void rectify(struct matrix y)
{
    for (size_t i = 0; i < y.rows; i++) {
        float *row = y.at + i * y.stride;
        for (size_t c = 0; c < y.columns; c++)
            row[c] = row[c] > 0 ? row[c] : 0;
    }
}

static float scale_of(const struct tower *t, const uint64_t *draw)
{
    return draw != NULL ? 1 / (1 - t->dropout) : 1;
}

// Drops units at random. Sixteen random bits decide about each unit.
static void drop_out(const struct tower *t, size_t layer, struct matrix y,
                     const uint64_t *draw)
{
    uint32_t below = (uint32_t)(t->dropout * 0x1p16f);
    float scale = scale_of(t, draw);
    for (size_t i = 0; i < y.rows; i++) {
        float *row = y.at + i * y.stride;
        for (size_t c = 0; c < y.columns; c += 4) {
            uint64_t bits = random_u64(draw[i], t->number + layer, c);
            for (size_t k = c; k < c + 4 && k < y.columns; k++, bits >>= 16)
                row[k] *= (bits & 0xffff) < below ? 0 : scale;
        }
    }
}

struct matrix tower_forward(const struct tower *t, const struct model_work *w,
                            const struct model_batch *b, struct matrix x, float *kept)
{
    const struct kernels *exact = layers_exact(w, b);
    const float *parameters = model_layers(w) + t->parameters;
    struct matrix in = x;
    for (size_t l = 0; l < t->n; l++) {
        struct matrix y = output(t, l, x, kept);
        model_needs(w, (size_t)(parameters - model_layers(w)), parameters_of(t, l));
        if (t->batch_norm) {
            struct batch_norm n = norm_of(t, w, b, l, parameters, x, kept);
            struct matrix z = kept_of(t, NORMALISED, l, x, kept);
            product_forward(exact, in, parameters, z);
            batch_norm_forward(&n, z, y);
        } else {
            layer_forward(exact, in, parameters, y);
        }
        rectify(y);
        if (b->draw != NULL && t->dropout > 0)
            drop_out(t, l, y, b->draw);
        parameters += parameters_of(t, l);
        in = y;
    }
    return in;
}

// Turns d loss / d y into the derivative by the values before rectification. The
// derivative is 0 where y is 0, because that value was negative or was dropped. All other
// values were multiplied by `scale`.
static void through_rectified(struct matrix dy, struct matrix y, float scale)
{
    for (size_t i = 0; i < y.rows; i++) {
        const float *from = y.at + i * y.stride;
        float *to = dy.at + i * dy.stride;
        for (size_t c = 0; c < y.columns; c++)
            to[c] = from[c] > 0 ? scale * to[c] : 0;
    }
}

// Computes derivatives backward through the batch normalisation of layer l. `gradients` are
// the gradients of this layer's parameters; `summaries` is the change of all summaries of the
// model.
static void normalised_backward(const struct tower *t, const struct model_work *w,
                                const struct model_batch *b, size_t l, struct matrix x,
                                float *kept, const float *parameters, float *gradients,
                                float *summaries)
{
    struct batch_norm n = norm_of(t, w, b, l, parameters, x, kept);
    float *shift = gradients + units_below(t, l) * t->units[l];
    batch_norm_backward(&n, kept_of(t, NORMALISED, l, x, kept), delta(t, l, x, kept),
                        shift + t->units[l], shift,
                        summaries + t->summaries + summaries_before(t, l));
}

struct matrix tower_output(const struct tower *t, struct matrix x, float *kept)
{
    return output(t, t->n - 1, x, kept);
}

struct matrix tower_delta(const struct tower *t, struct matrix x, float *kept)
{
    return delta(t, t->n - 1, x, kept);
}

void tower_backward(const struct tower *t, const struct model_work *w,
                    const struct model_batch *b, struct matrix x, float *kept,
                    float *gradients, struct matrix dx, bool add)
{
    size_t at = t->parameters + tower_parameters(t);
    for (size_t l = t->n; l-- > 0;) {
        struct matrix in = l > 0 ? output(t, l - 1, x, kept) : x,
                      dy = delta(t, l, x, kept),
                      din = l > 0 ? delta(t, l - 1, x, kept) : dx;
        at -= parameters_of(t, l);
        const float *parameters = model_layers(w) + at;
        float beta = l == 0 && add ? 1 : 0;
        through_rectified(dy, output(t, l, x, kept), scale_of(t, b->draw));
        if (t->batch_norm) {
            normalised_backward(t, w, b, l, x, kept, parameters, gradients + at,
                                model_summary_gradients(w, gradients));
            product_gradients(in, dy, gradients + at);
        } else {
            layer_gradients(in, dy, gradients + at);
        }
        model_has(w, at, parameters_of(t, l));
        product_backward(in, parameters, dy, din, beta);
    }
}

// Sets the initial weights of an output unit. The weights are small, so that the first
// scores are near the bias.
void unit_first(size_t in, uint64_t seed, size_t number, float *ret)
{
    float most = 1 / sqrtf((float)in);
    for (size_t i = 0; i < in; i++)
        ret[i] = most * (2 * random_f32(seed, UINT32_MAX - number, i) - 1);
}

void unit_forward(const struct kernels *exact, struct matrix y, const float *w,
                  size_t tasks, float *scores)
{
    if (exact != NULL) {
        for (size_t i = 0; i < y.rows; i++)
            scores[i * tasks] += exact->dot(y.at + i * y.stride, w, y.columns);
        return;
    }
    blas()->sgemv(CblasRowMajor, CblasNoTrans, (int)y.rows, (int)y.columns, 1, y.at,
                  (int)y.stride, w, 1, 1, scores, (int)tasks);
}

void unit_backward(struct matrix y, const float *w, size_t tasks, const float *err,
                   float *dw, struct matrix dy, bool add)
{
    blas()->sgemv(CblasRowMajor, CblasTrans, (int)y.rows, (int)y.columns, 1, y.at,
                  (int)y.stride, err, (int)tasks, 1, dw, 1);
    for (size_t i = 0; i < dy.rows; i++)
        for (size_t c = 0; c < dy.columns; c++) {
            float d = err[i * tasks] * w[c], *to = &dy.at[i * dy.stride + c];
            *to = add ? *to + d : d;
        }
}

void tower_layer_name(const struct tower *t, size_t at, char ret[MODEL_LAYER_NAME_MAX])
{
    for (size_t l = 0; l < t->n; at -= parameters_of(t, l++))
        if (at < parameters_of(t, l)) {
            snprintf(ret, MODEL_LAYER_NAME_MAX, "layer %zu of %zu", l + 1, t->n);
            return;
        }
    snprintf(ret, MODEL_LAYER_NAME_MAX, "the unit on the layers");
}

// Returns the number that selects the output unit's random numbers, as a layer's number does.
// It is one below the number of the tower's first layer. The tower of --hidden begins with
// number 0; for its unit the number after all possible layers is used.
static size_t unit_number(const struct tower *t)
{
    return t->number == 0 ? MODEL_MAX_HIDDEN : t->number - 1;
}

size_t tower_score_parameters(const struct tower *t)
{
    return tower_parameters(t) + tower_out(t);
}

void tower_score_first(const struct tower *t, float *ret)
{
    tower_first(t, ret);
    unit_first(tower_out(t), t->seed, unit_number(t), ret + tower_parameters(t));
}

void tower_score(const struct tower *t, const struct model_work *w,
                 const struct model_batch *b, struct matrix x, float *kept, float *scores)
{
    struct matrix y = tower_forward(t, w, b, x, kept);
    size_t unit = t->parameters + tower_parameters(t);
    model_needs(w, unit, y.columns);
    unit_forward(layers_exact(w, b), y, model_layers(w) + unit, t->tasks,
                 scores + t->task);
}

void tower_score_backward(const struct tower *t, const struct model_work *w,
                          const struct model_batch *b, struct matrix x, const float *err,
                          float *kept, float *gradients, struct matrix dx)
{
    size_t unit = t->parameters + tower_parameters(t);
    bool add = t->task > 0, layers = t->n > 0;
    unit_backward(layers ? output(t, t->n - 1, x, kept) : x, model_layers(w) + unit,
                  t->tasks, err + t->task, gradients + unit,
                  layers ? tower_delta(t, x, kept) : dx, add && !layers);
    model_has(w, unit, tower_out(t));
    if (layers)
        tower_backward(t, w, b, x, kept, gradients, dx, add);
}

void fields_forward(const struct model_work *w, const struct model_batch *b,
                    struct matrix ret)
{
    const struct model *m = w->model;
    uint32_t v = model_group(w, MODEL_LATENT)->weights;
    for (size_t i = 0; i < b->n; i++) {
        struct model_example e = model_example(b, i);
        float *to = ret.at + i * ret.stride;
        memset(to, 0, ret.columns * sizeof(*to));
        for (size_t j = 0; j < e.latent.n; j++) {
            struct model_span s = dims_span(w, e.latent.slot[j]);
            m->kernels->axpy(to + s.at, e.latent.u[j], e.latent.rows[j] + v, s.n);
        }
    }
}

void fields_backward(const struct model_work *w, const struct model_batch *b,
                     struct matrix dx, float *ret_gradients)
{
    const struct model *m = w->model;
    size_t width = model_group(w, MODEL_LATENT)->n;
    for (size_t i = 0; i < b->n; i++) {
        struct model_example e = model_example(b, i);
        const float *from = dx.at + i * dx.stride;
        for (size_t j = 0; j < e.latent.n; j++, ret_gradients += width) {
            struct model_span s = dims_span(w, e.latent.slot[j]);
            m->kernels->scale(ret_gradients, e.latent.u[j], from + s.at, s.n);
            memset(ret_gradients + s.n, 0, (width - s.n) * sizeof(*ret_gradients));
        }
    }
}
