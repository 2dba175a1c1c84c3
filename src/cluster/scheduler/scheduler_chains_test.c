// Chains of replicas: placement, promotion, fills, and servers that join, are drained and
// die. See kit/chained.h.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/chained.h"
#include "kit/test.h"

static const char *zone_of(const char *const *names, uint32_t id)
{
    for (uint32_t i = 0; i < w.n; i++)
        if (member_id(w.actors[i].m) == id)
            return names[i];
    fail();
    return NULL;
}

// Checks that the two members of each chain are in different zones.
static void check_zones(const char *const *names)
{
    for (int space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < CHAINED_PARTITIONS; p++) {
            uint32_t c[ROSTER_MAX_CHAIN];
            assert_int_equal(roster_chain(chained_roster(), (enum wire_space)space, p, c),
                             2);
            assert_string_not_equal(zone_of(names, c[0]), zone_of(names, c[1]));
        }
}

// ---------------------------------------------------------------- tests

// The chains are complete from the beginning, and no server has more than its share.
static void test_first_placement(void **state)
{
    (void)state;
    for (uint32_t r = 2; r <= 4; r++) {
        chained_open(4, r);
        chained_check_settled(r);
        assert_int_equal(chained_roster()->epoch, 1);
        for (int space = 0; space < WIRE_SPACES; space++)
            for (uint32_t id = 8; id < 16; id += 2) {
                assert_in_range(chained_leads(space, id), 2, 5);
                assert_in_range(chained_member_of(space, id) - chained_leads(space, id),
                                (r - 1) * 2, (r - 1) * 5);
            }
        world_close(&w);
    }
}

// With fewer servers than replicas, chains are as long as they can be, and a server that
// joins is added to all of them.
static void test_too_few_servers(void **state)
{
    (void)state;
    chained_open(2, 3);
    chained_check_settled(2);
    chained_add_server(true);
    chained_run(60 * SECONDS);
    chained_check_settled(3);
    chained_check_log(
        "placement: 48 partitions have to get other replicas, because server 2 has "
        "joined",
        true);
    chained_check_log(" partitions have been copied in ", true);
    chained_check_log("stopped", false);
    chained_check_log(
        "placement: 48 partitions have fewer than 3 replicas, because there are too "
        "few servers; start more with --join",
        true);
    world_close(&w);
}

// Each chain has a member in both zones, although each server has a host of its own; also
// after a restart of the scheduler, and after a death that leaves one server in a zone.
static void test_zones(void **state)
{
    static const char *const names[] = {"east", "east", "west", "west"};
    (void)state;
    chained.zones = names;
    chained.with_journal = true;
    journals_open(&chained.journal);
    chained_open_seed(1, 4, 2);
    check_zones(names);
    struct scheduler_options o = chained_options();
    o.servers = 4;
    world_restart_scheduler(&w, &o);
    chained_look();
    chained_run(20 * SECONDS);
    world_crash(&w.actors[0]);
    chained_run(200 * SECONDS);
    chained_check_settled(2);
    check_zones(names);
    world_close(&w);
    journals_free(&chained.journal);
    chained.zones = NULL;
    chained.with_journal = false;
}

static void test_names_of_zones(void **state)
{
    static const char *const names[] = {"east", "", "a\nb"}; // the second is a worker
    (void)state;
    chained.zones = names;
    chained_open(1, 2);
    struct err why;
    struct actor *a = chained_add_server(true);
    chained_run(2 * SECONDS);
    assert_true(member_ended(a->m, &why));
    assert_string_equal(why.text,
                        "the name of its zone is too long or cannot be printed");
    world_close(&w);
    chained.zones = NULL;
}

static void test_fixed_server(void **state)
{
    (void)state;
    chained_open(1, 2);
    struct member_options o = world_member(&w, WIRE_SERVER, w.n);
    struct err why;
    o.fixed = true;
    struct actor *a = world_add_with(&w, &o);
    chained_run(2 * SECONDS);
    assert_true(member_ended(a->m, &why));
    assert_string_equal(why.text,
                        "handlers of the server's own program hold state that has no "
                        "replicas; start the scheduler without --replicas");
    world_close(&w);
}

