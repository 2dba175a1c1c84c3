// See group_table.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/group_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/printable.h"

static const size_t text_max = (size_t)1 << 40;

void group_table_free(struct group_table *t)
{
    mem_free(t->line);
    key_texts_fini(&t->values);
    *t = (struct group_table){0};
}

// Appends the texts of the group's columns as one text.
static int add_text(struct buf *text, const struct groups *g, const char *kept)
{
    text->max = text_max;
    for (size_t i = 0; i < g->skip; i++)
        kept += strlen(kept) + 1;
    for (size_t i = 0; i < g->columns; i++) {
        if (i > 0)
            TRY(buf_add(text, ",", 1));
        TRY(printable_add(text, kept, strlen(kept)));
        kept += strlen(kept) + 1;
    }
    return 0;
}

int group_table_meet(struct group_table *t, const struct groups *g, uint64_t group,
                     const char *kept, struct err *e)
{
    struct key_texts *v = &t->values;
    size_t at = v->text.len;
    if (key_texts_find(v, group) != 0)
        return 0;
    if (v->n == KEY_TEXTS_MAX)
        return err_set(
            e, TUG_EUSAGE,
            "--by: the columns have more than %d values: give columns with fewer",
            KEY_TEXTS_MAX);
    if (key_texts_reserve(v) != 0 || add_text(&v->text, g, kept) != 0 ||
        key_texts_add(v, group, at) != 0)
        return err_nomem(e, "the values of groups");
    return 0;
}

// The scores of one group among all scores, which are sorted by group.
struct stretch {
    size_t first, n;
};

static int by_size(const void *left, const void *right)
{
    const struct stretch *a = left, *b = right;
    if (a->n != b->n)
        return a->n > b->n ? -1 : 1;
    return (a->first > b->first) - (a->first < b->first);
}

static size_t find_stretches(const struct groups *g, size_t n, struct stretch *ret)
{
    size_t groups = 0;
    for (size_t first = 0, k; first < n; first += k, groups++) {
        k = graded_group(g->graded + first, n - first);
        if (ret != NULL)
            ret[groups] = (struct stretch){first, k};
    }
    return groups;
}

static const char *value_of(const struct group_table *t, uint64_t group)
{
    const char *text = key_texts_at(&t->values, key_texts_find(&t->values, group) - 1);
    return group != GROUP_NONE ? text : "";
}

int group_table_make(struct group_table *t, struct groups *g, size_t n, size_t top,
                     struct err *e)
{
    TRY(groups_sort(g, &n, e));
    t->groups = find_stretches(g, n, NULL);
    t->n = t->groups < top ? (size_t)t->groups : top;
    struct stretch *all = mem_array((size_t)t->groups + 1, sizeof(*all));
    t->line = mem_array(t->n + 1, sizeof(*t->line));
    if (all == NULL || t->line == NULL) {
        mem_free(all);
        t->n = 0;
        return err_nomem(e, "a table of groups");
    }
    find_stretches(g, n, all);
    qsort(all, (size_t)t->groups, sizeof(*all), by_size);
    for (size_t i = 0; i < t->n; i++) {
        const struct graded *of = g->graded + all[i].first;
        t->line[i] = (struct group_line){.value = value_of(t, of->group),
                                         .metrics = group_metrics(of, all[i].n)};
    }
    mem_free(all);
    return 0;
}
