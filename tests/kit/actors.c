// See actors.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/actors.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"

static uint64_t chance(struct actor *a, uint64_t n)
{
    return random_below(a->w->seed, (uint64_t)(a - a->w->actors) + 1, a->steps++, n);
}

static void world_log(void *ctx, const char *line)
{
    struct world *w = ctx;
    size_t at = strlen(w->log);
    snprintf(w->log + at, sizeof(w->log) - at, "%s\n", line);
}

// ---------------------------------------------------------------- the driver

static void take_reports(struct world *w, const struct msg_pass_state *m)
{
    assert_int_equal(m->report.n, m->reports * sizeof(uint64_t));
    for (uint64_t i = 0; i < m->reports; i++) {
        uint64_t piece;
        memcpy(&piece, m->report.data + i * sizeof(piece), sizeof(piece));
        assert_in_range(piece, 0, MAX_PIECES - 1);
        w->reported[piece]++;
    }
}

// Checks that the report has every piece once, and nothing else.
static void check_pieces(const struct world *w, const struct msg_pass_state *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < w->pieces; i++) {
        assert_int_equal(w->reported[i], s->pass);
        sum += i + 1;
    }
    assert_int_equal(s->examples, sum);
    assert_int_equal(s->pieces, w->pieces);
}

static void check_items(const struct world *w, uint64_t pass)
{
    for (int i = 0; i < ITEMS; i++)
        if (!w->items[pass][i])
            fail_msg("seed %llu: pass %llu is done without item %d",
                     (unsigned long long)w->seed, (unsigned long long)pass, i);
}

static void on_pass_state(void *ctx, const struct van_message *m)
{
    struct actor *a = ctx;
    struct world *w = a->w;
    a->asking = false;
    if (m == NULL)
        return;
    assert_int_equal(m->type, MSG_PASS_STATE);
    const struct msg_pass_state *s = &m->m->pass_state;
    take_reports(w, s);
    a->opened = true;
    if (!s->done)
        return;
    if (w->shares)
        check_items(w, s->pass);
    else
        check_pieces(w, s);
    w->reported_pass = s->pass;
    a->pass++;
    a->opened = false;
}

static void on_run_over(void *ctx, const struct van_message *m)
{
    struct actor *a = ctx;
    if (m != NULL)
        assert_int_equal(m->type, MSG_OK);
    a->over = true;
    member_leave(a->m, NULL);
}

static void drive(struct actor *a)
{
    struct world *w = a->w;
    if (a->asking || a->over)
        return;
    if (a->pass == 0)
        a->pass = 1;
    if (a->pass <= w->passes) {
        struct msg_pass open = {.pass = a->pass,
                                .kind = w->shares ? WIRE_PASS_SHARES : WIRE_PASS_PIECES,
                                .seed = w->seed};
        struct msg_pass_wanted wanted = {.pass = a->pass};
        a->asking = true;
        assert_int_equal(
            a->opened ? member_ask(a->m, MSG_PASS_WANTED, &wanted, on_pass_state, a)
                      : member_ask(a->m, MSG_PASS, &open, on_pass_state, a),
            0);
        return;
    }
    a->waits = true;
    if (!w->go_on)
        return;
    struct msg_run_over over = {.code = 0};
    a->asking = true;
    assert_int_equal(member_ask(a->m, MSG_RUN_OVER, &over, on_run_over, a), 0);
}

// ---------------------------------------------------------------- A worker

static void on_data_ok(void *ctx, const struct van_message *m)
{
    struct actor *a = ctx;
    a->asking = false;
    if (m != NULL)
        assert_int_equal(m->type, MSG_OK);
    a->told_data = true;
}

static void tell_data(struct actor *a)
{
    struct buf files = BUF_INIT(4096);
    struct wire_data_file f = {
        .bytes = 1000,
        .hash = 5,
        .pieces = a->w->compressed ? UINT64_MAX : a->w->pieces,
        .compressed = a->w->compressed,
        .name = wire_text("data"),
    };
    assert_int_equal(wire_put_data_file(&files, &f), 0);
    struct msg_data m = {.piece_bytes = 2};
    m.files = (struct wire_text){files.data, (uint32_t)files.len};
    a->asking = true;
    assert_int_equal(member_ask(a->m, MSG_DATA, &m, on_data_ok, a), 0);
    buf_free(&files);
}

