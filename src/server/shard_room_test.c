// A shard's memory is limited: answers wait until earlier ones are sent, waiting requests
// are counted, and clients that read are served while others do not.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "kit/lone_shard.h"
#include "kit/test.h"
#include "protocol/limits.h"

enum { BITS = 3, T = 2, WIDTH = 4, KEYS = 40 };
#define MIB ((uint64_t)1 << 20)

struct room {
    struct budget budget;
    struct lone *w;
    uint64_t keys[KEYS];
    uint32_t n; // number of keys that the shard owns
    size_t live;
};

static void room_open(struct room *r, enum wire_mode mode)
{
    r->live = mem_live();
    budget_open(&r->budget, 64 * MIB);
    struct shard_options o = {.budget = &r->budget};
    r->w = lone_open(BITS, &o);
    struct table_spec s = lone_plain_spec(T, mode, WIDTH);
    lone_make_table(r->w, &s);
    r->n = lone_draw_keys(r->w, WIRE_SPACE_SPARSE, KEYS, 1, r->keys);
}

// Closes the shard and checks that the budget counts no memory any more.
static void room_close(struct room *r)
{
    lone_close(r->w);
    for (int k = 0; k < BUDGET_KINDS; k++)
        assert_int_equal(budget_used(&r->budget, (enum budget_kind)k), 0);
    assert_int_equal(atomic_load(&r->budget.used), 0);
}

static void pull(struct room *r, uint32_t worker)
{
    struct msg_pull m = lone_pull_of(r->w, worker, T, r->keys, r->n);
    lone_send_pull(r->w, worker, &m);
}

// Sets the rows of all keys to x.
static void assign(struct room *r, uint32_t worker, float x, uint8_t flags)
{
    float values[KEYS * WIDTH];
    for (uint32_t i = 0; i < r->n * WIDTH; i++)
        values[i] = x;
    struct msg_push m = lone_push_of(r->w, worker, T, r->keys, r->n, values, WIDTH);
    m.op = WIRE_ASSIGN;
    m.flags = flags;
    lone_send_push(r->w, worker, &m);
}

static void expect_rows(struct lone *w, uint32_t worker, uint64_t request, float x)
{
    struct parcel *p = lone_expect(w, MSG_PULLED);
    const float *values = p->m.pulled.values.data;
    assert_int_equal(p->link, WORKER_LINK + worker);
    assert_int_equal(p->frame.request, request);
    for (uint32_t i = 0; i < p->m.pulled.n * WIDTH; i++)
        if (values[i] != x)
            fail_msg("%g, not %g", (double)values[i], (double)x);
    parcel_unpin(p);
}

static void expect_silence(struct lone *w)
{
    struct parcel *p = lone_next(w);
    if (p != NULL)
        fail_msg("%s was sent", wire_name(p->frame.type));
}

// A client that does not read its answers must wait, while a client that reads is served.
static void test_unread_link_waits(void **state)
{
    (void)state;
    struct room r;
    room_open(&r, WIRE_ASYNC);
    struct lone *w = r.w;
    w->unread[0] = 8 * MIB;
    uint64_t first = w->next_request + 1;
    for (int i = 0; i < 5; i++)
        pull(&r, 0);
    lone_pass_time(w, SECOND_NS);
    expect_silence(w);
    pull(&r, 1);
    expect_rows(w, 1, first + 5, 0);
    assert_int_equal(atomic_load(&r.budget.refused), 5);
    assert_false(budget_short(&r.budget, clock_ns())); // no other client lacks room
    assert_true(budget_used(&r.budget, BUDGET_PENDING) > 5 * r.n * sizeof(uint64_t));
    w->unread[0] = 0;
    lone_pass_time(w, SECOND_NS);
    for (uint64_t i = 0; i < 5; i++)
        expect_rows(w, 0, first + i, 0);
    expect_silence(w);
    assert_int_equal(budget_used(&r.budget, BUDGET_PENDING), 0);
    room_close(&r);
}

