// Chains of several shards in the simulated network, one case after the other, and random
// histories.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/chain/chain.h"

#include <stdlib.h>
#include <string.h>

#include "kit/replicas.h"
#include "kit/shards.h"
#include "server/clocks/pending.h"
#include "server/moves/record.h"
#include "server/shard_internal.h"

#define MS (SECOND_NS / 1000)
enum { WINDOW = 8 }; // pushes and pulls under way in a random history

static const uint32_t some[] = {0, 3, 6, 9, 12, 15}; // keys of six partitions

static void test_backups_get_pushes(void **state)
{
    (void)state;
    for (uint32_t replicas = 1; replicas <= 3; replicas++) {
        struct replicas *w = replicas_open_with_table(1, replicas, replicas,
                                                      REPLICAS_SERVERS);
        for (int i = 0; i < 20; i++)
            replicas_add_op(w, i % 4 == 3, some, REPLICAS_PUSH_KEYS);
        REPLICAS_UNTIL(w, replicas_all_done(w));
        replicas_check_sums(w);
        assert_int_equal(w->servers[0].shard->chain != NULL, replicas > 1);
        for (uint32_t i = 0; i < REPLICAS_SERVERS && replicas > 1; i++)
            for (struct chain_outlet *o = w->servers[i].shard->chain->outlets; o != NULL;
                 o = o->next)
                assert_int_equal(outlet_kept(&o->o), 0);
        replicas_close(w);
    }
}

// While the backup cannot be reached, neither a push nor a pull of its row is answered;
// requests for other rows are.
static void test_answers_wait(void **state)
{
    (void)state;
    const uint32_t first = 0, other = 3;
    struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
    struct replicas_op *before = replicas_add_op(w, false, &first, 1);
    REPLICAS_UNTIL(w, replicas_op_is_done(before));
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
    struct replicas_op *push = replicas_add_op(w, false, &first, 1),
                       *pull = replicas_add_op(w, true, &first, 1);
    struct replicas_op *elsewhere = replicas_add_op(w, true, &other, 1);
    replicas_run(w, SECOND_NS);
    assert_true(replicas_op_is_done(elsewhere));
    assert_true(replicas_value(w, 0, first) == 2 && replicas_value(w, 1, first) == 1);
    assert_false(replicas_op_is_done(push) || replicas_op_is_done(pull));
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, false);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    assert_int_equal(w->shown[first], 2);
    replicas_check_sums(w);
    replicas_close(w);
}

// The primary dies before the worker gets its acknowledgement; the backup has the push,
// and finds the repeat.
static void test_promotion(void **state)
{
    (void)state;
    for (uint32_t replicas = 2; replicas <= 3; replicas++) {
        struct replicas *w = replicas_open_with_table(1, replicas, replicas, 1);
        sim_partition(w->sim, w->worker, w->servers[1].v, true);
        for (int i = 0; i < 4; i++)
            replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
        REPLICAS_UNTIL(w, replicas_value(w, 0, 0) == 4);
        sim_partition(w->sim, w->worker, w->servers[0].v, true);
        replicas_run(w, 10 * MS);
        replicas_crash(w, 0);
        sim_partition(w->sim, w->worker, w->servers[1].v, false);
        replicas_take_out(w, 0);
        replicas_add_op(w, true, some, REPLICAS_PUSH_KEYS);
        REPLICAS_UNTIL(w, replicas_all_done(w));
        assert_int_equal(w->shown[0], 4);
        replicas_check_sums(w);
        replicas_close(w);
    }
}

// The member in the middle dies with records that the last member lacks: the primary
// sends them to the last member.
static void test_middle_dies(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 3, 3, 1);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    sim_partition(w->sim, w->servers[1].v, w->servers[2].v, true);
    for (int i = 0; i < 3; i++)
        replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    replicas_run(w, SECOND_NS);
    assert_true(replicas_value(w, 1, 0) == 4 && replicas_value(w, 2, 0) == 1);
    assert_int_equal(w->acked[0], 1);
    replicas_crash(w, 1);
    replicas_take_out(w, 1);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    replicas_close(w);
}

// The member in the middle dies, and the primary does not know that the last member has
// the records: it sends them again, and they count once.
static void test_sent_twice(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 3, 3, 1);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_value(w, 1, 0) == 1);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
    REPLICAS_UNTIL(w, replicas_value(w, 2, 0) == 1);
    assert_int_equal(w->acked[0], 0);
    replicas_crash(w, 1);
    replicas_take_out(w, 1);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    replicas_close(w);
}

