// SPDX-License-Identifier: Apache-2.0
#include "van/frame.h"

#include <string.h>

#include "base/alloc.h"
#include "kit/test.h"

enum { STREAM_MAX = 4096, NODES = 50, SPAN = 77 };

// Records the messages that the handler got: the numbers of requests in order, and sums
// of the bytes of bodies and texts.
struct seen {
    struct frame_reader reader;
    struct frame_pool pool;
    uint64_t messages, sum;
    bool in_order;
    char *place;
    uint64_t stop_after;
    uint64_t refused, refused_request;
    struct err why;
};

static void add(struct seen *s, const void *data, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        s->sum = s->sum * 31 + ((const unsigned char *)data)[i];
}

static void *place(void *ctx, uint16_t type, uint64_t request, const union wire_any *head,
                   uint64_t body_bytes)
{
    struct seen *s = ctx;
    assert_int_equal(type, MSG_ROSTER);
    assert_int_equal(request, s->messages + 1);
    assert_int_equal(head->roster.owners.n, SPAN);
    assert_int_equal(head->roster.nodes.n, NODES);
    assert_int_equal(body_bytes, NODES + wire_padding(NODES) + SPAN + wire_padding(SPAN));
    return s->place;
}

static bool message(void *ctx, struct van_message *m)
{
    struct seen *s = ctx;
    s->messages++;
    s->in_order = s->in_order && m->request == s->messages;
    if (m->type == MSG_HELLO) {
        add(s, m->m->hello.version.data, m->m->hello.version.n);
        assert_null(m->body);
    } else {
        add(s, m->m->roster.nodes.data, m->m->roster.nodes.n);
        add(s, m->m->roster.owners.data, m->m->roster.owners.n);
        assert_int_equal((uintptr_t)m->body % 8, 0);
        assert_int_equal(m->placed, s->place != NULL);
    }
    return s->messages != s->stop_after;
}

static void refused(void *ctx, uint16_t type, uint64_t request, const struct err *why)
{
    struct seen *s = ctx;
    assert_int_equal(type, MSG_ROSTER);
    s->refused++;
    s->refused_request = request;
    s->why = *why;
}

static void seen_open_with(struct seen *s, struct budget *b)
{
    *s = (struct seen){.in_order = true, .pool.budget = b};
    frame_open(&s->reader, &s->pool, &(struct frame_calls){s, place, message, refused},
               UINT64_MAX, true);
}

static void seen_open(struct seen *s)
{
    seen_open_with(s, NULL);
}

static void seen_close(struct seen *s)
{
    frame_close(&s->reader);
    frame_pool_close(&s->pool);
}

static size_t put(char *to, uint16_t type, uint64_t request, const void *m)
{
    struct wire_out o = WIRE_OUT_INIT;
    assert_int_equal(wire_encode(&o, type, request, m, false), 0);
    size_t n = o.head.len;
    memcpy(to, o.head.data, n);
    wire_copy_body(&o, to + n);
    n += o.body_bytes;
    buf_free(&o.head);
    return n;
}

// Makes six messages, every second one with a body.
static size_t make_stream(char to[STREAM_MAX])
{
    char data[SPAN];
    size_t n = 0;
    for (uint64_t i = 1; i <= 6; i++) {
        memset(data, (int)i, sizeof(data));
        struct msg_hello hello = {.version = wire_text("1.2.3")};
        struct msg_roster roster = {.nodes = {data, NODES}, .owners = {data, SPAN}};
        n += i % 2 ? put(to + n, MSG_HELLO, i, &hello)
                   : put(to + n, MSG_ROSTER, i, &roster);
    }
    return n;
}

// A stream that arrives in pieces of any length gives the same messages, with and without
// `place`.
static void test_cuts(void **state)
{
    (void)state;
    char stream[STREAM_MAX], room[NODES + SPAN + 16];
    size_t n = make_stream(stream), before = mem_live();
    struct seen whole;
    seen_open(&whole);
    assert_int_equal(frame_read(&whole.reader, stream, n, NULL), 0);
    assert_int_equal(whole.messages, 6);
    assert_true(frame_at_end(&whole.reader));
    for (size_t step = 1; step < 300; step++) {
        struct seen s;
        seen_open(&s);
        s.place = step % 2 ? room : NULL;
        for (size_t at = 0; at < n; at += step) {
            size_t some = n - at < step ? n - at : step;
            assert_int_equal(frame_read(&s.reader, stream + at, some, NULL), 0);
        }
        assert_int_equal(s.messages, 6);
        assert_true(s.in_order);
        assert_int_equal(s.sum, whole.sum);
        seen_close(&s);
    }
    seen_close(&whole);
    assert_int_equal(mem_live(), before);
}