static void on_leased(void *ctx, const struct van_message *m)
{
    struct actor *a = ctx;
    a->asking = false;
    if (m == NULL)
        return;
    assert_int_equal(m->type, MSG_LEASED);
    if (m->m->leased.what == WIRE_LEASE_WAIT)
        return;
    a->piece = m->m->leased;
    a->has_piece = a->piece.what == WIRE_LEASE_PIECE;
    if (a->has_piece) {
        assert_in_range(a->piece.pass, 1, MAX_PASSES - 1);
        assert_in_range(a->piece.index, 0, 2 * MAX_PIECES - 1);
        a->w->pending_by[a->piece.pass][a->piece.index] |= 1u << (a - a->w->actors);
    }
    if (a->piece.what == WIRE_LEASE_OVER) {
        a->over = true;
        member_leave(a->m, NULL);
    }
}

static void on_piece_done(void *ctx, const struct van_message *m)
{
    struct actor *a = ctx;
    a->asking = a->has_piece = false;
    if (m != NULL)
        assert_int_equal(m->type, MSG_OK);
}

static void report_piece(struct actor *a)
{
    uint64_t index = a->piece.index;
    bool behind = index >= a->w->pieces;
    struct msg_piece_done m = {
        .pass = a->piece.pass,
        .file = a->piece.file,
        .index = index,
        .at_end = index + 1 >= a->w->pieces,
        .held = index % 2 == 0,
        .examples = behind ? 0 : index + 1,
        .report = {behind ? NULL : (const char *)&index, behind ? 0 : sizeof(index)},
    };
    a->asking = true;
    assert_int_equal(member_ask(a->m, MSG_PIECE_DONE, &m, on_piece_done, a), 0);
}

static bool all_items(const struct world *w, uint64_t pass)
{
    for (int i = 0; i < ITEMS; i++)
        if (!w->items[pass][i])
            return false;
    return true;
}

// Does the worker's share of the pass. As in training, the worker cannot finish before
// all shares are done, because a VIEW may give it the share of a worker that has died.
static void do_share(struct actor *a)
{
    bool *items = a->w->items[a->piece.pass];
    if (chance(a, 10) > 0)
        return; // a step may do nothing, so that the order of events differs
    for (uint32_t i = a->piece.slot; i < ITEMS; i += a->piece.slots)
        items[i] = true;
    if (!all_items(a->w, a->piece.pass))
        return;
    struct msg_lease m = {
        .pass = a->piece.pass, .finished = a->piece.pass, .view = a->piece.view};
    a->asking = true;
    assert_int_equal(member_ask(a->m, MSG_LEASE, &m, on_leased, a), 0);
}

static void actor_view(void *ctx, const struct msg_view *m)
{
    struct actor *a = ctx;
    if (a->piece.what != WIRE_LEASE_SHARE || m->pass != a->piece.pass ||
        m->view <= a->piece.view)
        return;
    a->piece.view = m->view;
    a->piece.slot = m->slot;
    a->piece.slots = m->slots;
}

// Checks a FORGET: no pushes of this piece will arrive any more. So all actors that held
// the piece, except one, must be known to be dead.
static void actor_forget(void *ctx, const struct msg_forget *m)
{
    const struct actor *a = ctx;
    uint32_t alive = 0;
    for (uint32_t i = 0; i < a->w->n; i++) {
        const struct roster_node *n = roster_find(member_roster(a->m),
                                                  member_id(a->w->actors[i].m));
        if (a->w->pending_by[m->pass][m->piece] & (1u << i))
            alive += n == NULL || n->alive;
    }
    assert_in_range(alive, 0, 1);
}

static void work(struct actor *a)
{
    if (a->asking || a->over)
        return;
    if (!a->told_data) {
        tell_data(a);
    } else if (a->has_piece) {
        report_piece(a);
    } else if (a->piece.what == WIRE_LEASE_SHARE) {
        do_share(a);
    } else {
        struct msg_lease m = {.pass = a->piece.pass};
        a->asking = true;
        assert_int_equal(member_ask(a->m, MSG_LEASE, &m, on_leased, a), 0);
    }
}

