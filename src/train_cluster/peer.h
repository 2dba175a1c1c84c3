// Workers without a driver: programs that join a cluster and train on it (tug/train.h).
// Each does its part of a pass on its own, and they wait for each other at the begin
// and end of each pass.
//
// If all workers were given the same files, worker i of n takes every n-th piece of them,
// from piece i on; a worker with files of its own takes all their pieces. In sync mode
// each worker computes its share of every batch, and all workers must see the same files.
// The first worker makes the saves; the servers have the rows. If a worker dies during a
// pass, the pass lacks examples, and fails in all other workers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_TRAIN_CLUSTER_PEER_H
#define TUG_TRAIN_CLUSTER_PEER_H

#include <stdbool.h>
#include <stdint.h>

struct van;
struct client;
struct course;

// The course of a run in which this process is one of several workers without a driver.
extern const struct course course_peer;

// This process's membership in the cluster. The caller owns it, and it lasts longer than
// a run.
struct train_peer {
    struct van *van;
    struct client *client; // the client, which has joined as a worker
    bool own_files;  // --data are this worker's own files; otherwise all workers were
                     // given the same files
    bool begun;      // an earlier run has left its rows on the servers
    uint32_t passes; // passes that these workers have done in earlier calls
    uint32_t call;   // number of this call of training, from 1, in this membership
    double patience; // seconds after which a wait for other workers is reported
};

#endif
