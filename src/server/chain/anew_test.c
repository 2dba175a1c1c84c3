// Channels whose bytes are damaged, which begin anew, or whose senders refuse requests; and
// pushes that are too long for a channel.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/chain/chain.h"

#include <string.h>

#include "kit/replicas.h"
#include "kit/shards.h"
#include "protocol/keys.h"
#include "server/rows/push.h"
#include "server/shard_internal.h"

static const uint32_t some[] = {0, 3, 6, 9, 12, 15}; // keys of six partitions
static const uint32_t first = 0;

static struct chain_inlet *inlet_of(struct replicas *w, uint32_t server, uint32_t from)
{
    struct chain_inlet *x = w->servers[server].shard->chain->inlets;
    while (x != NULL && x->node != replicas_id(from))
        x = x->next;
    assert_non_null(x);
    return x;
}

static void ask_anew(struct chain_inlet *x)
{
    inlet_begin(&x->i, 0);
    x->anew = x->told = true;
    x->number++;
}

// A push waits in the channel from server 0 to server 1, and arrives with one wrong bit in
// byte `at` of its record.
static void damage(struct replicas *w, size_t at)
{
    const char *bytes;
    struct chain_inlet *x = inlet_of(w, 1, 0);
    struct chain_outlet *o = outlets_find(w->servers[0].shard, replicas_id(1));
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, outlet_end(&o->o) > x->i.at);
    size_t n = outlet_from(&o->o, x->i.at, SIZE_MAX, &bytes);
    char *copy = mem_alloc(n);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    assert_in_range(at, 0, n - 1);
    copy[at] ^= 1;
    assert_int_equal(inlet_add(&x->i, x->i.at, copy, n), 0);
    x->try_at = 0;
    inlets_take(w->servers[1].shard);
    inlets_keep(w->servers[1].shard);
    mem_free(copy);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, false);
}

// The receiver of damaged bytes leaves the chains, takes nothing of them, and can be filled
// again, through the same channel.
static void test_damaged_channel(void **state)
{
    (void)state;
    static const size_t at[] = {0, 9, 12, 16, 20, 26, 42, 50, 66, 76};
    for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++) {
        struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
        replicas_run(w, SECOND_NS);
        const struct chain_inlet *x = inlet_of(w, 1, 0);
        uint32_t number = x->number;
        damage(w, at[i]);
        REPLICAS_UNTIL(w, !x->anew);
        assert_true(x->number >=
                    number + 2); // an answer to an earlier request is ignored
        REPLICAS_UNTIL(w, w->out != 0);
        assert_int_equal(w->out, replicas_id(1));
        assert_int_equal(w->out_chains, WIRE_SPACES * REPLICAS_PARTITIONS);
        assert_int_equal(w->out_code, TUG_EDATA);
        assert_true(replicas_value(w, 1, first) == 0);
        assert_false(replicas_all_done(w));
        replicas_take_out(w, 1);
        REPLICAS_UNTIL(w, replicas_all_done(w));
        for (int k = 0; k < 3; k++) {
            replicas_begin_fill(w, 0, 1);
            REPLICAS_UNTIL(w, w->arrived);
            replicas_end_fill(w, true);
            struct replicas_op *o = replicas_add_op(w, false, &first, 1);
            REPLICAS_UNTIL(w, replicas_op_is_done(o));
            replicas_check_sums(w);
            if (k < 2)
                replicas_take_out(w, 1);
        }
        w->out = 0;
        replicas_run(w, 10 * SECOND_NS);
        assert_int_equal(w->out, 0);
        assert_int_equal(inlet_left(&inlet_of(w, 1, 0)->i), 0);
        replicas_close(w);
    }
}

