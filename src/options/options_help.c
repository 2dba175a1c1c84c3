// Writes manuals from a table: --help for the terminal and scdoc for man pages. Help and
// parser use the same table, so that they always agree.
//
// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "options/options_internal.h"

// Columns of a line, and the column where explanations begin. In a terminal of fewer than
// NARROW columns, explanations begin further left.
enum { WIDTH = 80, COLUMN = 26, NARROW = 60, COLUMN_OF_NARROW = 8 };

struct page;
typedef void (*option_fn)(const struct option *opt, struct page *p);

// A buffer and its first error.
struct page {
    struct buf *b;
    int rc;
    size_t width, column;
};

static void options_help_add(struct page *p, const char *text, size_t len)
{
    if (!p->rc)
        p->rc = buf_add(p->b, text, len);
}

static void options_help_put(struct page *p, const char *text)
{
    options_help_add(p, text, strlen(text));
}

static void spaces(struct page *p, size_t n)
{
    while (n--)
        options_help_add(p, " ", 1);
}

// Adds `text` word by word from column `at`, with new lines indented to `indent`.
static size_t wrap(struct page *p, const char *text, size_t at, size_t indent)
{
    while (*text) {
        size_t len = strcspn(text, " ");
        if (at > indent && at + 1 + len >= p->width) {
            options_help_put(p, "\n");
            spaces(p, indent);
            at = indent;
        } else if (at > indent) {
            options_help_put(p, " ");
            at++;
        }
        options_help_add(p, text, len);
        at += len;
        text += len + strspn(text + len, " ");
    }
    return at;
}

static bool bar_see(void *arg, const char *word, size_t len)
{
    struct page *p = arg;
    options_help_add(p, "|", 1);
    options_help_add(p, word, len);
    return true;
}

// Writes "lr|fm|ffm".
static void put_choices(struct page *p, const char *choices)
{
    size_t first = strcspn(choices, " ");
    options_help_add(p, choices, first);
    option_words(choices + first, bar_see, p);
}

static bool options_help_is_number(const struct option *opt)
{
    return opt->kind == OPTION_U64 || opt->kind == OPTION_F64 || opt->kind == OPTION_SIZE;
}

// Writes "(default 10, 1 to 100000)", "(required)", or nothing.
static void remarks(const struct option *opt, struct page *p)
{
    const char *between = "(";
    if (opt->required) {
        options_help_put(p, "(required");
        between = ", ";
    }
    if (opt->fallback && *opt->fallback && opt->kind != OPTION_FLAG) {
        options_help_put(p, between);
        options_help_put(p, "default ");
        options_help_put(p, opt->fallback);
        between = ", ";
    }
    bool any = isinf(opt->max) && opt->min <= 0;
    if (options_help_is_number(opt) && opt->max > opt->min && !any) {
        if (!p->rc && isinf(opt->max))
            p->rc = buf_printf(p->b, "%sat least %.15g", between, opt->min);
        else if (!p->rc)
            p->rc = buf_printf(p->b, "%s%.15g to %.15g", between, opt->min, opt->max);
        between = ", ";
    }
    if (opt->choices && opt->metavar && opt->kind == OPTION_CHOICE) {
        options_help_put(p, between);
        put_choices(p, opt->choices);
        between = ", ";
    }
    if (*between == ',')
        options_help_put(p, ")");
}

// Writes "--epochs N", "--model lr|fm|ffm", "--[no-]shuffle" or "--resume[=no|yes|auto]".
static void heading(const struct option *opt, struct page *p)
{
    bool on = opt->kind == OPTION_FLAG && opt->fallback &&
              strcmp(opt->fallback, "true") == 0;
    options_help_put(p, on ? "--[no-]" : "--");
    options_help_put(p, opt->name);
    if (opt->kind == OPTION_FLAG)
        return;
    options_help_put(p, opt->bare ? "[=" : " ");
    if (opt->metavar)
        options_help_put(p, opt->metavar);
    else if (opt->choices)
        put_choices(p, opt->choices);
    else
        options_help_put(p, "VALUE");
    options_help_put(p, opt->bare ? "]" : "");
}

