// Runs whole clusters in the simulator: hundreds of seeds with messages that are lost,
// repeated or reordered, broken links, deaths and late joins. The tests check that no
// process hangs, that all members have the same roster, that barriers hold, and that each
// piece counts once in each pass.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"
#include "kit/actors.h"
#include "kit/test.h"

static struct world w;

static void check_rosters(void)
{
    const struct roster *truth = scheduler_roster(w.s);
    for (uint32_t i = 0; i < w.n; i++) {
        const struct actor *a = &w.actors[i];
        if (a->crashed)
            continue;
        const struct roster *r = member_roster(a->m);
        if (r->version != truth->version)
            fail_msg("seed %llu: actor %u has version %llu, not %llu",
                     (unsigned long long)w.seed, i, (unsigned long long)r->version,
                     (unsigned long long)truth->version);
        assert_int_equal(r->epoch, truth->epoch);
        assert_int_equal(r->n_nodes, truth->n_nodes);
        for (uint32_t k = 0; k < r->n_nodes; k++) {
            assert_int_equal(r->nodes[k].id, truth->nodes[k].id);
            assert_int_equal(r->nodes[k].alive, truth->nodes[k].alive);
            assert_int_equal(r->nodes[k].session, truth->nodes[k].session);
        }
        for (int space = 0; space < WIRE_SPACES; space++)
            assert_memory_equal(r->owners[space], truth->owners[space],
                                sizeof(uint32_t) << truth->partition_bits);
    }
}

static uint64_t draw(uint64_t what, uint64_t n)
{
    return random_below(w.seed, 0, what, n);
}

// Kills one worker of two or more at a random time; perhaps another worker joins later.
static void make_trouble(uint32_t servers, uint32_t workers)
{
    while (scheduler_roster(w.s)->epoch == 0)
        assert_true(sim_step(w.sim, 60 * SECONDS));
    world_run(&w, draw(10, 10 * SECONDS));
    if (workers > 1 && draw(11, 2) == 0)
        world_crash(&w.actors[servers + draw(12, workers)]);
    if (draw(13, 2) == 0) {
        world_run(&w, draw(14, 8 * SECONDS));
        struct actor *a = world_add(&w, WIRE_WORKER);
        a->late = true;
    }
}

static void run_seed(uint64_t seed, double rate)
{
    uint32_t servers = 1 + (uint32_t)random_below(seed, 0, 1, 3);
    uint32_t workers = 1 + (uint32_t)random_below(seed, 0, 2, 4);
    struct scheduler_options o = world_options(servers, workers);
    o.dead_timeout_ns = 30 * SECONDS; // at these loss rates a member needs many attempts
                                      // to connect again
    world_open(&w, seed, &o);
    w.with_barriers = w.with_work = true;
    w.pieces = 1 + (uint32_t)draw(3, 30);
    w.compressed = draw(4, 2) == 0;
    w.shares = draw(5, 3) == 0;
    w.passes = 3;
    sim_set_faults(w.sim, rate, rate, rate, rate / 10);
    world_add_all(&w, servers, workers, true);
    struct actor *driver = &w.actors[servers + workers];
    make_trouble(servers, workers);

    uint64_t limit = sim_now(w.sim) + 900 * SECONDS;
    while (!driver->waits) {
        struct err why = {0};
        if (member_ended(driver->m, &why))
            fail_msg("seed %llu: ended: %s\n%s", (unsigned long long)seed, why.text,
                     w.log);
        if (!sim_step(w.sim, limit))
            fail_msg("seed %llu: pass %llu never ends\n%s", (unsigned long long)seed,
                     (unsigned long long)driver->pass, w.log);
    }
    sim_set_faults(w.sim, 0, 0, 0, 0);
    world_run(&w, o.dead_timeout_ns + 5 * SECONDS);
    check_rosters();

    sim_set_faults(w.sim, rate, rate, rate, rate / 10);
    w.go_on = true;
    struct err e = world_finish(&w, 300 * SECONDS);
    if (e.code != 0)
        fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, e.text, w.log);
    assert_int_equal(w.reported_pass, w.passes);
    world_close(&w);
}

static void test_quiet(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++)
        run_seed(seed, 0);
}

static void test_faults(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 800; seed++)
        run_seed(1000 + seed, 0.02 + 0.1 * (double)(seed % 3));
}

