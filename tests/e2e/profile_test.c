// `tug profile` on a running cluster of two loops: the file has the format that Chrome
// and Perfetto read, its times are those of this machine's clock, each loop does one
// thing at a time, and the printed table agrees with the file.
//
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include "kit/processes.h"
#include "os/clock.h"

enum { PUSHES = 300, LOOPS = 2, MAX_WAITS = 1 << 20 };

static unsigned port;

// Returns the sum of the pushes of all tables in the status.
static double pushes_so_far(void)
{
    double sum = 0;
    json_t *status, *table;
    size_t i;
    tug_ends(0, "status --json --scheduler 127.0.0.1:%u", port);
    status = e2e_json();
    json_array_foreach(json_object_get(status, "tables"), i, table)
        sum += json_number_value(json_object_get(table, "pushes"));
    json_decref(status);
    return sum;
}

static void await_pushes(double n)
{
    double until = cluster_now() + CLUSTER_PATIENCE;
    while (pushes_so_far() < n) {
        if (cluster_now() > until)
            cluster_fail("%g pushes never came", n);
        poll(NULL, 0, 10);
    }
}

static const char *text(const json_t *event, const char *name)
{
    const char *found = json_string_value(json_object_get(event, name));
    return found != NULL ? found : "";
}

static double number(const json_t *event, const char *name)
{
    return json_number_value(json_object_get(event, name));
}

// Counts and times of the events of a trace that were read so far.
struct seen {
    size_t requests, pushes, waits, ends, loops, processes;
    double pushed_keys;
    double last_end[LOOPS + 1], last_begin[LOOPS + 1]; // times in microseconds, by tid
    // Begin of each open wait plus 1, by id; 0 if no wait has this id.
    double open[MAX_WAITS];
};

static void see_request(struct seen *s, const json_t *event, size_t tid)
{
    const json_t *args = json_object_get(event, "args");
    double ts = number(event, "ts"), dur = number(event, "dur");
    // A loop handles one request at a time.
    assert_true(dur >= 0 && ts + 5e-4 >= s->last_end[tid]);
    assert_true(json_is_number(json_object_get(args, "keys")));
    assert_true(json_is_number(json_object_get(args, "bytes")));
    s->last_end[tid] = ts + dur;
    s->requests++;
    if (strncmp(text(event, "name"), "push ", 5) == 0) {
        // Four bytes for each value, one or more for each key.
        assert_true(number(args, "bytes") >= 4 * number(args, "keys"));
        s->pushed_keys += number(args, "keys");
        assert_true(*text(args, "table") != '\0');
        s->pushes++;
    }
}

static void see_event(struct seen *s, const json_t *event)
{
    const char *phase = text(event, "ph");
    size_t tid = (size_t)number(event, "tid");
    double ts = number(event, "ts");
    assert_true(ts >= 0 && *text(event, "name") != '\0');
    if (strcmp(phase, "M") == 0) {
        s->loops += strcmp(text(event, "name"), "thread_name") == 0;
        s->processes += strcmp(text(event, "name"), "process_name") == 0;
        return;
    }
    assert_in_range(tid, 1, LOOPS);
    assert_true(number(event, "pid") == 1);
    size_t id = (size_t)number(event, "id");
    if (strcmp(phase, "e") == 0) { // the end of a wait follows its begin
        assert_true(id < MAX_WAITS && s->open[id] > 0 && ts + 1 >= s->open[id]);
        s->open[id] = 0;
        s->ends++;
        return;
    }
    assert_true(ts >= s->last_begin[tid]); // the events of a loop are in order of time
    s->last_begin[tid] = ts;
    if (strcmp(phase, "X") == 0) {
        see_request(s, event, tid);
        return;
    }
    assert_string_equal(phase, "b");
    assert_non_null(strstr(text(event, "name"), ", waiting"));
    assert_true(id < MAX_WAITS && s->open[id] == 0);
    s->open[id] = ts + 1; // 0 would mean that no wait has this id
    s->waits++;
}

