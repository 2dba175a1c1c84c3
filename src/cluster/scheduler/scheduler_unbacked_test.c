// Unbacked tables at the scheduler: while one exists, primaries stay, and the death of a primary
// ends the run. See kit/chained.h.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "kit/chained.h"
#include "kit/test.h"

static void tell(struct actor *a, uint32_t table, const char *name, uint64_t drops,
                 bool exists)
{
    struct msg_unbacked m = {.table = table,
                             .space = WIRE_SPACE_SPARSE,
                             .exists = exists,
                             .drops = drops,
                             .name = wire_text(name)};
    member_tell(a->m, MSG_UNBACKED, &m);
    chained_run(MILLIS * 100);
}

static void copy_owners(uint32_t ret[CHAINED_PARTITIONS])
{
    memcpy(ret, chained_roster()->owners[WIRE_SPACE_SPARSE],
           CHAINED_PARTITIONS * sizeof(*ret));
}

static void check_owners(const uint32_t owners[CHAINED_PARTITIONS])
{
    assert_memory_equal(chained_roster()->owners[WIRE_SPACE_SPARSE], owners,
                        CHAINED_PARTITIONS * sizeof(*owners));
}

// A server that joins becomes a backup in the table's space, also if it joined before the table
// was made, and leads in others.
static void test_primaries_stay(void **state)
{
    (void)state;
    for (int before = 0; before < 2; before++) {
        uint32_t owners[CHAINED_PARTITIONS];
        chained_open(3, 2);
        copy_owners(owners);
        if (!before)
            tell(&w.actors[0], 3, "lone", 0, true);
        struct actor *late = chained_add_server(true);
        if (before) {
            chained_run(SECONDS / 2);
            assert_true(w.s->moving.left > 0);
            tell(&w.actors[0], 3, "lone", 0, true);
            copy_owners(owners);
        }
        chained_run(200 * SECONDS);
        chained_check_settled(2);
        check_owners(owners);
        uint32_t id = member_id(late->m);
        assert_true(chained_member_of(WIRE_SPACE_SPARSE, id) > 0);
        assert_true(chained_leads(WIRE_SPACE_DENSE, id) > 0);
        world_close(&w);
    }
}

// The members of each chain stay in different zones when a server joins; and with too few
// servers, one that joins becomes a backup of all partitions.
static void test_chains_stay_apart(void **state)
{
    // The zone of each actor; one of them is the worker.
    static const char *const names[] = {"east", "west", "west", "west"};
    (void)state;
    for (uint32_t servers = 1; servers <= 2; servers++) {
        uint32_t owners[CHAINED_PARTITIONS];
        chained.zones = names;
        chained_open(servers, 2);
        tell(&w.actors[0], 3, "lone", 0, true);
        copy_owners(owners);
        chained_add_server(true);
        chained_run(200 * SECONDS);
        chained_check_settled(2);
        check_owners(owners);
        for (uint32_t p = 0; p < CHAINED_PARTITIONS; p++) {
            uint32_t c[ROSTER_MAX_CHAIN];
            (void)roster_chain(chained_roster(), WIRE_SPACE_SPARSE, p, c);
            assert_true((c[0] == 8) != (c[1] == 8)); // the only server in the east
        }
        world_close(&w);
    }
    chained.zones = NULL;
}

// A server is drained when the table is made. It keeps its partitions, and the planned backups
// in its zone make room for it.
static void test_drained_before(void **state)
{
    // The zone of each actor; the third one is the worker.
    static const char *const names[] = {"east", "west", "west", "east"};
    (void)state;
    chained.zones = names;
    chained_open(2, 2);
    chained_add_server(true);
    chained_run(200 * SECONDS);
    assert_true(chained_drain(8));
    uint32_t led = chained_leads(WIRE_SPACE_SPARSE, 8), kept = 0;
    assert_true(led > 0);
    tell(&w.actors[0], 3, "lone", 0, true);
    chained_run(200 * SECONDS);
    for (uint32_t p = 0; p < CHAINED_PARTITIONS; p++) {
        uint32_t c[ROSTER_MAX_CHAIN];
        assert_int_equal(roster_chain(chained_roster(), WIRE_SPACE_SPARSE, p, c), 2);
        kept += c[0] == 8;
        assert_true(c[0] != 8 || c[1] == 10); // the only server in the west
    }
    assert_true(kept > 0 && kept <= led);
    world_close(&w);
    chained.zones = NULL;
}

static char last_line[256]; // of the scheduler's log, about a server that is drained

static void keep_line(void *ctx, const char *line)
{
    (void)ctx;
    if (strstr(line, "is drained, but") != NULL)
        snprintf(last_line, sizeof(last_line), "%s", line);
}

