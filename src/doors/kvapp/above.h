// Functions of a node that kvstore may call besides those of tug/kvapp.h. The node itself
// (node.h) is used in this folder only, by the thread that has its van; these functions
// enter the pump themselves.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_KVAPP_ABOVE_H
#define TUG_DOORS_KVAPP_ABOVE_H

#include "cluster/roster.h"
#include "tug/kvapp.h"

// Like tug_kv_send, but the values may be any words of 4 bytes: it does not check that
// they are finite floats.
int kv_send_words(struct tug_app *a, const struct tug_kv_request *q,
                  uint32_t *ret_timestamp);

// Like tug_app_wait, but waits at most `seconds`. After that it returns TUG_EIO, and
// kv_is_under_way returns true for the request.
int kv_wait_for(struct tug_app *a, uint32_t timestamp, double seconds);
// Returns the time limit of each wait of the node, in seconds.
double kv_wait_seconds(const struct tug_node *n);

// Returns whether a request still waits for an answer.
bool kv_is_under_way(struct tug_app *a, uint32_t timestamp);
// Gives up the customer's unanswered requests, and breaks the links whose queued messages
// use the memory of these requests.
void kv_give_up(struct tug_app *a);

// Ends the cluster with this error, which the other nodes get. This node leaves the
// cluster at once.
void kv_break_off(struct tug_node *n, const struct err *why);
// Returns whether the cluster has ended, or this node has left or was given up.
bool kv_is_over(struct tug_node *n);
// Returns whether the cluster has ended without an error, because all workers finished. A
// node whose link to the scheduler broke shortly before may learn this before it learns
// that its last barrier was reached.
bool kv_has_ended_well(struct tug_node *n);

// The facts that a store above a server adds to the server's status. `put`, which adds
// members to the object "door", is called by the thread that has the van.
struct json_out;
struct kv_above {
    const char *name; // the member `name` of "door"; NULL: "kvapp"
    void (*put)(void *ctx, struct json_out *o);
    void *ctx;
};
void kv_facts_of(struct tug_node *n, const struct kv_above *above);

// Returns the rank of the worker with node id `id`; UINT32_MAX if there is no living
// worker with this id.
uint32_t kv_worker_rank(struct tug_node *n, uint32_t id);

// Returns how many ranks of the groups have no process: it has died, or left without
// waiting for the other processes, and was not replaced. Copies the name of the first such
// process to ret_name (may be NULL).
uint32_t kv_lost(struct tug_node *n, uint32_t groups, char ret_name[ROSTER_NAME_MAX]);

#endif
