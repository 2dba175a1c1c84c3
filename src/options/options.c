// Sets the values of a command from all sources in their order. options_names.c looks up
// names, options_values.c parses values, options_file.c reads YAML, options_help.c writes
// manuals.
//
// SPDX-License-Identifier: Apache-2.0
#include "options/options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "options/options_internal.h"

int option_note(struct options *o, int rc, const struct err *e)
{
    return rc == TUG_EUSAGE ? problems_note(&o->problems, rc, e) : rc;
}

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

// Assigns an environment variable. The items of a list are separated by commas.
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
            TRY(option_note(o, assign_env(o, i, s.name, s.value, e), e));
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
    for (const struct option_table *const *f = options_family; f && *f; f++)
        if (table_has_env(*f, name, len))
            return true;
    return len == 10 && memcmp(name, "TUG_CONFIG", len) == 0;
}

// Checks for typos: refuses a TUG_ variable whose name is one edit away from an option of
// this command. Ignores other unknown variables, because programs share the environment
// (Kubernetes sets TUG_SERVICE_HOST if a service is called tug).
static int check_environment(struct options *o, struct err *e)
{
    const struct option_table *t = o->table;
    for (char **v = environ; v && *v; v++) {
        size_t len = strcspn(*v, "=");
        if (len <= 4 || memcmp(*v, "TUG_", 4) != 0 || family_has_env(t, *v, len))
            continue;
        for (size_t i = 0; i < t->n_options; i++) {
            char env[OPTION_NAME_MAX + 8];
            option_env_name(t->options[i].name, env);
            if (option_distance(*v, len, env, strlen(env)) > 1)
                continue;
            err_set(e, TUG_EUSAGE,
                    "environment: there is no option '%.*s'; did you mean '%s'?",
                    (int)len, *v, env);
            TRY(option_note(o, TUG_EUSAGE, e));
            break;
        }
    }
    return 0;
}

struct words {
    int n;
    char *const *at;
    int i; // index of the current word
};

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] == '-';
}

// Returns whether the word looks like an option. A word with a single dash does, because
// other programs have such options; a negative number and "-" do not.
static bool is_like_option(const char *word)
{
    return is_option(word) || (word[0] == '-' && isalpha((unsigned char)word[1]));
}

static bool wants_help(const struct words *w)
{
    for (int i = 0; i < w->n && strcmp(w->at[i], "--") != 0; i++)
        if (strcmp(w->at[i], "--help") == 0 || strcmp(w->at[i], "-h") == 0)
            return true;
    return false;
}

// Returns the length of the first clause of an option's help.
static int first_clause(const char *help)
{
    size_t n = strcspn(help, ";(");
    const char *stop = strstr(help, ". ");
    if (stop != NULL && (size_t)(stop - help) < n)
        n = (size_t)(stop - help);
    while (n > 0 && (help[n - 1] == ' ' || help[n - 1] == ','))
        n--;
    return (int)n;
}

// Returns the value of the option at w->i: the text after '=', or the next word. The
// error about a missing value has the option's unit and help.
static int word_value(struct words *w, const char *eq, const char *unit, const char *help,
                      const char **ret, struct err *e)
{
    if (eq) {
        *ret = eq + 1;
        return 0;
    }
    if (w->i + 1 >= w->n || is_option(w->at[w->i + 1]))
        return err_set(e, TUG_EUSAGE, "%s needs a value, %s%s%.*s", w->at[w->i], unit,
                       *help != '\0' ? ": " : "", first_clause(help), help);
    *ret = w->at[++w->i];
    return 0;
}

static int option_value(const struct option *opt, struct words *w, const char *eq,
                        const char **ret, struct err *e)
{
    const char *unit = opt->metavar != NULL   ? opt->metavar
                       : opt->choices != NULL ? opt->choices
                                              : "VALUE";
    return word_value(w, eq, unit, opt->help, ret, e);
}

