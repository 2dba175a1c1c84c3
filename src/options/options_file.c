// The YAML file of --config: one mapping of option names to values.
//
//     epochs: 10                 # an option of the command that reads the file
//     data: [a.gz, b.gz]         # a list
//     drop: [id, day]            # the same as "id,day"
//     train: {threads: 2}        # of `tug train` only; other commands skip it
//
// There is one level of nesting. A mapping under the name of a command has options of this
// command. A mapping under any other word has the second parts of names with a dot:
// "optimizer: {lr: 1}" sets optimizer.lr.
// Anchors, deeper nesting and several documents are not supported.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/alloc.h"
#include "options/options_internal.h"
#include "os/file.h"

enum { FILE_MAX_BYTES = 1 << 20 };

struct file {
    struct options *o;
    const char *path;
    yaml_parser_t parser;
    yaml_event_t event;
    bool has_event;
};

// The mapping that is being read: the command whose options it has, and the text that
// comes before its names.
struct section {
    // The table of the command; a section of another command is skipped.
    const struct option_table *table;
    const char *prefix; // NULL, or the word before the dot, such as "optimizer"
};

static int next(struct file *f, struct err *e)
{
    if (f->has_event)
        yaml_event_delete(&f->event);
    f->has_event = false;
    if (yaml_parser_parse(&f->parser, &f->event)) {
        f->has_event = true;
        return 0;
    }
    if (f->parser.error == YAML_MEMORY_ERROR)
        return err_nomem(e, "the configuration");
    return err_set(e, TUG_EDATA, "%s:%zu: %s", f->path, f->parser.problem_mark.line + 1,
                   f->parser.problem ? f->parser.problem : "not YAML");
}

static size_t line_of(const struct file *f)
{
    return f->event.start_mark.line + 1;
}

static int shape(const struct file *f, const char *what, struct err *e)
{
    return err_set(e, TUG_EUSAGE,
                   "%s:%zu: %s; a configuration consists of lines 'name: value'", f->path,
                   line_of(f), what);
}

static bool is_null(const yaml_event_t *v)
{
    const char *s = (const char *)v->data.scalar.value;
    return v->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (!*s || strcmp(s, "~") == 0 || strcmp(s, "null") == 0);
}

// Assigns the scalar of the current event to option i.
static int assign(struct file *f, size_t i, struct err *e)
{
    char place[FILE_PATH_MAX + 32];
    snprintf(place, sizeof(place), "%s:%zu", f->path, line_of(f));
    if (is_null(&f->event))
        return err_set(e, TUG_EUSAGE, "%s: %s has no value", place,
                       f->o->table->options[i].name);
    struct option_giver by = {OPTION_FILE, option_keep(f->o, place, strlen(place)),
                              f->o->loads};
    if (!by.place)
        return err_nomem(e, "options");
    const char *text = (const char *)f->event.data.scalar.value;
    if (strlen(text) != f->event.data.scalar.length)
        return shape(f, "a zero byte in a value", e);
    return option_assign(f->o, i, text, &by, e);
}

static int assign_sequence(struct file *f, size_t i, struct err *e)
{
    for (;;) {
        TRY(next(f, e));
        if (f->event.type == YAML_SEQUENCE_END_EVENT)
            return 0;
        if (f->event.type != YAML_SCALAR_EVENT)
            return shape(f, "the items of a list must be plain values", e);
        TRY(assign(f, i, e));
    }
}

// Returns whether the value of the option is one text with commas ("COLUMN,...").
static bool takes_commas(const struct option *o)
{
    size_t n = o->metavar != NULL ? strlen(o->metavar) : 0;
    return o->kind == OPTION_STRING && n > 4 && strcmp(o->metavar + n - 4, ",...") == 0;
}

