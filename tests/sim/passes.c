// See passes.h. Worker 0 does not die.
//
// SPDX-License-Identifier: Apache-2.0
#include "sim/passes.h"

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
    KEYS = 12,
    SUMS = 3, // the table
    MAX_SERVERS = 3,
    MAX_WORKERS = 8, // those that join later, too
    MAX_PIECES = 24,
    GROUPS = 3, // pushes of a piece
};

#define MS ((uint64_t)1000000)
#define SECOND (1000 * MS)
#define CONFIG "name=sums;accessor=merge;dim=1;deltas=off"

enum { FAULTS = 1, CHOICE, CONTENT };

enum doing { MAKES_TABLE, TELLS_DATA, ASKS, WORKS, REPORTS, MARKS, FINISHED };

// Workers, and the driver, who has a client as well.
struct worker {
    struct world *world;
    uint32_t number;
    struct client *client;
    struct van *van;
    struct sim_process *process;
    bool dead;
    uint64_t dies_at, not_before;
    enum doing doing;
    client_ts ts;   // what it waits for; 0: none
    bool asking;    // the scheduler
    uint32_t group; // the next push of the piece
    struct msg_leased lease;
    uint64_t marked;
    float values[KEYS];
};

enum saver { IDLE, TURNS, CUTS, SAVES, ENDS, LETS_GO };

struct world {
    const struct passes_options *o;
    uint64_t draws;
    struct sim *sim;
    struct scheduler *scheduler;
    struct van *scheduler_van;
    uint32_t n_servers, n_workers, n_first, n_pieces;
    struct roots *roots;
    struct shard *shards[MAX_SERVERS];
    struct van *vans[MAX_SERVERS];
    struct sim_process *processes[MAX_SERVERS];
    struct worker *workers[MAX_WORKERS], *driver;
    uint64_t keys[KEYS], joins_at[MAX_WORKERS];
    bool apart; // server `away` and the scheduler
    uint32_t away;
    uint64_t together_at;

    struct sim_strangers *strangers;
    struct sim_saver *other;
    int64_t saved[KEYS]; // by the other: the last time

    bool opened, done; // the pass
    enum saver saver;
    uint32_t saves_left;
    uint64_t save, roster, newest;
    bool known, torn, written, commits;
    uint8_t cut[MAX_PIECES / 8 + 1];
    struct save_manifest manifest;
    char path[FILE_PATH_MAX];

    struct passes_counts *counts;
    struct err failure;
};

static const char *const bug_names[PASSES_BUGS] = {
    "none", "without-late-marks", "without-roster-of-saves", "without-turns"};

const char *passes_bug_name(enum passes_bug bug)
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

// What a push of a piece adds to a key, whoever makes it.
static int64_t content(const struct world *w, uint64_t piece, uint32_t group,
                       uint32_t key)
{
    return (int64_t)random_below(w->o->seed, CONTENT,
                                 (piece * GROUPS + group) * KEYS + key, 500);
}

// The cast.

static int open_scheduler(struct world *w, struct err *e)
{
    struct scheduler_options o = sim_scheduler(w->n_servers, w->n_first, BITS);
    char address[VAN_ADDRESS_MAX];
    o.without_late_marks = w->o->bug == PASSES_BUG_WITHOUT_LATE_MARKS;
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
        .without_roster_of_saves = w->o->bug == PASSES_BUG_WITHOUT_ROSTER_OF_SAVES,
    };
    TRY(shard_open(&w->shards[i], &o, e));
    struct van_handler h = shard_handler(w->shards[i]);
    TRY(sim_van_open(&w->vans[i], w->sim, name, &h, e));
    TRY(van_listen(w->vans[i], address, address, e));
    shard_serve(w->shards[i], w->vans[i], sim_now(w->sim));
    return sim_process_open(&w->processes[i], w->sim, &o.member, w->vans[i], w->o->seed,
                            e);
}

