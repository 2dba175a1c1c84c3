// The accessors of click-through models: sparse, ctr and ctr_double. They share one
// layout and lifecycle (accessor/life.h) and differ in what a pull returns and in the
// size of show and click.
//
//   [embed | its rule's state][slot][day][delta_score][show][click][step][extra row]
//
// Scores are computed in double and rounded once: 0.1 * 3 reaches a threshold of 0.3.
//
// A sum that would become infinite or NaN stays unchanged, so that one bad push cannot
// spoil a row for good. The caller has exclusive access to the row.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "accessor/accessor_internal.h"

// Columns of the statistics after those of life.h. In rows of ctr_double, called wide
// here, show and click are doubles in the place of two floats each.
enum { WIDE_CLICK = LIFE_SHOW + 2, PUSHED = 3, KEPT = 1 };

static inline float accessor_ctr_get(const struct accessor *a, const float *row,
                                     uint32_t column)
{
    return row[a->stats + column];
}

static inline void set(const struct accessor *a, float *row, uint32_t column, float x)
{
    row[a->stats + column] = x;
}

static inline void accessor_ctr_add(const struct accessor *a, float *row, uint32_t column,
                                    float x)
{
    float sum = accessor_ctr_get(a, row, column) + x;
    if (isfinite(sum))
        set(a, row, column, sum);
}

static inline double get_wide(const struct accessor *a, const float *row, uint32_t column)
{
    double x;
    memcpy(&x, row + a->stats + column, sizeof(x));
    return x;
}

static inline void set_wide(const struct accessor *a, float *row, uint32_t column,
                            double x)
{
    memcpy(row + a->stats + column, &x, sizeof(x));
}

static inline void add_wide(const struct accessor *a, float *row, uint32_t column,
                            float x)
{
    double sum = get_wide(a, row, column) + (double)x;
    if (isfinite(sum))
        set_wide(a, row, column, sum);
}

// If rows have a time to live, each row stores the low 32 bits of the step of its last
// push.

static inline uint32_t get_step(const struct accessor *a, const float *row)
{
    uint32_t bits;
    memcpy(&bits, row + a->stats + a->n_stats - 1, sizeof(bits));
    return bits;
}

static inline void set_step(const struct accessor *a, float *row, uint64_t step)
{
    uint32_t bits = (uint32_t)step;
    if (a->life.ttl_steps > 0)
        memcpy(row + a->stats + a->n_stats - 1, &bits, sizeof(bits));
}

// Returns whether ttl_steps have passed since the row's last push. A negative difference
// means that the row comes from a save of a later step. A row whose last push is more
// than 2^31 steps old also has a negative difference, for the next 2^31 steps.
static bool outlived(const struct accessor *a, const float *row, uint64_t step)
{
    int32_t age = (int32_t)((uint32_t)step - get_step(a, row));
    return age >= 0 && (uint64_t)age >= a->life.ttl_steps;
}

static float score_of(const struct accessor *a, double show, double click)
{
    const struct life *l = &a->life;
    return (float)((double)l->nonclick * (show - click) + (double)l->click * click);
}

// ------------------------------------------------------ functions of all three accessors

static void accessor_ctr_begin(const struct accessor *a, float *row, struct life_time t)
{
    memset(row + a->stats, 0, a->n_stats * sizeof(float));
    set(a, row, LIFE_SLOT, -1);
    set(a, row, LIFE_DAY, (float)t.day);
    set_step(a, row, t.step);
}

// Called when a row stops being worth publishing; deltas then name the row as removed.
// Raises the row's delta_score, so that a delta publishes it as soon as it is worth
// publishing again, even if it has hardly changed.
static void unpublish(const struct accessor *a, float *row)
{
    if (accessor_ctr_get(a, row, LIFE_DELTA) < a->life.delta_threshold)
        set(a, row, LIFE_DELTA, a->life.delta_threshold);
}

// Returns the number of days since the row's last push. A row from a save of a later day
// counts as pushed today.
static uint32_t unseen(const struct accessor *a, const float *row, struct life_time t)
{
    float day = accessor_ctr_get(a, row, LIFE_DAY);
    return day >= 0 && day < (float)t.day ? t.day - (uint32_t)day : 0;
}