// The next member takes no records for a while: the member before it asks the scheduler to
// take it out, and the waiting answers are sent under the next roster. The last member of
// three is reported by the one before it only.
static void test_slow_member_leaves(void **state)
{
    (void)state;
    for (uint32_t replicas = 2; replicas <= 3; replicas++) {
        struct replicas *w = replicas_open_with_table(1, replicas, replicas, 1);
        uint32_t last = replicas - 1;
        replicas_run(w, 20 * SECOND_NS);
        sim_partition(w->sim, w->servers[last - 1].v, w->servers[last].v, true);
        replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
        replicas_run(w, 4 * SECOND_NS);
        assert_int_equal(w->out, 0);
        // The primary, which lacks a lease of its next member, may report that first.
        REPLICAS_UNTIL(w, strstr(w->out_why, "it has taken none of the ") != NULL);
        assert_int_equal(w->out, replicas_id(last));
        assert_int_equal(w->out_chains, 6);
        assert_int_equal(w->out_code, TUG_EIO);
        assert_false(replicas_all_done(w));
        replicas_take_out(w, last);
        REPLICAS_UNTIL(w, replicas_all_done(w));
        w->out = 0;
        replicas_run(w, 10 * SECOND_NS);
        assert_int_equal(w->out, 0);
        replicas_close(w);
    }
}

// The next member takes no records, and leaves all chains. Its records are still kept; they
// delay neither new tables nor requests that concern all chains.
static void test_former_member_takes_nothing(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
    for (int i = 0; i < 20; i++)
        replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    replicas_run(w, SECOND_NS);
    replicas_take_out(w, 1);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    struct chain_outlet *o = outlets_find(w->servers[0].shard, replicas_id(1));
    assert_true(o->used < outlet_end(&o->o));
    uint32_t n = w->tables;
    w->spec.id = REPLICAS_TABLE + 1;
    snprintf(w->spec.config.name, sizeof(w->spec.config.name), "u");
    replicas_send_table(w, 0);
    REPLICAS_UNTIL(w, w->tables == n + 1);
    replicas_close(w);
}

// A record that a backup cannot apply: it asks to leave these chains, at once or after it
// has tried for a second, and goes on with the records of the others.
static void test_unfit_member_leaves(void **state)
{
    (void)state;
    static const uint32_t two[] = {4, 6};
    const char text[24] = "the table was loaded";
    for (int damaged = 0; damaged < 2; damaged++) {
        struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
        struct shard *s = w->servers[0].shard;
        struct err e;
        assert_int_equal(chain_reserve_places(s, WIRE_SPACE_SPARSE, two, 2, 24, &e), 0);
        chain_note_places(s, damaged ? RECORD_SLICE : RECORD_REFILL, WIRE_SPACE_SPARSE,
                          two, 2, text, sizeof(text));
        replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
        replicas_run(w, 500 * MS);
        assert_int_equal(w->out != 0, !damaged);
        REPLICAS_UNTIL(w, w->out != 0);
        assert_int_equal(w->out, replicas_id(1));
        assert_int_equal(w->out_chains, 2);
        assert_int_equal(w->out_code, damaged ? TUG_EDATA : TUG_EINTERRUPTED);
        assert_true(damaged || strcmp(w->out_why, text) == 0);
        uint32_t gone = 0;
        for (uint32_t i = 0; i < REPLICAS_PUSH_KEYS; i++) {
            uint32_t p = roster_partition(REPLICAS_BITS, WIRE_SPACE_SPARSE,
                                          w->keys[some[i]]);
            bool is_out = p == two[0] || p == two[1];
            gone += is_out;
            assert_int_equal(replicas_value(w, 1, some[i]), !is_out);
        }
        assert_true(gone > 0);
        replicas_run(w, 3 * SECOND_NS);
        assert_false(replicas_all_done(w));
        for (uint32_t i = 0; i < 2; i++)
            w->chains[two[i]][1] = 0;
        w->epoch++;
        replicas_send_rosters(w);
        REPLICAS_UNTIL(w, replicas_all_done(w));
        w->out = 0;
        replicas_run(w, 3 * SECOND_NS);
        assert_int_equal(w->out, 0);
        replicas_check_sums(w);
        replicas_close(w);
    }
}

// A promoted member has pushes that the member after it lacks: it answers nothing about
// them before that member has them.
static void test_promoted_waits(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 3, 3, 1);
    sim_partition(w->sim, w->servers[1].v, w->servers[2].v, true);
    struct replicas_op *push = replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    replicas_run(w, SECOND_NS);
    replicas_crash(w, 0);
    replicas_take_out(w, 0);
    struct replicas_op *pull = replicas_add_op(w, true, some, REPLICAS_PUSH_KEYS);
    replicas_run(w, SECOND_NS);
    assert_true(replicas_value(w, 1, 0) == 1 && replicas_value(w, 2, 0) == 0);
    assert_false(replicas_op_is_done(push) || replicas_op_is_done(pull));
    sim_partition(w->sim, w->servers[1].v, w->servers[2].v, false);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    replicas_close(w);
}

