// A cluster with two sync tables in a simulated network, from one number. Workers push
// their parts of batches; some push many batches ahead of the others, or all batches of
// one table before the first batch of the other. Servers have little memory for requests,
// and for a while no memory for more rows. The first worker copies a table and keeps a
// mean of it. The test checks:
//
//   - a pull returns the exact sum of all earlier batches, and so do the rows at the end
//   - if a part of a batch finds no room, the batch is applied once when there is room
//   - a request is only refused while rows have a limit, and can be repeated
//   - a copy has whole batches, and a mean has taken one step towards whole batches
//   - no worker waits for ever
//
// In test_sim_batch_chains, which is this file with BATCHES_CHAINS 1, partitions
// have 2 or 3 replicas, servers that lead partitions die, and others join, when
// rows have no limit. At the end all members of a chain have the sums, and the same rows of
// copies and means.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "kit/changes.h"
#include "kit/seeds.h"
#include "kit/stage.h"
#include "kit/test.h"
#include "protocol/limits.h"
#include "rule/rule.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

enum {
    BITS = 3,
    KEYS = 24,
    TABLE = 3, // number of the first of the two sync tables
    LINES = 2,
    COPY = TABLE + LINES, // the number of a table that becomes a copy of the first table
    MEAN, // the number of a table whose rows are moved towards those of the first table
    MAX_WORKERS = 4,
    MAX_BATCHES = 75, // more batches than a client may have pushes in flight
    CHOICE = 11,      // numbers of random streams
    KEY,
    VALUE,
};
#define ENOUGH ((uint64_t)1 << 30)
// The time limit of requests: many links may fall silent, for ten seconds each. In seed 19828,
// links fall silent after 40 messages on average, and the work takes more than 3,000 seconds.
#define PATIENCE (12000 * SECOND)
#define ROW 22 // bytes of a row

enum { PUSHES, PULLS, HALVES, REFUSED, NO_ROOM, COPIES, MEANS, RESENT, DIED, EVENTS };

// The order in which a worker pushes to the two tables.
enum plan { ANY, FIRST_ONE, SECOND_AT_ONCE };

struct push {
    client_ts ts;
    bool called, acknowledged;
    size_t n;
    uint64_t keys[KEYS];
    float values[KEYS];
};

// The state of one worker's work in one table.
struct line {
    struct push pushes[MAX_BATCHES];
    uint32_t next, acknowledged, open;
    uint32_t ahead; // largest number of pushes in flight; 1: the worker also pulls before
                    // each push
    client_ts pulling;
    uint32_t clock, seen; // clocks of the pull in flight and of the last answered pull
    float pulled[KEYS];
};

struct worker {
    struct world *world;
    struct stage_client c;
    enum plan plan;
    uint64_t pace;
    client_ts making[LINES + 2];
    bool ready;
    // The worker sends nothing before this time, because a push was refused.
    uint64_t rests_until;
    struct line lines[LINES];
};

struct world {
    struct stage stage; // must be the first member
    uint32_t n_workers, n_batches;
    struct worker workers[MAX_WORKERS];
    uint64_t keys[KEYS];
    // For each batch the sums of all earlier batches.
    int64_t sums[LINES][MAX_BATCHES + 1][KEYS];
    bool limits; // the memory for rows is limited until the time `limits_end`
    uint64_t limits_end, room[STAGE_PLACES];
    struct budget budgets[STAGE_PLACES];
    struct changes changes; // with replicas

    // The admin operations of worker 0, which fill the tables COPY and MEAN.
    uint32_t n_admins;
    client_ts admin_waits, looking;
    uint32_t admin; // COPY or MEAN
    bool failed;    // the operation was refused; some servers may have carried it out
    float before[KEYS], after[KEYS];
};

#define failed(w, ...) stage_failed(&(w)->stage, __VA_ARGS__)
#define SAID(w) (&(w)->stage.said)

