// Options. One table per command describes its command line, environment, YAML file,
// --help, man page and `tug config`, so that these cannot disagree. The origin of every
// value is known.
//
// Values come from these sources; a later source wins: defaults, a preset, --config FILE,
// the environment (TUG_<NAME>), the command line. Values are written into the command's
// struct, by offset. An unknown name, an invalid choice or a number out of bounds gives
// an error that names the source and suggests the name or value that was likely meant.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_OPTIONS_OPTIONS_H
#define TUG_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct problems;

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

// A row of a table begins with the name and ends with the help. Between them, one of the
// macros below gives the kind and the place. Fields that only some options need are set
// before the macro: {"keep", .group = "Saving", U64_AT(keep, "N", "3", 1, 1000), "how
// many are kept"},
struct option {
    const char *name; // "log-every": --log-every, log-every: in YAML, TUG_LOG_EVERY
    enum option_kind kind;
    size_t offset, size; // place of the value in the command's struct of values
    const char *help;    // in lower case, without a full stop
    // The default as text. NULL: no default; an option that is not given then has the
    // value NULL, no items, 0, false or choice 0.
    const char *fallback;
    const char *metavar; // "PATH"; NULL: shows the choices, or nothing for a flag
    // For OPTION_CHOICE the words, as "lr fm ffm"; for other kinds words that shells
    // offer.
    const char *choices;
    // For OPTION_CHOICE: the word that --name without a word means; any other word must
    // then be given as --name=WORD. NULL: --name must have a word.
    const char *bare;
    double min, max; // bounds of a number, inclusive; both 0: any
    const char *env; // further environment variables with the same meaning, separated by
                     // spaces
    const char *group; // heading in the help; NULL: that of the previous option
    bool required;
    // Whether each process of a cluster may have a value of its own. All processes must
    // have the same values of all other options.
    bool own;
};

// Macros for the kind and place of an option in a table whose file defines OPTIONS_OF as
// the command's struct. The compiler refuses a field of another type than the kind needs.
// The help follows the macro. `unit` is the metavar, `usual` the default; U64_AT, F64_AT and
// SIZE_AT take (field, unit, usual, least, most).
#define OPTION_FIELD(field) (((OPTIONS_OF *)0)->field)
#define OPTION_AT(is, type, field)                                                       \
    .kind = _Generic(OPTION_FIELD(field), type                                           \
                     : is),                                                              \
    .offset = offsetof(OPTIONS_OF, field), .size = sizeof(OPTION_FIELD(field))
#define FLAG_AT(field) OPTION_AT(OPTION_FLAG, bool, field)
#define STRING_AT(field, unit)                                                           \
    .metavar = unit, OPTION_AT(OPTION_STRING, const char *, field)
#define LIST_AT(field, unit)                                                             \
    .metavar = unit, OPTION_AT(OPTION_LIST, struct option_list, field)
#define CHOICE_AT(field, words, usual)                                                   \
    .choices = words, .fallback = usual, OPTION_AT(OPTION_CHOICE, int, field)
#define NUMBER_AT(is, type, field, unit, usual, least, most)                             \
    .metavar = unit, .fallback = usual, .min = least, .max = most,                       \
    OPTION_AT(is, type, field)
#define U64_AT(...) NUMBER_AT(OPTION_U64, uint64_t, __VA_ARGS__)
#define F64_AT(...) NUMBER_AT(OPTION_F64, double, __VA_ARGS__)
#define SIZE_AT(...) NUMBER_AT(OPTION_SIZE, uint64_t, __VA_ARGS__)

