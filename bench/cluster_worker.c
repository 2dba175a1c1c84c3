// A worker of `tug bench cluster`: fills the tables together with the other workers, and
// measures.
//
// The process has a client for each client option that is compared. All clients use the
// same tables, so that they can take turns.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "bench/cluster.h"
#include "client/client.h"
#include "rule/rule.h"

// The tables. A row has 1 float, in the table WIDE 16. Keys are large numbers, in the
// table SMALL small ones.
enum { NARROW = 1, WIDE, SMALL };
enum { WIDE_FLOATS = 16, MAX_IN_FLIGHT = 8 };
enum { FULL_BATCH = 100000, SMALL_BATCH = 10000, BATCHES = 20, MAX_TIMES = 1 << 20 };
enum { ROUNDS = 3 }; // turns of each client in a comparison

enum { DEFAULT, BF16, PACKED, CACHED, CLIENTS };

#define BARRIER_NS ((uint64_t)120000000000)
#define READY_NS ((uint64_t)60000000000)

// Batches of distinct keys. The keys of a batch are in the order in which the client
// sends them.
struct batches {
    const uint64_t *keys; // n batches of `size` keys
    size_t n, size;
};

struct worker {
    const struct bench_nodes *b;
    struct node *node;
    struct client *clients[CLIENTS];
    struct van *vans[CLIENTS];
    uint32_t rank;
    float *values;                // every push sends these values
    float *pulled[MAX_IN_FLIGHT]; // the values of each pull in flight
    double times[MAX_TIMES];
    double bytes; // bytes per key in the last measurement
};

// A request that is repeated, each time with the next batch.
struct load {
    struct client *client;
    uint32_t table;
    const struct batches *batches;
    bool push;
    uint32_t in_flight;
    double seconds;
};

// Adds a figure with the quantiles of the first n entries of w->times, and sorts these.
static void report(struct worker *w, const char *name, double rate, size_t n)
{
    struct bench_figures *all = (struct bench_figures *)w->b->shared;
    unsigned at = atomic_fetch_add(&all->n, 1);
    if (at >= BENCH_FIGURES)
        return;
    struct bench_figure *f = &all->list[at];
    snprintf(f->name, sizeof(f->name), "%s", name);
    f->rate = rate;
    f->p50 = bench_median(w->times, n);
    f->p99 = bench_quantile(w->times, n, 0.99);
    f->bytes = w->bytes;
}

// ---------------------------------------------------------------- keys

static uint64_t key_of(uint32_t table, uint64_t number)
{
    return table == SMALL ? number : bench_key(number);
}

static uint64_t keys_of_table(const struct worker *w, uint32_t table)
{
    uint64_t all = w->b->o->keys;
    return table == SMALL && all > 1000000 ? 1000000 : all;
}

static int arrange(struct worker *w, uint32_t table, uint64_t *keys, size_t n,
                   struct err *e)
{
    static uint32_t order[FULL_BATCH];
    static uint64_t copy[FULL_BATCH];
    memcpy(copy, keys, n * sizeof(*copy));
    int rc = client_arrange(w->clients[DEFAULT], table, copy, n, order);
    if (rc != 0)
        return err_set(e, rc, "arranging keys: %s", err_text(rc));
    for (size_t i = 0; i < n; i++)
        keys[i] = copy[order[i]];
    return 0;
}

// Makes n batches of `size` keys, uniformly over the table's keys: one key from each of
// `size` equal ranges, so that keys are distinct. Earlier batches are overwritten.
static int make_batches(struct worker *w, struct batches *b, uint32_t table, size_t size,
                        size_t n, struct err *e)
{
    static uint64_t all_keys[BATCHES * FULL_BATCH];
    uint64_t all = keys_of_table(w, table);
    if (size > all)
        size = (size_t)all;
    *b = (struct batches){all_keys, n, size};
    for (size_t i = 0; i < n; i++) {
        uint64_t *keys = all_keys + i * size, stream = w->rank * 1000 + i;
        for (size_t k = 0; k < size; k++)
            keys[k] = key_of(table,
                             k * (all / size) + random_below(1, stream, k, all / size));
        TRY(arrange(w, table, keys, size, e));
    }
    return 0;
}

