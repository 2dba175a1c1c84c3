// Tests batches of dense variables that are sent one variable at a time, and
// operations on vectors, as in Paddle's first version: compares them with the same
// operations on plain arrays.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "doors/tables/tug_client.h"
#include "kit/test.h"
#include "tug/table.h"

enum { W = 21, B = 5, ALL = W + B, VECTORS = 4 };

static const struct tug_variable variables[] = {{"w", W, "constant:0.5"}, {"b", B, NULL}};

static void check(int rc)
{
    if (rc != 0)
        fail_msg("%s", tug_last_error());
}

static void fails(int rc, const char *says)
{
    assert_int_equal(rc, TUG_EUSAGE);
    if (strstr(tug_last_error(), says) == NULL)
        fail_msg("'%s' is not in: %s", says, tug_last_error());
}

static struct tug_client *open_client(void)
{
    struct tug_client *c;
    struct tug_client_options o = {.local_loops = 2, .wait_seconds = 60};
    check(tug_client_open(&c, &o));
    return c;
}

// ---------------------------------------------------------------- batches

static void batches(void **state)
{
    (void)state;
    struct tug_client *c = open_client();
    struct tug_dense *d;
    float gradient[ALL], values[ALL];
    check(tug_table_create(c, 0, "name=dense; dim=8; rule=sgd:lr=1"));
    check(tug_dense_open(&d, c, 0, variables, 2));
    for (int i = 0; i < ALL; i++)
        gradient[i] = (float)i;
    for (int step = 1; step <= 3; step++) {
        check(tug_dense_start_batch(d));
        check(tug_dense_update(d, 1,
                               gradient +
                                   W)); // the last variable first, as in a backward pass
        check(tug_dense_update(d, 0, gradient));
        check(tug_dense_finish_batch(d, values));
        for (int i = 0; i < ALL; i++)
            assert_true(values[i] == (i < W ? 0.5f : 0) - (float)(step * i));
    }
    // In this batch, variable 0 gets no gradient and keeps its values.
    check(tug_dense_start_batch(d));
    check(tug_dense_update(d, 1, gradient + W));
    check(tug_dense_finish_batch(d, values));
    assert_true(values[2] == 0.5f - 6 && values[W] == -4 * W);
    check(tug_dense_start_batch(d));
    check(tug_dense_finish_batch(d, NULL));
    tug_dense_close(d);
    check(tug_client_close(c));
}

static void batches_that_are_wrong(void **state)
{
    (void)state;
    struct tug_client *c = open_client();
    struct tug_dense *d, *sync;
    float gradient[ALL] = {0};
    check(tug_table_create(c, 0, "name=dense; dim=8; rule=sgd:lr=1"));
    check(tug_table_create(c, 1, "name=sync; dim=8; rule=sgd:lr=1; mode=sync"));
    check(tug_dense_open(&d, c, 0, variables, 2));
    fails(tug_dense_update(d, 0, gradient), "call start_batch first");
    fails(tug_dense_finish_batch(d, NULL), "no batch of table 0 is in progress");
    check(tug_dense_start_batch(d));
    fails(tug_dense_start_batch(d), "is in progress");
    fails(tug_dense_update(d, 2, gradient), "count from 0 to 1");
    gradient[3] = NAN;
    fails(tug_dense_update(d, 0, gradient), "finite");
    gradient[3] = 0;
    check(tug_dense_update(d, 0, gradient));
    fails(tug_dense_update(d, 0, gradient), "was already updated in this batch");
    fails(tug_dense_pull(d, gradient), "is in progress");
    fails(tug_dense_operate(TUG_VECTOR_UTU, &d, 1, NULL, 0, NULL), "is in progress");
    tug_dense_close(d); // cancels the pushes in flight
    check(tug_dense_open(&sync, c, 1, variables, 2));
    fails(tug_dense_start_batch(sync), "mode sync");
    tug_dense_close(sync);
    check(tug_client_close(c));
}

// ---------------------------------------------------------------- vectors

struct vectors {
    struct tug_client *client;
    struct tug_dense *u[VECTORS];
    double x[VECTORS][ALL]; // the expected values
};

static void open_vectors(struct vectors *v)
{
    v->client = open_client();
    for (uint32_t k = 0; k < VECTORS; k++) {
        float values[ALL];
        char settings[64];
        snprintf(settings, sizeof(settings), "name=v%u; dim=%u; rule=sum", k, 8 + k);
        check(tug_table_create(v->client, k, settings));
        check(tug_dense_open(&v->u[k], v->client, k, variables, 2));
        for (uint64_t i = 0; i < ALL; i++) {
            values[i] = i % 4 == k ? 0 : random_f32(3, k, i) - 0.5f;
            v->x[k][i] = (double)values[i];
        }
        check(tug_dense_assign(v->u[k], values));
    }
}

static void close_vectors(struct vectors *v)
{
    for (int k = 0; k < VECTORS; k++)
        tug_dense_close(v->u[k]);
    check(tug_client_close(v->client));
}

static void same(struct vectors *v)
{
    float values[ALL];
    for (int k = 0; k < VECTORS; k++) {
        check(tug_dense_pull(v->u[k], values));
        for (int i = 0; i < ALL; i++)
            assert_true(fabs((double)values[i] - v->x[k][i]) < 1e-6);
    }
}

