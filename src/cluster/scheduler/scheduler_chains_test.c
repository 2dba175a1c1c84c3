// Chains of replicas: placement, promotion, fills, and servers that join, are drained and
// die. The servers are actors that follow the protocol of a move without having any rows.
// A watcher compares the chains before and after every event, by rules of its own.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/guest.h"
#include "kit/journals.h"
#include "kit/test.h"

enum { BITS = 4, PARTITIONS = 1 << BITS };

static uint32_t replicas;
static struct memory_journal journal;
static bool with_journal;
static const char *const *zones; // the zones of the servers; NULL: they have none

static const struct roster *roster(void)
{
    return scheduler_roster(w.s);
}

// ---------------------------------------------------------------- the watcher

// The placement before the last event, and the fills whose end was reported since.
static struct {
    uint64_t epoch;
    uint32_t chains[WIRE_SPACES][PARTITIONS][ROSTER_MAX_CHAIN];
    uint32_t n[WIRE_SPACES][PARTITIONS];
    uint32_t filled[WIRE_SPACES][PARTITIONS]; // the target of the move under way; 0: none
    uint32_t out; // a member that was reported, and may leave chains early; 0: none
} seen;

static bool lives(uint32_t id)
{
    const struct roster_node *n = roster_find(roster(), id);
    return n != NULL && n->alive;
}

// Returns how many server processes can hold partitions.
static uint32_t takers(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w.s->n_processes; i++) {
        const struct process *p = &w.s->processes[i];
        n += p->used && p->role == WIRE_SERVER && p->here > 0 && p->placed &&
             !p->draining;
    }
    return n;
}

static void look(void)
{
    const struct roster *r = roster();
    seen.epoch = r->epoch;
    memset(seen.filled, 0, sizeof(seen.filled));
    for (int space = 0; space < WIRE_SPACES && r->epoch != 0; space++)
        for (uint32_t p = 0; p < PARTITIONS; p++)
            seen.n[space][p] = roster_chain(r, (enum wire_space)space, p,
                                            seen.chains[space][p]);
    for (uint32_t i = 0; i < w.s->moving.n; i++) {
        const struct move *x = &w.s->moving.list[i];
        seen.filled[x->space][x->partition] = x->to;
    }
}

// A chain changes only as follows: members leave, and the loop that was filled is appended.
// A living member leaves only while as many others remain as there should be.
static void watch_chain(int space, uint32_t p)
{
    const uint32_t *before = seen.chains[space][p];
    uint32_t now[ROSTER_MAX_CHAIN], at = 0, left = 0;
    uint32_t n = roster_chain(roster(), (enum wire_space)space, p, now);
    for (uint32_t i = 0; i < seen.n[space][p]; i++) {
        if (at < n && now[at] == before[i])
            at++;
        else
            left += lives(before[i]) && before[i] != seen.out;
    }
    if (at + 1 == n && now[at] == seen.filled[space][p] && now[at] != 0)
        at++;
    assert_int_equal(at, n);
    uint32_t least = takers() < replicas ? takers() : replicas;
    assert_true(left == 0 || n >= least);
    assert_true(n <= replicas + 1);
    for (uint32_t i = 0; i < n; i++)
        assert_true(lives(now[i]) || w.s->changed || w.s->phase != SCHEDULER_RUNNING);
}

static void watch(void)
{
    const struct roster *r = roster();
    bool changed = false;
    for (int space = 0; space < WIRE_SPACES && seen.epoch != 0; space++)
        for (uint32_t p = 0; p < PARTITIONS; p++) {
            uint32_t now[ROSTER_MAX_CHAIN];
            uint32_t n = roster_chain(r, (enum wire_space)space, p, now);
            changed |= n != seen.n[space][p] ||
                       memcmp(now, seen.chains[space][p], n * sizeof(*now)) != 0;
            watch_chain(space, p);
        }
    if (seen.epoch != 0)
        assert_int_equal(changed, r->epoch != seen.epoch);
    look();
}

static void run(uint64_t until)
{
    until += sim_now(w.sim);
    while (sim_step(w.sim, until))
        watch();
}

