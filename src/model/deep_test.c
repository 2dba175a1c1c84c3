// Models with layers: scores are compared with sums in double that follow the papers,
// gradients with finite differences of these, and batches with their parts. Further
// tests: summaries, numbers, pooling and dropout.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/deep.h"

#include <math.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/nfm_model.h"
#include "kit/test.h"
#include "model/data_norm.h"
#include "rule/rule.h"

enum {
    FIELDS = 4,
    DIM = 3,
    IN = FIELDS * DIM,
    FEATURES = 6, // features of an example
    ROWS = 9,
    EXAMPLES = 20,
    MAX_DENSE = 1024,
    TASKS = 2, // the largest number of tasks of a shape
};

// `dims` means that the vectors of fields 1 and 2 have 1 and 2 floats, `tasks` that there
// are two tasks. `tower` is the number of units of each task's own layer, or 0.
struct shape {
    const char *name;
    bool dims, tasks;
    uint32_t tower;
};
static const struct shape shapes[] = {
    {"mlp", false, false, 0},      {"wide_deep", false, false, 0},
    {"deepfm", false, false, 0},   {"dcn", false, false, 0},
    {"nfm", false, false, 0},      {"mlp", true, false, 0},
    {"wide_deep", true, false, 0}, {"dcn", true, false, 0},
    {"mlp", false, true, 0},       {"mlp", false, true, 3},
    {"wide_deep", false, true, 0}, {"wide_deep", true, true, 3},
    {"deepfm", false, true, 0},    {"deepfm", false, true, 3},
    {"dcn", false, true, 0},       {"dcn", true, true, 3},
};
enum { N_SHAPES = sizeof(shapes) / sizeof(*shapes) };
static const struct shape plain_mlp = {"mlp", false, false, 0};

struct world {
    struct model m;
    struct model_work w;
    float rows[ROWS][64], dense[MAX_DENSE];
    uint32_t row[EXAMPLES * FEATURES]; // index of each feature's row
    float *at[EXAMPLES * FEATURES + KERNEL_PADDING];
    float x[EXAMPLES * FEATURES + KERNEL_PADDING], label[EXAMPLES * TASKS];
    uint16_t slot[EXAMPLES * FEATURES];
    uint32_t start[EXAMPLES + 1];
    uint64_t draw[EXAMPLES];
    struct model_batch b;
    size_t begin[FIELDS + 1]; // where each field's vector begins in the layers' input
};

static void set_dims(struct world *t, struct model_options *o, bool dims)
{
    if (dims) {
        o->dims[o->n_dims++] = (struct model_dim){1, 1};
        o->dims[o->n_dims++] = (struct model_dim){2, 2};
    }
    for (size_t f = 0; f < FIELDS; f++)
        t->begin[f + 1] = t->begin[f] + (dims && (f == 1 || f == 2) ? f : DIM);
}

static void open_world(struct world *t, struct shape shape, float dropout,
                       bool batch_norm)
{
    struct model_options o = {.linear = rule_defaults(RULE_ADAGRAD),
                              .latent = rule_defaults(RULE_ADAGRAD)};
    assert_int_equal(model_find(shape.name, &o.ops, NULL), 0);
    model_defaults(&o, o.ops, RULE_ADAGRAD);
    set_dims(t, &o, shape.dims);
    o.dim = DIM;
    o.fields = FIELDS;
    o.hidden[0] = 7;
    o.hidden[1] = 5;
    o.hidden[2] = 0;
    o.tasks = shape.tasks ? 2 : 1;
    o.tower[0] = shape.tower;
    o.cross = 2;
    o.dropout = dropout;
    o.batch_norm = batch_norm;
    assert_int_equal(model_init(&t->m, &o, NULL), 0);
    assert_true(model_dense(&t->m) <= MAX_DENSE);
    assert_int_equal(model_work_open(&t->w, &t->m, NULL), 0);
    assert_int_equal(model_reserve(&t->w, EXAMPLES * FEATURES), 0);
    t->w.dense = t->dense;
    for (size_t i = 0; i < ROWS; i++)
        for (size_t c = 0; c < t->m.accessor.width; c++)
            t->rows[i][c] = random_f32(1, i, c) - 0.5f;
    for (size_t i = 0; i < MAX_DENSE; i++)
        t->dense[i] = 1.5f * (random_f32(2, 0, i) - 0.5f);
    for (size_t i = t->m.summaries; i < model_dense(&t->m) && batch_norm; i++)
        // summaries (counts, means, variances) are positive here
        t->dense[i] = random_f32(2, 1, i) + 0.25f;
    for (size_t j = 0; j < EXAMPLES * FEATURES + KERNEL_PADDING; j++) {
        uint32_t row = (uint32_t)random_below(3, 0, j, ROWS);
        t->at[j] = t->rows[row];
        t->x[j] = random_f32(4, 0, j) + 0.5f;
        if (j < EXAMPLES * FEATURES) {
            t->row[j] = row;
            t->slot[j] = (uint16_t)random_below(5, 0, j, FIELDS);
        }
    }
    for (size_t i = 0; i < EXAMPLES; i++) {
        // The third example has no features.
        t->start[i + 1] = t->start[i] + (i == 2 ? 0 : FEATURES);
        t->label[i] = random_f32(6, 0, i);
        t->label[EXAMPLES + i] = random_f32(6, 1, i);
        t->draw[i] = random_u64(7, 0, i);
    }
    t->b = (struct model_batch){.n = EXAMPLES,
                                .start = t->start,
                                .rows = t->at,
                                .x = t->x,
                                .u = t->x,
                                .slot = t->slot,
                                .tasks = o.tasks,
                                .label = t->label};
}

