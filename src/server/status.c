// The status of a shard, for tug status.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"
#include "os/budget.h"
#include "server/rows/tables.h"
#include "server/shard_internal.h"

static const char *mode_name(enum wire_mode mode)
{
    const char *names[] = {"async", "ssp", "sync"};
    return names[mode];
}

static int add_table(const struct shard *s, const struct shard_table *t, struct buf *json)
{
    struct msg_table_is m = tables_count(s, t);
    TRY(buf_printf(json, "{\"id\": %u, \"name\": ", t->spec.id));
    TRY(buf_json(json, t->spec.config.name));
    return buf_printf(
        json,
        ", \"mode\": \"%s\", \"width\": %u, \"rows\": %llu, \"bytes\": %llu, "
        "\"pushes\": %llu, \"repeats\": %llu, \"pulls\": %llu, \"pushed_keys\": %llu, "
        "\"pulled_keys\": %llu, \"examples\": %llu, \"clock\": %lld, \"held\": %llu, "
        "\"refused\": %llu, \"left_out\": %llu}",
        mode_name(t->spec.mode), t->spec.accessor.width, (unsigned long long)m.rows,
        (unsigned long long)m.bytes, (unsigned long long)m.pushes,
        (unsigned long long)m.repeats, (unsigned long long)m.pulls,
        (unsigned long long)m.pushed_keys, (unsigned long long)m.pulled_keys,
        (unsigned long long)m.examples, (long long)m.clock, // -1: no worker is waited for
        (unsigned long long)m.held, (unsigned long long)m.refused,
        (unsigned long long)store_stats(t->store).left_out);
}

// Writes "tables": [...] (docs/cluster.md).
static int tables_status(const struct shard *s, struct buf *json)
{
    const char *separator = "";
    TRY(buf_printf(json, "\"tables\": ["));
    for (uint32_t i = 0; i < s->n_tables; i++) {
        if (s->tables[i] == NULL)
            continue;
        TRY(buf_printf(json, "%s", separator));
        TRY(add_table(s, s->tables[i], json));
        separator = ", ";
    }
    return buf_printf(json, "]");
}

// Writes the memory of the whole process, which each of its loops reports.
static int add_memory(const struct shard *s, struct buf *json)
{
    const struct budget *b = s->o.budget;
    if (b == NULL)
        return 0;
    TRY(buf_printf(
        json,
        "\"memory\": {\"rows\": %llu, \"rows_max\": %llu, \"buffers\": %llu, "
        "\"buffers_max\": %llu, ",
        (unsigned long long)s->bytes, (unsigned long long)s->o.max_bytes,
        (unsigned long long)(atomic_load(&b->used) + budget_used(b, BUDGET_REST)),
        (unsigned long long)b->bytes));
    for (int k = 0; k < BUDGET_KINDS; k++)
        TRY(buf_printf(json, "\"%s\": %llu, ", budget_name((enum budget_kind)k),
                       (unsigned long long)budget_used(b, (enum budget_kind)k)));
    return buf_printf(json, "\"refused\": %llu, \"closed\": %llu}, ",
                      (unsigned long long)atomic_load(&b->refused),
                      (unsigned long long)atomic_load(&b->closed));
}

static int write_status(const struct shard *s, struct buf *json)
{
    TRY(buf_printf(json,
                   "{\"role\": \"server\", \"node\": %u, \"epoch\": %llu, "
                   "\"waiting\": %u, ",
                   member_id(s->member),
                   (unsigned long long)member_roster(s->member)->epoch, s->n_pending));
    TRY(add_memory(s, json));
    TRY(tables_status(s, json));
    return buf_printf(json, "}");
}

enum outcome status_serve(struct shard *s, struct request *q)
{
    struct buf json = BUF_INIT(WIRE_SPAN_MAX);
    struct err e = {0};
    if (write_status(s, &json) == 0) {
        struct msg_status_is m = {.json = {json.data, json.len}};
        van_send(s->van, q->peer->link, MSG_STATUS_IS, q->id, &m, NULL);
    } else {
        err_nomem(&e, "how a server's loop is");
        shard_refuse(s, q, &e);
    }
    buf_free(&json);
    return ANSWERED;
}
