// Compares the two clocks, of synchronous batches and of bounded delay, with naive
// models.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/test.h"
#include "server/clocks/ssp_clock.h"
#include "server/clocks/sync_clock.h"

enum { MICROS = SHARD_MICROS, ROUNDS = 20000 };

// A naive model of a sync_clock: the micro-batches that have arrived in each open batch.
struct model {
    bool in[SHARD_MAX_CLOCKS][MICROS];
    uint64_t next;
};

static bool model_has(const struct model *m, uint64_t clock, uint32_t micro,
                      uint32_t micros)
{
    for (uint32_t i = micro; i < micro + micros && clock >= m->next; i++)
        if (!m->in[clock % SHARD_MAX_CLOCKS][i])
            return false;
    return true;
}

// Checks that the parts of a batch are sorted and disjoint, and cover exactly the
// micro-batches that have arrived.
static void check_batch(const struct sync_batch *b, const bool in[MICROS])
{
    uint32_t end = 0, covered = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        assert_true(b->parts[i].micro >= end);
        end = b->parts[i].micro + b->parts[i].micros;
        for (uint32_t m = b->parts[i].micro; m < end; m++) {
            assert_true(in[m]);
            covered++;
        }
    }
    for (uint32_t m = 0; m < MICROS; m++)
        covered -= in[m];
    assert_int_equal(covered, 0);
}

static void test_sync_clock(void **state)
{
    (void)state;
    struct sync_clock c = {0};
    struct model m = {0};
    int parts[ROUNDS] = {0}; // for each part: 1 if the contribution is kept
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint8_t micros = (uint8_t)(1u << random_below(5, round, 0, 5));
        uint8_t micro = (uint8_t)(random_below(5, round, 1, MICROS / micros) * micros);
        uint64_t back = m.next > 0 ? 1 : 0;
        uint64_t clock = m.next - back + random_below(5, round, 2, 4);
        void *dropped[MICROS];
        assert_int_equal(sync_clock_check(clock, micro, micros, NULL), 0);
        bool has = model_has(&m, clock, micro, micros);
        assert_true(sync_clock_has(&c, clock, micro, micros) == has);
        if (has)
            continue;
        parts[round] = 1;
        uint32_t n = sync_clock_add(&c, clock, micro, micros, &parts[round], dropped);
        for (uint32_t i = 0; i < n; i++)
            --*(int *)dropped[i];
        for (uint32_t i = micro; i < micro + micros; i++)
            m.in[clock % SHARD_MAX_CLOCKS][i] = true;
        check_batch(&c.open[clock % SHARD_MAX_CLOCKS], m.in[clock % SHARD_MAX_CLOCKS]);
        while (sync_clock_complete(&c)) {
            assert_true(model_has(&m, m.next, 0, MICROS));
            assert_int_equal(sync_clock_missing(&c), 0);
            struct sync_batch *b = sync_clock_next(&c);
            for (uint32_t i = 0; i < b->n; i++)
                --*(int *)b->parts[i].what;
            memset(m.in[m.next % SHARD_MAX_CLOCKS], 0, MICROS);
            m.next++;
            sync_clock_advance(&c);
            assert_int_equal(c.next, m.next);
        }
    }
    assert_true(m.next > 100);
    // Each contribution that was added was dropped once or still belongs to an open
    // batch.
    for (uint32_t i = 0; i < SHARD_MAX_CLOCKS; i++)
        for (uint32_t p = 0; p < c.open[i].n; p++)
            --*(int *)c.open[i].parts[p].what;
    for (uint32_t i = 0; i < ROUNDS; i++)
        assert_int_equal(parts[i], 0);
}

static void test_ssp_clock(void **state)
{
    (void)state;
    enum { SESSIONS = 8 };
    struct ssp_clock c = SSP_CLOCK_INIT;
    uint64_t clock[SESSIONS] = {0}, newest[SESSIONS] = {0};
    bool living[SESSIONS] = {0}, ticked[SESSIONS] = {0};
    // no worker has sent a tick, so no pull waits
    assert_true(ssp_clock_open(&c, 1000, 0));
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t who = random_below(6, round, 0, SESSIONS);
        if (random_below(6, round, 1, 10) == 0) {
            uint64_t sessions[SESSIONS];
            size_t n = 0;
            living[who] = !living[who];
            for (uint64_t i = 0; i < SESSIONS; i++)
                if (living[i])
                    sessions[n++] = 10 + i * 7 % SESSIONS;
                else
                    clock[i] = newest[i] = ticked[i] = 0;
            assert_int_equal(ssp_clock_living(&c, sessions, n), 0);
        } else {
            uint64_t at = random_below(6, round, 2, 50) + round / 400;
            if (round % 500 == 0)
                at = SSP_FINISHED;
            // Some ticks arrive after later ticks.
            uint64_t request = 10 + round - random_below(6, round, 3, 10);
            if (request >= newest[who]) {
                newest[who] = request;
                ticked[who] = true;
                if (at > clock[who] || clock[who] == SSP_FINISHED)
                    clock[who] = at;
            }
            assert_int_equal(ssp_clock_tick(&c, 10 + who * 7 % SESSIONS, request, at), 0);
        }
        uint64_t slowest = SSP_FINISHED;
        for (uint64_t i = 0; i < SESSIONS; i++)
            if (living[i] && ticked[i] && clock[i] < slowest)
                slowest = clock[i];
        assert_int_equal(c.slowest, slowest);
        assert_true(ssp_clock_open(&c, 60, 3) == (slowest >= 57));
    }
    assert_true(ssp_clock_open(&c, 3, 3) && ssp_clock_open(&c, 0, 0));
    ssp_clock_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sync_clock),
        cmocka_unit_test(test_ssp_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
