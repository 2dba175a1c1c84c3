// See world.h. The harness wraps the handlers of shards, for one thing only: when the
// placement moves a partition, the shard that loses it hands over its rows in the moment
// in which it learns of that, and the one that gets it learns of it afterwards.
//
// SPDX-License-Identifier: Apache-2.0
#include "sim/world.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "rule/rule.h"
#include "sim/world_internal.h"

static const char *const bug_names[BUGS] = {
    "none",
    "without-repeat-check",
    "without-epoch-check",
    "acknowledge-before-apply",
    "without-late-workers",
    "without-identity",
    "without-signs",
    "without-redial",
    "without-silence-watch",
    "without-session-check",
};

const char *world_bug_name(enum world_bug bug)
{
    return bug_names[bug];
}

static uint64_t draw(struct world *w, uint64_t n)
{
    return random_below(w->seed, CHOICE, w->draws++, n);
}

static bool one_in(struct world *w, uint64_t n)
{
    return draw(w, n) == 0;
}

// Moves.

static struct server *server_of(struct world *w, uint32_t node)
{
    for (uint32_t i = 0; i < w->n_servers; i++)
        if (member_id(shard_member(w->servers[i].shard)) == node)
            return &w->servers[i];
    return NULL;
}

static bool all_know(const struct world *w, uint64_t epoch)
{
    for (uint32_t i = 0; i < w->n_servers; i++)
        if (member_roster(shard_member(w->servers[i].shard))->epoch != epoch)
            return false;
    return true;
}

static bool is_table_made(const struct world *w)
{
    bool made = false;
    for (uint32_t i = 0; i < w->n_workers; i++)
        made |= w->workers[i]->made;
    return made;
}

// Another placement by the scheduler; one move at a time.
static void begin_move(struct world *w)
{
    struct roster *r = &w->scheduler->roster;
    if (w->n_servers < 2 || w->move.on || !is_table_made(w) || r->epoch == 0 ||
        !all_know(w, r->epoch) || w->scheduler->phase != SCHEDULER_RUNNING)
        return;
    w->move.partition = (uint32_t)draw(w, PARTITIONS);
    w->move.from = server_of(w, r->owners[WIRE_SPACE_SPARSE][w->move.partition])->number;
    w->move.to = (w->move.from + 1 + (uint32_t)draw(w, w->n_servers - 1)) % w->n_servers;
    struct server *to = &w->servers[w->move.to];
    r->owners[WIRE_SPACE_SPARSE][w->move.partition] = member_id(shard_member(to->shard));
    w->move.epoch = ++r->epoch;
    w->move.on = true;
    w->move.done = false;
    w->scheduler->changed = true;
    w->counts->moves++;
    van_wake(w->scheduler_van);
}

static void hand_over(struct world *w)
{
    struct server *from = &w->servers[w->move.from], *to = &w->servers[w->move.to];
    struct err e = {0};
    if (shard_move(from->shard, to->shard, w->move.partition, WIRE_SPACE_SPARSE, &e) != 0)
        failed(w, "moving partition %u: %s", w->move.partition, e.text);
    w->move.done = true;
}

static void server_on_message(void *ctx, van_link link, struct van_message *m,
                              uint64_t now)
{
    struct server *s = ctx;
    struct world *w = s->world;
    bool moves = m->type == MSG_ROSTER && w->move.on && !w->move.done &&
                 m->m->roster.epoch >= w->move.epoch;
    if (moves && s->number == w->move.to)
        return; // as if it were lost
    s->inner.message(s->inner.ctx, link, m, now);
    const struct roster *r = member_roster(shard_member(s->shard));
    if (moves && s->number == w->move.from && r->epoch >= w->move.epoch)
        hand_over(w);
    if (w->move.on && w->move.done && all_know(w, w->move.epoch))
        w->move.on = false;
}

static void server_on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct server *s = ctx;
    if (s->inner.opened != NULL)
        s->inner.opened(s->inner.ctx, link, accepted, now);
}

static void server_on_closed(void *ctx, van_link link, const struct err *why,
                             uint64_t now)
{
    struct server *s = ctx;
    if (s->inner.closed != NULL)
        s->inner.closed(s->inner.ctx, link, why, now);
}

static uint64_t server_on_tick(void *ctx, uint64_t now)
{
    struct server *s = ctx;
    return s->inner.tick(s->inner.ctx, now);
}

// The cast.

