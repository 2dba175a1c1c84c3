// Criteo's click logs: a label, 13 integers and 26 categories, separated by tabs. An
// empty column is a missing value.
//
// Integers become buckets, as in the solution of the challenge's winners: a value up to 2
// is its own bucket, and others have the bucket floor(log(v)^2). The text of a bucket is
// "2" or "L4", so that the two kinds differ; its key is the key of this text in its slot,
// as for a category. Tables have the buckets of the usual values and the keys of all
// buckets, so that reading needs no logarithm and no hash.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "base/search.h"
#include "data/format/reader_ops.h"

enum {
    INTEGERS = 13,
    CATEGORIES = 26,
    SLOTS = INTEGERS + CATEGORIES,
    BUCKETS = 1908, // floor(log(2^63 - 1)^2) + 1
    SMALL = 4096,   // the buckets of smaller values are in a table
    LOW_MIN =
        -5, // each value from LOW_MIN to LOW_MAX is a bucket of its own; the keys are in
            // a table
    LOW_MAX = 2,
};

struct criteo {
    struct reader base;
    uint64_t from[BUCKETS]; // the smallest value of each bucket; for an empty bucket,
                            // that of the next bucket
    uint16_t small[SMALL];
    uint64_t low[INTEGERS][LOW_MAX - LOW_MIN + 1];
    uint64_t key[INTEGERS][BUCKETS];
};

// ---------------------------------------------------------------- buckets

static uint32_t bucket_by_log(uint64_t v)
{
    double l = log((double)v);
    return (uint32_t)(l * l);
}

// Returns the smallest v in (low, 2^63) that lies in bucket k or a later bucket; 2^63 if
// there is no such v.
static uint64_t find_start(uint64_t low, uint32_t k)
{
    return search_first(low, (uint64_t)1 << 63, v, bucket_by_log(v) >= k);
}

static uint32_t bucket_of(const struct criteo *c, uint64_t v)
{
    if (v < SMALL)
        return c->small[v];
    return (uint32_t)search_first(1, BUCKETS, i, c->from[i] > v) - 1;
}

static uint64_t value_key(uint32_t slot, int64_t v)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%lld", (long long)v);
    return reader_key(slot, text, (size_t)n);
}

static uint64_t bucket_key(uint32_t slot, uint32_t bucket)
{
    char text[24];
    int n = snprintf(text, sizeof text, "L%u", bucket);
    return reader_key(slot, text, (size_t)n);
}

static void fill_tables(struct criteo *c)
{
    c->from[0] = 0;
    c->from[1] = LOW_MAX + 1;
    for (uint32_t k = 2; k < BUCKETS; k++)
        c->from[k] = find_start(c->from[k - 1], k);
    for (uint32_t v = LOW_MAX + 1; v < SMALL; v++)
        c->small[v] = (uint16_t)bucket_by_log(v);
    for (uint32_t slot = 0; slot < INTEGERS; slot++) {
        for (int v = LOW_MIN; v <= LOW_MAX; v++)
            c->low[slot][v - LOW_MIN] = value_key(slot, v);
        for (uint32_t k = 0; k < BUCKETS; k++)
            c->key[slot][k] = bucket_key(slot, k);
    }
}

static uint64_t integer_key(const struct criteo *c, uint32_t slot, int64_t v)
{
    if (v > LOW_MAX)
        return c->key[slot][bucket_of(c, (uint64_t)v)];
    return v >= LOW_MIN ? c->low[slot][v - LOW_MIN] : value_key(slot, v);
}

// ---------------------------------------------------------------- columns

static int bad_columns(const char *line, const char *end, bool labels, struct err *e)
{
    size_t columns = 1;
    for (const char *p = line; p < end; p++)
        columns += *p == '\t';
    return err_set(
        e, TUG_EDATA,
        "found %zu column%s between tabs, expected %d: %s13 integers and 26 categories",
        columns, PLURAL_S(columns), labels ? SLOTS + 1 : SLOTS,
        labels ? "the label, " : "");
}

static int bad_integer(uint32_t slot, const char *p, size_t len, struct err *e)
{
    err_set(e, TUG_EDATA, "integer column %u holds '%s', which is not a 64-bit integer",
            slot + 1, show(p, len).text);
    return reader_explain_missing(p, len, "leave the column empty", e);
}

static bool long_integer(const char *p, size_t len, int64_t *ret)
{
    bool negative = len > 0 && *p == '-';
    uint64_t v;
    if (!number_u64(p + negative, len - negative, &v) || v > INT64_MAX)
        return false;
    *ret = negative ? -(int64_t)v : (int64_t)v;
    return true;
}

// Parses an integer of up to 7 digits without a loop. Returns the tab behind the integer,
// or NULL if no tab follows or the text is not an integer.
static inline const char *integer(const char *p, const char *end, int64_t *ret)
{
    bool negative = *p == '-';
    const char *digits = p + negative;
    uint64_t w = load_word(digits);
    unsigned n = digits_count(w);
    if (n - 1 < 7 && digits[n] == '\t') {
        uint32_t v = digits_value(w, n);
        *ret = negative ? -(int64_t)v : (int64_t)v;
        return digits + n;
    }
    const char *tab = find_byte(p, end, '\t');
    return tab < end && long_integer(p, (size_t)(tab - p), ret) ? tab : NULL;
}

// Reads the columns of the first `slots` features; ends after the last tab.
struct cursor {
    const char *p, *end;
    size_t k; // number of features so far
};

