// Opens saved models.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/model.h"

#include <sched.h>
#include <string.h>

#include "base/alloc.h"
#include "data/source/paths.h"
#include "run/train_options.h"
#include "train/evaluate/guard.h"

int model_threads(uint64_t wanted)
{
    if (wanted != 0)
        return (int)wanted;
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

static void close_data(struct opened_model *m)
{
    source_close(m->source);
    reader_close(m->reader);
    m->source = NULL;
    m->reader = NULL;
    m->bad_lines = 0;
}

// Adapts the schema to a csv file whose separator or decimal point differs from the
// training data, because another program wrote it.
static int rewritten(struct schema *ret, const struct model_values *v, const char *format,
                     struct err *e)
{
    if (strcmp(format != NULL ? format : ret->format, "csv") != 0)
        return err_set(e, TUG_EUSAGE, "--%s works only with --format csv",
                       v->separator != NULL ? "separator" : "decimal");
    if (v->separator != NULL)
        TRY(train_parse_separator(v->separator, &ret->separator, e));
    if (v->decimal == NULL)
        return 0;
    if (strcmp(v->decimal, ",") != 0 && strcmp(v->decimal, ".") != 0)
        return err_set(e, TUG_EUSAGE, "--decimal is a comma or a point, not '%.200s'",
                       v->decimal);
    return schema_set_decimal(ret, v->decimal[0] == ',', e);
}

static int open_reader(struct opened_model *m, const struct model_values *v,
                       const struct reader_options *o, struct err *e)
{
    if (v->separator == NULL && v->decimal == NULL)
        return reader_open(&m->reader, o, e);
    struct schema *mine = mem_alloc(sizeof(*mine)); // too large for a stack
    if (mine == NULL)
        return err_nomem(e, "a reader");
    *mine = m->run.schema;
    struct reader_options rewrites = *o;
    rewrites.schema = mine;
    int rc = rewritten(mine, v, o->format, e);
    if (mine->separator != m->run.schema.separator)
        rewrites.trained_separator = m->run.schema.separator;
    rc = rc == 0 ? reader_open(&m->reader, &rewrites, e) : rc;
    mem_free(mine);
    return rc;
}

int model_open_data(struct opened_model *m, const struct model_values *v, bool labels,
                    struct err *e)
{
    close_data(m);
    if (v->web_any_host)
        data_files_any_host();
#define QUOTED(name, about) #name,
    static const char *const formats[] = {NULL, READER_FORMATS(QUOTED)};
    const struct reader_options r = {
        .schema = &m->run.schema,
        .format = formats[v->format],
        .fields = m->run.options.model.fields,
        .labels = labels,
        .drop = v->drop,
        .columns = v->columns,
        .allow_missing = v->allow_missing,
        .slots = v->slots,
    };
    const struct model_ops *ops = m->run.options.model.ops;
    // A model without fields that was trained on libffm data can score libsvm data.
    if (ops->needs_fields && reader_format_lacks_fields(r.format))
        return err_set(e, TUG_EUSAGE,
                       "--format %s, but the model %s needs the fields of the "
                       "features, and %s data has none: give it data in %s format",
                       r.format, ops->name, r.format, m->run.schema.format);
    TRY(open_reader(m, v, &r, e));
    m->format = reader_schema(m->reader)->format;
    struct source_options s = {.paths = v->data.items,
                               .n_paths = v->data.n,
                               .command = v->pipe_command,
                               .eager = m->eager,
                               .interrupted = m->interrupted};
    TRY(source_open(&m->source, &s, e));
    const struct data_files *files = source_data_files(m->source);
    guard_repeated(files, 0, files->n, "--data");
    return 0;
}

int model_read(struct opened_model *m, const char *from, uint64_t threads, struct err *e)
{
    TRY(save_find(from, m->dir, e));
    TRY(saved_read(&m->run, m->dir, e));
    return team_open(&m->team, model_threads(threads), e);
}

int model_load(struct opened_model *m, struct err *e)
{
    return saved_load(m->dir, &m->run, SAVED_MODEL, m->team, &m->parameters, e);
}

int model_read_error(const struct opened_model *m, const struct model_values *v, int rc,
                     struct err *e)
{
    if (rc != TUG_EDATA || e == NULL || !m->run.piped || v->pipe_command != NULL)
        return rc;
    err_add(e, " (the model was trained on the output of a --pipe-command: for such data "
               "give --pipe-command here, too)");
    return rc;
}

void model_close(struct opened_model *m)
{
    saved_run_free(&m->run);
    close_data(m);
    parameters_close(&m->parameters);
    team_close(m->team);
}

static int open_save(struct opened_model *m, const struct model_values *v, bool labels,
                     struct err *e)
{
    TRY(model_read(m, v->from, v->threads, e));
    TRY(model_read_error(m, v, model_open_data(m, v, labels, e), e));
    return model_load(m, e);
}

// Returns whether opening can be tried again: a newer save has replaced the save that
// could not be read, as in a run with --keep, and the data can be read again.
static bool is_replaced(const struct opened_model *m, const char *from)
{
    char newest[FILE_PATH_MAX];
    return m->dir[0] != '\0' && save_find(from, newest, NULL) == 0 &&
           strcmp(newest, m->dir) != 0 &&
           (m->source == NULL || data_files_pipe(source_data_files(m->source)) == NULL);
}

int model_open(struct opened_model *m, const struct model_values *v, bool labels,
               struct err *e)
{
    bool eager = m->eager;
    const atomic_bool *interrupted = m->interrupted;
    for (;;) {
        int rc = open_save(m, v, labels, e);
        if (rc == 0 || !is_replaced(m, v->from))
            return rc;
        model_close(m);
        memset(m, 0, sizeof(*m));
        m->eager = eager;
        m->interrupted = interrupted;
    }
}

struct evaluation_options model_evaluation(struct opened_model *m,
                                           const struct model_values *v)
{
    return (struct evaluation_options){
        .team = m->team,
        .parameters = &m->parameters,
        .source = m->source,
        .reader = m->reader,
        .loss = m->run.schema.loss,
        .max_bad_lines = v->max_bad_lines,
        .bad_lines = &m->bad_lines,
        .interrupted = m->interrupted,
        .what = "this data",
        .numbered = m->warn != NULL ? "data" : "this data",
        .warn = m->warn,
        .warn_ctx = m->warn_ctx,
    };
}