// A primary that the scheduler has replaced, and that does not know it, acknowledges
// nothing, although its link to its former backup works.
static void test_replaced_primary(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    sim_partition(w->sim, w->servers[0].v, w->scheduler, true);
    replicas_take_out(w, 0); // the server is alive, and still listed as alive
    replicas_run(w, SECOND_NS);
    // The worker has not got the roster either.
    for (uint32_t p = 0; p < REPLICAS_PARTITIONS; p++)
        w->chains[p][0] = replicas_id(0);
    w->epoch--;
    struct replicas_op *push = replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    struct replicas_op *pull = replicas_add_op(w, true, some, REPLICAS_PUSH_KEYS);
    replicas_run(w, SECOND_NS);
    assert_true(replicas_value(w, 0, 0) == 2 && replicas_value(w, 1, 0) == 1);
    assert_false(replicas_op_is_done(push) || replicas_op_is_done(pull));
    for (uint32_t p = 0; p < REPLICAS_PARTITIONS; p++)
        w->chains[p][0] = replicas_id(1);
    w->epoch++;
    sim_partition(w->sim, w->servers[0].v, w->scheduler, false);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    REPLICAS_UNTIL(w, replicas_value(w, 0, 0) == 0); // it has dropped its copy
    replicas_close(w);
}

static void make_other_table(struct replicas *w, uint32_t server, uint32_t width)
{
    replicas_make_spec(w, CONFIG_ASYNC, width);
    w->spec.id = 5;
    replicas_send_table(w, server);
}

static void end_chains_of(struct replicas *w, uint32_t server)
{
    for (uint32_t p = 0; p < REPLICAS_PARTITIONS; p++)
        if (w->chains[p][0] == replicas_id(server))
            w->chains[p][1] = 0;
    w->epoch++;
    replicas_send_rosters(w);
}

// A backup without room for a new table asks to leave all chains of the sender. The table is
// made when it has left them. It gets the table when it is filled again.
static void test_no_room_for_table(void **state)
{
    (void)state;
    const uint32_t first = 0;
    struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
    struct shard *s = w->servers[1].shard;
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    s->o.max_bytes = s->bytes;
    w->tables = 0;
    make_other_table(w, 0, 1);
    REPLICAS_UNTIL(w, w->out != 0);
    assert_int_equal(w->out, replicas_id(1));
    assert_int_equal(w->out_code, TUG_ENOMEM);
    assert_int_equal(w->out_chains, WIRE_SPACES * REPLICAS_PARTITIONS);
    assert_non_null(strstr(w->out_why, "no room for table"));
    assert_int_equal(w->tables, 0);
    end_chains_of(w, 0);
    replicas_send_table(w, 0); // the roster has replaced the answer
    REPLICAS_UNTIL(w, w->tables == 1);
    replicas_add_op(w, false, &first, 1);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    s->o.max_bytes = 0;
    replicas_begin_fill(w, 0, 1);
    REPLICAS_UNTIL(w, w->arrived);
    replicas_end_fill(w, true);
    assert_non_null(s->tables[5]);
    replicas_add_op(w, false, &first, 1);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    replicas_close(w);
}

// Two loops have made different tables with the same number. Three servers get the second one,
// so two servers ask to leave the chains of another one. Then the channels go on.
static void test_tables_differ(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 2, 2, REPLICAS_SERVERS);
    replicas_run(w, SECOND_NS);
    w->tables = 0;
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
    make_other_table(w, 0, 1);
    REPLICAS_UNTIL(w, w->servers[0].shard->tables[5] != NULL);
    make_other_table(w, 1, 2);
    REPLICAS_UNTIL(w, w->servers[1].shard->tables[5] != NULL);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, false);
    REPLICAS_UNTIL(w, w->out == replicas_id(1));
    REPLICAS_UNTIL(w, w->out == replicas_id(0));
    assert_non_null(strstr(w->out_why, "differs"));
    end_chains_of(w, 0);
    end_chains_of(w, 3);
    w->tables = 0;
    make_other_table(w, 0, 1);
    make_other_table(w, 1, 2);
    REPLICAS_UNTIL(w, w->tables == 2);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    replicas_close(w);
}

static struct chain_outlet *outlet_of(struct replicas *w, uint32_t from, uint32_t to)
{
    return outlets_find(w->servers[from].shard, replicas_id(to));
}

