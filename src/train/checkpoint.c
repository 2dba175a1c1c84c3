// See checkpoint.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "data/source/origins.h"
#include "os/clock.h"
#include "os/log.h"
#include "train/facts.h"
#include "train/fields.h"
#include "train/history.h"
#include "train/progress.h"
#include "train/rows/lifecycle.h"
#include "train/rows/run_rows.h"
#include "train/saved/kept_run.h"
#include "train/saved/run_options.h"

// The save with which a run begins (--resume, --init-from).
struct run_start {
    char dir[FILE_PATH_MAX];
    struct saved_run run;
};

#define KEPT "--state"

// How long a run waits for the end of the process that has driven it before, and the
// time between two checks.
enum { OTHER_SECONDS = 60, LOOK_MS = 100 };

const struct kept_run *checkpoint_kept(const struct train_config *c)
{
    return c->cluster != NULL ? c->cluster->kept : NULL;
}

static void fill_options(const struct run *r, struct saved_options *o)
{
    run_options_fill(r->config, &r->parameters.model.options, o);
    o->streaming = r->streaming;
    o->window_bytes = r->streaming ? r->config->window_bytes : 0;
    fields_dims_print(reader_schema(r->reader), &o->model, o->dims);
}

static int checkpoint_swap(void *run, struct err *e)
{
    struct run *r = run;
    return r->rows->swap(r, e);
}

// Returns the numbering (from 0 or from 1) of the features that the model knows; zeros if
// they have no numbers.
static struct numbering_range known_numbers(struct run *r)
{
    struct numbering all = {0};
    if (numbering_has(reader_schema(r->reader))) {
        numbering_join(&all, numbering_range(r->rows->known(r)));
        numbering_join(&all, numbering_range(&r->before));
    }
    return numbering_range(&all);
}

// Returns whether the data is the output of a command: of --pipe-command in this process,
// or of a command that has already written the files.
static bool is_piped(const struct path_list *data)
{
    bool piped = data->command != NULL;
    for (size_t i = 0; i < data->n && !piped; i++)
        piped = origins_piped(data->items[i]);
    return piped;
}

struct saved_run *checkpoint_describe(struct run *r, const struct train_result *result,
                                      bool finished, struct err *e)
{
    struct saved_run *m = mem_zalloc(sizeof(*m));
    if (m == NULL) {
        err_nomem(e, "a save");
        return NULL;
    }
    fill_options(r, &m->options);
    m->schema = *reader_schema(r->reader);
    m->data = *r->data_identity;
    m->columns = r->columns;
    m->numbers = known_numbers(r);
    if (numbering_has(&m->schema) && r->fields.fields_end > 0) {
        m->first_field = numbering_first_field(&r->fields);
        m->fields_end = r->fields.fields_end;
    }
    m->piped = is_piped(&r->config->data);
    run_options_plan(r->config, &m->plan);
    m->examples = result->examples;
    m->at = r->at;
    m->finished = finished && !saved_run_within_pass(m);
    m->bad_lines = r->bad_lines;
    m->has_best = r->has_best;
    m->best_loss = r->best_loss;
    m->best_epoch = r->best_epoch;
    m->passes_since_best = r->passes_since_best;
    memcpy(m->best_valids, r->best_valids, sizeof(m->best_valids));
    return m;
}

static int run_save(struct run *r, bool finished, struct train_result *result,
                    struct err *e)
{
    if (r->rows->check != NULL)
        // Checked here, so that a save with bad rows does not replace the previous one.
        TRY(r->rows->check(r, e));
    struct saved_run *m = checkpoint_describe(r, result, finished, e);
    if (m == NULL)
        return e->code;
    m->names = r->names;
    m->history = r->history;
    char dir[FILE_PATH_MAX];
    struct saved_rows best = r->rows->saved(r, true), now = r->rows->saved(r, false),
                      mean = now;
    mean.swap = checkpoint_swap;
    mean.ctx = r;
    bool averaged = r->at.averaged > 0;
    const struct saved_rows *roles[SAVED_ROLES] = {
        [SAVED_MODEL] = r->has_best ? &best
                        : averaged  ? &mean
                                    : &now,
        [SAVED_TRAINING] = r->has_best || averaged ? &now : NULL,
        [SAVED_MEAN] = r->has_best && averaged ? &mean : NULL,
    };
    int rc = saved_write(r->config->out, r->team, roles, m, r->config->keep, dir, e);
    if (rc == 0)
        snprintf(result->saved, sizeof(result->saved), "%s", dir);
    saved_run_free(m);
    mem_free(m);
    return rc;
}

