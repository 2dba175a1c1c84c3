// Finds entry policies by name, parses and prints their options, and opens the state of a
// policy for a partition.
//
//   saved   [policy, 32 bytes][what the policy saves]
//
// SPDX-License-Identifier: Apache-2.0
#include "accessor/entry.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accessor/entry_internal.h"
#include "base/alloc.h"
#include "base/random.h"
#include "options/options.h"

enum { BUILT_IN = 6, MAX_CLASSES = 32, STREAM = 0x70726f62 };

static const struct entry_class *classes[MAX_CLASSES] = {
    &entry_none,  &entry_count,  &entry_probability,
    &entry_bloom, &entry_sketch, &entry_show_click,
};
static size_t n_classes = BUILT_IN;
static char names[MAX_CLASSES * (ENTRY_NAME_MAX + 2)] =
    "none, count, probability, bloom, sketch, show-click";

const struct entry_class *entry_find(const char *name)
{
    if (*name == '\0')
        return &entry_none;
    for (size_t i = 0; i < n_classes; i++)
        if (strcmp(classes[i]->name, name) == 0)
            return classes[i];
    return NULL;
}

const char *entry_names(void)
{
    return names;
}

int entry_register(const struct entry_class *c, struct err *e)
{
    size_t length = c->name == NULL ? 0 : strnlen(c->name, ENTRY_NAME_MAX);
    if (length == 0 || length == ENTRY_NAME_MAX || strpbrk(c->name, ":, ") != NULL)
        return err_set(e, TUG_EUSAGE,
                       "an entry policy needs a name of 1 to %d characters, without ':', "
                       "',' and blanks",
                       ENTRY_NAME_MAX - 1);
    if (c->admit == NULL)
        return err_set(e, TUG_EUSAGE, "entry policy '%s' lacks 'admit'", c->name);
    if (entry_find(c->name) != NULL)
        return err_set(e, TUG_EUSAGE, "there is an entry policy '%s' already", c->name);
    if (n_classes == MAX_CLASSES)
        return err_set(e, TUG_EUSAGE, "there are %d entry policies already, the maximum",
                       MAX_CLASSES);
    size_t used = strlen(names);
    snprintf(names + used, sizeof(names) - used, ", %s", c->name);
    classes[n_classes++] = c;
    return 0;
}

// ----------------------------------------- options of policies: names, ranges and checks

struct entry_options entry_defaults(const char *policy)
{
    struct entry_options o = {
        .threshold = 10,
        .probability = 1,
        .capacity = 1 << 16,
        .error = 0.01f,
        .nonclick = 0.1f,
        .click = 1,
    };
    snprintf(o.policy, sizeof(o.policy), "%s", policy);
    if (strcmp(policy, entry_sketch.name) == 0)
        o.error = 1e-4f;
    if (strcmp(policy, entry_show_click.name) == 0)
        o.threshold = 1;
    return o;
}

// The numbers among the options: their names in texts and messages, their ranges, and the
// policies that use them. A program's own policy may use all of them.
static const struct number {
    const char *name;
    size_t offset;
    bool whole; // true: the option is a uint32_t; false: a float
    double min, max;
    const char *of;
} numbers[] = {
    {"threshold", offsetof(struct entry_options, threshold), false, 0, 3.4e38,
     "count bloom sketch show-click"},
    {"probability", offsetof(struct entry_options, probability), false, 1e-9, 1,
     "probability"},
    {"capacity", offsetof(struct entry_options, capacity), true, 1, 1 << 28, "bloom"},
    {"error", offsetof(struct entry_options, error), false, 1e-7, 0.5, "bloom sketch"},
    {"nonclick", offsetof(struct entry_options, nonclick), false, 0, 1e9, "show-click"},
    {"click", offsetof(struct entry_options, click), false, 0, 1e9, "show-click"},
};
enum { N_NUMBERS = sizeof(numbers) / sizeof(*numbers) };
static const char with_shows[] = "count bloom sketch";