// Fills a channel with a large record of an earlier epoch, which the receiver skips.
static void fill_channel(struct shard *s, struct chain_outlet *o)
{
    struct channel_place place = {.n = (uint32_t)outlets_most(s) / 8};
    struct channel_record r = {.kind = RECORD_PUSH,
                               .bits = REPLICAS_BITS,
                               .n_places = 1,
                               .places = &place,
                               .n_items = place.n,
                               .each = {8, 0}};
    void *content = mem_zalloc(place.n * r.each[0]);
    r.items[0] = r.items[1] = r.items[2] = content;
    assert_int_equal(outlet_append(&o->o, &r), 0);
    mem_free(content);
}

// A record in a channel is from before its receiver was filled again, and has the position of
// the next record. The receiver skips it, except with the planted bug.
static void test_old_records(void **state)
{
    (void)state;
    static const uint32_t first = 0;
    static const char text[] = "applied";
    for (int bug = 0; bug < 2; bug++) {
        struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
        struct shard *from = w->servers[0].shard, *to = w->servers[1].shard;
        const struct chain_place *p = &to->chain->of[WIRE_SPACE_SPARSE][0];
        to->o.member.bugs = (uint64_t)bug << WITHOUT_RECORD_EPOCHS;
        replicas_take_out(w, 1);
        replicas_begin_fill(w, 0, 1);
        REPLICAS_UNTIL(w, w->arrived);
        replicas_end_fill(w, true);
        struct channel_place place = {.position = p->applied};
        struct channel_record r = {.kind = RECORD_REFILL,
                                   .bits = REPLICAS_BITS,
                                   .epoch = p->from_since - 1,
                                   .n_places = 1,
                                   .places = &place,
                                   .common = text,
                                   .n_common = sizeof(text)};
        OK(outlet_append(&outlet_of(w, 0, 1)->o, &r));
        replicas_add_op(w, false, &first, 1);
        REPLICAS_UNTIL(w, bug ? w->out != 0 : replicas_all_done(w));
        assert_int_equal(w->out, bug ? replicas_id(1) : 0);
        assert_true(bug || p->applied == from->chain->of[WIRE_SPACE_SPARSE][0].applied);
        if (!bug)
            replicas_check_sums(w);
        replicas_close(w);
    }
}

// Pushes wait when their backup is too far behind.
static void test_slow_backup(void **state)
{
    (void)state;
    static const struct shard_options small = {.max_bytes = 4 << 20};
    struct replicas *w = replicas_open(1, 2, 2, 1, &small);
    replicas_make_table(w);
    struct replicas_server *x = &w->servers[0];
    sim_partition(w->sim, x->v, w->servers[1].v, true);
    struct chain_outlet *o = x->shard->chain->outlets;
    while (o->node != replicas_id(1))
        o = o->next;
    struct replicas_op *push = replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_value(w, 0, 0) == 1);
    fill_channel(x->shard, o);
    struct replicas_op *later = replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    replicas_run(w, SECOND_NS);
    assert_true(pending_wants(x->shard, WANTS_MEMBER));
    assert_true(replicas_value(w, 0, 0) == 1);
    sim_partition(w->sim, x->v, w->servers[1].v, false);
    REPLICAS_UNTIL(w, replicas_op_is_done(push) && replicas_op_is_done(later));
    replicas_check_sums(w);
    replicas_close(w);
}

// The channels of three servers form a ring, and are full: their first records do not wait for
// room in the next channel.
static void test_ring(void **state)
{
    (void)state;
    static const struct shard_options small = {.max_bytes = 4 << 20};
    struct replicas *w = replicas_open(1, 3, 3, 1, &small);
    struct shard *s[3];
    for (uint32_t p = 0; p < REPLICAS_PARTITIONS; p++)
        for (uint32_t i = 0; i < 3; i++)
            w->chains[p][i] = replicas_id((p + i) % 3);
    w->epoch++;
    replicas_send_rosters(w);
    replicas_make_table(w);
    replicas_run(w, SECOND_NS);
    for (uint32_t i = 0; i < 3; i++) {
        s[i] = w->servers[i].shard;
        sim_partition(w->sim, w->servers[i].v, w->servers[(i + 1) % 3].v, true);
    }
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    for (uint32_t i = 0; i < 3; i++)
        REPLICAS_UNTIL(w, replicas_value(w, i, some[i]) == 1);
    for (uint32_t i = 0; i < 3; i++)
        fill_channel(s[i], outlets_find(s[i], replicas_id((i + 1) % 3)));
    for (uint32_t i = 0; i < 3; i++)
        sim_partition(w->sim, w->servers[i].v, w->servers[(i + 1) % 3].v, false);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    replicas_close(w);
}

