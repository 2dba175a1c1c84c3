// Compares scores with sums over pairs, gradients with finite differences, steps with
// gradients, and batches with their examples. Further tests: layouts and limits.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"
#include "kit/toy_model.h"
#include "rule/rule.h"

enum { MAX_FEATURES = 30, MAX_WIDTH = 512, EXAMPLES = 20 };

static struct metrics_stream stream; // too large for the stack
static const float bias = 0.25f;

// A batch of examples that use the same MAX_FEATURES rows.
struct example {
    float data[MAX_FEATURES][MAX_WIDTH];
    float *rows[EXAMPLES * MAX_FEATURES + KERNEL_PADDING];
    float x[EXAMPLES * MAX_FEATURES + KERNEL_PADDING],
        u[EXAMPLES * MAX_FEATURES + KERNEL_PADDING];
    uint16_t slot[EXAMPLES * MAX_FEATURES];
    float label[EXAMPLES], weight[EXAMPLES];
    uint32_t start[EXAMPLES + 1];
    struct model_batch view;
};

static struct model make(const char *name, uint32_t dim, uint32_t fields)
{
    struct model_options o = {.dim = dim,
                              .fields = fields,
                              .init = 0.1f,
                              .linear = rule_defaults(RULE_ADAGRAD),
                              .latent = rule_defaults(RULE_ADAGRAD_ROW)};
    struct model m;
    assert_int_equal(model_find(name, &o.ops, NULL), 0);
    assert_int_equal(model_init(&m, &o, NULL), 0);
    assert_true(m.accessor.width <= MAX_WIDTH);
    return m;
}

static struct model_work open_work(const struct model *m)
{
    struct model_work w;
    assert_int_equal(model_work_open(&w, m, NULL), 0);
    w.dense = &bias;
    assert_int_equal(model_reserve(&w, EXAMPLES * MAX_FEATURES), 0);
    return w;
}

// Makes `examples` examples with n features each, which all use the same n rows.
static void fill_batch(struct example *e, const struct model *m, size_t examples,
                       size_t n, uint64_t seed)
{
    uint32_t fields = m->options.fields > 0 ? m->options.fields : 1;
    for (size_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < m->accessor.width; c++)
            e->data[i][c] = random_f32(seed, i, c) - 0.5f;
    for (size_t j = 0; j < examples * n; j++) {
        // Each example has the rows in a different order.
        e->rows[j] = e->data[(j * 7 + j / n) % n];
        e->x[j] = random_f32(seed, 1000, j) + 0.5f;
        e->u[j] = random_f32(seed, 1001, j) + 0.5f;
        e->slot[j] = (uint16_t)random_below(seed, 2000, j, fields);
    }
    for (size_t j = examples * n; j < examples * n + KERNEL_PADDING; j++)
        e->rows[j] = e->data[0];
    for (size_t i = 0; i < examples; i++) {
        e->start[i] = (uint32_t)(i * n);
        e->label[i] = random_f32(seed, 3000, i);
        e->weight[i] = random_f32(seed, 3001, i) + 0.5f;
    }
    e->start[examples] = (uint32_t)(examples * n);
    e->view = (struct model_batch){.n = examples,
                                   .start = e->start,
                                   .rows = e->rows,
                                   .x = e->x,
                                   .u = e->u,
                                   .slot = e->slot,
                                   .label = e->label,
                                   .weight = e->weight};
}

// Makes one example, whose feature i is row i.
static void fill(struct example *e, const struct model *m, size_t n, uint64_t seed)
{
    fill_batch(e, m, 1, n, seed);
    for (size_t i = 0; i < n; i++)
        e->rows[i] = e->data[i];
}

static struct model_training squares(const struct rule_params *rules)
{
    static float gradient;
    gradient = 0;
    return (struct model_training){.loss = LOSS_SQUARED,
                                   .rules = rules,
                                   .pass = 2,
                                   .stream = &stream,
                                   .dense_gradient = &gradient};
}

// Computes f(x) by its definition.
static double naive(const struct model *m, const struct example *e)
{
    size_t n = e->view.n > 0 ? e->start[1] : 0, k = m->options.dim;
    uint32_t w = m->accessor.groups[0].weights, v = m->accessor.groups[1].weights;
    bool ffm = m->options.ops->needs_fields;
    double f = 0;
    for (size_t i = 0; i < n; i++) {
        double p = (double)e->data[i][w], q = (double)e->data[i][w + 1];
        f += (m->options.ops == &toy ? p + 2 * q + p * q : p) * (double)e->x[i];
    }
    for (size_t i = 0; i < n && m->accessor.n_groups > 1; i++) {
        for (size_t j = i + 1; j < n; j++) {
            const float *a = e->data[i] + v + (ffm ? e->slot[j] * k : 0);
            const float *b = e->data[j] + v + (ffm ? e->slot[i] * k : 0);
            for (size_t c = 0; c < k; c++)
                f += (double)a[c] * b[c] * e->u[i] * e->u[j];
        }
    }
    return f;
}

