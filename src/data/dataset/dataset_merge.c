// See dataset_merge.h. Texts are compared by 64-bit hashes.
//
// SPDX-License-Identifier: Apache-2.0
#include "data/dataset/dataset_merge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "data/dataset/dataset_internal.h"
#include "data/format/grow.h"
#include "data/format/reader_ops.h"

enum { BLOCK_EXAMPLES = 8192, BLOCK_FEATURES = 1 << 20 };

struct pair {
    uint64_t first, second;
};

struct merging {
    const struct dataset *from;
    struct dataset *to;
    const struct dataset_options *o;
    struct pair *lines;  // pairs of id and example, sorted by id and then by the order of
                         // the text
    struct pair *groups; // pairs of first example and index in `lines`, in the order of
                         // the text
    size_t n_groups;
    uint64_t *orders; // the examples of the current group
    struct batch batch;
    // owner[slot] is 1 + the last example with a feature in that slot, or 0 before the first.
    uint64_t *owner;
    // The block that is being built:
    struct examples x;
    uint32_t *ids;
    size_t cap_ids;
    uint32_t file;
    uint64_t line;
};

static int dataset_merge_compare(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->second < y->second ? -1 : x->second > y->second;
}

static int merging_begin(struct merging *m, struct err *e)
{
    uint64_t n = dataset_size(m->from);
    m->lines = mem_array(n + 1, sizeof(*m->lines));
    m->groups = mem_array(n + 1, sizeof(*m->groups));
    m->orders = mem_array(m->o->merge, sizeof(*m->orders));
    m->owner = mem_zalloc((m->from->slots + 1) * sizeof(*m->owner));
    m->to = mem_zalloc(sizeof(*m->to));
    if (m->lines == NULL || m->groups == NULL || m->orders == NULL || m->owner == NULL ||
        m->to == NULL)
        return err_nomem(e, "merging examples");
    for (uint64_t i = 0; i < n; i++) {
        const char *id = dataset_kept(m->from, i);
        m->lines[i] = (struct pair){hash_bytes(id, strlen(id), 0), i};
    }
    qsort(m->lines, n, sizeof(*m->lines), dataset_merge_compare);
    m->to->at_end = m->from->at_end;
    return 0;
}

static void merging_end(struct merging *m)
{
    mem_free(m->lines);
    mem_free(m->groups);
    mem_free(m->orders);
    mem_free(m->owner);
    mem_free(m->ids);
    batch_free(&m->batch);
    examples_free(&m->x);
}

// Finds the groups that have the wanted size.
static void find_groups(struct merging *m)
{
    struct dataset_merged *told = m->o->merged;
    size_t n = (size_t)dataset_size(m->from), end;
    told->lines = n;
    for (size_t i = 0; i < n; i = end) {
        for (end = i + 1; end < n && m->lines[end].first == m->lines[i].first;)
            end++;
        bool wanted = end - i == m->o->merge;
        if (wanted)
            m->groups[m->n_groups++] = (struct pair){m->lines[i].second, i};
        told->groups += !wanted;
        told->group_lines += wanted ? 0 : end - i;
    }
    qsort(m->groups, m->n_groups, sizeof(*m->groups), dataset_merge_compare);
}

static void conflict(struct merging *m, uint64_t a, uint64_t b, uint32_t slot)
{
    struct dataset_merged *told = m->o->merged;
    if (told->conflicts++ > 0)
        return;
    dataset_where(m->from, a, &told->file[0], &told->line[0]);
    dataset_where(m->from, b, &told->file[1], &told->line[1]);
    told->slot = slot;
}

// Copies to the first line those labels of line i that the first line lacks. Returns
// false if both lines have a label and the two differ.
static bool join_labels(struct batch *b, size_t i)
{
    for (uint32_t t = 0; t < b->labels; t++) {
        float *first = &b->label[t], label = b->label[i * b->labels + t];
        if (isnan(*first))
            *first = label;
        else if (!isnan(label) && label != *first)
            return false;
    }
    return true;
}

