// Loads a table's rows from a save: the loop itself reads the rows of its partitions. It
// serves no other request meanwhile, because the requests would need the rows.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "os/file.h"
#include "save/save.h"
#include "server/background.h"
#include "server/chain/chain.h"
#include "server/clocks/sync.h"
#include "server/rows/loads.h"
#include "server/rows/place.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"
#include "server/told.h"

struct mine {
    const struct shard *shard;
    const uint32_t *owners;
};

static bool load_is_mine(void *ctx, uint32_t partition)
{
    const struct mine *m = ctx;
    return m->owners != NULL && m->owners[partition] == member_id(m->shard->member);
}

static int clear(struct shard *s, struct shard_table *t, struct err *e)
{
    assert(background_free(t)); // load_serve waits until other operations have ended
    sync_restart(s, t);
    TRY(store_admin(t->store, STORE_CLEAR, 0, e));
    return store_finish(t->store, e);
}

// Moves the loop's step to that of the newest save.
static void end_load(struct shard *s, const struct save_chain *chain)
{
    step_clock_begin(&s->steps, chain->saves[chain->n - 1].step);
    tables_set_step(s);
}

static int is_empty_now(const struct shard_table *t, struct err *e)
{
    return err_wrap(e, "table '%s' is empty now", t->spec.config.name);
}

static int load_rows(struct shard *s, struct shard_table *t,
                     const struct save_chain *chain, const char *name, struct err *e)
{
    struct mine mine = {s, member_roster(s->member)->owners[t->spec.space]};
    TRY(clear(s, t, e));
    if (save_load(chain, name, t->store, load_is_mine, &mine, e) != 0) {
        (void)clear(s, t, NULL); // an empty table is better than one with only some of
                                 // the rows
        return is_empty_now(t, e);
    }
    store_loaded(t->store);
    end_load(s, chain);
    return 0;
}

// Opens a save, and checks everything that can be checked before a row is changed.
static int open_chain(struct shard *s, struct shard_table *t,
                      const struct loads_from *from, struct save_chain *ret,
                      struct err *e)
{
    int root;
    TRY(roots_find_save(s->o.roots, from->path, from->checksum, &root, e));
    TRY(save_chain_open_below(ret, root, from->path, e));
    int rc = save_check(ret, from->name, t->store, e);
    if (rc != 0)
        save_chain_close(ret);
    return rc;
}

static int load_all(struct shard *s, struct shard_table *t, const struct loads_from *from,
                    struct err *e)
{
    struct save_chain chain;
    TRY(open_chain(s, t, from, &chain, e));
    int rc = load_rows(s, t, &chain, from->name, e);
    save_chain_close(&chain);
    return rc;
}

// ---------------------------------------------------------------- with replicas

static int empty(struct shard_table *t, const uint32_t *partitions, uint32_t n,
                 struct err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        t->changed_at[partitions[i]] = ++t->version;
        TRY(store_empty(t->store, partitions[i], e));
    }
    return 0;
}

static bool is_wanted(void *ctx, uint32_t partition)
{
    const bool *wanted = ctx;
    return wanted[partition];
}

static int load_some(struct shard_table *t, const struct save_chain *chain,
                     const struct loads_from *from, bool *wanted,
                     const uint32_t *partitions, uint32_t n, struct err *e)
{
    for (uint32_t i = 0; i < n; i++)
        wanted[partitions[i]] = true;
    TRY(empty(t, partitions, n, e));
    if (save_load_some(chain, from->name, t->store, is_wanted, wanted, e) == 0)
        return 0;
    (void)empty(t, partitions, n, NULL); // as in load_rows
    return is_empty_now(t, e);
}

int loads_some(struct shard *s, struct shard_table *t, const struct loads_from *from,
               const uint32_t *partitions, uint32_t n, bool *ret_changed, struct err *e)
{
    struct save_chain chain;
    *ret_changed = false;
    TRY(open_chain(s, t, from, &chain, e));
    bool *wanted = mem_zalloc((size_t)1 << s->bits);
    *ret_changed = wanted != NULL;
    int rc = wanted != NULL ? load_some(t, &chain, from, wanted, partitions, n, e)
                            : err_nomem(e, "a list of partitions");
    if (rc == 0)
        end_load(s, &chain);
    mem_free(wanted);
    save_chain_close(&chain);
    tables_measure(s, t);
    leave_after_load(s);
    return rc;
}

// ---------------------------------------------------------------- requests

static int text_of(struct wire_text t, char *to, size_t max, struct err *e)
{
    if (t.n >= max || (t.n > 0 && memchr(t.data, '\0', t.n) != NULL))
        return err_set(e, TUG_EUSAGE, "a path or a name of %u bytes is too long", t.n);
    if (t.n > 0)
        memcpy(to, t.data, t.n);
    to[t.n] = '\0';
    return 0;
}

