// A pass by pieces in a simulated network, from one number: workers lease pieces, push
// their values, join late and die; the driver saves in the middle of the pass, and
// another client saves, too. Now and then all processes crash, and new ones resume the
// pass from the newest save, perhaps several times. The test checks:
//
//   - a save has exactly the pieces that the scheduler says it has, each of them whole and
//     once; or the save is torn, and the driver is told so
//   - a save counts the examples and steps of its pieces, even if they were done before a crash
//   - at the end every row is the sum of all pieces, each once, and so is the count of examples
//   - the driver gets the report of each piece once
//   - no living process hangs or fails
//
// With --state the scheduler and the driver, which is in its process, die and come back; the
// new driver opens the pass again.
//
// In half of the worlds idle workers also get the pieces of stragglers. Some dead workers
// are ghosts: they were stopped until they were declared dead. After that, ghosts go on
// with their pieces, while other workers do the same pieces again. Worker 0 does not die.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/random.h"
#include "kit/seeds.h"
#include "kit/sums.h"
#include "kit/test.h"

enum {
    KEYS = 12,
    MAX_WORKERS = STAGE_CLIENTS - 1, // including those that join later
    MAX_PIECES = 24,
    BATCHES = 3, // batches of a piece
    // Parts of a batch: each is a push of some keys, and the parts share partitions.
    PARTS = 3,
    AHEAD = 2, // batches in flight
    TELLS = 3, // reports of pieces under way
    // The most lives: a life is the time between two crashes, so the pass is resumed at
    // most LIVES - 1 times.
    LIVES = 3,
};
enum { CHOICE = 2, CONTENT, STEPS, BACKUPS }; // numbers of random streams

// Bugs of the workers of this world.
enum {
    WITHOUT_PARTS = N_BUGS, // all parts of a batch have the same identity
    WITHOUT_WAITING, // a worker reports batches as acknowledged that are still under way
};
enum {
    TWICE,
    PIECES,
    SAVES,
    TORN,
    OTHERS,
    JOINS,
    DEATHS,
    RESENT,
    EVENTS,
    RESUMED,
    AGAIN,
    KEPT // deaths of schedulers with a journal
};

enum doing { MAKES_TABLE, LOADS, TELLS_DATA, ASKS, WORKS, STEPS_ON, MARKS, FINISHED };

// Workers, and the driver, which has a client as well.
struct worker {
    struct world *world;
    struct stage_client c;
    uint64_t not_before;
    enum doing doing;
    client_ts ts;   // the request that the worker waits for; 0: none
    bool asking;    // the worker waits for the scheduler's answer
    uint32_t group; // number of the next push in the piece: part group % PARTS of a batch
    struct push {
        client_ts ts;
        float values[KEYS / PARTS];
    } pushes[AHEAD * PARTS];
    struct msg_leased lease;
    uint64_t marked;
    struct telling { // a report under way
        struct worker *worker;
        bool waits; // for the answer; false: the entry is free
    } tellings[TELLS];
    uint64_t told; // number of the newest report
};

enum saver { IDLE, TURNS, CUTS, SAVING, ENDS, LETS_GO };

struct world {
    struct stage stage; // must be the first member
    struct sums sums;
    uint32_t n_workers, n_first, n_pieces;
    struct worker workers[MAX_WORKERS], driver;
    uint64_t joins_at[MAX_WORKERS];
    // The van that is separated from server `away`: the scheduler's or the driver's;
    // NULL: none.
    struct van *apart;
    uint32_t away;
    uint64_t together_at;

    // The number of leases of pieces that another worker, living or dead, had got before.
    uint64_t twice;
    uint8_t leased[MAX_PIECES];

    bool opened, done; // whether the pass was opened, and is done
    uint64_t examples, data;
    uint64_t reported;  // sum of the reports
    uint64_t before;    // examples of the pass when it was opened
    uint32_t n_drivers; // number of earlier drivers in this life
    bool goes_on;       // the current driver opens the pass again
    enum saver saver;
    uint32_t saves_left;
    uint64_t save, roster, newest;
    bool known, torn;
    uint8_t cut[MAX_PIECES / 8 + 1];
    uint64_t cut_examples;

