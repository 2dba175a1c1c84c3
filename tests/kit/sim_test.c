// Tests of the simulated van: the same seed gives the same run, and faults occur as sim.h
// describes them. src/van/van_test.c has the tests for all kinds of vans.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/sim.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "kit/test.h"

enum { NODES = 4, MESSAGES = 200, MS = 1000000 };

static const struct sim_options quiet = {.seed = 1, .delay_min = MS, .delay_max = 2 * MS};

// A node that counts the messages that it gets, and answers `ok` to a status request.
struct node {
    struct van *v;
    struct sim *s;
    van_link link; // the last link that opened
    unsigned opened, closed, messages, ticks;
    int why;
    uint64_t last, sum; // the last request number, and the sum of all
    uint64_t last_at;   // time at which the last message came
    // Requests have come in order so far; the node crashes in its next handler call.
    bool ordered, crash_next;
    uint64_t tick_at, ticked_at; // the next tick that the node wants, and its last tick
};

static void on_opened(void *ctx, van_link link, bool accepted, uint64_t now)
{
    struct node *n = ctx;
    (void)now, (void)accepted;
    n->opened++;
    n->link = link;
}

static void on_message(void *ctx, van_link link, struct van_message *m, uint64_t now)
{
    struct node *n = ctx;
    n->messages++;
    n->ordered = n->ordered && m->request > n->last;
    n->last = m->request;
    n->sum += m->request;
    n->last_at = now;
    if (n->crash_next)
        sim_crash(n->s, n->v);
    else if (m->type == MSG_STATUS)
        van_send(n->v, link, MSG_OK, m->request, &(struct msg_ok){1}, NULL);
}

static void on_closed(void *ctx, van_link link, const struct err *why, uint64_t now)
{
    struct node *n = ctx;
    (void)now;
    n->closed++;
    n->why = why->code;
    if (link == n->link)
        n->link = 0;
}

static uint64_t on_tick(void *ctx, uint64_t now)
{
    struct node *n = ctx;
    n->ticks++;
    n->ticked_at = now;
    return n->tick_at > now ? n->tick_at : VAN_NEVER;
}

static void open_node(struct node *n, struct sim *s, const char *name)
{
    const struct van_handler h = {n,         on_opened, on_message, NULL,
                                  on_closed, on_tick,   NULL};
    struct err e;
    char address[VAN_ADDRESS_MAX], ret[VAN_ADDRESS_MAX];
    *n = (struct node){.s = s, .ordered = true};
    snprintf(address, sizeof(address), "sim://%s", name);
    assert_int_equal(sim_van_open(&n->v, s, name, &h, &e), 0);
    assert_int_equal(van_listen(n->v, address, ret, &e), 0);
    assert_string_equal(address, ret);
}

// Two nodes with an open link from a to b.
struct pair {
    struct sim *s;
    struct node a, b;
};

static void open_pair(struct pair *p, const struct sim_options *o)
{
    struct err e;
    assert_int_equal(sim_open(&p->s, o, &e), 0);
    open_node(&p->a, p->s, "a");
    open_node(&p->b, p->s, "b");
    assert_int_not_equal(van_connect(p->a.v, "sim://b", 1000 * MS), 0);
    while (p->a.link == 0)
        assert_true(sim_step(p->s, VAN_NEVER));
    assert_int_equal(p->b.opened, 1);
}

static void close_pair(struct pair *p)
{
    van_free(p->a.v);
    van_free(p->b.v);
    sim_close(p->s);
    assert_int_equal(mem_live(), 0);
}

static void send_n(struct node *n, unsigned count)
{
    for (unsigned i = 1; i <= count; i++)
        van_send(n->v, n->link, MSG_STATUS, i, &(struct msg_status){}, NULL);
}

static void run(struct sim *s)
{
    while (sim_step(s, VAN_NEVER)) {
    }
}

static void add_line(void *ctx, const char *text)
{
    uint64_t *hash = ctx;
    *hash = hash_bytes(text, strlen(text), *hash);
}