// Requests of one link are served in order.
static void test_order(void **state)
{
    (void)state;
    struct room r;
    room_open(&r, WIRE_ASYNC);
    struct lone *w = r.w;
    uint64_t first = w->next_request + 1;
    w->unread[0] = 8 * MIB;
    assign(&r, 0, 1, WIRE_ALSO_PULL);
    w->unread[0] = 0; // there is room now, but an earlier request still waits
    assign(&r, 0, 2, 0);
    pull(&r, 0);
    assign(&r, 0, 3, WIRE_ALSO_PULL);
    expect_silence(w);
    pull(&r, 1); // a pull from another link
    expect_rows(w, 1, first + 4, 0);
    lone_pass_time(w, SECOND_NS);
    expect_rows(w, 0, first, 1);
    lone_expect_ok(w);
    expect_rows(w, 0, first + 2, 2);
    expect_rows(w, 0, first + 3, 3);
    expect_silence(w);
    room_close(&r);
}

// If the unsent answers of all links leave no room, all clients wait.
static void test_process_is_full(void **state)
{
    (void)state;
    struct room r;
    room_open(&r, WIRE_ASYNC);
    uint64_t most = budget_most(&r.budget, BUDGET_QUEUED);
    assert_true(budget_take(&r.budget, BUDGET_QUEUED, most));
    pull(&r, 0);
    // An acknowledgement is small, so it is sent although room is short.
    assign(&r, 1, 7, 0);
    lone_expect_ok(r.w);
    lone_pass_time(r.w, SECOND_NS);
    expect_silence(r.w);
    assert_true(budget_short(&r.budget, clock_ns()));
    budget_give(&r.budget, BUDGET_QUEUED, most);
    lone_pass_time(r.w, SECOND_NS);
    expect_rows(r.w, 0, r.w->next_request - 1, 7);
    // If there is never any room, the request is refused.
    assert_true(budget_take(&r.budget, BUDGET_QUEUED, most));
    pull(&r, 0);
    lone_pass_time(r.w, 61 * SECOND_NS);
    lone_expect_refusal(r.w, TUG_EIO, "no room now");
    budget_give(&r.budget, BUDGET_QUEUED, most);
    room_close(&r);
}

// Requests for the status or for settings also wait for room.
static void test_questions(void **state)
{
    static const uint16_t types[] = {
#define TO_QUESTION(NAME, name) MSG_##NAME,
#include "wire/messages.def"
    };
    (void)state;
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        struct room r;
        room_open(&r, WIRE_ASYNC);
        r.w->unread[0] = 8 * MIB;
        lone_deliver(r.w, WORKER_LINK, types[i], 7, &(union wire_any){0});
        lone_pass_time(r.w, SECOND_NS);
        expect_silence(r.w);
        r.w->unread[0] = 0;
        lone_pass_time(r.w, SECOND_NS);
        struct parcel *p = lone_next(r.w);
        assert_non_null(p);
        assert_int_equal(p->frame.request, 7);
        parcel_unpin(p);
        room_close(&r);
    }
}

static void test_never_fits(void **state)
{
    (void)state;
    enum { N = 8000, WIDE = 1024 };
    struct room r;
    room_open(&r, WIRE_ASYNC);
    uint64_t *keys = mem_array(N, sizeof(*keys));
    struct table_spec s = lone_plain_spec(3, WIRE_ASYNC, WIDE);
    lone_make_table(r.w, &s);
    uint32_t n = lone_draw_keys(r.w, WIRE_SPACE_SPARSE, N, 1, keys);
    assert_true((uint64_t)n * WIDE * sizeof(float) < 64 * MIB);
    struct msg_pull m = lone_pull_of(r.w, 0, 3, keys, n);
    lone_send_pull(r.w, 0, &m);
    lone_expect_refusal(r.w, TUG_EUSAGE, "--memory");
    mem_free(keys);
    room_close(&r);
}