static int open_scheduler(struct world *w, struct err *e)
{
    struct scheduler_options o = sim_scheduler(w->n_servers, w->n_workers, BITS);
    o.without_signs = w->o->bug == BUG_WITHOUT_SIGNS;
    if (w->restarted && one_in(w, 2)) // else its clock was set back
        o.session_base += SECOND;
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
    struct server *s = &w->servers[i];
    char name[32], address[VAN_ADDRESS_MAX];
    snprintf(name, sizeof(name), "server%u", i);
    snprintf(address, sizeof(address), "sim://server%u", i);
    struct shard_options o = {
        .member = sim_member(WIRE_SERVER, i, address),
        .without_session_check = w->o->bug == BUG_WITHOUT_SESSION_CHECK,
        .without_repeat_check = w->o->bug == BUG_WITHOUT_REPEAT_CHECK,
        .without_epoch_check = w->o->bug == BUG_WITHOUT_EPOCH_CHECK,
        .acknowledge_before_apply = w->o->bug == BUG_ACKNOWLEDGE_BEFORE_APPLY,
        .without_late_workers = w->o->bug == BUG_WITHOUT_LATE_WORKERS,
    };
    o.member.without_identity = w->o->bug == BUG_WITHOUT_IDENTITY;
    o.member.without_redial = w->o->bug == BUG_WITHOUT_REDIAL;
    s->world = w;
    s->number = i;
    TRY(shard_open(&s->shard, &o, e));
    s->inner = shard_handler(s->shard);
    struct van_handler h = {
        .ctx = s,
        .opened = server_on_opened,
        .message = server_on_message,
        .closed = server_on_closed,
        .tick = server_on_tick,
    };
    TRY(sim_van_open(&s->van, w->sim, name, &h, e));
    TRY(van_listen(s->van, address, address, e));
    shard_serve(s->shard, s->van, sim_now(w->sim));
    return sim_process_open(&s->process, w->sim, &o.member, s->van, w->seed, e);
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
    k->n_ops = w->mode == WIRE_SYNC ? 2 * w->batches : 4 + (uint32_t)draw(w, MAX_OPS - 4);
    k->dies_at = VAN_NEVER;
    k->dies_after = w->mode != WIRE_SYNC && one_in(w, 2) ? draw(w, 300 * MS) : VAN_NEVER;
    char name[32];
    snprintf(name, sizeof(name), "worker%u", i);
    struct client_options o = {
        .member = sim_member(WIRE_WORKER, i, ""),
        .connect_timeout_ns = 2 * SECOND,
        .request_timeout_ns = 300 * SECOND,
        .resend_ns = 20 * MS + draw(w, 80 * MS),
        .cache_keys = one_in(w, 2),
        .without_silence_watch = w->o->bug == BUG_WITHOUT_SILENCE_WATCH,
    };
    o.member.without_identity = w->o->bug == BUG_WITHOUT_IDENTITY;
    o.member.without_redial = w->o->bug == BUG_WITHOUT_REDIAL;
    TRY(client_open(&k->client, &o, e));
    struct van_handler h = client_handler(k->client);
    TRY(sim_van_open(&k->van, w->sim, name, &h, e));
    client_serve(k->client, k->van, sim_now(w->sim));
    return sim_process_open(&k->process, w->sim, &o.member, k->van, w->seed, e);
}

static void close_worker(struct worker *k)
{
    if (k == NULL)
        return;
    sim_process_close(k->process);
    van_free(k->van);
    client_close(k->client);
    mem_free(k);
}

static void world_close(struct world *w)
{
    sim_strangers_close(w->strangers);
    for (uint32_t i = 0; i < MAX_WORKERS; i++)
        close_worker(w->workers[i]);
    for (uint32_t i = 0; i < MAX_SERVERS; i++) {
        sim_process_close(w->servers[i].process);
        shard_close(w->servers[i].shard); // it gives back what it keeps of the van's
        van_free(w->servers[i].van);
    }
    van_free(w->scheduler_van);
    scheduler_close(w->scheduler);
    sim_close(w->sim);
    mem_free(w);
}

