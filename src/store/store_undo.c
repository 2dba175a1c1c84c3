// Undoes pushes whose results are not finite: a sum beyond float's range, the square of a
// gradient, a step of a rule to infinity. The rows of a batch are copied before the batch
// is applied, and checked afterwards, while they are in the cache. If one is not finite,
// all rows of its partition are restored, so the outcome depends only on the rows of the
// partition.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/finite.h"
#include "os/log.h"
#include "store/store_internal.h"

enum { AHEAD = 16 }; // number of rows that are prefetched ahead of the row that is copied

static size_t floats_of(const struct store *s)
{
    return s->accessor.width + s->accessor.extra_width;
}

static int store_undo_reserve(struct store *s, size_t n)
{
    size_t floats = n * floats_of(s);
    if (floats <= s->batch.kept_max)
        return 0;
    mem_free(s->batch.kept);
    s->batch.kept_max = 0;
    s->batch.kept = mem_array(floats, sizeof(float));
    if (s->batch.kept == NULL)
        return TUG_ENOMEM;
    s->batch.kept_max = floats;
    return 0;
}

// Copies the rows of a batch. The copy of a row that was made for this push has the
// row's initial values.
int store_undo_keep(struct store *s, const struct store_batch *b, struct err *e)
{
    struct store_scratch *x = &s->batch;
    const struct accessor *a = &s->accessor;
    size_t bytes = a->width * sizeof(float), each = floats_of(s);
    if (store_undo_reserve(s, b->n) != 0)
        return err_nomem(e, "copies of the rows that a push changes");
    for (uint32_t i = 0; i < b->n && i < AHEAD; i++)
        if (x->handles[i] != TABLE_NONE)
            table_row_prefetch(store_row_at(s, x->handles[i]), bytes);
    for (uint32_t i = 0; i < b->n; i++) {
        if (i + AHEAD < b->n && x->handles[i + AHEAD] != TABLE_NONE)
            table_row_prefetch(store_row_at(s, x->handles[i + AHEAD]), bytes);
        if (x->handles[i] == TABLE_NONE)
            continue;
        const float *row = store_row_at(s, x->handles[i]);
        const float *extra = store_extra_of(s, row);
        memcpy(x->kept + i * each, row, bytes);
        if (extra != NULL)
            memcpy(x->kept + i * each + a->width, extra, a->extra_width * sizeof(float));
    }
    return 0;
}

static bool is_sound(const struct store *s, uint32_t i)
{
    uint32_t h = s->batch.handles[i];
    if (h == TABLE_NONE)
        return true;
    const float *row = store_row_at(s, h);
    return accessor_row_finite(&s->accessor, row, store_extra_of(s, row));
}

static void put_back(struct store *s, uint32_t i)
{
    struct store_scratch *x = &s->batch;
    const struct accessor *a = &s->accessor;
    const float *kept = x->kept + i * floats_of(s);
    float *row = store_row_at(s, x->handles[i]), *extra = store_extra_of(s, row);
    bool had = a->extra_width > 0 && accessor_extra(a, kept) != TABLE_NONE;
    if (extra != NULL && !had)
        store_free_extra(s, row); // this push has given the row its extra row
    memcpy(row, kept, a->width * sizeof(float));
    if (had)
        memcpy(extra, kept + a->width, a->extra_width * sizeof(float));
}

// Removes rows that were made for the push. If memory is out, the rows stay with their
// initial values; pulls return these values even for keys without rows.
static void remove_made(struct store *s, struct store_run run)
{
    struct store_scratch *x = &s->batch;
    uint32_t n = 0;
    for (uint32_t i = run.begin; i < run.end; i++)
        if (x->found[i] == TABLE_NONE && x->handles[i] != TABLE_NONE)
            x->some[n++] = x->handles[i];
    if (n > 0 && store_touch(s, run.partition, x->some, n, NULL) == 0)
        (void)store_remove_rows(s, run.partition, x->some, n, NULL);
}

static void undo_run(struct store *s, struct store_run run)
{
    for (uint32_t i = run.begin; i < run.end; i++)
        if (s->batch.handles[i] != TABLE_NONE)
            put_back(s, i);
    remove_made(s, run);
}

// Restores a row that has finite weights but an infinite state (such as the sum
// of squared gradients), because with this state the row would never change
// again. Update rules with bounds do the same (rule_kind.h). Returns false if the
// weights are not finite.
static bool left_out(struct store *s, const struct store_batch *b, uint32_t i)
{
    const float *row = store_row_at(s, s->batch.handles[i]);
    if (!accessor_weights_finite(&s->accessor, row, store_extra_of(s, row)))
        return false;
    put_back(s, i);
    s->stats.left_out++;
    if (!s->left_out)
        s->left_out_key = b->keys[i];
    s->left_out = true;
    if (!s->told)
        log_warn("table %s: the update of key %llu is left out, because the rule's state "
                 "would become infinite: the gradient is too large; clip gradients. This "
                 "warning is given once",
                 s->config.name, (unsigned long long)b->keys[i]);
    s->told = true;
    return true;
}