static uint64_t draw(struct world *w, uint64_t n)
{
    return stage_draw(&w->stage, n);
}

static bool one_in(struct world *w, uint64_t n)
{
    return stage_one_in(&w->stage, n);
}

static bool has_chains(void)
{
    return BATCHES_CHAINS != 0;
}

static struct shard_table *table_of(const struct world *w, uint32_t server,
                                    uint32_t table)
{
    return w->stage.servers[server].shard->tables[table];
}

// ---------------------------------------------------------------- opening

static void draw_batches(struct world *w)
{
    for (uint64_t i = 0; i < KEYS; i++)
        w->keys[i] = random_u64(0, KEY, i);
    for (uint64_t k = 0, at = 0; k < w->n_workers; k++)
        for (uint32_t t = 0; t < LINES; t++)
            for (uint32_t b = 0; b < w->n_batches; b++) {
                struct push *p = &w->workers[k].lines[t].pushes[b];
                for (uint32_t i = 0; i < KEYS; i++) {
                    uint64_t x = random_below(w->stage.o->seed, VALUE, at++, 12);
                    // The last keys occur only in the last batches, so that the last
                    // batches also create rows.
                    if (x > 8 || i * w->n_batches > b * KEYS)
                        continue;
                    p->keys[p->n] = w->keys[i];
                    p->values[p->n++] = (float)(x + 1);
                    w->sums[t][b + 1][i] += (int64_t)x + 1;
                }
            }
    for (uint32_t t = 0; t < LINES; t++)
        for (uint32_t b = 1; b <= w->n_batches; b++)
            for (uint32_t i = 0; i < KEYS; i++)
                w->sums[t][b][i] += w->sums[t][b - 1][i];
}

static int open_server(void *ctx, bool late, struct err *e)
{
    struct world *w = ctx;
    struct budget *b = &w->budgets[w->stage.n_servers];
    // Room for the parts of a batch or two, and for the records of all workers.
    uint64_t parts = w->n_workers * 2048;
    budget_open(b, one_in(w, 2) ? ENOUGH : (4096 + parts) * 8 / 3 + draw(w, 2 * parts));
    struct shard_options o = {
        .budget = b, .max_bytes = ENOUGH, .hold_timeout_ns = PATIENCE, .slice_ns = 1};
    o.member.late = late;
    w->room[w->stage.n_servers] = ENOUGH;
    return stage_open_server(&w->stage, &o, NULL, NULL, e);
}

static int open_worker(struct world *w, uint32_t i, struct err *e)
{
    static const uint32_t aheads[] = {1, 3, 8, MAX_BATCHES};
    struct worker *k = &w->workers[i];
    k->world = w;
    k->pace = 1 + draw(w, 8);
    k->plan = (enum plan)draw(w, 3);
    k->c.dies_at = VAN_NEVER;
    for (uint32_t t = 0; t < LINES; t++)
        k->lines[t].ahead = aheads[draw(w, 4)];
    if (k->plan == SECOND_AT_ONCE)
        k->lines[1].ahead = MAX_BATCHES;
    // As over TCP, no message is lost alone, and none is sent again before its link
    // breaks. Otherwise a server could keep two copies of a waiting message, and would
    // lack memory for other messages.
    struct client_options o = {.cache_keys = one_in(w, 2)};
    TRY(stage_open_client(&w->stage, &k->c, WIRE_WORKER, i, &o, e));
    sim_van_loses_none(k->c.van);
    // Pushes to one table may wait for the other table.
    client_set_timeout(k->c.client, PATIENCE);
    return 0;
}

static void let_servers_die(struct world *w, struct scheduler_options *o)
{
    o->servers = 2 + (uint32_t)draw(w, STAGE_SERVERS - 1);
    o->replicas = 2 + (uint32_t)draw(w, 2);
    w->changes = (struct changes){.stage = &w->stage,
                                  .open = open_server,
                                  .world = w,
                                  .next = draw(w, 300 * MS),
                                  .pace = 400 * MS,
                                  .most = 12,
                                  .spares = true};
}