// Runs nodes that send messages to each other under all faults. Returns a hash of the
// trace.
static uint64_t busy_run(uint64_t seed)
{
    const struct sim_options o = {seed, MS, 50 * MS, 0.05, 0.05, 0.1, 0.002, 0.001, 0};
    struct node nodes[NODES];
    struct sim *s;
    uint64_t hash = 0;
    assert_int_equal(sim_open(&s, &o, NULL), 0);
    sim_trace(s, add_line, &hash);
    for (unsigned i = 0; i < NODES; i++)
        open_node(&nodes[i], s, (const char *[]){"a", "b", "c", "d"}[i]);
    for (unsigned i = 1; i < NODES; i++)
        van_connect(nodes[i].v, "sim://a", 1000 * MS);
    for (unsigned i = 0; i < MESSAGES; i++) {
        for (unsigned k = 1; k < NODES; k++)
            send_n(&nodes[k], 1);
        sim_step(s, VAN_NEVER);
    }
    run(s);
    for (unsigned i = 0; i < NODES; i++)
        van_free(nodes[i].v);
    sim_close(s);
    assert_int_equal(mem_live(), 0);
    return hash;
}

static void test_same_seed_same_run(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        assert_int_equal(busy_run(seed), busy_run(seed));
        assert_int_not_equal(busy_run(seed), busy_run(seed + 1));
    }
}

static void test_quiet_network_keeps_order(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, &quiet);
    uint64_t begin = sim_now(p.s);
    send_n(&p.a, MESSAGES);
    assert_true(van_queued(p.a.v, p.a.link) > MESSAGES * WIRE_FRAME_BYTES - 1);
    run(p.s);
    assert_int_equal(van_queued(p.a.v, p.a.link), 0);
    assert_int_equal(p.b.messages, MESSAGES);
    assert_true(p.b.ordered && p.a.ordered);
    assert_in_range(p.b.last_at - begin, MS, 2 * MS);
    assert_int_equal(p.a.messages, MESSAGES);
    close_pair(&p);
}

static void test_loss(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, &quiet);
    sim_set_faults(p.s, 0.5, 0, 0, 0);
    send_n(&p.a, MESSAGES);
    run(p.s);
    assert_in_range(p.b.messages, MESSAGES / 3, MESSAGES * 2 / 3);
    assert_true(p.b.ordered);
    assert_int_equal(p.a.closed + p.b.closed, 0);
    close_pair(&p);
}

static void test_duplicates(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, &quiet);
    sim_set_faults(p.s, 0, 1, 0, 0);
    send_n(&p.a, MESSAGES);
    run(p.s);
    assert_int_equal(p.b.messages, 2 * MESSAGES);
    assert_int_equal(p.b.sum, MESSAGES * (MESSAGES + 1));
    close_pair(&p);
}

static void test_reordering(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, &quiet);
    sim_set_faults(p.s, 0, 0, 0.2, 0);
    send_n(&p.a, MESSAGES);
    run(p.s);
    assert_int_equal(p.b.messages, MESSAGES);
    assert_int_equal(p.b.sum, MESSAGES * (MESSAGES + 1) / 2);
    assert_false(p.b.ordered);
    close_pair(&p);
}

static void test_breaks_are_heard_at_both_ends(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, &quiet);
    sim_set_faults(p.s, 0, 0, 0, 1);
    send_n(&p.a, 3);
    run(p.s);
    assert_int_equal(p.b.messages, 0);
    assert_int_equal(p.a.closed, 1);
    assert_int_equal(p.b.closed, 1);
    assert_int_equal(p.a.why, TUG_EIO);
    assert_int_equal(p.b.why, TUG_EIO);
    close_pair(&p);
}

static void test_crash(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, &quiet);
    send_n(&p.a, 3);
    sim_crash(p.s, p.b.v);
    unsigned ticks = p.b.ticks;
    van_wake(p.b.v);
    run(p.s);
    assert_int_equal(p.b.messages, 0);
    assert_int_equal(p.b.closed, 0);
    assert_int_equal(p.b.ticks, ticks);
    assert_int_equal(p.a.closed, 1);
    assert_int_equal(p.a.why, TUG_EIO);
    // No node listens at the address until the node is started again.
    van_connect(p.a.v, "sim://b", 10 * MS);
    run(p.s);
    assert_int_equal(p.a.closed, 2);
    van_free(p.b.v);
    open_node(&p.b, p.s, "b");
    van_connect(p.a.v, "sim://b", 10 * MS);
    run(p.s);
    assert_int_equal(p.b.opened, 1);
    close_pair(&p);
}