static int world_open(struct world **ret, const struct world_options *o, struct err *e)
{
    struct world *w = *ret = mem_zalloc(sizeof(*w));
    if (w == NULL)
        return err_nomem(e, "a world");
    w->o = o;
    w->seed = o->seed;
    for (uint64_t i = 0; i < KEYS; i++)
        w->keys[i] = random_u64(0, KEY, i); // the same for all seeds
    struct sim_options so = sim_network(o->seed);
    TRY(sim_open(&w->sim, &so, e));
    if (o->trace)
        sim_print(w->sim);
    w->n_servers = 1 + (uint32_t)draw(w, MAX_SERVERS);
    w->n_workers = 1 + (uint32_t)draw(w, MAX_WORKERS);
    w->identities = one_in(w, 2);
    w->mode = (enum wire_mode)draw(w, 3);
    w->staleness = (uint32_t)draw(w, 3);
    w->batches = 1 + (uint32_t)draw(w, 8);
    w->next_move = draw(w, 300 * MS);
    if (w->mode ==
        WIRE_SYNC) { // whole batches, by all: who divides them anew is elsewhere
        w->n_workers = 1u << draw(w, 3);
        w->identities = false;
        w->next_move = VAN_NEVER;
    }
    TRY(open_scheduler(w, e));
    for (uint32_t i = 0; i < w->n_servers; i++)
        TRY(open_server(w, i, e));
    for (uint32_t i = 0; i < w->n_workers; i++)
        TRY(open_worker(w, i, e));
    if (w->mode == WIRE_SSP && w->n_workers > 1 && one_in(w, 2)) {
        w->workers[draw(w, w->n_workers)]->late = true;
        w->late_share = 1 + (uint32_t)draw(w, 2);
    }
    struct sim_seen seen = {TABLE, WIDTH, w->keys[0]};
    TRY(sim_strangers_open(&w->strangers, w->sim, w->seed, &seen, e));
    w->restart_at = one_in(w, 8) ? draw(w, 500 * MS) : VAN_NEVER;
    return 0;
}

// What workers do.

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
    k->making = client_table(k->client, TABLE, &t, &e);
    if (k->making == 0)
        failed(k->world, "worker %u, making the table: %s", k->number, e.text);
}

static void choose(struct world *w, struct worker *k, struct op *op)
{
    uint64_t rate = 1 + draw(w, 6), first = draw(w, KEYS);
    op->push = draw(w, 3) != 0;
    // Who acknowledges early has no rows to answer with: it is to be found by what others
    // pull.
    op->also_pull = op->push && one_in(w, 4) && w->o->bug != BUG_ACKNOWLEDGE_BEFORE_APPLY;
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
    if (w->mode == WIRE_SYNC) { // in turn: what the batches before made, and a share
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
    if (client_arrange(k->client, TABLE, keys, op->n, order) != 0) {
        failed(w, "worker %u cannot arrange keys", k->number);
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

// `owner`: whose push it was first.
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
        op->counted |= (uint32_t)w->workers[i]->counts << i;
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
            .micro = (uint8_t)(k->number * (SHARD_MICROS / w->n_workers)),
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
        op->ts = client_push(k->client, &p, &e);
        w->counts->pushes++;
    } else {
        struct client_pull p = {
            .table = TABLE,
            .keys = op->keys,
            .n = op->n,
            .values = op->pulled,
            .clock = k->clock,
            .arranged = op->arranged,
        };
        op->ts = client_pull(k->client, &p, &e);
        w->counts->pulls++;
    }
    if (op->ts == 0)
        failed(w, "worker %u: %s", k->number, e.text);
    k->open++;
}

// ssp: nobody alive is more than the staleness behind who pulls.
static void check_staleness(struct worker *k, const struct op *op)
{
    const struct world *w = k->world;
    for (uint32_t i = 0; i < w->n_workers; i++) {
        const struct worker *x = w->workers[i];
        if (w->mode == WIRE_SSP && !op->push && op->n > 0 && !x->dead && !x->told_end &&
            (op->counted >> i & 1) && x->clock + w->staleness < op->clock)
            failed(k->world, "worker %u pulled at clock %llu while worker %u is at %llu",
                   k->number, (unsigned long long)op->clock, i,
                   (unsigned long long)x->clock);
    }
}

// sync: all batches before this clock, and nothing else.
static void check_batches(struct worker *k, const struct op *op)
{
    struct world *w = k->world;
    int64_t sums[KEYS][WIDTH] = {{0}};
    for (uint32_t i = 0; i < w->n_workers; i++)
        for (uint32_t j = 0; j < w->workers[i]->next; j++)
            if (w->workers[i]->ops[j].push && w->workers[i]->ops[j].clock < op->clock)
                add(sums, &w->workers[i]->ops[j]);
    for (size_t i = 0; i < op->n; i++)
        for (int j = 0; j < WIDTH; j++)
            if ((int64_t)op->pulled[i * WIDTH + j] != sums[op->which[i]][j])
                failed(w,
                       "worker %u pulled %lld at clock %llu in column %d of key %u: not "
                       "%lld",
                       k->number, (long long)op->pulled[i * WIDTH + j],
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
                       k->number, (long long)got, j, op->which[i], (long long)least,
                       (long long)most);
        }
}