static int world_open(void *ctx, struct err *e)
{
    struct world *w = ctx;
    uint32_t n_servers = 1 + (uint32_t)draw(w, STAGE_SERVERS);
    w->n_workers = 1u << draw(w, 3);
    w->limits = one_in(w, 2);
    // A refused push is repeated after the pushes in flight, which wait for it: they must
    // leave a place in the client's window.
    uint32_t most = w->limits ? SHARD_WINDOW / 2 : MAX_BATCHES;
    w->n_batches = 2 + (uint32_t)draw(w, one_in(w, 12) ? most - 2 : 10);
    w->n_admins = (uint32_t)draw(w, 6);
    draw_batches(w);
    struct scheduler_options o = sim_scheduler(n_servers, w->n_workers, BITS);
    w->changes.next = VAN_NEVER;
    if (has_chains())
        let_servers_die(w, &o);
    TRY(stage_open_scheduler(&w->stage, &o, e));
    for (uint32_t i = 0; i < o.servers; i++)
        TRY(open_server(w, false, e));
    for (uint32_t i = 0; i < w->n_workers; i++)
        TRY(open_worker(w, i, e));
    struct sim_seen seen = {TABLE, 1, w->keys[0]};
    return stage_open_strangers(&w->stage, &seen, e);
}

static void make_tables(struct worker *k)
{
    uint32_t n = LINES + (k->c.number == 0 ? 2 : 0);
    for (uint32_t i = 0; i < n; i++) {
        struct table_config t = table_config_defaults();
        snprintf(t.name, sizeof(t.name), "table%u", i);
        t.accessor.rule = rule_defaults(RULE_SUM);
        t.accessor.dim = 1;
        t.mode = i < LINES ? CONFIG_SYNC : CONFIG_ASYNC;
        k->making[i] = stage_begun(
            &k->c, client_table(k->c.client, TABLE + i, &t, SAID(k->world)),
            "making a table");
    }
}

static void get_ready(struct worker *k)
{
    bool waits = false;
    if (!member_ready(client_member(k->c.client)))
        return;
    if (k->making[0] == 0) {
        make_tables(k);
        return;
    }
    for (uint32_t i = 0; i < LINES + 2; i++)
        if (k->making[i] != 0 && k->making[i] != UINT64_MAX) {
            bool over = stage_is_over(&k->c, &k->making[i], "making a table");
            k->making[i] = over ? UINT64_MAX : k->making[i];
            waits |= !over;
        }
    k->ready = !waits;
}

// Returns whether a request has ended. If the memory for rows is limited, the request may
// be refused: then *ret_refused is set, and the worker must repeat the request.
static bool is_over(struct worker *k, client_ts *ts, const char *what, bool *ret_refused)
{
    struct world *w = k->world;
    int rc = 0;
    if (*ts == 0 || !client_done(k->c.client, *ts, &rc, SAID(w)))
        return false;
    *ts = 0;
    *ret_refused = rc != 0;
    w->stage.o->counts[REFUSED] += rc != 0;
    if (rc != 0)
        k->rests_until = sim_now(w->stage.sim) + 100 * MS;
    if (rc != 0 && (!w->limits || (rc != TUG_EIO && rc != TUG_ENOMEM)))
        failed(w, "worker %u, %s: %s", k->c.number, what, SAID(w)->text);
    return true;
}

// ---------------------------------------------------------------- pushes and pulls

static void begin_push(struct worker *k, uint32_t t, uint32_t b)
{
    struct world *w = k->world;
    struct line *l = &k->lines[t];
    struct push *p = &l->pushes[b];
    uint32_t micros = SHARD_MICROS / w->n_workers;
    struct client_push push = {.table = TABLE + t,
                               .keys = p->keys,
                               .n = p->n,
                               .values = p->values,
                               .rate = 1,
                               .pass = 1,
                               .clock = b,
                               .micro = (uint8_t)(k->c.number * micros),
                               .micros = (uint8_t)micros,
                               .examples = 1};
    p->ts = stage_begun(&k->c, client_push(k->c.client, &push, SAID(w)), "a push");
    p->called = true;
    l->open++;
    w->stage.o->counts[PUSHES]++;
}

