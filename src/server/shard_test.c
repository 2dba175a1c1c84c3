// A shard among workers: pushes and pulls are compared with a naive model, and each push
// is applied once however often it arrives. Further tests: refusals, placement, sessions,
// admin operations, walks and memory.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/lone_shard.h"

#include <math.h>
#include <stdio.h>

#include "base/random.h"
#include "kit/test.h"
#include "protocol/bf16.h"
#include "protocol/limits.h"
#include "server/clocks/pending.h"
#include "server/moves/partition.h"

enum { BITS = 4, KEYS = 600, WIDTH = 3, T = 5 };

static const struct shard_options plain;

// Opens a shard with table T. Its rows have WIDTH floats, to which pushes add their
// values.
static struct lone *open_with_table(const struct shard_options *o, enum wire_mode mode)
{
    struct lone *w = lone_open(BITS, o);
    struct table_spec s = lone_plain_spec(T, mode, WIDTH);
    lone_make_table(w, &s);
    return w;
}

// Draws each of the n keys in `all` with probability 1 / one_of, and keeps their order.
static uint32_t some_keys(const uint64_t *all, uint32_t n, uint64_t draw, uint64_t one_of,
                          uint64_t *ret)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++)
        if (random_below(1, draw, i, one_of) == 0)
            ret[found++] = all[i];
    return found;
}

static void check_pull(struct lone *w, const uint64_t *keys, uint32_t n,
                       const double *model, const uint64_t *all, uint32_t n_all)
{
    struct msg_pull m = lone_pull_of(w, 0, T, keys, n);
    lone_send_pull(w, 0, &m);
    struct parcel *p = lone_expect(w, MSG_PULLED);
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

// Three workers push integers. Each push is sent up to three times; some pushes have
// values in bf16, or only the signature of a list of keys. At the end each row has the
// sum of the distinct pushes.
static void test_sums(void **state)
{
    (void)state;
    struct lone *w = open_with_table(&plain, WIRE_ASYNC);
    static uint64_t all[KEYS], keys[KEYS];
    static float values[KEYS * WIDTH];
    static uint16_t halves[KEYS * WIDTH];
    static double model[KEYS * WIDTH];
    uint64_t pushes = 0, repeats = 0;
    memset(model, 0, sizeof(model));
    uint32_t n_all = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 977, all);
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
        struct msg_push m = lone_push_of(w, worker, T, keys, n, values, WIDTH);
        if (round % 3 == 0) {
            bf16_from_n(halves, values, n * WIDTH);
            m.flags = WIRE_BF16;
            m.values = (struct wire_span){halves, (uint64_t)n * WIDTH * 2};
        }
        if (round % 5 == 0)
            m.list = 1000 + round;
        lone_send_push(w, worker, &m);
        lone_expect_ok(w);
        pushes++;
        for (uint64_t again = random_below(4, round, 0, 3); again > 0; again--) {
            if (m.list != 0)
                m.keys.n = 0; // the key list is named by its signature only
            lone_send_push(w, worker, &m);
            lone_expect_ok(w);
            repeats++;
        }
        check_pull(w, keys, n, model, all, n_all);
    }
    check_pull(w, all, n_all, model, all, n_all);
    struct msg_table_is is = lone_figures(w, T);
    assert_int_equal(is.pushes, pushes);
    assert_int_equal(is.examples, pushes);
    assert_int_equal(is.repeats, repeats);
    assert_true(is.rows <= n_all && is.rows > n_all / 2);
    lone_close(w);
}

// Sends pushes with an older or newer epoch, and for partitions of another shard.
static void test_placement(void **state)
{
    (void)state;
    struct lone *w = open_with_table(&plain, WIRE_ASYNC);
    uint64_t keys[KEYS];
    float values[KEYS * WIDTH];
    for (uint32_t i = 0; i < KEYS * WIDTH; i++)
        values[i] = 1;
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, keys);
    w->epoch = 3;
    lone_send_roster(w);
    // A request with an older epoch is served if the shard still owns its partitions.
    struct msg_push m = lone_push_of(w, 0, T, keys, n, values, WIDTH);
    m.epoch = 1;
    lone_send_push(w, 0, &m);
    lone_expect_ok(w);
    // Partition 0 moves to the other shard.
    w->epoch = 4;
    w->mine[0] = false;
    lone_send_roster(w);
    m = lone_push_of(w, 0, T, keys, n, values, WIDTH);
    m.epoch = 3;
    lone_send_push(w, 0, &m);
    struct parcel *p = lone_expect(w, MSG_ROSTER);
    assert_int_equal(p->m.roster.epoch, 4);
    assert_int_equal(p->frame.request, w->next_request);
    parcel_unpin(p);
    m.epoch = 4;
    lone_send_push(w, 0, &m);
    lone_expect_refusal(w, TUG_EUSAGE,
                        "partition 0 does not belong to node 8 in epoch 4");
    assert_true(*shards_row(w->shard, T, keys[0]) == 1);
    // A request with a newer epoch waits for the newer roster, and so do the pushes
    // behind it.
    w->mine[0] = true;
    m.epoch = 5;
    lone_send_push(w, 0, &m);
    struct msg_pull pull = lone_pull_of(w, 1, T, keys, n);
    pull.epoch = 5;
    lone_send_pull(w, 1, &pull);
    assert_null(w->sent);
    w->epoch = 5;
    lone_send_roster(w);
    lone_expect_ok(w);
    p = lone_expect(w, MSG_PULLED);
    assert_true(*(const float *)p->m.pulled.values.data == 2);
    parcel_unpin(p);
    // The newer roster never arrives, although the scheduler is alive. The request waits
    // as long as a member would try to reach a lost scheduler.
    pull.epoch = 6;
    lone_send_pull(w, 1, &pull);
    lone_pass_time(w, 999 * SECOND_NS);
    assert_true(pending_wants(w->shard, WANTS_ROSTER));
    lone_send_roster(w);
    lone_forget(w);
    lone_pass_time(w, SECOND_NS);
    lone_expect_refusal(w, TUG_EIO, "newer placement has not come for 1000 s");
    lone_close(w);
}

