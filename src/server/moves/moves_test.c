// Both ends of a move: the test plays the scheduler and the other server. What the source
// has given is served by nobody until a roster says whose it is.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/moves/moves.h"

#include "kit/lone_shard.h"

#include <string.h>

#include "kit/test.h"
#include "server/moves/parcel.h"

enum { BITS = 3, P = 2, WIDTH = 2, KEYS = 40, T = 2, SYNC = 3, MOVE = 77, PEER_LINK = 5 };
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

// Opens a shard that has partition P, or all its partitions but P, and a move of P.
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
    w->epoch = 1;
    lone_send_roster(w);
    for (uint32_t i = 0; i < WORKERS; i++)
        lone_open_worker(w, i);
    lone_forget(w);
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

static struct lone *open_source(void)
{
    struct lone *w = open_one(true, &plain);
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

// Gets the whole partition and returns its bytes.
static struct buf fetch(struct lone *w)
{
    struct buf bytes = BUF_INIT(64 << 20);
    for (bool last = false; !last;) {
        want(w, MOVE, bytes.len, true);
        struct parcel *p = lone_expect(w, MSG_PARCEL);
        assert_int_equal(p->m.parcel.at, bytes.len);
        assert_true(p->m.parcel.bytes.n > 0);
        assert_int_equal(buf_add(&bytes, p->m.parcel.bytes.data, p->m.parcel.bytes.n), 0);
        last = p->m.parcel.last;
        assert_int_equal(last, bytes.len == p->m.parcel.total);
        parcel_unpin(p);
    }
    return bytes;
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

static void test_source_gives(void **state)
{
    (void)state;
    struct lone *w = open_source();
    push(w);
    lone_expect_ok(w);
    want(w, MOVE, 0, false); // the scheduler has not allowed the end yet
    expect_nothing(w);
    want(w, MOVE + 1, 0, true); // perhaps of a newer roster
    expect_nothing(w);
    push(w);
    lone_expect_ok(w);
    struct buf bytes = fetch(w);
    send_all(w);
    uint64_t others[KEYS]; // keys of other partitions are served
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, others);
    struct msg_pull pull = lone_pull_of(w, 1, T, others, 1);
    assert_true(n > 0);
    lone_send_pull(w, 1, &pull);
    parcel_unpin(lone_expect(w, MSG_PULLED));
    struct buf again = fetch(w);
    assert_int_equal(bytes.len, again.len);
    assert_memory_equal(bytes.data, again.data, bytes.len);
    end_move(w, true);
    parcel_unpin(lone_expect(w, MSG_ROSTER)); // push
    parcel_unpin(lone_expect(w, MSG_ROSTER)); // pull
    parcel_unpin(lone_expect(w, MSG_ROSTER)); // step
    lone_expect_ok(w);                        // day
    parcel_unpin(lone_expect(w, MSG_ROSTER)); // the part of a batch
    assert_null(w->sent);
    assert_null(w->shard->moves.out);
    assert_null(shards_row(w->shard, T, keys[0]));
    assert_int_equal(roles_of(&w->shard->roles, WIRE_SPACE_SPARSE, P), ROLE_AWAY);
    buf_free(&bytes);
    buf_free(&again);
    lone_close(w);
}

static void test_source_keeps(void **state)
{
    (void)state;
    struct lone *w = open_source();
    push(w);
    lone_expect_ok(w);
    struct buf bytes = fetch(w);
    send_all(w);
    end_move(w, false);
    lone_expect_ok(w);
    struct parcel *p = lone_expect(w, MSG_PULLED);
    assert_true(*(const float *)p->m.pulled.values.data == 2);
    parcel_unpin(p);
    for (int i = 0; i < 3; i++)
        lone_expect_ok(w);
    assert_null(w->shard->moves.out);
    want(w, MOVE, 0, true);
    expect_nothing(w);
    buf_free(&bytes);
    lone_close(w);
}

static void test_source_refuses(void **state)
{
    (void)state;
    struct lone *w = open_source();
    struct buf bytes = fetch(w);
    want(w, MOVE, bytes.len, true);
    lone_expect_refusal(w, TUG_EUSAGE, "none from byte");
    w->move.to = ME; // a move from another server to this one
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

// ---------------------------------------------------------------- the target

// The scheduler is told this about the move, and answers it.
static void expect_says(struct lone *w, enum wire_move_state state, enum wire_moved word)
{
    lone_pass_time(w, 1);
    struct parcel *p = lone_expect(w, MSG_MOVE_SAYS);
    struct msg_ok ok = {.value = word};
    assert_int_equal(p->m.move_says.move, MOVE);
    assert_int_equal(p->m.move_says.state, state);
    lone_deliver(w, SCHEDULER_LINK, MSG_OK, p->frame.request, &ok);
    parcel_unpin(p);
}

// Lets the target link to the source, which proves that it is a server.
static void greet(struct lone *w)
{
    lone_pass_time(w, 1);
    w->h.opened(w->h.ctx, OTHER_LINK, false, w->now);
    struct parcel *p = lone_expect(w, MSG_HELLO);
    assert_int_equal(p->link, OTHER_LINK);
    parcel_unpin(p);
    const struct van_trust link = {.role = WIRE_OPERATOR};
    uint8_t proof[MAC_BYTES];
    assert_true(proof_welcome(proof, member_who(w->shard->member)->secret, &link));
    struct msg_welcome welcome = {.role = WIRE_SERVER,
                                  .proof = {(const char *)proof, MAC_BYTES},
                                  .version = wire_text("0")};
    lone_deliver(w, OTHER_LINK, MSG_WELCOME, 0, &welcome);
    lone_pass_time(w, 1);
}

// Gives the target n bytes from `at` on of those that it is to get.
static void give(struct lone *w, const struct buf *bytes, uint64_t at, uint64_t n)
{
    struct parcel *p = lone_expect(w, MSG_MOVE_WANTED);
    assert_int_equal(p->m.move_wanted.at, at);
    assert_int_equal(p->m.move_wanted.finish, 1);
    struct msg_parcel m = {.move = MOVE,
                           .at = at,
                           .total = n > 0 ? bytes->len : 0,
                           .last = n > 0 && at + n == bytes->len,
                           .bytes = {bytes->data + at, n}};
    lone_deliver(w, OTHER_LINK, MSG_PARCEL, p->frame.request, &m);
    parcel_unpin(p);
    lone_pass_time(w, 20 * MS);
}

static struct buf bytes_of_source(void)
{
    struct lone *a = open_source();
    push(a);
    lone_expect_ok(a);
    struct buf bytes = fetch(a);
    a->live = SIZE_MAX;
    lone_close(a);
    return bytes;
}

static struct lone *open_target(const struct buf *bytes, const struct shard_options *o)
{
    struct lone *w = open_one(false, o);
    w->live = SIZE_MAX; // `bytes` were allocated before
    (void)bytes;
    expect_says(w, WIRE_MOVE_COPIED, WIRE_MOVE_WAIT);
    lone_pass_time(w, 40 * MS);
    assert_null(w->sent);
    lone_pass_time(w, 20 * MS);
    expect_says(w, WIRE_MOVE_COPIED, WIRE_MOVE_GO_ON);
    greet(w);
    give(w, bytes, 0, 0);
    return w;
}

static void test_target_gets(void **state)
{
    (void)state;
    struct buf bytes = bytes_of_source();
    struct lone *w = open_target(&bytes, &plain);
    give(w, &bytes, 0, bytes.len / 2);
    // The link breaks; the target dials again and asks for the rest.
    struct err why;
    err_set(&why, TUG_EIO, "broken");
    lone_forget(w);
    w->h.closed(w->h.ctx, OTHER_LINK, &why, w->now);
    lone_pass_time(w, SECOND_NS);
    struct parcel *p = lone_expect(w, MSG_MOVE_SAYS); // progress
    assert_int_equal(p->m.move_says.bytes, bytes.len / 2);
    assert_int_equal(p->m.move_says.total, bytes.len);
    lone_deliver(w, SCHEDULER_LINK, MSG_OK, p->frame.request, &(struct msg_ok){0});
    parcel_unpin(p);
    greet(w);
    give(w, &bytes, bytes.len / 2, bytes.len - bytes.len / 2);
    assert_non_null(shards_row(w->shard, T, keys[0]));
    // It is installed, but not this shard's yet.
    expect_says(w, WIRE_MOVE_ARRIVED, WIRE_MOVE_GO_ON);
    push(w);
    lone_expect_refusal(w, TUG_EUSAGE, "is not node 8's");
    end_move(w, true);
    assert_null(w->shard->moves.in);
    push(w);
    lone_expect_ok(w);
    assert_true(*shards_row(w->shard, T, keys[0]) == 2);
    buf_free(&bytes);
    lone_close(w);
}

// The move is given up, in each phase: nothing is left.
static void test_target_loses(void **state)
{
    (void)state;
    struct buf bytes = bytes_of_source();
    for (int phase = 0; phase < 3; phase++) {
        struct lone *w = open_target(&bytes, &plain);
        if (phase > 0)
            give(w, &bytes, 0, phase == 1 ? 8 : bytes.len);
        if (phase == 2)
            assert_non_null(shards_row(w->shard, T, keys[0]));
        end_move(w, false);
        assert_null(w->shard->moves.in);
        parcel_unpin(lone_expect(w, phase == 2 ? MSG_MOVE_SAYS : MSG_MOVE_WANTED));
        lone_forget(w);
        assert_null(shards_row(w->shard, T, keys[0]));
        lone_close(w);
    }
    buf_free(&bytes);
}

static void test_target_fails(void **state)
{
    (void)state;
    const struct shard_options small = {.max_bytes = 400000};
    struct buf bytes = bytes_of_source();
    struct lone *w = open_target(&bytes, &plain);
    bytes.data[bytes.len / 2] ^= 1; // damaged on the way
    give(w, &bytes, 0, bytes.len);
    expect_says(w, WIRE_MOVE_FAILED, WIRE_MOVE_GO_ON);
    assert_int_equal(lone_figures(w, T).rows, 0);
    end_move(w, false);
    assert_null(w->shard->moves.in);
    lone_close(w);
    w = open_target(&bytes, &small);
    bytes.len = 1 << 20; // more than there is room for
    struct parcel *p = lone_expect(w, MSG_MOVE_WANTED);
    struct msg_parcel m = {.move = MOVE, .total = bytes.len, .bytes = {bytes.data, 8}};
    lone_deliver(w, OTHER_LINK, MSG_PARCEL, p->frame.request, &m);
    parcel_unpin(p);
    lone_pass_time(w, 1);
    p = lone_expect(w, MSG_MOVE_SAYS);
    assert_int_equal(p->m.move_says.code, TUG_ENOMEM);
    parcel_unpin(p);
    lone_close(w);
    buf_free(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_source_gives),   cmocka_unit_test(test_source_keeps),
        cmocka_unit_test(test_source_refuses), cmocka_unit_test(test_target_gets),
        cmocka_unit_test(test_target_loses),   cmocka_unit_test(test_target_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