// When a server dies, the next members of its chains lead in the next epoch.
static void test_promotion(void **state)
{
    (void)state;
    chained_open(4, 3);
    uint64_t epoch = chained_roster()->epoch;
    uint32_t dead = member_id(w.actors[1].m), lost = 0;
    uint32_t chains[WIRE_SPACES][CHAINED_PARTITIONS][ROSTER_MAX_CHAIN];
    memcpy(chains, chained.chains, sizeof(chains));
    for (int space = 0; space < WIRE_SPACES; space++)
        lost += chained_leads(space, dead);
    world_crash(&w.actors[1]);
    while (chained_roster()->epoch == epoch) {
        (void)sim_step(w.sim, sim_now(w.sim) + SECONDS);
        chained_watch();
    }
    assert_int_equal(chained_roster()->epoch, epoch + 1);
    for (int space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < CHAINED_PARTITIONS; p++) {
            const uint32_t *was = chains[space][p];
            assert_int_equal(chained_roster()->owners[space][p],
                             was[0] == dead ? was[1] : was[0]);
        }
    char words[64];
    snprintf(words, sizeof(words),
             "placement: server 1 (b:11) led %u partitions: ", lost);
    chained_check_log(words, true);
    chained_check_log("(a:10) leads ", true);
    chained_run(120 * SECONDS);
    assert_int_equal(w.s->phase, SCHEDULER_RUNNING);
    chained_check_settled(3);
    world_close(&w);
}

static void test_fill_after_death(void **state)
{
    (void)state;
    chained_open(3, 2);
    uint32_t dead = member_id(w.actors[0].m);
    world_crash(&w.actors[0]);
    chained_run(100 * SECONDS);
    chained_check_settled(2);
    for (int space = 0; space < WIRE_SPACES; space++) {
        assert_int_equal(chained_member_of(space, dead), 0);
        for (int i = 1; i < 3; i++)
            assert_int_equal(chained_member_of(space, member_id(w.actors[i].m)),
                             CHAINED_PARTITIONS);
    }
    // Another death leaves one copy of each partition, and a server that joins has the
    // second one.
    world_crash(&w.actors[1]);
    chained_run(30 * SECONDS);
    chained_check_settled(1);
    chained_check_log(
        "placement: 48 partitions have fewer than 2 replicas, because there are too "
        "few servers; start more with --join",
        true);
    chained_add_server(true);
    chained_run(100 * SECONDS);
    chained_check_settled(2);
    world_close(&w);
}

// A server that joins gets its share of primaries and of backups. No partition has fewer
// copies meanwhile (watch_chain).
static void test_join(void **state)
{
    (void)state;
    chained_open(2, 2);
    uint32_t id = member_id(chained_add_server(true)->m);
    chained_run(200 * SECONDS);
    chained_check_settled(2);
    id = member_id(w.actors[3].m);
    for (int space = 0; space < WIRE_SPACES; space++) {
        assert_in_range(chained_leads(space, id), CHAINED_PARTITIONS / 3,
                        CHAINED_PARTITIONS / 3 + 1);
        assert_in_range(chained_member_of(space, id), 2 * (CHAINED_PARTITIONS / 3),
                        2 * (CHAINED_PARTITIONS / 3) + 2);
    }
    world_close(&w);
}

static void test_drain(void **state)
{
    (void)state;
    chained_open(3, 2);
    assert_true(chained_drain(8));
    chained_run(200 * SECONDS);
    chained_check_settled(2);
    assert_true(member_left(w.actors[0].m));
    for (int space = 0; space < WIRE_SPACES; space++)
        assert_int_equal(chained_member_of(space, 8), 0);
    // The last but one server may be drained, too; then one copy is left.
    assert_true(chained_drain(10));
    chained_run(60 * SECONDS);
    chained_check_settled(1);
    assert_true(member_left(w.actors[1].m));
    assert_int_equal(w.s->phase, SCHEDULER_RUNNING);
    world_close(&w);
}

