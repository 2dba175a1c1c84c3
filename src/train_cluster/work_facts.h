// The facts that a worker shows on its page while it works: docs/cluster.md describes the
// fields ("The facts of a node"). Each lane, a thread of the worker's process, writes its
// own numbers, once a batch; any thread prints their sums.
//
// All functions do nothing if the lane is NULL, which means that the worker has no page.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_WORK_FACTS_H
#define TUG_TRAIN_CLUSTER_WORK_FACTS_H

#include <stdint.h>

#include "base/err.h"
#include "base/json_out.h"

struct work_facts;
struct work_lane;

int work_facts_open(struct work_facts **ret, uint32_t lanes, struct err *e);
void work_facts_close(struct work_facts *f);                         // NULL is fine
struct work_lane *work_facts_lane(struct work_facts *f, uint32_t i); // NULL if f is NULL

// Writes the members "joined", "rank" and so on into an open object. Before the worker
// has joined, its rank is `asked`; -1: it has not asked for one.
void work_facts_put(struct work_facts *f, int64_t asked, struct json_out *to);

void work_joined(struct work_lane *l, uint32_t rank);
// Adds the seconds for which the lane has just read data.
void work_read(struct work_lane *l, double seconds);

// Counters of the lane's client and clocks. The times never decrease.
struct work_now {
    uint64_t time_ns;
    uint64_t waited_ns; // time of all waits of the client so far
    uint64_t pulled_ns; // time of its waits for rows
    uint64_t resent, refused, sent_bytes, received_bytes;
};
// The lane begins a piece of the data, or its share of a pass. The time since the last
// call does not count as time of a batch. `file` is UINT32_MAX for a share.
void work_begin(struct work_lane *l, const struct work_now *now, uint64_t pass,
                uint32_t file, uint64_t index);
void work_batch(struct work_lane *l, const struct work_now *now, uint64_t examples);
// The piece or share is done, and all of its pushes are acknowledged.
void work_end(struct work_lane *l, const struct work_now *now);

#endif