// Requests may fail when there is no scheduler any more that knows who is there.
static bool went_wrong(struct worker *k, int rc, const char *what, const struct err *e)
{
    if (rc != 0 && !k->world->restarted)
        failed(k->world, "worker %u, %s: %s", k->number, what, e->text);
    return rc != 0;
}

static void end_op(struct worker *k, struct op *op, int rc, const struct err *e)
{
    struct world *w = k->world;
    op->ts = 0;
    k->open--;
    if (went_wrong(k, rc, "a request", e))
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
    if (!member_ready(client_member(k->client)) || k->made)
        return;
    if (k->making == 0) {
        make_table(k);
    } else if (client_done(k->client, k->making, &rc, &e)) {
        k->made = rc == 0;
        if (k->dies_after != VAN_NEVER)
            k->dies_at = sim_now(k->world->sim) + k->dies_after;
        went_wrong(k, rc, "making the table", &e);
    }
}

// Whether a late worker lets others go on without it.
static bool waits_for_others(struct worker *k)
{
    const struct world *w = k->world;
    bool waits = false;
    for (uint32_t i = 0; i < w->n_workers && k->late; i++) {
        const struct worker *x = w->workers[i];
        waits |= x != k && !x->dead && x->next < x->n_ops / w->late_share;
        waits |= x != k && !x->dead && w->late_share == 1 && !x->finished;
    }
    w->counts->late += k->late && !waits;
    k->late = waits;
    return waits;
}

// ssp: after some requests, when all are answered, the next clock begins; at the end
// nobody waits for this worker any more. True: there is a tick on its way.
static bool let_tick(struct worker *k)
{
    struct world *w = k->world;
    struct err e = {0};
    int rc = 0;
    if (k->ticking != 0 && client_done(k->client, k->ticking, &rc, &e)) {
        k->ticking = 0;
        k->counts = true;
        went_wrong(k, rc, "at a tick", &e);
    }
    bool end = k->next == k->n_ops;
    if (w->mode != WIRE_SSP || k->ticking != 0 || k->open != 0 || k->told_end ||
        (!end && (k->next == 0 || !one_in(w, 3))))
        return k->ticking != 0;
    k->told_end = end;
    k->clock++;
    k->ticking = client_tick(k->client, TABLE, end ? UINT64_MAX : k->clock, &e);
    if (k->ticking == 0)
        failed(w, "worker %u, at a tick: %s", k->number, e.text);
    return true;
}

static void let_work(struct worker *k)
{
    struct world *w = k->world;
    struct err e = {0};
    int rc = 0;
    if (k->dead || k->finished)
        return;
    if (!k->made && w->restarted && member_ended(client_member(k->client), NULL))
        k->finished = true;
    else
        let_table_be_made(k);
    if (!k->made || w->failure.code != 0)
        return;
    for (uint32_t i = 0; i < k->next; i++)
        if (k->ops[i].ts != 0 && client_done(k->client, k->ops[i].ts, &rc, &e))
            end_op(k, &k->ops[i], rc, &e);
    if (w->restarted && member_ended(client_member(k->client), NULL)) {
        k->finished = true; // it has been told why
        return;
    }
    if (waits_for_others(k) || let_tick(k))
        return;
    uint32_t most = w->mode == WIRE_SYNC ? 1 : IN_FLIGHT;
    if (k->next < k->n_ops && k->open < most && one_in(w, k->pace)) {
        struct op *op = &k->ops[k->next];
        choose(w, k, op);
        begin_op(k, op, k->number, false);
        k->next++;
    }
    k->finished = k->next == k->n_ops && k->open == 0 &&
                  (k->told_end || w->mode != WIRE_SSP);
}

static void die(struct worker *k)
{
    struct world *w = k->world;
    k->dead = true;
    w->counts->deaths++;
    sim_process_crash(k->process, w->sim);
}

