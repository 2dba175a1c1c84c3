// tug table on a running cluster: uses a client (tug/table.h) that joins as a guest.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/plural.h"
#include "cli/cli.h"
#include "cli/status.h"
#include "cli/table/table.h"
#include "cli/table/table_top.h"
#include "doors/tables/dump.h"
#include "os/file.h"
#include "os/json.h"
#include "runtime/last_error.h"
#include "runtime/tool.h"
#include "train/rows/run_tables.h"
#include "tug/table.h"

struct running {
    const struct table_values *v;
    struct opened_node node;
    struct tug_client *client;
    uint32_t table;
};

static int table_running_failed(int rc, struct err *e)
{
    return rc == 0 ? 0 : err_set(e, rc, "%s", tug_last_error());
}

static int ask_status(struct running *r, json_t **ret, struct err *e)
{
    const struct status_limits limits = status_usual(r->v->node.connect_timeout);
    return status_ask(&r->node.node, &limits, ret, e);
}

// Reports that there is no table of that name, with the names that exist.
static int name_others(struct running *r, const char *name, struct err *e)
{
    struct buf names = BUF_INIT(1 << 20);
    json_t *status, *table;
    size_t i;
    struct err ignored;
    if (ask_status(r, &status, &ignored) == 0) {
        json_array_foreach(json_object_get(status, "tables"), i, table)
            (void)buf_printf(&names, "%s%s", names.len > 0 ? " " : "",
                             tool_text(table, "name"));
        json_decref(status);
    }
    int rc = table_unknown("the cluster", name, buf_str(&names), e);
    buf_free(&names);
    return rc;
}

// Finds the table if the user named none: actions that read use the only table or
// 'sparse'; actions that change a table need its name.
static int find_usual(struct running *r, struct err *e)
{
    char name[CONFIG_NAME_MAX] = "";
    const char *action = r->v->action.items[0];
    bool looks = strcmp(action, "top") == 0 || strcmp(action, "get") == 0 ||
                 strcmp(action, "dump") == 0;
    json_t *status;
    if (!looks)
        return err_set(
            e, TUG_EUSAGE,
            "%s changes a table: give --table NAME; 'tug table list' shows the "
            "tables",
            action);
    TRY(ask_status(r, &status, e));
    const json_t *tables = json_object_get(status, "tables");
    snprintf(name, sizeof(name), "%s",
             json_array_size(tables) == 1 ? tool_text(json_array_get(tables, 0), "name")
                                          : RUN_SPARSE);
    json_decref(status);
    int rc = tug_table_find(r->client, name, &r->table);
    if (rc == 0 || last_error()->reason != REASON_TABLE_UNKNOWN)
        return table_running_failed(rc, e);
    return err_set(e, TUG_EUSAGE,
                   "--table NAME is missing, and the cluster has no table '" RUN_SPARSE
                   "', which is the default: 'tug table list' shows the tables");
}

static int table_running_find(struct running *r, struct err *e)
{
    if (r->v->table == NULL)
        return find_usual(r, e);
    int rc = tug_table_find(r->client, r->v->table, &r->table);
    if (rc != 0 && last_error()->reason == REASON_TABLE_UNKNOWN)
        return name_others(r, r->v->table, e);
    return table_running_failed(rc, e);
}

static void print_stat(const char *name, const struct tug_table_stats *s)
{
    uint64_t rows = s->rows + s->cold_rows;
    cli_printf("table %s: %" PRIu64 " row%s, %" PRIu64 " with embedx, %" PRIu64
               " on disk; %" PRIu64 " bytes in memory\n",
               name, rows, PLURAL_S(rows), s->extra_rows, s->cold_rows, s->bytes);
    cli_printf("  day %u, step %" PRIu64 "; %" PRIu64 " rows made, %" PRIu64
               " pushed keys refused by the entry policy\n",
               s->day, s->step, s->made, s->refused);
    cli_printf("  removed by score %" PRIu64 ", age %" PRIu64 ", time to live %" PRIu64
               ", budget %" PRIu64 "\n",
               s->evicted_score, s->evicted_age, s->evicted_ttl, s->evicted_budget);
    cli_printf("  %" PRIu64 " pushes of %" PRIu64 " keys, %" PRIu64 " pulls of %" PRIu64
               " keys\n",
               s->pushes, s->pushed_keys, s->pulls, s->pulled_keys);
    if (s->promoted + s->demoted > 0)
        cli_printf("  in memory %.2f %% of keys; %" PRIu64 " from disk, %" PRIu64
                   " to disk\n",
                   100 * (double)s->hot_hits / (double)(s->hot_hits + s->promoted),
                   s->promoted, s->demoted);
}

