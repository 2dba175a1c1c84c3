// The schema of csv files: decided by the first header and the options, or taken from a
// model.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/alloc.h"
#include "data/format/reader_csv.h"
#include "data/frame/rows.h"
#include "options/options.h"

// Seeds that keep words and numbers of one name apart.
enum { WORD_SEED = 0, NUMBER_SEED = 1, BIN_SEED = 3 }; // 2 is the seed of crosses

static uint64_t hash_name(const char *name, size_t len)
{
    csv_trim(&name, &len); // models of older versions have names with blanks
    return hash_bytes(name, len, WORD_SEED);
}

struct column *csv_schema_column(const struct csv *c, const char *name, size_t len)
{
    size_t at = hash_name(name, len) & c->index_mask;
    for (; c->index[at] != 0; at = (at + 1) & c->index_mask) {
        struct column *column = &c->column[c->index[at] - 1];
        if (csv_same_name(column->name, strlen(column->name), name, len))
            return column;
    }
    return NULL;
}

static void index_column(struct csv *c, size_t i)
{
    const char *name = c->column[i].name;
    size_t len = strlen(name), at = hash_name(name, len) & c->index_mask;
    if (csv_schema_column(c, name, len) != NULL)
        return; // --drop names the column twice
    while (c->index[at] != 0)
        at = (at + 1) & c->index_mask;
    c->index[at] = (uint32_t)i + 1;
}

static uint64_t seed_of(enum schema_use use, const char *name, size_t len)
{
    bool number = use == SCHEMA_NUMBERS || use == SCHEMA_LOGS;
    return hash_bytes(name, len,
                      number               ? NUMBER_SEED
                      : use == SCHEMA_BINS ? BIN_SEED
                                           : WORD_SEED);
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
    uint32_t slots = 0, labels = 0;
    struct schema_column from;
    for (size_t at = 0; schema_next(s, &at, &from); c->columns++) {
        size_t len = strlen(from.name);
        c->has_lists |= from.use == SCHEMA_LISTS;
        c->column[c->columns] = (struct column){
            .use = from.use,
            .slot = from.use == SCHEMA_LABEL ? labels++ : slots,
            .seed = seed_of(from.use, from.name, len),
            .name = from.name,
            .mark = c->decimal_comma ? DECIMAL_COMMA : DECIMAL_POINT,
        };
        slots += schema_is_feature(from.use);
        if (from.use != SCHEMA_CROSSES)
            index_column(c, c->columns);
    }
    if (slots > READER_MAX_SLOT + 1)
        return err_set(e, TUG_EDATA, "the header has %u feature columns; the limit is %d",
                       slots, READER_MAX_SLOT + 1);
    if (labels > LABELS_MAX)
        return err_set(e, TUG_EUSAGE, "--label names %u columns; the limit is %d", labels,
                       LABELS_MAX);
    c->base.n_labels = labels > 0 ? labels : 1;
    c->odd.cells = mem_zalloc((slots + 1) * sizeof *c->odd.cells);
    c->odd.commas = mem_zalloc((slots + 1) * sizeof *c->odd.commas);
    if (c->odd.cells == NULL || c->odd.commas == NULL)
        return err_nomem(e, "the columns of a csv file");
    TRY(csv_take_types(c, e));
    TRY(csv_take_crosses(c, e));
    TRY(csv_take_bins(c, e));
    atomic_store(&c->slots, slots);
    return 0;
}

void csv_forget_schema(struct csv *c)
{
    mem_free(c->column);
    mem_free(c->index);
    mem_free(c->bin);
    mem_free(c->odd.cells);
    mem_free(c->odd.commas);
    c->odd.cells = c->odd.commas = NULL;
    atomic_store(&c->odd.lines, 0);
    c->bin = NULL;
    c->binned = 0;
    c->column = NULL;
    c->index = NULL;
    c->columns = 0;
    c->base.schema->columns = c->base.schema->text_len = 0;
}

static bool reader_csv_schema_is_number(const char *text)
{
    float ignored;
    return number_parse(text, strlen(text), &ignored) == NUMBER_OK;
}

