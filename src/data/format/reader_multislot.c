// MultiSlot text, as read by Paddle's data feeds: for each slot, in the order of the
// schema, "count value value ...". An example with three slots is "1 1 3 5 0 5 0".
//
// Every slot of ids or numbers is a field. The key of an id is made of the id and the
// name of its slot (or of the slot whose ids it shares), so that 7 in one slot
// differs from 7 in another; in slots of type keys, the number is the key. In a dense
// slot, the key is made of the place, and the number is the value. Unlike Paddle's
// readers, this one accepts 0 as an id and slots without values, and ignores the
// content of slots of type skip.
//
// A line of n bytes has at most n / 2 + 1 features. So room is reserved once per line,
// and no count in the line decides its size.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/format/reader_multislot.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/plural.h"

// ---------------------------------------------------------------- opening

static void slots_free(struct slots *s)
{
    mem_free(s->slot);
    *s = (struct slots){0};
}

static void multislot_close(struct reader *r)
{
    struct multislot *m = (void *)r;
    slots_free(&m->slots);
    mem_free(m->schema);
    mem_free(m->text);
    mem_free(m);
}

static int multislot_open(struct reader **ret, const struct reader_options *o,
                          struct err *e)
{
    struct multislot *m = mem_zalloc(sizeof *m);
    if (m == NULL)
        return err_nomem(e, "a reader");
    m->allow_missing = o->allow_missing;
    m->no_options = o->no_options;
    m->text = o->slots != NULL ? mem_strdup(o->slots) : NULL;
    if (o->slots != NULL && m->text == NULL) {
        multislot_close(&m->base);
        return err_nomem(e, "a reader");
    }
    *ret = &m->base;
    return 0;
}

// Prepares for lines whose slots have another order than the model's slots, or lack some
// slots of the model.
static int adopt_others(struct multislot *m, struct slots *model, struct err *e)
{
    m->schema = mem_zalloc(sizeof *m->schema);
    if (m->schema == NULL)
        return err_nomem(e, "the slots of the data");
    TRY(multislot_take(m->base.schema, model, e));
    TRY(multislot_parse(m->text, m->schema, e));
    TRY(multislot_take(m->schema, &m->slots, e));
    m->fields = model->features;
    return multislot_match(m, model, e);
}

static int adopt_own(struct multislot *m, struct err *e)
{
    struct schema *s = m->base.schema;
    if (s->columns == 0 && m->text == NULL)
        return err_set(
            e, TUG_EUSAGE,
            "multislot data needs --slots, the names and types of the slots in a line, "
            "such as \"label:label, user:ids, price:dense[3]\"");
    if (s->columns == 0)
        TRY(multislot_parse(m->text, s, e));
    TRY(multislot_take(s, &m->slots, e));
    m->fields = m->slots.features;
    return 0;
}

static int multislot_adopt(struct reader *r, struct err *e)
{
    struct multislot *m = (void *)r;
    struct slots model = {0};
    bool others = r->schema->columns > 0 && m->text != NULL;
    int rc = others ? adopt_others(m, &model, e) : adopt_own(m, e);
    uint32_t labels = others ? model.labels : m->slots.labels;
    slots_free(&model);
    TRY(rc);
    r->n_labels = labels > 0 ? labels : 1;
    if (r->labels && m->slots.labels == 0)
        return err_set(e, TUG_EUSAGE, "--slots: no slot is the label");
    uint32_t next = 0;
    m->in_order = true;
    for (size_t i = 0; i < m->slots.n; i++) {
        const struct slot *s = &m->slots.slot[i];
        if (!schema_is_feature(s->use))
            continue;
        m->in_order &= s->field >= next;
        next = s->field + 1u;
    }
    return 0;
}

static uint32_t multislot_slots(const struct reader *r)
{
    return ((const struct multislot *)(const void *)r)->fields;
}

// ---------------------------------------------------------------- values

static inline const char *skip_blanks(const char *p)
{
    while (is_blank(*p))
        p++;
    return p;
}

// Returns whether a byte ends a value; the code that reads the next value checks the
// byte.
static inline bool stops(char c)
{
    return (unsigned char)c <= ' ';
}

// Returns the end of a token. Any control character ends a token; the code that reads the
// next token refuses such a character.
static const char *token_end(const char *p, const char *end)
{
    while (p < end && !stops(*p))
        p++;
    return p;
}

// Reads an integer; returns the place after it, or NULL if there is no integer. Integers
// of up to seven digits are frequent, and are read without a loop.
static inline const char *whole(const char *p, uint64_t *ret)
{
    uint64_t w = load_word(p);
    unsigned digits = digits_count(w);
    if (__builtin_expect(digits - 1 <= 6 && stops(p[digits]), 1)) {
        *ret = digits_value(w, digits);
        return p + digits;
    }
    p = number_whole(p, ret);
    return p != NULL && stops(*p) ? p : NULL;
}

