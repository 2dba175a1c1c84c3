// Batches of sync tables that do not fit the limit of memory: the requests that wait for
// them, how often they are tried again, and what requests see while only a part of a
// batch is applied.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/lone_shard.h"

#include <stdio.h>
#include <string.h>

#include "kit/test.h"

enum { BITS = 3, WIDTH = 2, T = 2, KEYS = 40, LIMIT = 300 };

static const uint64_t enough = (uint64_t)1 << 30;
static const float lr = 0.125f;

struct world {
    struct lone *w;
    struct shard_table *t;
    uint64_t keys[KEYS];
    uint32_t n;
};

// Pushes a whole batch with the gradient 1 for each of n keys.
static void push_batch(struct lone *w, uint64_t clock, const uint64_t *keys, uint32_t n)
{
    float values[KEYS * WIDTH];
    for (uint32_t i = 0; i < n * WIDTH; i++)
        values[i] = 1;
    struct msg_push m = lone_push_of(w, 0, T, keys, n, values, WIDTH);
    m.clock = clock;
    m.micros = SHARD_MICROS;
    lone_send_push(w, 0, &m);
    assert_int_equal(lone_expect_ok(w), 0);
}

static struct world open_world(void)
{
    struct shard_options o = {.max_bytes = enough};
    struct world x = {.w = lone_open(BITS, &o)};
    struct table_spec s = lone_plain_spec(T, WIRE_SYNC, WIDTH);
    struct rule_params *rule = &s.config.accessor.rule;
    *rule = rule_defaults(RULE_SGD);
    rule->lr = lr;
    rule->l1 = rule->l2 = rule->prior = 0;
    lone_make_table(x.w, &s);
    x.t = x.w->shard->tables[T];
    x.n = lone_draw_keys(x.w, WIRE_SPACE_SPARSE, KEYS, 1, x.keys);
    return x;
}

// Batch 0 changes the last key. Batch 1 gets stuck after some of its partitions, because
// there is room for less than half of its rows.
static struct world open_stuck(void)
{
    struct world x = open_world();
    push_batch(x.w, 0, x.keys + x.n - 1, 1);
    x.w->shard->o.max_bytes = LIMIT;
    push_batch(x.w, 1, x.keys, x.n);
    assert_int_equal(x.t->sync.clock.next, 1);
    assert_int_equal(x.t->stuck.code, TUG_ENOMEM);
    assert_true(x.t->n_applied > 0);
    return x;
}

// Makes room in memory, and sends a repeated push, after which the stuck
// batch is tried again.
static void make_room(struct world *x)
{
    x->w->shard->o.max_bytes = enough;
    push_batch(x->w, 1, NULL, 0);
    assert_int_equal(x->t->sync.clock.next, 2);
    assert_int_equal(x->t->n_applied, 0);
}

static void test_retries_copy_rows_once(void **state)
{
    (void)state;
    struct world x = open_stuck();
    for (int i = 0; i < 10; i++) {
        size_t was = x.t->sync.before.n;
        assert_true(was < x.n);
        lone_pass_time(x.w, SECOND_NS);
        assert_int_equal(x.t->sync.before.n, was);
    }
    make_room(&x);
    assert_int_equal(x.t->sync.before.n, x.n);
    lone_close(x.w);
}

// A stuck batch is tried ten times a second, and no more often.
static void test_retries_pause(void **state)
{
    (void)state;
    struct world x = open_stuck();
    for (int i = 0; i < 10; i++) {
        lone_pass_time(x.w, SECOND_NS);
        assert_int_equal(x.w->shard->work_due, x.w->now + SECOND_NS / 10);
    }
    make_room(&x);
    lone_close(x.w);
}

// A pull that waits for the batch is refused at once, with the reason.
static void test_waiting_pull_is_refused(void **state)
{
    (void)state;
    struct world x = open_stuck();
    struct msg_pull m = lone_pull_of(x.w, 0, T, x.keys, x.n);
    m.clock = 2;
    lone_send_pull(x.w, 0, &m);
    assert_null(x.w->sent);
    lone_pass_time(x.w, SECOND_NS);
    lone_expect_refusal(x.w, TUG_EIO,
                        "batch 1, which cannot be applied: no room for another row");
    make_room(&x);
    lone_send_pull(x.w, 0, &m);
    parcel_unpin(lone_expect(x.w, MSG_PULLED));
    lone_close(x.w);
}

// Expects the answer to a pull: the rows after `batches` batches with all keys, and after
// batch 0, which changed the last key only.
static void check_pulled(struct world *x, uint32_t batches)
{
    struct parcel *p = lone_expect(x->w, MSG_PULLED);
    const float *v = p->m.pulled.values.data;
    assert_int_equal(p->m.pulled.n, x->n);
    for (uint32_t i = 0; i < x->n; i++)
        assert_true(v[i * WIDTH] == -lr * (float)(batches + (i + 1 == x->n)));
    parcel_unpin(p);
}

static void send_pull(struct world *x, uint64_t clock)
{
    struct msg_pull m = lone_pull_of(x->w, 0, T, x->keys, x->n);
    m.clock = clock;
    lone_send_pull(x->w, 0, &m);
}

// While a part of the batch is applied, no pull with a clock sees it.
static void test_pulls_see_whole_batches(void **state)
{
    (void)state;
    struct world x = open_stuck();
    send_pull(&x, 1);
    send_pull(&x, 2);
    assert_null(x.w->sent);
    send_pull(&x, 0); // without a clock: the pull asks for the rows as they are now
    parcel_unpin(lone_expect(x.w, MSG_PULLED));
    make_room(&x);
    check_pulled(&x, 0);
    check_pulled(&x, 1);
    lone_close(x.w);
}

