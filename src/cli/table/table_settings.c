// tug table settings: lists the settings of tables; also reads settings for other
// commands.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "accessor/accessor.h"
#include "cli/cli.h"
#include "cli/table/table.h"
#include "os/file.h"
#include "rule/rule.h"

// The width of the terminal, and the column in which explanations begin.
enum { WIDTH = 80, COLUMN = 30 };

// Prints the words of `text` from column `at` on; further lines begin at COLUMN.
static int wrap(struct buf *b, const char *text, int at)
{
    while (*text != 0) {
        int n = (int)strcspn(text, " ");
        bool breaks = at + 1 + n >= WIDTH;
        if (breaks)
            TRY(buf_printf(b, "\n%*s", COLUMN, ""));
        else
            TRY(buf_printf(b, "%s", at > COLUMN ? " " : ""));
        TRY(buf_printf(b, "%.*s", n, text));
        at = (breaks ? COLUMN : at + (at > COLUMN)) + n;
        text += n + (int)strspn(text + n, " ");
    }
    return buf_printf(b, "\n");
}

static int add_line(struct buf *b, const char *what, const char *explanation)
{
    TRY(buf_printf(b, "  %-*s", COLUMN - 2, what));
    if (strlen(what) > COLUMN - 4)
        TRY(buf_printf(b, "\n%*s", COLUMN, ""));
    return wrap(b, explanation, COLUMN);
}

static int add_settings(struct buf *b, bool life)
{
    size_t n;
    const struct table_setting *s = table_settings(&n);
    for (size_t i = 0; i < n; i++) {
        char what[96], explanation[512];
        if ((s[i].of != SETTING_OF_ALL) != life)
            continue;
        bool none = s[i].fallback[0] == 0;
        snprintf(what, sizeof(what), "%s = %s", s[i].name, s[i].metavar);
        snprintf(explanation, sizeof(explanation), "%s (default%s%s)", s[i].help,
                 none ? "" : " ", none ? ": none" : s[i].fallback);
        TRY(add_line(b, what, explanation));
    }
    return 0;
}

static int add_rules(struct buf *b)
{
    for (int k = 0; rule_info((enum rule_kind)k) != NULL; k++) {
        const struct rule_info *r = rule_info((enum rule_kind)k);
        const char *takes = r->takes != NULL ? r->takes : "";
        char explanation[512];
        snprintf(explanation, sizeof(explanation), "%s%s%s", r->about,
                 takes[0] != 0 ? "; takes " : "", takes);
        TRY(add_line(b, r->name, explanation));
    }
    return 0;
}

static int add_accessors(struct buf *b)
{
    const struct accessor_class *c;
    for (size_t i = 0; (c = accessor_class_at(i)) != NULL; i++)
        TRY(add_line(b, c->name, c->about));
    return 0;
}

static int add_all(struct buf *b)
{
    TRY(buf_printf(
        b, "A table is made from settings: 'name = value', one a line in a file, where "
           "'#'\nbegins a comment, or separated by ';'. A setting that is not given has "
           "its default.\n\n    name = users\n    accessor = ctr               # rows "
           "count shows and clicks\n    dim = 8\n    entry = count:3              # "
           "rarer keys get no row\n    embedx-rule = adagrad:lr=0.05,clip=10\n\n    tug "
           "table create --settings users.table\n    tug table create --settings "
           "'name=users; accessor=ctr; dim=8'\n\nAny table\n"));
    TRY(add_settings(b, false));
    TRY(buf_printf(b, "\nTables whose rows come and go: accessors that count shows and "
                      "clicks. (The\naccessor features also has the settings of embedx. "
                      "Only it has embed, by-squares and\nembedx-random.)\n"));
    TRY(add_settings(b, true));
    TRY(buf_printf(
        b, "\nACCESSOR: the meaning of a row's floats, and whether rows come and go.\n"));
    TRY(add_accessors(b));
    TRY(buf_printf(
        b,
        "\nRULE: a name, and after ':' the numbers that differ from the defaults. Any "
        "rule\nalso takes clip, clip_norm (of gradients), low and high (of weights).\n"));
    TRY(add_rules(b));
    return buf_printf(
        b, "\nPOLICY: %s\nSCHEDULE: %s\n\ndocs/tables.md explains what they are for.\n",
        entry_names(), rate_names());
}

int table_print_settings(struct err *e)
{
    struct buf b = BUF_INIT(1 << 20);
    return cli_print(&b, add_all(&b), e);
}

// Returns whether the text is a file name: it contains no '='.
static bool is_file(const char *settings)
{
    return strchr(settings, '=') == NULL;
}

static int table_settings_read_text(const struct table_values *v, struct buf *ret,
                                    struct err *e)
{
    if (is_file(v->settings))
        TRY(file_read_text(v->settings, ret, e));
    else if (buf_printf(ret, "%s", v->settings) != 0)
        return buf_error(ret, "--settings", e);
    return buf_str(ret) != NULL ? 0 : err_nomem(e, "settings");
}

static int table_settings_parse(const char *text, struct table_config *ret, struct err *e)
{
    *ret = table_config_defaults();
    TRY(table_config_parse(ret, text, e));
    return table_config_check(ret, e);
}

// Sets the name from --table if the settings give none.
static int set_name(const char *name, struct buf *text, struct table_config *c,
                    struct err *e)
{
    const struct table_config unnamed = table_config_defaults();
    if (name == NULL || strcmp(c->name, name) == 0)
        return 0;
    if (strcmp(c->name, unnamed.name) != 0)
        return err_set(e, TUG_EUSAGE,
                       "--settings are those of table '%s', but --table says '%s'",
                       c->name, name);
    if (buf_printf(text, "\nname = %s\n", name) != 0 || buf_str(text) == NULL)
        return buf_error(text, "--settings", e);
    return table_settings_parse(buf_str(text), c, e);
}

int table_read_settings(const struct table_values *v, struct buf *ret_text,
                        struct table_config *ret, struct err *e)
{
    *ret_text = BUF_INIT(1 << 16);
    if (v->settings == NULL)
        return err_set(e, TUG_EUSAGE,
                       "--settings TEXT|FILE is missing; 'tug table settings' lists the "
                       "settings of a table");
    int rc = table_settings_read_text(v, ret_text, e);
    if (rc == 0)
        rc = table_settings_parse(buf_str(ret_text), ret, e);
    if (rc == 0)
        rc = set_name(v->table, ret_text, ret, e);
    if (rc != 0)
        buf_free(ret_text);
    if (rc == TUG_EUSAGE && is_file(v->settings))
        return err_wrap(e, "'%s'", v->settings);
    return rc;
}
