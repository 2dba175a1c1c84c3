// See train_config.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/train_config_internal.h"

#include <string.h>

#include "cluster/node.h"
#include "data/source/paths.h"
#include "os/file.h"
#include "run/model.h"
#include "run/train_cv.h"
#include "run/train_refit.h"
#include "run/train_resumed.h"
#include "train/merge.h"
#include "train/refit.h"
#include "train/rows/run_tables.h"
#include "train_cluster/remote.h"
#include "train_cluster/within.h"

int train_read_table(struct table_config *c, const char *text, struct err *e)
{
    if (strchr(text, '=') != NULL || !file_exists(text))
        return strchr(text, '=') == NULL && strcspn(text, " \t\n") == strlen(text) &&
                       *text
                   ? err_set(e, TUG_EUSAGE,
                             "--table: there is no file '%s'; settings have the form "
                             "NAME = VALUE",
                             text)
                   : err_in(table_config_parse(c, text, e), "--table", e);
    struct buf b = BUF_INIT(1 << 16);
    int rc = file_read_text(text, &b, e);
    if (rc == 0)
        rc = err_in(table_config_parse(c, buf_str(&b), e), text, e);
    buf_free(&b);
    return rc;
}

// Refuses table settings in c that differ from those that the run determines. Then sets
// them to their defaults, so that the same run always has the same settings, whether
// --table repeats them or not.
static int take_run_settings(struct table_config *c, const struct table_config *run,
                             const struct table_config *usual, struct err *e)
{
    const struct {
        const char *name, *instead;
        bool differs;
    } settings[] = {
        {"dim", ", or give that as --dim", c->accessor.dim != run->accessor.dim},
        {"seed", ", or give that as --seed", c->seed != run->seed},
        {"mode", ", or give that as --mode",
         c->mode != run->mode || c->staleness != run->staleness},
        {"reduce", ", or give that as --reduce", c->mean != run->mean},
        {"placement", "", c->place != run->place},
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++)
        if (settings[i].differs)
            return err_set(e, TUG_EUSAGE,
                           "--table: the setting '%s' follows from the run, but has "
                           "another value here: leave it out%s",
                           settings[i].name, settings[i].instead);
    c->accessor.dim = usual->accessor.dim;
    c->seed = usual->seed;
    c->mode = usual->mode;
    c->staleness = usual->staleness;
    c->mean = usual->mean;
    return 0;
}

static int read_run_table(struct train_setup *setup, const char *text, struct err *e)
{
    const struct train_config *c = &setup->config;
    struct table_config usual = run_living_defaults(&c->model), run = usual;
    bool sync = c->deterministic || setup->cluster.mode == CONFIG_SYNC;
    run.accessor.dim = c->model.dim;
    run.seed = c->model.seed;
    run.mode = sync ? CONFIG_SYNC : setup->cluster.mode;
    run.staleness = setup->cluster.staleness;
    run.mean = sync && c->reduce_mean;
    setup->table = run;
    TRY(train_read_table(&setup->table, text, e));
    return take_run_settings(&setup->table, &run, &usual, e);
}

static int set_table(struct train_setup *setup, const struct train_options *t,
                     const struct options *o, struct err *e)
{
    struct train_config *c = &setup->config;
    if (t->valid != NULL)
        return err_set(
            e, TUG_EUSAGE,
            "--table and --valid cannot be used together: the rows of the best "
            "pass cannot be kept for tables that --table makes");
    if (t->prior != 0 && options_given(o, "prior"))
        return err_set(e, TUG_EUSAGE,
                       "--table and --prior cannot be used together: rows of such tables "
                       "do not count their updates; use --l2");
    if (t->data_norm)
        return err_set(e, TUG_EUSAGE,
                       "--table and --data-norm cannot be used together: some features "
                       "of such tables have no vector, so their numbers would be lost");
    if (t->dims != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--table and --dims cannot be used together: vectors of such "
                       "tables are made with one length; use --dim");
    if (setup->cluster.bf16)
        return err_set(e, TUG_EUSAGE,
                       "--table and --values bf16 cannot be used together: shows and "
                       "clicks would be rounded");
    TRY(read_run_table(setup, t->table, e));
    c->table = &setup->table;
    return 0;
}

// Checks that files exist and can be read as often as needed. `again` is the option for
// which the data is read more than once, such as --epochs; it is NULL if the data is read once.
static int check_paths(const struct train_config *c, const struct path_list *l,
                       const char *again, struct problems *problems, struct err *e)
{
    struct data_files files = {.command = l->command, .interrupted = c->interrupted};
    int rc = data_files_add_all(&files, l->items, l->n, problems, e);
    const struct data_file *pipe = again != NULL ? data_files_pipe(&files) : NULL;
    if (rc == 0 && pipe != NULL)
        rc = err_set(e, TUG_EUSAGE,
                     "--%s reads the data several times, and %s is a pipe, which can be "
                     "read only once: write the data to a file",
                     again, pipe->name);
    data_files_free(&files);
    return rc;
}

