// A trainer's client, and the facts on which the driver and the workers of a cluster
// agree.
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/remote.h"

#include <stdio.h>

#include "cluster/node.h"
#include "os/below.h"
#include "os/clock.h"
#include "os/log.h"
#include "rule/rule.h"
#include "train/rows/lifecycle.h"
#include "train/saved/run_options.h"
#include "train_cluster/peer.h"

enum { READY_SECONDS = 120 };

// The longest wait of driver and workers for each other's descriptions of the data. It is
// long because a worker whose model has fields may first have to read all of its data.
enum { DATA_SECONDS = 3600 };

static const double ask_seconds = 0.005;

// The longest wait for an answer in ssp and sync mode. In these modes, servers let a pull
// wait for other workers, and refuse the pull after ten minutes with the names of those
// workers. A client need not give up earlier, because the scheduler reports dead servers.
enum { HELD_SECONDS = 660 };

int remote_open(struct remote *r, const struct train_config *c,
                const struct remote_options *ro, struct err *e)
{
    const struct train_cluster *k = c->cluster;
    uint64_t timeout = k->mode == CONFIG_ASYNC && !k->dense_bounded
                           ? 0
                           : HELD_SECONDS * SECOND_NS;
    *r = (struct remote){.node = k->node};
    if (k->peer != NULL) {
        r->van = k->peer->van;
        r->client = k->peer->client;
        client_set_interrupt(r->client, c->interrupted);
        client_set_timeout(r->client, timeout);
        return 0;
    }
    struct client_options o = {
        .member = node_member(r->node, ro->role, ""),
        .view = ro->view,
        .view_ctx = ro->ctx,
        .request_timeout_ns = timeout,
        .bf16 = k->bf16,
        .pack_keys = k->pack_keys,
        .cache_keys = k->cache_keys,
    };
    o.member.loop = ro->loop;
    o.member.loops = ro->loops;
    TRY(client_open(&r->client, &o, e));
    client_set_interrupt(r->client, c->interrupted);
    struct van_handler h = client_handler(r->client);
    TRY(node_van(r->node, &r->van, &h, ro->role == WIRE_WORKER, e));
    client_serve(r->client, r->van, van_now(r->van));
    TRY(client_wait_ready(r->client, READY_SECONDS * SECOND_NS, e));
    if (ro->role == WIRE_WORKER && ro->loop == 0) {
        uint32_t rank = member_rank(client_member(r->client));
        log_set_rank((int)rank);
        log_info("joined the cluster at %s as worker %u", o.member.scheduler, rank);
    }
    return 0;
}

void remote_close(struct remote *r)
{
    // The van is freed before the client is closed, because the van returns
    // buffers to the client.
    van_free(r->van);
    client_close(r->client);
    *r = (struct remote){0};
}

void remote_give_back(struct remote *r)
{
    if (r->client != NULL) {
        client_set_interrupt(r->client, NULL);
        client_set_timeout(r->client, 0);
    }
    *r = (struct remote){0};
}

static int make_table(struct remote *r, uint32_t number, const struct table_config *t,
                      struct err *e)
{
    client_ts ts = client_table(r->client, number, t, e);
    return ts != 0 ? client_wait(r->client, ts, e) : e->code;
}

int remote_below(struct remote *r, enum wire_root kind, const char *path,
                 char ret[FILE_PATH_MAX], struct err *e)
{
    char absolute[FILE_PATH_MAX];
    TRY(below_absolute(path, absolute, e));
    client_ts ts = client_below(r->client, kind, absolute, ret, e);
    return ts != 0 ? client_wait(r->client, ts, e) : e->code;
}

// Sets the directory of cold rows. A relative path is one below the servers' root.
static int set_cold(struct remote *r, struct table_config *t, struct err *e)
{
    char rest[FILE_PATH_MAX];
    if (t->cold[0] != '/')
        return 0;
    TRY(remote_below(r, WIRE_ROOT_COLD, t->cold, rest, e));
    return table_config_set(t, "cold", *rest != '\0' ? rest : ".", e);
}

int remote_tables(struct remote *r, const struct train_config *c, const struct model *m,
                  struct err *e)
{
    struct table_config sparse, dense;
    TRY(run_tables(c, m, &sparse, &dense, e));
    TRY(set_cold(r, &sparse, e));
    TRY(make_table(r, EXCHANGE_SPARSE, &sparse, e));
    return make_table(r, EXCHANGE_DENSE, &dense, e);
}