// Reads a negative integer. Hashes are often written as signed numbers: the 64 bits are
// the same.
static const char *negative(const char *p, uint64_t *ret)
{
    if (*p != '-')
        return NULL;
    p = whole(p + 1, ret);
    if (p == NULL || *ret > (uint64_t)1 << 63)
        return NULL;
    *ret = 0 - *ret;
    return p;
}

static inline const char *reader_multislot_number(const char *p, const char *end,
                                                  float *ret)
{
    const char *stop = number_short(p, ret);
    if (stop != NULL && stops(*stop))
        return stop;
    stop = token_end(p, end);
    return number_parse(p, (size_t)(stop - p), ret) == NUMBER_OK ? stop : NULL;
}

// ---------------------------------------------------------------- messages

// Returns the end of the text at p, for messages.
static const char *word_end(const char *p, const char *end)
{
    while (p < end && !is_blank(*p))
        p++;
    return p;
}

static struct shown name_of(const struct slot *s)
{
    return show(s->name, s->name_len);
}

static int bad_count(const struct slot *s, const char *p, const char *end, struct err *e)
{
    size_t len = (size_t)(word_end(p, end) - p);
    if (len == 0)
        return err_set(e, TUG_EDATA, "the line ends before slot '%s'", name_of(s).text);
    return err_set(e, TUG_EDATA,
                   "slot '%s' begins with '%s', not with the number of its values: the "
                   "count of this slot or of an earlier one does not fit the line",
                   name_of(s).text, show(p, len).text);
}

static int wrong_count(const struct slot *s, uint64_t n, uint64_t wanted, struct err *e)
{
    const char *what = s->use == SCHEMA_LABEL    ? "the label"
                       : s->use == SCHEMA_WEIGHT ? "the weight"
                                                 : "dense";
    return err_set(e, TUG_EDATA,
                   "slot '%s', %s, has %" PRIu64 " value%s; it must have %" PRIu64,
                   name_of(s).text, what, n, PLURAL_S(n), wanted);
}

// Reports that value number i of the n values of a slot is missing or invalid.
static int bad_value(const struct slot *s, uint64_t i, uint64_t n, const char *p,
                     const char *end, struct err *e)
{
    size_t len = (size_t)(word_end(p, end) - p);
    char where[80];
    float waste;
    if (len == 0)
        return err_set(e, TUG_EDATA,
                       "slot '%s' should have %" PRIu64
                       " value%s, and the line ends after "
                       "%" PRIu64,
                       name_of(s).text, n, PLURAL_S(n), i);
    if (s->use == SCHEMA_IDS || s->use == SCHEMA_KEYS)
        return err_set(e, TUG_EDATA,
                       "'%s' in slot '%s' is not an id, a whole number of 64 bits",
                       show(p, len).text, name_of(s).text);
    if (s->use == SCHEMA_DROPPED)
        return err_set(e, TUG_EDATA, "'%s' in slot '%s' is not text", show(p, len).text,
                       name_of(s).text);
    snprintf(where, sizeof where, " in slot '%s'", name_of(s).text);
    (void)reader_bad_number(number_parse(p, len, &waste), "value", p, len, where, e);
    return reader_explain_missing(p, len, "give the slot the count 0", e);
}

static int too_long(const struct multislot *m, const char *p, const char *end,
                    struct err *e)
{
    return err_set(e, TUG_EDATA,
                   "'%s' follows the last slot, '%s': a count in the line is too low, "
                   "or --slots lacks a slot",
                   show(p, (size_t)(word_end(p, end) - p)).text,
                   name_of(&m->slots.slot[m->slots.n - 1]).text);
}

// ---------------------------------------------------------------- lines

// The line that is being read.
struct slot_line {
    const struct multislot *m;
    const char *p, *end;
    struct examples *x;
    struct example new;
};

static int take_ids(struct slot_line *l, const struct slot *s, uint64_t n, struct err *e)
{
    size_t k = l->new.nnz;
    const char *p = l->p;
    bool raw = s->use == SCHEMA_KEYS;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t id;
        p = skip_blanks(p);
        const char *stop = whole(p, &id);
        if (stop == NULL && (stop = negative(p, &id)) == NULL)
            return bad_value(s, i, n, p, l->end, e);
        l->x->key[k] = raw ? id : mix64(id ^ s->seed);
        l->x->slot[k] = s->field;
        l->x->value[k++] = 1;
        p = stop;
    }
    l->p = p;
    l->new.nnz = k;
    return 0;
}