// ---------------------------------------------------------------- requests

static client_ts issue(const struct worker *w, const struct load *l, size_t turn,
                       struct err *e)
{
    const struct batches *b = l->batches;
    const uint64_t *keys = b->keys + turn % b->n * b->size;
    struct client_push push = {
        .table = l->table,
        .keys = keys,
        .n = b->size,
        .values = w->values,
        .rate = 1,
        .pass = 1,
        .arranged = true,
    };
    struct client_pull pull = {
        .table = l->table,
        .keys = keys,
        .n = b->size,
        .values = w->pulled[turn % MAX_IN_FLIGHT],
        .arranged = true,
    };
    return l->push ? client_push(l->client, &push, e) : client_pull(l->client, &pull, e);
}

// Keeps l->in_flight requests under way for l->seconds. Sets *ret_rate to the keys per
// second and *ret_n to the number of entries of w->times.
static int pump(struct worker *w, const struct load *l, double *ret_rate, size_t *ret_n,
                struct err *e)
{
    client_ts ts[MAX_IN_FLIGHT];
    double sent[MAX_IN_FLIGHT];
    size_t issued = 0, n = 0;
    double begin = clock_seconds(), now = begin;
    for (; issued < l->in_flight; issued++) {
        sent[issued] = clock_seconds();
        if ((ts[issued] = issue(w, l, issued, e)) == 0)
            return e->code;
    }
    while (n < issued) {
        size_t at = n % l->in_flight;
        TRY(client_wait(l->client, ts[at], e));
        now = clock_seconds();
        if (n < MAX_TIMES)
            w->times[n] = now - sent[at];
        n++;
        if (now - begin >= l->seconds)
            continue;
        sent[at] = now;
        if ((ts[at] = issue(w, l, issued++, e)) == 0)
            return e->code;
    }
    *ret_rate = (double)(n * l->batches->size) / (now - begin);
    *ret_n = n < MAX_TIMES ? n : MAX_TIMES;
    return 0;
}

static int barrier(const struct worker *w, struct err *e)
{
    return client_barrier(w->clients[DEFAULT], WIRE_GROUP_WORKERS, BARRIER_NS, e);
}

static double bytes_of(const struct load *l)
{
    struct client_stats s = client_stats(l->client);
    return (double)(s.bytes_sent + s.bytes_received);
}

// Measures a load on all workers at the same time. The first requests, for which links
// are opened and memory is allocated, are not counted.
static int measure(struct worker *w, const char *what, const struct load *l,
                   struct err *e)
{
    char name[40];
    double rate;
    size_t n, before;
    struct load first = *l;
    first.seconds = 0;
    TRY(pump(w, &first, &rate, &n, e));
    TRY(barrier(w, e));
    double bytes = bytes_of(l);
    before = client_stats(l->client).keys;
    TRY(pump(w, l, &rate, &n, e));
    w->bytes = (bytes_of(l) - bytes) / (double)(client_stats(l->client).keys - before);
    TRY(barrier(w, e));
    snprintf(name, sizeof(name), "%s, %s", what, l->push ? "push" : "pull");
    report(w, name, rate, n);
    w->bytes = 0;
    return 0;
}

// ---------------------------------------------------------------- the measurements

static int push_and_pull(struct worker *w, const char *what, struct load l, struct err *e)
{
    l.push = true;
    TRY(measure(w, what, &l, e));
    l.push = false;
    return measure(w, what, &l, e);
}

static int measure_latency(struct worker *w, struct err *e)
{
    struct batches b;
    TRY(make_batches(w, &b, NARROW, 1, 1000, e));
    struct load l = {w->clients[DEFAULT], NARROW, &b, true, 1, w->b->o->seconds};
    return push_and_pull(w, "1 key", l, e);
}

