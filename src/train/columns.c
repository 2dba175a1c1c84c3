// Checks and completes the options that name columns of the data.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/columns.h"

#include <string.h>

#include "base/alloc.h"
#include "data/input/lines.h"
#include "data/source/source.h"

// The search for the columns of --drop in the headers of files.
struct search {
    const struct train_config *config;
    char separator;
    bool quotes;
    struct schema *names; // columns of the header that was read last
    struct schema *open;  // names of --drop that no header has contained so far
};

static bool has_name(const struct schema *s, const char *name)
{
    struct schema_column c;
    for (size_t at = 0; schema_next(s, &at, &c);)
        if (strcmp(c.name, name) == 0)
            return true;
    return false;
}

// Removes the names in the last header from s->open.
static void strike(struct search *s)
{
    struct schema_column c;
    size_t to = 0;
    for (size_t at = 0, next = 0; next < s->open->text_len; at = next) {
        (void)schema_next(s->open, &next, &c);
        if (has_name(s->names, c.name))
            continue;
        memmove(s->open->text + to, s->open->text + at, next - at);
        to += next - at;
    }
    s->open->text_len = (uint32_t)to;
}

static int look_at_file(struct search *s, struct source *source, uint32_t file,
                        struct err *e)
{
    struct buf line = BUF_INIT(MAX_LINE_BYTES);
    int rc = source_first_line(source, file, &line, e);
    if (rc == 0)
        rc = reader_header_names(buf_str(&line), line.len, s->separator, s->quotes,
                                 s->names, e);
    if (rc == 0)
        strike(s);
    buf_free(&line);
    return rc;
}

// Removes the names that the headers of these files contain from s->open. Skips a file
// that cannot be read, because it may be readable later or on another machine.
static void columns_look_at(struct search *s, const struct path_list *paths)
{
    struct source *source = NULL;
    struct source_options o = {
        .paths = paths->items, .n_paths = paths->n, .command = paths->command};
    if (paths->n == 0 || source_open(&source, &o, NULL) != 0)
        return;
    for (uint32_t i = 0; i < source_files(source) && s->open->text_len > 0; i++)
        if (!source_is_pipe(source, i))
            (void)look_at_file(s, source, i, NULL);
    source_close(source);
}

static int columns_fill(struct search *s, struct err *e)
{
    const char *list = s->config->reader.drop, *name;
    size_t len;
    while (reader_next_name(&list, &name, &len))
        TRY(schema_add(s->open, SCHEMA_DROPPED, name, len, e));
    return 0;
}

static int search(struct search *s, struct err *e)
{
    const struct train_config *c = s->config;
    const struct path_list *const lists[] = {&c->data, &c->test, &c->valid};
    TRY(columns_fill(s, e));
    for (size_t l = 0; l < 3 && s->open->text_len > 0; l++)
        columns_look_at(s, lists[l]);
    return 0;
}

// Returns whether the first file is a pipe, whose header can be read only once, with the
// data.
static bool begins_with_pipe(const struct path_list *paths)
{
    struct source *s = NULL;
    struct source_options o = {
        .paths = paths->items, .n_paths = paths->n, .command = paths->command};
    bool pipe = source_open(&s, &o, NULL) != 0 || source_is_pipe(s, 0);
    source_close(s);
    return pipe;
}

int columns_check_drop(const struct train_config *c, bool *ret, struct err *e)
{
    const struct reader_options *o = &c->reader;
    *ret = false;
    if (o->drop == NULL || o->columns != NULL || o->schema != NULL || o->format == NULL ||
        strcmp(o->format, "csv") != 0 || begins_with_pipe(&c->data))
        return 0;
    struct search s = {.config = c,
                       .separator = o->separator != 0 ? o->separator : ',',
                       .quotes = o->quote == NULL || strcmp(o->quote, "none") != 0,
                       .names = mem_alloc(sizeof(struct schema)),
                       .open = mem_zalloc(sizeof(struct schema))};
    int rc = s.names != NULL && s.open != NULL
                 ? search(&s, e)
                 : err_nomem(e, "the columns of a csv file");
    // Names that were not found are not an error here: the reader reports them later,
    // together with other missing columns.
    *ret = rc == 0 && s.open->text_len == 0;
    mem_free(s.names);
    mem_free(s.open);
    return rc;
}

void columns_complete(struct train_config *c, const struct reader *r)
{
    const struct schema *s = reader_schema(r);
    c->reader.format = s->format;
    c->reader.loss = s->loss;
}

int columns_decide(struct reader *r, struct source *s, struct err *e)
{
    struct buf lines = BUF_INIT(READER_LOOK_BYTES + READER_PADDING);
    reader_see_rows(r, source_rows(s, 0));
    size_t wanted = reader_wants(r);
    if (wanted == 0)
        return 0;
    uint32_t file = 0, files = (uint32_t)source_files(s);
    int rc = source_first_lines(s, 0, wanted, READER_LOOK_BYTES, &lines, e);
    while (rc == 0 && file + 1 < files && reader_is_blank(r, lines.data, lines.len) &&
           !source_is_pipe(s, file + 1)) {
        buf_clear(&lines);
        rc = source_first_lines(s, ++file, wanted, READER_LOOK_BYTES, &lines, e);
    }
    if (rc == 0)
        rc = reader_decide(r, source_file_name(s, file), &lines, e);
    buf_free(&lines);
    return rc;
}