static int take_numbers(struct slot_line *l, const struct slot *s, uint64_t n,
                        struct err *e)
{
    size_t k = l->new.nnz;
    if (n != s->dense && n != 0)
        return wrong_count(s, n, s->dense, e);
    for (uint64_t i = 0; i < n; i++, k++) {
        const char *p = skip_blanks(l->p);
        l->p = reader_multislot_number(p, l->end, &l->x->value[k]);
        if (l->p == NULL)
            return bad_value(s, i, n, p, l->end, e);
        l->x->key[k] = mix64(s->seed + i);
        l->x->slot[k] = s->field;
        l->new.has_values |= l->x->value[k] != 1;
    }
    l->new.nnz = k;
    return 0;
}

static int take_label(struct slot_line *l, const struct slot *s, uint64_t n,
                      struct err *e)
{
    const struct reader *r = &l->m->base;
    float *label = &l->new.label[s->field];
    if (n == 0 && (!r->labels || r->n_labels > 1)) {
        *label = r->labels ? (float)NAN : 0;
        return 0;
    }
    if (n != 1)
        return wrong_count(s, n, 1, e);
    const char *p = skip_blanks(l->p);
    l->p = token_end(p, l->end);
    if (p == l->p)
        return bad_value(s, 0, 1, p, l->end, e);
    int rc = reader_label(r, p, (size_t)(l->p - p), label, e);
    return rc == 0 || r->n_labels == 1 ? rc : err_wrap(e, "slot '%s'", name_of(s).text);
}

static int take_weight(struct slot_line *l, const struct slot *s, uint64_t n,
                       struct err *e)
{
    float weight;
    if (n != 1)
        return wrong_count(s, n, 1, e);
    const char *p = skip_blanks(l->p);
    l->p = reader_multislot_number(p, l->end, &weight);
    if (l->p == NULL)
        return bad_value(s, 0, 1, p, l->end, e);
    if (weight < 0)
        return err_set(e, TUG_EDATA, "weight '%s' in slot '%s' is negative",
                       show(p, (size_t)(l->p - p)).text, name_of(s).text);
    if (l->m->base.labels)
        l->new.weight = weight;
    return 0;
}

static int pass_over(struct slot_line *l, const struct slot *s, uint64_t n, struct err *e)
{
    for (uint64_t i = 0; i < n; i++) {
        const char *p = skip_blanks(l->p);
        l->p = token_end(p, l->end);
        if (l->p == p)
            return bad_value(s, i, n, p, l->end, e);
    }
    return 0;
}

// Reads slots of the usual form " 1 ID" or " 0" from slot i on; returns the first slot of
// another form. The id three bytes ahead is read before the bytes in front of it are
// checked; so only the digits of an id delay the next slot. Variables that change from
// slot to slot stay in registers.
static size_t take_usual(struct slot_line *l, size_t i)
{
    const struct slots *slots = &l->m->slots;
    const char *p = l->p;
    size_t k = l->new.nnz;
    uint64_t *restrict key = l->x->key;
    uint16_t *restrict field = l->x->slot;
    float *restrict value = l->x->value;
    for (; i < slots->n && slots->slot[i].ids; i++) {
        const struct slot *s = &slots->slot[i];
        if (!is_blank(p[0]) || !is_blank(p[2]))
            break;
        if (p[1] == '0') {
            p += 2;
            continue;
        }
        uint64_t id;
        const char *stop = p[1] == '1' ? whole(p + 3, &id) : NULL;
        if (stop == NULL)
            break;
        key[k] = s->use == SCHEMA_KEYS ? id : mix64(id ^ s->seed);
        field[k] = s->field;
        value[k++] = 1;
        p = stop;
    }
    l->p = p;
    l->new.nnz = k;
    return i;
}

static int take_slot(struct slot_line *l, const struct slot *s, struct err *e)
{
    uint64_t n;
    const char *p = skip_blanks(l->p);
    l->p = whole(p, &n);
    if (l->p == NULL)
        return bad_count(s, p, l->end, e);
    switch (s->use) {
    case SCHEMA_IDS:
    case SCHEMA_KEYS:
        return take_ids(l, s, n, e);
    case SCHEMA_NUMBERS:
        return take_numbers(l, s, n, e);
    case SCHEMA_LABEL:
        return take_label(l, s, n, e);
    case SCHEMA_WEIGHT:
        return take_weight(l, s, n, e);
    default:
        return pass_over(l, s, n, e);
    }
}

