// Compares a small trace byte for byte. Further tests: clocks that differ or seem to, the
// table against sorted samples, and each allocation failing.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/profile/trace_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/random.h"
#include "kit/files.h"
#include "kit/test.h"
#include "os/file.h"

enum { LOOPS = 3, SAMPLES = 1000 };

static char path[FILES_PATH];

static int begin(void **state)
{
    if (files_begin(state) != 0)
        return -1;
    snprintf(path, sizeof(path), "%s", files_in("trace.json"));
    return 0;
}

// Makes a trace with two loops of server 0 and one of server 1.
static struct trace open_trace(void)
{
    struct trace t = {.loops = mem_zalloc(LOOPS * sizeof(*t.loops)), .n = LOOPS};
    assert_non_null(t.loops);
    for (uint32_t i = 0; i < LOOPS; i++) {
        t.loops[i].rank = i / 2;
        t.loops[i].loop = i % 2;
        snprintf(t.loops[i].process, sizeof(t.loops[i].process), "server %u", i / 2);
    }
    return t;
}

static int add(struct trace_loop *l, const struct wire_event *event)
{
    struct buf b = BUF_INIT(1 << 20);
    int rc = wire_put_event(&b, event);
    if (rc == 0)
        rc = trace_add(l, (struct wire_text){b.data, (uint32_t)b.len}, NULL);
    buf_free(&b);
    return rc;
}

static struct wire_event push_at(uint64_t begin_ns, uint64_t took_ns)
{
    return (struct wire_event){.type = 51,
                               .table = 7,
                               .node = 9,
                               .keys = 3,
                               .bytes = 48,
                               .arrived_ns = begin_ns - 500,
                               .begin_ns = begin_ns,
                               .took_ns = took_ns};
}

static void file(void **state)
{
    (void)state;
    static const char want[] =
        "\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"tid\":1,\"args\":{"
        "\"name\":"
        "\"server 0\"}},\n"
        "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":1,\"args\":{\"name\":"
        "\"loop 0\"}},\n"
        "{\"name\":\"push sparse\",\"cat\":\"request\",\"ph\":\"X\",\"pid\":1,\"tid\":1,"
        "\"ts\":0.000,\"dur\":1234.567,\"args\":{\"table\":\"a \\\"b\\\"\",\"keys\":3,"
        "\"bytes\":48,\"node\":9,\"queued_us\":0.500}},\n"
        "{\"name\":\"pull dense, waiting\",\"cat\":\"waiting\",\"ph\":\"b\",\"pid\":1,"
        "\"tid\":1,\"ts\":2000.001,\"id\":1,\"args\":{\"table\":\"\",\"keys\":0,"
        "\"bytes\":0,\"node\":0}},\n"
        "{\"name\":\"pull dense, waiting\",\"cat\":\"waiting\",\"ph\":\"e\",\"id\":1,"
        "\"pid\":1,\"tid\":1,\"ts\":2000.009}\n]}\n";
    struct trace t = open_trace();
    struct wire_event push = push_at(1000000000, 1234567);
    struct wire_event wait = {.waited = 1,
                              .type = 52,
                              .table = 8,
                              .space = 1,
                              .begin_ns = 1002000001,
                              .took_ns = 8};
    struct buf b = BUF_INIT(1 << 16);
    struct err e = {0};
    assert_int_equal(trace_name(&t.loops[0], 7, "a \"b\""), 0);
    // The event of a waiting request is recorded when the wait has ended, so it
    // may follow later events.
    assert_int_equal(add(&t.loops[0], &wait), 0);
    assert_int_equal(add(&t.loops[0], &push), 0);
    t.loops[0].dropped = 5;
    t.n = 1;
    trace_align(&t);
    assert_int_equal(trace_write(&t, path, &e), 0);
    assert_int_equal(file_read(path, &b, &e), 0);
    const char *text = buf_str(&b), *events = strstr(text, "\"traceEvents\":[");
    assert_non_null(strstr(text, "\"begin_unix_ns\":\"1000000000\",\"dropped\":5}"));
    assert_non_null(events);
    assert_string_equal(events + strlen("\"traceEvents\":["), want);
    assert_int_equal(trace_write(&t, "/no/such/dir/x.json", &e), TUG_EIO);
    assert_non_null(strstr(e.text, "/no/such/dir"));
    buf_free(&b);
    trace_free(&t);
}

