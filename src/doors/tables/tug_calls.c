// Pushes and pulls of the public client: makes keys distinct, sends the request, and
// copies pulled rows to the program's array, also for keys that repeat.
//
// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/plural.h"
#include "doors/tables/tug_client.h"
#include "os/clock.h"
#include "os/log.h"
#include "runtime/interrupt.h"
#include "runtime/last_error.h"
#include "tug/table.h"

// ---------------------------------------------------------------- calls

static struct call *call_new(struct tug_client *c)
{
    struct call *k = c->unused;
    if (k != NULL) {
        c->unused = k->next;
    } else {
        k = mem_zalloc(sizeof(*k));
        if (k == NULL)
            return NULL;
        k->client = c;
    }
    k->ended = k->merged = false;
    k->rc = 0;
    return k;
}

static void call_give(struct call *k)
{
    k->next = k->client->unused;
    k->client->unused = k;
}

static struct call **bucket_of(const struct tug_client *c, uint64_t ts)
{
    return &c->buckets[mix64(ts) & (c->n_buckets - 1)];
}

static struct call *calls_find(const struct tug_client *c, uint64_t ts)
{
    struct call *k = c->n_buckets > 0 ? *bucket_of(c, ts) : NULL;
    while (k != NULL && k->ts != ts)
        k = k->next;
    return k;
}

static void calls_put(struct call *k)
{
    struct call **at = bucket_of(k->client, k->ts);
    k->next = *at;
    *at = k;
}

// Enlarges the hash table for one more call if it is full. If memory is short, the old
// table stays, with longer lists in its buckets.
static int reserve_bucket(struct tug_client *c)
{
    if (c->n_calls < c->n_buckets)
        return 0;
    size_t n = c->n_buckets, more = n > 0 ? n * 2 : 64;
    struct call **old = c->buckets, **buckets = mem_zalloc(more * sizeof(struct call *));
    if (buckets == NULL)
        return n > 0 ? 0 : TUG_ENOMEM;
    c->buckets = buckets;
    c->n_buckets = more;
    for (size_t i = 0; i < n; i++)
        for (struct call *k = old[i], *next; k != NULL; k = next) {
            next = k->next;
            calls_put(k);
        }
    mem_free(old);
    return 0;
}

static void calls_forget(struct call *k)
{
    struct call **at = bucket_of(k->client, k->ts);
    while (*at != k)
        at = &(*at)->next;
    *at = k->next;
    k->client->n_calls--;
    call_give(k);
}

static void free_list(struct call *k)
{
    for (struct call *next; k != NULL; k = next) {
        next = k->next;
        client_merge_close(k->merge);
        mem_free(k->rows);
        mem_free(k);
    }
}

void calls_free(struct tug_client *c)
{
    for (size_t i = 0; i < c->n_buckets; i++)
        free_list(c->buckets[i]);
    mem_free(c->buckets);
    free_list(c->unused);
}

static void calls_tell(struct pump_work *w)
{
    struct call *k = (struct call *)w;
    struct pump *p = k->client->pump;
    if (k->rc != 0)
        last_error_is(&k->why);
    k->done(k->ctx, k->ts, k->rc);
    pump_enter(p);
    k->client->unfinished--;
    calls_forget(k);
    pump_leave(p);
}

// Warns, only once, if a server has left out an update, because the program does not see
// the warning in the server's log.
static void tell_left_out(struct tug_client *c)
{
    struct client_stats x = client_stats(c->client);
    if (x.left_out == atomic_load_explicit(&c->left_out, memory_order_relaxed))
        return;
    atomic_store(&c->left_out_key, x.left_out_key);
    atomic_store(&c->left_out_table, x.left_out_table);
    if (atomic_exchange(&c->left_out, x.left_out) > 0 || last_warning_kept())
        return;
    const struct table_spec *spec = client_spec(c->client, x.left_out_table);
    log_warn(
        "%llu push%s of table %s, key %llu: the update was left out, because a state of "
        "its rule would become infinite (the gradient is too large: clip gradients). "
        "This warning is given once",
        (unsigned long long)x.left_out, PLURAL_ES(x.left_out),
        spec != NULL ? spec->config.name : "?", (unsigned long long)x.left_out_key);
}

