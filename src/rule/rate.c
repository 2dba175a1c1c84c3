// Schedules of learning rates: their values and their text form.
//
// SPDX-License-Identifier: Apache-2.0
#include "rule/rate.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/maths.h"
#include "options/options.h"

// A bit for each parameter that a kind of schedule may have, besides the warm-up.
enum { STEPS = 1, FACTOR = 2, END = 4, POWER = 8, STAIRS = 16, DIM = 32 };
static const struct {
    const char *name;
    unsigned takes;
    struct rate usual;
} kinds[RATE_KINDS] = {
    [RATE_CONSTANT] = {"constant", 0, {0}},
    [RATE_EXPONENTIAL] = {"exponential", STEPS | FACTOR | STAIRS, {.factor = 0.9f}},
    [RATE_NATURAL_EXPONENTIAL] = {"natural-exponential",
                                  STEPS | FACTOR | STAIRS,
                                  {.factor = 1}},
    [RATE_INVERSE_TIME] = {"inverse-time", STEPS | FACTOR | STAIRS, {.factor = 1}},
    [RATE_POLYNOMIAL] = {"polynomial", STEPS | END | POWER, {.power = 1}},
    [RATE_COSINE] = {"cosine", STEPS | END, {0}},
    [RATE_PIECEWISE] = {"piecewise", 0, {0}},
    [RATE_NOAM] = {"noam", DIM, {.dim = 512, .warmup = 4000}},
};

const char *rate_names(void)
{
    return "constant, exponential, natural-exponential, inverse-time, polynomial, "
           "cosine, "
           "piecewise, noam";
}

// ----------------------------------------------------- computing the value of a schedule

// Returns cos(pi x) for x in [0, 1]. The Taylor series up to the 20th power is exact to
// 1e-16 for x up to 1/2; the other half follows by symmetry.
static double cos_pi(double x)
{
    if (x > 0.5)
        return -cos_pi(1 - x);
    double y = x * 0x1.921fb54442d18p1, y2 = y * y, term = 1, sum = 1;
    for (int i = 1; i <= 10; i++) {
        term *= -y2 / ((2 * i - 1) * (2 * i));
        sum += term;
    }
    return sum;
}

// Returns x^a for x in [0, 1] and a > 0.
static double power(double x, double a)
{
    if (x == 0 || x == 1 || a == 1)
        return x;
    return maths_exp(a * maths_log(x));
}

// Returns noam's factor (rate.h) for step >= 1.
static double noam(const struct rate *r, uint64_t step)
{
    double s = (double)step, w = (double)r->warmup, rising = s / (w * sqrt(w));
    double falling = 1 / sqrt(s);
    return (rising < falling ? rising : falling) / sqrt((double)r->dim);
}

static double piece(const struct rate *r, uint64_t t)
{
    double value = 1;
    for (uint32_t i = 0; i < r->n_pieces && r->from[i] <= t; i++)
        value = (double)r->to[i];
    return value;
}

static double along(const struct rate *r, uint64_t t)
{
    uint64_t steps = r->steps != 0 ? r->steps : 1, whole = t / steps;
    double x = r->stairs ? (double)whole : (double)t / (double)steps;
    double left = x < 1 ? 1 - x : 0, end = (double)r->end, factor = (double)r->factor;
    switch (r->kind) {
    case RATE_EXPONENTIAL:
        return maths_exp(x * maths_log(factor));
    case RATE_NATURAL_EXPONENTIAL:
        return maths_exp(-factor * x);
    case RATE_INVERSE_TIME:
        return 1 / (1 + factor * x);
    case RATE_POLYNOMIAL:
        return end + (1 - end) * power(left, (double)r->power);
    case RATE_COSINE:
        return end + (1 - end) * (1 - cos_pi(left)) / 2;
    case RATE_PIECEWISE:
        return piece(r, t);
    case RATE_CONSTANT:
    case RATE_NOAM:
    case RATE_KINDS:
        break;
    }
    return 1;
}

float rate_factor(const struct rate *r, uint64_t step)
{
    if (r->kind == RATE_NOAM)
        return (float)noam(r, step < UINT64_MAX ? step + 1 : step);
    if (step >= r->warmup)
        return (float)along(r, step - r->warmup);
    return (float)((double)(step + 1) / ((double)r->warmup + 1) * along(r, 0));
}

// ---------------------------------------------------- checking the numbers of a schedule