static void test_drain_refused(void **state)
{
    (void)state;
    chained_open(3, 2);
    tell(&w.actors[0], 3, "lone", 0, true);
    assert_false(chained_drain(8));
    tell(&w.actors[1], 3, "", 1, false);
    assert_true(chained_drain(8));
    // The table comes back while partitions move: the server keeps those that it leads.
    w.s->o.log = keep_line;
    tell(&w.actors[1], 3, "lone", 1, true);
    assert_non_null(strstr(last_line, "server 0 is drained, but it keeps the partitions "
                                      "that it leads: only it has their rows of table "
                                      "'lone'"));
    uint32_t led = chained_leads(WIRE_SPACE_SPARSE, 8);
    assert_true(led > 0);
    chained_run(200 * SECONDS);
    assert_int_equal(chained_leads(WIRE_SPACE_SPARSE, 8), led);
    assert_false(member_left(w.actors[0].m));
    tell(&w.actors[1], 3, "", 2, false);
    chained_run(200 * SECONDS);
    assert_true(member_left(w.actors[0].m));
    chained_check_settled(2);
    world_close(&w);
}

// A primary's death ends the run, and that of a server that leads nothing of the space does
// not.
static void test_deaths(void **state)
{
    (void)state;
    chained_open(3, 2);
    tell(&w.actors[0], 3, "lone", 0, true);
    tell(&w.actors[0], 9, "other", 0, true);
    struct actor *late = chained_add_server(true);
    chained_run(200 * SECONDS);
    assert_int_equal(chained_leads(WIRE_SPACE_SPARSE, member_id(late->m)), 0);
    world_crash(late);
    chained_run(100 * SECONDS);
    chained_check_settled(2);
    assert_int_equal(w.s->phase, SCHEDULER_RUNNING);
    world_crash(&w.actors[1]);
    chained_run(20 * SECONDS);
    assert_int_equal(w.s->end.code, TUG_EIO);
    assert_non_null(strstr(w.s->end.text, "server 1 (b:11) was lost with partitions "));
    assert_non_null(strstr(w.s->end.text,
                           " of 16 of table 'lone', 'other', which have no "
                           "other replica (replicas = 1); --resume "));
    world_close(&w);
}

// A server is not taken for dead as soon as usual with replicas, because its death would end the
// run.
static void test_silent_primary(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        chained.server_timeout = 750 * MILLIS;
        chained_open(3, 2);
        chained.server_timeout = 0;
        if (with)
            tell(&w.actors[0], 3, "lone", 0, true);
        sim_partition(w.sim, w.actors[0].v, w.v, true);
        chained_run(3 * SECONDS);
        assert_int_equal(w.s->phase, SCHEDULER_RUNNING);
        assert_int_equal(roster_find(chained_roster(), 8)->alive, with);
        world_close(&w);
    }
}

// A signal to a primary ends the whole run, because the primary cannot be drained.
static void test_signal(void **state)
{
    (void)state;
    chained_open(3, 2);
    w.s->o.ends_in_order = true;
    tell(&w.actors[0], 3, "lone", 0, true);
    struct link server = {.role = WIRE_SERVER};
    struct msg_may_leave m = {.process = w.s->processes[1].process};
    scheduler_may_leave_serve(w.s, &server, 1, &m);
    assert_true(scheduler_asked(w.s));
    chained_check_log("server 1 was asked to end: the whole run ends as if it were "
                      "interrupted, because table 'lone' has one replica",
                      true);
    assert_false(w.s->processes[1].draining);
    world_close(&w);
}

// A list of tables that does not fit ends at a whole name.
static void test_names(void **state)
{
    (void)state;
    char names[48];
    chained_open(3, 2);
    tell(&w.actors[0], 3, "a-table-with-a-long-name", 0, true);
    tell(&w.actors[0], 4, "another", 0, true);
    scheduler_unbacked_names(w.s, WIRE_SPACE_SPARSE, names, sizeof(names));
    assert_string_equal(names, "'a-table-with-a-long-name', 'another'");
    tell(&w.actors[0], 5, "the-third", 0, true);
    scheduler_unbacked_names(w.s, WIRE_SPACE_SPARSE, names, sizeof(names));
    assert_string_equal(names, "'a-table-with-a-long-name', 'another', ...");
    world_close(&w);
}

