// Reports that a member of chains of replicas cannot follow: the scheduler takes it out, and lets
// it be filled again. See kit/chained.h.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "kit/chained.h"
#include "kit/test.h"

// A member that reports itself, or is reported by the member before it, leaves these chains
// in one epoch, and is filled again: at once, or after a pause.
static void test_member_out(void **state)
{
    (void)state;
    for (int self = 0; self < 2; self++)
        for (int soon = 0; soon < 2; soon++) {
            chained_open(3, 3);
            struct actor *a = &w.actors[0], *b = &w.actors[1];
            uint64_t epoch = chained_roster()->epoch;
            uint32_t n = chained_report_out(self ? b : a, member_id(b->m),
                                            soon ? TUG_EINTERRUPTED : TUG_EIO);
            assert_true(n > 0);
            assert_true(chained_roster()->epoch > epoch);
            chained_check_log("placement: server 1 (b:11) has left ", true);
            chained_check_log(" chains: its disk is slow", true);
            chained_run(SECONDS);
            assert_int_equal(w.s->moving.left == 0, soon);
            chained_run(100 * SECONDS);
            chained_check_settled(3);
            chained_check_log("because server 1 (b:11) could not follow", true);
            world_close(&w);
        }
}

// The source of a fill reports that its target does not follow: the fill is tried again later.
static void test_fill_stopped(void **state)
{
    (void)state;
    chained_open(2, 2);
    struct actor *late = chained_add_server(true);
    late->mute = WIRE_MOVE_ARRIVED;
    chained_run(2 * SECONDS);
    struct move x = chained_fill();
    uint64_t place = (uint64_t)x.space << 32 | x.partition;
    struct msg_member_out m = {.epoch = chained_roster()->epoch,
                               .node = x.to,
                               .code = TUG_EIO,
                               .why = wire_text("it is slow"),
                               .places = {&place, sizeof(place)}};
    member_tell(chained_actor(x.from)->m, MSG_MEMBER_OUT, &m);
    chained_run(SECONDS);
    chained_check_log(" was given up: it is slow; it is tried again in 5 s", true);
    late->mute = 0;
    chained_run(200 * SECONDS);
    chained_check_settled(2);
    world_close(&w);
}

// The primary has died, and the scheduler does not know it yet, also because it was stopped
// meanwhile and reads the primary's last messages late: the backup, which reports that it
// cannot follow, stays in the chain, and leads.
static void test_primary_of_report_dies(void **state)
{
    (void)state;
    for (uint64_t stop = 0; stop <= 1200; stop += 200) {
        chained_open(2, 2);
        struct actor *a = &w.actors[0], *b = &w.actors[1];
        uint32_t id = member_id(b->m), led = chained_leads(0, member_id(a->m));
        assert_in_range(led, 1, CHAINED_PARTITIONS - 1);
        if (stop > 0)
            sim_stop(w.sim, w.v, sim_now(w.sim) + stop * MILLIS, 0);
        assert_true(chained_tell_out(b, id, TUG_EIO, NULL) > 0);
        chained_run(stop * MILLIS * 9 / 10);
        world_crash(a);
        (void)chained_report_out(b, id, TUG_EIO);
        chained_run(30 * SECONDS);
        assert_int_equal(chained_leads(0, id), CHAINED_PARTITIONS);
        assert_int_equal(w.s->phase, SCHEDULER_RUNNING);
        world_close(&w);
    }
}

// Lets time pass until a server has the roster that it must acknowledge before a report is
// carried out.
static void run_until_asked(const struct actor *primary)
{
    for (int i = 0;
         i < 1000 && (w.s->moving.out_version == 0 ||
                      member_roster(primary->m)->version < w.s->moving.out_version);
         i++)
        chained_run(MILLIS / 10);
    assert_true(w.s->moving.out_version != 0);
    assert_int_equal(w.s->moving.dropped, 0);
}