    uint32_t lives, lives_left;
    bool saved;                      // a save was made since the last crash
    uint64_t deaths, others, resent; // sums of these counts before the last crash
    struct resumed {                 // the newest save; path is empty if there is none
        char path[FILE_PATH_MAX];
        uint64_t checksum, examples, data;
        uint8_t cut[MAX_PIECES / 8 + 1];
    } last;
};

#define failed(w, ...) stage_failed(&(w)->stage, __VA_ARGS__)
#define begun(k, ts, what) stage_begun(&(k)->c, ts, what)

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

// Returns the number that a push of a piece adds to a key, whichever worker makes the
// push.
static int64_t content(const struct world *w, uint64_t piece, uint32_t batch,
                       uint32_t key)
{
    return (int64_t)random_below(w->stage.o->seed, CONTENT,
                                 (piece * BATCHES + batch) * KEYS + key, 500);
}

// Returns whether workers push changes of whole rows, as in geo mode. The sums are the
// same.
static bool by_steps(const struct world *w)
{
    return random_below(w->stage.o->seed, STEPS, 0, 2) == 1;
}

static bool has_backups(const struct world *w)
{
    return random_below(w->stage.o->seed, BACKUPS, 0, 2) == 1;
}

static bool in_cut(const uint8_t *cut, uint64_t piece)
{
    return (cut[piece / 8] >> (piece % 8) & 1) != 0;
}

// Pieces have different numbers of examples.
static uint64_t examples_of(uint64_t piece)
{
    return 1 + piece % 5;
}

static uint64_t examples_in(const struct world *w, bool all)
{
    uint64_t n = 0;
    for (uint32_t p = 0; p < w->n_pieces; p++)
        n += all || in_cut(w->cut, p) ? examples_of(p) : 0;
    return n;
}

static int64_t sum_of(const struct world *w, uint32_t key, bool all)
{
    int64_t sum = 0;
    for (uint32_t p = 0; p < w->n_pieces; p++)
        for (uint32_t b = 0; b < BATCHES && (all || in_cut(w->cut, p)); b++)
            sum += content(w, p, b, key);
    return sum;
}

static int open_client(struct world *w, struct worker *k, enum wire_role role, uint32_t i,
                       struct err *e)
{
    k->world = w;
    k->c.dies_at = role == WIRE_WORKER && i > 0 && one_in(w, 4)
                       ? now_in(w) + 50 * MS + draw(w, 500 * MS)
                       : VAN_NEVER;
    struct client_options o = {.resend_ns = 20 * MS + draw(w, 80 * MS)};
    return stage_open_client(&w->stage, &k->c, role, i, &o, e);
}

static int64_t most_of(void *ctx, uint32_t key)
{
    return sum_of(ctx, key, true);
}

static int open_cluster(struct world *w, uint32_t n_servers, struct err *e)
{
    struct scheduler_options o = sim_scheduler(n_servers, w->n_first, SUMS_BITS);
    TRY(stage_open_scheduler(&w->stage, &o, e));
    for (uint32_t i = 0; i < n_servers; i++) {
        struct shard_options so = sums_server(&w->sums);
        TRY(stage_open_server(&w->stage, &so, NULL, NULL, e));
    }
    for (uint32_t i = 0; i < w->n_first; i++)
        TRY(open_client(w, &w->workers[i], WIRE_WORKER, i, e));
    return 0;
}