static void end_pushes(struct worker *k, struct line *l)
{
    bool refused = false;
    for (uint32_t b = 0; b < l->next; b++) {
        struct push *p = &l->pushes[b];
        if (!is_over(k, &p->ts, "a push", &refused))
            continue;
        l->open--;
        p->called = !refused;
        p->acknowledged = !refused;
        l->acknowledged += !refused;
    }
}

static void end_pull(struct worker *k, uint32_t t)
{
    struct world *w = k->world;
    struct line *l = &k->lines[t];
    bool refused = false;
    if (!is_over(k, &l->pulling, "a pull", &refused) || refused)
        return;
    l->seen = l->clock;
    for (uint32_t i = 0; i < KEYS; i++)
        if ((int64_t)l->pulled[i] != w->sums[t][l->clock][i])
            failed(w, "worker %u pulled %g of key %u of table %u at clock %u: not %lld",
                   k->c.number, (double)l->pulled[i], i, TABLE + t, l->clock,
                   (long long)w->sums[t][l->clock][i]);
}

static void begin_pull(struct worker *k, uint32_t t)
{
    struct world *w = k->world;
    struct line *l = &k->lines[t];
    l->clock = l->next;
    struct client_pull pull = {.table = TABLE + t,
                               .keys = w->keys,
                               .n = KEYS,
                               .values = l->pulled,
                               .clock = l->clock};
    l->pulling = stage_begun(&k->c, client_pull(k->c.client, &pull, SAID(w)), "a pull");
    w->stage.o->counts[PULLS]++;
}

static void let_push(struct worker *k, uint32_t t)
{
    const struct world *w = k->world;
    struct line *l = &k->lines[t];
    for (uint32_t b = 0; b < l->next; b++)
        if (!l->pushes[b].called) {
            begin_push(k, t, b);
            return;
        }
    // While a pull is in flight, only one batch may be pushed behind this pull.
    if (l->next == w->n_batches || l->open >= l->ahead ||
        (l->pulling != 0 && l->next > l->clock) ||
        (l->ahead == 1 && l->next > 0 && l->seen < l->next))
        return;
    begin_push(k, t, l->next);
    l->next++;
}

static bool is_pushed(const struct worker *k, uint32_t t)
{
    return k->lines[t].next == k->world->n_batches;
}

static bool line_has_finished(const struct worker *k, uint32_t t)
{
    const struct line *l = &k->lines[t];
    return l->acknowledged == k->world->n_batches && l->seen == k->world->n_batches;
}

static uint32_t choose(struct worker *k)
{
    if (k->plan == FIRST_ONE && !line_has_finished(k, 0))
        return 0;
    if (k->plan == SECOND_AT_ONCE && !is_pushed(k, 1))
        return 1;
    return (uint32_t)draw(k->world, LINES);
}

static void begin_admin(struct worker *k)
{
    struct world *w = k->world;
    struct client *c = k->c.client;
    w->n_admins--;
    w->admin = one_in(w, 2) ? COPY : MEAN;
    w->admin_waits = stage_begun(&k->c,
                                 w->admin == COPY
                                     ? client_admin(c, TABLE, WIRE_COPY, COPY, SAID(w))
                                     : client_mean(c, TABLE, MEAN, 0.5f, SAID(w)),
                                 "an admin operation");
    w->stage.o->counts[w->admin == COPY ? COPIES : MEANS]++;
}

static float step_to(const struct world *w, uint32_t key, uint32_t batch)
{
    float is = (float)w->sums[0][batch][key], was = w->before[key];
    return w->admin == MEAN && was > 0 ? was + 0.5f * (is - was) : is;
}

