// A worker of `tug bench moves` and `tug bench replicas`: fills its part of a table, and
// then pushes and pulls until it is told to stop.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/random.h"
#include "bench/moves.h"
#include "client/client.h"
#include "rule/rule.h"

// Requests have BATCH keys each. A push that fills the table has at most FILL_FLOATS values.
enum { TABLE = 1, BATCH = 1000, FILL_FLOATS = 1 << 20 };
#define READY_NS ((uint64_t)60000000000)

struct worker {
    struct bench_moves *m;
    const struct bench_nodes *b;
    struct client *client;
    uint32_t rank;
    uint64_t keys[BENCH_IN_FLIGHT_MAX][BATCH];
    float *values; // the values of a push
    float *pulled[BENCH_IN_FLIGHT_MAX];
    uint64_t turns;
};

uint64_t bench_moves_key(uint64_t number)
{
    return bench_key(number);
}

static client_ts push(struct worker *w, const uint64_t *keys, size_t n, struct err *e)
{
    return client_push(w->client,
                       &(struct client_push){.table = TABLE,
                                             .keys = keys,
                                             .n = n,
                                             .values = w->values,
                                             .rate = 1,
                                             .pass = 1},
                       e);
}

// ---------------------------------------------------------------- the table

static int make_table(struct worker *w, struct err *e)
{
    struct table_config t = table_config_defaults();
    TRY(table_config_set(&t, "name", "moving", e));
    t.accessor.rule = rule_defaults(RULE_SUM);
    t.accessor.dim = w->m->plan.floats;
    client_ts ts = client_table(w->client, TABLE, &t, e);
    return ts != 0 ? client_wait(w->client, ts, e) : e->code;
}

static int fill(struct worker *w, struct err *e)
{
    uint64_t all = w->m->plan.keys, from = all * w->rank / w->b->workers;
    uint64_t to = all * (w->rank + 1) / w->b->workers;
    size_t most = FILL_FLOATS / w->m->plan.floats;
    uint64_t *keys = mem_array(most, sizeof(*keys));
    int rc = keys != NULL ? 0 : err_nomem(e, "keys");
    while (from < to && rc == 0) {
        size_t n = to - from < most ? (size_t)(to - from) : most;
        for (size_t i = 0; i < n; i++)
            keys[i] = bench_moves_key(from + i);
        client_ts ts = push(w, keys, n, e);
        rc = ts != 0 ? client_wait(w->client, ts, e) : e->code;
        from += n;
    }
    mem_free(keys);
    return rc;
}

// ---------------------------------------------------------------- the load

// Sends a push or a pull, in turn, of distinct keys: one from each of BATCH equal ranges.
static client_ts issue(struct worker *w, uint64_t at, struct err *e)
{
    uint64_t *keys = w->keys[at], range = w->m->plan.keys / BATCH, turn = w->turns++;
    for (uint64_t k = 0; k < BATCH; k++)
        keys[k] = bench_moves_key(
            k * range + random_below(1, (uint64_t)w->rank << 40 | turn, k, range));
    enum bench_load load = atomic_load(&w->m->load);
    if (load == BENCH_LOAD_PUSHES ||
        (load == BENCH_LOAD_BOTH && turn / BENCH_IN_FLIGHT % 2 == 0))
        return push(w, keys, BATCH, e);
    return client_pull(
        w->client,
        &(struct client_pull){
            .table = TABLE, .keys = keys, .n = BATCH, .values = w->pulled[at]},
        e);
}

static void note(struct worker *w, double sent)
{
    unsigned n = atomic_load(&w->m->n[w->rank]);
    double now = clock_seconds();
    if (n == BENCH_MOVES_SEEN)
        return;
    w->m->seen[w->rank][n] = (struct bench_seen){now, now - sent, BATCH};
    atomic_store(&w->m->n[w->rank], n + 1);
}

static int load(struct worker *w, struct err *e)
{
    client_ts ts[BENCH_IN_FLIGHT_MAX];
    double sent[BENCH_IN_FLIGHT_MAX];
    uint64_t issued = 0, done = 0;
    while (done < issued || !atomic_load(&w->m->stop)) {
        while (issued - done < atomic_load(&w->m->in_flight) &&
               !atomic_load(&w->m->stop)) {
            uint64_t at = issued++ % BENCH_IN_FLIGHT_MAX;
            sent[at] = clock_seconds();
            if ((ts[at] = issue(w, at, e)) == 0)
                return e->code;
        }
        if (done == issued)
            break;
        uint64_t at = done++ % BENCH_IN_FLIGHT_MAX;
        TRY(client_wait(w->client, ts[at], e));
        note(w, sent[at]);
    }
    return 0;
}

static int rest(struct worker *w, struct err *e)
{
    while (!atomic_load(&w->m->stop)) {
        struct timespec moment = {.tv_nsec = 1000000};
        TRY(client_poll(w->client, e));
        TRY(bench_order_obey(w->m, w->client, TABLE, w->values, e));
        nanosleep(&moment, NULL);
    }
    return 0;
}

static int work(struct worker *w, struct err *e)
{
    TRY(client_wait_ready(w->client, READY_NS, e));
    w->rank = member_rank(client_member(w->client));
    TRY(make_table(w, e));
    TRY(fill(w, e));
    atomic_fetch_add(&w->m->filled, 1);
    bool obeys = w->m->plan.obeys && w->rank + 1 == w->b->workers;
    TRY(w->m->plan.loaded && !obeys ? load(w, e) : rest(w, e));
    return client_leave(w->client, NULL, e);
}

int bench_moves_fill(struct bench_nodes *b, double patience, struct err *e)
{
    const struct bench_moves *m = (const struct bench_moves *)b->shared;
    double until = clock_seconds() + patience;
    while (atomic_load(&m->filled) < b->workers) {
        if (clock_seconds() > until)
            return err_set(e, TUG_EIO, "the table was not filled within %.0f s",
                           patience);
        TRY(bench_nodes_run(b, 0.001, e));
    }
    return 0;
}

int bench_moves_worker(struct bench_nodes *b, struct node *n, struct err *e)
{
    static struct worker w;
    size_t row = (size_t)((struct bench_moves *)b->shared)->plan.floats * BATCH;
    struct van *van = NULL;
    w = (struct worker){.m = (struct bench_moves *)b->shared, .b = b};
    w.values = mem_zalloc(FILL_FLOATS * sizeof(float) + row * sizeof(float));
    for (int i = 0; i < BENCH_IN_FLIGHT_MAX; i++)
        w.pulled[i] = mem_zalloc(row * sizeof(float));
    if (w.values == NULL || w.pulled[0] == NULL ||
        w.pulled[BENCH_IN_FLIGHT_MAX - 1] == NULL)
        return err_nomem(e, "values");
    struct client_options o = {.member = node_member(n, WIRE_WORKER, "")};
    o.member.loops = 1;
    TRY(client_open(&w.client, &o, e));
    struct van_handler h = client_handler(w.client);
    int rc = node_van(n, &van, &h, true, e);
    if (rc == 0) {
        client_serve(w.client, van, van_now(van));
        rc = work(&w, e);
    }
    van_free(van); // before the client, which gets the van's buffers back
    client_close(w.client);
    mem_free(w.values);
    for (int i = 0; i < BENCH_IN_FLIGHT_MAX; i++)
        mem_free(w.pulled[i]);
    return rc;
}
