// The values of one command: parsing each kind, the sources in their order, and
// suggestions for names that do not exist. YAML is read in options_file.c, manuals are
// written in options_help.c.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/options_internal.h"

// -- words and names
// ------------------------------------------------------------------------------

void option_words(const char *words, option_word_fn see, void *arg)
{
    while (words && *words) {
        size_t len = strcspn(words, " ");
        if (len && !see(arg, words, len))
            return;
        words += len + strspn(words + len, " ");
    }
}

void option_env_name(const char *name, char ret_env[OPTION_NAME_MAX + 8])
{
    size_t n = 4;
    memcpy(ret_env, "TUG_", n);
    for (; *name && n < OPTION_NAME_MAX + 7; name++)
        ret_env[n++] = isalnum((unsigned char)*name) ? (char)toupper((unsigned char)*name)
                                                     : '_';
    ret_env[n] = 0;
}

size_t option_find(const struct option_table *t, const char *name, size_t len)
{
    for (size_t i = 0; i < t->n_options; i++)
        if (strlen(t->options[i].name) == len &&
            memcmp(t->options[i].name, name, len) == 0)
            return i;
    return OPTION_NONE;
}

const struct option_table *option_family_find(const struct option_table *t,
                                              const char *command)
{
    if (strcmp(t->command, command) == 0)
        return t;
    for (const struct option_table *const *f = t->family; f && *f; f++)
        if (strcmp((*f)->command, command) == 0)
            return *f;
    return NULL;
}

