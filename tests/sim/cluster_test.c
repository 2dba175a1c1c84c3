// A whole cluster in a simulated network, from one number: its size, its workers'
// actions, the network's faults, deaths, and which partitions move.
//
// The scheduler, the shards and the clients are the same code as in real processes. Workers push
// integers into a table that adds them up, and pull. The test checks:
//
//   - at the end every row is the sum of the pushes that were acknowledged, and of
//     some that dead workers had in flight: each of those is applied in a partition as
//     a whole or not at all
//   - a push that another worker repeats for a dead one, under the same identity, counts
//     once
//   - the values of a pull have all pushes that were acknowledged before it was made, and
//     none that had not been made when it ended
//   - in tables of mode ssp no worker's pull is answered while the worker is further
//     ahead of the slowest living worker than the staleness; a late worker counts
//     from its first tick on
//   - in tables of mode sync a pull returns the exact sum of all earlier batches
//   - rows lie where the placement says and nowhere else; servers join late, are drained
//     and die, and partitions move meanwhile; all moves end
//   - in test_sim_chains, which is this file with CLUSTER_CHAINS 1, partitions mostly have 2
//     or 3 replicas, and servers die that lead partitions, or are stopped until they count
//     as dead; servers cannot reach each other for a while, in one direction or both; a
//     client makes saves, and a second table has policies; at the end all members of a
//     chain have the same rows
//   - when the scheduler is killed and started again, all nodes that had joined before end
//     with an error, and until then the statements above hold
//   - if the scheduler has a journal (--state), all statements hold whichever write it dies
//     in, and the owners of an epoch stay the same
//   - a living process is not declared dead, although the links of its heartbeats, or its
//     other links, fall silent
//   - this also holds while processes are stopped for a while, including the
//     scheduler; a process that is stopped until it is declared dead, and then goes
//     on, changes no result
//   - frames of strangers and of a session that has ended change nothing, and a server's
//     program does not hear them
//   - no living process hangs or fails, and all leave at the end
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "cluster/scheduler/scheduler_internal.h"
#include "kit/test.h"
#include "rule/rule.h"
#include "sim/cluster.h"

enum {
    PUSHES,
    PULLS,
    MOVES,
    DEATHS,
    REPEATED,
    RESENT,
    REFUSED,
    LATE,
    RESTARTS,
    KEPT,    // deaths of schedulers with a journal
    OLD,     // schedulers that were replaced while they ran
    STRANGE, // frames that strangers have sent
    EVENTS,
    HEARD,
    SERVERS,  // servers that joined late, were drained, or died
    TOGETHER, // partitions that changed their owner in the epoch of another partition
    // With replicas:
    DIED, // servers that died
    SAVES,
    POLICIES, // requests about the table with policies
    PARTINGS, // servers that could not be reached for a while
};
enum { CHOICE = 4, KEY = 6 }; // ids of random streams
// The time limit of requests with replicas: a tick waits until all replicas have it, which takes
// long while links fall silent.
#define CHAINS_NS (600 * SECOND)
// The time between the requests of workers in worlds with two schedulers.
#define SLOW_NS (400 * MS)

static uint64_t draw(struct world *w, uint64_t n)
{
    return stage_draw(&w->stage, n);
}

static bool one_in(struct world *w, uint64_t n)
{
    return stage_one_in(&w->stage, n);
}

static uint64_t now_in(const struct world *w)
{
    return sim_now(w->stage.sim);
}

static bool has_chains(void)
{
    return CLUSTER_CHAINS != 0;
}

static bool is_table_made(const struct world *w)
{
    bool made = false;
    for (uint32_t i = 0; i < w->n_workers; i++)
        made |= w->workers[i].made;
    return made;
}

static int open_scheduler(struct world *w, struct err *e)
{
    struct scheduler_options o = sim_scheduler(w->n_servers, w->n_workers, BITS);
    o.replicas = w->replicas;
    if (w->stage.restarted && one_in(w, 2)) // otherwise it is as if the new scheduler's
                                            // clock had been set back
        o.session_base += SECOND;
    return stage_open_scheduler(&w->stage, &o, e);
}

static int open_server(void *ctx, bool late, struct err *e)
{
    struct world *w = ctx;
    struct server *x = &w->servers[w->stage.n_servers];
    *x = (struct server){.world = w, .number = w->stage.n_servers};
    struct shard_options o = {
        .app = world_hears,
        .app_ctx = x,
        .roots = w->roots,
        .save_timeout_ns = 200 * SECOND,
    };
    o.member.late = late;
    return stage_open_server(&w->stage, &o, NULL, NULL, e);
}

