// Divides keys into batches of whole partitions that fit into the caches. The keys of a batch are
// looked up together, so that lookups take the same time whatever the number of partitions.
//
// Everything that can fail happens here, before any row changes.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "base/alloc.h"
#include "store/store_internal.h"

static int store_batch_reserve(struct store_scratch *b, size_t n)
{
    if (n <= b->max)
        return 0;
    size_t max = n < 2 * STORE_BATCH ? 2 * STORE_BATCH : n + n / 4;
    size_t one = sizeof(*b->rows) + sizeof(*b->extras) + sizeof(*b->keys) +
                 4 * sizeof(*b->handles) + sizeof(*b->divisors);
    char *p = mem_array(max, one);
    if (p == NULL)
        return TUG_ENOMEM;
    mem_free(b->memory);
    b->max = max;
    b->memory = p;
    b->rows = (float **)(void *)p;
    b->extras = b->rows + max;
    b->keys = (uint64_t *)(void *)(b->extras + max);
    b->handles = (uint32_t *)(void *)(b->keys + max);
    b->some = b->handles + max;
    b->which = b->some + max;
    b->found = b->which + max;
    b->divisors = (float *)(void *)(b->found + max);
    return 0;
}

// Returns how many of the next n keys form the next batch. A batch has all keys of
// each of its partitions.
static uint32_t batch_end(const struct store *s, const uint64_t *keys, size_t n)
{
    uint32_t end = STORE_BATCH;
    if (n <= STORE_BATCH)
        return (uint32_t)n;
    uint32_t last = store_partition_of(s, keys[end - 1]);
    while (end < n && store_partition_of(s, keys[end]) == last)
        end++;
    return end;
}

int store_batch_runs(struct store *s, struct store_batch *b, struct err *e)
{
    struct store_run *run = NULL;
    assert(b->n_runs == 0);
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t p = store_partition_of(s, b->keys[i]);
        if (run == NULL || p != run->partition) {
            if (p < b->last)
                return err_set(e, TUG_EUSAGE,
                               "the keys of table %s are not in the order of ascending "
                               "partitions: %u follows %u",
                               s->config.name, p, b->last);
            assert(b->n_runs <
                   STORE_BATCH); // all keys beyond STORE_BATCH belong to the last run
            run = &s->batch.runs[b->n_runs++];
            *run = (struct store_run){p, i, i};
            b->last = p;
        }
        run->end = i + 1;
    }
    return 0;
}

bool store_is_quiet(const struct store *s)
{
    return !s->lives && s->cold == NULL && !s->config.deltas &&
           s->admin_at == s->n_parts && s->config.budget_rows == 0;
}

int store_batch_take(struct store *s, const uint64_t *keys, size_t n,
                     struct store_batch *b, struct err *e)
{
    assert(b->at + b->n < n);
    b->at += b->n;
    b->keys = keys + b->at;
    b->n = b->n_runs = 0;
    if (n - b->at > TABLE_MAX_ROWS)
        return err_set(e, TUG_EUSAGE, "%zu keys are more than a table can hold", n);
    uint32_t end = batch_end(s, b->keys, n - b->at);
    if (store_batch_reserve(&s->batch, end) != 0)
        return err_nomem(e, "a batch of keys");
    b->n = end;
    // The batch ends between two partitions.
    assert(end == n - b->at || store_partition_of(s, b->keys[end]) !=
                                   store_partition_of(s, b->keys[end - 1]));
    int rc = b->quiet ? 0 : store_batch_runs(s, b, e);
    if (rc != 0)
        b->n = b->n_runs = 0;
    return rc;
}

void store_batch_cut(struct store_batch *b, const struct store_scratch *x, uint32_t r)
{
    assert(r <= b->n_runs);
    assert(r == 0 || x->runs[r - 1].end <= b->n);
    b->n_runs = r;
    b->n = r > 0 ? x->runs[r - 1].end : 0;
}