static void read_trace(const char *path, uint64_t not_before, struct seen *ret)
{
    size_t n, i;
    char *bytes = files_read(path, &n);
    json_error_t why;
    json_t *all, *event;
    assert_non_null(bytes);
    all = json_loadb(bytes, n, JSON_REJECT_DUPLICATES, &why);
    if (all == NULL)
        fail_msg("%s:%d: %s", path, why.line, why.text);
    memset(ret, 0, sizeof(*ret));
    json_array_foreach(json_object_get(all, "traceEvents"), i, event)
        see_event(ret, event);
    const char *begin = text(json_object_get(all, "otherData"), "begin_unix_ns");
    uint64_t began = strtoull(begin, NULL, 10), now = clock_unix_ns();
    if (began < not_before || began > now)
        fail_msg("it began %.3f s after the cluster",
                 ((double)began - (double)not_before) * 1e-9);
    json_decref(all);
    mem_free(bytes);
}

// Returns the count of a kind of events in the printed table; 0 if the table lacks it.
static size_t printed(const char *kind)
{
    const char *line = strstr(e2e_out, kind);
    return line != NULL ? strtoull(line + strlen(kind), NULL, 10) : 0;
}

static void on_a_running_cluster(void **state)
{
    (void)state;
    static struct seen s;
    // Taken before the cluster starts, because requests that wait when profiling starts
    // began earlier.
    uint64_t started = clock_unix_ns();
    cluster_start("run",
                  "launch --servers 1 --loops 2 --workers 2 -- train --data data.svm "
                  "--format libsvm --epochs 1000000 --mode sync --batch 64");
    port = cluster_port("run");
    await_pushes(1);
    tug_ends(2, "profile stop --scheduler 127.0.0.1:%u --out none.json", port);
    e2e_says("no profile has been started");
    assert_false(files_exists("none.json"));

    tug_ends(0, "profile start --scheduler 127.0.0.1:%u", port);
    assert_non_null(strstr(e2e_out, "2 loops"));
    double before = pushes_so_far();
    await_pushes(before + PUSHES);
    tug_ends(4, "profile stop --scheduler 127.0.0.1:%u --out no/such/dir.json", port);
    tug_ends(0, "profile stop --scheduler 127.0.0.1:%u --out profile.json", port);
    assert_non_null(strstr(e2e_out, "profile.json: "));
    size_t sparse = printed("push sparse"), dense = printed("push dense");
    read_trace("profile.json", started, &s);
    assert_int_equal(s.processes, LOOPS); // the file names one process for each loop
    assert_int_equal(s.loops, LOOPS);
    assert_true(s.pushes >= PUSHES && s.pushed_keys > PUSHES);
    assert_int_equal(s.pushes, sparse + dense);
    assert_true(s.waits > 0); // pulls wait for the other worker
    assert_int_equal(s.waits, s.ends);
    tug_ends(2, "profile stop --scheduler 127.0.0.1:%u --out none.json", port);
    e2e_says("no profile has been started");

    // With little memory, the newest events remain, and a note says that older ones were
    // dropped.
    tug_ends(0, "profile start --memory 4096 --scheduler 127.0.0.1:%u", port);
    await_pushes(pushes_so_far() + PUSHES);
    tug_ends(0, "profile stop --scheduler 127.0.0.1:%u --out few.json", port);
    assert_non_null(strstr(e2e_out, "older ones had no room"));
    read_trace("few.json", started, &s);
    assert_true(s.requests + s.waits <= LOOPS * (4096 / 48));
    cluster_signal("run", SIGINT);
    cluster_ends("run", 130, CLUSTER_PATIENCE);
    cluster_none_left();
}

static void wrong_words(void **state)
{
    (void)state;
    tug_ends(2, "profile");
    e2e_says("'tug profile start' or 'tug profile stop'");
    tug_ends(2, "profile start stop");
    tug_ends(2, "profile stat");
    tug_ends(4, "profile start --connect-timeout 1 --scheduler 127.0.0.1:%u",
             cluster_free_port());
}

static int begin(void **state)
{
    if (cluster_begin(state) != 0)
        return -1;
    tug_ends(0, "synth --rows 2000 --format libsvm --out data.svm");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cluster_test(on_a_running_cluster),
        cluster_test(wrong_words),
    };
    return cmocka_run_group_tests(tests, begin, cluster_end);
}
