// Tests leases that workers got before they were durable: the scheduler dies, and the
// next one knows nothing of them. Also tests reports that are sent ahead of the answers.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"
#include "cluster/leases/leases.h"
#include "kit/kept_leases.h"
#include "kit/test.h"

enum { A = 1, B, PIECES = 4 };

static struct leases *l;
static struct kept_rows kept;
static uint32_t buckets; // of the data that open_leases describes

static uint8_t asks(uint32_t worker, uint64_t reports, struct msg_leased *ret)
{
    const struct msg_lease m = {.pass = 1, .reports = reports};
    ret->what = WIRE_LEASE_WAIT;
    bool answered = leases_ask(l, worker, &m, ret);
    leases_check(l);
    return answered ? ret->what : UINT8_MAX;
}

static bool reports(uint32_t worker, const struct msg_leased *of, uint64_t number,
                    bool *ret_forget)
{
    const struct msg_piece_done m = {.what = of->what,
                                     .pass = of->pass,
                                     .file = of->file,
                                     .index = of->index,
                                     .examples = 1,
                                     .number = number};
    assert_int_equal(leases_turn_of(l, worker, &m), LEASES_NEXT);
    bool news = leases_done(l, worker, &m, ret_forget);
    assert_int_equal(leases_turn_of(l, worker, &m), LEASES_TAKEN);
    leases_check(l);
    return news;
}

static void open_leases(uint64_t pieces)
{
    struct buf files = BUF_INIT(1 << 10);
    struct wire_data_file f = {.bytes = 100,
                               .pieces = pieces,
                               .compressed = pieces == UINT64_MAX,
                               .name = wire_text("data")};
    assert_int_equal(leases_open(&l, NULL), 0);
    kept_begin(&kept, l);
    assert_int_equal(wire_put_data_file(&files, &f), 0);
    struct msg_data d = {.buckets = buckets, .files = {files.data, (uint32_t)files.len}};
    assert_int_equal(leases_data(l, "worker 0", &d, NULL), 0);
    for (uint32_t id = A; id <= B; id++)
        assert_int_equal(leases_worker_joined(l, id), 0);
    assert_int_equal(leases_pass(l, &(struct msg_pass){.pass = 1}, NULL), 0);
    buf_free(&files);
}

static void make_durable(void)
{
    kept_changes(&kept, l);
    leases_durable(l);
}

static void close_leases(void)
{
    leases_close(l);
    kept_end(&kept);
}

// A worker gets a piece early once the pass is durable, unless the next scheduler could
// not know that the piece exists.
static void test_early(void **state)
{
    (void)state;
    struct msg_leased leased;
    open_leases(PIECES);
    assert_int_equal(asks(A, 0, &leased), WIRE_LEASE_PIECE);
    assert_false(leases_tells_early(l, &leased));
    kept_changes(&kept, l);
    assert_false(leases_tells_early(l, &leased));
    leases_durable(l);
    assert_true(leases_tells_early(l, &leased));
    leased.what = WIRE_LEASE_MARK;
    assert_false(leases_tells_early(l, &leased));
    close_leases();
    open_leases(UINT64_MAX);
    make_durable();
    assert_int_equal(asks(A, 0, &leased), WIRE_LEASE_PIECE);
    assert_false(leases_tells_early(l, &leased));
    close_leases();
}

static enum leases_turn turn(uint64_t number, uint64_t answered)
{
    const struct msg_piece_done m = {
        .pass = 1, .number = number, .answered = answered, .what = WIRE_LEASE_PIECE};
    return leases_turn_of(l, A, &m);
}

// Reports are taken in their order, and a request for work after them. A report that an
// earlier scheduler has answered need not come again.
static void test_turns(void **state)
{
    (void)state;
    struct msg_leased first, leased;
    bool forget;
    open_leases(PIECES);
    assert_int_equal(asks(A, 0, &first), WIRE_LEASE_PIECE);
    assert_int_equal(turn(2, 0), LEASES_AHEAD);
    assert_int_equal(asks(A, 1, &leased), UINT8_MAX);
    assert_true(reports(A, &first, 1, &forget));
    assert_true(forget);
    assert_int_equal(turn(1, 0), LEASES_TAKEN);
    assert_int_equal(asks(A, 1, &leased), WIRE_LEASE_PIECE);
    assert_int_not_equal(leased.index, first.index);
    assert_int_equal(turn(3, 0), LEASES_AHEAD);
    assert_int_equal(turn(7, 6), LEASES_NEXT);
    assert_int_equal(turn(6, 0), LEASES_TAKEN);
    close_leases();
}

// Worker A got a piece early, and the next scheduler gives the same piece to B. The first
// report counts. Servers may forget the piece only when A has asked for work again.
static void test_unknown_piece(void **state)
{
    (void)state;
    struct msg_leased early, other, leased;
    struct msg_pass_state now;
    bool forget;
    open_leases(1);
    make_durable();
    assert_int_equal(asks(A, 0, &early), WIRE_LEASE_PIECE);
    assert_false(leases_may_push(l, 1, 0));
    l = kept_lost(&kept, l);
    assert_true(leases_may_push(l, 1, 0));
    assert_int_equal(asks(B, 0, &other), WIRE_LEASE_PIECE);
    assert_int_equal(other.index, early.index);
    assert_true(reports(A, &early, 1, &forget));
    assert_false(forget);
    leases_state(l, 1, &now, NULL);
    assert_true(now.done);
    assert_int_equal(now.examples, 1);
    assert_false(reports(B, &other, 1, &forget));
    assert_true(forget);
    assert_true(leases_may_push(l, 1, 0));
    assert_int_equal(asks(A, 1, &leased), WIRE_LEASE_WAIT);
    assert_false(leases_may_push(l, 1, 0));
    close_leases();
}