// The primary acknowledges the roster, and dies while the scheduler is stopped: the
// acknowledgement, which the scheduler reads later, does not count.
static void test_primary_of_report_acknowledges_and_dies(void **state)
{
    (void)state;
    for (uint64_t lag = 0; lag <= 2; lag++) {
        chained_open(2, 2);
        struct actor *a = &w.actors[0], *b = &w.actors[1];
        uint32_t id = member_id(b->m);
        assert_true(chained_tell_out(b, id, TUG_EIO, NULL) > 0);
        run_until_asked(a);
        sim_stop(w.sim, w.v, sim_now(w.sim) + 800 * MILLIS, lag * MILLIS);
        chained_run(200 * MILLIS);
        world_crash(a);
        (void)chained_report_out(b, id, TUG_EIO);
        chained_run(30 * SECONDS);
        assert_int_equal(w.s->phase, SCHEDULER_RUNNING);
        assert_int_equal(chained_leads(0, id), CHAINED_PARTITIONS);
        world_close(&w);
    }
}

// The primary dies when the member has left, and before the primary knows that: the run ends,
// because the primary may have acknowledged updates alone.
static void test_primary_alone_dies(void **state)
{
    (void)state;
    chained_open(2, 2);
    struct actor *a = &w.actors[0], *b = &w.actors[1];
    chained.out = member_id(b->m);
    assert_true(chained_tell_out(b, member_id(b->m), TUG_EIO, NULL) > 0);
    run_until_asked(a);
    while (w.s->moving.dropped == 0)
        chained_run(MILLIS / 10);
    world_crash(a);
    chained_run(5 * SECONDS);
    assert_int_equal(w.s->end.code, TUG_EIO);
    assert_non_null(strstr(w.s->end.text, "server 0 (a:10) was lost with partitions "));
    assert_non_null(strstr(w.s->end.text, " which have no other replica"));
    world_close(&w);
}

// The primary reports the last member, which is not its next one: it needs its lease. The
// report is ignored if it names more chains than there are.
static void test_primary_reports(void **state)
{
    (void)state;
    static uint64_t places[WIRE_SPACES * CHAINED_PARTITIONS + 1];
    const size_t n[] = {sizeof(places) / sizeof(*places), 1};
    chained_open(3, 3);
    uint32_t chain[ROSTER_MAX_CHAIN];
    assert_int_equal(roster_chain(chained_roster(), (enum wire_space)0, 0, chain), 3);
    chained.out = chain[2];
    for (size_t i = 0; i < 2; i++) {
        struct msg_member_out m = {.node = chain[2],
                                   .code = TUG_EIO,
                                   .why = wire_text("it grants no lease"),
                                   .places = {places, n[i] * sizeof(*places)}};
        for (int k = 0; k < 8 && w.s->moving.dropped == 0; k++) {
            m.epoch = chained_roster()->epoch;
            member_tell(chained_actor(chain[0])->m, MSG_MEMBER_OUT, &m);
            chained_run(SECONDS / 4);
        }
        assert_int_equal(w.s->moving.dropped, i);
    }
    chained.out = 0;
    chained_check_log(" has left 1 chain: it grants no lease", true);
    chained_run(100 * SECONDS);
    chained_check_settled(3);
    world_close(&w);
}

// Two members of a chain report themselves in turn: one of them leaves it.
static void test_two_reports(void **state)
{
    (void)state;
    chained_open(3, 3);
    uint32_t chain[ROSTER_MAX_CHAIN];
    assert_int_equal(roster_chain(chained_roster(), (enum wire_space)0, 0, chain), 3);
    for (int i = 0; i < 20; i++) {
        chained.out = chain[1 + i % 2];
        (void)chained_tell_out(chained_actor(chained.out), chained.out, TUG_EIO, NULL);
        chained_run(SECONDS / 8);
    }
    chained.out = 0;
    assert_true(w.s->moving.dropped > 0);
    chained_run(100 * SECONDS);
    chained_check_settled(3);
    world_close(&w);
}

// For so many seconds the primary of partition 0 reports the node `always` whenever it is a
// member (0: the last member). Returns how often members have left.
static uint32_t report_for(uint32_t always, uint64_t seconds)
{
    const uint64_t place = 0, until = sim_now(w.sim) + seconds * SECONDS;
    uint64_t before = w.s->moving.dropped;
    while (sim_now(w.sim) < until) {
        const struct roster *r = chained_roster();
        uint32_t node = always != 0 ? always : roster_tail(r, (enum wire_space)0, 0);
        chained.out = node;
        struct actor *primary = chained_actor(r->owners[0][0]);
        struct msg_member_out m = {.epoch = member_roster(primary->m)->epoch,
                                   .node = node,
                                   .code = TUG_EIO,
                                   .why = wire_text("it grants no lease"),
                                   .places = {&place, sizeof(place)}};
        if (roster_is_member(r, (enum wire_space)0, 0, node) && r->owners[0][0] != node)
            member_tell(primary->m, MSG_MEMBER_OUT, &m);
        chained_run(SECONDS / 4);
    }
    chained.out = 0;
    return (uint32_t)(w.s->moving.dropped - before);
}