// Opens the processes of one life.
static int open_cast(struct world *w, struct err *e)
{
    uint32_t n_servers = 1 + (uint32_t)draw(w, STAGE_SERVERS);
    w->n_first = 1 + (uint32_t)draw(w, 3);
    w->n_workers = w->n_first + (uint32_t)draw(w, MAX_WORKERS - w->n_first + 1);
    w->saves_left = 1 + (uint32_t)draw(w, 3);
    TRY(open_cluster(w, n_servers, e));
    for (uint32_t i = w->n_first; i < w->n_workers; i++)
        w->joins_at[i] = draw(w, 500 * MS);
    struct sim_seen seen = {SUMS_TABLE, 1, w->sums.keys[0]};
    TRY(stage_open_strangers(&w->stage, &seen, e));
    TRY(sums_open_other(&w->sums, e));
    return open_client(w, &w->driver, WIRE_DRIVER, 0, e);
}

static int world_open(void *ctx, struct err *e)
{
    struct world *w = ctx;
    w->sums = (struct sums){.stage = &w->stage,
                            .dir = w->stage.o->dir,
                            .n_keys = KEYS,
                            .most = most_of,
                            .ctx = w};
    TRY(sums_open(&w->sums, e));
    w->n_pieces = 4 + (uint32_t)draw(w, MAX_PIECES - 3);
    w->lives_left = (uint32_t)draw(w, LIVES);
    return open_cast(w, e);
}

static void world_close(void *ctx)
{
    struct world *w = ctx;
    sums_leave(&w->sums);
    stage_close(&w->stage);
    sums_close(&w->sums);
}

// Returns whether the client's request is over.
static bool is_over(struct worker *k)
{
    return k->ts == 0 || stage_is_over(&k->c, &k->ts, "a request");
}

static void ask(struct worker *k, uint16_t type, const void *msg, member_answer_fn answer)
{
    k->asking = true;
    if (member_ask(client_member(k->c.client), type, msg, answer, k) == 0)
        return;
    k->c.fades = true;
    if (!k->c.dead)
        failed(k->world, "worker %u cannot ask for %s", k->c.number, wire_name(type));
}

static void make_table(struct worker *k)
{
    struct table_config c = table_config_defaults();
    struct err *e = &k->c.stage->said;
    if (table_config_parse(&c, SUMS_CONFIG, e) == 0)
        k->ts = client_table(k->c.client, SUMS_TABLE, &c, e);
    begun(k, k->ts, "making the table");
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
    struct msg_data m = {.piece_bytes = 2};
    if (wire_put_data_file(&files, &f) != 0)
        failed(k->world, "out of memory");
    m.files = (struct wire_text){files.data, (uint32_t)files.len};
    ask(k, MSG_DATA, &m, on_data);
    buf_free(&files);
}

static void on_leased(void *ctx, const struct van_message *m)
{
    struct worker *k = ctx;
    k->asking = false;
    if (m == NULL || m->type != MSG_LEASED)
        return;
    k->lease = m->m->leased;
    k->group = 0;
    switch (k->lease.what) {
    case WIRE_LEASE_PIECE:
        k->doing = WORKS;
        k->world->twice += k->world->leased[k->lease.index]++ > 0;
        break;
    case WIRE_LEASE_MARK:
        k->doing = MARKS;
        k->ts = begun(
            k, client_mark(k->c.client, k->lease.save, k->lease.saver, &k->c.stage->said),
            "a mark");
        break;
    case WIRE_LEASE_OVER:
        k->doing = FINISHED;
        break;
    default:
        k->not_before = now_in(k->world) + 10 * MS;
    }
}

// A push with this number reuses the entry of an earlier push. Returns whether that push is over.
static bool has_place(struct worker *k, uint32_t group)
{
    client_ts *ts = &k->pushes[group % (AHEAD * PARTS)].ts;
    return *ts == 0 || stage_is_over(&k->c, ts, "a push");
}

// Returns whether the worker may push. A batch begins when the batch that is AHEAD
// batches earlier is acknowledged.
static bool may_push(struct worker *k)
{
    for (uint32_t i = 0; i < PARTS && k->group % PARTS == 0; i++)
        if (!has_place(k, k->group + i))
            return false;
    return true;
}