int checkpoint_save(struct run *r, bool finished, struct train_result *result,
                    struct err *e)
{
    struct train_facts *facts = r->config->facts;
    double start = clock_seconds();
    enum train_state before = train_facts_state(facts, TRAIN_SAVING);
    int rc = run_save(r, finished, result, e);
    double seconds = clock_seconds() - start;
    result->save_seconds += seconds;
    // A save that came too late, after the batch for which it was announced, has not
    // failed: it is tried again.
    bool late = rc != 0 && (rc == TUG_EINTERRUPTED ||
                            (e != NULL && e->reason == REASON_SAVE_PASSED));
    if (!late)
        train_facts_saved(facts, rc == 0 ? result->saved : NULL, seconds, r->at.epoch,
                          e != NULL ? e->text : NULL);
    if (!late && rc != 0 && e != NULL && e->reason == REASON_NONE)
        // The run ends with this error. The reason lets an alert say that a save has
        // failed.
        e->reason = REASON_SAVE_FAILED;
    (void)train_facts_state(facts, before);
    return rc;
}

// Sets the run's position in the data and its best pass to those of the save.
static void stand_at(struct run *r, const struct saved_run *m)
{
    r->at = m->at;
    const struct kept_run *kept = checkpoint_kept(r->config);
    r->resumed_epochs = kept != NULL ? (uint32_t)kept->epochs_before : m->at.epoch;
    r->bad_lines = m->bad_lines;
    r->resumed_examples = r->config->other_data ? 0 : m->examples;
    r->has_best = m->has_best;
    r->best_loss = m->best_loss;
    r->best_epoch = m->best_epoch;
    r->passes_since_best = m->passes_since_best;
    memcpy(r->best_valids, m->best_valids, sizeof(r->best_valids));
    numbering_join(r->rows->known(r), m->numbers);
}

// Checks that a resumed run has the options of its save; the reader must be open.
// If --data-in is not given, the run reads the data as the earlier run did (into
// memory or streamed), because that choice depended on the memory of the earlier
// machine, not on an option.
static int same_options(struct run *r, char ret_differ[RUN_OPTIONS_TEXT_MAX],
                        struct err *e)
{
    const struct saved_run *m = &r->start->run;
    struct saved_options *now = mem_zalloc(sizeof(*now));
    if (now == NULL)
        return err_nomem(e, "a saved model");
    if (r->config->data_in == DATA_IN_AUTO)
        r->streaming = m->options.streaming;
    fill_options(r, now);
    const struct options *typed = r->config->typed;
    int rc = ret_differ != NULL
                 ? run_options_differ(&m->options, now, typed, ret_differ, e)
                 : run_options_same(&m->options, now, typed, e);
    mem_free(now);
    return rc;
}

static bool stopped_early(const struct train_config *c, const struct saved_run *m)
{
    return m->has_best && c->patience > 0 && m->passes_since_best >= c->patience;
}

// Returns whether a resumed run has nothing left to train or to save: its save was made
// when the run had finished, or after all requested passes.
static bool was_over(const struct run *r)
{
    const struct saved_run *m = r->resumes ? &r->start->run : NULL;
    if (m == NULL || checkpoint_kept(r->config) != NULL ||
        (m->at.epoch < r->config->epochs && !stopped_early(r->config, m)))
        return false;
    return m->finished || m->at.epoch > r->config->epochs || saved_run_within_pass(m);
}

void checkpoint_tell_over(const struct run *r, struct train_result *ret)
{
    ret->nothing_to_do = was_over(r);
    ret->within_pass = ret->nothing_to_do && saved_run_within_pass(&r->start->run);
}

// Refuses to continue without validation data if the earlier run had such data. Its model
// is that of the best pass, and later passes could not be compared with this pass.
static int still_validates(const struct run *r, const struct saved_run *m, struct err *e)
{
    const struct train_config *c = r->config;
    if (!m->has_best || c->other_data || c->valid.n > 0 || c->valid_part.share > 0 ||
        was_over(r))
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "the run being resumed had a file as --valid, and was best after pass "
                   "%u: give the same --valid",
                   m->best_epoch);
}

