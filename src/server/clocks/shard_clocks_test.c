// Sync and ssp tables: a batch that arrives in contributions of any size and order gives
// the same bits as the tree over its micro-batches. Pulls wait as long as they should,
// and no longer.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/lone_shard.h"

#include <stdio.h>

#include "base/random.h"
#include "kit/test.h"
#include "protocol/bf16.h"

enum { BITS = 3, KEYS = 60, WIDTH = 2, T = 2, MICROS = SHARD_MICROS };

static const struct shard_options plain;
static const float lr = 0.125f;

static struct lone *open_sync(bool mean)
{
    struct lone *w = lone_open(BITS, &plain);
    struct table_spec s = lone_plain_spec(T, WIRE_SYNC, WIDTH);
    struct rule_params *rule = &s.config.accessor.rule;
    *rule = rule_defaults(RULE_SGD);
    rule->lr = lr;
    rule->l1 = rule->l2 = rule->prior = 0;
    s.config.mean = mean;
    lone_make_table(w, &s);
    return w;
}

// The gradients of a batch: for each micro-batch, whether it has a key, and the key's
// gradient.
struct batch {
    bool has[MICROS][KEYS];
    float g[MICROS][KEYS][WIDTH];
    uint64_t examples[MICROS];
};

static void draw_batch(struct batch *b, uint64_t clock)
{
    for (uint32_t m = 0; m < MICROS; m++) {
        b->examples[m] = random_below(10, clock, m, 50);
        for (uint32_t k = 0; k < KEYS; k++) {
            b->has[m][k] = random_below(11, clock, m * KEYS + k, 3) == 0;
            for (uint32_t c = 0; c < WIDTH; c++)
                b->g[m][k][c] = random_f32(12, clock, (m * KEYS + k) * WIDTH + c) * 3 - 1;
        }
    }
}

// Computes the sum of a key's gradients over micro-batches [micro, micro + micros), in
// the order of the tree. Returns whether any of these micro-batches has the key.
static bool tree(const struct batch *b, uint32_t micro, uint32_t micros, uint32_t key,
                 float ret[WIDTH])
{
    if (micros == 1) {
        memcpy(ret, b->g[micro][key], WIDTH * sizeof(float));
        return b->has[micro][key];
    }
    float right[WIDTH];
    bool l = tree(b, micro, micros / 2, key, ret);
    bool r = tree(b, micro + micros / 2, micros / 2, key, right);
    for (uint32_t c = 0; c < WIDTH && r; c++)
        ret[c] = l ? ret[c] + right[c] : right[c];
    return l || r;
}

// Pushes the sums of a range of micro-batches, for those keys that the shard owns.
static void send_range(struct lone *w, const struct batch *b, uint64_t clock,
                       uint32_t micro, uint32_t micros, uint32_t worker)
{
    uint64_t all[KEYS], keys[KEYS];
    float values[KEYS * WIDTH];
    uint32_t n_all = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, all), n = 0;
    for (uint32_t i = 0; i < n_all; i++)
        if (tree(b, micro, micros, (uint32_t)all[i], values + n * WIDTH))
            keys[n++] = all[i];
    struct msg_push m = lone_push_of(w, worker, T, keys, n, values, WIDTH);
    m.clock = clock;
    m.micro = (uint8_t)micro;
    m.micros = (uint8_t)micros;
    m.examples = 0;
    for (uint32_t i = micro; i < micro + micros; i++)
        m.examples += b->examples[i];
    lone_send_push(w, worker, &m);
    lone_expect_ok(w);
}

struct range {
    uint32_t micro, micros;
};

// Divides micro-batches [micro, micro + micros) into random dyadic ranges.
// Returns their number.
static uint32_t cut(uint64_t draw, uint32_t micro, uint32_t micros, struct range *ret)
{
    if (micros == 1 || random_below(20, draw, micro * 100 + micros, 3) == 0) {
        *ret = (struct range){micro, micros};
        return 1;
    }
    uint32_t n = cut(draw, micro, micros / 2, ret);
    return n + cut(draw, micro + micros / 2, micros / 2, ret + n);
}