static int join_sequence(struct file *f, size_t i, struct buf *to, struct err *e)
{
    for (bool first = true;; first = false) {
        TRY(next(f, e));
        if (f->event.type == YAML_SEQUENCE_END_EVENT)
            return 0;
        if (f->event.type != YAML_SCALAR_EVENT)
            return shape(f, "the items of a list must be plain values", e);
        const char *text = (const char *)f->event.data.scalar.value;
        size_t len = f->event.data.scalar.length;
        if (strlen(text) != len)
            return shape(f, "a zero byte in a value", e);
        if (memchr(text, ',', len) != NULL)
            return err_set(e, TUG_EUSAGE,
                           "%s:%zu: %s: the item '%.100s' has a comma, which separates "
                           "items",
                           f->path, line_of(f), f->o->table->options[i].name, text);
        if ((!first && buf_add(to, ",", 1) != 0) || buf_add(to, text, len) != 0)
            return buf_error(to, "a list", e);
    }
}

// Assigns the sequence that begins with the current event as one text with commas.
static int assign_joined(struct file *f, size_t i, struct err *e)
{
    struct buf text = BUF_INIT(FILE_MAX_BYTES);
    struct option_giver by = {OPTION_FILE, NULL, f->o->loads};
    char place[FILE_PATH_MAX + 32];
    snprintf(place, sizeof(place), "%s:%zu", f->path, line_of(f));
    int rc = join_sequence(f, i, &text, e);
    if (rc == 0 && text.len == 0)
        rc = err_set(e, TUG_EUSAGE, "%s: %s has no value", place,
                     f->o->table->options[i].name);
    by.place = rc == 0 ? option_keep(f->o, place, strlen(place)) : NULL;
    if (rc == 0 && by.place == NULL)
        rc = err_nomem(e, "options");
    const char *joined = rc == 0 ? buf_str(&text) : NULL;
    if (rc == 0)
        rc = joined != NULL ? option_assign(f->o, i, joined, &by, e)
                            : err_nomem(e, "options");
    buf_free(&text);
    return rc;
}

// Skips the value that begins with the current event.
static int skip(struct file *f, struct err *e)
{
    size_t depth = 0;
    for (;;) {
        switch (f->event.type) {
        case YAML_MAPPING_START_EVENT:
        case YAML_SEQUENCE_START_EVENT:
            depth++;
            break;
        case YAML_MAPPING_END_EVENT:
        case YAML_SEQUENCE_END_EVENT:
            depth--;
            break;
        default:
            break;
        }
        if (depth == 0)
            return 0;
        TRY(next(f, e));
    }
}

// Finds the option that `key` names in the section; sets *ret_i to OPTION_NONE for an
// option of another command.
static int lookup(struct file *f, const struct section *s, const char *key, size_t *ret_i,
                  struct err *e)
{
    char name[2 * OPTION_NAME_MAX], prefix[FILE_PATH_MAX + 64];
    snprintf(name, sizeof(name), "%s%s%.*s", s->prefix ? s->prefix : "",
             s->prefix ? "." : "", OPTION_NAME_MAX - 1, key);
    *ret_i = option_find(s->table, name, strlen(name));
    if (*ret_i == OPTION_NONE) {
        snprintf(prefix, sizeof(prefix), "%s:%zu: ", f->path, line_of(f));
        return option_unknown(s->table, prefix, "", name, strlen(name), e);
    }
    if (s->table != f->o->table)
        *ret_i = OPTION_NONE;
    else if (f->o->origin[*ret_i].giver.load == f->o->loads)
        return err_set(e, TUG_EUSAGE, "%s:%zu: %s is given twice", f->path, line_of(f),
                       name);
    return 0;
}

static int read_section(struct file *f, const struct section *s, struct err *e);