static int open_worker(struct world *w, uint32_t i, struct err *e)
{
    struct worker *k = &w->workers[i];
    k->world = w;
    k->pace = 2 + draw(w, 20);
    k->n_ops = w->mode == WIRE_SYNC ? 2 * w->batches : 4 + (uint32_t)draw(w, MAX_OPS - 4);
    if (restarts_parts(&w->stage))
        k->n_ops = MAX_OPS;
    k->c.dies_at = VAN_NEVER;
    k->dies_after = w->mode != WIRE_SYNC && one_in(w, 2) ? draw(w, 300 * MS) : VAN_NEVER;
    if (restarts_parts(&w->stage))
        k->dies_after = VAN_NEVER;
    struct client_options o = {
        .resend_ns = 20 * MS + draw(w, 80 * MS),
        .cache_keys = one_in(w, 2),
    };
    TRY(stage_open_client(&w->stage, &k->c, WIRE_WORKER, i, &o, e));
    if (has_chains())
        client_set_timeout(k->c.client, CHAINS_NS);
    return 0;
}

static int open_chains(struct world *w, struct err *e)
{
    struct roots_options below = {.save = w->stage.o->dir};
    w->n_servers = 2 + (uint32_t)draw(w, STAGE_SERVERS - 1);
    w->replicas = one_in(w, 8) ? 1 : 2 + (uint32_t)draw(w, 2);
    w->changes.pace = 400 * MS;
    w->partings = (struct partings){.stage = &w->stage, .next = draw(w, 10 * SECOND)};
    return roots_open(&w->roots, &below, e);
}

static int world_open(void *ctx, struct err *e)
{
    struct world *w = ctx;
    for (uint64_t i = 0; i < KEYS; i++)
        w->keys[i] = random_u64(0, KEY, i); // the same keys for all seeds
    w->n_servers = 1 + (uint32_t)draw(w, STAGE_SERVERS);
    w->n_workers = 1 + (uint32_t)draw(w, MAX_WORKERS);
    w->identities = one_in(w, 2);
    w->mode = (enum wire_mode)draw(w, 3);
    if (restarts_parts(&w->stage))
        w->mode = WIRE_ASYNC;
    w->staleness = (uint32_t)draw(w, 3);
    w->batches = 1 + (uint32_t)draw(w, 8);
    w->changes = (struct changes){.stage = &w->stage,
                                  .open = open_server,
                                  .world = w,
                                  .next = draw(w, 300 * MS),
                                  .pace = 100 * MS,
                                  .most = MAX_CHANGES};
    if (w->mode == WIRE_SYNC) {
        // Every worker contributes to each batch. Other tests cover workers that leave,
        // after which batches are divided differently.
        w->n_workers = 1u << draw(w, 3);
        w->identities = false;
        // While a link is silent a batch waits, and changes would go on for minutes.
        w->changes.most = MAX_SYNC_CHANGES;
    }
    if (has_chains())
        TRY(open_chains(w, e));
    TRY(open_scheduler(w, e));
    for (uint32_t i = 0; i < w->n_servers; i++)
        TRY(open_server(w, false, e));
    for (uint32_t i = 0; i < w->n_workers; i++)
        TRY(open_worker(w, i, e));
    if (w->mode == WIRE_SSP && w->n_workers > 1 && one_in(w, 2)) {
        w->workers[draw(w, w->n_workers)].late = true;
        w->late_share = 1 + (uint32_t)draw(w, 2);
    }
    struct sim_seen seen = {TABLE, WIDTH, w->keys[0]};
    TRY(stage_open_strangers(&w->stage, &seen, e));
    w->restart_at = one_in(w, 8) ? draw(w, 500 * MS) : VAN_NEVER;
    if (w->stage.o->keeps)
        w->restart_at = VAN_NEVER;
    if (restarts_parts(&w->stage))
        w->changes.next = VAN_NEVER;
    // Saves of many worlds are slow, so nothing is saved while a planted bug is searched for.
    return has_chains() && w->stage.o->bug == NO_BUG ? world_open_saver(w, e) : 0;
}

static void world_close(void *ctx)
{
    struct world *w = ctx;
    sim_saver_close(w->saver);
    stage_close(&w->stage);
    roots_close(w->roots);
    if (has_chains())
        sim_remove_saves(w->stage.o->dir);
}