bool csv_looks_like_data(const struct schema *names)
{
    struct schema_column n;
    bool number = false, counts[2] = {true, true};
    uint32_t i = 0;
    for (size_t at = 0; schema_next(names, &at, &n); i++) {
        char count[16];
        number |= i == 0 && reader_csv_schema_is_number(n.name);
        for (uint32_t from = 0; from < 2; from++) {
            snprintf(count, sizeof count, "%u", i + from);
            counts[from] &= strcmp(n.name, count) == 0;
        }
    }
    return number && !counts[0] && !counts[1];
}

bool csv_is_listed(const char *list, const char *name)
{
    const char *listed;
    size_t len;
    while (reader_next_name(&list, &listed, &len))
        if (csv_same_name(listed, len, name, strlen(name)))
            return true;
    return false;
}

static bool has_name(const struct schema *names, const char *name, size_t len)
{
    struct schema_column n;
    for (size_t at = 0; schema_next(names, &at, &n);)
        if (csv_same_name(n.name, strlen(n.name), name, len))
            return true;
    return false;
}

void csv_name_column(struct csv_named *l, const char *name)
{
    size_t at = strlen(l->text);
    if (l->n++ < CSV_NAMED_MAX)
        snprintf(l->text + at, sizeof l->text - at, "%s'%s'", at > 0 ? ", " : "",
                 show(name, strlen(name)).text);
}

const char *csv_named_rest(const struct csv_named *l, char ret[32])
{
    ret[0] = '\0';
    if (l->n > CSV_NAMED_MAX)
        snprintf(ret, 32, " and %zu more", l->n - CSV_NAMED_MAX);
    return ret;
}

// Finds the column that `given` probably means, or "". Ignores names with spaces, and
// names that are so short that every other name is similar.
static void nearest_column(const struct schema *names, const char *given,
                           char ret[OPTION_NAME_MAX])
{
    struct buf b = BUF_INIT(2 * SCHEMA_TEXT_MAX);
    struct schema_column n;
    ret[0] = '\0';
    if (strlen(given) < 3)
        return;
    for (size_t at = 0; schema_next(names, &at, &n);)
        if (strchr(n.name, ' ') == NULL &&
            (buf_add(&b, n.name, strlen(n.name)) != 0 || buf_add(&b, " ", 1) != 0))
            break;
    if (buf_str(&b) != NULL)
        options_nearest(given, b.data, ret);
    buf_free(&b);
}

static void check_name(const struct schema *names, const char *option, const char *name,
                       size_t len, char text[ERR_TEXT_MAX])
{
    if (has_name(names, name, len))
        return;
    struct shown shown = show(name, len);
    char near[OPTION_NAME_MAX] = "";
    if (names->columns > 1)
        nearest_column(names, shown.text, near);
    if (*near == '\0' && strcmp(option, "--label") == 0 && csv_usual_label(names) != NULL)
        snprintf(near, sizeof near, "%s", csv_usual_label(names));
    const char *colon = memrchr(name, ':', len);
    bool form = *near == '\0' && colon != NULL && strcmp(option, "--numeric") == 0 &&
                has_name(names, name, (size_t)(colon - name));
    reader_add_clause(
        text, "the header has no column '%s', which %s names%s%s%s", shown.text, option,
        form    ? " (a column's name may be followed by :log, :bins or :bins:N)"
        : *near ? " (did you mean '"
                : "",
        show(near, strlen(near)).text, *near ? "'?)" : "");
}

// Returns whether the line looks like Vowpal Wabbit's text, "LABEL [...] |NAMESPACE ...".
static bool looks_like_vw(const char *line, size_t len)
{
    size_t n = 0;
    while (n < len && strchr("+-.0123456789", line[n]) != NULL && line[n] != '\0')
        n++;
    return n < len && line[n] == ' ' && memchr(line, '|', len) != NULL;
}

const char *csv_separator_hint(const struct csv *c, const char *line, size_t len)
{
    static const char other[] = "\t;|\1,";
    static const char *const hints[] = {
        "; it looks separated by tabs: --separator tab",
        "; it looks separated by semicolons: --separator ';'",
        "; it looks separated by bars: --separator '|'",
        "; it looks separated by the byte 1, as Hive's files are: --separator $'\\001'",
        "; it looks separated by commas: --separator ,",
    };
    if (c->separator != '|' && looks_like_vw(line, len))
        return "; it looks like Vowpal Wabbit's text: docs/from-xlearn-and-vw.md has a "
               "program that converts it";
    for (size_t i = 0; other[i] != '\0'; i++)
        if (other[i] != c->separator && memchr(line, other[i], len) != NULL)
            return hints[i];
    return "";
}

