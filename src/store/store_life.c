// Changes of rows other than pushes: admin operations for the whole table, one partition
// at a time; budgets; days.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "os/clock.h"
#include "store/store_internal.h"

enum { AHEAD = 16 }; // number of rows that are prefetched ahead

void store_set_step(struct store *s, uint64_t step)
{
    s->step = step;
}

uint64_t store_step_of(const struct store *s)
{
    return s->step;
}

void store_day(struct store *s)
{
    for (uint32_t p = 0; p < s->n_parts; p++)
        if (!s->parts[p].backup)
            s->parts[p].day++;
    s->admin_days++;
    s->demote_at = 0;
}

void store_day_in(struct store *s, uint32_t partition)
{
    assert(partition < s->n_parts);
    s->parts[partition].day++;
    s->demote_at = 0;
}

static void prefetch_row(const struct store *s, uint32_t handle)
{
    const float *row = store_row_at(s, handle);
    table_row_prefetch(row - 2, (s->accessor.width + 2) * sizeof(float));
}

void store_count_evicted(struct store *s, const float *row, struct life_time t)
{
    const struct accessor *a = &s->accessor;
    float least = isnan(s->admin_threshold) ? a->life.delete_threshold
                                            : s->admin_threshold;
    if (s->life->score != NULL && s->life->score(a, row) < least)
        s->stats.evicted_score++;
    else if (s->life->unseen != NULL &&
             (float)s->life->unseen(a, row, t) > a->life.delete_after_days)
        s->stats.evicted_age++;
    else
        s->stats.evicted_ttl++;
}

// Decays a row. Returns true if the row is to be removed.
static bool fades(struct store *s, uint32_t handle, struct life_time t)
{
    float *row = store_row_at(s, handle);
    if (!s->life->shrink(&s->accessor, row, s->admin_threshold, t))
        return false;
    store_count_evicted(s, row, t);
    return true;
}

// Decays the rows of s->walk, and moves the rows that are to be removed to the end of the
// list. Returns the number of rows that stay.
static uint32_t decay(struct store *s, struct life_time t)
{
    uint32_t *at = s->walk.at, n = s->walk.n, stay = 0, gone = 0;
    uint32_t *going = at + n;
    assert(s->walk.cap - n >= n); // room for the removed rows
    for (uint32_t i = 0; i < n && i < AHEAD; i++)
        prefetch_row(s, at[i]);
    for (uint32_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            prefetch_row(s, at[i + AHEAD]);
        uint32_t h = at[i];
        if (!handle_bit(&s->turned, h) && fades(s, h, t))
            going[gone++] = h;
        else
            at[stay++] = h;
    }
    assert(stay + gone == n);
    memmove(at + stay, going, gone * sizeof(*going));
    return stay;
}

// Reserves all the memory that the operation needs for the n rows of s->walk, so that the
// operation cannot fail halfway.
static int store_life_reserve(struct store *s, struct store_part *part)
{
    uint32_t n = s->walk.n;
    TRY(handle_list_reserve(&s->walk, n));
    if (!s->config.deltas)
        return 0;
    TRY(handle_bits_reserve(&s->changed, table_handles(s->rows)));
    TRY(handle_list_reserve(&part->changed, n));
    return key_list_reserve(&part->gone, (size_t)n + part->cold);
}

static int store_life_shrink(struct store *s, uint32_t p, struct life_time t,
                             struct err *e)
{
    struct store_part *part = &s->parts[p];
    if (s->life->shrink == NULL)
        return 0;
    if (store_live_rows(s, p, &s->walk) != 0 || store_life_reserve(s, part) != 0)
        return err_nomem(e, "shrinking a table");
    uint32_t cold = part->cold;
    if (cold > 0)
        TRY(cold_admin(s, p, STORE_SHRINK, t, e));
    part->shrunk += cold - part->cold;
    if (s->walk.n == 0) {
        store_trim_gone(s, p);
        return 0;
    }
    uint32_t all = s->walk.n, stay = decay(s, t);
    part->shrunk += all - stay;
    // Cannot fail: memory was reserved.
    TRY(store_remove_rows(s, p, s->walk.at + stay, all - stay, e));
    if (s->accessor.life.decay != 1)
        TRY(store_note(s, p, s->walk.at, stay, e)); // cannot fail: memory was reserved
    memcpy(part->rows.at, s->walk.at, stay * sizeof(*s->walk.at));
    part->rows.n = stay;
    assert(part->live == stay);
    return 0;
}

