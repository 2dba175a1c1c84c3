// A cluster whose partitions have replicas, in a simulated network. Servers join, are
// drained and die, also servers that lead partitions, and the run goes on. Workers push
// integers into a table that adds them up, and pull. Some servers that lead partitions, and
// workers, do not hear from the scheduler that others lead them now. The test checks:
//
//   - at the end every row is the sum of the pushes that were acknowledged, and of some
//     that dead workers had in flight: each of those is applied in a partition as a whole
//     or not at all
//   - all members of a chain then have the same rows, and no other server has any
//   - the values of a pull have all pushes that were acknowledged before it was made, and
//     none that had not been made when it ended
//   - all members of a chain have had each day of the table once, which a client ends
//   - a save, with the saves that it builds on, has all pushes that were acknowledged before
//     it began, and none that had not been made when it ended
//   - no request of a living worker fails, and nothing hangs
//
// test_sim_unbacked is this world with a second table, of which only primaries have rows
// (setting replicas = 1). Workers push to both tables, and in some runs worker 0 drops the
// second one and makes it again. Either the first table is saved and has days, or the second
// one. While the second table exists, servers that lead partitions do not die. The test
// checks both tables as above, and also:
//
//   - at the end only the primaries have rows of the second table
//   - while it exists, no partition gets another primary
//   - in some runs a primary dies although the table exists: the run ends with an error that
//     names the lost partitions, and all pulls that were answered before are right
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "kit/test.h"
#include "rule/rule.h"
#include "sim/replicas.h"

enum {
    PUSHES,
    PULLS,
    FILLS,
    WORKERS_DIED,
    SERVERS_DIED,
    SERVERS,
    PROMOTED,
    CUTS,
    DROPPED,
    SAVES,
    SAVES_AGAIN,
    DAYS,
    KEPT,
    EVENTS,
    REMADE,
    LOST
};
static const char *const configs[TABLES] = {
    "name=sums;accessor=plain;dim=1;rule=sum;deltas=yes",
    "name=unbacked;accessor=plain;dim=1;rule=sum;deltas=yes;replicas=1"};
static const char *const names[TABLES] = {"sums", "unbacked"};
enum { CHOICE = 0x700, KEY }; // ids of random streams

static uint64_t draw(struct world *w, uint64_t n)
{
    return stage_draw(&w->stage, n);
}

static uint32_t partition_of(const struct world *w, uint32_t key)
{
    return roster_partition(BITS, WIRE_SPACE_SPARSE, w->keys[key]);
}

static int open_server(void *ctx, bool late, struct err *e)
{
    struct world *w = ctx;
    struct shard_options o = {.member.late = late,
                              .slice_ns = 1, // the shortest slices
                              .save_timeout_ns = 200 * SECOND,
                              .roots = w->roots,
                              .without_threads = true};
    return stage_open_server(&w->stage, &o, NULL, NULL, e);
}

static int open_worker(struct world *w, uint32_t i, struct err *e)
{
    struct worker *k = &w->workers[i];
    k->world = w;
    k->pace = 10 * MS + draw(w, 400 * MS);
    k->n_ops = 10 + (uint32_t)draw(w, MAX_OPS - 10);
    k->c.dies_at = i > 0 && draw(w, 3) == 0 ? draw(w, 4 * SECOND) : VAN_NEVER;
    struct client_options o = {.resend_ns = 20 * MS + draw(w, 80 * MS),
                               .cache_keys = draw(w, 2) == 0};
    return stage_open_client(&w->stage, &k->c, WIRE_WORKER, i, &o, e);
}

// A save that builds on others was loaded.
static void check_save(void *ctx, struct store *in)
{
    struct world *w = ctx;
    for (uint32_t i = 0; i < KEYS; i++) {
        const float *row = store_row(in, w->keys[i], NULL);
        int64_t is = row != NULL ? (int64_t)*row : 0;
        if (is < w->saved[i] || is > w->made[w->saves_of][i])
            stage_failed(&w->stage,
                         "a save has %lld of key %u (partition %u): not in %lld..%lld",
                         (long long)is, i, partition_of(w, i), (long long)w->saved[i],
                         (long long)w->made[w->saves_of][i]);
    }
}

static void begin_save(void *ctx)
{
    struct world *w = ctx;
    memcpy(w->saved, w->acknowledged[w->saves_of], sizeof(w->saved));
}

