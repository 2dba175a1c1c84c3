// The slots of multislot lines: parses their description, and compares it with a model's.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/format/reader_multislot.h"
#include "os/file.h"

// Seeds of the hashes of slots' names. The seeds differ, so that a slot of ids and a slot
// of numbers with the same name have different keys.
enum { ID_SEED = 2, NUMBER_SEED = 3 };

enum { DENSE_MAX = 1 << 20, RANGE_MAX = READER_MAX_SLOT + 1 };

#define TYPES "label, ids, ids@SLOT, keys, dense, dense[N], weight, skip"

// ---------------------------------------------------------------- the text

// One entry of the text of --slots, and the place of the entry.
struct entry {
    const char *text; // NAME:TYPE
    size_t len;
    const char *file; // NULL: the option itself
    unsigned line;
};

static int reader_multislot_slots_refuse(const struct entry *x, struct err *e,
                                         const char *fmt, ...) PRINTF_LIKE(3, 4);

static int reader_multislot_slots_refuse(const struct entry *x, struct err *e,
                                         const char *fmt, ...)
{
    char why[ERR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    if (x->file != NULL)
        return err_set(e, TUG_EUSAGE, "%s:%u: '%s': %s", x->file, x->line,
                       show(x->text, x->len).text, why);
    return err_set(e, TUG_EUSAGE, "--slots: '%s': %s", show(x->text, x->len).text, why);
}

static bool is_name_byte(char c)
{
    return (unsigned char)c > ' ' && c != 0x7f && strchr(",:@[]#", c) == NULL;
}

static size_t name_length(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && is_name_byte(text[n]))
        n++;
    return n;
}

static bool is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

// Returns the offset of "[N]", N >= 1, at the end of text[0..len); len if the text does
// not end so.
static size_t find_count(const char *text, size_t len, uint32_t *ret)
{
    const char *open = memchr(text, '[', len);
    uint64_t n = 0;
    if (open == NULL || text[len - 1] != ']' ||
        !number_u64(open + 1, (size_t)(text + len - open) - 2, &n) || n < 1 ||
        n > DENSE_MAX)
        return len;
    *ret = (uint32_t)n;
    return (size_t)(open - text);
}

// The type of a slot, which follows its name.
struct type {
    enum schema_use use;
    const char *group; // ids@group
    size_t group_len;
    uint32_t dense;
};

static int parse_type(const struct entry *x, const char *text, size_t len,
                      struct type *ret, struct err *e)
{
    static const struct {
        const char *word;
        enum schema_use use;
    } words[] = {{"label", SCHEMA_LABEL},  {"weight", SCHEMA_WEIGHT},
                 {"skip", SCHEMA_DROPPED}, {"ids", SCHEMA_IDS},
                 {"keys", SCHEMA_KEYS},    {"dense", SCHEMA_NUMBERS}};
    *ret = (struct type){.dense = 1};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        ret->use = words[i].use;
        if (is_word(text, len, words[i].word))
            return 0;
    }
    size_t word = find_count(text, len, &ret->dense);
    ret->use = SCHEMA_NUMBERS;
    if (word < len && is_word(text, word, "dense"))
        return 0;
    ret->use = SCHEMA_IDS;
    ret->group = text + 4;
    ret->group_len = len - 4;
    if (len > 4 && memcmp(text, "ids@", 4) == 0 &&
        name_length(ret->group, ret->group_len) == ret->group_len)
        return 0;
    return reader_multislot_slots_refuse(
        x, e, "there is no type '%s'; the types are " TYPES, show(text, len).text);
}