static void make_table(struct worker *k)
{
    const struct world *w = k->world;
    struct table_config t = table_config_defaults();
    struct err e = {0};
    snprintf(t.name, sizeof(t.name), "sums");
    t.accessor.rule = rule_defaults(RULE_SUM);
    t.accessor.dim = WIDTH;
    t.mode = (enum config_mode)w->mode;
    t.staleness = w->mode == WIRE_SSP ? w->staleness : 0;
    k->making = client_table(k->c.client, TABLE, &t, &e);
    if (k->making == 0)
        failed(k->world, "worker %u, making the table: %s", k->c.number, e.text);
}

static void choose(struct world *w, struct worker *k, struct op *op)
{
    uint64_t rate = 1 + draw(w, 6), first = draw(w, KEYS);
    op->push = draw(w, 3) != 0;
    // A server that acknowledges pushes before it applies them (an injected defect) has
    // no rows to answer with. So the pulls of other workers must find the defect.
    op->also_pull = op->push && one_in(w, 4) &&
                    w->stage.o->bug != ACKNOWLEDGE_BEFORE_APPLY;
    op->group = k->next;
    for (uint32_t i = 0; i < KEYS; i++) {
        if (draw(w, 8) >= rate)
            continue;
        op->which[op->n] = (uint32_t)(first + i) % KEYS;
        for (int j = 0; j < WIDTH; j++)
            op->values[op->n * WIDTH + j] = (float)(1 + draw(w, 500));
        op->n++;
    }
    op->arranged = one_in(w, 2);
    if (w->mode == WIRE_SYNC) { // alternates: pulls the sums of the earlier batches,
                                // then pushes this worker's part
        op->push = k->next % 2 == 1;
        op->also_pull = false;
    }
}

static void arrange(struct world *w, struct worker *k, struct op *op)
{
    uint64_t keys[KEYS];
    uint32_t order[KEYS], which[KEYS];
    float values[KEYS * WIDTH];
    for (size_t i = 0; i < op->n; i++)
        op->keys[i] = w->keys[op->which[i]];
    if (!op->arranged)
        return;
    memcpy(keys, op->keys, sizeof(keys));
    memcpy(which, op->which, sizeof(which));
    memcpy(values, op->values, sizeof(values));
    if (client_arrange(k->c.client, TABLE, keys, op->n, order) != 0) {
        failed(w, "worker %u cannot arrange keys", k->c.number);
        return;
    }
    for (size_t i = 0; i < op->n; i++) {
        op->keys[i] = keys[order[i]];
        op->which[i] = which[order[i]];
        memcpy(op->values + i * WIDTH, values + order[i] * WIDTH, WIDTH * sizeof(float));
    }
}

static void add(int64_t to[KEYS][WIDTH], const struct op *op)
{
    for (size_t i = 0; i < op->n; i++)
        for (int j = 0; j < WIDTH; j++)
            to[op->which[i]][j] += (int64_t)op->values[i * WIDTH + j];
}

bool world_went_wrong(struct worker *k, int rc, const char *what, const struct err *e)
{
    k->c.fades |= k->c.dead && rc != 0;
    if (rc != 0 && !k->c.dead && !k->world->stage.restarted)
        failed(k->world, "worker %u, %s: %s", k->c.number, what, e->text);
    return rc != 0;
}

// Begins a request. `owner` is the worker that made the push first, even if another
// worker repeats it.
static void begin_op(struct worker *k, struct op *op, uint32_t owner, bool again)
{
    struct world *w = k->world;
    struct err e = {0};
    arrange(w, k, op);
    for (size_t i = 0; i < op->n; i++)
        memcpy(op->least[i], w->acknowledged[op->which[i]], sizeof(op->least[i]));
    op->begun = true;
    op->clock = k->clock;
    for (uint32_t i = 0; i < w->n_workers; i++)
        op->counted |= (uint32_t)w->workers[i].counts << i;
    if (op->push) {
        struct client_push p = {
            .table = TABLE,
            .keys = op->keys,
            .n = op->n,
            .values = op->values,
            .op = WIRE_GRADIENT,
            .rate = 1,
            .pass = 1,
            .clock = w->mode == WIRE_SYNC ? k->clock : 0,
            .micro = (uint8_t)(k->c.number * (SHARD_MICROS / w->n_workers)),
            .micros = (uint8_t)(SHARD_MICROS / w->n_workers),
            .id_pass = w->identities,
            .id_piece = owner,
            .id_group = op->group,
            .examples = 1,
            .pulled = op->also_pull ? op->pulled : NULL,
            .arranged = op->arranged,
        };
        if (!again)
            add(w->made, op);
        op->ts = client_push(k->c.client, &p, &e);
        w->stage.o->counts[PUSHES]++;
    } else {
        struct client_pull p = {
            .table = TABLE,
            .keys = op->keys,
            .n = op->n,
            .values = op->pulled,
            .clock = k->clock,
            .arranged = op->arranged,
        };
        op->ts = client_pull(k->c.client, &p, &e);
        w->stage.o->counts[PULLS]++;
    }
    if (op->ts == 0)
        world_went_wrong(k, TUG_EIO, "to begin a request", &e);
    else
        k->open++;
}