// Requests that arrive before the first placement wait for it, and keep their texts.
static void test_before_placement(void **state)
{
    (void)state;
    struct lone *w = lone_open_shard(BITS, &plain);
    lone_open_worker(w, 0);
    lone_forget(w);
    struct table_spec s = lone_plain_spec(T, WIRE_ASYNC, WIDTH);
    s.config.init_low = s.config.init_high = 2;
    w->epoch = 1; // the worker has the first placement already
    lone_send_table(w, &s);
    assert_null(w->sent);
    lone_send_roster(w);
    lone_expect_ok(w);
    lone_make_table(w, &s); // a repeat
    uint64_t keys[KEYS];
    lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, keys);
    struct msg_pull pull = lone_pull_of(w, 0, T, keys, 1);
    lone_send_pull(w, 0, &pull);
    struct parcel *p = lone_expect(w, MSG_PULLED);
    assert_true(*(const float *)p->m.pulled.values.data == 2);
    parcel_unpin(p);
    lone_close(w);
}

static void test_bad_pushes(void **state)
{
    (void)state;
    struct lone *w = open_with_table(&plain, WIRE_ASYNC);
    uint64_t keys[KEYS], swap[2];
    float values[KEYS * WIDTH] = {0};
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, keys);
    swap[0] = keys[n - 1];
    swap[1] = keys[0];
    const char *who = "push of table 't5' by worker 1 (host:111): ";
    struct {
        struct msg_push m;
        const char *says;
    } bad[14];
    size_t count = 0;
#define BAD(text, change)                                                                \
    do {                                                                                 \
        struct msg_push m = lone_push_of(w, 1, T, keys, n, values, WIDTH);               \
        change;                                                                          \
        bad[count].m = m;                                                                \
        bad[count++].says = text;                                                        \
    } while (0)
    BAD("there is no table 6 on node 8", m.table = 6);
    BAD("there is no table 4294967295", m.table = UINT32_MAX);
    BAD("operation 4 is not known", m.op = 4);
    BAD("rate or pass is not finite", m.rate = NAN);
    BAD("bytes of values, but", m.values.n -= 4);
    BAD("bytes of values, but", m.op = WIRE_ROW; m.values.n += 4);
    BAD("bytes of values, but", m.flags = WIRE_BF16);
    BAD("it announces", m.n = n - 1; m.values.n -= WIDTH * 4);
    BAD("4294967295 keys", m.n = UINT32_MAX);
    BAD("by ascending partition", m.n = 2; m.keys.data = swap; m.keys.n = 16;
        m.values.n = 2 * WIDTH * 4);
    BAD("key list unknown", m.list = 4; m.keys.n = 0);
    BAD("more than 63 above", m.number = 1000);
    BAD("but it acknowledges all numbers below", m.low = m.number + 1);
    BAD("names session 1000, but the link belongs to session 1001", m.session = 1000);
