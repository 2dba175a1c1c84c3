// Scores against sums over pairs, gradients against finite differences, layouts and
// limits.
//
// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/random.h"
#include "rule/rule.h"

enum { MAX_FEATURES = 30, MAX_WIDTH = 512 };

// An example with rows of its own.
struct example {
    float data[MAX_FEATURES][MAX_WIDTH];
    float *rows[MAX_FEATURES + KERNEL_PADDING];
    float x[MAX_FEATURES + KERNEL_PADDING], u[MAX_FEATURES + KERNEL_PADDING];
    uint16_t slot[MAX_FEATURES];
    struct model_example view;
};

static struct model make(enum model_kind kind, uint32_t dim, uint32_t fields)
{
    struct model_options o = {.kind = kind,
                              .dim = dim,
                              .fields = fields,
                              .init = 0.1f,
                              .linear = rule_defaults(RULE_ADAGRAD),
                              .latent = rule_defaults(RULE_ADAGRAD_ROW)};
    struct model m;
    assert_int_equal(model_init(&m, &o, NULL), 0);
    assert_true(m.accessor.width <= MAX_WIDTH);
    return m;
}

static void fill(struct example *e, const struct model *m, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        e->rows[i] = e->data[i];
        for (uint32_t c = 0; c < m->accessor.width; c++)
            e->data[i][c] = random_f32(seed, i, c) - 0.5f;
        e->x[i] = random_f32(seed, 1000, i) + 0.5f;
        e->u[i] = random_f32(seed, 1001, i) + 0.5f;
        uint32_t fields = m->options.fields > 0 ? m->options.fields : 1;
        e->slot[i] = (uint16_t)random_below(seed, 2000, i, fields);
    }
    for (size_t i = n; i < n + KERNEL_PADDING; i++)
        e->rows[i] = e->data[0];
    e->view = (struct model_example){
        .n = n, .rows = e->rows, .x = e->x, .u = e->u, .slot = e->slot};
}

// f(x) as the definition says it.
static double naive(const struct model *m, const struct example *e)
{
    size_t n = e->view.n, k = m->options.dim;
    uint32_t v = m->accessor.groups[1].weights;
    double f = 0;
    for (size_t i = 0; i < n; i++)
        f += (double)e->data[i][m->accessor.groups[0].weights] * e->x[i];
    for (size_t i = 0; i < n && m->options.kind != MODEL_LR; i++) {
        for (size_t j = i + 1; j < n; j++) {
            bool ffm = m->options.kind == MODEL_FFM;
            const float *a = e->data[i] + v + (ffm ? e->slot[j] * k : 0);
            const float *b = e->data[j] + v + (ffm ? e->slot[i] * k : 0);
            for (size_t c = 0; c < k; c++)
                f += (double)a[c] * b[c] * e->u[i] * e->u[j];
        }
    }
    return f;
}

struct shape {
    enum model_kind kind;
    uint32_t dim, fields;
};
static const struct shape shapes[] = {
    {MODEL_LR, 1, 0},  {MODEL_FM, 1, 0},   {MODEL_FM, 8, 0},   {MODEL_FM, 11, 0},
    {MODEL_FM, 32, 0}, {MODEL_FFM, 4, 8},  {MODEL_FFM, 4, 39}, {MODEL_FFM, 2, 100},
    {MODEL_FFM, 3, 5}, {MODEL_FFM, 16, 3}, {MODEL_FFM, 1, 1},
};
enum { N_SHAPES = sizeof(shapes) / sizeof(*shapes) };

static void test_scores(void **state)
{
    (void)state;
    static struct example e;
    for (size_t s = 0; s < N_SHAPES; s++) {
        struct model m = make(shapes[s].kind, shapes[s].dim, shapes[s].fields);
        struct model_scratch scratch;
        assert_int_equal(model_scratch_init(&scratch, &m, NULL), 0);
        for (size_t n = 0; n <= MAX_FEATURES; n++) {
            fill(&e, &m, n, s * 100 + n);
            float got = model_score(&scratch, &e.view);
            double want = naive(&m, &e);
            if (!(fabs(got - want) <= 2e-5 * (1 + fabs(want)) * (double)(n + 1)))
                fail_msg("shape %zu, %zu features: %g, not %g", s, n, (double)got, want);
        }
        model_scratch_fini(&scratch);
    }
}