// Nothing is saved while a planted bug is searched for, so the seeds that find one do not
// depend on the saver.
static int open_saver(struct world *w, struct err *e)
{
    if (w->stage.o->bug != NO_BUG)
        return 0;
    struct sim_saver_options o = {.seed = w->stage.o->seed + w->stage.lives,
                                  .dir = w->stage.o->dir,
                                  .config = configs[w->saves_of],
                                  .table = TABLE + w->saves_of,
                                  .partition_bits = BITS,
                                  .bugs = stage_bugs(&w->stage),
                                  .deltas = true,
                                  .begins = begin_save,
                                  .check = check_save,
                                  .ctx = w};
    return sim_saver_open(&w->saver, w->stage.sim, &o, e);
}

static void let_save(struct world *w, bool made)
{
    struct err e;
    made &= w->saves_of == SUMS || w->life.state == MADE;
    if (w->saver != NULL && !stage_is_down(&w->stage) &&
        sim_saver_step(w->saver, w->stage.scheduler, made, &e) != 0)
        stage_failed(&w->stage, "%s", e.text);
}

// Prints the lines that the scheduler logs, with --trace.
static void print_line(void *ctx, const char *line)
{
    const struct stage *s = ctx;
    printf("%14.6f ms  scheduler: %s\n", (double)sim_now(s->sim) * 1e-6, line);
}

static int world_open(void *ctx, struct err *e)
{
    struct world *w = ctx;
    for (uint64_t i = 0; i < KEYS; i++)
        w->keys[i] = random_u64(0, KEY, i); // the same keys for all seeds
    uint32_t servers = 2 + (uint32_t)draw(w, STAGE_SERVERS - 1);
    w->n_workers = 1 + (uint32_t)draw(w, MAX_WORKERS);
    struct scheduler_options o = sim_scheduler(servers, w->n_workers, BITS);
    o.replicas = 2 + (uint32_t)draw(w, 2);
    if (w->stage.o->trace) {
        o.log = print_line;
        o.log_ctx = &w->stage;
    }
    w->changes = (struct changes){.stage = &w->stage,
                                  .open = open_server,
                                  .world = w,
                                  .next = draw(w, 300 * MS),
                                  .pace = 400 * MS,
                                  .most = MAX_CHANGES,
                                  .may_die = life_may_die};
    life_open(w);
    w->partings.stage = &w->stage;
    struct roots_options below = {.save = w->stage.o->dir};
    TRY(roots_open(&w->roots, &below, e));
    TRY(stage_open_scheduler(&w->stage, &o, e));
    for (uint32_t i = 0; i < servers; i++)
        TRY(open_server(w, false, e));
    for (uint32_t i = 0; i < w->n_workers; i++)
        TRY(open_worker(w, i, e));
    struct sim_seen seen = {TABLE, 1, w->keys[0]};
    TRY(stage_open_strangers(&w->stage, &seen, e));
    if (w->stage.o->bug == NO_BUG || w->stage.o->bug == WITHOUT_ADMIN_NUMBERS)
        w->days = days_open(&w->workers[0].c, TABLE + w->saves_of);
    return open_saver(w, e);
}

static void world_close(void *ctx)
{
    struct world *w = ctx;
    sim_saver_close(w->saver);
    w->saver = NULL;
    stage_close(&w->stage);
    roots_close(w->roots);
    sim_remove_saves(w->stage.o->dir);
}

// ---------------------------------------------------------------- workers

void world_make_table(struct worker *k, uint32_t table)
{
    struct stage *s = &k->world->stage;
    struct table_config t = table_config_defaults();
    if (table_config_parse(&t, configs[table], &s->said) != 0)
        stage_failed(s, "%s", s->said.text);
    k->making[table] = stage_begun(&k->c,
                                   client_table(k->c.client, TABLE + table, &t, &s->said),
                                   "making the table");
}

static void let_table_be_made(struct worker *k)
{
    if (!member_ready(client_member(k->c.client)))
        return;
    if (k->making[SUMS] == 0)
        world_make_table(k, SUMS);
    else
        k->made = stage_is_over(&k->c, &k->making[SUMS], "making the table");
}