static struct world *normalised_world(struct shape shape, float dropout, bool batch_norm)
{
    struct world *t = mem_zalloc(sizeof(*t));
    assert_non_null(t);
    open_world(t, shape, dropout, batch_norm);
    return t;
}

static struct world *new_world(struct shape shape, float dropout)
{
    return normalised_world(shape, dropout, false);
}

static void close_world(struct world *t)
{
    model_work_close(&t->w);
    mem_free(t);
}

// Parameters in double, from which the naive_ functions compute a model by its definition.
// A test may change single parameters to estimate a gradient.
struct naive {
    double w[ROWS][TASKS], v[ROWS][DIM], dense[MAX_DENSE];
};

static struct naive naive_of(const struct world *t)
{
    struct naive p;
    const struct accessor *a = &t->m.accessor;
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t k = 0; k < a->groups[0].n; k++)
            p.w[i][k] = t->rows[i][a->groups[0].weights + k];
        for (size_t c = 0; c < DIM; c++)
            p.v[i][c] = t->rows[i][a->groups[1].weights + c];
    }
    for (size_t i = 0; i < MAX_DENSE; i++)
        p.dense[i] = t->dense[i];
    return p;
}

// Computes y = x w + b. Returns the address after b.
static const double *naive_layer(const double *x, size_t in, size_t out, const double *p,
                                 double *y)
{
    for (size_t o = 0; o < out; o++) {
        y[o] = p[in * out + o];
        for (size_t i = 0; i < in; i++)
            y[o] += x[i] * p[i * out + o];
    }
    return p + in * out + out;
}

// Mean and variance of a unit over all examples.
struct naive_moments {
    double mean, variance;
};
static struct naive_moments naive_moments(double y[EXAMPLES][IN], size_t c)
{
    struct naive_moments m = {0, 0};
    for (size_t i = 0; i < EXAMPLES; i++)
        m.mean += y[i][c] / EXAMPLES;
    for (size_t i = 0; i < EXAMPLES; i++)
        m.variance += (y[i][c] - m.mean) * (y[i][c] - m.mean) / EXAMPLES;
    return m;
}

// Normalises y by the moments of the examples or, if `summary` is not NULL, by the summary.
static void naive_batch_norm(double y[EXAMPLES][IN], size_t units, const double *shift,
                             const double *scale, const double *summary)
{
    for (size_t c = 0; c < units; c++) {
        struct naive_moments m = naive_moments(y, c);
        if (summary != NULL)
            m = (struct naive_moments){summary[1 + c] / summary[0],
                                       summary[1 + units + c] / summary[0]};
        for (size_t i = 0; i < EXAMPLES; i++)
            y[i][c] = scale[c] * (y[i][c] - m.mean) / sqrt(m.variance + 1e-5) + shift[c];
    }
}

// Computes the rectified layers for all examples; y is the input, and is
// replaced by the output. Returns the address after the layers' parameters.
static const double *naive_layers(const struct world *t, const uint32_t *units,
                                  const double *at, const double *summary,
                                  double y[EXAMPLES][IN], size_t in, bool training)
{
    for (size_t l = 0; units[l] != 0; l++) {
        size_t out = units[l];
        const double *shift = at + in * out;
        for (size_t i = 0; i < EXAMPLES; i++) {
            double z[IN] = {0};
            naive_layer(y[i], in, out, at, z);
            for (size_t c = 0; c < out; c++)
                y[i][c] = z[c] - (t->m.options.batch_norm ? shift[c] : 0);
        }
        at = shift + out;
        if (t->m.options.batch_norm) {
            naive_batch_norm(y, out, shift, at, training ? NULL : summary);
            at += out;
            summary += 1 + 2 * out;
        }
        for (size_t i = 0; i < EXAMPLES; i++)
            for (size_t c = 0; c < out; c++)
                y[i][c] = fmax(y[i][c], 0);
        in = out;
    }
    return at;
}

// Returns the score of the cross layers. `unit` is the index of the task's output unit.
static double naive_cross(const double *x, size_t in, const double *at, size_t unit)
{
    double a[IN], z[IN], score = 0;
    memcpy(a, x, sizeof(a));
    for (size_t l = 0; l < 2; l++) {
        at = naive_layer(a, in, in, at, z);
        for (size_t i = 0; i < in; i++)
            a[i] = x[i] * z[i] + a[i];
    }
    for (size_t i = 0; i < in; i++)
        score += a[i] * at[unit * in + i];
    return score;
}