static int open_client(struct world *w, struct worker **ret, enum wire_role role,
                       uint32_t i, struct err *e)
{
    struct worker *k = *ret = mem_zalloc(sizeof(*k));
    if (k == NULL)
        return err_nomem(e, "a worker");
    k->world = w;
    k->number = i;
    k->dies_at = role == WIRE_WORKER && i > 0 && one_in(w, 4)
                     ? sim_now(w->sim) + 50 * MS + draw(w, 500 * MS)
                     : VAN_NEVER;
    char name[32];
    snprintf(name, sizeof(name), "%s%u", role == WIRE_DRIVER ? "driver" : "worker", i);
    struct client_options o = {
        .member = sim_member(role, i, ""),
        .connect_timeout_ns = 2 * SECOND,
        .request_timeout_ns = 300 * SECOND,
        .resend_ns = 20 * MS + draw(w, 80 * MS),
        .without_turns = w->o->bug == PASSES_BUG_WITHOUT_TURNS,
    };
    TRY(client_open(&k->client, &o, e));
    struct van_handler h = client_handler(k->client);
    TRY(sim_van_open(&k->van, w->sim, name, &h, e));
    client_serve(k->client, k->van, sim_now(w->sim));
    return sim_process_open(&k->process, w->sim, &o.member, k->van, w->o->seed, e);
}

static int64_t sum_of(const struct world *w, uint32_t key, bool all)
{
    int64_t sum = 0;
    for (uint32_t p = 0; p < w->n_pieces; p++)
        for (uint32_t g = 0; g < GROUPS && (all || (w->cut[p / 8] >> (p % 8) & 1)); g++)
            sum += content(w, p, g, key);
    return sum;
}

// What is between two saves was only added, and no more than there is.
static void check_other_save(void *ctx, struct store *s)
{
    struct world *w = ctx;
    for (uint32_t i = 0; i < KEYS; i++) {
        const float *row = store_row(s, w->keys[i], NULL);
        int64_t is = row != NULL ? (int64_t)*row : 0, most = sum_of(w, i, true);
        if (is < w->saved[i] || is > most)
            failed(w, "the other's save has %lld of key %u, not %lld to %lld",
                   (long long)is, i, (long long)w->saved[i], (long long)most);
        w->saved[i] = is;
    }
}

static int world_open(struct world **ret, const struct passes_options *o, struct err *e)
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
    w->n_first = 1 + (uint32_t)draw(w, 3);
    w->n_workers = w->n_first + (uint32_t)draw(w, MAX_WORKERS - w->n_first + 1);
    w->n_pieces = 4 + (uint32_t)draw(w, MAX_PIECES - 3);
    w->saves_left = 1 + (uint32_t)draw(w, 3);
    TRY(open_scheduler(w, e));
    for (uint32_t i = 0; i < w->n_servers; i++)
        TRY(open_server(w, i, e));
    for (uint32_t i = 0; i < w->n_first; i++)
        TRY(open_client(w, &w->workers[i], WIRE_WORKER, i, e));
    for (uint32_t i = w->n_first; i < w->n_workers; i++)
        w->joins_at[i] = draw(w, 500 * MS);
    struct sim_seen seen = {SUMS, 1, w->keys[0]};
    TRY(sim_strangers_open(&w->strangers, w->sim, o->seed, &seen, e));
    struct sim_saver_options saver = {
        .seed = o->seed,
        .dir = o->dir,
        .config = CONFIG,
        .table = SUMS,
        .partition_bits = BITS,
        .without_turns = o->bug == PASSES_BUG_WITHOUT_TURNS,
        .check = check_other_save,
        .ctx = w,
    };
    TRY(sim_saver_open(&w->other, w->sim, &saver, e));
    return open_client(w, &w->driver, WIRE_DRIVER, 0, e);
}

static void close_client(struct worker *k)
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
    sim_saver_close(w->other);
    for (uint32_t i = 0; i < MAX_WORKERS; i++)
        close_client(w->workers[i]);
    close_client(w->driver);
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

// Requests.

// Whether what the client asked for is over; it must have gone well.
static bool is_over(struct worker *k, const char *what)
{
    struct err e = {0};
    int rc = 0;
    if (k->ts == 0)
        return true;
    if (!client_done(k->client, k->ts, &rc, &e))
        return false;
    k->ts = 0;
    if (rc != 0)
        failed(k->world, "worker %u, %s: %s", k->number, what, e.text);
    return rc == 0;
}

static void check_begun(struct worker *k, const char *what, const struct err *e)
{
    if (k->ts == 0)
        failed(k->world, "worker %u, %s: %s", k->number, what, e->text);
}