static const char *separator_hint(const struct csv *c, const struct schema *names)
{
    const char *only = names->text + 1;
    return names->columns == 1 ? csv_separator_hint(c, only, strlen(only)) : "";
}

// Checks that the columns named in options exist; reports all missing columns in one
// message.
static int check_names(const struct csv *c, const struct schema *names, struct err *e)
{
    char text[ERR_TEXT_MAX] = "";
    const char *list, *name, *cross;
    struct reader_numeric number;
    size_t len, cross_len, at = 0;
    for (list = c->base.labels ? c->label : NULL; reader_next_name(&list, &name, &len);)
        check_name(names, "--label", name, len, text);
    if (c->weight != NULL)
        check_name(names, "--weight-column", c->weight, strlen(c->weight), text);
    for (list = c->drop; !c->drop_elsewhere && reader_next_name(&list, &name, &len);)
        check_name(names, "--drop", name, len, text);
    for (list = c->numeric; reader_next_numeric(&list, &number);)
        check_name(names, "--numeric", number.name, number.len, text);
    for (list = c->lists; reader_next_name(&list, &name, &len);)
        check_name(names, "--lists", name, len, text);
    for (size_t i = 0; c->base.rows != NULL && i < c->base.rows->n_categorical; i++)
        check_name(names, "categorical", c->base.rows->categorical[i],
                   strlen(c->base.rows->categorical[i]), text);
    for (list = c->cross_columns; reader_next_name(&list, &cross, &cross_len);)
        for (const char *rest = cross;
             csv_next_part(&rest, cross + cross_len, &name, &len);)
            check_name(names, "--cross-columns", name, len, text);
    if (text[0] == '\0')
        return 0;
    struct csv_named there = {0};
    struct schema_column n;
    char more[32];
    while (schema_next(names, &at, &n))
        csv_name_column(&there, n.name);
    reader_add_clause(text, "it has %s%s%s%s", there.text, csv_named_rest(&there, more),
                      csv_looks_like_data(names) ? CSV_NEEDS_HEADER
                      : csv_has_number(names)    ? CSV_NAMES_COLUMNS
                                                 : "",
                      separator_hint(c, names));
    return err_set(e, TUG_EDATA, "%s", text);
}

bool csv_numeric(const struct csv *c, const char *name, struct reader_numeric *ret)
{
    const char *list = c->numeric;
    while (reader_next_numeric(&list, ret))
        if (csv_same_name(name, strlen(name), ret->name, ret->len))
            return true;
    return false;
}

// Returns in *ret_wanted whether --numeric names the column, and in *ret how its numbers
// are used. If --numeric names it more than once, the uses must agree.
static int take_numeric(const struct csv *c, const char *name, bool *ret_wanted,
                        enum schema_use *ret, struct err *e)
{
    struct reader_numeric n, other;
    const char *list = c->numeric;
    *ret_wanted = csv_numeric(c, name, &n);
    *ret = n.use;
    while (*ret_wanted && reader_next_numeric(&list, &other))
        if (csv_same_name(name, strlen(name), other.name, other.len) &&
            (other.use != n.use || (n.use == SCHEMA_BINS && other.bins != n.bins)))
            return err_set(e, TUG_EUSAGE,
                           "--numeric names '%s' in two ways: a column is its numbers, "
                           "their logarithms (:log) or their bins (:bins:N)",
                           show(name, strlen(name)).text);
    return 0;
}