// The link between a primary and another member is broken for ever: the member is filled again
// ever more rarely. If it has stayed for a while, the pauses are short again.
static void test_reported_again_and_again(void **state)
{
    (void)state;
    uint32_t chain[ROSTER_MAX_CHAIN];
    chained_open(3, 3);
    (void)roster_chain(chained_roster(), (enum wire_space)0, 0, chain);
    assert_in_range(report_for(chain[2], 35), 3, 3); // pauses of 5, 10 and 20 s
    assert_in_range(report_for(chain[2], 3600), 35, 48);
    chained_run(100 * SECONDS);
    chained_check_settled(3);
    chained_run(3600 * SECONDS);
    assert_in_range(report_for(chain[2], 20), 3, 3);
    world_close(&w);
}

// The links between a primary and all other servers are broken: they are filled in turn, ever
// more rarely.
static void test_reported_in_turn(void **state)
{
    (void)state;
    chained_open(3, 2);
    assert_in_range(report_for(0, 600), 4, 14);
    chained_run(100 * SECONDS);
    chained_check_settled(2);
    world_close(&w);
}

// A report from before a member was filled again comes late, also after a new plan.
static void test_late_report(void **state)
{
    (void)state;
    chained_open(2, 2);
    struct actor *b = &w.actors[1];
    uint32_t id = member_id(b->m);
    const uint64_t place = chained_roster()->owners[0][0] != id ? 0 : 1;
    struct msg_member_out m = {.epoch = chained_roster()->epoch,
                               .node = id,
                               .code = TUG_EINTERRUPTED,
                               .why = wire_text("rows have changed"),
                               .places = {&place, sizeof(place)}};
    assert_true(
        roster_is_member(chained_roster(), (enum wire_space)0, (uint32_t)place, id));
    chained.out = id;
    member_tell(b->m, MSG_MEMBER_OUT, &m);
    chained_run(10 * SECONDS);
    chained.out = 0;
    assert_int_equal(w.s->moving.dropped, 1);
    chained_check_settled(2);
    assert_int_equal(scheduler_plan(w.s, false, "the test asks for it"), 0);
    member_tell(b->m, MSG_MEMBER_OUT, &m);
    chained_run(10 * SECONDS);
    assert_int_equal(w.s->moving.dropped, 1);
    world_close(&w);
}

// If there is another server, it takes the place of a member that was reported twice.
static void test_another_takes_the_place(void **state)
{
    (void)state;
    uint32_t chain[ROSTER_MAX_CHAIN];
    chained_open(4, 3);
    (void)roster_chain(chained_roster(), (enum wire_space)0, 0, chain);
    assert_int_equal(report_for(chain[1], 60), 2);
    chained_check_log(" could not follow again", true);
    chained_check_settled(3);
    assert_false(roster_is_member(chained_roster(), (enum wire_space)0, 0, chain[1]));
    world_close(&w);
}

// The target of a fill repeats the report that no bytes have arrived: the fill is given up.
static void test_fill_without_bytes(void **state)
{
    (void)state;
    chained_open(2, 2);
    struct actor *late = chained_add_server(true);
    late->mute = WIRE_MOVE_COPIED;
    chained_run(2 * SECONDS);
    (void)chained_fill();
    for (int i = 0; i < 140; i++) {
        const struct roster *r = member_roster(late->m);
        for (uint32_t k = 0; k < r->n_moves; k++) {
            struct msg_move_says m = {.move = r->moves[k].id, .state = WIRE_MOVE_COPYING};
            member_tell(late->m, MSG_MOVE_SAYS, &m);
        }
        chained_run(SECONDS / 2);
    }
    chained_check_log(" was given up: the copy made no progress for 60 s", true);
    late->mute = 0;
    chained_run(300 * SECONDS);
    chained_check_settled(2);
    world_close(&w);
}

// A member without room leaves the chains, and another server takes its place.
static void test_member_without_room(void **state)
{
    (void)state;
    chained_open(3, 2);
    struct actor *b = &w.actors[1];
    uint32_t led = chained_leads(0, member_id(b->m));
    assert_true(chained_report_out(b, member_id(b->m), TUG_ENOMEM) > 0);
    chained_run(100 * SECONDS);
    chained_check_settled(2);
    assert_int_equal(chained_member_of(0, member_id(b->m)), led);
    world_close(&w);
}

