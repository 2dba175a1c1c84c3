// SPDX-License-Identifier: Apache-2.0
#include "cluster/member_internal.h"
#include "kit/actors.h"
#include "kit/broken.h"
#include "kit/test.h"

static struct world w;
static struct member *m; // the member of a worker, with a request under way

static void check(void)
{
    member_check(m, sim_now(w.sim));
}

static void on_answer(void *ctx, const struct van_message *answer)
{
    (void)ctx, (void)answer;
}

static struct ask *asked(void)
{
    for (int i = 0; i < MEMBER_ASKS; i++)
        if (m->asks[i].request != 0)
            return &m->asks[i];
    fail();
    return NULL;
}

static void break_link(void)
{
    m->s.link = 0;
}

static void break_dialing(void)
{
    session_end(&m->s);
}

static void break_identity(void)
{
    m->who.number = 0;
}

static void break_roster(void)
{
    m->roster.owners[WIRE_SPACE_DENSE] = NULL;
}

static void break_time(void)
{
    m->lost_at = sim_now(w.sim) + 1;
}

static void break_number(void)
{
    asked()->request = m->last_request + 1;
}

static void break_kind(void)
{
    struct ask *a = asked();
    m->asks[a == m->asks ? 1 : 0] = *a;
}

static void break_frame(void)
{
    asked()->frame.head.len = 0;
}

static void break_end(void)
{
    m->ended = true;
}

static void break_barrier(void)
{
    m->barriers[WIRE_GROUP_WORKERS].done++;
}

static void break_leave(void)
{
    m->left = true;
}

static const struct broken all[] = {
    {"session_check", break_link},
    {"somebody_dials", break_dialing},
    {"joined_as_somebody", break_identity},
    {"roster_is_whole", break_roster},
    {"times_have_been", break_time},
    {"ask_is_the_only_one", break_number},
    {"ask_is_the_only_one", break_kind},
    {"ask_can_be_sent", break_frame},
    {"asks_hold", break_end},
    {"barriers_hold", break_barrier},
    {"end_holds", break_leave},
};

static void test_every_invariant_can_fail(void **state)
{
    (void)state;
    struct scheduler_options o = world_options(1, 1);
    world_open(&w, 1, &o);
    world_add_all(&w, 1, 1, false);
    world_run(&w, 3 * SECONDS);
    m = w.actors[1].m;
    struct msg_lease lease = {0};
    assert_int_equal(member_ask(m, MSG_LEASE, &lease, on_answer, NULL), 0);
    expect_all_broken(all, sizeof(all) / sizeof(*all), check);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_invariant_can_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
