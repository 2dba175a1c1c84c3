// tug table stat and export of a saved model: the --out of a training run.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/model.h"
#include "cli/table.h"
#include "cli/table_output.h"
#include "table/rule.h"

static void print_group(const char *name, const struct accessor_group *g)
{
    printf("  columns %u..%u  %s, optimizer %s", g->weights, g->weights + g->n - 1, name,
           rule_info(g->rule.kind)->name);
    if (g->n_state > 0)
        printf(" (state in columns %u..%u)", g->state, g->state + g->n_state - 1);
    printf("\n");
}

static void print_table(const struct manifest *m, bool dense)
{
    uint64_t rows = 0, bytes = 0;
    uint32_t files = 0;
    for (uint32_t i = 0; i < m->n_parts; i++) {
        if (m->parts[i].dense != dense || m->parts[i].role != PART_MODEL)
            continue;
        rows += m->parts[i].info.rows;
        bytes += m->parts[i].info.bytes;
        files++;
    }
    printf("table %s: %" PRIu64 " rows, %" PRIu64 " bytes in %u files\n",
           dense ? "dense" : "sparse", rows, bytes, files);
}

static int stat(const char *dir, const struct manifest *m, const struct model *model)
{
    const struct model_options *o = &m->options.model;
    printf("%s: model %s", dir, model_name(o->kind));
    if (o->kind != MODEL_LR)
        printf(", dim %u", o->dim);
    if (o->kind == MODEL_FFM)
        printf(", %u fields", o->fields);
    printf(", format %s, seed %" PRIu64 ", %u passes over %" PRIu64 " examples%s\n",
           m->options.format, o->seed, m->at.epoch, m->examples,
           m->finished ? "" : " (not finished: --resume goes on)");
    print_table(m, false);
    print_group("w", &model->accessor.groups[0]);
    if (model->accessor.n_groups > 1)
        print_group("v", &model->accessor.groups[1]);
    print_table(m, true);
    print_group("bias", model->bias.groups);
    return 0;
}

struct export
{
    struct table_output to;
    const struct model *model;
    bool dense, state;
};

static bool is_state(const struct export *x, uint32_t column)
{
    if (x->dense)
        return column >= x->model->bias.groups[0].state;
    for (uint32_t g = 0; g < x->model->accessor.n_groups; g++) {
        const struct accessor_group *group = &x->model->accessor.groups[g];
        if (column >= group->state && column < group->state + group->n_state)
            return true;
    }
    return false;
}

static int put_row(void *ctx, uint64_t key, const float *values, uint32_t width,
                   struct err *e)
{
    struct export *x = ctx;
    char text[32];
    int n = snprintf(text, sizeof(text), "%" PRIu64, key);
    TRY(table_output_put(&x->to, text, (size_t)n, e));
    for (uint32_t c = 0; c < width; c++) {
        if (!x->state && is_state(x, c))
            continue;
        n = snprintf(text, sizeof(text), " %.9g", (double)values[c]);
        TRY(table_output_put(&x->to, text, (size_t)n, e));
    }
    return table_output_put(&x->to, "\n", 1, e);
}

// All rows, sorted by key: the parts are sorted by partition first, so they are read into
// a table and sorted again.
static int put_sorted(struct export *x, struct table *t, struct err *e)
{
    struct table_entry *rows;
    size_t n;
    TRY(table_sorted(t, 0, 1u << table_options(t)->partition_bits, &rows, &n, e));
    table_sort_by_key(rows, n);
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = put_row(x, rows[i].key, table_row(table_slabs(t), rows[i].handle),
                     table_options(t)->width, e);
    mem_free(rows);
    return rc;
}

static int export(const char *dir, const struct manifest *m, const struct model *model,
                  const struct table_values *v, struct err *e)
{
    struct export x = {.model = model,
                       .dense = v->table != NULL && strcmp(v->table, "dense") == 0,
                       .state = v->state};
    if (!x.dense && v->table != NULL && strcmp(v->table, "sparse") != 0)
        return err_set(e, TUG_EUSAGE, "there is no table '%s'; choose sparse or dense",
                       v->table);
    struct team *team;
    struct parameters p;
    TRY(team_open(&team, model_threads(0), e));
    int rc = saved_load(dir, m, PART_MODEL, team, &p, e);
    team_close(team);
    if (rc != 0)
        return rc;
    rc = table_output_open(&x.to, v->out, v->converter, e);
    if (rc == 0)
        rc = table_output_close(&x.to, put_sorted(&x, x.dense ? p.dense : p.sparse, e),
                                e);
    parameters_close(&p);
    return rc;
}

static int act(const struct table_values *v, const char *dir, struct manifest *m,
               struct err *e)
{
    struct model model;
    TRY(manifest_read(m, dir, e));
    TRY(model_init(&model, &m->options.model, e));
    return strcmp(v->action.items[0], "stat") == 0 ? stat(dir, m, &model)
                                                   : export(dir, m, &model, v, e);
}

int table_model(const struct table_values *v, const char *dir, struct err *e)
{
    struct manifest *m = mem_zalloc(sizeof(*m));
    if (m == NULL)
        return err_nomem(e, "a manifest");
    int rc = act(v, dir, m, e);
    mem_free(m);
    return rc;
}
