// tug table on a running cluster: a guest's client (tug/table.h) gives the orders.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "tug/table.h"

struct running {
    const struct table_values *v;
    struct tug_client *client;
    uint32_t table;
};

static int failed(int rc, struct err *e)
{
    return rc == 0 ? 0 : err_set(e, rc, "%s", tug_last_error());
}

static int find(struct running *r, struct err *e)
{
    if (r->v->table == NULL)
        return err_set(e, TUG_EUSAGE,
                       "which table? say --table NAME; 'tug status' lists them");
    return failed(tug_table_find(r->client, r->v->table, &r->table), e);
}

static void print_stat(const char *name, const struct tug_table_stats *s)
{
    printf("table %s: %" PRIu64 " rows, %" PRIu64 " of them with embedx, %" PRIu64
           " on disk; %" PRIu64 " bytes in memory\n",
           name, s->rows + s->cold_rows, s->extra_rows, s->cold_rows, s->bytes);
    printf("  day %u, step %" PRIu64 "; %" PRIu64 " rows made, %" PRIu64
           " pushes of keys kept out\n",
           s->day, s->step, s->made, s->refused);
    printf("  removed by score %" PRIu64 ", age %" PRIu64 ", time to live %" PRIu64
           ", budget %" PRIu64 "\n",
           s->evicted_score, s->evicted_age, s->evicted_ttl, s->evicted_budget);
    printf("  %" PRIu64 " pushes of %" PRIu64 " keys, %" PRIu64 " pulls of %" PRIu64
           " keys\n",
           s->pushes, s->pushed_keys, s->pulls, s->pulled_keys);
    if (s->promoted + s->demoted > 0)
        printf("  in memory %.2f %% of keys; %" PRIu64 " from disk, %" PRIu64
               " to disk\n",
               100 * (double)s->hot_hits / (double)(s->hot_hits + s->promoted),
               s->promoted, s->demoted);
}

static void print_json(const char *name, const struct tug_table_stats *s)
{
    printf("{\"table\":\"%s\",\"rows\":%" PRIu64 ",\"extra_rows\":%" PRIu64
           ",\"cold_rows\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"day\":%u,\"step\":%" PRIu64
           ",\"made\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"evicted_score\":%" PRIu64
           ",\"evicted_age\":%" PRIu64 ",\"evicted_ttl\":%" PRIu64
           ",\"evicted_budget\":%" PRIu64 ",\"pushes\":%" PRIu64
           ",\"pushed_keys\":%" PRIu64 ",\"pulls\":%" PRIu64 ",\"pulled_keys\":%" PRIu64
           ",\"hot_hits\":%" PRIu64 ",\"promoted\":%" PRIu64 ",\"demoted\":%" PRIu64
           "}\n",
           name, s->rows, s->extra_rows, s->cold_rows, s->bytes, s->day, s->step, s->made,
           s->refused, s->evicted_score, s->evicted_age, s->evicted_ttl,
           s->evicted_budget, s->pushes, s->pushed_keys, s->pulls, s->pulled_keys,
           s->hot_hits, s->promoted, s->demoted);
}

static int stat(struct running *r, struct err *e)
{
    struct tug_table_stats s;
    TRY(find(r, e));
    TRY(failed(tug_table_stat(r->client, r->table, &s), e));
    (r->v->json ? print_json : print_stat)(r->v->table, &s);
    return 0;
}

static int shrink(struct running *r, struct err *e)
{
    uint64_t removed;
    float threshold = r->v->threshold < 0 ? NAN : (float)r->v->threshold;
    TRY(find(r, e));
    TRY(failed(tug_shrink(r->client, r->table, threshold, &removed), e));
    printf("%" PRIu64 " rows removed\n", removed);
    return 0;
}

static int day(struct running *r, struct err *e)
{
    TRY(find(r, e));
    return failed(tug_day(r->client, r->table), e);
}

static int clear(struct running *r, struct err *e)
{
    TRY(find(r, e));
    return failed(tug_clear(r->client, r->table), e);
}

