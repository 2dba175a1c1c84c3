// Scorers of programs (tug/score.h), which wrap a served model of src/serve.
//
// SPDX-License-Identifier: Apache-2.0
#include "os/descriptors.h"
#include "tug/score.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/models/given_rows.h"
#include "runtime/job.h"
#include "runtime/last_error.h"
#include "serve/score.h"

struct tug_scorer {
    struct served *served;
    pthread_mutex_t lock; // only one thread at a time may run tug_scorer_refresh
    bool follows;
};

struct opening {
    struct served *served;
    const char *path;
    struct served_options o;
    atomic_bool stop;
};

enum { THREADS_MAX = 1023, WAIT_SECONDS_MAX = 1000000 };

static int scorer_check(const struct tug_scorer_options *o, struct err *e)
{
    if (o->threads > THREADS_MAX)
        return err_set(e, TUG_EUSAGE, "threads: %u is more than %d", o->threads,
                       THREADS_MAX);
    if (!(o->wait_seconds >= 0 && o->wait_seconds <= WAIT_SECONDS_MAX))
        return err_set(e, TUG_EUSAGE, "wait_seconds: %g is not from 0 to %d",
                       o->wait_seconds, WAIT_SECONDS_MAX);
    return 0;
}

static int open_served(void *ctx, struct err *e)
{
    struct opening *x = ctx;
    return served_open(&x->served, x->path, &x->o, e);
}

int tug_scorer_open(struct tug_scorer **ret, const char *path,
                    const struct tug_scorer_options *o)
{
    descriptors_hold_standard();
    struct err *e = last_error();
    struct opening x = {.path = path};
    if (o != NULL) {
        TRY(scorer_check(o, e));
        x.o = (struct served_options){.threads = (int)o->threads,
                                      .follow = o->follow,
                                      .poll_ms = o->poll_ms,
                                      .wait_seconds = o->wait_seconds};
    }
    x.o.interrupted = &x.stop;
    struct tug_scorer *s = mem_zalloc(sizeof(*s));
    if (s == NULL)
        return err_nomem(e, "a scorer");
    int rc = job_run(open_served, NULL, &x, &x.stop, e);
    if (rc != 0) {
        mem_free(s);
        return rc;
    }
    pthread_mutex_init(&s->lock, NULL);
    s->served = x.served;
    s->follows = x.o.follow;
    *ret = s;
    return 0;
}

void tug_scorer_close(struct tug_scorer *s)
{
    if (s == NULL)
        return;
    served_stop(s->served);
    score_close(s->served);
    served_close(s->served);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

int tug_scorer_predict(struct tug_scorer *s, const struct tug_rows *rows, bool raw,
                       float *ret, size_t room, uint32_t *ret_save)
{
    const struct score_rows x = {.n = rows->n,
                                 .offsets = rows->offsets,
                                 .keys = rows->keys,
                                 .fields = rows->fields,
                                 .values = rows->values,
                                 .columns = rows->columns};
    uint32_t labels = s->served->model.options.tasks;
    last_warning_set("");
    if (rows->n > room / labels)
        return err_set(last_error(), TUG_EUSAGE,
                       "there are %zu predictions, and room for %zu", rows->n * labels,
                       room);
    last_warning_begin();
    int rc = score_rows(s->served, &x, raw, ret, ret_save, last_error());
    last_warning_end();
    return rc;
}

int tug_scorer_predict_text(struct tug_scorer *s, const char *text, size_t bytes,
                            bool raw, float *ret, size_t room, size_t *ret_n,
                            uint32_t *ret_save)
{
    size_t n;
    last_warning_begin();
    int rc = score_text(s->served, text, bytes, raw, ret, room, &n, ret_save,
                        last_error());
    last_warning_end();
    *ret_n = n * s->served->model.options.tasks;
    return rc;
}

static int predict_columns(const struct tug_scorer *s, const struct tug_data *data,
                           bool raw, float *ret, size_t room, size_t *ret_n,
                           uint32_t *ret_save, struct err *e)
{
    const struct schema *schema = &s->served->run->schema;
    const struct given_as as = {.name = "data", .schema = schema};
    struct given_rows g;
    if (strcmp(schema->format, "csv") != 0)
        return err_set(e, TUG_EUSAGE,
                       "the model was trained on %s data, whose columns have no names: "
                       "give rows with keys, or text",
                       schema->format);
    TRY(given_rows_open(&g, data, &as, e));
    int rc = score_columns(s->served, &g.rows, raw, ret, room, ret_n, ret_save, e);
    given_rows_close(&g);
    return rc;
}

int tug_scorer_predict_columns(struct tug_scorer *s, const struct tug_columns *columns,
                               bool raw, float *ret, size_t room, size_t *ret_n,
                               uint32_t *ret_save)
{
    const struct tug_data data = {.columns = columns};
    *ret_n = 0;
    last_warning_begin();
    int rc = predict_columns(s, &data, raw, ret, room, ret_n, ret_save, last_error());
    last_warning_end();
    *ret_n *= s->served->model.options.tasks;
    given_rows_forget(&data);
    return rc;
}

int tug_scorer_feature(struct tug_scorer *s, const char *name, uint64_t *ret_key,
                       uint32_t *ret_field)
{
    return score_feature(s->served, name, ret_key, ret_field, last_error());
}

const char *tug_scorer_format(struct tug_scorer *s)
{
    return s->served->run->schema.format;
}

uint32_t tug_scorer_labels(struct tug_scorer *s)
{
    return schema_labels(&s->served->run->schema);
}

const char *tug_scorer_label(struct tug_scorer *s, uint32_t i)
{
    const struct schema *schema = &s->served->run->schema;
    if (i >= schema_labels(schema))
        return NULL;
    const char *name = schema_label(schema, i);
    return name != NULL ? name : "";
}

int tug_scorer_refresh(struct tug_scorer *s, bool *ret_taken)
{
    struct err *e = last_error();
    if (s->follows)
        return err_set(
            e, TUG_EUSAGE,
            "the scorer loads new saves itself, because it was opened with 'follow'");
    pthread_mutex_lock(&s->lock);
    int rc = served_refresh(s->served, ret_taken, e);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void tug_scorer_status(struct tug_scorer *s, struct tug_scorer_status *ret)
{
    struct served_status x = served_status(s->served);
    *ret = (struct tug_scorer_status){.save = x.number,
                                      .is_delta = x.mode == SAVE_DELTA,
                                      .step = x.step,
                                      .rows = x.rows,
                                      .taken = x.taken,
                                      .refused = x.refused};
    snprintf(ret->refusal, sizeof(ret->refusal), "%s", x.refusal.text);
}
