// Answers without rows: acknowledgements and refusals, and the names of peers in them.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "server/rows/tables.h"
#include "server/shard_internal.h"
#include "server/told.h"

const char *shard_session_name(const struct shard *s, uint64_t session,
                               char to[ROSTER_NAME_MAX])
{
    const struct roster *r = member_roster(s->member);
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (r->nodes[i].session == session)
            return roster_name(&r->nodes[i], to);
    snprintf(to, ROSTER_NAME_MAX, "session %llu", (unsigned long long)session);
    return to;
}

const char *shard_peer_name(const struct shard *s, const struct shard_peer *p,
                            char to[ROSTER_NAME_MAX])
{
    return roster_name_of(member_roster(s->member), p->node, to);
}

void shard_ok(struct shard *s, const struct shard_request *q, uint64_t value)
{
    struct msg_ok m = {.value = value};
    if (!q->silent)
        shard_send(s, q, MSG_OK, &m, NULL, 0);
}

void shard_refuse(struct shard *s, const struct shard_request *q, const struct err *e)
{
    struct msg_error m = wire_error(e);
    assert(e->code != 0); // the sender would not take code 0 for an answer, and would
                          // wait for ever
    told_refused(s, q, e);
    if (!q->silent)
        shard_send(s, q, MSG_ERROR, &m, NULL, 0);
}

enum outcome shard_refuse_keys(struct shard *s, const struct shard_request *q,
                               const char *what, const struct shard_table *t,
                               struct err *e)
{
    char name[ROSTER_NAME_MAX];
    if (e->reason == REASON_DISK && s->chain != NULL && leave_led(s, e))
        return WANTS_MEMBER;
    err_wrap(e, "%s of table '%s' by %s", what, t->spec.config.name,
             shard_peer_name(s, q->peer, name));
    shard_refuse(s, q, e);
    return ANSWERED;
}
