// Writes stores into saves.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "save/save_internal.h"
#include "store/cut.h"

enum { BLOCK_BYTES = 1 << 20 };

struct rows_shape save_cut_shape(const struct store *s)
{
    const struct accessor *a = store_accessor(s);
    return (struct rows_shape){
        .width = a->width,
        .extra_width = a->extra_width,
        .partition_bits = store_partition_bits(s),
        .by_range = store_config(s)->place == CONFIG_RANGE,
        .mode = cut_mode(s),
        .day = cut_day(s),
    };
}

int save_write_cut(struct store *s, const char *path, int zstd_level,
                   bool (*mine)(void *ctx, uint32_t partition), void *ctx,
                   struct rows_info *ret, struct err *e)
{
    struct rows_writer *w;
    if (!cut_going(s))
        return err_set(e, TUG_EINTERNAL,
                       "save_write_cut was called without a cut in progress");
    struct rows_shape shape = save_cut_shape(s);
    TRY(rows_create(&w, FILE_OWN, path, &shape, zstd_level, e));
    for (;;) {
        struct rows_block b;
        int rc = cut_next(s, BLOCK_BYTES, &b, e);
        if (rc == 0 && b.kind == ROWS_END)
            return rows_commit(w, ret, e);
        if (rc == 0 && b.n == 0)
            continue; // the cut has no rows ready yet
        if (rc == 0 && (mine == NULL || mine(ctx, b.partition)))
            rc = rows_write(w, &b, e);
        if (rc != 0) {
            rows_abort(w);
            return rc;
        }
    }
}

static int write_store(struct store *s, const char *path, int zstd_level,
                       struct save_manifest *m, struct err *e)
{
    char name[SAVE_FILE_MAX], file[FILE_PATH_MAX];
    struct rows_info info;
    const struct table_config *c = store_config(s);
    struct save_table *t = save_add_table(m, store_id(s), c, store_partition_bits(s), e);
    if (t == NULL)
        return e->code;
    save_file_name(name, c->name, 0);
    TRY(file_join(file, path, name, e));
    TRY(save_write_cut(s, file, zstd_level, NULL, NULL, &info, e));
    return save_add_file(t, name, &info, e);
}

// Begins cuts of all stores, so that the save has the rows of all stores at one moment.
static int begin_cuts(struct save_manifest *m, struct store *const *stores, size_t n,
                      size_t *ret_begun, struct err *e)
{
    struct cut_options o = {.mode = m->mode};
    for (*ret_begun = 0; *ret_begun < n; ++*ret_begun) {
        // First finishes a running admin operation, or the end of an earlier save.
        TRY(store_finish(stores[*ret_begun], e));
        TRY(save_check_parent(stores[*ret_begun], m, e));
        TRY(cut_begin(stores[*ret_begun], &o, e));
        uint64_t by = store_published_by(stores[*ret_begun], NULL);
        m->published = *ret_begun == 0 || m->published == by ? by : 0;
        uint64_t step = store_step_of(stores[*ret_begun]);
        m->step = step > m->step ? step : m->step;
    }
    return 0;
}

// Writes the cuts. The caller must end *ret_begun cuts, also on failure.
static int write_stores(struct save_manifest *m, const char *path,
                        struct store *const *stores, size_t n, int zstd_level,
                        size_t *ret_begun, struct err *e)
{
    TRY(begin_cuts(m, stores, n, ret_begun, e));
    for (size_t i = 0; i < n; i++)
        TRY(write_store(stores[i], path, zstd_level, m, e));
    return 0;
}

// Ends the cuts. Keeps the first failure in *why.
static void end_cuts(struct store *const *stores, size_t n, bool committed,
                     struct err *why)
{
    for (size_t i = 0; i < n; i++) {
        struct err ending = {0};
        if (cut_end(stores[i], committed, &ending) != 0 && why->code == 0)
            *why = ending;
    }
}

static int result_of(const struct err *why, struct err *e)
{
    if (why->code != 0 && e != NULL)
        *e = *why;
    return why->code;
}

int save_add_stores(struct save_manifest *m, const char *path,
                    struct store *const *stores, size_t n, int zstd_level, struct err *e)
{
    struct err why = {0};
    size_t begun = 0;
    (void)write_stores(m, path, stores, n, zstd_level, &begun, &why);
    end_cuts(stores, begun, why.code == 0, &why);
    return result_of(&why, e);
}

int save_stores(const char *dir, enum save_mode mode, struct store *const *stores,
                size_t n, const char *about, int zstd_level, uint32_t keep,
                char ret_path[FILE_PATH_MAX], struct err *e)
{
    struct save_manifest m;
    struct err why = {0}; // the first failure, even if end_cuts fails too
    size_t begun = 0;
    TRY(save_begin(dir, mode, &m, ret_path, e));
    int rc = write_stores(&m, ret_path, stores, n, zstd_level, &begun, &why);
    if (rc == 0 && about != NULL && (m.about = mem_strdup(about)) == NULL)
        rc = err_nomem(&why, "a manifest");
    if (rc == 0)
        rc = save_commit(dir, &m, keep, &why);
    else
        save_abort(dir, &m);
    end_cuts(stores, begun, rc == 0, &why);
    for (size_t i = 0; i < n && rc == 0 && (mode == SAVE_BASE || mode == SAVE_DELTA); i++)
        store_set_published_by(stores[i], m.checksum);
    save_manifest_free(&m);
    return result_of(&why, e);
}