static bool all_pushed(struct worker *k)
{
    for (uint32_t i = 0; i < AHEAD * PARTS; i++)
        if (!has_place(k, i))
            return false;
    return true;
}

// Returns the group below which all batches are acknowledged.
static uint32_t low_of(const struct worker *k)
{
    uint32_t batch = k->group / PARTS, open = AHEAD - 1;
    if (k->world->stage.o->bug == WITHOUT_WAITING)
        open = 0;
    return batch > open ? (batch - open) * PARTS : 0;
}

// Pushes a part of a batch. If the worker dies after this push, another worker pushes all
// parts of the batch.
static void push_part(struct worker *k)
{
    struct world *w = k->world;
    uint32_t batch = k->group / PARTS, part = k->group % PARTS, n = KEYS / PARTS;
    struct push *at = &k->pushes[k->group % (AHEAD * PARTS)];
    for (uint32_t i = 0; i < n; i++)
        at->values[i] = (float)content(w, k->lease.index, batch, part * n + i);
    struct client_push p = {.table = SUMS_TABLE,
                            .keys = w->sums.keys + part * n,
                            .n = n,
                            .values = at->values,
                            .op = by_steps(w) ? WIRE_DELTA : WIRE_GRADIENT,
                            .rate = 1,
                            .pass = 1,
                            .id_pass = 1,
                            .id_piece = k->lease.index,
                            .id_group = k->group,
                            .id_low = low_of(k)};
    if (w->stage.o->bug == WITHOUT_PARTS) {
        p.id_group = batch;
        p.id_low = 0;
    }
    at->ts = begun(k, client_push(k->c.client, &p, &w->stage.said), "a push");
    k->group++;
    // Some workers are so slow that other workers get the piece, too.
    bool slow = has_backups(w) && one_in(w, 30);
    k->not_before = now_in(w) + draw(w, (slow ? 800 : 10) * MS);
}

static void on_reported(void *ctx, const struct van_message *m)
{
    struct telling *t = ctx;
    t->waits = false;
    if (m != NULL)
        t->worker->world->stage.o->counts[PIECES]++;
}

// Adds the steps of a piece before the piece is reported, so that a save with the piece
// also has its steps.
static void step_on(struct worker *k)
{
    struct err *e = &k->world->stage.said;
    k->doing = STEPS_ON;
    k->ts = begun(k, client_step(k->c.client, BATCHES, NULL, e), "steps");
}

// Reports the piece, and does not wait for the answer, unless TELLS reports have none.
static void report(struct worker *k)
{
    const uint64_t examples = examples_of(k->lease.index);
    struct telling *t = NULL;
    for (uint32_t i = 0; i < TELLS; i++)
        if (!k->tellings[i].waits)
            t = &k->tellings[i];
    if (t == NULL)
        return;
    struct msg_piece_done m = {.what = k->lease.what,
                               .number = k->told + 1,
                               .pass = 1,
                               .report = {(const char *)&examples, sizeof(examples)},
                               .file = k->lease.file,
                               .index = k->lease.index,
                               .at_end = k->lease.index + 1 == k->world->n_pieces,
                               .examples = examples};
    *t = (struct telling){k, true};
    k->told++;
    k->doing = ASKS;
    if (member_ask(client_member(k->c.client), MSG_PIECE_DONE, &m, on_reported, t) != 0)
        k->c.fades = true;
}

static void let_work(struct worker *k)
{
    if (k->asking || now_in(k->world) < k->not_before || !is_over(k) ||
        !member_ready(client_member(k->c.client)))
        return;
    switch (k->doing) {
    case MAKES_TABLE:
        if (client_spec(k->c.client, SUMS_TABLE) != NULL)
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
        ask(k, MSG_LEASE,
            &(struct msg_lease){.pass = 1, .marked = k->marked, .reports = k->told},
            on_leased);
        break;
    case WORKS:
        if (k->group == BATCHES * PARTS && all_pushed(k))
            step_on(k);
        else if (k->group < BATCHES * PARTS && may_push(k))
            push_part(k);
        break;
    case STEPS_ON:
        report(k);
        break;
    default:
        break;
    }
}

