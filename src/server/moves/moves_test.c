// Both ends of a move: the test plays the scheduler and the other server. After the
// source has given a partition away, no server serves it until a roster names its owner.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/moves/moves.h"

#include "kit/lone_shard.h"

#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "kit/files.h"
#include "kit/test.h"
#include "save/save.h"
#include "server/moves/partition.h"
#include "server/saves/roots.h"

enum { BITS = 3, P = 2, WIDTH = 2, KEYS = 40, T = 2, SYNC = 3, MOVE = 77, PEER_LINK = 5 };
enum { PIECE = 1 << 20 }; // most bytes of a message of the source
#define MS (SECOND_NS / 1000)

static const struct shard_options plain;
static uint64_t keys[KEYS];
static float values[KEYS * WIDTH];
static uint32_t n_keys;

static void make_tables(struct lone *w)
{
    struct table_spec s = lone_plain_spec(T, WIRE_ASYNC, WIDTH);
    lone_make_table(w, &s);
    s = lone_plain_spec(SYNC, WIRE_SYNC, WIDTH);
    lone_make_table(w, &s);
}

// Opens a shard that has partition P, or all its partitions except P, and a move of P.
static struct lone *open_one(bool has, const struct shard_options *o)
{
    struct lone *w = lone_open_shard(BITS, o);
    uint64_t all[KEYS];
    w->mine[P] = true;
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, all);
    n_keys = 0;
    for (uint32_t i = 0; i < n; i++)
        if (roster_partition(BITS, WIRE_SPACE_SPARSE, all[i]) == P)
            keys[n_keys++] = all[i];
    w->mine[P] = has;
    lone_begin(w, WORKERS);
    make_tables(w);
    w->hears_moves = true;
    w->move = (struct wire_move){
        .move = MOVE, .space = WIRE_SPACE_SPARSE, .partition = P, .to = has ? OTHER : ME};
    lone_send_roster(w);
    return w;
}

static void push(struct lone *w)
{
    for (uint32_t i = 0; i < n_keys * WIDTH; i++)
        values[i] = 1;
    struct msg_push m = lone_push_of(w, 0, T, keys, n_keys, values, WIDTH);
    lone_send_push(w, 0, &m);
}

static void end_move(struct lone *w, bool given)
{
    w->move.move = 0;
    w->epoch += given;
    w->mine[P] = given ? !w->mine[P] : w->mine[P];
    lone_send_roster(w);
}

// ---------------------------------------------------------------- the source

static struct lone *open_source_with(const struct shard_options *o)
{
    struct lone *w = open_one(true, o);
    w->role = WIRE_OPERATOR;
    struct msg_hello hello = {.cluster = 77,
                              .role = WIRE_SERVER,
                              .node = OTHER,
                              .session = OTHER,
                              .version = wire_text("0")};
    uint8_t proof[MAC_BYTES];
    lone_prove_hello(&hello, proof);
    w->h.opened(w->h.ctx, PEER_LINK, true, w->now);
    lone_deliver(w, PEER_LINK, MSG_HELLO, 0, &hello);
    parcel_unpin(lone_expect(w, MSG_WELCOME));
    return w;
}

static struct lone *open_source(void)
{
    return open_source_with(&plain);
}

static void want(struct lone *w, uint64_t move, uint64_t at, bool finish)
{
    struct msg_move_wanted m = {
        .session = OTHER, .move = move, .at = at, .finish = finish};
    lone_deliver(w, PEER_LINK, MSG_MOVE_WANTED, 1 + at, &m);
}

static void expect_nothing(struct lone *w)
{
    struct parcel *p = lone_expect(w, MSG_PARCEL);
    assert_int_equal(p->m.parcel.bytes.n, 0);
    assert_int_equal(p->m.parcel.total, 0);
    parcel_unpin(p);
}

// Gets the records of the partition that the source has now. `finish`: asks the source to
// hand the partition over, and gets all its records.
static void fetch(struct lone *w, bool finish, struct buf *bytes)
{
    for (bool last = false; !last;) {
        want(w, MOVE, bytes->len, finish);
        struct parcel *p = lone_expect(w, MSG_PARCEL);
        assert_int_equal(p->m.parcel.at, bytes->len);
        assert_int_equal(buf_add(bytes, p->m.parcel.bytes.data, p->m.parcel.bytes.n), 0);
        last = bytes->len == p->m.parcel.total;
        assert_int_equal(p->m.parcel.last, last && finish);
        parcel_unpin(p);
    }
}

// Sends requests that need the partition, or all partitions. None of them is answered.
static void send_all(struct lone *w)
{
    struct msg_pull pull = lone_pull_of(w, 1, T, keys, n_keys);
    struct msg_step step = {.epoch = w->epoch, .session = lone_session(2), .steps = 1};
    struct msg_table_do day = {.what = WIRE_DAY, .table = T, .number = 1, .low = 1};
    push(w);
    lone_send_pull(w, 1, &pull);
    lone_deliver(w, WORKER_LINK + 2, MSG_STEP, ++w->next_request, &step);
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, ++w->next_request, &day);
    struct msg_push part = lone_push_of(w, 2, SYNC, NULL, 0, NULL, WIDTH);
    part.micros = SHARD_MICROS;
    lone_send_push(w, 2, &part);
    assert_null(w->sent);
}