static void shuffle(struct range *x, uint32_t n, uint64_t draw)
{
    for (uint32_t i = n; i > 1; i--) {
        uint64_t j = random_below(21, draw, i, i);
        struct range y = x[i - 1];
        x[i - 1] = x[j];
        x[j] = y;
    }
}

// Sends the batch in parts, some of them repeated and some nested in others.
static void send_batch(struct lone *w, const struct batch *b, uint64_t clock)
{
    struct range x[3 * MICROS];
    uint32_t n = cut(clock, 0, MICROS, x);
    // of two overlapping parts, the larger one is used
    uint32_t more = cut(clock + 1000, 0, MICROS, x + n);
    if (clock % 3 == 0)
        more = 0;
    shuffle(x, n + more, clock);
    for (uint32_t i = 0; i < n + more; i++)
        send_range(w, b, clock, x[i].micro, x[i].micros, i % WORKERS);
    if (clock % 4 == 1)
        send_range(w, b, clock, x[0].micro, x[0].micros, 0);
}

static void check_rows(struct lone *w, float model[KEYS][WIDTH])
{
    uint64_t all[KEYS];
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, all);
    for (uint32_t i = 0; i < n; i++) {
        const float *row = shards_row(w->shard, T, all[i]);
        for (uint32_t c = 0; c < WIDTH; c++)
            assert_true((row != NULL ? row[c] : 0) == model[all[i]][c]);
    }
}

static void apply_model(const struct batch *b, bool mean, float model[KEYS][WIDTH])
{
    uint64_t examples = 0;
    for (uint32_t m = 0; m < MICROS; m++)
        examples += b->examples[m];
    float scale = mean ? 1 / (float)examples : 1, g[WIDTH];
    for (uint32_t k = 0; k < KEYS; k++)
        for (uint32_t c = 0; tree(b, 0, MICROS, k, g) && c < WIDTH; c++)
            model[k][c] -= lr * (g[c] * scale);
}

static void test_batches(void **state)
{
    (void)state;
    for (int mean = 0; mean < 2; mean++) {
        struct lone *w = open_sync(mean);
        static struct batch b[2];
        float model[KEYS][WIDTH] = {{0}};
        for (uint64_t clock = 0; clock < 60; clock += 2) {
            draw_batch(&b[0], clock);
            draw_batch(&b[1], clock + 1);
            // Sometimes the later batch is complete first.
            bool swap = clock % 8 == 4;
            send_batch(w, &b[swap], clock + swap);
            if (swap)
                check_rows(w, model);
            send_batch(w, &b[!swap], clock + !swap);
            apply_model(&b[0], mean, model);
            apply_model(&b[1], mean, model);
            check_rows(w, model);
            assert_int_equal(lone_figures(w, T).clock, clock + 2);
        }
        lone_close(w);
    }
}

// A push may contain a whole batch, with its values in bf16.
static void test_bf16(void **state)
{
    (void)state;
    struct lone *w = open_sync(false);
    uint64_t keys[KEYS];
    uint16_t values[KEYS * WIDTH];
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, keys);
    for (uint32_t i = 0; i < n * WIDTH; i++)
        values[i] = bf16_from(-1);
    struct msg_push m = lone_push_of(w, 0, T, keys, n, NULL, WIDTH);
    m.flags = WIRE_BF16;
    m.values = (struct wire_span){values, n * WIDTH * 2};
    m.micros = MICROS;
    lone_send_push(w, 0, &m);
    assert_int_equal(lone_expect_ok(w), 0); // the answer: no update was left out
    assert_int_equal(lone_figures(w, T).clock, 1);
    for (uint32_t i = 0; i < n; i++)
        assert_true(*shards_row(w->shard, T, keys[i]) == lr);
    lone_close(w);
}

