// Pushes and pulls of the rows of a batch. Nothing here fails once a row has changed.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <string.h>

#include "store/store_internal.h"

// Rows are checked in groups of this many, just after they were changed.
enum { WATCHED = 256 };

bool store_has_whole_rows(const struct store *s)
{
    return !s->lives;
}

// Sets s->batch.rows from the handles of a batch; NULL for keys without a row. Returns
// whether all keys have a row. Rows with a lifecycle are prefetched, because the handle
// of their extra row is read next.
static bool list_rows(struct store *s, const struct store_batch *b)
{
    const uint32_t *handles = s->batch.handles;
    float **rows = s->batch.rows;
    bool all = true;
    for (uint32_t i = 0; i < b->n; i++) {
        rows[i] = handles[i] == TABLE_NONE ? NULL : store_row_at(s, handles[i]);
        all &= handles[i] != TABLE_NONE;
    }
    for (uint32_t i = 0; i < b->n && s->lives; i++) {
        s->batch.extras[i] = NULL;
        if (rows[i] != NULL)
            table_row_prefetch(rows[i], s->accessor.width * sizeof(float));
    }
    return all;
}

static void list_extras(struct store *s, const struct store_batch *b)
{
    size_t bytes = s->accessor.extra_width * sizeof(float);
    for (uint32_t i = 0; i < b->n && bytes > 0; i++) {
        if (s->batch.rows[i] == NULL)
            continue;
        s->batch.extras[i] = store_extra_of(s, s->batch.rows[i]);
        if (s->batch.extras[i] != NULL)
            table_row_prefetch(s->batch.extras[i], bytes);
    }
}

// Adds the statistics of a push to the rows of a run. Rows that have now earned
// their extra row get it.
static void see_run(struct store *s, const struct store_run *run, const float *values,
                    bool again)
{
    const struct accessor *a = &s->accessor;
    struct life_time t = store_time(s, run->partition);
    const float *stats = values + a->push_width - a->pushed_stats;
    for (uint32_t i = run->begin; i < run->end; i++) {
        float *row = s->batch.rows[i];
        s->batch.divisors[i] = 1;
        if (row == NULL)
            continue;
        if (s->life->seen != NULL)
            s->batch.divisors[i] = s->life->seen(a, row, stats + i * a->push_width, again,
                                                 t);
        if (s->batch.extras[i] == NULL && a->extra_width > 0 && s->life->earned != NULL &&
            s->life->earned(a, row)) {
            float *extra = store_make_extra(s, row);
            assert(extra != NULL); // store_batch_make has reserved it
            s->batch.extras[i] = a->life.embedx_late ? NULL : extra;
        }
    }
}

// Applies rules to rows [i, i + n) of the batch, all of which exist.
static void apply_block(struct store *s, const struct store_push *push,
                        const struct rule_params *rules, const float *values, size_t i,
                        size_t n)
{
    const struct store_scratch *x = &s->batch;
    values += i * s->accessor.push_width;
    if (s->lives) {
        struct accessor_life_push p = {.rules = rules,
                                       .scale = push->scale,
                                       .n = n,
                                       .rows = x->rows + i,
                                       .extras = x->extras + i,
                                       .values = values,
                                       .divisors = x->divisors + i};
        accessor_apply_life(&s->scratch, &p);
    } else {
        struct accessor_push p = {.rules = rules,
                                  .pass = push->pass,
                                  .scale = push->scale,
                                  .n = n,
                                  .rows = x->rows + i,
                                  .values = values};
        accessor_apply_packed(&s->scratch, &p);
    }
}

// Calls apply_block, and then checks the rows, if needed, while they are in the cache.
static void apply_some(struct store *s, const struct store_push *push,
                       const struct rule_params *rules, const float *values, size_t i,
                       size_t n)
{
    size_t block = s->watch ? WATCHED : n;
    for (size_t end = i + n; i < end; i += block) {
        size_t k = end - i < block ? end - i : block;
        apply_block(s, push, rules, values, i, k);
        if (s->watch)
            store_watch_rows(s, i, k);
    }
}

static void add_to_sums(struct store *s, const struct store_push *p, const float *values,
                        size_t i)
{
    const struct accessor_group *g = &s->accessor.groups[0];
    s->scratch.kernels->axpy(s->batch.rows[i] + g->weights, p->scale,
                             values + i * s->accessor.push_width, g->n);
}

static void apply_gradients(struct store *s, const struct store_push *p,
                            const struct store_batch *b, const struct rule_params *rules)
{
    const float *values = p->values + b->at * s->accessor.push_width;
    bool all = list_rows(s, b);
    list_extras(s, b);
    for (uint32_t r = 0; r < b->n_runs && s->lives; r++)
        see_run(s, &s->batch.runs[r], values, store_comes_again(s, p));
    if (all && s->config.sums_from == 0) {
        apply_some(s, p, rules, values, 0, b->n);
        return;
    }
    for (size_t i = 0, end; i < b->n; i = end) {
        end = i;
        while (end < b->n && s->batch.rows[end] != NULL &&
               !table_config_sums(&s->config, b->keys[end]))
            end++;
        if (end > i)
            apply_some(s, p, rules, values, i, end - i);
        else if (s->batch.rows[end++] != NULL)
            add_to_sums(s, p, values, i);
    }
}

