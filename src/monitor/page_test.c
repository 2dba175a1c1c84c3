// The page, the verdict and readiness for healthy and for ill clusters, and for names
// that contain markup.
//
// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "kit/facts.h"
#include "kit/test.h"
#include "monitor/page_internal.h"
#include "os/clock.h"

extern const unsigned char page_html[];

static struct buf text;

static const char *main_of(const char *sample, const char *earlier)
{
    struct facts_told t = {.now = sample_facts(sample), .asked_ns = 3 * SECOND_NS};
    if (earlier != NULL) {
        t.before = sample_facts(earlier);
        t.before_ns = SECOND_NS;
    }
    buf_clear(&text);
    OK(render_main(&t, &text));
    facts_told_free(&t);
    return buf_str(&text);
}

static void has(const char *all, const char *part)
{
    if (strstr(all, part) == NULL)
        fail_msg("missing: %s in\n%s", part, all);
}

static void shows_a_cluster(void **state)
{
    (void)state;
    const char *all = main_of(SAMPLE_CLUSTER, NULL);
    has(all, "<p id=\"verdict\" class=\"well\">1 server and 2 workers alive; worker "
             "1 is slow (67 % of the fastest one&#39;s speed); training, pass 3 of 5, "
             "12,346 examples a second; last save 3 min "
             "ago</p>");
    has(all, "<dt>loss</dt><dd>0.4321</dd>");
    has(all, "<dt>AUC</dt><dd>–</dd>");
    has(all, "<td class=\"n\">1,234</td>");
    has(all, "<polyline class=\"train\" points=\"0.0,");
    has(all, "<path class=\"c0\" d=\"M0 0h4v1h-4z\">");
    has(all, "<td>out/save-000002</td>");
    has(all, "<td>1970-01-01 00:16:40</td><td>admin</td><td>a tool (operator)</td>");
    has(all, "<td class=\"n\">75.0 %</td>"); // hits of the cold tier
}

static void escapes_names(void **state)
{
    (void)state;
    const char *all = main_of(SAMPLE_CLUSTER, NULL);
    has(all, "a&quot;b&lt;script&gt;");
    has(all, "&lt;img src=x&gt;");
    has(all, "save to &lt;x&gt;");
    has(all, "/&lt;b&gt;");
    assert_null(strstr(all, "<script"));
    assert_null(strstr(all, "<img"));
    assert_null(strstr(all, "<x>"));
    all = main_of("{'role': 'train', 'run': {'state': 'failed', 'error': "
                  "'<script>alert(1)</script>\\u0007&'}}",
                  NULL);
    has(all, "class=\"ill\">the training failed: &lt;script&gt;alert(1)&lt;/script&gt;"
             "\\x07&amp;</p>");
}

static void computes_rates(void **state)
{
    (void)state;
    const char *earlier =
        "{'servers': [{'rank': 0, 'loop': 0, 'bucket_seconds': [0.001, 0.002], "
        "'requests': {'push': {'seconds': 1, 'buckets': [10, 0, 0]}}}], 'tables': "
        "[{'id': 0, 'name': 't', 'rows': 100, 'pushes': 7}]}";
    const char *now =
        "{'servers': [{'rank': 0, 'loop': 0, 'bucket_seconds': [0.001, 0.002], "
        "'requests': {'push': {'seconds': 1.5, 'buckets': [10, 100, 0]}}}], 'tables': "
        "[{'id': 0, 'name': 't', 'rows': 300, 'pushes': 9}]}";
    const char *all = main_of(now, earlier);
    has(all,
        "<tr><td>push</td><td class=\"n\">50</td><td class=\"n\">1.5 ms</td><td "
        "class=\"n\">2.0 ms</td><td class=\"n\">5.0 ms</td><td class=\"n\">110</td>");
    has(all, "are of requests in the last 2.0 s.</p>");
    has(all, "CPU, push p99 and pull p99 are of the time in the last 2.0 s.</p>");
    has(all, "<td>t</td><td></td><td class=\"n\">300</td><td class=\"n\">–</td><td "
             "class=\"n\">100</td>");
    all = main_of(now, NULL); // one set of facts gives no rates
    has(all, "<tr><td>push</td><td class=\"n\">–</td>");
    has(all, "are of requests since the process began.</p>");
}

static void shows_a_worker(void **state)
{
    (void)state;
    const char *now =
        "{'role': 'worker', 'joined': true, 'lanes': 2, 'pass': 2, 'examples': 1234, "
        "'examples_per_second': 500, 'seconds_since_progress': 0.5, 'pull_seconds': 3, "
        "'compute_seconds': 8, 'push_seconds': 0, 'read_seconds': 1, 'resent': 1, "
        "'pieces': [{'lane': 0, 'file': 1, 'index': 7, 'seconds': 2}, {'lane': 1, "
        "'seconds': 2}]}";
    const char *earlier =
        "{'role': 'worker', 'joined': true, 'pull_seconds': 2, 'compute_seconds': 5, "
        "'push_seconds': 0, 'read_seconds': 1}";
    const char *all = main_of(now, NULL);
    has(all, "joined, pass 2, 1,234 examples</p>");
    has(all, "<div><dt>requests sent again</dt><dd>1</dd></div>");
    has(all, "<td>waiting for rows</td><td class=\"n\">25.0 %</td><td "
             "class=\"n\">3.0 s</td>");
    has(all, "<td class=\"n\">7</td><td class=\"n\">2.0 s</td>");
    has(all, "this worker has 2. The time in all is the sum over its lanes.</p>");
    has(all, "The shares are of the time since the process began.</p>");
    all = main_of(now, earlier);
    has(all, "<td>computing</td><td class=\"n\">75.0 %</td>");
    has(all, "The shares are of the time in the last 2.0 s.</p>");
}

