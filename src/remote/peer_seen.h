// Adds up the counts of all peers in a pass: each adds its own on the servers before all
// meet, and reads the sums afterwards. So each program that trains learns the totals of
// the run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_REMOTE_PEER_SEEN_H
#define TUG_REMOTE_PEER_SEEN_H

#include "model/metrics.h"
#include "train/run.h"

struct client;

struct peer_seen {
    uint64_t pass; // of all that these workers do
    uint32_t labels;
    struct metrics_stream *stream; // of each label
    uint64_t examples, bad_lines;
    bool all_read_all; // sync: every worker counts all examples and bad lines
};

// Makes the table, before all meet; the first worker also clears what a call that failed left of
// that pass.
int peer_seen_begin(struct client *c, uint64_t pass, uint32_t labels, struct err *e);
// Clears what the pass before left: by the first worker, once all have begun this one.
int peer_seen_clear(struct client *c, uint64_t pass, uint32_t labels, struct err *e);
// Adds what this worker saw. Before all meet.
int peer_seen_add(struct client *c, const struct peer_seen *own, struct err *e);
// Overwrites streams and counts with those of all workers, once all have met and before they meet
// again.
int peer_seen_read(struct client *c, struct peer_seen *ret, struct err *e);

#endif