static bool is_of(const struct entry_class *c, const char *policies)
{
    for (size_t i = BUILT_IN; i < n_classes; i++)
        if (classes[i] == c)
            return true;
    size_t n = strlen(c->name);
    for (const char *at = policies; (at = strstr(at, c->name)) != NULL; at += n)
        if ((at == policies || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

static double number_get(const struct number *n, const struct entry_options *o)
{
    const char *at = (const char *)o + n->offset;
    uint32_t whole;
    float real;
    memcpy(&whole, at, sizeof(whole));
    memcpy(&real, at, sizeof(real));
    return n->whole ? whole : (double)real;
}

static int number_check(const struct number *n, const char *policy, double x,
                        struct err *e)
{
    if (x >= n->min && x <= n->max && (!n->whole || x == floor(x))) // false for NaN
        return 0;
    return err_set(e, TUG_EUSAGE, "entry policy '%s': %s is %g; it must be %s%g to %g",
                   policy, n->name, x, n->whole ? "a whole number, " : "", n->min,
                   n->max);
}

static int number_set(const struct number *n, struct entry_options *o, double x,
                      struct err *e)
{
    TRY(number_check(n, o->policy, x, e));
    uint32_t whole = n->whole ? (uint32_t)x : 0;
    float real = (float)x;
    memcpy((char *)o + n->offset, n->whole ? (const void *)&whole : &real, sizeof(real));
    return 0;
}

static int entry_find_class(const char *policy, const struct entry_class **ret,
                            struct err *e)
{
    *ret = entry_find(policy);
    if (*ret != NULL)
        return 0;
    char words[sizeof(names)], near[OPTION_NAME_MAX];
    for (size_t i = 0; i < sizeof(names); i++)
        words[i] = names[i] == ',' ? ' ' : names[i];
    options_nearest(policy, words, near);
    return err_set(e, TUG_EUSAGE, "there is no entry policy '%s'; choose from %s%s%s%s",
                   policy, names, *near ? "; did you mean '" : "", near,
                   *near ? "'?" : "");
}

int entry_check(const struct entry_options *o, struct err *e)
{
    const struct entry_class *c;
    if (strnlen(o->policy, ENTRY_NAME_MAX) == ENTRY_NAME_MAX)
        return err_set(e, TUG_EUSAGE, "the name of an entry policy is too long");
    TRY(entry_find_class(o->policy, &c, e));
    for (size_t i = 0; i < N_NUMBERS; i++)
        if (is_of(c, numbers[i].of))
            TRY(number_check(&numbers[i], c->name, number_get(&numbers[i], o), e));
    if (c->counts_to > 0 && (double)o->threshold > c->counts_to)
        return err_set(e, TUG_EUSAGE,
                       "entry policy '%s' counts up to %.0f, and not to %g; use %s",
                       c->name, c->counts_to, (double)o->threshold, c->counters);
    return 0;
}

// --------------------------------------- options as text: words with colons between them

enum { TEXT_MAX = 256, MAX_WORDS = 8 };

struct words {
    char text[TEXT_MAX];
    char *word[MAX_WORDS];
    size_t n;
};

static bool entry_cut(const char *text, struct words *ret)
{
    size_t length = strnlen(text, TEXT_MAX);
    if (length == TEXT_MAX)
        return false;
    memcpy(ret->text, text, length + 1);
    ret->n = 0;
    for (char *at = ret->text; at != NULL; ret->n++) {
        if (ret->n == MAX_WORDS)
            return false;
        ret->word[ret->n] = at;
        at = strchr(at, ':');
        if (at != NULL)
            *at++ = '\0';
    }
    return true;
}

static bool entry_is_number(const char *text, double *ret)
{
    char *end;
    *ret = strtod(text, &end);
    return (isdigit((unsigned char)*text) || *text == '.') && *end == '\0';
}

// Parses one word of a policy's text: "shows", or "name=number".
static int parse_word(const struct entry_class *c, char *word, struct entry_options *o,
                      struct err *e)
{
    double x;
    if (strcmp(word, "shows") == 0 && is_of(c, with_shows)) {
        o->by_shows = true;
        return 0;
    }
    char *value = strchr(word, '=');
    if (value != NULL)
        *value++ = '\0';
    for (size_t i = 0; i < N_NUMBERS && value != NULL; i++) {
        if (strcmp(numbers[i].name, word) != 0 || !is_of(c, numbers[i].of))
            continue;
        if (!entry_is_number(value, &x))
            return err_set(e, TUG_EUSAGE, "entry policy '%s': %s is not a number: '%s'",
                           c->name, word, value);
        return number_set(&numbers[i], o, x, e);
    }
    return err_set(e, TUG_EUSAGE, "entry policy '%s' does not have an option '%s'",
                   c->name, word);
}

// Returns the option that a number directly behind a policy's name sets ("count:10").
static const struct number *first_number(const struct entry_class *c)
{
    for (size_t i = 0; i < N_NUMBERS; i++)
        if (is_of(c, numbers[i].of))
            return &numbers[i];
    return NULL;
}

static int parse_words(const struct entry_class *c, struct words *w,
                       struct entry_options *o, struct err *e)
{
    for (size_t i = 1; i < w->n; i++) {
        double x;
        if (i == 1 && first_number(c) != NULL && entry_is_number(w->word[1], &x))
            TRY(number_set(first_number(c), o, x, e));
        else
            TRY(parse_word(c, w->word[i], o, e));
    }
    return 0;
}

// Parses the text of one of Paddle's policies, all of whose numbers must be given. The
// names of the variables with shows and clicks are ignored.
static int parse_paddle(struct words *w, const char **name, struct err *e)
{
    static const struct {
        const char *theirs, *ours, *wants;
        size_t words;
    } all[] = {
        {"count_filter_entry", "count", "one number", 2},
        {"probability_entry", "probability", "one number", 2},
        {"show_click_entry", "show-click", "the names of two variables", 3},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        double x;
        if (strcmp(w->word[0], all[i].theirs) != 0)
            continue;
        if (w->n != all[i].words || *w->word[1] == '\0' || *w->word[w->n - 1] == '\0' ||
            (w->n == 2 && !entry_is_number(w->word[1], &x)))
            return err_set(e, TUG_EUSAGE, "'%s' needs %s after a ':'", w->word[0],
                           all[i].wants);
        *name = all[i].ours;
        w->n = w->n == 3 ? 1 : w->n;
    }
    return 0;
}

int entry_parse(const char *text, struct entry_options *ret, struct err *e)
{
    struct words w;
    const struct entry_class *c;
    if (!entry_cut(text, &w))
        return err_set(e, TUG_EUSAGE,
                       "the text of an entry policy is too long: '%.40s...'", text);
    const char *name = w.word[0];
    TRY(parse_paddle(&w, &name, e));
    TRY(entry_find_class(name, &c, e));
    struct entry_options o = entry_defaults(c->name);
    TRY(parse_words(c, &w, &o, e));
    TRY(entry_check(&o, e));
    *ret = o;
    return 0;
}

int entry_print(const struct entry_options *o, struct buf *to)
{
    const struct entry_class *c = entry_find(o->policy);
    if (c == NULL)
        return TUG_EUSAGE;
    struct entry_options fallback = entry_defaults(c->name);
    const struct number *first = first_number(c);
    TRY(buf_printf(to, "%s", c->name));
    if (first != NULL)
        TRY(buf_printf(to, ":%.9g", number_get(first, o)));
    if (o->by_shows && is_of(c, with_shows))
        TRY(buf_printf(to, ":shows"));
    for (size_t i = 0; i < N_NUMBERS; i++) {
        double x = number_get(&numbers[i], o);
        if (&numbers[i] != first && is_of(c, numbers[i].of) &&
            x != number_get(&numbers[i], &fallback))
            TRY(buf_printf(to, ":%s=%.9g", numbers[i].name, x));
    }
    return 0;
}

// ----------------------------------------------------------- policies that need no state

static bool none_admit(void *state, const struct entry_options *o, uint64_t key,
                       float show, float click)
{
    (void)state, (void)o, (void)key, (void)show, (void)click;
    return true;
}

const struct entry_class entry_none = {
    .name = "none", .about = "every key", .admit = none_admit};

static bool probability_admit(void *state, const struct entry_options *o, uint64_t key,
                              float show, float click)
{
    (void)state, (void)show, (void)click;
    return random_f64(o->seed, STREAM, key) < (double)o->probability;
}

const struct entry_class entry_probability = {
    .name = "probability",
    .about = "a share of all keys, decided once for each by its hash",
    .admit = probability_admit,
};

// ----------------------------------------------- the state of a policy for one partition

struct entry {
    const struct entry_class *class;
    void *state;
    struct entry_options options;
};

int entry_open(struct entry **ret, const struct entry_options *o, struct err *e)
{
    *ret = NULL;
    TRY(entry_check(o, e));
    struct entry *x = mem_zalloc(sizeof(*x));
    if (x == NULL)
        return err_nomem(e, "an entry policy");
    x->class = entry_find(o->policy);
    x->options = *o;
    int rc = x->class->open != NULL ? x->class->open(o, &x->state, e) : 0;
    if (rc != 0) {
        mem_free(x);
        return rc;
    }
    *ret = x;
    return 0;
}

void entry_close(struct entry *x)
{
    if (x != NULL && x->class->close != NULL)
        x->class->close(x->state);
    mem_free(x);
}

bool entry_admit(struct entry *x, uint64_t key, float show, float click)
{
    return x->class->admit(x->state, &x->options, key, show, click);
}

bool entry_again(struct entry *x, uint64_t key)
{
    return x->class->again != NULL ? x->class->again(x->state, &x->options, key)
                                   : entry_admit(x, key, 0, 0);
}

size_t entry_bytes(const struct entry *x)
{
    return sizeof(*x) + (x->class->bytes != NULL ? x->class->bytes(x->state) : 0);
}

int entry_save(const struct entry *x, struct buf *to)
{
    char name[ENTRY_NAME_MAX] = {0};
    size_t before = to->len;
    snprintf(name, sizeof(name), "%s", x->class->name);
    int rc = buf_add(to, name, sizeof(name));
    if (rc == 0 && x->class->save != NULL)
        rc = x->class->save(x->state, to);
    if (rc != 0)
        to->len = before;
    return rc;
}

int entry_load(struct entry *x, const void *bytes, size_t n, struct err *e)
{
    char name[ENTRY_NAME_MAX + 1] = {0};
    if (n < ENTRY_NAME_MAX)
        return err_set(
            e, TUG_EDATA,
            "the saved state of the entry policy is cut short; use another save");
    memcpy(name, bytes, ENTRY_NAME_MAX);
    if (strcmp(name, x->class->name) != 0)
        return err_set(e, TUG_EDATA,
                       "the save is of another entry policy than '%s'; use the policy "
                       "with which the save was made",
                       x->class->name);
    bytes = (const char *)bytes + ENTRY_NAME_MAX;
    n -= ENTRY_NAME_MAX;
    if (x->class->load != NULL)
        return x->class->load(x->state, bytes, n, e);
    if (n != 0)
        return err_set(e, TUG_EDATA,
                       "the save of entry policy '%s' has %zu bytes too many; use "
                       "another save",
                       x->class->name, n);
    return 0;
}
