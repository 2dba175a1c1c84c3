// Compares the ring with an array of all events. A shard records pushes, pulls and
// waiting while profiling is on, and only then.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"
#include "kit/lone_shard.h"
#include "kit/test.h"
#include "server/profile/profile.h"

enum { BITS = 3, T = 2, WIDTH = 2, EVENTS = 1000 };

static struct wire_event event_of(uint64_t i)
{
    return (struct wire_event){
        .type = MSG_PULL, .keys = (uint32_t)i, .begin_ns = i, .took_ns = 2 * i};
}

// Checks that the events [first, ...) of a page are those that were recorded. Returns
// their number.
static uint64_t check_page(const struct profile *p, uint64_t from, uint64_t want_first)
{
    struct buf page = BUF_INIT(WIRE_BYTES_MAX);
    struct wire_event event;
    uint64_t first, n = 0;
    assert_int_equal(profile_page(p, from, &page, &first), 0);
    assert_int_equal(first, want_first);
    struct wire_text list = {page.data, (uint32_t)page.len};
    for (; wire_next_event(&list, &event) == 1; n++) {
        assert_int_equal(event.keys, first + n);
        assert_int_equal(event.took_ns, 2 * (first + n));
        assert_int_equal(event.begin_ns, first + n + p->epoch);
    }
    buf_free(&page);
    return n;
}

static void ring(void **state)
{
    (void)state;
    struct profile p = {0};
    struct wire_event event = event_of(0);
    size_t live = mem_live();
    // Recording has not started yet, so the event is not recorded.
    profile_note(&p, &event);
    assert_int_equal(p.end, 0);
    assert_int_equal(profile_start(&p, 100 * sizeof(event), NULL), 0);
    assert_int_equal(p.max, 100);
    for (uint64_t i = 0; i < EVENTS; i++) {
        event = event_of(i);
        profile_note(&p, &event);
        uint64_t kept = i + 1 < 100 ? i + 1 : 100, oldest = i + 1 - kept;
        assert_int_equal(profile_dropped(&p), oldest);
        assert_int_equal(check_page(&p, 0, oldest), kept);
        assert_int_equal(check_page(&p, i, i), 1);
        assert_int_equal(check_page(&p, i + 1, i + 1), 0);
    }
    mem_fault_after(0);
    assert_int_equal(profile_start(&p, 0, NULL), TUG_ENOMEM);
    mem_fault_after(-1);
    assert_int_equal(p.end, EVENTS); // the ring with the old recording has not changed
    assert_int_equal(check_page(&p, UINT64_MAX, UINT64_MAX), 0);
    assert_int_equal(profile_start(&p, 0, NULL), 0);
    assert_int_equal(p.max, PROFILE_BYTES / sizeof(event));
    assert_int_equal(check_page(&p, 0, 0), 0); // after the start of a new recording
    assert_int_equal(profile_start(&p, UINT64_MAX, NULL), 0);
    assert_int_equal(p.max, PROFILE_MAX_BYTES / sizeof(event));
    assert_int_equal(profile_start(&p, 1, NULL), 0);
    assert_int_equal(p.max, 1);
    profile_free(&p);
    assert_int_equal(mem_live(), live);
}

// Pages follow each other without gaps, and each fits into its message.
static void pages(void **state)
{
    (void)state;
    struct profile p = {0};
    uint64_t at = 0, n = 2 * PROFILE_PAGE + 7;
    assert_int_equal(profile_start(&p, 0, NULL), 0);
    for (uint64_t i = 0; i < n; i++) {
        struct wire_event event = event_of(i);
        profile_note(&p, &event);
    }
    for (int page = 0; page < 3; page++)
        at += check_page(&p, at, at);
    assert_int_equal(at, n);
    profile_free(&p);
}

static void operate(struct lone *w, enum wire_profile what, uint64_t bytes)
{
    struct msg_profile m = {.what = (uint8_t)what, .bytes = bytes};
    lone_deliver(w, WORKER_LINK, MSG_PROFILE, ++w->next_request, &m);
}

// Reads the recorded events into `ret` and returns their number.
static uint32_t read_events(struct lone *w, struct wire_event *ret, uint32_t max)
{
    operate(w, WIRE_PROFILE_READ, 0);
    struct parcel *p = lone_expect(w, MSG_TRACE);
    struct wire_text list = p->m.trace.events;
    uint32_t n = 0;
    while (n < max && wire_next_event(&list, &ret[n]) == 1)
        n++;
    assert_int_equal(p->m.trace.end, n);
    assert_int_equal(p->m.trace.dropped, 0);
    parcel_unpin(p);
    return n;
}

static void push_some(struct lone *w, uint32_t i, uint64_t *keys, uint32_t n)
{
    static float values[100 * WIDTH];
    struct msg_push m = lone_push_of(w, i, T, keys, n, values, WIDTH);
    lone_send_push(w, i, &m);
    lone_expect_ok(w);
}