// Tables that find their rows on disk again are refused.
static void test_refusals(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
    replicas_make_spec(w, CONFIG_ASYNC, 1);
    w->spec.id = REPLICAS_TABLE + 1;
    snprintf(w->spec.config.cold, sizeof(w->spec.config.cold), "cold");
    w->spec.config.cold_durable = true;
    replicas_send_table(w, 0);
    REPLICAS_UNTIL(w, strstr(w->refusal, "cannot have the setting cold-durable") != NULL);
    assert_null(w->servers[0].shard->tables[REPLICAS_TABLE + 1]);
    replicas_close(w);
}

// The records of one push go to several next members, and each of them has only the
// partitions whose next member it is.
static void test_push_is_split(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 3, 3, 1);
    for (uint32_t p = 0; p < REPLICAS_PARTITIONS; p++) {
        w->chains[p][1] = replicas_id(1 + p % 2);
        w->chains[p][2] = 0;
    }
    w->epoch++;
    replicas_send_rosters(w);
    replicas_run(w, 2 * SECOND_NS);
    for (uint32_t i = 1; i <= 2; i++)
        sim_partition(w->sim, w->servers[0].v, w->servers[i].v, true);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS); // of partitions 0 to 5
    REPLICAS_UNTIL(w, replicas_value(w, 0, 0) == 1);
    for (uint32_t i = 1; i <= 2; i++) {
        struct outlet *o = &outlet_of(w, 0, i)->o;
        struct channel_record r = {0};
        uint64_t at = o->first, n = 0;
        while (outlet_record(o, &at, &r))
            n += r.kind == RECORD_PUSH;
        assert_int_equal(n, 1);
        assert_int_equal(r.n_places, 3);
        for (uint32_t k = 0; k < r.n_places; k++)
            assert_int_equal(r.places[k].partition, 2 * k + i - 1);
        sim_partition(w->sim, w->servers[0].v, w->servers[i].v, false);
    }
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    replicas_close(w);
}

// A record about all partitions that a shard leads, or about some of them, gets the next
// position of each.
static void test_places_without_keys(void **state)
{
    (void)state;
    static const uint32_t two[] = {4, 6};
    static const uint64_t content[] = {5, 6};
    struct replicas *w = replicas_open_with_table(1, 2, 2, 2);
    struct shard *s = w->servers[0].shard;
    struct outlet *o = &outlet_of(w, 0, 1)->o;
    struct channel_record r;
    struct err e;
    replicas_run(w, SECOND_NS);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
    for (int i = 0; i < 2; i++) {
        const uint32_t *list = i == 0 ? NULL : two;
        assert_int_equal(chain_reserve_places(s, WIRE_SPACE_SPARSE, list, 2, 16, &e), 0);
        mem_fault_after(0);
        chain_note_places(s, RECORD_FACTS, WIRE_SPACE_SPARSE, list, 2, content, 16);
        assert_false(mem_faulted());
        mem_fault_after(-1);
    }
    uint64_t at = o->first;
    assert_true(outlet_record(o, &at, &r));
    assert_int_equal(r.n_places, REPLICAS_PARTITIONS / 2); // the even ones
    for (uint32_t i = 0; i < r.n_places; i++)
        assert_true(r.places[i].partition == 2 * i && r.places[i].position == 0);
    assert_true(outlet_record(o, &at, &r));
    assert_int_equal(r.n_places, 2);
    assert_memory_equal(r.common, content, sizeof(content));
    assert_true(r.places[0].partition == 4 && r.places[0].position == 1);
    assert_true(r.places[1].partition == 6 && r.places[1].position == 1);
    assert_false(outlet_record(o, &at, &r));
    replicas_close(w);
}

// The entry policies of two members have counted different pushes, for example because the
// primary has refused one. Keys still get rows on both, or on neither.
static void test_policies_differ(void **state)
{
    (void)state;
    static const uint32_t keys[] = {0, 3, 6};
    static const struct shard_options plain;
    static const uint32_t expected[][3] = {{1, 0, 0}, {2, 1, 1}};
    struct replicas *w = replicas_open(1, 2, 2, 1, &plain);
    struct table_config c = w->spec.config;
    struct err e;
    assert_int_equal(entry_parse("count:2", &c.entry, &e), 0);
    assert_int_equal(spec_make(&w->spec, REPLICAS_TABLE, &c, &e), 0);
    replicas_make_table(w);
    replicas_run(w, SECOND_NS);
    replicas_count_once(w, 0, 0);
    replicas_count_once(w, 1, 6);
    for (int i = 0; i < 2; i++) {
        struct replicas_op *push = replicas_add_op(w, false, keys, 3);
        REPLICAS_UNTIL(w, replicas_op_is_done(push));
        for (uint32_t k = 0; k < 3; k++)
            for (uint32_t server = 0; server < 2; server++)
                assert_int_equal((int)replicas_value(w, server, keys[k]), expected[i][k]);
    }
    replicas_close(w);
}