// ---------------------------------------------------------------- A server

// Keeps those of the reported moves that go on.
static void keep_some(struct actor *a, uint64_t bits)
{
    uint32_t n = 0;
    assert_int_not_equal(bits, 0);
    assert_int_equal(bits >> a->n_reported, 0);
    for (uint32_t i = 0; i < a->n_reported; i++)
        if (bits >> i & 1)
            a->reported[n++] = a->reported[i];
    assert_in_range(n, 1, a->n_reported - 1);
    a->n_reported = n;
    a->some = true;
    a->move = a->reported[0];
    a->says++;
}

static void on_move_said(void *ctx, const struct van_message *m)
{
    struct actor *a = ctx;
    a->telling = false;
    if (m == NULL)
        return;
    assert_int_equal(m->type, MSG_OK);
    uint64_t word = m->m->ok.value, kind = word & ((1 << WIRE_MOVED_BITS) - 1);
    if (kind == WIRE_MOVE_GO_ON && a->says == WIRE_MOVE_ARRIVED)
        a->arrived = a->move; // the roster shows the result of the move
    else if (kind == WIRE_MOVE_GO_ON)
        a->says++;
    else if (kind == WIRE_MOVE_OVER)
        a->move = 0;
    else if (kind == WIRE_MOVE_SOME)
        keep_some(a, word >> WIRE_MOVED_BITS);
}

static const struct roster_move *move_of(const struct actor *a)
{
    const struct roster *r = member_roster(a->m);
    const struct roster_move *first = NULL;
    for (uint32_t i = 0; i < r->n_moves; i++) {
        if (r->moves[i].to != member_id(a->m))
            continue;
        if (r->moves[i].id == a->move)
            return &r->moves[i];
        if (first == NULL && r->moves[i].id != a->arrived)
            first = &r->moves[i];
    }
    return first;
}

static bool goes_on(const struct actor *a, uint64_t move)
{
    uint32_t i = 0;
    while (i < a->n_reported && a->reported[i] != move)
        i++;
    return i < a->n_reported;
}

// Lists the other moves to this server that are reported with a->move.
static void list_others(struct actor *a, struct buf *to)
{
    const struct roster *r = member_roster(a->m);
    uint32_t n = 1;
    for (uint32_t i = 0; i < r->n_moves && a->together && n < WIRE_MOVES_MOST; i++) {
        struct wire_moving one = {r->moves[i].id, 100 * (1 + (uint64_t)a->says), 300};
        if (r->moves[i].to != member_id(a->m) || one.move == a->move ||
            (a->some && !goes_on(a, one.move)))
            continue;
        if (wire_put_moving(to, &one) != 0)
            return; // memory is out: it reports fewer moves
        n++;
    }
}

// Notes the moves of a report.
static void note_report(struct actor *a, struct wire_text others)
{
    struct wire_moving one;
    a->reported[0] = a->move;
    a->n_reported = 1;
    while (wire_next_moving(&others, &one) == 1)
        a->reported[a->n_reported++] = one.move;
}

// Takes over the partitions that the roster assigns to this server, one after the other
// or together.
static void take_partition(struct actor *a)
{
    const struct roster_move *x = move_of(a);
    if (a->telling || x == NULL || x->id == a->arrived)
        return;
    if (a->move != x->id) {
        a->move = x->id;
        a->says = WIRE_MOVE_COPYING;
        a->some = false;
    }
    if (a->mute != 0 && a->says == a->mute)
        return;
    if (a->fails_with != 0)
        a->says = WIRE_MOVE_FAILED;
    struct buf others = BUF_INIT(WIRE_TEXT_MAX);
    list_others(a, &others);
    note_report(a, (struct wire_text){others.data, (uint32_t)others.len});
    struct msg_move_says m = {
        .move = a->move,
        .state = (uint8_t)a->says,
        .bytes = 100 * (1 + (uint64_t)a->says),
        .total = 300,
        .code = a->fails_with,
        .why = wire_text(a->fails_with != 0 ? "its own reason" : ""),
        .others = {others.data, (uint32_t)others.len}};
    a->telling = member_ask(a->m, MSG_MOVE_SAYS, &m, on_move_said, a) == 0;
    buf_free(&others);
}

