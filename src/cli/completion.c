// tug completion: completions for the Tab key in bash, zsh and fish. They are written
// from the tables of --help, so that no option can be missing.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "cli/cli.h"

struct completion_values {
    struct option_list shell;
};

#define OPTIONS_OF struct completion_values

static const struct option options[] = {
    {"shell", .group = "What to write", .required = true, .choices = "bash zsh fish",
     LIST_AT(shell, NULL), "the shell"},
};

const struct option_table cli_completion_options = {
    .command = "completion",
    .summary = "write the command-line completion for a shell",
    .usage = "bash|zsh|fish",
    .about =
        "'make install' puts the completions where shells look for them. For a shell "
        "that does not look there, add the line from the examples to its start-up file.",
    .examples = "source <(tug completion bash)    # in ~/.bashrc\n"
                "source <(tug completion zsh)     # in ~/.zshrc, behind compinit\n"
                "tug completion fish | source     # in ~/.config/fish/config.fish",
    .operands = "shell",
    CLI_OPTIONS(options),
};

// The options that every command has; see options_help.c.
static const struct option common[] = {
    {"config", .kind = OPTION_STRING, .help = "read options from a YAML file"},
    {"set", .kind = OPTION_STRING, .help = "an option as NAME=VALUE"},
    {"help", .kind = OPTION_FLAG, .help = "explain the command and its options"},
};

typedef int (*option_fn)(struct buf *b, const char *command, const struct option *o);

static int each_option(struct buf *b, const struct option_table *t, option_fn put)
{
    for (size_t i = 0; i < t->n_options; i++)
        TRY(put(b, t->command, &t->options[i]));
    for (size_t i = 0; i < sizeof(common) / sizeof(*common); i++)
        TRY(put(b, t->command, &common[i]));
    return 0;
}

// Writes the words that may follow the command: commands or actions. Writes nothing if
// files may follow.
static int put_first_words(struct buf *b, const struct option_table *t)
{
    if (strcmp(t->command, "help") == 0 || strcmp(t->command, "config") == 0)
        for (const struct option_table *const *x = cli_tables; *x != NULL; x++)
            TRY(buf_printf(b, "%s%s", x != cli_tables ? " " : "", (*x)->command));
    for (size_t i = 0; t->operands != NULL && i < t->n_options; i++)
        if (strcmp(t->options[i].name, t->operands) == 0 && t->options[i].choices != NULL)
            TRY(buf_printf(b, "%s", t->options[i].choices));
    return 0;
}

static bool has_first_words(const struct option_table *t)
{
    struct buf b = BUF_INIT(1 << 16);
    bool has = put_first_words(&b, t) == 0 && b.len > 0;
    buf_free(&b);
    return has;
}

// Writes a text for the inside of a shell's single quotes: `quote` replaces a quote, and
// each character of `special` gets a backslash.
static int put_escaped(struct buf *b, const char *text, const char *quote,
                       const char *special)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            TRY(buf_printf(b, "%s", quote));
            continue;
        }
        if (strchr(special, *text) != NULL)
            TRY(buf_add(b, "\\", 1));
        TRY(buf_add(b, text, 1));
    }
    return 0;
}

// ---------------------------------------------------------------- bash

static int bash_name(struct buf *b, const char *command, const struct option *o)
{
    (void)command;
    return buf_printf(b, "--%s ", o->name);
}

static int bash_choices(struct buf *b, const char *command, const struct option *o)
{
    if (o->choices == NULL)
        return 0;
    if (o->bare == NULL)
        TRY(buf_printf(b, "    '%s --%s' | ", command, o->name));
    return buf_printf(b, "%s'%s --%s=') words='%s' ;;\n", o->bare != NULL ? "    " : "",
                      command, o->name, o->choices);
}

static int bash_first(struct buf *b, const struct option_table *t)
{
    if (!has_first_words(t))
        return 0;
    TRY(buf_printf(b, "    '%s %s') words='", t->command, t->command));
    TRY(put_first_words(b, t));
    return buf_printf(b, "' ;;\n");
}