struct shape {
    const char *name;
    uint32_t dim, fields;
};
static const struct shape shapes[] = {
    {"lr", 1, 0},  {"fm", 1, 0},   {"fm", 8, 0},   {"fm", 11, 0},
    {"fm", 32, 0}, {"ffm", 4, 8},  {"ffm", 4, 39}, {"ffm", 2, 100},
    {"ffm", 3, 5}, {"ffm", 16, 3}, {"ffm", 1, 1},  {"toy", 1, 0},
};
enum { N_SHAPES = sizeof(shapes) / sizeof(*shapes) };

static struct model make_shape(size_t s)
{
    return make(shapes[s].name, shapes[s].dim, shapes[s].fields);
}

static void test_scores(void **state)
{
    (void)state;
    static struct example e;
    for (size_t s = 0; s < N_SHAPES; s++) {
        struct model m = make_shape(s);
        struct model_work w = open_work(&m);
        for (size_t n = 1; n <= MAX_FEATURES; n++) {
            float got;
            fill(&e, &m, n, s * 100 + n);
            assert_int_equal(model_scores(&w, &e.view, &got), 0);
            double want = naive(&m, &e);
            if (!(fabs((double)got - want) <= 2e-5 * (1 + fabs(want)) * (double)(n + 1)))
                fail_msg("shape %zu, %zu features: %g, not %g", s, n, (double)got, want);
        }
        e.start[1] = 0; // an example without features
        float none = 1;
        assert_int_equal(model_scores(&w, &e.view, &none), 0);
        assert_true(none == 0);
        model_work_close(&w);
    }
}

// Compares gradients with central differences of naive(), for every weight of every
// feature.
static void check_gradient(const struct model *m, struct example *e,
                           float *const *gradients, float err)
{
    for (size_t i = 0; i < e->start[1]; i++) {
        for (uint32_t g = 0; g < m->accessor.n_groups; g++) {
            for (uint32_t c = 0; c < m->accessor.groups[g].n; c++) {
                float *w = &e->data[i][m->accessor.groups[g].weights + c], kept = *w;
                *w = kept + 0.01f;
                double up = naive(m, e), high = (double)*w;
                *w = kept - 0.01f;
                double down = naive(m, e), low = (double)*w;
                *w = kept;
                double want = (double)err * (up - down) / (high - low);
                double got = (double)gradients[g][i * m->accessor.groups[g].n + c];
                if (!(fabs(want - got) < 2e-3))
                    fail_msg("feature %zu group %u column %u: %g, not %g", i, g, c, got,
                             want);
            }
        }
    }
}

static void test_gradients(void **state)
{
    (void)state;
    static struct example e;
    for (size_t s = 0; s < N_SHAPES; s++) {
        struct model m = make_shape(s);
        struct model_work w = open_work(&m);
        for (size_t n = 1; n <= 9; n += 4) {
            struct model_training t = squares(NULL);
            float f, err;
            fill(&e, &m, n, s * 100 + n);
            assert_int_equal(model_scores(&w, &e.view, &f), 0);
            e.label[0] = f + bias - 0.7f;
            e.weight[0] = 1;
            assert_int_equal(model_gradients(&w, &e.view, &t, &err, w.gradients), 0);
            assert_true(fabsf(err - 0.7f) < 1e-4f);
            check_gradient(&m, &e, w.gradients, err);
        }
        model_work_close(&w);
    }
}

// A batch gives the same results as its examples one by one, even if the batch is a part of a
// larger one.
static void test_batches(void **state)
{
    (void)state;
    static struct example e;
    static float alone[2][EXAMPLES * MAX_FEATURES * MAX_WIDTH];
    for (size_t s = 0; s < N_SHAPES; s++) {
        struct model m = make_shape(s);
        struct model_work w = open_work(&m);
        struct model_training t = squares(NULL);
        float scores[EXAMPLES], errs[EXAMPLES];
        fill_batch(&e, &m, EXAMPLES, 5, s);
        for (size_t i = 1; i < EXAMPLES; i++) {
            struct model_batch one = model_part(&e.view, i, 1);
            assert_int_equal(model_scores(&w, &one, &scores[i]), 0);
            assert_int_equal(model_gradients(&w, &one, &t, &errs[i], w.gradients), 0);
            for (uint32_t g = 0; g < m.accessor.n_groups; g++) {
                size_t n = 5 * (size_t)m.accessor.groups[g].n;
                memcpy(alone[g] + (i - 1) * n, w.gradients[g], n * sizeof(float));
            }
        }
        struct model_batch rest = model_part(&e.view, 1, EXAMPLES);
        float together[EXAMPLES];
        assert_int_equal(rest.n, EXAMPLES - 1);
        assert_int_equal(model_scores(&w, &rest, together), 0);
        assert_memory_equal(together, scores + 1, rest.n * sizeof(float));
        assert_int_equal(model_gradients(&w, &rest, &t, together, w.gradients), 0);
        assert_memory_equal(together, errs + 1, rest.n * sizeof(float));
        for (uint32_t g = 0; g < m.accessor.n_groups; g++)
            assert_memory_equal(alone[g], w.gradients[g],
                                rest.n * 5 * m.accessor.groups[g].n * sizeof(float));
        // The first example whose score is not finite is reported.
        e.label[0] = e.label[1] = 0;
        e.data[0][m.accessor.groups[0].weights] = NAN;
        for (size_t j = 0; j < e.start[12]; j++)
            e.rows[j] = e.data[1];
        assert_int_equal(model_gradients(&w, &e.view, &t, errs, w.gradients), TUG_EDATA);
        assert_int_equal(t.bad, 12);
        model_work_close(&w);
    }
}

