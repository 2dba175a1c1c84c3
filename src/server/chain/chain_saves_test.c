// The records of saves that publish many rows.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "kit/replicas.h"
#include "kit/shards.h"
#include "server/chain/chain.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"
#include "store/cut.h"

static struct shard_table *table_of(struct replicas *w, uint32_t server)
{
    return w->servers[server].shard->tables[REPLICAS_TABLE];
}

// Opens two servers, of which the first one leads all partitions and has a row of each key.
static struct replicas *open_with_rows(void)
{
    static const struct shard_options plain;
    struct replicas *w = replicas_open(1, 2, 2, 1, &plain);
    w->spec.config.deltas = true;
    replicas_make_table(w);
    for (uint32_t k = 0; k < REPLICAS_KEYS; k++)
        replicas_add_op(w, false, &k, 1);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_run(w, 5 * SECOND_NS);
    return w;
}

// Server 0 makes a save of the table, whose records have at most so many keys. While they are
// appended, no memory is allocated.
static void save(struct replicas *w, size_t max)
{
    struct shard *s = w->servers[0].shard;
    struct shard_table *t = table_of(w, 0);
    struct cut_options o = {.mode = SAVE_BASE};
    struct rows_block block = {.kind = ROWS_ROW};
    OK(cut_begin(t->store, &o, &ok_e));
    while (block.kind != ROWS_END)
        OK(cut_next(t->store, 4000, &block, &ok_e));
    s->chain->max_published = max;
    OK(chain_reserve_published(s, t, &ok_e));
    OK(cut_end(t->store, true, &ok_e));
    mem_fault_after(0);
    chain_note_published(s, t, 4711);
    mem_fault_after(-1);
}

// A save makes several records if one would be too long. The backup takes all of them.
static void test_several_records(void **state)
{
    (void)state;
    uint32_t most = 0;
    for (size_t max = 16; max <= 1024; max *= 8) {
        struct replicas *w = open_with_rows();
        const struct outlet *o = &outlets_find(w->servers[0].shard, replicas_id(1))->o;
        uint64_t at = outlet_end(o);
        uint32_t n = 0, places = 0;
        struct channel_record r;
        save(w, max);
        for (; outlet_record(o, &at, &r); n++) {
            assert_int_equal(r.kind, RECORD_PUBLISHED);
            assert_true(r.n_items <= max);
            places += r.n_places;
        }
        assert_int_equal(places, REPLICAS_PARTITIONS);
        most = n > most ? n : most;
        replicas_run(w, 5 * SECOND_NS);
        assert_int_equal(w->out, 0);
        assert_int_equal(outlet_kept(o), 0);
        for (uint32_t p = 0; p < REPLICAS_PARTITIONS; p++)
            assert_int_equal(w->servers[1].shard->chain->of[0][p].applied,
                             w->servers[0].shard->chain->of[0][p].applied);
        replicas_close(w);
    }
    assert_true(most > 1);
}

// The rows of one partition are too many for a record: the backup must be filled again.
static void test_too_many_of_one_partition(void **state)
{
    (void)state;
    struct replicas *w = open_with_rows();
    save(w, 1);
    REPLICAS_UNTIL(w, w->out_chains == REPLICAS_PARTITIONS);
    assert_int_equal(w->out, replicas_id(1));
    assert_string_equal(w->out_why,
                        "a save has published too many rows of one partition");
    replicas_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_records),
        cmocka_unit_test(test_too_many_of_one_partition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
