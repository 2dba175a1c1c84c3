// Admin operations on tables whose partitions have replicas: the loops that lead partitions
// get the requests, and their backups do the same.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "cluster/roster.h"
#include "kit/replicas.h"
#include "server/chain/chain.h"
#include "server/chain/records.h"
#include "server/clocks/sync_group.h"
#include "server/moves/stream.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

enum { SPREAD = 2, MEMBERS = 3 }; // two servers lead partitions, a third has only copies

static const uint32_t some[] = {0, 3, 6, 9, 12, 15}; // keys of six partitions

static uint64_t operations, requests;

// Sends the operation with the last number to a server.
static void send_again(struct replicas *w, uint32_t server, uint8_t what)
{
    struct msg_table_do m = {.what = what,
                             .table = w->spec.id,
                             .epoch = w->epoch,
                             .threshold = NAN,
                             .number = operations,
                             .low = operations};
    van_send(w->worker, w->servers[server].s.link, MSG_TABLE_DO,
             REPLICAS_OTHER + ++requests, &m, NULL);
}

// Sends the next operation.
static void send_to(struct replicas *w, uint32_t server, uint8_t what)
{
    operations++;
    send_again(w, server, what);
}

static void send_to_leaders(struct replicas *w, struct msg_table_do m)
{
    m.table = w->spec.id;
    m.epoch = w->epoch;
    m.number = m.low = ++operations;
    m.threshold = NAN;
    for (uint32_t i = 0; i < SPREAD; i++)
        van_send(w->worker, w->servers[i].s.link, MSG_TABLE_DO,
                 REPLICAS_OTHER + ++requests, &m, NULL);
}

static struct replicas *open_world(enum config_mode mode)
{
    static const struct shard_options options;
    struct replicas *w = replicas_open(1, 2, 2, SPREAD, &options);
    replicas_make_spec(w, mode, 1);
    replicas_make_table(w);
    return w;
}

static struct shard_table *table_on(struct replicas *w, uint32_t server)
{
    return w->servers[server].shard->tables[w->spec.id];
}

static bool are_cleared(struct replicas *w)
{
    bool all = true;
    for (uint32_t i = 0; i < MEMBERS; i++)
        for (uint32_t k = 0; k < REPLICAS_PUSH_KEYS; k++)
            all &= replicas_value(w, i, some[k]) == 0; // NOLINT: exact
    return all;
}

static void test_clear(void **state)
{
    (void)state;
    struct replicas *w = open_world(CONFIG_ASYNC);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    assert_false(are_cleared(w));
    send_to_leaders(w, (struct msg_table_do){.what = WIRE_CLEAR});
    REPLICAS_UNTIL(w, are_cleared(w));
    assert_string_equal(w->refusal, "");
    memset(w->acked, 0, sizeof(w->acked));
    memset(w->invoked, 0, sizeof(w->invoked));
    memset(w->shown, 0, sizeof(w->shown));
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    replicas_close(w);
}

// The days of a server's copies show when it leads their partitions.
static void test_day(void **state)
{
    (void)state;
    struct replicas *w = open_world(CONFIG_ASYNC);
    for (uint32_t day = 1; day < 4; day++)
        send_to_leaders(w, (struct msg_table_do){.what = WIRE_DAY});
    REPLICAS_UNTIL(w, table_on(w, 1) != NULL && store_day_of(table_on(w, 1)->store) == 3);
    replicas_run(w, SECOND_NS);
    replicas_crash(w, 1);
    replicas_take_out(w, 1);
    replicas_run(w, SECOND_NS);
    assert_int_equal(store_day_of(table_on(w, 2)->store), 3);
    replicas_close(w);
}

static bool clocks_are(struct replicas *w, uint64_t clock)
{
    bool all = true;
    for (uint32_t p = 0; p < REPLICAS_PARTITIONS; p++)
        for (uint32_t i = 0; i < 2; i++)
            all &= sync_group_of(table_on(w, p % SPREAD + i), p)->clock.next == clock;
    return all;
}

static void test_clock(void **state)
{
    (void)state;
    struct replicas *w = open_world(CONFIG_SYNC);
    REPLICAS_UNTIL(w, table_on(w, MEMBERS - 1) != NULL);
    send_to_leaders(w, (struct msg_table_do){.what = WIRE_CLOCK, .clock = 77});
    REPLICAS_UNTIL(w, clocks_are(w, 77));
    replicas_close(w);
}