// With a small budget, requests for the status or for settings also wait for room, and a
// page of rows that could never be sent is refused.
static void test_little_memory(void **state)
{
    (void)state;
    struct room r;
    struct msg_rows rows = {.table = T, .max = UINT32_MAX};
    room_open(&r, WIRE_ASYNC);
    rows.epoch = r.w->epoch;
    while (!r.w->mine[rows.partition])
        rows.partition++;
    r.budget.bytes = MIB / 8;
    r.w->unread[0] = 8 * MIB;
    lone_deliver(r.w, WORKER_LINK, MSG_STATUS, 7, &(union wire_any){0});
    lone_pass_time(r.w, SECOND_NS);
    expect_silence(r.w);
    r.w->unread[0] = 0;
    lone_pass_time(r.w, SECOND_NS);
    parcel_unpin(lone_expect(r.w, MSG_STATUS_IS));
    lone_deliver(r.w, WORKER_LINK, MSG_ROWS, 8, &rows);
    lone_expect_refusal(r.w, TUG_EUSAGE, "ask for fewer rows");
    r.budget.bytes = 64 * MIB;
    room_close(&r);
}

// Lets n requests wait, and returns the time that this takes. Waiting requests may use
// only their part of the budget; further requests are refused and repeated. The time to
// add, keep and retry requests must grow in proportion to n.
static double many_wait(uint32_t n, uint32_t *ret_held)
{
    struct room r;
    room_open(&r, WIRE_ASYNC);
    struct timespec begin, end;
    r.w->unread[0] = 8 * MIB;
    *ret_held = 0;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (uint32_t i = 0; i < n; i++) {
        pull(&r, 0);
        struct parcel *p = lone_next(r.w);
        *ret_held += p == NULL;
        if (p == NULL)
            continue;
        assert_int_equal(p->m.error.code, TUG_EIO);
        assert_int_equal(p->m.error.reason, REASON_NO_ROOM);
        parcel_unpin(p);
    }
    assert_true(budget_used(&r.budget, BUDGET_PENDING) <=
                budget_most(&r.budget, BUDGET_PENDING));
    for (int i = 0; i < 1000; i++)
        lone_pass_time(r.w, SECOND_NS / 10000);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    pull(&r, 1); // other links are served
    expect_rows(r.w, 1, r.w->next_request, 0);
    r.w->h.closed(r.w->h.ctx, WORKER_LINK, &(struct err){0}, r.w->now);
    assert_int_equal(budget_used(&r.budget, BUDGET_PENDING), 0);
    room_close(&r);
    return (double)(end.tv_sec - begin.tv_sec) +
           (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
}

static void test_many_wait(void **state)
{
    (void)state;
    uint32_t held;
    double some = many_wait(2000, &held);
    assert_int_equal(held, 2000);
    double many = many_wait(60000, &held);
    assert_true(held > 2000 && held < 60000);
    // There are 30 times as many requests. If each new request walked past all waiting
    // ones, it would take 900 times as long.
    if (many > 100 * some + 0.05)
        fail_msg("%.4f s with 2000 that wait, %.4f s with %u", some, many, held);
}

static void test_lists(void **state)
{
    (void)state;
    enum { N = 600000 };
    struct room r;
    room_open(&r, WIRE_ASYNC);
    uint64_t *keys = mem_array(N, sizeof(*keys));
    struct table_spec s = lone_plain_spec(3, WIRE_ASYNC, 1);
    lone_make_table(r.w, &s);
    uint32_t n = lone_draw_keys(r.w, WIRE_SPACE_SPARSE, N, 1, keys);
    for (uint32_t i = 0; i < 18; i++) {
        struct msg_pull m = lone_pull_of(r.w, i % WORKERS, 3, keys, n);
        m.list = 100 + i;
        lone_send_pull(r.w, i % WORKERS, &m);
        parcel_unpin(lone_expect(r.w, MSG_PULLED));
    }
    uint64_t used = budget_used(&r.budget, BUDGET_LISTS);
    assert_true(used > 0 && used <= budget_most(&r.budget, BUDGET_LISTS));
    mem_free(keys);
    room_close(&r);
}

// Contributions that wait for the rest of their batch are counted in the budget.
static void test_batches(void **state)
{
    (void)state;
    struct room r;
    room_open(&r, WIRE_SYNC);
    float values[KEYS * WIDTH] = {0};
    struct msg_push m = lone_push_of(r.w, 0, T, r.keys, r.n, values, WIDTH);
    m.micros = SHARD_MICROS / 2;
    lone_send_push(r.w, 0, &m);
    lone_expect_ok(r.w);
    assert_true(budget_used(&r.budget, BUDGET_PENDING) >= r.n * WIDTH * sizeof(float));
    uint64_t rest = budget_most(&r.budget, BUDGET_PENDING) -
                    budget_used(&r.budget, BUDGET_PENDING);
    assert_true(budget_take(&r.budget, BUDGET_PENDING, rest));
    m.number = ++r.w->number[0];
    m.micro = SHARD_MICROS / 2;
    lone_send_push(r.w, 0, &m);
    lone_expect_refusal(r.w, TUG_EIO, "no room now");
    budget_give(&r.budget, BUDGET_PENDING, rest);
    lone_send_push(r.w, 0, &m); // a repeat
    lone_expect_ok(r.w);
    assert_int_equal(budget_used(&r.budget, BUDGET_PENDING), 0);
    room_close(&r);
}

// A push that waits for earlier batches was counted when it began to wait; it needs no
// further room when it goes on.
static void test_waiting_push_keeps_room(void **state)
{
    (void)state;
    struct room r;
    room_open(&r, WIRE_SYNC);
    struct msg_push m = lone_push_of(r.w, 0, T, NULL, 0, NULL, WIDTH);
    m.clock = SHARD_MAX_CLOCKS + 1;
    m.micros = SHARD_MICROS;
    lone_send_push(r.w, 0, &m);
    assert_null(r.w->sent);
    uint64_t taken = budget_most(&r.budget, BUDGET_PENDING) / 2;
    assert_true(budget_take(&r.budget, BUDGET_PENDING, taken));
    r.w->epoch++; // a new roster makes the shard try the waiting push again, whose epoch
                  // is now older
    lone_send_roster(r.w);
    parcel_unpin(lone_expect(r.w, MSG_ROSTER));
    m = lone_push_of(r.w, 1, T, NULL, 0, NULL, WIDTH);
    m.micros = SHARD_MICROS;
    lone_send_push(r.w, 1, &m);
    lone_expect_ok(r.w);
    assert_null(r.w->sent);
    budget_give(&r.budget, BUDGET_PENDING, taken);
    room_close(&r);
}

// The first push of a table waits if it is too many batches ahead, even if it has
// the flag WIRE_KEYS_ONLY.
static void test_first_push_is_ahead(void **state)
{
    (void)state;
    struct room r;
    room_open(&r, WIRE_SYNC);
    struct msg_push m = lone_push_of(r.w, 0, T, NULL, 0, NULL, WIDTH);
    m.clock = SHARD_MAX_CLOCKS + 1;
    m.micros = SHARD_MICROS;
    m.flags |= WIRE_KEYS_ONLY;
    lone_send_push(r.w, 0, &m);
    assert_null(r.w->sent);
    assert_int_equal(lone_figures(r.w, T).clock, 0);
    room_close(&r);
}

// If the budget has no room for all parts of a batch, the batch can never be complete,
// and sending a part again does not help.
static void test_too_large_batch(void **state)
{
    (void)state;
    struct room r;
    room_open(&r, WIRE_SYNC);
    float values[KEYS * WIDTH] = {0};
    struct msg_push m = lone_push_of(r.w, 0, T, r.keys, r.n, values, WIDTH);
    m.micros = SHARD_MICROS / 2;
    lone_send_push(r.w, 0, &m);
    lone_expect_ok(r.w);
    uint64_t bytes = r.budget.bytes, part = budget_used(&r.budget, BUDGET_PENDING);
    m.number = ++r.w->number[0];
    m.micro = SHARD_MICROS / 2;
    struct msg_pull early = lone_pull_of(r.w, 1, T, NULL, 0),
                    late = lone_pull_of(r.w, 2, T, NULL, 0);
    early.clock = late.clock = 1;
    lone_send_pull(r.w, 1, &early);
    while (budget_most(&r.budget, BUDGET_PENDING) >= 2 * part)
        r.budget.bytes -= r.budget.bytes / 64;
    assert_true(budget_most(&r.budget, BUDGET_PENDING) > part);
    lone_send_push(r.w, 0, &m);
    lone_expect_refusal(r.w, TUG_ENOMEM, "smaller --batch");
    lone_send_pull(r.w, 2, &late);
    lone_pass_time(r.w, 1);
    for (int i = 0; i < 2; i++)
        lone_expect_refusal(r.w, TUG_EIO,
                            "batch 0, which cannot be applied: the workers'");
    r.budget.bytes = bytes;
    lone_send_push(r.w, 0, &m);
    lone_expect_ok(r.w);
    assert_int_equal(lone_figures(r.w, T).clock, 1);
    room_close(&r);
}

// Pulls that wait for a batch leave half of the budget to the batch's parts. Otherwise
// the parts might find no room, and the pulls would wait for ever.
static void test_pulls_leave_room(void **state)
{
    (void)state;
    struct room r;
    room_open(&r, WIRE_SYNC);
    struct msg_pull m = lone_pull_of(r.w, 1, T, r.keys, r.n);
    m.clock = 1;
    r.budget.bytes = MIB / 4;
    while (r.w->sent == NULL)
        lone_send_pull(r.w, 1, &m);
    lone_expect_refusal(r.w, TUG_EIO, "no room now");
    uint64_t most = budget_most(&r.budget, BUDGET_PENDING);
    assert_in_range(budget_used(&r.budget, BUDGET_PENDING), most / 4, most / 2);
    float values[KEYS * WIDTH] = {0};
    struct msg_push push = lone_push_of(r.w, 0, T, r.keys, r.n, values, WIDTH);
    push.micros = SHARD_MICROS;
    lone_send_push(r.w, 0, &push);
    lone_expect_ok(r.w);
    lone_forget(r.w); // the answers to the pulls
    assert_int_equal(budget_used(&r.budget, BUDGET_PENDING), 0);
    room_close(&r);
}

// A part that replaces other parts takes over the room of these parts.
static void test_part_replaces_others(void **state)
{
    (void)state;
    struct room r;
    room_open(&r, WIRE_SYNC);
    float values[KEYS * WIDTH] = {0};
    struct msg_push m = lone_push_of(r.w, 0, T, r.keys, r.n, values, WIDTH);
    m.micros = SHARD_MICROS / 4;
    lone_send_push(r.w, 0, &m);
    lone_expect_ok(r.w);
    uint64_t part = budget_used(&r.budget, BUDGET_PENDING);
    while (budget_most(&r.budget, BUDGET_PENDING) >= 2 * part)
        r.budget.bytes -= r.budget.bytes / 64;
    for (m.micros = SHARD_MICROS / 2; m.micros < SHARD_MICROS; m.micros *= 2) {
        m.number = ++r.w->number[0];
        lone_send_push(r.w, 0, &m);
        lone_expect_ok(r.w);
        assert_int_equal(budget_used(&r.budget, BUDGET_PENDING), part);
    }
    m.number = ++r.w->number[0];
    m.n = 0; // a part that is smaller than the replaced one gives back the rest of its
             // room
    m.keys = m.values = (struct wire_span){0};
    lone_send_push(r.w, 0, &m);
    lone_expect_ok(r.w);
    assert_int_equal(lone_figures(r.w, T).clock, 1);
    room_close(&r);
}

// Records of sessions are counted in the budget, and freed with the sessions. A worker
// that pushes later batches early cannot use up the room that the current batch needs for
// its last part, even while a save keeps the current batch from being applied.
static void test_batches_before_their_turn(void **state)
{
    (void)state;
    struct room r;
    room_open(&r, WIRE_SYNC);
    float values[KEYS * WIDTH] = {0};
    uint64_t taken = budget_most(&r.budget, BUDGET_PENDING) / 2 - 64;
    assert_true(budget_take(&r.budget, BUDGET_PENDING, taken));
    struct msg_push m = lone_push_of(r.w, 0, T, r.keys, r.n, values, WIDTH);
    m.micros = SHARD_MICROS;
    m.clock = 1;
    lone_send_push(r.w, 0, &m);
    lone_expect_refusal(r.w, TUG_EIO, "no room now");
    m.clock = 0;
    m.micros = SHARD_MICROS / 2;
    lone_send_push(r.w, 0, &m);
    lone_expect_ok(r.w);
    m.number = ++r.w->number[0];
    m.micro = SHARD_MICROS / 2;
    lone_send_push(r.w, 0, &m);
    lone_expect_ok(r.w);
    m.number = ++r.w->number[0];
    m.micro = 0;
    m.micros = SHARD_MICROS;
    m.clock = 1; // batch 1 is now the next one
    lone_send_push(r.w, 0, &m);
    lone_expect_ok(r.w);
    assert_int_equal(lone_figures(r.w, T).clock, 2);
    budget_give(&r.budget, BUDGET_PENDING, taken);
    room_close(&r);
}

static void test_sessions(void **state)
{
    (void)state;
    struct room r;
    room_open(&r, WIRE_ASYNC);
    assign(&r, 0, 1, 0);
    uint64_t one = budget_used(&r.budget, BUDGET_CLOCKS);
    assert_true(one >= SHARD_WINDOW * sizeof(uint64_t));
    assign(&r, 1, 1, 0);
    assert_int_equal(budget_used(&r.budget, BUDGET_CLOCKS), 2 * one);
    r.w->dead[1] = true;
    lone_send_roster(r.w);
    assert_int_equal(budget_used(&r.budget, BUDGET_CLOCKS), one);
    lone_forget(r.w);
    uint64_t rest = budget_most(&r.budget, BUDGET_CLOCKS) - one;
    assert_true(budget_take(&r.budget, BUDGET_CLOCKS, rest));
    assign(&r, 2, 1, 0);
    lone_expect_refusal(r.w, TUG_ENOMEM, "session");
    budget_give(&r.budget, BUDGET_CLOCKS, rest);
    room_close(&r);
}

// The link of a tool that has been silent for long is closed; a worker keeps its link.
static void test_idle_tool(void **state)
{
    (void)state;
    enum { TOOL_LINK = 77 };
    struct room r;
    room_open(&r, WIRE_ASYNC);
    struct lone *w = r.w;
    struct msg_hello hello = {
        .cluster = 77, .role = WIRE_TOOL, .version = wire_text("0")};
    w->h.opened(w->h.ctx, TOOL_LINK, true, w->now);
    lone_deliver(w, TOOL_LINK, MSG_HELLO, 0, &hello);
    struct msg_status m = {};
    for (int i = 0; i < 8; i++) { // the tool is not silent: it asks every 60 s
        lone_pass_time(w, 60 * SECOND_NS);
        lone_forget(w);
        lone_deliver(w, TOOL_LINK, MSG_STATUS, 1, &m);
        parcel_unpin(lone_expect(w, MSG_STATUS_IS));
    }
    for (int i = 0; i < 6; i++)
        lone_pass_time(w, 60 * SECOND_NS);
    lone_forget(w);
    lone_deliver(w, TOOL_LINK, MSG_STATUS, 1, &m);
    expect_silence(w); // no answer, because the link is closed
    lone_forget(w);
    pull(&r, 0);
    expect_rows(w, 0, w->next_request, 0);
    room_close(&r);
}

// The memory of tables without rows also counts as memory of rows.
static void test_tables(void **state)
{
    (void)state;
    struct shard_options o = {.max_bytes = 100 << 10};
    struct lone *w = lone_open(BITS, &o);
    struct table_spec s = lone_plain_spec(1, WIRE_ASYNC, WIDTH);
    uint32_t made = 0;
    for (s.id = 0; s.id < 1000; s.id++) {
        snprintf(s.config.name, sizeof(s.config.name), "t%u", s.id);
        lone_send_table(w, &s);
        struct parcel *p = lone_next(w);
        bool ok = p->frame.type == MSG_OK;
        parcel_unpin(p);
        if (!ok)
            break;
        made++;
    }
    assert_true(made > 0 && made < 1000);
    lone_send_table(w, &s);
    lone_expect_refusal(w, TUG_ENOMEM, "no room for table");
    lone_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unread_link_waits),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_process_is_full),
        cmocka_unit_test(test_questions),
        cmocka_unit_test(test_never_fits),
        cmocka_unit_test(test_little_memory),
        cmocka_unit_test(test_many_wait),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_too_large_batch),
        cmocka_unit_test(test_pulls_leave_room),
        cmocka_unit_test(test_part_replaces_others),
        cmocka_unit_test(test_waiting_push_keeps_room),
        cmocka_unit_test(test_first_push_is_ahead),
        cmocka_unit_test(test_batches_before_their_turn),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_idle_tool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