// If no partition could apply a stuck batch, a pull of the rows after the previous
// batch is still answered.
static void test_nothing_applied(void **state)
{
    (void)state;
    struct world x = open_world();
    push_batch(x.w, 0, NULL, 0);
    push_batch(x.w, 1, x.keys + x.n - 1, 1);
    x.w->shard->o.max_bytes = 1;
    push_batch(x.w, 2, x.keys, x.n);
    assert_int_equal(x.t->stuck.code, TUG_ENOMEM);
    assert_int_equal(x.t->n_applied, 0);
    send_pull(&x, 2);
    check_pulled(&x, 0);
    send_pull(&x, 1);
    assert_null(x.w->sent);
    lone_pass_time(x.w, SECOND_NS);
    lone_expect_refusal(x.w, TUG_EIO, "batch 2, which cannot be applied");
    lone_close(x.w);
}

// An admin operation that reads or changes all rows never sees a part of a batch.
static void test_admin_sees_whole_batches(void **state)
{
    (void)state;
    static const uint8_t operations[] = {WIRE_COPY, WIRE_MEAN, WIRE_SHRINK, WIRE_DAY};
    for (size_t i = 0; i < sizeof(operations); i++) {
        struct world x = open_stuck();
        struct msg_table_do m = {
            .table = T, .what = operations[i], .other = T + 1, .number = 1, .low = 1};
        lone_deliver(x.w, WORKER_LINK, MSG_TABLE_DO, ++x.w->next_request, &m);
        assert_null(x.w->sent);
        lone_pass_time(x.w, SECOND_NS);
        lone_expect_refusal(x.w, TUG_EIO, "batch 1, which cannot be applied: no room");
        lone_deliver(x.w, WORKER_LINK, MSG_TABLE_DO, ++x.w->next_request, &m);
        assert_null(x.w->sent);
        make_room(&x);
        for (int ticks = 0; ticks < 5 && x.w->sent == NULL; ticks++)
            lone_pass_time(x.w, SECOND_NS);
        lone_expect_ok(x.w);
        lone_close(x.w);
    }
}

// If some partitions have applied a batch, the others apply it before a waiting
// admin operation or save is carried out, even if the operation or save should have
// come before the batch.
static void test_begun_batch_goes_on(void **state)
{
    (void)state;
    struct world x = open_stuck();
    struct msg_table_do m = {
        .table = T, .what = WIRE_DAY, .clock = 1, .number = 1, .low = 1};
    lone_deliver(x.w, WORKER_LINK, MSG_TABLE_DO, ++x.w->next_request, &m);
    assert_null(x.w->sent);
    make_room(&x);
    lone_pass_time(x.w, SECOND_NS);
    lone_expect_refusal(x.w, TUG_EUSAGE, "batch 1 of table 't2' has been applied");
    lone_close(x.w);
}

// An admin operation that drops the open batches of table T.
struct dropping {
    uint8_t what;
    uint32_t table, other;
    uint64_t clock;
};

// Sends an admin operation, and expects that it is carried out and that the waiting push
// is refused.
static void order_drops(struct world *x, const struct dropping *d)
{
    struct msg_table_do order = {.table = d->table,
                                 .what = d->what,
                                 .other = d->other,
                                 .clock = d->clock,
                                 .threshold = 0.5,
                                 .number = 1,
                                 .low = 1};
    lone_deliver(x->w, WORKER_LINK + 1, MSG_TABLE_DO, ++x->w->next_request, &order);
    uint64_t number = x->w->next_request;
    lone_pass_time(x->w, SECOND_NS);
    bool refused = false;
    for (struct parcel *p; (p = lone_next(x->w)) != NULL; parcel_unpin(p)) {
        bool ok = p->frame.type == MSG_OK;
        assert_int_equal(ok, p->frame.request >= number);
        assert_true(ok || p->m.error.code == TUG_EUSAGE);
        refused |= !ok;
    }
    assert_true(refused);
}

// An admin operation that drops the open batches refuses the pushes that wait for them,
// because their gradients belong to the old rows. This includes pushes that wait for a
// newer roster; if they were kept, they would count in batches after the operation.
static void test_dropped_pushes(void **state)
{
    (void)state;
    static const struct dropping all[] = {{WIRE_CLEAR, T, 0, 0},
                                          {WIRE_CLOCK, T, 0, 2},
                                          {WIRE_COPY, T + 1, T, 0},
                                          {WIRE_MEAN, T + 1, T, 0},
                                          {WIRE_DROP, T, 0, 0}};
    for (size_t i = 0; i < 2 * sizeof(all) / sizeof(*all); i++) {
        struct world x = open_world();
        struct table_spec from = x.t->spec;
        from.id = T + 1;
        snprintf(from.config.name, sizeof(from.config.name), "from");
        lone_make_table(x.w, &from);
        struct msg_push m = lone_push_of(x.w, 0, T, NULL, 0, NULL, WIDTH);
        m.clock = i % 2 == 0 ? SHARD_MAX_CLOCKS : 2;
        m.epoch += i % 2;
        m.micros = SHARD_MICROS;
        lone_send_push(x.w, 0, &m);
        assert_null(x.w->sent);
        order_drops(&x, &all[i / 2]);
        if (all[i / 2].what != WIRE_DROP)
            assert_int_equal(lone_figures(x.w, T).held, 0);
        lone_close(x.w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retries_copy_rows_once),
        cmocka_unit_test(test_retries_pause),
        cmocka_unit_test(test_waiting_pull_is_refused),
        cmocka_unit_test(test_pulls_see_whole_batches),
        cmocka_unit_test(test_nothing_applied),
        cmocka_unit_test(test_admin_sees_whole_batches),
        cmocka_unit_test(test_dropped_pushes),
        cmocka_unit_test(test_begun_batch_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