// Adds a push to all statistics except show and click.
static float seen_by(const struct accessor *a, float *row, const float *stats, bool again,
                     struct life_time t)
{
    float show = stats[0], click = stats[1], slot = stats[2];
    if ((float)unseen(a, row, t) > a->life.delta_keep_days)
        unpublish(a, row);
    if (!again)
        accessor_ctr_add(a, row, LIFE_DELTA, score_of(a, (double)show, (double)click));
    if (isfinite(slot))
        set(a, row, LIFE_SLOT, slot);
    set(a, row, LIFE_DAY, (float)t.day);
    set_step(a, row, t.step);
    return a->life.show_scale && show > 0 && isfinite(show) ? show : 1;
}

// Does the part of a shrink that is the same for all rows, after shows and clicks have
// decayed. Returns true if the row is to be removed.
static bool goes(const struct accessor *a, float *row, float before, float score,
                 float threshold, struct life_time t)
{
    const struct life *l = &a->life;
    if (before >= l->base_threshold && score < l->base_threshold)
        unpublish(a, row);
    return score < (isnan(threshold) ? l->delete_threshold : threshold) ||
           (float)unseen(a, row, t) > l->delete_after_days ||
           (l->ttl_steps > 0 && outlived(a, row, t.step));
}

static bool saved_by(const struct accessor *a, const float *row, float score,
                     enum save_mode m, struct life_time t)
{
    const struct life *l = &a->life;
    if (m != SAVE_BASE && m != SAVE_DELTA)
        return true;
    return score >= l->base_threshold && (float)unseen(a, row, t) <= l->delta_keep_days &&
           (m == SAVE_BASE || accessor_ctr_get(a, row, LIFE_DELTA) >= l->delta_threshold);
}

static void published(const struct accessor *a, float *row)
{
    set(a, row, LIFE_DELTA, 0);
}

static bool earned_by(const struct accessor *a, float score)
{
    return a->life.embedx_threshold <= 0 || score >= a->life.embedx_threshold;
}

// -------------------------------------------- shows and clicks as floats: sparse and ctr

static float accessor_ctr_score(const struct accessor *a, const float *row)
{
    return score_of(a, (double)accessor_ctr_get(a, row, LIFE_SHOW),
                    (double)accessor_ctr_get(a, row, LIFE_CLICK));
}

static float seen(const struct accessor *a, float *row, const float *stats, bool again,
                  struct life_time t)
{
    if (!again) {
        accessor_ctr_add(a, row, LIFE_SHOW, stats[0]);
        accessor_ctr_add(a, row, LIFE_CLICK, stats[1]);
    }
    return seen_by(a, row, stats, again, t);
}

static bool earned(const struct accessor *a, const float *row)
{
    return earned_by(a, accessor_ctr_score(a, row));
}

static bool accessor_ctr_shrink(const struct accessor *a, float *row, float threshold,
                                struct life_time t)
{
    float before = accessor_ctr_score(a, row);
    set(a, row, LIFE_SHOW, accessor_ctr_get(a, row, LIFE_SHOW) * a->life.decay);
    set(a, row, LIFE_CLICK, accessor_ctr_get(a, row, LIFE_CLICK) * a->life.decay);
    return goes(a, row, before, accessor_ctr_score(a, row), threshold, t);
}

static bool accessor_ctr_saved(const struct accessor *a, const float *row,
                               enum save_mode m, struct life_time t)
{
    return saved_by(a, row, accessor_ctr_score(a, row), m, t);
}

static void stats(const struct accessor *a, const float *row, float *ret)
{
    ret[0] = accessor_ctr_get(a, row, LIFE_SHOW);
    ret[1] = accessor_ctr_get(a, row, LIFE_CLICK);
}

static enum accessor_number accessor_ctr_number(const struct accessor *a, uint32_t column)
{
    if (column == LIFE_DAY)
        return NUMBER_DAY;
    bool step = a->life.ttl_steps > 0 && column == a->n_stats - 1;
    return step ? NUMBER_BITS : NUMBER_FLOAT;
}

// ----------------------------------------------- shows and clicks as doubles: ctr_double

static float score_wide(const struct accessor *a, const float *row)
{
    return score_of(a, get_wide(a, row, LIFE_SHOW), get_wide(a, row, WIDE_CLICK));
}

