// The command `tug`: the interface of each command to main.c.
//
// A command is a table of options, the size of the struct that they fill, and a function.
// main.c parses, answers --help, prints the error and turns it into the exit code. To add
// one: define `const struct cli_command cli_<name>` in src/cli/<name>.c, with its table,
// and add the name to CLI_COMMANDS.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_CLI_CLI_H
#define TUG_CLI_CLI_H

#include "base/err.h"
#include "base/options.h"

struct cli_command {
    const struct option_table *options;
    size_t values_size; // of the struct that the options fill
    // The values, and the options for where they came from. Results go to standard
    // output.
    int (*run)(const void *values, const struct options *o, struct err *e);
    // Instead of `run`, for a command that takes another one behind "--": its words.
    int (*run_tail)(const void *values, const struct options *o, int argc,
                    char *const *argv, struct err *e);
    // Instead of `run`, for a command that reads its words itself: those behind its name. With
    // takes_words only those for which it says so, and no others with --help.
    int (*run_words)(int argc, char *const *argv, struct err *e);
    bool (*takes_words)(int argc, char *const *argv);
};

// In the order of `tug help`.
#define CLI_COMMANDS(X)                                                                  \
    X(train)                                                                             \
    X(eval)                                                                              \
    X(predict)                                                                           \
    X(synth)                                                                             \
    X(launch)                                                                            \
    X(scheduler)                                                                         \
    X(server)                                                                            \
    X(pserver)                                                                           \
    X(worker)                                                                            \
    X(status)                                                                            \
    X(doctor)                                                                            \
    X(profile)                                                                           \
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

// All commands' tables, for options_family; and all commands. NULL at the end.
extern const struct option_table *const cli_tables[];
extern const struct cli_command *const cli_commands[];

// The rows of a command's table.
#define CLI_OPTIONS(rows) .options = rows, .n_options = sizeof(rows) / sizeof(*rows)

// NULL when there is none.
const struct cli_command *cli_find(const char *name);

// TUG_EUSAGE "there is no command 'trian'; did you mean 'train'?".
int cli_unknown_command(const char *name, struct err *e);

// To standard output, in lines of text: names in them may be others' (of columns, labels,
// tables, peers), and control characters in these are shown and not sent.
void cli_printf(const char *fmt, ...) PRINTF_LIKE(1, 2);
// A number in a table; "none" where there is none.
void cli_cell(int width, double x);

// Prints what was collected to standard output and frees it. `rc`: of collecting it.
int cli_print(struct buf *b, int rc, struct err *e);

#endif