static void test_refusals(void **state)
{
    (void)state;
    struct lone *w = open_sync(false);
    struct {
        uint64_t clock;
        uint8_t micro, micros, flags;
        const char *says;
    } bad[] = {
        {0, 0, 0, 0, "0 micro-batches"},
        {0, 0, 3, 0, "3 micro-batches"},
        {0, 2, 4, 0, "4 micro-batches from number 2 on"},
        {0, 16, 1, 0, "from number 16 on"},
        {0, 0, 32, 0, "32 micro-batches"},
        {0, 0, 1, WIRE_ALSO_PULL, "pull them afterwards"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct msg_push m = lone_push_of(w, 0, T, NULL, 0, NULL, WIDTH);
        m.clock = bad[i].clock;
        m.micro = bad[i].micro;
        m.micros = bad[i].micros;
        m.flags = bad[i].flags;
        lone_send_push(w, 0, &m);
        lone_expect_refusal(w, TUG_EUSAGE, bad[i].says);
    }
    lone_close(w);
}

// A worker may be any number of batches ahead of the others: its pushes wait, and are
// later acknowledged and applied in the order of their batches.
static void test_pushes_wait(void **state)
{
    (void)state;
    enum { AHEAD = 3 * SHARD_MAX_CLOCKS, HALF = SHARD_MICROS / 2 };
    struct lone *w = open_sync(false);
    struct msg_push m = lone_push_of(w, 0, T, NULL, 0, NULL, WIDTH);
    uint64_t first = w->next_request + 1;
    m.micros = HALF;
    for (m.clock = 0; m.clock < AHEAD; m.clock++) {
        lone_send_push(w, 0, &m);
        if (m.clock < SHARD_MAX_CLOCKS)
            assert_int_equal(lone_expect_ok(w), 0);
        else
            assert_null(w->sent);
    }
    assert_int_equal(lone_figures(w, T).held, AHEAD - SHARD_MAX_CLOCKS);
    m = lone_push_of(w, 1, T, NULL, 0, NULL, WIDTH);
    m.micro = m.micros = HALF;
    for (m.clock = 0; m.clock < AHEAD; m.clock++) {
        lone_send_push(w, 1, &m);
        assert_int_equal(lone_expect_ok(w), 0);
        if (m.clock + SHARD_MAX_CLOCKS < AHEAD) {
            struct parcel *p = lone_expect(w, MSG_OK);
            assert_int_equal(p->frame.request, first + m.clock + SHARD_MAX_CLOCKS);
            parcel_unpin(p);
        }
        assert_null(w->sent);
        assert_int_equal(lone_figures(w, T).clock, m.clock + 1);
    }
    // If no other worker arrives, an error says which micro-batches are missing.
    m.clock = 2 * AHEAD;
    lone_send_push(w, 1, &m);
    lone_pass_time(w, 601 * SECOND_NS);
    lone_expect_refusal(
        w, TUG_EIO, "micro-batches 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 of batch 12");
    lone_close(w);
}

// Pushes and pulls of a worker that is ahead wait as long as batches go on: each applied
// batch restarts their time limit.
static void test_slow_batches(void **state)
{
    (void)state;
    enum { AHEAD = 5 * SHARD_MAX_CLOCKS, HALF = SHARD_MICROS / 2 };
    struct lone *w = open_sync(false);
    struct msg_push m = lone_push_of(w, 0, T, NULL, 0, NULL, WIDTH);
    struct msg_pull pull = lone_pull_of(w, 2, T, NULL, 0);
    m.micros = HALF;
    for (m.clock = 0; m.clock < AHEAD; m.clock++)
        lone_send_push(w, 0, &m);
    pull.clock = AHEAD;
    lone_send_pull(w, 2, &pull);
    lone_forget(w);
    m = lone_push_of(w, 1, T, NULL, 0, NULL, WIDTH);
    m.micro = m.micros = HALF;
    for (m.clock = 0; m.clock < AHEAD; m.clock++) {
        lone_pass_time(w, 100 * SECOND_NS);
        assert_null(w->sent);
        lone_send_push(w, 1, &m);
        for (int answers = m.clock + SHARD_MAX_CLOCKS < AHEAD ? 2 : 1; answers > 0;
             answers--)
            assert_int_equal(lone_expect_ok(w), 0);
    }
    parcel_unpin(lone_expect(w, MSG_PULLED));
    lone_close(w);
}

// Pulls wait for their batch, are answered in order, and block no other request.
static void test_pulls_wait(void **state)
{
    (void)state;
    struct lone *w = open_sync(false);
    static struct batch b;
    uint64_t keys[KEYS];
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, keys);
    struct msg_pull m = lone_pull_of(w, 0, T, keys, n);
    for (m.clock = 1; m.clock <= 2; m.clock++)
        lone_send_pull(w, 0, &m);
    uint64_t waiting = w->next_request;
    assert_null(w->sent);
    assert_int_equal(lone_figures(w, T).held, 2);
    lone_deliver(w, WORKER_LINK, MSG_PING, 1,
                 // Without this message the link would count as silent.
                 &(struct msg_ping){});
    assert_int_equal(lone_expect_ok(w), 0);
    m.clock = 0;
    lone_send_pull(w, 0, &m);
    parcel_unpin(lone_expect(w, MSG_PULLED));
    draw_batch(&b, 0);
    send_range(w, &b, 0, 0, 8, 0);
    assert_null(w->sent);
    send_range(w, &b, 0, 8, 8, 0);
    struct parcel *p = lone_expect(w, MSG_PULLED);
    assert_int_equal(p->frame.request, waiting - 1);
    const float *row = shards_row(w->shard, T, keys[0]);
    if (row != NULL)
        assert_memory_equal(p->m.pulled.values.data, row, WIDTH * sizeof(float));
    parcel_unpin(p);
    assert_null(w->sent);
    // If the second half of a batch never arrives, an error says which
    // micro-batches are missing.
    send_range(w, &b, 1, 0, 8, 0);
    lone_pass_time(w, 599 * SECOND_NS);
    assert_null(w->sent);
    lone_pass_time(w, 2 * SECOND_NS);
    lone_expect_refusal(w, TUG_EIO, "micro-batches 8 9 10 11 12 13 14 15 of batch 1");
    // If the link of a waiting request closes, the request is dropped.
    m = lone_pull_of(w, 1, T, keys, n);
    m.clock = 5;
    lone_send_pull(w, 1, &m);
    w->h.closed(w->h.ctx, WORKER_LINK + 1, &(struct err){0}, w->now);
    assert_int_equal(lone_figures(w, T).held, 0);
    lone_close(w);
}