// Zeroes the rules' state and the counts of updates in all rows, because fill_batch may have
// set them to negative numbers.
static void make_rows(struct example *e, const struct model *m)
{
    for (size_t i = 0; i < MAX_FEATURES; i++) {
        for (uint32_t g = 0; g < m->accessor.n_groups; g++)
            memset(e->data[i] + m->accessor.groups[g].state, 0,
                   m->accessor.groups[g].n_state * sizeof(float));
        e->data[i][m->accessor.count] = 0;
    }
}

// Trains `rounds` times on twenty examples with the rows of fill_batch, of which some
// occur twice in an example if `repeats` is set. Returns the gradient of the bias.
static float step(struct example *e, const struct model *m, int rounds, bool repeats)
{
    struct model_work w = open_work(m);
    struct rule_params rules[2] = {m->accessor.groups[0].rule,
                                   m->accessor.groups[1].rule};
    rules[0].prior = rules[1].prior = 0.5f;
    fill_batch(e, m, EXAMPLES, 6, 7);
    // Repeats a row in two of three examples.
    for (size_t j = 5; repeats && j < e->start[EXAMPLES]; j += 9)
        e->rows[j] = e->rows[j - 2];
    make_rows(e, m);
    struct model_training t = squares(rules);
    for (int i = 0; i < rounds; i++)
        assert_int_equal(model_step(&w, &e->view, &t), 0);
    model_work_close(&w);
    return t.dense_gradient[0];
}

static void assert_same_rows(const struct model *m, const struct example *a,
                             const struct example *b)
{
    for (size_t i = 0; i < MAX_FEATURES; i++)
        assert_memory_equal(a->data[i], b->data[i], m->accessor.width * sizeof(float));
}

// The kernels for different levels of CPU instructions give the same bits after many steps on
// equal rows.
static void test_levels_agree(void **state)
{
    (void)state;
    static const char *const names[] = {"ref", "avx2", "avx512"};
    static struct example first[2], e;
    for (size_t s = 0; s < N_SHAPES; s++) {
        for (size_t level = 0; level < 3; level++) {
            struct model m = make_shape(s);
            m.kernels = kernels_named(names[level]);
            if (m.kernels == NULL)
                continue;
            for (int repeats = 0; repeats < 2; repeats++) {
                step(level == 0 ? &first[repeats] : &e, &m, 2, repeats > 0);
                if (level > 0)
                    assert_same_rows(&m, &first[repeats], &e);
            }
        }
    }
}

// A model's own `step` has the same result as model_step without it, which computes the
// gradients of an example and then updates its rows, one example after the other.
static void test_step_is_gradients(void **state)
{
    (void)state;
    static struct example a, b;
    for (size_t s = 0; s < N_SHAPES; s++) {
        struct model m = make_shape(s), slow = m;
        struct model_ops ops = *m.options.ops;
        ops.step = NULL;
        ops.at_once = 1;
        slow.options.ops = &ops;
        float fused = step(&a, &m, 1, false), apart = step(&b, &slow, 1, false);
        if (m.options.ops->step == NULL)
            continue; // this model computes several examples at once
        assert_same_rows(&m, &a, &b);
        assert_memory_equal(&fused, &apart, sizeof(float));
    }
}

