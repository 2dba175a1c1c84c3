// A shard among workers: pushes and pulls beside a naive model, once each whatever comes
// twice; refusals; placement, sessions, orders, walks, memory.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/shard_testing.h"

#include <math.h>
#include <stdio.h>

#include "server/bf16.h"

enum { BITS = 4, KEYS = 600, WIDTH = 3, T = 5 };

static const struct shard_options plain;

// A world with table T of WIDTH floats that add up.
static struct world *open_with_table(const struct shard_options *o, enum wire_mode mode)
{
    struct world *w = world_open(BITS, o);
    struct table_spec s = plain_spec(T, mode, WIDTH);
    make_table(w, &s);
    return w;
}

// Random keys of `all`, in their order.
static uint32_t some_keys(const uint64_t *all, uint32_t n, uint64_t draw, uint64_t one_of,
                          uint64_t *ret)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++)
        if (random_below(1, draw, i, one_of) == 0)
            ret[found++] = all[i];
    return found;
}

static void check_pull(struct world *w, const uint64_t *keys, uint32_t n,
                       const double *model, const uint64_t *all, uint32_t n_all)
{
    struct msg_pull m = pull_of(w, 0, T, keys, n);
    send_pull(w, 0, &m);
    struct parcel *p = expect_sent(w, MSG_PULLED);
    assert_int_equal(p->m.pulled.n, n);
    assert_int_equal(p->m.pulled.width, WIDTH);
    assert_int_equal(p->m.pulled.values.n, (uint64_t)n * WIDTH * 4);
    const float *values = p->m.pulled.values.data;
    for (uint32_t i = 0, at = 0; i < n; i++) {
        while (all[at] != keys[i])
            assert_true(++at < n_all);
        for (uint32_t c = 0; c < WIDTH; c++)
            assert_true(values[i * WIDTH + c] == (float)model[at * WIDTH + c]);
    }
    parcel_unpin(p);
}

// Integer pushes of three workers, each of them sent up to three times, in part with
// values as bf16 or by the signature of their keys: every key holds the sum.
static void test_sums(void **state)
{
    (void)state;
    struct world *w = open_with_table(&plain, WIRE_ASYNC);
    static uint64_t all[KEYS], keys[KEYS];
    static float values[KEYS * WIDTH];
    static uint16_t halves[KEYS * WIDTH];
    static double model[KEYS * WIDTH];
    uint64_t pushes = 0, repeats = 0;
    memset(model, 0, sizeof(model));
    uint32_t n_all = draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 977, all);
    for (uint32_t round = 0; round < 300; round++) {
        uint32_t worker = (uint32_t)random_below(2, round, 0, WORKERS);
        uint32_t n = some_keys(all, n_all, round, 1 + round % 7, keys);
        if (n == 0)
            continue;
        for (uint32_t i = 0, at = 0; i < n; i++) {
            while (all[at] != keys[i])
                at++;
            for (uint32_t c = 0; c < WIDTH; c++) {
                float x = (float)random_below(3, round, i * WIDTH + c, 9) - 4;
                values[i * WIDTH + c] = x;
                model[at * WIDTH + c] += (double)x;
            }
        }
        struct msg_push m = push_of(w, worker, T, keys, n, values, WIDTH);
        if (round % 3 == 0) {
            bf16_from_n(halves, values, n * WIDTH);
            m.flags = WIRE_BF16;
            m.values = (struct wire_span){halves, (uint64_t)n * WIDTH * 2};
        }
        if (round % 5 == 0)
            m.list = 1000 + round;
        send_push(w, worker, &m);
        expect_ok(w);
        pushes++;
        for (uint64_t again = random_below(4, round, 0, 3); again > 0; again--) {
            if (m.list != 0)
                m.keys.n = 0; // known by its signature
            send_push(w, worker, &m);
            expect_ok(w);
            repeats++;
        }
        check_pull(w, keys, n, model, all, n_all);
    }
    check_pull(w, all, n_all, model, all, n_all);
    struct msg_table_is is = figures_of(w, T);
    assert_int_equal(is.pushes, pushes);
    assert_int_equal(is.examples, pushes);
    assert_int_equal(is.repeats, repeats);
    assert_true(is.rows <= n_all && is.rows > n_all / 2);
    world_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
