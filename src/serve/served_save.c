// Reads a save's description of its model and compares it with the model in use.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "serve/served_internal.h"
#include "train/saved/saved.h"

static bool same_schema(const struct schema *a, const struct schema *b)
{
    return strcmp(a->format, b->format) == 0 && a->loss == b->loss &&
           a->separator == b->separator && a->columns == b->columns &&
           a->text_len == b->text_len && memcmp(a->text, b->text, a->text_len) == 0;
}

// Returns whether two saves compute scores in the same way; learning rates and rules may
// differ.
static bool same_model(const struct saved_run *a, const struct saved_run *b)
{
    const struct model_options *x = &a->options.model, *y = &b->options.model;
    struct model m, n;
    if (model_init(&m, x, NULL) != 0 || model_init(&n, y, NULL) != 0)
        return false;
    return model_same_rows(&m, &n) && model_same_dense(&m, &n) &&
           x->normalize == y->normalize && x->fields == y->fields &&
           x->pooling_mean == y->pooling_mean && x->n_numbers == y->n_numbers &&
           memcmp(x->numbers, y->numbers, x->n_numbers * sizeof(*x->numbers)) == 0 &&
           same_schema(&a->schema, &b->schema);
}

static int parse_run(const char *save, const struct save_manifest *m,
                     struct saved_run **ret, struct err *e)
{
    char path[FILE_PATH_MAX];
    TRY(file_join(path, save, SAVE_MANIFEST, e));
    struct saved_run *run = mem_zalloc(sizeof(*run));
    if (run == NULL)
        return err_nomem(e, "a model");
    int rc = saved_run_parse(run, m->about, path, e);
    if (rc == 0)
        *ret = run;
    else
        mem_free(run);
    return rc;
}

static int compare_run(struct served *s, const char *save, const struct save_manifest *m,
                       struct err *e)
{
    struct saved_run *run;
    TRY(parse_run(save, m, &run, e));
    int rc = 0;
    if (!same_model(s->run, run))
        rc = err_set(e, TUG_EDATA,
                     "%s is a save of another model than the served one (another kind, "
                     "size or schema): open a new scorer for it",
                     save);
    saved_run_free(run);
    mem_free(run);
    return rc;
}

static int know_run(struct served *s, const char *save, const struct save_manifest *m,
                    struct err *e)
{
    struct model model;
    TRY(parse_run(save, m, &s->run, e));
    TRY(model_init(&model, &s->run->options.model, e));
    model_packed(&s->model, &model);
    s->numbered = numbering_has(&s->run->schema);
    return 0;
}

int served_open_chain(struct served *s, const char *save, uint64_t known,
                      struct save_chain *ret, struct err *e)
{
    TRY(save_chain_open_behind(ret, FILE_ANYWHERE, save, known, e));
    const struct save_manifest *m = &ret->saves[ret->n - 1];
    int rc = m->about == NULL ? err_set(e, TUG_EDATA,
                                        "%s holds tables, but no description of a model: "
                                        "it was not saved by a training run",
                                        save)
             : s->run == NULL ? know_run(s, save, m, e)
                              : compare_run(s, save, m, e);
    if (rc != 0)
        save_chain_close(ret);
    return rc;
}

bool served_expects_deltas(const struct save_manifest *m)
{
    for (size_t t = 0; t < m->n_tables; t++)
        if (strcmp(m->tables[t].config.name, saved_table(SAVED_MODEL, false)) == 0)
            return m->tables[t].config.deltas;
    return false;
}
