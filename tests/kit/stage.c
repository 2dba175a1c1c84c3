// See stage.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/stage.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/random.h"
#include "cluster/scheduler/scheduler_internal.h"

// Streams of random numbers; the worlds use other ones.
enum { PAUSES = 0x300, GHOSTS, SLICES, CALM, SPANS };
// A process that was not declared dead so long after it has continued lives.
#define LIVES_NS (20 * SECOND)

static int open_network(struct stage *s, struct err *e)
{
    struct sim_options so = sim_network(s->o->seed + ((uint64_t)s->lives << 40));
    so.round_max = s->o->rounds ? 1 + random_below(s->o->seed, SPANS, 0, 5 * MS) : 0;
    TRY(sim_open(&s->sim, &so, e));
    if (s->o->trace)
        sim_print(s->sim);
    return 0;
}

int stage_run(const struct stage_world *world, struct seeds_run *o, struct err *e)
{
    struct stage *s = mem_zalloc(world->bytes);
    if (s == NULL)
        return err_nomem(e, "a world");
    s->world = world;
    s->o = o;
    int rc = open_network(s, e);
    if (rc == 0)
        rc = world->open(s, e);
    if (rc == 0) {
        world->work(s);
        world->count(s, o->counts);
        o->came_back += s->restarts.deaths;
        if ((rc = s->failure.code) != 0)
            *e = s->failure;
    }
    (world->close != NULL ? world->close : stage_close)(s);
    mem_free(s);
    return rc;
}

static void close_client(struct stage_client *c)
{
    sim_process_close(c->process);
    van_free(c->van);
    client_close(c->client);
}

static void close_server(struct stage_server *x)
{
    sim_process_close(x->process);
    shard_close(x->shard); // closed first, because it returns kept messages to the van
    van_free(x->van);
}

void stage_close(void *stage)
{
    struct stage *s = stage;
    sim_strangers_close(s->strangers);
    for (uint32_t i = 0; i < s->n_clients; i++)
        close_client(s->clients[i]);
    for (uint32_t i = 0; i < s->n_servers; i++)
        close_server(&s->servers[i]);
    restarts_close(s);
    van_free(s->scheduler_van);
    scheduler_close(s->scheduler);
    sim_close(s->sim);
}

int stage_again(struct stage *s, struct err *e)
{
    stage_close(s);
    s->strangers = NULL;
    s->scheduler = NULL;
    s->scheduler_van = NULL;
    s->sim = NULL;
    s->n_servers = s->n_clients = 0;
    s->deaths = 0;
    s->next_pause = 0;
    s->restarts = (struct restarts){.draws = s->restarts.draws};
    memset(s->epochs, 0, sizeof(s->epochs));
    s->lives++;
    memset(s->servers, 0, sizeof(s->servers));
    return open_network(s, e);
}

bool stage_is_quick(const struct stage *s)
{
    return s->o->seed % 4 == 3;
}

uint64_t stage_draw(struct stage *s, uint64_t n)
{
    return random_below(s->o->seed, s->world->stream, s->draws++, n);
}

bool stage_one_in(struct stage *s, uint64_t n)
{
    return stage_draw(s, n) == 0;
}

static const char *role_of(const struct stage_client *c)
{
    return c->role == WIRE_DRIVER ? "driver" : "worker";
}

// ------------------------------------------------------------ the processes of the world

uint64_t stage_bugs(const struct stage *s)
{
    return (uint64_t)1 << s->o->bug;
}

int stage_open_scheduler(struct stage *s, const struct scheduler_options *options,
                         struct err *e)
{
    char address[VAN_ADDRESS_MAX];
    struct scheduler_options o = *options;
    o.bugs = stage_bugs(s);
    if (s->o->keeps)
        return restarts_open(s, &o, e);
    TRY(scheduler_open(&s->scheduler, &o, e));
    struct van_handler h = scheduler_handler(s->scheduler);
    TRY(sim_van_open(&s->scheduler_van, s->sim, "scheduler", &h, e));
    TRY(van_listen(s->scheduler_van, "sim://scheduler", address, e));
    scheduler_serve(s->scheduler, s->scheduler_van, address);
    return 0;
}

// Sets the options of a member for its place in the cluster.
static void take_place(struct stage *s, struct member_options *o, enum wire_role role,
                       uint32_t i, const char *address)
{
    bool late = o->late;
    *o = sim_member(role, i, address);
    o->bugs = stage_bugs(s);
    o->late = late;
}