// ---------------------------------------------------------------- the cluster

static struct scheduler_options options(void)
{
    struct scheduler_options o = world_options(0, 1);
    o.partition_bits = BITS;
    o.replicas = replicas;
    memset(o.session_key, 7, sizeof(o.session_key));
    if (with_journal)
        o.journal = &journal.base;
    return o;
}

static struct actor *add_server(bool late)
{
    static const char *const hosts[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    struct member_options o = world_member(&w, WIRE_SERVER, w.n);
    o.host = hosts[w.n % 8];
    o.late = late;
    o.zone = zones != NULL ? zones[w.n] : NULL;
    struct actor *a = world_add_with(&w, &o);
    a->together = true;
    return a;
}

// Opens a world with n servers, each on a host of its own, and a worker that never leaves.
static void open_seed(uint64_t seed, uint32_t n, uint32_t r)
{
    replicas = r;
    struct scheduler_options o = options();
    o.servers = n;
    world_open(&w, seed, &o);
    memset(&seen, 0, sizeof(seen));
    for (uint32_t i = 0; i < n; i++) {
        add_server(false);
        run(SECONDS / 2);
    }
    world_add(&w, WIRE_WORKER);
    run(2 * SECONDS);
    for (uint32_t i = 0; i < w.n; i++)
        assert_true(member_ready(w.actors[i].m));
}

static void open_servers(uint32_t n, uint32_t r)
{
    with_journal = false;
    open_seed(1, n, r);
}

static uint32_t leads(int space, uint32_t id)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < PARTITIONS; p++)
        n += roster()->owners[space][p] == id;
    return n;
}

static uint32_t member_of(int space, uint32_t id)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < PARTITIONS; p++)
        n += roster_is_member(roster(), (enum wire_space)space, p, id);
    return n;
}

// Checks that all chains have `members` members, that nothing is under way, and that all
// members of the cluster know the placement.
static void check_settled(uint32_t members)
{
    assert_int_equal(roster()->n_moves, 0);
    assert_int_equal(w.s->moving.left, 0);
    for (int space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < PARTITIONS; p++) {
            uint32_t chain[ROSTER_MAX_CHAIN];
            assert_int_equal(roster_chain(roster(), (enum wire_space)space, p, chain),
                             members);
        }
    for (uint32_t i = 0; i < w.n; i++) {
        struct actor *a = &w.actors[i];
        if (a->crashed || member_left(a->m) || member_ended(a->m, NULL))
            continue;
        const struct roster *r = member_roster(a->m);
        assert_int_equal(r->epoch, roster()->epoch);
        assert_int_equal(r->replicas, replicas);
        for (int space = 0; space < WIRE_SPACES; space++) {
            assert_memory_equal(r->owners[space], roster()->owners[space],
                                PARTITIONS * sizeof(uint32_t));
            assert_memory_equal(r->backups[space], roster()->backups[space],
                                PARTITIONS * replicas * sizeof(uint32_t));
        }
    }
}

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
        for (uint32_t p = 0; p < PARTITIONS; p++) {
            uint32_t c[ROSTER_MAX_CHAIN];
            assert_int_equal(roster_chain(roster(), (enum wire_space)space, p, c), 2);
            assert_string_not_equal(zone_of(names, c[0]), zone_of(names, c[1]));
        }
}

static void check_log(const char *words, bool there)
{
    if ((strstr(w.log, words) != NULL) != there)
        fail_msg("%s in the log:\n%s", words, w.log);
}

// Asks for a drain. Returns whether it was accepted.
static bool drain(uint32_t id)
{
    guest_open();
    guest_say_hello(CLUSTER);
    guest_say(MSG_DRAIN, &(struct msg_drain){.node = id});
    van_free(guest.v);
    look(); // the guest has run the simulation
    return guest.type == MSG_OK;
}

// ---------------------------------------------------------------- tests

