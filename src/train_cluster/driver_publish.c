// Publishes a model during training, for processes that serve it (tug/score.h): from time
// to time a base of the rows, and between two bases deltas of the rows that have changed.
//
// A run cannot resume from these saves: they have the tables as they were in the middle
// of the workers' pushes, and only those rows of a table with thresholds that are worth
// publishing. A run is resumed from --out.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "os/below.h"
#include "os/clock.h"
#include "os/log.h"
#include "save/save.h"
#include "train/checkpoint.h"
#include "train_cluster/driver_internal.h"

// Refuses a directory that has checkpoints of a run: bases and deltas would be mixed with
// them.
static int check_saves(const char *dir, struct err *e)
{
    char newest[FILE_PATH_MAX];
    struct save_manifest m;
    struct err ignored;
    if (save_find(dir, newest, &ignored) != 0)
        return 0;
    TRY(save_read(newest, &m, e));
    bool published = m.mode == SAVE_BASE || m.mode == SAVE_DELTA;
    save_manifest_free(&m);
    return published
               ? 0
               : err_set(e, TUG_EUSAGE,
                         "--publish %s holds saves of a run (%s), which --resume needs: "
                         "give another directory",
                         dir, newest);
}

static int check_apart(const struct train_config *c, struct err *e)
{
    char out[FILE_PATH_MAX], dir[FILE_PATH_MAX];
    if (c->out == NULL)
        return 0;
    TRY(below_absolute(c->out, out, e));
    TRY(below_absolute(c->publish, dir, e));
    return strcmp(out, dir) != 0
               ? 0
               : err_set(
                     e, TUG_EUSAGE,
                     "--publish and --out are the same directory, '%s': give --publish "
                     "another one, as --publish %s/served",
                     c->out, c->out);
}

int driver_publish_open(struct run *r, struct err *e)
{
    struct driver_published *p = &r->driver->published;
    const char *dir = r->config->publish;
    if (dir == NULL)
        return 0;
    TRY(check_apart(r->config, e));
    TRY(check_saves(dir, e));
    TRY(file_make_dir(dir, e)); // made now, so that an error comes before the training
    if (file_lock_dir(dir, &p->lock, e) != 0)
        return err_wrap(e, "--publish: one run at a time publishes in a directory");
    TRY(remote_below(&r->driver->remote, WIRE_ROOT_SAVE, dir, p->below, e));
    p->due = clock_seconds() + r->config->publish_seconds;
    return 0;
}

static int driver_publish_wait(struct driver *d, client_ts ts, struct err *e)
{
    return ts != 0 ? client_wait(d->remote.client, ts, e) : e->code;
}

static int driver_publish_describe(struct run *r, const struct train_result *result,
                                   struct save_manifest *m, struct err *e)
{
    struct saved_run *about = checkpoint_describe(r, result, false, e);
    if (about == NULL)
        return e->code;
    about->has_best = false; // the current rows are published, not those of the best pass
    int rc = saved_run_print(about, &m->about, e);
    saved_run_free(about);
    mem_free(about);
    return rc;
}

static int write_rows(struct driver *d, struct client_save *s, const char *path,
                      struct save_manifest *m, struct err *e)
{
    struct err ignored;
    int rc = driver_publish_wait(d, client_save(d->remote.client, s, m, e), e);
    for (int i = 1; rc != 0 && driver_saves_again(e, i); i++) {
        (void)driver_publish_wait(
            d, client_save_end(d->remote.client, s->id, false, 0, &ignored), &ignored);
        TRY(save_empty(path, m, e));
        s->id = clock_unix_ns();
        rc = driver_publish_wait(d, client_save(d->remote.client, s, m, e), e);
    }
    return rc;
}

// Writes the files of the save in the directory `path`. *id becomes the number of the save.
static int write(struct run *r, const char *path, uint64_t *id, uint64_t batches,
                 const struct train_result *result, struct save_manifest *m,
                 struct err *e)
{
    static const uint32_t tables[] = {EXCHANGE_SPARSE, EXCHANGE_DENSE};
    struct driver *d = r->driver;
    char there[FILE_PATH_MAX];
    TRY(driver_publish_describe(r, result, m, e));
    TRY(save_path(there, d->published.below, m->number, e));
    struct client_save s = {
        .id = *id, .mode = m->mode, .path = there, .tables = tables, .n = 2};
    int rc = write_rows(d, &s, path, m, e);
    *id = s.id;
    TRY(rc);
    m->step = batches > m->step ? batches : m->step;
    return 0;
}

static int publish(struct run *r, enum save_mode mode, uint64_t batches,
                   const struct train_result *result, struct err *e)
{
    struct driver *d = r->driver;
    const char *dir = r->config->publish;
    char path[FILE_PATH_MAX];
    struct save_manifest m;
    uint64_t id = clock_unix_ns();
    TRY(save_begin_locked(dir, mode, &m, path, e));
    int rc = write(r, path, &id, batches, result, &m, e);
    if (rc == 0)
        rc = save_commit(dir, &m, r->config->keep, e);
    else
        save_abort(dir, &m);
    // A server that does not get this message ends the save after a while, and
    // the next save is a base.
    struct err ignored;
    if (driver_publish_wait(
            d, client_save_end(d->remote.client, id, rc == 0, m.checksum, &ignored),
            &ignored) != 0)
        d->published.based = false;
    save_manifest_free(&m);
    return rc;
}

// Publishes a base if this run has not published one yet, or if enough deltas have
// followed the last one; otherwise a delta.
static int publish_next(struct run *r, uint64_t batches,
                        const struct train_result *result, struct err *e)
{
    struct driver_published *p = &r->driver->published;
    bool delta = p->based && p->deltas < r->config->publish_deltas;
    p->based = true;
    pthread_mutex_lock(&r->driver->lock);
    int rc = publish(r, delta ? SAVE_DELTA : SAVE_BASE, batches, result, e);
    pthread_mutex_unlock(&r->driver->lock);
    p->deltas = delta ? p->deltas + 1 : 0;
    p->based &= rc == 0;
    p->due = clock_seconds() + r->config->publish_seconds;
    return rc;
}

int driver_publish_due(struct run *r, uint64_t batches, const struct train_result *result,
                       struct err *e)
{
    struct driver *d = r->driver;
    struct err why = {0};
    if (r->config->publish == NULL || clock_seconds() < d->published.due)
        return 0;
    int rc = publish_next(r, batches, result, &why);
    if (rc == 0)
        return 0;
    if (member_ended(client_member(d->remote.client), NULL) || rc == TUG_EINTERNAL) {
        *e = why;
        return rc;
    }
    log_warn("the model was not published, training goes on: %s", why.text);
    return 0;
}

int driver_publish_last(struct run *r, const struct train_result *result, struct err *e)
{
    return r->config->publish != NULL ? publish_next(r, r->at.batches, result, e) : 0;
}
