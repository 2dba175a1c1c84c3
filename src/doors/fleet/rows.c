// Saves, loads, shrinks and dense parameters, for the run (all workers call, worker 0
// sends the request) and for one worker alone (FleetWrapper).
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "doors/fleet/fleet_internal.h"
#include "doors/tables/tug_client.h"

// ---------------------------------------------------------------- saves

static int mode_of(enum tug_fleet_mode mode, enum tug_save_mode *ret)
{
    switch (mode) {
    case TUG_FLEET_ALL:
        *ret = TUG_CHECKPOINT;
        return 0;
    case TUG_FLEET_DELTA:
        *ret = TUG_DELTA;
        return 0;
    case TUG_FLEET_BASE:
        *ret = TUG_BASE;
        return 0;
    case TUG_FLEET_DAY:
        *ret = TUG_DAY;
        return 0;
    default:
        return err_set(last_error(), TUG_EUSAGE,
                       "mode: %d is not one of 0 (all), 1 (delta), 2 (base) and 3 (day)",
                       (int)mode);
    }
}

static int rows_save(struct tug_fleet *f, const uint32_t *tables, size_t n,
                     const char *dirname, enum tug_fleet_mode mode,
                     char ret_path[TUG_PATH_MAX])
{
    struct tug_save_options o = {.directory = dirname, .tables = tables, .n_tables = n};
    TRY(fleet_in_run(f));
    TRY(mode_of(mode, &o.mode));
    if (n == 0)
        return err_set(last_error(), TUG_EUSAGE,
                       "there is nothing to save: the fleet was given no tables");
    return tug_save(f->client, &o, ret_path);
}

int tug_wrapper_save_all_model(struct tug_fleet *f, const char *dirname,
                               enum tug_fleet_mode mode, char ret_path[TUG_PATH_MAX])
{
    uint32_t *numbers = mem_array(f->n_tables + 1, sizeof(*numbers));
    if (numbers == NULL)
        return err_nomem(last_error(), "the tables of a save");
    for (size_t i = 0; i < f->n_tables; i++)
        numbers[i] = f->tables[i].number;
    int rc = rows_save(f, numbers, f->n_tables, dirname, mode, ret_path);
    mem_free(numbers);
    return rc;
}

int tug_wrapper_save_one_model(struct tug_fleet *f, uint32_t table, const char *dirname,
                               enum tug_fleet_mode mode, char ret_path[TUG_PATH_MAX])
{
    struct fleet_table *t;
    TRY(fleet_find(f, table, &t));
    return rows_save(f, &t->number, 1, dirname, mode, ret_path);
}

// Returns whether this worker sends the request for a save: only worker 0 of the run does.
// Clears ret_path.
static bool saves(struct tug_fleet *f, char ret_path[TUG_PATH_MAX])
{
    if (ret_path != NULL)
        ret_path[0] = '\0';
    // Without a client, every worker returns true, so that the request fails and the
    // program gets the error.
    return f->client == NULL || tug_fleet_is_first_worker(f);
}

int tug_fleet_save_persistables(struct tug_fleet *f, const char *dirname,
                                enum tug_fleet_mode mode, char ret_path[TUG_PATH_MAX])
{
    enum tug_save_mode checked;
    TRY(mode_of(mode, &checked));
    return saves(f, ret_path) ? tug_wrapper_save_all_model(f, dirname, mode, ret_path)
                              : 0;
}

int tug_fleet_save_one_table(struct tug_fleet *f, uint32_t table, const char *dirname,
                             enum tug_fleet_mode mode, char ret_path[TUG_PATH_MAX])
{
    struct fleet_table *t;
    enum tug_save_mode checked;
    TRY(fleet_find(f, table, &t));
    TRY(mode_of(mode, &checked));
    return saves(f, ret_path)
               ? tug_wrapper_save_one_model(f, table, dirname, mode, ret_path)
               : 0;
}

int tug_wrapper_recv_and_save_model(struct tug_fleet *f, uint32_t table, const char *file)
{
    struct fleet_table *t;
    TRY(fleet_in_run(f));
    TRY(fleet_find(f, table, &t));
    return tug_dump(f->client, t->number, file);
}

// ---------------------------------------------------------------- loads

int tug_wrapper_load_one_table(struct tug_fleet *f, uint32_t table, const char *dirname)
{
    struct fleet_table *t;
    TRY(fleet_in_run(f));
    TRY(fleet_find(f, table, &t));
    return tug_load(f->client, t->number, dirname, NULL, NULL);
}