// Somebody alive repeats what the dead had in flight, under the same identities. The
// pushes have the same content, so it does not matter which of the two counts.
static void repeat_for_the_dead(struct world *w)
{
    struct worker *heir = NULL;
    for (uint32_t i = 0; i < w->n_workers; i++)
        if (!w->workers[i]->dead)
            heir = w->workers[i];
    if (heir == NULL || !w->identities || w->repeated)
        return;
    w->repeated = true;
    for (uint32_t i = 0; i < w->n_workers; i++) {
        struct worker *k = w->workers[i];
        for (uint32_t j = 0; k->dead && j < k->next; j++) {
            struct op *from = &k->ops[j], *to = &heir->ops[heir->next];
            if (!from->push || from->acknowledged)
                continue;
            *to = *from;
            to->also_pull = false;
            from->acknowledged = true; // it is not loose any more
            begin_op(heir, to, k->number, true);
            heir->n_ops = ++heir->next;
            heir->finished = false;
            w->counts->repeated++;
        }
    }
}

static bool is_everybody(const struct world *w, bool (*what)(const struct worker *))
{
    for (uint32_t i = 0; i < w->n_workers; i++)
        if (!w->workers[i]->dead && !what(w->workers[i]))
            return false;
    return true;
}

static bool has_finished(const struct worker *k)
{
    return k->finished;
}

// The scheduler has given up all who died.
static bool deaths_are_known(const struct world *w)
{
    const struct roster *r = &w->scheduler->roster;
    uint32_t alive = 0, live = 0;
    for (uint32_t i = 0; i < r->n_nodes; i++)
        alive += r->nodes[i].role == WIRE_WORKER && r->nodes[i].alive;
    for (uint32_t i = 0; i < w->n_workers; i++)
        live += !w->workers[i]->dead;
    return alive <= live;
}

static bool has_somebody_joined(const struct world *w)
{
    bool joined = false;
    for (uint32_t i = 0; i < w->n_servers; i++)
        joined |= member_id(shard_member(w->servers[i].shard)) != 0;
    return joined;
}

// The scheduler's process is killed, and another one is started in its place.
static void restart_scheduler(struct world *w)
{
    struct err e = {0};
    w->restarted = true;
    w->counts->restarts++;
    w->next_move = VAN_NEVER;
    sim_crash(w->sim, w->scheduler_van);
    van_free(w->scheduler_van);
    scheduler_close(w->scheduler);
    w->scheduler_van = NULL;
    w->scheduler = NULL;
    if (open_scheduler(w, &e) != 0)
        failed(w, "the scheduler does not start again: %s", e.text);
}

// Whoever lives is not taken for dead. With the last worker the cluster ends.
static void check_living(struct world *w)
{
    bool anybody = false;
    for (uint32_t i = 0; i < w->n_workers && !w->restarted; i++) {
        const struct worker *k = w->workers[i];
        anybody |= !k->dead;
        if (!k->dead &&
            sim_process_is_given_up(k->process, client_member(k->client), w->scheduler))
            failed(w, "worker %u is taken for dead", i);
    }
    for (uint32_t i = 0; i < w->n_servers && anybody; i++) {
        const struct server *s = &w->servers[i];
        if (sim_process_is_given_up(s->process, shard_member(s->shard), w->scheduler))
            failed(w, "server %u is taken for dead", i);
    }
}

static void let_strangers(struct world *w)
{
    struct shard *shards[MAX_SERVERS];
    for (uint32_t i = 0; i < w->n_servers; i++)
        shards[i] = w->servers[i].shard;
    if (!w->restarted)
        sim_strangers_step(w->strangers, w->scheduler, shards, w->n_servers);
}

static bool step(struct world *w, uint64_t until)
{
    w->counts->events++;
    uint64_t now = sim_now(w->sim);
    sim_step(w->sim, now + 5 * MS); // workers have something to do when nothing happens
    now = sim_now(w->sim);
    if (now >= until || w->failure.code != 0)
        return false;
    for (uint32_t i = 0; i < w->n_workers; i++) {
        struct worker *k = w->workers[i];
        if (!k->dead && !k->finished && k->made && now >= k->dies_at &&
            sim_is_heard(w->scheduler, WIRE_WORKER, k->number))
            die(k);
        let_work(k);
    }
    if (now >= w->restart_at && !w->restarted && has_somebody_joined(w))
        restart_scheduler(w);
    if (now >= w->next_move) {
        begin_move(w);
        w->next_move = now + draw(w, 100 * MS);
    }
    let_strangers(w);
    check_living(w);
    return true;
}

static const char *who_has_not_finished(const struct world *w, char *to, size_t cap)
{
    size_t at = 0;
    to[0] = '\0';
    for (uint32_t i = 0; i < w->n_workers && at < cap; i++) {
        const struct worker *k = w->workers[i];
        if (!k->dead && !k->finished)
            at += (size_t)snprintf(to + at, cap - at, " worker %u (%u of %u, %u open)", i,
                                   k->next, k->n_ops, k->open);
    }
    return to;
}