static bool all_zero(const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (x[i] != 0)
            return false;
    return true;
}

// Returns the weights of a group of row i. If the group is in the extra row, makes a
// missing extra row; returns NULL if it is missing and all values are 0.
static float *group_weights(struct store *s, uint32_t i, uint32_t group,
                            const float *values)
{
    const struct accessor *a = &s->accessor;
    const struct accessor_group *g = &a->groups[group];
    if (group == 0 || a->extra_width == 0)
        return s->batch.rows[i] + g->weights;
    float *extra = s->batch.extras[i];
    if (extra == NULL && !all_zero(values, g->n)) {
        extra = store_make_extra(s, s->batch.rows[i]);
        assert(extra != NULL); // store_batch_make has reserved it
    }
    return extra == NULL ? NULL : extra + g->weights;
}

static void apply_weights(struct store *s, const struct store_push *p,
                          const struct store_batch *b)
{
    const struct accessor *a = &s->accessor;
    const float *values = p->values + b->at * accessor_weights(a);
    bool all = list_rows(s, b);
    assert(all); // each key has a row, because entry policies do not apply to these
                 // operations
    (void)all;
    list_extras(s, b);
    for (uint32_t i = 0; i < b->n; i++)
        for (uint32_t g = 0; g < a->n_groups; g++) {
            float *to = group_weights(s, i, g, values);
            if (to != NULL)
                memcpy(to, values, a->groups[g].n * sizeof(*to));
            values += a->groups[g].n;
        }
}

static void apply_rows(struct store *s, const struct store_push *p,
                       const struct store_batch *b)
{
    uint32_t width = s->accessor.width;
    const float *values = p->values + b->at * width;
    bool all = list_rows(s, b);
    assert(all && !s->lives);
    (void)all;
    for (uint32_t i = 0; i < b->n; i++, values += width) {
        if (p->op == STORE_DELTA) {
            s->scratch.kernels->axpy(s->batch.rows[i], 1, values, width);
            store_watch_rows(s, i, s->watch);
        } else
            memcpy(s->batch.rows[i], values, width * sizeof(*values));
    }
}

static void apply(struct store *s, const struct store_push *p,
                  const struct store_batch *b, const struct rule_params *rules)
{
    if (p->op == STORE_GRADIENT)
        apply_gradients(s, p, b, rules);
    else if (p->op == STORE_ASSIGN)
        apply_weights(s, p, b);
    else
        apply_rows(s, p, b);
}

static void note_rows(const struct store *s, const struct store_push *p,
                      const struct store_batch *b)
{
    for (uint32_t i = 0; i < b->n && p->has_row != NULL && !p->follows; i++)
        p->has_row[b->at + i] = s->batch.handles[i] != TABLE_NONE;
}

// Removes rows beyond the budget. If that fails, the push stays applied, and a later push
// removes them.
static void keep_budgets(struct store *s, const struct store_batch *b)
{
    for (uint32_t r = 0; r < b->n_runs && s->config.budget_rows > 0; r++)
        (void)store_keep_budget(s, s->batch.runs[r].partition, NULL);
}

// Returns whether a push to finite rows may give infinities or NaN.
static bool may_leave(const struct store *s, const struct store_push *p)
{
    return p->op == STORE_DELTA ||
           (p->op == STORE_GRADIENT &&
            (s->config.sums_from != 0 || !accessor_stays_finite(&s->accessor)));
}

static float largest_of(const struct store *s, const struct store_push *p)
{
    const struct accessor *a = &s->accessor;
    size_t each = p->op == STORE_GRADIENT ? a->push_width : a->width;
    return s->scratch.kernels->largest(p->values, p->n * each);
}

bool store_admits(const struct store *s, enum store_op op)
{
    return s->admits && op == STORE_GRADIENT;
}