// Edits between two short words: insert, delete, replace, swap neighbours (optimal string
// alignment; Damerau 1964). Longer words are far from everything.
static size_t edit_distance(const char *a, size_t n, const char *b, size_t m)
{
    if (n >= OPTION_NAME_MAX || m >= OPTION_NAME_MAX)
        return SIZE_MAX;
    size_t row[3][OPTION_NAME_MAX + 1];
    for (size_t j = 0; j <= m; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = row[i % 3], *up = row[(i - 1) % 3], *up2 = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);
            if (up[j] + 1 < best)
                best = up[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

struct nearest {
    const char *given;
    size_t len, distance;
    char *word;
};

static bool nearest_see(void *arg, const char *word, size_t len)
{
    struct nearest *n = arg;
    if (len >= OPTION_NAME_MAX)
        return true;
    size_t d = edit_distance(n->given, n->len, word, len);
    // A beginning of a name was meant as the name ("opt": optimizer), unless a typo is
    // nearer.
    if (d > 1 && n->len >= 3 && n->len < len && memcmp(n->given, word, n->len) == 0)
        d = 1;
    if (d >= n->distance)
        return true;
    n->distance = d;
    memcpy(n->word, word, len);
    n->word[len] = 0;
    return true;
}

// Words up to a third of their letters away count as near.
static struct nearest nearest_make(const char *given, size_t len, char *ret_word)
{
    *ret_word = 0;
    size_t limit = len < 6 ? 2 : len < 9 ? 3 : 4;
    return (struct nearest){given, len, limit, ret_word};
}

void options_nearest(const char *given, const char *words, char ret_word[OPTION_NAME_MAX])
{
    struct nearest n = nearest_make(given, strlen(given), ret_word);
    option_words(words, nearest_see, &n);
}

static void nearest_option(const struct option_table *t, const char *given, size_t len,
                           char ret_word[OPTION_NAME_MAX])
{
    struct nearest n = nearest_make(given, len, ret_word);
    for (size_t i = 0; i < t->n_options; i++)
        nearest_see(&n, t->options[i].name, strlen(t->options[i].name));
    option_words("config set help", nearest_see, &n);
}

int option_unknown(const struct option_table *t, const char *prefix, const char *dashes,
                   const char *name, size_t len, struct err *e)
{
    char near[OPTION_NAME_MAX];
    nearest_option(t, name, len, near);
    int n = len < 200 ? (int)len : 200;
    if (*near)
        return err_set(e, TUG_EUSAGE,
                       "%sthere is no option '%s%.*s'; did you mean '%s%s'?", prefix,
                       dashes, n, name, dashes, near);
    return err_set(e, TUG_EUSAGE,
                   "%sthere is no option '%s%.*s'; 'tug %s --help' lists them all",
                   prefix, dashes, n, name, t->command);
}

// -- values
// ---------------------------------------------------------------------------------------

const char *option_keep(struct options *o, const char *text, size_t len)
{
    if ((o->n_kept & (o->n_kept - 1)) == 0) { // full at powers of two
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

// What a message about a value begins with: who gave it, and to which option.
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

// Digits, or a whole number written as 1e6.
static bool read_u64(const char *text, uint64_t *ret, const char **ret_rest)
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
    return read_u64(text, ret, &rest) && !*rest && in_bounds(opt, (double)*ret);
}

static bool parse_size(const struct option *opt, const char *text, uint64_t *ret)
{
    static const char units[] = "KMGT";
    const char *rest;
    if (!read_u64(text, ret, &rest))
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

static bool parse_flag(const char *text, bool *ret)
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
    option_words(opt->choices, choice_see, &c);
    if (c.found >= 0)
        *ret = c.found;
    return c.found >= 0;
}

static int refuse(const struct option *opt, const struct option_giver *by,
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
    options_nearest(text, opt->choices, near);
    return err_set(e, TUG_EUSAGE, "%s: '%.200s' is none of: %s%s%s%s", who, text,
                   opt->choices, *near ? "; did you mean '" : "", near,
                   *near ? "'?" : "");
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

// Stores a scalar; false when the text is no value of the option.
static bool store(const struct option *opt, const char *text, void *at)
{
    switch (opt->kind) {
    case OPTION_FLAG:
        return parse_flag(text, at);
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
        return refuse(opt, by, text, e);
    } else {
        origin->text = kept;
    }
    origin->giver = *by;
    return 0;
}

// -- sources
// --------------------------------------------------------------------------------------

static int load_defaults(struct options *o, struct err *e)
{
    const struct option_giver by = {OPTION_DEFAULT, "default", 0};
    for (size_t i = 0; i < o->table->n_options; i++) {
        o->origin[i].giver = by;
        if (o->table->options[i].fallback)
            TRY(option_assign(o, i, o->table->options[i].fallback, &by, e));
    }
    return 0;
}

// A list's items lie between commas in the environment.
static int assign_env(struct options *o, size_t i, const char *name, const char *text,
                      struct err *e)
{
    struct option_giver by = {OPTION_ENV, option_keep(o, name, strlen(name)), o->loads};
    if (!by.place)
        return err_nomem(e, "options");
    if (o->table->options[i].kind != OPTION_LIST)
        return option_assign(o, i, text, &by, e);
    while (*text) {
        size_t len = strcspn(text, ",");
        const char *item = option_keep(o, text, len);
        if (!item)
            return err_nomem(e, "options");
        if (len)
            TRY(option_assign(o, i, item, &by, e));
        text += len + (text[len] == ',');
    }
    return 0;
}

struct env_search {
    char name[OPTION_NAME_MAX + 8];
    const char *value;
};

static bool env_see(void *arg, const char *word, size_t len)
{
    struct env_search *s = arg;
    if (len >= sizeof(s->name))
        return true;
    memcpy(s->name, word, len);
    s->name[len] = 0;
    s->value = getenv(s->name);
    return !s->value;
}

static int load_environment(struct options *o, struct err *e)
{
    o->loads++;
    for (size_t i = 0; i < o->table->n_options; i++) {
        struct env_search s;
        option_env_name(o->table->options[i].name, s.name);
        s.value = getenv(s.name);
        if (!s.value)
            option_words(o->table->options[i].env, env_see, &s);
        if (s.value)
            TRY(assign_env(o, i, s.name, s.value, e));
    }
    return 0;
}

static bool table_has_env(const struct option_table *t, const char *name, size_t len)
{
    char env[OPTION_NAME_MAX + 8];
    for (size_t i = 0; i < t->n_options; i++) {
        option_env_name(t->options[i].name, env);
        if (strlen(env) == len && memcmp(env, name, len) == 0)
            return true;
    }
    return false;
}

static bool family_has_env(const struct option_table *t, const char *name, size_t len)
{
    if (table_has_env(t, name, len))
        return true;
    for (const struct option_table *const *f = t->family; f && *f; f++)
        if (table_has_env(*f, name, len))
            return true;
    return len == 10 && memcmp(name, "TUG_CONFIG", len) == 0;
}

// A TUG_ variable one edit away from an option of this command is a typo. Others are let
// be: the environment is shared (Kubernetes sets TUG_SERVICE_HOST when a service is
// called tug).
static int check_environment(const struct option_table *t, struct err *e)
{
    for (char **v = environ; v && *v; v++) {
        size_t len = strcspn(*v, "=");
        if (len <= 4 || memcmp(*v, "TUG_", 4) != 0 || family_has_env(t, *v, len))
            continue;
        for (size_t i = 0; i < t->n_options; i++) {
            char env[OPTION_NAME_MAX + 8];
            option_env_name(t->options[i].name, env);
            if (edit_distance(*v, len, env, strlen(env)) <= 1)
                return err_set(
                    e, TUG_EUSAGE,
                    "environment: there is no option '%.*s'; did you mean '%s'?",
                    (int)len, *v, env);
        }
    }
    return 0;
}

struct words {
    int n;
    char *const *at;
    int i; // the word being looked at
};

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] == '-';
}

static bool wants_help(const struct words *w)
{
    for (int i = 0; i < w->n && strcmp(w->at[i], "--") != 0; i++)
        if (strcmp(w->at[i], "--help") == 0 || strcmp(w->at[i], "-h") == 0)
            return true;
    return false;
}

// The value of the option at w->i: behind '=', or the next word.
static int word_value(struct words *w, const char *eq, const char **ret, struct err *e)
{
    if (eq) {
        *ret = eq + 1;
        return 0;
    }
    if (w->i + 1 >= w->n || is_option(w->at[w->i + 1]))
        return err_set(e, TUG_EUSAGE, "%s needs a value", w->at[w->i]);
    *ret = w->at[++w->i];
    return 0;
}

static int take_list(struct options *o, size_t opt, struct words *w, const char *eq,
                     const struct option_giver *by, struct err *e)
{
    const char *value;
    TRY(word_value(w, eq, &value, e));
    TRY(option_assign(o, opt, value, by, e));
    while (!eq && w->i + 1 < w->n && !is_option(w->at[w->i + 1]))
        TRY(option_assign(o, opt, w->at[++w->i], by, e));
    return 0;
}

// --set NAME=VALUE
static int take_set(struct options *o, const char *text, const struct option_giver *by,
                    struct err *e)
{
    const char *eq = strchr(text, '=');
    if (!eq || eq == text)
        return err_set(e, TUG_EUSAGE, "--set takes NAME=VALUE, not '%.200s'", text);
    size_t i = option_find(o->table, text, (size_t)(eq - text));
    if (i == OPTION_NONE)
        return option_unknown(o->table, "--set: ", "", text, (size_t)(eq - text), e);
    return option_assign(o, i, eq + 1, by, e);
}

static int take_option(struct options *o, struct words *w, const struct option_giver *by,
                       struct err *e)
{
    const char *name = w->at[w->i] + 2, *eq = strchr(name, '='), *value;
    size_t len = eq ? (size_t)(eq - name) : strlen(name);
    if (len == 6 && memcmp(name, "config", len) == 0) // loaded before
        return word_value(w, eq, &value, e);
    if (len == 3 && memcmp(name, "set", len) == 0) {
        TRY(word_value(w, eq, &value, e));
        return take_set(o, value, by, e);
    }
    size_t i = option_find(o->table, name, len);
    if (i == OPTION_NONE && len > 3 && memcmp(name, "no-", 3) == 0 && !eq) {
        i = option_find(o->table, name + 3, len - 3);
        if (i != OPTION_NONE && o->table->options[i].kind == OPTION_FLAG)
            return option_assign(o, i, "false", by, e);
        i = OPTION_NONE;
    }
    if (i == OPTION_NONE)
        return option_unknown(o->table, "", "--", name, len, e);
    if (o->table->options[i].kind == OPTION_FLAG && !eq)
        return option_assign(o, i, "true", by, e);
    if (o->table->options[i].kind == OPTION_LIST)
        return take_list(o, i, w, eq, by, e);
    TRY(word_value(w, eq, &value, e));
    return option_assign(o, i, value, by, e);
}

static int take_operand(struct options *o, const char *word,
                        const struct option_giver *by, struct err *e)
{
    if (word[0] == '-' && word[1] && !o->table->operands)
        return err_set(e, TUG_EUSAGE,
                       "there is no option '%.200s'; options begin with two dashes",
                       word);
    if (!o->table->operands)
        return err_set(e, TUG_EUSAGE,
                       "'%.200s' belongs to no option; 'tug %s --help' shows the usage",
                       word, o->table->command);
    size_t i = option_find(o->table, o->table->operands, strlen(o->table->operands));
    return option_assign(o, i, word, by, e);
}

static int load_words(struct options *o, struct words *w, struct err *e)
{
    const struct option_giver by = {OPTION_ARGS, "command line", ++o->loads};
    bool plain = false; // behind "--"
    for (w->i = 0; w->i < w->n; w->i++) {
        const char *word = w->at[w->i];
        if (!plain && strcmp(word, "--") == 0)
            plain = true;
        else if (!plain && is_option(word))
            TRY(take_option(o, w, &by, e));
        else
            TRY(take_operand(o, word, &by, e));
    }
    return 0;
}

// Every --config among the words, in order; without one, the file named by TUG_CONFIG.
static int load_files(struct options *o, struct words *w, struct err *e)
{
    bool any = false;
    for (w->i = 0; w->i < w->n && strcmp(w->at[w->i], "--") != 0; w->i++) {
        const char *word = w->at[w->i], *path;
        if (strcmp(word, "--config") != 0 && strncmp(word, "--config=", 9) != 0)
            continue;
        TRY(word_value(w, word[8] ? word + 8 : NULL, &path, e));
        TRY(options_load_file(o, path, e));
        any = true;
    }
    const char *path = getenv("TUG_CONFIG");
    return any || !path || !*path ? 0 : options_load_file(o, path, e);
}

static int check_required(const struct options *o, struct err *e)
{
    for (size_t i = 0; i < o->table->n_options; i++) {
        const struct option *opt = &o->table->options[i];
        if (opt->required && o->origin[i].giver.source == OPTION_DEFAULT)
            return err_set(e, TUG_EUSAGE,
                           "--%s %s is missing (%s); 'tug %s --help' tells more",
                           opt->name, opt->metavar ? opt->metavar : "", opt->help,
                           o->table->command);
    }
    return 0;
}

static int load_all(struct options *o, struct words *w, unsigned flags, struct err *e)
{
    TRY(load_defaults(o, e));
    o->help = wants_help(w);
    if (o->help)
        return 0;
    TRY(load_files(o, w, e));
    TRY(load_environment(o, e));
    TRY(load_words(o, w, e));
    TRY(check_environment(o->table, e));
    return flags & OPTIONS_INCOMPLETE ? 0 : check_required(o, e);
}

// The command's struct begins as zeros; its size is where the last option ends, so only
// the options' own bytes are touched.
static void zero_values(struct options *o)
{
    static const size_t size[] = {
        [OPTION_FLAG] = sizeof(bool),
        [OPTION_STRING] = sizeof(char *),
        [OPTION_LIST] = sizeof(struct option_list),
        [OPTION_U64] = sizeof(uint64_t),
        [OPTION_F64] = sizeof(double),
        [OPTION_CHOICE] = sizeof(int),
        [OPTION_SIZE] = sizeof(uint64_t),
    };
    for (size_t i = 0; i < o->table->n_options; i++)
        memset(o->values + o->table->options[i].offset, 0,
               size[o->table->options[i].kind]);
}

int options_parse(struct options **ret, const struct option_table *t, int argc,
                  char *const *argv, void *values, unsigned flags, struct err *e)
{
    int rc = TUG_ENOMEM;
    struct options *o = mem_zalloc(sizeof(*o));
    if (!o)
        return err_nomem(e, "options");
    o->table = t;
    o->values = values;
    zero_values(o);
    o->origin = mem_zalloc((t->n_options + 1) * sizeof(*o->origin));
    if (!o->origin) {
        err_nomem(e, "options");
        goto fail;
    }
    struct words w = {argc, argv, 0};
    rc = load_all(o, &w, flags, e);
    if (rc)
        goto fail;
    *ret = o;
    return 0;
fail:
    options_close(o);
    return rc;
}

void options_close(struct options *o)
{
    if (!o)
        return;
    for (size_t i = 0; i < o->table->n_options; i++) {
        const struct option *opt = &o->table->options[i];
        if (opt->kind == OPTION_LIST)
            mem_free(((struct option_list *)(void *)(o->values + opt->offset))->items);
    }
    zero_values(o);
    for (size_t i = 0; i < o->n_kept; i++)
        mem_free(o->kept[i]);
    mem_free(o->kept);
    mem_free(o->origin);
    mem_free(o);
}

bool options_help_wanted(const struct options *o)
{
    return o->help;
}

enum option_source options_source(const struct options *o, size_t i)
{
    return o->origin[i].giver.source;
}

const char *options_place(const struct options *o, size_t i)
{
    return o->origin[i].giver.place;
}

int options_text(const struct options *o, size_t i, struct buf *b)
{
    const struct option *opt = &o->table->options[i];
    if (opt->kind != OPTION_LIST) {
        const char *text = o->origin[i].text;
        return text ? buf_add(b, text, strlen(text)) : 0;
    }
    const struct option_list *list = (const void *)(o->values + opt->offset);
    for (size_t k = 0; k < list->n; k++)
        TRY(buf_printf(b, "%s%s", k ? " " : "", list->items[k]));
    return 0;
}

bool options_given(const struct options *o, const char *name)
{
    size_t i = option_find(o->table, name, strlen(name));
    return i != OPTION_NONE && o->origin[i].giver.source != OPTION_DEFAULT;
}