// Messages about earlier tables with the number have no effect, and neither have such that are
// not possible.
static void test_late_messages(void **state)
{
    (void)state;
    chained_open(3, 2);
    struct actor *a = &w.actors[0];
    tell(a, 3, "lone", 2, true);
    tell(a, 3, "", 2, false);
    tell(a, 3, "former", 1, true);
    assert_int_equal(chained_roster()->n_unbacked, 1);
    assert_int_equal(chained_roster()->unbacked[0].drops, 2);
    assert_string_equal(w.s->unbacked[0].name, "lone");
    tell(a, 3, "", 3, false);
    assert_int_equal(chained_roster()->n_unbacked, 0);
    tell(a, 3, "lone", 2, true);
    assert_int_equal(chained_roster()->n_unbacked, 0);
    tell(a, ROSTER_TABLES, "lone", 0, true);
    tell(a, 4, "a\x1b[2J", 0, true);
    tell(a, 4, "a", (uint64_t)INT32_MAX + 1, true);
    tell(a, 4, "a", UINT64_MAX, true);
    assert_int_equal(chained_roster()->n_unbacked, 0);
    tell(a, 4, "b", 0, true);
    tell(a, 3, "again", 3, true);
    assert_int_equal(chained_roster()->n_unbacked, 2);
    assert_int_equal(chained_roster()->unbacked[0].table, 3);
    world_close(&w);
}

// A primary that reports itself, because its disk fails, stays: its rows of the table would be
// lost.
static void test_primary_reports_itself(void **state)
{
    (void)state;
    uint32_t owners[CHAINED_PARTITIONS];
    chained_open(3, 2);
    tell(&w.actors[0], 3, "lone", 0, true);
    copy_owners(owners);
    struct actor *a = &w.actors[0];
    uint64_t places[CHAINED_PARTITIONS];
    uint32_t n = 0;
    for (uint32_t p = 0; p < CHAINED_PARTITIONS; p++)
        if (owners[p] == member_id(a->m))
            places[n++] = (uint64_t)WIRE_SPACE_SPARSE << 32 | p;
    assert_true(n > 0);
    struct msg_member_out m = {.epoch = chained_roster()->epoch,
                               .node = member_id(a->m),
                               .code = TUG_ENOMEM,
                               .why = wire_text("its disk fails"),
                               .places = {places, n * sizeof(*places)}};
    for (int i = 0; i < 12; i++) {
        member_tell(a->m, MSG_MEMBER_OUT, &m);
        chained_run(SECONDS / 4);
    }
    check_owners(owners);
    chained_check_settled(2);
    world_close(&w);
}

// When a table is made or dropped, it is still known which servers are full, and which members
// had to leave.
static void test_failures_stay_known(void **state)
{
    (void)state;
    chained_open(3, 2);
    chained_add_server(true); // so there is a plan
    chained_run(200 * SECONDS);
    struct sched_node *n = scheduler_node_of(w.s, member_id(w.actors[0].m));
    struct retry *r = &w.s->moving.retries[WIRE_SPACE_SPARSE][1];
    n->full = true;
    r->last_out = n->n.id;
    r->outs = 2;
    tell(&w.actors[0], 3, "lone", 0, true);
    tell(&w.actors[0], 3, "", 1, false);
    assert_int_equal(chained_roster()->n_unbacked, 0);
    assert_true(n->full);
    assert_int_equal(r->last_out, n->n.id);
    assert_int_equal(r->outs, 2);
    world_close(&w);
}

// The next scheduler knows the tables from the journal.
static void test_journal(void **state)
{
    (void)state;
    chained.with_journal = true;
    journals_open(&chained.journal);
    chained_open_seed(1, 3, 2);
    tell(&w.actors[0], 3, "lone", 0, true);
    tell(&w.actors[0], 4, "b", 0, true);
    tell(&w.actors[0], 4, "", 1, false);
    chained_run(SECONDS);
    struct scheduler_options o = chained_options();
    o.servers = 3;
    world_restart_scheduler(&w, &o);
    chained_look();
    assert_int_equal(w.s->n_unbacked, 2);
    assert_string_equal(w.s->unbacked[0].name, "lone");
    assert_false(w.s->unbacked[1].exists);
    assert_int_equal(w.s->unbacked[1].drops, 1);
    chained_run(20 * SECONDS);
    assert_int_equal(chained_roster()->n_unbacked, 1);
    world_crash(&w.actors[1]);
    chained_run(20 * SECONDS);
    assert_int_equal(w.s->end.code, TUG_EIO);
    assert_non_null(strstr(w.s->end.text, " of table 'lone'"));
    world_close(&w);
    journals_free(&chained.journal);
    chained.with_journal = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_primaries_stay),
        cmocka_unit_test(test_chains_stay_apart),
        cmocka_unit_test(test_drained_before),
        cmocka_unit_test(test_drain_refused),
        cmocka_unit_test(test_deaths),
        cmocka_unit_test(test_silent_primary),
        cmocka_unit_test(test_signal),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_late_messages),
        cmocka_unit_test(test_primary_reports_itself),
        cmocka_unit_test(test_failures_stay_known),
        cmocka_unit_test(test_journal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