// Returns false for a store with a budget, which must see all rows of a partition, and
// for a store with a cold tier, whose rows are handled together with their partition.
bool store_turns_rows(const struct store *s, uint32_t p)
{
    return s->admin_at < s->n_parts && s->parts[p].admin != s->admin_number &&
           s->admin == STORE_SHRINK && s->config.budget_rows == 0 && s->cold == NULL;
}

static int reserve_some(struct store *s, struct store_part *part, uint32_t n)
{
    TRY(handle_bits_reserve(&s->turned, table_handles(s->rows)));
    if (!s->config.deltas)
        return 0;
    TRY(handle_bits_reserve(&s->changed, table_handles(s->rows)));
    TRY(handle_list_reserve(&part->changed, n));
    return key_list_reserve(&part->gone, n);
}

int store_turn_rows(struct store *s, uint32_t p, uint32_t *handles, uint32_t n,
                    struct err *e)
{
    uint32_t *going = s->batch.some, *staying = s->batch.which, gone = 0, stay = 0;
    struct life_time t = store_admin_time(s, p);
    assert(n <= s->batch.max && s->admin == STORE_SHRINK);
    if (s->life->shrink == NULL)
        return 0;
    if (reserve_some(s, &s->parts[p], n) != 0)
        return err_nomem(e, "shrinking a table");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t h = handles[i];
        if (h == TABLE_NONE || handle_bit(&s->turned, h))
            continue;
        if (fades(s, h, t)) {
            going[gone++] = h;
            handles[i] = TABLE_NONE;
        } else {
            handle_bit_set(&s->turned, h);
            staying[stay++] = h;
        }
    }
    s->parts[p].shrunk += gone;
    TRY(store_remove_rows(s, p, going, gone, e)); // cannot fail: memory was reserved
    return s->accessor.life.decay != 1 ? store_note(s, p, staying, stay, e) : 0;
}

int store_turn_made(struct store *s, const uint32_t *handles, size_t n)
{
    TRY(handle_bits_reserve(&s->turned, table_handles(s->rows)));
    for (size_t i = 0; i < n; i++)
        handle_bit_set(&s->turned, handles[i]);
    return 0;
}

static int clear(struct store *s, uint32_t p, struct err *e)
{
    struct store_part *part = &s->parts[p];
    if (store_live_rows(s, p, &s->walk) != 0 || store_life_reserve(s, part) != 0)
        return err_nomem(e, "clearing a table");
    if (part->cold > 0)
        TRY(cold_admin(s, p, STORE_CLEAR, store_time(s, p), e));
    // Cannot fail: memory was reserved.
    TRY(store_remove_rows(s, p, s->walk.at, s->walk.n, e));
    if (part->entry != NULL)
        s->entry_bytes -= entry_bytes(part->entry);
    entry_close(part->entry);
    part->entry = NULL;
    part->rows.n = part->changed.n = part->published.n = 0;
    assert(part->live == 0 && part->cold == 0);
    return 0;
}

static int published(struct store *s, uint32_t p, struct err *e)
{
    struct store_part *part = &s->parts[p];
    const struct handle_list *l = &part->published;
    if (s->cold != NULL)
        TRY(cold_admin(s, p, STORE_PUBLISHED, store_admin_time(s, p), e));
    for (uint32_t i = 0; i < l->n && s->life->published != NULL; i++) {
        if (i + AHEAD < l->n)
            prefetch_row(s, l->at[i + AHEAD]);
        // A row that was removed and made again since the cut is also live, but it
        // is recorded as changed.
        if (store_is_live(s, p, l->at[i]) && !handle_bit(&s->changed, l->at[i]))
            s->life->published(&s->accessor, store_row_at(s, l->at[i]));
    }
    mem_free(part->published.at);
    part->published = (struct handle_list){0};
    return 0;
}