static void send_tick(struct lone *w, uint32_t i, uint64_t clock)
{
    struct msg_tick m = {
        .epoch = w->epoch, .table = T, .session = lone_session(i), .clock = clock};
    lone_deliver(w, WORKER_LINK + i, MSG_TICK, ++w->next_request, &m);
}

static void test_ssp(void **state)
{
    (void)state;
    struct lone *w = lone_open(BITS, &plain);
    struct table_spec s = lone_plain_spec(T, WIRE_SSP, 1);
    s.config.staleness = 2;
    lone_make_table(w, &s);
    uint64_t keys[KEYS];
    assert_true(lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, keys) > 0);
    struct msg_pull m = lone_pull_of(w, 0, T, keys, 1);
    m.clock = 2; // not further ahead than the staleness bound
    lone_send_pull(w, 0, &m);
    parcel_unpin(lone_expect(w, MSG_PULLED));
    m.clock = 5;
    send_tick(w, 1, 2);
    // the answer to a tick is the slowest worker's clock
    assert_int_equal(lone_expect_ok(w), 2);
    lone_send_pull(w, 0, &m);
    send_tick(w, 0, 5);
    assert_int_equal(lone_expect_ok(w), 2);
    send_tick(w, 2, 2);
    assert_int_equal(lone_expect_ok(w), 2);
    send_tick(w, 1, 3);
    assert_int_equal(lone_expect_ok(w), 2);
    assert_null(w->sent);
    send_tick(w, 2, 3);
    assert_int_equal(lone_expect_ok(w), 3);
    parcel_unpin(lone_expect(w, MSG_PULLED));
    // Earlier ticks that arrive late change nothing.
    send_tick(w, 2, 1);
    assert_int_equal(lone_expect_ok(w), 3);
    // A worker that has finished or died delays no other worker.
    m.clock = 9;
    lone_send_pull(w, 0, &m);
    send_tick(w, 0, 9);
    assert_int_equal(lone_expect_ok(w), 3);
    send_tick(w, 1, UINT64_MAX);
    assert_int_equal(lone_expect_ok(w), 3);
    assert_null(w->sent);
    w->dead[2] = true;
    lone_send_roster(w);
    parcel_unpin(lone_expect(w, MSG_PULLED));
    // If a finished worker begins again, the others wait for it again. A tick that it
    // sent before and that arrives only now is ignored.
    uint64_t late = ++w->next_request;
    send_tick(w, 1, 7);
    assert_int_equal(lone_expect_ok(w), 7);
    m.clock = 10;
    lone_send_pull(w, 0, &m);
    assert_null(w->sent);
    struct msg_tick end = {
        .epoch = w->epoch, .table = T, .session = lone_session(1), .clock = UINT64_MAX};
    lone_deliver(w, WORKER_LINK + 1, MSG_TICK, late, &end);
    assert_int_equal(lone_expect_ok(w), 7);
    assert_null(w->sent);
    send_tick(w, 1, 8);
    assert_int_equal(lone_expect_ok(w), 8);
    parcel_unpin(lone_expect(w, MSG_PULLED));
    lone_close(w);
}