// A channel begins anew while pushes go through it: nothing is lost, applied twice, or kept
// for ever, also if messages are lost or come twice, and links break.
static void test_begins_anew(void **state)
{
    (void)state;
    uint32_t anew = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint32_t replicas = 2 + (uint32_t)(seed % 2);
        struct replicas *w = replicas_open_with_table(seed, replicas, replicas, 1);
        sim_van_loses_none(w->scheduler);
        sim_set_faults(w->sim, 0.01, 0.01, 0.01, 0.005);
        for (int i = 0; i < 200; i++) {
            if (w->n_ops - w->first_op < 8)
                replicas_add_op(w, i % 3 == 0, some, REPLICAS_PUSH_KEYS);
            replicas_run(w, replicas_draw(w, 10) * SECOND_NS / 1000);
            if (replicas_draw(w, 10) != 0)
                continue;
            uint32_t server = 1 + (uint32_t)replicas_draw(w, replicas - 1);
            struct chain_inlet *x = inlet_of(w, server, server - 1);
            ask_anew(x);
            anew++;
        }
        sim_set_faults(w->sim, 0, 0, 0, 0);
        REPLICAS_UNTIL(w, replicas_all_done(w));
        replicas_check_sums(w);
        assert_int_equal(w->out, 0);
        replicas_run(w, 5 * SECOND_NS);
        for (struct chain_outlet *o = w->servers[0].shard->chain->outlets; o != NULL;
             o = o->next)
            assert_int_equal(outlet_kept(&o->o), 0);
        replicas_close(w);
    }
    assert_true(anew > 100);
}

// A channel begins anew before its receiver has taken the record of a table: the worker gets
// the answer that the table was made only when the receiver has made it.
static void test_table_waits(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct replicas *w = replicas_open_with_table(seed, 2, 2, 1);
        struct shard *to = w->servers[1].shard;
        struct chain_inlet *x = inlet_of(w, 1, 0);
        uint32_t other = REPLICAS_TABLE + 1;
        replicas_run(w, SECOND_NS);
        uint32_t tables = w->tables;
        sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
        w->spec.id = other;
        replicas_send_table(w, 0);
        replicas_run(w, SECOND_NS);
        assert_non_null(w->servers[0].shard->tables[other]);
        assert_null(to->tables[other]);
        assert_int_equal(w->tables, tables);
        ask_anew(x);
        sim_partition(w->sim, w->servers[0].v, w->servers[1].v, false);
        for (int i = 0; i < 1000 && x->told; i++)
            replicas_run(w, SECOND_NS / 100000);
        assert_false(x->told);
        sim_stop(w->sim, w->servers[1].v, sim_now(w->sim) + SECOND_NS, 0);
        replicas_run(w, SECOND_NS / 2);
        assert_int_equal(w->tables, tables);
        REPLICAS_UNTIL(w, w->tables == tables + 1);
        assert_non_null(to->tables[other]);
        replicas_close(w);
    }
}

// A server counts as dead, and does not know it: the pause after each refusal doubles, up to a
// second.
static void test_refused(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
    const struct chain_inlet *x = inlet_of(w, 1, 0);
    uint32_t requests = 0;
    replicas_run(w, SECOND_NS);
    sim_partition(w->sim, w->servers[1].v, w->scheduler, true);
    w->servers[1].dead = true;
    replicas_take_out(w, 1);
    for (int i = 0; i < 20000; i++) {
        uint64_t due = x->due;
        replicas_run(w, SECOND_NS / 1000);
        requests += x->due != due;
    }
    assert_in_range(requests, 20, 60);
    assert_true(x->due > sim_now(w->sim) && x->due <= sim_now(w->sim) + 2 * SECOND_NS);
    replicas_close(w);
}

// A push is refused if a receiver would refuse its record.
static void test_too_long(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
    struct shard *s = w->servers[0].shard;
    struct key_run runs[] = {{0, 0}, {UINT32_MAX, WIRE_SPAN_MAX / 64 + 1}};
    struct keys k = {.n = WIRE_SPAN_MAX / 64 + 1, .runs = runs, .n_runs = 1};
    struct push_values v = {.width = 16};
    struct err e = {0};
    const struct shard_table *t = s->tables[REPLICAS_TABLE];
    assert_int_equal(chain_reserve(s, t, &k, &v, &e), TUG_EUSAGE);
    assert_string_equal(e.text,
                        "16777217 keys with 64 bytes of values each are too many at "
                        "once for a table with replicas; at most 1073741824 bytes "
                        "go to a replica");
    replicas_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged_channel), cmocka_unit_test(test_begins_anew),
        cmocka_unit_test(test_table_waits),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
