// See tables.h. One worker, number 0, is the one that saves and orders; it does not die.
//
// SPDX-License-Identifier: Apache-2.0
#include "sim/tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/random.h"
#include "client/client.h"
#include "cluster/scheduler_internal.h"
#include "kit/cast.h"
#include "kit/saver.h"
#include "kit/strangers.h"
#include "save/save.h"
#include "server/shard.h"
#include "store/store.h"
#include "van/sim.h"

enum {
    BITS = 3,
    KEYS = 24,
    SUMS = 3,  // the table
    USERS = 4, // that one is shrunk
    MAX_SERVERS = 3,
    MAX_WORKERS = 4,
    MAX_PUSHES = 24,
    IN_FLIGHT = 6,
    MAX_SAVES = 2,
    FIRST_SAVE = 10,
    SHOWS = 1 << 20, // of a user before it is shrunk
};

#define MS ((uint64_t)1000000)
#define SECOND (1000 * MS)
#define CONFIG "name=sums;accessor=merge;dim=1;deltas=off"

enum { FAULTS = 1, CHOICE };

struct push {
    client_ts ts;
    size_t n;
    uint32_t which[KEYS];
    uint64_t keys[KEYS];
    float values[KEYS];
};

struct worker {
    struct world *world;
    uint32_t number;
    struct client *client;
    struct van *van;
    struct sim_process *process;
    bool dead, ready;
    client_ts making[2];
    uint32_t n_pushes, next, open;
    uint64_t pace, dies_at;
    struct push pushes[MAX_PUSHES];
    int64_t made[KEYS], acknowledged[KEYS];
    client_ts stepping;
    uint64_t steps, steps_known; // made, acknowledged
    client_ts marking;
    uint64_t marked; // the last save that it marked
    int64_t before[KEYS];
};

enum saver { IDLE, TURNING, SAVING, ENDING };

struct world {
    const struct tables_options *o;
    uint64_t draws;
    struct sim *sim;
    struct scheduler *scheduler;
    struct van *scheduler_van;
    uint32_t n_servers, n_workers;
    struct roots *roots;
    struct shard *shards[MAX_SERVERS];
    struct van *vans[MAX_SERVERS];
    struct sim_process *processes[MAX_SERVERS];
    struct worker *workers[MAX_WORKERS];
    uint64_t keys[KEYS];

    struct sim_strangers *strangers;
    struct sim_saver *other;
    int64_t saved[KEYS]; // by the other: the last time

    // What worker 0 does beside.
    enum saver saver;
    uint32_t n_saves, saves_done;
    uint64_t save; // that is to be marked; 0: none
    bool commits;
    client_ts saving, ordering;
    struct save_manifest manifest;
    char path[FILE_PATH_MAX];
    bool filled; // the users
    client_ts filling;
    uint32_t n_orders, orders_done;
    uint32_t shrinks, days;
    float users[KEYS * 16], pulled[KEYS * 16];

    struct tables_counts *counts;
    struct err failure;
};

static const char *const bug_names[TABLES_BUGS] = {"none", "without-repeat-check",
                                                   "without-order-check", "without-marks",
                                                   "without-turns"};

const char *tables_bug_name(enum tables_bug bug)
{
    return bug_names[bug];
}

static uint64_t draw(struct world *w, uint64_t n)
{
    return random_below(w->o->seed, CHOICE, w->draws++, n);
}

static bool one_in(struct world *w, uint64_t n)
{
    return draw(w, n) == 0;
}

#define failed(w, ...)                                                                   \
    ((void)((w)->failure.code == 0 && err_set(&(w)->failure, TUG_EINTERNAL, __VA_ARGS__)))

// The cast.

static int open_scheduler(struct world *w, struct err *e)
{
    struct scheduler_options o = sim_scheduler(w->n_servers, w->n_workers, BITS);
    char address[VAN_ADDRESS_MAX];
    TRY(scheduler_open(&w->scheduler, &o, e));
    struct van_handler h = scheduler_handler(w->scheduler);
    TRY(sim_van_open(&w->scheduler_van, w->sim, "scheduler", &h, e));
    TRY(van_listen(w->scheduler_van, "sim://scheduler", address, e));
    scheduler_serve(w->scheduler, w->scheduler_van, address);
    return 0;
}

