// The orders of `tug bench replicas` to the worker that sends no load.
//
// SPDX-License-Identifier: Apache-2.0
#include "bench/moves.h"
#include "client/client.h"
#include "save/save.h"

void bench_order(struct bench_nodes *b, enum bench_order what)
{
    struct bench_orders *o = &((struct bench_moves *)b->shared)->orders;
    o->what = what;
    atomic_fetch_add(&o->given, 1);
}

int bench_order_wait(struct bench_nodes *b, double patience, struct err *e)
{
    struct bench_orders *o = &((struct bench_moves *)b->shared)->orders;
    double until = clock_seconds() + patience;
    while (atomic_load(&o->done) < atomic_load(&o->given)) {
        if (clock_seconds() > until)
            return err_set(e, TUG_EIO, "%s have not ended within %.0f s",
                           o->what == BENCH_ORDER_SAVE ? "saves" : "pushes", patience);
        TRY(bench_nodes_run(b, 0.001, e));
    }
    return 0;
}

static void note(void *ctx, client_ts ts, int rc)
{
    (void)ts;
    if (rc == 0)
        *(double *)ctx = clock_seconds();
}

// A client has at most SHARD_WINDOW pushes under way; further ones wait for earlier ones.
static int push_each(struct bench_orders *o, struct client *c, uint32_t table,
                     const float *values, struct err *e)
{
    for (uint32_t i = 0; i < o->n; i++) {
        o->acknowledged[i] = 0;
        struct client_push p = {.table = table,
                                .keys = &o->keys[i],
                                .n = 1,
                                .values = values,
                                .rate = 1,
                                .pass = 1,
                                .done = note,
                                .ctx = &o->acknowledged[i]};
        if (client_push(c, &p, e) == 0)
            return e->code;
    }
    TRY(client_wait_all(c, e));
    for (uint32_t i = 0; i < o->n; i++)
        if (o->acknowledged[i] == 0)
            return err_set(e, TUG_EIO, "a push of one key has failed");
    return 0;
}

static int write_files(struct bench_orders *o, struct client *c, uint64_t id,
                       struct save_manifest *m, struct err *e)
{
    char there[FILE_PATH_MAX], path[FILE_PATH_MAX];
    struct client_save s = {.id = id, .mode = m->mode, .path = path};
    TRY(client_wait(c, client_below(c, WIRE_ROOT_SAVE, o->dir, there, e), e));
    TRY(save_path(path, there, m->number, e));
    return client_wait(c, client_save(c, &s, m, e), e);
}

static int save(struct bench_orders *o, struct client *c, struct err *e)
{
    struct save_manifest m;
    char path[FILE_PATH_MAX];
    uint64_t id = clock_unix_ns();
    o->began = clock_seconds();
    TRY(save_begin(o->dir, SAVE_BASE, &m, path, e));
    int rc = write_files(o, c, id, &m, e);
    if (rc == 0)
        rc = save_commit(o->dir, &m, 1, e);
    if (rc == 0)
        rc = client_wait(c, client_save_end(c, id, true, m.checksum, e), e);
    else
        save_abort(o->dir, &m);
    o->ended = clock_seconds();
    save_manifest_free(&m);
    return rc;
}

int bench_order_obey(struct bench_moves *m, struct client *c, uint32_t table,
                     const float *values, struct err *e)
{
    struct bench_orders *o = &m->orders;
    unsigned done = atomic_load(&o->done);
    if (done == atomic_load(&o->given))
        return 0;
    TRY(o->what == BENCH_ORDER_SAVE ? save(o, c, e) : push_each(o, c, table, values, e));
    atomic_store(&o->done, done + 1);
    return 0;
}
