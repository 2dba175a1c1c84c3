// A cluster with tables with a lifecycle in a simulated network, from one number:
// workers push integers into a table of sums, mark saves, do steps and die; the
// first of them saves, shrinks another table and ends days, and another client
// saves, too. The test checks:
//
//   - a marked save has the pushes of each living worker up to its mark and no later
//     ones; and all acknowledged pushes of a worker that died without a mark
//   - this also holds for ghosts, which were stopped until they were declared dead
//   - at the end every row is the sum of the acknowledged pushes, and of some pushes that
//     dead workers had in flight
//   - shrinks and days happen as often as they were asked for, on every loop
//   - the global step is the sum over all sessions, including dead ones
//   - no living process hangs or fails
//
// Worker 0 saves and asks for admin operations; it does not die.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include <string.h>

#include "kit/changes.h"
#include "kit/seeds.h"
#include "kit/sums.h"
#include "kit/test.h"
#include "store/store.h"

enum {
    KEYS = SUMS_KEYS_MAX,
    USERS = 4, // number of the table that is shrunk
    RATES = 5, // number of the table whose rate depends on the step
    TABLES = 3,
    MAX_WORKERS = 4,
    MAX_PUSHES = 24,
    IN_FLIGHT = 6,
    MAX_SAVES = 2,
    MAX_CHANGES = 20,
    FIRST_SAVE = 10,
    SHOWS = 1 << 20, // the number of shows of a user before the first shrink
    CHOICE = 2,      // number of the random stream
};

enum { PUSHES, SAVES, TAKEN_BACK, OTHERS, OPERATIONS, DEATHS, RESENT, EVENTS, MOVES };

struct push {
    client_ts ts;
    size_t n;
    uint32_t which[KEYS];
    uint64_t keys[KEYS];
    float values[KEYS];
};

struct worker {
    struct world *world;
    struct stage_client c;
    bool ready;
    client_ts making[TABLES];
    client_ts rating; // the push to the table RATES
    uint32_t n_pushes, next, open;
    uint64_t pace;
    struct push pushes[MAX_PUSHES];
    int64_t made[KEYS], acknowledged[KEYS];
    client_ts stepping;
    // The number of steps that the worker has reported, and the number that were
    // acknowledged.
    uint64_t steps, steps_known;
    client_ts marking;
    uint64_t marked; // number of the save that the worker marked last
    int64_t before[KEYS];
};

enum saver { IDLE, TURNING, SAVING, ENDING };

struct world {
    struct stage stage; // must be the first member
    struct sums sums;
    struct changes changes;
    uint32_t n_workers;
    struct worker workers[MAX_WORKERS];

    // State that only worker 0 uses.
    enum saver saver;
    uint32_t n_saves, saves_done;
    uint64_t save; // number of the save that is to be marked; 0: none
    client_ts saving, operating;
    bool filled; // the shows of all users were pushed
    uint32_t n_admin, admin_done;
    uint32_t shrinks, days;
    float users[KEYS * 16], pulled[KEYS * 16], gradients[KEYS];
};

#define failed(w, ...) stage_failed(&(w)->stage, __VA_ARGS__)
#define begun(k, ts, what) stage_begun(&(k)->c, ts, what)
#define is_over(k, ts, what) stage_is_over(&(k)->c, ts, what)

#define SAID(w) (&(w)->stage.said)

static bool has_failed(const struct world *w)
{
    return w->stage.failure.code != 0;
}

static uint64_t draw(struct world *w, uint64_t n)
{
    return stage_draw(&w->stage, n);
}

static bool one_in(struct world *w, uint64_t n)
{
    return stage_one_in(&w->stage, n);
}

static int open_server(void *ctx, bool late, struct err *e)
{
    struct world *w = ctx;
    struct shard_options o = sums_server(&w->sums);
    o.member.late = late;
    return stage_open_server(&w->stage, &o, NULL, NULL, e);
}