#undef BAD
    assert_int_equal(count, sizeof(bad) / sizeof(*bad));
    for (size_t i = 0; i < count; i++) {
        lone_send_push(w, 1, &bad[i].m);
        lone_expect_refusal(w, TUG_EUSAGE, bad[i].says);
    }
    // Flags that the type of message does not have are refused.
    const uint8_t odd[] = {WIRE_ROWS_WHOLE, WIRE_FOUND, 128, 192, 255};
    for (size_t i = 0; i < sizeof(odd); i++) {
        struct msg_push m = lone_push_of(w, 1, T, keys, n, values, WIDTH);
        struct msg_app app = {.flags = odd[i]};
        m.flags = odd[i];
        lone_send_push(w, 1, &m);
        lone_expect_refusal(w, TUG_EDATA, "push: its flags");
        struct msg_pull pull = lone_pull_of(w, 1, T, keys, n);
        pull.flags = odd[i] | WIRE_AGAIN;
        lone_send_pull(w, 1, &pull);
        lone_expect_refusal(w, TUG_EDATA, "pull: its flags");
        app.flags |= 16;
        lone_deliver(w, WORKER_LINK, MSG_APP, 7, &app);
        lone_expect_refusal(w, TUG_EDATA, "app: its flags");
    }
    // A push with a value that is not finite is refused as a whole, with its key.
    float nothing[] = {INFINITY, -INFINITY, NAN};
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t at = i; at < n * WIDTH; at += 97) {
            struct msg_push m = lone_push_of(w, 1, T, keys, n, values, WIDTH);
            char says[128];
            m.low = 1;
            m.number = 1;
            values[at] = nothing[i];
            snprintf(says, sizeof(says), "%svalue %u of key %llu is not finite", who,
                     at % WIDTH, (unsigned long long)keys[at / WIDTH]);
            lone_send_push(w, 1, &m);
            lone_expect_refusal(w, TUG_EUSAGE, says);
            uint16_t halves[KEYS * WIDTH];
            bf16_from_n(halves, values, n * WIDTH);
            m.flags = WIRE_BF16;
            m.values = (struct wire_span){halves, n * WIDTH * 2};
            lone_send_push(w, 1, &m);
            lone_expect_refusal(w, TUG_EUSAGE, says);
            values[at] = 0;
        }
    struct msg_table_is is = lone_figures(w, T);
    assert_int_equal(is.rows, 0);
    assert_int_equal(is.pushes, 0);
    // A push without keys is accepted.
    struct msg_push m = lone_push_of(w, 2, T, NULL, 0, NULL, WIDTH);
    lone_send_push(w, 2, &m);
    lone_expect_ok(w);
    assert_int_equal(lone_figures(w, T).examples, 0);
    // Unknown messages, and ticks of tables of another mode, are refused.
    struct msg_tick tick = {.epoch = w->epoch, .table = T, .session = lone_session(0)};
    lone_deliver(w, WORKER_LINK, MSG_TICK, 5, &tick);
    lone_expect_refusal(w, TUG_EUSAGE, "not one of mode ssp");
    lone_deliver(w, WORKER_LINK, MSG_LEASE, 6, &(struct msg_lease){0});
    lone_expect_refusal(w, TUG_EUSAGE, "does not answer messages of this kind");
    lone_deliver(w, WORKER_LINK, MSG_APP, 7, &(struct msg_app){0});
    lone_expect_refusal(w, TUG_EUSAGE, "does not answer messages of this kind");
    lone_close(w);
}

// The count of a key must be above 0, because it is a divisor.
static void test_occurrences(void **state)
{
    (void)state;
    struct lone *w = lone_open(BITS, &plain);
    struct table_spec s = lone_plain_spec(T, WIRE_ASYNC, 1);
    snprintf(s.config.accessor.name, sizeof(s.config.accessor.name), "features");
    s.config.accessor.dim = 0;
    lone_make_table(w, &s);
    uint64_t keys[KEYS];
    lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, keys);
    float good[] = {1, 2, 0}, bad[][3] = {{1, 0, 1}, {1, -1, 1}, {1, 1, -1}};
    for (int i = 0; i < 3; i++) {
        struct msg_push m = lone_push_of(w, 0, T, keys, 1, bad[i], 3);
        lone_send_push(w, 0, &m);
        lone_expect_refusal(w, TUG_EUSAGE, "cannot occur");
    }
    struct msg_push m = lone_push_of(w, 0, T, keys, 1, good, 3);
    lone_send_push(w, 0, &m);
    lone_expect_ok(w);
    assert_true(shards_row(w->shard, T, keys[0])[1] == 2);
    lone_close(w);
}