// For ssp: checks that no living worker is more than `staleness` clocks behind the worker
// k that pulls.
static void check_staleness(struct worker *k, const struct op *op)
{
    const struct world *w = k->world;
    for (uint32_t i = 0; i < w->n_workers; i++) {
        const struct worker *x = &w->workers[i];
        if (w->mode == WIRE_SSP && !op->push && op->n > 0 && !x->c.dead && !x->told_end &&
            (op->counted >> i & 1) && x->clock + w->staleness < op->clock)
            failed(k->world, "worker %u pulled at clock %llu while worker %u is at %llu",
                   k->c.number, (unsigned long long)op->clock, i,
                   (unsigned long long)x->clock);
    }
}

// For sync: checks that a pull has exactly the batches before its clock.
static void check_batches(struct worker *k, const struct op *op)
{
    struct world *w = k->world;
    int64_t sums[KEYS][WIDTH] = {{0}};
    for (uint32_t i = 0; i < w->n_workers; i++)
        for (uint32_t j = 0; j < w->workers[i].next; j++)
            if (w->workers[i].ops[j].push && w->workers[i].ops[j].clock < op->clock)
                add(sums, &w->workers[i].ops[j]);
    for (size_t i = 0; i < op->n; i++)
        for (int j = 0; j < WIDTH; j++)
            if ((int64_t)op->pulled[i * WIDTH + j] != sums[op->which[i]][j])
                failed(w,
                       "worker %u pulled %lld at clock %llu in column %d of key %u: not "
                       "%lld",
                       k->c.number, (long long)op->pulled[i * WIDTH + j],
                       (unsigned long long)op->clock, j, op->which[i],
                       (long long)sums[op->which[i]][j]);
}

static void check_pulled(struct worker *k, const struct op *op)
{
    struct world *w = k->world;
    for (size_t i = 0; i < op->n; i++)
        for (int j = 0; j < WIDTH; j++) {
            int64_t got = (int64_t)op->pulled[i * WIDTH + j];
            int64_t least = op->least[i][j], most = w->made[op->which[i]][j];
            if (op->push)
                least += (int64_t)op->values[i * WIDTH + j];
            if (got < least || got > most)
                failed(w,
                       "worker %u pulled %lld in column %d of key %u: not in %lld..%lld",
                       k->c.number, (long long)got, j, op->which[i], (long long)least,
                       (long long)most);
        }
}

static void end_op(struct worker *k, struct op *op, int rc, const struct err *e)
{
    struct world *w = k->world;
    op->ts = 0;
    k->open--;
    if (world_went_wrong(k, rc, "a request", e))
        return;
    if (op->push && !op->acknowledged) {
        op->acknowledged = true;
        add(w->acknowledged, op);
    }
    check_staleness(k, op);
    if (!op->push || op->also_pull)
        (w->mode == WIRE_SYNC ? check_batches : check_pulled)(k, op);
    if (w->mode == WIRE_SYNC && op->push)
        k->clock++;
}

static void let_table_be_made(struct worker *k)
{
    struct err e = {0};
    int rc = 0;
    if (!member_ready(client_member(k->c.client)) || k->made)
        return;
    if (k->making == 0) {
        make_table(k);
    } else if (client_done(k->c.client, k->making, &rc, &e)) {
        k->made = rc == 0;
        if (k->dies_after != VAN_NEVER)
            k->c.dies_at = now_in(k->world) + k->dies_after;
        world_went_wrong(k, rc, "making the table", &e);
    }
}