static void test_direct(void **state)
{
    (void)state;
    char stream[STREAM_MAX];
    size_t n = make_stream(stream), left;
    struct seen whole, s;
    seen_open(&whole);
    seen_open(&s);
    frame_read(&whole.reader, stream, n, NULL);
    for (size_t at = 0, some; at < n; at += some) {
        char *direct = frame_direct(&s.reader, &left);
        some = direct != NULL && left > 3 ? left - 3 : 1;
        if (direct != NULL) {
            memcpy(direct, stream + at, some);
            assert_int_equal(frame_came(&s.reader, some, NULL), 0);
        } else {
            assert_int_equal(frame_read(&s.reader, stream + at, some, NULL), 0);
        }
    }
    assert_int_equal(s.messages, 6);
    assert_int_equal(s.sum, whole.sum);
    seen_close(&whole);
    seen_close(&s);
}

static void test_stops(void **state)
{
    (void)state;
    char stream[STREAM_MAX];
    size_t n = make_stream(stream);
    struct seen s;
    seen_open(&s);
    s.stop_after = 4;
    assert_int_equal(frame_read(&s.reader, stream, n, NULL), FRAME_STOPPED);
    assert_int_equal(s.messages, 4);
    seen_close(&s);
}

static void test_limit(void **state)
{
    (void)state;
    char stream[STREAM_MAX];
    struct err e;
    size_t n = make_stream(stream), before = mem_live();
    struct seen s;
    seen_open(&s);
    s.reader.max_bytes = 200; // long enough for a HELLO and not for a ROSTER
    assert_int_equal(frame_read(&s.reader, stream, n, &e), TUG_EDATA);
    assert_int_equal(s.messages, 1);
    assert_non_null(strstr(e.text, "roster"));
    seen_close(&s);
    assert_int_equal(mem_live(), before);
}

// A wrong byte anywhere in the header or head is detected.
static void test_damage(void **state)
{
    (void)state;
    char stream[STREAM_MAX];
    struct msg_hello hello = {.version = wire_text("1.2.3")};
    size_t n = put(stream, MSG_HELLO, 1, &hello);
    for (size_t i = 0; i < n * 8; i++) {
        struct seen s;
        struct err e = {0};
        seen_open(&s);
        stream[i / 8] ^= (char)(1 << i % 8);
        int rc = frame_read(&s.reader, stream, n, &e);
        assert_int_equal(s.messages, 0);
        assert_true(rc == TUG_EDATA || (rc == 0 && !frame_at_end(&s.reader)));
        assert_true(rc == 0 || e.text[0] != '\0');
        stream[i / 8] ^= (char)(1 << i % 8);
        seen_close(&s);
    }
}

static void test_out_of_memory(void **state)
{
    (void)state;
    char stream[STREAM_MAX];
    size_t n = make_stream(stream), before = mem_live();
    for (long i = 0, rc = -1; rc != 0; i++) {
        struct seen s;
        seen_open(&s);
        mem_fault_after(i);
        for (size_t at = rc = 0; at < n && rc == 0; at += 5)
            rc = frame_read(&s.reader, stream + at, n - at < 5 ? n - at : 5, NULL);
        assert_true(rc == (mem_faulted() ? TUG_ENOMEM : 0));
        mem_fault_after(-1);
        seen_close(&s);
        assert_int_equal(mem_live(), before);
    }
}