static uint32_t partition_of(const struct world *w, uint32_t key)
{
    return roster_partition(BITS, WIRE_SPACE_SPARSE, w->keys[key]);
}

// Returns whether rows have the sums after all batches up to `batch`: those of a partition
// if partitions have replicas, which may get other owners during the operation; else
// those of a server.
static bool fits(const struct world *w, uint32_t part, uint32_t batch)
{
    const uint32_t *owners =
        scheduler_roster(w->stage.scheduler)->owners[WIRE_SPACE_SPARSE];
    for (uint32_t i = 0; i < KEYS; i++) {
        uint32_t p = partition_of(w, i);
        bool in = has_chains()
                      ? p == part
                      : owners[p] ==
                            member_id(shard_member(w->stage.servers[part].shard));
        if (in && w->after[i] != step_to(w, i, batch))
            return false;
    }
    return true;
}

static void check_ordered(struct world *w)
{
    uint32_t parts = has_chains() ? 1 << BITS : w->stage.n_servers;
    for (uint32_t s = 0; s < parts && !w->failed; s++) {
        uint32_t batch = 0;
        while (batch <= w->n_batches && !fits(w, s, batch))
            batch++;
        if (batch > w->n_batches)
            failed(w, "the %s on %s %u is not that of a whole batch",
                   w->admin == COPY ? "copy" : "mean",
                   has_chains() ? "partition" : "server", s);
    }
    if (w->admin == MEAN)
        memcpy(w->before, w->after, sizeof(w->before));
}

static void let_order(struct worker *k)
{
    struct world *w = k->world;
    bool refused = false;
    if (is_over(k, &w->admin_waits, "an admin operation", &w->failed)) {
        struct client_pull pull = {
            .table = w->admin, .keys = w->keys, .n = KEYS, .values = w->after};
        w->looking = stage_begun(&k->c, client_pull(k->c.client, &pull, SAID(w)),
                                 "a look at a copy");
    } else if (is_over(k, &w->looking, "a look at a copy", &refused)) {
        check_ordered(w);
    } else if (w->admin_waits == 0 && w->looking == 0 && w->n_admins > 0 &&
               one_in(w, 20)) {
        begin_admin(k);
    }
}

// ---------------------------------------------------------------- running

static void let_work(struct worker *k)
{
    struct world *w = k->world;
    if (!stage_acts(&k->c))
        return;
    if (!k->ready)
        get_ready(k);
    if (!k->ready || w->stage.failure.code != 0)
        return;
    for (uint32_t t = 0; t < LINES; t++) {
        end_pushes(k, &k->lines[t]);
        end_pull(k, t);
    }
    if (k->c.number == 0)
        let_order(k);
    if (sim_now(w->stage.sim) < k->rests_until || !one_in(w, k->pace))
        return;
    uint32_t t = choose(k), n = k->plan == SECOND_AT_ONCE && t == 1 ? 8 : 1;
    struct line *l = &k->lines[t];
    bool at_once = k->plan == SECOND_AT_ONCE && t == 1;
    if (l->pulling == 0 && l->seen < l->next && (!at_once || is_pushed(k, t)) &&
        (l->ahead == 1 || is_pushed(k, t) || one_in(w, 4)))
        begin_pull(k, t);
    for (uint32_t i = 0; i < n; i++)
        let_push(k, t);
}

// Sets a server's limit of memory for the rows of each table.
static void give_room(struct world *w, uint32_t server)
{
    if (table_of(w, server, TABLE) == NULL || w->stage.servers[server].dead)
        return;
    struct shard *s = w->stage.servers[server].shard;
    s->o.max_bytes = s->bytes - table_of(w, server, TABLE)->bytes + w->room[server];
}

