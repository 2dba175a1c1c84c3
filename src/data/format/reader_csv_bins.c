// Bins of numbers (--numeric COLUMN:bins): the bin that contains a number is a feature,
// like a word. Edges are quantiles of the column in the first lines, so that about the
// same number of values is in each bin. They are decided once and then kept in the
// schema.
//
// Invariants:
// 1. The bin depends only on the number: equal numbers are in one bin. If a quantile falls
//    among equal numbers, the cut is moved to the nearer side of them; so there may be fewer
//    bins than were asked for.
// 2. In the lines that decide the edges no bin is empty: every edge is greater
//    than the least number.
// 3. Bin 0 has the cells without a number; bin 1 has the least numbers.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/decimal.h"
#include "data/format/grow.h"
#include "data/format/reader_csv.h"

enum { BIN_LINES = 100000, BINS_MIN = 2, EDGE_TEXT = 20 };

static const char MISSING[] = "missing"; // the name of bin 0

int csv_check_bins(const struct csv *c, struct err *e)
{
    const char *list = c->numeric;
    struct reader_numeric n;
    while (reader_next_numeric(&list, &n))
        if (n.bins < BINS_MIN || n.bins > READER_BINS_MAX)
            return err_set(e, TUG_EUSAGE, "--numeric '%s': there can be %d to %d bins",
                           show(n.name, strcspn(n.name, ",")).text, BINS_MIN,
                           READER_BINS_MAX);
    return 0;
}

// ---------------------------------------------------------------- the schema

static int reader_csv_bins_damaged(const char *what, struct err *e)
{
    return err_set(e, TUG_EDATA, "the bins of the schema are damaged: %s", what);
}

// Parses "32 0.5 1 7": the requested number of bins, followed by the edges.
static int take_edges(struct bins *b, const char *text, float *edges, struct err *e)
{
    uint64_t most;
    size_t len = strcspn(text, " ");
    *b = (struct bins){.edge = edges};
    if (!number_u64(text, len, &most) || most < BINS_MIN || most > READER_BINS_MAX)
        return reader_csv_bins_damaged("their number is missing", e);
    b->most = (uint32_t)most;
    for (const char *p = text + len; *p == ' '; p += len) {
        float *edge = &edges[b->edges];
        len = strcspn(++p, " ");
        if (number_parse(p, len, edge) != NUMBER_OK ||
            (b->edges > 0 && *edge <= edge[-1]) || ++b->edges == most)
            return reader_csv_bins_damaged("their edges do not ascend", e);
    }
    return 0;
}

// Sets *ret_columns to the number of columns that have bins, *ret_texts to the number of
// texts that list edges, and *ret_edges to a limit for the number of all edges.
static void reader_csv_bins_count(const struct schema *s, size_t *ret_columns,
                                  size_t *ret_texts, size_t *ret_edges)
{
    struct schema_column column;
    const char *text;
    *ret_columns = *ret_texts = *ret_edges = 0;
    for (size_t at = 0; schema_next(s, &at, &column);)
        *ret_columns += column.use == SCHEMA_BINS;
    for (size_t at = 0; schema_next_setting(s, SCHEMA_EDGES, &at, &text); ++*ret_texts)
        // An edge takes at least two bytes: a blank and a digit.
        *ret_edges += strlen(text) / 2 + 1;
}

static int take_all(struct csv *c, struct err *e)
{
    const char *text;
    size_t i = 0, used = 0;
    for (size_t at = 0; schema_next_setting(c->base.schema, SCHEMA_EDGES, &at, &text);
         i++) {
        TRY(take_edges(&c->bin[i], text, c->edges + used, e));
        used += c->bin[i].edges;
    }
    return 0;
}

int csv_take_bins(struct csv *c, struct err *e)
{
    size_t columns, texts, edges, i = 0;
    reader_csv_bins_count(c->base.schema, &columns, &texts, &edges);
    if (texts != columns && (texts > 0 || c->given))
        return reader_csv_bins_damaged(
            "their number is not that of the columns with bins", e);
    if (c->bin == NULL) {
        c->bin = mem_zalloc((columns + 1) * sizeof *c->bin);
        if (c->bin == NULL)
            return err_nomem(e, "the bins of numbers");
        for (size_t k = 0; k < c->columns; k++)
            if (c->column[k].use == SCHEMA_BINS)
                c->column[k].bins = &c->bin[i++];
        c->binned = columns;
    }
    mem_free(c->edges);
    c->edges = mem_array(edges + 1, sizeof *c->edges);
    return c->edges != NULL ? take_all(c, e) : err_nomem(e, "the bins of numbers");
}

// ---------------------------------------------------------------- the first lines