static int go_on(struct run *r, const struct kept_run *kept, struct err *e)
{
    const struct saved_run *m = &r->start->run;
    TRY(same_options(r, NULL, e));
    TRY(r->rows->resume(r, r->start->dir, m, e));
    stand_at(r, m);
    TRY(history_parse(r->history, kept->history, strlen(kept->history), KEPT, e));
    log_info("continuing with pass %u, which the former driver had begun",
             m->at.epoch + 1);
    return 0;
}

static int checkpoint_resume(struct run *r, struct err *e)
{
    if (checkpoint_kept(r->config) != NULL)
        return go_on(r, checkpoint_kept(r->config), e);
    const struct run_start *s = r->start;
    const struct saved_run *m = &s->run;
    TRY(same_options(r, NULL, e));
    TRY(still_validates(r, m, e));
    TRY(r->rows->resume(r, s->dir, m, e));
    stand_at(r, m);
    TRY(history_load(r->history, s->dir, e));
    history_cut(r->history, r->at.epoch);
    log_info("resuming from %s: %u whole pass%s done, %llu batch%s in all", s->dir,
             m->at.epoch, PLURAL_ES(m->at.epoch), (unsigned long long)m->at.batches,
             PLURAL_ES(m->at.batches));
    return 0;
}

// Reads the value of --init-tables, such as "sparse,dense". NULL selects both tables.
static int choose_tables(const char *list, bool *ret_sparse, bool *ret_dense,
                         struct err *e)
{
    *ret_sparse = *ret_dense = list == NULL;
    for (const char *word = list; word != NULL;) {
        size_t n = strcspn(word, ",");
        bool sparse = n == 6 && strncmp(word, "sparse", n) == 0;
        bool dense = n == 5 && strncmp(word, "dense", n) == 0;
        if (!sparse && !dense)
            return err_set(e, TUG_EUSAGE,
                           "--init-tables: there is no table '%.*s'; the tables are "
                           "sparse and dense",
                           (int)n, word);
        *ret_sparse |= sparse;
        *ret_dense |= dense;
        word = word[n] == ',' ? word + n + 1 : NULL;
    }
    return 0;
}

// Checks that rows of the save fit this run's tables. The length alone does not tell:
// rows of different models may have the same length.
static int check_shape(const struct run *r, bool dense, struct err *e)
{
    const struct saved_run *m = &r->start->run;
    struct saved_options *now = mem_zalloc(sizeof(*now));
    if (now == NULL)
        return err_nomem(e, "a saved model");
    fill_options(r, now);
    int rc = run_options_same_shape(&m->options, now, r->config->typed, dense,
                                    r->start->dir, e);
    mem_free(now);
    return rc;
}

static int init_from(struct run *r, struct err *e)
{
    const struct saved_run *m = &r->start->run;
    const char *dir = r->start->dir;
    bool sparse, dense;
    TRY(choose_tables(r->config->init_tables, &sparse, &dense, e));
    if (saved_run_has_lifecycle(m) != (r->config->table != NULL))
        return err_set(e, TUG_EUSAGE,
                       "the model in %s was trained %s: use %s --table here, too", dir,
                       saved_run_has_lifecycle(m) ? "with --table" : "without --table",
                       saved_run_has_lifecycle(m) ? "the same" : "no");
    TRY(check_shape(r, dense, e));
    TRY(r->rows->load(r, dir, m, sparse, dense, e));
    if (!sparse || !numbering_has(&m->schema))
        return 0;
    struct numbering *known = r->rows->known(r);
    // rows_own has noted the keys of the rows that it has loaded in *known.
    numbering_copy(&r->before, known);
    numbering_join(&r->before, m->numbers);
    r->before.columns = m->columns;
    numbering_add_fields(&r->before, m->first_field, m->fields_end);
    *known = (struct numbering){0};
    return 0;
}

void checkpoint_compare_numbering(struct run *r)
{
    char text[NUMBERING_TEXT];
    struct numbering data, *known = r->rows->known(r);
    if (!numbering_any(&r->before))
        return;
    numbering_copy(&data, known);
    data.columns = r->source != NULL ? numbering_columns(source_data_files(r->source))
                                     : 0;
    if (numbering_shifted(&r->before, &data, "--data", text))
        log_warn("%s", text);
    numbering_join(known, numbering_range(&r->before));
    r->before = (struct numbering){0};
}