int tug_wrapper_load_model(struct tug_fleet *f, const char *dirname)
{
    TRY(fleet_in_run(f));
    if (f->n_tables == 0)
        return err_set(last_error(), TUG_EUSAGE,
                       "there is nothing to load: the fleet was given no tables");
    for (size_t i = 0; i < f->n_tables; i++)
        TRY(tug_wrapper_load_one_table(f, f->tables[i].number, dirname));
    return 0;
}

int tug_fleet_load_model(struct tug_fleet *f, const char *dirname)
{
    TRY(fleet_in_run(f));
    TRY(tug_barrier(f->client));
    int rc = tug_fleet_is_first_worker(f) ? tug_wrapper_load_model(f, dirname) : 0;
    return fleet_agree(f, rc, "load", NULL);
}

int tug_fleet_load_one_table(struct tug_fleet *f, uint32_t table, const char *dirname)
{
    struct fleet_table *t;
    TRY(fleet_in_run(f));
    TRY(fleet_find(f, table, &t));
    TRY(tug_barrier(f->client));
    bool first = tug_fleet_is_first_worker(f);
    int rc = first ? tug_wrapper_load_one_table(f, table, dirname) : 0;
    return fleet_agree(f, rc, "load", NULL);
}

// ---------------------------------------------------------------- shrinking

int tug_wrapper_shrink_sparse_table(struct tug_fleet *f, uint32_t table, float threshold,
                                    uint64_t *ret_removed)
{
    struct fleet_table *t;
    TRY(fleet_in_run(f));
    TRY(fleet_find(f, table, &t));
    if (t->n_variables > 0)
        return err_set(last_error(), TUG_EUSAGE,
                       "table %u is dense: only rows of sparse tables can shrink", table);
    return tug_shrink(f->client, t->number, threshold, ret_removed);
}

static int shrink_all(struct tug_fleet *f, float threshold, uint64_t *removed)
{
    uint64_t one;
    for (size_t i = 0; i < f->n_tables; i++) {
        if (f->tables[i].n_variables > 0)
            continue;
        TRY(tug_shrink(f->client, f->tables[i].number, threshold, &one));
        *removed += one;
    }
    return 0;
}

int tug_fleet_shrink(struct tug_fleet *f, float threshold, uint64_t *ret_removed)
{
    uint64_t removed = 0;
    TRY(fleet_in_run(f));
    TRY(tug_barrier(f->client));
    int rc = tug_fleet_is_first_worker(f) ? shrink_all(f, threshold, &removed) : 0;
    TRY(fleet_agree(f, rc, "shrink", &removed));
    if (ret_removed != NULL)
        *ret_removed = removed;
    return 0;
}

int tug_wrapper_sparse_table_stat(struct tug_fleet *f, uint32_t table,
                                  struct tug_table_stats *ret)
{
    struct fleet_table *t;
    TRY(fleet_in_run(f));
    TRY(fleet_find(f, table, &t));
    return tug_table_stat(f->client, t->number, ret);
}

int tug_wrapper_stop_server(struct tug_fleet *f)
{
    char why[64];
    TRY(fleet_in_run(f));
    snprintf(why, sizeof(why), "worker %u stopped the servers",
             tug_fleet_worker_index(f));
    return tug_stop(f->client, why);
}

// ---------------------------------------------------------------- dense parameters

static int find_dense(struct tug_fleet *f, uint32_t table, size_t n,
                      struct tug_dense **ret)
{
    struct fleet_table *t;
    TRY(fleet_in_run(f));
    TRY(fleet_find(f, table, &t));
    if (t->dense == NULL)
        return err_set(last_error(), TUG_EUSAGE,
                       "table %u is sparse, because it has no variables", table);
    if (n != tug_dense_floats(t->dense))
        return err_set(last_error(), TUG_EUSAGE,
                       "the variables of table %u have %llu floats, not %zu", table,
                       (unsigned long long)tug_dense_floats(t->dense), n);
    *ret = t->dense;
    return 0;
}

int tug_wrapper_push_dense_params(struct tug_fleet *f, uint32_t table,
                                  const float *values, size_t n)
{
    struct tug_dense *d;
    TRY(find_dense(f, table, n, &d));
    return tug_dense_assign(d, values);
}

int tug_wrapper_pull_dense_params(struct tug_fleet *f, uint32_t table, float *values,
                                  size_t n)
{
    struct tug_dense *d;
    TRY(find_dense(f, table, n, &d));
    return tug_dense_pull(d, values);
}