// The member in the middle leaves the chains of two partitions, and stays in the others: the
// primary sends these two partitions of its records to the last member, and keeps the
// others for the member in the middle.
static void test_some_are_redirected(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 3, 3, 1);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
    for (int i = 0; i < 2; i++)
        replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_value(w, 0, 0) == 2);
    for (uint32_t p = 1; p <= 3; p += 2) {
        w->chains[p][1] = w->chains[p][2];
        w->chains[p][2] = 0;
    }
    w->epoch++;
    replicas_send_rosters(w);
    REPLICAS_UNTIL(w, replicas_value(w, 2, 3) == 2 && replicas_value(w, 2, 9) == 2);
    assert_true(replicas_value(w, 2, 0) == 0 && replicas_value(w, 2, 6) == 0);
    assert_false(replicas_all_done(w));
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, false);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    replicas_close(w);
}

// A member applies a record, and some allocation fails: it applies the rest later, and
// nothing twice.
static void test_applied_in_parts(void **state)
{
    (void)state;
    uint32_t in_parts = 0;
    for (long n = 0, failed = 1; failed; n++) {
        struct replicas *w = replicas_open_with_table(1, 3, 3, 1);
        struct shard *s = w->servers[1].shard;
        sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
        replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
        REPLICAS_UNTIL(w, replicas_value(w, 0, 0) == 1);
        struct chain_inlet *x = s->chain->inlets;
        while (x->node != replicas_id(0))
            x = x->next;
        const char *bytes;
        size_t more = outlet_from(&outlet_of(w, 0, 1)->o, x->i.at, SIZE_MAX, &bytes);
        assert_true(more > 0 && inlet_add(&x->i, x->i.at, bytes, more) == 0);
        x->try_at = 0;
        mem_fault_after(n);
        inlets_take(s);
        inlets_keep(s);
        failed = mem_faulted();
        mem_fault_after(-1);
        uint32_t applied = 0;
        for (uint32_t i = 0; i < REPLICAS_PUSH_KEYS; i++)
            applied += replicas_value(w, 1, some[i]) == 1;
        in_parts += applied > 0 && applied < REPLICAS_PUSH_KEYS;
        assert_true(failed || applied == REPLICAS_PUSH_KEYS);
        sim_partition(w->sim, w->servers[0].v, w->servers[1].v, false);
        REPLICAS_UNTIL(w, replicas_all_done(w));
        replicas_check_sums(w);
        replicas_close(w);
    }
    assert_true(in_parts > 0);
}

// While a partition is filled, pushes to it are served; afterwards they wait for the new
// member, which can be promoted.
static void test_fill(void **state)
{
    (void)state;
    const uint32_t first = 0;
    struct replicas *w = replicas_open_with_table(1, 2, 1, REPLICAS_SERVERS);
    for (int i = 0; i < 3; i++)
        replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_begin_fill(w, 0, 1);
    while (!w->arrived) {
        if (replicas_all_done(w))
            replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
        replicas_run(w, MS);
    }
    REPLICAS_UNTIL(w, replicas_all_done(w));
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
    struct replicas_op *push = replicas_add_op(w, false, &first, 1);
    replicas_run(w, SECOND_NS);
    // The target is a member for the source before the roster says so, also if another
    // roster comes in between.
    assert_false(replicas_op_is_done(push));
    replicas_send_rosters(w);
    replicas_run(w, SECOND_NS);
    assert_false(replicas_op_is_done(push));
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, false);
    replicas_end_fill(w, true);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    replicas_begin_fill(w, 4, 1); // server 0 also leads partition 4
    REPLICAS_UNTIL(w, w->arrived);
    replicas_end_fill(w, true);
    replicas_crash(w, 0);
    replicas_take_out(w, 0);
    replicas_add_op(w, true, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    replicas_close(w);
}

// A fill that is given up, in whichever phase, leaves nothing behind.
static void test_fill_is_given_up(void **state)
{
    (void)state;
    for (uint64_t ms = 0; ms < 60; ms += 3) {
        struct replicas *w = replicas_open_with_table(1, 2, 1, REPLICAS_SERVERS);
        replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
        REPLICAS_UNTIL(w, replicas_all_done(w));
        replicas_begin_fill(w, 0, 1);
        for (uint64_t i = 0; i < ms && !w->arrived; i++) {
            if (i % 4 == 0)
                replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
            replicas_run(w, MS);
        }
        if (ms >= 57)
            REPLICAS_UNTIL(w, w->arrived);
        replicas_end_fill(w, false);
        REPLICAS_UNTIL(w, replicas_all_done(w));
        replicas_check_sums(w);
        assert_true(replicas_value(w, 1, 0) == 0);
        replicas_close(w);
    }
}