static int add_slot(struct schema *s, const struct entry *x, const char *name, size_t len,
                    const struct type *t, struct err *e)
{
    struct buf b = BUF_INIT(SCHEMA_TEXT_MAX);
    int rc = buf_add(&b, name, len);
    if (rc == 0 && t->use == SCHEMA_NUMBERS)
        rc = buf_printf(&b, "[%u]", t->dense);
    if (rc == 0 && t->group != NULL)
        rc = buf_printf(&b, "@%.*s", (int)t->group_len, t->group);
    if (rc == 0 && schema_add(s, t->use, b.data, b.len, NULL) != 0)
        rc = reader_multislot_slots_refuse(
            x, e, "the names of the slots are longer than %d bytes together",
            SCHEMA_TEXT_MAX);
    else if (rc != 0)
        rc = err_nomem(e, "the slots of the data");
    buf_free(&b);
    return rc;
}

// Parses a range PREFIX1..PREFIX26. *ret_prefix is len if the name is not a range.
static int parse_range(const struct entry *x, const char *name, size_t len,
                       size_t *ret_prefix, uint64_t *ret_first, uint64_t *ret_last,
                       struct err *e)
{
    const char *dots = memmem(name, len, "..", 2);
    *ret_prefix = len;
    if (dots == NULL)
        return 0;
    size_t first = (size_t)(dots - name), prefix = first, last = len - first - 2;
    while (prefix > 0 && name[prefix - 1] >= '0' && name[prefix - 1] <= '9')
        prefix--;
    *ret_prefix = prefix;
    if (last < prefix || memcmp(name, dots + 2, prefix) != 0 ||
        !number_u64(name + prefix, first - prefix, ret_first) ||
        !number_u64(dots + 2 + prefix, last - prefix, ret_last) ||
        *ret_last < *ret_first || *ret_last - *ret_first >= RANGE_MAX)
        return reader_multislot_slots_refuse(x, e,
                                             "a range of slots is written as c1..c26");
    return 0;
}

static int add_slots(struct schema *s, const struct entry *x, size_t name_len,
                     const struct type *t, struct err *e)
{
    uint64_t first = 0, last = 0;
    size_t prefix;
    TRY(parse_range(x, x->text, name_len, &prefix, &first, &last, e));
    if (prefix == name_len)
        return add_slot(s, x, x->text, name_len, t, e);
    // The condition is not "i <= last", because `last` may be the largest number.
    for (uint64_t i = 0; i <= last - first; i++) {
        char number[24];
        struct buf b = BUF_INIT(SCHEMA_TEXT_MAX);
        snprintf(number, sizeof number, "%llu", (unsigned long long)(first + i));
        int rc = buf_add(&b, x->text, prefix);
        if (rc == 0)
            rc = buf_add(&b, number, strlen(number));
        rc = rc == 0 ? add_slot(s, x, b.data, b.len, t, e)
                     : buf_error(&b, "the slots of the data", e);
        buf_free(&b);
        TRY(rc);
    }
    return 0;
}

static int parse_entry(struct schema *s, const struct entry *x, struct err *e)
{
    size_t name = name_length(x->text, x->len), at = name;
    while (at < x->len && is_blank(x->text[at]))
        at++;
    if (name == 0 || at == x->len || x->text[at] != ':')
        return reader_multislot_slots_refuse(
            x, e, "a slot is written as NAME:TYPE; the types are " TYPES);
    at++;
    while (at < x->len && is_blank(x->text[at]))
        at++;
    struct type t;
    TRY(parse_type(x, x->text + at, x->len - at, &t, e));
    return add_slots(s, x, name, &t, e);
}

static bool is_space(char c)
{
    return is_blank(c) || c == '\r';
}

static int parse_text(const char *p, const char *file, struct schema *ret, struct err *e)
{
    for (unsigned line = 1; *p != '\0';) {
        size_t len = strcspn(p, ",\n#");
        struct entry x = {.text = p, .len = len, .file = file, .line = line};
        while (x.len > 0 && is_space(x.text[0])) {
            x.text++;
            x.len--;
        }
        while (x.len > 0 && is_space(x.text[x.len - 1]))
            x.len--;
        if (x.len > 0)
            TRY(parse_entry(ret, &x, e));
        p += len;
        if (*p == '#')
            p += strcspn(p, "\n");
        line += *p == '\n';
        p += *p != '\0';
    }
    if (ret->columns == 0)
        return err_set(e, TUG_EUSAGE,
                       "%s%sno slot is named; slots are written as "
                       "NAME:TYPE with commas between them",
                       file != NULL ? file : "--slots", ": ");
    return 0;
}