static void test_drop(void **state)
{
    (void)state;
    struct replicas *w = open_world(CONFIG_ASYNC);
    REPLICAS_UNTIL(w, table_on(w, MEMBERS - 1) != NULL);
    send_to_leaders(w, (struct msg_table_do){.what = WIRE_DROP});
    for (uint32_t i = 0; i < MEMBERS; i++)
        REPLICAS_UNTIL(w, table_on(w, i) == NULL);
    replicas_make_table(w);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    replicas_close(w);
}

static void forget_ops(struct replicas *w)
{
    memset(w->acked, 0, sizeof(w->acked));
    memset(w->invoked, 0, sizeof(w->invoked));
    memset(w->shown, 0, sizeof(w->shown));
}

// Makes the table again, and checks that all members get a push to it.
static void check_new_table(struct replicas *w)
{
    replicas_make_table(w);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    assert_int_equal(w->out, 0);
    replicas_close(w);
}

// A member that drops a table because of a record passes this on, although it has no table
// any more when a client tells it..
static void test_drop_is_passed_on(void **state)
{
    (void)state;
    struct replicas *w = open_world(CONFIG_ASYNC);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    send_to(w, 0, WIRE_DROP);
    REPLICAS_UNTIL(w, table_on(w, 1) == NULL);
    send_to(w, 1, WIRE_DROP);
    REPLICAS_UNTIL(w, table_on(w, 2) == NULL);
    forget_ops(w);
    replicas_make_spec(w, CONFIG_ASYNC, 1);
    w->tables = 0;
    check_new_table(w);
}

// A loop has dropped a table when records for it still come: it does not have to leave the
// chains.
static void test_records_after_drop(void **state)
{
    (void)state;
    struct replicas *w = open_world(CONFIG_ASYNC);
    replicas_run(w, SECOND_NS);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, true);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_value(w, 0, some[0]) == 1);
    send_to(w, 1, WIRE_DROP);
    REPLICAS_UNTIL(w, table_on(w, 1) == NULL);
    sim_partition(w->sim, w->servers[0].v, w->servers[1].v, false);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    send_to(w, 0, WIRE_DROP);
    REPLICAS_UNTIL(w, table_on(w, 0) == NULL);
    replicas_run(w, 3 * SECOND_NS);
    assert_int_equal(w->out, 0);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_null(table_on(w, i));
    replicas_close(w);
}

// Three servers have all partitions and their rows; server 0 leads them. Nothing goes from
// server 1 to server 2, so that the drop of the table waits there, and a push before it.
static struct replicas *open_with_late_drop(bool push)
{
    struct replicas *w = replicas_open_with_table(1, 3, 3, 1);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_run(w, SECOND_NS);
    sim_partition(w->sim, w->servers[1].v, w->servers[2].v, true);
    if (push)
        replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_value(w, 1, some[0]) == (float)(1 + push));
    w->tables = 0;
    van_send(w->worker, w->servers[0].s.link, MSG_TABLE_DO, REPLICAS_OTHER,
             &(struct msg_table_do){.what = WIRE_DROP,
                                    .table = w->spec.id,
                                    .epoch = w->epoch,
                                    .threshold = NAN,
                                    .number = 4711,
                                    .low = 4711},
             NULL);
    REPLICAS_UNTIL(w, table_on(w, 0) == NULL && table_on(w, 1) == NULL);
    return w;
}

// A drop is acknowledged when the last member has it, too. So no push to the dropped table can
// reach another table that gets its number, and no member that leads later has the table.
static void test_drop_waits_for_all(void **state)
{
    (void)state;
    for (int push = 0; push < 2; push++) {
        struct replicas *w = open_with_late_drop(push == 1);
        replicas_run(w, SECOND_NS);
        assert_int_equal(w->tables, 0);
        sim_partition(w->sim, w->servers[1].v, w->servers[2].v, false);
        REPLICAS_UNTIL(w, w->tables == 1);
        assert_null(table_on(w, 2));
        w->tables = 0;
        REPLICAS_UNTIL(w, replicas_all_done(w));
        forget_ops(w);
        check_new_table(w);
    }
}