// Limits the rows of each server, so that some batch finds no room, and then gives room
// for a few rows more from time to time.
static void let_limits_change(struct world *w)
{
    uint64_t now = sim_now(w->stage.sim);
    bool begins = w->limits_end == 0;
    if (!w->limits || !w->workers[0].ready)
        return;
    if (begins)
        w->limits_end = now + 3 * SECOND;
    for (uint32_t i = 0; i < w->stage.n_servers; i++) {
        for (uint32_t t = 0; t < LINES; t++) {
            const struct shard_table *x = table_of(w, i, TABLE + t);
            w->stage.o->counts[HALVES] += x != NULL && x->n_applied != 0;
        }
        if (begins)
            w->room[i] = draw(w, KEYS * ROW / w->stage.n_servers);
        else if (now >= w->limits_end)
            w->room[i] = ENOUGH;
        else if (one_in(w, 30))
            w->room[i] += draw(w, 3 * ROW);
        give_room(w, i);
    }
}

static void act(void *ctx)
{
    struct world *w = ctx;
    let_limits_change(w);
    for (uint32_t i = 0; i < w->n_workers; i++)
        let_work(&w->workers[i]);
    // A replica that has no memory for rows leaves its chain, so another one must not die.
    bool free = !w->limits ||
                (w->limits_end != 0 && sim_now(w->stage.sim) > w->limits_end + SECOND);
    if (has_chains() && w->workers[0].ready && free)
        changes_act(&w->changes);
}

static bool has_everybody_finished(const struct world *w)
{
    for (uint32_t i = 0; i < w->n_workers; i++)
        for (uint32_t t = 0; t < LINES; t++)
            if (!line_has_finished(&w->workers[i], t))
                return false;
    return w->n_admins == 0 && w->admin_waits == 0 && w->looking == 0;
}

// Returns the value of a key's row at its primary; 0 if it has no row.
static float value_of(const struct world *w, uint32_t table, uint32_t key)
{
    const struct roster *r = scheduler_roster(w->stage.scheduler);
    uint32_t owner = r->owners[WIRE_SPACE_SPARSE][partition_of(w, key)];
    for (uint32_t i = 0; i < w->stage.n_servers; i++) {
        const struct stage_server *x = &w->stage.servers[i];
        if (!stage_is_there(x) || member_id(shard_member(x->shard)) != owner)
            continue;
        const float *row = shards_row(x->shard, table, w->keys[key]);
        return row != NULL ? *row : 0;
    }
    return 0;
}

// Checks that all members of the key's chain have the value, and no other server has a row.
static void check_members(struct world *w, uint32_t table, uint32_t key, float value)
{
    const struct roster *r = scheduler_roster(w->stage.scheduler);
    uint32_t partition = partition_of(w, key);
    for (uint32_t i = 0; i < w->stage.n_servers; i++) {
        const struct stage_server *x = &w->stage.servers[i];
        if (!stage_is_there(x))
            continue;
        const float *row = shards_row(x->shard, table, w->keys[key]);
        bool member = roster_is_member(r, WIRE_SPACE_SPARSE, partition,
                                       member_id(shard_member(x->shard)));
        if (member ? (row != NULL ? *row : 0) != value : row != NULL)
            failed(w, "key %u of table %u is not %g on server %u", key, table,
                   (double)value, i);
    }
}

static void check_chains(struct world *w)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        for (uint32_t t = 0; t < LINES; t++)
            check_members(w, TABLE + t, i, (float)w->sums[t][w->n_batches][i]);
        check_members(w, COPY, i, value_of(w, COPY, i));
        check_members(w, MEAN, i, value_of(w, MEAN, i));
    }
}

static void check_rows(struct world *w)
{
    for (uint32_t t = 0; t < LINES; t++) {
        for (uint32_t i = 0; i < w->stage.n_servers; i++)
            if (table_of(w, i, TABLE + t)->sync.clock.next != w->n_batches)
                failed(w, "table %u of server %u is not at its last batch", TABLE + t, i);
        for (uint32_t i = 0; i < KEYS; i++)
            if (stage_sum(&w->stage, TABLE + t, w->keys[i]) !=
                w->sums[t][w->n_batches][i])
                failed(w, "key %u of table %u is not the sum of its pushes", i,
                       TABLE + t);
    }
}

