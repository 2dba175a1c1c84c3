// Leases: members that grant none, wrong grants and requests, and memory that is out.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/chain/chain.h"

#include <string.h>

#include "kit/replicas.h"
#include "protocol/keys.h"
#include "server/shard_internal.h"

static const uint32_t some[] = {0, 3, 6, 9, 12, 15}; // keys of six partitions

// The primary cannot reach the last member of its chains, from which it needs nothing but
// leases: no records wait, or the member between them passes them on. The primary asks the
// scheduler to take the member out, and answers under the next roster.
static void test_missing_lease(void **state)
{
    (void)state;
    for (uint32_t replicas = 2; replicas <= 3; replicas++) {
        struct replicas *w = replicas_open_with_table(1, replicas, replicas, 1);
        uint32_t last = replicas - 1;
        replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
        REPLICAS_UNTIL(w, replicas_all_done(w));
        replicas_run(w, 20 * SECOND_NS);
        sim_partition(w->sim, w->servers[0].v, w->servers[last].v, true);
        replicas_run(w, 20 * SECOND_NS);
        assert_int_equal(w->out, 0); // nothing needs the lease
        replicas_add_op(w, true, some, REPLICAS_PUSH_KEYS);
        replicas_run(w, 4 * SECOND_NS);
        assert_int_equal(w->out, 0);
        REPLICAS_UNTIL(w, w->out != 0);
        assert_int_equal(w->out, replicas_id(last));
        // Server 0 leads all chains.
        assert_int_equal(w->out_chains, WIRE_SPACES * REPLICAS_PARTITIONS);
        assert_int_equal(w->out_code, TUG_EIO);
        assert_non_null(
            strstr(w->out_why, "it has granted the primary no lease for 5 s"));
        assert_false(replicas_all_done(w));
        replicas_take_out(w, last);
        REPLICAS_UNTIL(w, replicas_all_done(w));
        w->out = 0;
        replicas_add_op(w, true, some, REPLICAS_PUSH_KEYS);
        replicas_run(w, 10 * SECOND_NS);
        assert_int_equal(w->out, 0);
        replicas_close(w);
    }
}

// Leases that are renewed for a long time are not reported.
static void test_renewed_lease(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
    for (int i = 0; i < 40; i++) {
        replicas_add_op(w, true, some, REPLICAS_PUSH_KEYS);
        replicas_run(w, SECOND_NS / 2);
    }
    assert_true(replicas_all_done(w));
    assert_int_equal(w->out, 0);
    replicas_close(w);
}

static struct chain_lease *lease_of(struct shard *s, uint32_t node)
{
    struct chain_lease *l = s->chain->leases;
    while (l != NULL && l->node != node)
        l = l->next;
    assert_non_null(l);
    return l;
}

// Grants that name nodes that cannot be next members are ignored.
static void test_wrong_also(void **state)
{
    (void)state;
    const uint64_t other = replicas_id(2), wide = (uint64_t)1 << 32 | other;
    const uint64_t lists[][9] = {
        {other},
        {wide},
        {4711},
        {other, other, other, other, other, other, other, other}};
    const size_t n[] = {1, 1, 1, 9};
    for (size_t i = 0; i < sizeof(n) / sizeof(*n); i++) {
        struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
        replicas_add_op(w, true, some, REPLICAS_PUSH_KEYS);
        REPLICAS_UNTIL(w, replicas_all_done(w));
        struct shard *s = w->servers[0].shard;
        struct chain_lease *l = lease_of(s, replicas_id(1));
        uint64_t before = l->until;
        union wire_any any = {.read_leased = {.epoch = 1,
                                              .asked = ++l->asked,
                                              .granted = 1,
                                              .also = {lists[i], n[i] * sizeof(other)}}};
        struct van_message m = {
            .type = MSG_READ_LEASED, .request = (uint64_t)1 << 62, .m = &any};
        assert_true(read_leases_message(s, l->source, &m, false));
        assert_int_equal(l->n_also, i == 0);
        assert_int_equal(l->until > before, i == 0);
        replicas_close(w);
    }
}

// While memory is out, a lease that is needed may be missing in the list: answers wait.
static void test_no_memory(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
    replicas_add_op(w, true, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    struct shard *s = w->servers[0].shard;
    read_leases_close(s);
    mem_fault_after(0);
    assert_int_equal(read_leases_follow(s, member_roster(s->member)), TUG_ENOMEM);
    mem_fault_after(-1);
    assert_int_equal(s->chain->leased_until, 0);
    struct replicas_op *pull = replicas_add_op(w, true, some, REPLICAS_PUSH_KEYS);
    replicas_run(w, SECOND_NS);
    assert_false(replicas_op_is_done(pull));
    assert_int_equal(read_leases_follow(s, member_roster(s->member)), 0);
    REPLICAS_UNTIL(w, replicas_op_is_done(pull));
    replicas_close(w);
}

// A primary that asks for a long lease would delay all answers of its successor.
static void test_long_lease(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
    struct shard *s = w->servers[1].shard;
    uint64_t before = s->chain->granted_until;
    struct msg_read_lease m = {
        .session = REPLICAS_SESSION, .epoch = w->epoch, .asked = 1, .lease = SECOND_NS};
    van_send(w->worker, w->servers[1].s.link, MSG_READ_LEASE, REPLICAS_OTHER, &m, NULL);
    REPLICAS_UNTIL(w, strstr(w->refusal, "a lease of 1000000000 ns is longer than "
                                         "500000000 ns") != NULL);
    assert_int_equal(s->chain->granted_until, before);
    replicas_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_lease), cmocka_unit_test(test_renewed_lease),
        cmocka_unit_test(test_wrong_also),    cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_long_lease),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