static int open_server(struct world *w, uint32_t i, struct err *e)
{
    char name[32], address[VAN_ADDRESS_MAX];
    struct roots_options ro = {.save = w->o->dir};
    if (w->roots == NULL)
        TRY(roots_open(&w->roots, &ro, e));
    snprintf(name, sizeof(name), "server%u", i);
    snprintf(address, sizeof(address), "sim://server%u", i);
    struct shard_options o = {
        .member = sim_member(WIRE_SERVER, i, address),
        .slice_ns = 1, // the same slices whatever the machine does
        .save_timeout_ns = 200 * SECOND,
        .roots = w->roots,
        .without_threads = true,
        .without_repeat_check = w->o->bug == TABLES_BUG_WITHOUT_REPEAT_CHECK,
        .without_order_check = w->o->bug == TABLES_BUG_WITHOUT_ORDER_CHECK,
        .without_marks = w->o->bug == TABLES_BUG_WITHOUT_MARKS,
    };
    TRY(shard_open(&w->shards[i], &o, e));
    struct van_handler h = shard_handler(w->shards[i]);
    TRY(sim_van_open(&w->vans[i], w->sim, name, &h, e));
    TRY(van_listen(w->vans[i], address, address, e));
    shard_serve(w->shards[i], w->vans[i], sim_now(w->sim));
    return sim_process_open(&w->processes[i], w->sim, &o.member, w->vans[i], w->o->seed,
                            e);
}

static int open_worker(struct world *w, uint32_t i, struct err *e)
{
    struct worker *k = mem_zalloc(sizeof(*k));
    if (k == NULL)
        return err_nomem(e, "a worker");
    w->workers[i] = k;
    k->world = w;
    k->number = i;
    k->pace = 2 + draw(w, 20);
    k->n_pushes = 4 + (uint32_t)draw(w, MAX_PUSHES - 4);
    k->dies_at = i > 0 && one_in(w, 4) ? 100 * MS + draw(w, 500 * MS) : VAN_NEVER;
    char name[32];
    snprintf(name, sizeof(name), "worker%u", i);
    struct client_options o = {
        .member = sim_member(WIRE_WORKER, i, ""),
        .connect_timeout_ns = 2 * SECOND,
        .request_timeout_ns = 300 * SECOND,
        .resend_ns = 20 * MS + draw(w, 80 * MS),
        .cache_keys = one_in(w, 2),
        .without_turns = w->o->bug == TABLES_BUG_WITHOUT_TURNS,
    };
    TRY(client_open(&k->client, &o, e));
    struct van_handler h = client_handler(k->client);
    TRY(sim_van_open(&k->van, w->sim, name, &h, e));
    client_serve(k->client, k->van, sim_now(w->sim));
    return sim_process_open(&k->process, w->sim, &o.member, k->van, w->o->seed, e);
}

// What is between two saves was only added, and no more than was pushed.
static void check_other_save(void *ctx, struct store *s)
{
    struct world *w = ctx;
    for (uint32_t i = 0; i < KEYS; i++) {
        const float *row = store_row(s, w->keys[i], NULL);
        int64_t is = row != NULL ? (int64_t)*row : 0, most = 0;
        for (uint32_t k = 0; k < w->n_workers; k++)
            most += w->workers[k]->made[i];
        if (is < w->saved[i] || is > most)
            failed(w, "the other's save has %lld of key %u, not %lld to %lld",
                   (long long)is, i, (long long)w->saved[i], (long long)most);
        w->saved[i] = is;
    }
}

static int world_open(struct world **ret, const struct tables_options *o, struct err *e)
{
    struct world *w = *ret = mem_zalloc(sizeof(*w));
    if (w == NULL)
        return err_nomem(e, "a world");
    w->o = o;
    for (uint64_t i = 0; i < KEYS; i++)
        w->keys[i] = random_u64(5, 6, i);
    struct sim_options so = sim_network(o->seed);
    TRY(sim_open(&w->sim, &so, e));
    if (o->trace)
        sim_print(w->sim);
    w->n_servers = 1 + (uint32_t)draw(w, MAX_SERVERS);
    w->n_workers = 1 + (uint32_t)draw(w, MAX_WORKERS);
    w->n_saves = (uint32_t)draw(w, MAX_SAVES + 1);
    w->n_orders = (uint32_t)draw(w, 5);
    TRY(open_scheduler(w, e));
    for (uint32_t i = 0; i < w->n_servers; i++)
        TRY(open_server(w, i, e));
    for (uint32_t i = 0; i < w->n_workers; i++)
        TRY(open_worker(w, i, e));
    struct sim_seen seen = {SUMS, 1, w->keys[0]};
    TRY(sim_strangers_open(&w->strangers, w->sim, o->seed, &seen, e));
    struct sim_saver_options saver = {
        .seed = o->seed,
        .dir = o->dir,
        .config = CONFIG,
        .table = SUMS,
        .partition_bits = BITS,
        .without_turns = o->bug == TABLES_BUG_WITHOUT_TURNS,
        .check = check_other_save,
        .ctx = w,
    };
    return sim_saver_open(&w->other, w->sim, &saver, e);
}

