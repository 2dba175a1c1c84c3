// Checkpoints of a run: what it writes, and what it begins with when that is not nothing.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "train/driver.h"
#include "train/lives.h"
#include "train/progress.h"
#include "train/saved.h"

static void copy(char to[MANIFEST_TEXT_MAX], const char *text)
{
    snprintf(to, MANIFEST_TEXT_MAX, "%s", text != NULL ? text : "");
}

// Without memory: nothing, and then the save is refused for having no parts.
static void copy_table(char to[MANIFEST_TEXT_MAX], const struct table_config *t)
{
    struct buf text = BUF_INIT(MANIFEST_TEXT_MAX);
    bool there = t != NULL && table_config_print(t, &text) == 0;
    copy(to, there ? buf_str(&text) : NULL);
    buf_free(&text);
}

static struct manifest_options options_of(const struct run *r)
{
    const struct train_config *c = r->config;
    struct manifest_options o = {
        .model = r->parameters.model.options,
        .loss = c->reader.loss,
        .separator = c->reader.separator,
        .schedule = c->schedule,
        .batch = c->batch,
        .deterministic = c->deterministic,
        .reduce_mean = c->reduce_mean,
        .streaming = r->streaming,
        .window_bytes = r->streaming ? c->window_bytes : 0,
        .valid_fraction = c->valid_fraction,
    };
    snprintf(o.format, sizeof(o.format), "%s", c->reader.format);
    copy(o.label, c->reader.label_column);
    copy(o.drop, c->reader.drop);
    copy(o.numeric, c->reader.numeric);
    copy(o.weight, c->reader.weight_column);
    copy_table(o.table, c->table);
    return o;
}

static struct saved_rows rows_of(struct run *r, bool best)
{
    if (r->driver != NULL)
        return driver_rows(r, best);
    return (struct saved_rows){.model = &r->parameters.model,
                               .local = best ? &r->best : &r->parameters};
}

int checkpoint_save(struct run *r, bool finished, struct train_result *result,
                    struct err *e)
{
    if (r->driver == NULL)         // else rows are looked at as they come
        TRY(diverged_check(r, e)); // the save before is worth more
    struct manifest *m = mem_zalloc(sizeof(*m));
    if (m == NULL)
        return err_nomem(e, "a save");
    m->options = options_of(r);
    m->examples = result->examples;
    m->finished = finished;
    m->at = r->at;
    m->bad_lines = r->bad_lines;
    m->has_best = r->has_best;
    m->best_loss = r->best_loss;
    m->best_epoch = r->best_epoch;
    m->passes_since_best = r->passes_since_best;
    m->best_valid = r->best_valid;
    char dir[FILE_PATH_MAX];
    struct saved_rows model = rows_of(r, r->has_best), training = rows_of(r, false);
    int rc = saved_write(r->config->out, r->team, &model, r->has_best ? &training : NULL,
                         m, r->config->keep, dir, e);
    if (rc == 0)
        snprintf(result->saved, sizeof(result->saved), "%s", dir);
    mem_free(m);
    return rc;
}

// The run takes on where the save stands.
static void stand_at(struct run *r, const struct manifest *m)
{
    r->at = m->at;
    r->bad_lines = m->bad_lines;
    r->resumed_examples = m->examples;
    r->has_best = m->has_best;
    r->best_loss = m->best_loss;
    r->best_epoch = m->best_epoch;
    r->passes_since_best = m->passes_since_best;
    r->best_valid = m->best_valid;
}

static int load_tables(struct run *r, const char *dir, const struct manifest *m,
                       struct err *e)
{
    parameters_close(&r->parameters);
    TRY(saved_load(dir, m, m->has_best ? PART_TRAINING : PART_MODEL, r->team,
                   &r->parameters, e));
    return m->has_best ? saved_load(dir, m, PART_MODEL, r->team, &r->best, e) : 0;
}

static int load_resumed(struct run *r, const char *dir, const struct manifest *m,
                        struct err *e)
{
    // What the memory of that machine allowed is no wish.
    if (r->config->data_in == DATA_IN_AUTO)
        r->streaming = m->options.streaming;
    struct manifest_options now = options_of(r);
    TRY(manifest_same_options(&m->options, &now, e));
    TRY(r->driver != NULL ? driver_resume(r, dir, m, e) : load_tables(r, dir, m, e));
    stand_at(r, m);
    return 0;
}

int checkpoint_resume(struct run *r, struct err *e)
{
    char dir[FILE_PATH_MAX];
    struct manifest *m = mem_zalloc(sizeof(*m));
    if (m == NULL)
        return err_nomem(e, "a saved model");
    int rc = saved_find(r->config->out, dir, e);
    if (rc == 0)
        rc = manifest_read(m, dir, e);
    if (rc == 0)
        rc = load_resumed(r, dir, m, e);
    if (rc == 0)
        progress_note(r->progress, "resuming from %s: %u pass%s and %llu batch%s done",
                      dir, m->at.epoch, PLURAL_ES(m->at.epoch),
                      (unsigned long long)m->at.batches, PLURAL_ES(m->at.batches));
    mem_free(m);
    return rc;
}