// Checks that the records contain the pushes from before the copy and those made during
// it: each row must be `sum`.
static void check_records(const struct buf *bytes, float sum)
{
    struct lone *b = lone_open_shard(BITS, &plain);
    size_t used;
    bool settled;
    struct err e;
    memset(b->mine, 0, sizeof(b->mine));
    b->epoch = 1;
    lone_send_roster(b);
    if (partition_put(b->shard, WIRE_SPACE_SPARSE, P, bytes->data, bytes->len, &used,
                      &settled, &e) != 0)
        fail_msg("%s", e.text);
    assert_true(settled);
    assert_int_equal(used, bytes->len);
    const float *row = shards_row(b->shard, T, keys[0]);
    assert_true((row != NULL ? *row : 0) == sum);
    b->live = SIZE_MAX;
    lone_close(b);
}

static void test_source_gives(void **state)
{
    (void)state;
    struct lone *w = open_source();
    struct buf bytes = BUF_INIT(64 << 20);
    push(w);
    lone_expect_ok(w);
    // MOVE + 1 is a move that this shard's roster does not have, as if the
    // target's roster were newer.
    want(w, MOVE + 1, 0, true);
    expect_nothing(w);
    fetch(w, false, &bytes);
    push(w); // is served while rows are copied; its record follows the records of the
             // rows
    lone_expect_ok(w);
    fetch(w, false, &bytes);
    push(w);
    lone_expect_ok(w);
    size_t before = bytes.len;
    fetch(w, true, &bytes);
    send_all(w);
    uint64_t others[KEYS]; // keys of other partitions, which are served
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, others);
    struct msg_pull pull = lone_pull_of(w, 1, T, others, 1);
    assert_true(n > 0);
    lone_send_pull(w, 1, &pull);
    parcel_unpin(lone_expect(w, MSG_PULLED));
    size_t len = bytes.len; // the target now asks for the last bytes a second time
    bytes.len = before;
    fetch(w, true, &bytes);
    assert_int_equal(bytes.len, len);
    check_records(&bytes, 3);
    end_move(w, true);
    parcel_unpin(lone_expect(w, MSG_ROSTER)); // push
    parcel_unpin(lone_expect(w, MSG_ROSTER)); // pull
    parcel_unpin(lone_expect(w, MSG_ROSTER)); // step
    lone_expect_ok(w);                        // day
    parcel_unpin(lone_expect(w, MSG_ROSTER)); // push of a part of a batch
    assert_null(w->sent);
    assert_null(w->shard->moves.out);
    assert_null(shards_row(w->shard, T, keys[0]));
    assert_int_equal(roles_of(&w->shard->roles, WIRE_SPACE_SPARSE, P), ROLE_AWAY);
    buf_free(&bytes);
    lone_close(w);
}

static void test_source_keeps(void **state)
{
    (void)state;
    for (int finish = 0; finish < 2; finish++) {
        struct lone *w = open_source();
        struct buf bytes = BUF_INIT(64 << 20);
        push(w);
        lone_expect_ok(w);
        fetch(w, finish, &bytes);
        if (finish) {
            send_all(w);
            end_move(w, false);
            lone_expect_ok(w);
            struct parcel *p = lone_expect(w, MSG_PULLED);
            assert_true(*(const float *)p->m.pulled.values.data == 2);
            parcel_unpin(p);
            for (int i = 0; i < 3; i++)
                lone_expect_ok(w);
        } else {
            end_move(w, false);
        }
        assert_null(w->shard->moves.out);
        want(w, MOVE, 0, true);
        expect_nothing(w);
        buf_free(&bytes);
        lone_close(w);
    }
}

static void test_source_refuses(void **state)
{
    (void)state;
    struct lone *w = open_source();
    struct buf bytes = BUF_INIT(64 << 20);
    fetch(w, true, &bytes);
    want(w, MOVE, bytes.len + 8, true);
    lone_expect_refusal(w, TUG_EUSAGE, "has no bytes from byte");
    want(w, MOVE, bytes.len, true); // answered without bytes, because the target has all
                                    // bytes
    parcel_unpin(lone_expect(w, MSG_PARCEL));
    want(w, MOVE, 0, true); // a late request, sent over a link that broke, gets no bytes
    expect_nothing(w);
    // The roster now has a move of this partition from another server to this one.
    w->move.to = ME;
    w->mine[P] = false;
    w->move.move++;
    w->epoch++;
    lone_send_roster(w);
    lone_forget(w);
    want(w, MOVE + 1, 0, true);
    expect_nothing(w);
    buf_free(&bytes);
    lone_close(w);
}

