// tug table on saves, also of training runs: loads them whole, shows or changes them, and
// writes changed tables as a new save beside the old ones.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "cli/cli.h"
#include "cli/table/table.h"
#include "cli/table/table_output.h"
#include "cli/table/table_top.h"
#include "os/file.h"
#include "os/json.h"
#include "os/log.h"
#include "save/save.h"
#include "save/text.h"
#include "train/rows/run_tables.h"
#include "train/saved/saved_run.h"

// The tables of the newest save, which is loaded with all saves that it builds on.
struct saves {
    const struct table_values *v;
    const char *from;
    struct save_chain chain;
    const struct save_manifest *newest;
    struct store **stores; // NULL: not loaded
    struct saved_run *run; // the training run; NULL: no training run has made the save
};

static void close_saves(struct saves *s)
{
    for (size_t i = 0; s->stores != NULL && i < s->newest->n_tables; i++)
        store_close(s->stores[i]);
    mem_free(s->stores);
    if (s->run != NULL)
        saved_run_free(s->run);
    mem_free(s->run);
    save_chain_close(&s->chain);
}

static int read_run(struct saves *s, struct err *e)
{
    s->run = mem_zalloc(sizeof(*s->run));
    return s->run != NULL ? saved_run_parse(s->run, s->newest->about,
                                            s->chain.paths[s->chain.n - 1], e)
                          : err_nomem(e, "a saved model");
}

static int open_saves(struct saves *s, struct err *e)
{
    TRY(save_chain_open(&s->chain, s->from, e));
    s->newest = &s->chain.saves[s->chain.n - 1];
    s->stores = mem_zalloc((s->newest->n_tables + 1) * sizeof(*s->stores));
    if (s->stores == NULL)
        return err_nomem(e, "tables");
    return s->newest->about != NULL ? read_run(s, e) : 0;
}

static int table_saved_load(struct saves *s, size_t i, struct err *e)
{
    const struct save_table *t = &s->newest->tables[i];
    struct store_options o = {
        .config = &t->config, .id = t->id, .partition_bits = t->partition_bits};
    TRY(store_open(&s->stores[i], &o, e));
    return save_load(&s->chain, t->config.name, s->stores[i], NULL, NULL, e);
}

static int load_all(struct saves *s, struct err *e)
{
    for (size_t i = 0; i < s->newest->n_tables; i++)
        TRY(table_saved_load(s, i, e));
    return 0;
}

static bool is_meant(const struct saves *s, size_t i)
{
    return s->v->table == NULL ||
           strcmp(s->v->table, s->newest->tables[i].config.name) == 0;
}

static int table_saved_unknown(const struct saves *s, struct err *e)
{
    struct buf names = BUF_INIT(1 << 20);
    for (size_t i = 0; i < s->newest->n_tables; i++)
        (void)buf_printf(&names, "%s%s", i > 0 ? " " : "",
                         s->newest->tables[i].config.name);
    int rc = table_unknown(s->from, s->v->table, buf_str(&names), e);
    buf_free(&names);
    return rc;
}

// Finds the table that --table names; by default the only one, or the features of a
// model.
static int find_one(const struct saves *s, size_t *ret, struct err *e)
{
    size_t found = 0;
    for (size_t i = 0; i < s->newest->n_tables && s->v->table == NULL; i++)
        if (strcmp(s->newest->tables[i].config.name, RUN_SPARSE) == 0) {
            *ret = i;
            return 0;
        }
    for (size_t i = 0; i < s->newest->n_tables; i++)
        if (is_meant(s, i)) {
            *ret = i;
            found++;
        }
    if (found == 1)
        return 0;
    if (s->v->table != NULL)
        return table_saved_unknown(s, e);
    return err_set(
        e, TUG_EUSAGE,
        "%s holds %zu tables: choose one with --table NAME; 'tug table list' shows them",
        s->from, s->newest->n_tables);
}

static int meant(const struct saves *s, struct err *e)
{
    size_t ignored;
    return s->v->table == NULL ? 0 : find_one(s, &ignored, e);
}

// ------------------------------------------------------ actions that only read the saves

