// Changes the names of options in a sentence to Python's keywords (tug_option_keywords).
//
// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <string.h>

#include "os/log.h"
#include "run/eval_options.h"
#include "run/predict_options.h"
#include "run/train_options.h"
#include "tug/train.h"

// Options of commands that are not about models; Python's calls also have them as
// arguments.
static const char *const others[] = {"ca",       "cert", "cluster",
                                     "insecure", "key",  "save-root"};

// Returns whether an option belongs to a command for models or to `others`. Sets
// *ret_choices to the words that the option may have, separated by blanks; NULL: any.
static bool find_option(const char *name, size_t len, const char **ret_choices)
{
    static const struct option_table *const tables[] = {
        &cli_train_options, &cli_eval_options, &cli_predict_options};
    *ret_choices = NULL;
    for (size_t t = 0; t < sizeof(tables) / sizeof(*tables); t++)
        for (size_t i = 0; i < tables[t]->n_options; i++) {
            const struct option *o = &tables[t]->options[i];
            if (strlen(o->name) != len || memcmp(o->name, name, len) != 0)
                continue;
            *ret_choices = o->choices;
            return true;
        }
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (strlen(others[i]) == len && memcmp(others[i], name, len) == 0)
            return true;
    return false;
}

// Returns whether a list of words, separated by blanks, has this word.
static bool has_word(const char *words, const char *word, size_t len)
{
    while (words != NULL && *words != '\0') {
        size_t n = strcspn(words, " ");
        if (n == len && memcmp(words, word, n) == 0)
            return true;
        words += n + strspn(words + n, " ");
    }
    return false;
}

static size_t name_length(const char *p)
{
    size_t n = 0;
    while (islower((unsigned char)p[n]) ||
           (n > 0 && (p[n] == '-' || isdigit((unsigned char)p[n]))))
        n++;
    return n;
}

static bool joins(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

// Returns the length of the value that follows an option in a sentence; 0 if no value
// follows. A value is a text in quotes, a number, a single comma or point, one of the
// option's choices, or a word in capital letters (N, FILE, COLUMN:log). Sets *ret_bare to
// whether the value needs no further quotes in Python.
static size_t value_length(const char *p, const char *choices, bool *ret_bare)
{
    const char *end = *p == '\'' ? strchr(p + 1, '\'') : NULL;
    *ret_bare = true;
    if (end != NULL)
        return (size_t)(end - p) + 1;
    size_t n = strcspn(p, " ,;()");
    if ((*p == ',' || *p == '.') && (p[1] == '\0' || p[1] == ' ')) {
        *ret_bare = false;
        return 1;
    }
    if (n > 0 && strchr(".:?", p[n - 1]) != NULL)
        n--; // the point at the end of a sentence is not a part of the value
    size_t capitals = strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
           digits = strspn(p, "0123456789.e-/");
    *ret_bare = false;
    if (has_word(choices, p, n))
        return n;
    // Python needs quotes around 1/5, because it is a text there.
    *ret_bare = n > 0 && memchr(p, '/', n) == NULL;
    if (n > 0 && digits >= n && isdigit((unsigned char)*p))
        return n;
    *ret_bare = capitals == n;
    bool letter = capitals == 1 && n == 1 && *p != 'A'; // not "A file"
    return (capitals > 1 || letter) && (capitals == n || p[capitals] == ':') ? n : 0;
}

// Writes the option at `p`, whose name has n bytes, as an argument of a call: --drop 'k'
// becomes drop='k', which is never longer. Moves *to to the end of the argument, and
// returns the text after the option.
static const char *put_option(char **to, const char *p, size_t n, const char *choices)
{
    bool bare = true;
    for (size_t i = 0; i < n; i++)
        *(*to)++ = p[2 + i] == '-' ? '_' : p[2 + i];
    p += n + 2;
    size_t value = *p == ' ' ? value_length(p + 1, choices, &bare) : 0;
    if (value == 0)
        return p;
    *(*to)++ = '=';
    if (!bare)
        *(*to)++ = '\'';
    memmove(*to, p + 1, value);
    *to += value;
    if (!bare)
        *(*to)++ = '\'';
    return p + 1 + value;
}

void tug_option_keywords(char *text)
{
    char *to = text;
    const char *choices;
    for (const char *p = text; *p != '\0';) {
        if (strncmp(p, "| tug ", 6) == 0) { // a shell's pipe: the rest is a command line
            memmove(to, p, strlen(p) + 1);
            return;
        }
        const char *end = strncmp(p, "'tug ", 5) == 0 ? strchr(p + 1, '\'') : NULL;
        size_t n = strncmp(p, "--", 2) == 0 && (p == text || !joins(p[-1]))
                       ? name_length(p + 2)
                       : 0;
        if (end == NULL && n > 0 && find_option(p + 2, n, &choices)) {
            p = put_option(&to, p, n, choices);
            continue;
        }
        size_t whole = end != NULL ? (size_t)(end - p) + 1 : 1;
        memmove(to, p, whole);
        to += whole;
        p += whole;
    }
    *to = '\0';
}

void tug_log_keywords(bool yes)
{
    log_rewrite_by(yes ? tug_option_keywords : NULL);
}