// Returns whether a late worker does not begin yet, because the other workers have not
// made enough progress.
static bool waits_for_others(struct worker *k)
{
    const struct world *w = k->world;
    bool waits = false;
    for (uint32_t i = 0; i < w->n_workers && k->late; i++) {
        const struct worker *x = &w->workers[i];
        waits |= x != k && !x->c.dead && x->next < x->n_ops / w->late_share;
        waits |= x != k && !x->c.dead && w->late_share == 1 && !x->finished;
    }
    w->stage.o->counts[LATE] += k->late && !waits;
    k->late = waits;
    return waits;
}

// For ssp: sends a tick for the next clock when some more requests were answered, and the
// tick UINT64_MAX when the worker has finished. Returns true while a tick is in flight.
static bool let_tick(struct worker *k)
{
    struct world *w = k->world;
    struct err e = {0};
    int rc = 0;
    if (k->ticking != 0 && client_done(k->c.client, k->ticking, &rc, &e)) {
        k->ticking = 0;
        k->counts = true;
        world_went_wrong(k, rc, "at a tick", &e);
    }
    bool end = k->next == k->n_ops;
    if (w->mode != WIRE_SSP || k->ticking != 0 || k->open != 0 || k->told_end ||
        (!end && (k->next == 0 || !one_in(w, 3))))
        return k->ticking != 0;
    k->told_end = end;
    k->clock++;
    k->ticking = client_tick(k->c.client, TABLE, end ? UINT64_MAX : k->clock, &e);
    if (k->ticking == 0)
        world_went_wrong(k, TUG_EIO, "at a tick", &e);
    return true;
}

static void let_work(struct worker *k)
{
    struct world *w = k->world;
    // Only the first bytes are cleared: this function runs after each event, and the text
    // is long.
    struct err e;
    int rc = 0;
    e.code = 0;
    e.text[0] = '\0';
    if (!stage_acts(&k->c) || k->finished)
        return;
    if (!k->made && w->stage.restarted && member_ended(client_member(k->c.client), NULL))
        k->finished = true;
    else
        let_table_be_made(k);
    if (!k->made || w->stage.failure.code != 0)
        return;
    for (uint32_t i = 0; i < k->next; i++)
        if (k->ops[i].ts != 0 && client_done(k->c.client, k->ops[i].ts, &rc, &e))
            end_op(k, &k->ops[i], rc, &e);
    if (w->stage.restarted && member_ended(client_member(k->c.client), NULL)) {
        k->finished = true; // the client knows the reason of the end
        return;
    }
    world_let_say(k);
    if (has_chains())
        world_let_policies(k);
    if (waits_for_others(k) || let_tick(k))
        return;
    uint32_t most = w->mode == WIRE_SYNC ? 1 : IN_FLIGHT;
    if (k->next < k->n_ops && k->open < most && now_in(w) >= k->not_before &&
        one_in(w, k->pace)) {
        struct op *op = &k->ops[k->next];
        choose(w, k, op);
        begin_op(k, op, k->c.number, false);
        k->next++;
        if (restarts_parts(&w->stage))
            k->not_before = now_in(w) + SLOW_NS;
    }
    k->finished = k->next == k->n_ops && k->open == 0 && k->policies.ts == 0 &&
                  (k->told_end || w->mode != WIRE_SSP);
}

// A living worker repeats the pushes that dead workers had in flight, under the same
// identities. A push and its repetition have the same contents, so it does not matter
// which of them the server applies.
static void repeat_for_the_dead(struct world *w)
{
    struct worker *heir = NULL;
    for (uint32_t i = 0; i < w->n_workers; i++)
        if (!w->workers[i].c.dead)
            heir = &w->workers[i];
    if (heir == NULL || !w->identities || w->repeated)
        return;
    w->repeated = true;
    for (uint32_t i = 0; i < w->n_workers; i++) {
        struct worker *k = &w->workers[i];
        for (uint32_t j = 0; k->c.dead && j < k->next; j++) {
            struct op *from = &k->ops[j], *to = &heir->ops[heir->next];
            if (!from->push || from->acknowledged)
                continue;
            *to = *from;
            to->also_pull = false;
            from->acknowledged = true; // from now on the push is certainly applied
            begin_op(heir, to, k->c.number, true);
            heir->n_ops = ++heir->next;
            heir->finished = false;
            w->stage.o->counts[REPEATED]++;
        }
    }
}

static bool is_everybody(const struct world *w, bool (*what)(const struct worker *))
{
    for (uint32_t i = 0; i < w->n_workers; i++)
        if (!w->workers[i].c.dead && !what(&w->workers[i]))
            return false;
    return true;
}

static bool has_finished(const struct worker *k)
{
    return k->finished;
}

