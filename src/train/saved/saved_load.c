// Loads saved models: rows in the files of a save become rows of a model's tables. Rows
// with a lifecycle become the weights that a pull returns, for scoring.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "base/relaxed.h"
#include "train/rows/lifecycle.h"
#include "train/saved/saved.h"

static int check_run(const struct save_manifest *m, const char *dir, struct err *e)
{
    if (m->about != NULL)
        return 0;
    return err_set(e, TUG_EDATA,
                   "%s holds tables, but no description of a model: it was not saved by "
                   "a training run",
                   dir);
}

static int check_whole(const struct save_manifest *m, const char *dir, struct err *e)
{
    TRY(check_run(m, dir, e));
    if (m->mode != SAVE_BASE && m->mode != SAVE_DELTA)
        return 0;
    return err_set(e, TUG_EUSAGE,
                   "%s was published for serving (--publish), in the middle of training: "
                   "continue from a save of --out",
                   dir);
}

int saved_open(struct save_chain *c, const char *dir, struct err *e)
{
    TRY(save_chain_open_below(c, FILE_ANYWHERE, dir, e));
    int rc = check_whole(&c->saves[c->n - 1], dir, e);
    if (rc != 0)
        save_chain_close(c);
    return rc;
}

int saved_read(struct saved_run *ret, const char *dir, struct err *e)
{
    struct save_manifest m;
    char path[FILE_PATH_MAX];
    TRY(file_join(path, dir, SAVE_MANIFEST, e));
    TRY(save_read(dir, &m, e));
    int rc = check_run(&m, dir, e);
    if (rc == 0)
        rc = saved_run_parse(ret, m.about, path, e);
    save_manifest_free(&m);
    return rc;
}

int saved_read_newest(struct saved_run *ret, char ret_dir[FILE_PATH_MAX], const char *out,
                      struct err *e)
{
    TRY(save_find(out, ret_dir, e));
    return saved_read(ret, ret_dir, e);
}

int saved_check_whole(const char *dir, struct err *e)
{
    struct save_manifest m;
    TRY(save_read(dir, &m, e));
    int rc = check_whole(&m, dir, e);
    save_manifest_free(&m);
    return rc;
}

// The state of copying the rows of one saved table into one table of the model.
struct copying {
    const struct save_table *from;
    struct accessor saved;
    bool same;   // the rows have the model's own layout and are copied whole
    bool packed; // the model's rows hold only weights
    const struct accessor *own;
    struct table *to;
    struct numbering *known; // receives the keys; may be NULL
};

// Copies a row of a save, or fills in the second group of `row` from an extra row. A save
// has an extra row after the row to which it belongs.
static void copy_row(const struct copying *x, enum rows_kind kind, const float *from,
                     float *row)
{
    if (x->same)
        relaxed_store_n(row, from, x->own->width);
    else if (kind == ROWS_EXTRA)
        relaxed_store_n(row + x->own->groups[1].weights,
                        from + x->saved.groups[1].weights, x->own->groups[1].n);
    else
        lifecycle_copy_row(&x->saved, x->own, from,
                           x->saved.extra_width > 0 ? NULL : from, row);
}

// Returns whether a row was never updated, so that it counts as unknown
// (parameters_resolve_seen).
static bool says_nothing(const struct copying *x, enum rows_kind kind, const float *from)
{
    return x->packed && kind == ROWS_ROW && x->saved.count != ACCESSOR_NO_COUNT &&
           from[x->saved.count] == 0;
}

// Lists the keys of the block: first those whose rows are added or changed, then those
// whose rows are removed.
static size_t part_keys(const struct copying *x, const struct rows_block *b,
                        const char *from, size_t n, size_t stride, uint64_t *ret_keys,
                        const float **ret_rows)
{
    size_t stay = 0, go = n;
    for (size_t i = 0; i < n; i++, from += stride) {
        const float *row = (const float *)(const void *)(from + sizeof(uint64_t));
        size_t at = b->kind == ROWS_GONE || says_nothing(x, b->kind, row) ? --go : stay++;
        memcpy(&ret_keys[at], from, sizeof(*ret_keys));
        ret_rows[at] = row;
    }
    return stay;
}

static int copy_block(void *ctx, const struct rows_block *b, struct err *e)
{
    enum { ROWS = 512 }; // number of rows that are looked up in the table together
    const struct copying *x = ctx;
    size_t stride = sizeof(uint64_t) + b->width * sizeof(float);
    const char *from = b->payload;
    const float *rows[ROWS];
    uint64_t keys[ROWS];
    uint32_t handles[ROWS];
    if (b->kind != ROWS_ROW && b->kind != ROWS_EXTRA && b->kind != ROWS_GONE)
        return 0;
    for (size_t at = 0, n; at < b->n; at += n, from += n * stride) {
        n = b->n - at < ROWS ? b->n - at : ROWS;
        size_t stay = part_keys(x, b, from, n, stride, keys, rows);
        (void)table_erase(x->to, keys + stay, n - stay);
        if (x->known != NULL)
            numbering_add(x->known, keys, stay);
        if (table_rows(x->to, keys, stay, handles) != 0)
            return err_nomem(e, "the rows of a model");
        struct table_slabs slabs = table_slabs(x->to);
        for (size_t i = 0; i < stay; i++)
            copy_row(x, b->kind, rows[i], table_row(slabs, handles[i]));
    }
    return 0;
}

// The work of loading the files of a save, which all members of the team share.
struct loading {
    const struct save_chain *chain;
    rows_block_fn take;
    struct copying tables[2];
    uint32_t n;
    atomic_uint next; // the next file to load
    atomic_bool failed;
    struct err error; // the error of the first file that failed
    atomic_flag error_taken;
};