// ------------------------------------------------------- texts of clients (FleetWrapper)

int tug_wrapper_get_client_info(struct tug_fleet *f, char ret[TUG_CLIENT_INFO_MAX])
{
    TRY(fleet_in_run(f));
    snprintf(ret, TUG_CLIENT_INFO_MAX, "worker-%u-of-%u-rank-%u",
             tug_fleet_worker_index(f), tug_fleet_worker_num(f),
             tug_client_rank(f->client));
    return 0;
}

int tug_wrapper_set_clients(struct tug_fleet *f, const char *const *infos, size_t n)
{
    TRY(fleet_in_run(f));
    if (n != tug_fleet_worker_num(f))
        return err_set(
            last_error(), TUG_EUSAGE,
            "infos: %zu texts were given for %u workers: give the text of each "
            "worker, in the order of their indexes",
            n, tug_fleet_worker_num(f));
    char **copies = mem_zalloc(n * sizeof(*copies));
    bool whole = copies != NULL;
    for (size_t i = 0; i < n && whole; i++) {
        copies[i] = mem_strdup(infos[i]);
        whole = copies[i] != NULL;
    }
    char **gone = whole ? f->infos : copies;
    for (size_t i = 0; gone != NULL && i < (whole ? f->n_infos : n); i++)
        mem_free(gone[i]);
    mem_free(gone);
    if (!whole)
        return err_nomem(last_error(), "the infos of clients");
    f->infos = copies;
    f->n_infos = n;
    return 0;
}

static int check_infos(const struct tug_fleet *f, char (*all)[TUG_CLIENT_INFO_MAX])
{
    for (size_t i = 0; i < tug_fleet_worker_num(f); i++) {
        all[i][TUG_CLIENT_INFO_MAX - 1] = '\0';
        if (strcmp(all[i], f->infos[i]) != 0)
            return err_set(last_error(), TUG_EUSAGE,
                           "client %zu is '%.64s' in this run, and was set as '%.64s'", i,
                           all[i], f->infos[i]);
    }
    return 0;
}

int tug_wrapper_create_client2client_connection(struct tug_fleet *f)
{
    char mine[TUG_CLIENT_INFO_MAX] = "";
    TRY(tug_wrapper_get_client_info(f, mine));
    if (f->n_infos == 0)
        return err_set(last_error(), TUG_EUSAGE,
                       "no clients are set: call tug_wrapper_set_clients first, with the "
                       "texts of tug_wrapper_get_client_info of all workers, which "
                       "tug_fleet_all_gather returns");
    char(*all)[TUG_CLIENT_INFO_MAX] = mem_array(tug_fleet_worker_num(f), sizeof(*all));
    if (all == NULL)
        return err_nomem(last_error(), "the infos of clients");
    int rc = tug_fleet_all_gather(f, mine, sizeof(mine), all);
    if (rc == 0)
        rc = check_infos(f, all);
    mem_free(all);
    return rc;
}

// ---------------------------------------------------------------- the communicator

static int open_all(struct tug_fleet *f)
{
    struct tug_communicator_table *tables = mem_zalloc((f->n_tables + 1) *
                                                       sizeof(*tables));
    if (tables == NULL)
        return err_nomem(last_error(), "the tables of a communicator");
    for (size_t i = 0; i < f->n_tables; i++)
        tables[i].table = f->tables[i].number;
    int rc = tug_communicator_open(&f->communicator, f->client, tables, f->n_tables);
    mem_free(tables);
    return rc;
}

int tug_fleet_communicator(struct tug_fleet *f,
                           const struct tug_communicator_table *tables, size_t n,
                           struct tug_communicator **ret)
{
    TRY(fleet_in_run(f));
    if (f->communicator != NULL)
        return err_set(last_error(), TUG_EUSAGE,
                       "this worker has a communicator already; tug_fleet_stop_worker "
                       "ends it");
    TRY(n > 0 ? tug_communicator_open(&f->communicator, f->client, tables, n)
              : open_all(f));
    *ret = f->communicator;
    return 0;
}

int tug_fleet_recv(struct tug_fleet *f, uint32_t table, float *values, size_t n)
{
    TRY(fleet_in_run(f));
    if (f->communicator != NULL)
        TRY(tug_communicator_flush(f->communicator, 0));
    return tug_wrapper_pull_dense_params(f, table, values, n);
}