static void verdict_is(const char *sample, bool well, const char *says)
{
    char line[RENDER_TEXT_MAX];
    struct facts_told t = {.now = sample_facts(sample)};
    assert_int_equal(render_verdict(&t, line), well);
    if (strstr(line, says) == NULL)
        fail_msg("'%s', not '%s'", line, says);
    facts_told_free(&t);
}

#define NODE_OF(role, rank, alive, more)                                                 \
    "{'role': '" role "', 'rank': " rank ", 'loop': 0, 'left': false, 'alive': " alive   \
    ", 'linked': true" more "}"

static void says_what_is_wrong(void **state)
{
    (void)state;
    verdict_is(
        "{'role': 'scheduler', 'phase': 'running', 'nodes': [" NODE_OF(
            "server", "0", "true", "") ", " NODE_OF("worker", "2", "false", "") "]}",
        false, "worker 2 is dead");
    verdict_is("{'role': 'scheduler', 'nodes': [" NODE_OF(
                   "worker", "2", "true",
                   ", 'pieces_held': 1, 'seconds_since_progress': 75") "]}",
               false, "worker 2 has finished nothing for 75 s");
    verdict_is(
        "{'role': 'scheduler', 'servers': [{'rank': 1, 'loop': 3, 'error': 'why'}]}",
        false, "server 1 loop 3 does not answer: why");
    verdict_is("{'role': 'scheduler', 'servers': [{'rank': 1, 'loop': 0, 'memory': "
               "{'rows': 95, 'rows_max': 100}}]}",
               false, "server 1: its memory for rows is nearly full");
    verdict_is("{'role': 'train', 'disks': [{'what': 'saves', 'free_bytes': 2000000, "
               "'size_bytes': 100000000}]}",
               false, "the disk of saves () is nearly full, 2.0 MB are free");
    verdict_is("{'role': 'train', 'disks': [{'what': 'saves', 'free_bytes': 9000000, "
               // The alert TugDiskNearlyFull has the same limit.
               "'size_bytes': 100000000}]}",
               false, "the disk of saves () is nearly full, 9.0 MB are free");
    verdict_is("{'role': 'train', 'run': {'state': 'failed', 'diverged': true}}", false,
               "the training has diverged; the training failed");
    verdict_is("{'role': 'server', 'servers': [{'rank': 0, 'loop': 0, 'saves': {'last': "
               "{'state': 'failed', 'error': 'disk full'}}}]}",
               false, "server 0: the last save failed: disk full");
    verdict_is("{'role': 'launch', 'processes': [{'name': 'worker 1', 'state': 'ended', "
               "'code': 4}]}",
               false, "worker 1 has ended with code 4");
    verdict_is("{'role': 'launch', 'processes': [{'name': 'worker 1', 'state': "
               "'running', 'code': null}]}",
               true, "1 of 1 processes run");
    verdict_is("{'role': 'launch', 'processes': [{'name': 'worker 1', 'pid': 77, "
               "'state': 'stopped', 'code': null}]}",
               false, "worker 1 (process 77) is stopped, by SIGSTOP or a debugger");
    verdict_is("{'role': 'scheduler', 'phase': 'gathering', 'servers_wanted': 2, "
               "'workers_wanted': 1}",
               true, "gathering: 0 of 2 servers and 0 of 1 worker have joined");
}

#define RUN_OF(more)                                                                     \
    "{'role': 'train', 'run': {'state': 'training', 'pass': 6, 'passes': 9, "            \
    "'examples': "                                                                       \
    "20000" more "}}"
#define PASS_OF(pass, auc, loss, valid_auc)                                              \
    "{'pass': " pass ", 'loss': 0.4, 'auc': " auc ", 'valid': {'loss': " loss            \
    ", 'auc': " valid_auc "}}"