bool store_take_left_out(struct store *s, uint64_t *ret_key)
{
    bool any = s->left_out;
    *ret_key = s->left_out_key;
    s->left_out = false;
    return any;
}

int store_undo_check(struct store *s, struct store_batch *b, bool gradients,
                     struct err *e)
{
    uint32_t bad = 0;
    while (bad < b->n && (is_sound(s, bad) || (gradients && left_out(s, b, bad))))
        bad++;
    if (bad == b->n)
        return 0;
    uint64_t key = b->keys[bad];
    if (b->quiet && store_batch_runs(s, b, NULL) != 0)
        b->n_runs = 0; // keys that are not sorted by partition: possible only if there is
                       // one partition
    b->quiet = false;
    uint32_t r = 0;
    while (r < b->n_runs && s->batch.runs[r].end <= bad)
        r++;
    assert(r < b->n_runs);
    for (uint32_t i = r; i < b->n_runs; i++)
        undo_run(s, s->batch.runs[i]);
    store_batch_cut(b, &s->batch, r);
    return err_because(e, TUG_EUSAGE, REASON_NOT_FINITE, key,
                       "key %llu of table %s would become infinite or not a number by "
                       "this push: its partition was left unchanged",
                       (unsigned long long)key, s->config.name);
}

// With a cold tier no push counts as tame, because rows of an earlier
// process may be on disk.
bool store_push_is_tame(const struct store *s, const struct store_push *p,
                        const struct rule_params *rules, float most)
{
    const struct accessor *a = &s->accessor;
    if (s->wild || s->cold != NULL || fabsf(p->scale) > 1)
        return false;
    if (p->op == STORE_DELTA)
        return most < ACCESSOR_TAME_ROW;
    return accessor_rules_tame(a, rules) && accessor_push_tame(a, p->values, p->n, most);
}

// Returns the most that a rule can add to a weight or a state, for gradients of
// magnitudes below g; 0 if that is not known. For adagrad, |g| / sqrt(n) is at most 1.
// For adam, |m| / sqrt(v) is at most (1 - beta1) / sqrt((1 - beta2) (1 - beta1^2 /
// beta2)), by the Cauchy-Schwarz inequality, if m and v come from gradients alone.
static double growth(const struct store *s, const struct rule_params *r, double g)
{
    double lr = fabs((double)r->lr), b1 = (double)r->beta1, b2 = (double)r->beta2;
    if (r->kind == RULE_SUM)
        return g;
    if (r->l2 != 0)
        return 0;
    if (r->kind == RULE_SGD)
        return lr * g + DBL_MIN;
    if (r->kind == RULE_ADAGRAD)
        return lr + g * g;
    if (r->kind == RULE_ADAM && !s->foreign && b1 * b1 < 0.9 * b2)
        return lr / sqrt((1 - b2) * (1 - b1 * b1 / b2)) + g * g;
    return 0;
}

// Growth up to a factor of two is allowed, because the proofs of accessor_rules_tame also
// hold for numbers twice as large.
bool store_grows_slowly(struct store *s, const struct store_push *p,
                        const struct rule_params *rules, float most)
{
    const struct accessor *a = &s->accessor;
    double grows = 0, g = most < 1 ? 1 : (double)most;
    if (p->op != STORE_GRADIENT || s->lives || s->config.sums_from != 0)
        return false;
    for (uint32_t i = 0; i < a->n_groups; i++) {
        double by = growth(s, &rules[i], g);
        if (by == 0)
            return false;
        grows = by > grows ? by : grows;
    }
    if (s->grown + grows >= (double)ACCESSOR_TAME_ROW)
        return false;
    s->grown += grows;
    return true;
}

void store_watch_rows(struct store *s, size_t i, size_t n)
{
    const struct accessor *a = &s->accessor;
    for (size_t end = i + n; i < end; i++)
        if (s->batch.rows[i] != NULL &&
            (s->lives ? !accessor_row_tame(a, s->batch.rows[i], s->batch.extras[i])
                      : !(s->scratch.kernels->largest(s->batch.rows[i], a->width) <
                          ACCESSOR_TAME_ROW)))
            s->wild = true;
}

void store_look_at_rows(struct store *s, const struct store_batch *b)
{
    s->foreign = true;
    for (uint32_t i = 0; i < b->n && !s->wild; i++) {
        uint32_t h = s->batch.handles[i];
        const float *row = h != TABLE_NONE ? store_row_at(s, h) : NULL;
        s->wild = row != NULL &&
                  !accessor_row_tame(&s->accessor, row, store_extra_of(s, row));
    }
}