static uint64_t table_saved_bytes_of(const struct save_table *t)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < t->n_files; i++)
        bytes += t->files[i].info.bytes;
    return bytes;
}

static void print_table(const struct save_table *t, const struct store *store,
                        const char *settings)
{
    struct store_stats x = store_stats(store);
    cli_printf("table %s: %" PRIu64 " row%s", t->config.name, x.rows, PLURAL_S(x.rows));
    if (store_accessor(store)->extra_width > 0) // else the row itself contains embedx
        cli_printf(", %" PRIu64 " with embedx", x.extra_rows);
    cli_printf(", day %u, step %" PRIu64 "; %" PRIu64
               " bytes in %zu file%s of the newest save\n",
               x.day, x.step, table_saved_bytes_of(t), t->n_files, PLURAL_S(t->n_files));
    for (const char *at = settings; *at != 0;) {
        size_t n = strcspn(at, "\n");
        cli_printf("  %.*s\n", (int)n, at);
        at += n + (at[n] == '\n');
    }
}

static json_t *table_json(const struct save_table *t, const struct store *store,
                          const char *settings)
{
    struct store_stats x = store_stats(store);
    return json_pack("{s:s,s:i,s:I,s:I,s:I,s:I,s:I,s:I,s:s}", "table", t->config.name,
                     "number", (int)t->id, "rows", (json_int_t)x.rows, "extra_rows",
                     (json_int_t)x.extra_rows, "day", (json_int_t)x.day, "step",
                     (json_int_t)x.step, "bytes", (json_int_t)table_saved_bytes_of(t),
                     "files", (json_int_t)t->n_files, "settings", settings);
}

// Adds the table to `tables`, or prints the table if `tables` is NULL.
static int show_table(const struct saves *s, size_t i, json_t *tables, struct err *e)
{
    const struct save_table *t = &s->newest->tables[i];
    struct buf text = BUF_INIT(1 << 16);
    int rc = table_config_print(&t->config, &text);
    const char *settings = rc == 0 ? buf_str(&text) : NULL;
    if (settings == NULL)
        rc = err_nomem(e, "a table's settings");
    else if (tables != NULL)
        json_array_append_new(tables, table_json(t, s->stores[i], settings));
    else
        print_table(t, s->stores[i], settings);
    buf_free(&text);
    return rc;
}

static int show_tables(const struct saves *s, json_t *tables, struct err *e)
{
    for (size_t i = 0; i < s->newest->n_tables; i++)
        if (is_meant(s, i))
            TRY(show_table(s, i, tables, e));
    return 0;
}

// Returns whether rows have vectors; models without them ignore --dim.
static bool has_vectors(const struct saved_run *r)
{
    struct model m;
    return model_init(&m, &r->options.model, NULL) == 0 && m.accessor.n_groups > 1;
}

static json_t *run_json(const struct saved_run *r)
{
    const struct model_options *o = &r->options.model;
    return json_pack("{s:s,s:i,s:s,s:i,s:s,s:I,s:i,s:I,s:b}", "model", o->ops->name,
                     "dim", (int)(has_vectors(r) ? o->dim : 0), "dims", r->options.dims,
                     "fields", (int)o->fields, "format", r->schema.format, "seed",
                     (json_int_t)o->seed, "epochs", (int)r->at.epoch, "examples",
                     (json_int_t)r->examples, "finished", (int)r->finished);
}

static int stat_json(const struct saves *s, struct err *e)
{
    json_begin();
    json_t *tables = json_array();
    int rc = show_tables(s, tables, e);
    json_t *all = s->run != NULL ? run_json(s->run) : json_object();
    json_t *save = json_pack(
        "{s:s,s:s,s:I,s:I,s:O}", "save", s->chain.paths[s->chain.n - 1], "mode",
        save_mode_name(s->newest->mode), "saves", (json_int_t)s->chain.n, "step",
        (json_int_t)s->newest->step, "tables", tables);
    (void)json_object_update(all, save);
    json_decref(save);
    json_decref(tables);
    if (rc == 0)
        return json_print(all, 0, e);
    json_decref(all);
    return rc;
}