// In each of these cases the run goes on, but the verdict is bad: the loss is worse than
// a guess, the loss has risen above its minimum, or validation gets worse while training
// gets better.
static void sees_that_training_goes_wrong(void **state)
{
    (void)state;
    verdict_is(RUN_OF(", 'loss': 5.01, 'auc': 0.5"), false,
               "the training diverges: the loss 5.01 is worse than a guess (0.69)");
    verdict_is(RUN_OF(", 'loss': 0.7, 'base_loss': 0.56, 'auc': 0.5"), false,
               "the training learns nothing: the loss 0.7 is not below 0.56, which the "
               "mean label alone gives");
    verdict_is(RUN_OF(", 'loss': 0.55, 'base_loss': 0.56, 'auc': 0.5"), true, "training");
    verdict_is(RUN_OF(", 'loss': 0.7, 'base_loss': null, 'auc': 0.5"), true, "training");
    verdict_is("{'role': 'train', 'run': {'state': 'training', 'pass': 1, 'passes': 9, "
               "'examples': 20000, 'loss': 0.7, 'base_loss': 0.56, 'auc': 0.5}}",
               true, "training, pass 1 of 9"); // the pass has just begun
    verdict_is(RUN_OF(", 'loss': 5.01, 'auc': null"), true, "training, pass 6 of 9");
    verdict_is(RUN_OF(", 'loss': 0.9, 'auc': null, 'history': [{'pass': 1, 'loss': 0.5}, "
                      "{'pass': 2, 'loss': 0.6}]"),
               false, "the training diverges: the loss is 0.9, and was 0.5 in pass 1");
    verdict_is(
        RUN_OF(
            ", 'loss': 0.4, 'history': [" PASS_OF("3", "0.8", "0.5", "0.7") ", " PASS_OF(
                "4", "0.8", "0.49", "0.7") ", " PASS_OF("5", "0.8", "0.552", "0.7") "]"),
        true, "training");
    verdict_is(
        RUN_OF(", 'loss': 0.4, 'history': [" PASS_OF(
            "4", "0.8", "0.491",
            "0.7") ", " PASS_OF("5", "0.8", "0.53",
                                "0.7") ", " PASS_OF("6", "0.8", "0.552", "0.7") "]"),
        false, "validation has worsened since pass 4: the loss was 0.491 and is 0.552");
    verdict_is(
        RUN_OF(", 'history': [" PASS_OF("1", "0.96", "0.7", "0.5") "]"), false,
        "the model seems to overfit: the validation AUC is 0.5, the training AUC 0.96");
}

#define VALID_OF(pass, loss)                                                             \
    "{'pass': " pass                                                                     \
    ", 'examples': 20000, 'loss': 0.1, 'auc': 0.99, 'valid': {'loss': " loss             \
    ", 'auc': 0.6}}"

// A model that learns its data by heart has a small training loss while its weights explode:
// it diverges, which is more than overfitting. A loss that is not so high is that of a model
// that overfits.
static void sees_that_validation_diverges(void **state)
{
    (void)state;
    const char *explodes = RUN_OF(
        ", 'loss': 0.1, 'auc': 0.99, 'best': {'valid_loss': {'value': 0.45, 'pass': 1}}, "
        "'history': [" VALID_OF("1", "0.45") ", " VALID_OF("6", "5.01") "]");
    verdict_is(explodes, false,
               "the training diverges: the validation loss 5.01 is worse than a guess "
               "(0.69)");
    assert_null(strstr(main_of(explodes, NULL), "overfit"));
    assert_null(strstr(main_of(explodes, NULL), "worsened"));
    verdict_is(
        RUN_OF(", 'loss': 0.1, 'auc': 0.99, 'history': [" VALID_OF(
            "1", "0.2") ", " VALID_OF("6", "0.41") "]"),
        false,
        "the training diverges: the validation loss is 0.41, and was 0.2 in pass 1");
    verdict_is(RUN_OF(", 'loss': 0.1, 'auc': 0.99, 'history': [" VALID_OF(
                   "1", "0.2") ", " VALID_OF("6", "0.39") "]"),
               false, "the model seems to overfit: the validation AUC is 0.6");
    verdict_is(
        RUN_OF(", 'loss': 0.1, 'auc': 0.7, 'history': [" PASS_OF(
            "1", "0.7", "0.01", "0.7") ", " PASS_OF("2", "0.7", "0.03", "0.7") "]"),
        true, "training"); // thrice a small loss
    verdict_is(RUN_OF(", 'loss': 0.1, 'auc': 0.7, 'history': [" PASS_OF(
                   "1", "0.7", "0.6", "0.2") ", " PASS_OF("2", "0.7", "1.7", "0.1") "]"),
               false, "the model seems to overfit"); // the labels are reversed
}

// While a pass has had few examples, the verdict is that of the last whole pass.
static void keeps_its_verdict_when_a_pass_begins(void **state)
{
    (void)state;
#define BEGUN_OF(examples, last)                                                         \
    "{'role': 'train', 'run': {'state': 'training', 'pass': 3, 'passes': 9, "            \
    "'examples': 90, 'loss': 0.3, 'auc': 0.6, 'history': [{'pass': 1, 'examples': "      \
    "20000, 'loss': 0.4}, {'pass': 2, 'examples': " examples ", 'loss': " last "}]}}"
    verdict_is(BEGUN_OF("20000", "1.2"), false,
               "the training diverges: the loss 1.2 is worse than a guess (0.69)");
    verdict_is(BEGUN_OF("20000", "0.6"), false,
               "the training diverges: the loss is 0.6, and was 0.4 in pass 1");
    verdict_is(BEGUN_OF("20000", "0.4"), true, "training");
    verdict_is(BEGUN_OF("900", "1.2"), true, "training");
}

// A validation or a save that makes no progress is reported.
static void sees_that_a_phase_stands_still(void **state)
{
    (void)state;
#define PHASE_OF(name, idle, saves)                                                      \
    "{'role': 'train', 'run': {'state': '" name "', 'pass': 1, 'passes': 2, "            \
    "'seconds_since_progress': " idle ", 'saves': {" saves "}}}"
    verdict_is(PHASE_OF("validating", "61", ""), false,
               "the validation has made no progress for 61 s");
    verdict_is(PHASE_OF("validating", "59", ""), true, "validating");
    verdict_is(PHASE_OF("saving", "61", "'last': null"), false,
               "the save is not complete after 61 s");
    verdict_is(PHASE_OF("saving", "61", "'last': {'seconds': 30}"), true, "saving");
    verdict_is(PHASE_OF("saving", "91", "'last': {'seconds': 30}"), false,
               "the save is not complete after 91 s; the last one took 30 s");
    verdict_is(PHASE_OF("training", "1", "'error': 'disk full', 'last': {'seconds': 30}"),
               false, "the last save failed: disk full");
}

