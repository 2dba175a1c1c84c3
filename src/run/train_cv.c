// See train_cv.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/train_cv.h"

#include <math.h>

#include "base/alloc.h"
#include "os/log.h"

void cv_free(struct cv *c)
{
    mem_free(c->pass);
    *c = (struct cv){0};
}

int train_check_cv(const struct train_options *t, const struct node *node, struct err *e)
{
    if (t->cv == 0)
        return 0;
    if (t->cv == 1)
        return err_set(e, TUG_EUSAGE,
                       "--cv 1: give 2 or more, the number of parts of the data");
    if (node != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--cv works in one process; on a cluster start a run for each "
                       "part, with --mode sync --valid 1/%u and so on",
                       (unsigned)t->cv);
    const struct {
        const char *option;
        bool given;
    } others[] = {{"valid", t->valid != NULL},     {"out", t->out != NULL},
                  {"test", t->test.n > 0},         {"refit", t->refit},
                  {"table", t->table != NULL},     {"publish", t->publish != NULL},
                  {"history", t->history != NULL}, {"tfevents", t->tfevents != NULL},
                  {"report", t->report != NULL},   {"init-from", t->init_from != NULL}};
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (others[i].given)
            return err_set(e, TUG_EUSAGE,
                           "--cv and --%s cannot be used together: cross-validation "
                           "trains %u models, each validated on a part of --data, and "
                           "keeps none of them",
                           others[i].option, (unsigned)t->cv);
    return 0;
}

// Adds a score and its square to the sums over the runs.
static void train_cv_add(struct cv_score *to, double x)
{
    to->mean += x;
    to->deviation += x * x;
}

static void train_cv_end(struct cv_score *s, double runs)
{
    s->mean /= runs;
    double variance = s->deviation / runs - s->mean * s->mean;
    s->deviation = variance > 0 ? sqrt(variance) : variance <= 0 ? 0 : (double)NAN;
}

static int add_run(struct cv *c, const struct history *h, struct err *e)
{
    if (c->pass == NULL) {
        c->pass = mem_zalloc((h->n + 1) * sizeof(*c->pass));
        if (c->pass == NULL)
            return err_nomem(e, "the passes of cross-validation");
        c->n = h->n;
    }
    for (size_t i = 0; i < c->n && i < h->n; i++) {
        train_cv_add(&c->pass[i].loss, h->pass[i].valid[0].loss);
        train_cv_add(&c->pass[i].auc, h->pass[i].valid[0].auc);
    }
    return 0;
}

static void end_passes(struct cv *c)
{
    for (size_t i = 0; i < c->n; i++) {
        train_cv_end(&c->pass[i].loss, c->folds);
        train_cv_end(&c->pass[i].auc, c->folds);
        if (c->pass[i].loss.mean < c->pass[c->best].loss.mean)
            c->best = i;
    }
}

static int run_part(struct train_setup *s, uint32_t part, struct train_result *result,
                    struct cv *c, struct err *e)
{
    log_info("--cv: part %u of %u is held out", part + 1, c->folds);
    s->config.valid_part = held_out_part(part, c->folds);
    s->config.valid_part.folds = c->folds;
    s->config.patience = 0; // every run must have all passes
    history_free(&s->history);
    TRY(train_setup_run(s, result, e));
    return add_run(c, &s->history, e);
}

int train_cv(struct train_setup *s, struct cv *ret, struct err *e)
{
    struct train_result *result = mem_zalloc(sizeof(*result));
    if (result == NULL)
        return err_nomem(e, "the result");
    *ret = (struct cv){.folds = s->folds};
    int rc = 0;
    for (uint32_t part = 0; part < ret->folds && rc == 0; part++)
        rc = run_part(s, part, result, ret, e);
    mem_free(result);
    end_passes(ret);
    return rc;
}

json_t *cv_to_json(const struct cv *c)
{
    json_t *passes = json_array();
    for (size_t i = 0; i < c->n; i++) {
        const struct cv_pass *p = &c->pass[i];
        json_array_append_new(
            passes, json_pack("{s:i, s:o, s:o, s:o, s:o}", "pass", (int)i + 1, "loss",
                              json_real_or_null(p->loss.mean), "loss_deviation",
                              json_real_or_null(p->loss.deviation), "auc",
                              json_real_or_null(p->auc.mean), "auc_deviation",
                              json_real_or_null(p->auc.deviation)));
    }
    return json_pack("{s:i, s:i, s:o}", "folds", (int)c->folds, "best", (int)c->best + 1,
                     "passes", passes);
}