struct option_table {
    const char *command; // "train", for `tug train`
    const char *summary; // about the command, in one line
    const char *usage;   // the text after the command: "--data PATH... [options]"
    const char *about;   // one or more paragraphs for --help and the man page; NULL: none
    const char *examples; // lines "command  # what it does"; NULL: none
    const struct option *options;
    size_t n_options;
    // The list option that takes words without "--"; NULL: such words are errors.
    const char *operands;
    // The choice option whose words are presets of other options. presets[i] has the
    // settings of word i, as "epochs=1 lr=0.05", for options that no other source sets.
    // The first word stands for no preset, so it has no settings.
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

// The tables of all commands of this program, ended by NULL; the program sets it when it
// begins. NULL if the program has one command only. Variables in the environment and
// sections in a YAML file that belong to other commands are ignored.
extern const struct option_table *const *_Atomic options_family;

// Flag of options_parse: required options may be missing.
enum { OPTIONS_INCOMPLETE = 1 };

// Sets *values (the command's struct, zeroed first) from all sources. argv[0] is the
// first word after the command. Strings and lists in *values belong to *ret. If --help is
// among the words, only the defaults are set; the caller must check options_help_wanted.
// Returns TUG_EUSAGE for wrong usage.
int options_parse(struct options **ret, const struct option_table *t, int argc,
                  char *const *argv, void *values, unsigned flags, struct err *e);
// Does what options_parse does, if the caller has found problems before. The problems in
// *before are reported together with those of the words; *before is empty afterwards.
int options_parse_after(struct options **ret, const struct option_table *t, int argc,
                        char *const *argv, void *values, unsigned flags,
                        struct problems *before, struct err *e);
void options_close(
    struct options *o); // NULL is fine; also frees the strings in the values

// Makes a copy of o. The values of the copy are in the struct `values`, a copy of the struct
// with o's values. The copy must be closed before o.
int options_copy(struct options **ret, const struct options *o, void *values,
                 struct err *e);
// Sets an option that still has its default, from a text, as a preset does. `place` names
// the source of the value for messages.
int options_fill(struct options *o, const char *name, const char *text, const char *place,
                 struct err *e);

bool options_help_wanted(const struct options *o);

// For option i of the table: options_source returns the source of its value;
// options_place the source in words ("default", "recipe criteo", "FILE:LINE", "TUG_X",
// "command line"); options_text appends the value as it was given to *b (nothing if
// unset; the items of a list separated by spaces).
enum option_source options_source(const struct options *o, size_t i);
const char *options_place(const struct options *o, size_t i);
int options_text(const struct options *o, size_t i, struct buf *b);
// Returns whether any source other than the default has set the option.
bool options_given(const struct options *o, const char *name);
// Returns whether the option, which is not a list, has a value: its default or another.
bool options_has(const struct options *o, const char *name);
// Returns whether a source other than the default or a preset gave the option.
bool options_said(const struct options *o, const char *name);
// Returns the name of the first option under this heading for which options_said is true;
// NULL if there is none.
const char *options_given_of_group(const struct options *o, const char *group);

// These functions write the manual from the table: options_help for a terminal of `width`
// columns (0 or more than 80: 80), options_scdoc as the scdoc source of a man page.
int options_help(const struct option_table *t, size_t width, struct buf *b);
int options_scdoc(const struct option_table *t, struct buf *b);
// Appends `text` and a line end, wrapped for a terminal of `width` columns. The first
// word starts at column `at`; further lines are indented by `indent`.
int options_wrap(struct buf *b, const char *text, size_t at, size_t indent, size_t width);

// These functions read a value as options do. options_read_whole reads digits or an
// integer written as 1e6; *ret_rest becomes the text behind it. options_read_flag reads
// yes, no, true, false, on, off, 1 or 0. Both return false if the text has no such value.
bool options_read_whole(const char *text, uint64_t *ret, const char **ret_rest);
bool options_read_flag(const char *text, bool *ret);

// Copies into ret_word the word of `words` (separated by spaces) that `given` most likely
// means; "" if none is near enough.
enum { OPTION_NAME_MAX = 64 };
void options_nearest(const char *given, const char *words,
                     char ret_word[OPTION_NAME_MAX]);
// Copies into ret_word the option that `given` most likely means: another program's name
// for it, or a similar name; "" if none is near enough.
void options_meant(const struct option_table *t, const char *given, size_t len,
                   char ret_word[OPTION_NAME_MAX]);

// Copies word `index` of `words`, the words of a choice, into ret and returns it. The
// index must be valid.
const char *options_word(const char *words, int index, char ret[OPTION_NAME_MAX]);

#endif