// Server 1 dies before it has passed the drop on: server 2 gets it from server 0.
static void test_drop_after_death(void **state)
{
    (void)state;
    struct replicas *w = open_with_late_drop(true);
    replicas_crash(w, 1);
    replicas_take_out(w, 1);
    REPLICAS_UNTIL(w, table_on(w, 2) == NULL);
    assert_int_equal(w->servers[2].shard->chain->drops[w->spec.id], 1);
    replicas_close(w);
}

// Server 1 dies, and server 2, which has the dropped table, first gets the record of another
// table with its number: it leaves the chains, and gets the rows of that table.
static void test_table_after_drop(void **state)
{
    (void)state;
    struct replicas *w = open_with_late_drop(false);
    replicas_crash(w, 1);
    replicas_send_table(w, 0);
    REPLICAS_UNTIL(w, table_on(w, 0) != NULL);
    replicas_take_out(w, 1);
    REPLICAS_UNTIL(w, w->out == replicas_id(2));
    assert_int_equal(w->out_code, TUG_EINTERRUPTED);
    assert_string_equal(w->out_why, "table 2 was dropped and made again");
    replicas_take_out(w, 2);
    replicas_run(w, SECOND_NS);
    replicas_begin_fill(w, 0, 2);
    REPLICAS_UNTIL(w, w->arrived);
    assert_int_equal(w->servers[2].shard->chain->drops[w->spec.id], 1);
    for (uint32_t k = 0; k < REPLICAS_PUSH_KEYS; k++)
        assert_true(replicas_value(w, 2, some[k]) == 0);
    replicas_close(w);
}

// A server has dropped a table, and is filled by one that has not: the fill is interrupted, so
// that the late drop cannot meet another table with the number.
static void test_filled_before_drop(void **state)
{
    (void)state;
    struct replicas *w = replicas_open_with_table(1, 2, 2, 3);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    sim_partition(w->sim, w->servers[2].v, w->servers[3].v, true);
    operations++;
    for (uint32_t i = 0; i < 3; i++)
        send_again(w, i, WIRE_DROP);
    for (uint32_t i = 0; i < 3; i++)
        REPLICAS_UNTIL(w, table_on(w, i) == NULL);
    assert_non_null(table_on(w, 3));
    replicas_begin_fill(w, 2, 0);
    REPLICAS_UNTIL(w, w->interrupted);
    assert_null(table_on(w, 0));
    assert_int_equal(w->servers[0].shard->chain->drops[w->spec.id], 1);
    replicas_end_fill(w, false);
    sim_partition(w->sim, w->servers[2].v, w->servers[3].v, false);
    REPLICAS_UNTIL(w, table_on(w, 3) == NULL);
    forget_ops(w);
    w->tables = 0;
    replicas_make_table(w);
    replicas_begin_fill(w, 2, 0);
    REPLICAS_UNTIL(w, w->arrived);
    replicas_end_fill(w, true);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    replicas_check_sums(w);
    replicas_close(w);
}

// A leader has no table when the others drop it, and gets another table with the number. The
// record of the drop comes late, over a server that does not lead: the new table stays.
static void test_late_drop_without_places(void **state)
{
    (void)state;
    struct replicas *w = replicas_open(1, 2, 2, 3, &(struct shard_options){0});
    replicas_make_spec(w, CONFIG_ASYNC, 1);
    replicas_begin_fill(w, 2, 0); // makes the channel from server 3 to server 0
    REPLICAS_UNTIL(w, w->arrived);
    replicas_end_fill(w, false);
    replicas_run(w, SECOND_NS);
    sim_partition(w->sim, w->servers[3].v, w->servers[0].v, true);
    replicas_send_table(w, 1);
    replicas_send_table(w, 2);
    REPLICAS_UNTIL(w, w->tables == 2 && table_on(w, 3) != NULL);
    assert_null(table_on(w, 0));
    uint32_t n = w->others;
    operations++;
    for (uint32_t i = 0; i < 3; i++)
        send_again(w, i, WIRE_DROP);
    REPLICAS_UNTIL(w, w->others == n + 3);
    w->tables = 0;
    replicas_make_table(w);
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
    sim_partition(w->sim, w->servers[3].v, w->servers[0].v, false);
    replicas_run(w, 3 * SECOND_NS);
    assert_non_null(table_on(w, 0));
    replicas_check_sums(w);
    replicas_close(w);
}