// The budget counts the part of a message that has arrived, and gets the bytes back when
// the message is done, wherever the stream is cut or ends.
static void test_counted(void **state)
{
    (void)state;
    char stream[STREAM_MAX];
    size_t n = make_stream(stream);
    struct budget b;
    budget_open(&b, 1 << 20);
    for (size_t step = 1; step < 300; step++) {
        struct seen s;
        uint64_t most = 0;
        seen_open_with(&s, &b);
        for (size_t at = 0; at < n; at += step) {
            size_t some = n - at < step ? n - at : step;
            assert_int_equal(frame_read(&s.reader, stream + at, some, NULL), 0);
            uint64_t used = budget_used(&b, BUDGET_BODIES);
            most = used > most ? used : most;
            assert_true(used <= s.reader.head.len + s.reader.body_have);
            if (frame_at_end(&s.reader))
                assert_int_equal(used, 0);
        }
        assert_int_equal(s.messages, 6);
        // a head or body that was cut in two was counted.
        assert_true(most > 0 || step > 40);
        seen_close(&s);
        seen_open_with(&s, &b);
        for (size_t at = 0; at + step < n; at += step)
            frame_read(&s.reader, stream + at, step, NULL);
        seen_close(&s); // in the middle of a message
        assert_int_equal(atomic_load(&b.used), 0);
        assert_int_equal(budget_used(&b, BUDGET_REST), 0);
    }
}

// A message for which the budget has no room is discarded, its sender gets an error, and
// the next message is read. A message that can never fit is refused when it is announced.
static void test_no_room(void **state)
{
    (void)state;
    enum { BODY = 1200 };
    static char stream[4 * BODY], data[2 * BODY];
    struct budget b;
    budget_open(&b, 4096); // bodies may take 1536 bytes of it
    struct msg_hello hello = {.version = wire_text("1.2.3")};
    size_t n = put(stream, MSG_ROSTER, 1, &(struct msg_roster){.owners = {data, BODY}});
    size_t all = n + put(stream + n, MSG_HELLO, 2, &hello);
    for (size_t step = 1; step < 300; step++) {
        struct seen s, other;
        seen_open_with(&s, &b);
        s.reader.calls.place = NULL;
        other = s;
        other.pool = (struct frame_pool){.budget = &b};
        other.reader.pool = &other.pool;
        other.reader.calls.ctx = &other;
        assert_int_equal(frame_read(&other.reader, stream, n - 100, NULL), 0);
        for (size_t at = 0; at < all; at += step)
            assert_int_equal(frame_read(&s.reader, stream + at,
                                        all - at < step ? all - at : step, NULL),
                             0);
        assert_int_equal(s.refused, 1);
        assert_int_equal(s.refused_request, 1);
        assert_int_equal(s.why.code, TUG_EIO);
        assert_int_equal(s.why.reason, REASON_NO_ROOM);
        // Only the message after the refused one was passed on.
        assert_int_equal(s.messages, 1);
        assert_true(frame_at_end(&s.reader));
        seen_close(&s);
        seen_close(&other);
        assert_int_equal(atomic_load(&b.used), 0);
    }
    struct seen s;
    seen_open_with(&s, &b);
    s.reader.calls.place = NULL;
    n = put(stream, MSG_ROSTER, 7, &(struct msg_roster){.owners = {data, 2 * BODY}});
    assert_int_equal(frame_read(&s.reader, stream, n - 2 * BODY, NULL), 0);
    assert_int_equal(s.refused_request, 7);
    assert_int_equal(s.why.code, TUG_EUSAGE);
    assert_int_equal(frame_read(&s.reader, stream + n - 2 * BODY, 2 * BODY, NULL), 0);
    assert_true(frame_at_end(&s.reader));
    seen_close(&s);
}

static void test_pool(void **state)
{
    (void)state;
    size_t before = mem_live();
    struct frame_pool p = {.unused_bytes = 0};
    for (uint64_t n = 1; n <= (uint64_t)1 << 30; n = n * 3 + 1) {
        char *a = frame_pool_take(&p, n);
        assert_non_null(a);
        assert_int_equal((uintptr_t)a % 64, 0);
        assert_true(frame_pool_size(a) >= n);
        a[0] = a[n - 1] = 1;
        frame_pool_give(&p, a);
        // The pool returns the same block again.
        if (n < 1 << 27)
            assert_ptr_equal(frame_pool_take(&p, n), a);
        if (n < 1 << 27)
            frame_pool_give(&p, a);
    }
    assert_null(frame_pool_take(&p, WIRE_BODY_MAX + 1));
    frame_pool_close(&p);
    assert_int_equal(mem_live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),    cmocka_unit_test(test_direct),
        cmocka_unit_test(test_stops),   cmocka_unit_test(test_limit),
        cmocka_unit_test(test_damage),  cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_pool),    cmocka_unit_test(test_counted),
        cmocka_unit_test(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