// Returns how long a step of a copy, an admin operation or a save takes: in half of the
// worlds so long that requests come between the steps. Without a fixed time the steps
// would take as long as the test's machine needs, and no seed could be repeated.
static uint64_t slice_of(const struct stage *s)
{
    bool slow = random_below(s->o->seed, SLICES, 0, 2) == 0;
    return 1 + (slow ? random_below(s->o->seed, SLICES, 1, 2 * MS) : 0);
}

int stage_open_server(struct stage *s, struct shard_options *o, stage_wrap wrap,
                      void *ctx, struct err *e)
{
    uint32_t i = s->n_servers++;
    struct stage_server *x = &s->servers[i];
    char name[32], address[VAN_ADDRESS_MAX];
    snprintf(name, sizeof(name), "server%u", i);
    snprintf(address, sizeof(address), "sim://server%u", i);
    take_place(s, &o->member, WIRE_SERVER, i, address);
    x->late = o->member.late;
    o->member.generation = &x->newest;
    o->slice_ns = slice_of(s);
    o->without_threads = true;
    TRY(shard_open(&x->shard, o, e));
    struct van_handler h = shard_handler(x->shard);
    if (wrap != NULL)
        h = wrap(ctx, i, h);
    TRY(sim_van_open(&x->van, s->sim, name, &h, e));
    TRY(van_listen(x->van, address, address, e));
    shard_serve(x->shard, x->van, sim_now(s->sim));
    return sim_process_open(&x->process, s->sim, &o->member, x->van, s->o->seed, e);
}

int stage_open_client(struct stage *s, struct stage_client *c, enum wire_role role,
                      uint32_t i, struct client_options *o, struct err *e)
{
    char name[32];
    c->stage = s;
    c->role = role;
    c->number = i;
    snprintf(name, sizeof(name), "%s%u", role_of(c), i);
    take_place(s, &o->member, role, i, "");
    c->newest = 0;
    o->member.generation = &c->newest;
    o->connect_timeout_ns = 2 * SECOND;
    o->request_timeout_ns = 300 * SECOND;
    s->clients[s->n_clients++] = c;
    TRY(client_open(&c->client, o, e));
    struct van_handler h = client_handler(c->client);
    TRY(sim_van_open(&c->van, s->sim, name, &h, e));
    client_serve(c->client, c->van, sim_now(s->sim));
    return sim_process_open(&c->process, s->sim, &o->member, c->van, s->o->seed, e);
}

void stage_close_client(struct stage_client *c)
{
    struct stage *s = c->stage;
    uint32_t n = 0;
    if (c->client == NULL)
        return;
    if (!c->dead)
        sim_process_crash(c->process, s->sim);
    close_client(c);
    for (uint32_t i = 0; i < s->n_clients; i++)
        if (s->clients[i] != c)
            s->clients[n++] = s->clients[i];
    s->n_clients = n;
}

int stage_open_strangers(struct stage *s, const struct sim_seen *seen, struct err *e)
{
    return sim_strangers_open(&s->strangers, s->sim, s->o->seed, seen, e);
}

// ---------------------------------------------------------------- letting time pass

void stage_settle(struct stage *s, uint64_t ns)
{
    sim_set_faults(s->sim, 0, 0, 0, 0);
    for (uint64_t end = sim_now(s->sim) + ns; s->failure.code == 0 && stage_let(s, end);)
        ;
}

static uint64_t pause_draw(struct stage *s, uint64_t n)
{
    return random_below(s->o->seed, PAUSES, s->pauses++, n);
}

// Returns the lag after a stop: a process that goes on may first read the waiting
// messages, or first send messages.
static uint64_t lag(struct stage *s)
{
    return pause_draw(s, 2) * pause_draw(s, 200 * MS);
}

// Returns a time that is longer than the lease of heartbeats plus the time in which the
// scheduler then asks for a sign of life.
static uint64_t longer_than_lease(struct stage *s)
{
    return 7 * SECOND + pause_draw(s, 6 * SECOND);
}

static void become_ghost(struct stage_client *c)
{
    struct stage *s = c->stage;
    uint64_t until = sim_now(s->sim) + longer_than_lease(s);
    c->ghost = true;
    sim_process_stop(c->process, s->sim, until, lag(s));
}

void stage_lose_server(struct stage *s, uint32_t i)
{
    struct stage_server *x = &s->servers[i];
    x->lost = true;
    sim_process_stop(x->process, s->sim, sim_now(s->sim) + longer_than_lease(s), lag(s));
}

void stage_kill_server(struct stage *s, uint32_t i, bool ghost)
{
    struct stage_server *x = &s->servers[i];
    x->dead = true;
    x->ghost = ghost;
    x->wakes = sim_now(s->sim) + longer_than_lease(s);
    if (ghost)
        sim_process_stop(x->process, s->sim, x->wakes, lag(s));
    else
        sim_process_crash(x->process, s->sim);
}