struct naive_example {
    double x[IN], z[IN], linear[TASKS], pairs[DIM]; // z is the input of nfm's layers
};
static struct naive_example naive_example(const struct world *t, const struct naive *p,
                                          size_t example)
{
    struct naive_example e = {.linear = {0}};
    for (uint32_t j = t->start[example]; j < t->start[example + 1]; j++) {
        for (size_t k = 0; k < TASKS; k++)
            e.linear[k] += p->w[t->row[j]][k] * (double)t->x[j];
        const size_t *at = &t->begin[t->slot[j]];
        for (size_t c = 0; c < at[1] - at[0]; c++)
            e.x[at[0] + c] += p->v[t->row[j]][c] * (double)t->x[j];
    }
    for (uint32_t j = t->start[example]; j < t->start[example + 1]; j++)
        for (uint32_t k = j + 1; k < t->start[example + 1]; k++)
            for (size_t c = 0; c < DIM; c++)
                e.z[c] += p->v[t->row[j]][c] * p->v[t->row[k]][c] * (double)t->x[j] *
                          (double)t->x[k];
    for (size_t f = 0; f < FIELDS; f++)
        for (size_t g = f + 1; g < FIELDS; g++)
            for (size_t c = 0; c < DIM; c++)
                e.pairs[c] += e.x[f * DIM + c] * e.x[g * DIM + c];
    return e;
}

// Adds the parts of the score whose parameters come after all towers: cross layers, or
// weights of pairs.
static double naive_beside(const struct world *t, const struct naive_example *e,
                           const double *at, size_t task)
{
    const char *name = t->m.options.ops->name;
    bool wide = strcmp(name, "wide_deep") == 0 || strcmp(name, "nfm") == 0, one;
    double pairs = 0;
    if (strcmp(name, "dcn") == 0)
        return naive_cross(e->x, t->begin[FIELDS], at, task);
    one = t->m.options.tasks == 1;
    for (size_t c = 0; c < DIM; c++)
        pairs += e->pairs[c] * (one ? 1 : at[task * DIM + c]) / FIELDS;
    return strcmp(name, "deepfm") == 0 ? e->linear[task] + pairs
           : wide                      ? e->linear[task]
                                       : 0;
}

// Computes the scores of all tasks of each example.
static void naive_scores(const struct world *t, const struct naive *p, bool training,
                         double ret[EXAMPLES * TASKS])
{
    const struct model_options *o = &t->m.options;
    struct naive_example e[EXAMPLES];
    double y[EXAMPLES][IN], own[EXAMPLES][IN];
    bool is_nfm = strcmp(o->ops->name, "nfm") == 0;
    size_t out = o->tower[0] != 0 ? o->tower[0] : 5;
    for (size_t i = 0; i < EXAMPLES; i++) {
        e[i] = naive_example(t, p, i);
        memcpy(y[i], is_nfm ? e[i].z : e[i].x, sizeof(y[i]));
    }
    const double *summary = p->dense + t->m.summaries;
    const double *at = naive_layers(t, o->hidden, p->dense + o->tasks, summary, y,
                                    is_nfm ? DIM : t->begin[FIELDS], training);
    for (size_t k = 0; k < o->tasks; k++, at += out) {
        memcpy(own, y, sizeof(own));
        at = naive_layers(t, o->tower, at, summary + 2 + 2 * (7 + 5) + k * (1 + 2 * 3),
                          own, 5, training);
        for (size_t i = 0; i < EXAMPLES; i++) {
            ret[i * o->tasks + k] = 0;
            for (size_t c = 0; c < out; c++)
                ret[i * o->tasks + k] += own[i][c] * at[c];
        }
    }
    for (size_t i = 0; i < EXAMPLES * o->tasks; i++)
        ret[i] += naive_beside(t, &e[i / o->tasks], at, i % o->tasks);
}

static void test_scores(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2 * N_SHAPES; k++) {
        struct world *t = normalised_world(shapes[k / 2], 0, k % 2 == 1);
        struct naive p = naive_of(t);
        float scores[EXAMPLES * TASKS];
        double wanted[EXAMPLES * TASKS];
        assert_int_equal(model_scores(&t->w, &t->b, scores), 0);
        naive_scores(t, &p, false, wanted);
        for (size_t i = 0; i < EXAMPLES * t->m.options.tasks; i++)
            assert_float_equal(scores[i], wanted[i], 2e-5);
        close_world(t);
    }
}

// The function whose gradient is tested: the sum of err[i] times score i.
static double naive_sum(const struct world *t, const struct naive *p, const float *err)
{
    double sum = 0, scores[EXAMPLES * TASKS];
    naive_scores(t, p, true, scores);
    for (size_t i = 0; i < EXAMPLES * t->m.options.tasks; i++)
        sum += (double)err[i] * scores[i];
    return sum;
}

static double difference(const struct world *t, struct naive *p, double *at,
                         const float *err)
{
    const double step = 1e-6;
    double was = *at;
    *at = was + step;
    double more = naive_sum(t, p, err);
    *at = was - step;
    double less = naive_sum(t, p, err);
    *at = was;
    return (more - less) / (2 * step);
}

static void check(const char *what, size_t i, double got, double want)
{
    if (fabs(got - want) > 1e-5 * (1 + fabs(want)) * 4)
        fail_msg("%s %zu: %g, not %g", what, i, got, want);
}

