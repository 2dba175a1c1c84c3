// The functions of a node that kvstore uses besides tug/kvapp.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "doors/kvapp/above.h"

#include "doors/kvapp/node.h"

int kv_wait_for(struct tug_app *a, uint32_t timestamp, double seconds)
{
    return kv_app_wait(a, timestamp, seconds);
}

double kv_wait_seconds(const struct tug_node *n)
{
    return n->o.wait_seconds;
}

bool kv_is_under_way(struct tug_app *a, uint32_t timestamp)
{
    pump_enter(a->node->pump);
    bool under_way = kv_request_find(a, timestamp) != NULL;
    pump_leave(a->node->pump);
    return under_way;
}

void kv_give_up(struct tug_app *a)
{
    pump_enter(a->node->pump);
    kv_requests_give_up(a);
    pump_leave(a->node->pump);
}

bool kv_is_over(struct tug_node *n)
{
    pump_enter(n->pump);
    bool over = n->over;
    pump_leave(n->pump);
    return over;
}

bool kv_has_ended_well(struct tug_node *n)
{
    struct err why;
    pump_enter(n->pump);
    bool well = member_ended(n->member, &why) && why.code == 0;
    pump_leave(n->pump);
    return well;
}

uint32_t kv_worker_rank(struct tug_node *n, uint32_t id)
{
    pump_enter(n->pump);
    const struct roster_node *r = roster_find(member_roster(n->member), id);
    bool works = r != NULL && r->role == WIRE_WORKER && r->alive;
    uint32_t rank = works ? r->rank : UINT32_MAX;
    pump_leave(n->pump);
    return rank;
}

static bool replaced(const struct roster *r, const struct roster_node *dead)
{
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (r->nodes[i].alive && r->nodes[i].role == dead->role &&
            r->nodes[i].rank == dead->rank)
            return true;
    return false;
}

// Returns whether node `at` is not the first dead node of its role and rank in the roster:
// a rank counts once, however many of its processes have died.
static bool counted_before(const struct roster *r, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (!r->nodes[i].alive && r->nodes[i].role == r->nodes[at].role &&
            r->nodes[i].rank == r->nodes[at].rank)
            return true;
    return false;
}

static bool is_lost(const struct roster *r, uint32_t i, uint32_t groups)
{
    const struct roster_node *n = &r->nodes[i];
    return !n->alive && kv_node_is_in(r, n, groups) && !replaced(r, n) &&
           !counted_before(r, i);
}

uint32_t kv_lost(struct tug_node *n, uint32_t groups, char ret_name[ROSTER_NAME_MAX])
{
    uint32_t lost = 0;
    pump_enter(n->pump);
    const struct roster *r = member_roster(n->member);
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        if (!is_lost(r, i, groups))
            continue;
        if (lost++ == 0 && ret_name != NULL)
            (void)roster_name(&r->nodes[i], ret_name);
    }
    pump_leave(n->pump);
    return lost;
}