// Stores the answer about the data. Its text is checked, because the scheduler passes on
// what a worker or the driver has sent.
static void take_data(void *ctx, const union wire_any *m)
{
    const struct msg_data_is *is = &m->data_is;
    struct remote_data *d = ctx;
    struct wire_text list = is->files;
    struct wire_data_file f;
    int more = 0;
    d->told = is->told != 0;
    d->known = is->known != 0;
    d->has_schema = is->schema.n > 0;
    d->files = (struct identity){0};
    while ((more = wire_next_data_file(&list, &f)) == 1)
        identity_add(&d->files,
                     &(struct identity_file){.name = f.name.n > 0 ? f.name.data : "",
                                             .name_len = f.name.n,
                                             .bytes = f.bytes,
                                             .hash = f.hash});
    d->rc = more != 0       ? TUG_EDATA
            : d->has_schema ? schema_read(&d->schema, is->schema.data, is->schema.n)
                            : 0;
}

static int ask_data(struct remote *r, bool files, struct remote_data *ret, struct err *e)
{
    struct msg_data_wanted m = {.files = files};
    TRY(client_ask(r->client, MSG_DATA_WANTED, &m, take_data, ret, e));
    return ret->rc == 0 ? 0
                        : err_set(e, TUG_EDATA,
                                  "the scheduler's message about the data is damaged");
}

int remote_data_told(struct remote *r, struct remote_data *ret, struct err *e)
{
    uint64_t until = clock_ns() + DATA_SECONDS * SECOND_NS;
    for (;;) {
        TRY(ask_data(r, false, ret, e));
        if (ret->told)
            return 0;
        if (clock_ns() > until)
            return err_set(e, TUG_EIO,
                           "the driver has not sent the layout of the data within %d s",
                           DATA_SECONDS);
        TRY(remote_pause(r, ask_seconds, e));
    }
}

int remote_data_known(struct remote *r, const atomic_bool *interrupted,
                      struct remote_data *ret, struct err *e)
{
    uint64_t until = clock_ns() + DATA_SECONDS * SECOND_NS;
    for (;;) {
        TRY(ask_data(r, true, ret, e));
        if (ret->known && ret->has_schema)
            return 0;
        if (ret->known)
            return err_set(e, TUG_EDATA, "no worker has sent the layout of the data");
        if (interrupted != NULL && atomic_load(interrupted))
            return err_set(e, TUG_EINTERRUPTED, "interrupted before the first pass");
        if (clock_ns() > until)
            return err_set(e, TUG_EIO,
                           "no worker has reported within %d s which data it sees",
                           DATA_SECONDS);
        TRY(remote_pause(r, ask_seconds, e));
    }
}

struct agreement {
    const struct train_config *config;
    struct err *e;
    int rc;
};

static void compare_options(void *ctx, const union wire_any *m)
{
    struct agreement *a = ctx;
    struct wire_text told = m->data_is.options;
    a->rc = run_options_agree(a->config, told.n > 0 ? told.data : "", told.n, a->e);
}

int remote_agree(struct remote *r, const struct train_config *c, struct err *e)
{
    struct agreement a = {.config = c, .e = e};
    struct msg_data_wanted m = {.files = 0};
    TRY(client_ask(r->client, MSG_DATA_WANTED, &m, compare_options, &a, e));
    return a.rc;
}

int remote_step(struct remote *r, uint64_t batches, struct err *e)
{
    client_ts ts = client_step(r->client, batches, NULL, e);
    return ts != 0 ? client_wait(r->client, ts, e) : e->code;
}

int remote_pause(struct remote *r, double seconds, struct err *e)
{
    uint64_t until = van_now(r->van) + (uint64_t)(seconds * (double)SECOND_NS);
    while (van_now(r->van) < until) {
        TRY(van_poll(r->van, until, e));
        struct err why = {0};
        if (member_ended(client_member(r->client), &why) && why.code != 0) {
            *e = why;
            return e->code;
        }
    }
    return 0;
}

bool remote_steps(const struct train_config *c)
{
    const struct train_cluster *k = c->cluster;
    if (k->geo != 0)
        return true;
    if (k->mode == CONFIG_SYNC || k->rules == TRAIN_RULES_SERVER || c->table != NULL ||
        c->model.ops->dense != NULL)
        return false;
    return k->rules == TRAIN_RULES_WORKER || (rule_changes_add_up(c->model.linear.kind) &&
                                              rule_changes_add_up(c->model.latent.kind));
}

// Returns the size of a piece: the text is divided into 256 pieces, sixteen for each of
// sixteen workers. The size does not depend on the number of workers: a run that was
// saved in the middle of a pass may be resumed with more or fewer.
uint64_t remote_piece_bytes(uint64_t text_bytes)
{
    enum { PIECES = 256 };
    const uint64_t least = 1 << 20, most = 32 << 20, step = 64 << 10;
    uint64_t bytes = text_bytes / PIECES;
    bytes = (bytes + step - 1) / step * step;
    return bytes < least ? least : bytes > most ? most : bytes;
}