static void take_reports(struct world *w, struct wire_text reports)
{
    uint64_t examples;
    for (uint32_t at = 0; at + sizeof(examples) <= reports.n; at += sizeof(examples)) {
        memcpy(&examples, reports.data + at, sizeof(examples));
        w->reported += examples;
    }
}

static void on_pass(void *ctx, const struct van_message *m)
{
    struct worker *k = ctx;
    k->asking = false;
    k->world->opened = true;
    if (m == NULL || m->type != MSG_PASS_STATE)
        failed(k->world, "the driver cannot open the pass");
    else {
        k->world->done = m->m->pass_state.done;
        k->world->examples = m->m->pass_state.examples;
        k->world->data = m->m->pass_state.data;
        take_reports(k->world, m->m->pass_state.report);
    }
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
    w->cut_examples = s->examples;
    memset(w->cut, 0, sizeof(w->cut));
    if (w->known && wire_next_file_done(&list, &f) == 1 && f.bits.n <= sizeof(w->cut))
        memcpy(w->cut, f.bits.data, f.bits.n);
}

static void ask_cut(struct world *w, uint64_t save)
{
    ask(&w->driver, MSG_CUT, &(struct msg_cut){.save = save}, on_cut);
    w->driver.not_before = now_in(w) + 5 * MS;
}

// Separates a server and the node of this van for a while.
static void part(struct world *w, struct van *from)
{
    uint64_t now = now_in(w);
    w->apart = from;
    w->away = (uint32_t)draw(w, w->stage.n_servers);
    w->together_at = now + 100 * MS + draw(w, 400 * MS);
    sim_partition(w->stage.sim, from, w->stage.servers[w->away].van, true);
}

static void begin_save(struct world *w)
{
    static const uint32_t tables[1] = {SUMS_TABLE};
    struct client_save s = {.id = w->save,
                            .tables = tables,
                            .n = 1,
                            .marked = true,
                            .roster = w->roster,
                            .newest = w->newest};
    w->driver.ts = sums_save(&w->sums, &w->driver.c, &s);
    w->saver = SAVING;
    if (w->apart == NULL && one_in(w, 3))
        part(w, w->driver.c.van);
}

// Checks the counts of a save. If a worker died between adding its steps and its report,
// another worker does both again, so the steps may be counted twice. Steps are also
// counted twice if two workers trained on the same piece.
static void check_counted(struct world *w)
{
    uint64_t should = examples_in(w, false), steps = 0, most = 0;
    for (uint32_t p = 0; p < w->n_pieces; p++)
        steps += in_cut(w->cut, p) ? BATCHES : 0;
    most = steps + BATCHES * (w->deaths + w->stage.deaths + w->twice);
    if (w->cut_examples != should)
        failed(w, "save %llu says %llu examples of pieces that have %llu",
               (unsigned long long)w->save, (unsigned long long)w->cut_examples,
               (unsigned long long)should);
    if (w->sums.manifest.step < steps || w->sums.manifest.step > most)
        failed(w, "save %llu says %llu steps, not %llu to %llu",
               (unsigned long long)w->save, (unsigned long long)w->sums.manifest.step,
               (unsigned long long)steps, (unsigned long long)most);
}

static void end_save(struct world *w)
{
    struct resumed *to = &w->last;
    w->sums.commits = !w->torn;
    w->driver.ts = sums_end_save(&w->sums, &w->driver.c, w->save);
    w->saver = ENDS;
    if (!w->sums.commits)
        return;
    check_counted(w);
    w->saved = true;
    to->checksum = w->sums.manifest.checksum;
    to->examples = w->cut_examples;
    to->data = w->data;
    memcpy(to->path, strrchr(w->sums.path, '/') + 1, strlen(strrchr(w->sums.path, '/')));
    memcpy(to->cut, w->cut, sizeof(w->cut));
}

