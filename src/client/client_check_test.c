// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "kit/broken.h"
#include "kit/fake_servers.h"
#include "kit/test.h"

enum { OPEN = 4 };

static struct cluster *cluster;
static struct client *c; // has four pushes in flight, which the servers do not answer
static uint64_t keys[KEYS];
static float values[KEYS * WIDTH];

static void check(void)
{
    client_check(c);
}

static void open_client(void)
{
    struct client_options o = fake_usual();
    struct err e = {0};
    cluster = fake_open(2, 3, &o);
    c = cluster->client;
    for (int i = 0; i < 2; i++)
        cluster->servers[i].mute = true;
    memcpy(keys, cluster->keys, sizeof(keys));
    struct client_push p = {.table = TABLE,
                            .keys = keys,
                            .n = KEYS,
                            .values = values,
                            .op = WIRE_GRADIENT,
                            .rate = 1};
    for (int i = 0; i < OPEN; i++)
        assert_int_not_equal(client_push(c, &p, &e), 0);
    for (int i = 0; i < 5; i++)
        fake_step(cluster, MS);
}

static void break_timestamp(void)
{
    c->first->ts += SLOT_MAX * (c->count + 1);
}

static void break_state(void)
{
    c->last->state = REQUEST_ENDING;
}

static void break_lane(void)
{
    c->main.first = c->first;
}

static void break_lane_end(void)
{
    c->main.last = c->first;
}

static void break_deadline(void)
{
    c->last->deadline = 0;
}

static void break_slice(void)
{
    c->first->slices->id = 0;
}

static void break_sent(void)
{
    struct peer *p = c->first->slices->peer;
    p->first->sent = true;
    p->s.state = SESSION_GREETING;
}

static void break_open(void)
{
    c->first->open++;
}

static void break_number(void)
{
    c->first->number = c->first->lane->pushes.next;
}

static void break_list(void)
{
    c->in_flight--;
}

static void break_window(void)
{
    c->main.pushes.next++;
}

static void break_mark(void)
{
    c->marking = c->first;
}

static void break_peer_list(void)
{
    c->peers[0]->last = c->peers[0]->last->before;
}

static void break_peer(void)
{
    c->peers[0]->silence.another = c->peers[0]->s;
}

static void break_node(void)
{
    c->peers[1]->node = c->peers[0]->node;
}

static void break_keys(void)
{
    c->peers[0]->lists[2] = (struct peer_list){7, 70};
}

static void break_waiting(void)
{
    struct peer *p = c->peers[0];
    p->first = p->first->behind;
    p->first->before = NULL;
}

static void break_pins(void)
{
    c->first->pins++;
}

static void break_pool(void)
{
    c->free_slices = c->first->slices;
}

static void break_ended(void)
{
    c->ended_last = c->first;
}

static void break_tables(void)
{
    c->max_tables = 0;
}

static void break_place(void)
{
    for (int i = 0; i < PARTITIONS; i++)
        c->placements[WIRE_SPACE_DENSE].partition[i] = 3;
}

static void break_epoch(void)
{
    c->epoch--;
}

static void break_end(void)
{
    c->over = true;
}

static const struct broken all[] = {
    {"request_is_found", break_timestamp},
    {"request_is_in_order", break_state},
    {"lane_is_in_order", break_lane},
    {"lanes_hold", break_lane_end},
    {"deadline_is_in_order", break_deadline},
    {"slice_is_found", break_slice},
    {"slice_was_sent_over_its_link", break_sent},
    {"slices_are_counted", break_open},
    {"number_is_open", break_number},
    {"requests_hold", break_list},
    {"numbers_hold", break_window},
    {"mark_stands_alone", break_mark},
    {"peer_list_is_in_order", break_peer_list},
    {"peer_link_fits_the_state", break_peer},
    {"peer_is_the_only_one", break_node},
    {"lists_of_keys_hold", break_keys},
    {"peers_hold", break_waiting},
    {"pins_hold", break_pins},
    {"pools_hold", break_pool},
    {"ended_are_in_their_list", break_ended},
    {"tables_hold", break_tables},
    {"partition_has_its_place", break_place},
    {"placements_hold", break_epoch},
    {"end_holds", break_end},
};

static void test_every_invariant_can_fail(void **state)
{
    (void)state;
    open_client();
    expect_all_broken(all, sizeof(all) / sizeof(*all), check);
    fake_close(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_invariant_can_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
