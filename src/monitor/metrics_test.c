// Metrics: their text for small facts, their escapes, and the rules of Prometheus's
// linter for names.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "kit/facts.h"
#include "kit/test.h"
#include "monitor/metrics_internal.h"

static struct buf text;

static const char *render(const char *sample, bool open)
{
    json_t *facts = sample_facts(sample);
    buf_clear(&text);
    OK(render_metrics(facts, open, &text));
    json_decref(facts);
    return buf_str(&text);
}

static void has(const char *all, const char *line)
{
    if (strstr(all, line) == NULL)
        fail_msg("missing: %s in\n%s", line, all);
}

static void writes_a_small_document(void **state)
{
    (void)state;
    const char *all = render("{'role': 'worker', 'rank': 2, 'version': '0.1', 'joined': "
                             "true, 'examples': 12345678, 'pull_seconds': 0.125, "
                             "'seconds_since_progress': null}",
                             false);
    assert_string_equal(
        all, "# HELP tug_info The version of tug.\n"
             "# TYPE tug_info gauge\n"
             "tug_info{role=\"worker\",rank=\"2\",version=\"0.1\"} 1\n"
             "# HELP tug_worker_joined 1 when the worker has joined.\n"
             "# TYPE tug_worker_joined gauge\n"
             "tug_worker_joined{role=\"worker\",rank=\"2\"} 1\n"
             "# HELP tug_worker_examples_total Examples of the worker.\n"
             "# TYPE tug_worker_examples_total counter\n"
             "tug_worker_examples_total{role=\"worker\",rank=\"2\"} 12345678\n"
             "# HELP tug_worker_pull_seconds_total Time that lanes waited for rows.\n"
             "# TYPE tug_worker_pull_seconds_total counter\n"
             "tug_worker_pull_seconds_total{role=\"worker\",rank=\"2\"} 0.125\n");
}

static void writes_openmetrics(void **state)
{
    (void)state;
    const char *all = render("{'role': 'worker', 'rank': 2, 'pull_seconds': 0.125, "
                             "'uptime_seconds': 2}",
                             true);
    assert_string_equal(all, "# HELP tug_uptime_seconds Time since the process began.\n"
                             "# TYPE tug_uptime_seconds gauge\n"
                             "# UNIT tug_uptime_seconds seconds\n"
                             "tug_uptime_seconds{role=\"worker\",rank=\"2\"} 2\n"
                             "# HELP tug_worker_pull_seconds Time that lanes waited for "
                             "rows.\n"
                             "# TYPE tug_worker_pull_seconds counter\n"
                             "# UNIT tug_worker_pull_seconds seconds\n"
                             "tug_worker_pull_seconds_total{role=\"worker\",rank=\"2\"} "
                             "0.125\n"
                             "# EOF\n");
}

static void visits_loops_and_tables(void **state)
{
    (void)state;
    const char *all = render(SAMPLE_SERVER, false);
    has(all,
        "\ntug_request_duration_seconds_bucket{role=\"server\",rank=\"1\",loop=\"0\","
        "kind=\"push\",le=\"0.001\"} 5\n");
    has(all, "kind=\"push\",le=\"0.002\"} 9\n");
    has(all, "kind=\"push\",le=\"+Inf\"} 10\n");
    has(all, "\ntug_request_duration_seconds_count{role=\"server\",rank=\"1\",loop=\"0\","
             "kind=\"push\"} 10\n");
    has(all,
        "\ntug_table_rows{role=\"server\",rank=\"1\",loop=\"0\",table=\"a\\\"b<script>"
        "\"} 1234\n");
    has(all, "\ntug_table_removed_rows_total{role=\"server\",rank=\"1\",loop=\"0\",table="
             "\"a\\\"b<script>\",reason=\"age\"} 6\n");
    has(all, "table=\"a\\\"b<script>\",worker=\"0\",lane=\"1\"} 1\n");
    has(all, "\ntug_disk_free_bytes{role=\"server\",rank=\"1\",what=\"saves\",host=\"h\","
             "device=\"8:1\"} 500\n");
    has(all, "\ntug_server_last_save_timestamp_seconds{role=\"server\",rank=\"1\",loop="
             "\"0\"} 1940\n");
}

