// Options: one table per command serves the command line, the environment, the YAML file,
// --help, the man page and `tug config`, so that they cannot disagree and every value
// knows where it came from.
//
// Sources in order, later ones win: defaults, a preset, --config FILE, environment (TUG_<NAME>),
// command line. Values land in a struct of the command's own, by offset. A name that does
// not exist, a choice that is none and a number out of bounds are errors that say who
// gave them and what was meant.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_BASE_OPTIONS_H
#define TUG_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum option_kind {
    OPTION_FLAG,   // bool: --name, --no-name, --name=true|false|yes|no|on|off|1|0
    OPTION_STRING, // const char *, NULL when unset
    OPTION_LIST,   // struct option_list: --name A B C, or repeated; commas in the
                   // environment
    OPTION_U64,    // uint64_t: 1000, 1e3
    OPTION_F64,    // double, finite
    OPTION_CHOICE, // int: index of the word in `choices`
    OPTION_SIZE,   // uint64_t bytes: 4096, 64K, 64M, 2G (powers of 1024)
};

struct option_list {
    const char **items;
    size_t n;
};

// A row of a table begins with its name and ends with its help. In between one of the
// macros below says the kind and the place; before that, what only some options have:
//     {"keep", .group = "Saving", U64_AT(keep, "N", "3", 1, 1000), "how many are kept"},
struct option {
    const char *name; // "log-every": --log-every, log-every: in YAML, TUG_LOG_EVERY
    enum option_kind kind;
    size_t offset;    // in the command's struct of values
    const char *help; // lower case, no full stop at the end
    // The default as text; NULL: unset (NULL, no items, 0, false, choice 0).
    const char *fallback;
    const char *metavar; // "PATH"; NULL: the choices, or nothing for a flag
    const char *choices; // OPTION_CHOICE: "lr fm ffm"; of others what shells offer
    // OPTION_CHOICE: the meaning of --name alone, with words only behind '='; NULL: it
    // needs a word.
    const char *bare;
    double min, max; // numbers, both inclusive; both 0: any
    const char *env; // further environment names, separated by spaces, that mean the same
    const char *group; // heading in the help; NULL: that of the option before
    bool required;
    // For commands that several processes run together: this option may differ between
    // them. All others are compared.
    bool own;
};

// For a table whose AT(field) is the place of a field, .offset = offsetof(...): the help
// is what follows. `unit` is the metavar, `usual` the fallback; U64_AT, F64_AT and
// SIZE_AT take (field, unit, usual, least, most).
#define FLAG_AT(field) .kind = OPTION_FLAG, AT(field)
#define STRING_AT(field, unit) .metavar = unit, .kind = OPTION_STRING, AT(field)
#define LIST_AT(field, unit) .metavar = unit, .kind = OPTION_LIST, AT(field)
#define CHOICE_AT(field, words, usual)                                                   \
    .choices = words, .fallback = usual, .kind = OPTION_CHOICE, AT(field)
#define NUMBER_AT(is, field, unit, usual, least, most)                                   \
    .metavar = unit, .fallback = usual, .min = least, .max = most, .kind = is, AT(field)
#define U64_AT(...) NUMBER_AT(OPTION_U64, __VA_ARGS__)
#define F64_AT(...) NUMBER_AT(OPTION_F64, __VA_ARGS__)
#define SIZE_AT(...) NUMBER_AT(OPTION_SIZE, __VA_ARGS__)

struct option_table {
    const char *command;  // "train", as in `tug train`
    const char *summary;  // one line
    const char *usage;    // what follows the name: "--data PATH... [options]"
    const char *about;    // a paragraph or more, for --help and the man page; NULL: none
    const char *examples; // lines "command  # what it does"; NULL: none
    const struct option *options;
    size_t n_options;
    // The list option that plain words go to; NULL: plain words are errors.
    const char *operands;
    // The choice whose words are presets of other options, and the settings of each word,
    // as "epochs=1 lr=0.05": values for options that are not given otherwise. The first
    // word has none.
    const char *preset;
    const char *const *presets;
};

enum option_source {
    OPTION_DEFAULT,
    OPTION_PRESET,
    OPTION_FILE,
    OPTION_ENV,
    OPTION_ARGS
};

struct options;

// The tables of all commands of this program, NULL at the end, which it sets when it begins;
// NULL: there is one. Names of other commands' options in the environment and sections of
// other commands in the YAML file are left alone.
extern const struct option_table *const *_Atomic options_family;

// Flags of options_parse: required options may be missing.
enum { OPTIONS_INCOMPLETE = 1 };

// Fills *values (the command's struct, zeroed first) from all sources. argv[0] is the
// first word behind the command. The strings and lists in *values belong to *ret. If
// --help is among the words, only the defaults are set; ask options_help_wanted.
// TUG_EUSAGE: wrong usage.
int options_parse(struct options **ret, const struct option_table *t, int argc,
                  char *const *argv, void *values, unsigned flags, struct err *e);
void options_close(
    struct options *o); // NULL is fine; the strings in the values go with it

bool options_help_wanted(const struct options *o);

// The origin of option i of the table; the origin in words: "default", "recipe criteo",
// "FILE:LINE", "TUG_X", "command line"; and the value as it was given (nothing when
// unset, a list's items with spaces between them), added to *b.
enum option_source options_source(const struct options *o, size_t i);
const char *options_place(const struct options *o, size_t i);
int options_text(const struct options *o, size_t i, struct buf *b);
bool options_given(const struct options *o,
                   const char *name); // by anything but the default
// True if more than a preset gave it.
bool options_said(const struct options *o, const char *name);
// Likewise the first option under this heading that is given; NULL if none is.
const char *options_given_of_group(const struct options *o, const char *group);

// Manual text from the table: for a terminal of `width` columns (0, or more than 80: 80), and
// as scdoc source of a man page.
int options_help(const struct option_table *t, size_t width, struct buf *b);
int options_scdoc(const struct option_table *t, struct buf *b);
// Adds `text` and a line end, for such a terminal: its first word at column `at`, further lines
// indented by `indent`.
int options_wrap(struct buf *b, const char *text, size_t at, size_t indent, size_t width);

// The word of `words` (separated by spaces) nearest to `given`, when near enough to be
// what was meant, into ret_word; else "".
enum { OPTION_NAME_MAX = 64 };
void options_nearest(const char *given, const char *words,
                     char ret_word[OPTION_NAME_MAX]);
// Returns the option that `given` probably means: another program's name for it, or a
// similar name; else "".
void options_meant(const struct option_table *t, const char *given, size_t len,
                   char ret_word[OPTION_NAME_MAX]);

// Copies word `index` of a choice, the meaning of its value, into ret. There must be as
// many.
const char *options_word(const char *words, int index, char ret[OPTION_NAME_MAX]);

#endif