// Returns whether the lines of the group, which is in `batch`, have no slot in common and
// no different labels or weights.
static bool agree(struct merging *m)
{
    struct batch *b = &m->batch;
    for (size_t i = 0; i < b->n; i++) {
        bool same = join_labels(b, i) &&
                    (b->weight == NULL || b->weight[i] == b->weight[0]);
        if (!same) {
            conflict(m, m->orders[0], m->orders[i], MERGED_LABEL);
            return false;
        }
        for (uint32_t j = b->start[i]; j < b->start[i + 1]; j++) {
            uint64_t *owner = &m->owner[b->slot[j]];
            for (size_t k = 0; k < i; k++)
                if (*owner == m->orders[k] + 1) {
                    conflict(m, m->orders[k], m->orders[i], b->slot[j]);
                    return false;
                }
            *owner = m->orders[i] + 1;
        }
    }
    return true;
}

static int dataset_merge_flush(struct merging *m, struct err *e)
{
    struct block_plan plan;
    struct block block;
    if (m->x.n == 0)
        return 0;
    TRY(block_plan(&plan, &m->x, m->ids, e));
    void *memory = dataset_room(m->to, plan.bytes);
    if (memory == NULL || !grow(&m->to->block, m->to->blocks + 1, sizeof(block)))
        return err_nomem(e, "the data");
    block_pack(&block, &plan, &m->x, m->ids, memory);
    block.file = m->file;
    block.line = m->line;
    dataset_add_block(m->to, &block);
    examples_clear(&m->x);
    return 0;
}

// Joins the features of all lines, sorted by slot; features of one slot keep their order.
static void dataset_merge_join(struct merging *m)
{
    const struct batch *b = &m->batch;
    struct examples *x = &m->x;
    struct example new = {.weight = b->weight != NULL ? b->weight[0] : 1, .nnz = x->nnz};
    memcpy(new.label, b->label, b->labels * sizeof(*b->label));
    for (size_t j = 0; j < b->nnz; j++, new.nnz++) {
        size_t k = new.nnz;
        for (; k > x->nnz && x->slot[k - 1] > b->slot[j]; k--) {
            x->slot[k] = x->slot[k - 1];
            x->value[k] = x->value[k - 1];
            m->ids[k] = m->ids[k - 1];
        }
        x->slot[k] = b->slot[j];
        x->value[k] = b->value != NULL ? b->value[j] : 1;
        m->ids[k] = b->id[j];
        new.has_values |= x->value[k] != 1;
    }
    examples_commit(x, &new);
}

static int merge_group(struct merging *m, size_t place, struct err *e)
{
    for (size_t i = 0; i < m->o->merge; i++)
        m->orders[i] = m->lines[place + i].second;
    if (dataset_gather(m->from, m->orders, m->o->merge, &m->batch) != 0)
        return err_nomem(e, "a batch");
    if (!agree(m))
        return 0;
    uint32_t file;
    uint64_t line;
    dataset_where(m->from, m->orders[0], &file, &line);
    if (file != m->file || m->x.n == BLOCK_EXAMPLES || m->x.nnz > BLOCK_FEATURES)
        TRY(dataset_merge_flush(m, e));
    if (m->x.n == 0) {
        m->file = file;
        m->line = line;
    }
    m->x.labels = m->batch.labels;
    TRY(examples_reserve(&m->x, m->batch.nnz, e));
    if (m->cap_ids < m->x.cap_nnz && !grow(&m->ids, m->x.cap_nnz, sizeof(*m->ids)))
        return err_nomem(e, "examples");
    m->cap_ids = m->x.cap_nnz;
    dataset_merge_join(m);
    m->x.line[m->x.n - 1] = (uint32_t)(line - m->line);
    return 0;
}

static int merge_all(struct merging *m, struct err *e)
{
    TRY(merging_begin(m, e));
    find_groups(m);
    for (size_t i = 0; i < m->n_groups; i++)
        TRY(merge_group(m, m->groups[i].second, e));
    TRY(dataset_merge_flush(m, e));
    m->o->merged->examples = m->to->size;
    return dataset_make_finder(m->to) == 0 ? 0 : err_nomem(e, "the data");
}

int dataset_merge(struct dataset **d, const struct dataset_options *o, struct err *e)
{
    struct merging m = {.from = *d, .o = o};
    *o->merged = (struct dataset_merged){0};
    int rc = merge_all(&m, e);
    merging_end(&m);
    dataset_close(rc == 0 ? *d : m.to);
    if (rc == 0)
        *d = m.to;
    return rc;
}