int checkpoint_start(struct run *r, struct err *e)
{
    if (r->start != NULL) {
        uint64_t then = r->start->run.columns;
        r->columns = then > r->columns ? then : r->columns;
        numbering_add_fields(&r->fields, r->start->run.first_field,
                             r->start->run.fields_end);
        TRY(r->resumes ? checkpoint_resume(r, e) : init_from(r, e));
    }
    r->parameters.known.columns = r->columns;
    return 0;
}

// Lists the options in which the run differs from the save `m`. No reader is open yet, so
// settings that follow from the data are assumed to be those of the save.
static int differ_by_config(const struct run *r, const struct saved_run *m,
                            char ret[RUN_OPTIONS_TEXT_MAX], struct err *e)
{
    const struct saved_options *then = &m->options;
    struct saved_options *now = mem_zalloc(sizeof(*now));
    if (now == NULL)
        return err_nomem(e, "a saved model");
    struct model_options model = r->config->model;
    if (model.fields == 0)
        model.fields = then->model.fields;
    model.tasks = then->model.tasks;
    run_options_fill(r->config, &model, now);
    now->streaming = r->config->data_in == DATA_IN_AUTO
                         ? then->streaming
                         : r->config->data_in == DATA_IN_STREAM;
    now->window_bytes = now->streaming ? r->config->window_bytes : 0;
    int rc = run_options_differ(then, now, r->config->typed, ret, e);
    mem_free(now);
    return rc;
}

int checkpoint_also_differs(const struct run *r, int rc, struct err *e)
{
    char others[RUN_OPTIONS_TEXT_MAX];
    struct err none;
    if (rc != TUG_EUSAGE || !r->resumes || e == NULL ||
        differ_by_config(r, &r->start->run, others, &none) != 0 || others[0] == '\0')
        return rc;
    err_add(e, "; besides, the run being resumed had%s", others);
    return rc;
}

static int same_format(const struct run *r, const struct saved_run *m, struct err *e)
{
    const char *now = r->config->reader.format;
    if (!r->resumes || now == NULL || strcmp(now, m->schema.format) == 0)
        return 0;
    char others[RUN_OPTIONS_TEXT_MAX];
    TRY(differ_by_config(r, m, others, e));
    return err_set(
        e, TUG_EUSAGE,
        "the run being resumed had --format %s, but this run has %s%s%s: give the same "
        "options, or use --init-from to start a new run from the saved model",
        m->schema.format, now, others[0] != '\0' ? "; the earlier run had" : "", others);
}

static int read_start(struct run *r, const char *from, struct err *e)
{
    struct run_start *s = r->start;
    TRY(save_find(from, s->dir, e));
    TRY(saved_check_whole(s->dir, e));
    TRY(saved_read(&s->run, s->dir, e));
    TRY(same_format(r, &s->run, e));
    r->own.reader.schema = &s->run.schema;
    return 0;
}

static int read_kept(struct run *r, const struct kept_run *kept, struct err *e)
{
    struct run_start *s = r->start;
    snprintf(s->dir, sizeof(s->dir), "%s", KEPT);
    TRY(saved_run_parse(&s->run, kept->run, s->dir, e));
    r->own.reader.schema = &s->run.schema;
    return 0;
}

int checkpoint_find(struct run *r, struct err *e)
{
    const char *from = r->resumes ? r->config->out : r->config->init_from;
    const struct kept_run *kept = checkpoint_kept(r->config);
    if (from == NULL && kept == NULL)
        return 0;
    r->start = mem_zalloc(sizeof(*r->start));
    if (r->start == NULL)
        return err_nomem(e, "a saved model");
    return kept != NULL ? read_kept(r, kept, e) : read_start(r, from, e);
}

void checkpoint_forget(struct run *r)
{
    if (r->start != NULL)
        saved_run_free(&r->start->run);
    mem_free(r->start);
    r->start = NULL;
}