static void choose(struct worker *k, struct op *op)
{
    struct world *w = k->world;
    uint64_t rate = 1 + draw(w, 6), first = draw(w, KEYS);
    op->table = k->knows == w->life.number && life_in_use(w) ? (uint32_t)draw(w, 2)
                                                             : SUMS;
    op->push = draw(w, 3) != 0;
    op->also_pull = op->push && draw(w, 4) == 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        if (draw(w, 8) >= rate)
            continue;
        uint32_t key = (uint32_t)(first + i) % KEYS;
        op->which[op->n] = key;
        op->keys[op->n] = w->keys[key];
        op->values[op->n] = (float)(1 + draw(w, 500));
        op->least[op->n++] = w->acknowledged[op->table][key];
    }
}

static bool is_cut(const struct worker *k)
{
    return k->world->cut_worker != NULL && k->world->cut_worker == k->c.van;
}

// A worker that is cut off pulls single keys of a partition that the server led which is
// cut off, too; the other workers push them.
static void choose_cut(struct worker *k, struct op *op)
{
    struct world *w = k->world;
    uint32_t key = (uint32_t)draw(w, KEYS);
    while (partition_of(w, key) != w->cut_partition)
        key = (key + 1) % KEYS;
    op->which[0] = key;
    op->keys[0] = w->keys[key];
    op->least[0] = w->acknowledged[SUMS][key];
    op->values[0] = (float)(1 + draw(w, 500));
    op->push = !is_cut(k);
    op->n = 1;
}

static void begin_op(struct worker *k, struct op *op)
{
    struct world *w = k->world;
    if (op->push) {
        struct client_push p = {.table = TABLE + op->table,
                                .keys = op->keys,
                                .n = op->n,
                                .values = op->values,
                                .op = WIRE_GRADIENT,
                                .rate = 1,
                                .pass = 1,
                                .examples = 1,
                                .pulled = op->also_pull ? op->pulled : NULL};
        for (size_t i = 0; i < op->n; i++)
            w->made[op->table][op->which[i]] += (int64_t)op->values[i];
        op->ts = stage_begun(&k->c, client_push(k->c.client, &p, &w->stage.said),
                             "a push");
    } else {
        struct client_pull p = {.table = TABLE + op->table,
                                .keys = op->keys,
                                .n = op->n,
                                .values = op->pulled};
        op->ts = stage_begun(&k->c, client_pull(k->c.client, &p, &w->stage.said),
                             "a pull");
    }
    w->stage.o->counts[op->push ? PUSHES : PULLS]++;
    k->open++;
}

static void check_pulled(const struct worker *k, const struct op *op)
{
    struct world *w = k->world;
    for (size_t i = 0; i < op->n; i++) {
        int64_t got = (int64_t)op->pulled[i], most = w->made[op->table][op->which[i]];
        int64_t least = op->least[i] + (op->push ? (int64_t)op->values[i] : 0);
        if (got < least || got > most)
            stage_failed(
                &w->stage,
                "worker %u pulled %lld of key %u (partition %u) of table %s: not "
                "in %lld..%lld",
                k->c.number, (long long)got, op->which[i], partition_of(w, op->which[i]),
                names[op->table], (long long)least, (long long)most);
    }
}

void world_end_op(struct worker *k, struct op *op)
{
    struct world *w = k->world;
    k->open--;
    op->acknowledged = op->push;
    for (size_t i = 0; i < op->n && op->push; i++)
        w->acknowledged[op->table][op->which[i]] += (int64_t)op->values[i];
    if (!op->push || op->also_pull)
        check_pulled(k, op);
}

static bool has_finished(const struct worker *k)
{
    return k->c.dead || (k->next == k->n_ops && k->open == 0);
}

static bool has_finished_all(const struct world *w)
{
    uint32_t i = 0;
    while (i < w->n_workers && has_finished(&w->workers[i]))
        i++;
    return i == w->n_workers;
}

static void let_work(struct worker *k)
{
    struct world *w = k->world;
    if (!stage_acts(&k->c) || has_finished(k))
        return;
    if (!k->made) {
        let_table_be_made(k);
        return;
    }
    life_let_know(k);
    for (uint32_t i = 0; i < k->next; i++)
        if (stage_is_over(&k->c, &k->ops[i].ts, k->ops[i].push ? "a push" : "a pull"))
            world_end_op(k, &k->ops[i]);
    uint64_t now = sim_now(w->stage.sim);
    if (k->next < k->n_ops && k->open < IN_FLIGHT && now >= k->next_at) {
        k->next_at = now + draw(w, w->cut_worker != NULL ? 200 * MS : k->pace);
        if (w->cut_worker != NULL)
            choose_cut(k, &k->ops[k->next]);
        else
            choose(k, &k->ops[k->next]);
        begin_op(k, &k->ops[k->next++]);
    }
}