static json_t *stat_json(const char *name, uint32_t number,
                         const struct tug_table_stats *s)
{
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {
        {"rows", s->rows},
        {"extra_rows", s->extra_rows},
        {"cold_rows", s->cold_rows},
        {"bytes", s->bytes},
        {"day", s->day},
        {"step", s->step},
        {"made", s->made},
        {"refused", s->refused},
        {"evicted_score", s->evicted_score},
        {"evicted_age", s->evicted_age},
        {"evicted_ttl", s->evicted_ttl},
        {"evicted_budget", s->evicted_budget},
        {"pushes", s->pushes},
        {"pushed_keys", s->pushed_keys},
        {"pulls", s->pulls},
        {"pulled_keys", s->pulled_keys},
        {"hot_hits", s->hot_hits},
        {"promoted", s->promoted},
        {"demoted", s->demoted},
    };
    json_t *o = json_pack("{s:s,s:i}", "table", name, "number", (int)number);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        json_object_set_new(o, all[i].name, json_integer((json_int_t)all[i].value));
    return o;
}

static int show_one(struct running *r, const char *name, json_t *tables, struct err *e)
{
    struct tug_table_stats s;
    TRY(table_running_failed(tug_table_stat(r->client, r->table, &s), e));
    if (r->v->json)
        json_array_append_new(tables, stat_json(name, r->table, &s));
    else
        print_stat(name, &s);
    return 0;
}

static int show_all(struct running *r, json_t *tables, struct err *e)
{
    json_t *status, *table;
    size_t i;
    TRY(ask_status(r, &status, e));
    const json_t *all = json_object_get(status, "tables");
    int rc = 0;
    if (json_array_size(all) == 0 && !r->v->json)
        cli_printf("there are no tables yet; 'tug table create' makes one\n");
    json_array_foreach(all, i, table) {
        const char *name = tool_text(table, "name");
        if (rc == 0)
            rc = table_running_failed(tug_table_find(r->client, name, &r->table), e);
        if (rc == 0)
            rc = show_one(r, name, tables, e);
    }
    json_decref(status);
    return rc;
}

static int stat(struct running *r, struct err *e)
{
    json_begin();
    json_t *tables = json_array();
    int rc = 0;
    if (r->v->table != NULL) {
        rc = table_running_find(r, e);
        if (rc == 0)
            rc = show_one(r, r->v->table, tables, e);
    } else {
        rc = show_all(r, tables, e);
    }
    if (rc == 0 && r->v->json)
        rc = json_print(json_pack("{s:O}", "tables", tables), 0, e);
    json_decref(tables);
    return rc;
}

static int list(struct running *r, struct err *e)
{
    json_t *status, *table, *names;
    size_t i;
    json_begin();
    TRY(ask_status(r, &status, e));
    names = json_array();
    json_array_foreach(json_object_get(status, "tables"), i, table) {
        const char *name = tool_text(table, "name");
        json_array_append_new(names, json_pack("{s:s}", "table", name));
        if (!r->v->json)
            cli_printf("%s\n", name);
    }
    json_decref(status);
    if (r->v->json)
        return json_print(json_pack("{s:o}", "tables", names), 0, e);
    json_decref(names);
    return 0;
}

