// Operations on dense variables as vectors: doOperation of Paddle's first version, for
// programs that minimize by L-BFGS or OWL-QN over the parameters of a cluster.
//
// The calling worker pulls the vectors, computes, and assigns the vector that changes. It
// adds in doubles, in the order of the variables, so that results do not depend on the
// number of servers.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/plural.h"
#include "doors/tables/tug_dense.h"

enum { VECTORS_MAX = 64 };

// Computes an operation on n elements of the vectors x[0], x[1], ... with the numbers
// a[0], a[1], ...; an operation whose result is a number adds that of the n elements to
// *sum.
typedef void (*compute_fn)(float *const *x, size_t vectors, const double *a, uint64_t n,
                           double *sum);

static void utv(float *const *x, size_t vectors, const double *a, uint64_t n, double *sum)
{
    (void)a;
    const float *v = x[vectors - 1];
    for (uint64_t i = 0; i < n; i++)
        *sum += (double)x[0][i] * (double)v[i];
}

static void reset(float *const *x, size_t vectors, const double *a, uint64_t n,
                  double *sum)
{
    (void)vectors, (void)sum;
    for (uint64_t i = 0; i < n; i++)
        x[0][i] = (float)a[0];
}

static void copy(float *const *x, size_t vectors, const double *a, uint64_t n,
                 double *sum)
{
    (void)vectors, (void)a, (void)sum;
    for (uint64_t i = 0; i < n; i++)
        x[1][i] = x[0][i];
}

// Multiplies each vector by its number, and sets the last vector to the sum: the operations
// au, au_bv and au_bv_cw.
static void combine(float *const *x, size_t vectors, const double *a, uint64_t n,
                    double *sum)
{
    (void)sum;
    for (uint64_t i = 0; i < n; i++) {
        double y = 0;
        for (size_t k = 0; k < vectors; k++)
            y += a[k] * (double)x[k][i];
        x[vectors - 1][i] = (float)y;
    }
}

// Computes u = a A x + b u. The vectors are the columns of A and then u; the numbers are
// a, b and then the elements of x.
static void columns(float *const *x, size_t vectors, const double *a, uint64_t n,
                    double *sum)
{
    (void)sum;
    float *u = x[vectors - 1];
    for (uint64_t i = 0; i < n; i++) {
        double y = 0;
        for (size_t k = 0; k + 1 < vectors; k++)
            y += a[2 + k] * (double)x[k][i];
        u[i] = (float)(a[0] * y + a[1] * (double)u[i]);
    }
}

// Returns the pseudo-gradient of loss + l1 |x| (Andrew & Gao 2007), whose negative is the
// steepest descent.
static double pseudo_gradient(double grad, double x, double l1)
{
    if (x != 0) // NOLINT: exact zeros are what l1 makes
        return x < 0 ? grad - l1 : grad + l1;
    return grad < -l1 ? grad + l1 : grad > l1 ? grad - l1 : 0;
}

// The vectors are direction, gradient and x; the number is l1. Sets the direction to that
// of steepest descent.
static void steepest(float *const *x, size_t vectors, const double *a, uint64_t n,
                     double *sum)
{
    (void)vectors, (void)sum;
    for (uint64_t i = 0; i < n; i++)
        x[0][i] = (float)-pseudo_gradient((double)x[1][i], (double)x[2][i], a[0]);
}

// The vectors are the direction and the direction of steepest descent. Zeroes each element
// of the direction whose sign differs from that in the other vector.
static void fix_direction(float *const *x, size_t vectors, const double *a, uint64_t n,
                          double *sum)
{
    (void)vectors, (void)a, (void)sum;
    for (uint64_t i = 0; i < n; i++)
        if (!((double)x[0][i] * (double)x[1][i] > 0))
            x[0][i] = 0;
}

// The vectors are direction, gradient and x; the number is l1. Adds the derivative of
// loss + l1 |x| along the direction to *sum.
static void derivative(float *const *x, size_t vectors, const double *a, uint64_t n,
                       double *sum)
{
    (void)vectors;
    for (uint64_t i = 0; i < n; i++) {
        double d = (double)x[0][i], at = (double)x[2][i];
        double side = at != 0 ? at : d; // NOLINT: exact zeros are what l1 makes
        if (d != 0)                     // NOLINT
            *sum += d * ((double)x[1][i] + (side < 0 ? -a[0] : a[0]));
    }
}

// The vectors are the new x and the old x. Zeroes each element of the new x whose sign has
// changed.
static void fix_orthant(float *const *x, size_t vectors, const double *a, uint64_t n,
                        double *sum)
{
    (void)vectors, (void)a, (void)sum;
    for (uint64_t i = 0; i < n; i++)
        if ((double)x[0][i] * (double)x[1][i] < 0)
            x[0][i] = 0;
}

enum { NONE = -1, LAST = -2 };
#define MORE SIZE_MAX