// A server that was in no chain at the drop has the old table, and its only sender dies. It is
// filled, also if the table that was made meanwhile has other settings.
static void test_filled_with_old_table(void **state)
{
    (void)state;
    for (uint32_t width = 1; width < 3; width++) {
        struct replicas *w = replicas_open_with_table(1, 3, 3, 1);
        replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
        REPLICAS_UNTIL(w, replicas_all_done(w));
        replicas_run(w, SECOND_NS);
        sim_partition(w->sim, w->servers[1].v, w->servers[2].v, true);
        replicas_take_out(w, 2);
        replicas_run(w, SECOND_NS);
        assert_non_null(table_on(w, 2));
        uint32_t n = w->others;
        send_to(w, 0, WIRE_DROP);
        REPLICAS_UNTIL(w, w->others == n + 1);
        replicas_make_spec(w, CONFIG_ASYNC, width);
        w->tables = 0;
        replicas_make_table(w);
        replicas_crash(w, 1);
        replicas_take_out(w, 1);
        for (int i = 0; i < 3 && !w->arrived; i++) {
            w->interrupted = false;
            replicas_begin_fill(w, 0, 2);
            REPLICAS_UNTIL(w, w->arrived || w->interrupted);
            if (w->interrupted)
                replicas_end_fill(w, false);
            replicas_run(w, SECOND_NS);
        }
        assert_true(w->arrived);
        assert_int_equal(w->servers[2].shard->chain->drops[w->spec.id], 1);
        replicas_close(w);
    }
}

// A server that did not know of a drop is filled with a partition: it learns of the drop, and
// then it may lead, and another table may get the number.
static void test_filled_after_drop(void **state)
{
    (void)state;
    for (int again = 0; again < 2; again++) {
        struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
        const struct chain *c = w->servers[3].shard->chain;
        w->tables = 0;
        send_to(w, 0, WIRE_DROP);
        REPLICAS_UNTIL(w, table_on(w, 1) == NULL);
        if (again == 1)
            replicas_make_table(w);
        assert_int_equal(c->drops[w->spec.id], 0);
        replicas_begin_fill(w, 0, 3);
        REPLICAS_UNTIL(w, w->arrived);
        assert_int_equal(c->drops[w->spec.id], 1);
        assert_int_equal(table_on(w, 3) != NULL, again);
        replicas_close(w);
    }
}

static void push_some(struct replicas *w)
{
    replicas_add_op(w, false, some, REPLICAS_PUSH_KEYS);
    REPLICAS_UNTIL(w, replicas_all_done(w));
}

static bool leads_at_first(const struct replicas *w, uint32_t server, uint32_t key)
{
    return roster_partition(REPLICAS_BITS, WIRE_SPACE_SPARSE, w->keys[key]) % SPREAD ==
           server;
}

static uint32_t count_keys(const struct replicas *w, uint32_t server)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < REPLICAS_PUSH_KEYS; i++)
        n += leads_at_first(w, server, some[i]);
    return n;
}

// Server 0 has cleared the table, and the keys were pushed again, before it has died. The
// server that leads all its partitions now must clear the table in the others only.
static void check_cleared_once(struct replicas *w, uint32_t server)
{
    uint32_t n = w->others;
    send_again(w, server, WIRE_CLEAR);
    REPLICAS_UNTIL(w, w->others == n + 1);
    assert_int_equal(w->value, REPLICAS_PUSH_KEYS);
    for (uint32_t i = 0; i < REPLICAS_PUSH_KEYS; i++)
        assert_true(replicas_value(w, server, some[i]) ==
                    (float)leads_at_first(w, 0, some[i])); // NOLINT: exact
    // The answer stays the same, and so do the rows, when the request is repeated.
    push_some(w);
    send_again(w, server, WIRE_CLEAR);
    REPLICAS_UNTIL(w, w->others == n + 2);
    assert_int_equal(w->value, REPLICAS_PUSH_KEYS);
    assert_true(replicas_value(w, server, some[0]) >= 1);
}

static struct replicas *open_cleared(void)
{
    struct replicas *w = open_world(CONFIG_ASYNC);
    push_some(w);
    send_to(w, 0, WIRE_CLEAR);
    REPLICAS_UNTIL(w, w->others == 1);
    assert_int_equal(w->value, count_keys(w, 0));
    assert_in_range(count_keys(w, 0), 1, REPLICAS_PUSH_KEYS - 1);
    memset(w->shown, 0, sizeof(w->shown));
    push_some(w);
    return w;
}