// ---------------------------------------------------------------- the run

// Returns whether the scheduler has declared all dead servers dead.
bool world_deaths_are_known(const struct world *w)
{
    if (stage_is_down(&w->stage))
        return false;
    for (uint32_t i = 0; i < w->stage.n_servers; i++) {
        const struct stage_server *x = &w->stage.servers[i];
        const struct sched_node *n = scheduler_node_of(w->stage.scheduler,
                                                       member_id(shard_member(x->shard)));
        if (x->dead && !x->ghost && n != NULL && n->n.alive)
            return false;
    }
    return true;
}

static void count_promotions(struct world *w)
{
    if (stage_is_down(&w->stage))
        return;
    // A scheduler that died early continues without a placement.
    const struct roster *r = &w->stage.scheduler->roster;
    if (r->epoch == 0 || r->epoch == w->epoch)
        return;
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        uint32_t owner = r->owners[WIRE_SPACE_SPARSE][p];
        w->promoted += w->epoch != 0 && owner != w->owners[p];
        if (w->life.watched && owner != w->owners[p])
            stage_failed(&w->stage,
                         "partition %u has another primary, but a table has one replica",
                         p);
        w->owners[p] = owner;
    }
    w->epoch = r->epoch;
}

static bool has_keys(const struct world *w, uint32_t partition)
{
    uint32_t key = 0;
    while (key < KEYS && partition_of(w, key) != partition)
        key++;
    return key < KEYS;
}

// Returns whether the server leads a partition by its own roster, but not by the
// scheduler's.
static bool is_replaced(const struct world *w, const struct stage_server *x,
                        uint32_t *ret_partition)
{
    const struct roster *r = &w->stage.scheduler->roster;
    const struct member *m = shard_member(x->shard);
    const struct roster *own = member_roster(m);
    if (!stage_is_there(x) || own->epoch == 0 || own->epoch >= r->epoch)
        return false;
    for (uint32_t p = 0; p < PARTITIONS; p++)
        if (own->owners[WIRE_SPACE_SPARSE][p] == member_id(m) &&
            r->owners[WIRE_SPACE_SPARSE][p] != member_id(m) && has_keys(w, p)) {
            *ret_partition = p;
            return true;
        }
    return false;
}

static void end_cut(struct world *w)
{
    struct stage *s = &w->stage;
    if (w->cut_server == NULL)
        return;
    sim_partition(s->sim, s->scheduler_van, w->cut_server, false);
    sim_partition(s->sim, s->scheduler_van, w->cut_worker, false);
    w->cut_server = w->cut_worker = NULL;
    w->next_cut = sim_now(s->sim) + SECOND / 4;
}

static bool can_be_cut(const struct worker *k)
{
    return k->made && stage_acts(&k->c) && k->next + 2 < k->n_ops && k->open < IN_FLIGHT;
}

// Cuts off from the scheduler a server that was just replaced, and a worker that will go on
// asking it. In some runs the server is stopped during the cut, after it has read its clock.
static void cut(struct world *w, struct stage_server *x)
{
    struct stage *s = &w->stage;
    uint64_t now = sim_now(s->sim);
    struct worker *k = &w->workers[draw(w, w->n_workers)];
    for (uint32_t i = 1; i < w->n_workers && !can_be_cut(k); i++)
        k = &w->workers[(k - w->workers + 1) % w->n_workers];
    if (!can_be_cut(k) || sim_is_stopped(x->van) || w->n_workers == 1)
        return;
    w->cut_server = x->van;
    w->cut_worker = k->c.van;
    k->next_at = now + 300 * MS + draw(w, 300 * MS);
    w->cut_until = now + 400 * MS + draw(w, 1600 * MS);
    w->cuts++;
    sim_partition(s->sim, s->scheduler_van, w->cut_server, true);
    sim_partition(s->sim, s->scheduler_van, w->cut_worker, true);
    if (draw(w, 2) == 0 || now < x->next_stop)
        return;
    uint64_t until = now + 500 * MS + draw(w, 900 * MS);
    x->next_stop = until + 3 * SECOND;
    w->cut_until = until + draw(w, 200 * MS);
    sim_process_stop_reading(x->process, s->sim, until);
}