static const struct operation {
    const char *name;
    // How many vectors and numbers the operation takes. MORE: any number n of vectors, and
    // n + 1 numbers.
    size_t vectors, numbers;
    int changes; // index of the vector that changes, or LAST; NONE: the result is *sum
    compute_fn compute;
} operations[] = {
    [TUG_VECTOR_UTU] = {"utu", 1, 0, NONE, utv},
    [TUG_VECTOR_UTV] = {"utv", 2, 0, NONE, utv},
    [TUG_VECTOR_AU] = {"au", 1, 1, LAST, combine},
    [TUG_VECTOR_AU_BV] = {"au_bv", 2, 2, LAST, combine},
    [TUG_VECTOR_AU_BV_CW] = {"au_bv_cw", 3, 3, LAST, combine},
    [TUG_VECTOR_AAX_BU] = {"aAx_bu", MORE, MORE, LAST, columns},
    [TUG_VECTOR_RESET] = {"RESET", 1, 1, LAST, reset},
    [TUG_VECTOR_COPY] = {"COPY", 2, 0, LAST, copy},
    [TUG_VECTOR_RANDOMIZE] = {"RANDOMIZE", 1, 1, LAST, NULL},
    [TUG_VECTOR_STEEPEST] = {"make_steepest_desc_dir", 3, 1, 0, steepest},
    [TUG_VECTOR_FIX_DIR_SIGNS] = {"fix_dir_signs", 2, 0, 0, fix_direction},
    [TUG_VECTOR_DIR_DERIV] = {"dir_deriv", 3, 1, NONE, derivative},
    [TUG_VECTOR_FIX_OMEGA_SIGNS] = {"fix_omega_signs", 2, 0, 0, fix_orthant},
};

static int check_counts(const struct operation *o, size_t vectors, size_t numbers)
{
    bool more = o->vectors == MORE;
    size_t want = more ? vectors : o->vectors,
           want_numbers = more ? vectors + 1 : o->numbers;
    if (vectors == want && numbers == want_numbers && vectors > 0 &&
        vectors <= VECTORS_MAX)
        return 0;
    if (more)
        return err_set(
            last_error(), TUG_EUSAGE,
            "operation %s takes up to %d columns and the vector u, and as numbers a, b "
            "and an x for each column; it was given %zu vectors and %zu numbers",
            o->name, VECTORS_MAX - 1, vectors, numbers);
    return err_set(last_error(), TUG_EUSAGE,
                   "operation %s takes %zu vector%s and %zu number%s, not %zu and %zu",
                   o->name, o->vectors, PLURAL_S(o->vectors), o->numbers,
                   PLURAL_S(o->numbers), vectors, numbers);
}

// Checks that all vectors have variables of the same lengths and blocks of the same width.
static int check_shapes(struct tug_dense *const *u, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool same = u[i]->n == u[0]->n;
        for (size_t k = 0; k < u[0]->n && same; k++)
            same = u[i]->variables[k].n == u[0]->variables[k].n;
        if (!same)
            return err_set(
                last_error(), TUG_EUSAGE,
                "the variables of table %u are of other lengths than those of table "
                "%u",
                u[i]->table, u[0]->table);
    }
    return 0;
}

static bool pulled_before(struct tug_dense *const *u, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (u[k] == u[i])
            return true;
    return false;
}

static double compute(const struct operation *o, struct tug_dense *const *u, size_t n,
                      const double *numbers)
{
    float *at[VECTORS_MAX];
    double sum = 0;
    for (size_t k = 0; k < u[0]->n; k++) {
        for (size_t i = 0; i < n; i++)
            at[i] = u[i]->rows + u[i]->variables[k].block * u[i]->dim;
        o->compute(at, n, numbers, u[0]->variables[k].n, &sum);
    }
    return sum;
}

int tug_dense_operate(enum tug_vector_op op, struct tug_dense *const *vectors, size_t n,
                      const double *numbers, size_t n_numbers, double *ret)
{
    if ((unsigned)op >= sizeof(operations) / sizeof(*operations))
        return err_set(last_error(), TUG_EUSAGE, "there is no operation %d", (int)op);
    const struct operation *o = &operations[op];
    TRY(check_counts(o, n, n_numbers));
    TRY(check_shapes(vectors, n));
    for (size_t i = 0; i < n; i++) {
        TRY(dense_ready(vectors[i]));
        if (!pulled_before(vectors, i))
            TRY(dense_pull_rows(vectors[i]));
    }
    double sum = 0;
    if (o->compute != NULL)
        sum = compute(o, vectors, n, numbers);
    else
        dense_initial(vectors[0], (uint64_t)numbers[0]);
    if (ret != NULL)
        *ret = sum;
    size_t changed = o->changes == LAST ? n - 1 : (size_t)o->changes;
    return o->changes == NONE ? 0 : dense_assign_rows(vectors[changed]);
}