static int print_pulled(struct running *r, const struct table_keys *k, uint32_t width,
                        struct err *e)
{
    uint64_t ts;
    float *values = mem_array(k->n * width + 1, sizeof(*values));
    if (values == NULL)
        return err_nomem(e, "rows");
    int rc = table_running_failed(
        tug_pull(r->client, r->table, k->key, k->n, values, NULL, NULL, &ts), e);
    if (rc == 0)
        rc = table_running_failed(tug_wait(r->client, ts, 0), e);
    for (size_t i = 0; i < k->n && rc == 0; i++) {
        cli_printf("%" PRIu64, k->key[i]);
        for (uint32_t c = 0; c < width; c++)
            cli_printf(" %.9g", (double)values[i * width + c]);
        cli_printf("\n");
    }
    mem_free(values);
    return rc;
}

// Prints rows as pulls return them: a missing row has its initial values.
static int table_running_get(struct running *r, struct err *e)
{
    struct table_keys k;
    struct tug_table_widths widths;
    TRY(table_running_find(r, e));
    TRY(table_running_failed(tug_table_widths(r->client, r->table, &widths), e));
    TRY(table_keys_open(&k, r->v, NULL, e));
    int rc = print_pulled(r, &k, widths.pull, e);
    table_keys_close(&k);
    return rc;
}

struct ranked_running {
    struct table_top *top;
    struct err *e; // gets errors that do not come from the client
    int rc;
};

static int rank_row(void *ctx, const struct accessor *a, const struct accessor *at,
                    uint64_t key, const float *row)
{
    struct ranked_running *r = ctx;
    r->rc = table_top_add(r->top, a, at, key, row, NULL, row, r->e);
    return r->rc;
}

static int rank_rows(void *ctx, struct table_top *t, struct err *e)
{
    struct running *r = ctx;
    struct ranked_running k = {.top = t, .e = e};
    int rc = dump_rows(r->client, r->table, rank_row, &k);
    return k.rc != 0 ? k.rc : table_running_failed(rc, e);
}

static int top(struct running *r, struct err *e)
{
    if (r->v->action.n > 1)
        return err_set(e, TUG_EUSAGE,
                       "'%s': the column of a running table's rows is unknown",
                       r->v->action.items[1]);
    TRY(table_running_find(r, e));
    return table_top(r->v, rank_rows, r, NULL, e);
}

static int table_running_shrink(struct running *r, struct err *e)
{
    uint64_t removed;
    float threshold = r->v->threshold < 0 ? NAN : (float)r->v->threshold;
    TRY(table_running_find(r, e));
    TRY(table_running_failed(tug_shrink(r->client, r->table, threshold, &removed), e));
    cli_printf("%" PRIu64 " row%s removed\n", removed, PLURAL_S(removed));
    return 0;
}

static int day(struct running *r, struct err *e)
{
    TRY(table_running_find(r, e));
    return table_running_failed(tug_day(r->client, r->table), e);
}

static int clear(struct running *r, struct err *e)
{
    TRY(table_running_find(r, e));
    return table_running_failed(tug_clear(r->client, r->table), e);
}

static int drop(struct running *r, struct err *e)
{
    TRY(table_running_find(r, e));
    return table_running_failed(tug_table_drop(r->client, r->table), e);
}

static int table_running_save(struct running *r, struct err *e)
{
    const struct table_values *v = r->v;
    char path[FILE_PATH_MAX];
    struct tug_save_options o = {.directory = v->out,
                                 .mode = (enum tug_save_mode)v->mode,
                                 .tables = &r->table,
                                 .n_tables = v->table != NULL,
                                 .zstd = (int)v->zstd,
                                 .keep = (uint32_t)v->keep};
    if (v->out == NULL)
        return err_set(e, TUG_EUSAGE, "save needs a directory, given as --out DIR");
    if (v->table != NULL) {
        TRY(table_check_place(v->out, v->table, e));
        TRY(table_running_find(r, e));
    }
    TRY(table_running_failed(tug_save(r->client, &o, path), e));
    cli_printf("saved to %s\n", path);
    return 0;
}

static int table_running_load(struct running *r, struct err *e)
{
    uint64_t rows;
    char path[FILE_PATH_MAX];
    const char *name;
    if (r->v->from == NULL)
        return err_set(e, TUG_EUSAGE, "load needs a save, given as --from DIR");
    TRY(table_find_saves(r->v->from, path, &name, e));
    TRY(table_running_find(r, e));
    TRY(table_running_failed(tug_load(r->client, r->table, path, name, &rows), e));
    cli_printf("%" PRIu64 " row%s loaded\n", rows, PLURAL_S(rows));
    return 0;
}