static void tells_of_its_own_process_only(void **state)
{
    (void)state;
    const char *all = render(SAMPLE_CLUSTER, false);
    has(all, "\ntug_node_up{role=\"scheduler\",node_role=\"server\",node_rank=\"1\",loop="
             "\"0\"} 1\n");
    has(all, "\ntug_worker_read_examples_total{role=\"scheduler\",worker=\"1\",lane="
             "\"0\"} 400\n");
    has(all, "\ntug_run_loss{role=\"scheduler\"} 0.4321\n");
    has(all,
        "\ntug_placement_max_over_mean_ratio{role=\"scheduler\",space=\"sparse\"} 1\n");
    assert_null(strstr(all, "tug_run_auc"));    // the facts have null as its value
    assert_null(strstr(all, "tug_table_rows")); // this process is not a server
}

// Prometheus keeps only one of several samples that have the same labels. A worker has a
// node for each of its lanes, and, in each table, a clock for each lane.
static void tells_lanes_apart(void **state)
{
    (void)state;
    const char *all = render("{'role': 'scheduler', 'nodes': [{'role': 'worker', 'rank': "
                             "0, 'loop': 0, 'examples': 5}, {'role': 'worker', 'rank': "
                             "0, 'loop': 1, 'examples': 6}]}",
                             false);
    has(all, "{role=\"scheduler\",worker=\"0\",lane=\"0\"} 5\n");
    has(all, "{role=\"scheduler\",worker=\"0\",lane=\"1\"} 6\n");
    all = render("{'role': 'server', 'servers': [{'loop': 0, 'tables': [{'name': 't', "
                 "'workers': [{'rank': 0, 'loop': 0, 'behind': 5}, {'rank': 0, 'loop': "
                 "1, 'behind': 6}]}]}]}",
                 false);
    has(all, "table=\"t\",worker=\"0\",lane=\"0\"} 5\n");
    has(all, "table=\"t\",worker=\"0\",lane=\"1\"} 6\n");
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n > k && strcmp(name + n - k, end) == 0;
}

// Names follow the rules of promtool's linter and of docs/cluster.md.
static void names_follow_the_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < metrics_n; i++) {
        const struct metric *m = &metrics[i];
        assert_memory_equal(m->name, "tug_", 4);
        assert_int_equal(ends_with(m->name, "_total"), m->type == METRIC_COUNTER);
        assert_false(ends_with(m->name, "_count") || ends_with(m->name, "_sum") ||
                     ends_with(m->name, "_bucket"));
        assert_true(ends_with(m->help, "."));
        assert_null(strpbrk(m->help, "\\\n"));
        for (size_t k = i + 1; k < metrics_n; k++)
            // Rows of one name must be adjacent and have one type.
            if (strcmp(m->name, metrics[k].name) == 0)
                assert_true(strcmp(m->name, metrics[k - 1].name) == 0 &&
                            m->type == metrics[k].type &&
                            strcmp(m->help, metrics[k].help) == 0);
    }
}

static void survives_facts_of_other_types(void **state)
{
    (void)state;
    (void)render("[1, 2]", false);
    (void)render("{'role': 3, 'servers': {'a': 1}, 'run': [], 'disks': 'x'}", false);
    (void)render("{'role': 'server', 'servers': [1, null, {'requests': {'push': 1, "
                 "'pull': {'buckets': 3}}, 'tables': [[]], 'memory': 7}]}",
                 false);
    (void)render("{'role': 'scheduler', 'nodes': [3], 'placement': [1]}", true);
}

int main(void)
{
    text = BUF_INIT(1 << 20);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_a_small_document),
        cmocka_unit_test(writes_openmetrics),
        cmocka_unit_test(visits_loops_and_tables),
        cmocka_unit_test(tells_of_its_own_process_only),
        cmocka_unit_test(tells_lanes_apart),
        cmocka_unit_test(names_follow_the_rules),
        cmocka_unit_test(survives_facts_of_other_types),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    buf_free(&text);
    return rc;
}
