// See group_table.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/group_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/printable.h"

enum { NAMES_MAX = 1 << 29 }; // a set of keys takes less than 2^31

static const size_t text_max = (size_t)1 << 40;

void group_table_free(struct group_table *t)
{
    mem_free(t->line);
    mem_free(t->names.keys);
    mem_free(t->names.at);
    key_set_fini(&t->names.set);
    buf_free(&t->names.text);
    *t = (struct group_table){0};
}

static int grow_names(struct group_names *s, struct err *e)
{
    size_t cap = 2 * s->cap + 64;
    if (cap > NAMES_MAX)
        return err_set(e, TUG_EUSAGE,
                       "--by: the columns have more than %zu values: give others", s->n);
    uint64_t *keys = mem_realloc_array(s->keys, cap, sizeof(*keys));
    if (keys != NULL)
        s->keys = keys;
    size_t *at = mem_realloc_array(s->at, cap, sizeof(*at));
    if (at != NULL)
        s->at = at;
    if (keys == NULL || at == NULL || key_set_reserve(&s->set, cap) != 0)
        return err_nomem(e, "the values of groups");
    key_set_clear(&s->set, cap);
    for (size_t i = 0; i < s->n; i++)
        *key_set_place(&s->set, s->keys, s->keys[i]) = (uint32_t)i + 1;
    s->cap = cap;
    return 0;
}

// The texts of the groups' columns, as one.
static int add_text(struct buf *text, const struct groups *g, const char *kept)
{
    text->max = text_max;
    for (size_t i = 0; i < g->skip; i++)
        kept += strlen(kept) + 1;
    for (size_t i = 0; i < g->columns; i++) {
        if (i > 0)
            TRY(buf_add(text, ",", 1));
        TRY(buf_add(text, kept, strlen(kept)));
        kept += strlen(kept) + 1;
    }
    return buf_add(text, "", 1);
}

int group_table_meet(struct group_table *t, const struct groups *g, uint64_t group,
                     const char *kept, struct err *e)
{
    struct group_names *s = &t->names;
    if (s->n == s->cap)
        TRY(grow_names(s, e));
    uint32_t *place = key_set_place(&s->set, s->keys, group);
    if (*place != 0)
        return 0;
    size_t at = s->text.len;
    if (add_text(&s->text, g, kept) != 0)
        return err_nomem(e, "the values of groups");
    s->keys[s->n] = group;
    s->at[s->n++] = at;
    *place = (uint32_t)s->n;
    return 0;
}

// One group among all that are sorted.
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

static const char *value_of(struct group_table *t, uint64_t group)
{
    struct group_names *s = &t->names;
    char *text = s->text.data + s->at[*key_set_place(&s->set, s->keys, group) - 1];
    printable_make(text);
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