static void ask(struct worker *k, uint16_t type, const void *msg, member_answer_fn answer)
{
    k->asking = true;
    if (member_ask(client_member(k->client), type, msg, answer, k) != 0)
        failed(k->world, "worker %u cannot ask for %s", k->number, wire_name(type));
}

// Workers.

static void make_table(struct worker *k)
{
    struct table_config c = table_config_defaults();
    struct err e = {0};
    if (table_config_parse(&c, CONFIG, &e) == 0)
        k->ts = client_table(k->client, SUMS, &c, &e);
    check_begun(k, "making the table", &e);
}

static void on_data(void *ctx, const struct van_message *m)
{
    struct worker *k = ctx;
    k->asking = false;
    if (m != NULL)
        k->doing = ASKS;
}

static void tell_data(struct worker *k)
{
    struct buf files = BUF_INIT(4096);
    struct wire_data_file f = {.bytes = 1000,
                               .hash = 5,
                               .pieces = k->world->n_pieces,
                               .name = wire_text("data")};
    struct msg_data m = {.options = 1, .piece_bytes = 2};
    if (wire_put_data_file(&files, &f) != 0)
        failed(k->world, "out of memory");
    m.files = (struct wire_text){files.data, (uint32_t)files.len};
    ask(k, MSG_DATA, &m, on_data);
    buf_free(&files);
}

static void on_leased(void *ctx, const struct van_message *m)
{
    struct worker *k = ctx;
    struct err e = {0};
    k->asking = false;
    if (m == NULL || m->type != MSG_LEASED)
        return;
    k->lease = m->m->leased;
    k->group = 0;
    switch (k->lease.what) {
    case WIRE_LEASE_PIECE:
        k->doing = WORKS;
        break;
    case WIRE_LEASE_MARK:
        k->doing = MARKS;
        k->ts = client_mark(k->client, k->lease.save, &e);
        check_begun(k, "a mark", &e);
        break;
    case WIRE_LEASE_OVER:
        k->doing = FINISHED;
        break;
    default:
        k->not_before = sim_now(k->world->sim) + 10 * MS;
    }
}

static void push_group(struct worker *k)
{
    struct world *w = k->world;
    struct err e = {0};
    for (uint32_t i = 0; i < KEYS; i++)
        k->values[i] = (float)content(w, k->lease.index, k->group, i);
    struct client_push p = {.table = SUMS,
                            .keys = w->keys,
                            .n = KEYS,
                            .values = k->values,
                            .rate = 1,
                            .pass = 1,
                            .id_pass = 1,
                            .id_piece = k->lease.index,
                            .id_group = k->group++};
    k->ts = client_push(k->client, &p, &e);
    check_begun(k, "a push", &e);
    k->not_before = sim_now(w->sim) + draw(w, 20 * MS);
}

static void on_reported(void *ctx, const struct van_message *m)
{
    struct worker *k = ctx;
    k->asking = false;
    k->doing = ASKS;
    if (m != NULL)
        k->world->counts->pieces++;
}

static void report(struct worker *k)
{
    struct msg_piece_done m = {.pass = 1,
                               .file = k->lease.file,
                               .index = k->lease.index,
                               .at_end = k->lease.index + 1 == k->world->n_pieces,
                               .examples = 1};
    k->doing = REPORTS;
    ask(k, MSG_PIECE_DONE, &m, on_reported);
}

static void let_work(struct worker *k)
{
    if (k->asking || sim_now(k->world->sim) < k->not_before || !is_over(k, "a request") ||
        !member_ready(client_member(k->client)))
        return;
    switch (k->doing) {
    case MAKES_TABLE:
        if (client_spec(k->client, SUMS) != NULL)
            k->doing = TELLS_DATA;
        else
            make_table(k);
        break;
    case TELLS_DATA:
        tell_data(k);
        break;
    case MARKS:
        k->marked = k->lease.save;
        k->doing = ASKS;
        break;
    case ASKS:
        ask(k, MSG_LEASE, &(struct msg_lease){.pass = 1, .marked = k->marked}, on_leased);
        break;
    case WORKS:
        if (k->group < GROUPS)
            push_group(k);
        else
            report(k);
        break;
    default:
        break;
    }
}

// The driver.

