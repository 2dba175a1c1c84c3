// Functions of a node that kvstore may call besides those of tug/kvapp.h. The node itself
// (node.h) is used in this folder only, by the thread that has its van; these functions
// enter the pump themselves.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_DOORS_KVAPP_ABOVE_H
#define TUG_DOORS_KVAPP_ABOVE_H

#include "cluster/roster.h"
#include "tug/kvapp.h"

// Sends as tug_kv_send, but the values may be any words of 4 bytes: they are not checked
// as floats.
int kv_send_words(struct tug_app *a, const struct tug_kv_request *q,
                  uint32_t *ret_timestamp);

// Waits for a request as tug_app_wait does, for at most this many seconds. Returns
// TUG_EIO also when the time limit has passed; kv_is_under_way then returns true.
int kv_wait_for(struct tug_app *a, uint32_t timestamp, double seconds);
// Returns the time limit of each wait of the node, in seconds.
double kv_wait_seconds(const struct tug_node *n);

// Returns whether a request still waits for an answer.
bool kv_is_under_way(struct tug_app *a, uint32_t timestamp);
// Gives up the unanswered requests of the customer. Breaks the links that still hold the
// memory of these requests.
void kv_give_up(struct tug_app *a);

// Ends the cluster with this error, which is sent to the other nodes, and leaves it at
// once.
void kv_break_off(struct tug_node *n, const struct err *why);
// Returns whether the cluster has ended, or this node has left or was given up.
bool kv_is_over(struct tug_node *n);
// Returns whether the cluster has ended without an error: the last worker left when it
// had finished. A node whose link to the scheduler broke shortly before may learn of the
// end before it learns that its last barrier was reached.
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

// Returns the rank of a living worker by its node id; UINT32_MAX if the node is not a
// living worker.
uint32_t kv_worker_rank(struct tug_node *n, uint32_t id);

// Returns how many ranks of the groups are empty: their processes have died, or left
// without waiting for the others, and were not replaced. ret_name (may be NULL) becomes
// the name of the first such process.
uint32_t kv_lost(struct tug_node *n, uint32_t groups, char ret_name[ROSTER_NAME_MAX]);

#endif