static void test_crash_in_a_handler(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, &quiet);
    p.b.crash_next = true;
    send_n(&p.a, 3);
    run(p.s);
    assert_int_equal(p.b.messages, 1);
    assert_int_equal(p.a.closed, 1);
    close_pair(&p);
}

static void test_partition(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, &quiet);
    send_n(&p.a, 3); // these messages are in flight when the vans are separated, and do
                     // not arrive, either
    sim_partition(p.s, p.a.v, p.b.v, true);
    send_n(&p.a, 3);
    van_link second = van_connect(p.a.v, "sim://b", 100 * MS);
    assert_int_not_equal(second, 0);
    run(p.s);
    assert_int_equal(p.b.messages, 0);
    // The second link was closed, because its peer did not answer.
    assert_int_equal(p.a.closed, 1);
    assert_int_equal(p.b.closed, 0);
    sim_partition(p.s, p.a.v, p.b.v, false);
    van_send(p.a.v, p.a.link, MSG_STATUS, 100, &(struct msg_status){}, NULL);
    run(p.s);
    assert_int_equal(p.b.messages, 7);
    assert_int_equal(p.b.last, 100);
    close_pair(&p);
}

// Messages pass in one direction only, and no new link opens.
static void test_partition_of_one_direction(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, &quiet);
    sim_part_one_way(p.s, p.a.v, p.b.v);
    send_n(&p.a, 3);
    van_send(p.b.v, p.b.link, MSG_STATUS, 7, &(struct msg_status){}, NULL);
    assert_int_not_equal(van_connect(p.b.v, "sim://a", 100 * MS), 0);
    run(p.s);
    assert_int_equal(p.b.messages, 0);
    assert_int_equal(p.a.messages, 1);
    assert_int_equal(p.a.opened + p.b.opened, 2); // the link of open_pair
    sim_partition(p.s, p.a.v, p.b.v, false);
    run(p.s);
    assert_int_equal(p.b.messages, 4); // the last one is the answer to its own
    close_pair(&p);
}

// One of two links between the same nodes falls silent; the other still works.
static void test_silence(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, &quiet);
    van_link dead = p.a.link;
    assert_int_not_equal(van_connect(p.a.v, "sim://b", 1000 * MS), 0);
    while (p.a.opened < 2)
        assert_true(sim_step(p.s, VAN_NEVER));
    sim_silence(p.s, p.a.v, dead);
    van_send(p.a.v, dead, MSG_STATUS, 1, &(struct msg_status){}, NULL);
    van_send(p.a.v, p.a.link, MSG_STATUS, 2, &(struct msg_status){}, NULL);
    assert_int_not_equal(van_queued(p.a.v, dead), 0);
    run(p.s);
    assert_int_equal(p.b.messages, 1);
    assert_int_equal(p.a.messages, 1);
    assert_int_equal(p.a.last, 2);
    assert_int_equal(p.a.closed + p.b.closed, 0);
    van_close_link(p.a.v, dead); // neither end is notified
    run(p.s);
    assert_int_equal(p.b.closed, 0);
    van_close_link(p.a.v, p.a.link);
    run(p.s);
    assert_int_equal(p.b.closed, 1);
    close_pair(&p);
}

// The messages of one end are lost, and those of the other end arrive. Only the mute end
// is notified that its link was closed.
static void test_mute(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, &quiet);
    sim_mute(p.s, p.a.v, p.a.link);
    send_n(&p.a, MESSAGES);
    run(p.s);
    assert_int_equal(p.b.messages, 0);
    van_link to_a = p.b.link;
    assert_int_equal(van_send(p.b.v, to_a, MSG_STATUS, 1, &(struct msg_status){}, NULL),
                     0);
    run(p.s);
    assert_int_equal(p.a.messages, 1);
    van_close_link(p.b.v, to_a);
    run(p.s);
    assert_int_equal(p.a.closed, 1);
    close_pair(&p);
}

// A van that ticks at the end of rounds gets several messages before a tick.
static void test_rounds(void **state)
{
    (void)state;
    struct sim_options o = quiet;
    struct pair p;
    o.round_max = MS / 2;
    open_pair(&p, &o);
    unsigned before = p.b.ticks;
    send_n(&p.a, MESSAGES);
    run(p.s);
    assert_int_equal(p.b.messages, MESSAGES);
    assert_in_range(p.b.ticks - before, 2, MESSAGES / 2);
    assert_in_range(p.b.ticked_at, p.b.last_at + 1, p.b.last_at + MS / 2);
    close_pair(&p);
}