static void on_pass(void *ctx, const struct van_message *m)
{
    struct worker *k = ctx;
    k->asking = false;
    k->world->opened = true;
    if (m == NULL || m->type != MSG_PASS_STATE)
        failed(k->world, "the driver cannot open the pass");
    else
        k->world->done = m->m->pass_state.done;
}

static void on_cut(void *ctx, const struct van_message *m)
{
    struct worker *k = ctx;
    struct world *w = k->world;
    k->asking = false;
    if (m == NULL || m->type != MSG_CUT_STATE) {
        failed(w, "the driver cannot ask for a cut");
        return;
    }
    const struct msg_cut_state *s = &m->m->cut_state;
    struct wire_text list = s->done;
    struct wire_file_done f = {0};
    w->known = s->known;
    w->torn = s->torn;
    w->roster = s->roster;
    w->newest = s->newest;
    memset(w->cut, 0, sizeof(w->cut));
    if (w->known && wire_next_file_done(&list, &f) == 1 && f.bits.n <= sizeof(w->cut))
        memcpy(w->cut, f.bits.data, f.bits.n);
}

static void ask_cut(struct world *w, uint64_t save)
{
    ask(w->driver, MSG_CUT, &(struct msg_cut){.save = save}, on_cut);
    w->driver->not_before = sim_now(w->sim) + 5 * MS;
}

static void begin_save(struct world *w)
{
    struct err e = {0};
    static const uint32_t tables[1] = {SUMS};
    struct client_save s = {.id = w->save,
                            .mode = SAVE_CHECKPOINT,
                            .path = strrchr(w->path, '/') + 1,
                            .tables = tables,
                            .n = 1,
                            .marked = true,
                            .roster = w->roster,
                            .newest = w->newest};
    w->driver->ts = client_save(w->driver->client, &s, &w->manifest, &e);
    check_begun(w->driver, "a save", &e);
    w->saver = SAVES;
}

static void check_save(struct world *w)
{
    struct store *s = NULL;
    struct err e = {0};
    if (sim_load(&s, w->path, CONFIG, BITS, &e) != 0)
        failed(w, "loading save %llu: %s", (unsigned long long)w->save, e.text);
    for (uint32_t i = 0; i < KEYS && w->failure.code == 0; i++) {
        const float *row = store_row(s, w->keys[i], NULL);
        int64_t is = row != NULL ? (int64_t)*row : 0, should = sum_of(w, i, false);
        if (is != should)
            failed(w, "save %llu has %lld of key %u: its pieces have %lld",
                   (unsigned long long)w->save, (long long)is, i, (long long)should);
    }
    store_close(s);
}

static void end_save(struct world *w)
{
    struct err e = {0};
    w->commits = !w->torn;
    if (w->commits && save_commit(w->o->dir, &w->manifest, 0, &e) != 0) {
        failed(w, "committing a save: %s", e.text);
        return;
    }
    w->driver->ts = client_save_end(w->driver->client, w->save, w->commits, 0, &e);
    check_begun(w->driver, "the end of a save", &e);
    w->saver = ENDS;
}

static void forget_save(struct world *w)
{
    if (w->commits)
        check_save(w);
    else
        save_abort(w->o->dir, &w->manifest);
    w->counts->saves += w->commits;
    w->counts->torn += !w->commits;
    save_manifest_free(&w->manifest);
    w->manifest = (struct save_manifest){0};
    w->saves_left--;
}

// One after the other: its turn, which pieces, the rows, the end, and that nobody is to mark it.
static void let_save(struct world *w)
{
    struct err e = {0};
    switch (w->saver) {
    case IDLE:
        w->save = 10 + w->saves_left;
        if (save_begin(w->o->dir, SAVE_CHECKPOINT, &w->manifest, w->path, &e) != 0)
            failed(w, "a save: %s", e.text);
        w->saver = TURNS;
        if (w->o->bug == PASSES_BUG_WITHOUT_TURNS)
            break;
        w->driver->ts = client_save_turn(w->driver->client, w->save, &e);
        check_begun(w->driver, "the turn of a save", &e);
        break;
    case TURNS:
        ask_cut(w, w->save);
        w->saver = CUTS;
        break;
    case CUTS:
        begin_save(w);
        break;
    case SAVES:
        if (!w->known)
            ask_cut(w, w->save);
        else
            end_save(w);
        break;
    case ENDS:
        forget_save(w);
        ask_cut(w, 0);
        w->saver = LETS_GO;
        break;
    case LETS_GO:
        w->saver = IDLE;
        break;
    }
}