// Checks the files of a run in this process. The worker and the driver of a cluster see
// different files, and open them themselves.
int train_check_data(const struct train_config *c, const char *again, struct err *e)
{
    struct problems problems = PROBLEMS_INIT;
    int rc = check_paths(c, &c->data, again, &problems, e);
    if (rc == 0)
        // --test is read only once, after the second run
        rc = check_paths(c, &c->test, NULL, &problems, e);
    if (rc == 0)
        rc = check_paths(c, &c->valid, again, &problems, e);
    if (rc == 0)
        rc = problems_tell(&problems, e);
    problems_free(&problems);
    return rc;
}

// Checks --merge-ids. It needs all data in the memory of one process, because the lines
// of one example may be anywhere in the data.
static int check_merge(const struct train_options *t, const struct node *node,
                       struct err *e)
{
    struct merge m = {0};
    struct dataset_options waste;
    TRY(merge_begin(&m, t->merge_ids, &waste, e));
    if (t->merge_ids == NULL)
        return 0;
    if (node != NULL)
        return err_set(
            e, TUG_EUSAGE,
            "--merge-ids needs all of the data in one process; merge it first");
    if (t->data_in == DATA_IN_STREAM)
        return err_set(
            e, TUG_EUSAGE,
            "--merge-ids needs the data in memory: leave --data-in stream out");
    if (t->group != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--merge-ids and --group cannot be used together: an example is "
                       "several lines, but a group needs one");
    return 0;
}

// Refuses two outputs with the same file, because the later output would replace the
// earlier one.
static int check_outputs(const struct train_config *c, struct err *e)
{
    const struct {
        const char *option, *path;
    } out[] = {
        {"dump", c->dump}, {"history", c->history_file}, {"report", c->report_file}};
    for (size_t i = 0; i < 3; i++)
        for (size_t k = i + 1; k < 3; k++)
            if (out[i].path != NULL && out[k].path != NULL &&
                file_is_same(out[i].path, out[k].path))
                return err_set(e, TUG_EUSAGE,
                               "--%s and --%s name the same file, '%s': give two files",
                               out[i].option, out[k].option, out[i].path);
    return 0;
}

// Checks --fetch and --dump. Between two batches they read rows of this process; on a
// cluster, the driver reads rows of the servers instead.
static int check_looks(const struct train_config *c, const struct options *o,
                       struct err *e)
{
    if (c->fetch == NULL && c->dump == NULL) {
        bool fields = c->dump_fields != NULL;
        return !fields && !options_given(o, "fetch-every")
                   ? 0
                   : err_set(e, TUG_EUSAGE, "--%s needs --%s",
                             fields ? "dump-fields" : "fetch-every",
                             fields ? "dump" : "fetch or --dump");
    }
    if (c->dump_fields != NULL && c->dump == NULL)
        return err_set(e, TUG_EUSAGE, "--dump-fields needs --dump");
    if (c->table != NULL || c->publish != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--%s cannot be used with --table or --publish: 'tug table get' "
                       "and 'top' show their rows",
                       c->fetch != NULL ? "fetch" : "dump");
    if (c->cluster != NULL && c->dump_fields != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--dump-fields writes columns of examples, which only workers "
                       "have: on a cluster --dump writes layers only");
    if (c->merge != NULL && c->dump_fields != NULL)
        return err_set(e, TUG_EUSAGE,
                       "--dump-fields and --merge-ids cannot be used together: an "
                       "example is several lines, so it has no single text in a column");
    return 0;
}

static struct reader_options reader_options_of(struct train_setup *setup,
                                               const struct train_options *t,
                                               const struct options *o,
                                               const struct train_settings *s)
{
    return (struct reader_options){
        .format = options_given(o, "format")
                      ? options_word(TRAIN_FORMATS, t->format, setup->format)
                      : NULL,
        .loss = (enum loss)t->loss,
        .loss_given = options_given(o, "loss"),
        .labels = true,
        .fields = (uint32_t)t->fields,
        .label_column = t->label,
        .drop = t->drop,
        .numeric = t->numeric,
        .slots = t->slots,
        .weight_column = t->weight_column,
        .lists = t->lists,
        .list_separator = s->list_separator,
        .missing = t->missing,
        .cross_columns = t->cross_columns,
        .columns = t->columns,
        .quote = t->quote,
        .decimal = t->decimal,
        .separator = options_given(o, "separator") ? s->separator : (char)0,
        .allow_missing = t->allow_missing,
    };
}

