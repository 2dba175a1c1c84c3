// Reports are written, read and added up: the total of some reports gives the same sums as
// these reports, one after the other.
//
// SPDX-License-Identifier: Apache-2.0
#include "train_cluster/report.h"

#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "cluster/leases/leases.h"
#include "kit/test.h"

enum { LABELS = 2, REPORTS = 20 };

static void fill(struct metrics_stream *m, uint64_t seed)
{
    metrics_streams_clear(m, LABELS);
    for (uint32_t k = 0; k < LABELS; k++) {
        m[k].examples = 1 + random_below(seed, k, 0, 100);
        m[k].weight = (double)m[k].examples;
        m[k].loss = random_f64(seed, k, 1);
        for (uint64_t i = 0; i < 50; i++)
            m[k].positive[random_below(seed, k, 10 + i, METRICS_BUCKETS)] += 1;
        for (uint64_t i = 0; i < 50; i++)
            m[k].negative[random_below(seed, k, 100 + i, METRICS_BUCKETS)] += 2;
    }
}

static void write(struct metrics_stream *m, uint64_t seed, struct buf *to)
{
    struct report r = {.stream = m,
                       .labels = LABELS,
                       .read_seconds = 2,
                       .bad_lines = seed % 5,
                       .data_bytes = seed};
    fill(m, seed);
    buf_clear(to);
    assert_int_equal(report_write(&r, to), 0);
}

struct seen {
    struct metrics_stream *stream;
    double read_seconds;
    uint64_t bad_lines, most_bad_lines;
};

static void read_into(struct seen *s, const struct buf *b)
{
    const char *bytes = b->data;
    size_t n = b->len;
    struct report r = {.stream = s->stream, .labels = LABELS};
    int rc;
    while ((rc = report_next(&bytes, &n, &r)) == 1) {
        if (r.total)
            *s = (struct seen){.stream = s->stream};
        s->read_seconds += r.read_seconds;
        s->bad_lines += r.bad_lines;
        if (r.most_bad_lines > s->most_bad_lines)
            s->most_bad_lines = r.most_bad_lines;
    }
    assert_int_equal(rc, 0);
}

static struct wire_text text_of(const struct buf *b)
{
    return (struct wire_text){b->data, (uint32_t)b->len};
}

static void test_totals(void **state)
{
    struct metrics_stream *m = metrics_streams(LABELS);
    struct seen one = {.stream = metrics_streams(LABELS)},
                all = {.stream = metrics_streams(LABELS)};
    struct buf report = BUF_INIT(WIRE_BYTES_MAX), total = BUF_INIT(WIRE_BYTES_MAX);
    (void)state;
    metrics_streams_clear(one.stream, LABELS);
    metrics_streams_clear(all.stream, LABELS);
    for (uint64_t seed = 1; seed <= REPORTS; seed++) {
        struct buf next = BUF_INIT(WIRE_BYTES_MAX);
        write(m, seed, &report);
        read_into(&one, &report);
        assert_int_equal(report_merge(&next, text_of(&total), text_of(&report)), 0);
        buf_free(&total);
        total = next;
        read_into(&all, &total);
        assert_memory_equal(one.stream, all.stream, LABELS * sizeof(*one.stream));
        assert_true(one.read_seconds == all.read_seconds);
        assert_true(one.bad_lines == all.bad_lines && all.most_bad_lines <= 4);
    }
    buf_free(&report);
    buf_free(&total);
    mem_free(m);
    mem_free(one.stream);
    mem_free(all.stream);
}

// Bytes that are cut off or changed give an error or a total, and nothing else.
static void test_damage(void **state)
{
    struct metrics_stream *m = metrics_streams(LABELS);
    struct buf report = BUF_INIT(WIRE_BYTES_MAX), to = BUF_INIT(WIRE_BYTES_MAX);
    (void)state;
    write(m, 3, &report);
    size_t n = report.len;
    for (report.len = 1; report.len < n; report.len++) {
        int rc = report_merge(&to, (struct wire_text){0}, text_of(&report));
        assert_true(rc == 0 || rc == TUG_EDATA);
        buf_clear(&to);
    }
    for (uint64_t i = 0; i < 3000; i++) {
        size_t at = random_below(1, 1, i, n);
        char was = report.data[at];
        report.data[at] = (char)random_below(1, 2, i, 256);
        int rc = report_merge(&to, (struct wire_text){0}, text_of(&report));
        assert_true(rc == 0 || rc == TUG_EDATA);
        buf_clear(&to);
        report.data[at] = was;
    }
    buf_free(&report);
    buf_free(&to);
    mem_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_totals),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