static void check_rows(const struct world *t, struct naive *p, float *const *gradients,
                       const float *err)
{
    double w[ROWS][TASKS] = {{0}}, v[ROWS][DIM] = {{0}};
    size_t weights = t->m.accessor.groups[0].n;
    for (size_t j = 0; j < t->start[EXAMPLES]; j++) {
        for (size_t k = 0; k < weights; k++)
            w[t->row[j]][k] += (double)gradients[0][j * weights + k];
        for (size_t c = 0; c < DIM; c++)
            v[t->row[j]][c] += (double)gradients[1][j * DIM + c];
    }
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t k = 0; k < weights; k++)
            check("weight", i, w[i][k], difference(t, p, &p->w[i][k], err));
        for (size_t c = 0; c < DIM; c++)
            check("vector", i, v[i][c], difference(t, p, &p->v[i][c], err));
    }
}

static void test_gradients(void **state)
{
    (void)state;
    static struct metrics_stream stream[TASKS];
    for (size_t k = 0; k < 2 * N_SHAPES; k++) {
        struct world *t = normalised_world(shapes[k / 2], 0, k % 2 == 1);
        struct naive p = naive_of(t);
        uint32_t tasks = t->m.options.tasks;
        float err[EXAMPLES * TASKS], dense[MAX_DENSE] = {0};
        size_t trained = k % 2 == 1 ? t->m.summaries : model_dense(&t->m);
        struct model_training training = {
            .loss = LOSS_SQUARED, .stream = stream, .dense_gradient = dense};
        assert_int_equal(model_gradients(&t->w, &t->b, &training, err, t->w.gradients),
                         0);
        check_rows(t, &p, t->w.gradients, err);
        double bias[TASKS] = {0};
        for (size_t i = 0; i < EXAMPLES * tasks; i++)
            bias[i % tasks] += (double)err[i];
        for (size_t i = 0; i < tasks; i++)
            check("bias", i, dense[i], bias[i]);
        for (size_t i = tasks; i < trained; i++)
            check("dense", i, dense[i], difference(t, &p, &p.dense[i], err));
        close_world(t);
    }
}

// The loss of a task is multiplied by the task's weight. A task whose label is missing
// has no loss and is not counted.
static void test_tasks(void **state)
{
    (void)state;
    static struct metrics_stream stream[TASKS];
    struct world *t = new_world((struct shape){"mlp", false, true, 3}, 0);
    float scores[EXAMPLES * TASKS], err[EXAMPLES * TASKS], dense[MAX_DENSE] = {0};
    struct model_training training = {
        .loss = LOSS_SQUARED, .stream = stream, .dense_gradient = dense};
    t->m.options.task_weight[1] = 0.25f;
    t->label[3] = (float)NAN; // the second label of the second example
    assert_int_equal(model_scores(&t->w, &t->b, scores), 0);
    assert_int_equal(model_gradients(&t->w, &t->b, &training, err, t->w.gradients), 0);
    for (size_t i = 0; i < EXAMPLES * 2; i++) {
        float bias = t->dense[i % 2], weight = i % 2 == 1 ? 0.25f : 1;
        float wanted = i == 3 ? 0 : weight * (scores[i] + bias - t->label[i]);
        assert_float_equal(err[i], wanted, 1e-5);
    }
    assert_int_equal(stream[0].examples, EXAMPLES);
    assert_int_equal(stream[1].examples, EXAMPLES - 1);
    close_world(t);
}

// The gradients of the parts of a batch add up to those of the whole batch, and a batch
// does not affect the next one.
static void test_parts(void **state)
{
    (void)state;
    static struct metrics_stream stream[TASKS];
    for (size_t k = 0; k < N_SHAPES; k++) {
        struct world *t = new_world(shapes[k], 0.5f);
        float whole[MAX_DENSE] = {0}, parts[MAX_DENSE] = {0}, err[EXAMPLES * TASKS];
        struct model_training training = {
            .loss = LOSS_LOGISTIC, .stream = stream, .dense_gradient = whole};
        t->b.draw = t->draw;
        assert_int_equal(model_gradients(&t->w, &t->b, &training, err, t->w.gradients),
                         0);
        training.dense_gradient = parts;
        for (size_t i = 0; i < EXAMPLES; i += 7) {
            struct model_batch part = model_part(&t->b, i, 7);
            assert_int_equal(
                model_gradients(&t->w, &part, &training, err, t->w.gradients), 0);
        }
        for (size_t i = 0; i < model_dense(&t->m); i++)
            check("dense", i, parts[i], whole[i]);
        close_world(t);
    }
}

// Records which dense parameters a model asks for while it computes, and which gradients
// it reports as complete. The parameters are NaN until the model asks for them.
struct flowing {
    struct world *t;
    float dense[MAX_DENSE];
    const float *gradients;
    float left[MAX_DENSE]; // the gradients when the model reported them as complete
    bool told[MAX_DENSE];
    size_t n;
    bool early; // whether gradients were complete before those of the rows
};

static void bring(void *ctx, size_t first, size_t n)
{
    struct flowing *f = ctx;
    memcpy(f->dense + first, f->t->dense + first, n * sizeof(float));
}