static void test_links_fall_silent(void **state)
{
    (void)state;
    struct sim_options o = quiet;
    struct pair p;
    o.silences = 0.1;
    open_pair(&p, &o);
    send_n(&p.a, MESSAGES);
    run(p.s);
    assert_in_range(p.b.messages, 1, MESSAGES / 4);
    assert_int_equal(p.b.last, p.b.messages); // the first messages arrived, and then none
    close_pair(&p);
}

// Links of one van fall silent, whichever end sends; links of other vans do not.
static void test_links_of_a_van_fall_silent(void **state)
{
    (void)state;
    struct pair p;
    struct node c;
    open_pair(&p, &quiet);
    open_node(&c, p.s, "c");
    sim_van_silences(c.v, 0.1);
    assert_int_not_equal(van_connect(c.v, "sim://b", 100 * MS), 0);
    run(p.s);
    send_n(&c, MESSAGES);
    run(p.s);
    assert_in_range(p.b.messages, 1, MESSAGES / 4);
    uint64_t before = p.b.messages;
    send_n(&p.a, MESSAGES);
    run(p.s);
    assert_int_equal(p.b.messages, before + MESSAGES);
    van_free(c.v);
    close_pair(&p);
}

// After sim_van_loses_none, no single message on the links of this van is lost, whichever
// end sends.
static void test_links_that_lose_none(void **state)
{
    (void)state;
    struct sim_options o = quiet;
    struct pair p;
    o.loss = 0.5;
    open_pair(&p, &o);
    send_n(&p.a, MESSAGES);
    run(p.s);
    assert_in_range(p.b.messages, MESSAGES / 4, 3 * MESSAGES / 4);
    sim_van_loses_none(p.a.v);
    uint64_t came = p.b.messages, answers = p.a.messages;
    send_n(&p.a, MESSAGES);
    run(p.s);
    assert_int_equal(p.b.messages, came + MESSAGES);
    assert_int_equal(p.a.messages, answers + MESSAGES);
    close_pair(&p);
}

// A van ticks once after all messages of its round.
static void test_rounds_of_a_van(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, &quiet);
    run(p.s);
    sim_van_rounds(p.b.v, 100 * MS);
    send_n(&p.a, MESSAGES);
    run(p.s); // this tick may come before some messages
    uint64_t ticks = p.b.ticks;
    send_n(&p.a, MESSAGES);
    run(p.s);
    assert_int_equal(p.b.messages, 2 * MESSAGES);
    assert_int_equal(p.b.ticks, ticks + 1);
    close_pair(&p);
}

static void test_one_link_breaks(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, &quiet);
    van_link first = p.a.link;
    assert_int_not_equal(van_connect(p.a.v, "sim://b", 1000 * MS), 0);
    run(p.s);
    assert_int_not_equal(p.a.link, first);
    sim_break_link(p.s, p.a.v, first);
    run(p.s);
    assert_int_equal(p.a.closed, 1);
    assert_int_equal(p.b.closed, 1);
    assert_int_not_equal(p.a.link, 0);
    close_pair(&p);
}

// A stranger's links have a stranger's kind at both ends; other links do not.
static void test_strangers(void **state)
{
    (void)state;
    struct pair p;
    struct node c;
    open_pair(&p, &quiet);
    open_node(&c, p.s, "c");
    sim_van_is(c.v, VAN_LOOPBACK);
    assert_int_not_equal(van_connect(c.v, "sim://b", 100 * MS), 0);
    van_link of_a = p.b.link;
    run(p.s);
    assert_int_equal(c.opened, 1);
    assert_int_equal(van_kind(c.v, c.link), VAN_LOOPBACK);
    assert_int_equal(van_kind(p.a.v, p.a.link), VAN_OWNER);
    assert_int_equal(van_kind(p.b.v, of_a), VAN_OWNER);
    assert_int_not_equal(p.b.link, of_a);
    assert_int_equal(van_kind(p.b.v, p.b.link), VAN_LOOPBACK);
    assert_int_equal(van_kind(p.b.v, 99), VAN_OPEN);
    van_free(c.v);
    close_pair(&p);
}