// Rows in the form that a pull returns give the same scores and gradients, bit for bit.
static void test_packed(void **state)
{
    (void)state;
    enum { N = 12 };
    static struct example e;
    static float pulled[N * MAX_WIDTH];
    for (size_t s = 0; s < N_SHAPES; s++) {
        struct model m = make_shape(s), packed;
        struct model_training t = squares(NULL);
        float f[2], err[2];
        model_packed(&packed, &m);
        assert_int_equal(packed.accessor.width, m.accessor.pull_width);
        fill(&e, &m, N, 9);
        accessor_gather(&m.accessor, e.rows, N, pulled);
        struct model_work w = open_work(&m), v = open_work(&packed);
        assert_int_equal(model_scores(&w, &e.view, &f[0]), 0);
        assert_int_equal(model_gradients(&w, &e.view, &t, &err[0], w.gradients), 0);
        for (size_t i = 0; i < N; i++)
            e.rows[i] = pulled + i * packed.accessor.width;
        assert_int_equal(model_scores(&v, &e.view, &f[1]), 0);
        assert_int_equal(model_gradients(&v, &e.view, &t, &err[1], v.gradients), 0);
        assert_memory_equal(&f[0], &f[1], sizeof(f[0]));
        assert_memory_equal(&err[0], &err[1], sizeof(err[0]));
        for (uint32_t g = 0; g < m.accessor.n_groups; g++)
            assert_memory_equal(w.gradients[g], v.gradients[g],
                                N * m.accessor.groups[g].n * sizeof(float));
        model_work_close(&w);
        model_work_close(&v);
    }
}

// Rows of two models may have the same length and still have different meanings.
static void test_same_rows(void **state)
{
    (void)state;
    struct model a = make("ffm", 4, 8), b = make("ffm", 8, 4), lr = make("lr", 4, 0),
                 wide = make("lr", 8, 0);
    assert_int_equal(a.accessor.groups[1].n, b.accessor.groups[1].n);
    assert_true(model_same_rows(&a, &a));
    assert_false(model_same_rows(&a, &b));
    // lr has no vectors, so options of vectors do not matter
    assert_true(model_same_rows(&lr, &wide));
    assert_false(model_same_rows(&lr, &a));
    b = a;
    b.accessor.groups[1].rule = rule_defaults(RULE_ADAGRAD);
    assert_false(model_same_rows(&a, &b));
}

// Saves of earlier versions rely on these defaults.
static void test_defaults(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t dim;
        float init, rate, l2, prior, n0;
        bool normalize;
    } want[] = {
        {"lr", 8, 0.05f, 0.1f * 3, 2e-4f, 1, 1, false},
        {"fm", 8, 0.05f, 0.1f * 3, 2e-4f, 1, 1, true},
        {"ffm", 4, 0.3f, 0.1f, 1e-3f, 2, 1e-3f, true},
    };
    for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
        const struct model_ops *ops;
        struct model_options o;
        assert_int_equal(model_find(want[i].name, &ops, NULL), 0);
        model_defaults(&o, ops, RULE_ADAGRAD_ROW);
        assert_int_equal(o.dim, want[i].dim);
        assert_true(o.init == want[i].init && o.normalize == want[i].normalize);
        assert_true(o.linear.kind == RULE_ADAGRAD && o.linear.prior == 2);
        assert_true(o.latent.kind == RULE_ADAGRAD_ROW && o.latent.lr == want[i].rate);
        assert_true(o.latent.l2 == want[i].l2 && o.latent.prior == want[i].prior);
        assert_true(o.latent.n0 == want[i].n0);
    }
}

static void test_refused(void **state)
{
    (void)state;
    struct model m;
    struct err e;
    struct model_options o = {.linear = rule_defaults(RULE_SGD),
                              .latent = rule_defaults(RULE_SGD)};
    assert_int_equal(model_find("fm", &o.ops, &e), 0);
    assert_int_equal(model_init(&m, &o, &e), TUG_EUSAGE);
    assert_int_equal(model_find("ffm", &o.ops, &e), 0);
    o.dim = 4;
    assert_int_equal(model_init(&m, &o, &e), TUG_EUSAGE);
    o.fields = 65535;
    assert_int_equal(model_init(&m, &o, &e), TUG_EUSAGE);
    assert_int_equal(model_find("gbdt", &o.ops, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "no model 'gbdt'; choose from lr, fm, ffm, mlp,"));
    struct model_ops other = toy; // refused, because it has the same name as `toy`
    assert_int_equal(model_register(&other, &e), TUG_EUSAGE);
    other.name = "";
    assert_int_equal(model_register(&other, &e), TUG_EUSAGE);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct model m = make("ffm", 4, 8);
    size_t before = mem_live();
    for (long n = 0;; n++) {
        struct model_work w;
        mem_fault_after(n);
        int rc = model_work_open(&w, &m, NULL);
        bool struck = mem_faulted();
        mem_fault_after(-1);
        if (rc == 0)
            model_work_close(&w);
        assert_int_equal(mem_live(), before);
        if (!struck)
            break;
        assert_int_equal(rc, TUG_ENOMEM);
    }
}

static int add_toy(void **state)
{
    (void)state;
    return model_register(&toy, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_levels_agree),
        cmocka_unit_test(test_step_is_gradients),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_same_rows),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, add_toy, NULL);
}
