// Reports each admin operation to the scheduler, for its log, after the operation was
// done or refused: the operation, and the process that asked for it. Admin operations go
// to all servers, so one loop, the same for all clients, reports them. It reports at most
// one refused operation a second.
//
// SPDX-License-Identifier: Apache-2.0
#include "server/told.h"

#include <stdio.h>

#include "server/rows/tables.h"
#include "server/shard_internal.h"

// Returns whether this shard is the living server loop with the smallest id. Only this
// loop reports to the scheduler.
static bool is_teller(const struct shard *s)
{
    const struct roster *r = member_roster(s->member);
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (r->nodes[i].role == WIRE_SERVER && r->nodes[i].alive &&
            r->nodes[i].id < least)
            least = r->nodes[i].id;
    return least == member_id(s->member);
}

static const char *table_name(struct shard *s, uint32_t table)
{
    const struct shard_table *t = tables_find(s, table, NULL);
    return t != NULL ? t->spec.config.name : "?";
}

// Returns the name of an operation for the log. WIRE_COPY, WIRE_MEAN and WIRE_CLOCK are
// part of training, and have no name here.
static const char *operation_name(uint8_t what)
{
    switch (what) {
    case WIRE_CLEAR:
        return "clear";
    case WIRE_DROP:
        return "drop";
    case WIRE_SHRINK:
        return "shrink";
    case WIRE_DAY:
        return "day";
    default:
        return NULL;
    }
}

// Gets the kind of an admin operation, and its description for the log. Returns false if
// the message is not such an operation.
static bool in_words(struct shard *s, uint16_t type, const union wire_any *m,
                     enum wire_operation *ret_kind, char to[ERR_TEXT_MAX])
{
    char path[ERR_TEXT_MAX / 2];
    const char *name;
    *ret_kind = WIRE_OPERATION_OTHER;
    switch (type) {
    case MSG_TABLE_DO:
        name = operation_name(m->table_do.what);
        if (name != NULL)
            snprintf(to, ERR_TEXT_MAX, "%s table '%s'", name,
                     table_name(s, m->table_do.table));
        return name != NULL;
    case MSG_SAVE:
        *ret_kind = WIRE_OPERATION_SAVE;
        snprintf(to, ERR_TEXT_MAX, "save to '%s'",
                 wire_words(m->save.path, path, sizeof(path)));
        return true;
    case MSG_LOAD:
        snprintf(to, ERR_TEXT_MAX, "load table '%s' from '%s'",
                 table_name(s, m->load.table),
                 wire_words(m->load.path, path, sizeof(path)));
        return true;
    case MSG_PROFILE:
        if (m->profile.what > WIRE_PROFILE_STOP)
            return false;
        *ret_kind = WIRE_OPERATION_PROFILE;
        snprintf(to, ERR_TEXT_MAX, "%s profiling",
                 m->profile.what == WIRE_PROFILE_START ? "start" : "stop");
        return true;
    default:
        return false;
    }
}

static void told_tell(struct shard *s, const struct shard_peer *p,
                      enum wire_operation kind, const char *what)
{
    struct msg_operation told = {
        .node = p->node,
        .role = (uint8_t)p->role,
        .kind = (uint8_t)kind,
        .from = wire_text(van_peer(s->van, p->link)),
        .what = wire_text(what),
    };
    member_tell(s->member, MSG_OPERATION, &told);
}

void told_done(struct shard *s, const struct shard_request *q)
{
    char what[ERR_TEXT_MAX];
    enum wire_operation kind;
    if (in_words(s, q->type, q->m, &kind, what) && is_teller(s))
        told_tell(s, q->peer, kind, what);
}

void told_refused(struct shard *s, const struct shard_request *q, const struct err *why)
{
    char what[ERR_TEXT_MAX], line[ERR_TEXT_MAX];
    enum wire_operation kind;
    struct err e;
    if (!in_words(s, q->type, q->m, &kind, what) || !is_teller(s))
        return;
    err_set(&e, why->code, "%.*s: %s", ERR_TEXT_MAX / 2, what, why->text);
    if (refusals_note(&s->refused_operations, &e, s->now, line))
        told_tell(s, q->peer, kind, line);
}
