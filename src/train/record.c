// See record.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/record.h"

#include "train/checkpoint.h"
#include "train/history.h"
#include "train/progress.h"
#include "train/tfevents.h"

int record_check(const struct train_config *c, const struct data_files *read,
                 struct err *e)
{
    bool continues = c->resume != TRAIN_NEW || checkpoint_kept(c) != NULL;
    TRY(history_check_file(c->history_file, read, continues, e));
    return tfevents_check(c->tfevents, c->out, e);
}

static int open_events(struct run *r, struct err *e)
{
    const struct train_config *c = r->config;
    // The number of the pass's examples before this run resumed it. A driver's workers
    // count all examples of the pass.
    uint64_t done = r->driver == NULL ? r->at.seen + r->at.batch * c->batch : 0;
    double held = c->valid.n > 0 ? 0 : c->valid_part.share;
    if (c->tfevents == NULL)
        return 0;
    TRY(tfevents_open(&r->events, c->tfevents, r->history, c->reader.loss, r->resumes,
                      done - (uint64_t)((double)done * held), e));
    progress_set_events(r->progress, r->events);
    return 0;
}

int record_open(struct run *r, struct err *e)
{
    TRY(run_may_write(r, e));
    TRY(history_begin_file(r->history, r->config->history_file, e));
    return open_events(r, e);
}

void record_close(struct run *r)
{
    tfevents_close(r->events);
    r->events = NULL;
}

int record_pass(struct run *r, const struct record_of_pass *pass, struct err *e)
{
    struct err why;
    struct history_pass p = {.pass = r->at.epoch,
                             .examples = pass->examples - run_held_out(r, pass->examples),
                             .seconds = pass->seconds,
                             .validated = pass->valid != NULL,
                             .best = pass->valid != NULL && r->has_best &&
                                     r->best_epoch == r->at.epoch};
    for (uint32_t k = 0; k < r->model->options.tasks; k++) {
        p.seen[k] = history_score(&pass->seen[k]);
        if (pass->valid != NULL)
            p.valid[k] = history_score(&pass->valid[k]);
    }
    TRY(history_add(r->history, &p, e));
    TRY(run_may_write(r, e));
    if (r->unrecorded.text[0] == '\0' &&
        history_append(r->history, r->config->history_file, &why) != 0)
        r->unrecorded = why;
    if (r->events != NULL)
        tfevents_pass(r->events, pass->all);
    return 0;
}

int record_error(const struct run *r, const struct train_result *result, struct err *e)
{
    const struct err *why = r->events != NULL ? tfevents_failed(r->events) : NULL;
    bool history = r->unrecorded.text[0] != '\0';
    if (history)
        why = &r->unrecorded;
    if (why == NULL)
        return 0;
    return err_set(e, TUG_EIO, "%s. Training has finished, %s%s; %s", why->text,
                   result->saved[0] != 0 ? "the model is in " : "unsaved without --out",
                   result->saved,
                   history ? "--history lacks passes" : "--tfevents lacks events");
}
