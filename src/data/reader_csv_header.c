// Headers of csv files: the first one decides the schema, each gives its file a layout.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "data/reader_csv.h"

// ---------------------------------------------------------------- the schema

// Words and numbers of one name never meet.
enum { WORD_SEED = 0, NUMBER_SEED = 1 };

static uint64_t hash_name(const char *name, size_t len)
{
    return hash_bytes(name, len, WORD_SEED);
}

static struct column *find_column(const struct csv *c, const char *name, size_t len)
{
    size_t at = hash_name(name, len) & c->index_mask;
    for (; c->index[at] != 0; at = (at + 1) & c->index_mask) {
        struct column *column = &c->column[c->index[at] - 1];
        if (strlen(column->name) == len && memcmp(column->name, name, len) == 0)
            return column;
    }
    return NULL;
}

static void index_column(struct csv *c, size_t i)
{
    const char *name = c->column[i].name;
    size_t len = strlen(name), at = hash_name(name, len) & c->index_mask;
    if (find_column(c, name, len) != NULL)
        return; // dropped twice
    while (c->index[at] != 0)
        at = (at + 1) & c->index_mask;
    c->index[at] = (uint32_t)i + 1;
}

int csv_take_schema(struct csv *c, struct err *e)
{
    const struct schema *s = c->base.schema;
    size_t cap = 16;
    TRY(csv_take_settings(c, e));
    while (cap < 2 * (size_t)s->columns)
        cap *= 2;
    c->column = mem_array(s->columns + 1, sizeof *c->column);
    c->index = mem_zalloc(cap * sizeof *c->index);
    if (c->column == NULL || c->index == NULL)
        return err_nomem(e, "the columns of a csv file");
    c->index_mask = cap - 1;
    uint32_t slots = 0;
    struct schema_column from;
    for (size_t at = 0; schema_next(s, &at, &from); c->columns++) {
        size_t len = strlen(from.name);
        bool number = from.use == SCHEMA_NUMBERS || from.use == SCHEMA_LOGS;
        c->has_lists |= from.use == SCHEMA_LISTS;
        c->column[c->columns] = (struct column){
            .use = from.use,
            .slot = slots,
            .seed = number ? hash_bytes(from.name, len, NUMBER_SEED)
                           : hash_name(from.name, len),
            .name = from.name,
        };
        slots += schema_is_feature(from.use);
        index_column(c, c->columns);
    }
    if (slots > READER_MAX_SLOT + 1)
        return err_set(e, TUG_EDATA, "the header has %u feature columns; the limit is %d",
                       slots, READER_MAX_SLOT + 1);
    atomic_store(&c->slots, slots);
    return 0;
}

static void forget_schema(struct csv *c)
{
    mem_free(c->column);
    mem_free(c->index);
    c->column = NULL;
    c->index = NULL;
    c->columns = 0;
    c->base.schema->columns = c->base.schema->text_len = 0;
}

// ---------------------------------------------------------------- headers

// The names of a header's columns, one behind the other in a schema without a meaning.
static int split_header(const char *header, size_t len, char separator,
                        struct schema *ret, struct err *e)
{
    char *name = mem_alloc(len + 1);
    if (name == NULL)
        return err_nomem(e, "the columns of a csv file");
    int rc = 0;
    for (const char *p = header, *end = p + len; rc == 0; p++) {
        struct field f;
        p = csv_next_field(p, end, separator, &f, e);
        if (p == NULL)
            rc = TUG_EDATA;
        else
            rc = schema_add(ret, SCHEMA_WORDS, name, csv_unquote(&f, name), e);
        if (p == end)
            break;
    }
    mem_free(name);
    return rc;
}