static void leave(void *ctx, size_t first, size_t n)
{
    struct flowing *f = ctx;
    f->early |= isnan(f->t->w.gradients[1][0]);
    memcpy(f->left + first, f->gradients + first, n * sizeof(float));
    for (size_t i = first; i < first + n; i++, f->n++) {
        assert_false(f->told[i]);
        f->told[i] = true;
    }
}

static void test_flow(void **state)
{
    (void)state;
    static struct metrics_stream stream[TASKS];
    for (size_t k = 0; k < N_SHAPES; k++) {
        struct world *t = new_world(shapes[k], 0);
        float whole[MAX_DENSE] = {0}, parts[MAX_DENSE] = {0}, err[EXAMPLES * TASKS];
        struct flowing f = {.t = t, .gradients = parts};
        struct model_flow flow = {bring, leave, &f};
        struct model_training training = {
            .loss = LOSS_LOGISTIC, .stream = stream, .dense_gradient = whole};
        assert_int_equal(model_by_layer(&t->m), strcmp(shapes[k].name, "nfm") != 0);
        assert_int_equal(model_gradients(&t->w, &t->b, &training, err, t->w.gradients),
                         0);
        for (size_t i = 0; i < MAX_DENSE; i++)
            f.dense[i] = (float)NAN;
        t->w.gradients[1][0] = (float)NAN;
        t->w.dense = f.dense;
        t->w.flow = &flow;
        training.dense_gradient = parts;
        if (model_by_layer(&t->m)) {
            assert_int_equal(
                model_gradients(&t->w, &t->b, &training, NULL, t->w.gradients), 0);
            assert_memory_equal(parts, whole, sizeof(parts));
            size_t biases = t->m.options.tasks;
            assert_int_equal(f.n, model_dense_used(&t->m) - biases);
            assert_memory_equal(f.left + biases, whole + biases, f.n * sizeof(float));
            assert_true(f.early);
        }
        close_world(t);
    }
}

// A large batch has the same gradients whether it is computed at once or in parts of
// MODEL_AT_ONCE_MAX examples, the most that fit if memory is limited.
static void test_room(void **state)
{
    (void)state;
    enum { MANY = 300, ALL = MANY * FEATURES };
    static struct metrics_stream stream[TASKS];
    static float *rows[ALL + KERNEL_PADDING], x[ALL + KERNEL_PADDING],
        label[MANY * TASKS];
    static uint16_t slot[ALL];
    static uint32_t start[MANY + 1];
    for (size_t k = 0; k < N_SHAPES; k++) {
        struct world *t = new_world(shapes[k], 0);
        float parts[MAX_DENSE] = {0}, whole[MAX_DENSE] = {0};
        for (size_t j = 0; j < ALL + KERNEL_PADDING; j++) {
            rows[j] = t->at[j % (EXAMPLES * FEATURES)];
            x[j] = t->x[j % (EXAMPLES * FEATURES)];
            slot[j < ALL ? j : 0] = t->slot[j < ALL ? j % (EXAMPLES * FEATURES) : 0];
        }
        for (uint32_t i = 0; i < MANY; i++)
            start[i + 1] = (i + 1) * FEATURES;
        for (size_t i = 0; i < MANY * TASKS; i++)
            label[i] = random_f32(8, 0, i);
        t->b.n = MANY;
        t->b.start = start;
        t->b.rows = rows;
        t->b.x = t->b.u = x;
        t->b.slot = slot;
        t->b.label = label;
        struct model_training training = {
            .loss = LOSS_SQUARED, .stream = stream, .dense_gradient = parts};
        assert_int_equal(model_reserve(&t->w, ALL), 0);
        assert_int_equal(model_room(&t->w, MANY, 0), 0);
        assert_int_equal(t->w.room, MODEL_AT_ONCE_MAX);
        assert_int_equal(model_gradients(&t->w, &t->b, &training, NULL, t->w.gradients),
                         0);
        bool grows = model_by_layer(&t->m);
        assert_int_equal(model_room(&t->w, MANY, SIZE_MAX), 0);
        assert_int_equal(t->w.room, grows ? MANY : MODEL_AT_ONCE_MAX);
        training.dense_gradient = whole;
        assert_int_equal(model_gradients(&t->w, &t->b, &training, NULL, t->w.gradients),
                         0);
        for (size_t i = 0; i < model_dense(&t->m); i++)
            check("dense", i, whole[i], parts[i]);
        close_world(t);
    }
}