// A peer sends random messages. The scheduler must not crash, and must not give another
// member's place to the peer. The peer may stop the scheduler, because every member has
// that right.

static void nothing(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    (void)ctx, (void)link, (void)m, (void)now;
}

static uint64_t never(void *ctx, uint64_t now)
{
    (void)ctx, (void)now;
    return VAN_NEVER;
}

static uint64_t some(uint64_t what)
{
    static const uint64_t numbers[] = {0, 1, 2, 3, 7, 255, 1u << 24, UINT64_MAX};
    return numbers[draw(what, sizeof(numbers) / sizeof(numbers[0]))];
}

static void say_anything(struct van *v, van_link link, uint64_t i)
{
    const uint64_t k = 100 * i;
    struct wire_text text = wire_text("\x05\xff nonsense");
    union wire_any m = {0};
    // A type of message that the scheduler accepts.
    uint16_t type = (uint16_t)(10 + draw(k, 30));
    if (type == MSG_JOIN)
        m.join = (struct msg_join){(uint8_t)some(k + 1),
                                   (uint8_t)some(k + 2),
                                   some(k + 3),
                                   some(k + 4),
                                   (uint16_t)some(k + 5),
                                   (uint16_t)some(k + 6),
                                   (uint32_t)some(k + 7),
                                   text,
                                   text,
                                   text,
                                   (uint32_t)some(k + 8),
                                   (uint8_t)some(k + 11),
                                   (uint8_t)some(k + 12),
                                   (uint32_t)some(k + 9),
                                   some(k + 10),
                                   some(k + 13),
                                   some(k + 14)};
    else if (type == MSG_DATA)
        m.data = (struct msg_data){some(k + 1), text, text, 0, 0, 0};
    else if (type == MSG_PASS)
        m.pass = (struct msg_pass){some(k + 1), (uint8_t)some(k + 2), some(k + 3),
                                   some(k + 4), some(k + 5),          text,
                                   some(k + 6), (uint8_t)some(k + 7), {NULL, 0}};
    else if (type == MSG_LEASE)
        m.lease = (struct msg_lease){some(k + 1), some(k + 2), some(k + 3),
                                     some(k + 4), some(k + 5), some(k + 6)};
    else if (type == MSG_CUT)
        m.cut = (struct msg_cut){some(k + 1)};
    else if (type == MSG_PIECE_DONE)
        m.piece_done = (struct msg_piece_done){
            some(k + 1), (uint32_t)some(k + 2), some(k + 3),
            1,           some(k) % 2 != 0,      some(k + 4),
            text,        (uint8_t)some(k + 5),  some(k + 6),
            some(k + 7)};
    else if (type == MSG_BARRIER)
        m.barrier = (struct msg_barrier){(uint8_t)some(k + 1), some(k + 2)};
    else if (type == MSG_HEARTBEAT)
        m.heartbeat = (struct msg_heartbeat){some(k + 1), some(k + 2)};
    else if (type == MSG_ROSTER_WANTED)
        m.roster_wanted = (struct msg_roster_wanted){some(k + 1), k % 3};
    if (wire_name(type) != NULL && type != MSG_STOP)
        (void)van_send(v, link, type, some(k + 8), &m, NULL);
}

static void test_random_messages(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct scheduler_options o = world_options(1, 1);
        struct van_handler h = {.message = nothing, .tick = never};
        struct van *v;
        world_open(&w, seed, &o);
        world_add_all(&w, 1, 1, false);
        // half of the clusters get this message while members still join
        world_run(&w, seed % 2 * 3 * SECONDS);
        assert_int_equal(sim_van_open(&v, w.sim, "peer", &h, NULL), 0);
        van_link link = van_connect(v, "sim://scheduler", SECONDS);
        world_run(&w, SECONDS / 10);
        struct msg_hello hello = {.cluster = CLUSTER, .role = WIRE_TOOL};
        assert_int_equal(van_send(v, link, MSG_HELLO, 0, &hello, NULL), 0);
        for (uint64_t i = 0; i < 500; i++) {
            say_anything(v, link, i);
            world_run(&w, MILLIS);
        }
        world_run(&w, 3 * SECONDS);
        for (uint32_t i = 0; i < 2; i++)
            assert_true(member_ready(w.actors[i].m) || member_ended(w.actors[i].m, NULL));
        scheduler_stop(w.s, NULL);
        van_free(v);
        world_finish(&w, 60 * SECONDS);
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quiet),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_random_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