static float seen_wide(const struct accessor *a, float *row, const float *stats,
                       bool again, struct life_time t)
{
    if (!again) {
        add_wide(a, row, LIFE_SHOW, stats[0]);
        add_wide(a, row, WIDE_CLICK, stats[1]);
    }
    return seen_by(a, row, stats, again, t);
}

static bool earned_wide(const struct accessor *a, const float *row)
{
    return earned_by(a, score_wide(a, row));
}

static bool shrink_wide(const struct accessor *a, float *row, float threshold,
                        struct life_time t)
{
    double decay = (double)a->life.decay;
    float before = score_wide(a, row);
    set_wide(a, row, LIFE_SHOW, get_wide(a, row, LIFE_SHOW) * decay);
    set_wide(a, row, WIDE_CLICK, get_wide(a, row, WIDE_CLICK) * decay);
    return goes(a, row, before, score_wide(a, row), threshold, t);
}

static bool saved_wide(const struct accessor *a, const float *row, enum save_mode m,
                       struct life_time t)
{
    return saved_by(a, row, score_wide(a, row), m, t);
}

static void stats_wide(const struct accessor *a, const float *row, float *ret)
{
    ret[0] = (float)get_wide(a, row, LIFE_SHOW);
    ret[1] = (float)get_wide(a, row, WIDE_CLICK);
}

static enum accessor_number number_wide(const struct accessor *a, uint32_t column)
{
    bool wide = column >= LIFE_SHOW && column < WIDE_CLICK + 2;
    return wide ? NUMBER_DOUBLE : accessor_ctr_number(a, column);
}

// ---------------------------------------------- the layouts and classes of the accessors

static void accessor_ctr_layout(const struct accessor_options *o, uint32_t n_stats,
                                uint32_t pulled, struct accessor *ret)
{
    *ret = ACCESSOR_EMPTY;
    accessor_add_group(ret, &o->rule, 1);
    ret->stats = ret->width;
    ret->n_stats = n_stats + (o->life.ttl_steps > 0 ? 1 : 0);
    ret->pulled_stats = pulled;
    ret->pushed_stats = PUSHED;
    ret->width += ret->n_stats;
    ret->pull_width += pulled;
    ret->push_width += PUSHED;
    if (o->dim > 0)
        accessor_add_extra(ret, &o->extra, o->dim);
}

static int layout_sparse(const struct accessor_options *o, struct accessor *ret,
                         struct err *e)
{
    (void)e;
    accessor_ctr_layout(o, LIFE_CLICK + 1, 0, ret);
    return 0;
}

static int layout_ctr(const struct accessor_options *o, struct accessor *ret,
                      struct err *e)
{
    (void)e;
    accessor_ctr_layout(o, LIFE_CLICK + 1, 2, ret);
    return 0;
}

static int layout_ctr_double(const struct accessor_options *o, struct accessor *ret,
                             struct err *e)
{
    (void)e;
    accessor_ctr_layout(o, WIDE_CLICK + 2, 2, ret);
    return 0;
}

const struct accessor_class class_sparse = {
    .name = "sparse",
    .about = "embed and embedx with a lifecycle: embeddings that are earned and removed",
    .layout = layout_sparse,
    .number = accessor_ctr_number,
    .clicks = true,
    .kept_stats = KEPT,
    .life = {accessor_ctr_begin, seen, earned, accessor_ctr_score, unseen,
             accessor_ctr_shrink, accessor_ctr_saved, published, NULL},
};

const struct accessor_class class_ctr = {
    .name = "ctr",
    .about = "as sparse, and pulls return shows and clicks: for click-through models",
    .layout = layout_ctr,
    .number = accessor_ctr_number,
    .clicks = true,
    .kept_stats = KEPT,
    .life = {accessor_ctr_begin, seen, earned, accessor_ctr_score, unseen,
             accessor_ctr_shrink, accessor_ctr_saved, published, stats},
};

const struct accessor_class class_ctr_double = {
    .name = "ctr_double",
    .about = "ctr whose counters are doubles: floats stop counting at 16777216",
    .layout = layout_ctr_double,
    .number = number_wide,
    .clicks = true,
    .kept_stats = KEPT,
    .life = {accessor_ctr_begin, seen_wide, earned_wide, score_wide, unseen, shrink_wide,
             saved_wide, published, stats_wide},
};