static void save_holds(void *ctx, uint32_t key, int64_t *least, int64_t *most)
{
    *least = *most = sum_of(ctx, key, false);
}

// Makes a save, step by step: its turn, the pieces, the rows, the end, and the end of
// marking.
static void let_save(struct world *w)
{
    switch (w->saver) {
    case IDLE:
        w->save = 10 + w->saves_left + 100 * (uint64_t)w->n_drivers;
        w->saver = TURNS;
        w->driver.ts = sums_begin_save(&w->sums, &w->driver.c, w->save, SAVE_CHECKPOINT);
        break;
    case TURNS:
        ask_cut(w, w->save);
        w->saver = CUTS;
        break;
    case CUTS:
        begin_save(w);
        break;
    case SAVING:
        if (!w->known)
            ask_cut(w, w->save);
        else
            end_save(w);
        break;
    case ENDS:
        sums_forget_save(&w->sums, w->save, save_holds);
        w->stage.o->counts[w->sums.commits ? SAVES : TORN]++;
        w->saves_left--;
        ask_cut(w, 0);
        w->saver = LETS_GO;
        break;
    case LETS_GO:
        w->saver = IDLE;
        break;
    }
}

// Opens the pass, from the position of the newest save if there is one.
static void open_pass(struct world *w)
{
    struct buf done = BUF_INIT(4096);
    struct msg_pass m = {.pass = 1,
                         .kind = WIRE_PASS_PIECES,
                         .seed = w->stage.o->seed,
                         .backups = has_backups(w)};
    struct wire_file_done f = {
        .bits = {(const char *)w->last.cut, (w->n_pieces + 7) / 8}};
    m.note = wire_text("the driver's note");
    if (!w->goes_on)
        w->before = w->last.examples;
    if (w->last.path[0] != 0) {
        if (wire_put_file_done(&done, &f) != 0)
            failed(w, "out of memory");
        m.done = (struct wire_text){done.data, (uint32_t)done.len};
        m.examples = w->last.examples;
        m.data = w->last.data;
    }
    ask(&w->driver, MSG_PASS, &m, on_pass);
    buf_free(&done);
}

static void load_last(struct world *w)
{
    struct worker *k = &w->driver;
    struct err *e = &w->stage.said;
    k->doing = LOADS;
    k->ts = begun(k,
                  client_load(k->c.client, SUMS_TABLE, w->last.path, w->last.checksum,
                              "sums", true, NULL, e),
                  "a load");
}

// Does the driver's actions before the pass. Returns false when the driver is ready for
// the pass.
static bool prepares(struct world *w)
{
    struct worker *k = &w->driver;
    // LOADS: the load is over.
    if (w->goes_on || w->last.path[0] == 0 || k->doing == LOADS)
        return false;
    if (client_spec(k->c.client, SUMS_TABLE) == NULL)
        make_table(k);
    else
        load_last(w);
    return true;
}

// Called after the scheduler was started again: a new driver begins with it.
static void drive_again(void *ctx)
{
    struct world *w = ctx;
    struct err e = {0};
    if (w->driver.c.client == NULL)
        return; // the driver had not begun
    stage_close_client(&w->driver.c);
    sums_drop_save(&w->sums);
    memset(&w->driver, 0, sizeof(w->driver));
    w->saver = IDLE;
    w->opened = w->done = w->known = false;
    w->reported = 0;
    w->goes_on = scheduler_note_of_pass(w->stage.scheduler).n > 0;
    if (open_client(w, &w->driver, WIRE_DRIVER, 100 + w->n_drivers++, &e) != 0)
        failed(w, "another driver: %s", e.text);
}

// If the scheduler is dead, the driver dies with it. Returns whether the driver is dead.
static bool dies_with_scheduler(struct world *w)
{
    struct worker *k = &w->driver;
    if (!stage_is_down(&w->stage) || k->c.client == NULL)
        return k->c.dead;
    if (!k->c.dead)
        sim_process_crash(k->c.process, w->stage.sim);
    k->c.dead = true;
    return true;
}