int store_push(struct store *s, const struct store_push *p, size_t *ret_keys,
               struct err *e)
{
    struct rule_params rules[ACCESSOR_MAX_GROUPS];
    struct store_batch b = {.unset = p->op == STORE_ROW, .quiet = store_is_quiet(s)};
    size_t done = 0;
    int rc = 0;
    bool checked = may_leave(s, p);
    if (p->op >= STORE_ROW && s->lives)
        rc = err_set(
            e, TUG_EUSAGE,
            "rows of table %s have a lifecycle, so their whole contents cannot be set",
            s->config.name);
    accessor_rules(&s->accessor, p->rate * rate_factor(&s->config.rate, s->step), rules);
    // Whether rows are known to be tame. Otherwise the rows of each push must
    // be checked or copied.
    bool known = !s->wild && s->cold == NULL;
    float most = checked && known ? largest_of(s, p) : 0;
    bool tame = checked && store_push_is_tame(s, p, rules, most);
    s->foreign |= p->op == STORE_DELTA;
    s->watch = tame && !store_grows_slowly(s, p, rules, most);
    checked = checked && !tame;
    while (rc == 0 && b.at + b.n < p->n) {
        rc = store_batch_take(s, p->keys, p->n, &b, e);
        if (rc != 0)
            break;
        rc = store_batch_find(s, &b, e);
        if (checked)
            memcpy(s->batch.found, s->batch.handles, b.n * sizeof(*s->batch.found));
        int made = store_batch_make(s, &b, p->op == STORE_GRADIENT ? p : NULL,
                                    rc == 0 ? e : NULL);
        rc = rc != 0 ? rc : made;
        int kept = checked ? store_undo_keep(s, &b, rc == 0 ? e : NULL) : 0;
        rc = rc != 0 ? rc : kept;
        if (kept != 0)
            break;
        apply(s, p, &b, rules);
        int sound = checked ? store_undo_check(s, &b, p->op == STORE_GRADIENT,
                                               rc == 0 ? e : NULL)
                            : 0;
        rc = rc != 0 ? rc : sound;
        if (p->op == STORE_ASSIGN || p->op == STORE_ROW)
            store_look_at_rows(s, &b);
        note_rows(s, p, &b);
        done += b.n;
        keep_budgets(s, &b);
    }
    assert(done <= p->n && (rc != 0 || done == p->n));
    if (ret_keys != NULL)
        *ret_keys = done;
    return rc;
}

// Pulls a key without a row, in a table with a lifecycle: the initial values that a push
// would give the row.
static void pull_first(struct store *s, uint64_t key, uint32_t day, float *ret)
{
    const struct accessor *a = &s->accessor;
    float *row = s->first, *extra = s->begins_whole ? row + a->width : NULL;
    store_first_row(s, key, day, row, extra);
    accessor_gather_life(a, &row, &extra, 1, ret);
}

static void store_push_gather(struct store *s, const struct store_batch *b, float *values)
{
    const struct accessor *a = &s->accessor;
    bool all = list_rows(s, b);
    if (s->lives) {
        list_extras(s, b);
        accessor_gather_life(a, s->batch.rows, s->batch.extras, b->n, values);
    } else {
        accessor_gather(a, s->batch.rows, b->n, values);
    }
    for (uint32_t i = 0; i < b->n && !s->lives && !all; i++)
        if (s->batch.rows[i] == NULL)
            accessor_first(a, s->rows, b->keys[i], values + (size_t)i * a->pull_width);
    for (uint32_t r = 0; r < b->n_runs && s->lives; r++) {
        const struct store_run *run = &s->batch.runs[r];
        uint32_t day = s->parts[run->partition].day;
        for (uint32_t i = run->begin; i < run->end; i++)
            if (s->batch.rows[i] == NULL)
                pull_first(s, b->keys[i], day, values + (size_t)i * a->pull_width);
    }
}

static void use(struct store *s, const struct store_batch *b)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n; i++)
        if (s->batch.handles[i] != TABLE_NONE)
            s->batch.some[n++] = s->batch.handles[i];
    cold_used(s, s->batch.some, n);
}

static void found_in(const struct store *s, const struct store_batch *b, uint8_t *found)
{
    for (uint32_t i = 0; i < b->n && found != NULL; i++)
        found[b->at + i] = s->batch.rows[i] != NULL;
}

static void gather_rows(struct store *s, const struct store_batch *b, float *ret)
{
    uint32_t width = s->accessor.width;
    list_rows(s, b);
    for (uint32_t i = 0; i < b->n; i++, ret += width) {
        if (s->batch.rows[i] != NULL)
            memcpy(ret, s->batch.rows[i], width * sizeof(*ret));
        else
            table_first_values(s->rows, b->keys[i], ret);
    }
}

typedef void (*gather_fn)(struct store *s, const struct store_batch *b, float *ret);

// Pulls n x width values; each call of `fill` copies those of one batch.
static int pull(struct store *s, const uint64_t *keys, size_t n, gather_fn fill,
                uint32_t width, float *ret, uint8_t *found, struct err *e)
{
    struct store_batch b = {.quiet = store_is_quiet(s)};
    while (b.at + b.n < n) {
        TRY(store_batch_take(s, keys, n, &b, e));
        TRY(store_batch_find(s, &b, e));
        fill(s, &b, ret + b.at * width);
        found_in(s, &b, found);
        if (s->cold != NULL)
            use(s, &b);
    }
    return 0;
}

int store_pull(struct store *s, const uint64_t *keys, size_t n, float *values,
               uint8_t *found, struct err *e)
{
    return pull(s, keys, n, store_push_gather, s->accessor.pull_width, values, found, e);
}

int store_pull_rows(struct store *s, const uint64_t *keys, size_t n, float *rows,
                    uint8_t *found, struct err *e)
{
    if (s->lives)
        return err_set(
            e, TUG_EUSAGE,
            "rows of table %s have a lifecycle, so their whole contents cannot be pulled",
            s->config.name);
    return pull(s, keys, n, gather_rows, s->accessor.width, rows, found, e);
}