static void test_partition_forgets_freed_vans(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, &quiet);
    sim_partition(p.s, p.a.v, p.b.v, true);
    send_n(&p.a, 3);
    run(p.s);
    van_free(p.b.v);
    // The new van has the slot of the freed one, but is not separated from any van.
    open_node(&p.b, p.s, "b");
    van_connect(p.a.v, "sim://b", 100 * MS);
    run(p.s);
    assert_int_equal(p.b.opened, 1);
    assert_int_equal(p.b.messages, 0);
    close_pair(&p);
}

static void test_time_stops_at_until(void **state)
{
    (void)state;
    struct sim *s;
    struct node n;
    assert_int_equal(sim_open(&s, &quiet, NULL), 0);
    open_node(&n, s, "n");
    n.tick_at = 50 * MS;
    assert_true(sim_step(s, 0));
    assert_int_equal(n.ticks, 1);
    assert_false(sim_step(s, 40 * MS));
    assert_int_equal(sim_now(s), 40 * MS);
    assert_int_equal(van_now(n.v), 40 * MS);
    assert_true(sim_step(s, 60 * MS));
    assert_int_equal(n.ticks, 2);
    assert_int_equal(sim_now(s), 50 * MS);
    van_wake(n.v);
    assert_true(sim_step(s, 60 * MS));
    assert_int_equal(n.ticks, 3);
    assert_false(sim_step(s, VAN_NEVER));
    assert_int_equal(sim_now(s), 50 * MS);
    van_free(n.v);
    sim_close(s);
}

static void test_refusals(void **state)
{
    (void)state;
    struct sim *s;
    struct node n;
    struct err e = {0};
    char ret[VAN_ADDRESS_MAX];
    const struct sim_options wrong = {.delay_min = 2, .delay_max = 1};
    assert_int_equal(sim_open(&s, &wrong, &e), TUG_EUSAGE);
    assert_int_equal(sim_open(&s, &quiet, &e), 0);
    open_node(&n, s, "n");
    assert_int_equal(van_listen(n.v, "sim://n", ret, &e), TUG_EIO);
    assert_non_null(strstr(e.text, "sim://n"));
    assert_int_equal(van_listen(n.v, "tcp://n", ret, &e), TUG_EUSAGE);
    assert_int_equal(van_poll(n.v, 0, &e), TUG_EUSAGE);
    van_free(n.v);
    sim_close(s);
}

// Messages to a stopped van wait in order; when the van continues, it ticks first.
static void test_stop(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p, &quiet);
    uint64_t until = sim_now(p.s) + 1000 * MS;
    sim_stop(p.s, p.b.v, until, 10 * MS);
    unsigned ticks = p.b.ticks;
    send_n(&p.a, MESSAGES);
    van_wake(p.b.v);
    while (sim_step(p.s, until - 1)) {
    }
    assert_true(sim_is_stopped(p.b.v));
    assert_int_equal(p.b.messages, 0);
    assert_int_equal(p.b.ticks, ticks);
    assert_int_not_equal(van_connect(p.a.v, "sim://b", 2000 * MS), 0);
    while (sim_step(p.s, until + 10 * MS - 1)) {
    }
    assert_false(sim_is_stopped(p.b.v));
    assert_int_equal(p.b.messages, 0);
    assert_int_equal(p.b.ticks, ticks + 1);
    assert_int_equal(p.b.opened, 1);
    run(p.s);
    assert_int_equal(p.b.messages, MESSAGES);
    assert_true(p.b.ordered);
    // The link that was dialled while the van was stopped is open now.
    assert_int_equal(p.b.opened, 2);
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_same_seed_same_run),
        cmocka_unit_test(test_quiet_network_keeps_order),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_reordering),
        cmocka_unit_test(test_breaks_are_heard_at_both_ends),
        cmocka_unit_test(test_crash),
        cmocka_unit_test(test_crash_in_a_handler),
        cmocka_unit_test(test_partition),
        cmocka_unit_test(test_partition_of_one_direction),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_mute),
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_links_fall_silent),
        cmocka_unit_test(test_links_of_a_van_fall_silent),
        cmocka_unit_test(test_rounds_of_a_van),
        cmocka_unit_test(test_one_link_breaks),
        cmocka_unit_test(test_links_that_lose_none),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_partition_forgets_freed_vans),
        cmocka_unit_test(test_time_stops_at_until),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