// A worker delays no other worker before its first tick, and may delay others after it.
static void test_ssp_late_worker(void **state)
{
    (void)state;
    struct lone *w = lone_open(BITS, &plain);
    struct table_spec s = lone_plain_spec(T, WIRE_SSP, 1);
    s.config.staleness = 2;
    lone_make_table(w, &s);
    struct msg_pull m = lone_pull_of(w, 0, T, NULL, 0);
    m.clock = 9;
    send_tick(w, 0, 9);
    assert_int_equal(lone_expect_ok(w), 9);
    // Workers 1 and 2 have joined and sent no tick yet, as if they still read their data.
    lone_send_pull(w, 0, &m);
    parcel_unpin(lone_expect(w, MSG_PULLED));
    send_tick(w, 1, 4);
    assert_int_equal(lone_expect_ok(w), 4);
    lone_send_pull(w, 0, &m);
    assert_null(w->sent);
    send_tick(w, 1, 7);
    assert_int_equal(lone_expect_ok(w), 7);
    parcel_unpin(lone_expect(w, MSG_PULLED));
    lone_close(w);
}

static void test_ssp_names_the_slow(void **state)
{
    (void)state;
    struct lone *w = lone_open(BITS, &plain);
    struct table_spec s = lone_plain_spec(T, WIRE_SSP, 1);
    lone_make_table(w, &s);
    struct msg_pull m = lone_pull_of(w, 0, T, NULL, 0);
    m.clock = 4;
    send_tick(w, 0, 4);
    send_tick(w, 1, 3);
    send_tick(w, 2, 0);
    lone_forget(w);
    lone_send_pull(w, 0, &m);
    lone_pass_time(w, 601 * SECOND_NS);
    struct parcel *p = lone_expect(w, MSG_ERROR);
    char text[ERR_TEXT_MAX];
    snprintf(text, sizeof(text), "%.*s", (int)p->m.error.what.n, p->m.error.what.data);
    assert_string_equal(text,
                        "pull of table 't2' at clock 4 has waited 601 s for worker 1 "
                        "(host:111) at clock 3, worker 2 (host:112) at clock 0");
    parcel_unpin(p);
    lone_close(w);
}