// The words belong to the command after the last "--", as in tug launch --workers 2 --
// train. For bash, "--model=fm" is three words.
static const char bash_begin[] =
    "# Completion of tug for bash: written by 'tug completion bash'.\n"
    "_tug() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local i at=1 words=\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        [ \"${COMP_WORDS[i]}\" = -- ] && at=$((i + 1))\n"
    "    done\n"
    "    local cmd=${COMP_WORDS[at]}\n"
    "    if [ \"$cur\" = = ]; then\n"
    "        cur= prev=$prev=\n"
    "    elif [ \"$prev\" = = ]; then\n"
    "        prev=${COMP_WORDS[COMP_CWORD - 2]}=\n"
    "    fi\n"
    "    COMPREPLY=()\n"
    "    if ((COMP_CWORD == at)); then\n"
    "        COMPREPLY=($(compgen -W '";

static int put_bash(struct buf *b)
{
    TRY(buf_printf(b, "%s", bash_begin));
    for (const struct option_table *const *t = cli_tables; *t != NULL; t++)
        TRY(buf_printf(b, "%s ", (*t)->command));
    TRY(buf_printf(b, "' -- \"$cur\"))\n        return\n    fi\n"
                      "    case \"$cmd $prev\" in\n"));
    for (const struct option_table *const *t = cli_tables; *t != NULL; t++) {
        TRY(each_option(b, *t, bash_choices));
        TRY(bash_first(b, *t));
    }
    TRY(buf_printf(b, "    esac\n    if [[ $cur == -* ]]; then\n"
                      "        case \"$cmd\" in\n"));
    for (const struct option_table *const *t = cli_tables; *t != NULL; t++) {
        TRY(buf_printf(b, "        %s) words='", (*t)->command));
        TRY(each_option(b, *t, bash_name));
        TRY(buf_printf(b, "' ;;\n"));
    }
    return buf_printf(b, "        esac\n    fi\n"
                         "    [ -z \"$words\" ] || COMPREPLY=($(compgen -W \"$words\" -- "
                         "\"$cur\"))\n}\n"
                         "complete -o default -F _tug tug\n");
}

// ---------------------------------------------------------------- zsh

// Writes '--model=[what to train]:VALUE:(lr fm ffm)': the value follows '=' or is the
// next word; with "=-" it must follow '='.
static int zsh_option(struct buf *b, const char *command, const struct option *o)
{
    (void)command;
    TRY(buf_printf(b, "        '%s--%s%s[", o->kind == OPTION_LIST ? "*" : "", o->name,
                   o->kind == OPTION_FLAG ? ""
                   : o->bare != NULL      ? "=-"
                                          : "="));
    TRY(put_escaped(b, o->help != NULL ? o->help : "", "'\\''", "[]:\\"));
    if (o->kind == OPTION_FLAG)
        return buf_printf(b, "]' \\\n");
    TRY(buf_printf(b, o->bare != NULL ? "]::" : "]:"));
    TRY(put_escaped(b, o->metavar != NULL ? o->metavar : "value", "'\\''", ":\\"));
    if (o->choices != NULL)
        return buf_printf(b, ":(%s)' \\\n", o->choices);
    return buf_printf(b, ":_files' \\\n");
}

static int zsh_first(struct buf *b, const struct option_table *t)
{
    if (!has_first_words(t))
        return 0;
    TRY(buf_printf(b, "        '1:word:("));
    TRY(put_first_words(b, t));
    return buf_printf(b, ")' \\\n");
}

static int put_zsh(struct buf *b)
{
    TRY(buf_printf(b, "#compdef tug\n"
                      "# Completion of tug for zsh: written by 'tug completion zsh'.\n"
                      "_tug() {\n    local -a commands\n    commands=(\n"));
    for (const struct option_table *const *t = cli_tables; *t != NULL; t++) {
        TRY(buf_printf(b, "        '%s:", (*t)->command));
        TRY(put_escaped(b, (*t)->summary, "'\\''", ":\\"));
        TRY(buf_printf(b, "'\n"));
    }
    TRY(buf_printf(b, "    )\n"
                      "    local at=${words[(I)--]}\n"
                      "    ((at > 1 && at < CURRENT)) || at=1\n"
                      "    if ((CURRENT == at + 1)); then\n"
                      "        _describe command commands\n        return\n    fi\n"
                      "    local cmd=${words[at + 1]}\n"
                      "    shift at words\n    ((CURRENT -= at))\n"
                      "    case $cmd in\n"));
    for (const struct option_table *const *t = cli_tables; *t != NULL; t++) {
        TRY(buf_printf(b, "    %s) _arguments \\\n", (*t)->command));
        TRY(each_option(b, *t, zsh_option));
        TRY(zsh_first(b, *t));
        TRY(buf_printf(b, "        '*:word:_files' ;;\n"));
    }
    return buf_printf(b, "    esac\n}\n"
                         "if [ \"$funcstack[1]\" = _tug ]; then\n    _tug \"$@\"\n"
                         "else\n    compdef _tug tug\nfi\n");
}