// A batch moves the summaries by a hundredth of their distance to the batch's own values;
// a part of a batch moves them by its share of the examples. A batch of one example does
// not move the summaries, and is computed as in scoring.
static void test_summaries(void **state)
{
    (void)state;
    static struct metrics_stream stream;
    struct world *t = normalised_world(plain_mlp, 0, true);
    struct naive p = naive_of(t);
    float err[EXAMPLES], dense[MAX_DENSE] = {0}, score[2];
    struct model_training training = {.loss = LOSS_SQUARED,
                                      .stream = &stream,
                                      .dense_gradient = dense,
                                      .batch = 4 * EXAMPLES};
    assert_int_equal(model_gradients(&t->w, &t->b, &training, err, t->w.gradients), 0);
    double z[EXAMPLES][IN] = {{0}};
    const float *got = dense + t->m.summaries, *was = t->dense + t->m.summaries;
    for (size_t i = 0; i < EXAMPLES; i++) {
        struct naive_example e = naive_example(t, &p, i);
        double y[IN];
        naive_layer(e.x, IN, 7, p.dense + 1, y);
        for (size_t c = 0; c < 7; c++)
            z[i][c] = y[c] - p.dense[1 + IN * 7 + c];
    }
    check("count", 0, got[0], 0.0025 * (1 - (double)was[0]));
    for (size_t c = 0; c < 7; c++) {
        struct naive_moments m = naive_moments(z, c);
        double all = m.variance * EXAMPLES / (EXAMPLES - 1);
        check("mean", c, got[1 + c], 0.0025 * (m.mean - (double)was[1 + c]));
        check("variance", c, got[8 + c], 0.0025 * (all - (double)was[8 + c]));
    }
    memset(dense, 0, sizeof(dense));
    struct model_batch one = model_part(&t->b, 0, 1);
    one.training = true;
    assert_int_equal(model_scores(&t->w, &one, &score[0]), 0);
    one.training = false;
    assert_int_equal(model_scores(&t->w, &one, &score[1]), 0);
    // compared with a tolerance, since scoring multiplies in another order
    check("one alone", 0, score[0], (double)score[1]);
    assert_int_equal(model_gradients(&t->w, &one, &training, err, t->w.gradients), 0);
    for (size_t i = t->m.summaries; i < model_dense(&t->m); i++)
        assert_true(dense[i] == 0);
    close_world(t);
}

// With pooling_mean, a field's input is the sum of its vectors times their values, divided
// by the number of vectors. The linear part is not divided.
static void test_pooling(void **state)
{
    (void)state;
    static struct metrics_stream stream;
    struct shape shape = {"wide_deep", false, false, 0};
    struct world *sum = new_world(shape, 0), *mean = new_world(shape, 0);
    float u[EXAMPLES * FEATURES + KERNEL_PADDING] = {0}, err[2][EXAMPLES];
    float dense[2][MAX_DENSE] = {{0}};
    for (size_t i = 0; i < EXAMPLES; i++)
        for (uint32_t j = sum->start[i]; j < sum->start[i + 1]; j++) {
            uint32_t n = 0;
            for (uint32_t k = sum->start[i]; k < sum->start[i + 1]; k++)
                n += sum->slot[k] == sum->slot[j];
            u[j] = sum->x[j] / (float)n;
        }
    sum->b.u = u;
    model_work_close(&mean->w);
    mean->m.options.pooling_mean = true;
    assert_int_equal(model_work_open(&mean->w, &mean->m, NULL), 0);
    assert_int_equal(model_reserve(&mean->w, EXAMPLES * FEATURES), 0);
    mean->w.dense = mean->dense;
    for (size_t i = 0; i < 2; i++) {
        struct world *t = i == 0 ? sum : mean;
        struct model_training training = {
            .loss = LOSS_SQUARED, .stream = &stream, .dense_gradient = dense[i]};
        assert_int_equal(model_gradients(&t->w, &t->b, &training, err[i], t->w.gradients),
                         0);
    }
    size_t n = sum->start[EXAMPLES];
    assert_memory_equal(err[0], err[1], sizeof(err[0]));
    assert_memory_equal(dense[0], dense[1], sizeof(dense[0]));
    assert_memory_equal(sum->w.gradients[1], mean->w.gradients[1],
                        n * DIM * sizeof(float));
    struct model m;
    struct model_options o = mean->m.options;
    o.fields = 0;
    assert_int_equal(model_init(&m, &o, NULL), TUG_EUSAGE);
    close_world(sum);
    close_world(mean);
}

// Examples with numbers: field 0 has a word, field 1 a number, field 2 two numbers or
// none.
struct numbers {
    struct model m;
    struct model_work w;
    float dense[MAX_DENSE], row[64];
    float *rows[EXAMPLES * 4 + KERNEL_PADDING], x[EXAMPLES * 4 + KERNEL_PADDING];
    uint32_t start[EXAMPLES + 1];
    uint16_t slot[EXAMPLES * 4];
    struct model_batch b;
};

static float number_at(size_t example, size_t which)
{
    static const float size[] = {1e6f, 1e-3f, 0}, mean[] = {3e7f, -5, 7};
    return mean[which] + size[which] * random_f32(8, which, example);
}

static void add_number(struct numbers *t, uint16_t slot, float x)
{
    t->slot[t->start[t->b.n]] = slot;
    t->x[t->start[t->b.n]++] = x;
}