// Decides the use of a column by the options; only one option may name the column.
static int decide_use(const struct csv *c, const char *name, size_t column,
                      enum schema_use *ret, struct err *e)
{
    static const char *const options[] = {"--label", "--weight-column", "--drop",
                                          "--numeric", "--lists"};
    static const char *const roles[] = {"the label", "the weight", "dropped", "numeric",
                                        "a list"};
    enum schema_use numbers = SCHEMA_NUMBERS;
    bool numeric;
    TRY(take_numeric(c, name, &numeric, &numbers, e));
    const enum schema_use uses[] = {SCHEMA_LABEL, SCHEMA_WEIGHT, SCHEMA_DROPPED, numbers,
                                    SCHEMA_LISTS};
    const bool named[] = {
        c->label != NULL ? csv_is_listed(c->label, name) : column == 0,
        c->weight != NULL &&
            csv_same_name(c->weight, strlen(c->weight), name, strlen(name)),
        csv_is_listed(c->drop, name),
        numeric,
        csv_is_listed(c->lists, name),
    };
    int use = -1;
    for (int i = 0; i < 5; i++) {
        if (!named[i])
            continue;
        if (use >= 0)
            return err_set(e, TUG_EUSAGE, "'%s' is %s%s and cannot also be %s (%s)",
                           show(name, strlen(name)).text, roles[use],
                           use == 0 && c->label == NULL
                               ? " (the first column, because no --label was given)"
                               : "",
                           roles[i], options[i]);
        use = i;
    }
    const struct rows *rows = c->base.rows;
    *ret = use >= 0       ? uses[use]
           : rows != NULL ? csv_row_use(rows, column, name)
                          : SCHEMA_WORDS;
    return 0;
}

// Adds the names of --drop that the first file lacks, because other files may have them.
static int add_dropped(const struct csv *c, const struct schema *names, struct err *e)
{
    const char *list = c->drop, *name;
    size_t len;
    while (reader_next_name(&list, &name, &len))
        if (!has_name(names, name, len))
            TRY(schema_add(c->base.schema, SCHEMA_DROPPED, name, len, e));
    return 0;
}

// Adds all labels in the order of --label, wherever their columns are; files for
// predictions may lack labels.
static int add_labels(const struct csv *c, struct err *e)
{
    const char *list = c->label, *name, *rest, *other;
    size_t len, other_len;
    while (reader_next_name(&list, &name, &len)) {
        for (rest = list; reader_next_name(&rest, &other, &other_len);)
            if (csv_same_name(other, other_len, name, len))
                return err_set(e, TUG_EUSAGE, "--label names the column '%s' twice",
                               show(name, len).text);
        csv_trim(&name, &len);
        TRY(schema_add(c->base.schema, SCHEMA_LABEL, name, len, e));
    }
    return 0;
}

static int no_features(const struct csv *c, const struct schema *names, struct err *e)
{
    char separator[8];
    const char *hint = separator_hint(c, names);
    if (c->base.rows != NULL)
        return err_set(e, TUG_EDATA, "no column could be a feature");
    if (hint[0] != '\0')
        return err_set(e, TUG_EDATA, "the header has no column that could be a feature%s",
                       hint);
    return err_set(e, TUG_EDATA,
                   "the header has no column that could be a feature: is %s its "
                   "separator? (--separator gives another)",
                   csv_separator_name(c->separator, separator));
}

int csv_decide_schema(struct csv *c, const struct schema *names, struct err *e)
{
    struct schema_column n;
    uint32_t features = 0, columns = 0;
    bool labels = c->label == NULL; // the label columns exist
    const struct rows *rows = c->base.rows;
    if (rows != NULL && rows->labels == NULL && c->label == NULL)
        return err_set(e, TUG_EUSAGE,
                       "the label is missing: name its column by --label, or give labels "
                       "beside the columns");
    TRY(check_names(c, names, e));
    TRY(csv_add_settings(c, e));
    for (size_t at = 0; schema_next(names, &at, &n); columns++) {
        enum schema_use use;
        TRY(decide_use(c, n.name, columns, &use, e));
        if (use != SCHEMA_LABEL || c->label == NULL)
            TRY(schema_add(c->base.schema, use, n.name, strlen(n.name), e));
        else if (!labels)
            TRY(add_labels(c, e));
        TRY(csv_add_type(c, columns, use, n.name, e));
        labels |= use == SCHEMA_LABEL;
        features += schema_is_feature(use);
    }
    TRY(add_dropped(c, names, e));
    if (!labels)
        TRY(add_labels(c, e));
    TRY(csv_add_crosses(c, e));
    if (features == 0)
        return no_features(c, names, e);
    if (c->label == NULL && csv_looks_like_data(names))
        return err_set(e, TUG_EDATA,
                       "the column of the label is called '%s'" CSV_NEEDS_HEADER,
                       show(names->text + 1, strlen(names->text + 1)).text);
    return csv_take_schema(c, e);
}