bool stage_is_ghost(struct stage *s, struct stage_server *x)
{
    // A scheduler with a journal may die before its decision is durable. So the ghost counts as
    // dead only when the scheduler has told it so.
    if (x->ghost && (s->o->keeps ? sim_process_is_lost(x->process)
                                 : sim_process_is_given_up(
                                       x->process, shard_member(x->shard), s->scheduler)))
        x->ghost = false;
    else if (x->ghost && sim_now(s->sim) > x->wakes + LIVES_NS)
        x->ghost = x->dead = false;
    return x->ghost;
}

bool stage_acts(const struct stage_client *c)
{
    return (!c->dead || (c->ghost && !c->fades)) && !sim_is_stopped(c->van);
}

bool stage_is_there(const struct stage_server *x)
{
    return !x->lost && !x->gone && !x->dead;
}

// Two stops soon after each other could together be as long as the lease, so a server is
// stopped again only after x->next_stop.
static void stop_server(struct stage *s, struct stage_server *x, uint64_t until)
{
    if (!stage_is_there(x) || sim_now(s->sim) < x->next_stop)
        return;
    x->next_stop = until + 3 * SECOND;
    sim_process_stop(x->process, s->sim, until, lag(s));
}

// Stops a random process for less than the lease. The scheduler's stops may be longer: it
// keeps the leases, and must not blame other processes for messages that it missed
// itself.
static void stop_somebody(struct stage *s)
{
    uint64_t now = sim_now(s->sim), n = s->n_clients + s->n_servers + 1;
    uint64_t i = pause_draw(s, n), until = now + pause_draw(s, 1500 * MS);
    s->next_pause = now + pause_draw(s, 4 * SECOND);
    if (i < s->n_clients && s->clients[i]->client != NULL && stage_acts(s->clients[i]))
        sim_process_stop(s->clients[i]->process, s->sim, until, lag(s));
    else if (i >= s->n_clients && i + 1 < n)
        stop_server(s, &s->servers[i - s->n_clients], until);
    else if (i + 1 == n && !s->restarts.down && !restarts_parts(s))
        sim_stop(s->sim, s->scheduler_van, now + pause_draw(s, 12 * SECOND), lag(s));
}

bool stage_dies(struct stage_client *c)
{
    struct stage *s = c->stage;
    if (c->dead || s->restarts.down || sim_now(s->sim) < c->dies_at ||
        !sim_is_heard(s->scheduler, c->role, c->number))
        return false;
    c->dead = true;
    s->deaths++;
    if (random_below(s->o->seed, GHOSTS, s->deaths, 2) == 0)
        become_ghost(c);
    else
        sim_process_crash(c->process, s->sim);
    return true;
}

bool stage_was_drained(const struct stage *s, const struct stage_server *x)
{
    struct err why;
    why.code = 0;
    uint32_t id = member_id(shard_member(x->shard));
    const struct sched_node *n = id != 0 ? scheduler_node_of(s->scheduler, id) : NULL;
    return x->gone || (n != NULL && n->stop_at != 0) ||
           (shard_finished(x->shard, &why) && why.code == 0);
}

// Checks that the scheduler has not declared a living process dead. Clients are not
// checked after the scheduler's restart, because it then knows no node. Nothing is
// checked after the last client has ended, because the cluster then ends.
void stage_check_living(struct stage *s)
{
    bool anybody = false, ends = s->restarts.down;
    for (uint32_t i = 0; i < s->n_servers; i++)
        ends |= s->servers[i].lost;
    for (uint32_t i = 0; i < s->n_clients && !s->restarted && !ends; i++) {
        const struct stage_client *c = s->clients[i];
        anybody |= !c->dead;
        if (!c->dead &&
            sim_process_is_given_up(c->process, client_member(c->client), s->scheduler))
            stage_failed(s, "%s %u is taken for dead", role_of(c), c->number);
    }
    for (uint32_t i = 0; i < s->n_servers && anybody && !s->restarts.down; i++) {
        const struct stage_server *x = &s->servers[i];
        if (!x->dead && !stage_was_drained(s, x) &&
            sim_process_is_given_up(x->process, shard_member(x->shard), s->scheduler))
            stage_failed(s, "server %u is taken for dead", i);
    }
}

