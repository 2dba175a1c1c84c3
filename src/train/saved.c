// Saved models on disk.
//
// SPDX-License-Identifier: Apache-2.0
#include "train/saved.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/relaxed.h"
#include "save/save.h"
#include "train/lives.h"

// Rows in a part, about: enough that files are few, few enough that threads share the
// work. The number of parts follows from the number of rows alone, so that the same model
// gives the same files.
enum { ROWS_IN_PART = 1 << 18, MAX_SPARSE_PARTS = 64 };

static uint32_t sparse_parts(uint64_t rows)
{
    uint32_t n = 1;
    while (n < MAX_SPARSE_PARTS && rows / n > ROWS_IN_PART)
        n *= 2;
    return n;
}

static bool is_complete(const char *out, uint32_t number)
{
    char dir[FILE_PATH_MAX], path[FILE_PATH_MAX];
    return save_path(dir, out, number, NULL) == 0 &&
           file_join(path, dir, MANIFEST_NAME, NULL) == 0 && file_exists(path);
}

// Calls each(ctx, number) for the saves under `out`; a directory that
// cannot be read has none.
static void each_save(const char *out, void (*each)(void *ctx, uint32_t number),
                      void *ctx)
{
    DIR *d = opendir(out);
    if (d == NULL)
        return;
    for (struct dirent *entry = readdir(d); entry != NULL; entry = readdir(d))
        if (save_number(entry->d_name) != 0)
            each(ctx, save_number(entry->d_name));
    closedir(d);
}

struct newest {
    const char *out;
    uint32_t any, complete;
};

static void look_at(void *ctx, uint32_t number)
{
    struct newest *n = ctx;
    if (number > n->any)
        n->any = number;
    if (number > n->complete && is_complete(n->out, number))
        n->complete = number;
}

static struct newest newest_of(const char *out)
{
    struct newest n = {.out = out};
    each_save(out, look_at, &n);
    return n;
}

bool saved_any(const char *out)
{
    return newest_of(out).complete != 0;
}

bool saved_none(const char *out)
{
    DIR *d = opendir(out);
    if (d == NULL)
        return errno == ENOENT;
    bool none = newest_of(out).complete == 0;
    for (struct dirent *x = readdir(d); x != NULL && none; x = readdir(d))
        none = strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0 ||
               save_number(x->d_name) != 0;
    closedir(d);
    return none;
}

int saved_find(const char *from, char ret_dir[FILE_PATH_MAX], struct err *e)
{
    char path[FILE_PATH_MAX];
    TRY(file_join(path, from, MANIFEST_NAME, e));
    if (file_exists(path)) {
        snprintf(ret_dir, FILE_PATH_MAX, "%s", from);
        return 0;
    }
    uint32_t number = newest_of(from).complete;
    if (number == 0)
        return err_set(
            e, TUG_EDATA,
            "%s holds no saved model: give the --out directory of a training run, or "
            "one of the save-... directories in it",
            from);
    return save_path(ret_dir, from, number, e);
}

// Parts, by all members of the team.
struct parts_job {
    const char *dir;
    struct manifest *m;
    const struct manifest *loading; // instead of m
    const struct saved_rows *model, *training;
    struct parameters *into;
    enum part_role role;
    bool sparse, dense;
    atomic_uint next;
    atomic_bool failed;
    struct err error; // of the first that failed
    atomic_flag error_taken;
};

static void part_failed(struct parts_job *j, const struct err *e)
{
    if (!atomic_flag_test_and_set(&j->error_taken))
        j->error = *e;
    atomic_store(&j->failed, true);
}

static int write_part(const struct saved_rows *from, const char *dir,
                      struct manifest_part *p, struct err *e)
{
    char path[FILE_PATH_MAX];
    uint32_t counted = p->dense ? PART_ALL : from->model->accessor.count;
    TRY(file_join(path, dir, p->file, e));
    if (from->local != NULL)
        return part_save(p->dense ? from->local->dense : from->local->sparse,
                         p->first_partition, p->n_partitions, counted, path, &p->info, e);
    struct table *t;
    TRY(from->fetch(from->ctx, p->dense, from->best, p->first_partition, p->n_partitions,
                    &t, e));
    int rc = part_save(t, p->first_partition, p->n_partitions, counted, path, &p->info,
                       e);
    table_close(t);
    return rc;
}

static void write_parts(void *arg, int rank)
{
    struct parts_job *j = arg;
    (void)rank;
    for (;;) {
        uint32_t i = atomic_fetch_add(&j->next, 1);
        if (i >= j->m->n_parts || atomic_load(&j->failed))
            return;
        struct manifest_part *p = &j->m->parts[i];
        struct err e = {0};
        if (write_part(p->role == PART_MODEL ? j->model : j->training, j->dir, p, &e) !=
            0)
            part_failed(j, &e);
    }
}

static void read_parts(void *arg, int rank)
{
    struct parts_job *j = arg;
    (void)rank;
    for (;;) {
        uint32_t i = atomic_fetch_add(&j->next, 1);
        if (i >= j->loading->n_parts || atomic_load(&j->failed))
            return;
        const struct manifest_part *p = &j->loading->parts[i];
        if (p->role != j->role || !(p->dense ? j->dense : j->sparse))
            continue;
        char path[FILE_PATH_MAX];
        struct err e = {0};
        if (file_join(path, j->dir, p->file, &e) != 0 ||
            part_load(p->dense ? j->into->dense : j->into->sparse, path, &p->info, &e) !=
                0)
            part_failed(j, &e);
    }
}