// A target that repeats its request, and reads no answer, gets no more pieces.
static void test_deaf_target(void **state)
{
    (void)state;
    struct budget budget;
    const struct shard_options o = {.budget = &budget};
    budget_open(&budget, 64 << 20);
    struct lone *w = open_source_with(&o);
    struct buf bytes = BUF_INIT(64 << 20);
    push(w);
    lone_expect_ok(w);
    w->unread_by_others = 8 << 20;
    for (int i = 0; i < 100; i++) {
        want(w, MOVE, 0, false);
        expect_nothing(w);
    }
    w->unread_by_others = 0;
    fetch(w, true, &bytes);
    check_records(&bytes, 1);
    buf_free(&bytes);
    lone_close(w);
}

// A change of rows that is not a push breaks the move.
static void test_source_breaks(void **state)
{
    (void)state;
    struct lone *w = open_source();
    struct buf bytes = BUF_INIT(64 << 20);
    fetch(w, false, &bytes);
    struct msg_table_do day = {.what = WIRE_DAY, .table = T, .number = 1, .low = 1};
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, ++w->next_request, &day);
    lone_expect_ok(w);
    want(w, MOVE, bytes.len, true);
    lone_expect_refusal(w, TUG_EINTERRUPTED, "an admin operation was done while");
    push(w);
    lone_expect_ok(w);
    buf_free(&bytes);
    lone_close(w);
}

// A save that ends a day breaks the move when the save begins, because the day has then
// ended at the source even if the save fails later.
static void test_save_of_a_day(void **state)
{
    (void)state;
    const struct roots_options o = {.save = files_dir};
    struct msg_save m = {.save = 5, .mode = SAVE_DAY, .path = wire_text("day")};
    struct lone *w = open_source();
    struct buf bytes = BUF_INIT(64 << 20);
    struct roots *roots;
    w->live = SIZE_MAX;
    assert_int_equal(mkdir(files_in("day"), 0700), 0);
    assert_int_equal(roots_open(&roots, &o, NULL), 0);
    w->shard->o.roots = roots;
    fetch(w, false, &bytes);
    lone_deliver(w, WORKER_LINK, MSG_SAVE, ++w->next_request, &m);
    want(w, MOVE, bytes.len, false);
    lone_expect_refusal(w, TUG_EINTERRUPTED, "a day ended while a partition moved");
    buf_free(&bytes);
    lone_close(w);
    roots_close(roots);
}

// An operation on a table does not break moves of partitions of another space.
static void test_source_of_other_space(void **state)
{
    (void)state;
    enum { DENSE = 4 };
    struct lone *w = open_source();
    struct table_spec s = lone_plain_spec(DENSE, WIRE_ASYNC, WIDTH);
    struct buf bytes = BUF_INIT(64 << 20);
    s.config.place = lone_place_of(WIRE_SPACE_DENSE);
    lone_make_table(w, &s);
    fetch(w, false, &bytes);
    struct msg_table_do day = {.what = WIRE_DAY, .table = DENSE, .number = 1, .low = 1};
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, ++w->next_request, &day);
    lone_expect_ok(w);
    fetch(w, true, &bytes);
    check_records(&bytes, 0);
    buf_free(&bytes);
    lone_close(w);
}

// A push waits because one of its partitions moves. Later requests of the same
// worker must not overtake the push, even if their keys do not move, and not after
// the end of the move either.
static void test_source_keeps_order(void **state)
{
    (void)state;
    for (int given = 0; given < 2; given++) {
        struct lone *w = open_source();
        struct buf bytes = BUF_INIT(64 << 20);
        uint64_t all[KEYS], other = 0;
        uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, all);
        for (uint32_t i = 0; i < n && other == 0; i++)
            if (roster_partition(BITS, WIRE_SPACE_SPARSE, all[i]) != P)
                other = all[i];
        for (uint32_t i = 0; i < n * WIDTH; i++)
            values[i] = 1;
        fetch(w, true, &bytes);
        struct msg_push m = lone_push_of(w, 0, T, all, n, values, WIDTH);
        struct msg_pull pull = lone_pull_of(w, 0, T, &other, 1);
        lone_send_push(w, 0, &m);
        lone_send_pull(w, 0, &pull);
        assert_null(w->sent);
        end_move(w, given);
        if (given) {
            parcel_unpin(lone_expect(w, MSG_ROSTER));
            parcel_unpin(lone_expect(w, MSG_ROSTER));
            // The pull arrives as if it had been on its way when the push began to wait.
            lone_send_pull(w, 0, &pull);
            parcel_unpin(lone_expect(w, MSG_ROSTER));
        } else {
            lone_expect_ok(w);
            struct parcel *p = lone_expect(w, MSG_PULLED);
            assert_true(*(const float *)p->m.pulled.values.data == 1);
            parcel_unpin(p);
        }
        buf_free(&bytes);
        lone_close(w);
    }
}