// A scheduler that dies and comes back is not cut off from anybody, nor from a server whose
// heartbeats may be silent: the server would rightly count as dead.
static void cut_somebody(struct world *w)
{
    struct stage *s = &w->stage;
    if (s->o->keeps || sim_has_silences(s->o->seed))
        return;
    if (w->cut_server != NULL && sim_now(s->sim) >= w->cut_until)
        end_cut(w);
    for (uint32_t i = 0; i < s->n_servers && sim_now(s->sim) >= w->next_cut; i++)
        if (w->cut_server == NULL && !s->calm &&
            is_replaced(w, &s->servers[i], &w->cut_partition))
            cut(w, &s->servers[i]);
}

static void act(void *ctx)
{
    struct world *w = ctx;
    bool made = false;
    if (life_has_lost_rows(w))
        return;
    life_let(w);
    for (uint32_t i = 0; i < w->n_workers; i++) {
        struct worker *k = &w->workers[i];
        made |= k->made;
        if (k->made && !has_finished(k))
            stage_dies(&k->c);
        let_work(k);
    }
    if (made)
        changes_act(&w->changes);
    let_save(w, made);
    if (w->workers[0].made && (w->saves_of == SUMS || w->life.state == MADE))
        days_let(&w->days);
    count_promotions(w);
    w->life.watched = w->life.state == MADE;
    life_kill_primary(w);
    cut_somebody(w);
    partings_act(&w->partings, has_finished_all(w));
}

static bool is_done(const struct world *w)
{
    if (w->life.kills_at != VAN_NEVER)
        return w->life.ended;
    if (w->life.state == MAKING || w->life.state == GOING)
        return false;
    return w->changes.next == VAN_NEVER && partings_done(&w->partings) &&
           has_finished_all(w) && (w->saver == NULL || sim_saver_is_done(w->saver)) &&
           days_are_over(&w->days);
}

// Lets all processes leave the cluster.
static void leave(struct world *w)
{
    struct err why = {0};
    uint64_t until = sim_now(w->stage.sim) + 400 * SECOND;
    for (uint32_t i = 0; i < w->n_workers; i++)
        if (!w->workers[i].c.dead || w->workers[i].c.ghost) {
            member_leave(client_member(w->workers[i].c.client), NULL);
            van_wake(w->workers[i].c.van);
        }
    while (!stage_finished(&w->stage, &why))
        if (!stage_let(&w->stage, until)) {
            stage_failed(&w->stage, "the scheduler does not finish");
            return;
        }
}

// ---------------------------------------------------------------- the rows

// The pushes of dead workers that may be in the rows of a partition.
struct loose {
    uint32_t partition, n;
    const struct op *ops[MAX_LOOSE];
    int64_t left[KEYS]; // the rows minus the acknowledged pushes
};

static bool is_a_sum(const struct world *w, struct loose *x, uint32_t from)
{
    bool nothing = true;
    for (uint32_t k = 0; k < KEYS; k++) {
        nothing &= x->left[k] == 0;
        if (x->left[k] < 0)
            return false;
    }
    for (uint32_t i = from; i < x->n && !nothing; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const struct op *op = x->ops[i];
            for (size_t j = 0; j < op->n; j++)
                if (partition_of(w, op->which[j]) == x->partition)
                    x->left[op->which[j]] += sign * (int64_t)op->values[j];
            if (sign < 0 && is_a_sum(w, x, i + 1))
                return true;
        }
    return nothing;
}

