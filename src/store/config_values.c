// Parses and prints the values of settings.
//
// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "options/options.h"
#include "rule/rule.h"
#include "store/config_internal.h"

// Reads a number. Turns -0 into 0, because they print differently although they are
// equal. Returns false if the text is not a number.
static bool read_float(const char *value, float *ret)
{
    bool good = decimal_parse(value, ret);
    *ret = good ? *ret + 0 : 0;
    return good;
}

static int print_float(float x, struct buf *to)
{
    char text[DECIMAL_MAX];
    decimal_print(x, text);
    return buf_printf(to, "%s", text);
}

static int set_number(struct table_config *c, void *at, const char *value, struct err *e)
{
    (void)c;
    return read_float(value, at)
               ? 0
               : err_set(e, TUG_EUSAGE, "'%.100s' is not a number", value);
}

static int print_number(const void *at, struct buf *to)
{
    const float *x = at;
    return print_float(*x, to);
}

static int read_whole(const char *value, uint64_t most, uint64_t *ret, struct err *e)
{
    const char *rest;
    uint64_t x;
    if (!options_read_whole(value, &x, &rest) || *rest != '\0')
        return err_set(e, TUG_EUSAGE, "'%.100s' is not a whole number", value);
    if (x > most)
        return err_set(e, TUG_EUSAGE, "'%.100s' is too large; at most %llu is possible",
                       value, (unsigned long long)most);
    *ret = x;
    return 0;
}

static int set_u32(struct table_config *c, void *at, const char *value, struct err *e)
{
    (void)c;
    uint64_t x;
    uint32_t *to = at;
    TRY(read_whole(value, UINT32_MAX, &x, e));
    *to = (uint32_t)x;
    return 0;
}

static int print_u32(const void *at, struct buf *to)
{
    const uint32_t *x = at;
    return buf_printf(to, "%u", *x);
}

static int set_u64(struct table_config *c, void *at, const char *value, struct err *e)
{
    (void)c;
    return read_whole(value, UINT64_MAX, at, e);
}

static int print_u64(const void *at, struct buf *to)
{
    const uint64_t *x = at;
    return buf_printf(to, "%llu", (unsigned long long)*x);
}

static int set_flag(struct table_config *c, void *at, const char *value, struct err *e)
{
    (void)c;
    if (options_read_flag(value, at))
        return 0;
    return err_set(e, TUG_EUSAGE, "'%.100s' is not yes or no", value);
}

static int print_flag(const void *at, struct buf *to)
{
    const bool *x = at;
    return buf_printf(to, "%s", *x ? "yes" : "no");
}

// Finds the position of a word in `words`, a list separated by spaces.
static int read_word(const char *value, const char *words, unsigned *ret, struct err *e)
{
    size_t n = strlen(value);
    *ret = 0;
    for (const char *w = words; *w != '\0'; ++*ret) {
        size_t length = strcspn(w, " ");
        if (length == n && memcmp(w, value, n) == 0)
            return 0;
        w += length + strspn(w + length, " ");
    }
    char near[OPTION_NAME_MAX];
    options_nearest(value, words, near);
    return err_set(e, TUG_EUSAGE, "'%.100s' is not one of: %s%s%s%s", value, words,
                   *near ? "; did you mean '" : "", near, *near ? "'?" : "");
}

static int set_name(struct table_config *c, void *at, const char *value, struct err *e)
{
    (void)at;
    size_t n = strlen(value), good = 0;
    while (isalnum((unsigned char)value[good]) ||
           (value[good] != '\0' && strchr("_-.", value[good]) != NULL))
        good++;
    if (n == 0 || n >= CONFIG_NAME_MAX || good != n || *value == '.')
        return err_set(e, TUG_EUSAGE,
                       "'%.100s' cannot be the name of a table: use 1 to %d letters, "
                       "digits and '_', '-', '.', and do not begin with a point",
                       value, CONFIG_NAME_MAX - 1);
    memcpy(c->name, value, n + 1);
    return 0;
}

static int set_path(struct table_config *c, void *at, const char *value, struct err *e)
{
    (void)at;
    size_t n = strlen(value);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)value[i] < ' ' || strchr(";#", value[i]) != NULL)
            return err_set(
                e, TUG_EUSAGE,
                "a path in settings cannot contain ';', '#' or control characters");
    if (n >= CONFIG_PATH_MAX)
        return err_set(e, TUG_EUSAGE, "a path of %zu characters is too long", n);
    memcpy(c->cold, value, n + 1);
    return 0;
}

static int print_text(const void *at, struct buf *to)
{
    return buf_printf(to, "%s", (const char *)at);
}

static int set_accessor(struct table_config *c, void *at, const char *value,
                        struct err *e)
{
    (void)at;
    TRY(accessor_choose(&c->accessor, value, e));
    c->deltas = accessor_has_life(accessor_find(value, e));
    return 0;
}

static int print_accessor(const void *at, struct buf *to)
{
    const struct accessor_options *o = at;
    return buf_printf(to, "%s", o->name);
}

static int set_rule(struct table_config *c, void *at, const char *value, struct err *e)
{
    (void)c;
    return rule_parse(value, at, e);
}

static int print_rule(const void *at, struct buf *to)
{
    char text[RULE_TEXT_MAX];
    rule_print(at, text);
    return buf_printf(to, "%s", text);
}

