// Initial values of dense variables; see initial.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "table/initial.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/maths.h"
#include "base/random.h"

enum { NUMBERS_MAX = 5, TRIES = 1000 }; // NUMBERS_MAX: most numbers in a text
#define TRUNCATED_AT 2.0

// The text forms, for parsing and messages.
struct form {
    const char *name;
    enum initial_kind kind;
    char separator; // the character before each number
    int least, most;
    bool seeded; // the first number is a seed
    const char *looks;
};

static const struct form forms[] = {
    {"constant", INITIAL_CONSTANT, ',', 1, 1, false, "constant:VALUE"},
    {"uniform", INITIAL_UNIFORM, ',', 2, 2, false, "uniform:LOW,HIGH"},
    {"gaussian", INITIAL_GAUSSIAN, ',', 2, 2, false, "gaussian:MEAN,STD"},
    {"truncated-gaussian", INITIAL_TRUNCATED_GAUSSIAN, ',', 2, 4, false,
     "truncated-gaussian:MEAN,STD"},
    {"xavier", INITIAL_UNIFORM, ',', 2, 2, false, "xavier:FAN_IN,FAN_OUT"},
    {"fill_constant", INITIAL_CONSTANT, '&', 1, 1, false, "fill_constant&VALUE"},
    {"uniform_random", INITIAL_UNIFORM, '&', 3, 3, true, "uniform_random&SEED&MIN&MAX"},
    {"gaussian_random", INITIAL_GAUSSIAN, '&', 3, 3, true,
     "gaussian_random&SEED&MEAN&STD"},
    {"truncated_gaussian_random", INITIAL_TRUNCATED_GAUSSIAN, '&', 3, 5, true,
     "truncated_gaussian_random&SEED&MEAN&STD"},
};

static const struct form *initial_find(const char *text, size_t n)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
        if (strlen(forms[i].name) == n && memcmp(forms[i].name, text, n) == 0)
            return &forms[i];
    return NULL;
}

// Reads the numbers of a form from `at` on. Returns how many there are, -1 if the text is
// wrong.
static int read_numbers(const char *at, const struct form *f, double *ret)
{
    int n = 0;
    while (*at != 0) {
        char *end;
        if (n == f->most)
            return -1;
        ret[n] = strtod(at, &end);
        if (end == at || !isfinite(ret[n]) || (*end != 0 && *end != f->separator))
            return -1;
        n++;
        if (*end == f->separator && end[1] == 0)
            return -1;
        at = *end != 0 ? end + 1 : end;
    }
    return n >= f->least ? n : -1;
}

static int initial_check(const struct initial *x, const char *text, struct err *e)
{
    if (x->kind == INITIAL_UNIFORM && !(x->a <= x->b))
        return err_set(e, TUG_EUSAGE, "initial values '%.200s': the range is empty",
                       text);
    if (x->kind >= INITIAL_GAUSSIAN && !(x->b >= 0))
        return err_set(
            e, TUG_EUSAGE,
            "initial values '%.200s': the standard deviation must not be negative", text);
    // If the range is too narrow or too far from the mean, TRIES random numbers
    // might all be outside it.
    if (x->kind == INITIAL_TRUNCATED_GAUSSIAN &&
        !(x->low < x->high && x->low < 3 && x->high > -3 && x->high - x->low >= 0.01))
        return err_set(
            e, TUG_EUSAGE,
            "initial values '%.200s': %g to %g standard deviations is not a range "
            "to draw from",
            text, x->low, x->high);
    return 0;
}

static int initial_refuse(const char *text, const struct form *f, struct err *e)
{
    if (f != NULL)
        return err_set(e, TUG_EUSAGE, "initial values '%.200s' should look like %s", text,
                       f->looks);
    return err_set(e, TUG_EUSAGE,
                   "initial values '%.200s' are not known; there are constant, uniform, "
                   "gaussian, truncated-gaussian and xavier",
                   text);
}

int initial_parse(const char *text, struct initial *ret, struct err *e)
{
    double x[NUMBERS_MAX + 1] = {0};
    size_t n = strcspn(text, ":&");
    const struct form *f = initial_find(text, n);
    int numbers = -1;
    if (f != NULL && text[n] == (f->separator == ',' ? ':' : '&'))
        numbers = read_numbers(text + n + 1, f, x);
    if (numbers < 0 || (f->seeded && !(x[0] >= 0 && x[0] < 0x1p63)))
        return initial_refuse(text, f, e);
    const double *from = f->seeded ? x + 1 : x;
    numbers -= f->seeded;
    *ret = (struct initial){.kind = f->kind,
                            .a = from[0],
                            .b = from[1],
                            .low = numbers > 2 ? from[2] : -TRUNCATED_AT,
                            .high = numbers > 3 ? from[3] : TRUNCATED_AT,
                            .seed = f->seeded ? (uint64_t)x[0] : 0};
    if (strcmp(f->name, "xavier") == 0) {
        if (!(from[0] + from[1] > 0))
            return initial_refuse(text, f, e);
        ret->b = sqrt(6 / (from[0] + from[1]));
        ret->a = -ret->b;
    }
    return initial_check(ret, text, e);
}

// Returns a normally distributed number (Marsaglia's polar method). Each try of the
// method uses two uniform numbers; *at counts the tries.
static double normal(uint64_t seed, uint64_t stream, uint64_t index, uint64_t *at)
{
    for (;;) {
        uint64_t s = mix64(stream) + *at;
        double u = 2 * random_f64(seed, s, 2 * index) - 1;
        double v = 2 * random_f64(seed, s, 2 * index + 1) - 1;
        double r = u * u + v * v;
        ++*at;
        if (r > 0 && r < 1)
            return u * sqrt(-2 * maths_log(r) / r);
    }
}

static double truncated(const struct initial *x, uint64_t seed, uint64_t stream,
                        uint64_t index)
{
    uint64_t at = 0;
    for (int i = 0; i < TRIES; i++) {
        double z = normal(seed, stream, index, &at);
        if (z >= x->low && z <= x->high)
            return z;
    }
    return x->low > 0 ? x->low : x->high < 0 ? x->high : 0;
}

static double value(const struct initial *x, uint64_t seed, uint64_t stream,
                    uint64_t index)
{
    uint64_t at = 0;
    switch (x->kind) {
    case INITIAL_CONSTANT:
        return x->a;
    case INITIAL_UNIFORM:
        return x->a + (x->b - x->a) * random_f64(seed, stream, index);
    case INITIAL_GAUSSIAN:
        return x->a + x->b * normal(seed, stream, index, &at);
    default:
        return x->a + x->b * truncated(x, seed, stream, index);
    }
}

void initial_fill(const struct initial *x, uint64_t seed, uint64_t stream, uint64_t first,
                  size_t n, float *ret)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = (float)value(x, seed + x->seed, stream, first + i);
}