// The times of the loops of one server are corrected by the same difference
// of clocks, the one with the smallest doubt. Differences that may come from
// the network are ignored.
static void clocks(void **state)
{
    (void)state;
    static const struct {
        int64_t ahead[2];
        uint64_t doubt[2];
        int64_t moved;
    } all[] = {
        {{5000, 90}, {6000, 100}, 0},
        {{5000, 900}, {100, 1000}, 5000},
        {{900, -7000}, {1000, 100}, -7000},
        {{0, 0}, {0, 0}, 0},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        struct trace t = open_trace();
        struct wire_event one = push_at(100000, 1), two = push_at(200000, 1);
        for (uint32_t l = 0; l < LOOPS; l++) {
            assert_int_equal(add(&t.loops[l], &two), 0);
            assert_int_equal(add(&t.loops[l], &one), 0);
            t.loops[l].ahead_ns = l < 2 ? all[i].ahead[l] : 12345;
            t.loops[l].doubt_ns = l < 2 ? all[i].doubt[l] : 1;
        }
        trace_align(&t);
        for (uint32_t l = 0; l < LOOPS; l++) {
            uint64_t moved = (uint64_t)(l < 2 ? all[i].moved : 12345);
            assert_int_equal(t.loops[l].events[0].begin_ns, 100000 - moved);
            assert_int_equal(t.loops[l].events[1].begin_ns, 200000 - moved);
            assert_int_equal(t.loops[l].events[1].arrived_ns, 199500 - moved);
        }
        trace_free(&t);
    }
}

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void table(void **state)
{
    (void)state;
    static uint64_t took[SAMPLES];
    struct trace t = open_trace();
    struct buf b = BUF_INIT(1 << 16);
    char want[256];
    double sum = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        took[i] = random_below(1, 0, i, 1000000);
        sum += (double)took[i] * 1e-3;
        struct wire_event push = push_at(1000 + i, took[i]);
        assert_int_equal(add(&t.loops[i % LOOPS], &push), 0);
    }
    struct wire_event none = {.type = 20, .table = UINT32_MAX, .took_ns = 2000};
    struct wire_event other = {.type = 999, .table = UINT32_MAX, .took_ns = 1};
    assert_int_equal(add(&t.loops[1], &none), 0);
    assert_int_equal(add(&t.loops[2], &other), 0);
    qsort(took, SAMPLES, sizeof(*took), by_size);
    snprintf(want, sizeof(want), "%-24s %10d %12.3f %10.1f %10.1f %10.1f %10.1f\n",
             "push sparse", SAMPLES, sum * 1e-3, sum / SAMPLES,
             (double)took[SAMPLES / 2 - 1] * 1e-3,
             (double)took[SAMPLES * 99 / 100 - 1] * 1e-3,
             (double)took[SAMPLES - 1] * 1e-3);
    assert_int_equal(trace_print(&t, &b), 0);
    const char *text = buf_str(&b);
    if (strstr(text, want) == NULL)
        fail_msg("%s\ndoes not say\n%s", text, want);
    snprintf(want, sizeof(want), "%-24s %10d %12.3f %10.1f %10.1f %10.1f %10.1f\n",
             "status", 1, 0.002, 2., 2., 2., 2.);
    assert_non_null(strstr(text, want));
    assert_non_null(strstr(text, "\nmessage 999 "));
    buf_free(&b);
    trace_free(&t);
}

static void malformed_events(void **state)
{
    (void)state;
    struct trace t = open_trace();
    struct err e;
    assert_int_equal(trace_add(&t.loops[0], wire_text("abcdefg"), &e), TUG_EDATA);
    assert_int_equal(t.loops[0].n, 0);
    trace_free(&t);
}

static int whole(struct buf *text)
{
    struct trace t = {.loops = mem_zalloc(sizeof(*t.loops)), .n = 1};
    struct wire_event push = push_at(1000, 5);
    struct err e;
    if (t.loops == NULL)
        return TUG_ENOMEM;
    int rc = trace_name(&t.loops[0], 7, "w");
    if (rc == 0)
        rc = add(&t.loops[0], &push);
    if (rc == 0)
        rc = trace_write(&t, path, &e);
    if (rc == 0)
        rc = trace_print(&t, text);
    trace_free(&t);
    return rc;
}

static void memory(void **state)
{
    (void)state;
    bool struck = true;
    for (long n = 0; struck; n++) {
        size_t live = mem_live();
        struct buf text = BUF_INIT(1 << 16);
        mem_fault_after(n);
        int rc = whole(&text);
        struck = mem_faulted();
        mem_fault_after(-1);
        assert_int_equal(rc, struck ? TUG_ENOMEM : 0);
        buf_free(&text);
        assert_int_equal(mem_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file),   cmocka_unit_test(clocks),
        cmocka_unit_test(table),  cmocka_unit_test(malformed_events),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, begin, files_end);
}