#define WAITING(n, held)                                                                 \
    "{'role': 'scheduler', 'phase': 'running', 'servers': [{'rank': 0, 'loop': 0, "      \
    "'tables': [{'id': 0, 'name': 't', 'mode': 'ssp', 'held': " held                     \
    ", 'staleness': 4, "                                                                 \
    "'workers': [{'rank': 0, 'behind': 0}, {'rank': 1, 'behind': " n                     \
    "}]}]}], 'tables': "                                                                 \
    "[{'id': 0, 'name': 't', 'mode': 'ssp', 'held': " held ", 'staleness': 4}]}"
#define BEHIND(n) WAITING(n, "1")

static void names_the_worker_that_holds_up_others(void **state)
{
    (void)state;
    const char *all = main_of(BEHIND("3"), BEHIND("4"));
    has(all, "worker 1 is 3 clocks behind the fastest one, which may be at most 4 ahead");
    has(all, "<tr class=\"slow\"><td>t</td><td class=\"n\">1</td>");
    // No pull waits, so no worker is named.
    all = main_of(WAITING("3", "0"), WAITING("4", "0"));
    assert_null(strstr(all, "behind by"));
    assert_null(strstr(all, "class=\"slow\""));
    all = main_of(BEHIND("3"), BEHIND("0")); // the worker is behind only for a moment
    assert_null(strstr(all, "behind by"));
    assert_null(strstr(all, "class=\"slow\""));
    all = main_of(
        "{'role': 'scheduler', 'tables': [{'id': 0, 'name': 't', 'mode': 'ssp', "
        "'staleness': 4}]}",
        NULL);
    has(all, "<td>no worker uses the table now</td>");
    all = main_of(
        "{'role': 'scheduler', 'nodes': [" NODE_OF(
            "worker", "0", "true",
            ", 'pieces_held': 0, 'examples': 9") ", " NODE_OF("worker", "1", "true",
                                                              ", 'pieces_held': 1, "
                                                              "'examples': 9, "
                                                              "'seconds_since_progress': "
                                                              "5") "]}",
        NULL);
    has(all, "all others wait for worker 1");
    assert_null(strstr(all, " is slow"));
}

#define WORKER_OF(rank, loop, examples, recent)                                          \
    "{'role': 'worker', 'rank': " rank ", 'loop': " loop                                 \
    ", 'left': false, 'alive': true, 'linked': true, 'examples': " examples              \
    ", 'recent': {" recent "}}"
#define WORKERS_OF(one, other)                                                           \
    "{'role': 'scheduler', 'phase': 'running', 'nodes': [" one ", " other "]}"

// Workers are compared by their recent work, not by their total work: a worker that has joined
// later is not slow, and a worker that has become slow is named although it did much before.
static void compares_workers_by_their_recent_speed(void **state)
{
    (void)state;
    const char *late = WORKERS_OF(
        WORKER_OF("0", "0", "900000", "'seconds': 60, 'examples': 6000, 'pieces': 60"),
        WORKER_OF("1", "0", "1100", "'seconds': 11, 'examples': 1100, 'pieces': 11"));
    verdict_is(late, true, "0 servers and 2 workers alive");
    assert_null(strstr(main_of(late, NULL), " is slow"));
    has(main_of(late, NULL), "as a mean over the last 30 to 60 seconds.</p>");
    has(main_of(late, NULL), "<td class=\"n\">1,100</td><td class=\"n\">100</td>");
    verdict_is(WORKERS_OF(WORKER_OF("0", "0", "900000",
                                    "'seconds': 50, 'examples': 5000, 'pieces': 50"),
                          WORKER_OF("1", "0", "900000",
                                    "'seconds': 50, 'examples': 500, 'pieces': 5")),
               true, "worker 1 is slow (10 % of the fastest one's speed)");
    // A worker is not called slow after only a few pieces, or after only a few seconds.
    const char *few = WORKERS_OF(
        WORKER_OF("0", "0", "9", "'seconds': 50, 'examples': 4000, 'pieces': 4"),
        WORKER_OF("1", "0", "9", "'seconds': 50, 'examples': 3000, 'pieces': 3"));
    assert_null(strstr(main_of(few, NULL), " is slow"));
    const char *moment = WORKERS_OF(
        WORKER_OF("0", "0", "9", "'seconds': 60, 'examples': 6000, 'pieces': 60"),
        WORKER_OF("1", "0", "9", "'seconds': 9, 'examples': 10, 'pieces': 1"));
    assert_null(strstr(main_of(moment, NULL), " is slow"));
    // The speed of a worker is the sum of the speeds of its lanes.
#define THREE(lane)                                                                      \
    WORKERS_OF(                                                                          \
        WORKER_OF(                                                                       \
            "0", "0", "9",                                                               \
            "'seconds': 50, 'examples': 2500, 'pieces': 25") ", " WORKER_OF("0", "1",    \
                                                                            "9", lane),  \
        WORKER_OF("1", "0", "9", "'seconds': 50, 'examples': 5000, 'pieces': 50"))
    assert_null(
        strstr(main_of(THREE("'seconds': 50, 'examples': 2500, 'pieces': 25"), NULL),
               " is slow"));
    verdict_is(THREE("'seconds': 50, 'examples': 500, 'pieces': 5"), true,
               "worker 0 is slow (60 % of the fastest one's speed)");
    // A worker is not compared while one of its lanes has only a few seconds.
    assert_null(strstr(main_of(THREE("'seconds': 9, 'examples': 90, 'pieces': 1"), NULL),
                       " is slow"));
    // Two lanes of one process count as one worker.
    verdict_is(WORKERS_OF(WORKER_OF("0", "0", "9", ""), WORKER_OF("0", "1", "9", "")),
               true, "0 servers and 1 worker alive");
}