// A dead worker's messages are refused. If another worker repeats its work, a repeated
// push is recognised by its identity until the piece is done.
static void test_sessions(void **state)
{
    (void)state;
    struct lone *w = open_with_table(&plain, WIRE_ASYNC);
    uint64_t keys[KEYS];
    float values[KEYS * WIDTH];
    for (uint32_t i = 0; i < KEYS * WIDTH; i++)
        values[i] = 1;
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, keys);
    // The worker dies after it has sent the first half of the keys.
    struct msg_push m = lone_push_of(w, 0, T, keys, n / 2, values, WIDTH);
    m.id_pass = 1;
    m.id_piece = 7;
    m.id_group = 2;
    lone_send_push(w, 0, &m);
    lone_expect_ok(w);
    w->dead[0] = true;
    lone_send_roster(w);
    lone_send_push(w, 0, &m);
    lone_expect_refusal(w, TUG_EIO,
                        "push was sent by worker 0 (host:110), whose session has ended");
    lone_deliver(w, WORKER_LINK, MSG_APP, 8, &(struct msg_app){0});
    lone_expect_refusal(w, TUG_EIO,
                        "app was sent by worker 0 (host:110), whose session has ended");
    w->h.closed(w->h.ctx, WORKER_LINK, &(struct err){0}, w->now);
    w->h.opened(w->h.ctx, WORKER_LINK + 5, true, w->now);
    struct msg_hello hello = {.cluster = 77, .node = WORKER, .session = 1000};
    lone_deliver(w, WORKER_LINK + 5, MSG_HELLO, 0, &hello);
    lone_expect_refusal(w, TUG_EIO, "the session of worker 0 (host:110) is over");
    // Another worker repeats the work. Its push is applied only in partitions that have
    // not applied the first push, even if the first push had fewer keys.
    struct msg_push again = lone_push_of(w, 1, T, keys, n, values, WIDTH);
    again.id_pass = 1;
    again.id_piece = 7;
    again.id_group = 2;
    lone_send_push(w, 1, &again);
    lone_expect_ok(w);
    uint32_t half = roster_partition(BITS, WIRE_SPACE_SPARSE, keys[n / 2 - 1]);
    for (uint32_t i = 0; i < n; i++) {
        // The first push ended in the middle of partition `half`, which keeps the values
        // of that push.
        uint32_t p = roster_partition(BITS, WIRE_SPACE_SPARSE, keys[i]);
        const float *row = shards_row(w->shard, T, keys[i]);
        assert_true(p == half ? (row != NULL) == (i < n / 2) : *row == 1);
    }
    struct msg_forget forget = {.pass = 1, .piece = 7};
    lone_deliver(w, SCHEDULER_LINK, MSG_FORGET, 0, &forget);
    lone_send_push(w, 1, &again); // a repeat of this worker's own push is recognised by
                                  // its number
    lone_expect_ok(w);
    assert_true(*shards_row(w->shard, T, keys[0]) == 1);
    lone_deliver(w, SCHEDULER_LINK, MSG_FORGET, 0, &forget);
    again.number++;
    lone_send_push(w, 1, &again);
    lone_expect_ok(w);
    assert_true(*shards_row(w->shard, T, keys[0]) == 2);
    // Links without HELLO are closed, and messages before HELLO are ignored.
    w->h.opened(w->h.ctx, 50, true, w->now);
    w->h.opened(w->h.ctx, 51, true, w->now);
    lone_deliver(w, 51, MSG_PUSH, 1, &m);
    assert_int_equal(w->closed, 51);
    lone_forget(w);
    lone_pass_time(w, 25 * SECOND_NS);
    assert_int_equal(w->closed, 50);
    // A second HELLO is answered, because the first answer may be lost.
    uint8_t proof[MAC_BYTES];
    hello = (struct msg_hello){
        .cluster = 77, .role = WIRE_WORKER, .node = WORKER + 1, .session = 1001};
    lone_prove_hello(&hello, proof);
    lone_deliver(w, WORKER_LINK + 1, MSG_HELLO, 0, &hello);
    parcel_unpin(lone_expect(w, MSG_WELCOME));
    lone_close(w);
}

// Pushes can set weights or whole rows, and can be answered by rows.
static void test_set(void **state)
{
    (void)state;
    struct lone *w = lone_open(BITS, &plain);
    struct table_spec s = lone_plain_spec(T, WIRE_SYNC, 2);
    s.config.accessor.rule = rule_defaults(RULE_ADAGRAD); // 2 floats of state per row
    lone_make_table(w, &s);
    uint64_t keys[KEYS];
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, keys);
    float values[KEYS * 4];
    for (uint32_t i = 0; i < KEYS * 4; i++)
        values[i] = (float)i;
    struct msg_push m = lone_push_of(w, 0, T, keys, n, values, 4);
    m.op = WIRE_ROW;
    lone_send_push(w, 0, &m);
    lone_expect_ok(w);
    for (uint32_t i = 0; i < n; i++)
        assert_memory_equal(shards_row(w->shard, T, keys[i]), values + i * 4, 16);
    float change[] = {1, 1, 1, 1};
    m = lone_push_of(w, 0, T, keys + 4, 1, change, 4);
    m.op = WIRE_DELTA;
    lone_send_push(w, 0, &m);
    lone_expect_ok(w);
    assert_true(shards_row(w->shard, T, keys[4])[3] == 20);
    float weights[] = {-1, -2};
    m = lone_push_of(w, 0, T, keys + 3, 1, weights, 2);
    m.op = WIRE_ASSIGN;
    m.flags = WIRE_ALSO_PULL;
    lone_send_push(w, 0, &m);
    struct parcel *p = lone_expect(w, MSG_PULLED);
    assert_memory_equal(p->m.pulled.values.data, weights, 8);
    parcel_unpin(p);
    const float *row = shards_row(w->shard, T, keys[3]);
    assert_true(row[0] == -1 && row[1] == -2 && row[2] == 14 && row[3] == 15);
    lone_close(w);
}