// Sorts features by field. Uses the space after the features for the start of each field
// and for a copy of all features.
static void order_features(struct examples *x, const struct example *new, size_t fields)
{
    size_t first = x->nnz, n = new->nnz - first, at = 0;
    uint64_t *next = x->key + new->nnz;
    memset(next, 0, fields * sizeof *next);
    for (size_t i = first; i < new->nnz; i++)
        next[x->slot[i]]++;
    for (size_t f = 0; f < fields; f++) {
        size_t count = next[f];
        next[f] = at;
        at += count;
    }
    size_t to = new->nnz + fields;
    for (size_t i = first; i < new->nnz; i++) {
        size_t k = to + next[x->slot[i]]++;
        x->key[k] = x->key[i];
        x->slot[k] = x->slot[i];
        x->value[k] = x->value[i];
    }
    memcpy(x->key + first, x->key + to, n * sizeof *x->key);
    memcpy(x->slot + first, x->slot + to, n * sizeof *x->slot);
    memcpy(x->value + first, x->value + to, n * sizeof *x->value);
}

static int multislot_line(const struct reader *r, const struct reader_layout *layout,
                          const char *p, size_t len, struct examples *x, struct err *e)
{
    (void)layout;
    const struct multislot *m = (const void *)r;
    struct slot_line l = {
        .m = m, .end = p + len, .x = x, .new = {.weight = 1, .nnz = x->nnz}};
    size_t most = len / 2 + 1;
    l.p = skip_blanks(p);
    if (l.p == l.end)
        return err_set(e, TUG_EDATA, "the line is blank, and an example has %zu slot%s",
                       m->slots.n, PLURAL_S(m->slots.n));
    TRY(examples_reserve(x, m->in_order ? most : 2 * most + m->fields, e));
    for (size_t i = take_usual(&l, 0); i < m->slots.n; i = take_usual(&l, i + 1))
        TRY(take_slot(&l, &m->slots.slot[i], e));
    l.p = skip_blanks(l.p);
    if (l.p != l.end)
        return too_long(m, l.p, l.end, e);
    TRY(reader_check_labels(r, &l.new, e));
    if (!m->in_order)
        order_features(x, &l.new, m->fields);
    examples_commit(x, &l.new);
    return 0;
}

// ---------------------------------------------------------------- columns

// Finds a slot as a column. Slots of type skip are also found, because an instance id may
// be printed beside a prediction.
static int multislot_find_column(const struct reader *r,
                                 const struct reader_layout *layout, const char *name,
                                 size_t len, size_t *ret, struct err *e)
{
    (void)layout, (void)e;
    const struct multislot *m = (const void *)r;
    *ret = READER_NO_COLUMN;
    for (size_t i = 0; i < m->slots.n; i++) {
        const struct slot *s = &m->slots.slot[i];
        if (s->name_len == len && memcmp(s->name, name, len) == 0)
            *ret = i;
    }
    return 0;
}

// Appends a slot's values. The line was read before, so its counts are valid.
static int multislot_column(const struct reader *r, const struct reader_layout *layout,
                            const char *p, const char *end, size_t column, struct buf *to)
{
    (void)r, (void)layout;
    for (size_t i = 0; i <= column; i++) {
        uint64_t n;
        p = whole(skip_blanks(p), &n);
        for (uint64_t k = 0; p != NULL && k < n; k++) {
            const char *value = skip_blanks(p);
            p = token_end(value, end);
            if (i < column)
                continue;
            if (k > 0)
                TRY(buf_add(to, "|", 1));
            TRY(buf_add(to, value, (size_t)(p - value)));
        }
        if (p == NULL)
            break;
    }
    return 0;
}

// Gets the key of a word. In a slot of numbers, each place is a feature, and the words
// are the places from 0.
static int multislot_word(const struct reader *r, uint32_t field, const char *text,
                          size_t len, struct reader_word *ret, struct err *e)
{
    const struct multislot *m = (const void *)r;
    for (size_t i = 0; i < m->slots.n; i++) {
        const struct slot *s = &m->slots.slot[i];
        uint64_t id;
        if (!schema_is_feature(s->use) || s->field != field)
            continue;
        bool negative = len > 0 && *text == '-';
        if (!number_u64(text + negative, len - negative, &id) ||
            (!s->ids && (negative || id >= s->dense)))
            return err_set(e, TUG_EDATA, "slot '%s' has no %s '%s'", name_of(s).text,
                           s->ids ? "id" : "place", show(text, len).text);
        id = negative ? 0 - id : id;
        ret->text = text;
        ret->len = len;
        ret->number = !s->ids;
        ret->key = s->use == SCHEMA_KEYS ? id
                   : s->ids              ? mix64(id ^ s->seed)
                                         : mix64(s->seed + id);
        return 0;
    }
    return err_set(e, TUG_EDATA, "the data has no feature slot %u", field);
}

const struct reader_ops reader_multislot = {.name = "multislot",
                                            .every_line = true,
                                            .open = multislot_open,
                                            .adopt = multislot_adopt,
                                            .close = multislot_close,
                                            .slots = multislot_slots,
                                            .find_column = multislot_find_column,
                                            .column = multislot_column,
                                            .word = multislot_word,
                                            .columns = "the slots' names",
                                            .line = multislot_line};
