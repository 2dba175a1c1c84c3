// Schedules of a learning rate. MXNet's schedulers change their state at each call; these
// are functions of num_update with the same values.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/kvstore/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "doors/kvstore/words.h"

#define WARMUP "base_lr warmup_steps warmup_begin_lr warmup_mode"
#define PI 3.14159265358979323846

static const struct {
    const char *name, *takes;
} schedules[KVS_SCHEDULES] = {
    [KVS_CONSTANT] = {"", ""},
    [KVS_FACTOR] = {"factor", "step factor stop_factor_lr " WARMUP},
    [KVS_MULTIFACTOR] = {"multifactor", "step factor " WARMUP},
    [KVS_POLY] = {"poly", "max_update pwr final_lr " WARMUP},
    [KVS_COSINE] = {"cosine", "max_update final_lr " WARMUP},
};

static const struct {
    const char *name;
    size_t at;
    double low, high;
    bool whole;
} fields[] = {
    {"base_lr", offsetof(struct kvs_schedule, base_lr), 0, HUGE_VAL, false},
    {"warmup_steps", offsetof(struct kvs_schedule, warmup_steps), 0, 1e15, true},
    {"warmup_begin_lr", offsetof(struct kvs_schedule, warmup_begin_lr), 0, HUGE_VAL,
     false},
    {"factor", offsetof(struct kvs_schedule, factor), 0, 1, false},
    {"stop_factor_lr", offsetof(struct kvs_schedule, stop_factor_lr), 0, HUGE_VAL, false},
    {"pwr", offsetof(struct kvs_schedule, pwr), 0, HUGE_VAL, false},
    {"final_lr", offsetof(struct kvs_schedule, final_lr), 0, HUGE_VAL, false},
    {"max_update", offsetof(struct kvs_schedule, max_update), 1, 1e15, true},
};

const char *kvs_schedule_name(const struct kvs_schedule *s)
{
    return schedules[s->kind].name;
}

const char *kvs_schedule_takes(const struct kvs_schedule *s)
{
    return schedules[s->kind].takes;
}

int kvs_schedule_begin(struct kvs_schedule *ret, const char *name, struct err *e)
{
    for (int i = KVS_CONSTANT + 1; i < KVS_SCHEDULES; i++) {
        if (strcmp(schedules[i].name, name) != 0)
            continue;
        *ret = (struct kvs_schedule){.kind = (enum kvs_schedule_kind)i,
                                     .base_lr = 0.01,
                                     .factor = 1,
                                     .stop_factor_lr = 1e-8,
                                     .pwr = 2};
        return 0;
    }
    return err_set(e, TUG_EUSAGE,
                   "there is no lr_scheduler '%s'; there are factor, multifactor, poly "
                   "and cosine",
                   name);
}

// Reads the steps of multifactor, such as "5|10|20".
static int take_steps(struct kvs_schedule *s, const char *value, size_t n, struct err *e)
{
    const char *at = value, *end = value + n, *bar;
    s->n_steps = 0;
    do {
        bar = memchr(at, '|', (size_t)(end - at));
        size_t len = (size_t)((bar != NULL ? bar : end) - at);
        double step;
        if (!kvs_number(at, len, &step) || step < 1 || step > 1e15 || step != floor(step))
            return err_set(e, TUG_EUSAGE,
                           "lr_scheduler %s: step is a whole number of updates from 1 "
                           "on, not '%.*s'",
                           kvs_schedule_name(s), (int)(len < 40 ? len : 40), at);
        if (s->n_steps > 0 && step <= s->steps[s->n_steps - 1])
            return err_set(e, TUG_EUSAGE,
                           "lr_scheduler %s: steps must ascend, but %g follows %g",
                           kvs_schedule_name(s), step, s->steps[s->n_steps - 1]);
        if (s->n_steps == (s->kind == KVS_FACTOR ? 1 : KVS_STEPS_MAX))
            return err_set(e, TUG_EUSAGE, "lr_scheduler %s: at most %d steps",
                           kvs_schedule_name(s),
                           s->kind == KVS_FACTOR ? 1 : KVS_STEPS_MAX);
        s->steps[s->n_steps++] = step;
        at += len + 1;
    } while (bar != NULL);
    return 0;
}