// A backup knows from the record that the operation was done.
static void test_once_after_death(void **state)
{
    (void)state;
    struct replicas *w = open_cleared();
    replicas_crash(w, 0);
    replicas_take_out(w, 0);
    check_cleared_once(w, 1);
    // Server 2 has copies of the partitions that server 1 has led at first.
    for (uint32_t i = 0; i < REPLICAS_PUSH_KEYS; i++)
        if (leads_at_first(w, 1, some[i]))
            REPLICAS_UNTIL(w, replicas_value(w, 2, some[i]) == 1); // NOLINT: exact
    replicas_close(w);
}

// A server that is filled after the operation knows of it by the facts of the partition.
static void test_known_after_fill(void **state)
{
    (void)state;
    struct replicas *w = open_cleared();
    uint64_t sum = 0;
    for (uint32_t p = 0; p < REPLICAS_PARTITIONS; p += SPREAD) {
        replicas_begin_fill(w, p, 2);
        REPLICAS_UNTIL(w, w->arrived);
        replicas_end_fill(w, true);
        sum += admin_find_parts(&w->servers[2].shard->admin, REPLICAS_SESSION,
                                operations)[p];
    }
    assert_int_equal(sum, count_keys(w, 0));
    replicas_close(w);
}

// A server that has dropped its copy, and is filled by a member that lacks the operation,
// forgets that it was done.
static void test_done_again_after_refill(void **state)
{
    (void)state;
    struct replicas *w = open_world(CONFIG_ASYNC);
    push_some(w);
    send_to(w, 0, WIRE_CLEAR);
    struct admin *o = &w->servers[1].shard->admin;
    REPLICAS_UNTIL(w, admin_find_parts(o, REPLICAS_SESSION, operations) != NULL);
    assert_true(admin_find_parts(o, REPLICAS_SESSION, operations)[0] < ADMIN_OPEN);
    replicas_take_out(w, 1);
    REPLICAS_UNTIL(w,
                   admin_find_parts(o, REPLICAS_SESSION, operations)[0] == ADMIN_LACKS);
    replicas_close(w);
}

// The loop to which a drop is sent has dropped the table because of a record, and has
// another one with its number now: the drop is not meant for that one.
static void test_drop_once(void **state)
{
    (void)state;
    struct replicas *w = open_world(CONFIG_ASYNC);
    replicas_run(w, SECOND_NS);
    send_to(w, 0, WIRE_DROP);
    REPLICAS_UNTIL(w, table_on(w, 1) == NULL && w->others == 1);
    replicas_crash(w, 0);
    replicas_take_out(w, 0);
    w->tables = 0;
    replicas_send_table(w, 1);
    REPLICAS_UNTIL(w, w->tables == 1);
    send_again(w, 1, WIRE_DROP);
    REPLICAS_UNTIL(w, w->others == 2);
    assert_non_null(table_on(w, 1));
    replicas_close(w);
}

// Leaves room for this many bytes of records in the channels from a server.
static void leave_room(struct shard *s, size_t bytes)
{
    for (struct chain_outlet *o = s->chain->outlets; o != NULL; o = o->next) {
        struct buf *b = &o->o.bytes;
        b->cap = b->len + bytes + 1;
        b->data = mem_realloc_array(b->data, b->cap, 1);
        assert_non_null(b->data);
    }
}

// Returns whether memory was out.
static bool drops_without_memory(size_t room, int n)
{
    struct replicas *w = open_world(CONFIG_ASYNC);
    struct shard *s = w->servers[0].shard;
    struct msg_table_do m = {.what = WIRE_DROP, .table = w->spec.id};
    push_some(w);
    m.number = m.low = ++operations;
    s->chain->left_session = REPLICAS_SESSION;
    leave_room(s, room);
    mem_fault_after(n);
    int rc = chain_note_drop(s, table_on(w, 0), &m, NULL);
    bool faulted = mem_faulted();
    mem_fault_after(-1);
    assert_int_equal(rc, faulted ? TUG_ENOMEM : 0);
    assert_int_equal(s->chain->drops[w->spec.id], !faulted);
    if (faulted) {
        push_some(w);
        replicas_check_sums(w);
    }
    replicas_close(w);
    return faulted;
}