// Returns the number of rows of the partitions that a load concerns: with replicas those
// that chain_find_load has found, otherwise all.
static uint64_t count_rows(const struct shard *s, const struct shard_table *t)
{
    if (s->chain == NULL) {
        struct store_stats x = store_stats(t->store);
        return x.rows + x.cold_rows;
    }
    uint64_t rows = 0;
    for (uint32_t i = 0; i < s->chain->n_left; i++)
        rows += store_rows_of(t->store, s->chain->left[i]);
    return rows;
}

static int loads_load(struct shard *s, struct shard_table *t, const struct msg_load *m,
                      struct err *e)
{
    char path[FILE_PATH_MAX], name[CONFIG_NAME_MAX];
    uint64_t rows = count_rows(s, t);
    moves_break_led(s, t->spec.space, "a table was loaded");
    TRY(text_of(m->path, path, sizeof(path), e));
    TRY(text_of(m->name, name, sizeof(name), e));
    if (!m->clear && rows > 0)
        return err_set(e, TUG_EUSAGE, "table '%s' has %llu rows: clear it first",
                       t->spec.config.name, (unsigned long long)rows);
    const struct loads_from from = {path, name[0] != '\0' ? name : t->spec.config.name,
                                    m->checksum};
    int rc = s->chain == NULL ? load_all(s, t, &from, e)
                              : chain_lead_load(s, t, m, &from, e);
    tables_touch_all(s, t);
    tables_measure(s, t);
    return rc;
}

static int put_root(struct buf *to, enum wire_root kind, const struct root *r)
{
    struct wire_root_dir x = {.kind = (uint8_t)kind, .path = wire_text(r->path)};
    return r->fd >= 0 ? wire_put_root_dir(to, &x) : 0;
}

enum outcome roots_serve(struct shard *s, struct shard_request *q)
{
    const struct roots *r = s->o.roots;
    struct buf to = BUF_INIT(WIRE_BYTES_MAX);
    struct err e = {0};
    int rc = 0;
    if (q->peer->session == 0)
        rc = err_set(&e, TUG_EUSAGE,
                     "only a node that has joined the cluster can ask for directories");
    if (rc == 0 && r != NULL) {
        rc = put_root(&to, WIRE_ROOT_SAVE, &r->save);
        for (size_t i = 0; i < r->n_load && rc == 0; i++)
            rc = put_root(&to, WIRE_ROOT_LOAD, &r->load[i]);
        if (rc == 0)
            rc = put_root(&to, WIRE_ROOT_COLD, &r->cold);
        if (rc != 0)
            err_nomem(&e, "a server's directories");
    }
    struct msg_roots_are m = {.roots = {to.data, (uint32_t)to.len}};
    if (rc != 0)
        shard_refuse(s, q, &e);
    else
        van_send(s->van, q->peer->link, MSG_ROOTS_ARE, q->id, &m, NULL);
    buf_free(&to);
    return ANSWERED;
}

static enum outcome obey(struct shard *s, const struct msg_load *m, uint64_t *ret_rows,
                         struct err *e)
{
    struct shard_table *t = tables_find(s, m->table, e);
    if (t == NULL)
        return GOES_ON;
    if (!background_free(t))
        return WANTS_TURN;
    else if (loads_load(s, t, m, e) == 0)
        *ret_rows = count_rows(s, t);
    return GOES_ON;
}

enum outcome load_serve(struct shard *s, struct shard_request *q)
{
    const struct msg_load *m = &q->m->load;
    uint64_t session = q->peer->session, rows = 0;
    enum admin_state state;
    struct err e = {0};
    enum outcome outcome = place_check_admin(s, q, m->epoch);
    if (outcome != GOES_ON)
        return outcome;
    if (session == 0)
        err_set(&e, TUG_EUSAGE, "only a node that has joined the cluster can load");
    else if (admin_begin(&s->admin, session, m->number, m->low, &state, &rows, &e) == 0 &&
             chain_find_load(s, q, &state, &rows, &e) == 0 && state == ADMIN_NEW) {
        uint64_t loaded = 0;
        if (obey(s, m, &loaded, &e) == WANTS_TURN)
            return WANTS_TURN;
        rows += loaded;
        if (e.code == 0) {
            admin_done(&s->admin, session, m->number, rows);
            told_done(s, q);
        }
    }
    if (e.code != 0)
        shard_refuse(s, q, &e);
    else
        shard_ok(s, q, rows);
    return ANSWERED;
}