// Rows that were updated: the others are what they began with, and are not saved.
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

static int plan_parts(struct manifest *m, const struct saved_rows *from,
                      enum part_role role, struct err *e)
{
    const char *prefix = role == PART_MODEL ? "model" : "training";
    uint64_t rows;
    TRY(count_rows(from, &rows, e));
    uint32_t all = 1u << model_table(from->model).partition_bits, n = sparse_parts(rows);
    if (role == PART_MODEL)
        m->rows = rows;
    for (uint32_t i = from->save != NULL ? n + 1 : 0; i <= n; i++) {
        struct manifest_part *part = &m->parts[m->n_parts++];
        *part = (struct manifest_part){.role = role, .dense = i == n};
        if (part->dense) {
            snprintf(part->file, sizeof(part->file), "%s-dense.part", prefix);
            part->n_partitions = 1u << model_bias_table(from->model).partition_bits;
        } else {
            snprintf(part->file, sizeof(part->file), "%s-%03u.part", prefix, i);
            part->first_partition = i * (all / n);
            part->n_partitions = all / n;
        }
    }
    return 0;
}

struct removal {
    const char *out;
    uint32_t newest, keep;
};

// Unfinished saves, and complete ones beyond the newest `keep`.
static void remove_old(void *ctx, uint32_t number)
{
    const struct removal *r = ctx;
    char dir[FILE_PATH_MAX];
    if (number >= r->newest || save_path(dir, r->out, number, NULL) != 0)
        return;
    uint32_t newer = 0;
    for (uint32_t n = number + 1; n <= r->newest && newer < r->keep; n++)
        newer += is_complete(r->out, n);
    if (newer >= r->keep || !is_complete(r->out, number))
        (void)file_remove_tree(dir,
                               NULL); // the new save stands; the next one tries again
}

int saved_write(const char *out, struct team *team, const struct saved_rows *model,
                const struct saved_rows *training, struct manifest *m, uint32_t keep,
                char ret_dir[FILE_PATH_MAX], struct err *e)
{
    m->n_parts = 0;
    TRY(plan_parts(m, model, PART_MODEL, e));
    if (training != NULL)
        TRY(plan_parts(m, training, PART_TRAINING, e));
    uint32_t number = newest_of(out).any + 1;
    char dir[FILE_PATH_MAX];
    TRY(file_make_dir(out, e));
    TRY(save_path(dir, out, number, e));
    TRY(file_make_dir(dir, e));
    struct parts_job j = {.dir = dir,
                          .m = m,
                          .model = model,
                          .training = training,
                          .error_taken = ATOMIC_FLAG_INIT};
    team_run(team, write_parts, &j);
    int rc = 0;
    if (atomic_load(&j.failed)) {
        if (e != NULL)
            *e = j.error;
        rc = j.error.code;
    }
    if (rc == 0 && model->save != NULL)
        rc = model->save(model->ctx, dir, e);
    if (rc == 0)
        rc = manifest_write(m, dir, e);
    if (rc == 0)
        rc = file_sync_dir(out, e);
    if (rc != 0) {
        (void)file_remove_tree(dir, NULL);
        return rc;
    }
    struct removal r = {.out = out, .newest = number, .keep = keep > 0 ? keep : 1};
    each_save(out, remove_old, &r);
    snprintf(ret_dir, FILE_PATH_MAX, "%s", dir);
    return 0;
}

int saved_check_parts(const char *dir, const struct manifest *m, enum part_role role,
                      struct err *e)
{
    bool sparse = false, dense = false;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < m->n_parts; i++) {
        const struct manifest_part *p = &m->parts[i];
        if (p->role != role)
            continue;
        *(p->dense ? &dense : &sparse) = true;
        rows += p->dense ? 0 : p->info.rows;
    }
    if (manifest_lives(m) || (sparse && dense && (role != PART_MODEL || rows == m->rows)))
        return 0;
    return err_set(e, TUG_EDATA,
                   "%s/" MANIFEST_NAME ": parts of the model are missing from the list; "
                   "the file is damaged",
                   dir);
}

int saved_load_into(const char *dir, const struct manifest *m, enum part_role role,
                    bool sparse, bool dense, struct team *team, struct parameters *p,
                    struct err *e)
{
    TRY(saved_check_parts(dir, m, role, e));
    if (manifest_lives(m))
        return lives_load(dir, p, e);
    struct parts_job j = {.dir = dir,
                          .loading = m,
                          .into = p,
                          .role = role,
                          .sparse = sparse,
                          .dense = dense,
                          .error_taken = ATOMIC_FLAG_INIT};
    team_run(team, read_parts, &j);
    if (atomic_load(&j.failed)) {
        if (e != NULL)
            *e = j.error;
        return j.error.code;
    }
    return 0;
}

int saved_load(const char *dir, const struct manifest *m, enum part_role role,
               struct team *team, struct parameters *ret, struct err *e)
{
    TRY(parameters_open(ret, &m->options.model, e));
    int rc = saved_load_into(dir, m, role, true, true, team, ret, e);
    if (rc != 0)
        parameters_close(ret);
    return rc;
}