// ---------------------------------------------------------------- the target

// The state of the simulated scheduler and source: the messages that they
// send and have received.
static struct play {
    struct buf bytes;    // the records: rows, a push, and the facts
    size_t rows, pushed; // offsets of the end of the rows and of the end of the push
    size_t limit;        // number of bytes that the source has written
    uint64_t total;      // number of bytes that the source announces; 0: as many as
                         // `limit`
    enum wire_moved word;
    uint32_t said[4]; // how often the shard has told the scheduler each state
    int code;         // the error code in the shard's last report to the scheduler
    bool finish;      // the shard has asked the source to hand the partition over
    int hellos;       // number of HELLO messages that the shard has sent
} play;

static void begin_play(void)
{
    struct lone *a = open_source();
    play = (struct play){.bytes = BUF_INIT(64 << 20)};
    push(a);
    lone_expect_ok(a);
    fetch(a, false, &play.bytes);
    play.rows = play.bytes.len;
    push(a);
    lone_expect_ok(a);
    fetch(a, false, &play.bytes);
    play.pushed = play.bytes.len;
    fetch(a, true, &play.bytes);
    a->live = SIZE_MAX;
    lone_close(a);
}

static void welcome(struct lone *w)
{
    const struct van_trust link = {.role = WIRE_OPERATOR};
    uint8_t proof[MAC_BYTES];
    assert_true(proof_welcome(proof, member_who(w->shard->member)->secret, &link));
    struct msg_welcome m = {.role = WIRE_SERVER,
                            .proof = {(const char *)proof, MAC_BYTES},
                            .version = wire_text("0")};
    lone_deliver(w, OTHER_LINK, MSG_WELCOME, 0, &m);
}

static void give(struct lone *w, const struct parcel *p)
{
    uint64_t at = p->m.move_wanted.at, n = min_u64(play.limit - at, PIECE);
    assert_int_equal(p->m.move_wanted.move, MOVE);
    assert_true(at <= play.limit);
    play.finish = p->m.move_wanted.finish;
    struct msg_parcel m = {.move = MOVE,
                           .at = at,
                           .total = play.total != 0 ? play.total : play.limit,
                           .last = at + n == play.bytes.len,
                           .bytes = {play.bytes.data + at, n}};
    lone_deliver(w, OTHER_LINK, MSG_PARCEL, p->frame.request, &m);
}

static void hear(struct lone *w, const struct parcel *p)
{
    struct msg_ok ok = {.value = play.word};
    assert_int_equal(p->m.move_says.move, MOVE);
    assert_true(p->m.move_says.state <= WIRE_MOVE_FAILED);
    play.said[p->m.move_says.state]++;
    play.code = p->m.move_says.code;
    lone_deliver(w, SCHEDULER_LINK, MSG_OK, p->frame.request, &ok);
}

// Lets time pass. The scheduler and the source answer.
static void pass_time(struct lone *w, uint64_t ns)
{
    lone_pass_time(w, ns);
    const struct source_link *l = w->shard->moves.sources;
    if (l != NULL && l->s.state == SESSION_DIALLING)
        w->h.opened(w->h.ctx, OTHER_LINK, false, w->now);
    for (struct parcel *p; (p = lone_next(w)) != NULL; parcel_unpin(p)) {
        if (p->frame.type == MSG_HELLO) {
            play.hellos++;
            welcome(w);
        } else if (p->frame.type == MSG_MOVE_WANTED)
            give(w, p);
        else if (p->frame.type == MSG_MOVE_SAYS)
            hear(w, p);
    }
}

// Lets time pass until the shard is silent.
static void go_on(struct lone *w)
{
    for (int i = 0; i < 40; i++)
        pass_time(w, 20 * MS);
}

static struct lone *open_target(const struct shard_options *o)
{
    struct lone *w = open_one(false, o);
    w->live = SIZE_MAX;
    go_on(w); // the source has no bytes yet
    assert_int_equal(play.said[WIRE_MOVE_COPIED], 0);
    assert_true(play.said[WIRE_MOVE_COPYING] > 0);
    return w;
}