static int open_worker(struct world *w, uint32_t i, struct err *e)
{
    struct worker *k = &w->workers[i];
    k->world = w;
    k->pace = 2 + draw(w, 20);
    k->n_pushes = 4 + (uint32_t)draw(w, MAX_PUSHES - 4);
    k->c.dies_at = i > 0 && one_in(w, 4) ? 100 * MS + draw(w, 500 * MS) : VAN_NEVER;
    struct client_options o = {.resend_ns = 20 * MS + draw(w, 80 * MS),
                               .cache_keys = one_in(w, 2)};
    return stage_open_client(&w->stage, &k->c, WIRE_WORKER, i, &o, e);
}

static int64_t most_of(void *ctx, uint32_t key)
{
    const struct world *w = ctx;
    int64_t most = 0;
    for (uint32_t k = 0; k < w->n_workers; k++)
        most += w->workers[k].made[key];
    return most;
}

static int world_open(void *ctx, struct err *e)
{
    struct world *w = ctx;
    for (uint32_t i = 0; i < KEYS; i++)
        w->gradients[i] = (float)(1 + i);
    w->sums = (struct sums){.stage = &w->stage,
                            .dir = w->stage.o->dir,
                            .n_keys = KEYS,
                            .most = most_of,
                            .ctx = w};
    TRY(sums_open(&w->sums, e));
    uint32_t n_servers = 1 + (uint32_t)draw(w, STAGE_SERVERS);
    w->n_workers = 1 + (uint32_t)draw(w, MAX_WORKERS);
    w->n_saves = (uint32_t)draw(w, MAX_SAVES + 1);
    w->n_admin = (uint32_t)draw(w, 5);
    struct scheduler_options o = sim_scheduler(n_servers, w->n_workers, SUMS_BITS);
    w->changes = (struct changes){.stage = &w->stage,
                                  .open = open_server,
                                  .world = w,
                                  .next = draw(w, 300 * MS),
                                  .pace = 100 * MS,
                                  .most = MAX_CHANGES};
    TRY(stage_open_scheduler(&w->stage, &o, e));
    for (uint32_t i = 0; i < n_servers; i++)
        TRY(open_server(w, false, e));
    for (uint32_t i = 0; i < w->n_workers; i++)
        TRY(open_worker(w, i, e));
    struct sim_seen seen = {SUMS_TABLE, 1, w->sums.keys[0]};
    TRY(stage_open_strangers(&w->stage, &seen, e));
    return sums_open_other(&w->sums, e);
}

static void world_close(void *ctx)
{
    struct world *w = ctx;
    sums_leave(&w->sums);
    stage_close(&w->stage);
    sums_close(&w->sums);
}

static void make_tables(struct worker *k)
{
    static const char *const texts[TABLES] = {
        SUMS_CONFIG,
        "name=users;accessor=ctr;dim=2;decay=0.5;delete-threshold=0;embedx-threshold=0",
        "name=rates;dim=1;rule=sgd:lr=0.5;rate=exponential:steps=2,factor=0.5"};
    for (uint32_t i = 0; i < TABLES; i++) {
        struct table_config c = table_config_defaults();
        struct err *e = SAID(k->world);
        if (table_config_parse(&c, texts[i], e) == 0)
            k->making[i] = client_table(k->c.client, SUMS_TABLE + i, &c, e);
        begun(k, k->making[i], "making a table");
    }
}

// Makes the tables, and waits until all of them exist.
static void get_ready(struct worker *k)
{
    if (k->making[0] == 0 && member_ready(client_member(k->c.client)))
        make_tables(k);
    else if (k->making[0] != 0 && client_spec(k->c.client, SUMS_TABLE) != NULL &&
             client_spec(k->c.client, USERS) != NULL &&
             client_spec(k->c.client, RATES) != NULL) {
        for (uint32_t i = 0; i < TABLES; i++)
            is_over(k, &k->making[i], "making a table");
        k->ready = true;
    }
}