// Checks a barrier of servers and workers together: an actor may leave it only when all
// actors have entered it.
static void check_barrier(struct actor *a)
{
    for (uint32_t i = 0; i < a->w->n; i++) {
        struct actor *b = &a->w->actors[i];
        if (b->role == WIRE_DRIVER || b->crashed || b->late)
            continue;
        if (b->barriers < a->reached)
            fail_msg("seed %llu: actor %u has reached %llu barriers, another is out of "
                     "barrier %llu",
                     (unsigned long long)a->w->seed, i, (unsigned long long)b->barriers,
                     (unsigned long long)a->reached);
    }
}

static bool meet(struct actor *a)
{
    const uint8_t group = WIRE_GROUP_SERVERS | WIRE_GROUP_WORKERS;
    if (!a->w->with_barriers || a->late || a->reached == BARRIERS)
        return true;
    if (a->barriers == a->reached) {
        a->barriers++;
        member_barrier(a->m, group);
    } else if (member_barrier_done(a->m, group, NULL)) {
        a->reached++;
        check_barrier(a);
        a->act_at = sim_now(a->w->sim) + chance(a, SECONDS);
    }
    return false;
}

static void act(struct actor *a)
{
    if (member_ended(a->m, NULL)) {
        member_leave(a->m, NULL);
        return;
    }
    if (!member_ready(a->m))
        return;
    if (a->leaves_with != 0) {
        struct err why;
        err_because(&why, a->leaves_with, REASON_DIVERGED, 0, "its own reason");
        member_leave(a->m, &why);
        return;
    }
    if (a->role == WIRE_SERVER)
        take_partition(a);
    if (a->role == WIRE_DRIVER && a->w->with_work)
        drive(a);
    else if (a->role != WIRE_DRIVER && meet(a) && a->role == WIRE_WORKER &&
             a->w->with_work)
        work(a);
}

// ---------------------------------------------------------------- the actor's van

static void actor_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    member_opened(((struct actor *)ctx)->m, link, accepted, now);
}

static void actor_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    assert_true(member_message(((struct actor *)ctx)->m, link, m, now));
}

static void actor_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    member_closed(((struct actor *)ctx)->m, link, why, now);
}

static uint64_t actor_tick(void *ctx, uint64_t now)
{
    struct actor *a = ctx;
    if (now >= a->act_at) {
        a->act_at = now + 50 * MILLIS + chance(a, 50 * MILLIS);
        act(a);
    }
    uint64_t due = member_tick(a->m, now);
    if (member_left(a->m))
        return VAN_NEVER;
    return due < a->act_at ? due : a->act_at;
}

static void actor_changed(void *ctx, const struct roster *r, uint64_t now)
{
    struct actor *a = ctx;
    (void)now;
    assert_true(r->version > a->version);
    a->version = r->version;
}

struct scheduler_options world_options(uint32_t servers, uint32_t workers)
{
    return (struct scheduler_options){
        .cluster = CLUSTER,
        .servers = servers,
        .workers = workers,
        .partition_bits = 6,
        .gather_timeout_ns = 60 * SECONDS,
        .dead_timeout_ns = 5 * SECONDS,
        .leave_timeout_ns = 30 * SECONDS,
        .session_base = 1000,
        .pid = 1,
        .host = "here",
        .log = world_log,
    };
}

static void world_open_scheduler(struct world *w, const struct scheduler_options *o)
{
    struct scheduler_options so = *o;
    struct err e = {0};
    char address[VAN_ADDRESS_MAX];
    so.log_ctx = w;
    assert_int_equal(scheduler_open(&w->s, &so, &e), 0);
    struct van_handler h = scheduler_handler(w->s);
    assert_int_equal(sim_van_open(&w->v, w->sim, "scheduler", &h, &e), 0);
    assert_int_equal(van_listen(w->v, "sim://scheduler", address, &e), 0);
    scheduler_serve(w->s, w->v, address);
}

