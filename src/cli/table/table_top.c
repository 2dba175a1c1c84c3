// See table_top.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "cli/table/table_top.h"
#include "cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "base/printable.h"
#include "os/json.h"

int table_top_layout(struct table_top *t, const struct accessor *a, struct err *e)
{
    t->known = true;
    t->vectors = a->n_groups > 1;
    t->shows = a->count != ACCESSOR_NO_COUNT || a->pulled_stats > 0;
    if ((t->by == TABLE_TOP_VECTOR && !t->vectors) ||
        (t->by == TABLE_TOP_SHOWS && !t->shows))
        return err_set(e, TUG_EUSAGE, "--by %s: the rows of this table have no %s",
                       t->by == TABLE_TOP_VECTOR ? "vector" : "shows",
                       t->by == TABLE_TOP_VECTOR ? "vectors" : "count of shows");
    return 0;
}

static double length(const float *x, uint32_t n)
{
    double squares = 0;
    for (uint32_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    return sqrt(squares);
}

// Returns the number by which a row is sorted. NaN counts as the largest, so that it is
// found.
static double size_of(const struct table_top *t, const struct top_row *r)
{
    double x = t->by == TABLE_TOP_WEIGHT   ? fabs(r->weight)
               : t->by == TABLE_TOP_VECTOR ? r->vector
                                           : r->shows;
    return isnan(x) ? (double)INFINITY : x;
}

static bool before(const struct table_top *t, const struct top_row *a,
                   const struct top_row *b)
{
    double x = size_of(t, a), y = size_of(t, b);
    return x != y ? x > y : a->key < b->key;
}

// Sifts an element down in the heap, whose root is the smallest of the kept rows.
static void sift(struct table_top *t, size_t at, size_t n)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(t, &t->row[child], &t->row[child + 1]))
            child++;
        if (!before(t, &t->row[at], &t->row[child]))
            return;
        struct top_row x = t->row[at];
        t->row[at] = t->row[child];
        t->row[child] = x;
    }
}

static void table_top_keep(struct table_top *t, struct top_row r)
{
    if (t->n < t->max) {
        t->row[t->n++] = r;
        for (size_t i = t->n == t->max ? t->n / 2 : 0; i-- > 0;)
            sift(t, i, t->n);
    } else if (t->max > 0 && before(t, &r, &t->row[0])) {
        t->row[0] = r;
        sift(t, 0, t->n);
    }
}

int table_top_add(struct table_top *t, const struct accessor *a,
                  const struct accessor *at, uint64_t key, const float *row,
                  const float *extra, const float *stats, struct err *e)
{
    const struct accessor_group *g = at->groups;
    const float *vector = at->extra_width > 0 ? extra : row;
    struct top_row r = {.key = key};
    if (!t->known)
        TRY(table_top_layout(t, a, e));
    r.shows = a->count != ACCESSOR_NO_COUNT ? (double)row[a->count]
              : a->pulled_stats > 0         ? (double)stats[0]
                                            : 0;
    r.weight = g[0].n == 1 ? (double)row[g[0].weights]
                           : length(row + g[0].weights, g[0].n);
    if (at->n_groups > 1 && vector != NULL)
        r.vector = length(vector + g[1].weights, g[1].n);
    table_top_keep(t, r);
    return 0;
}

// Turns the heap into a sorted list by moving the smallest row to the end repeatedly.
static void sort(struct table_top *t)
{
    for (size_t i = t->n / 2; i-- > 0;)
        sift(t, i, t->n);
    for (size_t n = t->n; n > 1;) {
        struct top_row x = t->row[0];
        t->row[0] = t->row[--n];
        t->row[n] = x;
        sift(t, 0, n);
    }
}

static void add_name(json_t *o, const struct names *names, uint64_t key)
{
    uint64_t examples;
    const char *name = names_find(names, key, &examples);
    if (name == NULL)
        return;
    json_object_set_new(o, "name", json_string(name)); // omitted if it is not UTF-8
    json_object_set_new(o, "examples", json_integer((json_int_t)examples));
}

static int print_json(const struct table_top *t, const struct names *names, struct err *e)
{
    json_begin();
    json_t *rows = json_array();
    for (size_t i = 0; i < t->n; i++) {
        const struct top_row *r = &t->row[i];
        char key[24];
        snprintf(key, sizeof(key), "%" PRIu64, r->key);
        json_t *o = json_pack("{s:s,s:o}", "key", key, "weight",
                              json_real_or_null(r->weight));
        if (t->vectors)
            json_object_set_new(o, "vector", json_real_or_null(r->vector));
        if (t->shows)
            json_object_set_new(o, "shows", json_real_or_null(r->shows));
        add_name(o, names, r->key);
        json_array_append_new(rows, o);
    }
    json_t *all = json_pack("{s:o}", "rows", rows);
    if (names != NULL)
        json_object_set_new(all, "rows_without_name",
                            json_integer((json_int_t)t->nameless));
    return json_print(all, 0, e);
}

static void print_name(const struct names *names, uint64_t key)
{
    uint64_t examples;
    const char *name = names_find(names, key, &examples);
    char text[256];
    if (name == NULL)
        return;
    (void)printable_copy(text, sizeof(text), name, strlen(name));
    cli_printf("  %s (in %" PRIu64 " example%s)", text, examples, PLURAL_S(examples));
}

static void print_text(const struct table_top *t, const struct names *names)
{
    cli_printf("%14s", "weight");
    if (t->vectors)
        cli_printf(" %14s", "vector");
    if (t->shows)
        cli_printf(" %14s", "shows");
    cli_printf("  key\n");
    for (size_t i = 0; i < t->n; i++) {
        const struct top_row *r = &t->row[i];
        cli_printf("%14.7g", r->weight);
        if (t->vectors)
            cli_printf(" %14.7g", r->vector);
        if (t->shows)
            cli_printf(" %14.7g", r->shows);
        cli_printf("  %" PRIu64, r->key);
        print_name(names, r->key);
        cli_printf("\n");
    }
}

int table_top(const struct table_values *v, table_top_add_fn add, void *ctx,
              struct names *const *names, struct err *e)
{
    struct table_top t = {.by = (enum table_top_by)v->by, .max = (size_t)v->top};
    t.row = mem_array(t.max + 1, sizeof(*t.row));
    int rc = t.row != NULL ? add(ctx, &t, e)
                           : err_nomem(e, "the largest rows of a table");
    const struct names *called = names != NULL ? *names : NULL;
    if (rc == 0)
        sort(&t);
    if (rc == 0 && v->json)
        rc = print_json(&t, called, e);
    else if (rc == 0)
        print_text(&t, called);
    mem_free(t.row);
    return rc;
}
