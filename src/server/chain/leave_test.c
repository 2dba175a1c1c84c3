// A member of chains that could not remove rows beyond a budget.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "cluster/roster.h"
#include "kit/replicas.h"
#include "kit/shards.h"
#include "kit/stores.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

// Pushes to a new key of partition 0 of the store, which gets a row.
static void push(struct store *s, uint64_t *key)
{
    float values[16] = {[0] = 1};
    size_t done;
    struct store_push p = {.op = STORE_GRADIENT,
                           .keys = key,
                           .n = 1,
                           .values = values,
                           .rate = 1,
                           .pass = 1,
                           .scale = 1};
    assert_true(stores_value_width(s, p.op) <= 16);
    do
        ++*key;
    while (roster_partition(REPLICAS_BITS, WIRE_SPACE_SPARSE, *key) != 0);
    (void)store_push(s, &p, &done, NULL);
}

static struct replicas *open_world(void)
{
    static const struct shard_options plain;
    struct replicas *w = replicas_open(1, 2, 2, 1, &plain);
    struct table_config c = w->spec.config;
    OK(table_config_parse(&c, "accessor=ctr; budget-rows=8", &ok_e));
    OK(spec_make(&w->spec, REPLICAS_TABLE, &c, &ok_e));
    replicas_make_table(w);
    replicas_run(w, SECOND_NS);
    return w;
}

// The budget allows one row in each partition. Memory is out in the n-th allocation of the
// second push. Returns false if the push has failed, or has removed a row.
static bool leaves(uint32_t server, int n)
{
    struct replicas *w = open_world();
    struct store *s = w->servers[server].shard->tables[REPLICAS_TABLE]->store;
    uint64_t key = 0;
    push(s, &key);
    assert_int_equal(store_rows_of(s, 0), 1);
    mem_fault_after(n);
    push(s, &key);
    mem_fault_after(-1);
    bool is = store_rows_of(s, 0) == 2;
    replicas_run(w, SECOND_NS);
    assert_int_equal(w->out, is ? replicas_id(server) : 0);
    assert_true(!is || (w->out_code == TUG_ENOMEM && w->out_chains == 1));
    assert_true(!is || strstr(w->out_why, "keeping a table's budget") != NULL);
    replicas_close(w);
    return is;
}

static void test_budget_without_memory(void **state)
{
    (void)state;
    for (uint32_t server = 0; server < 2; server++) {
        bool any = false;
        for (int n = 0; n < 20; n++)
            any |= leaves(server, n);
        assert_true(any);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budget_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