static struct numbers *new_numbers(void)
{
    struct numbers *t = mem_zalloc(sizeof(*t));
    assert_non_null(t);
    struct model_options o = {.data_norm = true, .n_numbers = 2};
    assert_int_equal(model_find("mlp", &o.ops, NULL), 0);
    model_defaults(&o, o.ops, RULE_ADAGRAD);
    o.fields = 3;
    o.dim = DIM;
    memset(o.hidden, 0, sizeof(o.hidden));
    o.hidden[0] = 4;
    o.numbers[0] = (struct model_numbers){1, 1};
    o.numbers[1] = (struct model_numbers){2, 2};
    assert_int_equal(model_init(&t->m, &o, NULL), 0);
    assert_int_equal(model_work_open(&t->w, &t->m, NULL), 0);
    t->w.dense = t->dense;
    for (size_t i = 0; i < EXAMPLES * 4 + KERNEL_PADDING; i++)
        t->rows[i] = t->row;
    for (size_t i = 0; i < EXAMPLES; i++) {
        t->b.n = i + 1;
        t->start[i + 1] = t->start[i];
        add_number(t, 0, 3);
        add_number(t, 1, number_at(i, 0));
        for (size_t k = 1; k < 3 && i != 4; k++)
            add_number(t, 2, number_at(i, k));
    }
    t->b = (struct model_batch){.n = EXAMPLES,
                                .start = t->start,
                                .rows = t->rows,
                                .x = t->x,
                                .u = t->x,
                                .slot = t->slot};
    return t;
}

// Summaries are sums over the numbers. The first batch is normalised by its own sums, later
// batches by the summaries so far; both then have mean 0 and variance 1. A number that is
// always the same, or that never occurred, becomes 0.
static void test_data_norm(void **state)
{
    (void)state;
    struct numbers *t = new_numbers();
    float sums[12] = {0};
    struct model_batch b = t->b;
    // a batch that is scored before any training
    assert_int_equal(data_norm(&t->w, &b, NULL), 0);
    for (size_t j = 0; j < t->start[EXAMPLES]; j++)
        assert_true(b.x[j] == (t->slot[j] == 0 ? 3 : 0));
    for (size_t round = 0; round < 3; round++) {
        double sum[3] = {0}, squares[3] = {0};
        b = t->b;
        b.training = round < 2;
        assert_int_equal(data_norm(&t->w, &b, sums), 0);
        for (size_t i = 0; i < EXAMPLES; i++)
            for (size_t k = 0; k < (i != 4 ? 3 : 1); k++) {
                double x = (double)b.x[t->start[i] + 1 + k];
                sum[k] += x;
                squares[k] += x * x;
            }
        for (size_t k = 0; k < 3; k++) {
            double n = k == 0 ? EXAMPLES : EXAMPLES - 1;
            assert_true(fabs(sum[k]) < 0.05 &&
                        (double)sums[4 * k] == n * (round == 0 ? 1 : 2));
            assert_true(fabs(squares[k] - (k < 2 ? n : 0)) < 0.01 * n);
        }
        memcpy(t->dense + t->m.data_norm_at, sums, sizeof(sums));
    }
    model_work_close(&t->w);
    mem_free(t);
}

// One number is a date in seconds, within three hours: the mean is half a million times the
// deviation. Another number changes its range of values during the test. Four workers add to the
// same sums without seeing each other's current additions; parts of a batch have any
// size.
static void test_far_numbers(void **state)
{
    (void)state;
    struct numbers *t = new_numbers();
    enum { ROUNDS = 20000, ADDERS = 4 };
    const double date = 1732320000, hours = 3 * 3600;
    double most = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        float sums[12];
        memcpy(sums, t->dense + t->m.data_norm_at, sizeof(sums));
        for (uint64_t by = 0; by < ADDERS; by++) {
            float added[12] = {0};
            for (size_t i = 0; i < EXAMPLES; i++) {
                double at = random_f64(9, round * ADDERS + by, i);
                t->x[t->start[i] + 1] = (float)(date + hours * at);
                if (i != 4)
                    t->x[t->start[i] + 2] = (float)(at + (round < ROUNDS / 2 ? 0 : 100));
            }
            struct model_batch b = t->b;
            b.n = 1 + random_below(10, round, by, EXAMPLES);
            b.training = true;
            b.share = 1;
            assert_int_equal(data_norm(&t->w, &b, added), 0);
            for (size_t k = 0; k < 12; k++)
                sums[k] += added[k];
        }
        memcpy(t->dense + t->m.data_norm_at, sums, sizeof(sums));
        most = fmax(most, (double)sums[0]);
        if (round % 100 != 99)
            continue;
        double size = (double)sums[0], mean = ((double)sums[1] + (double)sums[2]) / size,
               spread = sqrt((double)sums[3] / size);
        if (fabs(mean - date - hours / 2) > hours / 50 ||
            fabs(spread - hours / sqrt(12)) > hours / 50)
            fail_msg("round %u: mean %.1f, spread %.1f", (unsigned)round, mean - date,
                     spread);
    }
    const float *near = t->dense + t->m.data_norm_at + 4;
    assert_in_range((uint64_t)most, 1 << 18, (1 << 18) + 1000);
    assert_true(((double)near[1] + (double)near[2]) / (double)near[0] > 50);
    model_work_close(&t->w);
    mem_free(t);
}