// Returns whether the scheduler has declared all dead workers dead.
static bool deaths_are_known(const struct world *w)
{
    const struct roster *r = &w->stage.scheduler->roster;
    uint32_t alive = 0, live = 0;
    if (stage_is_down(&w->stage))
        return false;
    for (uint32_t i = 0; i < r->n_nodes; i++)
        alive += r->nodes[i].role == WIRE_WORKER && r->nodes[i].alive;
    for (uint32_t i = 0; i < w->n_workers; i++)
        live += !w->workers[i].c.dead;
    return alive <= live;
}

static bool has_somebody_joined(const struct world *w)
{
    bool joined = false;
    for (uint32_t i = 0; i < w->stage.n_servers; i++)
        joined |= member_id(shard_member(shard_of(w, i))) != 0;
    return joined;
}

// Kills the scheduler's process, and starts another one at its address.
static void restart_scheduler(struct world *w)
{
    struct err e = {0};
    w->stage.restarted = true;
    w->stage.o->counts[RESTARTS]++;
    w->n_moves += changes_moved(&w->changes);
    for (uint32_t i = 0; i < w->stage.n_servers; i++)
        w->stage.servers[i].leaves |= stage_was_drained(&w->stage, &w->stage.servers[i]);
    sim_crash(w->stage.sim, w->stage.scheduler_van);
    van_free(w->stage.scheduler_van);
    scheduler_close(w->stage.scheduler);
    w->stage.scheduler_van = NULL;
    w->stage.scheduler = NULL;
    if (open_scheduler(w, &e) != 0)
        failed(w, "the scheduler does not start again: %s", e.text);
}

static void act(void *ctx)
{
    struct world *w = ctx;
    uint64_t now = now_in(w);
    for (uint32_t i = 0; i < w->n_workers; i++) {
        struct worker *k = &w->workers[i];
        if (!k->finished && k->made)
            stage_dies(&k->c);
        let_work(k);
    }
    if (now >= w->restart_at && !w->stage.restarted && has_somebody_joined(w))
        restart_scheduler(w);
    if (is_table_made(w))
        changes_act(&w->changes);
    if (!has_chains())
        return;
    world_let_save(w, is_table_made(w));
    partings_act(&w->partings,
                 is_everybody(w, has_finished) || restarts_parts(&w->stage));
}

static const char *who_has_not_finished(const struct world *w, char *to, size_t cap)
{
    size_t at = 0;
    to[0] = '\0';
    for (uint32_t i = 0; i < w->n_workers && at < cap; i++) {
        const struct worker *k = &w->workers[i];
        if (!k->c.dead && !k->finished)
            at += (size_t)snprintf(to + at, cap - at, " worker %u (%u of %u, %u open)", i,
                                   k->next, k->n_ops, k->open);
    }
    return to;
}

static const struct member *member_that_goes_on(const struct world *w)
{
    struct err why = {0};
    for (uint32_t i = 0; i < w->n_workers + w->stage.n_servers; i++) {
        const struct worker *k = i < w->n_workers ? &w->workers[i] : NULL;
        const struct member *m = k != NULL ? client_member(k->c.client)
                                           : shard_member(shard_of(w, i - w->n_workers));
        const struct stage_server *x = k != NULL ? NULL
                                                 : &w->stage.servers[i - w->n_workers];
        // A server that the old scheduler told to leave ends without an error.
        if ((k != NULL ? k->c.dead : !stage_is_there(x)) ||
            (member_ended(m, &why) && (why.code != 0 || (x != NULL && x->leaves))))
            continue;
        return m;
    }
    return NULL;
}

// Checks that after a restart of the scheduler every node ends with an error.
static void check_that_all_end(struct world *w)
{
    const struct member *m;
    uint64_t until = now_in(w) + 300 * SECOND;
    while ((m = member_that_goes_on(w)) != NULL)
        if (!stage_step(&w->stage, until)) {
            failed(w, "node %u goes on with a scheduler that was started again",
                   member_id(m));
            return;
        }
}

// Lets simulated time pass while all processes are idle.
static void rest(struct world *w)
{
    for (uint64_t end = now_in(w) + 20 * SECOND; stage_let(&w->stage, end);)
        stage_check_living(&w->stage);
}