#define SILENT_OF(role, rank, loop, alive, seconds)                                      \
    "{'role': '" role "', 'rank': " rank ", 'loop': " loop ", 'pid': 77, 'host': 'vm', " \
    "'left': false, 'alive': " alive ", 'linked': true, 'seconds_since_sign': " seconds  \
    "}"

// A stopped process is named before it counts as dead, and once for all its loops.
static void names_silent_processes_once(void **state)
{
    (void)state;
    const char *silent = WORKERS_OF(SILENT_OF("worker", "2", "0", "true", "8"),
                                    SILENT_OF("worker", "2", "1", "true", "8"));
    const char *line = "worker 2 (process 77 on vm) has given no sign of life for 8 s";
    verdict_is(silent, false, line);
    assert_null(strstr(strstr(main_of(silent, NULL), line) + 1, line));
    has(main_of(silent, NULL), "<tr class=\"slow\"><td>worker</td>");
    has(main_of(silent, NULL), "<td>silent</td>");
    verdict_is(WORKERS_OF(SILENT_OF("worker", "2", "0", "true", "2"),
                          SILENT_OF("driver", "0", "0", "true", "8")),
               true, "0 servers and 1 worker alive");
    line = "worker 2 is dead";
    const char *dead = WORKERS_OF(SILENT_OF("worker", "2", "0", "false", "30"),
                                  SILENT_OF("worker", "2", "1", "false", "30"));
    verdict_is(dead, false, line);
    assert_null(strstr(strstr(main_of(dead, NULL), line) + 1, line));
}

// A disk that several processes of a host use is named once. Disks of two machines with one
// name differ in size, or in what is free.
static void names_a_full_disk_once(void **state)
{
    (void)state;
#define FULL_OF(device)                                                                  \
    "[{'what': 'saves', 'path': '/d', 'host': 'h', 'device': '" device                   \
    "', 'size_bytes': 100e6, 'free_bytes': 1e6}]"
#define FULL_DISKS(own)                                                                  \
    "{'role': 'scheduler', 'servers': [{'rank': 0, 'loop': 0, 'disks': " FULL_OF(        \
        "8:1") "}, {'rank': 1, 'loop': 0, 'disks': " FULL_OF("8:1") "}], "               \
                                                                    "'disks': " FULL_OF( \
                                                                        own) "}"
    verdict_is(FULL_DISKS("8:1"), false,
               "server 0: the disk of saves (/d) is nearly full, 1.0 MB are free");
    const char *all = main_of(FULL_DISKS("8:1"), NULL),
               *first = strstr(all, "nearly full");
    assert_null(strstr(first + 1, "nearly full"));
    all = main_of(FULL_DISKS("8:2"), NULL);
    first = strstr(all, "nearly full");
    assert_non_null(strstr(first + 1, "; the disk of saves (/d) is nearly full"));
    has(all, "<td>8:2</td>");
#define FULL_AT(size, free)                                                              \
    "{'what': 'saves', 'path': '/d', 'host': 'h', 'device': '8:1', 'size_bytes': " size  \
    ", 'free_bytes': " free "}"
    static const char *const others[] = {
        "{'role': 'train', 'disks': [" FULL_AT("100e6", "1e6") ", " FULL_AT("200e6",
                                                                            "1e6") "]}",
        "{'role': 'train', 'disks': [" FULL_AT("100e6", "1e6") ", " FULL_AT("100e6",
                                                                            "5e6") "]}",
    };
    for (size_t i = 0; i < 2; i++) {
        first = strstr(main_of(others[i], NULL), "nearly full");
        assert_non_null(strstr(first + 1, "nearly full"));
    }
}

// A disk that is not nearly full, but has no room for another save, is named, too.
static void names_a_disk_without_room_for_a_save(void **state)
{
    (void)state;
#define SAVED_OF(free)                                                                   \
    "{'role': 'train', 'disks': [{'what': 'saves', 'path': '/d', 'size_bytes': 100e6, "  \
    "'free_bytes': " free "}], 'run': {'state': 'training', 'pass': 1, 'passes': 2, "    \
    "'saves': {'made': 1, 'last': {'bytes': 39e6}}}}"
    verdict_is(SAVED_OF("30e6"), false,
               "the disk of saves (/d) has no room for the next save: 30.0 MB are free, "
               "the last save took 39.0 MB");
    verdict_is(SAVED_OF("50e6"), true, "training");
    has(main_of(SAVED_OF("80e6"), NULL),
        "<td class=\"n\">20.0 %</td><td class=\"n\">39.0 MB</td><td class=\"n\">2</td>");
}

