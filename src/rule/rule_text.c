// Update rules as text: parses and prints them, and checks the ranges of their numbers.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "options/options.h"
#include "rule/rule.h"

#define BELOW_1 0x1.fffffep-1f

// The numbers in struct rule_params. Every rule has the numbers with `any`, even if
// rule_info.takes does not list them.
static const struct number {
    const char *name;
    size_t offset;
    float min, max;
    bool any;
} numbers[] = {
#define NUMBER(field, ...)                                                               \
    {                                                                                    \
#field, offsetof(struct rule_params, field), __VA_ARGS__                         \
    }
    NUMBER(lr, 0, FLT_MAX, false),
    NUMBER(l1, 0, FLT_MAX, false),
    NUMBER(l2, 0, FLT_MAX, false),
    NUMBER(l21, 0, FLT_MAX, false),
    NUMBER(prior, 0, FLT_MAX, false),
    NUMBER(n0, 0, FLT_MAX, false),
    NUMBER(g0, 0, FLT_MAX, false),
    NUMBER(beta, 0, FLT_MAX, false),
    NUMBER(beta1, 0, BELOW_1, false),
    NUMBER(beta2, 0, BELOW_1, false),
    NUMBER(decay, 0, 1, false),
    NUMBER(low, -FLT_MAX, FLT_MAX, true),
    NUMBER(high, -FLT_MAX, FLT_MAX, true),
    NUMBER(clip, 0, FLT_MAX, true),
    NUMBER(clip_norm, 0, FLT_MAX, true),
};
enum { NUMBERS = sizeof(numbers) / sizeof(*numbers) };

static float rule_text_get(const struct rule_params *p, size_t i)
{
    float x;
    memcpy(&x, (const char *)p + numbers[i].offset, sizeof(x));
    return x;
}

static void set(struct rule_params *p, size_t i, float x)
{
    memcpy((char *)p + numbers[i].offset, &x, sizeof(x));
}

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *w = words; *w != 0; w += strspn(w, " ")) {
        size_t len = strcspn(w, " ");
        if (len == n && memcmp(w, word, n) == 0)
            return true;
        w += len;
    }
    return false;
}

bool rule_takes(enum rule_kind kind, const char *name)
{
    const char *words = rule_info(kind)->takes;
    return words == NULL || has_word(words, name);
}

static int check_number(const struct rule_params *p, size_t i, struct err *e)
{
    const struct number *f = &numbers[i];
    const char *rule = rule_info(p->kind)->name;
    char most[DECIMAL_MAX];
    float x = rule_text_get(p, i);
    if (!isfinite(x))
        return err_set(e, TUG_EUSAGE, "%s of update rule %s is not a finite number",
                       f->name, rule);
    if (x < f->min)
        return err_set(e, TUG_EUSAGE, "%s of update rule %s is %g, less than %g", f->name,
                       rule, (double)x, (double)f->min);
    if (x <= f->max)
        return 0;
    decimal_print(f->max, most);
    return err_set(e, TUG_EUSAGE, "%s of update rule %s is %g, more than %s", f->name,
                   rule, (double)x, most);
}

int rule_check(const struct rule_params *p, struct err *e)
{
    const struct rule_info *info = rule_info(p->kind);
    if (info == NULL)
        return err_set(e, TUG_EUSAGE, "there is no update rule number %u",
                       (unsigned)p->kind);
    for (size_t i = 0; i < NUMBERS; i++)
        TRY(check_number(p, i, e));
    if (info->takes != NULL && has_word(info->takes, "lr") && p->lr == 0)
        return err_set(
            e, TUG_EUSAGE,
            "update rule %s learns nothing with 'lr' 0; give it an 'lr' above 0",
            info->name);
    if (info->takes != NULL && has_word(info->takes, "g0") && p->g0 == 0)
        return err_set(e, TUG_EUSAGE, "'g0' of update rule %s must be above 0",
                       info->name);
    if (p->bounded && !(p->low <= p->high))
        return err_set(e, TUG_EUSAGE, "'low' %g of update rule %s is above 'high' %g",
                       (double)p->low, info->name, (double)p->high);
    if (p->block == 0)
        return err_set(e, TUG_EUSAGE, "'block' of update rule %s must be at least 1",
                       info->name);
    return 0;
}

bool rule_same(const struct rule_params *a, const struct rule_params *b)
{
    for (size_t i = 0; i < NUMBERS; i++)
        if (rule_text_get(a, i) != rule_text_get(b, i))
            return false;
    return a->kind == b->kind && a->block == b->block && a->dense == b->dense &&
           a->unscaled == b->unscaled && a->bounded == b->bounded;
}

// ------------------------------------------------------------ parsing the text of a rule

static int rule_text_unknown(enum rule_kind kind, const char *name, struct err *e)
{
    const struct rule_info *info = rule_info(kind);
    char words[RULE_TEXT_MAX], near[OPTION_NAME_MAX];
    size_t n = 0;
    for (size_t i = 0; i < NUMBERS; i++)
        if (numbers[i].any || rule_takes(kind, numbers[i].name))
            n += (size_t)snprintf(words + n, sizeof(words) - n, "%s ", numbers[i].name);
    snprintf(words + n, sizeof(words) - n, "%sdense unscaled",
             rule_takes(kind, "block") ? "block " : "");
    options_nearest(name, words, near);
    if (*near != 0)
        return err_set(e, TUG_EUSAGE,
                       "update rule %s has no parameter '%s'; did you mean '%s'?",
                       info->name, name, near);
    return err_set(e, TUG_EUSAGE, "update rule %s has no parameter '%s'; it has %s",
                   info->name, name, words);
}