static int check_number(const struct rate *r, const char *name, float x, float min,
                        float max, struct err *e)
{
    if (isfinite(x) && x >= min && x <= max)
        return 0;
    if (max == FLT_MAX)
        return err_set(e, TUG_EUSAGE,
                       "%s of the %s schedule is %g; it must be a number "
                       "from %g on",
                       name, kinds[r->kind].name, (double)x, (double)min);
    return err_set(e, TUG_EUSAGE, "%s of the %s schedule is %g; it must be %g to %g",
                   name, kinds[r->kind].name, (double)x, (double)min, (double)max);
}

static int check_pieces(const struct rate *r, struct err *e)
{
    if (r->n_pieces < 1 || r->n_pieces > RATE_PIECES)
        return err_set(e, TUG_EUSAGE, "a piecewise schedule has %u pieces, not 1 to %d",
                       r->n_pieces, RATE_PIECES);
    for (uint32_t i = 0; i < r->n_pieces; i++) {
        TRY(check_number(r, "a value", r->to[i], 0, FLT_MAX, e));
        if (i > 0 && r->from[i] <= r->from[i - 1])
            return err_set(e, TUG_EUSAGE,
                           "steps of the piecewise schedule do not rise: %llu after %llu",
                           (unsigned long long)r->from[i],
                           (unsigned long long)r->from[i - 1]);
    }
    return 0;
}

int rate_check(const struct rate *r, struct err *e)
{
    if ((unsigned)r->kind >= RATE_KINDS)
        return err_set(e, TUG_EUSAGE, "there is no schedule number %u",
                       (unsigned)r->kind);
    unsigned takes = kinds[r->kind].takes;
    if ((takes & STEPS) != 0 && r->steps == 0)
        return err_set(e, TUG_EUSAGE, "the %s schedule needs steps=N, and N over 0",
                       kinds[r->kind].name);
    if (r->kind == RATE_EXPONENTIAL)
        TRY(check_number(r, "factor", r->factor, FLT_MIN, 1, e));
    else if ((takes & FACTOR) != 0)
        TRY(check_number(r, "factor", r->factor, 0, FLT_MAX, e));
    if ((takes & END) != 0)
        TRY(check_number(r, "end", r->end, 0, 1, e));
    if ((takes & POWER) != 0)
        TRY(check_number(r, "power", r->power, FLT_MIN, FLT_MAX, e));
    if (r->kind == RATE_NOAM && (r->dim == 0 || r->warmup == 0))
        return err_set(e, TUG_EUSAGE, "%s of the noam schedule is 0; it must be above 0",
                       r->dim == 0 ? "dim" : "warmup");
    return r->kind == RATE_PIECEWISE ? check_pieces(r, e) : 0;
}

// -------------------------------------------------------- parsing the text of a schedule

static bool read_steps(const char *text, uint64_t *ret)
{
    const char *rest;
    return options_read_whole(text, ret, &rest) && *rest == '\0';
}

static int no_number(const struct rate *r, const char *name, const char *value,
                     struct err *e)
{
    return err_set(e, TUG_EUSAGE, "%s of the %s schedule is '%s', which is not a %s",
                   name, kinds[r->kind].name, value,
                   strcmp(name, "factor") == 0 || strcmp(name, "end") == 0 ||
                           strcmp(name, "power") == 0
                       ? "number"
                       : "whole number");
}

static int read_piece(struct rate *r, const char *name, const char *value, struct err *e)
{
    uint32_t i = r->n_pieces;
    if (i == RATE_PIECES)
        return err_set(e, TUG_EUSAGE, "a piecewise schedule has at most %d pieces",
                       RATE_PIECES);
    if (!read_steps(name, &r->from[i]) || !decimal_parse(value, &r->to[i]))
        return err_set(e, TUG_EUSAGE,
                       "'%s=%s' of the piecewise schedule is not of the form step=value",
                       name, value);
    r->n_pieces++;
    return 0;
}

static int rate_unknown(const struct rate *r, const char *name, struct err *e)
{
    unsigned takes = kinds[r->kind].takes;
    return err_set(e, TUG_EUSAGE,
                   "the %s schedule has no parameter '%s'; it has warmup%s%s%s%s%s%s%s",
                   kinds[r->kind].name, name, takes & STEPS ? ", steps" : "",
                   takes & FACTOR ? ", factor" : "", takes & END ? ", end" : "",
                   takes & POWER ? ", power" : "", takes & STAIRS ? ", stairs" : "",
                   takes & DIM ? ", dim" : "",
                   r->kind == RATE_PIECEWISE ? ", step=value" : "");
}