static void world_close(struct world *w)
{
    sim_strangers_close(w->strangers);
    sim_saver_close(w->other);
    for (uint32_t i = 0; i < MAX_WORKERS; i++)
        if (w->workers[i] != NULL) {
            sim_process_close(w->workers[i]->process);
            van_free(w->workers[i]->van);
            client_close(w->workers[i]->client);
            mem_free(w->workers[i]);
        }
    for (uint32_t i = 0; i < MAX_SERVERS; i++) {
        sim_process_close(w->processes[i]);
        shard_close(w->shards[i]); // it gives back what it keeps of the van's
        van_free(w->vans[i]);
    }
    van_free(w->scheduler_van);
    scheduler_close(w->scheduler);
    roots_close(w->roots);
    sim_close(w->sim);
    if (w->manifest.locked)
        save_abort(w->o->dir, &w->manifest);
    save_manifest_free(&w->manifest);
    sim_remove_saves(w->o->dir);
    mem_free(w);
}

// What all workers do.

// Whether a request is over; it must have gone well.
static bool is_over(struct worker *k, client_ts *ts, const char *what)
{
    struct err e = {0};
    int rc = 0;
    if (*ts == 0 || !client_done(k->client, *ts, &rc, &e))
        return false;
    *ts = 0;
    if (rc != 0)
        failed(k->world, "worker %u, %s: %s", k->number, what, e.text);
    return true;
}

static void make_tables(struct worker *k)
{
    static const char *const texts[2] = {
        CONFIG,
        "name=users;accessor=ctr;dim=2;decay=0.5;delete-threshold=0;embedx-threshold=0"};
    for (uint32_t i = 0; i < 2; i++) {
        struct table_config c = table_config_defaults();
        struct err e = {0};
        if (table_config_parse(&c, texts[i], &e) == 0)
            k->making[i] = client_table(k->client, SUMS + i, &c, &e);
        if (k->making[i] == 0)
            failed(k->world, "worker %u, making table %u: %s", k->number, SUMS + i,
                   e.text);
    }
}

static void get_ready(struct worker *k)
{
    if (k->making[0] == 0 && member_ready(client_member(k->client)))
        make_tables(k);
    else if (k->making[1] != 0 && k->making[0] != 0) {
        // One after the other: the first is asked for again until both are there.
        struct err e = {0};
        int rc = 0;
        if (client_spec(k->client, SUMS) != NULL &&
            client_spec(k->client, USERS) != NULL) {
            for (uint32_t i = 0; i < 2; i++)
                if (client_done(k->client, k->making[i], &rc, &e) && rc != 0)
                    failed(k->world, "worker %u, making a table: %s", k->number, e.text);
            k->ready = true;
        }
    }
}

static void begin_push(struct worker *k)
{
    struct world *w = k->world;
    struct push *p = &k->pushes[k->next++];
    uint64_t rate = 1 + draw(w, 6);
    struct err e = {0};
    for (uint32_t i = 0; i < KEYS; i++) {
        if (draw(w, 8) >= rate)
            continue;
        p->which[p->n] = i;
        p->keys[p->n] = w->keys[i];
        p->values[p->n] = (float)(1 + draw(w, 500));
        k->made[i] += (int64_t)p->values[p->n++];
    }
    struct client_push push = {.table = SUMS,
                               .keys = p->keys,
                               .n = p->n,
                               .values = p->values,
                               .rate = 1,
                               .pass = 1};
    p->ts = client_push(k->client, &push, &e);
    if (p->ts == 0)
        failed(w, "worker %u, a push: %s", k->number, e.text);
    k->open++;
    w->counts->pushes++;
}