static void test_target_gets(void **state)
{
    (void)state;
    struct err why;
    begin_play();
    struct lone *w = open_target(&plain);
    play.limit = play.rows / 16 * 8;
    go_on(w);
    // The link breaks; the target dials again and asks for the rest.
    err_set(&why, TUG_EIO, "broken");
    w->h.closed(w->h.ctx, OTHER_LINK, &why, w->now);
    play.limit = play.rows;
    play.word = WIRE_MOVE_WAIT;
    go_on(w);
    assert_non_null(shards_row(w->shard, T, keys[0]));
    assert_true(play.said[WIRE_MOVE_COPIED] > 1 && !play.finish);
    play.limit = play.pushed; // the source has meanwhile served a push, and appended its
                              // record
    go_on(w);
    assert_true(*shards_row(w->shard, T, keys[0]) == 2);
    play.word = WIRE_MOVE_GO_ON;
    go_on(w);
    assert_true(play.finish && play.said[WIRE_MOVE_ARRIVED] == 0);
    play.limit = play.bytes.len;
    go_on(w);
    assert_int_equal(play.said[WIRE_MOVE_ARRIVED], 1);
    // All records are applied, but the roster does not yet give the
    // partition to this shard.
    push(w);
    lone_expect_refusal(w, TUG_EUSAGE, "does not belong to node 8");
    end_move(w, true);
    assert_null(w->shard->moves.in);
    w->number[0] = 1;
    push(w); // a repeat of push 2, which the source has applied
    lone_expect_ok(w);
    assert_true(*shards_row(w->shard, T, keys[0]) == 2);
    push(w);
    lone_expect_ok(w);
    assert_true(*shards_row(w->shard, T, keys[0]) == 3);
    buf_free(&play.bytes);
    lone_close(w);
}

// A move that is given up leaves nothing behind, in whichever phase it was.
static void test_target_loses(void **state)
{
    (void)state;
    begin_play();
    size_t limits[] = {8, play.rows, play.pushed, play.bytes.len};
    for (int i = 0; i < 4; i++) {
        play.limit = 0;
        memset(play.said, 0, sizeof(play.said));
        struct lone *w = open_target(&plain);
        play.limit = limits[i];
        go_on(w);
        assert_int_equal(shards_row(w->shard, T, keys[0]) != NULL, i > 0);
        assert_int_equal(play.said[WIRE_MOVE_ARRIVED], i == 3);
        end_move(w, false);
        go_on(w);
        assert_null(w->shard->moves.in);
        assert_null(shards_row(w->shard, T, keys[0]));
        assert_int_equal(roles_of(&w->shard->roles, WIRE_SPACE_SPARSE, P), ROLE_AWAY);
        lone_close(w);
    }
    buf_free(&play.bytes);
}

// The next move from the same source needs no other link. A link without moves is closed
// after a while, or when it breaks.
static void test_moves_share_a_link(void **state)
{
    (void)state;
    struct err why;
    begin_play();
    for (int breaks = 0; breaks < 2; breaks++) {
        play.limit = 0;
        play.hellos = 0;
        struct lone *w = open_target(&plain);
        for (int i = 0; i < 3; i++) {
            end_move(w, false);
            go_on(w);
            assert_null(w->shard->moves.in);
            w->move.move = MOVE;
            lone_send_roster(w);
            go_on(w);
            assert_non_null(w->shard->moves.in);
        }
        assert_int_equal(play.hellos, 1);
        end_move(w, false);
        go_on(w);
        assert_non_null(w->shard->moves.sources);
        err_set(&why, TUG_EIO, "broken");
        if (breaks)
            w->h.closed(w->h.ctx, OTHER_LINK, &why, w->now);
        for (int i = 0; i < (breaks ? 1 : 2); i++)
            go_on(w); // each call takes 0.8 s of simulated time
        assert_null(w->shard->moves.sources);
        assert_int_equal(play.hellos, 1);
        lone_close(w);
    }
    buf_free(&play.bytes);
}

static void expect_failure(struct lone *w, int code)
{
    go_on(w);
    assert_int_equal(play.said[WIRE_MOVE_FAILED], 1);
    assert_int_equal(play.code, code);
    end_move(w, false);
    assert_null(w->shard->moves.in);
    assert_int_equal(lone_figures(w, T).rows, 0);
    lone_close(w);
}

static void test_target_fails(void **state)
{
    (void)state;
    begin_play();
    struct lone *w = open_target(&plain);
    play.limit = play.bytes.len;
    play.bytes.data[play.rows / 2] ^= 1; // one byte was damaged on the way
    expect_failure(w, TUG_EDATA);
    buf_free(&play.bytes);
    begin_play();
    w = open_target(&plain);
    w->shard->o.max_bytes = w->shard->bytes; // no room for rows
    play.limit = play.bytes.len;
    expect_failure(w, TUG_ENOMEM);
    buf_free(&play.bytes);
    begin_play();
    w = open_target(&plain);
    play.limit = play.pushed;
    go_on(w);
    struct msg_table_do day = {.what = WIRE_DAY, .table = T, .number = 1, .low = 1};
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, ++w->next_request, &day);
    // The move is broken, because the day might end twice in this partition.
    expect_failure(w, TUG_EINTERRUPTED);
    buf_free(&play.bytes);
}

// `on`: pretends that an admin operation is under way and makes no progress. Otherwise
// pretends that the operation has ended.
static void occupy(struct lone *w, struct shard_table *t, bool on)
{
    t->turn.on = t->work = on;
    w->shard->work_due = on ? w->now + 1000 * SECOND_NS : VAN_NEVER;
}