// The source or the target of a fill dies. The fill is given up, and another one takes its
// place.
static void test_end_of_fill_dies(void **state)
{
    (void)state;
    for (int target = 0; target < 2; target++) {
        chained_open(3, 2);
        struct actor *late = chained_add_server(true);
        late->mute = WIRE_MOVE_COPIED;
        chained_run(2 * SECONDS);
        struct move x = chained_fill();
        assert_int_equal(x.to, member_id(late->m));
        assert_int_equal(x.from, roster_tail(chained_roster(), x.space, x.partition));
        world_crash(chained_actor(target ? x.to : x.from));
        chained_run(20 * SECONDS);
        chained_check_log("the copy of partition ", true);
        chained_check_log(" was given up: server ", true);
        late->mute = 0;
        chained_run(200 * SECONDS);
        chained_check_settled(2);
        world_close(&w);
    }
}

// The primary dies while its backup is the source of a fill. The fill goes on.
static void test_primary_of_fill_dies(void **state)
{
    (void)state;
    chained_open(2, 3);
    struct actor *late = chained_add_server(true);
    late->mute = WIRE_MOVE_ARRIVED;
    chained_run(2 * SECONDS);
    struct move x = chained_fill();
    uint32_t primary = chained_roster()->owners[x.space][x.partition];
    assert_int_not_equal(x.from, primary);
    world_crash(chained_actor(primary));
    chained_run(8 * SECONDS);
    assert_int_equal(chained_roster()->owners[x.space][x.partition], x.from);
    assert_int_equal(chained_fill().id, x.id);
    late->mute = 0;
    chained_run(100 * SECONDS);
    chained_check_settled(2);
    world_close(&w);
}

// All members of some chains die: the run ends, and says which partitions are lost.
static void test_all_members_die(void **state)
{
    (void)state;
    chained_open(3, 2);
    world_crash(&w.actors[0]);
    world_crash(&w.actors[1]);
    struct err e = world_finish(&w, 60 * SECONDS);
    assert_int_equal(e.code, TUG_EIO);
    assert_non_null(strstr(e.text, " was lost with partitions "));
    assert_non_null(strstr(e.text, " of 16, which have no other replica; --resume "));
    world_close(&w);
}

// A server that fails leaves its chains as if it had died.
static void test_failing_server(void **state)
{
    (void)state;
    chained_open(3, 2);
    w.actors[2].leaves_with = TUG_ENOMEM;
    chained_run(60 * SECONDS);
    assert_int_equal(w.s->phase, SCHEDULER_RUNNING);
    chained_check_settled(2);
    assert_int_equal(chained_member_of(WIRE_SPACE_DENSE, member_id(w.actors[2].m)), 0);
    chained_check_log("server 2 (c:12) has left: its own reason", true);
    world_close(&w);
}

static void on_held(void *ctx, const struct van_message *m)
{
    assert_non_null(m);
    assert_int_equal(m->type, MSG_OK);
    *(int *)ctx = (int)m->m->ok.value;
}

static int hold(struct actor *a, bool on)
{
    struct msg_hold m = {.on = on};
    int held = -1;
    assert_int_equal(member_ask(a->m, MSG_HOLD, &m, on_held, &held), 0);
    while (held < 0)
        chained_run(SECONDS / 100);
    return held;
}