// Units are left out with the wanted probability, and the mean output does not change.
static void test_dropout(void **state)
{
    (void)state;
    enum { N = 2000, UNITS = 50 };
    struct model_options o = {.hidden = {UNITS}, .dropout = 0.25f, .tasks = 1};
    struct model m = {.options = o};
    struct tower t = tower_of(&o, 1);
    static float x[N][1 + 2 * UNITS], dense[1 + 2 * UNITS];
    static uint64_t draw[N];
    struct model_work w = {.model = &m, .dense = dense};
    struct model_batch b = {.draw = draw};
    for (size_t i = 0; i < N; i++) {
        x[i][0] = 1;
        draw[i] = random_u64(1, 2, i);
    }
    for (size_t c = 0; c < UNITS; c++)
        dense[1 + c] = 3; // the biases stay 0
    struct matrix in = {x[0], N, 1, 1 + 2 * UNITS};
    struct matrix y = tower_forward(&t, &w, &b, in, x[0] + 1);
    size_t dropped = 0;
    for (size_t i = 0; i < N; i++)
        for (size_t c = 0; c < UNITS; c++) {
            assert_true(y.at[i * y.stride + c] == 0 || y.at[i * y.stride + c] == 4);
            dropped += y.at[i * y.stride + c] == 0;
        }
    assert_in_range(dropped, N * UNITS / 4 - 600, N * UNITS / 4 + 600);
    float first[UNITS];
    memcpy(first, y.at, sizeof(first));
    in.rows = 1;
    y = tower_forward(&t, &w, &b, in, x[0] + 1);
    // which units are dropped depends only on the example's random number
    assert_memory_equal(first, y.at, sizeof(first));
    b.draw = NULL;
    y = tower_forward(&t, &w, &b, in, x[0] + 1);
    for (size_t c = 0; c < UNITS; c++)
        assert_true(y.at[c] == 3);
}

// Initial values differ, have the range that follows from the width of the layer's input,
// and depend on the seed.
static void test_first(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_SHAPES; k++) {
        struct world *t = new_world(shapes[k], 0);
        static float a[MAX_DENSE], b[MAX_DENSE];
        model_first_dense(&t->m, a);
        size_t bias = t->m.options.tasks;
        assert_true(a[0] == 0 && a[bias - 1] == 0);
        double squares = 0;
        size_t in = strcmp(shapes[k].name, "nfm") == 0 ? DIM : t->begin[FIELDS];
        for (size_t i = bias; i < bias + in * 7; i++)
            squares += (double)a[i] * a[i];
        assert_true(fabs(squares / (double)in / 7 - 2.0 / (double)in) < 0.5 / (double)in);
        for (size_t i = bias + in * 7; i < bias + in * 7 + 7; i++)
            assert_true(a[i] == 0);
        size_t shared = bias + in * 7 + 7 + 7 * 5 + 5, tower = shapes[k].tower;
        // The number of weights of a task's tower and output unit.
        size_t own = tower > 0 ? 5 * tower + tower + tower : 5;
        if (bias > 1)
            assert_memory_not_equal(a + shared, a + shared + own, own * sizeof(float));
        model_first_dense(&t->m, b);
        assert_memory_equal(a, b, model_dense(&t->m) * sizeof(float));
        t->m.options.seed++;
        model_first_dense(&t->m, b);
        assert_memory_not_equal(a, b, model_dense(&t->m) * sizeof(float));
        close_world(t);
    }
}

static void test_options(void **state)
{
    (void)state;
    struct err e;
    struct model m;
    struct model_options good = {.fields = FIELDS}, o;
    assert_int_equal(model_find("dcn", &good.ops, NULL), 0);
    model_defaults(&good, good.ops, RULE_ADAGRAD);
    good.fields = FIELDS;
    assert_int_equal(model_init(&m, &good, &e), 0);
    o = good, o.hidden[0] = 0;
    assert_int_equal(model_init(&m, &o, &e), TUG_EUSAGE);
    o = good, o.hidden[1] = MODEL_MAX_UNITS + 1;
    assert_int_equal(model_init(&m, &o, &e), TUG_EUSAGE);
    o = good, o.cross = 0;
    assert_int_equal(model_init(&m, &o, &e), TUG_EUSAGE);
    o = good, o.dropout = 1;
    assert_int_equal(model_init(&m, &o, &e), TUG_EUSAGE);
    o = good, o.tower[0] = 3;
    assert_int_equal(model_init(&m, &o, &e), TUG_EUSAGE);
    o.tasks = 2;
    assert_int_equal(model_init(&m, &o, &e), 0);
    o.tasks = MODEL_MAX_TASKS + 1;
    assert_int_equal(model_init(&m, &o, &e), TUG_EUSAGE);
    assert_int_equal(model_find("fm", &o.ops, NULL), 0);
    o.tasks = 2;
    assert_int_equal(model_init(&m, &o, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "model fm can learn only one"));
}

int main(void)
{
    if (model_register(&nfm, NULL) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores),      cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_tasks),       cmocka_unit_test(test_flow),
        cmocka_unit_test(test_room),        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_summaries),   cmocka_unit_test(test_data_norm),
        cmocka_unit_test(test_far_numbers), cmocka_unit_test(test_pooling),
        cmocka_unit_test(test_dropout),     cmocka_unit_test(test_first),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