// A worker that has joined again holds back only the piece of which it tells, although it
// never asks for work.
static void test_told_piece(void **state)
{
    (void)state;
    struct msg_leased early;
    open_leases(PIECES);
    make_durable();
    assert_int_equal(asks(A, 0, &early), WIRE_LEASE_PIECE);
    l = kept_lost(&kept, l);
    leases_worker_told(l, A, 1, wire_piece(early.file, early.index));
    assert_true(leases_may_push(l, 0, 0)); // B has not told
    leases_worker_told(l, B, 0, 0);
    assert_false(leases_may_push(l, 0, 0));
    for (uint64_t i = 0; i < PIECES; i++)
        assert_int_equal(leases_may_push(l, 1, i), i == early.index);
    assert_false(leases_may_push(l, 2, early.index));
    leases_worker_dead(l, A);
    assert_false(leases_may_push(l, 1, early.index));
    leases_worker_told(l, 77, 1, 1); // no such worker
    assert_false(leases_may_push(l, 1, 1));
    close_leases();
}

// The piece that A got early is free for the next scheduler. A's report of it counts, but
// not one of another pass over the same file, and not a second one.
static void test_free_piece(void **state)
{
    (void)state;
    struct msg_leased early, leased;
    bool forget;
    open_leases(PIECES);
    make_durable();
    assert_int_equal(asks(A, 0, &early), WIRE_LEASE_PIECE);
    l = kept_lost(&kept, l);
    early.what = WIRE_LEASE_SCORE;
    assert_false(reports(A, &early, 1, &forget));
    early.what = WIRE_LEASE_PIECE;
    assert_true(reports(A, &early, 2, &forget));
    assert_true(forget);
    assert_false(reports(A, &early, 3, &forget));
    for (int i = 1; i < PIECES; i++) {
        assert_int_equal(asks(B, (uint64_t)i - 1, &leased), WIRE_LEASE_PIECE);
        assert_int_not_equal(leased.index, early.index);
        assert_true(reports(B, &leased, (uint64_t)i, &forget));
    }
    assert_int_equal(asks(B, PIECES - 1, &leased), WIRE_LEASE_WAIT);
    close_leases();
}

// A dies before it has asked the next scheduler for work. A save then may have a part of
// any piece that is not done.
static void test_death(void **state)
{
    (void)state;
    struct buf done = BUF_INIT(1 << 10);
    struct msg_leased early;
    struct msg_cut_state cut;
    for (int asked = 0; asked < 2; asked++) {
        open_leases(PIECES);
        make_durable();
        assert_int_equal(asks(A, 0, &early), WIRE_LEASE_PIECE);
        l = kept_lost(&kept, l);
        (void)leases_cut(l, 1, &cut, &done, NULL); // no worker gets a piece now
        for (uint32_t id = A; asked && id <= B; id++)
            assert_int_equal(asks(id, 0, &early), WIRE_LEASE_MARK);
        leases_worker_dead(l, A);
        leases_worker_dead(l, B);
        assert_false(leases_may_push(l, 1, 0));
        assert_int_equal(leases_cut(l, 1, &cut, &done, NULL), 0);
        assert_true(cut.known);
        assert_int_equal(cut.torn, !asked);
        close_leases();
        buf_clear(&done);
    }
    buf_free(&done);
}

// Pieces of a file whose end is not known, and pieces and buckets of a shuffle, are never
// leased early. So a save is not torn because of them when a worker dies that has not
// asked for work.
static void test_death_without_early_pieces(void **state)
{
    (void)state;
    struct buf done = BUF_INIT(1 << 10);
    struct msg_cut_state cut;
    struct msg_leased leased;
    for (int shuffles = 0; shuffles < 2; shuffles++) {
        buckets = shuffles ? 2 : 0;
        open_leases(shuffles ? PIECES : UINT64_MAX);
        make_durable();
        assert_int_equal(asks(A, 0, &leased), WIRE_LEASE_PIECE);
        assert_false(leases_tells_early(l, &leased));
        l = kept_lost(&kept, l);
        leases_worker_dead(l, A);
        leases_worker_dead(l, B);
        (void)leases_cut(l, 1, &cut, &done, NULL);
        assert_int_equal(leases_cut(l, 1, &cut, &done, NULL), 0);
        assert_true(cut.known);
        assert_false(cut.torn);
        close_leases();
        buf_clear(&done);
    }
    buckets = 0;
    buf_free(&done);
}

// After a restart a worker can end only as many pieces that were not leased to it as it can
// have got early.
static void test_too_many_unknown_pieces(void **state)
{
    (void)state;
    struct msg_leased one;
    bool forget;
    open_leases(2 * LEASES_UNKNOWN_MAX);
    make_durable();
    assert_int_equal(asks(A, 0, &one), WIRE_LEASE_PIECE);
    l = kept_lost(&kept, l);
    for (uint64_t i = 0; i < 2 * LEASES_UNKNOWN_MAX; i++) {
        one.index = i;
        assert_int_equal(reports(A, &one, i + 1, &forget), i < LEASES_UNKNOWN_MAX);
    }
    close_leases();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_early),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_unknown_piece),
        cmocka_unit_test(test_told_piece),
        cmocka_unit_test(test_too_many_unknown_pieces),
        cmocka_unit_test(test_free_piece),
        cmocka_unit_test(test_death),
        cmocka_unit_test(test_death_without_early_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