// A primary that cannot serve its partitions reports itself, and the next members lead.
static void test_primary_leaves(void **state)
{
    (void)state;
    chained_open(3, 2);
    const struct roster *r = chained_roster();
    struct actor *a = &w.actors[0];
    uint32_t id = member_id(a->m), n = 0;
    uint64_t places[CHAINED_PARTITIONS];
    for (uint32_t p = 0; p < CHAINED_PARTITIONS; p++)
        if (r->owners[0][p] == id)
            places[n++] = p;
    struct msg_member_out m = {.epoch = r->epoch,
                               .node = id,
                               .code = TUG_ENOMEM,
                               .why = wire_text("its disk is full"),
                               .places = {places, n * sizeof(*places)}};
    assert_true(n > 0);
    chained.out = id;
    member_tell(a->m, MSG_MEMBER_OUT, &m);
    chained_run(SECONDS);
    chained.out = 0;
    assert_int_equal(chained_leads(0, id), 0);
    chained_check_log(" chains: its disk is full", true);
    chained_run(100 * SECONDS);
    chained_check_settled(2);
    world_close(&w);
}

// The only member of a chain stays.
static void test_primary_alone_stays(void **state)
{
    (void)state;
    chained_open(1, 2);
    const struct roster *r = chained_roster();
    uint64_t epoch = r->epoch, place = 0;
    struct msg_member_out m = {.epoch = epoch,
                               .node = r->owners[0][0],
                               .code = TUG_ENOMEM,
                               .places = {&place, sizeof(place)}};
    member_tell(chained_actor(m.node)->m, MSG_MEMBER_OUT, &m);
    chained_run(5 * SECONDS);
    assert_int_equal(chained_roster()->epoch, epoch);
    world_close(&w);
}

// Reports that the scheduler must ignore: about a member that leads by another one,
// a member that does not follow the sender, a loop or a partition that does not
// exist, an epoch to come.
static void test_member_stays(void **state)
{
    (void)state;
    chained_open(3, 2);
    const struct roster *r = chained_roster();
    uint64_t epoch = r->epoch, none = (uint64_t)WIRE_SPACES << 32 | 1;
    uint64_t places[] = {0, none, CHAINED_PARTITIONS};
    uint32_t leader = r->owners[0][0], other = 0;
    for (uint32_t i = 0; i < 3; i++)
        if (!roster_is_member(r, (enum wire_space)0, 0, member_id(w.actors[i].m)))
            other = member_id(w.actors[i].m);
    struct msg_member_out m = {
        .epoch = epoch, .node = leader, .places = {places, sizeof(places)}};
    member_tell(chained_actor(roster_next(r, (enum wire_space)0, 0, leader))->m,
                MSG_MEMBER_OUT, &m);
    m.node = roster_next(r, (enum wire_space)0, 0, leader);
    member_tell(chained_actor(other)->m, MSG_MEMBER_OUT, &m);
    m.epoch++;
    member_tell(chained_actor(leader)->m, MSG_MEMBER_OUT, &m);
    m.epoch--;
    m.node = 4711;
    member_tell(chained_actor(leader)->m, MSG_MEMBER_OUT, &m);
    chained_run(5 * SECONDS);
    assert_int_equal(chained_roster()->epoch, epoch);
    chained_check_settled(2);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_member_out),
        cmocka_unit_test(test_fill_stopped),
        cmocka_unit_test(test_primary_of_report_dies),
        cmocka_unit_test(test_primary_of_report_acknowledges_and_dies),
        cmocka_unit_test(test_primary_alone_dies),
        cmocka_unit_test(test_primary_reports),
        cmocka_unit_test(test_two_reports),
        cmocka_unit_test(test_reported_again_and_again),
        cmocka_unit_test(test_reported_in_turn),
        cmocka_unit_test(test_another_takes_the_place),
        cmocka_unit_test(test_late_report),
        cmocka_unit_test(test_fill_without_bytes),
        cmocka_unit_test(test_member_without_room),
        cmocka_unit_test(test_primary_leaves),
        cmocka_unit_test(test_primary_alone_stays),
        cmocka_unit_test(test_member_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