// Copies the options as given, before any checks.
static void set_config(struct train_setup *setup, const struct train_options *t,
                       const struct options *o, const struct train_settings *s,
                       struct node *node)
{
    setup->json = t->json;
    setup->values = t;
    setup->options = o;
    setup->cluster = (struct train_cluster){.node = node, .course = &course_cluster};
    setup->valid[0] = s->valid;
    setup->config = (struct train_config){
        .data = {t->data.items, t->data.n, t->pipe_command},
        .test = {t->test.items, t->test.n, t->pipe_command},
        .valid = {setup->valid, s->valid != NULL, t->pipe_command},
        .valid_part = s->valid_part,
        .group = t->group,
        .merge = t->merge_ids,
        .reader = reader_options_of(setup, t, o, s),
        .schedule = {(enum schedule_kind)t->schedule, t->schedule_a, t->schedule_b},
        .threads = model_threads(t->threads),
        .data_in = (enum data_in)t->data_in,
        .window_bytes = t->window_mb << 20,
        .out = t->out,
        .resume = (enum train_resume)t->resume,
        .init_from = t->init_from,
        .init_tables = t->init_tables,
        .save_passes = (uint32_t)s->save_passes,
        .save_batches = s->save_batches,
        .log_batches = t->log_every,
        .dot_batches = t->dot_every,
        .publish = t->publish,
        .publish_seconds = t->publish_every,
        .publish_deltas = (uint32_t)t->publish_deltas,
        .keep_names = t->keep_names,
        .fetch = t->fetch,
        .dump = t->dump,
        .dump_fields = t->dump_fields,
        .history_file = t->history,
        .tfevents = t->tfevents,
        .report_file = t->report,
        .report_data = t->report != NULL ? &setup->report_data : NULL,
        .history = &setup->history,
        .fetch_batches = t->fetch_every,
        .dims = t->dims,
        .interrupted = setup->interrupted,
    };
    struct train_config *to = &setup->config;
    TRAINING_SETTINGS(TRAIN_TAKE, SETTING_NOTHING)
    PLAN_SETTINGS(TRAIN_TAKE, TRAIN_TAKE, SETTING_NOTHING)
}

static int configure(struct train_setup *setup, const struct train_options *t,
                     const struct options *o, struct node *node, struct err *e)
{
    struct train_config *c = &setup->config;
    struct train_settings s;
    TRY(train_options_check(t, o, &s, e));
    TRY(train_check_cv(t, node, e));
    TRY(check_merge(t, node, e));
    set_config(setup, t, o, &s, node);
    c->typed = setup->typed;
    if (node != NULL || t->table != NULL ||
        t->publish != NULL) // with --publish, this process may contain the servers
        c->cluster = &setup->cluster;
    TRY(train_set_model(&c->model, t, o, e));
    if (node == NULL || node->options.role != WIRE_WORKER)
        train_warn_of_unused(c->model.ops, o);
    TRY(train_set_mode(setup, t, o, &s, e));
    if (t->table != NULL)
        TRY(set_table(setup, t, o, e));
    TRY(check_outputs(c, e));
    TRY(check_looks(c, o, e));
    setup->refit = t->refit;
    setup->folds = (uint32_t)t->cv;
    if (t->refit)
        TRY(train_check_refit(c, e));
    if (t->keep_names > 0 && t->out == NULL)
        return err_set(e, TUG_EUSAGE, "--keep-names needs --out, where words are saved");
    if (node == NULL)
        TRY(train_check_data(c, t->refit ? "refit" : t->cv > 0 ? "cv" : NULL, e));
    else if (t->refit)
        TRY(train_set_stage(setup, e));
    return 0;
}

int train_configure(struct train_setup *setup, const struct train_options *t,
                    const struct options *o, struct node *node, struct err *e)
{
    if (t->web_any_host)
        data_files_any_host();
    int rc = train_take_saved(setup, &t, &o, node, e);
    return train_tell_taken(setup, rc != 0 ? rc : configure(setup, t, o, node, e), e);
}

int train_setup_run(const struct train_setup *s, struct train_result *ret, struct err *e)
{
    const struct train_cluster *k = s->config.cluster;
    int rc = s->refit                       ? refit_run(&s->config, ret, e)
             : k != NULL && k->node == NULL ? within_run(&s->config, ret, e)
                                            : train_run(&s->config, ret, e);
    return train_tell_taken(s, rc, e);
}