static void begin_push(struct worker *k)
{
    struct world *w = k->world;
    struct push *p = &k->pushes[k->next++];
    uint64_t rate = 1 + draw(w, 6);
    for (uint32_t i = 0; i < KEYS; i++) {
        if (draw(w, 8) >= rate)
            continue;
        p->which[p->n] = i;
        p->keys[p->n] = w->sums.keys[i];
        p->values[p->n] = (float)(1 + draw(w, 500));
        k->made[i] += (int64_t)p->values[p->n++];
    }
    struct client_push push = {.table = SUMS_TABLE,
                               .keys = p->keys,
                               .n = p->n,
                               .values = p->values,
                               .rate = 1,
                               .pass = 1};
    p->ts = begun(k, client_push(k->c.client, &push, SAID(w)), "a push");
    k->open++;
    w->stage.o->counts[PUSHES]++;
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

// Pushes to the table with a schedule. The rows of this table depend on the order of
// pushes and steps, so only the two ends of a move are compared.
static void let_rate(struct worker *k)
{
    struct world *w = k->world;
    is_over(k, &k->rating, "a push by a schedule");
    if (k->rating != 0 || k->next == k->n_pushes || !one_in(w, 4))
        return;
    struct client_push push = {.table = RATES,
                               .keys = w->sums.keys,
                               .n = KEYS,
                               .values = w->gradients,
                               .rate = 1,
                               .pass = 1};
    k->rating = begun(k, client_push(k->c.client, &push, SAID(w)),
                      "a push by a schedule");
}

static void let_mark(struct worker *k)
{
    struct world *w = k->world;
    is_over(k, &k->marking, "a mark");
    if (w->save == 0 || k->marked == w->save || k->marking != 0 || !one_in(w, 8))
        return;
    k->marked = w->save;
    memcpy(k->before, k->made, sizeof(k->before));
    k->marking = begun(k, client_mark(k->c.client, w->save, 0, SAID(w)), "a mark");
}

static void let_step(struct worker *k)
{
    struct world *w = k->world;
    if (is_over(k, &k->stepping, "a step"))
        k->steps_known = k->steps;
    if (k->stepping != 0 || k->steps >= k->next || !one_in(w, 3))
        return;
    uint64_t more = k->next - k->steps;
    k->steps += more;
    k->stepping = begun(k, client_step(k->c.client, more, NULL, SAID(w)), "a step");
}

static void begin_turn(struct worker *k)
{
    struct world *w = k->world;
    const enum save_mode modes[] = {SAVE_CHECKPOINT, SAVE_BASE};
    w->saver = TURNING;
    w->saving = sums_begin_save(&w->sums, &k->c, FIRST_SAVE + w->saves_done,
                                modes[draw(w, 2)]);
}

// Begins a save. From this call on, workers send their marks for the save.
static void begin_save(struct worker *k)
{
    struct world *w = k->world;
    static const uint32_t tables[1] = {SUMS_TABLE};
    w->save = FIRST_SAVE + w->saves_done;
    w->sums.commits = !one_in(w, 4);
    struct client_save s = {
        .id = w->save, .tables = tables, .n = one_in(w, 2) ? 1 : 0, .marked = true};
    w->saving = sums_save(&w->sums, &k->c, &s);
    w->saver = SAVING;
}

static void save_holds(void *ctx, uint32_t key, int64_t *least, int64_t *most)
{
    const struct world *w = ctx;
    for (uint32_t i = 0; i < w->n_workers; i++) {
        const struct worker *k = &w->workers[i];
        int64_t before = k->before[key], acknowledged = k->acknowledged[key];
        bool marked = k->marked == w->save;
        if (k->c.dead)
            *least += marked && before < acknowledged ? before : acknowledged;
        else
            *least += marked ? before : 0;
        // A ghost's mark that a server has refused does not count: other servers may have
        // accepted pushes that the ghost sent after the mark.
        *most += marked && !k->c.fades ? before : k->c.dead ? k->made[key] : 0;
    }
}

static void let_save(struct worker *k)
{
    struct world *w = k->world;
    if (w->saver == IDLE) {
        if (w->saves_done < w->n_saves && one_in(w, 20))
            begin_turn(k);
        return;
    }
    if ((w->saving != 0 && !is_over(k, &w->saving, "a save")) || has_failed(w))
        return;
    if (w->saver == TURNING) {
        begin_save(k);
    } else if (w->saver == SAVING) {
        w->saving = sums_end_save(&w->sums, &k->c, w->save);
        w->saver = ENDING;
    } else {
        sums_forget_save(&w->sums, w->save, save_holds);
        w->stage.o->counts[w->sums.commits ? SAVES : TAKEN_BACK]++;
        w->saver = IDLE;
        w->save = 0;
        w->saves_done++;
    }
}

// Pushes many shows for each user; then shrinks the table and ends days, one operation at
// a time.
static void let_operate(struct worker *k)
{
    struct world *w = k->world;
    uint32_t width = client_spec(k->c.client, USERS)->accessor.push_width;
    if (w->operating != 0 && is_over(k, &w->operating, "an admin operation")) {
        w->admin_done += w->filled;
        w->filled = true;
    }
    if (w->operating != 0)
        return;
    if (!w->filled) {
        for (uint32_t i = 0; i < KEYS; i++)
            w->users[(i + 1) * width - 3] = SHOWS;
        struct client_push p = {.table = USERS,
                                .keys = w->sums.keys,
                                .n = KEYS,
                                .values = w->users,
                                .rate = 1,
                                .pass = 1};
        w->operating = client_push(k->c.client, &p, SAID(w));
    } else if (w->admin_done < w->n_admin && one_in(w, 10)) {
        bool day = one_in(w, 2);
        w->operating = day ? client_day(k->c.client, USERS, SAID(w))
                           : client_shrink(k->c.client, USERS, NAN, NULL, SAID(w));
        w->days += day;
        w->shrinks += !day;
        w->stage.o->counts[OPERATIONS]++;
    } else {
        return;
    }
    begun(k, w->operating, "an admin operation");
}

static bool has_finished(const struct worker *k)
{
    const struct world *w = k->world;
    return k->next == k->n_pushes && k->open == 0 && k->marking == 0 &&
           k->stepping == 0 && k->rating == 0 && k->steps == k->next &&
           w->saves_done == w->n_saves && w->filled && w->admin_done == w->n_admin;
}

static void let_work(struct worker *k)
{
    struct world *w = k->world;
    if (!stage_acts(&k->c))
        return;
    if (!k->ready)
        get_ready(k);
    if (!k->ready || has_failed(w))
        return;
    end_pushes(k);
    let_step(k);
    let_rate(k);
    let_mark(k);
    if (k->c.number == 0 && !has_failed(w)) {
        let_save(k);
        let_operate(k);
    }
    if (k->next < k->n_pushes && k->open < IN_FLIGHT && one_in(w, k->pace))
        begin_push(k);
}

static bool is_everybody_done(const struct world *w)
{
    for (uint32_t i = 0; i < w->n_workers; i++)
        if (!w->workers[i].c.dead &&
            !(w->workers[i].ready && has_finished(&w->workers[i])))
            return false;
    return sim_saver_is_done(w->sums.other);
}

static void act(void *ctx)
{
    struct world *w = ctx;
    for (uint32_t i = 0; i < w->n_workers; i++) {
        if (w->workers[i].ready)
            stage_dies(&w->workers[i].c);
        let_work(&w->workers[i]);
    }
    sums_step(&w->sums, w->workers[0].ready);
    if (w->workers[0].ready)
        changes_act(&w->changes);
}

static void check_sums(struct world *w)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        int64_t is = stage_sum(&w->stage, SUMS_TABLE, w->sums.keys[i]), least = 0,
                most = 0;
        for (uint32_t k = 0; k < w->n_workers; k++) {
            const struct worker *x = &w->workers[k];
            least += x->acknowledged[i];
            most += x->c.dead ? x->made[i] : x->acknowledged[i];
        }
        if (is < least || is > most)
            failed(w, "key %u has %lld, not %lld to %lld", i, (long long)is,
                   (long long)least, (long long)most);
    }
}