static int set_rate(struct table_config *c, void *at, const char *value, struct err *e)
{
    (void)c;
    return rate_parse(value, at, e);
}

static int print_rate(const void *at, struct buf *to)
{
    return rate_print(at, to);
}

static int set_entry(struct table_config *c, void *at, const char *value, struct err *e)
{
    (void)at;
    TRY(entry_parse(value, &c->entry, e));
    c->entry.seed = c->seed;
    return 0;
}

static int print_entry(const void *at, struct buf *to)
{
    return entry_print(at, to);
}

static int set_seed(struct table_config *c, void *at, const char *value, struct err *e)
{
    TRY(set_u64(c, at, value, e));
    c->entry.seed = c->seed;
    return 0;
}

// Reads "LOW..HIGH", or "X" for -X..X. Returns false if the text is not a range.
static bool read_range(const char *value, float *ret_low, float *ret_high)
{
    char low[64];
    // The dots are searched first, because otherwise "1." of "1..2" would be read as a
    // number.
    const char *dots = strstr(value, "..");
    if (dots == NULL) {
        bool good = read_float(value, ret_high) && *ret_high >= 0;
        *ret_low = good ? 0 - *ret_high : 0;
        return good;
    }
    size_t n = (size_t)(dots - value);
    if (n >= sizeof(low))
        return false;
    memcpy(low, value, n);
    low[n] = '\0';
    return read_float(low, ret_low) && read_float(dots + 2, ret_high) &&
           *ret_low <= *ret_high;
}

static int set_init(struct table_config *c, void *at, const char *value, struct err *e)
{
    (void)c;
    float *range = at;
    if (read_range(value, &range[0], &range[1]))
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "'%.100s' is neither a number X, for -X..X, nor LOW..HIGH", value);
}

static int print_init(const void *at, struct buf *to)
{
    const float *range = at;
    if (range[0] != 0 - range[1] || range[1] < 0) {
        TRY(print_float(range[0], to));
        TRY(buf_printf(to, ".."));
    }
    return print_float(range[1], to);
}

static const char places[] = "hash range dense";

static int set_place(struct table_config *c, void *at, const char *value, struct err *e)
{
    (void)at;
    unsigned i;
    TRY(read_word(value, places, &i, e));
    c->place = (enum config_place)i;
    return 0;
}

static int print_place(const void *at, struct buf *to)
{
    static const char *const names[] = {
        [CONFIG_HASH] = "hash", [CONFIG_RANGE] = "range", [CONFIG_DENSE] = "dense"};
    const enum config_place *x = at;
    return (unsigned)*x <= CONFIG_DENSE ? buf_printf(to, "%s", names[*x]) : TUG_EUSAGE;
}

static int set_mode(struct table_config *c, void *at, const char *value, struct err *e)
{
    (void)at;
    unsigned i;
    uint64_t staleness = 0;
    if (strncmp(value, "ssp:", 4) == 0) {
        TRY(read_whole(value + 4, UINT32_MAX, &staleness, e));
        c->mode = CONFIG_SSP;
    } else {
        TRY(read_word(value, "async ssp sync", &i, e));
        if (i == CONFIG_SSP)
            return err_set(e, TUG_EUSAGE,
                           "'ssp' must say how many clocks a worker may be ahead of the "
                           "slowest one, as in ssp:2");
        c->mode = (enum config_mode)i;
    }
    c->staleness = (uint32_t)staleness;
    return 0;
}

static int print_mode(const void *at, struct buf *to)
{
    const struct table_config *c = (const void *)((const char *)at -
                                                  offsetof(struct table_config, mode));
    if (c->mode == CONFIG_SSP)
        return buf_printf(to, "ssp:%u", c->staleness);
    return buf_printf(to, "%s", c->mode == CONFIG_SYNC ? "sync" : "async");
}

static int set_reduce(struct table_config *c, void *at, const char *value, struct err *e)
{
    (void)at;
    unsigned i;
    TRY(read_word(value, "sum mean", &i, e));
    c->mean = i == 1;
    return 0;
}

static int print_reduce(const void *at, struct buf *to)
{
    const bool *mean = at;
    return buf_printf(to, "%s", *mean ? "mean" : "sum");
}

static int set_passes(struct table_config *c, void *at, const char *value, struct err *e)
{
    (void)at;
    unsigned i;
    TRY(read_word(value, "first all", &i, e));
    c->count_all = i == 1;
    return 0;
}

static int print_passes(const void *at, struct buf *to)
{
    const bool *all = at;
    return buf_printf(to, "%s", *all ? "all" : "first");
}

const struct setting_kind setting_name = {set_name, print_text},
                          setting_path = {set_path, print_text},
                          setting_number = {set_number, print_number},
                          setting_whole32 = {set_u32, print_u32},
                          setting_whole = {set_u64, print_u64},
                          setting_flag = {set_flag, print_flag},
                          setting_accessor = {set_accessor, print_accessor},
                          setting_rule = {set_rule, print_rule},
                          setting_rate = {set_rate, print_rate},
                          setting_entry = {set_entry, print_entry},
                          setting_seed = {set_seed, print_u64},
                          setting_init = {set_init, print_init},
                          setting_place = {set_place, print_place},
                          setting_mode = {set_mode, print_mode},
                          setting_reduce = {set_reduce, print_reduce},
                          setting_passes = {set_passes, print_passes};