static void end_pushes(struct worker *k)
{
    for (uint32_t j = 0; j < k->next; j++) {
        struct push *p = &k->pushes[j];
        if (p->ts == 0 || !is_over(k, &p->ts, "a push"))
            continue;
        k->open--;
        for (size_t i = 0; i < p->n; i++)
            k->acknowledged[p->which[i]] += (int64_t)p->values[i];
    }
}

static void let_mark(struct worker *k)
{
    struct world *w = k->world;
    struct err e = {0};
    is_over(k, &k->marking, "a mark");
    if (w->save == 0 || k->marked == w->save || k->marking != 0 || !one_in(w, 8))
        return;
    k->marked = w->save;
    memcpy(k->before, k->made, sizeof(k->before));
    k->marking = client_mark(k->client, w->save, &e);
    if (k->marking == 0)
        failed(w, "worker %u, a mark: %s", k->number, e.text);
}

static void let_step(struct worker *k)
{
    struct world *w = k->world;
    struct err e = {0};
    if (is_over(k, &k->stepping, "a step"))
        k->steps_known = k->steps;
    if (k->stepping != 0 || k->steps >= k->next || !one_in(w, 3))
        return;
    uint64_t more = k->next - k->steps;
    k->steps += more;
    k->stepping = client_step(k->client, more, NULL, &e);
    if (k->stepping == 0)
        failed(w, "worker %u, a step: %s", k->number, e.text);
}

// What worker 0 does beside.

static void begin_turn(struct worker *k)
{
    struct world *w = k->world;
    const enum save_mode modes[] = {SAVE_CHECKPOINT, SAVE_BASE};
    struct err e = {0};
    w->manifest = (struct save_manifest){0};
    if (save_begin(w->o->dir, modes[draw(w, 2)], &w->manifest, w->path, &e) != 0) {
        failed(w, "a save: %s", e.text);
        return;
    }
    w->saver = TURNING;
    if (w->o->bug == TABLES_BUG_WITHOUT_TURNS)
        return;
    w->saving = client_save_turn(k->client, FIRST_SAVE + w->saves_done, &e);
    if (w->saving == 0)
        failed(w, "the turn of a save: %s", e.text);
}

// From now on workers mark.
static void begin_save(struct worker *k)
{
    struct world *w = k->world;
    struct err e = {0};
    w->save = FIRST_SAVE + w->saves_done;
    w->commits = !one_in(w, 4);
    static const uint32_t tables[1] = {SUMS};
    struct client_save s = {.id = w->save,
                            .mode = w->manifest.mode,
                            .path = strrchr(w->path, '/') + 1,
                            .tables = tables,
                            .n = one_in(w, 2) ? 1 : 0,
                            .marked = true};
    w->saving = client_save(k->client, &s, &w->manifest, &e);
    if (w->saving == 0)
        failed(w, "a save: %s", e.text);
    w->saver = SAVING;
}

static void check_save(struct world *w)
{
    struct store *s = NULL;
    struct err e = {0};
    if (sim_load(&s, w->path, CONFIG, BITS, &e) != 0)
        failed(w, "loading save %llu: %s", (unsigned long long)w->save, e.text);
    for (uint32_t i = 0; i < KEYS && w->failure.code == 0; i++) {
        const float *row = store_row(s, w->keys[i], NULL);
        int64_t is = row != NULL ? (int64_t)*row : 0, least = 0, most = 0;
        for (uint32_t k = 0; k < w->n_workers; k++) {
            struct worker *x = w->workers[k];
            bool marked = x->marked == w->save;
            least += marked && !x->dead ? x->before[i]
                     : x->dead          ? (marked && x->before[i] < x->acknowledged[i]
                                               ? x->before[i]
                                               : x->acknowledged[i])
                                        : 0;
            most += marked ? x->before[i] : x->dead ? x->made[i] : 0;
        }
        if (is < least || is > most)
            failed(w, "save %llu has %lld of key %u, not %lld to %lld",
                   (unsigned long long)w->save, (long long)is, i, (long long)least,
                   (long long)most);
    }
    store_close(s);
}

static void end_save(struct worker *k)
{
    struct world *w = k->world;
    struct err e = {0};
    if (w->commits && save_commit(w->o->dir, &w->manifest, 0, &e) != 0) {
        failed(w, "committing a save: %s", e.text);
        return;
    }
    w->saving = client_save_end(k->client, w->save, w->commits, 7, &e);
    if (w->saving == 0)
        failed(w, "the end of a save: %s", e.text);
    w->saver = ENDING;
}

