// Declarations that options.c and options_*.c share. No other file includes them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OPTIONS_OPTIONS_INTERNAL_H
#define TUG_OPTIONS_OPTIONS_INTERNAL_H

#include "options/options.h"
#include "options/problems.h"

#define OPTION_NONE SIZE_MAX // "no such option" among indices into the table

// The origin of a value. Errors begin with it, and `tug config` shows it.
struct option_giver {
    enum option_source source;
    const char *place; // struct options owns the text
    // Number of the source: a repeated option adds items to a list only if its earlier
    // items came from the same source.
    unsigned load;
};

struct option_origin {
    struct option_giver giver;
    // The value as it was given; NULL for lists, and if no value was given.
    const char *text;
};

struct options {
    const struct option_table *table;
    char *values;                 // the command's struct
    struct option_origin *origin; // one per option
    char **kept;                  // strings to free with this struct
    size_t n_kept;
    unsigned loads;
    bool help, copy; // copy: another struct options owns the lists in `values`
    struct problems problems;
};

// If rc is a usage error, adds it to the list of problems that the user sees at the end,
// and returns 0. Returns any other rc, which ends the parsing.
int option_note(struct options *o, int rc, const struct err *e);

// Copies a text; the copy lives as long as o. Returns NULL if memory ran out.
const char *option_keep(struct options *o, const char *text, size_t len);

// Parses and stores one value, or one item of a list.
int option_assign(struct options *o, size_t i, const char *text,
                  const struct option_giver *by, struct err *e);

size_t option_find(const struct option_table *t, const char *name, size_t len);
const struct option_table *option_family_find(const struct option_table *t,
                                              const char *command);

// Returns the number of edits between two words: insertions, deletions, replacements and
// swaps of neighbours. Returns SIZE_MAX for long words.
size_t option_distance(const char *a, size_t n, const char *b, size_t m);

// Reports TUG_EUSAGE "PREFIX: there is no option 'NAME'; did you mean 'NEAREST'?".
int option_unknown(const struct option_table *t, const char *prefix, const char *dashes,
                   const char *name, size_t len, struct err *e);

// Returns TUG_EUSAGE, with the correct form, if `word` was meant as the value of the
// option `before`, which takes a value only after '='.
int option_check_value(const struct option_table *t, const char *before, const char *word,
                       struct err *e);
// Reports a word that begins with one dash, and suggests the option that it likely means.
int option_dash(const struct option_table *t, const char *word, struct err *e);

int options_load_file(struct options *o, const char *path, struct err *e);

// Calls `see` for each word of a text with words separated by spaces, until it returns
// false.
typedef bool (*option_word_fn)(void *arg, const char *word, size_t len);
void option_words(const char *words, option_word_fn see, void *arg);

// Converts "log-every" to "TUG_LOG_EVERY".
void option_env_name(const char *name, char ret_env[OPTION_NAME_MAX + 8]);

#endif
