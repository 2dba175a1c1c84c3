// The scheduler's answer to `tug status`, as JSON.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "cluster/scheduler/scheduler_internal.h"

static const char *const role_names[] = {"nobody", "scheduler", "server",
                                         "worker", "driver",    "tool"};
static const char *const table_names[] = {"all", "sparse", "dense"};
static const char *const space_names[] = {"sparse", "dense", "range"};
static const char *const phase_names[] = {"gathering", "running", "over", "ending"};

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

static int put_node(const struct scheduler *s, const struct node *n, struct buf *to)
{
    const struct process *p = &s->processes[n->process];
    TRY(buf_printf(to,
                   "{\"id\":%u,\"role\":\"%s\",\"rank\":%u,\"loop\":%u,\"pid\":%u,"
                   "\"tables\":\"%s\",\"alive\":%s,\"left\":%s,\"linked\":%s,"
                   "\"seconds_since_sign\":%.3f,\"clock_skew_seconds\":%.3f,\"host\":",
                   n->n.id, role_names[n->n.role], n->n.rank, n->n.loop, n->n.pid,
                   table_names[n->n.tables], n->n.alive ? "true" : "false",
                   n->left ? "true" : "false", n->link != 0 ? "true" : "false",
                   seconds(s->now - p->sign_at), (double)p->skew_ns * 1e-9));
    TRY(buf_json(to, n->n.host));
    TRY(buf_printf(to, ",\"address\":"));
    TRY(buf_json(to, n->n.address));
    return buf_printf(to, "}");
}

static int put_nodes(const struct scheduler *s, struct buf *to)
{
    TRY(buf_printf(to, ",\"nodes\":["));
    bool first = true;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        if (!s->nodes[i].used)
            continue;
        if (!first)
            TRY(buf_printf(to, ","));
        TRY(put_node(s, &s->nodes[i], to));
        first = false;
    }
    return buf_printf(to, "]");
}

static int put_space(const struct scheduler *s, int space, uint32_t *count,
                     struct buf *to)
{
    const struct roster *r = &s->roster;
    uint32_t partitions = (uint32_t)1 << r->partition_bits, most = 0, loops = 0;
    for (uint32_t i = 0; i < r->n_nodes; i++)
        count[i] = 0;
    for (uint32_t p = 0; p < partitions; p++) {
        const struct roster_node *n = roster_find(r, r->owners[space][p]);
        if (n != NULL)
            count[n - r->nodes]++;
    }
    TRY(buf_printf(to, "%s\"%s\":{\"partitions\":%u,\"loops\":{", space > 0 ? "," : "",
                   space_names[space], partitions));
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        if (count[i] == 0)
            continue;
        TRY(buf_printf(to, "%s\"%u\":%u", loops > 0 ? "," : "", r->nodes[i].id,
                       count[i]));
        loops++;
        most = count[i] > most ? count[i] : most;
    }
    double balance = loops > 0 ? (double)most * loops / partitions : 0;
    return buf_printf(to, "},\"max_over_mean\":%.4f}", balance);
}

static int put_placement(const struct scheduler *s, struct buf *to)
{
    if (s->roster.epoch == 0)
        return 0;
    uint32_t *count = mem_array(s->roster.n_nodes, sizeof(*count));
    if (count == NULL)
        return TUG_ENOMEM;
    int rc = buf_printf(to, ",\"placement\":{");
    for (int space = 0; space < WIRE_SPACES && rc == 0; space++)
        rc = put_space(s, space, count, to);
    mem_free(count);
    return rc != 0 ? rc : buf_printf(to, "}");
}

static int put_barriers(const struct scheduler *s, struct buf *to)
{
    bool first = true;
    TRY(buf_printf(to, ",\"barriers\":["));
    for (uint8_t group = 1; group < SCHEDULER_GROUPS; group++) {
        uint32_t waiting = 0;
        for (uint32_t i = 0; i < s->n_processes; i++)
            waiting += s->processes[i].here > 0 &&
                       s->processes[i].reached[group] > s->groups[group].completed;
        if (waiting == 0)
            continue;
        char missing[ERR_TEXT_MAX];
        TRY(buf_printf(
            to, "%s{\"group\":%u,\"generation\":%" PRIu64 ",\"waiting\":%u,\"missing\":",
            first ? "" : ",", group, s->groups[group].completed + 1, waiting));
        TRY(buf_json(to, scheduler_missing(s, group, missing, sizeof(missing))));
        TRY(buf_printf(to, "}"));
        first = false;
    }
    return buf_printf(to, "]");
}

static int put_pass(const struct scheduler *s, struct buf *to)
{
    struct msg_pass_state state;
    leases_state(s->leases, 0, &state, NULL);
    if (state.pass == 0)
        return 0;
    return buf_printf(to,
                      ",\"pass\":{\"number\":%" PRIu64
                      ",\"done\":%s,\"pieces_done\":%" PRIu64 ",\"pieces\":%" PRIu64
                      ",\"examples\":%" PRIu64 ",\"dealing\":%s}",
                      state.pass, state.done ? "true" : "false", state.pieces_done,
                      state.pieces, state.examples, state.dealing ? "true" : "false");
}

int scheduler_json(const struct scheduler *s, struct buf *ret)
{
    TRY(buf_printf(ret,
                   "{\"role\":\"scheduler\",\"cluster\":\"%016" PRIx64
                   "\",\"version\":\"%s\",\"address\":",
                   s->o.cluster, tug_version()));
    TRY(buf_json(ret, s->address));
    TRY(buf_printf(ret,
                   ",\"phase\":\"%s\",\"uptime_seconds\":%.3f,\"epoch\":%" PRIu64
                   ",\"roster_version\":%" PRIu64
                   ",\"servers_wanted\":%u,\"workers_wanted\":%u",
                   phase_names[s->phase], seconds(s->now - s->served_at), s->roster.epoch,
                   s->roster.version, s->o.servers, s->o.workers));
    TRY(put_nodes(s, ret));
    TRY(put_placement(s, ret));
    TRY(put_pass(s, ret));
    TRY(put_barriers(s, ret));
    return buf_printf(ret, "}");
}
