// Facts of loops: answers that are as documented, and answers of a hostile server.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/loop_facts.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "kit/lone_shard.h"
#include "kit/test.h"
#include "os/file.h"
#include "protocol/spec.h"
#include "runtime/tool.h"

static json_t *parsed(const char *text)
{
    json_t *o = json_loads(text, 0, NULL);
    assert_non_null(o);
    return o;
}

static json_t *kept(const char *text)
{
    json_t *from = parsed(text), *to = loop_facts_keep(from);
    json_decref(from);
    assert_non_null(to);
    return to;
}

static void keeps(const char *text, const char *want)
{
    json_t *to = kept(text), *wanted = parsed(want);
    assert_true(json_equal(to, wanted));
    json_decref(to);
    json_decref(wanted);
}

static void keeps_what_is_documented(void **state)
{
    (void)state;
    static const char all[] =
        "{\"role\": \"server\", \"version\": \"0.1\", \"pid\": 3, \"unix_seconds\": 1.5, "
        "\"disks\": [{\"what\": \"cold\", \"path\": \"/c\", \"free_bytes\": 1, "
        "\"size_bytes\": 2, \"host\": \"h\", \"device\": \"8:1\"}], \"node\": 1, "
        "\"rank\": 0, \"loop\": 0, \"epoch\": 4, "
        "\"waiting\": 0, \"bucket_seconds\": [0.5, 1], \"requests\": {\"push\": "
        "{\"count\": 1, \"seconds\": 0.5, \"buckets\": [1, 0, 0]}}, \"memory\": "
        "{\"rows\": 7, \"links\": 1}, \"tables\": [{\"id\": 0, \"name\": \"t\", "
        "\"removed\": {\"score\": 1}, \"cold\": {\"rows\": 1}, \"staleness\": 2, "
        "\"workers\": [{\"rank\": 0, \"clock\": 5, \"behind\": 1}]}], \"saves\": "
        "{\"made\": 1, \"failed\": 0, \"now\": null, \"last\": {\"number\": null, "
        "\"state\": \"written\", \"path\": \"p\", \"error\": null}}}";
    keeps(all, all);
}

// Every member of a real loop's answer is documented.
static void keeps_a_real_answer(void **state)
{
    (void)state;
    struct lone *w = lone_open(4, &(struct shard_options){0});
    struct table_spec ssp = lone_plain_spec(5, WIRE_SSP, 3);
    lone_make_table(w, &ssp);
    lone_deliver(w, WORKER_LINK, MSG_STATUS, 3, &(struct msg_status){});
    while (w->shard->status.on)
        lone_pass_time(w, 0);
    struct parcel *answer = lone_expect(w, MSG_STATUS_IS);
    json_t *all = json_loadb(answer->m.status_is.json.data, answer->m.status_is.json.n, 0,
                             NULL),
           *to = loop_facts_keep(all);
    assert_true(json_array_size(json_object_get(all, "tables")) > 0);
    assert_true(json_equal(all, to));
    json_decref(to);
    json_decref(all);
    parcel_unpin(answer);
    lone_close(w);
}

static void drops_the_rest(void **state)
{
    (void)state;
    keeps(
        "{\"role\": \"server\", \"x\": [[[{\"y\": 1}]]], \"nodes\": [], \"pid\": "
        "\"3\", \"rank\": {}, \"tables\": {}, \"disks\": [7], \"requests\": {\"push\": "
        "{\"buckets\": [1, \"x\", 2]}, \"spy\": {}}, \"memory\": {\"a\": 1, \"b\": {}}, "
        "\"bucket_seconds\": 5, \"run\": {}}",
        "{\"role\": \"server\", \"disks\": [], \"requests\": {\"push\": {\"buckets\": "
        "[1]}}, \"memory\": {\"a\": 1}}");
    keeps("{}", "{}");
}

// Adds n times the same text, with commas.
static void repeat(struct buf *b, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(buf_printf(b, "%s%s", i > 0 ? "," : "", text), 0);
}