// A hold does not delay the end of a fill. A primary whose place another loop has taken
// stays until the hold ends.
static void test_hold(void **state)
{
    (void)state;
    chained_open(3, 2);
    uint32_t owners[WIRE_SPACES][CHAINED_PARTITIONS];
    for (int space = 0; space < WIRE_SPACES; space++)
        memcpy(owners[space], chained_roster()->owners[space], sizeof(owners[space]));
    for (int i = 0; i < 3; i++)
        w.actors[i].mute = WIRE_MOVE_ARRIVED;
    assert_true(chained_drain(8));
    chained_run(SECONDS);
    struct actor *worker = &w.actors[3];
    for (int i = 0; i < 15 && hold(worker, true) == 0; i++)
        chained_run(SECONDS);
    assert_int_equal(hold(worker, true), 1);
    uint32_t moves = w.s->moving.n, longer = 0;
    assert_true(moves > 1);
    for (int i = 0; i < 3; i++)
        w.actors[i].mute = 0;
    chained_run(10 * SECONDS);
    assert_int_equal(w.s->moving.n, 0); // all have ended, and none has begun
    for (int space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < CHAINED_PARTITIONS; p++) {
            uint32_t chain[ROSTER_MAX_CHAIN];
            longer += roster_chain(chained_roster(), (enum wire_space)space, p, chain) ==
                      3;
            assert_int_equal(chained_roster()->owners[space][p], owners[space][p]);
        }
    assert_in_range(longer, 1, moves);
    chained_add_server(true); // a plan from chains with a member too many
    chained_run(2 * SECONDS);
    hold(worker, false);
    chained_run(200 * SECONDS);
    chained_check_settled(2);
    assert_true(member_left(w.actors[0].m));
    world_close(&w);
}

// ---------------------------------------------------------------- the journal

static void same_chains(const struct scheduler *a, const struct scheduler *b)
{
    size_t n = CHAINED_PARTITIONS * sizeof(uint32_t);
    assert_int_equal(a->roster.epoch, b->roster.epoch);
    for (int space = 0; space < WIRE_SPACES && a->roster.epoch != 0; space++) {
        assert_memory_equal(a->roster.owners[space], b->roster.owners[space], n);
        assert_memory_equal(a->roster.backups[space], b->roster.backups[space],
                            chained.replicas * n);
    }
    for (int space = 0; space < WIRE_SPACES && a->moving.wanted[0] != NULL; space++)
        assert_memory_equal(a->moving.wanted[space], b->moving.wanted[space],
                            chained.replicas * n);
    assert_int_equal(a->moving.n, b->moving.n);
    assert_int_equal(a->moving.left, b->moving.left);
}

static void check_journal(uint32_t servers)
{
    struct memory_journal copy;
    struct scheduler *other;
    struct err e = {0};
    journals_copy(&copy, &chained.journal);
    struct scheduler_options o = chained_options();
    o.servers = servers;
    o.journal = &copy.base;
    o.log = NULL;
    if (scheduler_open(&other, &o, &e) != 0)
        fail_msg("%s", e.text);
    same_chains(w.s, other);
    scheduler_close(other);
    journals_free(&copy);
}

// Random histories. A server dies only if every chain has another member that lives.
struct history {
    uint64_t seed, events;
    uint32_t servers; // for which the cluster was made
};

static uint64_t chance(struct history *h, uint64_t n)
{
    return random_below(h->seed, 1, h->events++, n);
}

static bool may_die(const struct actor *dies)
{
    for (int space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < CHAINED_PARTITIONS; p++) {
            bool other = false;
            for (uint32_t k = 0; k < chained.n[space][p]; k++) {
                const struct actor *a = chained_actor(chained.chains[space][p][k]);
                other |= a != dies && !a->crashed && a->leaves_with == 0;
            }
            if (!other)
                return false;
        }
    return true;
}

static uint32_t living_servers(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w.n; i++)
        n += w.actors[i].role == WIRE_SERVER && !w.actors[i].crashed &&
             w.actors[i].leaves_with == 0 && !member_ended(w.actors[i].m, NULL);
    return n;
}

static void happen(struct history *h)
{
    struct actor *a = &w.actors[chance(h, w.n)];
    bool server = a->role == WIRE_SERVER && !a->crashed && member_ready(a->m) &&
                  !member_ended(a->m, NULL);
    switch (chance(h, 10)) {
    case 0:
        if (w.n < MAX_ACTORS)
            chained_add_server(true);
        break;
    case 1:
        if (server && may_die(a))
            world_crash(a);
        break;
    case 2:
        if (server && may_die(a))
            a->leaves_with = TUG_EIO;
        break;
    case 3:
        if (server &&
            scheduler_can_drain(w.s, scheduler_node_of(w.s, member_id(a->m))->process) &&
            living_servers() > 2)
            (void)chained_drain(member_id(a->m)); // refused if it leaves already
        break;
    case 4:
        if (server)
            a->mute = (enum wire_move_state)chance(h, 3);
        break;
    case 5: {
        struct scheduler_options o = chained_options();
        o.servers = h->servers;
        check_journal(h->servers);
        world_restart_scheduler(&w, &o);
        break;
    }
    case 6:
        (void)hold(&w.actors[h->servers], chance(h, 2) == 0);
        break;
    case 7: {
        static const int codes[] = {TUG_EIO, TUG_EINTERRUPTED, TUG_ENOMEM};
        uint32_t node = member_id(w.actors[chance(h, w.n)].m);
        if (server)
            (void)chained_report_out(a, node, codes[chance(h, 3)]);
        break;
    }
    default:
        break;
    }
}