static void load_files(void *arg, int rank)
{
    struct loading *l = arg;
    (void)rank;
    for (;;) {
        size_t file = atomic_fetch_add(&l->next, 1), t = 0;
        for (; t < l->n && file >= l->tables[t].from->n_files; t++)
            file -= l->tables[t].from->n_files;
        if (t == l->n || atomic_load(&l->failed))
            return;
        struct err e = {0};
        if (save_each_block(l->chain, l->tables[t].from, file, l->take, &l->tables[t],
                            &e) == 0)
            continue;
        if (!atomic_flag_test_and_set(&l->error_taken))
            l->error = e;
        atomic_store(&l->failed, true);
    }
}

static bool same_groups(const struct accessor *a, const struct accessor *b, bool state)
{
    bool same = a->n_groups == b->n_groups && (!state || a->width == b->width);
    for (uint32_t g = 0; g < a->n_groups && same; g++) {
        const struct accessor_group *x = &a->groups[g], *y = &b->groups[g];
        same = x->n == y->n &&
               (!state || (x->weights == y->weights && x->n_state == y->n_state));
    }
    return same;
}

static int add_table(struct loading *l, const char *name, const struct accessor *own,
                     bool packed, struct table *to, struct err *e)
{
    struct copying *x = &l->tables[l->n];
    *x = (struct copying){.own = own, .packed = packed, .to = to};
    int rc = save_open_table(l->chain, name, &x->from, e);
    if (rc == TUG_EUSAGE)
        return err_set(e, TUG_EDATA, "%s does not hold the table '%s' of a model",
                       l->chain->paths[0], name);
    TRY(rc);
    TRY(accessor_make(&x->saved, &x->from->config.accessor, e));
    bool lives = accessor_has_lifecycle(&x->saved);
    x->same = !lives && !packed;
    if (!same_groups(&x->saved, own, x->same))
        return err_set(e, TUG_EDATA, "the rows of table %s in %s do not fit this model",
                       name, l->chain->paths[0]);
    l->n++;
    return 0;
}

static int run_loading(struct loading *l, struct team *team, struct err *e)
{
    team_run(team, load_files, l);
    if (!atomic_load(&l->failed))
        return 0;
    if (e != NULL)
        *e = l->error;
    return l->error.code;
}

static int saved_load_chain(const struct save_chain *c, enum saved_role role, bool sparse,
                            bool dense, struct team *team, struct parameters *p,
                            struct err *e)
{
    struct loading l = {.chain = c, .take = copy_block, .error_taken = ATOMIC_FLAG_INIT};
    bool packed = p->model.accessor.count == ACCESSOR_NO_COUNT;
    if (sparse)
        TRY(add_table(&l, saved_table(role, false), &p->model.accessor, packed, p->sparse,
                      e));
    if (sparse)
        l.tables[0].known = &p->known;
    if (dense)
        TRY(add_table(&l, saved_table(role, true), &p->model.dense, false, p->dense, e));
    return run_loading(&l, team, e);
}

int saved_load_into(const char *dir, enum saved_role role, bool sparse, bool dense,
                    struct team *team, struct parameters *p, struct err *e)
{
    struct save_chain c;
    TRY(saved_open(&c, dir, e));
    int rc = saved_load_chain(&c, role, sparse, dense, team, p, e);
    save_chain_close(&c);
    return rc;
}

static struct save_chain only(const struct save_chain *c, size_t at)
{
    return (struct save_chain){
        .root = c->root, .saves = &c->saves[at], .paths = &c->paths[at], .n = 1};
}

int saved_load_change(const struct save_chain *c, size_t at, struct team *team,
                      struct parameters *p, struct err *e)
{
    struct save_chain one = only(c, at);
    return saved_load_chain(&one, SAVED_MODEL, true, true, team, p, e);
}

static int load_chain(const char *dir, enum saved_role role, struct team *team,
                      struct parameters *p, struct err *e)
{
    struct save_chain c;
    TRY(save_chain_open_below(&c, FILE_ANYWHERE, dir, e));
    int rc = check_run(&c.saves[c.n - 1], dir, e);
    for (size_t at = 0; at < c.n && rc == 0; at++) {
        struct save_chain one = only(&c, at);
        rc = saved_load_chain(&one, role, true, true, team, p, e);
    }
    save_chain_close(&c);
    return rc;
}

int saved_load(const char *dir, const struct saved_run *run, enum saved_role role,
               struct team *team, struct parameters *ret, struct err *e)
{
    TRY(parameters_open(ret, &run->options.model, e));
    ret->known.columns = run->columns;
    numbering_join(&ret->known, run->numbers);
    numbering_add_fields(&ret->known, run->first_field, run->fields_end);
    int rc = load_chain(dir, role, team, ret, e);
    if (rc != 0)
        parameters_close(ret);
    return rc;
}

static int pass_over(void *ctx, const struct rows_block *b, struct err *e)
{
    (void)ctx, (void)b, (void)e;
    return 0;
}

int saved_verify(const struct save_chain *c, size_t at, struct team *team,
                 const struct parameters *p, struct err *e)
{
    struct save_chain one = only(c, at);
    struct loading l = {
        .chain = &one, .take = pass_over, .error_taken = ATOMIC_FLAG_INIT};
    TRY(add_table(&l, saved_table(SAVED_MODEL, false), &p->model.accessor, true, NULL,
                  e));
    TRY(add_table(&l, saved_table(SAVED_MODEL, true), &p->model.dense, false, NULL, e));
    return run_loading(&l, team, e);
}