static void lists_and_texts_are_bounded(void **state)
{
    (void)state;
    struct buf b = BUF_INIT(16 << 20);
    assert_int_equal(buf_printf(&b, "{\"role\": \""), 0);
    for (size_t i = 0; i < FILE_PATH_MAX; i++)
        assert_int_equal(buf_add(&b, "x", 1), 0);
    assert_int_equal(buf_printf(&b, "\", \"disks\": ["), 0);
    repeat(&b, "{}", 100);
    assert_int_equal(buf_printf(&b, "], \"bucket_seconds\": ["), 0);
    repeat(&b, "1", 1000);
    assert_int_equal(buf_printf(&b, "], \"memory\": {\"m\": 0"), 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(buf_printf(&b, ", \"m%d\": 1", i), 0);
    assert_int_equal(buf_printf(&b, "}, \"tables\": ["), 0);
    repeat(&b, "{\"id\": 1}", SPEC_MAX_TABLES + 1);
    assert_int_equal(buf_printf(&b, "]}"), 0);
    json_t *o = kept(buf_str(&b));
    assert_null(json_object_get(o, "role"));
    assert_true(json_array_size(json_object_get(o, "disks")) <= 8);
    assert_true(json_array_size(json_object_get(o, "bucket_seconds")) <= 64);
    assert_true(json_object_size(json_object_get(o, "memory")) <= 32);
    assert_int_equal(json_array_size(json_object_get(o, "tables")), SPEC_MAX_TABLES);
    json_decref(o);
    buf_free(&b);
}

// The number of workers in all tables together is bounded, too.
static void workers_are_bounded(void **state)
{
    (void)state;
    enum { MANY = 40000 };
    struct buf b = BUF_INIT(16 << 20);
    assert_int_equal(buf_printf(&b, "{\"tables\": [{\"workers\": ["), 0);
    repeat(&b, "{}", MANY);
    assert_int_equal(buf_printf(&b, "]}, {\"workers\": ["), 0);
    repeat(&b, "{}", MANY);
    assert_int_equal(buf_printf(&b, "]}]}"), 0);
    json_t *o = kept(buf_str(&b)), *tables = json_object_get(o, "tables"), *t;
    size_t i, n = 0;
    json_array_foreach(tables, i, t)
        n += json_array_size(json_object_get(t, "workers"));
    assert_true(n >= MANY && n < 2 * MANY);
    json_decref(o);
    buf_free(&b);
}

static void is(const json_t *o, const char *name, int64_t want)
{
    assert_int_equal(json_integer_value(json_object_get(o, name)), want);
}

static void adds_up_tables(void **state)
{
    (void)state;
    json_t *loops = parsed(
        "[{\"tables\": [{\"id\": 1, \"name\": \"t\", \"rows\": 2, \"clock\": 5, "
        "\"removed\": {\"age\": 1}}]}, {\"error\": \"x\"}, "
        "{\"tables\": [{\"id\": 1, \"name\": \"t\", \"rows\": 3, \"clock\": 7, "
        "\"removed\": {\"age\": 4}, \"cold\": {\"rows\": 6}}, {\"id\": 0, \"name\": "
        "\"u\"}]}]");
    json_t *tables = loop_facts_sum_tables(loops), *t = json_array_get(tables, 0);
    assert_int_equal(json_array_size(tables), 2);
    is(t, "rows", 5);
    is(t, "clock", 5);
    is(t, "clock_max", 7);
    is(json_object_get(t, "removed"), "age", 5);
    is(json_object_get(t, "cold"), "rows", 6); // one loop alone has cold rows
    // the loops' own numbers have not changed
    is(json_object_get(
           json_array_get(json_object_get(json_array_get(loops, 0), "tables"), 0),
           "removed"),
       "age", 1);
    json_decref(tables);
    json_decref(loops);
}

// Sums do not overflow, and values of other types do no harm.
static void bears_evil_tables(void **state)
{
    (void)state;
    static const char evil[] =
        "{\"tables\": [{\"id\": 1, \"name\": \"\", \"rows\": 9223372036854775807, "
        "\"bytes\": 1e308, "
        "\"pulls\": -9223372036854775808, \"cold\": {\"rows\": 9223372036854775807, "
        "\"x\": "
        "[]}, \"removed\": 5, \"clock\": -9223372036854775808}, 5, {\"id\": -1}, "
        "{\"id\": "
        "1e300}, {\"id\": 4096, \"name\": \"t\"}, [], {}, {\"id\": 2}, {\"id\": 3, "
        "\"name\": null}]}";
    struct buf b = BUF_INIT(1 << 20);
    assert_int_equal(buf_add(&b, "[", 1), 0);
    repeat(&b, evil, 64);
    assert_int_equal(buf_add(&b, "]", 1), 0);
    json_t *loops = parsed(buf_str(&b)), *tables = loop_facts_sum_tables(loops), *t;
    // tables without a name are left out, because the page's script relies on names
    assert_int_equal(json_array_size(tables), 1);
    t = json_array_get(tables, 0);
    is(t, "rows", (int64_t)1 << 53);
    is(t, "bytes", (int64_t)1 << 53);
    assert_true(json_integer_value(json_object_get(t, "pulls")) < 0);
    is(json_object_get(t, "cold"), "rows", (int64_t)1 << 53);
    json_decref(tables);
    json_decref(loops);
    buf_free(&b);
    assert_int_equal(loop_facts_add(1, 2), 3);
    assert_true(loop_facts_add(UINT64_MAX, 2) == UINT64_MAX);
}

static void values_are(const char *text, size_t least)
{
    assert_int_equal(tool_count_values(text, strlen(text)), least);
}

static void counts_values_before_parsing(void **state)
{
    (void)state;
    values_are("", 1);
    values_are("[1,2,3]", 4);
    values_are("{\"a,{[\": \"\\\",[\", \"b\": [[]]}", 5);
    values_are("\"\\", 1); // ends within an escape
    assert_int_equal(tool_count_values(NULL, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_what_is_documented),
        cmocka_unit_test(keeps_a_real_answer),
        cmocka_unit_test(drops_the_rest),
        cmocka_unit_test(lists_and_texts_are_bounded),
        cmocka_unit_test(workers_are_bounded),
        cmocka_unit_test(adds_up_tables),
        cmocka_unit_test(bears_evil_tables),
        cmocka_unit_test(counts_values_before_parsing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