int multislot_parse(const char *given, struct schema *ret, struct err *e)
{
    if (strchr(given, ':') != NULL && !file_exists(given))
        return parse_text(given, NULL, ret, e);
    struct buf b = BUF_INIT(4 * SCHEMA_TEXT_MAX);
    int rc = given[0] != '\0' && file_exists(given) ? file_read_text(given, &b, e) : 0;
    if (rc == 0 && b.len == 0)
        rc = err_set(
            e, TUG_EUSAGE,
            "--slots: '%s' is neither slots, such as \"label:label, user:ids\", nor a "
            "file with them",
            show(given, strlen(given)).text);
    if (rc == 0)
        rc = parse_text(buf_str(&b), given, ret, e);
    buf_free(&b);
    return rc;
}

static int put_slot(const struct schema_column *c, struct buf *to)
{
    static const char *const types[SCHEMA_USES] = {
        [SCHEMA_LABEL] = "label", [SCHEMA_WEIGHT] = "weight",
        [SCHEMA_IDS] = "ids",     [SCHEMA_NUMBERS] = "dense",
        [SCHEMA_KEYS] = "keys",   [SCHEMA_DROPPED] = "skip"};
    size_t name = name_length(c->name, strlen(c->name));
    return buf_printf(to, "%s%.*s:%s%s", to->len > 0 ? "," : "", (int)name, c->name,
                      types[c->use], c->name + name);
}

int reader_slots_text(const char *given, struct buf *to, struct err *e)
{
    struct schema *s = mem_zalloc(sizeof(*s));
    struct schema_column c;
    if (s == NULL)
        return err_nomem(e, "the slots of the data");
    int rc = multislot_parse(given, s, e);
    for (size_t at = 0; rc == 0 && schema_next(s, &at, &c);)
        if (put_slot(&c, to) != 0)
            rc = err_nomem(e, "the slots of the data");
    mem_free(s);
    return rc;
}

// ---------------------------------------------------------------- slots of a schema

static int broken(const char *column, struct err *e)
{
    return err_set(e, TUG_EDATA, "the schema has a column that is not a slot, '%s'",
                   show(column, strlen(column)).text);
}

