// Marks of saves at a shard: a session can have only a limited number of them, checking
// them is fast however many workers there are, and they survive new rosters and lack of
// memory.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/saving.h"
#include "kit/test.h"

// A session can mark only a limited number of saves that are never requested; marks of other
// sessions do not count.
static void test_marks_of_one_session(void **state)
{
    (void)state;
    struct lone *w = saving_open_loop(0, 1, saving_users);
    struct msg_mark m = {.epoch = w->epoch, .session = lone_session(0)};
    for (m.save = 1; m.save <= SAVES_MARKS_EACH; m.save++) {
        lone_deliver(w, WORKER_LINK, MSG_MARK, ++w->next_request, &m);
        lone_expect_ok(w);
    }
    lone_deliver(w, WORKER_LINK, MSG_MARK, ++w->next_request, &m);
    lone_expect_refusal(w, TUG_EUSAGE, "has marked");
    saving_mark(w, 1, m.save);
    lone_close(w);
}

static bool is_of_save(void *ctx, const struct save_mark *mark)
{
    return mark->save == *(const uint64_t *)ctx;
}

// The number of nodes that fit into the largest cluster in addition to the scheduler, the
// servers and WORKERS.
enum { MANY = ROSTER_MAX_NODES - 3 - WORKERS };

static struct lone *open_crowd(struct saving *ret)
{
    struct lone *w = saving_open_loop(0, 1, saving_users);
    *ret = saving_begin(SAVE_CHECKPOINT);
    w->crowd = MANY;
    lone_send_roster(w);
    for (uint32_t i = 0; i < MANY; i++)
        lone_open_member(w, CROWD + i, CROWD + i, CROWD_SESSION + i);
    lone_forget(w);
    saving_send(w, ret, true, 0);
    for (uint32_t i = 0; i < WORKERS; i++)
        saving_mark(w, i, ret->id);
    return w;
}

static void mark_as(struct lone *w, uint32_t i, uint64_t save)
{
    struct msg_mark m = {.epoch = w->epoch, .save = save, .session = CROWD_SESSION + i};
    assert_int_equal(w->shard->saves.run->state, SAVE_WAITS);
    lone_deliver(w, CROWD + i, MSG_MARK, ++w->next_request, &m);
    lone_expect_ok(w);
}

// A save waits for the marks of all workers of the largest cluster.
static void test_marks_of_many(void **state)
{
    (void)state;
    struct saving x;
    struct lone *w = open_crowd(&x);
    for (uint32_t i = MANY; i-- > 0;) // in reverse order of the roster
        mark_as(w, i, x.id);
    assert_int_equal(w->shard->saves.run->state, SAVE_CUTS);
    saving_forget(&x);
    lone_close(w);
}

// A worker is not checked again after its mark was seen. So the save begins even though
// an early mark is removed before the last workers have marked.
static void test_marks_of_many_in_order(void **state)
{
    (void)state;
    struct saving x;
    struct lone *w = open_crowd(&x);
    struct save_run *r = w->shard->saves.run;
    uint32_t before = r->looked;
    for (uint32_t i = 0; i + 1 < MANY; i++) {
        mark_as(w, i, x.id);
        assert_int_equal(r->looked, before + i + 1);
        if (i == MANY / 2)
            marks_remove(&w->shard->saves.marks, is_of_save, &x.id);
    }
    mark_as(w, MANY - 1, x.id);
    assert_int_equal(w->shard->saves.run->state, SAVE_CUTS);
    saving_forget(&x);
    lone_close(w);
}

// In the next roster nodes have other positions, because nodes that have ended were
// removed. The save still waits for the last worker, which has not marked.
static void test_marks_and_the_next_roster(void **state)
{
    (void)state;
    struct lone *w = saving_open_loop(0, 1, saving_users);
    struct saving x = saving_begin(SAVE_CHECKPOINT);
    struct msg_mark m = {.epoch = w->epoch, .save = x.id, .session = CROWD_SESSION + 3};
    w->crowd = 4;
    lone_send_roster(w);
    for (uint32_t i = 0; i < w->crowd; i++)
        lone_open_member(w, CROWD + i, CROWD + i, CROWD_SESSION + i);
    lone_forget(w);
    saving_send(w, &x, true, 0);
    for (uint32_t i = 0; i < WORKERS; i++)
        saving_mark(w, i, x.id);
    for (uint32_t i = 0; i < 3; i++)
        mark_as(w, i, x.id);
    w->crowd_gone = 2;
    lone_send_roster(w);
    lone_pass_time(w, SECOND_NS);
    assert_int_equal(w->shard->saves.run->state, SAVE_WAITS);
    lone_deliver(w, CROWD + 3, MSG_MARK, ++w->next_request, &m);
    lone_expect_ok(w);
    assert_int_equal(w->shard->saves.run->state, SAVE_CUTS);
    saving_forget(&x);
    lone_close(w);
}

// If there is no room for one more mark, the worker that sent the mark gets an error, and
// the save goes on waiting for this worker.
static void test_no_room_for_a_mark(void **state)
{
    (void)state;
    struct budget budget;
    struct lone *w = saving_open_loop(0, 1, saving_users);
    struct saving x = saving_begin(SAVE_CHECKPOINT);
    struct msg_mark m = {.epoch = w->epoch, .save = x.id, .session = lone_session(0)};
    budget_open(&budget, 1 << 20);
    w->shard->saves.marks.budget = &budget;
    uint64_t most = budget_most(&budget, BUDGET_CLOCKS);
    assert_true(budget_take(&budget, BUDGET_CLOCKS, most));
    saving_send(w, &x, true, 0);
    lone_deliver(w, WORKER_LINK, MSG_MARK, ++w->next_request, &m);
    lone_expect_refusal(w, TUG_EIO, "no room now for one more mark of a save");
    budget_give(&budget, BUDGET_CLOCKS, most);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(w->shard->saves.run->state, SAVE_WAITS);
        saving_mark(w, i, x.id);
    }
    assert_int_equal(w->shard->saves.run->state, SAVE_CUTS);
    saving_forget(&x);
    lone_close(w);
    assert_int_equal(budget_used(&budget, BUDGET_CLOCKS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marks_of_one_session),
        cmocka_unit_test(test_marks_of_many),
        cmocka_unit_test(test_marks_of_many_in_order),
        cmocka_unit_test(test_marks_and_the_next_roster),
        cmocka_unit_test(test_no_room_for_a_mark),
    };
    return cmocka_run_group_tests(tests, saving_prepare, saving_clean);
}