static const char *who_has_not_finished(const struct world *w, char *to, size_t cap)
{
    size_t at = 0;
    to[0] = '\0';
    for (uint32_t i = 0; i < w->n_workers; i++)
        for (uint32_t t = 0; t < LINES && at < cap; t++) {
            const struct line *l = &w->workers[i].lines[t];
            if (!line_has_finished(&w->workers[i], t))
                at += (size_t)snprintf(to + at, cap - at,
                                       " worker %u in table %u (%u of %u, %u open)", i,
                                       TABLE + t, l->acknowledged, w->n_batches, l->open);
        }
    return to;
}

static void work(void *ctx)
{
    struct world *w = ctx;
    uint64_t until = has_chains() ? stage_draw_calm(&w->stage) : PATIENCE;
    char who[512];
    while (!has_everybody_finished(w))
        if (!stage_step(&w->stage, until)) {
            failed(w, "the run hangs:%s", who_has_not_finished(w, who, sizeof(who)));
            return;
        }
    stage_settle(&w->stage, 2 * SECOND);
    if (!has_chains()) {
        check_rows(w);
    } else if (changes_end(&w->changes)) {
        // Servers need some time to notice a link that fell silent.
        stage_settle(&w->stage, 60 * SECOND);
        check_chains(w);
    }
}

static void count(void *ctx, uint64_t *counts)
{
    const struct world *w = ctx;
    for (uint32_t i = 0; i < w->n_workers; i++)
        counts[NO_ROOM] += client_stats(w->workers[i].c.client).no_room;
    counts[DIED] += w->changes.died;
    counts[RESENT] += stage_resent(&w->stage);
    counts[EVENTS] += w->stage.events;
}

static void check_counts(const uint64_t *counts, uint64_t seeds)
{
    assert_true(counts[PUSHES] > 20 * seeds && counts[PULLS] > 10 * seeds);
    assert_true(counts[REFUSED] > seeds && counts[NO_ROOM] > seeds);
    assert_true(counts[HALVES] > seeds);
    assert_true(counts[COPIES] > seeds / 2 && counts[MEANS] > seeds / 2);
}

static void check_deaths(const uint64_t *counts, uint64_t seeds)
{
    assert_true(counts[PUSHES] > 20 * seeds && counts[PULLS] > 10 * seeds);
    assert_true(counts[DIED] > seeds / 4 && counts[HALVES] > seeds);
    assert_true(counts[COPIES] > seeds / 2 && counts[MEANS] > seeds / 2);
}

int main(int argc, char **argv)
{
    static const struct stage_world world = {.bytes = sizeof(struct world),
                                             .stream = CHOICE,
                                             .open = world_open,
                                             .act = act,
                                             .work = work,
                                             .count = count};
    static const struct seeds batches = {
        .program = "test_sim_batches",
        .bugs = {{WITHOUT_ADMIN_NUMBERS}},
        .counted = {"pushes", "pulls", "looks at half a batch", "refused", "without room",
                    "copies", "means", "messages sent again", "servers that died",
                    "events"},
        .world = &world,
        .seeds = 150,
        .bug_seeds = 150,
        .check = check_counts,
    };
    static const struct seeds chains = {
        .program = "test_sim_batch_chains",
        .bugs = {{WITHOUT_CHAIN_PARTS}},
        .counted = {"pushes", "pulls", "looks at half a batch", "refused", "without room",
                    "copies", "means", "messages sent again", "servers that died",
                    "events"},
        .world = &world,
        .seeds = 500,
        .asan_seeds = 50,
        .round_seeds = 100,
        .bug_seeds = 1000,
        .check = check_deaths,
    };
    return seeds_main(has_chains() ? &chains : &batches, argc, argv);
}