// "sparse,dense" taken apart; NULL means both.
static int choose_tables(const char *list, bool *ret_sparse, bool *ret_dense,
                         struct err *e)
{
    *ret_sparse = *ret_dense = list == NULL;
    for (const char *word = list; word != NULL;) {
        size_t n = strcspn(word, ",");
        bool sparse = n == 6 && strncmp(word, "sparse", n) == 0;
        bool dense = n == 5 && strncmp(word, "dense", n) == 0;
        if (!sparse && !dense)
            return err_set(
                e, TUG_EUSAGE,
                "--init-tables: there is no table '%.*s'; there are sparse and dense",
                (int)n, word);
        *ret_sparse |= sparse;
        *ret_dense |= dense;
        word = word[n] == ',' ? word + n + 1 : NULL;
    }
    return 0;
}

// Rows of the same length can still mean different things.
static bool same_shape(const struct model_options *a, const struct model_options *b)
{
    if (a->kind != b->kind || a->linear.kind != b->linear.kind)
        return false;
    return a->kind == MODEL_LR || (a->dim == b->dim && a->fields == b->fields &&
                                   a->latent.kind == b->latent.kind);
}

static int check_shape(const struct model *then, const struct model *now, const char *dir,
                       struct err *e)
{
    if (!same_shape(&then->options, &now->options))
        return err_set(
            e, TUG_EUSAGE,
            "%s holds a model %s with rows of %u floats, this run has %s with %u: give "
            "the same --model, --dim, --optimizer and fields",
            dir, model_name(then->options.kind), then->accessor.width,
            model_name(now->options.kind), now->accessor.width);
    return 0;
}

int checkpoint_init_from(struct run *r, struct err *e)
{
    bool sparse, dense;
    TRY(choose_tables(r->config->init_tables, &sparse, &dense, e));
    char dir[FILE_PATH_MAX];
    TRY(saved_find(r->config->init_from, dir, e));
    struct manifest *m = mem_zalloc(sizeof(*m));
    if (m == NULL)
        return err_nomem(e, "a saved model");
    struct model then;
    int rc = manifest_read(m, dir, e);
    if (rc == 0 && manifest_lives(m) != (r->config->table != NULL))
        rc = err_set(e, TUG_EUSAGE, "%s holds features that %s: give %s --table as there",
                     dir,
                     manifest_lives(m) ? "live by settings" : "have no life of their own",
                     manifest_lives(m) ? "the same" : "no");
    if (rc == 0)
        rc = model_init(&then, &m->options.model, e);
    if (rc == 0)
        rc = check_shape(&then, &r->parameters.model, dir, e);
    if (rc == 0 && r->driver != NULL)
        rc = driver_load(r, dir, m, PART_MODEL, sparse, dense, e);
    else if (rc == 0)
        rc = saved_load_into(dir, m, PART_MODEL, sparse, dense, r->team, &r->parameters,
                             e);
    mem_free(m);
    return rc;
}

// A new run's directory must be empty, or not there yet.
static int check_new_out(const char *out, struct err *e)
{
    if (saved_any(out))
        return err_set(
            e, TUG_EUSAGE,
            "--out %s already holds a saved model: give --resume to go on with it, or "
            "another directory",
            out);
    // Now, and not after hours of training.
    TRY(file_make_dir(out, e));
    return saved_none(out)
               ? 0
               : err_set(
                     e, TUG_EUSAGE,
                     "--out %s exists and is not an empty directory: give another one",
                     out);
}

// Names of columns go to the manifest.
static int check_texts(const struct reader_options *r, struct err *e)
{
    const char separator[2] = {r->separator, 0};
    const struct {
        const char *option, *text;
    } texts[] = {{"label", r->label_column},
                 {"drop", r->drop},
                 {"numeric", r->numeric},
                 {"weight-column", r->weight_column},
                 {"separator", separator}};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        if (texts[i].text == NULL || manifest_can_hold(texts[i].text))
            continue;
        return err_set(
            e, TUG_EUSAGE,
            "--%s cannot be saved with the model under --out: it is longer than "
            "%d bytes, or no UTF-8 text",
            texts[i].option, MANIFEST_TEXT_MAX - 1);
    }
    return 0;
}

int checkpoint_check_out(const struct train_config *c, int *ret_lock, struct err *e)
{
    *ret_lock = -1;
    if (c->out == NULL)
        return c->resume ? err_set(e, TUG_EUSAGE,
                                   "--resume needs --out DIR, the directory of the "
                                   "run to go on with")
                         : 0;
    TRY(check_texts(&c->reader, e));
    char dir[FILE_PATH_MAX];
    if (c->resume)
        TRY(saved_find(c->out, dir, e));
    else
        TRY(check_new_out(c->out, e));
    if (access(c->out, W_OK) != 0)
        return err_sys(e, TUG_EIO, "cannot write to --out %s", c->out);
    return file_lock_dir(c->out, ret_lock, e);
}
