// The lifecycle of a row: statistics of how often its feature was shown and clicked, the
// score computed from them, and the decisions by the score: when the feature earns its
// embedding, whether it is published, and when it is removed.
//
//   accessor     rows hold                                  a pull returns         rule of life
//   plain        weights, state                             weights                none
//   merge        sums (rule sum): counters, geo             sums                   none
//   sparse       embed, statistics, embedx once earned      embed, embedx          below
//   ctr          the same                                   show, click, embed,    below
//                                                           embedx
//   ctr_double   the same, show and click as doubles (they  as ctr                 below
//                do not stop counting at 2^24)
//   counter      counts as doubles, no weights              two floats a count      none
//
// embed is one weight, embedx a vector of `dim`; each has a rule of its own. embedx lies
// in a second row that is made when it is earned. A push carries
//
//   [gradient of embed][gradients of embedx][show][click][slot]
//
// and is applied in this order (Paddle: CtrCommonAccessor::Update):
//
//   show += s; click += c; delta_score += score(s, c)     unless the push comes again
//   slot; seen today
//   no embedx yet and score(show, click) >= embedx_threshold: embedx is made
//   embed, embedx: their rules, by gradients divided by s (show_scale; s > 0, else by 1)
//
// A push is repeated (`again`) if its examples were pushed in an earlier pass of the run.
// An example counts once in a run, however many passes train on it.
//
// The push that earns embedx is applied to it. With embedx_late, embedx is made after
// that push has been applied, and never by a row's first push. Until embedx is made, a
// pull returns zeros for it, and its gradients are dropped.
//
//   score(show, click) = nonclick * (show - click) + click_coefficient * click
//
// shrink       show, click *= decay; the row goes when score < delete_threshold (another
//              one may be given), or unseen_days > delete_after_days, or ttl_steps have
//              passed without a push
// day          the table's day + 1: unseen_days = day - seen, so no row is touched
// base         publishes rows of score >= base_threshold, unseen_days <= delta_keep_days
// delta        of those, the ones changed since with delta_score >= delta_threshold
// published    delta_score = 0
//
// If a shrink takes a row below base_threshold, or a push finds a row that was not seen
// for more than delta_keep_days, its delta_score is raised to delta_threshold at least:
// deltas have named the row as removed, so it must be published again as soon as it is
// worth it.
//
// Gradients are divided by the shows, so that a learning rate means the same under every
// rule, except under rules with `unscaled` (as Paddle's rules other than adagrad are). A
// show or click that is not finite is not added.
//
// life_defaults returns the defaults.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_ACCESSOR_LIFE_H
#define TUG_ACCESSOR_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum save_mode {
    SAVE_CHECKPOINT, // every row, for continuing a run
    SAVE_BASE,       // rows worth publishing
    SAVE_DELTA, // those rows of a base that have changed since the last base or delta
    // A checkpoint at the end of a day; the save also makes all rows a day older.
    SAVE_DAY,
};
const char *save_mode_name(enum save_mode m);
// Finds a save mode by its name, or by Paddle's number, "0" to "3".
int save_mode_find(const char *name, enum save_mode *ret, struct err *e);

struct life {
    float nonclick;          // 0.1   what a show without a click adds to the score
    float click;             // 1     what a click adds to the score
    float embedx_threshold;  // 10    score at which embedx is made; 0: with the row
    float base_threshold;    // 1.5   score from which a row is published
    float delta_threshold;   // 0.25  change of score from which a row is published again
    float delta_keep_days;   // 16    days; rows unseen for longer are not published
    float decay;             // 0.98  factor of show and click at each shrink
    float delete_threshold;  // 0.8   score below which a shrink removes a row
    float delete_after_days; // 30    days; a shrink removes rows unseen for longer
    float cold_after_days;   // 1     days; rows unseen for longer go to the cold tier
    bool show_scale;         // true  gradients are divided by the shows of the push
    bool embedx_late;        // false the push that makes embedx leaves it unchanged
    // A shrink removes rows that got no push for this many steps; 0, the default: never.
    uint64_t ttl_steps;
};

struct life life_defaults(void);
int life_check(const struct life *l, struct err *e);

// The time at which functions of a lifecycle are called.
struct life_time {
    uint32_t day;  // the day of the partition
    uint64_t step; // the table's global step
};

struct accessor;

// The statistics of rows of sparse and ctr, as columns counted from accessor.stats. In
// rows of ctr_double, show and click are doubles, so click lies one column further. With
// ttl_steps a last column holds the step of the last push, as the bits of a uint32_t.
enum { LIFE_SLOT, LIFE_DAY, LIFE_DELTA, LIFE_SHOW, LIFE_CLICK };

// An accessor's functions on the statistics of one row; `row` is the whole row. A program
// may register its own functions (accessor_register). Unless its comment says otherwise,
// a function that is NULL does nothing, and returns false or 0.
struct life_class {
    void (*begin)(const struct accessor *a, float *row,
                  struct life_time t); // sets the statistics of a new row
    // Adds the statistics of a push, `pushed_stats` floats. If `again` is true, an
    // earlier push had the same examples, which must not be counted twice. Returns the
    // divisor of the gradients, which is never 0.
    float (*seen)(const struct accessor *a, float *row, const float *stats, bool again,
                  struct life_time t);
    bool (*earned)(const struct accessor *a,
                   const float *row); // returns whether the row has earned its extra row
    float (*score)(const struct accessor *a, const float *row);
    uint32_t (*unseen)(const struct accessor *a, const float *row, struct life_time t);
    // Decays the row's statistics, and returns true to remove the row. `threshold`
    // replaces delete_threshold unless it is NaN. If the function is NULL, rows stay.
    bool (*shrink)(const struct accessor *a, float *row, float threshold,
                   struct life_time t);
    // Returns whether a save of this mode has the row. If the function is NULL, a save has
    // all rows.
    bool (*saved)(const struct accessor *a, const float *row, enum save_mode m,
                  struct life_time t);
    void (*published)(const struct accessor *a, float *row);
    // Writes the statistics that a pull returns, `pulled_stats` floats. Must not be NULL
    // if pulled_stats is not 0.
    void (*stats)(const struct accessor *a, const float *row, float *ret);
};

#endif
