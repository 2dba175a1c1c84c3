// Crosses of csv columns: a pair or triple of columns has a slot of its own for the
// combinations of words that a line has in them. In the schema, crosses follow the
// columns, so that an example's other features are already sorted by slot when its
// crosses are computed.
//
// The key of a cross is the hash of its words' keys, with the hash of its name as the
// seed: the names of its columns, joined by '*'.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/alloc.h"
#include "base/search.h"
#include "data/format/reader_csv.h"

enum { CROSS_SEED = 2 }; // differs from the seeds of words and numbers
// The most combinations of a cross in one line; more indicate an error in the data.
enum { WORDS_MAX = 1024 };

// ---------------------------------------------------------------- the schema

int csv_add_crosses(struct csv *c, struct err *e)
{
    const char *list = c->cross_columns, *name;
    size_t len;
    while (reader_next_name(&list, &name, &len))
        TRY(schema_add(c->base.schema, SCHEMA_CROSSES, name, len, e));
    return 0;
}

bool csv_next_part(const char **name, const char *end, const char **ret, size_t *ret_len)
{
    if (*name == NULL)
        return false;
    const char *star = memchr(*name, '*', (size_t)(end - *name));
    *ret = *name;
    *ret_len = (size_t)((star != NULL ? star : end) - *name);
    *name = star != NULL ? star + 1 : NULL;
    return true;
}

static bool has_words(const struct column *column)
{
    return column->use == SCHEMA_WORDS || column->use == SCHEMA_LISTS;
}

static int bad_cross(const char *cross, const char *why, struct err *e)
{
    return err_set(e, TUG_EUSAGE, "--cross-columns: '%s' %s",
                   show(cross, strlen(cross)).text, why);
}

static int bad_part(const char *cross, const char *name, size_t len, struct err *e)
{
    char why[160];
    snprintf(why, sizeof why, "is made of '%s', which is not a feature column of words",
             show(name, len).text);
    return bad_cross(cross, why, e);
}

static int take_parts(const struct csv *c, struct cross *to, struct err *e)
{
    const char *cross = to->column->name, *rest = cross, *name;
    size_t len;
    while (csv_next_part(&rest, cross + strlen(cross), &name, &len)) {
        if (to->parts == CSV_CROSS_PARTS)
            return bad_cross(cross, "is more than three columns", e);
        const struct column *part = csv_schema_column(c, name, len);
        if (part == NULL || !has_words(part))
            return bad_part(cross, name, len, e);
        for (size_t i = 0; i < to->parts; i++)
            if (to->part[i] == part)
                return bad_cross(cross, "names a column twice", e);
        to->part[to->parts++] = part;
    }
    return to->parts > 1 ? 0
                         : bad_cross(cross,
                                     "is one column: a cross has '*' between two "
                                     "or three",
                                     e);
}

static int take_cross(struct csv *c, struct column *column, struct err *e)
{
    struct cross *to = &c->cross[c->crosses];
    size_t len = strlen(column->name);
    *to = (struct cross){.column = column};
    for (size_t i = 0; i < c->crosses; i++)
        if (strcmp(c->cross[i].column->name, column->name) == 0)
            return bad_cross(column->name, "is named twice", e);
    column->seed = hash_bytes(column->name, len, CROSS_SEED);
    c->crosses++;
    TRY(take_parts(c, to, e));
    return csv_schema_column(c, column->name, len) == NULL
               ? 0
               : bad_cross(column->name, "is the name of a column, too", e);
}

int csv_take_crosses(struct csv *c, struct err *e)
{
    size_t n = 0;
    for (size_t i = 0; i < c->columns; i++)
        n += c->column[i].use == SCHEMA_CROSSES;
    mem_free(c->cross);
    c->crosses = 0;
    c->cross = mem_array(n + 1, sizeof *c->cross);
    if (c->cross == NULL)
        return err_nomem(e, "the columns of a csv file");
    for (size_t i = 0; i < c->columns; i++) {
        if (c->column[i].use == SCHEMA_CROSSES)
            TRY(take_cross(c, &c->column[i], e));
        else if (c->crosses > 0 && schema_is_feature(c->column[i].use))
            return err_set(e, TUG_EDATA, "the schema has a column behind its crosses");
    }
    return 0;
}

// ---------------------------------------------------------------- combinations

// The number of words of each part; the word of the last part changes fastest.
struct combinations {
    size_t parts, n[CSV_CROSS_PARTS];
};

static size_t count_all(const struct combinations *k)
{
    size_t all = 1;
    for (size_t p = 0; p < k->parts && all <= WORDS_MAX; p++)
        all *= k->n[p]; // stays below 2^42, because a line is shorter than 2^32
    for (size_t p = 0; p < k->parts; p++)
        all = k->n[p] == 0 ? 0 : all;
    return all;
}

// Gets the index of each part's word in combination i.
static void pick(const struct combinations *k, size_t i, size_t ret[CSV_CROSS_PARTS])
{
    for (size_t p = k->parts; p-- > 0; i /= k->n[p])
        ret[p] = i % k->n[p];
}

static uint64_t cross_key(const struct cross *k, const uint64_t *keys)
{
    return hash_bytes(keys, k->parts * sizeof *keys, k->column->seed);
}

// ---------------------------------------------------------------- lines

// Returns the first feature in [begin, end) whose slot is not below `slot`.
static size_t find_slot(const struct examples *x, size_t begin, size_t end, uint32_t slot)
{
    return search_first(begin, end, i, x->slot[i] >= slot);
}