size_t csv_wants(const struct reader *r)
{
    const struct csv *c = (const void *)r;
    const char *list = c->numeric;
    struct reader_numeric n;
    if (c->bin != NULL) // the columns are decided
        return c->binned > 0 && c->bin[0].edge == NULL ? BIN_LINES : 0;
    while (!c->given && reader_next_numeric(&list, &n))
        if (n.use == SCHEMA_BINS)
            return BIN_LINES;
    return 0;
}

// The numbers of one column.
struct sample {
    float *value;
    size_t n, cap;
};

struct look {
    struct csv *c;
    struct sample *sample; // a sample of the numbers of each column with bins
    struct examples x;     // the example made from the line that is being read
    uint64_t lines;
    struct err bad; // error of the first line that is not an example; code 0: none
    uint64_t bad_line;
};

static int add_value(struct sample *s, float value)
{
    if (s->n == s->cap) {
        size_t cap = s->cap == 0 ? 1024 : s->cap * 2;
        if (!grow(&s->value, cap, sizeof *s->value))
            return TUG_ENOMEM;
        s->cap = cap;
    }
    s->value[s->n++] = value + 0.0f; // turns -0 into 0, because the two are written
                                     // differently
    return 0;
}

static int add_values(struct look *k)
{
    for (size_t i = 0; i < k->c->columns; i++) {
        const struct column *column = &k->c->column[i];
        for (size_t j = 0; column->use == SCHEMA_BINS && j < k->x.nnz; j++)
            if (k->x.slot[j] == column->slot)
                TRY(add_value(&k->sample[column->bins - k->c->bin], k->x.value[j]));
    }
    return 0;
}

static int look_at_line(struct look *k, const struct reader_layout *l, const char *line,
                        size_t len, struct err *e)
{
    struct err why;
    examples_clear(&k->x);
    int rc = reader_line(&k->c->base, l, line, len, &k->x, &why);
    if (rc == TUG_EDATA && k->bad.code == 0) {
        k->bad = why;
        k->bad.code = rc;
        k->bad_line = k->lines;
    }
    k->lines++;
    if (rc == 0 && add_values(k) != 0)
        return err_nomem(e, "the bins of numbers");
    return rc == 0 || rc == TUG_EDATA ? 0 : err_set(e, rc, "%s", why.text);
}

static int by_value(const void *a, const void *b)
{
    const float *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

// Returns the cut of the sorted values that is nearest to `at`: before or after all
// values that equal value[at].
static size_t cut_near(const struct sample *s, size_t at)
{
    size_t first = at, end = at;
    while (first > 0 && s->value[first - 1] == s->value[at])
        first--;
    while (end < s->n && s->value[end] == s->value[at])
        end++;
    return at - first <= end - at ? first : end;
}

// Writes the bins of a column as "32 0.5 1 7": the requested number of bins and the
// edges. Floats with nine digits are read back exactly.
static int print_edges(struct sample *s, uint32_t most, struct buf *to)
{
    size_t last = 0;
    qsort(s->value, s->n, sizeof *s->value, by_value);
    TRY(buf_printf(to, "%u", most));
    for (uint32_t i = 1; i < most; i++) {
        size_t cut = cut_near(s, (size_t)((uint64_t)i * s->n / most));
        if (cut > last && cut < s->n) {
            TRY(buf_printf(to, " %.9g", (double)s->value[cut]));
            last = cut;
        }
    }
    return 0;
}

static int no_numbers(const struct look *k, const char *column, const char *name,
                      uint64_t first, struct err *e)
{
    struct shown shown = show(column, strlen(column));
    if (k->bad.code != 0)
        return err_set(e, TUG_EDATA, "%s:%" PRIu64 ": %s", name, first + k->bad_line,
                       k->bad.text);
    return err_set(e, TUG_EDATA,
                   "%s: the bins of column '%s' (--numeric) are computed from its "
                   "numbers in the first lines, but the first %" PRIu64
                   " line%s no number there: leave out the bins, or give a file first "
                   "that begins with numbers in this column",
                   name, shown.text, k->lines, k->lines == 1 ? " has" : "s have");
}

static int add_edges(struct look *k, const char *name, uint64_t first, struct err *e)
{
    struct csv *c = k->c;
    struct buf text = BUF_INIT(READER_BINS_MAX * EDGE_TEXT);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->columns; i++) {
        const struct column *column = &c->column[i];
        struct reader_numeric n = {.bins = READER_BINS};
        if (column->use != SCHEMA_BINS)
            continue;
        struct sample *s = &k->sample[column->bins - c->bin];
        (void)csv_numeric(c, column->name, &n);
        buf_clear(&text);
        if (s->n == 0)
            rc = no_numbers(k, column->name, name, first, e);
        else if (print_edges(s, n.bins, &text) != 0)
            rc = err_nomem(e, "the bins of numbers");
        if (rc == 0)
            rc = schema_add(c->base.schema, SCHEMA_EDGES, text.data, text.len, e);
    }
    buf_free(&text);
    return rc;
}