int store_turn(struct store *s, uint32_t p, struct err *e)
{
    struct store_part *part = &s->parts[p];
    assert(p < s->n_parts);
    if (part->admin == s->admin_number)
        return 0;
    // A cut and an admin operation are never in progress at the same time.
    assert(p >= s->admin_at && s->cut == NULL);
    switch (s->admin) {
    case STORE_SHRINK:
        TRY(store_life_shrink(s, p, store_admin_time(s, p), e));
        break;
    case STORE_CLEAR:
        TRY(clear(s, p, e));
        break;
    case STORE_PUBLISHED:
        TRY(published(s, p, e));
        break;
    }
    part->admin = s->admin_number;
    return 0;
}

void store_leave_out(struct store *s, uint32_t partition)
{
    assert(partition < s->n_parts);
    s->parts[partition].admin = s->admin_number;
}

uint64_t store_shrunk(const struct store *s, uint32_t partition)
{
    return s->parts[partition].shrunk;
}

int store_admin(struct store *s, enum store_admin o, float threshold, struct err *e)
{
    if (s->cut != NULL || s->admin_at < s->n_parts)
        return err_set(e, TUG_EUSAGE, "table %s is busy with %s; try again",
                       s->config.name,
                       s->cut != NULL ? "a save" : "another admin operation");
    s->admin = o;
    s->admin_threshold = threshold;
    s->admin_number++;
    s->admin_at = 0;
    s->admin_days = 0;
    s->order_step = s->step;
    // The store that leads a partition says when its copy here does the operation.
    for (uint32_t p = 0; p < s->n_parts; p++) {
        s->parts[p].shrunk = 0;
        if (s->parts[p].backup)
            store_leave_out(s, p);
    }
    if (s->turned.n_words > 0)
        memset(s->turned.words, 0, s->turned.n_words * sizeof(*s->turned.words));
    return 0;
}

int store_backup_admin(struct store *s, uint32_t partition, enum store_admin o,
                       float threshold, uint64_t step, struct err *e)
{
    struct life_time t = {.day = s->parts[partition].day, .step = step};
    struct handle_bits turned = s->turned;
    float own = s->admin_threshold;
    assert(o == STORE_SHRINK || o == STORE_CLEAR);
    // The operation under way in other partitions has its own threshold and rows.
    s->turned = (struct handle_bits){0};
    s->admin_threshold = threshold;
    int rc = o == STORE_CLEAR ? clear(s, partition, e)
                              : store_life_shrink(s, partition, t, e);
    s->turned = turned;
    s->admin_threshold = own;
    return rc;
}

// Does the admin operation, or the demotion, in the next partition. Sets *ret_more to
// whether partitions are left.
static int step(struct store *s, bool *ret_more, struct err *e)
{
    *ret_more = true;
    if (s->admin_at < s->n_parts) {
        TRY(store_turn(s, s->admin_at, e));
        s->admin_at++;
    } else if (s->cold != NULL && s->demote_at < s->n_parts) {
        TRY(cold_demote(s, s->demote_at, e));
        s->demote_at++;
    } else {
        *ret_more = false;
    }
    return 0;
}

bool store_work(struct store *s, uint64_t ns)
{
    uint64_t end = clock_ns() + ns;
    bool more = true;
    do {
        if (step(s, &more, NULL) != 0)
            // The partition is tried again later; store_finish would return the error.
            return true;
    } while (more && clock_ns() < end);
    return more;
}

int store_finish(struct store *s, struct err *e)
{
    bool more = true;
    while (more)
        TRY(step(s, &more, e));
    return 0;
}