static void check_sums(struct world *w, struct shard *s, uint32_t table,
                       uint32_t partition)
{
    struct loose x = {.partition = partition};
    for (uint32_t i = 0; i < w->n_workers; i++)
        for (uint32_t j = 0; j < w->workers[i].next && w->workers[i].c.dead; j++) {
            const struct op *op = &w->workers[i].ops[j];
            if (op->push && op->table == table && !op->acknowledged && !op->was_dropped)
                x.ops[x.n++] = op;
        }
    for (uint32_t k = 0; k < KEYS; k++) {
        const float *row = shards_row(s, TABLE + table, w->keys[k]);
        if (partition_of(w, k) == partition)
            x.left[k] = (row != NULL ? (int64_t)*row : 0) - w->acknowledged[table][k];
    }
    if (!is_a_sum(w, &x, 0))
        stage_failed(
            &w->stage,
            "partition %u of table %s: the sums are not those of the acknowledged "
            "pushes and of some of the %u pushes that dead workers had in flight",
            partition, names[table], x.n);
}

// Checks that a server has the rows of the partition that the primary has, or no row.
static void check_server(struct world *w, uint32_t server, struct shard *primary,
                         uint32_t table, uint32_t partition)
{
    struct shard *s = w->stage.servers[server].shard;
    bool member = roster_is_member(&w->stage.scheduler->roster, WIRE_SPACE_SPARSE,
                                   partition, member_id(shard_member(s)));
    for (uint32_t k = 0; k < KEYS; k++) {
        if (partition_of(w, k) != partition)
            continue;
        const float *row = shards_row(s, TABLE + table, w->keys[k]);
        bool has = table == SUMS ? member : s == primary;
        const float *good = has ? shards_row(primary, TABLE + table, w->keys[k]) : NULL;
        if ((row != NULL) != (good != NULL) || (row != NULL && *row != *good))
            stage_failed(&w->stage,
                         "key %u of partition %u of table %s is %lld on %s server %u", k,
                         partition, names[table], row != NULL ? (long long)*row : -1,
                         member ? "a member's" : "another", server);
    }
    if (member && table == w->saves_of && w->days.client != NULL)
        days_check(&w->days, s, partition);
}

static void check_rows(struct world *w)
{
    const struct roster *r = &w->stage.scheduler->roster;
    for (uint32_t p = 0; p < PARTITIONS && r->epoch != 0; p++) {
        struct shard *primary = NULL;
        for (uint32_t i = 0; i < w->stage.n_servers; i++)
            if (stage_is_there(&w->stage.servers[i]) &&
                member_id(shard_member(w->stage.servers[i].shard)) ==
                    r->owners[WIRE_SPACE_SPARSE][p])
                primary = w->stage.servers[i].shard;
        if (primary == NULL) {
            stage_failed(&w->stage, "partition %u has no living owner", p);
            return;
        }
        for (uint32_t table = SUMS; table < TABLES; table++) {
            check_sums(w, primary, table, p);
            for (uint32_t i = 0; i < w->stage.n_servers; i++)
                if (stage_is_there(&w->stage.servers[i]))
                    check_server(w, i, primary, table, p);
        }
    }
}

static void work(void *ctx)
{
    struct world *w = ctx;
    uint64_t until = stage_draw_calm(&w->stage);
    while (!is_done(w))
        if (!stage_step(&w->stage, until)) {
            stage_failed(&w->stage, "the run hangs");
            return;
        }
    end_cut(w);
    if (w->life.ended) {
        leave(w);
        (void)life_has_lost_rows(w);
        return;
    }
    stage_settle(&w->stage, 2 * SECOND);
    for (uint64_t end = sim_now(w->stage.sim) + 200 * SECOND;
         !world_deaths_are_known(w) && stage_let(&w->stage, end);)
        continue;
    if (!changes_end(&w->changes))
        return;
    // Servers need some time to notice a link that fell silent, over which they pass pushes on.
    stage_settle(&w->stage, 60 * SECOND);
    for (uint64_t end = sim_now(w->stage.sim) + 200 * SECOND;
         stage_is_down(&w->stage) && stage_let(&w->stage, end);)
        continue; // the scheduler has died in that time
    if (w->stage.failure.code == 0 && w->stage.scheduler->phase == SCHEDULER_RUNNING)
        check_rows(w);
    else
        stage_failed(&w->stage, "the run has ended: %s", w->stage.scheduler->end.text);
    if (w->stage.failure.code == 0)
        leave(w);
}