static void sums_and_combinations(void **state)
{
    (void)state;
    struct vectors v;
    double uu = 0, uv = 0, found;
    const double a[] = {2, -0.5, 3, 0.25, 1};
    open_vectors(&v);
    for (int i = 0; i < ALL; i++) {
        uu += v.x[0][i] * v.x[0][i];
        uv += v.x[0][i] * v.x[1][i];
    }
    check(tug_dense_operate(TUG_VECTOR_UTU, v.u, 1, NULL, 0, &found));
    assert_true(fabs(found - uu) < 1e-9);
    check(tug_dense_operate(TUG_VECTOR_UTV, v.u, 2, NULL, 0, &found));
    assert_true(fabs(found - uv) < 1e-9);
    check(tug_dense_operate(TUG_VECTOR_AU, v.u, 1, a, 1, NULL));
    for (int i = 0; i < ALL; i++)
        v.x[0][i] *= 2;
    same(&v);
    check(tug_dense_operate(TUG_VECTOR_AU_BV, v.u, 2, a, 2, NULL));
    for (int i = 0; i < ALL; i++)
        v.x[1][i] = 2 * v.x[0][i] - 0.5 * v.x[1][i];
    same(&v);
    check(tug_dense_operate(TUG_VECTOR_AU_BV_CW, v.u, 3, a, 3, NULL));
    for (int i = 0; i < ALL; i++)
        v.x[2][i] = 2 * v.x[0][i] - 0.5 * v.x[1][i] + 3 * v.x[2][i];
    same(&v);
    check(tug_dense_operate(TUG_VECTOR_AAX_BU, v.u, 4, a, 5, NULL));
    for (int i = 0; i < ALL; i++)
        v.x[3][i] = 2 * (3 * v.x[0][i] + 0.25 * v.x[1][i] + v.x[2][i]) - 0.5 * v.x[3][i];
    same(&v);
    check(tug_dense_operate(TUG_VECTOR_COPY, v.u, 2, NULL, 0, NULL));
    memcpy(v.x[1], v.x[0], sizeof(v.x[0]));
    same(&v);
    check(tug_dense_operate(TUG_VECTOR_RESET, v.u, 1, a + 3, 1, NULL));
    for (int i = 0; i < ALL; i++)
        v.x[0][i] = 0.25;
    same(&v);
    const double seed = 7;
    check(tug_dense_operate(TUG_VECTOR_RANDOMIZE, v.u, 1, &seed, 1, NULL));
    for (int i = 0; i < ALL; i++)
        v.x[0][i] = i < W ? 0.5 : 0; // the initial values by the variables' `init`
    same(&v);
    close_vectors(&v);
}

// Tests the operations of OWL-QN on direction, gradient and x.
static void orthants(void **state)
{
    (void)state;
    struct vectors v;
    const double l1 = 0.2;
    double slope = 0, found;
    open_vectors(&v);
    struct tug_dense *const three[] = {v.u[0], v.u[1], v.u[2]};
    check(tug_dense_operate(TUG_VECTOR_STEEPEST, three, 3, &l1, 1, NULL));
    for (int i = 0; i < ALL; i++) {
        double g = v.x[1][i], x = v.x[2][i];
        v.x[0][i] = x < 0           ? -g + l1
                    : x > 0         ? -g - l1
                    : fabs(g) <= l1 ? 0
                    : g < 0         ? -g - l1
                                    : -g + l1;
        if (x == 0) // NOLINT
            x = v.x[0][i];
        slope += v.x[0][i] * (g + (x < 0 ? -l1 : l1));
    }
    same(&v);
    check(tug_dense_operate(TUG_VECTOR_DIR_DERIV, three, 3, &l1, 1, &found));
    assert_true(fabs(found - slope) < 1e-5 && found < 0);
    check(tug_dense_operate(TUG_VECTOR_FIX_DIR_SIGNS, v.u, 2, NULL, 0, NULL));
    for (int i = 0; i < ALL; i++)
        v.x[0][i] = v.x[0][i] * v.x[1][i] > 0 ? v.x[0][i] : 0;
    same(&v);
    check(tug_dense_operate(TUG_VECTOR_FIX_OMEGA_SIGNS, v.u + 2, 2, NULL, 0, NULL));
    for (int i = 0; i < ALL; i++)
        v.x[2][i] = v.x[2][i] * v.x[3][i] < 0 ? 0 : v.x[2][i];
    same(&v);
    close_vectors(&v);
}

static void operations_that_are_wrong(void **state)
{
    (void)state;
    struct vectors v;
    const struct tug_variable other = {"w", W + 1, NULL};
    const double a = 1;
    struct tug_dense *two[2];
    open_vectors(&v);
    check(tug_table_create(v.client, 9, "name=other; dim=8"));
    check(tug_dense_open(&two[1], v.client, 9, &other, 1));
    two[0] = v.u[0];
    fails(tug_dense_operate(TUG_VECTOR_UTV, two, 2, NULL, 0, NULL), "other lengths");
    fails(tug_dense_operate(TUG_VECTOR_AU, two, 2, &a, 1, NULL),
          "operation au takes 1 vector and 1 number, not 2 and 1");
    fails(tug_dense_operate(TUG_VECTOR_AAX_BU, v.u, 2, &a, 1, NULL),
          "numbers a, b and an x");
    fails(tug_dense_operate((enum tug_vector_op)99, two, 1, NULL, 0, NULL),
          "there is no operation 99");
    tug_dense_close(two[1]);
    close_vectors(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches),
        cmocka_unit_test(batches_that_are_wrong),
        cmocka_unit_test(sums_and_combinations),
        cmocka_unit_test(orthants),
        cmocka_unit_test(operations_that_are_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
