// Evaluation by the workers: the driver opens a pass over the files of --valid or --test,
// and adds up the workers' results for their pieces. The metrics have the same bits as
// one evaluation of all examples with the same scores (train/evaluate/evaluated.h); scores of
// models with layers depend slightly on where pieces begin.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/log.h"
#include "train/evaluate/evaluated.h"
#include "train/facts.h"
#include "train/report_data.h"
#include "train_cluster/driver_internal.h"

static const double look_seconds = 0.01;

struct parts {
    uint32_t tasks, next; // number of tasks, and the task of the next part
    struct evaluated all[MODEL_MAX_TASKS]; // the results of each task
    struct msg_pass_state pass;
    int rc;
};

static void take_parts(void *ctx, const union wire_any *m)
{
    struct parts *p = ctx;
    p->pass = m->pass_state;
    const char *bytes = p->pass.report.data;
    size_t n = p->pass.report.n;
    while ((p->rc = evaluated_next(&p->all[p->next], &bytes, &n)) == 1)
        p->next = (p->next + 1) % p->tasks;
    p->pass.report = (struct wire_text){0};
}

static int driver_score_look(struct driver *d, uint16_t type, const void *m,
                             struct parts *p, struct err *e)
{
    TRY(client_ask(d->remote.client, type, m, take_parts, p, e));
    return p->rc == TUG_ENOMEM ? err_nomem(e, "the scores of an evaluation")
           : p->rc != 0 ? err_set(e, TUG_EDATA, "the scores of a worker are damaged")
                        : 0;
}

// Waits until all pieces are scored. A signal does not interrupt this wait, just as it
// does not interrupt a validation by the driver.
static int follow(struct run *r, const struct msg_pass *m, struct parts *p, struct err *e)
{
    struct driver *d = r->driver;
    const struct msg_pass_wanted wanted = {.pass = m->pass};
    bool test = m->kind != WIRE_PASS_VALID;
    TRY(driver_score_look(d, MSG_PASS, m, p, e));
    for (;;) {
        TRY(driver_score_look(d, MSG_PASS_WANTED, &wanted, p, e));
        if (p->pass.done)
            return 0;
        if (test && run_interrupted(r))
            return err_set(e, TUG_EINTERRUPTED, "interrupted while examples were scored");
        if (p->pass.reports > 0)
            train_facts_alive(r->config->facts);
        if (p->pass.reports == 0)
            TRY(remote_pause(&d->remote, look_seconds, e));
    }
}

static int driver_score_check(const struct run *r, const char *option,
                              const struct parts *p, struct err *e)
{
    if (p->all[0].places == 0 && p->pass.pieces == 0)
        return err_set(e, TUG_EUSAGE,
                       "no worker has files of %s: give workers the same options "
                       "as the scheduler",
                       option);
    if (p->all[0].places == 0)
        return err_set(e, TUG_EDATA, "%s: there is no example in the data", option);
    TRY(evaluated_check(&p->all[0], p->pass.examples, option, e));
    if (p->all[0].bad_lines <= r->config->max_bad_lines)
        return 0;
    return err_set(e, TUG_EDATA,
                   "%llu lines of %s cannot be read, and --max-bad-lines allows %llu",
                   (unsigned long long)p->all[0].bad_lines, option,
                   (unsigned long long)r->config->max_bad_lines);
}

// Warns, as a run of one process does, if the features of --valid or --test are
// numbered differently from those of the training data, and does so at most once for
// --valid and once for --test.
static void compare_numbering(const struct run *r, bool test,
                              const struct numbering *found)
{
    char text[NUMBERING_TEXT];
    if ((test || (!r->has_best && r->config->valid.n > 0)) &&
        numbering_has(reader_schema(r->reader)) &&
        numbering_differs(&r->driver->known, found, test ? "--test" : "--valid", text))
        log_warn("%s", text);
}

int driver_score(struct run *r, bool test, bool best, struct metrics *ret, struct err *e)
{
    enum loss loss = r->config->reader.loss;
    struct parts p = {.tasks = r->parameters.model.options.tasks > 0
                                   ? r->parameters.model.options.tasks
                                   : 1};
    p.all[0].users = groups_of(r->config->group, 0);
    // The validation has the number of the training pass that has just ended; r->at.epoch
    // is increased only after the validation.
    struct msg_pass m = {
        .pass = test ? r->at.epoch : (uint64_t)r->at.epoch + 1,
        .kind = !test  ? WIRE_PASS_VALID
                : best ? WIRE_PASS_TEST_BEST
                       : WIRE_PASS_TEST,
        .seed = r->config->model.seed,
    };
    int rc = follow(r, &m, &p, e);
    if (rc == 0)
        rc = driver_score_check(r, test ? "--test" : "--valid", &p, e);
    if (rc == 0)
        compare_numbering(r, test, &p.all[0].keys);
    for (uint32_t t = 0; t < p.tasks && rc == 0; t++)
        rc = evaluated_metrics(&p.all[t], loss, loss == LOSS_LOGISTIC, &ret[t], e);
    struct report_data *report_data = r->config->report_data;
    if (rc == 0 && report_data != NULL && loss == LOSS_LOGISTIC)
        curves_make(test ? &report_data->test : &report_data->latest, p.all[0].scored,
                    p.all[0].n);
    if (rc == 0 && test)
        r->bad_lines = p.all[0].bad_lines;
    for (uint32_t t = 0; t < p.tasks; t++)
        evaluated_free(&p.all[t]);
    return rc;
}