static int take_slot(struct slots *to, const struct schema_column *c, struct err *e)
{
    size_t len = strlen(c->name), end = len;
    struct slot *s = &to->slot[to->n++];
    *s = (struct slot){.use = c->use, .column = c->name, .name = c->name};
    s->name_len = name_length(c->name, len);
    const char *group = c->name;
    size_t group_len = s->name_len;
    if (c->use == SCHEMA_NUMBERS)
        end = find_count(c->name, len, &s->dense);
    if (c->use == SCHEMA_IDS && s->name_len < len && c->name[s->name_len] == '@') {
        end = s->name_len;
        group = c->name + end + 1;
        group_len = len - end - 1;
    }
    bool whole = c->use == SCHEMA_NUMBERS ? end < len : true;
    if (s->name_len == 0 || s->name_len != end || !whole || c->use == SCHEMA_WORDS ||
        name_length(group, group_len) != group_len)
        return broken(c->name, e);
    s->seed = hash_bytes(group, group_len,
                         c->use == SCHEMA_NUMBERS ? NUMBER_SEED : ID_SEED);
    s->field = (uint16_t)(c->use == SCHEMA_LABEL ? to->labels : to->features);
    s->ids = c->use == SCHEMA_IDS || c->use == SCHEMA_KEYS;
    to->features += schema_is_feature(c->use);
    if (c->use == SCHEMA_WEIGHT && to->weight)
        return err_set(e, TUG_EUSAGE,
                       "--slots: two slots, the second one '%s', are the weight",
                       show(s->name, s->name_len).text);
    if (c->use == SCHEMA_LABEL && to->labels == LABELS_MAX)
        return err_set(e, TUG_EUSAGE, "--slots: more than %d slots are labels",
                       LABELS_MAX);
    to->labels += c->use == SCHEMA_LABEL;
    to->weight |= c->use == SCHEMA_WEIGHT;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct slot *x = *(const struct slot *const *)a;
    const struct slot *y = *(const struct slot *const *)b;
    size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
    int c = memcmp(x->name, y->name, n);
    return c != 0 ? c : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

// Returns pointers to the slots, sorted by name; NULL if there is not enough memory.
static const struct slot **sort(const struct slots *s)
{
    const struct slot **sorted = mem_array(s->n + 1, sizeof(*sorted));
    for (size_t i = 0; sorted != NULL && i < s->n; i++)
        sorted[i] = &s->slot[i];
    if (sorted != NULL)
        qsort(sorted, s->n, sizeof(*sorted), by_name);
    return sorted;
}

static const struct slot *reader_multislot_slots_find(const struct slot **sorted,
                                                      size_t n, const char *name,
                                                      size_t len)
{
    const struct slot key = {.name = name, .name_len = len}, *at = &key;
    const struct slot **hit = bsearch(&at, sorted, n, sizeof(*sorted), by_name);
    return hit != NULL ? *hit : NULL;
}

// Checks that names are unique and that groups are slots of ids.
static int check_names(const struct slots *s, const struct slot **sorted, struct err *e)
{
    for (size_t i = 1; i < s->n; i++)
        if (by_name(&sorted[i - 1], &sorted[i]) == 0)
            return err_set(e, TUG_EUSAGE, "--slots: there are two slots '%s'",
                           show(sorted[i]->name, sorted[i]->name_len).text);
    for (size_t i = 0; i < s->n; i++) {
        const struct slot *x = &s->slot[i];
        const char *group = x->column + x->name_len + 1;
        if (x->use != SCHEMA_IDS || x->column[x->name_len] == '\0')
            continue;
        const struct slot *other = reader_multislot_slots_find(sorted, s->n, group,
                                                               strlen(group));
        if (other == NULL || other->use != SCHEMA_IDS || other->seed != x->seed)
            return err_set(
                e, TUG_EUSAGE,
                "--slots: '%s' shares the ids of '%s', which is not a slot of ids "
                "of its own",
                show(x->name, x->name_len).text, show(group, strlen(group)).text);
    }
    return 0;
}

int multislot_take(const struct schema *s, struct slots *ret, struct err *e)
{
    struct schema_column c;
    ret->slot = mem_array(s->columns + 1, sizeof *ret->slot);
    if (ret->slot == NULL)
        return err_nomem(e, "the slots of the data");
    for (size_t at = 0; schema_next(s, &at, &c);)
        TRY(take_slot(ret, &c, e));
    if (ret->features == 0)
        return err_set(e, TUG_EUSAGE,
                       "--slots: no slot is a feature, of type ids, keys or dense");
    if (ret->features > READER_MAX_SLOT + 1)
        return err_set(e, TUG_EUSAGE, "--slots: %u slots are features; the limit is %d",
                       ret->features, READER_MAX_SLOT + 1);
    const struct slot **sorted = sort(ret);
    int rc = sorted != NULL ? check_names(ret, sorted, e)
                            : err_nomem(e, "the slots of the data");
    mem_free(sorted);
    return rc;
}

// ---------------------------------------------------------------- slots of a model

static void match_slot(struct slot *s, const struct slot *known, char text[ERR_TEXT_MAX])
{
    struct shown name = show(s->name, s->name_len);
    if (known == NULL || !schema_is_feature(known->use))
        reader_add_clause(
            text,
            "the model was not trained with '%s'; give it the type skip to ignore it",
            name.text);
    else if (known->use != s->use || known->seed != s->seed || known->dense != s->dense)
        reader_add_clause(text, "'%s' is of another type in the model, whose slot is %s",
                          name.text, show(known->column, strlen(known->column)).text);
    else
        s->field = known->field;
}

// Compares a label with the model's labels. A single label needs no name; several labels
// are matched by name.
static void match_label(const struct multislot *m, const struct slots *model,
                        struct slot *s, const struct slot *known, char text[ERR_TEXT_MAX])
{
    if (m->slots.labels <= 1 && model->labels <= 1)
        return;
    if (known != NULL && known->use == SCHEMA_LABEL)
        s->field = known->field;
    else
        reader_add_clause(text,
                          "the model was not trained with the label '%s'; give it the "
                          "type skip to ignore it",
                          show(s->name, s->name_len).text);
}

static void find_label(const struct multislot *m, const struct slot *label,
                       const struct slot **lines, char text[ERR_TEXT_MAX])
{
    const struct slot *s = reader_multislot_slots_find(lines, m->slots.n, label->name,
                                                       label->name_len);
    if (m->base.labels && (s == NULL || s->use != SCHEMA_LABEL))
        reader_add_clause(text, "the label '%s' of the model is missing",
                          show(label->name, label->name_len).text);
}

enum { NAMED_MISSING = 5 }; // READER_NAMES_MAX has room for this many quoted names

static void find_missing(const struct multislot *m, const struct slots *model,
                         const struct slot **lines, char text[ERR_TEXT_MAX])
{
    char names[READER_NAMES_MAX] = "", rest[32] = "";
    size_t n = 0, len = 0;
    for (size_t i = 0; i < model->n && !m->allow_missing; i++) {
        const struct slot *s = &model->slot[i];
        if (!schema_is_feature(s->use) ||
            reader_multislot_slots_find(lines, m->slots.n, s->name, s->name_len) != NULL)
            continue;
        if (n++ < NAMED_MISSING)
            len += (size_t)snprintf(names + len, sizeof names - len, "%s'%s'",
                                    n > 1 ? ", " : "", show(s->name, s->name_len).text);
    }
    if (n > NAMED_MISSING)
        snprintf(rest, sizeof rest, " and %zu more", n - NAMED_MISSING);
    if (n > 0)
        reader_add_clause(text,
                          "%s%s, which the model was trained with, %s missing; "
                          "%s%s",
                          names, rest, n > 1 ? "are" : "is",
                          m->no_options ? "give each line these slots, with no ids"
                                        : "--allow-missing reads the data without ",
                          m->no_options ? ""
                          : n > 1       ? "them"
                                        : "it");
}

int multislot_match(struct multislot *m, const struct slots *model, struct err *e)
{
    char text[ERR_TEXT_MAX] = "";
    const struct slot **of_model = sort(model), **of_lines = sort(&m->slots);
    int rc = of_model != NULL && of_lines != NULL ? 0
                                                  : err_nomem(e, "the slots of the data");
    for (size_t i = 0; rc == 0 && i < m->slots.n; i++) {
        struct slot *s = &m->slots.slot[i];
        if (schema_is_feature(s->use))
            match_slot(
                s, reader_multislot_slots_find(of_model, model->n, s->name, s->name_len),
                text);
        else if (s->use == SCHEMA_LABEL)
            match_label(
                m, model, s,
                reader_multislot_slots_find(of_model, model->n, s->name, s->name_len),
                text);
    }
    for (size_t i = 0; rc == 0 && model->labels > 1 && i < model->n; i++)
        if (model->slot[i].use == SCHEMA_LABEL)
            find_label(m, &model->slot[i], of_lines, text);
    if (rc == 0)
        find_missing(m, model, of_lines, text);
    if (text[0] != '\0')
        rc = err_set(e, TUG_EUSAGE, "--slots: %s", text);
    mem_free(of_model);
    mem_free(of_lines);
    return rc;
}