static void let_save(struct worker *k)
{
    struct world *w = k->world;
    if (w->saver == IDLE) {
        if (w->saves_done < w->n_saves && one_in(w, 20))
            begin_turn(k);
        return;
    }
    if ((w->saving != 0 && !is_over(k, &w->saving, "a save")) || w->failure.code != 0)
        return;
    if (w->saver == TURNING) {
        begin_save(k);
        return;
    }
    if (w->saver == SAVING) {
        end_save(k);
        return;
    }
    if (w->commits)
        check_save(w);
    else
        save_abort(w->o->dir, &w->manifest);
    w->counts->saves += w->commits;
    w->counts->taken_back += !w->commits;
    save_manifest_free(&w->manifest);
    w->manifest = (struct save_manifest){0};
    w->saver = IDLE;
    w->save = 0;
    w->saves_done++;
}

// Users of many shows, each; then shrinks and days, one after the other.
static void let_order(struct worker *k)
{
    struct world *w = k->world;
    struct err e = {0};
    uint32_t width = client_spec(k->client, USERS)->accessor.push_width;
    if (w->ordering != 0 && is_over(k, &w->ordering, "an order")) {
        w->orders_done += w->filled;
        w->filled = true;
    }
    if (w->ordering != 0)
        return;
    if (!w->filled) {
        for (uint32_t i = 0; i < KEYS; i++)
            w->users[(i + 1) * width - 3] = SHOWS;
        struct client_push p = {.table = USERS,
                                .keys = w->keys,
                                .n = KEYS,
                                .values = w->users,
                                .rate = 1,
                                .pass = 1};
        w->ordering = client_push(k->client, &p, &e);
    } else if (w->orders_done < w->n_orders && one_in(w, 10)) {
        bool day = one_in(w, 2);
        w->ordering = day ? client_day(k->client, USERS, &e)
                          : client_shrink(k->client, USERS, NAN, NULL, &e);
        w->days += day;
        w->shrinks += !day;
        w->counts->orders++;
    } else {
        return;
    }
    if (w->ordering == 0)
        failed(w, "an order: %s", e.text);
}

static bool has_finished(const struct worker *k)
{
    const struct world *w = k->world;
    return k->next == k->n_pushes && k->open == 0 && k->marking == 0 &&
           k->stepping == 0 && k->steps == k->next && w->saves_done == w->n_saves &&
           w->filled && w->orders_done == w->n_orders;
}

static void let_work(struct worker *k)
{
    struct world *w = k->world;
    if (k->dead)
        return;
    if (!k->ready)
        get_ready(k);
    if (!k->ready || w->failure.code != 0)
        return;
    end_pushes(k);
    let_step(k);
    let_mark(k);
    if (k->number == 0 && w->failure.code == 0) {
        let_save(k);
        let_order(k);
    }
    if (k->next < k->n_pushes && k->open < IN_FLIGHT && one_in(w, k->pace))
        begin_push(k);
}

// The whole.

static bool is_everybody_done(const struct world *w)
{
    for (uint32_t i = 0; i < w->n_workers; i++)
        if (!w->workers[i]->dead &&
            !(w->workers[i]->ready && has_finished(w->workers[i])))
            return false;
    return sim_saver_is_done(w->other);
}

// Whoever lives is not taken for dead.
static void check_living(struct world *w)
{
    for (uint32_t i = 0; i < w->n_workers; i++) {
        const struct worker *k = w->workers[i];
        if (k != NULL && !k->dead &&
            sim_process_is_given_up(k->process, client_member(k->client), w->scheduler))
            failed(w, "worker %u is taken for dead", i);
    }
    for (uint32_t i = 0; i < w->n_servers; i++)
        if (sim_process_is_given_up(w->processes[i], shard_member(w->shards[i]),
                                    w->scheduler))
            failed(w, "server %u is taken for dead", i);
}