// Pulls of whole rows tell which keys have rows, return initial values for all other
// keys, and can use bf16.
static void test_whole_rows(void **state)
{
    (void)state;
    struct lone *w = lone_open(BITS, &plain);
    struct table_spec s = lone_plain_spec(T, WIRE_ASYNC, 2);
    s.config.accessor.rule = rule_defaults(RULE_ADAGRAD);
    s.config.init_low = -1;
    s.config.init_high = 1;
    s.config.seed = 3;
    assert_int_equal(spec_make(&s, T, &s.config, NULL), 0);
    lone_make_table(w, &s);
    uint64_t keys[KEYS];
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, keys);
    for (uint32_t i = 0; i < n; i += 3) {
        float row[4] = {(float)i, 1, 2, 3};
        struct msg_push m = lone_push_of(w, 0, T, keys + i, 1, row, 4);
        m.op = WIRE_ROW;
        lone_send_push(w, 0, &m);
        lone_expect_ok(w);
    }
    struct table *first;
    struct table_options rows = {.seed = 3, .id = T, .width = s.accessor.width};
    accessor_inits(&s.accessor, -1, 1, 0, 0, &rows);
    assert_int_equal(table_open(&first, &rows, NULL), 0);
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (int whole = 0; whole < 2; whole++) {
            struct msg_pull m = lone_pull_of(w, 0, T, keys, n);
            uint32_t width = whole ? 4 : 2;
            m.flags = (uint8_t)((whole ? WIRE_ROWS_WHOLE : 0) | (bf16 ? WIRE_BF16 : 0));
            lone_send_pull(w, 0, &m);
            struct parcel *p = lone_expect(w, MSG_PULLED);
            assert_int_equal(p->m.pulled.flags, m.flags);
            assert_int_equal(p->m.pulled.values.n, n * width * (bf16 ? 2 : 4));
            assert_int_equal(p->m.pulled.found.n, whole ? (n + 7) / 8 : 0);
            const uint8_t *found = p->m.pulled.found.data;
            for (uint32_t i = 0; i < n; i++) {
                float want[4] = {(float)i, 1, 2, 3};
                if (i % 3 != 0)
                    table_first_values(first, keys[i], want);
                if (whole)
                    assert_int_equal(found[i / 8] >> (i % 8) & 1, i % 3 == 0);
                for (uint32_t c = 0; c < width; c++) {
                    const char *at = p->m.pulled.values.data;
                    float f;
                    uint16_t half;
                    memcpy(&half, at + (i * width + c) * (bf16 ? 2 : 4), 2);
                    memcpy(&f, at + (i * width + c) * (bf16 ? 2 : 4), bf16 ? 2 : 4);
                    f = bf16 ? bf16_to(half) : f;
                    assert_true(f == (bf16 ? bf16_to(bf16_from(want[c])) : want[c]));
                }
            }
            parcel_unpin(p);
        }
    assert_int_equal(lone_figures(w, T).rows, (n + 2) / 3); // a pull makes no row
    table_close(first);
    lone_close(w);
}

// A pull with a version gets the rows of the partitions that have changed since that
// version.
static void test_versions(void **state)
{
    (void)state;
    struct lone *w = open_with_table(&plain, WIRE_ASYNC);
    uint64_t keys[KEYS];
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, keys);
    float copy[KEYS * WIDTH], values[WIDTH] = {1, 2, 3};
    uint64_t version = 0;
    for (uint64_t round = 0; round < 60; round++) {
        struct msg_pull pull = lone_pull_of(w, 0, T, keys, n);
        pull.version = version;
        lone_send_pull(w, 0, &pull);
        struct parcel *p = lone_expect(w, MSG_PULLED);
        const float *from = p->m.pulled.values.data;
        const uint8_t *changed = p->m.pulled.changed.data;
        assert_int_equal(p->m.pulled.changed.n, version != 0 ? 8 : 0);
        uint64_t got = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t part = roster_partition(BITS, WIRE_SPACE_SPARSE, keys[i]);
            if (version == 0 || (changed[part / 8] >> (part % 8) & 1))
                memcpy(copy + i * WIDTH, from + WIDTH * got++, WIDTH * sizeof(float));
        }
        assert_int_equal(p->m.pulled.values.n, got * WIDTH * sizeof(float));
        assert_true(version == 0 || got <= 3 * n / 4);
        version = p->m.pulled.version;
        assert_true(version != 0);
        parcel_unpin(p);
        for (uint32_t i = 0; i < n; i++) {
            const float *row = shards_row(w->shard, T, keys[i]), none[WIDTH] = {0};
            assert_memory_equal(copy + i * WIDTH, row != NULL ? row : none,
                                WIDTH * sizeof(float));
        }
        for (uint64_t k = random_below(9, round, 0, 4); k > 0; k--) {
            struct msg_push m = lone_push_of(w, 0, T, &keys[random_below(9, round, k, n)],
                                             1, values, WIDTH);
            lone_send_push(w, 0, &m);
            lone_expect_ok(w);
        }
    }
    lone_close(w);
}

static void operate(struct lone *w, uint64_t id, uint32_t table, enum wire_admin what,
                    uint32_t other)
{
    struct msg_table_do m = {.table = table,
                             .what = (uint8_t)what,
                             .other = other,
                             .number = id,
                             .low = id & ~(uint64_t)(ADMIN_WINDOW - 1)};
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, id, &m);
    const struct shard_table *t = table < SPEC_MAX_TABLES ? w->shard->tables[table]
                                                          : NULL;
    while (t != NULL && what != WIRE_DROP && t->turn.on)
        lone_pass_time(w, 1000);
}

