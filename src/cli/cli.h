// The command `tug`: the interface of each command to main.c.
//
// A command is a table of options, the size of the struct that the options fill, and a
// function. main.c parses the words, answers --help, prints the error and turns it into
// the exit code. To add a command, define `const struct cli_command cli_<name>` in
// src/cli/<name>.c (in nodes/ if its process is a node), with its table, and add the name
// to CLI_COMMANDS.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_CLI_H
#define TUG_CLI_CLI_H

#include "base/err.h"
#include "options/options.h"

struct cli_command {
    const struct option_table *options;
    size_t values_size; // size of the struct that the options fill
    // Runs the command with its values; `o` knows the origin of each. Results go to
    // standard output.
    int (*run)(const void *values, const struct options *o, struct err *e);
    // Used instead of `run` if another command may follow "--": receives its words.
    int (*run_tail)(const void *values, const struct options *o, int argc,
                    char *const *argv, struct err *e);
    // Used instead of `run` by a command that reads the words after its name itself. If
    // takes_words is set, run_words gets only words for which takes_words returns true,
    // and never words with --help.
    int (*run_words)(int argc, char *const *argv, struct err *e);
    bool (*takes_words)(int argc, char *const *argv);
};

// The commands, in the order of `tug help`.
#define CLI_COMMANDS(X)                                                                  \
    X(train)                                                                             \
    X(eval)                                                                              \
    X(predict)                                                                           \
    X(report)                                                                            \
    X(synth)                                                                             \
    X(launch)                                                                            \
    X(scheduler)                                                                         \
    X(server)                                                                            \
    X(pserver)                                                                           \
    X(worker)                                                                            \
    X(status)                                                                            \
    X(doctor)                                                                            \
    X(profile)                                                                           \
    X(drain)                                                                             \
    X(rebalance)                                                                         \
    X(stop)                                                                              \
    X(cert)                                                                              \
    X(table)                                                                             \
    X(bench)                                                                             \
    X(config)                                                                            \
    X(completion)                                                                        \
    X(version)                                                                           \
    X(help)

#define X(name)                                                                          \
    extern const struct cli_command cli_##name;                                          \
    extern const struct option_table cli_##name##_options;
CLI_COMMANDS(X)
#undef X

// The tables of all commands (for options_family), and all commands; both end with NULL.
extern const struct option_table *const cli_tables[];
extern const struct cli_command *const cli_commands[];

// Sets the rows of a command's table.
#define CLI_OPTIONS(rows) .options = rows, .n_options = sizeof(rows) / sizeof(*rows)

// Returns the command with this name; NULL if there is none.
const struct cli_command *cli_find(const char *name);

// Returns TUG_EUSAGE "there is no command 'trian'; did you mean 'train'?".
int cli_unknown_command(const char *name, struct err *e);

// Prints to standard output. Names in the text may come from data or peers (columns,
// labels, tables, hosts), so control characters are escaped.
void cli_printf(const char *fmt, ...) PRINTF_LIKE(1, 2);
// Prints a number in a table; "none" if it is not finite.
void cli_cell(int width, double x);

// Prints the collected text to standard output and frees it. `rc` is the result of
// collecting; if it is an error, the call prints nothing and returns it.
int cli_print(struct buf *b, int rc, struct err *e);

#endif