int checkpoint_check_data(struct run *r, struct err *e)
{
    if (r->config->out != NULL && !schema_has_text(reader_schema(r->reader)))
        return err_set(e, TUG_EUSAGE,
                       "the names of columns must be UTF-8 to save a model under --out: "
                       "convert the headers, for example with iconv");
    struct err how;
    if (r->resumes && !r->config->other_data && r->start->run.piped &&
        !is_piped(&r->config->data))
        return err_set(e, TUG_EUSAGE,
                       "--pipe-command is missing: the run in %s trains on the output of "
                       "a command; give the same command again",
                       r->start->dir);
    if (!r->resumes || r->config->other_data ||
        identity_same(&r->start->run.data, r->data_identity, &how) == 0)
        return 0;
    char others[RUN_OPTIONS_TEXT_MAX];
    TRY(same_options(r, others, e));
    const char *from = checkpoint_kept(r->config) != NULL ? KEPT : r->config->out;
    return err_set(
        e, TUG_EDATA,
        "--data is not the data of the run in %s: %s%s%s. Give the same data%s; or train "
        "on new data from the saved model: --init-from %s, with another --out",
        from, how.text, others[0] != '\0' ? "; the earlier run had" : "", others,
        others[0] != '\0' ? " and options" : "", from);
}

// Checks that a new run's directory is empty or does not exist.
static int check_new_out(const char *out, const char *publish, struct err *e)
{
    if (saved_any(out))
        return err_set(
            e, TUG_EUSAGE,
            "--out %s already holds a saved model: give --resume to continue it, or "
            "another directory",
            out);
    // The directory is made now, because an error should not come only
    // after hours of training.
    TRY(file_make_dir(out, e));
    return saved_none(out, publish)
               ? 0
               : err_set(
                     e, TUG_EUSAGE,
                     "--out %s exists and is not an empty directory: give another one",
                     out);
}

static int lock_now(const struct train_config *c, int *ret_lock, struct err *e)
{
    const struct train_cluster *of = c->cluster;
    if (of != NULL && of->shares_out)
        return file_share_dir(c->out, of->took_over, ret_lock, e);
    return file_lock_dir(c->out, ret_lock, e);
}

// Locks --out. With --state, another process may have driven the run until now.
// Its scheduler has just lost the cluster, and the process may take a moment to
// end and to release the lock.
static int lock_out(const struct train_config *c, int *ret_lock, struct err *e)
{
    uint64_t now = clock_ns(), until = now + (uint64_t)OTHER_SECONDS * SECOND_NS;
    struct err why = {0};
    bool told = false, waits = c->cluster != NULL && c->cluster->keeps;
    int rc;
    while ((rc = lock_now(c, ret_lock, &why)) == TUG_EUSAGE && waits && now < until &&
           (c->interrupted == NULL || !atomic_load(c->interrupted))) {
        if (!told)
            log_warn("waiting up to %d s for the previous scheduler to end: %s",
                     OTHER_SECONDS, why.text);
        told = true;
        (void)poll(NULL, 0, LOOK_MS);
        now = clock_ns();
    }
    return rc == 0 ? 0 : err_copy(e, &why);
}

int checkpoint_check_out(const struct train_config *c, int *ret_lock, bool *ret_resumes,
                         struct err *e)
{
    *ret_lock = -1;
    *ret_resumes = checkpoint_kept(c) != NULL;
    if (*ret_resumes)
        return c->out != NULL ? lock_out(c, ret_lock, e) : 0;
    if (c->out == NULL)
        return c->resume != TRAIN_NEW
                   ? err_set(
                         e, TUG_EUSAGE,
                         "--resume needs --out DIR, the directory of the run to continue")
                   : 0;
    char dir[FILE_PATH_MAX];
    *ret_resumes = c->resume == TRAIN_RESUME ||
                   (c->resume == TRAIN_RESUME_AUTO && saved_any(c->out));
    if (*ret_resumes) {
        TRY(save_find(c->out, dir, e));
        if (strcmp(dir, c->out) == 0)
            return err_set(e, TUG_EUSAGE,
                           "--out %s is one save of a model: give the directory that it "
                           "lies in",
                           c->out);
    } else {
        TRY(check_new_out(c->out, c->publish, e));
    }
    if (access(c->out, W_OK) != 0)
        return err_sys(e, TUG_EIO, "cannot write to --out %s", c->out);
    return lock_out(c, ret_lock, e);
}