static int save(struct running *r, struct err *e)
{
    const struct table_values *v = r->v;
    char path[FILE_PATH_MAX];
    struct tug_save_options o = {.dir = v->out,
                                 .mode = (enum tug_save_mode)v->mode,
                                 .tables = &r->table,
                                 .n_tables = v->table != NULL,
                                 .zstd = (int)v->zstd,
                                 .keep = (uint32_t)v->keep};
    if (v->out == NULL)
        return err_set(e, TUG_EUSAGE, "save wants a directory: --out DIR");
    if (v->table != NULL)
        TRY(find(r, e));
    TRY(failed(tug_save(r->client, &o, path), e));
    printf("saved to %s\n", path);
    return 0;
}

static int load(struct running *r, struct err *e)
{
    uint64_t rows;
    if (r->v->from == NULL)
        return err_set(e, TUG_EUSAGE, "load wants a save: --from DIR");
    TRY(find(r, e));
    TRY(failed(tug_load(r->client, r->table, r->v->from, NULL, &rows), e));
    printf("%" PRIu64 " rows loaded\n", rows);
    return 0;
}

static int dump(struct running *r, struct err *e)
{
    if (r->v->out == NULL)
        return err_set(e, TUG_EUSAGE, "dump wants a file: --out FILE");
    TRY(find(r, e));
    return failed(tug_dump(r->client, r->table, r->v->out), e);
}

// A number that no table has: creating one of the same settings again finds it.
static int create_free(struct running *r, const char *settings, struct err *e)
{
    enum { FIRST = 16, LAST = 4095 }; // below are those of training runs
    int rc = TUG_EUSAGE;
    for (uint32_t n = FIRST; n <= LAST && rc == TUG_EUSAGE; n++) {
        rc = tug_table_make(r->client, n, settings);
        r->table = n;
        if (rc == TUG_EUSAGE && strstr(tug_last_error(), "already") == NULL)
            break;
    }
    return failed(rc, e);
}

static int create(struct running *r, struct err *e)
{
    const struct table_values *v = r->v;
    struct buf text = BUF_INIT(1 << 16);
    int rc = 0;
    if (v->settings == NULL)
        return err_set(e, TUG_EUSAGE, "create wants --settings TEXT|FILE");
    if (strchr(v->settings, '=') == NULL && file_exists(v->settings))
        rc = file_read(v->settings, &text, e);
    else if (buf_printf(&text, "%s", v->settings) != 0)
        rc = err_nomem(e, "settings");
    if (rc == 0 && v->table != NULL && buf_printf(&text, "\nname = %s\n", v->table) != 0)
        rc = err_nomem(e, "settings");
    if (rc == 0 && v->number >= 0)
        rc = failed(
            tug_table_make(r->client, r->table = (uint32_t)v->number, buf_str(&text)), e);
    else if (rc == 0)
        rc = create_free(r, buf_str(&text), e);
    if (rc == 0)
        printf("table %u\n", r->table);
    buf_free(&text);
    return rc;
}

static int act(struct running *r, struct err *e)
{
    static const struct {
        const char *name;
        int (*act)(struct running *, struct err *);
    } all[] = {{"stat", stat}, {"shrink", shrink}, {"day", day},   {"clear", clear},
               {"save", save}, {"load", load},     {"dump", dump}, {"create", create}};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (strcmp(all[i].name, r->v->action.items[0]) == 0)
            return all[i].act(r, e);
    return TUG_EINTERNAL;
}

// The scheduler of the run that was launched here last, if none is named.
int table_running(const struct table_values *v, struct err *e)
{
    struct running r = {.v = v};
    struct opened_node n;
    int rc = node_values_open(&n, &v->node, WIRE_TOOL, e);
    if (rc == 0) {
        struct tug_client_options o = {
            .scheduler = n.node.scheduler,
            .cluster = v->node.cluster,
            .ca = v->node.ca,
            .cert = v->node.cert,
            .key = v->node.key,
            .insecure = v->node.insecure,
            .guest = true,
        };
        rc = failed(tug_client_open(&r.client, &o), e);
    }
    if (rc == 0)
        rc = act(&r, e);
    if (r.client != NULL) {
        int closed = tug_client_close(r.client);
        if (rc == 0)
            rc = failed(closed, e);
    }
    opened_node_close(&n);
    return rc;
}