static int take_mode(struct kvs_schedule *s, const char *value, size_t n, struct err *e)
{
    s->warmup_constant = n == 8 && memcmp(value, "constant", n) == 0;
    if (s->warmup_constant || (n == 6 && memcmp(value, "linear", n) == 0))
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "lr_scheduler %s: warmup_mode is linear or constant, not '%.*s'",
                   kvs_schedule_name(s), (int)(n < 40 ? n : 40), value);
}

static int take_number(struct kvs_schedule *s, size_t i, const char *value, size_t n,
                       struct err *e)
{
    double x;
    if (!kvs_number(value, n, &x) || x < fields[i].low || x > fields[i].high ||
        (fields[i].whole && x != floor(x)))
        return err_set(e, TUG_EUSAGE, "lr_scheduler %s: %s cannot be '%.*s'%s",
                       kvs_schedule_name(s), fields[i].name, (int)(n < 40 ? n : 40),
                       value,
                       strcmp(fields[i].name, "factor") == 0
                           ? ": it is from 0 to 1, for a rate that falls"
                           : "");
    memcpy((char *)s + fields[i].at, &x, sizeof(x));
    return 0;
}

bool kvs_schedule_field(struct kvs_schedule *s, const char *name, const char *value,
                        size_t n, int *ret, struct err *e)
{
    if (!kvs_among(schedules[s->kind].takes, name))
        return false;
    if (strcmp(name, "step") == 0)
        *ret = take_steps(s, value, n, e);
    else if (strcmp(name, "warmup_mode") == 0)
        *ret = take_mode(s, value, n, e);
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
        if (strcmp(fields[i].name, name) == 0)
            *ret = take_number(s, i, value, n, e);
    return true;
}

int kvs_schedule_check(const struct kvs_schedule *s, struct err *e)
{
    const char *name = kvs_schedule_name(s);
    bool steps = s->kind == KVS_FACTOR || s->kind == KVS_MULTIFACTOR;
    if (s->kind == KVS_CONSTANT)
        return 0;
    if (steps && s->n_steps == 0)
        return err_set(e, TUG_EUSAGE, "lr_scheduler %s needs a step", name);
    if (!steps && s->max_update == 0)
        return err_set(e, TUG_EUSAGE, "lr_scheduler %s needs max_update", name);
    if (!steps && s->max_update <= s->warmup_steps)
        return err_set(e, TUG_EUSAGE,
                       "lr_scheduler %s: max_update (%g) must be more than warmup_steps "
                       "(%g)",
                       name, s->max_update, s->warmup_steps);
    if (s->warmup_begin_lr > s->warmup_final_lr)
        return err_set(e, TUG_EUSAGE,
                       "lr_scheduler %s: warmup_begin_lr (%g) must not be more than "
                       "base_lr (%g)",
                       name, s->warmup_begin_lr, s->warmup_final_lr);
    return 0;
}

static double of_factor(const struct kvs_schedule *s, double n)
{
    // The rate falls with the update after a step, not with the update of the step itself.
    double times = ceil(n / s->steps[0]) - 1;
    if (times <= 0)
        return s->base_lr;
    return fmax(s->base_lr * pow(s->factor, times), s->stop_factor_lr);
}

static double of_multifactor(const struct kvs_schedule *s, double n)
{
    double rate = s->base_lr;
    for (uint32_t i = 0; i < s->n_steps && n > s->steps[i]; i++)
        rate *= s->factor;
    return rate;
}

double kvs_schedule_rate(const struct kvs_schedule *s, uint64_t num_update)
{
    double n = (double)num_update;
    if (n < s->warmup_steps)
        return s->warmup_constant
                   ? s->warmup_begin_lr
                   : s->warmup_begin_lr +
                         (s->warmup_final_lr - s->warmup_begin_lr) * n / s->warmup_steps;
    if (s->kind == KVS_FACTOR)
        return of_factor(s, n);
    if (s->kind == KVS_MULTIFACTOR)
        return of_multifactor(s, n);
    double done = fmin(n, s->max_update) - s->warmup_steps;
    double part = done / (s->max_update - s->warmup_steps);
    double left = s->kind == KVS_POLY ? pow(1 - part, s->pwr) : (1 + cos(PI * part)) / 2;
    return s->final_lr + (s->base_lr - s->final_lr) * left;
}