static void tick_all(struct lone *w, uint64_t clock)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct msg_tick tick = {
            .epoch = w->epoch, .table = T, .session = lone_session(i), .clock = clock};
        lone_deliver(w, WORKER_LINK + i, MSG_TICK, ++w->next_request, &tick);
    }
    lone_forget(w);
}

static void shard_notes(void **state)
{
    (void)state;
    static const struct shard_options plain;
    struct lone *w = lone_open(BITS, &plain);
    struct table_spec spec = lone_plain_spec(T, WIRE_SSP, WIDTH);
    struct wire_event ev[16];
    uint64_t keys[100];
    lone_make_table(w, &spec);
    tick_all(w, 0);
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, 40, 1, keys);
    push_some(w, 0, keys, n);
    operate(w, WIRE_PROFILE_READ, 0);
    lone_expect_refusal(w, TUG_EUSAGE, "no profile has been started");
    operate(w, WIRE_PROFILE_START, 1 << 20);
    assert_int_equal(lone_expect_ok(w), 0);
    push_some(w, 1, keys, n);
    // A pull at clock 1 waits for the ticks of all workers.
    struct msg_pull pull = lone_pull_of(w, 2, T, keys, n - 1);
    pull.clock = 1;
    w->now = clock_ns();
    lone_send_pull(w, 2, &pull);
    assert_null(lone_next(w));
    tick_all(w, 1);
    operate(w, WIRE_PROFILE_STOP, 0);
    uint64_t end = lone_expect_ok(w);
    push_some(w, 0, keys, n); // recording has stopped, so this is not recorded
    assert_int_equal(read_events(w, ev, 16), end);

    static const struct {
        uint16_t type;
        bool waited;
    } want[] = {{MSG_PUSH, false}, {MSG_PULL, false}, {MSG_TICK, false},
                {MSG_TICK, false}, {MSG_TICK, false}, {MSG_PULL, false},
                {MSG_PULL, true}};
    uint32_t at = 0;
    for (uint32_t i = 0; i < end; i++) { // besides the events in `want`, `ev` may have
                                         // attempts after which a request had to wait
        assert_int_equal(ev[i].table, T);
        assert_true(ev[i].waited || ev[i].begin_ns >= ev[i].arrived_ns);
        assert_true(i == 0 || ev[i].waited ||
                    ev[i].begin_ns >= ev[i - 1].begin_ns + ev[i - 1].took_ns);
        at += ev[i].type == want[at].type && ev[i].waited == want[at].waited;
        if (at == 7)
            break;
    }
    assert_int_equal(at, 7);
    assert_int_equal(ev[0].node, WORKER + 1);
    assert_int_equal(ev[0].keys, n);
    assert_int_equal(ev[0].bytes, n * (8 + WIDTH * sizeof(float)));
    assert_int_equal(ev[1].keys, n - 1);
    const struct wire_event *waited = &ev[end - 1];
    assert_true(waited->waited && waited->node == WORKER + 2);
    assert_true(waited->begin_ns + waited->took_ns >= ev[end - 2].begin_ns);
    operate(w, WIRE_PROFILE_FORGET, 0);
    assert_int_equal(lone_expect_ok(w), end);
    operate(w, WIRE_PROFILE_STOP, 0);
    lone_expect_refusal(w, TUG_EUSAGE, "no profile has been started");
    operate(w, 9, 0);
    lone_expect_refusal(w, TUG_EUSAGE, "operation 9 is not known");
    lone_close(w);
}

// Starting and reading a recording report that memory is out.
static void memory(void **state)
{
    (void)state;
    static const struct shard_options plain;
    struct lone *w = lone_open(BITS, &plain);
    struct table_spec spec = lone_plain_spec(T, WIRE_ASYNC, WIDTH);
    uint64_t keys[100];
    lone_make_table(w, &spec);
    uint32_t n = lone_draw_keys(w, WIRE_SPACE_SPARSE, 40, 1, keys);
    w->fault_after = 0;
    operate(w, WIRE_PROFILE_START, 0);
    assert_true(w->faulted);
    lone_expect_refusal(w, TUG_ENOMEM, "a profile");
    assert_false(w->shard->profiling);
    w->fault_after = -1;
    operate(w, WIRE_PROFILE_START, 0);
    lone_expect_ok(w);
    push_some(w, 0, keys, n);
    w->fault_after = 0;
    operate(w, WIRE_PROFILE_READ, 0);
    assert_true(w->faulted);
    lone_expect_refusal(w, TUG_ENOMEM, "a page of a profile");
    lone_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring),
        cmocka_unit_test(pages),
        cmocka_unit_test(shard_notes),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
