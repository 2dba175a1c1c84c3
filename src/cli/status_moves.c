// Prints the moves of partitions for tug status: how many are done and left, those in
// progress, and the operations that keep partitions from moving now.
//
// SPDX-License-Identifier: Apache-2.0
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "cli/cli.h"
#include "cli/status.h"
#include "runtime/tool.h"

// Writes "server 2" for the loop with this id, "server 2 loop 1" for a later one.
static const char *loop_name(const json_t *s, int64_t id, char to[64])
{
    const json_t *node;
    size_t i;
    snprintf(to, 64, "node %lld", (long long)id);
    json_array_foreach(json_object_get(s, "nodes"), i, node) {
        if (tool_count(node, "id") != id)
            continue;
        snprintf(to, 64, "server %lld", (long long)tool_count(node, "rank"));
        if (tool_count(node, "loop") > 0)
            snprintf(to, 64, "server %lld loop %lld", (long long)tool_count(node, "rank"),
                     (long long)tool_count(node, "loop"));
    }
    return to;
}

static void print_move(const json_t *s, const json_t *m)
{
    char from[64], to[64];
    double bytes = tool_number(m, "bytes"), all = tool_number(m, "bytes_total"),
           seconds = tool_number(m, "seconds");
    cli_printf("  partition %lld (%s): %s to %s, %s, %.1f of %.1f KB, %.1f s",
               (long long)tool_count(m, "partition"), tool_text(m, "space"),
               loop_name(s, tool_count(m, "from"), from),
               loop_name(s, tool_count(m, "to"), to), tool_text(m, "state"), bytes * 1e-3,
               all * 1e-3, seconds);
    if (bytes > 0 && seconds > 0)
        cli_printf(", %.1f MB/s", bytes / seconds * 1e-6);
    cli_printf("\n");
}

static void print_replicas(const json_t *s)
{
    const json_t *r = json_object_get(s, "replicas");
    if (r == NULL)
        return;
    int64_t fewer = tool_count(r, "partitions_with_fewer"),
            dead = tool_count(r, "false_deaths");
    cli_printf("replicas: each partition on %lld servers",
               (long long)tool_count(r, "wanted"));
    if (fewer > 0)
        cli_printf(", but %lld partition%s now on fewer", (long long)fewer,
                   fewer == 1 ? " is" : "s are");
    if (dead > 0)
        cli_printf("; %lld loop%s of servers declared dead, and heard again",
                   (long long)dead, dead == 1 ? " was" : "s were");
    cli_printf("\n");
}

void status_print_moves(const json_t *s)
{
    print_replicas(s);
    const json_t *all = json_object_get(s, "moving"), *one;
    int64_t done = tool_count(all, "moves_done"), left = tool_count(all, "moves_left"),
            failed = tool_count(all, "moves_failed");
    size_t i;
    // The longest stop of the newest plan.
    double stop = tool_number(all, "longest_stop_seconds");
    if (done + left + failed > 0) {
        cli_printf("moves: %lld partition%s moved, %lld left, %lld given up",
                   (long long)done, PLURAL_S(done), (long long)left, (long long)failed);
        if (stop > 0)
            cli_printf("; a partition that moves was stopped for at most %.0f ms",
                       stop * 1e3);
        cli_printf("\n");
    }
    json_array_foreach(json_object_get(s, "moves"), i, one)
        print_move(s, one);
    json_array_foreach(json_object_get(all, "held_by"), i, one)
        cli_printf("  no partition changes its owner now: %s saves or changes a table\n",
                   json_string_value(one));
}