// Without the mark that spreadsheets write.
static size_t mark_len(const char *line, size_t len)
{
    return len >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

int reader_header_names(const char *line, size_t len, char separator, struct schema *ret,
                        struct err *e)
{
    size_t mark = mark_len(line, len);
    if (len > 0 && line[len - 1] == '\r')
        len--;
    *ret = (struct schema){0};
    return split_header(line + mark, len - mark, separator, ret, e);
}

static bool is_number(const char *text)
{
    float ignored;
    return number_parse(text, strlen(text), &ignored) == NUMBER_OK;
}

// Whether the first line is data: it begins with a number. Names that only count columns,
// as some tools write them, are names.
static bool looks_like_data(const struct schema *names)
{
    struct schema_column n;
    bool number = false, counts[2] = {true, true};
    uint32_t i = 0;
    for (size_t at = 0; schema_next(names, &at, &n); i++) {
        char count[16];
        number |= i == 0 && is_number(n.name);
        for (uint32_t from = 0; from < 2; from++) {
            snprintf(count, sizeof count, "%u", i + from);
            counts[from] &= strcmp(n.name, count) == 0;
        }
    }
    return number && !counts[0] && !counts[1];
}

#define NEEDS_HEADER                                                                     \
    "; this line looks like data: csv needs a header, a first line with the columns' "   \
    "names"

// Whether a comma-separated list of names has this one; a list that is NULL has none.
static bool is_listed(const char *list, const char *name)
{
    const char *listed;
    size_t len;
    while (reader_next_name(&list, &listed, &len))
        if (strlen(name) == len && memcmp(listed, name, len) == 0)
            return true;
    return false;
}

static bool has_name(const struct schema *names, const char *name, size_t len)
{
    struct schema_column n;
    for (size_t at = 0; schema_next(names, &at, &n);)
        if (strlen(n.name) == len && memcmp(n.name, name, len) == 0)
            return true;
    return false;
}

// Columns that a message names: the first few of them, and how many there are.
enum { NAMED_MAX = 4 };

struct named {
    size_t n;
    char text[NAMED_MAX * (sizeof(struct shown) + 4)];
};

static void name_column(struct named *l, const char *name)
{
    size_t at = strlen(l->text);
    if (l->n++ < NAMED_MAX)
        snprintf(l->text + at, sizeof l->text - at, "%s'%s'", at > 0 ? ", " : "",
                 show(name, strlen(name)).text);
}

static const char *named_rest(const struct named *l, char ret[32])
{
    ret[0] = '\0';
    if (l->n > NAMED_MAX)
        snprintf(ret, 32, " and %zu more", l->n - NAMED_MAX);
    return ret;
}

static void check_name(const struct schema *names, const char *option, const char *name,
                       size_t len, char text[ERR_TEXT_MAX])
{
    if (!has_name(names, name, len))
        reader_add_clause(text, "the header has no column '%s', which %s names",
                          show(name, len).text, option);
}

// What the options name is there; all that is not is told in one message.
static int check_names(const struct csv *c, const struct schema *names, struct err *e)
{
    char text[ERR_TEXT_MAX] = "";
    const char *list, *name;
    enum schema_use use;
    size_t len, at = 0;
    if (c->label != NULL && c->base.labels)
        check_name(names, "--label", c->label, strlen(c->label), text);
    if (c->weight != NULL)
        check_name(names, "--weight-column", c->weight, strlen(c->weight), text);
    for (list = c->drop; !c->drop_elsewhere && reader_next_name(&list, &name, &len);)
        check_name(names, "--drop", name, len, text);
    for (list = c->numeric; reader_next_number(&list, &name, &len, &use);)
        check_name(names, "--numeric", name, len, text);
    for (list = c->lists; reader_next_name(&list, &name, &len);)
        check_name(names, "--lists", name, len, text);
    if (text[0] == '\0')
        return 0;
    struct named there = {0};
    struct schema_column n;
    char more[32];
    while (schema_next(names, &at, &n))
        name_column(&there, n.name);
    reader_add_clause(text, "it has %s%s%s", there.text, named_rest(&there, more),
                      looks_like_data(names) ? NEEDS_HEADER : "");
    return err_set(e, TUG_EDATA, "%s", text);
}

// Whether the options want the column's numbers.
static bool is_numeric(const struct csv *c, const char *name, enum schema_use *ret)
{
    const char *list = c->numeric, *listed;
    size_t len;
    while (reader_next_number(&list, &listed, &len, ret))
        if (strlen(name) == len && memcmp(listed, name, len) == 0)
            return true;
    return false;
}

// The use of a column by the options, which may name it once.
static int decide_use(const struct csv *c, const char *name, bool first,
                      enum schema_use *ret, struct err *e)
{
    static const char *const options[] = {"--label", "--weight-column", "--drop",
                                          "--numeric", "--lists"};
    enum schema_use numbers = SCHEMA_NUMBERS;
    bool numeric = is_numeric(c, name, &numbers);
    const enum schema_use uses[] = {SCHEMA_LABEL, SCHEMA_WEIGHT, SCHEMA_DROPPED, numbers,
                                    SCHEMA_LISTS};
    const bool named[] = {
        c->label != NULL ? strcmp(c->label, name) == 0 : first,
        c->weight != NULL && strcmp(c->weight, name) == 0,
        is_listed(c->drop, name),
        numeric,
        is_listed(c->lists, name),
    };
    int use = -1;
    for (int i = 0; i < 5; i++) {
        if (!named[i])
            continue;
        if (use >= 0)
            return err_set(e, TUG_EUSAGE,
                           "column '%s', which %s names, has another use already: it is "
                           "%s's",
                           show(name, strlen(name)).text, options[i], options[use]);
        use = i;
    }
    *ret = use >= 0 ? uses[use] : SCHEMA_WORDS;
    return 0;
}

// Names of `drop` that other files have.
static int add_dropped(const struct csv *c, const struct schema *names, struct err *e)
{
    const char *list = c->drop, *name;
    size_t len;
    while (reader_next_name(&list, &name, &len))
        if (!has_name(names, name, len))
            TRY(schema_add(c->base.schema, SCHEMA_DROPPED, name, len, e));
    return 0;
}

// The schema as the first header and the options have it.
static int decide_schema(struct csv *c, const struct schema *names, struct err *e)
{
    struct schema_column n;
    uint32_t features = 0, columns = 0;
    TRY(check_names(c, names, e));
    TRY(csv_add_settings(c, e));
    for (size_t at = 0; schema_next(names, &at, &n); columns++) {
        enum schema_use use;
        TRY(decide_use(c, n.name, columns == 0, &use, e));
        TRY(schema_add(c->base.schema, use, n.name, strlen(n.name), e));
        features += schema_is_feature(use);
    }
    TRY(add_dropped(c, names, e));
    if (c->label != NULL && !has_name(names, c->label, strlen(c->label)))
        TRY(schema_add(c->base.schema, SCHEMA_LABEL, c->label, strlen(c->label), e));
    if (features == 0)
        return err_set(e, TUG_EDATA,
                       "the header has no column that could be a feature: is '%c' its "
                       "separator? (--separator gives another)",
                       c->separator == '\t' ? ' ' : c->separator);
    if (c->label == NULL && looks_like_data(names))
        return err_set(e, TUG_EDATA,
                       "the column of the label is called '%s'" NEEDS_HEADER,
                       show(names->text + 1, strlen(names->text + 1)).text);
    return csv_take_schema(c, e);
}

// What of a header does not fit the schema.
struct misfit {
    struct named unknown, missing;    // columns that are new, features that are not there
    const char *no_label, *no_weight; // names of these columns
};

// The columns of a file in a layout; *seen: those of the schema that it has.
static int place_columns(const struct csv *c, const struct schema *names,
                         struct reader_layout *l, bool *seen, struct misfit *bad,
                         struct err *e)
{
    struct schema_column n;
    uint32_t next_slot = 0;
    l->in_order = true;
    for (size_t at = 0; schema_next(names, &at, &n);) {
        const struct column *known = find_column(c, n.name, strlen(n.name));
        struct column *to = &l->column[l->columns++];
        *to = known != NULL ? *known : (struct column){.use = SCHEMA_DROPPED};
        if (known == NULL && !is_listed(c->drop, n.name))
            name_column(&bad->unknown, n.name);
        if (to->use == SCHEMA_DROPPED)
            continue;
        if (seen[known - c->column])
            return err_set(e, TUG_EDATA,
                           "the header has the column '%s' twice: give them different "
                           "names, or --drop '%s' leaves both out",
                           show(n.name, strlen(n.name)).text,
                           show(n.name, strlen(n.name)).text);
        seen[known - c->column] = true;
        if (!schema_is_feature(to->use))
            continue;
        l->in_order &= to->slot >= next_slot;
        next_slot = to->slot + 1;
    }
    return 0;
}

static void find_missing(struct csv *c, const bool *seen, struct misfit *bad)
{
    for (size_t i = 0; i < c->columns; i++) {
        struct column *column = &c->column[i];
        if (seen[i])
            continue;
        column->absent |= schema_is_feature(column->use);
        if (schema_is_feature(column->use) && !c->allow_missing)
            name_column(&bad->missing, column->name);
        else if (column->use == SCHEMA_LABEL && c->base.labels)
            bad->no_label = column->name;
        else if (column->use == SCHEMA_WEIGHT && c->base.labels)
            bad->no_weight = column->name;
    }
}

static const char *separator_name(char c, char ret[8])
{
    snprintf(ret, 8, c == '\t' ? "tab" : "'%c'", c);
    return ret;
}

// A header that has nothing of the schema has a reason of its own.
static int nothing_fits(const struct csv *c, const struct schema *names, struct err *e)
{
    char separator[8];
    const char *only = names->text + 1;
    if (names->columns == 1 && c->columns > 1)
        return err_set(
            e, TUG_EDATA,
            "the header is one column, '%s': the separator of this data is %s%s",
            show(only, strlen(only)).text, separator_name(c->separator, separator),
            c->given ? ", as in the data that the model was trained on"
                     : " (--separator gives another)");
    if (looks_like_data(names))
        return err_set(e, TUG_EDATA,
                       "the header has none of the feature columns" NEEDS_HEADER);
    return 0;
}

// All that is wrong in one message.
static int tell_misfit(const struct csv *c, const struct misfit *bad, struct err *e)
{
    char text[ERR_TEXT_MAX] = "", more[32];
    const struct named *l = &bad->unknown;
    if (l->n == 1)
        reader_add_clause(text, "%s the column %s; --drop %s passes it over",
                          c->given ? "the model was not trained with"
                                   : "the first file does not have",
                          l->text, l->text);
    else if (l->n > 1)
        reader_add_clause(text, "%s the columns %s%s; --drop passes them over",
                          c->given ? "the model was not trained with"
                                   : "the first file does not have",
                          l->text, named_rest(l, more));
    if (bad->no_label != NULL)
        reader_add_clause(text, "the header lacks the column '%s' of the label",
                          show(bad->no_label, strlen(bad->no_label)).text);
    if (bad->no_weight != NULL)
        reader_add_clause(text, "the header lacks the column '%s' of the weights",
                          show(bad->no_weight, strlen(bad->no_weight)).text);
    l = &bad->missing;
    if (l->n > 0)
        reader_add_clause(text,
                          "the header lacks the feature column%s %s%s, which %s; "
                          "--allow-missing reads the file without %s",
                          PLURAL_S(l->n), l->text, named_rest(l, more),
                          c->given ? "the model was trained with" : "the first file has",
                          l->n > 1 ? "them" : "it");
    return text[0] == '\0' ? 0 : err_set(e, TUG_EDATA, "%s", text);
}

static int fill_layout(struct csv *c, const struct schema *names, struct reader_layout *l,
                       struct err *e)
{
    struct misfit bad = {0};
    bool *seen = mem_zalloc(c->columns * sizeof *seen);
    l->column = mem_array(names->columns, sizeof *l->column);
    int rc = seen != NULL && l->column != NULL
                 ? place_columns(c, names, l, seen, &bad, e)
                 : err_nomem(e, "the columns of a csv file");
    if (rc == 0 && bad.unknown.n == names->columns)
        rc = nothing_fits(c, names, e);
    if (rc == 0) {
        find_missing(c, seen, &bad);
        rc = tell_misfit(c, &bad, e);
    }
    mem_free(seen);
    return rc;
}

static int make_layout(struct csv *c, struct reader_layout *l, struct schema *names,
                       struct err *e)
{
    TRY(split_header(l->header, l->header_len, c->separator, names, e));
    if (c->column == NULL) {
        int rc = decide_schema(c, names, e);
        if (rc != 0) {
            forget_schema(c);
            return rc;
        }
    }
    return fill_layout(c, names, l, e);
}

void reader_absent_columns(const struct reader *r, char text[READER_NAMES_MAX])
{
    const struct csv *c = (const void *)r;
    struct named absent = {0};
    char more[32];
    for (size_t i = 0; r->ops == &reader_csv && i < c->columns; i++)
        if (c->column[i].absent)
            name_column(&absent, c->column[i].name);
    snprintf(text, READER_NAMES_MAX, "%s%s", absent.text, named_rest(&absent, more));
}

void csv_layout_free(struct reader_layout *l)
{
    if (l == NULL)
        return;
    mem_free(l->column);
    mem_free(l->header);
    mem_free(l);
}

static int new_layout(struct csv *c, const char *line, size_t len,
                      const struct reader_layout **ret, struct err *e)
{
    struct reader_layout *l = mem_zalloc(sizeof *l);
    struct schema *names = mem_zalloc(sizeof *names);
    char *header = mem_zalloc(len + READER_PADDING);
    int rc = 0;
    if (l == NULL || names == NULL || header == NULL) {
        mem_free(header);
        rc = err_nomem(e, "the header of a csv file");
    } else {
        memcpy(header, line, len);
        l->header = header;
        l->header_len = len;
        rc = make_layout(c, l, names, e);
    }
    mem_free(names);
    if (rc != 0) {
        csv_layout_free(l);
        return rc;
    }
    l->next = c->layouts;
    c->layouts = l;
    *ret = l;
    return 0;
}

int csv_header(struct reader *r, const char *line, size_t len,
               const struct reader_layout **ret, struct err *e)
{
    struct csv *c = (void *)r;
    size_t mark = mark_len(line, len);
    line += mark;
    len -= mark;
    if (len == 0)
        return err_set(e, TUG_EDATA, "the header, a line of column names, is empty");
    for (const struct reader_layout *l = c->layouts; l != NULL; l = l->next) {
        if (l->header_len != len || memcmp(l->header, line, len) != 0)
            continue;
        *ret = l;
        return 0;
    }
    return new_layout(c, line, len, ret, e);
}