static int take_list(struct options *o, size_t opt, struct words *w, const char *eq,
                     const struct option_giver *by, struct err *e)
{
    const char *value;
    TRY(option_value(&o->table->options[opt], w, eq, &value, e));
    TRY(option_assign(o, opt, value, by, e));
    while (!eq && w->i + 1 < w->n && !is_like_option(w->at[w->i + 1]))
        TRY(option_assign(o, opt, w->at[++w->i], by, e));
    return 0;
}

// Handles --set NAME=VALUE.
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
    // load_files has already loaded the file
    if (len == 6 && memcmp(name, "config", len) == 0) {
        (void)word_value(w, eq, "", "", &value, NULL);
        return 0;
    }
    if (len == 3 && memcmp(name, "set", len) == 0) {
        TRY(word_value(w, eq, "NAME=VALUE", "", &value, e));
        return take_set(o, value, by, e);
    }
    size_t i = option_find(o->table, name, len);
    if (i == OPTION_NONE && len > 3 && memcmp(name, "no-", 3) == 0 && !eq) {
        i = option_find(o->table, name + 3, len - 3);
        if (i != OPTION_NONE && (o->table->options[i].kind == OPTION_FLAG ||
                                 o->table->options[i].bare != NULL))
            return option_assign(o, i, "false", by, e);
        i = OPTION_NONE;
    }
    if (i == OPTION_NONE)
        return option_unknown(o->table, "", "--", name, len, e);
    if (o->table->options[i].kind == OPTION_FLAG && !eq)
        return option_assign(o, i, "true", by, e);
    if (o->table->options[i].bare != NULL && !eq)
        return option_assign(o, i, o->table->options[i].bare, by, e);
    if (o->table->options[i].kind == OPTION_LIST)
        return take_list(o, i, w, eq, by, e);
    TRY(option_value(&o->table->options[i], w, eq, &value, e));
    return option_assign(o, i, value, by, e);
}

static bool is_dash(const char *word)
{
    return word[0] == '-' && word[1] != '\0';
}

// Returns whether the command takes a program and its arguments, behind '--'.
static bool takes_program(const struct option_table *t)
{
    return t->operands == NULL && strstr(t->usage, " -- ") != NULL;
}

// Handles a word that belongs to no option. `before` is the word before it, or "".
static int take_operand(struct options *o, const char *before, const char *word,
                        const struct option_giver *by, struct err *e)
{
    if (is_dash(word) && !o->table->operands)
        return option_dash(o->table, word, e);
    if (!o->table->operands)
        TRY(option_check_value(o->table, before, word, e));
    if (takes_program(o->table))
        return err_set(e, TUG_EUSAGE,
                       "'%.200s' is not an option: put a program and its arguments after "
                       "'--'; 'tug %s --help' shows the usage",
                       word, o->table->command);
    if (!o->table->operands && option_find(o->table, "data", 4) < o->table->n_options)
        return err_set(e, TUG_EUSAGE,
                       "unexpected argument '%.200s'; did you mean --data %.200s?", word,
                       word);
    if (!o->table->operands)
        return err_set(e, TUG_EUSAGE,
                       "unexpected argument '%.200s'; 'tug %s --help' shows the usage",
                       word, o->table->command);
    size_t i = option_find(o->table, o->table->operands, strlen(o->table->operands));
    return option_assign(o, i, word, by, e);
}

// Loads an option. If it is wrong, skips the words that were meant as its values.
static int load_option(struct options *o, struct words *w, const struct option_giver *by,
                       struct err *e)
{
    int rc = take_option(o, w, by, e);
    while (rc == TUG_EUSAGE && w->i + 1 < w->n && !is_like_option(w->at[w->i + 1]))
        w->i++;
    return option_note(o, rc, e);
}