// While server 2 fills server 1 with a partition, older records of server 0 for it do not keep
// server 1 from applying records of other partitions.
static void test_fill_blocks_nothing(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 3, 3, 1);
    for (uint32_t p = 1; p < REPLICAS_PARTITIONS; p++)
        w->chains[p][2] = 0;
    w->epoch++;
    replicas_send_rosters(w);
    replicas_run(w, SECOND_NS);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
    sim_partition(w->sim, w->servers[1].v, w->servers[2].v, true);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_value(w, 0, 0) == 1);
    w->chains[0][1] = w->chains[0][2];
    w->chains[0][2] = 0;
    w->epoch++;
    replicas_begin_fill(w, 0, 1);
    replicas_run(w, 500 * MS);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, false);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    assert_false(w->arrived);
    sim_partition(w->sim, w->servers[1].v, w->servers[2].v, false);
    REPLICAS_UNTIL(w, w->arrived);
    replicas_end_fill(w, true);
    replicas_check_sums(w);
    replicas_close(w);
}

// A primary has a push that its backup lacks, leaves the chain, and is filled again. It
// must not take the push for one that its new copy has.
static void test_refilled(void **state)
{
    (void)state;
    const uint32_t first = 0; // in partition 0
    struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
    struct replicas_op *push = replicas_add_op(w, false, &first, 1);
    REPLICAS_UNTIL(w, replicas_value(w, 0, first) == 1);
    sim_partition(w->sim, w->worker, w->servers[1].v, true);
    replicas_take_out(w, 0);
    REPLICAS_UNTIL(w, replicas_value(w, 0, first) == 0);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, false);
    assert_false(replicas_op_is_done(push));
    replicas_begin_fill(w, 0, 0);
    REPLICAS_UNTIL(w, w->arrived);
    replicas_end_fill(w, true);
    // Server 1 leaves the chain before it gets the repeated push.
    w->chains[0][0] = replicas_id(0);
    w->chains[0][1] = 0;
    w->epoch++;
    replicas_send_rosters(w);
    REPLICAS_UNTIL(w, replicas_op_is_done(push));
    assert_true(replicas_value(w, 0, first) == 1);
    replicas_close(w);
}

// The last member misses a roster: the member before it is replaced, and the new one sends
// its records again under that roster. The last member, which gets only the next roster,
// must not take these records for old ones.
static void test_missed_roster(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 3, 3, 1);
    sim_partition(w->sim, w->servers[1].v, w->servers[2].v, true);
    struct replicas_op *push = replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_value(w, 1, 0) == 1);
    sim_partition(w->sim, w->servers[2].v, w->scheduler, true);
    replicas_crash(w, 1);
    replicas_take_out(w, 1);
    replicas_run(w, SECOND_NS);
    assert_false(replicas_op_is_done(push));
    sim_break(w->sim, w->servers[2].v, w->scheduler); // the roster is lost
    w->epoch++;                                       // as if another chain had changed
    replicas_send_rosters(w);
    sim_partition(w->sim, w->servers[2].v, w->scheduler, false);
    REPLICAS_UNTIL(w, replicas_op_is_done(push));
    replicas_check_sums(w);
    replicas_close(w);
}

// ---------------------------------------------------------------- random histories

static bool may_die(const struct replicas *w, uint32_t server)
{
    if (w->servers[server].dead)
        return false;
    for (uint32_t p = 0; p < REPLICAS_PARTITIONS; p++)
        if (w->chains[p][1] == 0 && w->chains[p][0] == replicas_id(server))
            return false;
    return true;
}

static void random_op(struct replicas *w)
{
    uint32_t keys[REPLICAS_PUSH_KEYS], n = 0;
    for (uint32_t k = 0; k < REPLICAS_KEYS && n < REPLICAS_PUSH_KEYS; k++)
        if (replicas_draw(w, REPLICAS_KEYS / REPLICAS_PUSH_KEYS) == 0)
            keys[n++] = k;
    if (n > 0 && w->n_ops < REPLICAS_OPS && w->n_ops - w->first_op < WINDOW)
        replicas_add_op(w, replicas_draw(w, 3) == 0, keys, n);
}

static void random_death(struct replicas *w)
{
    uint32_t i = (uint32_t)replicas_draw(w, REPLICAS_SERVERS);
    if (!may_die(w, i))
        return;
    if (replicas_draw(w, 3) > 0)
        replicas_crash(w, i);
    else // the server lives, but its link to the scheduler is cut
        sim_partition(w->sim, w->servers[i].v, w->scheduler, true);
    replicas_run(w, replicas_draw(w, 200) * MS);
    w->servers[i].dead = true;
    if (w->fill.move != 0 &&
        (w->fill.to == replicas_id(i) ||
         w->chains[w->fill.partition][replicas_chain_length(w, w->fill.partition) - 1] ==
             replicas_id(i)))
        w->fill.move = 0;
    replicas_take_out(w, i);
}

