// Encodes specs of tables into messages, decodes and compares them.
//
// SPDX-License-Identifier: Apache-2.0
#include "protocol/spec.h"

#include <string.h>

uint32_t spec_value_width(const struct table_spec *s, enum wire_op op)
{
    const struct accessor *a = &s->accessor;
    if (op == WIRE_GRADIENT)
        return a->push_width;
    return op == WIRE_ASSIGN ? accessor_weights(a) : a->width;
}

uint32_t spec_page_width(const struct table_spec *s)
{
    return accessor_has_lifecycle(&s->accessor) ? s->accessor.pull_width
                                                : s->accessor.width;
}

uint32_t spec_page_rows(const struct table_spec *s, uint32_t max)
{
    uint64_t bytes = sizeof(uint64_t) + spec_page_width(s) * sizeof(float);
    uint64_t fit = SPEC_PAGE_BYTES / bytes > 0 ? SPEC_PAGE_BYTES / bytes : 1;
    return max < fit ? max : (uint32_t)fit;
}

int spec_make(struct table_spec *ret, uint32_t id, const struct table_config *c,
              struct err *e)
{
    const enum wire_space spaces[] = {[CONFIG_HASH] = WIRE_SPACE_SPARSE,
                                      [CONFIG_RANGE] = WIRE_SPACE_RANGE,
                                      [CONFIG_DENSE] = WIRE_SPACE_DENSE};
    const enum wire_mode modes[] = {
        [CONFIG_ASYNC] = WIRE_ASYNC, [CONFIG_SSP] = WIRE_SSP, [CONFIG_SYNC] = WIRE_SYNC};
    if (id >= SPEC_MAX_TABLES)
        return err_set(e, TUG_EUSAGE, "table %u: a table's number must be below %d", id,
                       SPEC_MAX_TABLES);
    TRY(table_config_check(c, e));
    *ret = (struct table_spec){
        .id = id, .config = *c, .space = spaces[c->place], .mode = modes[c->mode]};
    return accessor_make(&ret->accessor, &c->accessor, e);
}

int spec_encode(const struct table_spec *s, struct buf *config, struct msg_table *ret)
{
    TRY(table_config_print(&s->config, config));
    *ret = (struct msg_table){.table = s->id,
                              .config = {config->data, (uint32_t)config->len}};
    return 0;
}

int spec_decode(struct table_spec *ret, const struct msg_table *m, struct err *e)
{
    struct table_config c = table_config_defaults();
    char text[WIRE_TEXT_MAX + 1];
    struct err why;
    for (uint32_t i = 0; i < m->config.n; i++)
        if (m->config.data[i] == '\0')
            return err_set(e, TUG_EUSAGE, "the settings of table %u are not a text",
                           m->table);
    if (m->config.n > 0)
        memcpy(text, m->config.data, m->config.n);
    text[m->config.n] = '\0';
    int rc = table_config_parse(&c, text, &why);
    if (rc == 0)
        rc = spec_make(ret, m->table, &c, &why);
    if (rc == 0)
        return 0;
    if (rc != TUG_ENOMEM)
        // Not TUG_EDATA: the settings came from a request, not from a file.
        rc = TUG_EUSAGE;
    return err_set(e, rc, "table %u (%.*s): %.800s", m->table, CONFIG_NAME_MAX, c.name,
                   why.text);
}

// Returns the setting of the line at *text, NULL if the line has none, and moves *text to
// the next line.
static const struct table_setting *next_setting(const char **text, const char **ret_line,
                                                size_t *ret_n)
{
    size_t n_settings, n = strcspn(*text, "\n"), name = strcspn(*text, " =\n");
    const struct table_setting *all = table_settings(&n_settings), *found = NULL;
    for (size_t i = 0; i < n_settings; i++)
        if (strlen(all[i].name) == name && memcmp(all[i].name, *text, name) == 0)
            found = &all[i];
    *ret_line = *text;
    *ret_n = n;
    *text += n + ((*text)[n] == '\n');
    return found;
}

static bool has_line(const char *text, const char *line, size_t n)
{
    for (size_t m; *text != '\0'; text += m + (text[m] == '\n')) {
        m = strcspn(text, "\n");
        if (m == n && memcmp(text, line, n) == 0)
            return true;
    }
    return false;
}

// Returns a setting in `text` that `other` does not have, or has with another value.
static const char *other_setting(const char *text, const char *other)
{
    while (*text != '\0') {
        const char *line;
        size_t n;
        const struct table_setting *s = next_setting(&text, &line, &n);
        if (!has_line(other, line, n))
            return s != NULL ? s->name : "configuration";
    }
    return NULL;
}

static const char *difference(const struct table_config *a, const struct table_config *b)
{
    struct buf x = BUF_INIT(WIRE_TEXT_MAX + 1), y = BUF_INIT(WIRE_TEXT_MAX + 1);
    const char *found = "configuration", *p = NULL, *q = NULL;
    if (table_config_print(a, &x) == 0 && table_config_print(b, &y) == 0) {
        p = buf_str(&x);
        q = buf_str(&y);
    }
    if (p != NULL && q != NULL)
        found = other_setting(p, q);
    if (p != NULL && q != NULL && found == NULL)
        found = other_setting(q, p);
    buf_free(&x);
    buf_free(&y);
    return found;
}

const char *spec_difference(const struct table_spec *a, const struct table_spec *b)
{
    return difference(&a->config, &b->config);
}

bool spec_same(const struct table_spec *a, const struct table_spec *b)
{
    return a->id == b->id && spec_difference(a, b) == NULL;
}