// Does the current admin operation in the partitions of the batch before its keys are
// looked up, because the operation may remove their rows.
static int give_turns(struct store *s, struct store_batch *b, struct err *e)
{
    for (uint32_t r = 0; r < b->n_runs; r++) {
        uint32_t p = s->batch.runs[r].partition;
        bool whole = s->admin_at < s->n_parts && !store_turns_rows(s, p);
        int rc = whole ? store_turn(s, p, e) : 0;
        if (rc == 0 && s->cold != NULL)
            rc = cold_demote(s, p, e);
        if (rc != 0) {
            store_batch_cut(b, &s->batch, r);
            return rc;
        }
    }
    return 0;
}

static uint32_t count_none(const uint32_t *handles, uint32_t n)
{
    uint32_t none = 0;
    for (uint32_t i = 0; i < n; i++)
        none += handles[i] == TABLE_NONE;
    return none;
}

static int fetch(struct store *s, struct store_batch *b, struct err *e)
{
    struct store_scratch *x = &s->batch;
    uint32_t none = count_none(x->handles, b->n), done;
    s->stats.hot_hits += b->n - none;
    if (none == 0)
        return 0;
    int rc = cold_fetch_runs(s, x->runs, b->n_runs, b->keys, x->handles, &done, e);
    if (rc != 0)
        store_batch_cut(b, x, done);
    return rc;
}

// Does the current admin operation for the rows of the batch only, not for
// their whole partitions.
static int turn_rows(struct store *s, struct store_batch *b, struct err *e)
{
    struct store_scratch *x = &s->batch;
    for (uint32_t r = 0; r < b->n_runs; r++) {
        struct store_run run = x->runs[r];
        if (!store_turns_rows(s, run.partition))
            continue;
        int rc = store_turn_rows(s, run.partition, x->handles + run.begin,
                                 run.end - run.begin, e);
        if (rc != 0) {
            store_batch_cut(b, x, r);
            return rc;
        }
    }
    return 0;
}

int store_batch_find(struct store *s, struct store_batch *b, struct err *e)
{
    int turned = b->quiet ? 0
                          // on failure, give_turns leaves the earlier
                          // partitions in the batch
                          : give_turns(s, b, e);
    table_find(s->rows, b->keys, b->n, s->batch.handles);
    if (turned == 0 && s->admin_at < s->n_parts)
        turned = turn_rows(s, b, e);
    int fetched = s->cold != NULL ? fetch(s, b, turned == 0 ? e : NULL) : 0;
    return turned != 0 ? turned : fetched;
}

// Lists the keys of a run that need a row, in s->batch.keys, and their positions in the
// batch in s->batch.which.
static uint32_t list_missing(struct store *s, const struct store_batch *b,
                             struct store_run run)
{
    struct store_scratch *x = &s->batch;
    uint32_t n = 0;
    for (uint32_t i = run.begin; i < run.end; i++) {
        if (x->handles[i] != TABLE_NONE)
            continue;
        x->keys[n] = b->keys[i];
        x->which[n++] = i;
    }
    return n;
}

static int begin_entry(struct store *s, uint32_t p, struct err *e)
{
    struct store_part *part = &s->parts[p];
    if (s->cut != NULL)
        TRY(cut_before_admit(s, p, e));
    if (part->entry != NULL)
        return 0;
    TRY(entry_open(&part->entry, &s->entry, e));
    s->entry_bytes += entry_bytes(part->entry);
    return 0;
}

// Moves those of the first n of s->batch.keys that the entry policy admits to the front.
static int admit(struct store *s, const struct store_push *push, struct store_run run,
                 size_t at, uint32_t *n, struct err *e)
{
    const struct accessor *a = &s->accessor;
    struct store_scratch *x = &s->batch;
    assert(push->op ==
           // Only pushes of gradients have the statistics by which the policy decides.
           STORE_GRADIENT);
    TRY(begin_entry(s, run.partition, e));
    struct entry *entry = s->parts[run.partition].entry;
    size_t stats = a->push_width - a->pushed_stats;
    uint32_t kept = 0;
    bool again = store_comes_again(s, push);
    s->entry_bytes -= entry_bytes(entry);
    for (uint32_t k = 0; k < *n; k++) {
        const float *seen = push->values + (at + x->which[k]) * a->push_width + stats;
        float show = a->pushed_stats > 0 ? seen[0] : 1;
        float click = a->pushed_stats > 1 ? seen[1] : 0;
        bool in = again ? entry_again(entry, x->keys[k])
                        : entry_admit(entry, x->keys[k], show, click);
        if (push->follows ? !push->has_row[at + x->which[k]] : !in)
            continue;
        x->keys[kept] = x->keys[k];
        x->which[kept++] = x->which[k];
    }
    s->entry_bytes += entry_bytes(entry);
    s->stats.refused += *n - kept;
    *n = kept;
    return 0;
}