static void check_operations(struct world *w)
{
    uint64_t least = 0, most = 0;
    for (uint32_t k = 0; k < w->n_workers; k++) {
        least += w->workers[k].steps_known;
        most += w->workers[k].steps;
    }
    for (uint32_t k = 0; k < w->stage.n_servers; k++) {
        const struct shard *shard = w->stage.servers[k].shard;
        if (!changes_owns(&w->changes, k))
            continue;
        struct store_stats s = store_stats(shards_store(shard, USERS));
        if (s.day != w->days)
            failed(w, "server %u is at day %u, not %u", k, s.day, w->days);
        if (s.step < least || s.step > most)
            failed(w, "server %u is at step %llu, not %llu to %llu", k,
                   (unsigned long long)s.step, (unsigned long long)least,
                   (unsigned long long)most);
    }
    uint32_t width = client_spec(w->workers[0].c.client, USERS)->accessor.pull_width;
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
    struct worker *k = &w->workers[0];
    struct client_pull p = {
        .table = USERS, .keys = w->sums.keys, .n = KEYS, .values = w->pulled};
    client_ts ts = client_pull(k->c.client, &p, SAID(w));
    while (ts != 0 && !is_over(k, &ts, "a pull"))
        if (!stage_step(&w->stage, until)) {
            failed(w, "a pull hangs");
            return;
        }
}