// Says at which pass validation was best, because the curves may look flat.
static void says_when_validation_was_best(void **state)
{
    (void)state;
#define BEST_OF(best, valid)                                                             \
    "{'role': 'train', 'run': {'state': 'training', 'pass': 15, 'passes': 30, "          \
    "'best_pass': " best ", 'history': [{'pass': 14, 'valid': " valid "}]}}"
    verdict_is(BEST_OF("2", "{'loss': 0.5}"), true,
               "validation was best at pass 2, 12 passes before the last one");
    assert_null(strstr(main_of(BEST_OF("13", "{'loss': 0.5}"), NULL), "was best at"));
    assert_null(strstr(main_of(BEST_OF("null", "null"), NULL), "was best at"));
}

// The page shows the limit of memory as the user gave it, besides the limit of rows.
static void explains_the_limit_of_memory(void **state)
{
    (void)state;
    const char *all = main_of(
        "{'role': 'server', 'servers': [{'rank': 3, 'loop': 0, 'memory': "
        "{'rows': 100, 'rows_max': 50331648, 'limit': 67108864}}]}",
        NULL);
    has(all, "<td class=\"n\">100 B of 50.3 MB</td>");
    has(all,
        "Memory of server 3: its limit (--memory, TUG_MEMORY) is 67.1 MB, 64 MiB. Rows "
        "may take 50.3 MB of it in each loop");
    assert_null(strstr(main_of(SAMPLE_SERVER, NULL), "TUG_MEMORY"));
}

// After 1,000 passes the history lacks the first ones, and the best pass may be one of them.
static void names_the_best_of_all_passes(void **state)
{
    (void)state;
#define LONG_OF(best)                                                                    \
    "{'role': 'train', 'run': {'state': 'training', 'pass': 1502, 'passes': 9000, "      \
    "'examples': 20000, 'loss': 0.4, 'best_pass': 3, 'best': {" best "}, 'history': "    \
    "[" PASS_OF("1500", "0.8", "0.53", "0.75") ", " PASS_OF("1501", "0.8", "0.55",       \
                                                            "0.7") "]}}"
    const char *long_run = LONG_OF("'loss': {'value': 0.2, 'pass': 2}, 'valid_loss': "
                                   "{'value': 0.491, 'pass': 3}, 'valid_auc': {'value': "
                                   "0.7912, 'pass': 4}");
    verdict_is(
        long_run, false,
        "the training diverges: the loss is 0.4, and was 0.2 in pass 2; validation "
        "has worsened since pass 3: the loss was 0.491 and is 0.55");
    const char *all = main_of(long_run, NULL);
    has(all, "<dt>validation best at pass</dt><dd>3</dd>");
    has(all, "<dt>best validation AUC</dt><dd>0.7912 in pass 4</dd>");
    all = main_of(LONG_OF("'auc': {'value': 0.8312, 'pass': 9}, 'valid_auc': null"),
                  NULL);
    has(all, "<dt>best AUC of a pass</dt><dd>0.8312 in pass 9</dd>");
    assert_null(strstr(all, "best validation AUC"));
    assert_null(strstr(main_of(LONG_OF(""), NULL), "best AUC of a pass"));
}

static void counts_moves(void **state)
{
    (void)state;
#define MOVED_OF(moving)                                                                 \
    "{'role': 'scheduler', 'nodes': [{'id': 2, 'role': 'server', 'rank': 0, 'loop': 0, " \
    "'alive': true, 'left': false}, {'id': 3, 'role': 'server', 'rank': 1, 'loop': 0, "  \
    "'alive': false, 'left': true}], 'placement': {'sparse': {'partitions': 4, "         \
    "'owners': [[0, 4, 2]], 'max_over_mean': 1}}, 'moving': {" moving "}}"
    has(main_of(MOVED_OF("'moves_left': 3, 'moves_done': 252, 'moves_failed': 1"), NULL),
        "Moves: 3 to go, 252 done, 1 given up");
    const char *now = main_of(
        MOVED_OF("'moves_left': 1, 'held_by': ['<b>', 7]}, 'moves': [{'space': '<i>', "
                 "'partition': 9, 'from': 2, 'to': 77, 'state': 'copying', 'bytes': 5, "
                 "'bytes_total': 10, 'seconds': 2}], 'more': {"),
        NULL);
    has(now, "<td class=\"n\">9</td><td>&lt;i&gt;</td><td>server 0 loop 0</td><td>node "
             "77</td><td class=\"n\">10 B</td><td class=\"n\">50.0 %</td>");
    has(now, "No partition changes its owner now: &lt;b&gt; saves");
    has(now, "1 partition is still to move");
    const char *all = main_of(MOVED_OF("'moves_left': 0, 'moves_done': 0"), NULL);
    has(all, "No partition has moved.");
    has(all, "server 0 loop 0</span>");
    assert_null(strstr(all, "server 1 loop 0</span>")); // server 1 has left
}

