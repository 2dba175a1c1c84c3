// Compares a line of waiting items with a naive one, and tests the longest time that an
// item waits in it.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/kvapp/line.h"

#include <stdbool.h>
#include <string.h>

#include "kit/rng.h"
#include "kit/test.h"

enum { N = 3000 };

struct thing {
    struct kv_lined in_line;
    int32_t priority;
    // The order of arrival; the number for kv_line_put_at_once, 0: put by kv_line_put.
    uint64_t came, number;
    bool waits;
};

static struct thing things[N];

// Returns the item that kv_line_take must return next: the item with the smallest number;
// if no item has a number, the item with the greatest priority, and of several such items
// the oldest.
static struct thing *naive_first(size_t n)
{
    struct thing *best = NULL;
    for (size_t i = 0; i < n; i++) {
        struct thing *t = &things[i];
        if (!t->waits)
            continue;
        if (best == NULL || (t->number != 0) > (best->number != 0) ||
            (t->number != 0 && best->number != 0 && t->number < best->number) ||
            (t->number == 0 && best->number == 0 && t->priority > best->priority))
            best = t;
    }
    return best;
}

static struct thing *naive_oldest(size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (things[i].waits)
            return &things[i];
    return NULL;
}

// kv_line_take returns the first item by priority or, after KV_OVERTAKES such items, the
// oldest one.
static void against_naive(void **state)
{
    (void)state;
    struct rng r = {.seed = 1};
    struct kv_line l = {0};
    size_t n = 0, taken = 0, aged = 0;
    memset(things, 0, sizeof(things));
    while (taken < N) {
        if (n < N && rng_below(&r, 2) == 0) {
            struct thing *t = &things[n++];
            t->waits = true;
            t->priority = (int32_t)rng_below(&r, 5) - 2;
            kv_line_put(&l, &t->in_line, t->priority);
            continue;
        }
        struct thing *first = naive_first(n), *oldest = naive_oldest(n);
        struct thing *t = (struct thing *)kv_line_take(&l);
        assert_true((t == NULL) == (first == NULL));
        if (t == NULL)
            continue;
        assert_true(t == first || t == oldest);
        aged += t != first;
        t->waits = false;
        taken++;
    }
    assert_true(aged > 0);
    assert_true(l.first == NULL && l.last == NULL && l.n == 0);
}

// An item with a low priority is taken although there is always one with a greater
// priority.
static void low_priority_gets_a_turn(void **state)
{
    (void)state;
    struct kv_line l = {0};
    struct thing *low[2] = {&things[0], &things[1]};
    memset(things, 0, sizeof(things));
    kv_line_put(&l, &low[0]->in_line, INT32_MIN);
    kv_line_put(&l, &low[1]->in_line, -1);
    for (int i = 0, next = 2; i < 2; i++)
        for (int turn = 0;; turn++) {
            kv_line_put(&l, &things[next++].in_line, INT32_MAX);
            struct thing *t = (struct thing *)kv_line_take(&l);
            if (turn < KV_OVERTAKES) {
                assert_true(t != low[0] && t != low[1]);
                continue;
            }
            assert_ptr_equal(t, low[i]);
            break;
        }
}

// Items of kv_line_put_at_once are taken in the order of their numbers, before all other
// items, however long the other items have waited.
static void at_once(void **state)
{
    (void)state;
    struct kv_line l = {0};
    memset(things, 0, sizeof(things));
    for (int i = 0; i < 10; i++)
        kv_line_put(&l, &things[i].in_line, i);
    for (uint64_t k = 1; k <= 200; k++)
        kv_line_put_at_once(&l, &things[10 + k * 7 % 200].in_line, k * 7 % 200 + 1);
    for (uint64_t k = 1; k <= 200; k++)
        assert_int_equal(kv_line_take(&l)->order, k);
    for (int i = 9; i >= 0; i--)
        assert_ptr_equal(kv_line_take(&l), &things[i].in_line);
    assert_null(kv_line_take(&l));
    kv_line_put(&l, &things[0].in_line, 1);
    kv_line_clear(&l);
    assert_null(kv_line_take(&l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_naive),
        cmocka_unit_test(low_priority_gets_a_turn),
        cmocka_unit_test(at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