static int read_integers(const struct criteo *c, struct cursor *at, struct examples *x,
                         struct err *e)
{
    const char *p = at->p;
    for (uint32_t slot = 0; slot < INTEGERS; slot++) {
        if (*p != '\t') {
            int64_t v = 0;
            const char *tab = integer(p, at->end, &v);
            if (tab == NULL) {
                tab = find_byte(p, at->end, '\t');
                at->p = NULL;
                return tab == at->end ? 0 : bad_integer(slot, p, (size_t)(tab - p), e);
            }
            x->key[at->k] = integer_key(c, slot, v);
            x->slot[at->k] = (uint16_t)slot;
            x->value[at->k++] = 1;
            p = tab;
        }
        p++;
    }
    at->p = p;
    return 0;
}

// Sets at->p to NULL if the number of columns is wrong.
static void read_categories(struct cursor *at, struct examples *x)
{
    const char *p = at->p;
    for (uint32_t slot = INTEGERS; slot < SLOTS; slot++) {
        const char *tab = find_byte(p, at->end, '\t');
        if ((tab == at->end) != (slot == SLOTS - 1)) {
            at->p = NULL;
            return;
        }
        if (tab > p) {
            x->key[at->k] = reader_key(slot, p, (size_t)(tab - p));
            x->slot[at->k] = (uint16_t)slot;
            x->value[at->k++] = 1;
        }
        p = tab + 1;
    }
}

// ---------------------------------------------------------------- the format

static bool has_label(const struct reader *r, const char *p, const char *end)
{
    if (r->labels)
        return true;
    size_t tabs = 0;
    for (; p < end; p++)
        tabs += *p == '\t';
    return tabs == SLOTS;
}

static int criteo_line(const struct reader *r, const struct reader_layout *layout,
                       const char *line, size_t len, struct examples *x, struct err *e)
{
    (void)layout;
    const struct criteo *c = (const void *)r;
    struct cursor at = {.p = line, .end = line + len, .k = x->nnz};
    struct example new = {.weight = 1};
    TRY(examples_reserve(x, SLOTS, e));
    bool label = has_label(r, line, at.end);
    if (label) {
        const char *tab = find_byte(line, at.end, '\t');
        if (tab == at.end)
            return bad_columns(line, at.end, true, e);
        TRY(reader_label(r, line, (size_t)(tab - line), new.label, e));
        at.p = tab + 1;
    }
    TRY(read_integers(c, &at, x, e));
    if (at.p != NULL)
        read_categories(&at, x);
    if (at.p == NULL)
        return bad_columns(line, at.end, label, e);
    new.nnz = at.k;
    examples_commit(x, &new);
    return 0;
}

static int criteo_open(struct reader **ret, const struct reader_options *o, struct err *e)
{
    (void)o;
    struct criteo *c = mem_zalloc(sizeof *c);
    if (c == NULL)
        return err_nomem(e, "a reader");
    fill_tables(c);
    *ret = &c->base;
    return 0;
}

static void criteo_close(struct reader *r)
{
    mem_free(r);
}

static uint32_t criteo_slots(const struct reader *r)
{
    (void)r;
    return SLOTS;
}

static int criteo_find_column(const struct reader *r, const struct reader_layout *layout,
                              const char *name, size_t len, size_t *ret, struct err *e)
{
    (void)r, (void)layout, (void)e;
    uint64_t n = 0;
    bool integer = len > 0 && *name == 'I', category = len > 0 && *name == 'C';
    *ret = READER_NO_COLUMN;
    if ((integer || category) && number_u64(name + 1, len - 1, &n) && n >= 1 &&
        n <= (integer ? INTEGERS : CATEGORIES))
        *ret = (integer ? 0 : INTEGERS) + (size_t)n - 1;
    return 0;
}

static int criteo_column(const struct reader *r, const struct reader_layout *layout,
                         const char *line, const char *end, size_t column, struct buf *to)
{
    (void)layout;
    const char *p = line;
    for (size_t skip = column + has_label(r, line, end); skip > 0 && p < end; skip--)
        p = find_byte(p, end, '\t') + 1;
    return p < end ? buf_add(to, p, (size_t)(find_byte(p, end, '\t') - p)) : 0;
}

// Finds the word of an integer: the word is the integer's bucket. The text may also be
// the bucket itself.
static int criteo_word(const struct reader *r, uint32_t slot, const char *text,
                       size_t len, struct reader_word *ret, struct err *e)
{
    const struct criteo *c = (const void *)r;
    int64_t v;
    (void)e;
    ret->text = text;
    ret->len = len;
    if (slot < INTEGERS && long_integer(text, len, &v) && v > LOW_MAX) {
        ret->text = ret->own;
        ret->len = (size_t)snprintf(ret->own, sizeof(ret->own), "L%u",
                                    bucket_of(c, (uint64_t)v));
    }
    ret->key = reader_key(slot, ret->text, ret->len);
    return 0;
}

static int criteo_slot_name(uint32_t slot, struct buf *ret)
{
    bool integer = slot < INTEGERS;
    return buf_printf(ret, "%c%u", integer ? 'I' : 'C',
                      (integer ? slot : slot - INTEGERS) + 1);
}

const struct reader_ops reader_criteo = {.name = "criteo",
                                         .open = criteo_open,
                                         .close = criteo_close,
                                         .slots = criteo_slots,
                                         .line = criteo_line,
                                         .find_column = criteo_find_column,
                                         .column = criteo_column,
                                         .word = criteo_word,
                                         .slot_name = criteo_slot_name,
                                         .columns = "I1 to I13 and C1 to C26"};