static void test_admin_operations(void **state)
{
    (void)state;
    struct lone *w = open_with_table(&plain, WIRE_ASYNC);
    uint64_t keys[KEYS];
    float values[KEYS * WIDTH];
    for (uint32_t i = 0; i < KEYS * WIDTH; i++)
        values[i] = 1;
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, keys);
    struct msg_push m = lone_push_of(w, 0, T, keys, n, values, WIDTH);
    lone_send_push(w, 0, &m);
    lone_expect_ok(w);
    operate(w, 1001, T, WIRE_COPY, 6);
    lone_expect_ok(w);
    operate(w, 1002, T, WIRE_CLEAR, 0);
    lone_expect_ok(w);
    assert_null(shards_row(w->shard, T, keys[0]));
    assert_true(*shards_row(w->shard, 6, keys[n - 1]) == 1);
    // A late repeat of the operation is ignored.
    m = lone_push_of(w, 0, T, keys, n, values, WIDTH);
    lone_send_push(w, 0, &m);
    lone_expect_ok(w);
    operate(w, 1002, T, WIRE_CLEAR, 0);
    lone_expect_ok(w);
    assert_true(*shards_row(w->shard, T, keys[0]) == 1);
    // Copies the table back over existing rows.
    operate(w, 1003, 6, WIRE_COPY, T);
    lone_expect_ok(w);
    operate(w, 1004, 6, WIRE_DROP, 0);
    lone_expect_ok(w);
    operate(w, 1005, 6, WIRE_DROP, 0);
    lone_expect_ok(w);
    assert_int_equal(lone_figures(w, T).rows, n);
    // A copy into an existing table keeps that table's settings. Table 7 has the settings
    // of T, but is synchronous, and stays so.
    struct table_spec other = lone_plain_spec(7, WIRE_SYNC, WIDTH);
    lone_make_table(w, &other);
    operate(w, 1010, T, WIRE_COPY, 7);
    lone_expect_ok(w);
    assert_int_equal(lone_figures(w, 7).rows, n);
    lone_make_table(w, &other);
    other = lone_plain_spec(8, WIRE_ASYNC, WIDTH + 1);
    lone_make_table(w, &other);
    operate(w, 1011, T, WIRE_COPY, 8);
    lone_expect_refusal(w, TUG_EUSAGE,
                        "cannot become a copy of 't5': it differs in its dim");
    operate(w, 1012, 6, WIRE_CLEAR, 0);
    lone_expect_refusal(w, TUG_EUSAGE, "there is no table 6");
    operate(w, 1013, T, WIRE_COPY, SPEC_MAX_TABLES);
    lone_expect_refusal(w, TUG_EUSAGE, "a table's number must be below 4096");
    operate(w, 1014, T, 99, 0);
    lone_expect_refusal(w, TUG_EUSAGE, "operation 99");
    struct msg_table_do far = {.table = T, .number = 1040, .low = 1015};
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, 1, &far);
    lone_expect_refusal(w, TUG_EUSAGE, "is more than 15 above 1015");
    far.low = 1041;
    lone_deliver(w, WORKER_LINK, MSG_TABLE_DO, 1, &far);
    lone_expect_refusal(w, TUG_EUSAGE, "is below 1041");
    // A late operation over another link of the session is not done either.
    w->h.closed(w->h.ctx, WORKER_LINK, &(struct err){0}, w->now);
    lone_open_worker(w, 0);
    lone_forget(w);
    operate(w, 1003, 6, WIRE_CLEAR, 0);
    lone_expect_ok(w);
    lone_close(w);
}

// Walks over the rows of all partitions, page by page. Checks that no row is missing, and
// that the rows are in order.
static void walk(struct lone *w, enum wire_space space, uint32_t max, uint32_t rows)
{
    uint32_t found = 0;
    for (uint32_t p = 0; p < 1u << BITS; p++) {
        struct msg_rows m = {.table = T, .epoch = 1, .partition = p, .max = max};
        for (bool more = w->mine[p]; more;) {
            lone_deliver(w, WORKER_LINK, MSG_ROWS, ++w->next_request, &m);
            struct parcel *page = lone_expect(w, MSG_ROWS_ARE);
            const struct msg_rows_are *is = &page->m.rows_are;
            const uint64_t *keys = is->keys.data;
            assert_true(is->n <= max && is->keys.n == is->n * 8);
            assert_int_equal(is->values.n, is->n * WIDTH * 4);
            for (uint32_t i = 0; i < is->n; i++, found++) {
                assert_int_equal(roster_partition(BITS, space, keys[i]), p);
                assert_true(keys[i] >= m.from && (i == 0 || keys[i] > keys[i - 1]));
                assert_memory_equal((const float *)is->values.data + i * WIDTH,
                                    shards_row(w->shard, T, keys[i]), WIDTH * 4);
            }
            more = is->more;
            assert_true(!more || is->n > 0);
            m.from = more ? keys[is->n - 1] + 1 : 0;
            parcel_unpin(page);
        }
    }
    assert_int_equal(found, rows);
}

