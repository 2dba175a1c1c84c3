// The command `tug`: finds the command, fills its options, runs it, and prints its error.
//
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/log_options.h"
#include "os/descriptors.h"
#include "os/log.h"
#include "os/terminal.h"
#include "tug/tug.h"

#define X(name) &cli_##name##_options,
const struct option_table *const cli_tables[] = {CLI_COMMANDS(X) NULL};
#undef X

#define X(name) &cli_##name,
const struct cli_command *const cli_commands[] = {CLI_COMMANDS(X) NULL};
#undef X

const struct cli_command *cli_find(const char *name)
{
    for (const struct cli_command *const *c = cli_commands; *c; c++)
        if (strcmp((*c)->options->command, name) == 0)
            return *c;
    return NULL;
}

int cli_unknown_command(const char *name, struct err *e)
{
    char near[OPTION_NAME_MAX];
    struct buf names = BUF_INIT(4096);
    int rc = 0;
    for (const struct cli_command *const *c = cli_commands; *c && !rc; c++)
        rc = buf_printf(&names, "%s ", (*c)->options->command);
    const char *words = buf_str(&names);
    options_nearest(name, rc || !words ? "" : words, near);
    buf_free(&names);
    if (*near)
        return err_set(e, TUG_EUSAGE, "there is no command '%.200s'; did you mean '%s'?",
                       name, near);
    return err_set(e, TUG_EUSAGE,
                   "there is no command '%.200s'; 'tug help' lists all commands", name);
}

int cli_print(struct buf *b, int rc, struct err *e)
{
    if (rc)
        rc = err_set(e, rc, "%s", err_text(rc));
    else
        fwrite(b->data, 1, b->len, stdout); // main checks the stream for errors
    buf_free(b);
    return rc;
}

// Prints a line. main reports output that failed.
static void print_line(const char *line, size_t n)
{
    char shown[512];
    for (size_t at = 0, used; at < n; at += used) {
        used = printable_copy(shown, sizeof(shown), line + at, n - at);
        fputs(shown, stdout); // main checks the stream for errors
    }
}

void cli_printf(const char *fmt, ...)
{
    char some[1024];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(some, sizeof(some), fmt, args);
    va_end(args);
    char *more = n >= (int)sizeof(some) ? mem_alloc((size_t)n + 1) : NULL;
    if (more != NULL) {
        va_start(args, fmt);
        (void)vsnprintf(more, (size_t)n + 1, fmt, args);
        va_end(args);
    }
    for (const char *at = more != NULL ? more : some; n >= 0 && *at != '\0';) {
        size_t len = strcspn(at, "\n");
        print_line(at, len);
        at += len;
        if (*at == '\n') {
            putchar('\n');
            at++;
        }
    }
    mem_free(more);
}

void cli_cell(int width, double x)
{
    if (isfinite(x))
        cli_printf("  %*.5f", width, x);
    else
        cli_printf("  %*s", width, "none");
}

static int finish_output(struct err *e)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    if (errno == 0) // an earlier write has failed
        return err_set(e, TUG_EIO, "cannot write to standard output");
    return err_sys(e, TUG_EIO, "cannot write to standard output");
}

static int run_parsed(const struct cli_command *c, int argc, char *const *argv,
                      struct err *e)
{
    struct options *o = NULL;
    void *values = mem_zalloc(c->values_size + 1);
    if (!values)
        return err_nomem(e, "options");
    int own = argc; // number of words of the command itself
    for (int i = argc - 1; c->run_tail && i >= 0; i--)
        own = strcmp(argv[i], "--") == 0 ? i : own;
    int rc = options_parse(&o, c->options, own, argv, values, 0, e);
    if (rc == 0)
        log_options_apply(c->options, o);
    if (rc == 0 && options_help_wanted(o)) {
        struct buf b = BUF_INIT(1 << 20);
        rc = cli_print(&b, options_help(c->options, terminal_output_columns(), &b), e);
    } else if (rc == 0 && c->run_tail) {
        int skip = own < argc ? own + 1 : argc; // skips the "--", too
        rc = c->run_tail(values, o, argc - skip, argv + skip, e);
    } else if (rc == 0) {
        rc = c->run(values, o, e);
    }
    options_close(o);
    mem_free(values);
    return rc;
}

static bool takes_words(const struct cli_command *c, int argc, char *const *argv)
{
    if (c->takes_words == NULL)
        return true;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return false;
    return c->takes_words(argc, argv);
}

static int main_run(int argc, char *const *argv, struct err *e)
{
    const struct cli_command *c = cli_find(argv[0]);
    int rc;
    if (c != NULL)
        log_options_expect(c->options, argc - 1, argv + 1);
    if (!c)
        rc = cli_unknown_command(argv[0], e);
    else if (c->run_words && takes_words(c, argc - 1, argv + 1))
        rc = c->run_words(argc - 1, argv + 1, e);
    else
        rc = run_parsed(c, argc - 1, argv + 1, e);
    if (rc == 0)
        rc = finish_output(e);
    return rc ? rc : log_check_file(e);
}

static void short_usage(FILE *to)
{
    fputs("usage: tug COMMAND [options]\n\ncommands:\n", to);
    for (const struct cli_command *const *c = cli_commands; *c; c++)
        fprintf(to, "  %-10s %s\n", (*c)->options->command, (*c)->options->summary);
    fputs("\n'tug COMMAND --help' explains a command and its options.\n", to);
}

// Returns the command that `tug --help` and `tug --version` mean.
static const char *plain_name(const char *word)
{
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return "help";
    bool version = strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0;
    return version ? "version" : word;
}

static void say_error(const char *command, const char *text)
{
    char line[ERR_TEXT_MAX + 64];
    snprintf(line, sizeof(line), "tug%s%s: %s", command != NULL ? " " : "",
             command != NULL ? command : "", text);
    log_last_words(line);
}

int main(int argc, char **argv)
{
    static struct err e;
    descriptors_hold_standard();
    signal(SIGXFSZ,
           // Without the signal, write(2) fails at a limit on file sizes, as on a full
           // disk.
           SIG_IGN);
    options_family = cli_tables;
    if (argc < 2) {
        short_usage(stderr);
        return err_exit_code(TUG_EUSAGE);
    }
    const char *name = plain_name(argv[1]);
    bool option = name[0] == '-';
    if (option)
        err_set(&e, TUG_EUSAGE,
                "the first word must be a command, but it is '%.200s'; 'tug help' lists "
                "the commands",
                name);
    else
        argv[1] = (char *)(uintptr_t)name;
    if (cli_find(name) != NULL)
        log_set_role(cli_find(name)->options->command, -1);
    int rc = option ? e.code : main_run(argc - 1, argv + 1, &e);
    if (rc)
        say_error(cli_find(name) ? name : NULL, e.text);
    return err_exit_code(rc);
}
