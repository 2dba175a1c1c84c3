// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "cluster/leases/leases_internal.h"
#include "kit/broken.h"
#include "kit/test.h"

// Workers 0 and 1 hold one of eight pieces each; worker 2 has died, worker 3 is idle.
enum { PIECES = 8, WORKERS = 4 };

static struct leases *l;

static void check(void)
{
    leases_check(l);
}

static void ask(uint32_t worker)
{
    struct msg_leased got;
    leases_ask(l, 9 + 2 * worker, &(struct msg_lease){0}, &got);
    assert_int_equal(got.what, WIRE_LEASE_PIECE);
}

static void open_leases(void)
{
    struct buf files = BUF_INIT(1 << 10);
    struct wire_data_file f = {.bytes = 100, .pieces = PIECES};
    assert_int_equal(leases_open(&l, NULL), 0);
    assert_int_equal(wire_put_data_file(&files, &f), 0);
    struct msg_data d = {.files = {files.data, (uint32_t)files.len}};
    assert_int_equal(leases_data(l, "worker 0", &d, NULL), 0);
    buf_free(&files);
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(leases_worker_joined(l, 9 + 2 * i), 0);
    assert_int_equal(leases_pass(l, &(struct msg_pass){.pass = 1}, NULL), 0);
    for (uint32_t i = 0; i < 3; i++)
        ask(i);
    leases_worker_dead(l, 9 + 2 * 2);
}

static void break_holder(void)
{
    l->files[0].p[l->workers[0].index].state = PIECE_DONE;
}

static void break_death(void)
{
    l->workers[2].reserved = 1;
}

static void break_worker(void)
{
    l->workers[3].id = l->workers[0].id;
}

static void break_holders(void)
{
    l->files[0].holders++;
}

static void break_lease(void)
{
    l->workers[1].index = l->workers[0].index;
}

static void break_done(void)
{
    l->files[0].done++;
}

static void break_unreserved(void)
{
    l->unreserved--;
}

static void break_cursor(void)
{
    l->cursor = PIECES;
}

static void break_save(void)
{
    l->save = 5;
    l->save_known = true;
    l->save_workers = WORKERS;
}

static void break_slots(void)
{
    for (uint32_t i = 0; i < 2; i++)
        l->workers[i].taking_part = true;
    l->slots = 2;
}

static void break_reports(void)
{
    l->n_reports = 1;
}

static const struct broken all[] = {
    {"held_piece_is_leased", break_holder},
    {"dead_have_nothing", break_death},
    {"worker_is_the_only_one", break_worker},
    {"holders_are_counted", break_holders},
    {"holders_of_piece_are_counted", break_lease},
    {"pieces_are_counted", break_done},
    {"free_pieces_are_found", break_unreserved},
    {"free_pieces_are_found", break_cursor},
    {"save_is_marked", break_save},
    {"shares_hold", break_slots},
    {"leases_check", break_reports},
};

static void test_every_invariant_can_fail(void **state)
{
    (void)state;
    open_leases();
    expect_all_broken(all, sizeof(all) / sizeof(*all), check);
    leases_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_invariant_can_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
