// Tests backups: a second worker trains on a piece that another worker has not finished.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"
#include "cluster/leases/leases.h"
#include "kit/test.h"

static struct leases *l;

static bool reports(uint32_t worker, const struct msg_leased *of, bool *ret_forget)
{
    struct msg_piece_done done = {.pass = 1, .file = of->file, .index = of->index};
    bool news = leases_done(l, worker + 1, &done, ret_forget);
    leases_check(l);
    return news;
}

static uint8_t asks(uint32_t worker, uint64_t marked, struct msg_leased *ret)
{
    leases_ask(l, worker + 1, &(struct msg_lease){.pass = 1, .marked = marked}, ret);
    leases_check(l);
    return ret->what;
}

static void open_backups(void)
{
    struct buf files = BUF_INIT(1 << 10);
    struct wire_data_file f = {.bytes = 100, .pieces = 1, .name = wire_text("data")};
    assert_int_equal(leases_open(&l, NULL), 0);
    assert_int_equal(wire_put_data_file(&files, &f), 0);
    struct msg_data d = {.files = {files.data, (uint32_t)files.len}};
    assert_int_equal(leases_data(l, "worker 0", &d, NULL), 0);
    for (uint32_t id = 1; id <= 3; id++)
        assert_int_equal(leases_worker_joined(l, id), 0);
    assert_int_equal(leases_pass(l, &(struct msg_pass){.pass = 1, .backups = 1}, NULL),
                     0);
    buf_free(&files);
}

// Two workers train on the last piece. The first report counts, and servers may forget
// the piece after the second report. A third worker gets nothing.
static void test_backups(void **state)
{
    (void)state;
    struct msg_leased first, second, third;
    struct msg_pass_state now;
    bool forget;
    open_backups();
    assert_int_equal(asks(0, 0, &first), WIRE_LEASE_PIECE);
    assert_int_equal(asks(1, 0, &second), WIRE_LEASE_PIECE);
    assert_int_equal(second.index, first.index);
    assert_int_equal(asks(2, 0, &third), WIRE_LEASE_WAIT);
    assert_true(reports(1, &second, &forget));
    assert_false(forget);
    leases_state(l, 1, &now, NULL);
    assert_true(now.done);
    assert_int_equal(asks(1, 0, &second), WIRE_LEASE_WAIT);
    assert_false(reports(0, &first, &forget));
    assert_true(forget);
    assert_false(reports(0, &first, &forget));
    assert_false(forget);
    leases_close(l);
}

// When one of the two workers that train on a piece dies, the other worker keeps the
// piece, and an idle worker gets it as a backup. When both die, the piece is free.
static void test_backups_and_deaths(void **state)
{
    (void)state;
    struct msg_leased got;
    bool forget;
    open_backups();
    asks(0, 0, &got);
    asks(1, 0, &got);
    leases_worker_dead(l, 1);
    assert_int_equal(asks(2, 0, &got), WIRE_LEASE_PIECE);
    leases_worker_dead(l, 2);
    leases_worker_dead(l, 3);
    assert_int_equal(leases_worker_joined(l, 4), 0);
    assert_int_equal(asks(3, 0, &got), WIRE_LEASE_PIECE);
    assert_true(reports(3, &got, &forget));
    assert_true(forget);
    leases_close(l);
}

// While a save is being marked, no second worker gets a piece, because the save would
// have the first worker's pushes but not the second worker's.
static void test_no_backups_while_marking(void **state)
{
    (void)state;
    struct msg_leased got;
    struct msg_cut_state cut;
    struct buf list = BUF_INIT(1 << 10);
    bool forget;
    open_backups();
    asks(0, 0, &got);
    assert_int_equal(leases_cut(l, 7, &cut, &list, NULL), 0);
    assert_int_equal(asks(1, 0, &got), WIRE_LEASE_MARK);
    assert_int_equal(asks(1, 7, &got), WIRE_LEASE_WAIT);
    asks(0, 0, &got);
    assert_true(reports(0, &got, &forget));
    leases_close(l);
    buf_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backups),
        cmocka_unit_test(test_backups_and_deaths),
        cmocka_unit_test(test_no_backups_while_marking),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
