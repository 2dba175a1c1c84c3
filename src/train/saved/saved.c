// Writes saved models, and looks for saves under --out. saved_load.c reads them.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/saved/saved.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/relaxed.h"
#include "train/history.h"
#include "train/names.h"
#include "train/rows/run_tables.h"

// Approximate number of rows in a file: large enough for few files, small enough that
// threads share the work. The number of files depends only on the number of rows, so that
// the same model gives the same files.
enum { ROWS_IN_FILE = 1 << 18, MAX_FILES = 64 };

static uint32_t sparse_files(uint64_t rows)
{
    uint32_t n = 1;
    while (n < MAX_FILES && rows / n > ROWS_IN_FILE)
        n *= 2;
    return n;
}

const char *saved_table(enum saved_role role, bool dense)
{
    static const char *const names[][2] = {
        [SAVED_MODEL] = {RUN_SPARSE, RUN_DENSE},
        [SAVED_TRAINING] = {"training-" RUN_SPARSE, "training-" RUN_DENSE},
        [SAVED_MEAN] = {"mean-" RUN_SPARSE, "mean-" RUN_DENSE}};
    return names[role][dense];
}

// ------------------------------------------------------------ looking for existing saves

bool saved_any(const char *out)
{
    char path[FILE_PATH_MAX];
    struct err ignored;
    return save_find(out, path, &ignored) == 0;
}