static int cross_features(const struct cross *k, struct examples *x, size_t end,
                          struct example *new, struct err *e)
{
    struct combinations all = {.parts = k->parts};
    size_t first[CSV_CROSS_PARTS], at[CSV_CROSS_PARTS];
    for (size_t p = 0; p < k->parts; p++) {
        first[p] = find_slot(x, x->nnz, end, k->part[p]->slot);
        all.n[p] = find_slot(x, first[p], end, k->part[p]->slot + 1) - first[p];
    }
    size_t n = count_all(&all);
    if (n > WORDS_MAX)
        return err_set(e, TUG_EDATA,
                       "the line has more than %d combinations of the words of '%s'",
                       WORDS_MAX, show(k->column->name, strlen(k->column->name)).text);
    TRY(examples_reserve(x, new->nnz - x->nnz + n, e));
    for (size_t i = 0; i < n; i++, new->nnz++) {
        uint64_t keys[CSV_CROSS_PARTS];
        pick(&all, i, at);
        for (size_t p = 0; p < k->parts; p++)
            keys[p] = x->key[first[p] + at[p]];
        x->key[new->nnz] = cross_key(k, keys);
        x->value[new->nnz] = 1;
        x->slot[new->nnz] = (uint16_t)k->column->slot;
    }
    return 0;
}

int csv_cross_line(const struct csv *c, struct examples *x, struct example *new,
                   struct err *e)
{
    size_t end = new->nnz;
    for (size_t i = 0; i < c->crosses; i++)
        TRY(cross_features(&c->cross[i], x, end, new, e));
    return 0;
}

// ---------------------------------------------------------------- words

// Computes the key of "a*b"; returns false if the number of words differs from the number
// of columns, or a part is not a word.
bool csv_cross_word(const struct csv *c, const struct column *column, const char *text,
                    size_t len, uint64_t *ret)
{
    const struct cross *k = c->cross;
    char own[CELL_OWN];
    uint64_t keys[CSV_CROSS_PARTS];
    const char *word;
    size_t n = 0, word_len;
    while (k->column != column)
        k++;
    for (const char *rest = text; csv_next_part(&rest, text + len, &word, &word_len);
         n++) {
        if (n == k->parts || csv_is_empty(c, word, word_len))
            return false;
        word = csv_fold(k->part[n], word, &word_len, own);
        keys[n] = hash_bytes(word, word_len, k->part[n]->seed);
    }
    *ret = n == k->parts ? cross_key(k, keys) : 0;
    return n == k->parts;
}

// The words in a part's cell, without words that contain a separator of the cross,
// because such words could not be found again in the text of the cross.
struct words {
    struct buf text; // the words, each followed by a NUL
    size_t n;
};

static int add_word(const struct csv *c, struct words *to, const char *word, size_t len)
{
    if (csv_is_empty(c, word, len) || memchr(word, '*', len) != NULL ||
        memchr(word, c->base.between, len) != NULL)
        return 0;
    to->n++;
    TRY(buf_add(&to->text, word, len));
    return buf_add(&to->text, "", 1);
}

static int fill_cell(const struct csv *c, enum schema_use use, const struct field *f,
                     struct words *to)
{
    char *text = mem_alloc(f->len + 1);
    if (text == NULL)
        return TUG_ENOMEM;
    const char *p = text, *end = text + csv_unquote(f, text);
    int rc = 0;
    for (; rc == 0 && p <= end; p++) {
        const char *stop = use == SCHEMA_LISTS
                               ? memchr(p, c->base.between, (size_t)(end - p))
                               : NULL;
        stop = stop != NULL ? stop : end;
        rc = add_word(c, to, p, (size_t)(stop - p));
        p = stop;
    }
    mem_free(text);
    return rc;
}

static const char *nth_word(const struct words *cell, size_t n)
{
    const char *word = cell->text.data;
    while (n-- > 0)
        word += strlen(word) + 1;
    return word;
}

static int print_all(const struct csv *c, const struct words *cells,
                     const struct combinations *k, struct buf *to)
{
    size_t at[CSV_CROSS_PARTS], n = count_all(k);
    for (size_t i = 0; i < n && n <= WORDS_MAX; i++) {
        if (i > 0)
            TRY(buf_add(to, &c->base.between, 1));
        pick(k, i, at);
        for (size_t p = 0; p < k->parts; p++)
            TRY(buf_printf(to, "%s%s", p > 0 ? "*" : "", nth_word(&cells[p], at[p])));
    }
    return 0;
}

int csv_cross_text(const struct csv *c, const struct reader_layout *l, size_t cross,
                   const char *line, const char *end, struct buf *to)
{
    const struct cross *k = &c->cross[cross];
    struct combinations all = {.parts = k->parts};
    struct words cells[CSV_CROSS_PARTS];
    int rc = 0;
    for (size_t p = 0; p < CSV_CROSS_PARTS; p++)
        cells[p] = (struct words){.text = BUF_INIT(1 << 30)};
    for (size_t i = 0; rc == 0 && i < l->columns && line != NULL && line <= end; i++) {
        struct field f;
        line = csv_next_field(line, end, c->separator, csv_quote(c), &f, NULL);
        for (size_t p = 0; rc == 0 && line != NULL && p < k->parts; p++)
            if (l->column[i].name == k->part[p]->name)
                rc = fill_cell(c, k->part[p]->use, &f, &cells[p]);
        line += line != NULL;
    }
    for (size_t p = 0; p < k->parts; p++)
        all.n[p] = cells[p].n;
    if (rc == 0)
        rc = print_all(c, cells, &all, to);
    for (size_t p = 0; p < CSV_CROSS_PARTS; p++)
        buf_free(&cells[p].text);
    return rc;
}