static int load_words(struct options *o, struct words *w, struct err *e)
{
    const struct option_giver by = {OPTION_ARGS, "command line", ++o->loads};
    bool plain = false; // true after the word "--"
    for (w->i = 0; w->i < w->n; w->i++) {
        const char *word = w->at[w->i];
        if (!plain && strcmp(word, "--") == 0)
            plain = true;
        else if (!plain && is_option(word))
            TRY(load_option(o, w, &by, e));
        else {
            int rc = take_operand(o, w->i > 0 ? w->at[w->i - 1] : "", word, &by, e);
            TRY(option_note(o, rc, e));
            if (rc != 0 && word[0] != '-' && takes_program(o->table))
                break; // the words after "--" belong to the program
            if (rc != 0 && is_dash(word) && w->i + 1 < w->n && !is_dash(w->at[w->i + 1]))
                w->i++; // the word was meant as the value
        }
    }
    return 0;
}

// Loads every --config among the words, in order. If there is no --config, loads the file
// that TUG_CONFIG names.
static int load_files(struct options *o, struct words *w, struct err *e)
{
    bool any = false;
    for (w->i = 0; w->i < w->n && strcmp(w->at[w->i], "--") != 0; w->i++) {
        const char *word = w->at[w->i], *path;
        if (strcmp(word, "--config") != 0 && strncmp(word, "--config=", 9) != 0)
            continue;
        TRY(word_value(w, word[8] ? word + 8 : NULL, "FILE", "", &path, e));
        TRY(options_load_file(o, path, e));
        any = true;
    }
    const char *path = getenv("TUG_CONFIG");
    return any || !path || !*path ? 0 : options_load_file(o, path, e);
}

static int load_setting(struct options *o, const char *setting, size_t len,
                        const struct option_giver *by, struct err *e)
{
    size_t name = strcspn(setting, "="), i = option_find(o->table, setting, name);
    const char *value = option_keep(o, setting + name + 1, len - name - 1);
    if (value == NULL)
        return err_nomem(e, "options");
    if (i == OPTION_NONE)
        return err_set(e, TUG_EINTERNAL, "a preset has '%.*s'", (int)len, setting);
    return o->origin[i].giver.source == OPTION_DEFAULT ? option_assign(o, i, value, by, e)
                                                       : 0;
}

// Sets, from the preset, the options that no other source has set.
static int load_preset(struct options *o, struct err *e)
{
    if (o->table->preset == NULL)
        return 0;
    size_t i = option_find(o->table, o->table->preset, strlen(o->table->preset));
    const struct option *opt = &o->table->options[i];
    int chosen = *(const int *)(const void *)(o->values + opt->offset);
    const char *setting = o->table->presets[chosen];
    char word[OPTION_NAME_MAX], place[2 * OPTION_NAME_MAX + 2];
    snprintf(place, sizeof(place), "%s %s", opt->name,
             options_word(opt->choices, chosen, word));
    struct option_giver by = {OPTION_PRESET, option_keep(o, place, strlen(place)),
                              ++o->loads};
    if (by.place == NULL)
        return err_nomem(e, "options");
    while (setting != NULL && *setting != '\0') {
        size_t len = strcspn(setting, " ");
        TRY(load_setting(o, setting, len, &by, e));
        setting += len + (setting[len] == ' ');
    }
    return 0;
}

static int check_required(struct options *o, struct err *e)
{
    for (size_t i = 0; i < o->table->n_options; i++) {
        const struct option *opt = &o->table->options[i];
        if (!opt->required || o->origin[i].giver.source != OPTION_DEFAULT)
            continue;
        err_set(e, TUG_EUSAGE, "--%s %s is missing (%s); 'tug %s --help' tells more",
                opt->name, opt->metavar ? opt->metavar : "", opt->help,
                o->table->command);
        TRY(option_note(o, TUG_EUSAGE, e));
    }
    return 0;
}

static int load_all(struct options *o, struct words *w, unsigned flags, struct err *e)
{
    TRY(load_defaults(o, e));
    o->help = wants_help(w);
    if (o->help)
        return 0;
    TRY(option_note(o, load_files(o, w, e), e));
    TRY(load_environment(o, e));
    TRY(load_words(o, w, e));
    TRY(load_preset(o, e));
    TRY(check_environment(o, e));
    // An option with a wrong value was reported already: it is not missing.
    if (!(flags & OPTIONS_INCOMPLETE) && o->problems.n == 0)
        TRY(check_required(o, e));
    return problems_tell(&o->problems, e);
}