static int measure_sparse(struct worker *w, uint32_t table, size_t size, struct err *e)
{
    char what[32];
    struct batches b;
    TRY(make_batches(w, &b, table, size, BATCHES, e));
    struct load l = {w->clients[DEFAULT], table,           &b, true,
                     MAX_IN_FLIGHT,       w->b->o->seconds};
    snprintf(what, sizeof(what), "%zu keys x %d", size, table == WIDE ? WIDE_FLOATS : 1);
    return push_and_pull(w, what, l, e);
}

// A comparison of two clients, which do the same work in turns.
struct comparison {
    const char *name;
    int client; // compared with the client DEFAULT
    uint32_t table;
    size_t batches; // 1: the same list of keys each time
};

static int compare_once(struct worker *w, const struct comparison *c, struct load l,
                        struct err *e)
{
    char what[32];
    for (int turn = 0; turn < 2 * ROUNDS; turn++) {
        bool with = turn % 2 != 0;
        l.client = w->clients[with ? c->client : DEFAULT];
        snprintf(what, sizeof(what), "%s %s", with ? "with" : "without", c->name);
        TRY(measure(w, what, &l, e));
    }
    return 0;
}

static int compare(struct worker *w, const struct comparison *c, struct err *e)
{
    struct batches b;
    struct load l = {NULL, c->table, &b, true, MAX_IN_FLIGHT, w->b->o->seconds / ROUNDS};
    TRY(make_batches(w, &b, c->table, FULL_BATCH, c->batches, e));
    TRY(compare_once(w, c, l, e));
    l.push = false;
    return compare_once(w, c, l, e);
}

static int measure_barrier(struct worker *w, struct err *e)
{
    size_t n = 0;
    double begin = clock_seconds(), now = begin;
    // The number of barriers is fixed, because it must be the same for all workers.
    size_t all = (size_t)(w->b->o->seconds * 2000) + 1;
    for (; n < all && n < MAX_TIMES; n++) {
        double from = now;
        TRY(barrier(w, e));
        now = clock_seconds();
        w->times[n] = now - from;
    }
    report(w, "barrier of the workers", (double)n / (now - begin), n);
    return 0;
}

static int measure_all(struct worker *w, struct err *e)
{
    static const struct comparison comparisons[] = {
        {"bf16", BF16, WIDE, BATCHES},
        {"packed small keys", PACKED, SMALL, BATCHES},
        {"cached key lists", CACHED, NARROW, 1},
    };
    TRY(measure_latency(w, e));
    for (uint32_t table = NARROW; table <= WIDE; table++) {
        TRY(measure_sparse(w, table, SMALL_BATCH, e));
        TRY(measure_sparse(w, table, FULL_BATCH, e));
    }
    for (size_t i = 0; i < sizeof(comparisons) / sizeof(*comparisons); i++)
        TRY(compare(w, &comparisons[i], e));
    return measure_barrier(w, e);
}

// ---------------------------------------------------------------- tables

static int make_table(struct worker *w, uint32_t table, uint32_t floats, const char *name,
                      struct err *e)
{
    struct table_config t = table_config_defaults();
    TRY(table_config_set(&t, "name", name, e));
    t.accessor.rule = rule_defaults(RULE_SUM);
    t.accessor.dim = floats;
    for (int i = 0; i < CLIENTS; i++) {
        client_ts ts = client_table(w->clients[i], table, &t, e);
        if (ts == 0)
            return e->code;
        TRY(client_wait(w->clients[i], ts, e));
    }
    return 0;
}

// Pushes to this worker's part of all keys, batch by batch.
static int fill(struct worker *w, uint32_t table, struct err *e)
{
    static uint64_t keys[FULL_BATCH];
    uint64_t all = keys_of_table(w, table), workers = w->b->o->workers;
    uint64_t from = all * w->rank / workers, to = all * (w->rank + 1) / workers;
    double rate;
    while (from < to) {
        size_t n = to - from < FULL_BATCH ? (size_t)(to - from) : (size_t)FULL_BATCH;
        struct batches b = {keys, 1, n};
        struct load l = {w->clients[DEFAULT], table, &b, true, 1, 0};
        for (size_t i = 0; i < n; i++)
            keys[i] = key_of(table, from + i);
        TRY(arrange(w, table, keys, n, e));
        TRY(pump(w, &l, &rate, &n, e));
        from += b.size;
    }
    return barrier(w, e);
}