static void print_run(const struct saved_run *r, enum save_mode mode)
{
    bool published = mode == SAVE_BASE || mode == SAVE_DELTA;
    const struct model_options *o = &r->options.model;
    cli_printf("model %s", o->ops->name);
    if (has_vectors(r))
        cli_printf(", dim %u", o->dim);
    if (o->n_dims > 0)
        cli_printf(" (%s)", r->options.dims);
    if (o->ops->needs_fields)
        cli_printf(", %u field%s", o->fields, PLURAL_S(o->fields));
    cli_printf(", format %s, seed %" PRIu64 ", %u pass%s over %" PRIu64 " example%s%s\n",
               r->schema.format, o->seed, r->at.epoch, PLURAL_ES(r->at.epoch),
               r->examples, PLURAL_S(r->examples),
               published     ? ", published for serving"
               : r->finished ? ""
                             : " (not finished: --resume continues it)");
}

static int stat(struct saves *s, struct err *e)
{
    TRY(load_all(s, e));
    if (s->v->json)
        return stat_json(s, e);
    cli_printf("%s: %s", s->chain.paths[s->chain.n - 1], save_mode_name(s->newest->mode));
    if (s->chain.n > 1)
        cli_printf(" on %zu save%s before it, from %s", s->chain.n - 1,
                   PLURAL_S(s->chain.n - 1), s->chain.paths[0]);
    cli_printf(", step %" PRIu64 "\n", s->newest->step);
    if (s->run != NULL)
        print_run(s->run, s->newest->mode);
    return show_tables(s, NULL, e);
}

static int list(const struct saves *s, struct err *e)
{
    json_begin();
    json_t *tables = json_array();
    for (size_t i = 0; i < s->newest->n_tables; i++) {
        const char *name = s->newest->tables[i].config.name;
        if (s->v->json)
            json_array_append_new(tables, json_pack("{s:s}", "table", name));
        else if (is_meant(s, i))
            cli_printf("%s\n", name);
    }
    if (s->v->json)
        return json_print(json_pack("{s:o}", "tables", tables), 0, e);
    json_decref(tables);
    return 0;
}

static int export(struct saves *s, struct table_pick *pick, struct err *e)
{
    struct table_output o;
    size_t i = 0;
    TRY(find_one(s, &i, e));
    TRY(table_saved_load(s, i, e));
    TRY(table_output_open(&o, s->v->out, s->v->converter, e));
    o.pick = pick;
    int rc = text_export(s->stores[i], s->v->state, table_output_put, &o, e);
    return table_output_close(&o, rc, e);
}

static const char *newest_path(const struct saves *s)
{
    return s->chain.paths[s->chain.n - 1];
}

static int table_saved_get(struct saves *s, struct err *e)
{
    struct table_keys k;
    TRY(table_keys_open(&k, s->v, s->run, e));
    struct table_pick pick = table_pick_keys(&k);
    struct names *names = NULL;
    int rc = names_load(&names, newest_path(s), e);
    pick.names = names;
    if (rc == 0)
        rc = export(s, &pick, e);
    names_close(names);
    if (rc == 0)
        rc = table_keys_check(&k, s->from, e);
    table_keys_close(&k);
    return rc;
}

// The largest rows, of all columns or of those that the words behind "top" name.
struct ranked_saved {
    const struct saves *saves;
    struct store *store;
    struct table_top *top;
    const struct option_list *words;
    struct names *names;
};

static bool is_of_columns(const struct ranked_saved *r, uint64_t key)
{
    uint64_t ignored;
    const char *name = r->words->n > 1 ? names_find(r->names, key, &ignored) : NULL;
    bool any = r->words->n == 1;
    for (size_t i = 1; i < r->words->n && name != NULL; i++) {
        size_t n = strlen(r->words->items[i]);
        any |= strncmp(name, r->words->items[i], n) == 0 &&
               (name[n] == '=' || name[n] == '\0');
    }
    return any;
}