static bool step(struct world *w, uint64_t until)
{
    w->counts->events++;
    sim_step(w->sim, sim_now(w->sim) + 5 * MS);
    uint64_t now = sim_now(w->sim);
    if (now >= until || w->failure.code != 0)
        return false;
    for (uint32_t i = 0; i < w->n_workers; i++) {
        struct worker *k = w->workers[i];
        if (!k->dead && k->ready && now >= k->dies_at &&
            sim_is_heard(w->scheduler, WIRE_WORKER, k->number)) {
            k->dead = true;
            w->counts->deaths++;
            sim_process_crash(k->process, w->sim);
        }
        let_work(k);
    }
    struct err e;
    if (sim_saver_step(w->other, w->scheduler, w->workers[0]->ready, &e) != 0)
        failed(w, "%s", e.text);
    sim_strangers_step(w->strangers, w->scheduler, w->shards, w->n_servers);
    check_living(w);
    return true;
}

static void check_sums(struct world *w)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        int64_t is = 0, least = 0, most = 0;
        for (uint32_t k = 0; k < w->n_servers; k++) {
            const float *row = shard_row(w->shards[k], SUMS, w->keys[i]);
            is += row != NULL ? (int64_t)*row : 0;
        }
        for (uint32_t k = 0; k < w->n_workers; k++) {
            struct worker *x = w->workers[k];
            least += x->acknowledged[i];
            most += x->dead ? x->made[i] : x->acknowledged[i];
        }
        if (is < least || is > most)
            failed(w, "key %u has %lld, not %lld to %lld", i, (long long)is,
                   (long long)least, (long long)most);
    }
}

static void check_orders(struct world *w)
{
    uint64_t least = 0, most = 0;
    for (uint32_t k = 0; k < w->n_workers; k++) {
        least += w->workers[k]->steps_known;
        most += w->workers[k]->steps;
    }
    for (uint32_t k = 0; k < w->n_servers; k++) {
        struct store_stats s = store_stats(shard_store(w->shards[k], USERS));
        if (s.day != w->days)
            failed(w, "server %u is at day %u, not %u", k, s.day, w->days);
        if (s.step < least || s.step > most)
            failed(w, "server %u is at step %llu, not %llu to %llu", k,
                   (unsigned long long)s.step, (unsigned long long)least,
                   (unsigned long long)most);
    }
    uint32_t width = client_spec(w->workers[0]->client, USERS)->accessor.pull_width;
    float shows = (float)SHOWS;
    for (uint32_t i = 0; i < w->shrinks; i++)
        shows *= 0.5f;
    for (uint32_t i = 0; i < KEYS; i++)
        if (w->pulled[i * width] != shows)
            failed(w, "user %u has %g shows, not %g: %u shrinks", i,
                   (double)w->pulled[i * width], (double)shows, w->shrinks);
}

static void pull_users(struct world *w, uint64_t until)
{
    struct worker *k = w->workers[0];
    struct err e = {0};
    struct client_pull p = {
        .table = USERS, .keys = w->keys, .n = KEYS, .values = w->pulled};
    client_ts ts = client_pull(k->client, &p, &e);
    while (ts != 0 && !is_over(k, &ts, "a pull"))
        if (!step(w, until)) {
            failed(w, "a pull hangs");
            return;
        }
}

static void work(struct world *w)
{
    uint64_t until = 900 * SECOND;
    while (!is_everybody_done(w))
        if (!step(w, until)) {
            failed(w, "the run hangs: %u of %u saves, %u of %u orders", w->saves_done,
                   w->n_saves, w->orders_done, w->n_orders);
            return;
        }
    sim_set_faults(w->sim, 0, 0, 0, 0);
    until = sim_now(w->sim) + 20 * SECOND; // what is on its way arrives
    for (uint64_t end = sim_now(w->sim) + 2 * SECOND; sim_step(w->sim, end);)
        ;
    pull_users(w, until);
    if (w->failure.code == 0)
        check_sums(w);
    if (w->failure.code == 0)
        check_orders(w);
}

int tables_run(const struct tables_options *o, struct tables_counts *counts,
               struct err *e)
{
    struct world *w = NULL;
    int rc = world_open(&w, o, e);
    if (rc == 0) {
        w->counts = counts;
        work(w);
        for (uint32_t i = 0; i < w->n_workers; i++)
            counts->resent += client_stats(w->workers[i]->client).resent;
        counts->others += w->other != NULL ? sim_saver_saves(w->other) : 0;
        rc = w->failure.code;
        if (rc != 0 && e != NULL)
            *e = w->failure;
    }
    if (w != NULL)
        world_close(w);
    return rc;
}