static void test_histories(void **state)
{
    (void)state;
    chained.with_journal = true;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct history h = {.seed = seed};
        journals_open(&chained.journal);
        chained.journal.fails_after = UINT64_MAX;
        h.servers = 2 + (uint32_t)chance(&h, 3);
        uint32_t r = 2 + (uint32_t)chance(&h, 2);
        chained_open_seed(seed, h.servers, r);
        for (int i = 0; i < 25; i++) {
            happen(&h);
            chained_run(chance(&h, 8000) * MILLIS);
            if (w.s->phase != SCHEDULER_RUNNING)
                fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, w.s->end.text,
                         w.log);
        }
        for (uint32_t i = 0; i < w.n; i++)
            w.actors[i].mute = 0;
        (void)hold(&w.actors[h.servers], false);
        chained_run(1500 * SECONDS);
        uint32_t n = chained_takers();
        chained_check_settled(n < r ? n : r);
        check_journal(h.servers);
        world_close(&w);
        journals_free(&chained.journal);
    }
    chained.with_journal = false;
}

// Each allocation fails once, from the moment when a server dies and another one joins.
static void test_no_memory(void **state)
{
    (void)state;
    bool struck = true;
    for (long k = 0; struck; k += 1 + k / 8) {
        size_t live = mem_live();
        chained_open(3, 2);
        chained_add_server(true);
        world_crash(&w.actors[0]);
        mem_fault_after(k);
        chained_run(120 * SECONDS);
        struck = mem_faulted();
        mem_fault_after(-1);
        chained_check_settled(2);
        world_close(&w);
        assert_int_equal(mem_live(), live);
    }
}

static void test_options(void **state)
{
    (void)state;
    struct scheduler *s;
    struct err e;
    struct scheduler_options o = world_options(1, 1);
    o.replicas = CHAINS_MAX_REPLICAS + 1;
    assert_int_equal(scheduler_open(&s, &o, &e), TUG_EUSAGE);
    assert_string_equal(e.text,
                        "9 replicas are more than the 8 that a partition can have");
    // A journal of another number of replicas.
    chained.with_journal = true;
    journals_open(&chained.journal);
    chained.journal.fails_after = UINT64_MAX;
    chained_open_seed(1, 2, 2);
    struct memory_journal copy;
    journals_copy(&copy, &chained.journal);
    o = chained_options();
    o.servers = 2;
    o.replicas = 3;
    o.journal = &copy.base;
    assert_int_equal(scheduler_open(&s, &o, &e), TUG_EUSAGE);
    assert_string_equal(e.text,
                        "the state at --state belongs to a cluster with --replicas "
                        "2, not 3; give the same options, or another --state");
    journals_free(&copy);
    world_close(&w);
    journals_free(&chained.journal);
    chained.with_journal = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_placement),
        cmocka_unit_test(test_too_few_servers),
        cmocka_unit_test(test_zones),
        cmocka_unit_test(test_names_of_zones),
        cmocka_unit_test(test_fixed_server),
        cmocka_unit_test(test_promotion),
        cmocka_unit_test(test_fill_after_death),
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_end_of_fill_dies),
        cmocka_unit_test(test_primary_of_fill_dies),
        cmocka_unit_test(test_all_members_die),
        cmocka_unit_test(test_failing_server),
        cmocka_unit_test(test_hold),
        cmocka_unit_test(test_histories),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