// While an admin operation or a save is under way, no records are applied. If the source
// announces many pushes meanwhile, the move does not fail for lack of memory.
static void test_target_waits(void **state)
{
    (void)state;
    const struct shard_options small = {.max_bytes = 4 << 20};
    begin_play();
    struct lone *w = open_target(&small);
    struct shard_table *t = w->shard->tables[T];
    play.limit = play.rows;
    go_on(w);
    assert_non_null(shards_row(w->shard, T, keys[0]));
    occupy(w, t, true);
    play.limit = play.pushed;
    play.total = 16 << 20;
    go_on(w);
    assert_true(*shards_row(w->shard, T, keys[0]) == 1);
    occupy(w, t, false);
    play.total = 0;
    go_on(w);
    assert_true(*shards_row(w->shard, T, keys[0]) == 2);
    assert_int_equal(play.said[WIRE_MOVE_FAILED], 0);
    buf_free(&play.bytes);
    lone_close(w);
}

// Rows that a roster took away from this shard must be dropped before the partition can
// come back. Until then the target waits, and reports to the scheduler.
static void test_target_is_not_clear(void **state)
{
    (void)state;
    begin_play();
    play.limit = 0;
    struct lone *w = open_one(true, &plain);
    push(w);
    lone_expect_ok(w);
    w->live = SIZE_MAX;
    // The roster gives the partition to this shard, which has not asked for it.
    end_move(w, true);
    struct shard_table *t = w->shard->tables[T];
    occupy(w, t, true);
    w->move = (struct wire_move){
        .move = MOVE, .space = WIRE_SPACE_SPARSE, .partition = P, .to = ME};
    lone_send_roster(w);
    go_on(w);
    assert_int_equal(roles_of(&w->shard->roles, WIRE_SPACE_SPARSE, P), ROLE_HERE);
    assert_true(play.said[WIRE_MOVE_COPYING] > 0);
    occupy(w, t, false);
    go_on(w);
    assert_int_equal(roles_of(&w->shard->roles, WIRE_SPACE_SPARSE, P), ROLE_AWAY);
    buf_free(&play.bytes);
    lone_close(w);
}

// Appends the record of a push to the source's bytes n times in place of the facts.
// Returns the number of bytes of the record.
static size_t push_often(int n)
{
    size_t one = play.pushed - play.rows;
    char *record = mem_alloc(one);
    assert_non_null(record);
    memcpy(record, play.bytes.data + play.rows, one);
    play.bytes.len = play.rows;
    for (int i = 0; i < n; i++)
        assert_int_equal(buf_add(&play.bytes, record, one), 0);
    mem_free(record);
    return one;
}

// A busy loop rests after each record. A partition moves nevertheless, although its pushes
// come faster than that.
static void test_hot_partition(void **state)
{
    (void)state;
    const struct shard_options slow = {.slice_ns = 2 * MS};
    const int most = 2000;
    begin_play();
    struct lone *w = open_target(&slow);
    size_t one = push_often(most + 1);
    play.limit = play.rows;
    play.word = WIRE_MOVE_WAIT;
    int n = 0;
    for (; n < most && play.said[WIRE_MOVE_COPIED] == 0; n++) {
        play.limit += one;
        for (int i = 0; i < 10; i++) {
            w->shard->served_at = w->now;
            pass_time(w, MS);
        }
    }
    assert_in_range(n, 100, most - 1);
    buf_free(&play.bytes);
    lone_close(w);
}

// While a loop rests, it fetches only a few MiB in advance.
static void test_stage_is_bounded(void **state)
{
    (void)state;
    begin_play();
    struct lone *w = open_target(&plain);
    size_t one = push_often((int)((40u << 20) / (play.pushed - play.rows)));
    play.limit = play.rows;
    play.word = WIRE_MOVE_WAIT;
    go_on(w);
    play.total = play.bytes.len;
    for (int i = 0; i < 60 && play.limit + PIECE < play.bytes.len; i++) {
        w->shard->moves.rest_until = w->now + SECOND_NS;
        play.limit += PIECE / one * one;
        pass_time(w, MS);
    }
    assert_int_equal(play.said[WIRE_MOVE_FAILED], 0);
    assert_in_range(w->shard->moves.in->bytes.len, 2 << 20, 4 << 20);
    buf_free(&play.bytes);
    lone_close(w);
}

enum { MOVES = 16 };

// When the shard last reported each move, and the longest time between two reports of one
// move.
struct reports {
    uint64_t last[MOVES], longest;
    uint64_t answers, answer_at; // the request that waits for its answer; 0: none
};

