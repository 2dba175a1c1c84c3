// Batches of sync tables that the limit of memory stops: what they hold, how often they
// are tried again, and what requests see of a batch of which only a part is applied.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/lone_shard.h"

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

// Batch 0 changes the last key. Batch 1 gets stuck after some of its partitions, because
// there is room for less than half of its rows.
static struct world open_stuck(void)
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
    push_batch(x.w, 0, x.keys + x.n - 1, 1);
    x.w->shard->o.max_bytes = LIMIT;
    push_batch(x.w, 1, x.keys, x.n);
    assert_int_equal(x.t->sync.next, 1);
    assert_int_equal(x.t->stuck.code, TUG_ENOMEM);
    assert_true(x.t->n_applied > 0);
    return x;
}

static void make_room(struct world *x)
{
    x->w->shard->o.max_bytes = enough;
    lone_pass_time(x->w, SECOND_NS);
    assert_int_equal(x->t->sync.next, 2);
    assert_int_equal(x->t->n_applied, 0);
}

static void test_retries_copy_rows_once(void **state)
{
    (void)state;
    struct world x = open_stuck();
    for (int i = 0; i < 10; i++) {
        size_t was = x.t->before.n;
        assert_true(was < x.n);
        lone_pass_time(x.w, SECOND_NS);
        assert_int_equal(x.t->before.n, was);
    }
    make_room(&x);
    assert_int_equal(x.t->before.n, x.n);
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
                        "batch 1, which can't be applied: no room for another row");
    make_room(&x);
    lone_send_pull(x.w, 0, &m);
    parcel_unpin(lone_expect(x.w, MSG_PULLED));
    lone_close(x.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retries_copy_rows_once),
        cmocka_unit_test(test_retries_pause),
        cmocka_unit_test(test_waiting_pull_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