// Checks that all nodes know the same owners of one epoch, also nodes that got these
// owners from an earlier scheduler.
static void check_epoch(struct stage *s, const struct roster *r)
{
    struct stage_epoch *x = &s->epochs[r->epoch % STAGE_EPOCHS];
    size_t bytes = ((size_t)1 << r->partition_bits) * sizeof(*r->owners[0]);
    uint64_t hash = 0;
    if (r->epoch == 0 || r->epoch < x->epoch)
        return;
    for (int space = 0; space < WIRE_SPACES; space++) {
        hash = hash_bytes(r->owners[space], bytes, hash);
        if (r->replicas > 1)
            hash = hash_bytes(r->backups[space], bytes * r->replicas, hash);
    }
    if (r->epoch == x->epoch && hash != x->hash)
        stage_failed(s, "epoch %llu has two placements", (unsigned long long)r->epoch);
    *x = (struct stage_epoch){r->epoch, hash};
}

static void check_epochs(struct stage *s)
{
    for (uint32_t i = 0; i < s->n_servers && s->restarts.on; i++)
        if (!s->servers[i].dead)
            check_epoch(s, member_roster(shard_member(s->servers[i].shard)));
}

bool stage_is_down(const struct stage *s)
{
    return s->restarts.down;
}

bool stage_finished(const struct stage *s, struct err *why)
{
    return !s->restarts.down && !s->restarts.disk.died &&
           scheduler_finished(s->scheduler, why);
}

bool stage_let(struct stage *s, uint64_t until)
{
    uint64_t next = until;
    if (restarts_next(s) < until)
        next = restarts_next(s);
    bool more = sim_step(s->sim, next);
    restarts_look(s);
    return (more || next < until) && s->failure.code == 0;
}

static void step_strangers(struct stage *s)
{
    struct shard *shards[STAGE_PLACES];
    for (uint32_t i = 0; i < s->n_servers; i++)
        shards[i] = s->servers[i].shard;
    if (!s->restarted && !s->restarts.down)
        sim_strangers_step(s->strangers, s->scheduler, shards, s->n_servers);
}

uint64_t stage_draw_calm(struct stage *s)
{
    s->calm_at = 20 * SECOND + random_below(s->o->seed, CALM, 0, 160 * SECOND);
    return s->calm_at + STAGE_CALM_NS;
}

static void calm_down(struct stage *s)
{
    s->calm = true;
    s->next_pause = VAN_NEVER;
    sim_set_faults(s->sim, 0, 0, 0, 0);
}

bool stage_step(struct stage *s, uint64_t until)
{
    s->events++;
    // At most 5 ms at a time: clients may act even when no event is due.
    (void)stage_let(s, sim_now(s->sim) + 5 * MS);
    if (sim_now(s->sim) >= until || s->failure.code != 0)
        return false;
    if (s->calm_at != 0 && sim_now(s->sim) >= s->calm_at && !s->calm)
        calm_down(s);
    if (sim_now(s->sim) >= s->next_pause)
        stop_somebody(s);
    s->world->act(s);
    step_strangers(s);
    stage_check_living(s);
    check_epochs(s);
    return true;
}

// ---------------------------------------------------------------- checking invariants

void stage_failed(struct stage *s, const char *format, ...)
{
    va_list args;
    char text[ERR_TEXT_MAX];
    if (s->failure.code != 0)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    (void)err_set(&s->failure, TUG_EINTERNAL, "%s", text);
}

client_ts stage_begun(struct stage_client *c, client_ts ts, const char *what)
{
    c->fades |= c->dead && ts == 0;
    if (ts == 0 && !c->dead)
        stage_failed(c->stage, "%s %u, %s: %s", role_of(c), c->number, what,
                     c->stage->said.text);
    return ts;
}

bool stage_is_over(struct stage_client *c, client_ts *ts, const char *what)
{
    struct err *e = &c->stage->said;
    int rc = 0;
    if (*ts == 0 || !client_done(c->client, *ts, &rc, e))
        return false;
    *ts = 0;
    c->fades |= c->dead && rc != 0;
    if (rc != 0 && !c->dead)
        stage_failed(c->stage, "%s %u, %s: %s", role_of(c), c->number, what, e->text);
    return !c->fades;
}

uint64_t stage_resent(const struct stage *s)
{
    uint64_t resent = 0;
    for (uint32_t i = 0; i < s->n_clients; i++)
        if (s->clients[i]->role == WIRE_WORKER)
            resent += client_stats(s->clients[i]->client).resent;
    return resent;
}

int64_t stage_sum(const struct stage *s, uint32_t table, uint64_t key)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < s->n_servers; i++) {
        // A server that has left, or counts as dead, perhaps still has rows.
        const struct stage_server *x = &s->servers[i];
        const float *row = x->dead || x->gone
                               ? NULL
                               : shards_row(s->servers[i].shard, table, key);
        sum += row != NULL ? (int64_t)*row : 0;
    }
    return sum;
}