// The chains are complete from the beginning, and no server has more than its share.
static void test_first_placement(void **state)
{
    (void)state;
    for (uint32_t r = 2; r <= 4; r++) {
        open_servers(4, r);
        check_settled(r);
        assert_int_equal(roster()->epoch, 1);
        for (int space = 0; space < WIRE_SPACES; space++)
            for (uint32_t id = 8; id < 16; id += 2) {
                assert_in_range(leads(space, id), 2, 5);
                assert_in_range(member_of(space, id) - leads(space, id), (r - 1) * 2,
                                (r - 1) * 5);
            }
        world_close(&w);
    }
}

// With fewer servers than replicas, chains are as long as they can be, and a server that
// joins is added to all of them.
static void test_too_few_servers(void **state)
{
    (void)state;
    open_servers(2, 3);
    check_settled(2);
    add_server(true);
    run(60 * SECONDS);
    check_settled(3);
    check_log("placement: 48 partitions have to get other replicas, because server 2 has "
              "joined",
              true);
    check_log(" partitions have been copied in ", true);
    check_log("stopped", false);
    check_log(
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
    zones = names;
    with_journal = true;
    journals_open(&journal);
    open_seed(1, 4, 2);
    check_zones(names);
    struct scheduler_options o = options();
    o.servers = 4;
    world_restart_scheduler(&w, &o);
    look();
    run(20 * SECONDS);
    world_crash(&w.actors[0]);
    run(200 * SECONDS);
    check_settled(2);
    check_zones(names);
    world_close(&w);
    journals_free(&journal);
    zones = NULL;
    with_journal = false;
}

static void test_names_of_zones(void **state)
{
    static const char *const names[] = {"east", "", "a\nb"}; // the second is a worker
    (void)state;
    zones = names;
    open_servers(1, 2);
    struct err why;
    struct actor *a = add_server(true);
    run(2 * SECONDS);
    assert_true(member_ended(a->m, &why));
    assert_string_equal(why.text,
                        "the name of its zone is too long or cannot be printed");
    world_close(&w);
    zones = NULL;
}

static void test_fixed_server(void **state)
{
    (void)state;
    open_servers(1, 2);
    struct member_options o = world_member(&w, WIRE_SERVER, w.n);
    struct err why;
    o.fixed = true;
    struct actor *a = world_add_with(&w, &o);
    run(2 * SECONDS);
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
    open_servers(4, 3);
    uint64_t epoch = roster()->epoch;
    uint32_t dead = member_id(w.actors[1].m), lost = 0;
    uint32_t chains[WIRE_SPACES][PARTITIONS][ROSTER_MAX_CHAIN];
    memcpy(chains, seen.chains, sizeof(chains));
    for (int space = 0; space < WIRE_SPACES; space++)
        lost += leads(space, dead);
    world_crash(&w.actors[1]);
    while (roster()->epoch == epoch) {
        (void)sim_step(w.sim, sim_now(w.sim) + SECONDS);
        watch();
    }
    assert_int_equal(roster()->epoch, epoch + 1);
    for (int space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < PARTITIONS; p++) {
            const uint32_t *was = chains[space][p];
            assert_int_equal(roster()->owners[space][p],
                             was[0] == dead ? was[1] : was[0]);
        }
    char words[64];
    snprintf(words, sizeof(words),
             "placement: server 1 (b:11) led %u partitions: ", lost);
    check_log(words, true);
    check_log("(a:10) leads ", true);
    run(120 * SECONDS);
    assert_int_equal(w.s->phase, SCHEDULER_RUNNING);
    check_settled(3);
    world_close(&w);
}

static void test_fill_after_death(void **state)
{
    (void)state;
    open_servers(3, 2);
    uint32_t dead = member_id(w.actors[0].m);
    world_crash(&w.actors[0]);
    run(100 * SECONDS);
    check_settled(2);
    for (int space = 0; space < WIRE_SPACES; space++) {
        assert_int_equal(member_of(space, dead), 0);
        for (int i = 1; i < 3; i++)
            assert_int_equal(member_of(space, member_id(w.actors[i].m)), PARTITIONS);
    }
    // Another death leaves one copy of each partition, and a server that joins has the
    // second one.
    world_crash(&w.actors[1]);
    run(30 * SECONDS);
    check_settled(1);
    check_log(
        "placement: 48 partitions have fewer than 2 replicas, because there are too "
        "few servers; start more with --join",
        true);
    add_server(true);
    run(100 * SECONDS);
    check_settled(2);
    world_close(&w);
}

// A server that joins gets its share of primaries and of backups. No partition has fewer
// copies meanwhile (watch_chain).
static void test_join(void **state)
{
    (void)state;
    open_servers(2, 2);
    uint32_t id = member_id(add_server(true)->m);
    run(200 * SECONDS);
    check_settled(2);
    id = member_id(w.actors[3].m);
    for (int space = 0; space < WIRE_SPACES; space++) {
        assert_in_range(leads(space, id), PARTITIONS / 3, PARTITIONS / 3 + 1);
        assert_in_range(member_of(space, id), 2 * (PARTITIONS / 3),
                        2 * (PARTITIONS / 3) + 2);
    }
    world_close(&w);
}

static void test_drain(void **state)
{
    (void)state;
    open_servers(3, 2);
    assert_true(drain(8));
    run(200 * SECONDS);
    check_settled(2);
    assert_true(member_left(w.actors[0].m));
    for (int space = 0; space < WIRE_SPACES; space++)
        assert_int_equal(member_of(space, 8), 0);
    // The last but one server may be drained, too; then one copy is left.
    assert_true(drain(10));
    run(60 * SECONDS);
    check_settled(1);
    assert_true(member_left(w.actors[1].m));
    assert_int_equal(w.s->phase, SCHEDULER_RUNNING);
    world_close(&w);
}

// Returns a fill that is under way.
static struct move one_fill(void)
{
    assert_true(w.s->moving.n > 0);
    return w.s->moving.list[0];
}

static struct actor *actor_of(uint32_t id)
{
    uint32_t i = 0;
    while (i < w.n && member_id(w.actors[i].m) != id)
        i++;
    assert_in_range(i, 0, w.n - 1);
    return &w.actors[i];
}

// Whether the server `me` reports that the node must leave the partition's chain: the node
// follows the server, or is the server itself and does not lead.
static bool is_reported(const struct roster *r, enum wire_space space, uint32_t p,
                        uint32_t me, uint32_t node)
{
    return me == node ? roster_is_member(r, space, p, me) && r->owners[space][p] != me
                      : roster_next(r, space, p, me) == node;
}

// A server reports that a member must leave all chains for which is_reported is true, and
// repeats this for 3 s. Returns their number.
static uint32_t report_out(struct actor *a, uint32_t node, int code)
{
    uint32_t me = member_id(a->m), n = 0;
    bool is_out[WIRE_SPACES][PARTITIONS] = {0};
    seen.out = node;
    for (int i = 0; i < 12; i++) {
        const struct roster *r = member_roster(a->m);
        uint64_t places[WIRE_SPACES * PARTITIONS];
        uint32_t k = 0;
        for (uint64_t space = 0; space < WIRE_SPACES; space++)
            for (uint32_t p = 0; p < PARTITIONS; p++)
                if (!is_reported(r, (enum wire_space)space, p, me, node))
                    is_out[space][p] = true; // it has left, and may be filled again
                else if (!is_out[space][p])
                    places[k++] = space << 32 | p;
        struct msg_member_out m = {.epoch = r->epoch,
                                   .node = node,
                                   .code = code,
                                   .why = wire_text("its disk is slow"),
                                   .places = {places, k * sizeof(*places)}};
        if (k > 0)
            member_tell(a->m, MSG_MEMBER_OUT, &m);
        n = i == 0 ? k : n;
        run(SECONDS / 4);
    }
    seen.out = 0;
    return n;
}

// A member that reports itself, or is reported by the member before it, leaves these chains
// in one epoch, and is filled again: at once, or after a pause.
static void test_member_out(void **state)
{
    (void)state;
    for (int self = 0; self < 2; self++)
        for (int soon = 0; soon < 2; soon++) {
            open_servers(3, 3);
            struct actor *a = &w.actors[0], *b = &w.actors[1];
            uint64_t epoch = roster()->epoch;
            uint32_t n = report_out(self ? b : a, member_id(b->m),
                                    soon ? TUG_EINTERRUPTED : TUG_EIO);
            assert_true(n > 0);
            assert_true(roster()->epoch > epoch);
            check_log("placement: server 1 (b:11) has left ", true);
            check_log(" chains, and is filled again: its disk is slow", true);
            run(3 * SECONDS);
            assert_int_equal(w.s->moving.left == 0, soon);
            run(100 * SECONDS);
            check_settled(3);
            check_log("because server 1 (b:11) could not follow", true);
            world_close(&w);
        }
}

// The source of a fill reports that its target does not follow: the fill is tried again later.
static void test_fill_stopped(void **state)
{
    (void)state;
    open_servers(2, 2);
    struct actor *late = add_server(true);
    late->mute = WIRE_MOVE_ARRIVED;
    run(2 * SECONDS);
    struct move x = one_fill();
    uint64_t place = (uint64_t)x.space << 32 | x.partition;
    struct msg_member_out m = {.epoch = roster()->epoch,
                               .node = x.to,
                               .code = TUG_EIO,
                               .why = wire_text("it is slow"),
                               .places = {&place, sizeof(place)}};
    member_tell(actor_of(x.from)->m, MSG_MEMBER_OUT, &m);
    run(SECONDS);
    check_log(" was given up: it is slow; it is tried again in 5 s", true);
    late->mute = 0;
    run(200 * SECONDS);
    check_settled(2);
    world_close(&w);
}

// The primary has died, and the scheduler does not know it yet: the backup, which reports that
// it cannot follow, stays in the chain, and leads.
static void test_primary_of_report_dies(void **state)
{
    (void)state;
    open_servers(2, 2);
    struct actor *a = &w.actors[0], *b = &w.actors[1];
    uint32_t led = leads(0, member_id(a->m));
    world_crash(a);
    run(200 * MILLIS); // its last messages arrive
    assert_true(led > 0 && report_out(b, member_id(b->m), TUG_EIO) > 0);
    assert_int_equal(member_of(0, member_id(b->m)), PARTITIONS);
    run(30 * SECONDS);
    assert_int_equal(leads(0, member_id(b->m)), PARTITIONS);
    assert_int_equal(w.s->phase, SCHEDULER_RUNNING);
    world_close(&w);
}

// A member without room leaves the chains, and another server takes its place.
static void test_member_without_room(void **state)
{
    (void)state;
    open_servers(3, 2);
    struct actor *b = &w.actors[1];
    uint32_t led = leads(0, member_id(b->m));
    assert_true(report_out(b, member_id(b->m), TUG_ENOMEM) > 0);
    run(100 * SECONDS);
    check_settled(2);
    assert_int_equal(member_of(0, member_id(b->m)), led);
    world_close(&w);
}

// Reports that the scheduler must ignore: a member that leads, a member that does not follow
// the sender, a loop or a partition that does not exist, another epoch.
static void test_member_stays(void **state)
{
    (void)state;
    open_servers(3, 2);
    const struct roster *r = roster();
    uint64_t epoch = r->epoch, none = (uint64_t)WIRE_SPACES << 32 | 1;
    uint64_t places[] = {0, none, PARTITIONS};
    uint32_t leader = r->owners[0][0], other = 0;
    for (uint32_t i = 0; i < 3; i++)
        if (!roster_is_member(r, (enum wire_space)0, 0, member_id(w.actors[i].m)))
            other = member_id(w.actors[i].m);
    struct msg_member_out m = {
        .epoch = epoch, .node = leader, .places = {places, sizeof(places)}};
    member_tell(actor_of(leader)->m, MSG_MEMBER_OUT, &m);
    m.node = roster_next(r, (enum wire_space)0, 0, leader);
    member_tell(actor_of(other)->m, MSG_MEMBER_OUT, &m);
    m.epoch--;
    member_tell(actor_of(leader)->m, MSG_MEMBER_OUT, &m);
    m.epoch++;
    m.node = 4711;
    member_tell(actor_of(leader)->m, MSG_MEMBER_OUT, &m);
    run(5 * SECONDS);
    assert_int_equal(roster()->epoch, epoch);
    check_settled(2);
    world_close(&w);
}

// The source or the target of a fill dies. The fill is given up, and another one takes its
// place.
static void test_end_of_fill_dies(void **state)
{
    (void)state;
    for (int target = 0; target < 2; target++) {
        open_servers(3, 2);
        struct actor *late = add_server(true);
        late->mute = WIRE_MOVE_COPIED;
        run(2 * SECONDS);
        struct move x = one_fill();
        assert_int_equal(x.to, member_id(late->m));
        assert_int_equal(x.from, roster_tail(roster(), x.space, x.partition));
        world_crash(actor_of(target ? x.to : x.from));
        run(20 * SECONDS);
        check_log("the copy of partition ", true);
        check_log(" was given up: server ", true);
        late->mute = 0;
        run(200 * SECONDS);
        check_settled(2);
        world_close(&w);
    }
}

// The primary dies while its backup is the source of a fill. The fill goes on.
static void test_primary_of_fill_dies(void **state)
{
    (void)state;
    open_servers(2, 3);
    struct actor *late = add_server(true);
    late->mute = WIRE_MOVE_ARRIVED;
    run(2 * SECONDS);
    struct move x = one_fill();
    uint32_t primary = roster()->owners[x.space][x.partition];
    assert_int_not_equal(x.from, primary);
    world_crash(actor_of(primary));
    run(8 * SECONDS);
    assert_int_equal(roster()->owners[x.space][x.partition], x.from);
    assert_int_equal(one_fill().id, x.id);
    late->mute = 0;
    run(100 * SECONDS);
    check_settled(2);
    world_close(&w);
}

// All members of some chains die: the run ends, and says which partitions are lost.
static void test_all_members_die(void **state)
{
    (void)state;
    open_servers(3, 2);
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
    open_servers(3, 2);
    w.actors[2].leaves_with = TUG_ENOMEM;
    run(60 * SECONDS);
    assert_int_equal(w.s->phase, SCHEDULER_RUNNING);
    check_settled(2);
    assert_int_equal(member_of(WIRE_SPACE_DENSE, member_id(w.actors[2].m)), 0);
    check_log("server 2 (c:12) has left: its own reason", true);
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
        run(SECONDS / 100);
    return held;
}

// A hold does not delay the end of a fill. A primary whose place another loop has taken
// stays until the hold ends.
static void test_hold(void **state)
{
    (void)state;
    open_servers(3, 2);
    uint32_t owners[WIRE_SPACES][PARTITIONS];
    for (int space = 0; space < WIRE_SPACES; space++)
        memcpy(owners[space], roster()->owners[space], sizeof(owners[space]));
    for (int i = 0; i < 3; i++)
        w.actors[i].mute = WIRE_MOVE_ARRIVED;
    assert_true(drain(8));
    run(SECONDS);
    struct actor *worker = &w.actors[3];
    for (int i = 0; i < 15 && hold(worker, true) == 0; i++)
        run(SECONDS);
    assert_int_equal(hold(worker, true), 1);
    uint32_t moves = w.s->moving.n, longer = 0;
    assert_true(moves > 1);
    for (int i = 0; i < 3; i++)
        w.actors[i].mute = 0;
    run(10 * SECONDS);
    assert_int_equal(w.s->moving.n, 0); // all have ended, and none has begun
    for (int space = 0; space < WIRE_SPACES; space++)
        for (uint32_t p = 0; p < PARTITIONS; p++) {
            uint32_t chain[ROSTER_MAX_CHAIN];
            longer += roster_chain(roster(), (enum wire_space)space, p, chain) == 3;
            assert_int_equal(roster()->owners[space][p], owners[space][p]);
        }
    assert_in_range(longer, 1, moves);
    add_server(true); // a plan from chains with a member too many
    run(2 * SECONDS);
    hold(worker, false);
    run(200 * SECONDS);
    check_settled(2);
    assert_true(member_left(w.actors[0].m));
    world_close(&w);
}

// ---------------------------------------------------------------- the journal

static void same_chains(const struct scheduler *a, const struct scheduler *b)
{
    size_t n = PARTITIONS * sizeof(uint32_t);
    assert_int_equal(a->roster.epoch, b->roster.epoch);
    for (int space = 0; space < WIRE_SPACES && a->roster.epoch != 0; space++) {
        assert_memory_equal(a->roster.owners[space], b->roster.owners[space], n);
        assert_memory_equal(a->roster.backups[space], b->roster.backups[space],
                            replicas * n);
    }
    for (int space = 0; space < WIRE_SPACES && a->moving.wanted[0] != NULL; space++)
        assert_memory_equal(a->moving.wanted[space], b->moving.wanted[space],
                            replicas * n);
    assert_int_equal(a->moving.n, b->moving.n);
    assert_int_equal(a->moving.left, b->moving.left);
}

static void check_journal(uint32_t servers)
{
    struct memory_journal copy;
    struct scheduler *other;
    struct err e = {0};
    journals_copy(&copy, &journal);
    struct scheduler_options o = options();
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
        for (uint32_t p = 0; p < PARTITIONS; p++) {
            bool other = false;
            for (uint32_t k = 0; k < seen.n[space][p]; k++) {
                const struct actor *a = actor_of(seen.chains[space][p][k]);
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
            add_server(true);
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
            (void)drain(member_id(a->m)); // refused if it leaves already
        break;
    case 4:
        if (server)
            a->mute = (enum wire_move_state)chance(h, 3);
        break;
    case 5: {
        struct scheduler_options o = options();
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
            (void)report_out(a, node, codes[chance(h, 3)]);
        break;
    }
    default:
        break;
    }
}

static void test_histories(void **state)
{
    (void)state;
    with_journal = true;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct history h = {.seed = seed};
        journals_open(&journal);
        journal.fails_after = UINT64_MAX;
        h.servers = 2 + (uint32_t)chance(&h, 3);
        uint32_t r = 2 + (uint32_t)chance(&h, 2);
        open_seed(seed, h.servers, r);
        for (int i = 0; i < 25; i++) {
            happen(&h);
            run(chance(&h, 8000) * MILLIS);
            if (w.s->phase != SCHEDULER_RUNNING)
                fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, w.s->end.text,
                         w.log);
        }
        for (uint32_t i = 0; i < w.n; i++)
            w.actors[i].mute = 0;
        (void)hold(&w.actors[h.servers], false);
        run(1500 * SECONDS);
        uint32_t n = takers();
        check_settled(n < r ? n : r);
        check_journal(h.servers);
        world_close(&w);
        journals_free(&journal);
    }
    with_journal = false;
}