static int dump(struct running *r, struct err *e)
{
    if (r->v->out == NULL)
        return err_set(e, TUG_EUSAGE, "dump needs a file, given as --out FILE");
    if (strcmp(r->v->out, "-") == 0)
        return err_set(e, TUG_EUSAGE,
                       "dump writes a file, never to standard output: give --out FILE");
    TRY(table_running_find(r, e));
    return table_running_failed(tug_dump(r->client, r->table, r->v->out), e);
}

// Creates the table with a number that is free.
static int create_free(struct running *r, const char *settings, struct err *e)
{
    enum { FIRST = 16, LAST = 4095 }; // training runs use the numbers below
    int rc;
    r->table = FIRST;
    do {
        rc = tug_table_create(r->client, r->table, settings);
    } while (rc != 0 && last_error()->reason == REASON_TABLE_DIFFERS &&
             r->table++ < LAST);
    return table_running_failed(rc, e);
}

// Creates the table. If its name exists, the existing table is used if it has the same
// settings, else the call is refused.
static int table_running_make(struct running *r, const char *name, const char *settings,
                              struct err *e)
{
    uint32_t there, wanted = (uint32_t)r->v->number;
    bool named = tug_table_find(r->client, name, &there) == 0;
    if (named && r->v->number >= 0 && there != wanted)
        return err_set(e, TUG_EUSAGE,
                       "--number: the cluster already has a table '%s', whose number is "
                       "%u: leave --number out",
                       name, there);
    if (!named && r->v->number < 0)
        return create_free(r, settings, e);
    r->table = named ? there : wanted;
    return table_running_failed(tug_table_create(r->client, r->table, settings), e);
}

static int create(struct running *r, struct err *e)
{
    struct table_config config;
    struct buf text;
    TRY(table_read_settings(r->v, &text, &config, e));
    int rc = table_running_make(r, config.name, buf_str(&text), e);
    if (rc == 0)
        cli_printf("table %u\n", r->table);
    buf_free(&text);
    return rc;
}

static int act(struct running *r, struct err *e)
{
    static const struct {
        const char *name;
        int (*act)(struct running *, struct err *);
    } all[] = {{"list", list},
               {"stat", stat},
               {"get", table_running_get},
               {"shrink", table_running_shrink},
               {"day", day},
               {"clear", clear},
               {"drop", drop},
               {"save", table_running_save},
               {"load", table_running_load},
               {"dump", dump},
               {"create", create},
               {"top", top}};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (strcmp(all[i].name, r->v->action.items[0]) == 0)
            return all[i].act(r, e);
    return TUG_EINTERNAL;
}

static int table_running_join(struct running *r, struct err *e)
{
    const struct node_values *v = &r->v->node;
    struct tug_client_options o = {
        .scheduler = r->node.node.scheduler,
        .cluster = v->cluster,
        .ca = v->ca,
        .cert = v->cert,
        .key = v->key,
        .insecure = v->insecure,
        .guest = true,
    };
    // Connects to the scheduler first, because joining would take longer to show that the
    // scheduler does not answer.
    struct tool t = {.interrupted = &node_interrupted};
    int rc = tool_open(&t, &r->node.node, r->node.node.scheduler, v->connect_timeout, e);
    tool_close(&t);
    return rc == 0 ? table_running_failed(tug_client_open(&r->client, &o), e) : rc;
}

// Connects to the scheduler in the options, or else to the scheduler of the run launched
// last on this machine.
int table_running(const struct table_values *v, struct err *e)
{
    struct running r = {.v = v};
    int rc = node_values_open(&r.node, &v->node, WIRE_OPERATOR, e);
    if (rc == 0)
        rc = table_running_join(&r, e);
    if (rc == 0)
        rc = act(&r, e);
    if (r.client != NULL) {
        int closed = tug_client_close(r.client);
        if (rc == 0)
            rc = table_running_failed(closed, e);
    }
    opened_node_close(&r.node);
    return rc;
}