// Memory is out when a leader notes that a table was dropped: no member drops the table, and
// pushes still reach all members.
static void test_drop_without_memory(void **state)
{
    (void)state;
    for (size_t room = 0; room < 512; room += 64)
        for (int n = 0; drops_without_memory(room, n); n++)
            assert_true(n < 10);
    assert_true(drops_without_memory(0, 0));
}

// A client does not wait for an operation any more, which waits for a batch: it is answered
// without being done.
static void test_given_up(void **state)
{
    (void)state;
    struct replicas *w = open_world(CONFIG_SYNC);
    struct msg_table_do m = {.what = WIRE_CLEAR,
                             .table = w->spec.id,
                             .epoch = w->epoch,
                             .clock = 5,
                             .threshold = NAN};
    replicas_run(w, SECOND_NS);
    for (uint32_t i = 0; i < 2; i++) {
        m.number = m.low = ++operations;
        van_send(w->worker, w->servers[0].s.link, MSG_TABLE_DO,
                 REPLICAS_OTHER + ++requests, &m, NULL);
        replicas_run(w, SECOND_NS);
        assert_int_equal(w->others, 2 * i);
        m.what = WIRE_CLOCK;
    }
    assert_string_equal(w->refusal, "");
    replicas_close(w);
}

// A request with an older epoch may lack loops that own partitions now. It is answered by
// the roster, and has no effect.
static void test_epoch(void **state)
{
    (void)state;
    struct replicas *w = open_world(CONFIG_ASYNC);
    push_some(w);
    w->epoch--;
    send_to_leaders(w, (struct msg_table_do){.what = WIRE_CLEAR});
    w->epoch++;
    replicas_run(w, SECOND_NS);
    assert_int_equal(w->others, 0);
    assert_true(replicas_value(w, 0, some[0]) == 1 || // NOLINT: exact
                replicas_value(w, 1, some[0]) == 1);  // NOLINT: exact
    replicas_close(w);
}

// A count of drops that no table can have is refused, and drops no table.
static void test_too_many_drops(void **state)
{
    (void)state;
    const uint64_t most = INT32_MAX, head[] = {1, REPLICAS_TABLE + 1, most + 1};
    struct replicas *w = replicas_open_with_table(1, 2, 2, 1);
    struct shard *s = w->servers[1].shard;
    struct stream x = {(const char *)head, sizeof(head), 0};
    struct err e;
    replicas_run(w, SECOND_NS);
    assert_int_equal(records_drop(s, REPLICAS_TABLE, most + 1, &e), TUG_EDATA);
    assert_string_equal(
        e.text, "another server says that table 2 was dropped 2147483648 times, which "
                "is not possible; if that happens again, replace that server");
    assert_int_equal(chain_learn_drops(s, REPLICAS_TABLE, most + 1, &e), TUG_EDATA);
    assert_int_equal(chain_take_drops(s, &x, &e), TUG_EDATA);
    assert_int_equal(s->chain->drops[REPLICAS_TABLE], 0);
    assert_int_equal(s->chain->drops[REPLICAS_TABLE + 1], 0);
    assert_non_null(s->tables[REPLICAS_TABLE]);
    OK(chain_learn_drops(s, REPLICAS_TABLE + 1, most, &e));
    replicas_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clear),
        cmocka_unit_test(test_day),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_drop),
        cmocka_unit_test(test_drop_is_passed_on),
        cmocka_unit_test(test_drop_waits_for_all),
        cmocka_unit_test(test_drop_after_death),
        cmocka_unit_test(test_table_after_drop),
        cmocka_unit_test(test_filled_after_drop),
        cmocka_unit_test(test_filled_before_drop),
        cmocka_unit_test(test_filled_with_old_table),
        cmocka_unit_test(test_late_drop_without_places),
        cmocka_unit_test(test_records_after_drop),
        cmocka_unit_test(test_once_after_death),
        cmocka_unit_test(test_known_after_fill),
        cmocka_unit_test(test_done_again_after_refill),
        cmocka_unit_test(test_drop_once),
        cmocka_unit_test(test_drop_without_memory),
        cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_epoch),
        cmocka_unit_test(test_too_many_drops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
