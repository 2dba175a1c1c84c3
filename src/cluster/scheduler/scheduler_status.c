// The scheduler's answer to `tug status`, as JSON: docs/cluster.md describes its fields.
//
// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/json_out.h"
#include "cluster/scheduler/scheduler_internal.h"

static const char *const table_names[] = {"all", "sparse", "dense"};
static const char *const phase_names[] = {"gathering", "running", "over", "ending"};

// The recent work of a worker is its work in the last one to two times this many
// nanoseconds.
#define MARK_NS (30 * SECOND_NS)

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

uint64_t scheduler_mark_work(struct scheduler *s)
{
    uint32_t hint = 0;
    if (s->now < s->mark_at)
        return s->mark_at;
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        struct sched_node *n = &s->nodes[i];
        struct leases_work w = {0};
        if (!n->used || n->n.role != WIRE_WORKER)
            continue;
        leases_work(s->leases, n->n.id, &hint, &w);
        n->marks[0] = n->marks[1];
        n->marks[1] = (struct work_mark){s->now, w.examples, w.pieces};
    }
    s->mark_at = s->now + MARK_NS;
    return s->mark_at;
}

// Writes the work of a worker. `hint` lets leases_work find the worker without a search.
static void put_work(const struct scheduler *s, const struct sched_node *n,
                     uint32_t *hint, struct json_out *o)
{
    struct leases_work w = {0};
    if (n->n.role != WIRE_WORKER)
        return;
    leases_work(s->leases, n->n.id, hint, &w);
    json_out_u64(o, "examples", w.examples);
    json_out_u64(o, "pieces_done", w.pieces);
    json_out_u64(o, "pieces_held", w.holds);
    json_out_real(o, "seconds_since_progress", 12, seconds(s->now - n->progress_at));
    const struct work_mark *from = &n->marks[0];
    json_out_open(o, "recent", '{');
    json_out_real(o, "seconds", 9, seconds(s->now - from->at));
    json_out_u64(o, "examples", w.examples - from->examples);
    json_out_u64(o, "pieces", w.pieces - from->pieces);
    json_out_close(o, '}');
}

static void put_node(const struct scheduler *s, const struct sched_node *n,
                     uint32_t *hint, struct json_out *o)
{
    const struct process *p = &s->processes[n->process];
    json_out_open(o, NULL, '{');
    json_out_u64(o, "id", n->n.id);
    json_out_text(o, "role", wire_role_name(n->n.role));
    json_out_u64(o, "rank", n->n.rank);
    json_out_u64(o, "loop", n->n.loop);
    json_out_u64(o, "pid", n->n.pid);
    json_out_text(o, "tables", table_names[n->n.tables]);
    json_out_flag(o, "alive", n->n.alive);
    json_out_flag(o, "left", n->left);
    json_out_flag(o, "linked", n->link != 0);
    if (n->n.role == WIRE_SERVER)
        json_out_flag(o, "draining", p->draining);
    if (p->zone[0] != '\0')
        json_out_text(o, "zone", p->zone);
    json_out_real(o, "seconds_since_sign", 9, seconds(s->now - p->sign_at));
    json_out_real(o, "clock_skew_seconds", 9, (double)p->skew_ns * 1e-9);
    put_work(s, n, hint, o);
    json_out_text(o, "host", n->n.host);
    json_out_text(o, "address", n->n.address);
    json_out_close(o, '}');
}

static void put_nodes(const struct scheduler *s, struct json_out *o)
{
    uint32_t hint = 0;
    json_out_open(o, "nodes", '[');
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].used)
            put_node(s, &s->nodes[i], &hint, o);
    json_out_close(o, ']');
}

// Writes the owners as a list of runs [first partition, number of partitions, node]. The
// list is short if partitions are placed by ranges.
static void put_owners(const struct scheduler *s, int space, struct json_out *o)
{
    const struct roster *r = &s->roster;
    const uint32_t *owner = r->owners[space];
    uint32_t partitions = roster_partitions(r);
    json_out_open(o, "owners", '[');
    for (uint32_t p = 0, n; p < partitions; p += n) {
        for (n = 1; p + n < partitions && owner[p + n] == owner[p]; n++)
            continue;
        json_out_open(o, NULL, '[');
        json_out_u64(o, NULL, p);
        json_out_u64(o, NULL, n);
        json_out_u64(o, NULL, owner[p]);
        json_out_close(o, ']');
    }
    json_out_close(o, ']');
}

