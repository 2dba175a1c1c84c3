// Prints requests, the run, saves and operations for tug status. The numbers come from
// other processes, so the code allows for each of them to be missing.
//
// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/histogram.h"
#include "base/plural.h"
#include "cli/cli.h"
#include "cli/status.h"
#include "runtime/loop_facts.h"
#include "runtime/tool.h"

enum { LAST_OPERATIONS = 5 };

// Adds up the histograms of one kind of requests over all loops.
static struct histogram sum_requests(const json_t *s, const char *kind)
{
    struct histogram h = {0};
    json_t *server, *count;
    size_t i, k;
    json_array_foreach(json_object_get(s, "servers"), i, server) {
        const json_t *of = json_object_get(json_object_get(server, "requests"), kind);
        json_array_foreach(json_object_get(of, "buckets"), k, count) {
            json_int_t n = json_integer_value(count);
            if (k < HISTOGRAM_BUCKETS && n > 0)
                h.bucket[k] = loop_facts_add(h.bucket[k], (uint64_t)n);
        }
    }
    return h;
}

static void print_time(const char *name, const struct histogram *h, double q)
{
    double ms = histogram_quantile(h, q) * 1e3;
    if (h->bucket[HISTOGRAM_BOUNDS] > 0 &&
        ms >= histogram_bound(HISTOGRAM_BOUNDS - 1) * 1e3)
        cli_printf(" %s over %.0f ms", name, ms);
    else
        cli_printf(" %s %.*f ms", name, ms < 10 ? 2 : 0, ms);
}

static void print_requests(const json_t *s)
{
    static const char *const kinds[] = {"push", "pull"};
    bool first = true;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        struct histogram h = sum_requests(s, kinds[i]);
        if (histogram_count(&h) == 0)
            continue;
        cli_printf("%s %s", first ? "requests took:" : ",", kinds[i]);
        print_time("p50", &h, 0.5);
        print_time("p99", &h, 0.99);
        first = false;
    }
    if (!first)
        cli_printf("\n");
}

// Prints what programs with kvapp or kvstore have asked of each server.
static void print_doors(const json_t *s)
{
    json_t *server;
    size_t i;
    json_array_foreach(json_object_get(s, "servers"), i, server) {
        const json_t *d = json_object_get(server, "door");
        if (d == NULL)
            continue;
        cli_printf(
            "%s on server %.0f: %.0f pushes, %.0f pulls, %.0f other requests, %.0f "
            "keys and %.1f MB in them, %.0f wait, %.0f refused",
            tool_text(d, "name"), tool_number(server, "rank"), tool_number(d, "pushes"),
            tool_number(d, "pulls"), tool_number(d, "simple"), tool_number(d, "keys"),
            tool_number(d, "bytes") * 1e-6, tool_number(d, "waiting"),
            tool_number(d, "refused"));
        if (json_object_get(d, "stored_keys") != NULL)
            cli_printf("; %.0f keys stored, %.0f pushes merged, optimizer %s",
                       tool_number(d, "stored_keys"), tool_number(d, "merged_pushes"),
                       tool_text(d, "optimizer")[0] != '\0' ? tool_text(d, "optimizer")
                                                            : "none");
        cli_printf("\n");
    }
}

// Prints the worker whose last progress is oldest, if it is at least a second old.
static void print_slowest(const json_t *s)
{
    const json_t *slowest = NULL;
    json_t *n;
    size_t i;
    json_array_foreach(json_object_get(s, "nodes"), i, n)
        if (tool_true(n, "alive") && tool_count(n, "pieces_held") > 0 &&
            (slowest == NULL || tool_number(n, "seconds_since_progress") >
                                    tool_number(slowest, "seconds_since_progress")))
            slowest = n;
    if (slowest != NULL && tool_number(slowest, "seconds_since_progress") >= 1)
        cli_printf("slowest worker: %.0f (%s), no progress for %.0f s\n",
                   tool_number(slowest, "rank"), tool_text(slowest, "host"),
                   tool_number(slowest, "seconds_since_progress"));
}

static void print_number(const char *name, const json_t *o)
{
    const json_t *x = json_object_get(o, name);
    if (json_is_number(x))
        cli_printf(", %s %.5f", name, json_number_value(x));
}

static void print_run(const json_t *s)
{
    const json_t *r = json_object_get(s, "run");
    if (!json_is_object(r))
        return;
    cli_printf("run: %s, %s, pass %.0f of %.0f", tool_text(r, "model"),
               tool_text(r, "state"), tool_number(r, "pass"), tool_number(r, "passes"));
    if (json_is_number(json_object_get(r, "share")))
        cli_printf(" (%.0f %%)", tool_number(r, "share") * 100);
    print_number("loss", r);
    print_number("auc", r);
    if (tool_number(r, "examples_per_second") > 0)
        cli_printf(", %.0f examples/s", tool_number(r, "examples_per_second"));
    if (tool_count(r, "best_pass") > 0)
        cli_printf(", validation was best at pass %.0f", tool_number(r, "best_pass"));
    const json_t *auc = json_object_get(json_object_get(r, "best"), "valid_auc");
    if (json_is_object(auc))
        cli_printf(", best validation auc %.5f in pass %.0f", tool_number(auc, "value"),
                   tool_number(auc, "pass"));
    cli_printf("\n");
    if (tool_text(r, "error")[0] != '\0')
        cli_printf("run: %s\n", tool_text(r, "error"));
}

static void print_save(const json_t *s)
{
    const json_t *saves = json_object_get(json_object_get(s, "run"), "saves"),
                 *last = json_object_get(saves, "last");
    double ago = tool_number(s, "unix_seconds") -
                 tool_number(last, "finished_unix_seconds");
    if (json_is_object(last))
        cli_printf("last save: %s, %.1f MB, %.0f s ago\n", tool_text(last, "path"),
                   tool_number(last, "bytes") * 1e-6, fmax(ago, 0));
    int64_t failed = tool_count(saves, "failed");
    if (failed > 0)
        cli_printf("%lld save%s of this run failed\n", (long long)failed,
                   PLURAL_S(failed));
}

static void print_operations(const json_t *s)
{
    const json_t *all = json_object_get(s, "operations");
    size_t n = json_array_size(all);
    if (n > 0)
        cli_printf("last operations\n");
    for (size_t i = n > LAST_OPERATIONS ? n - LAST_OPERATIONS : 0; i < n; i++) {
        const json_t *o = json_array_get(all, i);
        double at = tool_number(o, "unix_seconds");
        time_t second = at > 0 && at < 4e9 ? (time_t)at : 0;
        struct tm t = {0};
        char when[32] = "";
        (void)strftime(when, sizeof(when), "%H:%M:%S", localtime_r(&second, &t));
        cli_printf("  %s %-8s %s%s%s\n", when, tool_text(o, "what"), tool_text(o, "who"),
                   tool_text(o, "text")[0] != '\0' ? ": " : "", tool_text(o, "text"));
    }
}

void status_print_facts(const json_t *s)
{
    print_requests(s);
    print_doors(s);
    print_run(s);
    print_slowest(s);
    print_save(s);
    print_operations(s);
}
