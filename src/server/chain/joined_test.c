// Requests for records that come with records of the other direction.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/replicas.h"
#include "kit/shards.h"
#include "server/chain/chain.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

static const uint32_t both[] = {0, 3}; // keys of partitions 0 and 1

// A cluster in which server 0 leads partition 0, server 1 leads partition 1, and each of them
// backs up the other.
struct pair {
    struct replicas *w;
    struct shard *s[2];
    struct chain_outlet *to[2]; // to[i]: from server i to the other one
    struct chain_inlet *from[2];
};

static void fill(struct replicas *w, uint32_t partition, uint32_t server)
{
    replicas_begin_fill(w, partition, server);
    REPLICAS_UNTIL(w, w->arrived);
    replicas_end_fill(w, true);
}

static void pair_open(struct pair *x)
{
    x->w = replicas_open_with_table(1, 2, 1, 2);
    fill(x->w, 0, 1);
    fill(x->w, 1, 0);
    for (uint32_t i = 0; i < 2; i++) {
        x->s[i] = x->w->servers[i].shard;
        REPLICAS_UNTIL(x->w,
                       (x->to[i] = outlets_find(x->s[i], replicas_id(1 - i))) != NULL &&
                           x->to[i]->link != 0);
        x->from[i] = x->s[i]->chain->inlets;
        assert_non_null(x->from[i]);
        assert_null(x->from[i]->next);
        REPLICAS_UNTIL(x->w, !x->from[i]->told);
    }
}

// Server 0 sends a record, and has a request to make.
static void send_record(struct pair *x)
{
    REPLICAS_UNTIL(x->w, x->to[0]->link != 0);
    OK(outlets_add_table(x->s[0], x->to[0], x->s[0]->tables[REPLICAS_TABLE]));
    x->from[0]->told = true;
    x->to[1]->link = 0; // the last request
    outlets_send(x->s[0]);
    assert_int_equal(x->to[0]->link, 0);
}

// Returns whether server 1 has a request from server 0 soon: long before it is repeated.
static bool is_asked(struct pair *x)
{
    uint64_t until = sim_now(x->w->sim) + SECOND_NS;
    while (x->to[1]->link == 0 && sim_now(x->w->sim) < until)
        replicas_run(x->w, SECOND_NS / 1000);
    return x->to[1]->link != 0;
}

static void test_goes_with_records(void **state)
{
    (void)state;
    struct pair x;
    pair_open(&x);
    x.from[0]->answered = true;
    send_record(&x);
    assert_false(x.from[0]->told);
    assert_true(is_asked(&x));
    replicas_close(x.w);
}

// Server 1 has not answered on the present link, and perhaps does not know it.
static void test_first_goes_alone(void **state)
{
    (void)state;
    struct pair x;
    pair_open(&x);
    x.from[0]->answered = true;
    assert_false(inlets_message(x.s[0], x.from[0]->source, NULL, true)); // a new link
    send_record(&x);
    assert_true(x.from[0]->told);
    inlets_send(x.s[0]);
    assert_false(x.from[0]->told);
    assert_true(is_asked(&x));
    replicas_close(x.w);
}

// The links on which server 0 asks break many times. No push waits until a request is
// repeated.
static void test_links_break(void **state)
{
    (void)state;
    struct pair x;
    pair_open(&x);
    for (int i = 0; i < 200; i++) {
        uint64_t until = sim_now(x.w->sim) + SECOND_NS;
        replicas_add_op(x.w, false, both, 2);
        replicas_add_op(x.w, false, both, 2);
        replicas_run(x.w, replicas_draw(x.w, 20) * SECOND_NS / 1000);
        van_close_link(x.w->servers[1].v, x.to[1]->asks);
        REPLICAS_UNTIL(x.w, replicas_all_done(x.w));
        assert_true(sim_now(x.w->sim) < until);
    }
    replicas_check_sums(x.w);
    replicas_close(x.w);
}

// Server 0 acknowledges records of server 1 with its own records, and the link breaks on which
// these are under way. No push waits until a request is repeated.
static void test_acks_are_lost(void **state)
{
    (void)state;
    static const uint32_t zero[] = {0}, one[] = {3};
    struct pair x;
    const struct chain_place *p[2];
    pair_open(&x);
    for (int i = 0; i < 2; i++) {
        p[i] = &x.s[i]->chain->of[WIRE_SPACE_SPARSE][1];
        sim_van_rounds(x.w->servers[i].v, SECOND_NS / 2000);
    }
    for (int i = 0; i < 200; i++) {
        const struct replicas_op *o = replicas_add_op(x.w, false, one, 1);
        uint64_t begun = sim_now(x.w->sim);
        uint64_t push_at = begun + replicas_draw(x.w, 40) * SECOND_NS / 10000;
        bool broken = false;
        while (!replicas_op_is_done(o)) {
            bool under_way = p[0]->committed > p[1]->committed && !p[0]->acks;
            if (!broken && under_way && x.to[0]->link == 0) {
                sim_break_link(x.w->sim, x.w->servers[0].v, x.to[0]->asks);
                broken = true;
            }
            if (sim_now(x.w->sim) >= push_at) {
                replicas_add_op(x.w, false, zero, 1);
                push_at = VAN_NEVER;
            }
            replicas_run(x.w, SECOND_NS / 50000);
            assert_true(sim_now(x.w->sim) < begun + SECOND_NS);
        }
        REPLICAS_UNTIL(x.w, replicas_all_done(x.w));
    }
    replicas_check_sums(x.w);
    replicas_close(x.w);
}

static void test_ignores_wrong_ones(void **state)
{
    (void)state;
    enum { MANY = 2 * (WIRE_SPACES * REPLICAS_PARTITIONS + 1) };
    static const uint64_t acks[MANY] = {0};
    struct pair x;
    pair_open(&x);
    struct chain_outlet *o = x.to[1];
    uint64_t end = outlet_end(&o->o);
    const struct msg_records right = {
        .wanted = o->request, .wanted_at = end, .used = o->used};
    struct msg_records wrong[5];
    for (int i = 0; i < 5; i++)
        wrong[i] = right;
    wrong[0].wanted--; // from before the channel began anew
    wrong[1].wanted_at = end + 1;
    wrong[2].used = end + 1;
    wrong[3].wanted_at = CHANNEL_ANEW;
    wrong[4].acks = (struct wire_span){acks, sizeof(acks)};
    for (int i = 0; i < 5; i++) {
        o->link = 0;
        outlets_joined(x.s[1], replicas_id(0), &wrong[i]);
        assert_int_equal(o->link, 0);
    }
    outlets_joined(x.s[1], replicas_id(3), &right); // the outlet is missing
    assert_int_equal(o->link, 0);
    outlets_joined(x.s[1], replicas_id(0), &right);
    assert_int_equal(o->link, o->asks);
    replicas_close(x.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goes_with_records),
        cmocka_unit_test(test_first_goes_alone),
        cmocka_unit_test(test_links_break),
        cmocka_unit_test(test_acks_are_lost),
        cmocka_unit_test(test_ignores_wrong_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