static void random_fill(struct replicas *w)
{
    uint32_t p = (uint32_t)replicas_draw(w, REPLICAS_PARTITIONS),
             to = (uint32_t)replicas_draw(w, REPLICAS_SERVERS);
    if (w->fill.move != 0) {
        if (w->arrived || replicas_draw(w, 40) == 0)
            replicas_end_fill(w, w->arrived && replicas_draw(w, 4) > 0);
        return;
    }
    for (uint32_t i = 0; i < replicas_chain_length(w, p); i++)
        if (w->chains[p][i] == replicas_id(to))
            return;
    if (!w->servers[to].dead && replicas_chain_length(w, p) < w->replicas)
        replicas_begin_fill(w, p, to);
}

// A surplus member leaves, which may be any.
static void random_leave(struct replicas *w)
{
    uint32_t p = (uint32_t)replicas_draw(w, REPLICAS_PARTITIONS),
             n = replicas_chain_length(w, p);
    if (n < 2 || w->fill.move != 0)
        return;
    for (uint32_t i = (uint32_t)replicas_draw(w, n); i < n; i++)
        w->chains[p][i] = w->chains[p][i + 1];
    w->epoch++;
    replicas_send_rosters(w);
}

static void random_step(struct replicas *w)
{
    uint64_t what = replicas_draw(w, 100);
    if (what < 60)
        random_op(w);
    else if (what < 62)
        random_death(w);
    else if (what < 85)
        random_fill(w);
    else if (what < 87)
        random_leave(w);
    else if (what < 91)
        sim_partition(w->sim, w->servers[replicas_draw(w, REPLICAS_SERVERS)].v,
                      w->servers[replicas_draw(w, REPLICAS_SERVERS)].v,
                      replicas_draw(w, 2) == 0);
    else if (what < 93)
        sim_break(w->sim, w->servers[replicas_draw(w, REPLICAS_SERVERS)].v,
                  w->servers[replicas_draw(w, REPLICAS_SERVERS)].v);
    replicas_run(w, replicas_draw(w, 10) * MS);
}

static void run_random(uint64_t seed)
{
    uint32_t replicas = 2 + (uint32_t)(seed % 2);
    struct replicas *w = replicas_open_with_table(seed, replicas, replicas,
                                                  1 + seed / 2 % REPLICAS_SERVERS);
    sim_van_loses_none(w->scheduler);
    if (seed % 3 == 0)
        sim_set_faults(w->sim, 0.01, 0.01, 0.01, 0.005);
    for (int i = 0; i < 600; i++)
        random_step(w);
    sim_set_faults(w->sim, 0, 0, 0, 0);
    for (uint32_t i = 0; i < REPLICAS_SERVERS; i++)
        for (uint32_t k = 0; k < i; k++)
            sim_partition(w->sim, w->servers[i].v, w->servers[k].v, false);
    if (w->fill.move != 0)
        replicas_end_fill(w, w->arrived);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    replicas_close(w);
}

// TUG_SEEDS="FROM TO" runs these seeds instead.
static void test_random_histories(void **state)
{
    (void)state;
    char *seeds = getenv("TUG_SEEDS");
    uint64_t from = 1, to = 40;
    if (seeds != NULL) {
        from = strtoull(seeds, &seeds, 10);
        to = strtoull(seeds, NULL, 10);
    }
    for (uint64_t seed = from; seed <= to; seed++)
        run_random(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backups_get_pushes),
        cmocka_unit_test(test_answers_wait),
        cmocka_unit_test(test_promotion),
        cmocka_unit_test(test_middle_dies),
        cmocka_unit_test(test_slow_member_leaves),
        cmocka_unit_test(test_former_member_takes_nothing),
        cmocka_unit_test(test_unfit_member_leaves),
        cmocka_unit_test(test_no_room_for_table),
        cmocka_unit_test(test_tables_differ),
        cmocka_unit_test(test_promoted_waits),
        cmocka_unit_test(test_replaced_primary),
        cmocka_unit_test(test_old_records),
        cmocka_unit_test(test_slow_backup),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_push_is_split),
        cmocka_unit_test(test_places_without_keys),
        cmocka_unit_test(test_policies_differ),
        cmocka_unit_test(test_some_are_redirected),
        cmocka_unit_test(test_applied_in_parts),
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_fill_is_given_up),
        cmocka_unit_test(test_fill_blocks_nothing),
        cmocka_unit_test(test_refilled),
        cmocka_unit_test(test_sent_twice),
        cmocka_unit_test(test_missed_roster),
        cmocka_unit_test(test_random_histories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