void world_restart_scheduler(struct world *w, const struct scheduler_options *o)
{
    sim_crash(w->sim, w->v);
    van_free(w->v);
    scheduler_close(w->s);
    world_open_scheduler(w, o);
}

void world_open(struct world *w, uint64_t seed, const struct scheduler_options *o)
{
    struct sim_options net = {.seed = seed, .delay_min = MILLIS, .delay_max = 9 * MILLIS};
    struct err e = {0};
    *w = (struct world){.seed = seed};
    assert_int_equal(sim_open(&w->sim, &net, &e), 0);
    world_open_scheduler(w, o);
}

struct member_options world_member(struct world *w, enum wire_role role, uint32_t i)
{
    (void)w;
    return (struct member_options){
        .cluster = CLUSTER,
        .scheduler = "sim://scheduler",
        .role = role,
        .ticket = 100 + i,
        .process = 500 + i,
        .loops = 1,
        .pid = 10 + i,
        .host = "host",
        .address = "sim://somewhere",
        .scheduler_timeout_ns = 60 * SECONDS,
        .resend_ns = SECONDS,
    };
}

struct actor *world_add_with(struct world *w, struct member_options *o)
{
    assert_true(w->n < MAX_ACTORS);
    struct actor *a = &w->actors[w->n];
    char name[32];
    snprintf(name, sizeof(name), "actor%u", w->n++);
    *a = (struct actor){.w = w, .role = o->role};
    o->changed = actor_changed;
    o->forget = actor_forget;
    o->view = actor_view;
    o->ctx = a;
    struct van_handler h = {.ctx = a,
                            .opened = actor_opened,
                            .message = actor_message,
                            .closed = actor_closed,
                            .tick = actor_tick};
    struct err e = {0};
    assert_int_equal(member_open(&a->m, o, &e), 0);
    assert_int_equal(sim_van_open(&a->v, w->sim, name, &h, &e), 0);
    member_serve(a->m, a->v, sim_now(w->sim));
    return a;
}

struct actor *world_add(struct world *w, enum wire_role role)
{
    struct member_options o = world_member(w, role, w->n);
    return world_add_with(w, &o);
}

void world_add_all(struct world *w, uint32_t servers, uint32_t workers, bool driver)
{
    for (uint32_t i = 0; i < servers; i++)
        world_add(w, WIRE_SERVER);
    for (uint32_t i = 0; i < workers; i++)
        world_add(w, WIRE_WORKER);
    if (driver)
        world_add(w, WIRE_DRIVER);
}

void world_crash(struct actor *a)
{
    a->crashed = true;
    sim_crash(a->w->sim, a->v);
}

void world_run(struct world *w, uint64_t until)
{
    until += sim_now(w->sim);
    while (sim_step(w->sim, until))
        ;
}

static bool world_all_left(const struct world *w)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (!w->actors[i].crashed && !member_left(w->actors[i].m))
            return false;
    return true;
}

struct err world_finish(struct world *w, uint64_t limit)
{
    struct err e = {0};
    limit += sim_now(w->sim);
    while (!(scheduler_finished(w->s, &e) && world_all_left(w)))
        if (!sim_step(w->sim, limit) && sim_now(w->sim) >= limit) {
            printf("%s", w->log);
            for (uint32_t i = 0; i < w->n; i++) {
                struct err why = {0};
                bool ended = member_ended(w->actors[i].m, &why);
                printf("actor %u: role %d id %u crashed %d left %d ended %d (%s)\n", i,
                       w->actors[i].role, member_id(w->actors[i].m), w->actors[i].crashed,
                       member_left(w->actors[i].m), ended, why.text);
            }
            fail_msg("seed %llu hangs", (unsigned long long)w->seed);
        }
    return e;
}

void world_close(struct world *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        van_free(w->actors[i].v);
        member_close(w->actors[i].m);
    }
    van_free(w->v);
    scheduler_close(w->s);
    sim_close(w->sim);
}
