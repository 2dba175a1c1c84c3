// Breaks each invariant of a van once, and tests the table of a link's states.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/broken.h"
#include "kit/tcp_node.h"
#include "kit/test.h"
#include "van/tcp_internal.h"

static struct tcp_node server, client;
static struct tcp_van *v; // the server's van
// The server's link to the client; a link that is still connecting.
static struct tcp_link *l, *dial;

static void check(void)
{
    tcp_check(v);
}

static void break_number(void)
{
    l->number++;
}

static void break_parts(void)
{
    dial->state = LINK_RESOLVING;
}

static void break_accepted(void)
{
    l->state = LINK_CONNECTING;
}

static void break_ended(void)
{
    l->ended = true;
}

static void break_queue(void)
{
    l->queued++;
}

static void break_due(void)
{
    l->due = 1;
}

static void break_strangers(void)
{
    v->n_strangers++;
}

static void break_lists(void)
{
    v->n_accepted++;
}

static const struct broken all[] = {
    {"link_is_found", break_number},
    {"state_has_its_parts", break_parts},
    {"accepted_link_is_connected", break_accepted},
    {"ended_link_is_listed", break_ended},
    {"queue_adds_up", break_queue},
    {"due_is_seen", break_due},
    {"strangers_hold", break_strangers},
    {"lists_hold", break_lists},
};

static void test_every_invariant_can_fail(void **state)
{
    (void)state;
    static const struct tcp_options plain = {0};
    tcp_node_open(&server, &plain, "tcp://127.0.0.1:0");
    tcp_node_open(&client, &plain, NULL);
    assert_int_not_equal(van_connect(client.van, server.address, 60 * SECOND_NS), 0);
    tcp_node_until(&client, &server, &server.opened, 1);
    tcp_node_until(&client, &server, &client.opened, 1);
    van_link connecting = van_connect(server.van, "tcp://127.0.0.1:1", 60 * SECOND_NS);
    v = (struct tcp_van *)server.van;
    l = links_find(&v->links, server.link);
    dial = links_find(&v->links, connecting);
    assert_true(l != NULL && l->state == LINK_OPEN);
    assert_true(dial != NULL && dial->state == LINK_WAITING);
    expect_all_broken(all, sizeof(all) / sizeof(*all), check);
    van_free(client.van);
    van_free(server.van);
}

// Returns the states that a link of state `from` may reach, a bit for each.
static unsigned reaches(enum tcp_state from)
{
    unsigned found = 1u << from, before;
    do {
        before = found;
        for (enum tcp_state a = LINK_WAITING; a <= LINK_DEAD; a++)
            for (enum tcp_state b = LINK_WAITING; b <= LINK_DEAD; b++)
                if ((found >> a & 1) != 0 && tcp_may_follow(a, b))
                    found |= 1u << b;
    } while (found != before);
    return found;
}

static void test_links_end(void **state)
{
    (void)state;
    const unsigned every = (1u << (LINK_DEAD + 1)) - 1;
    assert_int_equal(reaches(LINK_WAITING), every);
    for (enum tcp_state s = LINK_WAITING; s <= LINK_DEAD; s++)
        assert_true((reaches(s) >> LINK_DEAD & 1) != 0);
    // A link that was open never connects again, and one that has ended stays so.
    assert_int_equal(reaches(LINK_OPEN), every & ~0u << LINK_OPEN);
    assert_int_equal(reaches(LINK_CLOSING), 1u << LINK_CLOSING | 1u << LINK_DEAD);
    assert_int_equal(reaches(LINK_DEAD), 1u << LINK_DEAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_invariant_can_fail),
        cmocka_unit_test(test_links_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
