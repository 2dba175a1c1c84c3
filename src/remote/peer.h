// Workers without a driver: programs that join a cluster and train on it (tug/train.h).
// Each does its part of a pass on its own, and all wait for each other where a pass
// begins and ends.
//
// Where all were given the same files each takes every so-manieth piece of them, by its rank;
// files of its own it takes as a whole. In sync mode each computes its share of every batch, of
// files that all of them see. The first worker has the saves; the rows are the servers'. A pass
// in which one of them died lacks examples, and fails in all others.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef TUG_REMOTE_PEER_H
#define TUG_REMOTE_PEER_H

#include <stdbool.h>
#include <stdint.h>

struct van;
struct client;
struct course;

// The passes of a run are done by this process, as one of such workers.
extern const struct course course_peer;

// This process's stay in the cluster, which is the caller's and lasts longer than a run.
struct train_peer {
    struct van *van;
    struct client *client; // ready, a worker's
    bool own_files;        // of --data; else all workers were given the same
    bool begun;            // a run before has left its rows on the servers
    uint32_t passes;       // that these workers have done before
    uint32_t call;         // from 1: of training, in this stay
    double patience;       // seconds of a wait for others before it is reported
};

#endif