static bool is_directory(int parent, const char *name, const char *path)
{
    struct stat a, b;
    return path != NULL && fstatat(parent, name, &a, 0) == 0 && stat(path, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool saved_none(const char *out, const char *beside)
{
    DIR *d = opendir(out);
    if (d == NULL)
        return errno == ENOENT;
    bool none = !saved_any(out);
    for (struct dirent *x = readdir(d); x != NULL && none; x = readdir(d))
        none = strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0 ||
               save_number(x->d_name) != 0 || is_directory(dirfd(d), x->d_name, beside);
    closedir(d);
    return none;
}

// The work of writing the files of a save, which all members of the team share.

struct file_job {
    const struct saved_rows *from;
    uint32_t table; // index in the manifest
    bool dense;
    uint32_t first, n; // partitions [first, first + n)
    char name[SAVE_FILE_MAX];
    struct rows_info info;
};

struct files_job {
    const char *dir;
    struct file_job files[SAVED_ROLES * (MAX_FILES + 1)];
    uint32_t n; // number of files of the roles so far
    uint32_t done;
    atomic_uint next;
    atomic_bool failed;
    struct err error; // the error of the first file that failed
    atomic_flag error_taken;
};

static int saved_write_file(const char *dir, struct file_job *f, struct err *e)
{
    const struct saved_rows *from = f->from;
    char path[FILE_PATH_MAX];
    uint32_t counted = f->dense ? SAVE_ALL_ROWS : from->model->accessor.count;
    TRY(file_join(path, dir, f->name, e));
    if (from->local != NULL)
        return save_write_table(f->dense ? from->local->dense : from->local->sparse,
                                f->first, f->n, counted, path, &f->info, e);
    struct table *t;
    TRY(from->fetch(from->ctx, f->dense, from->best, f->first, f->n, &t, e));
    int rc = save_write_table(t, f->first, f->n, counted, path, &f->info, e);
    table_close(t);
    return rc;
}

static void write_files(void *arg, int rank)
{
    struct files_job *j = arg;
    (void)rank;
    for (uint32_t i; (i = atomic_fetch_add(&j->next, 1)) < j->n;) {
        struct err e = {0};
        if (atomic_load(&j->failed) || saved_write_file(j->dir, &j->files[i], &e) == 0)
            continue;
        if (!atomic_flag_test_and_set(&j->error_taken))
            j->error = e;
        atomic_store(&j->failed, true);
    }
}

// Counts the rows that were updated. The others still have their initial values and are
// not saved.
static uint64_t count_updated(const struct parameters *p)
{
    enum { ROWS = 256 };
    struct table_slabs slabs = table_slabs(p->sparse);
    uint32_t handles[ROWS];
    uint64_t cursor = 0, updated = 0;
    for (size_t n; (n = table_scan(p->sparse, &cursor, handles, ROWS)) > 0;)
        for (size_t i = 0; i < n; i++)
            updated += relaxed_load(table_row(slabs, handles[i]) +
                                    p->model.accessor.count) != 0;
    return updated;
}

static int count_rows(const struct saved_rows *from, uint64_t *ret, struct err *e)
{
    if (from->local == NULL)
        return from->count(from->ctx, from->best, ret, e);
    *ret = count_updated(from->local);
    return 0;
}

static int plan_table(struct files_job *j, struct save_manifest *m,
                      const struct saved_rows *from, enum saved_role role, bool dense,
                      struct err *e)
{
    uint32_t bits = (dense ? model_dense_table(from->model) : model_table(from->model))
                        .partition_bits;
    struct table_config config = dense ? run_dense(from->model)
                                       : run_features(from->model);
    snprintf(config.name, sizeof(config.name), "%s", saved_table(role, dense));
    uint32_t table = (uint32_t)m->n_tables, files = 1;
    if (save_add_table(m, table, &config, bits, e) == NULL)
        return e->code;
    if (!dense) {
        uint64_t rows;
        TRY(count_rows(from, &rows, e));
        files = sparse_files(rows);
    }
    for (uint32_t i = 0, each = (1u << bits) / files; i < files; i++) {
        struct file_job *f = &j->files[j->n++];
        *f = (struct file_job){
            .from = from, .table = table, .dense = dense, .first = i * each, .n = each};
        save_file_name(f->name, config.name, i);
    }
    return 0;
}

// Writes the files of one role. Roles are written one after the other, because swap
// exchanges rows of one role for those of another and back.
static int write_role(struct files_job *j, struct save_manifest *m, struct team *team,
                      const struct saved_rows *from, enum saved_role role, struct err *e)
{
    for (int dense = 0; dense < 2; dense++)
        TRY(plan_table(j, m, from, role, dense, e));
    if (from->swap != NULL)
        TRY(from->swap(from->ctx, e));
    atomic_store(&j->next, j->done);
    team_run(team, write_files, j);
    j->done = j->n;
    if (from->swap != NULL)
        TRY(from->swap(from->ctx, e));
    if (!atomic_load(&j->failed))
        return 0;
    if (e != NULL)
        *e = j->error;
    return j->error.code;
}

static int write_tables(struct files_job *j, struct save_manifest *m, struct team *team,
                        const struct saved_rows *const roles[SAVED_ROLES], struct err *e)
{
    for (enum saved_role i = 0; i < SAVED_ROLES; i++)
        if (roles[i] != NULL)
            TRY(write_role(j, m, team, roles[i], i, e));
    for (uint32_t i = 0; i < j->n; i++)
        TRY(save_add_file(&m->tables[j->files[i].table], j->files[i].name,
                          &j->files[i].info, e));
    return 0;
}

int saved_write(const char *out, struct team *team,
                const struct saved_rows *const roles[SAVED_ROLES], struct saved_run *run,
                uint32_t keep, char ret_dir[FILE_PATH_MAX], struct err *e)
{
    const struct saved_rows *model = roles[SAVED_MODEL];
    struct save_manifest m;
    char dir[FILE_PATH_MAX];
    TRY(file_make_dir(out, e));
    TRY(save_begin_locked(out, SAVE_CHECKPOINT, &m, dir, e));
    struct files_job j = {.dir = dir, .error_taken = ATOMIC_FLAG_INIT};
    // A model with a `save` function sets the step itself, because its step counts more
    // than the batches of this run.
    m.step = model->save == NULL ? run->at.batches : 0;
    int rc = model->save != NULL ? model->save(model->ctx, dir, &m, run, e)
                                 : write_tables(&j, &m, team, roles, e);
    if (rc == 0 && run->names != NULL)
        rc = names_write(run->names, dir, e);
    if (rc == 0 && run->history != NULL)
        rc = history_write(run->history, dir, e);
    if (rc == 0)
        rc = saved_run_print(run, &m.about, e);
    if (rc == 0 && model->may_commit != NULL)
        rc = model->may_commit(model->ctx, e);
    if (rc == 0)
        rc = save_commit(out, &m, keep > 0 ? keep : 1, e);
    else
        save_abort(out, &m);
    if (rc == 0)
        snprintf(ret_dir, FILE_PATH_MAX, "%s", dir);
    save_manifest_free(&m);
    return rc;
}
