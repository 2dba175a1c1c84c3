// The interface of a node for kvstore, besides tug/kvapp.h. A node's inside (node.h)
// stays in this part: the van belongs to the thread that has entered the pump, and all of
// these functions enter it themselves.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_KVAPP_ABOVE_H
#define TUG_KVAPP_ABOVE_H

#include "cluster/roster.h"
#include "tug/kvapp.h"

// tug_kv_send of words that need not be floats: they are not looked at.
int kv_send_words(struct tug_app *a, const struct tug_kv_request *q,
                  uint32_t *ret_timestamp);

// Whether the request waits for an answer yet.
bool kv_is_under_way(struct tug_app *a, uint32_t timestamp);
// Requests that have no answer end: links that hold their memory break.
void kv_give_up(struct tug_app *a);

bool kv_is_over(struct tug_node *n); // the cluster has ended, or this node's part in it
// The cluster has ended, and all was well: the last worker left when it had finished. A
// node whose link broke just then is told of the end before the barrier.
bool kv_has_ended_well(struct tug_node *n);

// The rank of a worker that lives; UINT32_MAX: the node is none, or not any more.
uint32_t kv_worker_rank(struct tug_node *n, uint32_t id);

// Returns how many ranks of the groups are empty: their processes have died, or left
// without waiting for the others, and have no successors. The first one's name; ret_name
// may be NULL.
uint32_t kv_lost(struct tug_node *n, uint32_t groups, char ret_name[ROSTER_NAME_MAX]);

#endif