static void count(void *ctx, uint64_t *counts)
{
    const struct world *w = ctx;
    counts[WORKERS_DIED] += w->stage.deaths;
    counts[EVENTS] += w->stage.events;
    counts[KEPT] += w->stage.restarts.deaths;
    counts[FILLS] += changes_moved(&w->changes);
    counts[SERVERS_DIED] += w->changes.died;
    counts[SERVERS] += w->changes.joined + w->changes.drained;
    counts[PROMOTED] += w->promoted;
    counts[CUTS] += w->cuts;
    if (w->stage.scheduler != NULL) // with a planted bug, it may not have come back
        counts[DROPPED] += w->stage.scheduler->moving.dropped;
    counts[SAVES] += w->saver != NULL ? sim_saver_saves(w->saver) : 0;
    counts[DAYS] += w->days.ended;
    counts[REMADE] += w->life.number > 1 ? w->life.number - 1 : 0;
    if (w->life.ended)
        counts[LOST] += strstr(w->stage.scheduler->end.text, " of table 'unbacked'") !=
                        NULL;
    counts[SAVES_AGAIN] += w->saver != NULL ? sim_saver_again(w->saver) : 0;
}

static void check_counts(const uint64_t *counts, uint64_t seeds)
{
    assert_true(counts[PUSHES] > 10 * seeds && counts[PULLS] > 5 * seeds);
    assert_true(counts[FILLS] > 10 * seeds && counts[PROMOTED] > seeds);
    assert_true(counts[SERVERS_DIED] > seeds / 2 && counts[SERVERS] > seeds);
    assert_true(counts[WORKERS_DIED] > seeds / 10);
    assert_true(counts[SAVES] > seeds / 3 && counts[DAYS] > seeds / 2);
    assert_true(counts[CUTS] > seeds / 10 || counts[KEPT] > 0);
}

static void check_unbacked_counts(const uint64_t *counts, uint64_t seeds)
{
    assert_true(counts[PUSHES] > 10 * seeds && counts[PULLS] > 5 * seeds);
    assert_true(counts[FILLS] > 5 * seeds && counts[SERVERS_DIED] > seeds / 10);
    assert_true(counts[REMADE] > seeds / 2 && counts[LOST] > seeds / 40);
    assert_true(counts[SAVES] > seeds / 5 && counts[DAYS] > seeds / 4);
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
    static const struct seeds replicas = {
        .program = "test_sim_replicas",
        .bugs = {{WITHOUT_REPEAT_CHECK},
                 {WITHOUT_EPOCH_CHECK},
                 {ACKNOWLEDGE_BEFORE_APPLY},
                 {WITHOUT_CHAIN_ANSWERS},
                 {WITHOUT_LEASES},
                 {WITHOUT_FRESH_CLOCK},
                 {WITHOUT_TAIL, .near = 30},
                 {WITHOUT_FILLED, .near = 125},
                 {WITHOUT_RECORD_POSITIONS},
                 {WITHOUT_RECORD_REPEATS},
                 {WITHOUT_ADMIN_NUMBERS}},
        .state_bugs = {{ANSWERED_BEFORE_DURABLE},
                       {WITHOUT_ROW_OWNERS},
                       {WITHOUT_ROW_MOVES},
                       {WITHOUT_ROW_WANTED}},
        .counted = {"pushes", "pulls", "fills", "workers that died", "servers that died",
                    "servers that joined or were drained", "partitions with a new owner",
                    "servers that did not hear that they were replaced",
                    "replicas that had to leave chains", "saves",
                    "saves that began again", "days", "schedulers that came back",
                    "events", "unbacked tables that were made again",
                    "runs that a killed primary has ended"},
        .world = &world,
        .seeds = 500,
        .asan_seeds = 50,
        .round_seeds = 100,
        .state_seeds = 50,
        .bug_seeds = 1000,
        .check = check_counts,
    };
    struct seeds unbacked = replicas;
    unbacked.program = "test_sim_unbacked";
    memset(unbacked.bugs, 0, sizeof(unbacked.bugs));
    memset(unbacked.state_bugs, 0, sizeof(unbacked.state_bugs));
    unbacked.bugs[0].bug = WITHOUT_KEPT_PRIMARIES;
    unbacked.state_bugs[0].bug = WITHOUT_KEPT_PRIMARIES;
    unbacked.seeds = 100;
    unbacked.asan_seeds = 40;
    unbacked.state_seeds = 20;
    unbacked.check = check_unbacked_counts;
    return seeds_main(REPLICAS_UNBACKED ? &unbacked : &replicas, argc, argv);
}
