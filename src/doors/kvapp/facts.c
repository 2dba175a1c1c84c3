// The facts of a server's programs, for its status (docs/cluster.md, "The facts of a
// node"): how many requests other nodes have sent, and what the store above adds.
//
// SPDX-License-Identifier: Apache-2.0
#include "base/json_out.h"
#include "doors/kvapp/above.h"
#include "doors/kvapp/node.h"

void kv_facts_count(struct tug_node *n, const struct msg_app *m)
{
    struct kv_counts *c = &n->counts;
    if (m->app == KV_BARRIERS)
        return;
    c->pushes += (m->flags & WIRE_APP_PUSH) != 0;
    c->pulls += (m->flags & WIRE_APP_PULL) != 0;
    c->simple += (m->flags & (WIRE_APP_PUSH | WIRE_APP_PULL)) == 0;
    c->keys += m->keys.n / sizeof(uint64_t);
    c->bytes += m->body.n + m->keys.n + m->values.n + m->lengths.n;
}

void kv_facts_put(void *node, struct json_out *o)
{
    struct tug_node *n = node;
    json_out_text(o, "name", n->above.name != NULL ? n->above.name : "kvapp");
    json_out_u64(o, "pushes", n->counts.pushes);
    json_out_u64(o, "pulls", n->counts.pulls);
    json_out_u64(o, "simple", n->counts.simple);
    json_out_u64(o, "keys", n->counts.keys);
    json_out_u64(o, "bytes", n->counts.bytes);
    json_out_u64(o, "waiting", n->cap_received - n->n_free_received);
    json_out_u64(o, "refused", n->counts.refused);
    if (n->above.put != NULL)
        n->above.put(n->above.ctx, o);
}

void kv_facts_of(struct tug_node *n, const struct kv_above *above)
{
    pump_enter(n->pump);
    n->above = *above;
    pump_leave(n->pump);
}