// Zeroes the values of the command. Zeroes only up to the end of the last option, because
// the struct may have further members.
static void zero_values(struct options *o)
{
    for (size_t i = 0; i < o->table->n_options; i++)
        memset(o->values + o->table->options[i].offset, 0, o->table->options[i].size);
}

int options_parse_after(struct options **ret, const struct option_table *t, int argc,
                        char *const *argv, void *values, unsigned flags,
                        struct problems *before, struct err *e)
{
    int rc = TUG_ENOMEM;
    struct options *o = mem_zalloc(sizeof(*o));
    if (!o)
        return err_nomem(e, "options");
    o->table = t;
    o->values = values;
    o->problems = before != NULL ? *before : PROBLEMS_INIT;
    if (before != NULL)
        *before = PROBLEMS_INIT;
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

int options_parse(struct options **ret, const struct option_table *t, int argc,
                  char *const *argv, void *values, unsigned flags, struct err *e)
{
    return options_parse_after(ret, t, argc, argv, values, flags, NULL, e);
}

void options_close(struct options *o)
{
    if (!o)
        return;
    for (size_t i = 0; i < o->table->n_options && !o->copy; i++) {
        const struct option *opt = &o->table->options[i];
        if (opt->kind == OPTION_LIST)
            mem_free(((struct option_list *)(void *)(o->values + opt->offset))->items);
    }
    zero_values(o);
    for (size_t i = 0; i < o->n_kept; i++)
        mem_free(o->kept[i]);
    mem_free(o->kept);
    mem_free(o->origin);
    problems_free(&o->problems);
    mem_free(o);
}

int options_copy(struct options **ret, const struct options *o, void *values,
                 struct err *e)
{
    size_t n = o->table->n_options + 1;
    struct options *copy = mem_zalloc(sizeof(*copy));
    *ret = NULL;
    if (copy == NULL)
        return err_nomem(e, "options");
    *copy = (struct options){.table = o->table,
                             .values = values,
                             .loads = o->loads,
                             .help = o->help,
                             .copy = true,
                             .problems = PROBLEMS_INIT};
    copy->origin = mem_array(n, sizeof(*copy->origin));
    if (copy->origin == NULL) {
        mem_free(copy);
        return err_nomem(e, "options");
    }
    memcpy(copy->origin, o->origin, n * sizeof(*copy->origin));
    *ret = copy;
    return 0;
}

int options_fill(struct options *o, const char *name, const char *text, const char *place,
                 struct err *e)
{
    size_t i = option_find(o->table, name, strlen(name));
    if (i == OPTION_NONE)
        return err_set(e, TUG_EINTERNAL, "there is no option '%s' to fill in", name);
    if (o->origin[i].giver.source != OPTION_DEFAULT)
        return 0;
    struct option_giver by = {OPTION_PRESET, option_keep(o, place, strlen(place)),
                              ++o->loads};
    return by.place != NULL ? option_assign(o, i, text, &by, e) : err_nomem(e, "options");
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

bool options_has(const struct options *o, const char *name)
{
    size_t i = option_find(o->table, name, strlen(name));
    return i != OPTION_NONE && o->origin[i].text != NULL;
}

bool options_said(const struct options *o, const char *name)
{
    size_t i = option_find(o->table, name, strlen(name));
    return i != OPTION_NONE && o->origin[i].giver.source > OPTION_PRESET;
}

const char *options_given_of_group(const struct options *o, const char *group)
{
    const char *heading = "";
    for (size_t i = 0; i < o->table->n_options; i++) {
        const struct option *opt = &o->table->options[i];
        if (opt->group != NULL)
            heading = opt->group;
        if (strcmp(heading, group) == 0 && o->origin[i].giver.source != OPTION_DEFAULT)
            return opt->name;
    }
    return NULL;
}