// Reads the value of `key`, whose first event is the current one.
static int read_value(struct file *f, const struct section *s, const char *key, size_t i,
                      struct err *e)
{
    if (f->event.type == YAML_ALIAS_EVENT)
        return shape(f, "aliases are not supported", e);
    if (f->event.type == YAML_MAPPING_START_EVENT) {
        if (s->prefix || s->table != f->o->table || i != OPTION_NONE)
            return shape(f, "nested too deep", e);
        const struct option_table *t = option_family_find(s->table, key);
        const struct section inner = {t ? t : s->table, t ? NULL : key};
        return read_section(f, &inner, e);
    }
    if (i == OPTION_NONE)
        return skip(f, e);
    if (f->event.type != YAML_SEQUENCE_START_EVENT)
        return option_note(f->o, assign(f, i, e), e);
    if (f->o->table->options[i].kind == OPTION_LIST)
        return assign_sequence(f, i, e);
    if (takes_commas(&f->o->table->options[i]))
        return assign_joined(f, i, e);
    err_set(e, TUG_EUSAGE, "%s:%zu: %s takes one value, not a list", f->path, line_of(f),
            f->o->table->options[i].name);
    TRY(option_note(f->o, TUG_EUSAGE, e));
    return skip(f, e);
}

// Reads a name, which is the current event, and its value.
static int read_pair(struct file *f, const struct section *s, struct err *e)
{
    char key[OPTION_NAME_MAX];
    if (f->event.type != YAML_SCALAR_EVENT)
        return shape(f, "a name was expected", e);
    if (f->event.data.scalar.length >= sizeof(key))
        return shape(f, "this name is longer than that of any option", e);
    snprintf(key, sizeof(key), "%s", (const char *)f->event.data.scalar.value);
    TRY(next(f, e));
    size_t i = OPTION_NONE;
    if (f->event.type != YAML_MAPPING_START_EVENT) { // else the name begins a section
        int rc = lookup(f, s, key, &i, e);
        i = rc != 0 ? OPTION_NONE : i; // skip the value of an unknown name
        TRY(option_note(f->o, rc, e));
    }
    return read_value(f, s, key, i, e);
}

static int read_section(struct file *f, const struct section *s, struct err *e)
{
    for (;;) {
        TRY(next(f, e));
        if (f->event.type == YAML_MAPPING_END_EVENT)
            return 0;
        TRY(read_pair(f, s, e));
    }
}

static int read_document(struct file *f, struct err *e)
{
    const struct section top = {f->o->table, NULL};
    TRY(next(f, e)); // start of the stream
    TRY(next(f, e));
    if (f->event.type == YAML_STREAM_END_EVENT)
        return 0; // the file has only comments
    TRY(next(f, e));
    if (f->event.type == YAML_SCALAR_EVENT && is_null(&f->event))
        return 0;
    if (f->event.type != YAML_MAPPING_START_EVENT)
        return shape(f, "this is not a mapping", e);
    TRY(read_section(f, &top, e));
    TRY(next(f, e)); // end of the document
    TRY(next(f, e));
    return f->event.type == YAML_STREAM_END_EVENT ? 0 : shape(f, "a second document", e);
}

int options_load_file(struct options *o, const char *path, struct err *e)
{
    struct buf text = BUF_INIT(FILE_MAX_BYTES);
    struct file f = {.o = o, .path = path};
    size_t n = strlen(path);
    int rc = n > 3 && strcmp(path + n - 3, ".py") == 0
                 ? err_set(
                       e, TUG_EUSAGE,
                       "--config: '%s' is a Python file, and a configuration here "
                       "consists of lines 'name: value'. Paddle's first version defines "
                       "layers in such a file: give --model and --hidden instead",
                       path)
                 : file_read_text(path, &text, e);
    if (rc)
        goto done;
    if (!yaml_parser_initialize(&f.parser)) {
        rc = err_nomem(e, "the configuration");
        goto done;
    }
    yaml_parser_set_input_string(
        &f.parser, (const unsigned char *)(text.data ? text.data : ""), text.len);
    o->loads++;
    rc = read_document(&f, e);
    if (f.has_event)
        yaml_event_delete(&f.event);
    yaml_parser_delete(&f.parser);
done:
    buf_free(&text);
    return rc;
}