static void work(void *ctx)
{
    struct world *w = ctx;
    uint64_t until = 900 * SECOND;
    while (!is_everybody_done(w))
        if (!stage_step(&w->stage, until)) {
            failed(w, "the run hangs: %u of %u saves, %u of %u admin operations",
                   w->saves_done, w->n_saves, w->admin_done, w->n_admin);
            return;
        }
    stage_settle(&w->stage, 2 * SECOND);
    if (!changes_end(&w->changes))
        return;
    pull_users(w, sim_now(w->stage.sim) + 20 * SECOND);
    if (!has_failed(w))
        check_sums(w);
    if (!has_failed(w))
        check_operations(w);
}

static void count(void *ctx, uint64_t *counts)
{
    const struct world *w = ctx;
    counts[DEATHS] += w->stage.deaths;
    counts[EVENTS] += w->stage.events;
    counts[RESENT] += stage_resent(&w->stage);
    counts[MOVES] += changes_moved(&w->changes);
    counts[OTHERS] += sim_saver_saves(w->sums.other);
}

static void check_counts(const uint64_t *counts, uint64_t seeds)
{
    assert_true(counts[PUSHES] > 10 * seeds && counts[SAVES] > seeds / 3);
    assert_true(counts[TAKEN_BACK] > seeds / 10 && counts[OPERATIONS] > seeds);
    assert_true(counts[DEATHS] > seeds / 10 && counts[RESENT] > seeds);
    assert_true(counts[OTHERS] > seeds / 2 && counts[MOVES] > 5 * seeds);
}

int main(int argc, char **argv)
{
    static const struct stage_world world = {.bytes = sizeof(struct world),
                                             .stream = CHOICE,
                                             .open = world_open,
                                             .act = act,
                                             .work = work,
                                             .count = count,
                                             .close = world_close};
    static const struct seeds tables = {
        .program = "test_sim_tables",
        .bugs = {{WITHOUT_REPEAT_CHECK},
                 {WITHOUT_ADMIN_NUMBERS},
                 {WITHOUT_STEPS_OF_PUSHES},
                 {WITHOUT_MARKS},
                 {WITHOUT_TURNS},
                 {WITHOUT_HOLDS}},
        .counted = {"pushes", "saves", "taken back", "saves by another",
                    "admin operations", "deaths", "messages sent again", "events",
                    "moves"},
        .world = &world,
        .seeds = 300,
        .bug_seeds = 300,
        .check = check_counts,
    };
    return seeds_main(&tables, argc, argv);
}