uint64_t tug_left_out(const struct tug_client *c, uint32_t *ret_table, uint64_t *ret_key)
{
    uint64_t n = atomic_load(&c->left_out);
    if (ret_table != NULL)
        *ret_table = atomic_load(&c->left_out_table);
    if (ret_key != NULL)
        *ret_key = atomic_load(&c->left_out_key);
    return n;
}

// The client's callback when a request has ended.
static void calls_end(void *ctx, client_ts ts, int rc)
{
    struct call *k = ctx;
    (void)rc;
    (void)client_done(k->client->client, ts, &k->rc, &k->why);
    k->ended = true;
    tell_left_out(k->client);
    if (k->rc == 0 && k->merged && k->target != NULL)
        client_merge_scatter(k->merge, k->pulled, k->width, k->target);
    if (k->done != NULL) {
        k->work.run = calls_tell;
        pump_queue(k->client->pump, &k->work);
    } else {
        k->client->unfinished--;
    }
}

// Returns whether the requests of all calls have ended, even if the program has not called
// tug_wait for them.
bool calls_over(const struct tug_client *c)
{
    return c->unfinished == 0;
}

// -------------------------------------------------- requests: what the program asked for

struct wanted {
    uint32_t table;
    const uint64_t *keys;
    size_t n;
    const float *values; // pushed values; NULL for a pull
    float *pulled;       // the array for pulled rows; NULL for a push
    enum wire_op op;
};

static int reserve_rows(struct call *k, size_t floats, struct err *e)
{
    return mem_room(&k->rows, &k->cap_rows, floats) == 0
               ? 0
               : err_nomem(e, "the values of distinct keys");
}

// Returns how many floats at the end of a pushed row are not added up when a key repeats.
static uint32_t kept_of(const struct tug_client *c, uint32_t table)
{
    const struct accessor *a = &client_spec(c->client, table)->accessor;
    return a->class != NULL ? a->class->kept_stats : 0;
}

// If keys repeat, replaces the keys in *w by the distinct keys, and the values by the sums
// of the values of each key.
static int make_distinct(struct call *k, struct wanted *w, struct err *e)
{
    const uint64_t *keys;
    size_t n;
    if (k->merge == NULL)
        TRY(client_merge_open(&k->merge, e));
    TRY(client_merge_keys(k->merge, w->keys, w->n, &keys, &n, e));
    if (n == w->n)
        return 0;
    if (w->op == WIRE_ASSIGN && w->values != NULL)
        return err_set(e, TUG_EUSAGE,
                       "a key cannot be assigned two values at once: of %zu keys of "
                       "table %u only %zu are different",
                       w->n, w->table, n);
    TRY(reserve_rows(k,
                     n * (w->values != NULL ? k->push_width : 0) +
                         n * (w->pulled != NULL ? k->width : 0),
                     e));
    k->merged = true;
    k->pulled = k->rows;
    if (w->values != NULL) {
        uint32_t kept = kept_of(k->client, w->table);
        client_merge_add(k->merge, w->values, k->push_width, k->rows);
        client_merge_last(k->merge, w->values, k->push_width, k->push_width - kept,
                          k->rows);
        w->values = k->rows;
        k->pulled += n * k->push_width;
    }
    if (w->pulled != NULL)
        w->pulled = k->pulled;
    w->keys = keys;
    w->n = n;
    return 0;
}