static int look_at_lines(struct look *k, const struct reader_layout *l, const char *text,
                         size_t len, struct err *e)
{
    for (const char *p = text, *end = text + len; p < end; p++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop != NULL ? stop : end;
        TRY(look_at_line(k, l, p, (size_t)(stop - p), e));
        p = stop;
    }
    return 0;
}

int csv_decide_bins(struct reader *r, const struct reader_layout *l, const char *name,
                    const char *text, size_t len, uint64_t first, struct err *e)
{
    struct csv *c = (void *)r;
    struct look k = {.c = c, .sample = mem_zalloc((c->binned + 1) * sizeof *k.sample)};
    if (k.sample == NULL)
        return err_nomem(e, "the bins of numbers");
    c->looking = true;
    int rc = look_at_lines(&k, l, text, len, e);
    c->looking = false;
    if (rc == 0)
        rc = add_edges(&k, name, first, e);
    if (rc == 0)
        rc = csv_take_bins(c, e);
    for (size_t i = 0; i < c->binned; i++)
        mem_free(k.sample[i].value);
    mem_free(k.sample);
    examples_free(&k.x);
    return rc;
}

// ---------------------------------------------------------------- cells

// Returns the number of edges that are at most v.
static uint32_t find_bin(const struct bins *b, float v)
{
    uint32_t at = 0;
    for (uint32_t n = b->edges; n > 0;) {
        uint32_t half = n / 2;
        bool above = b->edge[at + half] <= v;
        at += above ? half + 1 : 0;
        n = above ? n - half - 1 : half;
    }
    return at;
}

static uint64_t bin_key(const struct column *column, uint32_t bin)
{
    return mix64(column->seed + bin);
}

int csv_bin_key(const struct csv *c, const struct column *column, const struct field *f,
                uint64_t *ret, struct err *e)
{
    float v;
    *ret = bin_key(column, 0);
    if (csv_is_empty(c, f->text, f->len))
        return 0;
    if (csv_number("value", column, f, &v, e) != 0)
        return csv_explain_missing(c, f, e);
    *ret = bin_key(column, 1 + find_bin(column->bins, v));
    return 0;
}

// Writes the name of a bin: "[0.5,7)", "<0.5" or ">=7".
static size_t bin_name(const struct bins *b, uint32_t bin, char *ret, size_t cap)
{
    char from[DECIMAL_MAX] = "", to[DECIMAL_MAX] = "";
    if (bin > 1 && b->edges > 0)
        decimal_print(b->edge[bin - 2], from);
    if (bin > 0 && bin <= b->edges)
        decimal_print(b->edge[bin - 1], to);
    int n;
    if (bin == 0)
        n = snprintf(ret, cap, "%s", MISSING);
    else if (b->edges == 0)
        n = snprintf(ret, cap, "any");
    else if (bin == 1)
        n = snprintf(ret, cap, "<%s", to);
    else if (bin <= b->edges)
        n = snprintf(ret, cap, "[%s,%s)", from, to);
    else
        n = snprintf(ret, cap, ">=%s", from);
    return n > 0 && (size_t)n < cap ? (size_t)n : 0;
}

static bool find_name(const struct bins *b, const char *text, size_t len, uint32_t *ret)
{
    char name[sizeof((struct reader_word *)0)->own];
    for (*ret = 0; *ret <= b->edges + 1; ++*ret)
        if (bin_name(b, *ret, name, sizeof name) == len && memcmp(name, text, len) == 0)
            return true;
    return false;
}

int csv_bin_word(const struct csv *c, const struct column *column,
                 struct reader_word *word, struct err *e)
{
    const struct field f = {.text = word->text, .len = word->len};
    uint32_t bin = 0;
    float v;
    struct err none;
    if (csv_is_empty(c, f.text, f.len))
        bin = 0;
    else if (csv_number("value", column, &f, &v, &none) == 0)
        bin = 1 + find_bin(column->bins, v);
    else if (!find_name(column->bins, f.text, f.len, &bin))
        return err_set(e, TUG_EDATA, "'%s' is neither a number nor a bin of column '%s'",
                       show(f.text, f.len).text,
                       show(column->name, strlen(column->name)).text);
    word->len = bin_name(column->bins, bin, word->own, sizeof word->own);
    word->text = word->own;
    word->key = bin_key(column, bin);
    return 0;
}