static const struct option common[] = {
    {"config", .group = "Configuration", .metavar = "FILE", .kind = OPTION_STRING,
     .help = "read options from a YAML file with lines 'name: value', or with sections "
             "such as 'train:' that contain such lines. The command line takes "
             "precedence over the environment (TUG_EPOCHS for --epochs), and the "
             "environment over the file"},
    {"set", .metavar = "NAME=VALUE", .kind = OPTION_STRING,
     .help = "the same as --NAME VALUE, for scripts"},
    {"help", .kind = OPTION_FLAG, .help = "print this help"},
};

// Returns the text that `build` writes about an option, ended by a NUL; "" if memory ran
// out.
static const char *built(option_fn build, const struct option *opt, struct buf *b,
                         struct page *p)
{
    struct page q = {.b = b};
    build(opt, &q);
    const char *text = buf_str(b);
    if (!p->rc)
        p->rc = q.rc ? q.rc : text ? 0 : TUG_ENOMEM;
    return text ? text : "";
}

// Writes the heading. A list of choices may continue on a further line behind a "|".
// Returns the column.
static size_t help_heading(const struct option *opt, struct page *p)
{
    enum { INDENT = 2, FURTHER = 6 };
    struct buf text = BUF_INIT(4096);
    const char *s = built(heading, opt, &text, p);
    size_t at = INDENT;
    spaces(p, INDENT);
    while (*s != '\0') {
        size_t len = strcspn(s, "|");
        len += s[len] == '|';
        if (at > FURTHER && at + len >= p->width) {
            options_help_put(p, "\n");
            spaces(p, FURTHER);
            at = FURTHER;
        }
        options_help_add(p, s, len);
        at += len;
        s += len;
    }
    buf_free(&text);
    return at;
}

static void help_option(const struct option *opt, struct page *p)
{
    size_t at = help_heading(opt, p);
    if (at + 2 > p->column) {
        options_help_put(p, "\n");
        at = 0;
    }
    spaces(p, p->column - at);
    at = wrap(p, opt->help, p->column, p->column);
    struct buf rest = BUF_INIT(4096);
    wrap(p, built(remarks, opt, &rest, p), at, p->column);
    buf_free(&rest);
    options_help_put(p, "\n");
}

typedef void (*heading_fn)(const char *group, struct page *p);

static void each_option(const struct option *options, size_t n, heading_fn head,
                        option_fn fn, struct page *p)
{
    const char *group = NULL;
    for (size_t i = 0; i < n; i++) {
        const char *g = options[i].group;
        if (g && (!group || strcmp(g, group) != 0))
            head(group = g, p);
        fn(&options[i], p);
    }
}

static void help_group(const char *group, struct page *p)
{
    options_help_put(p, "\n");
    options_help_put(p, group);
    options_help_put(p, "\n");
}

// Writes a text from the table of options; a newline in it ends a paragraph.
static void help_text(struct page *p, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        struct buf line = BUF_INIT(1 << 16);
        if (!p->rc)
            p->rc = buf_add(&line, text, len);
        const char *s = buf_str(&line);
        if (s)
            wrap(p, s, 0, 0);
        buf_free(&line);
        options_help_put(p, text[len] ? "\n\n" : "\n");
        text += len + (text[len] == '\n');
    }
}

// Writes each example on a line of its own, indented by two spaces.
static void help_examples(struct page *p, const char *text)
{
    options_help_put(p, "\nExamples\n");
    while (*text) {
        size_t len = strcspn(text, "\n");
        options_help_put(p, "  ");
        options_help_add(p, text, len);
        options_help_put(p, "\n");
        text += len + (text[len] == '\n');
    }
}

static struct page page_of(struct buf *b, size_t width)
{
    width = width == 0 || width > WIDTH ? WIDTH : width;
    return (struct page){
        .b = b, .width = width, .column = width < NARROW + 1 ? COLUMN_OF_NARROW : COLUMN};
}

