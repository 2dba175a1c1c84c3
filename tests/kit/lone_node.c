// See lone_node.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "kit/lone_node.h"

#include "base/alloc.h"

// The node, made in the same way as by start.c.

static void app_message(void *ctx, van_link link, uint32_t from, struct van_message *m)
{
    kv_received_app(ctx, link, from, m);
}

void lone_node_open(struct lone_node *l)
{
    struct tug_node *n = &l->n;
    struct peers *w = &l->w;
    char address[VAN_ADDRESS_MAX];
    struct err e;
    w->d.bits = LONE_BITS;
    require(van_listen(w->peers[LONE_SCHEDULER].van, "sim://scheduler", address, NULL) ==
            0);
    sim_van_role(
        w->peers[LONE_FIRST].van,
        WIRE_WORKER); // the van of any peer but these three keeps the default, WIRE_OPERATOR
    sim_van_role(w->peers[LONE_TOOL].van, WIRE_TOOL);
    sim_van_role(w->peers[LONE_STRANGER].van, WIRE_TOOL);
    *n = (struct tug_node){.role = WIRE_SERVER,
                           .pump = lone_pump_begin(),
                           .o = {.role = TUG_GROUP_SERVERS,
                                 .servers = 1,
                                 .workers = LONE_WORKERS,
                                 .wait_seconds = 60}};
    budget_open(&n->process.budget, LONE_BYTES);
    struct shard_options o = {.member = {.cluster = 77,
                                         .scheduler = "sim://scheduler",
                                         .role = WIRE_SERVER,
                                         .loops = 1,
                                         .host = "here",
                                         .address = "sim://shard",
                                         .scheduler_timeout_ns = 1000 * SECOND_NS},
                              .max_bytes = LONE_BYTES,
                              .slice_ns = MILLIS,
                              .app = app_message,
                              .app_ctx = n,
                              .without_threads = true};
    require(kv_kept_init(n, &e) == 0 && kv_barriers_open(n, &e) == 0);
    require(shard_open(&n->shard, &o, &e) == 0);
    n->beneath = shard_handler(n->shard);
    n->member = shard_member(n->shard);
    struct van_handler h = kv_node_handler(n);
    require(sim_van_open(&n->van, w->sim, "shard", &h, NULL) == 0);
    require(van_listen(n->van, "sim://shard", address, NULL) == 0);
    n->side = kv_peers_side(n);
    shard_serve(n->shard, n->van, sim_now(w->sim));
}

void lone_node_close(struct lone_node *l)
{
    struct tug_node *n = &l->n;
    while (n->apps != NULL)
        (void)tug_app_close(n->apps);
    kv_numbers_forget(n, true);
    kv_received_free(n);
    require(budget_used(&n->process.budget, BUDGET_PENDING) == 0);
    require(budget_used(&n->process.budget, BUDGET_CLOCKS) == 0);
    shard_close(n->shard);
    van_free(n->van);
    mem_free(n->barriers->open);
    mem_free(n->barriers);
    kv_requests_free(n);
    kv_peers_free(n);
    mem_free(n->servers);
    mem_free(n->last_keys);
}

// ---------------------------------------------------------------- the node's cluster

void lone_node_roster(struct lone_node *l, bool first_lives, bool second_lives)
{
    struct peers *w = &l->w;
    struct buf nodes = BUF_INIT(WIRE_BYTES_MAX);
    uint32_t owners[WIRE_SPACES << LONE_BITS];
    peers_put_node(&nodes, 1, WIRE_SCHEDULER, 0, 1, true);
    peers_put_node(&nodes, LONE_ME, WIRE_SERVER, 0, 100, true);
    peers_put_node(&nodes, LONE_WORKER, WIRE_WORKER, 0, 101, first_lives);
    peers_put_node(&nodes, LONE_WORKER + 2, WIRE_WORKER, 1, 103, second_lives);
    peers_put_node(&nodes, LONE_WORKER + 4, WIRE_WORKER, 2, 104, false);
    if (l->newcomer)
        peers_put_node(&nodes, LONE_NEW, WIRE_WORKER, 2, 105, true);
    for (uint32_t i = 0; i < WIRE_SPACES << LONE_BITS; i++)
        owners[i] = LONE_ME;
    struct msg_roster m = {.epoch = 1,
                           .version = ++w->d.version,
                           .partition_bits = LONE_BITS,
                           .replicas = 1,
                           .servers = 1,
                           .workers = LONE_WORKERS,
                           .nodes = {nodes.data, (uint32_t)nodes.len},
                           .owners = {owners, sizeof(owners)}};
    peer_send(&w->peers[LONE_SCHEDULER], MSG_ROSTER, 0, &m);
    buf_free(&nodes);
    peers_run(w, MILLIS);
}

void lone_node_greet(struct lone_node *l, int peer, uint32_t node, uint64_t session)
{
    peer_greet(&l->w.peers[peer], "sim://shard", node, session);
}

void lone_node_join(struct lone_node *l)
{
    peers_let_in(&l->w, LONE_SCHEDULER, LONE_ME, 100);
    lone_node_roster(l, true, true);
    l->w.d.epoch = 1;
    lone_node_greet(l, LONE_FIRST, LONE_WORKER, 101);
    lone_node_greet(l, LONE_SECOND, LONE_WORKER + 2, 103);
    lone_node_greet(l, LONE_DEAD, LONE_WORKER + 4, 104);
    lone_node_greet(l, LONE_TOOL, 0, 0);
    peer_connect(&l->w.peers[LONE_STRANGER], "sim://shard");
}