// Reports the time from the start of the processes to the first acknowledged push.
static int report_start(struct worker *w, struct err *e)
{
    uint64_t key = key_of(NARROW, w->rank);
    struct batches b = {&key, 1, 1};
    struct load l = {w->clients[DEFAULT], NARROW, &b, true, 1, 0};
    double rate;
    size_t n;
    TRY(pump(w, &l, &rate, &n, e));
    w->times[0] = clock_seconds() - w->b->began;
    report(w, "start to first push", 1 / w->times[0], 1);
    return 0;
}

static int run(struct worker *w, struct err *e)
{
    TRY(make_table(w, NARROW, 1, "one-float", e));
    TRY(report_start(w, e));
    TRY(make_table(w, WIDE, WIDE_FLOATS, "16-floats", e));
    TRY(make_table(w, SMALL, 1, "small-keys", e));
    for (uint32_t table = NARROW; table <= SMALL; table++)
        TRY(fill(w, table, e));
    TRY(measure_all(w, e));
    for (int i = 0; i < CLIENTS; i++)
        TRY(client_leave(w->clients[i], NULL, e));
    return 0;
}

// ---------------------------------------------------------------- opening

static int open_client(struct worker *w, int i, struct err *e)
{
    struct client_options o = {
        .member = node_member(w->node, WIRE_WORKER, ""),
        .bf16 = i == BF16,
        .pack_keys = i == PACKED,
        .cache_keys = i == CACHED,
    };
    o.member.loop = (uint16_t)i;
    o.member.loops = CLIENTS;
    TRY(client_open(&w->clients[i], &o, e));
    struct van_handler h = client_handler(w->clients[i]);
    TRY(node_van(w->node, &w->vans[i], &h, true, e));
    client_serve(w->clients[i], w->vans[i], van_now(w->vans[i]));
    return 0;
}

// Opens all clients. They are polled in turn until all have joined, because no client is
// ready before the last one has joined.
static int open_clients(struct worker *w, struct err *e)
{
    for (int i = 0; i < CLIENTS; i++)
        TRY(open_client(w, i, e));
    double until = clock_seconds() + (double)READY_NS * 1e-9;
    for (int joined = 0; joined < CLIENTS;) {
        if (clock_seconds() >= until)
            break; // client_wait_ready below returns the error
        joined = 0;
        for (int i = 0; i < CLIENTS; i++) {
            TRY(client_poll(w->clients[i], e));
            joined += member_id(client_member(w->clients[i])) != 0;
        }
    }
    for (int i = 0; i < CLIENTS; i++)
        TRY(client_wait_ready(w->clients[i], READY_NS, e));
    w->rank = member_rank(client_member(w->clients[DEFAULT]));
    return 0;
}

// The pushed values, and a buffer for each pull in flight.
enum { VALUES = WIDE_FLOATS * FULL_BATCH, MEMORY = (1 + MAX_IN_FLIGHT) * VALUES };

static int take_memory(struct worker *w, struct err *e)
{
    w->values = mem_map(MEMORY * sizeof(float));
    if (w->values == NULL)
        return err_nomem(e, "values");
    for (size_t i = 0; i < VALUES; i++)
        w->values[i] = 1;
    for (size_t i = 0; i < MAX_IN_FLIGHT; i++)
        w->pulled[i] = w->values + (i + 1) * VALUES;
    return 0;
}

int bench_cluster_worker(struct bench_nodes *b, struct node *n, struct err *e)
{
    static struct worker w;
    w.b = b;
    w.node = n;
    int rc = take_memory(&w, e);
    if (rc == 0)
        rc = open_clients(&w, e);
    if (rc == 0)
        rc = run(&w, e);
    for (int i = 0; i < CLIENTS; i++) {
        van_free(w.vans[i]); // before the client, which gets the van's buffers back
        client_close(w.clients[i]);
    }
    mem_unmap(w.values, MEMORY * sizeof(float));
    return rc;
}