// Lets all living processes finish their work, and removes the remains of dead processes
// from the simulation.
static void do_all(struct world *w)
{
    uint64_t until = has_chains() ? stage_draw_calm(&w->stage) : 600 * SECOND;
    char who[256];
    bool quiet = false;
    for (;;) {
        while (!is_everybody(w, has_finished) || world_saves(w) ||
               !partings_done(&w->partings))
            if (!stage_step(&w->stage, until)) {
                failed(w, "the run hangs:%s", who_has_not_finished(w, who, sizeof(who)));
                return;
            }
        if (w->stage.restarted)
            check_that_all_end(w);
        if (w->stage.restarted || w->repeated || (quiet && !w->identities))
            return;
        if (!quiet) {
            rest(w);
            sim_set_faults(w->stage.sim, 0, 0, 0, 0);
        }
        quiet = true;
        for (uint64_t end = now_in(w) + 40 * SECOND;
             !deaths_are_known(w) && stage_step(&w->stage, end);)
            ;
        repeat_for_the_dead(w);
        if (!w->repeated)
            return;
    }
}

// Lets all processes leave the cluster.
static void leave(struct world *w)
{
    struct err why = {0};
    // The servers of a world do not leave, so the scheduler ends without them after a minute. A
    // scheduler that dies in this minute or after it waits again for those that still beat.
    uint64_t until = now_in(w) + (w->stage.o->keeps ? 400 : 120) * SECOND;
    // including the client of a ghost that was not declared dead
    for (uint32_t i = 0; i < w->n_workers; i++)
        if (!w->workers[i].c.dead || w->workers[i].c.ghost) {
            member_leave(client_member(w->workers[i].c.client), NULL);
            van_wake(w->workers[i].c.van);
        }
    while (!stage_finished(&w->stage, &why))
        if (!stage_let(&w->stage, until)) {
            failed(w, "the scheduler does not finish");
            return;
        }
    for (uint32_t i = 0; i < w->stage.n_servers; i++)
        while (!w->stage.servers[i].dead && !shard_finished(shard_of(w, i), &why))
            if (!stage_let(&w->stage, until)) {
                failed(w, "server %u does not finish", i);
                return;
            }
}

static void count(void *ctx, uint64_t *counts)
{
    const struct world *w = ctx;
    for (uint32_t i = 0; i < w->n_workers; i++)
        counts[REFUSED] += client_stats(w->workers[i].c.client).refused;
    counts[RESENT] += stage_resent(&w->stage);
    counts[DEATHS] += w->stage.deaths;
    counts[EVENTS] += w->stage.events;
    counts[KEPT] += w->stage.restarts.deaths;
    counts[OLD] += w->stage.restarts.replaced;
    counts[MOVES] += w->n_moves + changes_moved(&w->changes);
    counts[HEARD] += w->heard;
    counts[SERVERS] += w->changes.joined + w->changes.drained + w->changes.died;
    counts[STRANGE] += sim_strangers_frames(w->stage.strangers);
    const struct scheduler *s = w->stage.scheduler;
    uint64_t epoch = s != NULL ? scheduler_roster(s)->epoch : 0;
    if (epoch > 0 && !w->stage.restarted && !w->stage.o->keeps)
        counts[TOGETHER] += s->moving.done - (epoch - 1);
    counts[DIED] += w->changes.died;
    counts[SAVES] += w->saver != NULL ? sim_saver_saves(w->saver) : 0;
    counts[POLICIES] += w->n_policies;
    counts[PARTINGS] += w->partings.made;
}

static void finish(struct world *w)
{
    stage_settle(&w->stage, 2 * SECOND);
    if (!changes_end(&w->changes))
        return;
    // Servers need some time to notice a link that fell silent, over which they pass records on.
    stage_settle(&w->stage, (has_chains() ? 60 : 2) * SECOND);
    if (w->stage.failure.code == 0)
        world_check_rows(w);
    if (w->stage.failure.code == 0 && has_chains())
        world_check_policies(w);
    if (w->stage.failure.code == 0)
        leave(w);
}

static void work(void *ctx)
{
    struct world *w = ctx;
    do_all(w);
    if (!w->stage.restarted)
        finish(w);
}

static void check_counts(const uint64_t *counts, uint64_t seeds)
{
    assert_true(counts[PUSHES] > 10 * seeds && counts[PULLS] > 5 * seeds);
    assert_true(counts[DEATHS] > seeds / 10 && counts[REPEATED] > seeds / 10);
    assert_true(counts[MOVES] > seeds && counts[REFUSED] > seeds / 10);
    assert_true(counts[RESENT] > seeds);
    assert_true(counts[STRANGE] > 10 * seeds && counts[HEARD] > 5 * seeds);
    assert_true(counts[SERVERS] > seeds && counts[TOGETHER] > seeds);
    assert_true(counts[LATE] > seeds / 20 && counts[RESTARTS] > seeds / 20);
}