// Each allocation fails once while a batch arrives. Refused requests are repeated, and
// the rows are right.
static void test_allocations(void **state)
{
    (void)state;
    static struct batch b;
    draw_batch(&b, 3);
    float model[KEYS][WIDTH] = {{0}};
    apply_model(&b, false, model);
    bool struck = true;
    for (long n = 0; struck; n++) {
        struct lone *w = open_sync(false);
        uint64_t all[KEYS];
        struct msg_pull pull = lone_pull_of(w, 0, T, all, 0);
        struck = false;
        pull.clock = 1;
        lone_send_pull(w, 0, &pull);
        for (uint32_t part = 0; part < 4; part++) {
            uint64_t keys[KEYS];
            float values[KEYS * WIDTH];
            uint32_t n_all = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, all),
                     found = 0;
            for (uint32_t i = 0; i < n_all; i++)
                if (tree(&b, part * 4, 4, (uint32_t)all[i], values + found * WIDTH))
                    keys[found++] = all[i];
            struct msg_push m = lone_push_of(w, 0, T, keys, found, values, WIDTH);
            m.micro = (uint8_t)(part * 4);
            m.micros = 4;
            w->fault_after = n;
            lone_send_push(w, 0, &m);
            w->fault_after = -1;
            struck |= w->faulted;
            lone_forget(w);
            // Sent again, because the push was refused or its answer was lost.
            lone_send_push(w, 0, &m);
            lone_expect_ok(w);
        }
        check_rows(w, model);
        lone_close(w);
    }
}

// Numbers that would overflow when increased are refused in every message.
static void test_numbers_at_the_end(void **state)
{
    (void)state;
    struct lone *w = lone_open(BITS, &plain);
    struct table_spec s = lone_plain_spec(T, WIRE_SYNC, WIDTH);
    lone_make_table(w, &s);
    struct msg_table_do set = {
        .table = T, .what = WIRE_CLOCK, .number = 1, .low = 1, .clock = UINT64_MAX};
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, 1, &set);
    lone_expect_refusal(w, TUG_EUSAGE, "there is no batch");
    set.number = 2;
    set.clock = SYNC_CLOCK_MAX;
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, 2, &set);
    lone_expect_ok(w);
    uint64_t key = 0;
    while (!w->mine[roster_partition(BITS, s.space, key)])
        key++;
    float values[WIDTH] = {0};
    struct msg_push m = lone_push_of(w, 0, T, &key, 1, values, WIDTH);
    m.clock = SYNC_CLOCK_MAX;
    m.micros = SHARD_MICROS;
    lone_send_push(w, 0, &m);
    lone_expect_ok(w);
    m.number = ++w->number[0];
    m.clock++;
    lone_send_push(w, 0, &m);
    lone_expect_refusal(w, TUG_EUSAGE, "there is no batch");
    // The sum of the steps of two sessions may not exceed a limit. A peer without a
    // session may not send ticks.
    for (uint32_t i = 0; i < 2; i++) {
        struct msg_step step = {
            .epoch = w->epoch, .session = lone_session(i), .steps = INT64_MAX};
        lone_deliver(w, WORKER_LINK + i, MSG_STEP, 3, &step);
        lone_expect_refusal(w, TUG_EUSAGE, "9223372036854775807 steps, but more than");
        step.steps = WIRE_STEPS_MAX + 1;
        lone_deliver(w, WORKER_LINK + i, MSG_STEP, 3, &step);
        lone_expect_refusal(w, TUG_EUSAGE, "more than 281474976710656 are not possible");
        step.steps = WIRE_STEPS_MAX;
        lone_deliver(w, WORKER_LINK + i, MSG_STEP, 3, &step);
        assert_true(lone_expect_ok(w) == (i + 1) * WIRE_STEPS_MAX);
        step.least = WIRE_STEPS_MAX + 1;
        lone_deliver(w, WORKER_LINK + i, MSG_STEP, 3, &step);
        lone_expect_refusal(w, TUG_EUSAGE, "more than 281474976710656 are not possible");
    }
    struct msg_hello tool = {.cluster = 77, .role = WIRE_TOOL};
    struct msg_tick tick = {.epoch = w->epoch, .table = T, .clock = 1};
    w->h.opened(w->h.ctx, 99, true, w->now);
    lone_deliver(w, 99, MSG_HELLO, 0, &tool);
    lone_forget(w);
    lone_deliver(w, 99, MSG_TICK, 4, &tick);
    lone_expect_refusal(w, TUG_EUSAGE, "join the cluster first");
    lone_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_pushes_wait),
        cmocka_unit_test(test_slow_batches),
        cmocka_unit_test(test_pulls_wait),
        cmocka_unit_test(test_ssp),
        cmocka_unit_test(test_ssp_late_worker),
        cmocka_unit_test(test_ssp_names_the_slow),
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_numbers_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