static void let_drive(struct world *w)
{
    struct worker *k = &w->driver;
    if (dies_with_scheduler(w))
        return;
    // the pass and the save go on at the same time
    bool pays = w->saver == SAVING && !w->known;
    if (!stage_acts(&k->c) || k->asking || now_in(w) < k->not_before ||
        (!pays && !is_over(k)) || !member_ready(client_member(k->c.client)))
        return;
    if (!w->opened) {
        if (!prepares(w))
            open_pass(w);
    } else if (w->goes_on) { // the previous driver may have died during a save
        w->goes_on = false;
        ask_cut(w, 0);
        w->saver = LETS_GO;
    } else if (w->saver != IDLE || (!w->done && w->saves_left > 0 && one_in(w, 15) &&
                                    // the table exists
                                    w->workers[0].doing != MAKES_TABLE)) {
        let_save(w);
    } else if (!w->done) {
        ask(k, MSG_PASS_WANTED, &(struct msg_pass_wanted){.pass = 1}, on_pass);
        k->not_before = now_in(w) + 5 * MS;
    }
}

// ---------------------------------------------------------------- running a world

// Lets late workers join at any time, but more often at the critical moment: when the
// pieces of a save have just become known. One of the servers may then be separated from
// the scheduler for a while, so that it does not know the worker.
static void let_join(struct world *w, uint32_t i, uint64_t now)
{
    struct err e = {0};
    bool save = w->saver == SAVING && w->known && one_in(w, 3);
    if (!w->opened || stage_is_down(&w->stage) || (now < w->joins_at[i] && !save))
        return;
    if (open_client(w, &w->workers[i], WIRE_WORKER, i, &e) != 0)
        failed(w, "worker %u: %s", i, e.text);
    w->stage.o->counts[JOINS]++;
    if (w->apart == NULL && one_in(w, 2))
        part(w, w->stage.scheduler_van);
}

static void let_live(struct world *w, uint32_t i)
{
    struct worker *k = &w->workers[i];
    if (k->c.client == NULL)
        let_join(w, i, now_in(w));
    else if (stage_acts(&k->c) && !(k->doing != MAKES_TABLE && stage_dies(&k->c)))
        let_work(k);
}

static void act(void *ctx)
{
    struct world *w = ctx;
    for (uint32_t i = 0; i < w->n_workers; i++)
        let_live(w, i);
    if (w->apart != NULL && (now_in(w) >= w->together_at || stage_is_down(&w->stage))) {
        sim_partition(w->stage.sim, w->apart, w->stage.servers[w->away].van, false);
        w->apart = NULL;
    }
    let_drive(w);
    sums_step(&w->sums, w->workers[0].doing != MAKES_TABLE && w->opened);
}

static void check_sums(struct world *w)
{
    if (w->examples != examples_in(w, true))
        failed(w, "the pass had %llu examples, not %llu", (unsigned long long)w->examples,
               (unsigned long long)examples_in(w, true));
    if (w->reported != w->examples - w->before)
        failed(w, "the driver has reports of %llu examples, not %llu",
               (unsigned long long)w->reported,
               (unsigned long long)(w->examples - w->before));
    for (uint32_t i = 0; i < KEYS; i++) {
        int64_t is = stage_sum(&w->stage, SUMS_TABLE, w->sums.keys[i]);
        int64_t should = sum_of(w, i, true);
        if (is != should)
            failed(w, "key %u has %lld at the end, not %lld", i, (long long)is,
                   (long long)should);
    }
}