static void check_chains(const uint64_t *counts, uint64_t seeds)
{
    assert_true(counts[PUSHES] > 10 * seeds && counts[PULLS] > 5 * seeds);
    assert_true(counts[DEATHS] > seeds / 10 && counts[MOVES] > seeds);
    assert_true(counts[SERVERS] > seeds && counts[DIED] > seeds / 4);
    assert_true(counts[SAVES] > seeds / 4 && counts[POLICIES] > 5 * seeds);
    assert_true(counts[PARTINGS] > seeds);
}

int main(int argc, char **argv)
{
    static const struct stage_world world = {.bytes = sizeof(struct world),
                                             .stream = CHOICE,
                                             .open = world_open,
                                             .act = act,
                                             .work = work,
                                             .count = count,
                                             .parts = true,
                                             .close = world_close};
    static const struct seeds cluster = {
        .program = "test_sim_cluster",
        .bugs = {{WITHOUT_REPEAT_CHECK},
                 {WITHOUT_EPOCH_CHECK},
                 {ACKNOWLEDGE_BEFORE_APPLY},
                 {WITHOUT_LATE_WORKERS, .near = 290},
                 {WITHOUT_IDENTITY},
                 {WITHOUT_SIGNS},
                 {WITHOUT_REDIAL},
                 {WITHOUT_SILENCE_WATCH},
                 {WITHOUT_SESSION_CHECK},
                 {WITHOUT_FORGIVING},
                 {WITHOUT_ANSWERS, .near = 520},
                 {WITHOUT_PARTITION_COVERAGE},
                 {WITHOUT_EXACT_EPOCHS},
                 {WITHOUT_POSITIONS},
                 {WITHOUT_LAST_PUSHES},
                 {WITHOUT_STOPS}},
        .state_bugs = {{ANSWERED_BEFORE_DURABLE},
                       {WITHOUT_ROW_WANTED},
                       {WITHOUT_ROW_MOVES},
                       {WITHOUT_GENERATION},
                       {WITHOUT_ROW_CLUSTER},
                       {WITHOUT_ROW_NODE},
                       {WITHOUT_ROW_OWNERS},
                       {WITHOUT_ROW_PROCESS}},
        .counted = {"pushes", "pulls", "moves", "deaths", "pushes repeated for the dead",
                    "messages sent again", "refused", "late workers",
                    "schedulers started again", "schedulers that came back",
                    "schedulers that were replaced", "frames of strangers", "events",
                    "messages of programs", "servers that came or went",
                    "partitions that changed their owner together"},
        .world = &world,
        // Seeds with drained servers whose link to the scheduler is dead, with a link on
        // which only the client is heard, and with a scheduler that is stopped for a short
        // time while it waits for a sign of life.
        .kept = {11408, 14723, 20180, 5055453},
        .seeds = 1000,
        .state_seeds = 500,
        // Seeds in which attempts to connect hang while the scheduler is away.
        .state_kept = {1166, 4586},
        .bug_seeds = 1000,
        .check = check_counts,
    };
    static const struct seeds chains = {
        .program = "test_sim_chains",
        .bugs = {{WITHOUT_REPEAT_CHECK}, {WITHOUT_CHAIN_ANSWERS}, {WITHOUT_CHAIN_PARTS}},
        .state_bugs = {{ANSWERED_BEFORE_DURABLE}},
        .counted = {"pushes",
                    "pulls",
                    "fills",
                    "deaths",
                    "pushes repeated for the dead",
                    "messages sent again",
                    "refused",
                    "late workers",
                    "schedulers started again",
                    "schedulers that came back",
                    "schedulers that were replaced",
                    "frames of strangers",
                    "events",
                    "messages of programs",
                    "servers that came or went",
                    "partitions that changed their owner together",
                    "servers that died",
                    "saves",
                    "requests about policies",
                    "partings"},
        .world = &world,
        // A seed in which all workers died during a save.
        .state_kept = {2001},
        .seeds = 500,
        .asan_seeds = 50,
        .round_seeds = 100,
        .state_seeds = 50,
        .bug_seeds = 1000,
        .check = check_chains,
    };
    return seeds_main(has_chains() ? &chains : &cluster, argc, argv);
}
