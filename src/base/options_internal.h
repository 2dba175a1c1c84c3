// What the files of base/options share; nobody else includes it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_OPTIONS_INTERNAL_H
#define TUG_BASE_OPTIONS_INTERNAL_H

#include "base/options.h"
#include "base/problems.h"

#define OPTION_NONE SIZE_MAX // "no such option" among indices into the table

// The origin of a value, with which errors begin and which `tug config` shows.
struct option_giver {
    enum option_source source;
    const char *place; // kept by the options
    unsigned load; // one number per source read: repeated lists append within a load only
};

struct option_origin {
    struct option_giver giver;
    const char *text; // as given; NULL when unset, and for lists
};

struct options {
    const struct option_table *table;
    char *values;                 // the command's struct
    struct option_origin *origin; // one per option
    char **kept;                  // strings that live as long as this
    size_t n_kept;
    unsigned loads;
    bool help;
    struct problems problems;
};

// Keeps a usage error for the end, so that the user sees all at once; returns 0 then.
// Anything else ends the parsing: rc is returned.
int option_note(struct options *o, int rc, const struct err *e);

// A copy that lives as long as o; NULL when out of memory.
const char *option_keep(struct options *o, const char *text, size_t len);

// Parses and stores one value (of a list: one item).
int option_assign(struct options *o, size_t i, const char *text,
                  const struct option_giver *by, struct err *e);

size_t option_find(const struct option_table *t, const char *name, size_t len);
const struct option_table *option_family_find(const struct option_table *t,
                                              const char *command);

// Edits between two words: insert, delete, replace, swap neighbours.
// SIZE_MAX for long ones.
size_t option_distance(const char *a, size_t n, const char *b, size_t m);

// TUG_EUSAGE "PREFIX: there is no option 'NAME'; did you mean 'NEAREST'?".
int option_unknown(const struct option_table *t, const char *prefix, const char *dashes,
                   const char *name, size_t len, struct err *e);

int options_load_file(struct options *o, const char *path, struct err *e);

// Calls `see` for each word of a text with spaces between words; stops when it returns
// false.
typedef bool (*option_word_fn)(void *arg, const char *word, size_t len);
void option_words(const char *words, option_word_fn see, void *arg);

// "log-every" → "TUG_LOG_EVERY".
void option_env_name(const char *name, char ret_env[OPTION_NAME_MAX + 8]);

#endif
