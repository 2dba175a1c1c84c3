// Loads a table's rows from a save: the loop itself reads the rows of its partitions. It
// serves no other request meanwhile, because the requests would need the rows.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "os/file.h"
#include "save/save.h"
#include "server/background.h"
#include "server/clocks/sync.h"
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

static int load_rows(struct shard *s, struct shard_table *t,
                     const struct save_chain *chain, const char *name, struct err *e)
{
    struct mine mine = {s, member_roster(s->member)->owners[t->spec.space]};
    TRY(clear(s, t, e));
    if (save_load(chain, name, t->store, load_is_mine, &mine, e) != 0) {
        (void)clear(s, t, NULL); // an empty table is better than one with only some of
                                 // the rows
        return err_wrap(e, "table '%s' is empty now", t->spec.config.name);
    }
    store_loaded(t->store);
    step_clock_begin(&s->steps, chain->saves[chain->n - 1].step);
    tables_set_step(s);
    return 0;
}

// Checks everything that can be checked before a row is changed, then loads the rows.
static int load_chain(struct shard *s, struct shard_table *t, const char *path,
                      uint64_t checksum, const char *name, struct err *e)
{
    struct save_chain chain;
    int root;
    TRY(roots_find_save(s->o.roots, path, checksum, &root, e));
    TRY(save_chain_open_below(&chain, root, path, e));
    int rc = save_check(&chain, name, t->store, e);
    if (rc == 0)
        rc = load_rows(s, t, &chain, name, e);
    save_chain_close(&chain);
    return rc;
}

static int text_of(struct wire_text t, char *to, size_t max, struct err *e)
{
    if (t.n >= max || (t.n > 0 && memchr(t.data, '\0', t.n) != NULL))
        return err_set(e, TUG_EUSAGE, "a path or a name of %u bytes is too long", t.n);
    if (t.n > 0)
        memcpy(to, t.data, t.n);
    to[t.n] = '\0';
    return 0;
}

static int loads_load(struct shard *s, struct shard_table *t, const struct msg_load *m,
                      struct err *e)
{
    char path[FILE_PATH_MAX], name[CONFIG_NAME_MAX];
    struct store_stats x = store_stats(t->store);
    moves_break(s, t->spec.space, "a table was loaded");
    TRY(text_of(m->path, path, sizeof(path), e));
    TRY(text_of(m->name, name, sizeof(name), e));
    if (!m->clear && x.rows + x.cold_rows > 0)
        return err_set(e, TUG_EUSAGE, "table '%s' has %llu rows: clear it first",
                       t->spec.config.name, (unsigned long long)(x.rows + x.cold_rows));
    int rc = load_chain(s, t, path, m->checksum,
                        name[0] != '\0' ? name : t->spec.config.name, e);
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
    else if (loads_load(s, t, m, e) == 0) {
        struct store_stats x = store_stats(t->store);
        *ret_rows = x.rows + x.cold_rows;
    }
    return GOES_ON;
}

enum outcome load_serve(struct shard *s, struct shard_request *q)
{
    const struct msg_load *m = &q->m->load;
    uint64_t session = q->peer->session, rows = 0;
    enum admin_state state;
    struct err e = {0};
    if (s->roles.n_unsettled > 0)
        return WANTS_MOVE;
    if (session == 0)
        err_set(&e, TUG_EUSAGE, "only a node that has joined the cluster can load");
    else if (admin_begin(&s->admin, session, m->number, m->low, &state, &rows, &e) == 0 &&
             state == ADMIN_NEW) {
        if (obey(s, m, &rows, &e) == WANTS_TURN)
            return WANTS_TURN;
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