// While something is wrong, the verdict still has the pass, the speed and the last save.
static void tells_how_it_is_beside_what_is_wrong(void **state)
{
    (void)state;
    const char *all = main_of(
        "{'role': 'scheduler', 'phase': 'running', 'unix_seconds': 2000, 'nodes': "
        "[" NODE_OF("server", "0", "true", "") ", " NODE_OF(
            "worker", "2", "false",
            "") "], 'run': {"
                "'state': 'training', 'pass': 3, 'passes': 5, 'share': 0.5, 'examples': "
                "500, "
                "'examples_per_second': 100, 'best_pass': 2, 'saves': {'last': "
                "{'finished_unix_seconds': 1820}}}}",
        NULL);
    has(all, "class=\"ill\">worker 2 is dead (its work goes to the others)</p><p "
             "class=\"state\">1 server and 0 workers alive; training, pass 3 of 5, 100 "
             "examples a second; last save 3 min ago</p>");
    has(all, "<dt>done of the run</dt><dd>50.0 %</dd>");
    has(all, "<dt>time left, without validation</dt><dd>25 s</dd>");
    has(all, "<dt>validation best at pass</dt><dd>2</dd>");
    all = main_of(RUN_OF(""), NULL);
    has(all, "<h2>Saves</h2>\n<p class=\"later\">none: the run has no --out</p>");
    all = main_of("{'role': 'train', 'disks': [{'what': 'saves'}], 'run': {'state': "
                  "'validating', 'pass': 1, 'passes': 2}}",
                  NULL);
    has(all, "<h2>Saves</h2>\n<p class=\"later\">none yet</p>");
    has(all, "validating, pass 1 of 2");
}

// If a server's facts are missing, the text about sums over servers names the server.
// Each chart has its numbers beside it.
static void says_what_numbers_are_of(void **state)
{
    (void)state;
    const char *all = main_of(
        "{'role': 'scheduler', 'servers': [{'rank': 0, 'loop': 0}, {'rank': 1, 'loop': "
        "0, "
        "'error': 'no answer'}], 'tables': [{'id': 0, 'name': 'sparse', 'rows': 5}, "
        "{'id': "
        "1, 'name': 'sparse-copy', 'rows': 5}], 'placement': {'range': {'partitions': 4, "
        "'max_over_mean': 1, 'owners': []}}}",
        NULL);
    has(all, "The numbers lack server 1 loop 0, which does not answer");
    has(all, "A table NAME-copy has the rows of NAME as they were in the best pass.");
    has(all, "range (keys in their order): 4 partitions");
    all = main_of(
        RUN_OF(", 'history': [{'pass': 1, 'loss': 0.5}, {'pass': 2, 'loss': 0.25}]"),
        NULL);
    has(all, "Loss by pass: <b class=\"train\">training</b></figcaption>");
    has(all, "<span class=\"top\">0.5</span>");
    has(all, "<span class=\"low\">0.25</span>");
    has(all, "<span class=\"from\">pass 1</span><span class=\"to\">pass 2</span>");
    all = main_of(SAMPLE_CLUSTER, NULL);
    has(all, "training</b> <b class=\"valid\">validation</b></figcaption>");
    assert_null(strstr(all, "The numbers lack"));
    assert_null(strstr(all, "-copy"));
}

// When a worker has taken the place of a dead one, nothing is wrong any more, and the
// metrics have only the new worker.
static void knows_who_was_replaced(void **state)
{
    (void)state;
    static const char facts[] =
        "{'role': 'scheduler', 'phase': 'running', 'nodes': [" NODE_OF(
            "worker", "1", "false", "") ", " NODE_OF("worker", "1", "true",
                                                     "") ", " NODE_OF("worker", "2",
                                                                      "false", "") "]}";
    verdict_is(facts, false, "worker 2 is dead (its work goes to the others)");
    const char *all = main_of(facts, NULL);
    assert_null(strstr(all, "worker 1 is dead"));
    has(all, "<td>replaced</td>");
    json_t *told = sample_facts(facts);
    buf_clear(&text);
    OK(render_metrics(told, false, &text));
    json_decref(told);
    all = buf_str(&text);
    has(all, "tug_node_up{role=\"scheduler\",node_role=\"worker\",node_rank=\"1\",loop="
             "\"0\"} 1\n");
    has(all, "tug_node_up{role=\"scheduler\",node_role=\"worker\",node_rank=\"2\",loop="
             "\"0\"} 0\n");
    assert_null(strstr(all, "node_rank=\"1\",loop=\"0\"} 0\n# HELP tug_node_left"));
    const char *up = strstr(
        all, "tug_node_up{role=\"scheduler\",node_role=\"worker\",node_rank=\"1\"");
    assert_null(strstr(
        up + 1, "tug_node_up{role=\"scheduler\",node_role=\"worker\",node_rank=\"1\""));
}

static void ready_is(const char *sample, bool ready, const char *says)
{
    char line[RENDER_TEXT_MAX];
    struct facts_told t = {.now = sample != NULL ? sample_facts(sample) : NULL};
    assert_int_equal(render_ready(&t, line), ready);
    if (strstr(line, says) == NULL)
        fail_msg("'%s', not '%s'", line, says);
    facts_told_free(&t);
}