// Each allocation fails once, from the moment when a server dies and another one joins.
static void test_no_memory(void **state)
{
    (void)state;
    bool struck = true;
    for (long k = 0; struck; k += 1 + k / 8) {
        size_t live = mem_live();
        open_servers(3, 2);
        add_server(true);
        world_crash(&w.actors[0]);
        mem_fault_after(k);
        run(120 * SECONDS);
        struck = mem_faulted();
        mem_fault_after(-1);
        check_settled(2);
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
    with_journal = true;
    journals_open(&journal);
    journal.fails_after = UINT64_MAX;
    open_seed(1, 2, 2);
    struct memory_journal copy;
    journals_copy(&copy, &journal);
    o = options();
    o.servers = 2;
    o.replicas = 3;
    o.journal = &copy.base;
    assert_int_equal(scheduler_open(&s, &o, &e), TUG_EUSAGE);
    assert_string_equal(e.text,
                        "the state at --state belongs to a cluster with --replicas "
                        "2, not 3; give the same options, or another --state");
    journals_free(&copy);
    world_close(&w);
    journals_free(&journal);
    with_journal = false;
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
        cmocka_unit_test(test_member_out),
        cmocka_unit_test(test_fill_stopped),
        cmocka_unit_test(test_primary_of_report_dies),
        cmocka_unit_test(test_member_without_room),
        cmocka_unit_test(test_member_stays),
        cmocka_unit_test(test_histories),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