static void test_walks_over_rows(void **state)
{
    (void)state;
    for (enum wire_space space = 0; space < WIRE_SPACES; space++) {
        struct lone *w = lone_open(BITS, &plain);
        struct table_spec s = lone_plain_spec(T, WIRE_ASYNC, WIDTH);
        s.config.place = lone_place_of(space);
        lone_make_table(w, &s);
        uint64_t keys[KEYS], step = UINT64_MAX / KEYS;
        float values[KEYS * WIDTH];
        for (uint32_t i = 0; i < KEYS * WIDTH; i++)
            values[i] = (float)i;
        uint32_t n = lone_draw_keys(w, space, KEYS, step, keys);
        walk(w, space, 7, 0);
        struct msg_push m = lone_push_of(w, 0, T, keys, n - 1, values, WIDTH);
        lone_send_push(w, 0, &m);
        lone_expect_ok(w);
        walk(w, space, 7, n - 1);
        m = lone_push_of(w, 0, T, keys + n - 1, 1, values, WIDTH);
        lone_send_push(w, 0, &m);
        lone_expect_ok(w);
        walk(w, space, 1000, n); // a new walk also finds the new rows
        struct msg_rows rows = {.table = T, .epoch = 1, .partition = 1 << BITS, .max = 1};
        lone_deliver(w, WORKER_LINK, MSG_ROWS, 1, &rows);
        lone_expect_refusal(w, TUG_EUSAGE, "there is no partition 16");
        rows = (struct msg_rows){.table = T, .epoch = 1, .partition = 3, .max = 1};
        lone_deliver(w, WORKER_LINK, MSG_ROWS, 1, &rows);
        lone_expect_refusal(w, TUG_EUSAGE, "partition 3 does not belong to node 8");
        operate(w, 1, T, WIRE_CLEAR, 0);
        lone_expect_ok(w);
        rows = (struct msg_rows){
            .table = T, .epoch = 1, .partition = 1, .max = 1, .from = 1};
        lone_deliver(w, WORKER_LINK, MSG_ROWS, 1, &rows);
        struct parcel *p = lone_expect(w, MSG_ROWS_ARE);
        assert_int_equal(p->m.rows_are.n, 0);
        parcel_unpin(p);
        lone_close(w);
    }
}

// At the limit of memory no new row is made, but existing rows can still be changed.
static void test_full(void **state)
{
    (void)state;
    struct shard_options o = {.max_bytes = 1};
    struct lone *w = lone_open(BITS, &plain);
    lone_close(w);
    w = lone_open(BITS, &o);
    struct table_spec s = lone_plain_spec(T, WIRE_ASYNC, WIDTH);
    lone_make_table(w, &s);
    uint64_t keys[KEYS];
    float values[KEYS * WIDTH] = {1};
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, keys);
    struct msg_push m = lone_push_of(w, 0, T, keys, n, values, WIDTH);
    lone_send_push(w, 0, &m);
    lone_expect_refusal(w, TUG_ENOMEM,
                        "no room for another row of table t5: it holds 0 rows");
    w->shard->o.max_bytes = UINT64_MAX;
    lone_send_push(w, 0, &m);
    lone_expect_ok(w);
    w->shard->o.max_bytes = 1;
    m = lone_push_of(w, 0, T, keys, n, values, WIDTH);
    lone_send_push(w, 0, &m);
    lone_expect_ok(w);
    assert_true(*shards_row(w->shard, T, keys[0]) == 2);
    operate(w, 1, T, WIRE_COPY, 9);
    lone_expect_refusal(w, TUG_ENOMEM, "no room for a copy");
    lone_close(w);
}

// Each allocation from the making of a table to its end fails once. Refused requests are
// repeated, and take effect once.
static void test_allocations(void **state)
{
    (void)state;
    bool struck = true;
    for (long fault = 0; struck; fault++) {
        struct lone *w = lone_open(BITS, &plain);
        struct table_spec s = lone_plain_spec(T, WIRE_ASYNC, WIDTH);
        uint64_t keys[KEYS];
        float values[KEYS * WIDTH];
        uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, KEYS, 1, keys);
        for (uint32_t i = 0; i < KEYS * WIDTH; i++)
            values[i] = 1;
        struct msg_push push = lone_push_of(w, 0, T, keys, n, values, WIDTH);
        struct msg_pull pull = lone_pull_of(w, 0, T, keys, n);
        struct msg_rows rows = {.table = T, .epoch = 1, .max = KEYS};
        struct msg_push late = lone_push_of(w, 0, T, keys, n, values, WIDTH);
        push.id_pass = 1;
        push.list = pull.list = 9;
        late.epoch = 2;
        struck = false;
        for (int what = 0; what < 8; what++) {
            w->fault_after = fault;
            if (what == 0)
                lone_send_table(w, &s);
            else if (what == 1)
                lone_send_push(w, 0, &push);
            else if (what == 2)
                lone_send_pull(w, 0, &pull);
            else if (what == 3)
                lone_deliver(w, WORKER_LINK, MSG_ROWS, 1, &rows);
            else if (what == 4)
                operate(w, 77, T, WIRE_COPY, 6);
            else if (what == 5)
                lone_deliver(w, WORKER_LINK, MSG_STATUS, 2, &(struct msg_status){});
            else if (what == 6)
                lone_send_push(w, 0, &late); // this push must wait
            else
                operate(w, 78, 6, WIRE_CLEAR, 0);
            w->fault_after = -1;
            struck |= w->faulted;
            lone_forget(w);
            // After any failure, the request succeeds when it is repeated, and has its
            // effect exactly once.
            if (what == 0)
                lone_make_table(w, &s);
            if (what == 1)
                lone_send_push(w, 0, &push);
            if (what == 4)
                operate(w, 77, T, WIRE_COPY, 6);
            if (what == 7)
                operate(w, 78, 6, WIRE_CLEAR, 0);
            lone_forget(w);
        }
        lone_send_push(w, 0, &late);
        w->epoch = 2;
        lone_send_roster(w);
        lone_forget(w);
        for (uint32_t i = 0; i < n; i++)
            assert_true(*shards_row(w->shard, T, keys[i]) == 2);
        assert_int_equal(lone_figures(w, 6).rows, 0);
        lone_close(w);
    }
}