static int touch(struct store *s, struct store_run run, uint32_t missing, struct err *e)
{
    struct store_scratch *x = &s->batch;
    uint32_t n = 0;
    if (s->cut == NULL && s->cold == NULL && !s->config.deltas)
        return 0;
    if (missing == 0)
        return store_touch(s, run.partition, x->handles + run.begin, run.end - run.begin,
                           e);
    for (uint32_t i = run.begin; i < run.end; i++)
        if (x->handles[i] != TABLE_NONE)
            x->some[n++] = x->handles[i];
    return n > 0 ? store_touch(s, run.partition, x->some, n, e) : 0;
}

// If the store is above max_bytes, refuses a run that has rows without an extra row,
// because the statistics of the push may give some of these rows an extra row.
static int check_extras(const struct store *s, struct store_run run, struct err *e)
{
    if (s->o.max_bytes == 0 || s->accessor.extra_width == 0 ||
        store_check_room(s, 0, NULL) == 0)
        return 0;
    for (uint32_t i = run.begin; i < run.end; i++) {
        uint32_t h = s->batch.handles[i];
        if (h != TABLE_NONE && store_extra_of(s, store_row_at(s, h)) == NULL)
            return store_check_room(s, 0, e);
    }
    return 0;
}

static int make_run(struct store *s, const struct store_batch *b,
                    const struct store_push *push, struct store_run run, struct err *e)
{
    struct store_scratch *x = &s->batch;
    uint32_t n = count_none(x->handles + run.begin, run.end - run.begin);
    TRY(check_extras(s, run, e));
    TRY(touch(s, run, n, e));
    if (n == 0)
        return 0;
    n = list_missing(s, b, run);
    if (push != NULL && s->admits)
        TRY(admit(s, push, run, b->at, &n, e));
    if (n == 0)
        return 0;
    TRY((b->unset ? store_add_new_rows : store_make_rows)(s, run.partition, x->keys, n,
                                                          x->some, e));
    for (uint32_t k = 0; k < n; k++)
        x->handles[x->which[k]] = x->some[k];
    assert((push != NULL && s->admits) ||
           count_none(x->handles + run.begin, run.end - run.begin) == 0);
    return 0;
}

static void prefetch_copied(const struct store *s, struct store_run run)
{
    cut_prefetch(s, run.partition, s->batch.handles + run.begin, run.end - run.begin);
}

int store_batch_make(struct store *s, struct store_batch *b,
                     const struct store_push *push, struct err *e)
{
    assert(b->n <= s->batch.max);
    if (b->quiet) {
        if (count_none(s->batch.handles, b->n) == 0 &&
            (s->cut == NULL || !cut_wants(s, b->keys, s->batch.handles, b->n)))
            return 0;
        // rows are made and copied partition by partition, so runs are listed
        b->quiet = false;
        int rc = store_batch_runs(s, b, e);
        if (rc != 0) {
            store_batch_cut(b, &s->batch, 0);
            return rc;
        }
    }
    // Each row may get an extra row, when the row is made or because of the
    // statistics of this push.
    if (s->accessor.extra_width > 0 && store_reserve_extras(s, b->n) != 0) {
        store_batch_cut(b, &s->batch, 0);
        return err_nomem(e, "rows of a table");
    }
    if (s->cut != NULL && b->n_runs > 0)
        prefetch_copied(s, s->batch.runs[0]);
    for (uint32_t r = 0; r < b->n_runs; r++) {
        if (s->cut != NULL && r + 1 < b->n_runs)
            prefetch_copied(s, s->batch.runs[r + 1]);
        int rc = make_run(s, b, push, s->batch.runs[r], e);
        if (rc != 0) {
            store_batch_cut(b, &s->batch, r);
            return rc;
        }
    }
    return 0;
}
