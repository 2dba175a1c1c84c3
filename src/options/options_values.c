// Converts the text of a value to a number, choice or flag within its bounds, or reports
// an error with the value's origin and the valid values.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "options/options_internal.h"

const char *option_keep(struct options *o, const char *text, size_t len)
{
    if ((o->n_kept & (o->n_kept - 1)) == 0) { // the array is full at powers of two
        size_t cap = o->n_kept ? 2 * o->n_kept : 1;
        char **kept = mem_realloc_array(o->kept, cap, sizeof(*kept));
        if (!kept)
            return NULL;
        o->kept = kept;
    }
    char *copy = mem_alloc(len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = 0;
    return o->kept[o->n_kept++] = copy;
}

// Writes the start of an error about a value: its origin and its option.
static const char *label(const struct option *opt, const struct option_giver *by,
                         char ret_text[512])
{
    switch (by->source) {
    case OPTION_ARGS:
        snprintf(ret_text, 512, "--%s", opt->name);
        break;
    case OPTION_ENV:
        snprintf(ret_text, 512, "%s", by->place);
        break;
    case OPTION_PRESET:
    case OPTION_FILE:
        snprintf(ret_text, 512, "%s: %s", by->place, opt->name);
        break;
    case OPTION_DEFAULT:
        snprintf(ret_text, 512, "default of --%s", opt->name);
        break;
    }
    return ret_text;
}

static const char *bounds(const struct option *opt, char ret_text[128])
{
    if (opt->min == 0 && opt->max == 0) // NOLINT: exact by construction
        ret_text[0] = 0;
    else if (isinf(opt->max))
        snprintf(ret_text, 128, ", at least %.15g", opt->min);
    else
        snprintf(ret_text, 128, ", %.15g to %.15g", opt->min, opt->max);
    return ret_text;
}

static bool in_bounds(const struct option *opt, double x)
{
    return (opt->min == 0 && opt->max == 0) || (x >= opt->min && x <= opt->max);
}

bool options_read_whole(const char *text, uint64_t *ret, const char **ret_rest)
{
    if (!isdigit((unsigned char)*text))
        return false;
    char *end;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    if (errno)
        return false;
    if (*end == 'e' || *end == 'E' || *end == '.') {
        double x = strtod(text, &end);
        if (!(x >= 0 && x <= 0x1p53) || x != floor(x))
            return false;
        *ret = (uint64_t)x;
    }
    *ret_rest = end;
    return true;
}

static bool parse_u64(const struct option *opt, const char *text, uint64_t *ret)
{
    const char *rest;
    return options_read_whole(text, ret, &rest) && !*rest && in_bounds(opt, (double)*ret);
}

static bool parse_size(const struct option *opt, const char *text, uint64_t *ret)
{
    static const char units[] = "KMGT";
    const char *rest;
    if (!options_read_whole(text, ret, &rest))
        return false;
    if (*rest && strcasecmp(rest, "B") != 0) {
        const char *u = strchr(units, toupper((unsigned char)*rest));
        if (!u || (rest[1] && strcasecmp(rest + 1, "B") && strcasecmp(rest + 1, "iB")))
            return false;
        unsigned shift = 10u * (unsigned)(u - units + 1);
        if (*ret > UINT64_MAX >> shift)
            return false;
        *ret <<= shift;
    }
    return in_bounds(opt, (double)*ret);
}

static bool parse_f64(const struct option *opt, const char *text, double *ret)
{
    char *end;
    *ret = strtod(text, &end);
    return *text && !isspace((unsigned char)*text) && !*end && isfinite(*ret) &&
           in_bounds(opt, *ret);
}

bool options_read_flag(const char *text, bool *ret)
{
    static const char *const words[] = {"false", "true", "no", "yes",
                                        "off",   "on",   "0",  "1"};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *ret = i % 2;
            return true;
        }
    }
    return false;
}

struct choice {
    const char *given;
    size_t len;
    int index, found;
};

static bool choice_see(void *arg, const char *word, size_t len)
{
    struct choice *c = arg;
    if (len == c->len && memcmp(word, c->given, len) == 0)
        c->found = c->index;
    c->index++;
    return c->found < 0;
}

static bool parse_choice(const struct option *opt, const char *text, int *ret)
{
    struct choice c = {text, strlen(text), 0, -1};
    // An option that may be given without a word also takes true, false, yes and so on.
    bool flag;
    option_words(opt->choices, choice_see, &c);
    if (c.found < 0 && opt->bare != NULL && options_read_flag(text, &flag))
        return parse_choice(opt, flag ? opt->bare : opt->fallback, ret);
    if (c.found >= 0)
        *ret = c.found;
    return c.found >= 0;
}