static void test_move(void **state)
{
    (void)state;
    struct lone *a = open_with_table(&plain, WIRE_ASYNC);
    struct lone *b = open_with_table(&plain, WIRE_ASYNC);
    uint64_t keys[KEYS];
    float values[KEYS * WIDTH];
    struct err e;
    for (uint32_t i = 0; i < KEYS * WIDTH; i++)
        values[i] = (float)i;
    uint32_t n = lone_draw_keys(a, WIRE_SPACE_SPARSE, KEYS, 1, keys);
    struct msg_push m = lone_push_of(a, 0, T, keys, n, values, WIDTH);
    lone_send_push(a, 0, &m);
    lone_expect_ok(a);
    assert_int_equal(partition_drop(b->shard, WIRE_SPACE_SPARSE, 2, &e), 0);
    assert_int_equal(shards_move(a->shard, b->shard, 2, &e), 0);
    for (uint32_t i = 0; i < n; i++) {
        bool moved = roster_partition(BITS, WIRE_SPACE_SPARSE, keys[i]) == 2;
        struct lone *there = moved ? b : a, *gone = moved ? a : b;
        assert_memory_equal(shards_row(there->shard, T, keys[i]), values + i * WIDTH,
                            WIDTH * 4);
        assert_null(shards_row(gone->shard, T, keys[i]));
    }
    // Repeats the push at the new shard, which knows the push in the partition that has
    // moved.
    lone_send_push(b, 0, &m);
    lone_expect_ok(b);
    for (uint32_t i = 0; i < n; i++)
        assert_memory_equal(shards_row(b->shard, T, keys[i]), values + i * WIDTH,
                            WIDTH * 4);
    b->live = SIZE_MAX; // lone_close(a) checks the memory of both shards
    lone_close(b);
    lone_close(a);
}

// TABLE, STEP and TICK are served only if their epoch is the shard's, because all shards
// of one placement must get them.
static void test_whole_requests(void **state)
{
    (void)state;
    struct lone *w = open_with_table(&plain, WIRE_SSP);
    w->epoch = 3;
    lone_send_roster(w);
    struct msg_tick tick = {.table = T, .session = lone_session(0), .clock = 2};
    struct msg_step step = {.session = lone_session(0), .steps = 5};
    struct table_spec other = lone_plain_spec(T + 1, WIRE_ASYNC, WIDTH);
    for (uint64_t epoch = 2; epoch <= 4; epoch++) {
        tick.epoch = step.epoch = epoch;
        w->epoch = epoch;
        lone_deliver(w, WORKER_LINK, MSG_TICK, ++w->next_request, &tick);
        lone_deliver(w, WORKER_LINK, MSG_STEP, ++w->next_request, &step);
        lone_send_table(w, &other);
        for (int i = 0; i < 3; i++) {
            if (epoch == 2)
                parcel_unpin(lone_expect(w, MSG_ROSTER));
            else if (epoch == 3)
                lone_expect_ok(w);
            else
                assert_null(w->sent); // the epoch is newer, so the requests wait for the
                                      // roster
        }
        assert_int_equal(w->shard->tables[T + 1] != NULL, epoch >= 3);
    }
    lone_send_roster(w);
    for (int i = 0; i < 3; i++)
        lone_expect_ok(w);
    lone_close(w);
}

static void test_tables(void **state)
{
    (void)state;
    struct lone *w = open_with_table(&plain, WIRE_ASYNC);
    struct table_spec s = lone_plain_spec(T, WIRE_ASYNC, WIDTH + 1);
    lone_send_table(w, &s);
    lone_expect_refusal(w, TUG_EUSAGE,
                        "table 5 is 't5' already and differs from 't5' in its dim");
    lone_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_placement),
        cmocka_unit_test(test_before_placement),
        cmocka_unit_test(test_bad_pushes),
        cmocka_unit_test(test_occurrences),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_whole_rows),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_admin_operations),
        cmocka_unit_test(test_walks_over_rows),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_move),
        cmocka_unit_test(test_whole_requests),
        cmocka_unit_test(test_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