// Crashes all processes of the run after a save; new processes resume from the save.
static void begin_again(struct world *w)
{
    struct err e = {0};
    w->others += sim_saver_saves(w->sums.other);
    w->deaths += w->stage.deaths;
    w->resent += stage_resent(&w->stage);
    sums_crash(&w->sums);
    w->saver = IDLE;
    w->opened = w->done = w->saved = w->goes_on = false;
    w->reported = 0;
    w->n_drivers = 0;
    w->apart = NULL;
    w->lives_left--;
    w->stage.o->counts[++w->lives > 1 ? AGAIN : RESUMED]++;
    int rc = stage_again(&w->stage, &e); // also closes the clients
    memset(w->workers, 0, sizeof(w->workers));
    memset(&w->driver, 0, sizeof(w->driver));
    if (rc != 0 || open_cast(w, &e) != 0)
        failed(w, "life %u: %s", w->lives + 1, e.text);
}

static void work(void *ctx)
{
    struct world *w = ctx;
    uint64_t until = 900 * SECOND;
    while (!w->done || w->saver != IDLE || !sim_saver_is_done(w->sums.other)) {
        if (w->saved && w->lives_left > 0 && !w->done && one_in(w, 40))
            begin_again(w);
        if (!stage_step(&w->stage, until)) {
            failed(w, "the pass hangs; the save is at %d, %s", (int)w->saver,
                   w->known ? "known" : "not known");
            return;
        }
    }
    if (w->stage.failure.code == 0)
        check_sums(w);
}

static void count(void *ctx, uint64_t *counts)
{
    const struct world *w = ctx;
    counts[TWICE] += w->twice;
    counts[DEATHS] += w->deaths + w->stage.deaths;
    counts[EVENTS] += w->stage.events;
    counts[KEPT] += w->stage.restarts.deaths;
    counts[RESENT] += w->resent + stage_resent(&w->stage);
    counts[OTHERS] += w->others + sim_saver_saves(w->sums.other);
}

static void check_counts(const uint64_t *counts, uint64_t seeds)
{
    assert_true(counts[TWICE] > seeds);
    assert_true(counts[PIECES] > 5 * seeds && counts[SAVES] > seeds / 2);
    assert_true(counts[JOINS] > seeds && counts[DEATHS] > seeds / 10);
    assert_true(counts[OTHERS] > seeds / 2 && counts[TORN] > 0 && counts[RESENT] > seeds);
    assert_true(counts[RESUMED] > seeds / 10 && counts[AGAIN] > seeds / 50);
}

int main(int argc, char **argv)
{
    static const struct stage_world world = {.bytes = sizeof(struct world),
                                             .stream = CHOICE,
                                             .open = world_open,
                                             .act = act,
                                             .work = work,
                                             .count = count,
                                             .again = drive_again,
                                             .close = world_close};
    static const struct seeds passes = {
        .program = "test_sim_passes",
        // Only one world in hundreds shows this bug.
        .bugs = {{WITHOUT_LATE_MARKS, .near = 262},
                 {WITHOUT_ROSTER_OF_SAVES},
                 {WITHOUT_SECOND_REPORTS},
                 {WITHOUT_TURNS},
                 {WITHOUT_PARTS, "without-parts"},
                 {WITHOUT_WAITING, "without-waiting"}},
        .state_bugs = {{ANSWERED_BEFORE_DURABLE},
                       {WITHOUT_ROW_FORGETS},
                       {WITHOUT_ROW_DATA},
                       {WITHOUT_ROW_PASS},
                       {WITHOUT_ROW_PIECES},
                       {WITHOUT_ROW_REPORT},
                       {WITHOUT_ROW_WORK},
                       {WITHOUT_TOLD_PIECES, .near = 90},
                       {WITHOUT_UNSURE_WORKERS, .near = 114}},
        .counted = {"pieces leased twice", "pieces", "saves", "torn", "saves by another",
                    "joins", "deaths", "messages sent again", "events", "resumed",
                    "resumed again", "schedulers that came back"},
        .world = &world,
        .seeds = 200,
        .state_seeds = 200,
        // Seeds in which a driver died before one server knew of its save.
        .state_kept = {388, 6943},
        .bug_seeds = 1000,
        .check = check_counts,
    };
    return seeds_main(&passes, argc, argv);
}
