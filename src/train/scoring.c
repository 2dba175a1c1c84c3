// See scoring.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/scoring.h"

#include "os/clock.h"
#include "train/course.h"
#include "train/report_data.h"
#include "train/rows/run_rows.h"

int scoring_swap(struct run *r, struct err *e)
{
    return r->rows->swap != NULL ? r->rows->swap(r, e) : 0;
}

// If a report is wanted, sets where the evaluation stores the report's curves.
static void want_curves(const struct run *r, struct evaluation_options *o, bool test)
{
    struct report_data *p = r->config->report_data;
    if (p != NULL && o->loss == LOSS_LOGISTIC)
        o->curves = test ? &p->test : &p->latest;
}

// Evaluates the data of `o`. If it is test data and a report is wanted, also measures the
// importance of columns.
static int measure(struct run *r, const struct evaluation_options *o, struct metrics *ret,
                   struct err *e)
{
    struct report_data *p = r->config->report_data;
    return p != NULL && o->what != NULL && r->rows == &rows_own
               ? importance_if_possible(o, &p->importance, &p->has_importance, ret, e)
               : evaluate(o, ret, e);
}

// Evaluates by the current rows, or by those of the best pass (`best`).
static int evaluate_source(struct run *r, struct evaluation_options *o, bool best,
                           struct metrics *ret, struct err *e)
{
    int rc = r->rows->evaluates(r, best, o, e);
    if (rc == 0 && !best)
        rc = scoring_swap(r, e);
    if (rc == 0) {
        rc = measure(r, o, ret, e);
        if (!best && scoring_swap(r, NULL) != 0 && rc == 0)
            rc = TUG_ENOMEM;
    }
    source_close(o->source);
    return rc != 0 && r->rows->reason != NULL ? r->rows->reason(r, rc, e) : rc;
}

static int nothing_left(const struct held_out *h, uint64_t examples, const char *to,
                        struct err *e)
{
    if (h->folds > 0)
        return err_set(e, TUG_EDATA,
                       "--cv %u leaves none of the %llu examples to %s in one of its "
                       "parts: use fewer parts",
                       (unsigned)h->folds, (unsigned long long)examples, to);
    return err_set(e, TUG_EDATA,
                   "--valid %g leaves none of the %llu examples to %s: give another "
                   "fraction or a file",
                   h->share, (unsigned long long)examples, to);
}

// The time, in seconds, for which an interrupted validation that must be finished waits for
// data.
static const double validation_grace = 10;

// Returns the flag that interrupts a validation; NULL: none. The save of an interrupted run
// that saves only whole passes has the rows after its last pass, so this pass must end as
// finished, with its validation.
static const atomic_bool *validation_interrupt(const struct run *r)
{
    return r->rows->whole_passes && run_saves_when_interrupted(r)
               ? NULL
               : r->config->interrupted;
}

int scoring_validate(struct run *r, uint64_t examples, struct metrics *ret, struct err *e)
{
    const struct train_config *c = r->config;
    if (scoring_elsewhere(c))
        return r->course->score(r, false, false, ret, e);
    struct evaluation_options o = {
        .team = r->team,
        .reader = r->reader,
        .loss = c->reader.loss,
        .max_bad_lines = c->max_bad_lines,
        .bad_lines = &(uint64_t){0},
        .held_out = c->valid.n > 0 ? (struct held_out){0} : c->valid_part,
        .seed = c->model.seed,
        .facts = c->facts,
        .group = c->group,
        .merge = c->merge,
        .numbered = r->has_best || c->valid.n == 0 ? NULL : "--valid",
        .interrupted = validation_interrupt(r),
    };
    want_curves(r, &o, false);
    if (c->valid.n == 0 && !r->streaming && r->data != NULL) {
        o.data = r->data; // use the data in memory instead of reading the text again
        o.hide_new = true;
    } else {
        TRY(run_open_source(&o.source, c->valid.n > 0 ? &c->valid : &c->data,
                            c->interrupted, o.interrupted == NULL ? validation_grace : 0,
                            e));
    }
    int rc = evaluate_source(r, &o, false, ret, e);
    if (rc == TUG_EIO && run_interrupted(r))
        return err_wrap(e, "the validation did not end, so the interrupted pass is not "
                           "saved");
    TRY(rc);
    uint64_t held = ret->examples + ret->without_weight;
    if (o.held_out.share == 0 || (held > 0 && held < examples))
        return 0;
    return nothing_left(&o.held_out, examples, held == 0 ? "validate on" : "train on", e);
}

int scoring_test(struct run *r, struct train_result *result, struct err *e)
{
    const struct train_config *c = r->config;
    struct evaluation_options o = {
        .team = r->team,
        .reader = r->reader,
        .loss = c->reader.loss,
        .max_bad_lines = c->max_bad_lines,
        .bad_lines = &r->bad_lines,
        .group = c->group,
        .merge = c->merge,
        .interrupted = c->interrupted,
        .facts = c->facts,
        .what = "--test",
        .seed = c->model.seed,
        .numbered = "--test",
    };
    want_curves(r, &o, true);
    double start = clock_seconds();
    int rc = scoring_elsewhere(c)
                 ? r->course->score(r, true, r->has_best, result->tests, e)
                 : run_open_source(&o.source, &c->test, c->interrupted, 0, e);
    if (rc == 0 && !scoring_elsewhere(c))
        rc = evaluate_source(r, &o, r->has_best, result->tests, e);
    result->test_seconds = rc == 0 || rc == TUG_EINTERRUPTED ? clock_seconds() - start
                                                             : 0;
    result->tested = rc == 0;
    return rc;
}