static const struct member *member_that_goes_on(const struct world *w)
{
    struct err why = {0};
    for (uint32_t i = 0; i < w->n_workers + w->n_servers; i++) {
        const struct worker *k = i < w->n_workers ? w->workers[i] : NULL;
        const struct member *m = k != NULL
                                     ? client_member(k->client)
                                     : shard_member(w->servers[i - w->n_workers].shard);
        if ((k == NULL || !k->dead) && !(member_ended(m, &why) && why.code != 0))
            return m;
    }
    return NULL;
}

// After the scheduler has come back without its memory: nobody goes on in silence.
static void check_that_all_end(struct world *w)
{
    const struct member *m;
    uint64_t until = sim_now(w->sim) + 300 * SECOND;
    while ((m = member_that_goes_on(w)) != NULL)
        if (!step(w, until)) {
            failed(w, "node %u goes on with a scheduler that was started again",
                   member_id(m));
            return;
        }
}

// There is nothing to do, and all are there still.
static void rest(struct world *w)
{
    for (uint64_t end = sim_now(w->sim) + 20 * SECOND; sim_step(w->sim, end);)
        check_living(w);
}

// All alive do all they have to, and what the dead left is cleared up.
static void work(struct world *w)
{
    uint64_t until = 600 * SECOND;
    char who[256];
    bool quiet = false;
    for (;;) {
        while (!is_everybody(w, has_finished))
            if (!step(w, until)) {
                failed(w, "the run hangs:%s", who_has_not_finished(w, who, sizeof(who)));
                return;
            }
        if (w->restarted)
            check_that_all_end(w);
        if (w->restarted || w->repeated || (quiet && !w->identities))
            return;
        if (!quiet) {
            rest(w);
            sim_set_faults(w->sim, 0, 0, 0, 0);
        }
        quiet = true;
        for (uint64_t end = sim_now(w->sim) + 40 * SECOND;
             !deaths_are_known(w) && step(w, end);)
            ;
        repeat_for_the_dead(w);
        if (!w->repeated)
            return;
    }
}

// Everybody leaves.
static void leave(struct world *w)
{
    struct err why = {0};
    uint64_t until = sim_now(w->sim) + 120 * SECOND;
    for (uint32_t i = 0; i < w->n_workers; i++)
        if (!w->workers[i]->dead) {
            member_leave(client_member(w->workers[i]->client), 0, "");
            van_wake(w->workers[i]->van);
        }
    while (!scheduler_finished(w->scheduler, &why))
        if (!sim_step(w->sim, until)) {
            failed(w, "the scheduler does not finish");
            return;
        }
    for (uint32_t i = 0; i < w->n_servers; i++)
        while (!shard_finished(w->servers[i].shard, &why))
            if (!sim_step(w->sim, until)) {
                failed(w, "server %u does not finish", i);
                return;
            }
}

static void count(struct world *w)
{
    for (uint32_t i = 0; i < w->n_workers; i++) {
        struct client_stats s = client_stats(w->workers[i]->client);
        w->counts->resent += s.resent;
        w->counts->refused += s.refused;
    }
    w->counts->strange += sim_strangers_frames(w->strangers);
}

static void finish(struct world *w)
{
    // What is on its way arrives.
    uint64_t until = sim_now(w->sim) + 2 * SECOND;
    sim_set_faults(w->sim, 0, 0, 0, 0);
    w->next_move = VAN_NEVER;
    while (w->failure.code == 0 && sim_step(w->sim, until))
        ;
    while (w->failure.code == 0 && w->move.on && sim_step(w->sim, until + 20 * SECOND))
        ;
    if (w->move.on && w->scheduler->phase != SCHEDULER_ENDING)
        failed(w, "the move of partition %u hangs", w->move.partition);
    if (w->failure.code == 0)
        world_check_rows(w);
    if (w->failure.code == 0)
        leave(w);
}

int world_run(const struct world_options *o, struct world_counts *counts, struct err *e)
{
    struct world *w = NULL;
    int rc = world_open(&w, o, e);
    if (rc == 0) {
        w->counts = counts;
        work(w);
        if (!w->restarted)
            finish(w);
        count(w);
        rc = w->failure.code;
        if (rc != 0 && e != NULL)
            *e = w->failure;
    }
    if (w != NULL)
        world_close(w);
    return rc;
}