// ---------------------------------------------------------------- fish

// The words belong to the command after the last "--"; fish itself offers no options
// between several "--".
static const char fish_begin[] =
    "# Completion of tug for fish: written by 'tug completion fish'.\n"
    "function __tug_words\n"
    "    set -l words (commandline -opc)\n"
    "    set -e words[1]\n"
    "    while set -l at (contains -i -- -- $words)\n"
    "        set -e words[1..$at]\n"
    "    end\n"
    "    string join -- \\n $words\n"
    "end\n"
    "function __tug_begins\n"
    "    test (count (__tug_words)) -eq 0\n"
    "end\n"
    "function __tug_is\n"
    "    set -l words (__tug_words)\n"
    "    test (count $words) -gt 0; and test $words[1] = $argv[1]\n"
    "end\n"
    "function __tug_is_alone\n"
    "    set -l words (__tug_words)\n"
    "    test (count $words) -eq 1; and test $words[1] = $argv[1]\n"
    "end\n";

// Writes an option; an optional value is offered only after '='.
static int fish_option(struct buf *b, const char *command, const struct option *o)
{
    TRY(buf_printf(b, "complete -c tug -n '__tug_is %s' -l %s", command, o->name));
    if (o->choices != NULL)
        TRY(buf_printf(b, " %s -a '%s'", o->bare != NULL ? "-f" : "-x", o->choices));
    else if (o->kind != OPTION_FLAG)
        TRY(buf_printf(b, " -r"));
    TRY(buf_printf(b, " -d '"));
    TRY(put_escaped(b, o->help != NULL ? o->help : "", "\\'", "\\"));
    return buf_printf(b, "'\n");
}

static int fish_first(struct buf *b, const struct option_table *t)
{
    if (!has_first_words(t))
        return 0;
    TRY(buf_printf(b, "complete -c tug -n '__tug_is_alone %s' -f -a '", t->command));
    TRY(put_first_words(b, t));
    return buf_printf(b, "'\n");
}

static int put_fish(struct buf *b)
{
    TRY(buf_printf(b, "%s", fish_begin));
    for (const struct option_table *const *t = cli_tables; *t != NULL; t++) {
        TRY(buf_printf(b, "complete -c tug -n __tug_begins -f -a %s -d '",
                       (*t)->command));
        TRY(put_escaped(b, (*t)->summary, "\\'", "\\"));
        TRY(buf_printf(b, "'\n"));
    }
    for (const struct option_table *const *t = cli_tables; *t != NULL; t++) {
        TRY(each_option(b, *t, fish_option));
        TRY(fish_first(b, *t));
    }
    return 0;
}

static int completion_command(const void *values, const struct options *o, struct err *e)
{
    (void)o;
    static const struct {
        const char *name;
        int (*put)(struct buf *b);
    } shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    const struct completion_values *v = values;
    for (size_t i = 0; i < sizeof(shells) / sizeof(*shells) && v->shell.n == 1; i++)
        if (strcmp(v->shell.items[0], shells[i].name) == 0) {
            struct buf b = BUF_INIT(1 << 20);
            return cli_print(&b, shells[i].put(&b), e);
        }
    return err_set(e, TUG_EUSAGE, "'%.200s' is not one of bash, zsh, fish",
                   v->shell.items[v->shell.n - 1]);
}

const struct cli_command cli_completion = {
    &cli_completion_options, sizeof(struct completion_values), .run = completion_command};