static int rank_row(void *ctx, uint64_t key, const float *row, const float *extra,
                    struct err *e)
{
    struct ranked_saved *r = ctx;
    const struct accessor *a = store_accessor(r->store);
    float stats[ACCESSOR_MAX_STATS] = {0};
    uint64_t ignored;
    r->top->nameless += names_find(r->names, key, &ignored) == NULL;
    if (!is_of_columns(r, key))
        return 0;
    if (a->count == ACCESSOR_NO_COUNT && a->pulled_stats > 0)
        a->class->life.stats(a, row, stats);
    return table_top_add(r->top, a, a, key, row, extra, stats, e);
}

static int rank_rows(void *ctx, struct table_top *t, struct err *e)
{
    struct ranked_saved *r = ctx;
    const struct saves *s = r->saves;
    r->top = t;
    TRY(names_load(&r->names, newest_path(s), e));
    if (r->names == NULL && r->words->n > 1)
        return err_set(e, TUG_EUSAGE,
                       "the columns of the rows in %s are unknown: leave '%s' out, or "
                       "train with --keep-names",
                       s->from, r->words->items[1]);
    if (s->run != NULL)
        TRY(table_keys_columns(r->words, s->run, e));
    TRY(table_top_layout(t, store_accessor(r->store), e));
    for (uint32_t p = 0; p < 1u << store_partition_bits(r->store); p++)
        TRY(store_each(r->store, p, rank_row, r, e));
    if (r->words->n > 1 && t->nameless > 0)
        log_warn("%" PRIu64
                 " row%s of %s %s no name, because --keep-names was too small or "
                 "training began with another model: such rows of '%s' are missing here",
                 t->nameless, PLURAL_S(t->nameless), s->from,
                 t->nameless == 1 ? "has" : "have", r->words->items[1]);
    return 0;
}

static int top(struct saves *s, struct err *e)
{
    size_t i = 0;
    TRY(find_one(s, &i, e));
    TRY(table_saved_load(s, i, e));
    struct ranked_saved r = {.saves = s, .store = s->stores[i], .words = &s->v->action};
    int rc = table_top(s->v, rank_rows, &r, &r.names, e);
    names_close(r.names);
    return rc;
}

// ------------------------------------------------------ actions that change saved tables

// Returns whether the save also has a position in the middle of a pass.
static bool is_within_pass(const struct saves *s)
{
    return s->run != NULL && s->run->readers != NULL;
}

// Loads the tables to change them. Refuses a save in the middle of a pass, because the
// run would repeat the pass with rows that were trained on a part of it.
static int load_to_change(struct saves *s, struct err *e)
{
    if (s->v->out == NULL && is_within_pass(s))
        return err_set(e, TUG_EUSAGE,
                       "%.1000s was saved in the middle of a pass, and holds the place "
                       "in the data where training continues: finish the pass with "
                       "--resume first, or give --out DIR to save the rows alone",
                       s->chain.paths[s->chain.n - 1]);
    return load_all(s, e);
}

// Copies the words of keys, which belong to the model, to the new save.
static int keep_names(const struct saves *s, const char *path, struct err *e)
{
    struct names *names;
    TRY(names_load(&names, newest_path(s), e));
    int rc = names != NULL ? names_write(names, path, e) : 0;
    names_close(names);
    return rc;
}

static int save_some(struct saves *s, enum save_mode mode, struct store **stores,
                     size_t n, struct err *e)
{
    char path[FILE_PATH_MAX], dir[FILE_PATH_MAX];
    const char *to = s->v->out;
    if (to == NULL) { // write beside the old saves
        snprintf(dir, sizeof(dir), "%s", s->chain.paths[s->chain.n - 1]);
        char *slash = strrchr(dir, '/');
        if (slash != NULL)
            *slash = 0;
        to = slash != NULL ? dir : ".";
    }
    // Changed rows no longer fit a position in the middle of a pass, so the new save has
    // only tables.
    TRY(save_stores(to, mode, stores, n, is_within_pass(s) ? NULL : s->newest->about,
                    (int)s->v->zstd, (uint32_t)s->v->keep, path, e));
    TRY(keep_names(s, path, e));
    cli_printf("saved to %s\n", path);
    return 0;
}