static client_ts calls_start(struct call *k, const struct wanted *w, struct err *e)
{
    struct tug_client *c = k->client;
    const struct call_terms *terms = &c->terms[w->table];
    if (w->values == NULL) {
        struct client_pull p = {
            .table = w->table,
            .keys = w->keys,
            .n = w->n,
            .values = w->pulled,
            .clock = terms->clock,
            .done = calls_end,
            .ctx = k,
        };
        return client_pull(c->client, &p, e);
    }
    struct client_push p = {
        .table = w->table,
        .keys = w->keys,
        .n = w->n,
        .values = w->values,
        .pulled = w->pulled,
        .op = w->op,
        .rate = terms->rate,
        .pass = 1,
        .again = c->again,
        .clock = terms->micros > 0 ? terms->clock : 0,
        .micro = terms->micro,
        .micros = terms->micros,
        // A micro-batch counts as 1 example, so that reduce=mean divides the sum by the
        // number of micro-batches.
        .examples = terms->micros > 0,
        .done = calls_end,
        .ctx = k,
    };
    return client_push(c->client, &p, e);
}

static int call(struct tug_client *c, struct wanted w, tug_done_fn done, void *ctx,
                uint64_t *ret_timestamp, struct err *e)
{
    const struct table_spec *spec = client_spec(c->client, w.table);
    if (spec == NULL)
        return err_set(e, TUG_EUSAGE, "this client has neither made nor found table %u",
                       w.table);
    if (w.values == NULL && w.pulled == NULL)
        return err_set(e, TUG_EUSAGE, "no array was given for the values of table %u",
                       w.table);
    struct call *k = call_new(c);
    if (k == NULL)
        return err_nomem(e, "a request");
    k->done = done;
    k->ctx = ctx;
    k->width = spec->accessor.pull_width;
    k->push_width = spec->accessor.push_width;
    k->target = w.pulled;
    int rc = make_distinct(k, &w, e);
    if (rc == 0 && reserve_bucket(c) != 0)
        rc = err_nomem(e, "a request");
    if (rc == 0) {
        k->ts = calls_start(k, &w, e);
        rc = k->ts == 0 ? e->code : 0;
    }
    if (rc != 0) {
        call_give(k);
        return rc;
    }
    calls_put(k);
    c->n_calls++;
    c->unfinished++;
    if (ret_timestamp != NULL)
        *ret_timestamp = k->ts;
    return 0;
}

static int enter_and_call(struct tug_client *c, struct wanted w, tug_done_fn done,
                          void *ctx, uint64_t *ret_timestamp)
{
    pump_enter(c->pump);
    int rc = call(c, w, done, ctx, ret_timestamp, last_error());
    pump_leave(c->pump);
    return rc;
}

int tug_push(struct tug_client *c, uint32_t table, const uint64_t *keys, size_t n,
             const float *values, tug_done_fn done, void *ctx, uint64_t *ret_timestamp)
{
    struct wanted w = {table, keys, n, values, NULL, WIRE_GRADIENT};
    return enter_and_call(c, w, done, ctx, ret_timestamp);
}

int tug_pull(struct tug_client *c, uint32_t table, const uint64_t *keys, size_t n,
             float *values, tug_done_fn done, void *ctx, uint64_t *ret_timestamp)
{
    struct wanted w = {table, keys, n, NULL, values, WIRE_GRADIENT};
    return enter_and_call(c, w, done, ctx, ret_timestamp);
}

int tug_push_pull(struct tug_client *c, uint32_t table, const uint64_t *keys, size_t n,
                  const float *values, float *pulled, tug_done_fn done, void *ctx,
                  uint64_t *ret_timestamp)
{
    struct wanted w = {table, keys, n, values, pulled, WIRE_GRADIENT};
    return enter_and_call(c, w, done, ctx, ret_timestamp);
}

int calls_assign(struct tug_client *c, uint32_t table, const uint64_t *keys, size_t n,
                 const float *values, tug_done_fn done, void *ctx,
                 uint64_t *ret_timestamp)
{
    struct wanted w = {table, keys, n, values, NULL, WIRE_ASSIGN};
    return enter_and_call(c, w, done, ctx, ret_timestamp);
}

void tug_again(struct tug_client *c, bool again)
{
    pump_enter(c->pump);
    c->again = again;
    pump_leave(c->pump);
}

// ---------------------------------------------------------------- waiting

int calls_may_wait(const struct tug_client *c)
{
    return pump_working(c->pump)
               ? err_set(last_error(), TUG_EUSAGE, "a callback must not wait")
               : 0;
}