const char *options_word(const char *words, int index, char ret[OPTION_NAME_MAX])
{
    for (; index > 0; index--) {
        words = strchr(words, ' ');
        assert(words != NULL);
        words++;
    }
    int len = (int)strcspn(words, " ");
    snprintf(ret, OPTION_NAME_MAX, "%.*s", len, words);
    return ret;
}

static int options_values_refuse(const struct option *opt, const struct option_giver *by,
                                 const char *text, struct err *e)
{
    static const char *const wanted[] = {
        [OPTION_FLAG] = "yes or no",
        [OPTION_U64] = "a whole number",
        [OPTION_F64] = "a number",
        [OPTION_SIZE] = "a size in bytes (as 64K, 512M or 2G)",
    };
    char who[512], near[OPTION_NAME_MAX] = "", range[128];
    label(opt, by, who);
    if (opt->kind != OPTION_CHOICE)
        return err_set(e, TUG_EUSAGE, "%s: '%.200s' is not %s%s", who, text,
                       wanted[opt->kind], bounds(opt, range));
    if (strcmp(opt->name, "format") == 0 && strcmp(text, "vw") == 0)
        return err_set(e, TUG_EUSAGE,
                       "%s: '%s' is not one of: %s; docs/from-xlearn-and-vw.md has a "
                       "program that converts Vowpal Wabbit's text",
                       who, text, opt->choices);
    options_nearest(text, opt->choices, near);
    return err_set(e, TUG_EUSAGE, "%s: '%.200s' is not one of: %s%s%s%s", who, text,
                   opt->choices, *near ? "; did you mean '" : "", near,
                   *near ? "'?" : "");
}

int option_check_value(const struct option_table *t, const char *before, const char *word,
                       struct err *e)
{
    if (strncmp(before, "--", 2) != 0)
        return 0;
    size_t i = option_find(t, before + 2, strlen(before + 2));
    const struct option *opt = i != OPTION_NONE ? &t->options[i] : NULL;
    bool flag;
    int choice;
    if (opt == NULL || (opt->kind != OPTION_FLAG && opt->bare == NULL))
        return 0;
    if (opt->kind == OPTION_FLAG ? options_read_flag(word, &flag)
                                 : parse_choice(opt, word, &choice))
        return err_set(e, TUG_EUSAGE, "unexpected argument '%.200s'; write %s=%.200s",
                       word, before, word);
    return opt->kind == OPTION_FLAG ? 0
                                    : err_set(e, TUG_EUSAGE,
                                              "unexpected argument '%.200s'; %s takes a "
                                              "value after '=', and the values are: %s",
                                              word, before, opt->choices);
}

static int list_add(struct options *o, size_t i, const char *text, struct err *e)
{
    struct option_list *list = (void *)(o->values + o->table->options[i].offset);
    if ((list->n & (list->n - 1)) == 0) {
        size_t cap = list->n ? 2 * list->n : 1;
        const char **items = mem_realloc_array(list->items, cap, sizeof(*items));
        if (!items)
            return err_nomem(e, "options");
        list->items = items;
    }
    list->items[list->n++] = text;
    return 0;
}

// Stores a single value; returns false if the text is not a value of the option.
static bool store(const struct option *opt, const char *text, void *at)
{
    switch (opt->kind) {
    case OPTION_FLAG:
        return options_read_flag(text, at);
    case OPTION_U64:
        return parse_u64(opt, text, at);
    case OPTION_F64:
        return parse_f64(opt, text, at);
    case OPTION_CHOICE:
        return parse_choice(opt, text, at);
    case OPTION_SIZE:
        return parse_size(opt, text, at);
    case OPTION_STRING:
        *(const char **)at = text;
        return true;
    case OPTION_LIST:
        break;
    }
    return false;
}

int option_assign(struct options *o, size_t i, const char *text,
                  const struct option_giver *by, struct err *e)
{
    const struct option *opt = &o->table->options[i];
    struct option_origin *origin = &o->origin[i];
    void *at = o->values + opt->offset;
    const char *kept = option_keep(o, text, strlen(text));
    if (!kept)
        return err_nomem(e, "options");
    if (opt->kind == OPTION_LIST) {
        if (origin->giver.load != by->load)
            ((struct option_list *)at)->n = 0;
        TRY(list_add(o, i, kept, e));
    } else if (!store(opt, kept, at)) {
        return options_values_refuse(opt, by, text, e);
    } else {
        origin->text = kept;
    }
    origin->giver = *by;
    return 0;
}
