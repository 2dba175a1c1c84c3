// tug table stat and export of a saved model: the --out of a training run.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/plural.h"
#include "cli/model.h"
#include "cli/table.h"
#include "cli/table_output.h"
#include "rule/rule.h"

static void print_group(const char *name, const struct accessor_group *g)
{
    printf("  columns %u..%u  %s, optimizer %s", g->weights, g->weights + g->n - 1, name,
           rule_info(g->rule.kind)->name);
    if (g->n_state > 0)
        printf(" (state in columns %u..%u)", g->state, g->state + g->n_state - 1);
    printf("\n");
}

static void count_files(const struct manifest *m, bool dense, uint64_t *rows,
                        uint64_t *bytes, uint32_t *files)
{
    for (uint32_t i = 0; i < m->n_parts; i++) {
        if (m->parts[i].dense != dense || m->parts[i].role != PART_MODEL)
            continue;
        *rows += m->parts[i].info.rows;
        *bytes += m->parts[i].info.bytes;
        ++*files;
    }
}

static void print_table(const struct manifest *m, bool dense)
{
    uint64_t rows = 0, bytes = 0;
    uint32_t files = 0;
    count_files(m, dense, &rows, &bytes, &files);
    printf("table %s: %" PRIu64 " row%s, %" PRIu64 " bytes in %u file%s\n",
           dense ? "dense" : "sparse", rows, PLURAL_S(rows), bytes, files,
           PLURAL_S(files));
}

static const char *const names[] = {"sparse", "dense"};

static bool is_meant(const struct table_values *v, int table)
{
    return v->table == NULL || strcmp(v->table, names[table]) == 0;
}

static json_t *table_json(const struct manifest *m, int table, uint32_t width)
{
    uint64_t rows = 0, bytes = 0;
    uint32_t files = 0;
    count_files(m, table == 1, &rows, &bytes, &files);
    return json_pack("{s:s,s:I,s:I,s:i,s:i}", "table", names[table], "rows",
                     (json_int_t)rows, "bytes", (json_int_t)bytes, "files", (int)files,
                     "columns", (int)width);
}

static bool has_vectors(const struct model *m)
{
    return m->accessor.n_groups > 1;
}

static int stat_json(const struct table_values *v, const char *dir,
                     const struct manifest *m, const struct model *model, struct err *e)
{
    const struct model_options *o = &m->options.model;
    json_begin();
    json_t *tables = json_array();
    for (int t = 0; t < 2; t++)
        if (is_meant(v, t))
            json_array_append_new(
                tables,
                table_json(m, t, (t == 0 ? &model->accessor : &model->bias)->width));
    json_t *all = json_pack(
        "{s:s,s:s,s:i,s:i,s:s,s:I,s:i,s:I,s:b,s:o}", "save", dir, "model", o->ops->name,
        "dim", (int)(has_vectors(model) ? o->dim : 0), "fields", (int)o->fields, "format",
        m->schema.format, "seed", (json_int_t)o->seed, "epochs", (int)m->at.epoch,
        "examples", (json_int_t)m->examples, "finished", (int)m->finished, "tables",
        tables);
    return json_print(all, 0, e);
}

static int list(const struct table_values *v, struct err *e)
{
    if (v->json)
        return json_print(json_pack("{s:[{s:s},{s:s}]}", "tables", "table", names[0],
                                    "table", names[1]),
                          0, e);
    printf("%s\n%s\n", names[0], names[1]);
    return 0;
}

static void print_tables(const struct table_values *v, const struct manifest *m,
                         const struct model *model)
{
    if (is_meant(v, 0)) {
        print_table(m, false);
        for (uint32_t g = 0; g < model->accessor.n_groups; g++)
            print_group(model->options.ops->groups[g], &model->accessor.groups[g]);
    }
    if (is_meant(v, 1)) {
        print_table(m, true);
        print_group("bias", model->bias.groups);
    }
}

static int stat(const struct table_values *v, const char *dir, const struct manifest *m,
                const struct model *model)
{
    const struct model_options *o = &m->options.model;
    printf("%s: model %s", dir, o->ops->name);
    if (has_vectors(model))
        printf(", dim %u", o->dim);
    if (o->ops->needs_fields)
        printf(", %u field%s", o->fields, PLURAL_S(o->fields));
    printf(", format %s, seed %" PRIu64 ", %u pass%s over %" PRIu64 " example%s%s\n",
           m->schema.format, o->seed, m->at.epoch, PLURAL_ES(m->at.epoch), m->examples,
           PLURAL_S(m->examples), m->finished ? "" : " (not finished: --resume goes on)");
    print_tables(v, m, model);
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
                  const struct table_values *v, struct table_pick *pick, struct err *e)
{
    struct export x = {.model = model,
                       .dense = v->table != NULL && strcmp(v->table, names[1]) == 0,
                       .state = v->state};
    struct team *team;
    struct parameters p;
    TRY(team_open(&team, model_threads(0), e));
    int rc = saved_load(dir, m, PART_MODEL, team, &p, e);
    team_close(team);
    if (rc != 0)
        return rc;
    rc = table_output_open(&x.to, v->out, v->converter, e);
    x.to.pick = pick;
    if (rc == 0)
        rc = table_output_close(&x.to, put_sorted(&x, x.dense ? p.dense : p.sparse, e),
                                e);
    parameters_close(&p);
    return rc;
}

static int get(const char *dir, const struct manifest *m, const struct model *model,
               const struct table_values *v, struct err *e)
{
    struct table_keys k;
    TRY(table_keys_open(&k, v, e));
    struct table_pick pick = table_pick_keys(&k);
    int rc = export(dir, m, model, v, &pick, e);
    if (rc == 0)
        rc = table_keys_check(&k, dir, e);
    table_keys_close(&k);
    return rc;
}

static int act(const struct table_values *v, const char *dir, struct manifest *m,
               struct err *e)
{
    struct model model;
    const char *action = v->action.items[0];
    TRY(manifest_read(m, dir, e));
    TRY(model_init(&model, &m->options.model, e));
    if (!is_meant(v, 0) && !is_meant(v, 1))
        return table_unknown(dir, v->table, "sparse dense", e);
    if (strcmp(action, "list") == 0)
        return list(v, e);
    if (strcmp(action, "get") == 0)
        return get(dir, m, &model, v, e);
    if (strcmp(action, "export") == 0)
        return export(dir, m, &model, v, NULL, e);
    return v->json ? stat_json(v, dir, m, &model, e) : stat(v, dir, m, &model);
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