// Plays the sources, which never have bytes, and the scheduler, which answers each report
// after answer_ns.
static void play_many(struct lone *w, struct reports *r, uint64_t answer_ns)
{
    const struct source_link *l = w->shard->moves.sources;
    if (l != NULL && l->s.state == SESSION_DIALLING)
        w->h.opened(w->h.ctx, OTHER_LINK, false, w->now);
    for (struct parcel *p; (p = lone_next(w)) != NULL; parcel_unpin(p)) {
        if (p->frame.type == MSG_HELLO) {
            welcome(w);
        } else if (p->frame.type == MSG_MOVE_WANTED) {
            struct msg_parcel m = {.move = p->m.move_wanted.move};
            lone_deliver(w, OTHER_LINK, MSG_PARCEL, p->frame.request, &m);
        } else if (p->frame.type == MSG_MOVE_SAYS) {
            assert_in_range(p->m.move_says.move, LONE_MANY, LONE_MANY + MOVES - 1);
            r->last[p->m.move_says.move - LONE_MANY] = w->now;
            r->answers = p->frame.request;
            r->answer_at = w->now + answer_ns;
        }
    }
    for (int i = 0; i < MOVES; i++)
        if (w->now - r->last[i] > r->longest)
            r->longest = w->now - r->last[i];
    uint64_t request = r->answers;
    if (request == 0 || w->now < r->answer_at)
        return;
    r->answers = 0;
    lone_deliver(w, SCHEDULER_LINK, MSG_OK, request, &(struct msg_ok){WIRE_MOVE_GO_ON});
}

// Opens a shard without partitions, to which many partitions move.
static struct lone *open_many(uint32_t bits, uint32_t many)
{
    struct lone *w = lone_open_shard(bits, &plain);
    memset(w->mine, 0, sizeof(w->mine));
    lone_begin(w, WORKERS);
    make_tables(w);
    w->live = SIZE_MAX;
    w->hears_moves = true;
    w->many = many;
    lone_send_roster(w);
    return w;
}

// If the scheduler answers slowly, each of many moves is still reported often enough: the
// scheduler gives up a move that is not reported for 30 s.
static void test_many_are_reported(void **state)
{
    (void)state;
    static const uint64_t answer_ms[] = {1, 33, 100};
    for (size_t k = 0; k < sizeof(answer_ms) / sizeof(*answer_ms); k++) {
        struct lone *w = open_many(5, MOVES);
        struct reports r = {.longest = 0};
        for (int i = 0; i < MOVES; i++)
            r.last[i] = w->now;
        for (int t = 0; t < 40000; t++) {
            lone_pass_time(w, MS);
            play_many(w, &r, answer_ms[k] * MS);
        }
        assert_true(r.longest <= 3 * SECOND_NS);
        lone_close(w);
    }
}

// Returns the n-th move to the shard.
static struct incoming *nth(struct lone *w, uint32_t n)
{
    struct incoming *m = w->shard->moves.in;
    while (n-- > 0)
        m = m->next;
    return m;
}

static struct incoming *incoming_of(struct lone *w, uint64_t move)
{
    struct incoming *m = w->shard->moves.in;
    while (m->move.id != move)
        m = m->next;
    return m;
}

// Pretends that so many copies are complete, and waits for the shard's report about them.
// Returns the number of its moves, and stores them in its order, and the request.
static uint32_t expect_report(struct lone *w, uint32_t n, uint64_t *moves,
                              uint64_t *ret_request)
{
    uint32_t got = 0;
    for (uint32_t i = 0; i < n; i++) {
        nth(w, i)->state = INCOMING_ASKS;
        nth(w, i)->say_at = w->now;
    }
    while (got == 0) {
        lone_pass_time(w, MS);
        for (struct parcel *p; (p = lone_next(w)) != NULL; parcel_unpin(p)) {
            struct wire_moving one;
            if (p->frame.type != MSG_MOVE_SAYS ||
                p->m.move_says.state != WIRE_MOVE_COPIED)
                continue;
            struct wire_text others = p->m.move_says.others;
            moves[got++] = p->m.move_says.move;
            while (wire_next_moving(&others, &one) == 1)
                moves[got++] = one.move;
            *ret_request = p->frame.request;
        }
    }
    return got;
}

// The shard hands over only those moves of a report that the answer allows, and asks
// again for the others. A report has at most as many moves as an answer has bits.
static void test_some_go_on(void **state)
{
    (void)state;
    const uint32_t many = WIRE_MOVES_MOST + 2;
    uint64_t moves[WIRE_MOVES_MOST], again[WIRE_MOVES_MOST], request = 0;
    uint64_t bits = (uint64_t)1 << 1 | (uint64_t)1 << 3 |
                    (uint64_t)1 << (WIRE_MOVES_MOST - 1);
    struct lone *w = open_many(7, many);
    assert_int_equal(expect_report(w, many, moves, &request), WIRE_MOVES_MOST);
    lone_deliver(w, SCHEDULER_LINK, MSG_OK, request,
                 &(struct msg_ok){WIRE_MOVE_SOME | bits << WIRE_MOVED_BITS});
    uint32_t ends = 0;
    for (uint32_t i = 0; i < many; i++)
        ends += nth(w, i)->state == INCOMING_ENDS;
    assert_int_equal(ends, 3);
    for (uint32_t i = 0; i < WIRE_MOVES_MOST; i++)
        assert_int_equal(incoming_of(w, moves[i])->state,
                         bits >> i & 1 ? INCOMING_ENDS : INCOMING_ASKS);
    uint32_t n = expect_report(w, 0, again, &request);
    assert_in_range(n, 2, WIRE_MOVES_MOST);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(incoming_of(w, again[i])->state, INCOMING_ASKS);
    lone_close(w);
}