static int read_value(struct rate *r, const char *name, const char *value, struct err *e)
{
    unsigned takes = kinds[r->kind].takes;
    float *x = strcmp(name, "factor") == 0 && (takes & FACTOR) != 0 ? &r->factor
               : strcmp(name, "end") == 0 && (takes & END) != 0     ? &r->end
               : strcmp(name, "power") == 0 && (takes & POWER) != 0 ? &r->power
                                                                    : NULL;
    uint64_t whole;
    if (x != NULL)
        return decimal_parse(value, x) ? 0 : no_number(r, name, value, e);
    bool warmup = strcmp(name, "warmup") == 0;
    bool steps = strcmp(name, "steps") == 0 && (takes & STEPS) != 0;
    bool dim = strcmp(name, "dim") == 0 && (takes & DIM) != 0;
    if (!warmup && !steps && !dim)
        return r->kind == RATE_PIECEWISE ? read_piece(r, name, value, e)
                                         : rate_unknown(r, name, e);
    if (!read_steps(value, &whole) || (dim && whole > UINT32_MAX))
        return no_number(r, name, value, e);
    if (dim)
        r->dim = (uint32_t)whole;
    else
        *(warmup ? &r->warmup : &r->steps) = whole;
    return 0;
}

static int read_kind(const char *name, struct rate *ret, struct err *e)
{
    char near[OPTION_NAME_MAX];
    for (int i = 0; i < RATE_KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0) {
            *ret = kinds[i].usual;
            ret->kind = (enum rate_kind)i;
            return 0;
        }
    options_nearest(name,
                    "constant exponential natural-exponential inverse-time "
                    "polynomial cosine piecewise noam",
                    near);
    if (*near != 0)
        return err_set(e, TUG_EUSAGE, "there is no schedule '%s'; did you mean '%s'?",
                       name, near);
    return err_set(e, TUG_EUSAGE, "there is no schedule '%s'; choose from %s", name,
                   rate_names());
}

int rate_parse(const char *text, struct rate *ret, struct err *e)
{
    char copy[1024];
    struct rate r;
    size_t n = strlen(text);
    if (n >= sizeof(copy))
        return err_set(e, TUG_EUSAGE, "a schedule of %zu letters is too long", n);
    memcpy(copy, text, n + 1);
    char *rest = strchr(copy, ':');
    if (rest != NULL)
        *rest++ = 0;
    TRY(read_kind(copy, &r, e));
    while (rest != NULL) {
        char *word = rest;
        rest = strchr(word, ',');
        if (rest != NULL)
            *rest++ = 0;
        char *value = strchr(word, '=');
        if (value != NULL)
            *value++ = 0;
        if (value != NULL)
            TRY(read_value(&r, word, value, e));
        else if (strcmp(word, "stairs") == 0 && (kinds[r.kind].takes & STAIRS) != 0)
            r.stairs = true;
        else
            return rate_unknown(&r, word, e);
    }
    TRY(rate_check(&r, e));
    *ret = r;
    return 0;
}

// ---------------------------------------------------------------- printing a schedule

struct rate_writer {
    struct buf *to;
    char mark; // the character that is written before the next word, ':' or ','
    int rc;
};

static void write_steps(struct rate_writer *w, const char *name, uint64_t x)
{
    if (w->rc == 0)
        w->rc = buf_printf(w->to, "%c%s=%llu", w->mark, name, (unsigned long long)x);
    w->mark = ',';
}

static void write_number(struct rate_writer *w, const char *name, float x)
{
    char text[DECIMAL_MAX];
    decimal_print(x, text);
    if (w->rc == 0)
        w->rc = buf_printf(w->to, "%c%s=%s", w->mark, name, text);
    w->mark = ',';
}

int rate_print(const struct rate *r, struct buf *to)
{
    unsigned takes = kinds[r->kind].takes;
    struct rate_writer w = {.to = to, .mark = ':'};
    w.rc = buf_printf(to, "%s", kinds[r->kind].name);
    if ((takes & STEPS) != 0)
        write_steps(&w, "steps", r->steps);
    if ((takes & FACTOR) != 0)
        write_number(&w, "factor", r->factor);
    if ((takes & END) != 0 && r->end != 0)
        write_number(&w, "end", r->end);
    if ((takes & POWER) != 0 && r->power != 1)
        write_number(&w, "power", r->power);
    if ((takes & DIM) != 0)
        write_steps(&w, "dim", r->dim);
    for (uint32_t i = 0; i < r->n_pieces; i++) {
        char from[DECIMAL_MAX];
        snprintf(from, sizeof(from), "%llu", (unsigned long long)r->from[i]);
        write_number(&w, from, r->to[i]);
    }
    if (r->warmup != 0)
        write_steps(&w, "warmup", r->warmup);
    if (r->stairs && w.rc == 0)
        w.rc = buf_printf(to, ",stairs");
    return w.rc;
}