struct candidate {
    float score;
    uint32_t unseen;
    uint64_t key;
    uint32_t handle;
};

static bool goes_before(const struct candidate *x, const struct candidate *y)
{
    if (x->score != y->score)
        return x->score < y->score;
    if (x->unseen != y->unseen)
        return x->unseen > y->unseen;
    return x->key < y->key;
}

// Moves the first k candidates, in the order of goes_before, to the front
// (quickselect; Hoare 1961).
static void select_first(struct candidate *x, uint32_t n, uint32_t k)
{
    while (n > 1 && k > 0 && k < n) {
        struct candidate pivot = x[(n - 1) / 2];
        uint32_t i = 0, j = n - 1;
        for (;; i++, j--) {
            while (goes_before(&x[i], &pivot))
                i++;
            while (goes_before(&pivot, &x[j]))
                j--;
            if (i >= j)
                break;
            struct candidate swap = x[i];
            x[i] = x[j];
            x[j] = swap;
        }
        if (k <= j + 1) {
            n = j + 1; // the first k candidates are among these
        } else {
            x += j + 1;
            n -= j + 1;
            k -= j + 1;
        }
    }
}

static struct candidate candidate(const struct store *s, uint32_t handle,
                                  struct life_time t)
{
    const float *row = store_row_at(s, handle);
    struct candidate c = {.key = table_row_key(row), .handle = handle};
    c.score = s->life->score(&s->accessor, row);
    if (isnan(c.score))
        c.score = -INFINITY;
    if (s->life->unseen != NULL)
        c.unseen = s->life->unseen(&s->accessor, row, t);
    return c;
}

// Moves the k rows of s->walk with the lowest scores to its front. Without scores, the
// oldest rows count as the lowest, and they are already in front.
static int sort_out(struct store *s, uint32_t k, struct life_time t)
{
    struct handle_list *l = &s->walk;
    assert(k <= l->n);
    if (s->life->score == NULL)
        return 0;
    struct candidate *x = mem_array(l->n, sizeof(*x));
    if (x == NULL)
        return TUG_ENOMEM;
    for (uint32_t i = 0; i < l->n; i++) {
        if (i + AHEAD < l->n)
            prefetch_row(s, l->at[i + AHEAD]);
        x[i] = candidate(s, l->at[i], t);
    }
    select_first(x, l->n, k);
    for (uint32_t i = 0; i < k; i++)
        l->at[i] = x[i].handle;
    mem_free(x);
    return 0;
}

uint32_t store_over_budget(const struct store *s, uint32_t live)
{
    uint64_t share = s->config.budget_rows / s->n_parts;
    share = share > 0 ? share : 1;
    if (s->config.budget_rows == 0 || live <= share)
        return 0;
    uint32_t stay = (uint32_t)((double)s->config.budget_floor * (double)share);
    assert(stay <= share); // so at least live - share rows are removed
    return live - (stay > 0 ? stay : 1);
}

static int remove_some(struct store *s, uint32_t p, uint32_t go, struct err *e)
{
    if (store_live_rows(s, p, &s->walk) != 0 || sort_out(s, go, store_time(s, p)) != 0)
        return err_nomem(e, "keeping a table's budget");
    TRY(store_touch(s, p, s->walk.at, go, e));
    TRY(store_remove_rows(s, p, s->walk.at, go, e));
    s->stats.evicted_budget += go;
    return 0;
}

int store_keep_budget(struct store *s, uint32_t p, struct err *e)
{
    uint32_t go = store_over_budget(s, s->parts[p].live);
    int rc = go > 0 ? remove_some(s, p, go, e) : 0;
    if (rc != 0)
        s->overdue = s->parts[p].overdue = true;
    return rc;
}

bool store_take_overdue(struct store *s, uint32_t *ret_p)
{
    for (uint32_t p = 0; s->overdue && p < s->n_parts; p++)
        if (s->parts[p].overdue) {
            s->parts[p].overdue = false;
            *ret_p = p;
            return true;
        }
    s->overdue = false;
    return false;
}