static int read_block(const char *text, struct rule_params *p, struct err *e)
{
    char *end;
    unsigned long x = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != 0 || x < 1 || x > INT32_MAX)
        return err_set(e, TUG_EUSAGE,
                       "block of update rule %s is '%s', not a whole number",
                       rule_info(p->kind)->name, text);
    p->block = (uint32_t)x;
    return 0;
}

static int read_number(const char *name, const char *text, struct rule_params *p,
                       struct err *e)
{
    for (size_t i = 0; i < NUMBERS; i++) {
        if (strcmp(numbers[i].name, name) != 0 ||
            !(numbers[i].any || rule_takes(p->kind, name)))
            continue;
        float x;
        if (!decimal_parse(text, &x))
            return err_set(e, TUG_EUSAGE, "%s of update rule %s is '%s', not a number",
                           name, rule_info(p->kind)->name, text);
        set(p, i, x);
        return check_number(p, i, e);
    }
    return rule_text_unknown(p->kind, name, e);
}

// Reads "name=number", "dense" or "unscaled". Changes `word`.
static int read_word(char *word, struct rule_params *p, struct err *e)
{
    char *value = strchr(word, '=');
    if (value == NULL && strcmp(word, "dense") == 0) {
        p->dense = true;
        return 0;
    }
    if (value == NULL && strcmp(word, "unscaled") == 0) {
        p->unscaled = true;
        return 0;
    }
    if (value == NULL)
        return err_set(
            e, TUG_EUSAGE,
            "'%s' of update rule %s is neither name=number nor dense or unscaled", word,
            rule_info(p->kind)->name);
    *value++ = 0;
    if (strcmp(word, "block") == 0 && rule_takes(p->kind, word))
        return read_block(value, p, e);
    bool low = strcmp(word, "low") == 0, high = strcmp(word, "high") == 0;
    if ((low || high) && !p->bounded) {
        p->bounded = true;
        p->low = -FLT_MAX;
        p->high = FLT_MAX;
    }
    return read_number(word, value, p, e);
}

// Reads words separated by commas. Changes the text; NULL has no words.
static int read_words(char *words, struct rule_params *p, struct err *e)
{
    while (words != NULL) {
        char *word = words;
        words = strchr(word, ',');
        if (words != NULL)
            *words++ = 0;
        TRY(read_word(word, p, e));
    }
    return rule_check(p, e);
}

static int copy_text(const char *text, char ret[RULE_TEXT_MAX], struct err *e)
{
    size_t n = strlen(text);
    if (n >= RULE_TEXT_MAX)
        return err_set(e, TUG_EUSAGE, "an update rule of %zu letters is too long", n);
    memcpy(ret, text, n + 1);
    return 0;
}

int rule_parse(const char *text, struct rule_params *ret, struct err *e)
{
    char copy[RULE_TEXT_MAX];
    enum rule_kind kind;
    TRY(copy_text(text, copy, e));
    char *rest = strchr(copy, ':');
    if (rest != NULL)
        *rest++ = 0;
    TRY(rule_find(copy, &kind, e));
    struct rule_params p = rule_defaults_by_name(kind, copy);
    TRY(read_words(rest, &p, e));
    *ret = p;
    return 0;
}

int rule_adjust(const char *text, struct rule_params *p, struct err *e)
{
    char copy[RULE_TEXT_MAX];
    struct rule_params adjusted = *p;
    TRY(copy_text(text, copy, e));
    TRY(read_words(copy, &adjusted, e));
    *p = adjusted;
    return 0;
}

// ---------------------------------------------------------------- printing a rule

struct rule_writer {
    char *text;
    size_t n;
};

static void write_word(struct rule_writer *w, const char *name, const char *value)
{
    int n = snprintf(w->text + w->n, RULE_TEXT_MAX - w->n, "%c%s%s%s",
                     strchr(w->text, ':') == NULL ? ':' : ',', name,
                     value != NULL ? "=" : "", value != NULL ? value : "");
    w->n += (size_t)n;
    assert(w->n < RULE_TEXT_MAX);
}

void rule_print(const struct rule_params *p, char ret_text[RULE_TEXT_MAX])
{
    struct rule_params usual = rule_defaults(p->kind);
    struct rule_writer w = {.text = ret_text};
    char value[DECIMAL_MAX];
    w.n = (size_t)snprintf(ret_text, RULE_TEXT_MAX, "%s", rule_info(p->kind)->name);
    if (p->block != usual.block) {
        snprintf(value, sizeof(value), "%u", p->block);
        write_word(&w, "block", value);
    }
    for (size_t i = 0; i < NUMBERS; i++) {
        bool bound = strcmp(numbers[i].name, "low") == 0 ||
                     strcmp(numbers[i].name, "high") == 0;
        if (bound ? !p->bounded : rule_text_get(p, i) == rule_text_get(&usual, i))
            continue;
        if (!numbers[i].any && !rule_takes(p->kind, numbers[i].name))
            continue;
        decimal_print(rule_text_get(p, i), value);
        write_word(&w, numbers[i].name, value);
    }
    if (p->dense && !usual.dense)
        write_word(&w, "dense", NULL);
    if (p->unscaled)
        write_word(&w, "unscaled", NULL);
}