static void let_drive(struct world *w)
{
    struct worker *k = w->driver;
    bool pays = w->saver == SAVES && !w->known; // both go on at once
    if (k->asking || sim_now(w->sim) < k->not_before ||
        (!pays && !is_over(k, "a request")) || !member_ready(client_member(k->client)))
        return;
    if (!w->opened) {
        struct msg_pass m = {.pass = 1, .kind = WIRE_PASS_PIECES, .seed = w->o->seed};
        ask(k, MSG_PASS, &m, on_pass);
    } else if (w->saver != IDLE || (!w->done && w->saves_left > 0 && one_in(w, 15) &&
                                    w->workers[0]->doing != MAKES_TABLE)) { // it is there
        let_save(w);
    } else if (!w->done) {
        ask(k, MSG_PASS_WANTED, &(struct msg_pass_wanted){.pass = 1}, on_pass);
        k->not_before = sim_now(w->sim) + 5 * MS;
    }
}

// The whole.

// Late workers come at any time, rather when it matters: when a save's pieces have just
// become known; and rather when one of the servers does not hear of it for a while.
static void let_join(struct world *w, uint32_t i, uint64_t now)
{
    struct err e = {0};
    bool save = w->saver == SAVES && w->known && one_in(w, 3);
    if (!w->opened || (now < w->joins_at[i] && !save))
        return;
    if (open_client(w, &w->workers[i], WIRE_WORKER, i, &e) != 0)
        failed(w, "worker %u: %s", i, e.text);
    w->counts->joins++;
    if (w->apart || !one_in(w, 2))
        return;
    w->apart = true;
    w->away = (uint32_t)draw(w, w->n_servers);
    w->together_at = now + 100 * MS + draw(w, 400 * MS);
    sim_partition(w->sim, w->scheduler_van, w->vans[w->away], true);
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
        if (k == NULL) {
            let_join(w, i, now);
        } else if (k != NULL && !k->dead) {
            if (now >= k->dies_at && k->doing != MAKES_TABLE &&
                sim_is_heard(w->scheduler, WIRE_WORKER, k->number)) {
                k->dead = true;
                w->counts->deaths++;
                sim_process_crash(k->process, w->sim);
            } else {
                let_work(k);
            }
        }
    }
    if (w->apart && now >= w->together_at) {
        sim_partition(w->sim, w->scheduler_van, w->vans[w->away], false);
        w->apart = false;
    }
    let_drive(w);
    struct err e;
    bool made = w->workers[0]->doing != MAKES_TABLE;
    if (sim_saver_step(w->other, w->scheduler, made, &e) != 0)
        failed(w, "%s", e.text);
    sim_strangers_step(w->strangers, w->scheduler, w->shards, w->n_servers);
    check_living(w);
    return true;
}

static void check_sums(struct world *w)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        int64_t is = 0, should = sum_of(w, i, true);
        for (uint32_t k = 0; k < w->n_servers; k++) {
            const float *row = shard_row(w->shards[k], SUMS, w->keys[i]);
            is += row != NULL ? (int64_t)*row : 0;
        }
        if (is != should)
            failed(w, "key %u has %lld at the end, not %lld", i, (long long)is,
                   (long long)should);
    }
}

static void work(struct world *w)
{
    uint64_t until = 900 * SECOND;
    while (!w->done || w->saver != IDLE || !sim_saver_is_done(w->other))
        if (!step(w, until)) {
            failed(w, "the pass hangs; the save is at %d, %s", (int)w->saver,
                   w->known ? "known" : "not known");
            return;
        }
    if (w->failure.code == 0)
        check_sums(w);
}

int passes_run(const struct passes_options *o, struct passes_counts *counts,
               struct err *e)
{
    struct world *w = NULL;
    int rc = world_open(&w, o, e);
    if (rc == 0) {
        w->counts = counts;
        work(w);
        for (uint32_t i = 0; i < w->n_workers; i++)
            if (w->workers[i] != NULL)
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
