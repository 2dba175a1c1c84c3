// The note of a pass, with which a driver goes on after the scheduler, with the driver in its
// process, was killed and started again (train/saved/kept_run.h).
//
// The note is part of the message that opens the pass, so both are in the scheduler's
// journal or neither. It describes the state of the run at that moment. The next
// driver opens the same pass once more, which changes nothing, and follows it from
// its beginning: the scheduler gives it all reports of the pass again. It repeats
// what this driver did after the opening: the validation (from the reports), the copy
// of the best pass and the save have the same result, since nothing is trained before
// the next pass is opened.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "train/checkpoint.h"
#include "train/history.h"
#include "train/saved/kept_run.h"
#include "train_cluster/driver_internal.h"

enum { HISTORY_BYTES = 1 << 24 };

static int read_steps(struct run *r, uint64_t *ret, struct err *e)
{
    struct driver *d = r->driver;
    *ret = 0;
    if (r->config->table == NULL || r->config->cluster->mode != CONFIG_SYNC)
        return 0;
    client_ts ts = client_step(d->remote.client, 0, ret, e);
    return ts != 0 ? client_wait(d->remote.client, ts, e) : e->code;
}

// Describes the present state of the run, with the position in the pass from
// which the run was resumed.
static int note_describe(struct run *r, uint64_t pass, const struct train_result *result,
                         char **ret, struct err *e)
{
    const struct driver_position *from = &r->driver->resumed;
    struct saved_run *m = checkpoint_describe(r, result, false, e);
    if (m == NULL)
        return e->code;
    int rc = from->pass == pass ? driver_set_readers(m, from, e) : 0;
    if (rc == 0)
        rc = saved_run_print(m, ret, e);
    saved_run_free(m);
    mem_free(m);
    return rc;
}

static int print_note(struct run *r, struct kept_run *k, struct buf *to, struct err *e)
{
    struct buf history = BUF_INIT(HISTORY_BYTES);
    char *text = NULL;
    int rc = history_print(r->history, &history, e);
    k->history = history.len > 0 ? mem_strdup(buf_str(&history)) : mem_strdup("");
    if (rc == 0 && k->history == NULL)
        rc = err_nomem(e, "the note of a pass");
    if (rc == 0)
        rc = kept_run_print(k, &text, e);
    if (rc == 0 && strlen(text) >= to->max)
        rc = err_set(e, TUG_EUSAGE,
                     "the state of the run (its history, columns and position) has more "
                     "than the %zu bytes that a scheduler with --state keeps; leave out "
                     "--state",
                     to->max);
    if (rc == 0 && buf_printf(to, "%s", text) != 0)
        rc = err_nomem(e, "the note of a pass");
    mem_free(text);
    buf_free(&history);
    return rc;
}

// A note has the history of all passes, so a run may not have more passes than fit. A pass
// with one label and validation takes 190 bytes.
enum { PASS_BYTES = 256 };

static int check_passes(const struct run *r, struct err *e)
{
    uint32_t labels = r->history->labels > 0 ? r->history->labels : 1;
    uint32_t most = WIRE_BYTES_MAX / PASS_BYTES / labels;
    if (r->config->epochs <= most)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "--epochs %u: a scheduler with --state, as of tug launch --restart "
                   "role, keeps the history of at most %u passes; give fewer passes, or "
                   "leave out --state or --restart role",
                   r->config->epochs, most);
}

int driver_note(struct run *r, uint64_t pass, const struct train_result *result,
                struct buf *to, struct err *e)
{
    struct driver *d = r->driver;
    if (!r->config->cluster->keeps)
        return 0;
    TRY(check_passes(r, e));
    struct kept_run k = {.examples = d->examples,
                         .trained = result->trained_examples,
                         .saved_batches = d->saved_batches,
                         .ahead = d->ahead,
                         .epochs_before = r->resumed_epochs,
                         .read_seconds = result->read_seconds,
                         .train_seconds = result->train_seconds,
                         .valid_seconds = result->valid_seconds,
                         .save_seconds = result->save_seconds,
                         .wait_seconds = result->wait_seconds};
    int rc = read_steps(r, &k.steps, e);
    d->steps = k.steps;
    if (rc == 0)
        rc = note_describe(r, pass, result, &k.run, e);
    if (rc == 0)
        rc = print_note(r, &k, to, e);
    kept_run_free(&k);
    return rc;
}

void driver_go_on(struct driver *d, const struct run *r)
{
    const struct kept_run *k = checkpoint_kept(r->config);
    if (k == NULL)
        return;
    d->goes_on = (uint64_t)r->at.epoch + 1;
    d->began = true;
    d->examples = k->examples;
    d->saved_batches = k->saved_batches;
    d->ahead = k->ahead;
    d->steps = k->steps;
}

// An earlier driver may have been killed when only some servers had the steps of the
// pass. So the message has the number of steps after the pass, not the steps to add.
int driver_add_steps(struct run *r, uint64_t batches, struct err *e)
{
    struct driver *d = r->driver;
    if (!r->config->cluster->keeps)
        return remote_step(&d->remote, batches, e);
    client_ts ts = client_step_to(d->remote.client, d->steps + batches, e);
    return ts != 0 ? client_wait(d->remote.client, ts, e) : e->code;
}