static void knows_who_is_ready(void **state)
{
    (void)state;
    ready_is(NULL, false, "nothing is known yet");
    ready_is(SAMPLE_CLUSTER, true, "ready: all processes have joined");
    ready_is("{'role': 'scheduler', 'phase': 'gathering', 'servers_wanted': 1}", false,
             "gathering");
    ready_is("{'role': 'scheduler', 'phase': 'running', 'nodes': [" NODE_OF(
                 "server", "0", "false", "") "]}",
             false, "server 0 is dead");
    ready_is(SAMPLE_SERVER, true, "ready: all loops serve their partitions");
    ready_is("{'role': 'server', 'servers': [{'epoch': 0}]}", false,
             "loop 0 has no partitions yet");
    ready_is("{'role': 'worker', 'joined': false}", false, "has not joined yet");
    ready_is("{'role': 'worker', 'joined': true}", true, "ready");
    ready_is("{'role': 'worker'}", false, "does not tell");
    ready_is("{'role': 'train'}", false, "does not tell");
    ready_is("{'role': 'launch', 'processes': [{'name': 'worker 1', 'state': 'ended'}]}",
             false, "worker 1: ended");
    ready_is("{'role': 'train', 'run': {'state': 'loading'}}", false, "data");
    ready_is("{'role': 'train', 'run': {'state': 'training'}}", true, "ready");
    ready_is("{'role': 'launch', 'run': {'state': 'failed', 'error': 'why'}}", false,
             "the run has failed: why");
}

static void survives_facts_of_other_types(void **state)
{
    (void)state;
    (void)main_of("[1, 2]", NULL);
    (void)main_of("{'role': 3, 'servers': {'a': 1}, 'tables': [7], 'run': [], 'disks': "
                  "[null], 'nodes': [[]], 'placement': {'a': 3}, 'operations': [1], "
                  "'processes': ['x']}",
                  NULL);
    (void)main_of("{'servers': [{'requests': {'push': {'buckets': [1, 2, 3]}}}, "
                  "{'requests': {'push': {'buckets': [1]}}}], 'nodes': [{'role': "
                  "'server'}], 'placement': {'sparse': {'owners': [[1], 3]}}}",
                  "{'servers': [{'requests': {'push': {'buckets': [9, 9, 9]}}}]}");
}

static void numbers_are_readable(void **state)
{
    (void)state;
    char t[TEXT_MAX];
    assert_string_equal(text_count(0, t), "0");
    assert_string_equal(text_count(999, t), "999");
    assert_string_equal(text_count(1234567, t), "1,234,567");
    assert_string_equal(text_count(-1, t), "-1");
    assert_string_equal(text_bytes(999, t), "999 B");
    assert_string_equal(text_bytes(1500000, t), "1.5 MB");
    assert_string_equal(text_bytes(123e9, t), "123 GB");
    assert_string_equal(text_seconds(0, t), "0 s");
    assert_string_equal(text_seconds(.00034, t), "340 µs");
    assert_string_equal(text_seconds(2.14, t), "2.1 s");
    assert_string_equal(text_seconds(300, t), "5 min");
    assert_string_equal(text_seconds(7200, t), "2.0 h");
    assert_string_equal(text_percent(.973, t), "97.3 %");
    assert_string_equal(text_number(__builtin_nan(""), t), "–");
}

static void names_its_style_and_script(void **state)
{
    (void)state;
    struct render_page page;
    struct facts_told none = {0};
    OK(render_page_open(&page, (const char *)page_html, &test_err));
    has(page.policy, "default-src 'none'");
    has(page.policy, "script-src 'sha256-");
    has(page.policy, "frame-ancestors 'none'");
    buf_clear(&text);
    OK(render_page(&page, &none, &text));
    const char *all = buf_str(&text);
    has(all, "<p id=\"verdict\" class=\"ill\">nothing is known yet</p>");
    assert_null(strstr(all, "@MAIN@"));
    // The page's Content-Security-Policy forbids style attributes.
    assert_null(strstr(all, "style=\""));
    assert_null(strstr(all, "innerHTML"));
    assert_int_not_equal(render_page_open(&page, "<p>", &test_err), 0);
}

int main(void)
{
    text = BUF_INIT(4 << 20);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_a_cluster),
        cmocka_unit_test(escapes_names),
        cmocka_unit_test(shows_a_worker),
        cmocka_unit_test(computes_rates),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(sees_that_training_goes_wrong),
        cmocka_unit_test(sees_that_validation_diverges),
        cmocka_unit_test(keeps_its_verdict_when_a_pass_begins),
        cmocka_unit_test(sees_that_a_phase_stands_still),
        cmocka_unit_test(names_the_worker_that_holds_up_others),
        cmocka_unit_test(compares_workers_by_their_recent_speed),
        cmocka_unit_test(names_silent_processes_once),
        cmocka_unit_test(names_a_full_disk_once),
        cmocka_unit_test(names_a_disk_without_room_for_a_save),
        cmocka_unit_test(says_when_validation_was_best),
        cmocka_unit_test(explains_the_limit_of_memory),
        cmocka_unit_test(names_the_best_of_all_passes),
        cmocka_unit_test(counts_moves),
        cmocka_unit_test(tells_how_it_is_beside_what_is_wrong),
        cmocka_unit_test(says_what_numbers_are_of),
        cmocka_unit_test(knows_who_was_replaced),
        cmocka_unit_test(knows_who_is_ready),
        cmocka_unit_test(survives_facts_of_other_types),
        cmocka_unit_test(numbers_are_readable),
        cmocka_unit_test(names_its_style_and_script),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    buf_free(&text);
    return rc;
}