// Lets time pass until the shard asks the source for bytes of a move whose number is at
// least this; at most 100 ms. Returns the number of the move, or 0. Answers other requests
// for bytes with nothing.
static uint64_t wanted(struct lone *w, uint64_t least)
{
    uint64_t move = 0;
    for (int i = 0; i < 100 && move == 0; i++) {
        lone_pass_time(w, MS);
        const struct source_link *l = w->shard->moves.sources;
        if (l != NULL && l->s.state == SESSION_DIALLING)
            w->h.opened(w->h.ctx, OTHER_LINK, false, w->now);
        for (struct parcel *p; (p = lone_next(w)) != NULL; parcel_unpin(p)) {
            uint64_t is = p->frame.type == MSG_MOVE_WANTED ? p->m.move_wanted.move : 0;
            if (p->frame.type == MSG_HELLO)
                welcome(w);
            else if (is >= least && is != 0)
                move = is;
            else if (is != 0)
                lone_deliver(w, OTHER_LINK, MSG_PARCEL, is,
                             &(struct msg_parcel){.move = is, .at = p->m.move_wanted.at});
        }
    }
    return move;
}

// Answers with all bytes of the partition of a move. They are not records.
static void give_all(struct lone *w, uint64_t move, char *bytes, size_t n)
{
    struct msg_parcel m = {.move = move, .total = n, .bytes = {bytes, n}};
    lone_deliver(w, OTHER_LINK, MSG_PARCEL, move, &m);
}

// While the shard applies a partition, the source copies the next one, but not more.
static void test_next_copy_begins(void **state)
{
    (void)state;
    const size_t n = 600 << 10;
    char *bytes = mem_zalloc(n);
    struct lone *w = open_many(5, 4);
    assert_non_null(bytes);
    assert_int_equal(wanted(w, LONE_MANY), LONE_MANY);
    // The source lacks the newest roster, which will arrive soon.
    lone_deliver(w, OTHER_LINK, MSG_PARCEL, LONE_MANY,
                 &(struct msg_parcel){.move = LONE_MANY});
    uint64_t begun = w->now;
    assert_int_equal(wanted(w, LONE_MANY), LONE_MANY);
    assert_true(w->now <= begun + MS);
    give_all(w, LONE_MANY, bytes, n);
    begun = w->now;
    assert_int_equal(wanted(w, LONE_MANY + 1), LONE_MANY + 1);
    assert_int_equal(w->now, begun + MS);
    assert_int_equal(nth(w, 0)->bytes.len,
                     n); // requests are sent before records are applied
    w->shard->moves.rest_until = w->now + SECOND_NS;
    give_all(w, LONE_MANY + 1, bytes, n);
    assert_int_equal(wanted(w, LONE_MANY + 2), 0);
    assert_int_equal(nth(w, 0)->bytes.len + nth(w, 1)->bytes.len, 2 * n);
    w->shard->moves.rest_until = w->now;
    assert_int_equal(wanted(w, LONE_MANY + 2), LONE_MANY + 2);
    assert_int_equal(nth(w, 0)->state, INCOMING_FAILED);
    // Later moves use the buffers; they are freed after the last one.
    assert_true(w->shard->moves.n_spares > 0);
    w->many = 0;
    lone_send_roster(w);
    for (int i = 0; i < 30; i++)
        (void)wanted(w, LONE_MANY);
    assert_true(moves_idle(w->shard));
    mem_free(bytes);
    lone_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_copy_begins),
        cmocka_unit_test(test_hot_partition),
        cmocka_unit_test(test_stage_is_bounded),
        cmocka_unit_test(test_some_go_on),
        cmocka_unit_test(test_many_are_reported),
        cmocka_unit_test(test_source_gives),
        cmocka_unit_test(test_source_keeps),
        cmocka_unit_test(test_source_refuses),
        cmocka_unit_test(test_deaf_target),
        cmocka_unit_test(test_source_breaks),
        cmocka_unit_test(test_source_of_other_space),
        cmocka_unit_test(test_source_keeps_order),
        cmocka_unit_test(test_save_of_a_day),
        cmocka_unit_test(test_target_gets),
        cmocka_unit_test(test_target_loses),
        cmocka_unit_test(test_moves_share_a_link),
        cmocka_unit_test(test_target_fails),
        cmocka_unit_test(test_target_waits),
        cmocka_unit_test(test_target_is_not_clear),
    };
    return cmocka_run_group_tests(tests, files_begin_in_memory, files_end);
}
