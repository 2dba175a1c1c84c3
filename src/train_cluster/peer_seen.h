// Adds up the counts of all peers in a pass: each peer adds its own counts on the servers
// before they meet at a barrier, and reads the sums afterwards. So each program that
// trains learns the totals of the run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_PEER_SEEN_H
#define TUG_TRAIN_CLUSTER_PEER_SEEN_H

#include "model/metrics.h"
#include "train/run.h"

struct client;

struct peer_seen {
    uint64_t pass; // number of the pass among all that these workers do
    uint32_t labels;
    struct metrics_stream *stream; // for each label: sums over examples
    uint64_t examples, bad_lines;
    bool all_read_all; // sync: every worker counts all examples and bad lines
};

// Makes the table, before all meet. The first worker also clears what a failed call has
// left of this pass.
int peer_seen_begin(struct client *c, uint64_t pass, uint32_t labels, struct err *e);
// Clears the counts of the previous pass. The first worker calls it, after all have begun
// this pass.
int peer_seen_clear(struct client *c, uint64_t pass, uint32_t labels, struct err *e);
// Adds the counts of this worker, before all meet.
int peer_seen_add(struct client *c, const struct peer_seen *own, struct err *e);
// Replaces streams and counts by those of all workers, after they have met and before
// they meet again.
int peer_seen_read(struct client *c, struct peer_seen *ret, struct err *e);

#endif