static void put_space(const struct scheduler *s, int space, uint32_t *count,
                      struct json_out *o)
{
    const struct roster *r = &s->roster;
    uint32_t partitions = roster_partitions(r), most = 0, loops = 0;
    for (uint32_t i = 0; i < r->n_nodes; i++)
        count[i] = 0;
    for (uint32_t p = 0; p < partitions; p++) {
        const struct roster_node *n = roster_find(r, r->owners[space][p]);
        if (n != NULL)
            count[n - r->nodes]++;
    }
    json_out_open(o, wire_space_name(space), '{');
    json_out_u64(o, "partitions", partitions);
    json_out_open(o, "loops", '{');
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        char id[16];
        if (count[i] == 0)
            continue;
        snprintf(id, sizeof(id), "%u", r->nodes[i].id);
        json_out_u64(o, id, count[i]);
        loops++;
        most = count[i] > most ? count[i] : most;
    }
    json_out_close(o, '}');
    json_out_real(o, "max_over_mean", 5,
                  loops > 0 ? (double)most * loops / partitions : 0);
    put_owners(s, space, o);
    json_out_close(o, '}');
}

static int put_placement(const struct scheduler *s, struct json_out *o)
{
    if (s->roster.epoch == 0)
        return 0;
    uint32_t *count = mem_array(s->roster.n_nodes, sizeof(*count));
    if (count == NULL)
        return TUG_ENOMEM;
    json_out_open(o, "placement", '{');
    for (int space = 0; space < WIRE_SPACES; space++)
        put_space(s, space, count, o);
    json_out_close(o, '}');
    mem_free(count);
    return 0;
}

static void put_barriers(const struct scheduler *s, struct json_out *o)
{
    json_out_open(o, "barriers", '[');
    for (uint8_t group = 1; group < SCHEDULER_GROUPS; group++) {
        uint32_t waiting = 0;
        char missing[ERR_TEXT_MAX];
        for (uint32_t i = 0; i < s->n_processes; i++)
            waiting += s->processes[i].here > 0 &&
                       s->processes[i].reached[group] > s->groups[group].completed;
        if (waiting == 0)
            continue;
        json_out_open(o, NULL, '{');
        json_out_u64(o, "group", group);
        json_out_u64(o, "number", s->groups[group].completed + 1);
        json_out_u64(o, "waiting", waiting);
        json_out_text(o, "missing",
                      scheduler_missing(s, group, missing, sizeof(missing)));
        json_out_close(o, '}');
    }
    json_out_close(o, ']');
}

static void put_pass(const struct scheduler *s, struct json_out *o)
{
    struct msg_pass_state state;
    leases_state(s->leases, 0, &state, NULL);
    if (state.pass == 0)
        return;
    json_out_open(o, "pass", '{');
    json_out_u64(o, "number", state.pass);
    json_out_flag(o, "done", state.done);
    json_out_u64(o, "pieces_done", state.pieces_done);
    json_out_u64(o, "pieces", state.pieces);
    json_out_u64(o, "examples", state.examples);
    json_out_flag(o, "dealing", state.dealing);
    json_out_close(o, '}');
}

int scheduler_json(const struct scheduler *s, struct buf *ret)
{
    struct json_out o = JSON_OUT(ret);
    char cluster[24];
    snprintf(cluster, sizeof(cluster), "%016" PRIx64, s->o.cluster);
    json_out_open(&o, NULL, '{');
    json_out_text(&o, "role", "scheduler");
    usage_print(s->o.usage, &o);
    if (s->o.usage == NULL)
        json_out_real(&o, "uptime_seconds", 12, seconds(s->now - s->served_at));
    json_out_text(&o, "cluster", cluster);
    json_out_text(&o, "address", s->address);
    json_out_text(&o, "phase", phase_names[s->phase]);
    json_out_u64(&o, "generation", s->generation);
    json_out_u64(&o, "epoch", s->roster.epoch);
    json_out_u64(&o, "roster_version", s->roster.version);
    json_out_u64(&o, "servers_wanted", s->o.servers);
    json_out_u64(&o, "workers_wanted", s->o.workers);
    put_nodes(s, &o);
    if (o.rc == 0)
        o.rc = put_placement(s, &o);
    scheduler_chains_print(s, &o);
    scheduler_moves_print(s, &o);
    put_pass(s, &o);
    put_barriers(s, &o);
    scheduler_operations_print(s, &o);
    if (s->o.run_facts != NULL)
        s->o.run_facts(s->o.run_facts_ctx, "run", &o);
    json_out_close(&o, '}');
    return o.rc;
}