int calls_enter(struct tug_client *c)
{
    TRY(calls_may_wait(c));
    pump_enter(c->pump);
    return 0;
}

struct waiting {
    struct tug_client *client;
    uint64_t ts;
    bool over; // set when the request of calls_wait_for has ended
    int rc;
    struct err why;
};

static bool call_over(void *ctx)
{
    const struct waiting *w = ctx;
    const struct call *k = calls_find(w->client, w->ts);
    return k == NULL || k->ended || k->done != NULL;
}

static int result(struct tug_client *c, uint64_t ts, double seconds, struct err *e)
{
    struct call *k = calls_find(c, ts);
    if (k == NULL || k->done != NULL)
        return err_set(e, TUG_EUSAGE,
                       "there is no request %llu to wait for: it never existed, was "
                       "waited for already, or has a callback",
                       (unsigned long long)ts);
    if (!k->ended && pump_broken(c->pump, e))
        return e->code;
    if (!k->ended && interrupt_came())
        return err_set(e, TUG_EINTERRUPTED, "interrupted: request %llu goes on",
                       (unsigned long long)ts);
    if (!k->ended)
        return err_set(e, TUG_EIO, "request %llu is not done after %.1f s",
                       (unsigned long long)ts, seconds);
    int rc = k->rc;
    if (rc != 0)
        *e = k->why;
    calls_forget(k);
    return rc;
}

static uint64_t deadline(const struct tug_client *c, double seconds)
{
    return van_now(c->van) + clock_ns_of(seconds);
}

int tug_wait(struct tug_client *c, uint64_t timestamp, double seconds)
{
    struct waiting w = {.client = c, .ts = timestamp};
    TRY(calls_may_wait(c));
    if (!(seconds > 0))
        seconds = c->o.wait_seconds;
    (void)pump_wait(c->pump, call_over, &w, deadline(c, seconds));
    pump_enter(c->pump);
    int rc = result(c, timestamp, seconds, last_error());
    pump_leave(c->pump);
    return rc;
}

bool tug_is_done(struct tug_client *c, uint64_t timestamp)
{
    pump_enter(c->pump);
    const struct call *k = calls_find(c, timestamp);
    bool done = k == NULL || k->ended;
    pump_leave(c->pump);
    return done;
}

int tug_cancel(struct tug_client *c, uint64_t timestamp)
{
    if (pump_working(c->pump))
        return err_set(last_error(), TUG_EUSAGE, "a callback must not cancel a request");
    pump_enter(c->pump);
    struct call *k = calls_find(c, timestamp);
    if (k != NULL && k->done == NULL) {
        if (!k->ended) {
            client_cancel(c->client, timestamp);
            c->unfinished--;
        }
        calls_forget(k);
    }
    pump_leave(c->pump);
    return 0;
}

int calls_wait_or_cancel(struct tug_client *c, uint64_t ts)
{
    int rc = tug_wait(c, ts, 0);
    struct err why = *last_error();
    (void)tug_cancel(c, ts);
    return rc != 0 ? last_error_is(&why) : 0;
}

static bool request_over(void *ctx)
{
    struct waiting *w = ctx;
    if (!w->over)
        w->over = client_done(w->client->client, w->ts, &w->rc, &w->why);
    return w->over;
}

int calls_wait_for(struct tug_client *c, client_ts ts, double seconds)
{
    struct waiting w = {.client = c, .ts = ts};
    assert(!pump_working(c->pump)); // calls_enter has checked it
    if (!pump_wait(c->pump, request_over, &w, deadline(c, seconds))) {
        pump_enter(c->pump);
        // A late answer would be written to `w`, which ends here.
        client_cancel(c->client, ts);
        pump_leave(c->pump);
        if (interrupt_came())
            return err_set(last_error(), TUG_EINTERRUPTED,
                           "interrupted before the servers had answered: they may have "
                           "applied the request or not");
        return err_set(last_error(), TUG_EIO, "the servers have not answered for %.0f s",
                       seconds);
    }
    return w.rc != 0 ? last_error_is(&w.why) : 0;
}
