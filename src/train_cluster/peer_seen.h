// Adds up the counts of all peers in a pass, so that each training program gets the totals
// of the run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_PEER_SEEN_H
#define TUG_TRAIN_CLUSTER_PEER_SEEN_H

#include "model/metrics.h"
#include "train/run.h"

struct peer_seen {
    uint32_t labels;
    struct metrics_stream *stream; // for each label: sums over examples
    uint64_t examples, bad_lines;
};

// Adds up the counts of all workers into `all`. All workers call it after peer_agree.
// `read_all`: every worker has counted all examples and bad lines (mode sync). Returns
// TUG_EIO if a worker dies or leaves during the call, so that its counts are missing.
int peer_seen_add(struct run *r, const struct peer_seen *own, bool read_all,
                  struct peer_seen *all, struct err *e);

#endif