// Central differences of naive() at every weight of every feature.
static void check_gradient(const struct model *m, struct example *e, const float *linear,
                           const float *latent, float err)
{
    for (size_t i = 0; i < e->view.n; i++) {
        for (uint32_t g = 0; g < m->accessor.n_groups; g++) {
            for (uint32_t c = 0; c < m->accessor.groups[g].n; c++) {
                float *w = &e->data[i][m->accessor.groups[g].weights + c], kept = *w;
                *w = kept + 0.01f;
                double up = naive(m, e), high = *w;
                *w = kept - 0.01f;
                double down = naive(m, e), low = *w;
                *w = kept;
                double want = err * (up - down) / (high - low);
                double got = g == 0 ? linear[i] : latent[i * m->accessor.groups[1].n + c];
                if (!(fabs(want - got) < 1e-3))
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
        struct model m = make(shapes[s].kind, shapes[s].dim, shapes[s].fields);
        struct model_scratch scratch;
        assert_int_equal(model_scratch_init(&scratch, &m, NULL), 0);
        for (size_t n = 1; n <= 9; n += 4) {
            fill(&e, &m, n, s * 100 + n);
            model_score(&scratch, &e.view);
            model_grad(&scratch, &e.view, 0.7f, scratch.linear, scratch.latent);
            check_gradient(&m, &e, scratch.linear, scratch.latent, 0.7f);
        }
        model_scratch_fini(&scratch);
    }
}

// The same rows twice, by two levels of kernels: the same bits after many steps.
static void test_levels_agree(void **state)
{
    (void)state;
    static const char *const names[] = {"ref", "avx2", "avx512"};
    static struct example first, e;
    for (size_t s = 0; s < N_SHAPES; s++) {
        for (size_t level = 0; level < 3; level++) {
            struct model m = make(shapes[s].kind, shapes[s].dim, shapes[s].fields);
            m.kernels = kernels_named(names[level]);
            if (m.kernels == NULL)
                continue;
            struct model_scratch scratch;
            assert_int_equal(model_scratch_init(&scratch, &m, NULL), 0);
            fill(&e, &m, 12, 7);
            for (size_t i = 0; i < 12; i++) // sums of squares and counts are not negative
                for (uint32_t g = 0; g < m.accessor.n_groups; g++)
                    memset(e.data[i] + m.accessor.groups[g].state, 0,
                           m.accessor.groups[g].n_state * sizeof(float));
            for (size_t i = 0; i < 12; i++)
                e.data[i][m.accessor.count] = 0;
            for (int step = 0; step < 20; step++) {
                float f = model_score(&scratch, &e.view);
                struct rule_params rules[2] = {m.accessor.groups[0].rule,
                                               m.accessor.groups[1].rule};
                rules[0].prior = rules[1].prior = 0.5f;
                model_step(&scratch, &e.view, f - 1, rules, 1);
            }
            if (level == 0)
                memcpy(first.data, e.data, sizeof(e.data));
            else
                for (size_t i = 0; i < 12; i++)
                    assert_memory_equal(first.data[i], e.data[i],
                                        m.accessor.width * sizeof(float));
            model_scratch_fini(&scratch);
        }
    }
}

// A batch of one example is one step.
static void test_update_is_step(void **state)
{
    (void)state;
    enum { N = 12 };
    static struct example a, b;
    for (size_t s = 0; s < N_SHAPES; s++) {
        struct model m = make(shapes[s].kind, shapes[s].dim, shapes[s].fields);
        struct model_scratch scratch;
        assert_int_equal(model_scratch_init(&scratch, &m, NULL), 0);
        fill(&a, &m, N, 8);
        for (size_t i = 0; i < N; i++)
            for (uint32_t c = 0; c < m.accessor.width; c++)
                a.data[i][c] = fabsf(a.data[i][c]);
        fill(&b, &m, N, 8);
        memcpy(b.data, a.data, sizeof(a.data));
        struct rule_params rules[2] = {m.accessor.groups[0].rule,
                                       m.accessor.groups[1].rule};
        rules[0].prior = rules[1].prior = 0.5f;
        model_score(&scratch, &a.view);
        model_step(&scratch, &a.view, 0.3f, rules, 2);

        float ones[N + KERNEL_PADDING], squares[N], linear[N + KERNEL_PADDING] = {0};
        float *g = mem_array(N * MAX_WIDTH + KERNEL_PADDING, sizeof(float));
        model_score(&scratch, &b.view);
        model_grad(&scratch, &b.view, 0.3f, linear, g);
        for (size_t i = 0; i < N + KERNEL_PADDING; i++)
            ones[i] = 1;
        const float *w[N], *v[N];
        for (size_t i = 0; i < N; i++) {
            squares[i] = b.u[i] * b.u[i];
            w[i] = linear + i;
            v[i] = g + i * m.accessor.groups[1].n;
        }
        struct accessor_update u = {.rules = rules,
                                    .pass = 2,
                                    .scale = 1,
                                    .n = N,
                                    .rows = b.rows,
                                    .gradients = {w, v},
                                    .occurrences = ones,
                                    .squares = squares};
        struct accessor_scratch apply;
        assert_int_equal(accessor_scratch_init(&apply, &m.accessor, m.kernels, NULL), 0);
        accessor_apply(&apply, &u);
        accessor_scratch_fini(&apply);
        for (size_t i = 0; i < N; i++)
            assert_memory_equal(a.data[i], b.data[i], m.accessor.width * sizeof(float));
        mem_free(g);
        model_scratch_fini(&scratch);
    }
}

// Rows as a pull returns them give the same scores and gradients, bit for bit.
static void test_packed(void **state)
{
    (void)state;
    enum { N = 12 };
    static struct example e;
    static float pulled[N * MAX_WIDTH], latent[2][N * MAX_WIDTH + KERNEL_PADDING];
    for (size_t s = 0; s < N_SHAPES; s++) {
        struct model m = make(shapes[s].kind, shapes[s].dim, shapes[s].fields), packed;
        float linear[2][N + KERNEL_PADDING], f[2];
        model_packed(&packed, &m);
        assert_int_equal(packed.accessor.width, m.accessor.pull_width);
        fill(&e, &m, N, 9);
        accessor_gather(&m.accessor, e.rows, N, pulled);
        for (int side = 0; side < 2; side++) {
            struct model_scratch scratch;
            assert_int_equal(model_scratch_init(&scratch, side ? &packed : &m, NULL), 0);
            for (size_t i = 0; i < N && side; i++)
                e.rows[i] = pulled + i * packed.accessor.width;
            f[side] = model_score(&scratch, &e.view);
            model_grad(&scratch, &e.view, 0.3f, linear[side], latent[side]);
            model_scratch_fini(&scratch);
        }
        assert_memory_equal(&f[0], &f[1], sizeof(f[0]));
        assert_memory_equal(linear[0], linear[1], N * sizeof(float));
        assert_memory_equal(latent[0], latent[1], N * model_latent(&m) * sizeof(float));
    }
}

static void test_refused(void **state)
{
    (void)state;
    struct model m;
    struct err e;
    struct model_options o = {.kind = MODEL_FM,
                              .linear = rule_defaults(RULE_SGD),
                              .latent = rule_defaults(RULE_SGD)};
    assert_int_equal(model_init(&m, &o, &e), TUG_EUSAGE);
    o = (struct model_options){
        .kind = MODEL_FFM, .dim = 4, .linear = o.linear, .latent = o.latent};
    assert_int_equal(model_init(&m, &o, &e), TUG_EUSAGE);
    o.fields = 65535;
    assert_int_equal(model_init(&m, &o, &e), TUG_EUSAGE);
    enum model_kind kind;
    assert_int_equal(model_find("mlp", &kind, &e), TUG_EUSAGE);
    assert_non_null(strstr(e.text, "mlp"));
}

static void test_no_memory(void **state)
{
    (void)state;
    struct model m = make(MODEL_FFM, 4, 8);
    size_t before = mem_live();
    for (long n = 0;; n++) {
        struct model_scratch s;
        mem_fault_after(n);
        int rc = model_scratch_init(&s, &m, NULL);
        bool struck = mem_faulted();
        mem_fault_after(-1);
        if (rc == 0)
            model_scratch_fini(&s);
        assert_int_equal(mem_live(), before);
        if (!struck)
            break;
        assert_int_equal(rc, TUG_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores),         cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_levels_agree),
        cmocka_unit_test(test_update_is_step), cmocka_unit_test(test_packed),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
