// tug config: shows every option of a command with its value and origin, as YAML that
// --config reads.
//
// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "os/terminal.h"
#include "run/train_options.h"

static const struct option options[] = {
    {"print", .group = "Output", .kind = OPTION_FLAG,
     .help = "print the configuration; this also happens without the option"},
};

const struct option_table cli_config_options = {
    .command = "config",
    .summary = "show every option with its value and where it came from",
    .usage = "[--print] [COMMAND] [options of the command]",
    .about = "Reads options as COMMAND would ('train', if no command is given) from the "
             "defaults, the file of --config, the environment and the command line. The "
             "output is YAML that --config accepts.",
    .examples = "tug config --print\n"
                "tug config train --epochs 3 > run.yaml\n"
                "tug train --config run.yaml --data day.tsv",
    CLI_OPTIONS(options),
};

// Returns whether YAML reads the text back unchanged.
static bool is_plain(const char *text)
{
    static const char *const taken[] = {"null", "true", "false", "yes",
                                        "no",   "on",   "off"};
    for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++)
        if (strcasecmp(text, taken[i]) == 0)
            return false;
    if (!isalnum((unsigned char)*text) && !strchr("/.", *text))
        return false;
    return *text &&
           text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "0123456789/._+-")] == 0;
}

static int put_quoted(struct buf *b, const char *text)
{
    if (is_plain(text))
        return buf_printf(b, "%s", text);
    TRY(buf_printf(b, "\""));
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            TRY(buf_printf(b, "\\%c", c));
        else if (c < ' ' || c == 127)
            TRY(buf_printf(b, "\\x%02x", c));
        else
            TRY(buf_add(b, text, 1));
    }
    return buf_printf(b, "\"");
}

static int put_list(struct buf *b, const struct option_list *list)
{
    TRY(buf_printf(b, "["));
    for (size_t i = 0; i < list->n; i++) {
        if (i)
            TRY(buf_printf(b, ", "));
        TRY(put_quoted(b, list->items[i]));
    }
    return buf_printf(b, "]");
}

static int put_value(struct buf *b, const struct option *opt, const char *values,
                     const struct options *o, size_t i)
{
    if (opt->kind == OPTION_LIST)
        return put_list(b, (const void *)(values + opt->offset));
    if (opt->kind == OPTION_STRING) {
        const char *const *text = (const void *)(values + opt->offset);
        return put_quoted(b, *text);
    }
    if (opt->kind == OPTION_FLAG)
        return buf_printf(
            b, "%s", *(const bool *)(const void *)(values + opt->offset) ? "yes" : "no");
    return options_text(o, i, b);
}

// Writes "epochs: 10  # TUG_EPOCHS". A default is written as a comment, because a value
// in the file counts as given, and a default may depend on other options (the default of
// lr depends on the optimizer).
static int put_line(struct buf *b, const struct option_table *t, const char *values,
                    const struct options *o, size_t i)
{
    enum { COLUMN = 36 };
    const struct option *opt = &t->options[i];
    size_t start = b->len;
    bool unset = options_source(o, i) == OPTION_DEFAULT;
    TRY(buf_printf(b, "%s%s:", unset ? "# " : "", opt->name));
    if (!unset || opt->fallback || opt->kind == OPTION_FLAG) {
        TRY(buf_printf(b, " "));
        TRY(put_value(b, opt, values, o, i));
    }
    int room = (int)(b->len - start) < COLUMN ? COLUMN - (int)(b->len - start) : 1;
    return buf_printf(b, "%*s# %s\n", room, "", options_place(o, i));
}

static int put_all(struct buf *b, const struct option_table *t, const char *values,
                   const struct options *o)
{
    TRY(buf_printf(b, "# tug %s\n", t->command));
    for (size_t i = 0; i < t->n_options; i++) {
        if (t->options[i].group)
            TRY(buf_printf(b, "\n# %s\n", t->options[i].group));
        TRY(put_line(b, t, values, o, i));
    }
    return 0;
}

static int show(const struct option_table *t, size_t values_size, int argc,
                char *const *argv, struct err *e)
{
    struct options *o = NULL;
    char *values = mem_zalloc(values_size + 1);
    if (!values)
        return err_nomem(e, "options");
    int rc = options_parse(&o, t, argc, argv, values, OPTIONS_INCOMPLETE, e);
    if (rc == 0) {
        struct buf b = BUF_INIT(1 << 20);
        bool help = options_help_wanted(o);
        rc = cli_print(
            &b,
            help ? options_help(&cli_config_options, terminal_output_columns(), &b)
                 : put_all(&b, t, values, o),
            e);
    }
    options_close(o);
    mem_free(values);
    return rc;
}

// Shows the options of a command with the given words. The first word may name the
// command; else the command is `tug train`.
static int show_words(int argc, char *const *argv, struct err *e)
{
    bool named = argc > 0 && argv[0][0] != '-';
    const char *name = named ? argv[0] : cli_train_options.command;
    argc -= named;
    argv += named;
    if (strcmp(name, cli_train_options.command) == 0)
        return show(&cli_train_options, sizeof(struct train_options), argc, argv, e);
    const struct cli_command *c = cli_find(name);
    if (!c)
        return cli_unknown_command(name, e);
    return show(c->options, c->values_size, argc, argv, e);
}

static int run_words(int argc, char *const *argv, struct err *e)
{
    char **words = mem_array((size_t)argc + 1, sizeof(*words));
    if (!words)
        return err_nomem(e, "options");
    int n = 0;
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--print") != 0)
            words[n++] = argv[i];
    int rc = show_words(n, words, e);
    mem_free(words);
    return rc;
}

const struct cli_command cli_config = {&cli_config_options, sizeof(bool),
                                       .run_words = run_words};