int options_wrap(struct buf *b, const char *text, size_t at, size_t indent, size_t width)
{
    struct page p = page_of(b, width);
    wrap(&p, text, at, indent);
    options_help_put(&p, "\n");
    return p.rc;
}

int options_help(const struct option_table *t, size_t width, struct buf *b)
{
    struct page p = page_of(b, width);
    struct buf head = BUF_INIT(4096);
    p.rc = buf_printf(&head, "tug %s: %s\nusage: tug %s %s", t->command, t->summary,
                      t->command, t->usage ? t->usage : "[options]");
    if (p.rc == 0 && buf_str(&head) != NULL)
        help_text(&p, buf_str(&head));
    buf_free(&head);
    if (t->about) {
        options_help_put(&p, "\n");
        help_text(&p, t->about);
    }
    each_option(t->options, t->n_options, help_group, help_option, &p);
    each_option(common, sizeof(common) / sizeof(*common), help_group, help_option, &p);
    if (t->examples)
        help_examples(&p, t->examples);
    return p.rc;
}

// ---------------------------------------------------------------- man pages

// Escapes characters that scdoc would read as markup (_ * \ # and others) by a backslash.
static void escaped(struct page *p, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (strchr("_*\\#~<>[]|.`", text[i]) && text[i])
            options_help_put(p, "\\");
        options_help_add(p, text + i, 1);
        if (text[i] == '\n') // end of a paragraph
            options_help_put(p, "\n");
    }
}

static void page_group(const char *group, struct page *p)
{
    options_help_put(p, "\n## ");
    options_help_put(p, group);
    options_help_put(p, "\n\n");
}

static void page_built(struct page *p, option_fn build, const struct option *opt)
{
    struct buf text = BUF_INIT(4096);
    const char *s = built(build, opt, &text, p);
    escaped(p, s, strlen(s));
    buf_free(&text);
}

static void spaced_remarks(const struct option *opt, struct page *p)
{
    size_t before = p->b->len;
    options_help_put(p, " ");
    remarks(opt, p);
    if (p->b->len == before + 1)
        p->b->len = before;
}

static void page_option(const struct option *opt, struct page *p)
{
    options_help_put(p, "*");
    page_built(p, heading, opt);
    options_help_put(p, "*\n\t");
    escaped(p, opt->help, strlen(opt->help));
    page_built(p, spaced_remarks, opt);
    options_help_put(p, "\n\n");
}

int options_scdoc(const struct option_table *t, struct buf *b)
{
    struct page p = {.b = b};
    p.rc = buf_printf(b, "tug-%s(1)\n\n# NAME\n\ntug-%s - ", t->command, t->command);
    escaped(&p, t->summary, strlen(t->summary));
    options_help_put(&p, "\n\n# SYNOPSIS\n\n*tug ");
    escaped(&p, t->command, strlen(t->command));
    options_help_put(&p, "* ");
    const char *usage = t->usage ? t->usage : "[options]";
    escaped(&p, usage, strlen(usage));
    if (t->about) {
        options_help_put(&p, "\n\n# DESCRIPTION\n\n");
        escaped(&p, t->about, strlen(t->about));
    }
    options_help_put(&p, "\n\n# OPTIONS\n");
    each_option(t->options, t->n_options, page_group, page_option, &p);
    each_option(common, sizeof(common) / sizeof(*common), page_group, page_option, &p);
    if (t->examples) {
        options_help_put(&p, "# EXAMPLES\n\n```\n");
        options_help_put(&p, t->examples);
        options_help_put(&p, "\n```\n");
    }
    options_help_put(
        &p, "\n# EXIT STATUS\n\n0 done, 2 wrong usage, 3 bad input data or file, 4 the "
            "system or a "
            "peer refused, 5 internal error, 130 interrupted after a checkpoint was "
            "written.\n\n"
            "# SEE ALSO\n\n*tug*(1)\n");
    return p.rc;
}
