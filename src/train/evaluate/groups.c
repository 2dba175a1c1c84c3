// See groups.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate/groups.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "data/format/reader.h"

int groups_check(const char *option, const char *columns, enum loss loss, struct err *e)
{
    if (columns == NULL || loss == LOSS_LOGISTIC)
        return 0;
    return err_set(
        e, TUG_EUSAGE,
        "%s: the AUC needs labels 0 and 1, but this model has the squared loss", option);
}

struct groups groups_of(const char *columns, size_t skip)
{
    struct groups g = {.skip = skip};
    const char *name;
    size_t len;
    while (reader_next_name(&columns, &name, &len))
        g.columns++;
    return g;
}

void groups_free(struct groups *g)
{
    mem_free(g->graded);
    *g = (struct groups){0};
}

int groups_reserve(struct groups *g, size_t cap, struct err *e)
{
    if (g->columns == 0 || cap <= g->cap)
        return 0;
    struct graded *more = mem_realloc_array(g->graded, cap, sizeof(*more));
    if (more == NULL)
        return err_nomem(e, "the groups of an evaluation");
    g->graded = more;
    g->cap = cap;
    return 0;
}

// Returns the key of an example's group; GROUP_NONE if all its texts are empty.
static uint64_t key_of(const struct groups *g, const char *kept)
{
    for (size_t i = 0; i < g->skip; i++)
        kept += strlen(kept) + 1;
    const char *end = kept;
    for (size_t i = 0; i < g->columns; i++)
        end += strlen(end) + 1;
    size_t len = (size_t)(end - kept);
    if (len == g->columns) // the texts consist of NULs only
        return GROUP_NONE;
    uint64_t key = hash_bytes(kept, len, 0);
    return key != GROUP_NONE ? key : 1;
}

void groups_put(const struct groups *g, size_t i, const char *kept, struct scored s)
{
    if (g->columns > 0)
        g->graded[i] = (struct graded){.group = key_of(g, kept), .scored = s};
}

void groups_skip(const struct groups *g, size_t i)
{
    if (g->columns > 0)
        g->graded[i] = (struct graded){0};
}

int groups_sort(struct groups *g, size_t *n, struct err *e)
{
    size_t counted = 0;
    for (size_t i = 0; i < *n; i++)
        if (g->graded[i].scored.weight != 0)
            g->graded[counted++] = g->graded[i];
    struct graded *scratch = mem_array(counted + 1, sizeof(*scratch));
    if (scratch == NULL)
        return err_nomem(e, "sorting the groups of an evaluation");
    graded_sort(g->graded, scratch, counted);
    mem_free(scratch);
    *n = counted;
    return 0;
}