static int table_saved_save(struct saves *s, enum save_mode mode, struct err *e)
{
    return save_some(s, mode, s->stores, s->newest->n_tables, e);
}

// Writes a new save without the table.
static int drop(struct saves *s, struct err *e)
{
    if (s->v->table == NULL)
        return err_set(e, TUG_EUSAGE,
                       "--table NAME is missing: 'tug table list' shows the tables");
    if (s->run != NULL)
        return err_set(e, TUG_EUSAGE,
                       "%s is a saved model, which needs both tables: use export to get "
                       "one of them as text",
                       s->from);
    if (s->newest->n_tables == 1)
        return err_set(e, TUG_EUSAGE,
                       "'%s' is the only table of %s: remove the directory instead",
                       s->v->table, s->from);
    TRY(load_to_change(s, e));
    struct store **kept = mem_array(s->newest->n_tables, sizeof(*kept));
    if (kept == NULL)
        return err_nomem(e, "tables");
    size_t n = 0;
    for (size_t i = 0; i < s->newest->n_tables; i++)
        if (!is_meant(s, i))
            kept[n++] = s->stores[i];
    int rc = save_some(s, SAVE_CHECKPOINT, kept, n, e);
    mem_free(kept);
    return rc;
}

static uint64_t rows_of(const struct saves *s)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < s->newest->n_tables; i++)
        rows += store_stats(s->stores[i]).rows;
    return rows;
}

static int operate(struct saves *s, enum store_admin what, struct err *e)
{
    float threshold = s->v->threshold < 0 ? NAN : (float)s->v->threshold;
    TRY(load_to_change(s, e));
    uint64_t before = rows_of(s);
    for (size_t i = 0; i < s->newest->n_tables; i++) {
        if (!is_meant(s, i))
            continue;
        TRY(store_admin(s->stores[i], what, threshold, e));
        TRY(store_finish(s->stores[i], e));
    }
    uint64_t removed = before - rows_of(s);
    cli_printf("%" PRIu64 " row%s removed\n", removed, PLURAL_S(removed));
    return table_saved_save(s, SAVE_CHECKPOINT, e);
}

static int end_day(struct saves *s, struct err *e)
{
    TRY(load_to_change(s, e));
    for (size_t i = 0; i < s->newest->n_tables; i++)
        if (is_meant(s, i))
            store_day(s->stores[i]);
    return table_saved_save(s, SAVE_CHECKPOINT, e);
}

// Writes the tables again. A delta is refused: only a running cluster records changes.
static int save_again(struct saves *s, struct err *e)
{
    if (s->v->mode == SAVE_DELTA)
        return err_set(
            e, TUG_EUSAGE,
            "--mode delta: only a running cluster knows which rows have changed; saved "
            "tables can be saved again as checkpoint, base or day");
    TRY(load_to_change(s, e));
    return table_saved_save(s, (enum save_mode)s->v->mode, e);
}

static int act(struct saves *s, struct err *e)
{
    const char *action = s->v->action.items[0];
    TRY(open_saves(s, e));
    TRY(meant(s, e));
    if (strcmp(action, "stat") == 0)
        return stat(s, e);
    if (strcmp(action, "shrink") == 0)
        return operate(s, STORE_SHRINK, e);
    if (strcmp(action, "clear") == 0)
        return operate(s, STORE_CLEAR, e);
    if (strcmp(action, "day") == 0)
        return end_day(s, e);
    if (strcmp(action, "save") == 0)
        return save_again(s, e);
    if (strcmp(action, "export") == 0)
        return export(s, NULL, e);
    if (strcmp(action, "drop") == 0)
        return drop(s, e);
    if (strcmp(action, "list") == 0)
        return list(s, e);
    if (strcmp(action, "get") == 0)
        return table_saved_get(s, e);
    if (strcmp(action, "top") == 0)
        return top(s, e);
    return err_set(e, TUG_EINTERNAL, "no action '%s'", action);
}

int table_saved(const struct table_values *v, const char *path, struct err *e)
{
    struct saves s = {.v = v, .from = path};
    int rc = act(&s, e);
    close_saves(&s);
    return rc;
}
