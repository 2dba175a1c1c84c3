// tug help: lists the commands, and writes the help and man page of each from its table.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"
#include "os/terminal.h"

struct help_values {
    struct option_list commands;
    bool scdoc;
};

#define OPTIONS_OF struct help_values

static const struct option options[] = {
    {"command", .group = "What to explain", LIST_AT(commands, "COMMAND"),
     "the command to explain; without it all commands are listed"},
    {"scdoc", FLAG_AT(scdoc), "print the source of a man page, for scdoc"},
};

const struct option_table cli_help_options = {
    .command = "help",
    .summary = "explain tug or one of its commands",
    .usage = "[COMMAND]",
    .operands = "command",
    CLI_OPTIONS(options),
};

enum { SUMMARIES = 13 }; // column where the summaries begin

static int overview(struct buf *b)
{
    size_t width = terminal_output_columns();
    TRY(options_wrap(b,
                     "tug trains sparse models (click-through, ranking, recommendation) "
                     "from logs of examples.",
                     0, 0, width));
    TRY(buf_printf(b, "\nusage: tug COMMAND [options]\n\nCommands\n"));
    for (const struct cli_command *const *c = cli_commands; *c; c++) {
        TRY(buf_printf(b, "  %-10s ", (*c)->options->command));
        TRY(options_wrap(b, (*c)->options->summary, SUMMARIES, SUMMARIES, width));
    }
    return buf_printf(
        b,
        "\nFirst steps\n"
        "  tug synth --rows 100000 --out day.tsv --test-rows 20000 --test-out next.tsv\n"
        "  tug train --data day.tsv --test next.tsv --format criteo --model fm --out "
        "model\n"
        "  tug predict --from model --data next.tsv\n"
        "\n'tug COMMAND --help' explains a command and its options.\n");
}

static int help_command(const void *values, const struct options *o, struct err *e)
{
    (void)o;
    const struct help_values *v = values;
    struct buf b = BUF_INIT(1 << 20);
    int rc = v->commands.n ? 0 : overview(&b);
    for (size_t i = 0; i < v->commands.n && !rc; i++) {
        const struct cli_command *c = cli_find(v->commands.items[i]);
        if (!c) {
            buf_free(&b);
            return cli_unknown_command(v->commands.items[i], e);
        }
        rc = v->scdoc ? options_scdoc(c->options, &b)
                      : options_help(c->options, terminal_output_columns(), &b);
    }
    return cli_print(&b, rc, e);
}

const struct cli_command cli_help = {&cli_help_options, sizeof(struct help_values),
                                     .run = help_command};
